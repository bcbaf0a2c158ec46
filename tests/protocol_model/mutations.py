# SPDX-License-Identifier: Apache-2.0
"""Rules of the protocol broken on purpose, one at a time: the search must find each."""

from __future__ import annotations

from typing import Any

from host_agent.transport.member import Member
from host_agent.transport.numbering import ATTEMPTS
from host_agent.transport.owner import Owner
from host_agent.transport.ring import Placed, Ring
from host_agent.transport.runs import Run
from host_agent.transport.window import Mask, Window
from host_agent.wire import Headers, Payloads
from tests.protocol_model.parts import Rules
from tests.transport.switch_model import Message, SwitchModel


class AddsRepeats(SwitchModel):
    """Rule 2 broken: a contribution that was counted is added again."""

    def _contribute(self, message: Message) -> list[tuple[int, Message]]:
        cell = self._cell(message)
        if cell is not None:
            cell.seen &= ~message.ranks
        return super()._contribute(message)


class ArmsFromTargets(SwitchModel):
    """Rule 1 broken: a slot waits for the receivers of the DISPATCH that armed it."""

    def _arm(self, port: int, behind: int, message: Message) -> None:
        armed = self._row(message)
        super()._arm(port, behind, message)
        if armed is None:
            self.rows[message.owner, message.slot].expected &= message.ranks


class AddsAnyAttempt(SwitchModel):
    """Rule 2 broken: contributions at another exponent are added to those that are there."""

    def _cell(self, message: Message) -> Any:
        cell = self.cells.get((message.owner, message.slot, message.segment))
        return (
            cell if cell is not None and cell.seq // ATTEMPTS == message.seq // ATTEMPTS else None
        )


class _AnyAttempt(Window):
    def current(self, headers: Headers) -> Mask:
        inside = headers["slot"].astype(int)
        return self.out[inside] & (self.number[inside] == headers["seq"] // ATTEMPTS)


class TakesAnyAttempt(Owner):
    """Broken: a sum counts only for the attempt that is out."""

    def on_result(self, now: float, headers: Headers, payload: Payloads) -> None:
        self._window.__class__ = _AnyAttempt
        super().on_result(now, headers, payload)


class ForgetsPartials(Member):
    """Rule 3 broken: a member does not give its partial row again."""

    def _give_again(self, ring: Ring, placed: Placed) -> None:
        return

    def _repeat(self, ring: Ring, placed: Placed) -> None:
        return


class SlidesEarly(Owner):
    """Rule 3 broken: an owner opens a slot again before it has the sum."""

    def fresh(self, now: float, room_bytes: int) -> list[Run]:
        runs = super().fresh(now, room_bytes)
        for run in runs:
            self._window.close(run.headers["slot"].astype(int))
            self.bands.slide(self._window.oldest_out())
        return runs


MUTATIONS = {
    "the switch adds what it has counted": Rules(switch=AddsRepeats),
    "the switch waits for targets": Rules(switch=ArmsFromTargets),
    "the switch adds attempts to each other": Rules(switch=AddsAnyAttempt),
    "the owner takes sums of any attempt": Rules(owner=TakesAnyAttempt),
    "members forget their partial rows": Rules(member=ForgetsPartials),
    "the owner opens slots early": Rules(owner=SlidesEarly),
}
