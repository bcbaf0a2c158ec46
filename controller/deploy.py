# SPDX-License-Identifier: Apache-2.0
"""Puts jobs on all their switches and takes them off. Connects for each operation and keeps
nothing, so that switches and controllers may restart in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from controller.address import ip_text
from controller.allocate import Holding, allocate, next_generation, taken_by
from controller.claim import Place, turn
from controller.entries import Share, forward_entries, job_entries
from controller.errors import ControllerError, SwitchError
from controller.job import Job
from controller.job import Switch as SwitchPlace
from controller.session import DEADLINE_S, NOBODY, Credentials
from controller.state import (
    Changes,
    InstalledJob,
    Scope,
    SwitchState,
    nothing,
    of_jobs,
    plain_traffic,
)
from controller.switch import Load, Switch
from host_agent.messages import Ticket
from host_agent.wire import INC_UDP_PORT
from p4src import program


@dataclass(frozen=True, slots=True)
class Installed:
    """A job as it stands on its switches."""

    job: Job
    shares: Mapping[str, Share]  # by switch
    max_chunks: int
    changed: Mapping[str, Changes]  # by switch: what had to be written

    @property
    def share(self) -> Share:
        """Any switch's share: number and generation are the same on all."""
        return next(iter(self.shares.values()))

    def ticket(self, rank: int) -> Ticket:
        """Return what a rank must know to take part."""
        at = self.job.ranks[rank].at
        switch_ip = self.job.switches[at.switch].ports[at.port].ip
        assert switch_ip is not None
        return Ticket(
            job=self.share.job_id,
            generation=self.share.generation,
            num_slots=self.job.num_slots,
            segments=self.job.segments,
            max_chunks=self.max_chunks,
            switch_host=ip_text(switch_ip),
            switch_port=INC_UDP_PORT,
            ranks=tuple(range(self.job.world_size)),
            on_loss=self.job.on_loss.value,
        )


