# SPDX-License-Identifier: Apache-2.0
"""A rank's transport as callers see it: calls that block, and the thread that moves the messages.

    callers --send_band, contribute--> Core --runs--> Pump --> switch
            <--receive_band, wait_sums--    <--runs--

One lock guards the Core. It is not held while the socket is used, nor while rows are copied out,
partial rows copied in, or sums turned to floats: those happen in the caller's thread.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from host_agent import wire
from host_agent.errors import (
    EndpointClosed,
    JobEnded,
    ProtocolError,
    RankLost,
    SwitchUnreachable,
    TransportError,
)
from host_agent.pump import Pump
from host_agent.session import Session
from host_agent.sockets import Messages, RunSocket, bound_socket
from host_agent.transport import BandHeader, Core, OutgoingBand
from host_agent.transport.numbering import Numbers
from host_agent.transport.outgoing import Outgoing
from host_agent.transport.ring import Values

__all__ = ["Endpoint", "IncomingBand", "OutgoingBand", "Wanted"]

ECHO_EVERY_S = 0.25
T = TypeVar("T")
Wanted = Callable[[bytes], NDArray[np.bool_]]
Report = Callable[[tuple[int, ...]], None]


@dataclass(frozen=True, slots=True)
class IncomingBand:
    """What is for this rank of another's band: `numbers` [m], `rows` [m, row_bytes]."""

    blob: bytes
    numbers: Numbers
    rows: NDArray[np.uint8]


