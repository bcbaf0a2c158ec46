# SPDX-License-Identifier: Apache-2.0
"""A rank's transport without socket, clock and threads: owner, member and liveness put together.

    receive(now, headers, payloads)   a run of messages came
    poll(now) -> runs                 what to send
    deadline() -> time                when to poll again if nothing comes

`failure` is set once something awaited can never come. `take_progress` says whether a caller that
waits for something should look again.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from host_agent.errors import (
    ProtocolError,
    RankExpelled,
    RankLost,
    RowsStuck,
    SwitchLost,
    TransportError,
)
from host_agent.session import OnLoss, Session
from host_agent.transport import bitmaps
from host_agent.transport.counters import Counters
from host_agent.transport.credit import Credit, limit_bytes
from host_agent.transport.incoming import BandHeader
from host_agent.transport.liveness import Failure, Liveness
from host_agent.transport.member import Member
from host_agent.transport.numbering import Numbers
from host_agent.transport.outgoing import Outgoing, OutgoingBand
from host_agent.transport.owner import Owner
from host_agent.transport.pacer import Pacer
from host_agent.transport.peers import Peers
from host_agent.transport.pieces import Key
from host_agent.transport.ring import Values
from host_agent.transport.runs import Run, by_key
from host_agent.wire import Headers, Op, Payloads, Status, ranks_in

# Whose doing a message is that comes to this rank; `owner` of the others is this rank itself.
_FROM_OWNER = (Op.DISPATCH, Op.PULL, Op.PROBE)
_FOR_OWNER = (Op.RESULT, Op.STATUS, Op.ECHO)


class Core:
    """One rank. Not thread safe, but for what says so.

    `receive_bytes`: what the socket of any rank can hold unread; None: enough.
    """

    def __init__(self, session: Session, now: float, receive_bytes: int | None = None) -> None:
        self.session = session
        self.counters = Counters()
        self.failure: Failure | None = None
        self.asked_at = now  # when another rank last needed something of this one
        self.echoes = 0
        self.peers = Peers(session)
        self._owner = Owner(session, self.counters, self.peers)
        self._member = Member(session, self.counters)
        self._liveness = Liveness(session, now)
        self._pacer = Pacer(session.pacing, now)
        self._credit = Credit(session, limit_bytes(session, receive_bytes))
        self._bands_awaited: Counter[int] = Counter()  # callers waiting for a band, by owner
        self._echo_wanted = False
        self._echo_came = False

    # What callers ask of it.

    def send_band(self, band: OutgoingBand) -> None:
        """Queue a band of mine; raises SessionError."""
        self._owner.send(band)

    def take_summed(self, key: Key) -> Outgoing | None:
        """Return a band of mine of which all sums are there, once."""
        return self._owner.bands.take_summed(key)

    def await_bands(self, owner: int, callers: int) -> None:
        """`callers` more (or less) wait for a band of `owner`, which has to be alive for that."""
        self._bands_awaited[owner] += callers

    def take_header(self, owner: int, key: Key) -> BandHeader | None:
        """Return a band's header once it is whole, once."""
        return self._member.source(owner).incoming.take_header(key)

    def expect(self, owner: int, key: Key, header: BandHeader, wanted: NDArray[np.bool_]) -> None:
        """Tell which rows of a band will come; raises ProtocolError if others did."""
        source = self._member.source(owner)
        numbers = header.first_row + np.arange(header.num_rows)
        source.incoming.expect(key, header, wanted, source.ring.holds(numbers))

    def has_all(self, owner: int, key: Key) -> bool:
        """Return whether all expected rows of a band are here; if so, forget about it."""
        return self._member.source(owner).incoming.has_all(key)

    def rows(self, owner: int, numbers: Numbers) -> NDArray[np.uint8]:
        """Return rows that are here. May run beside anything else."""
        return self._member.source(owner).ring.rows(numbers)

    def keep(self, owner: int, numbers: Numbers, values: Values) -> None:
        """Keep partial rows, to be contributed next. May run beside anything else."""
        self._member.source(owner).ring.keep(numbers, values)

    def contribute(self, owner: int, numbers: Numbers) -> None:
        """Send partial rows that were kept."""
        ring = self._member.source(owner).ring
        if self.peers.gone >> owner & 1:
            return
        assert (ring.number[numbers % len(ring.number)] == numbers).all(), "rows that are over"
        self._member.contributions.add(ring, numbers % len(ring.number))

    def want_echo(self) -> None:
        """Ask the switch for a sign of life; `echoes` counts the answers."""
        self._echo_wanted = True

    def exclude(self, now: float, ranks: int) -> None:
        """Go on without `ranks`: await nothing of them, hear nothing, sum without them."""
        if ranks >> self.session.rank & 1:
            self.fail(RankExpelled(self.session.rank))
            return
        new = ranks & self.peers.others
        if not new:
            return
        if self._liveness.switch_is_silent(now):  # then that is why they are gone
            reason = f"silent, and ranks {ranks_in(new)} behind it gone"
            self.fail(SwitchLost(self.session.switch, reason))
            return
        self.peers.exclude(new)
        self._credit.exclude(new)
        try:
            self._owner.exclude(new, now)
        except RowsStuck as error:
            self.fail(error)

    @property
    def suspects(self) -> tuple[int, ...]:
        """Ranks that look lost to this one, and are to be excluded by all or by none."""
        if self.failure is not None:
            return ()
        return tuple(rank for rank in self._liveness.suspects if self.peers.others >> rank & 1)

    def say_farewell(self) -> None:
        """Tell the others that this rank neither sends a band any more nor waits for one."""
        self._owner.say_farewell()

    @property
    def is_idle(self) -> bool:
        """Whether everything this rank queued is summed and acknowledged."""
        return not (self._owner.bands or self._member.has_backlog or self._member.has_statuses)

    @property
    def rows_out(self) -> int:
        """Slots of this rank's window in use."""
        return self._owner.rows_out

    @property
    def all_said_farewell(self) -> bool:
        """Whether no other rank needs this one any more."""
        sources = {source.ring.owner: source for source in self._member.sources()}
        others = ranks_in(self.peers.others)
        return all(rank in sources and sources[rank].incoming.farewell for rank in others)

    # What came in.

    def receive(self, now: float, headers: Headers, payloads: Payloads) -> None:
        """Take in a run of messages of one size."""
        self.counters.count_received(headers, payloads)
        ours = (headers["job"] == self.session.job) & (
            headers["generation"] == self.session.generation
        )
        if not ours.all():
            self.counters.foreign += int(np.count_nonzero(~ours))
            headers, payloads = headers[ours], payloads[ours]
        keys = headers["op"].astype(np.int64) << 8 | headers["owner"]
        try:
            for key, places in by_key(keys):
                self._dispatch(now, key, headers[places], payloads[places])
        except ProtocolError as error:
            self.fail(error)

    def _dispatch(self, now: float, key: int, headers: Headers, payloads: Payloads) -> None:
        op, owner = key >> 8, key & 0xFF
        of_me = owner == self.session.rank
        if self.peers.gone >> owner & 1:
            self.counters.foreign += len(headers)
            return
        if owner >= self.session.world_size or op not in (_FOR_OWNER if of_me else _FROM_OWNER):
            self.counters.malformed += len(headers)
            return
        ranks = bitmaps.union(headers["ranks"].astype(np.uint64)) if of_me else 1 << owner
        self._liveness.heard(now, ranks)
        if back := self._liveness.take_back():
            self._owner.hurry(back, now)
        if op == Op.PULL:
            self.asked_at = now
        match op:
            case Op.DISPATCH:
                self._member.on_dispatch(owner, headers, payloads)
            case Op.PULL:
                self._member.on_pull(owner, headers)
            case Op.PROBE:
                self._member.on_probe(owner, headers)
            case Op.RESULT:
                self._owner.on_result(now, headers, payloads)
            case Op.STATUS:
                self._on_status(now, headers)
            case Op.ECHO:
                self.echoes += len(headers)
                self._echo_came = True

    def _on_status(self, now: float, headers: Headers) -> None:
        alive = headers["flags"] == Status.ALIVE
        for answer in headers[alive]:
            self._credit.on_answer(int(answer["ranks"]), int(answer["seq"]))
        if not alive.all():
            self._owner.on_status(now, headers[~alive])

    def fail(self, error: TransportError) -> None:
        """Nothing awaited will come; the first reason counts."""
        if self.failure is None:
            self.failure = lambda: type(error)(*error.args)

    # What goes out.

    def poll(self, now: float) -> list[Run]:
        """Return what to send now: a bounded burst, repairs first."""
        runs = self._watch(now)
        runs += self._member.statuses()
        room = min(self._pacer.room(now), self._credit.room(now))
        if room > 0:
            bulk = self._recover(now, room)
            bulk += self._member.again(room)
            bulk += self._fresh(now, room - sum(run.wire_bytes for run in bulk))
            self._pacer.spend(sum(run.wire_bytes for run in bulk))
            self._credit.spend(bulk)
            runs += bulk + self._credit.mark(now)
        self.counters.count_sent(runs)
        return runs

    def _recover(self, now: float, room: int) -> list[Run]:
        try:
            return self._owner.recover(now, room)
        except RowsStuck as error:
            self.fail(error)
            return []

    def _fresh(self, now: float, room: int) -> list[Run]:
        """Rows of mine and partial rows for others have half of the room each, if they want it."""
        contributions = self._member.contributions
        share = room // 2 if self._owner.bands.has_next else room
        runs = contributions.fresh(share)
        return runs + self._owner.fresh(now, room - sum(run.wire_bytes for run in runs))

    def _watch(self, now: float) -> list[Run]:
        runs = []
        if self._echo_wanted:
            self._echo_wanted = False
            runs.append(Run(self._liveness.header(Op.ECHO, 0)))
        if now >= self._liveness.deadline:
            owners = [
                rank
                for rank, callers in self._bands_awaited.items()
                if callers > 0 and self.peers.others >> rank & 1
            ]
            awaited = self._owner.awaited() | sum(1 << rank for rank in owners)
            asked, failure = self._liveness.poll(now, awaited)
            if self._liveness.silent:
                self._owner.excuse(self._liveness.silent, now)
            self.failure = self.failure or failure or self._left(owners)
            self.counters.probes += len(asked)
            runs += asked
        return runs

    def _left(self, owners: list[int]) -> Failure | None:
        if self.session.on_loss is OnLoss.DEGRADE:  # who has left falls silent, and is a suspect
            return None
        left = [rank for rank in owners if self._member.source(rank).incoming.farewell]
        reason = f"closed its endpoint while rank {self.session.rank} waits for a band of it"
        return (lambda: RankLost(left, reason)) if left else None

    def deadline(self) -> float:
        """Return when to poll again; in the past if at once."""
        if self._echo_wanted or self._member.has_statuses:
            return -float("inf")
        waits = self._owner.has_backlog or self._member.has_backlog
        bulk = -float("inf") if waits else self._owner.deadline()
        bulk = max(bulk, self._pacer.ready_at(), self._credit.ready_at())
        return min(bulk, self._liveness.deadline)

    def take_progress(self) -> bool:
        """Return whether something a caller may wait for has come since the last call."""
        came = self._owner.bands.progress or self._echo_came
        self._owner.bands.progress = self._echo_came = False
        for source in self._member.sources():
            came |= source.incoming.progress
            source.incoming.progress = False
        return came
