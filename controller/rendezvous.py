# SPDX-License-Identifier: Apache-2.0
"""The rendezvous: threads and deadlines around `meeting`; installs through `deploy`.

Two locks, taken in this order and never the other way: `_switches` while switches are written,
`_changed` while meetings change.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from controller.admission import check_identity, check_operator
from controller.deploy import Deployer, Installed
from controller.errors import ControllerError, RefusedError
from controller.job import Job
from controller.meeting import Meeting, Roster, Stage
from controller.upkeep import Upkeep
from host_agent.messages import (
    Join,
    Leave,
    Left,
    Message,
    Notice,
    Replace,
    Replaced,
    Report,
    Reported,
    Ticket,
    Watch,
)

JOIN_TIMEOUT_S: Final = 60.0
POLL_S: Final = 0.5  # how soon a call whose client is gone is noticed, if gRPC does not say so
log: Final = logging.getLogger(__name__)

Alive = Callable[[], bool]  # whether the client of a call is still there
EVENTS: Final = ("joined", "refused", "installed", "left", "lost", "removed")


@dataclass(frozen=True, slots=True)
class Standing:
    """A job as it stands: `generation` 0 while it does not run, `joined` to the next one."""

    job: Job
    generation: int
    gone: int
    joined: int
    events: Mapping[str, int]  # so far, by EVENTS


class Rendezvous:
    """The jobs a controller serves. Thread-safe; one call blocks one thread."""

    def __init__(
        self, jobs: Mapping[str, Job], deployer: Deployer, *, timeout_s: float = JOIN_TIMEOUT_S
    ) -> None:
        self._rosters: Final = {name: Roster(job, timeout_s) for name, job in jobs.items()}
        self._deployer: Final = deployer
        self._upkeep: Final = {name: Upkeep(job, deployer) for name, job in jobs.items()}
        self._switches: Final = threading.Lock()
        self._changed: Final = threading.Condition()
        self._stopped: Final = threading.Event()
        self._events: Final[Counter[tuple[str, str]]] = Counter()  # by job and name
        threading.Thread(target=self._tend, name="rendezvous-tend", daemon=True).start()

    def join(self, join: Join, alive: Alive) -> Ticket:
        """Wait for all ranks and the switches; raises RefusedError."""
        roster = self._roster(join.job)
        with self._changed:
            running = roster.current
            try:
                meeting = roster.join(join, time.monotonic())
                self._note("joined", join.job, rank=join.rank, host=join.host)
            except RefusedError as error:
                self._note("refused", join.job, rank=join.rank, reason=str(error))
                raise
            finally:
                self._changed.notify_all()
            last = meeting.stage is Stage.INSTALLING
        if running is not None:
            self._clear_unheard(roster, running)  # installing the job clears what is left of it
        if last:
            self._install(roster, meeting)
        return self._await_ticket(roster, meeting, join.rank, alive)

    def watch(self, watch: Watch, alive: Alive) -> Notice:
        """Wait for a change in who is gone; the client's end of the call is the rank's end."""
        roster = self._roster(watch.job)
        meeting = self._find(roster, watch.generation)
        if meeting is None:
            return Notice(gone=(), ended=_not_installed(watch.job, watch.generation))
        with self._changed:
            meeting.check_rank(watch.rank)
            if meeting.stage is Stage.RUNNING:
                meeting.watch(watch.rank, watch.gone)
                self._changed.notify_all()
            while _is_quiet(roster, meeting, watch) and alive():
                self._changed.wait(POLL_S)
            meeting.answered(watch.rank, time.monotonic())
            if not alive():
                if watch.rank not in meeting.left:
                    self._note("lost", watch.job, rank=watch.rank, generation=watch.generation)
                meeting.lose(watch.rank)
                self._changed.notify_all()
            return roster.notice(meeting)

    def leave(self, leave: Leave, alive: Alive) -> Left:
        """Note that a rank has left; after the last one the switches are cleared."""
        roster = self._roster(leave.job)
        meeting = self._find(roster, leave.generation)
        if meeting is not None:
            with self._changed:
                meeting.check_rank(leave.rank)
                meeting.leave(leave.rank)
                self._note("left", leave.job, rank=leave.rank, generation=leave.generation)
                self._changed.notify_all()
            self._clear(roster, meeting)
        return Left()

    def report(self, report: Report, alive: Alive) -> Reported:
        """Take it in that a rank finds others silent; raises RefusedError."""
        roster = self._roster(report.job)
        meeting = self._find(roster, report.generation)
        if meeting is None:
            raise RefusedError(_not_installed(report.job, report.generation))
        with self._changed:
            meeting.check_rank(report.rank)
            meeting.report(report.rank, report.lost)
            self._changed.notify_all()
        return Reported()

    def replace(self, replace: Replace, alive: Alive) -> Replaced:
        """Take a rank out of a running job, for another to join as it; raises RefusedError."""
        roster = self._roster(replace.job)
        with self._changed:
            meeting = roster.current
            if meeting is None or not _runs(roster):
                raise RefusedError(
                    f"job {replace.job} does not run: its ranks can join as they are"
                )
            meeting.check_rank(replace.rank)
            meeting.expel([replace.rank])
            self._changed.notify_all()
            return Replaced(meeting.generation)

    def check_identity(self, message: Message, client: str) -> None:
        """Raise RefusedError where a caller is not the rank it says; `client`: its certificate."""
        assert isinstance(message, Join | Watch | Leave | Report | Replace)
        roster = self._roster(message.job)
        try:
            if isinstance(message, Replace):
                check_operator(roster.job, client)
            else:
                check_identity(roster.job, message.rank, client)
        except RefusedError as error:
            with self._changed:
                self._note("refused", message.job, rank=message.rank, reason=str(error))
            raise

    def wake(self) -> None:
        """Let every waiting call look again."""
        with self._changed:
            self._changed.notify_all()

    def stop(self) -> None:
        """End all meetings and take their jobs off the switches; raises the first error."""
        self._stopped.set()
        with self._switches:
            with self._changed:
                running = [r for r in self._rosters.values() if _runs(r)]
                for roster in self._rosters.values():
                    for meeting in roster.meetings():
                        meeting.end(f"job {roster.job.name}: the controller stopped")
                self._changed.notify_all()
            try:
                for roster in running:
                    self._deployer.remove(roster.job)
            finally:
                for upkeep in self._upkeep.values():
                    upkeep.release()

    def _roster(self, name: str) -> Roster:
        if name not in self._rosters:
            served = ", ".join(self._rosters)
            raise RefusedError(f"unknown job {name}; this controller serves {served}")
        return self._rosters[name]

    def _install(self, roster: Roster, meeting: Meeting) -> None:
        with self._switches:
            problem = ""
            try:
                installed = self._installed(meeting)
            except Exception as error:  # whatever it is, the other ranks must not wait for ever
                problem = str(error)
                if not isinstance(error, ControllerError):
                    log.exception("installing job %s", meeting.job.name)
            with self._changed:
                if problem:
                    if not _runs(roster):
                        self._upkeep[roster.job.name].release()
                    meeting.end(f"job {meeting.job.name} could not be installed: {problem}")
                elif meeting.stage is Stage.INSTALLING:
                    roster.started(meeting, installed, time.monotonic())
                    self._note("installed", meeting.job.name, generation=meeting.generation)
                self._changed.notify_all()

    def _installed(self, meeting: Meeting) -> Installed:
        upkeep = self._upkeep[meeting.job.name]
        upkeep.claim()
        job = meeting.job.with_endpoints(meeting.endpoints())
        installed = self._deployer.install(job, renew=True)
        upkeep.note()
        return installed

    def _await_ticket(self, roster: Roster, meeting: Meeting, rank: int, alive: Alive) -> Ticket:
        with self._changed:
            while meeting.stage in (Stage.GATHERING, Stage.INSTALLING) and alive():
                self._changed.wait(meeting.patience(time.monotonic(), POLL_S))
                meeting.expire(time.monotonic())
            self._changed.notify_all()
            if not alive():
                meeting.lose(rank)
            elif meeting.stage is Stage.RUNNING:
                return meeting.ticket(rank)
        self._clear(roster, meeting)
        raise RefusedError(meeting.ended or f"job {meeting.job.name}: rank {rank} is gone")

    def _find(self, roster: Roster, generation: int) -> Meeting | None:
        """Return the running meeting of a generation; the switches know it after a restart."""
        with self._changed:
            if _runs(roster):
                return _of_generation(roster, generation)
        with self._switches:
            found = self._deployer.find(roster.job)
            held = {job.generation for job in found.values()}
            if len(found) == len(roster.job.switches) and held == {generation}:
                self._adopt(roster, generation)
            with self._changed:
                return _of_generation(roster, generation)

    def _adopt(self, roster: Roster, generation: int) -> None:
        """Serve a job that an earlier controller put on the switches; raises ControllerError."""
        upkeep = self._upkeep[roster.job.name]
        upkeep.claim()
        upkeep.note()
        with self._changed:
            if not _runs(roster):
                roster.adopt(generation, time.monotonic())

    def _tend(self) -> None:
        """Give restarted switches what they had; clear the jobs that no rank has come back to."""
        while not self._stopped.wait(POLL_S):
            for roster in self._rosters.values():
                with self._changed:
                    meeting = roster.current
                    abandoned = meeting is not None and self._tended(roster, meeting)
                    self._changed.notify_all()
                if meeting is not None and abandoned:
                    self._clear_unheard(roster, meeting)
                elif meeting is not None:
                    self._restore(roster, meeting)

    def _restore(self, roster: Roster, meeting: Meeting) -> None:
        with self._switches:
            try:
                restored = self._upkeep[roster.job.name].restore()
            except ControllerError as error:
                log.warning("job %s: %s", roster.job.name, error)
                with self._changed:
                    meeting.end(f"job {roster.job.name}: {error}")
                    self._changed.notify_all()
                return
            if restored:
                log.warning("job %s: given again to %s", roster.job.name, ", ".join(restored))

    def _tended(self, roster: Roster, meeting: Meeting) -> bool:
        gone = set(meeting.gone)
        abandoned = meeting.tend(time.monotonic())
        for rank in meeting.gone - gone:
            self._note("lost", roster.job.name, rank=rank, generation=meeting.generation)
        return abandoned

    def _clear_unheard(self, roster: Roster, meeting: Meeting) -> None:
        try:
            self._clear(roster, meeting)
        except ControllerError as error:  # no rank that is left could do anything about it
            log.warning("%s", error)

    def _clear(self, roster: Roster, meeting: Meeting) -> None:
        """Take a job off its switches once every rank is gone."""
        if not meeting.is_deserted():
            return
        with self._switches:
            with self._changed:
                if not meeting.is_deserted():
                    return
                meeting.end(f"job {meeting.job.name}: all ranks have left")
                self._changed.notify_all()
                if roster.current is not meeting:
                    return
                roster.current = None
            try:
                self._deployer.remove(roster.job)
            finally:
                self._upkeep[roster.job.name].release()
            self._note("removed", roster.job.name, generation=meeting.generation)

    def standings(self) -> list[Standing]:
        """Return how every job stands now."""
        with self._changed:
            return [self._standing(name, roster) for name, roster in self._rosters.items()]

    def _standing(self, name: str, roster: Roster) -> Standing:
        current, gathers = roster.current, roster.next
        running = current if current is not None and current.stage is Stage.RUNNING else None
        return Standing(
            job=roster.job,
            generation=running.generation if running else 0,
            gone=len(running.gone) if running else 0,
            joined=len(gathers.joins) if gathers and gathers.stage is not Stage.ENDED else 0,
            events={event: num for (job, event), num in self._events.items() if job == name},
        )

    def _note(self, event: str, job: str, **fields: object) -> None:
        self._events[job, event] += 1
        told = ", ".join(f"{name} {value}" for name, value in fields.items())
        log.info("job %s: %s (%s)", job, event, told, extra={"event": event, "job": job, **fields})


def _is_quiet(roster: Roster, meeting: Meeting, watch: Watch) -> bool:
    return roster.notice(meeting) == Notice(watch.gone, "", watch.waiting)


def _not_installed(job: str, generation: int) -> str:
    return f"job {job} is not installed under generation {generation}"


def _runs(roster: Roster) -> bool:
    return roster.current is not None and roster.current.stage is Stage.RUNNING


def _of_generation(roster: Roster, generation: int) -> Meeting | None:
    current = roster.current
    return current if current is not None and current.generation == generation else None