@dataclass(slots=True)
class Deployer:
    """Installs and removes jobs; remembers only the last generation it gave."""

    load: Load = Load.AUTO
    deadline_s: float = DEADLINE_S
    wall_clock: Callable[[], float] = time.time
    credentials: Credentials = NOBODY
    last_generation: int = field(default=0, init=False)

    def install(self, job: Job, *, renew: bool) -> Installed:
        """Make every switch of the job hold it; under a new generation if `renew`.

        On an error the job is taken off the switches that already had it, and SwitchError or
        another ControllerError raised.
        """
        with self._connected(job) as switches:
            for switch in switches.values():
                switch.load(program(job.geometry), how=self.load)
                _clear_remains(switch)
            holdings = {name: switch.holding() for name, switch in switches.items()}
            shares = allocate(job, holdings, generation=self._generation(holdings), renew=renew)
            entries = {n: list(job_entries(job, n, share)) for n, share in shares.items()}
            changed = {}
            try:
                for name, switch in switches.items():
                    scope = _ours(job.name, holdings[name], shares[name])
                    changed[name] = switch.reconcile(entries[name], scope=scope)
                    self._install_forwarding(job, name, switch)
            except ControllerError:
                _take_off(shares, switches)
                raise
        max_chunks = min(holding.sizes.max_chunks for holding in holdings.values())
        return Installed(job, shares, max_chunks, changed)

    def remove(self, job: Job) -> list[str]:
        """Take the job off all its switches; return the switches that had it."""
        with self._connected(job) as switches:
            return [name for name, switch in switches.items() if remove_job(switch, job.name)]

    def find(self, job: Job) -> dict[str, InstalledJob]:
        """Return the job as each switch that has it knows it."""
        with self._connected(job, writes=False) as switches:
            states = {name: switch.read_state() for name, switch in switches.items()}
        found = {
            name: [one for one in state.jobs().values() if one.name == job.name]
            for name, state in states.items()
        }
        return {name: jobs[0] for name, jobs in found.items() if jobs}

    def held(self, job: Job) -> dict[str, SwitchState]:
        """Return what each switch holds of the job, and of plain traffic if the job brings it."""
        with self._connected(job, writes=False) as switches:
            states = {name: switch.read_state() for name, switch in switches.items()}
        return {name: _held(job, name, state) for name, state in states.items()}

    def restore(self, job: Job, name: str, held: SwitchState) -> None:
        """Give a switch that lost everything what it held; raises SwitchError if that clashes."""
        with self._connected(job, only=name) as switches:
            switch = switches[name]
            switch.load(program(job.geometry), how=self.load)
            taker = taken_by(held, switch.read_state())
            if taker:
                problem = f"came back, and job {taker} has what job {job.name} had"
                raise SwitchError(switch.address, problem)
            switch.reconcile(held.entries.values(), scope=nothing)

    def place(self, switch: SwitchPlace) -> Place:
        """Return where a job's switch is, and who this controller is to it."""
        credentials = self.credentials.towards(switch.certificate)
        return Place(switch.grpc, switch.device_id, credentials)

    @contextmanager
    def _connected(
        self, job: Job, *, writes: bool = True, only: str = ""
    ) -> Iterator[dict[str, Switch]]:
        chosen = {name: switch for name, switch in job.switches.items() if only in ("", name)}
        with ExitStack() as stack:
            if writes:  # in one order everywhere, so that two controllers cannot each have half
                for one in sorted(chosen.values(), key=lambda one: (one.grpc, one.device_id)):
                    stack.enter_context(turn(self.place(one), deadline_s=self.deadline_s))
            yield {
                name: stack.enter_context(
                    Switch.connect(
                        switch.grpc,
                        device_id=switch.device_id,
                        writes=writes,
                        deadline_s=self.deadline_s,
                        credentials=self.place(switch).credentials,
                    )
                )
                for name, switch in chosen.items()
            }

    def _generation(self, holdings: Mapping[str, Holding]) -> int:
        states = [holding.state for holding in holdings.values()]
        now_s = self.wall_clock()
        self.last_generation = next_generation(states, now_s=now_s, last=self.last_generation)
        return self.last_generation

    def _install_forwarding(self, job: Job, name: str, switch: Switch) -> None:
        plain = job.switches[name].forwarding
        if plain is not None:
            switch.reconcile(forward_entries(plain), scope=plain_traffic)


def remove_job(switch: Switch, name: str) -> bool:
    """Take the job of a name (or number) off one switch; say whether it was there."""
    state = switch.read_state()
    numbers = {job.id for job in state.jobs().values() if name in (job.name, str(job.id))}
    if not numbers:
        return False
    switch.reconcile([], scope=of_jobs(state, numbers))
    return True


def _held(job: Job, name: str, state: SwitchState) -> SwitchState:
    numbers = [number for number, one in state.jobs().items() if one.name == job.name]
    ours = of_jobs(state, numbers)
    plain = job.switches[name].forwarding is not None
    entries = state.entries.values()
    return SwitchState.of(e for e in entries if ours(e) or (plain and plain_traffic(e)))


def _ours(name: str, holding: Holding, share: Share) -> Scope:
    """What the job of this name has on a switch, under whatever number it had."""
    old = {job.id for job in holding.state.jobs().values() if job.name == name}
    return of_jobs(holding.state, old | {share.job_id})


def _clear_remains(switch: Switch) -> None:
    """Delete what a controller left behind that ended half-way.

    It cannot come back: the switch takes entries from one controller only, and that is this one.
    """
    state = switch.read_state()
    remains = [number for number, job in state.jobs().items() if job.generation == 0]
    if remains:
        switch.reconcile([], scope=of_jobs(state, remains))


def _take_off(shares: Mapping[str, Share], switches: Mapping[str, Switch]) -> None:
    """Undo a job that could not be put on all its switches, as far as they answer."""
    for name, switch in switches.items():
        share = shares[name]
        try:
            scope = of_jobs(switch.read_state(), [share.job_id], [share.group])
            switch.reconcile([], scope=scope)
        except SwitchError:  # the first error is the one to report
            continue
