# SPDX-License-Identifier: Apache-2.0
"""How much of a rank's window its open calls hold: a call waits for room, or says who must go.

A row holds a slot from its dispatch until its sum is there, so a call that is not combined keeps
what it has, and with it all that was dispatched after it.
"""

from __future__ import annotations

from collections import deque

from host_agent.bands import bands_of
from host_agent.bands.codec import HEADER
from host_agent.collectives import Group
from host_agent.dispatcher.errors import DispatcherError
from host_agent.dispatcher.handle import Handle
from host_agent.transport.pieces import PREAMBLE

_ID_AND_WEIGHT = 6  # bytes at most, in a band header


class OpenCalls:
    """The calls of one rank that hold slots, oldest first."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._calls: deque[Handle] = deque()

    def slots_of(self, num_tokens: int, top_k: int) -> int:
        """Return the slots a call holds: its messages and, of each band, the header's pieces."""
        room = self._group.fabric.session.max_message_bytes - PREAMBLE.size
        total = 0
        for band in bands_of(num_tokens, self._group.band_rows):
            num = band.stop - band.start
            header_bytes = HEADER.size + num * top_k * _ID_AND_WEIGHT
            total += self._group.geometry.messages(num) + -(-header_bytes // room)
        return total

    def make_room(self, needed: int) -> None:
        """Return when a call of `needed` slots fits; DispatcherError if it cannot."""
        limit = self._group.fabric.session.num_slots
        while (held := self._held()) + needed > limit:
            oldest = self._calls[0] if self._calls else None
            if oldest is None or oldest.summing is None:
                raise DispatcherError(
                    f"a dispatch of {needed} slots, the window has {limit} and calls that are not "
                    f"combined hold {held}: dispatch fewer tokens, combine first, or give the job "
                    "more slots"
                )
            oldest.summing.result()

    def add(self, handle: Handle) -> None:
        """Note a call that begins."""
        self._calls.append(handle)

    def _held(self) -> int:
        while self._calls and self._calls[0].is_over:
            self._calls.popleft()
        return sum(handle.num_slots for handle in self._calls)
