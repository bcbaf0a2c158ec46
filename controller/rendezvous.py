# SPDX-License-Identifier: Apache-2.0
"""The rendezvous: threads and deadlines around `meeting`; installs through `deploy`.

Two locks, taken in this order and never the other way: `_switches` while switches are written,
`_changed` while meetings change.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from controller.admission import check_identity, check_operator
from controller.deploy import Deployer
from controller.errors import ControllerError, RefusedError
from controller.job import Job
from controller.journal import Journal, Standing
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


class Rendezvous:
    """The jobs a controller serves. Thread-safe; one call blocks one thread."""

    def __init__(
        self, jobs: Mapping[str, Job], deployer: Deployer, *, timeout_s: float = JOIN_TIMEOUT_S
    ) -> None:
        self._rosters: Final = {name: Roster(job, timeout_s) for name, job in jobs.items()}
        self._upkeep: Final = {name: Upkeep(job, deployer) for name, job in jobs.items()}
        self._switches: Final = threading.Lock()
        self._changed: Final = threading.Condition()
        self._stopped: Final = threading.Event()
        self._journal: Final = Journal()
        threading.Thread(target=self._tend, name="rendezvous-tend", daemon=True).start()

    def join(self, join: Join, alive: Alive) -> Ticket:
        """Wait for all ranks and the switches; raises RefusedError."""
        roster = self._roster(join.job)
        with self._changed:
            running = roster.current
            try:
                meeting = roster.join(join, time.monotonic())
                self._journal.note("joined", join.job, rank=join.rank, host=join.host)
            except RefusedError as error:
                self._journal.note("refused", join.job, rank=join.rank, reason=str(error))
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
                if watch.rank not in meeting.left | meeting.expelled:
                    self._note_lost(meeting, [watch.rank])
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
                self._journal.note("left", leave.job, rank=leave.rank, generation=leave.generation)
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
            new = meeting.report(report.rank, report.lost)
            self._note_expelled(meeting, new, f"silent to rank {report.rank}")
            self._changed.notify_all()
        return Reported()

    def replace(self, replace: Replace, alive: Alive) -> Replaced:
        """Take a rank out of a running job, for another to join as it; raises RefusedError."""
        roster = self._roster(replace.job)
        with self._changed:
            meeting = roster.current
            if meeting is None or not roster.runs:
                raise RefusedError(
                    f"job {replace.job} does not run: its ranks can join as they are"
                )
            meeting.check_rank(replace.rank)
            new = meeting.expel([replace.rank])
            self._note_expelled(meeting, new, "replaced by the operator")
            self._changed.notify_all()
            return Replaced(meeting.generation)

    def check_identity(self, message: Message, client: str) -> None:
        """Raise RefusedError where a caller is not who it says; `client`: its certificate."""
        assert isinstance(message, Join | Watch | Report | Leave | Replace)
        job = self._roster(message.job).job
        try:
            if isinstance(message, Replace):
                check_operator(job, client)
            else:
                check_identity(job, message.rank, client)
        except RefusedError as error:
            with self._changed:
                self._journal.note("refused", job.name, rank=message.rank, reason=str(error))
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
                running = [roster for roster in self._rosters.values() if roster.runs]
                for roster in self._rosters.values():
                    for meeting in roster.meetings():
                        meeting.end(f"job {roster.job.name}: the controller stopped")
                self._changed.notify_all()
            try:
                for roster in running:
                    self._upkeep[roster.job.name].remove()
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
                job = meeting.job.with_endpoints(meeting.endpoints())
                installed = self._upkeep[job.name].install(job)
            except Exception as error:  # whatever it is, the other ranks must not wait for ever
                problem = str(error)
                if not isinstance(error, ControllerError):
                    log.exception("installing job %s", meeting.job.name)
            with self._changed:
                if problem:
                    if not roster.runs:
                        self._upkeep[roster.job.name].release()
                    meeting.end(f"job {meeting.job.name} could not be installed: {problem}")
                elif meeting.stage is Stage.INSTALLING:
                    roster.started(meeting, installed, time.monotonic())
                    self._journal.note("installed", meeting.job.name, generation=meeting.generation)
                self._changed.notify_all()

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
            if roster.runs:
                return roster.of_generation(generation)
        with self._switches:
            adopted = self._upkeep[roster.job.name].adopt(generation)
            with self._changed:
                if adopted and not roster.runs:
                    roster.adopt(generation, time.monotonic())
                return roster.of_generation(generation)

    def _tend(self) -> None:
        """Give restarted switches what they had; clear the jobs that no rank has come back to."""
        while not self._stopped.wait(POLL_S):
            for roster in self._rosters.values():
                with self._changed:
                    meeting = roster.current
                    abandoned = meeting is not None and self._tended(meeting)
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
            for switch in restored:
                generation = meeting.generation
                self._journal.note(
                    "restored", roster.job.name, switch=switch, generation=generation
                )

    def _tended(self, meeting: Meeting) -> bool:
        gone = set(meeting.gone)
        abandoned = meeting.tend(time.monotonic())
        self._note_lost(meeting, meeting.gone - gone)
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
            self._upkeep[roster.job.name].remove()
            generation = meeting.generation
            self._journal.note("removed", roster.job.name, generation=generation)

    def standings(self) -> list[Standing]:
        """Return how every job stands now."""
        with self._changed:
            return [self._journal.standing(roster) for roster in self._rosters.values()]

    def _note_lost(self, meeting: Meeting, ranks: Iterable[int]) -> None:
        for rank in ranks:
            self._journal.note("lost", meeting.job.name, rank=rank, generation=meeting.generation)

    def _note_expelled(self, meeting: Meeting, ranks: Iterable[int], reason: str) -> None:
        for rank in ranks:
            generation = meeting.generation
            self._journal.note(
                *("expelled", meeting.job.name), rank=rank, generation=generation, reason=reason
            )


def _is_quiet(roster: Roster, meeting: Meeting, watch: Watch) -> bool:
    return roster.notice(meeting) == Notice(watch.gone, "", watch.waiting)


def _not_installed(job: str, generation: int) -> str:
    return f"job {job} is not installed under generation {generation}"