class Endpoint:
    """One rank of a session. Thread safe; closed at the end of a `with` block.

    `wanted(blob)` says which rows [num_rows] of a band are for this rank; it is a pure function and
    agrees with the members that the band's owner gave. Calls that wait raise RankLost, SwitchLost
    or ProtocolError when what they wait for cannot come, and EndpointClosed after `close`.
    `report` is told of ranks that look lost to this one where the job may go on without them; it
    must not block. Whoever decides answers by `exclude`, at all ranks. Without `bound` the socket
    is on loopback, where it reaches a switch on this machine only.
    """

    def __init__(
        self,
        session: Session,
        wanted: Wanted,
        *,
        bound: socket.socket | None = None,
        report: Report | None = None,
        socket_type: type[RunSocket] = RunSocket,
    ) -> None:
        self.session = session
        self._wanted = wanted
        connected = socket_type(bound or bound_socket("127.0.0.1"), session.switch)
        self._core = Core(session, time.monotonic(), connected.receive_bytes)
        self._pump = Pump(connected, look_every_s=session.pacing.look_every_s)
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._report = report
        self._reported: tuple[int, ...] = ()
        self._closed = False
        self._stopping = False
        self._deadline = 0.0  # when the core wants to be polled next
        self._thread = threading.Thread(
            target=self._run, name=f"incmoe-rank{session.rank}", daemon=True
        )
        self._thread.start()

    # What callers ask of it.

    def check_switch(self) -> None:
        """Return once the switch answers for this very rank; raises SwitchUnreachable."""
        limit_s = self.session.timers.deadline_s
        until = time.monotonic() + limit_s
        with self._changed:
            before = self._core.echoes
            while self._core.echoes == before:
                self._raise_if_over()
                if time.monotonic() >= until:
                    raise SwitchUnreachable(self.session.switch, self._no_echo(limit_s))
                self._core.want_echo()
                self._pump.wake()
                self._changed.wait(ECHO_EVERY_S)

    def _no_echo(self, limit_s: float) -> str:
        session = self.session
        return (
            f"did not answer for {limit_s:g} s: it is not running, or does not know rank "
            f"{session.rank} of job {session.job}, generation {session.generation}, at this port"
        )

    def send_band(self, band: OutgoingBand) -> None:
        """Queue a band of mine, whose arrays are the endpoint's from now on; never blocks."""
        with self._changed:
            self._raise_if_over()
            self._core.send_band(band)
        self._pump.wake()

    def exclude(self, ranks: Iterable[int]) -> None:
        """Go on without `ranks`, for good: their bands raise RankLost, sums are made without them.

        Excluded itself, this rank fails with RankExpelled.
        """
        with self._changed:
            if self._stopping:
                return
            self._core.exclude(time.monotonic(), wire.rank_set(*ranks))
            self._changed.notify_all()
            self._pump.wake()

    @property
    def gone(self) -> int:
        """Bitmap of the ranks that were excluded."""
        return self._core.peers.gone

    def end(self, reason: str) -> None:
        """Fail every call with JobEnded: the job is over, or goes on elsewhere."""
        self._fail(JobEnded(reason))

    def receive_band(self, owner: int, call: int, band: int) -> IncomingBand:
        """Wait for a band's header and all its rows that are for this rank; once per band."""
        key = (call, band)
        with self._changed:
            self._core.await_bands(owner, 1)
        try:
            with self._changed:
                header = self._await(lambda: self._core.take_header(owner, key), owner)
            mask = self._mask(owner, header)
            with self._changed:
                self._core.expect(owner, key, header, mask)
                self._await(lambda: self._core.has_all(owner, key) or None, owner)
        finally:
            with self._changed:
                self._core.await_bands(owner, -1)
        numbers = header.first_row + np.flatnonzero(mask)
        return IncomingBand(header.blob, numbers, self._core.rows(owner, numbers))

    def _mask(self, owner: int, header: BandHeader) -> NDArray[np.bool_]:
        mask = np.asarray(self._wanted(header.blob), bool)
        if mask.shape != (header.num_rows,):
            raise ProtocolError(
                f"rank {owner} sends a band of {header.num_rows} rows, its header tells of "
                f"{mask.shape}"
            )
        return mask

    def contribute(self, owner: int, numbers: Numbers, values: Values) -> None:
        """Add partial rows `values` [m, num_values] to the sums of rows received; never blocks."""
        assert values.shape == (len(numbers), self.session.row.num_values), values.shape
        self._core.keep(owner, numbers, values)
        with self._changed:
            self._raise_if_over()
            self._core.contribute(owner, numbers)
        self._pump.wake()

    def wait_sums(self, call: int, band: int) -> NDArray[np.float64]:
        """Wait for the sums [n, num_values] of a band of mine; once per band."""
        return self._summed(call, band).sums()

    def wait_bytes(self, call: int, band: int) -> NDArray[np.uint8]:
        """Wait for the sums of a band of mine as the switch made them; once per band."""
        return self._summed(call, band).sum_bytes()

    def _summed(self, call: int, band: int) -> Outgoing:
        with self._changed:
            return self._await(lambda: self._core.take_summed((call, band)))

    def stats(self) -> dict[str, int]:
        """Return everything that was counted, by name, and the rows out now."""
        with self._changed:
            now = {"socket_lost": self._pump.lost, "rows_out": self._core.rows_out}
            return self._core.counters.report() | now

    def close(self) -> None:
        """Take leave of the other ranks, answer what they still ask for, and stop. Never raises.

        Returns at once after a failure; otherwise when all other ranks have taken their leave too,
        or nothing was asked for `linger_s`, and in any case after that and `deadline_s`.
        """
        self._close(orderly=True)

    def abort(self) -> None:
        """Stop at once and answer nobody any more: the others see that this rank is gone."""
        self._close(orderly=False)

    def _close(self, *, orderly: bool) -> None:
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
            if orderly and self._core.failure is None:
                self._core.say_farewell()
                self._linger()
            self._stopping = True
        self._pump.wake()
        self._thread.join()
        self._pump.close()

    def _linger(self) -> None:
        self._pump.wake()
        core, began = self._core, time.monotonic()
        latest = began + self.session.timers.linger_s + self.session.timers.deadline_s
        while not (core.all_said_farewell and core.is_idle):
            until = min(latest, max(began, core.asked_at) + self._patience_s())
            left_s = until - time.monotonic()
            if left_s <= 0 or core.failure is not None:
                return
            self._changed.wait(left_s)

    def _patience_s(self) -> float:
        """Return how long to wait for questions: not long once all others are done."""
        timers = self.session.timers
        done = self._core.all_said_farewell
        return min(timers.linger_s, 4 * timers.pull_after_s) if done else timers.linger_s

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close(orderly=error is None)

    def _await(self, ready: Callable[[], T | None], owner: int | None = None) -> T:
        while (value := ready()) is None:
            self._raise_if_over()
            if owner is not None and self.gone >> owner & 1:
                raise RankLost([owner], "the job goes on without it")
            self._changed.wait()
        return value

    def _raise_if_over(self) -> None:
        if self._core.failure is not None:
            raise self._core.failure()
        if self._closed:
            raise EndpointClosed(f"the endpoint of rank {self.session.rank} is closed")

    # The thread.

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._turn()
        except TransportError as error:
            self._fail(error)
        except Exception as error:
            self._fail(TransportError(f"rank {self.session.rank} cannot go on: {error!r}"))
            raise

    def _fail(self, error: TransportError) -> None:
        with self._changed:
            self._core.fail(error)
            self._changed.notify_all()

    def _turn(self) -> None:
        """Wait for something to do, and do it: what came, what is due, what did not fit before."""
        self._pump.wait(self._deadline)
        came = self._pump.receive()
        with self._changed:
            now = time.monotonic()
            for messages in came:
                self._take_in(now, messages)
            runs = [] if self._pump.is_full else self._core.poll(now)
            if self._core.take_progress() or self._core.failure is not None or self._closed:
                self._changed.notify_all()
            self._deadline = self._core.deadline()
            suspects = self._core.suspects
        self._tell(suspects)
        self._pump.send(run.encode() for run in runs)

    def _tell(self, suspects: tuple[int, ...]) -> None:
        if suspects != self._reported:
            self._reported = suspects
            if suspects and self._report is not None:
                self._report(suspects)

    def _take_in(self, now: float, messages: Messages) -> None:
        try:
            headers, payloads = wire.decode(messages)
        except wire.WireError:
            self._core.counters.malformed += len(messages)
            return
        self._core.receive(now, headers, payloads)
