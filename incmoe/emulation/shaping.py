# SPDX-License-Identifier: Apache-2.0
"""How fast a link is, and the queue that makes it so (tbf); runs no command."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from incmoe.demo.errors import DemoError

UNSHAPED: Final = "none"
_UNITS: Final = {"kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
_TEXT: Final = re.compile(rf"(\d+(?:\.\d+)?)({'|'.join(_UNITS)})")
_LEAST: Final = 100 * _UNITS["kbit"]
_MOST: Final = 100 * _UNITS["gbit"]
RATES: Final = "100kbit to 100gbit"  # the same, in words
_BURST_FRAMES: Final = 2  # at least
_FRAME_BYTES_MORE: Final = 18  # than the MTU: Ethernet, one VLAN tag


@dataclass(frozen=True, slots=True)
class Bucket:
    """What a link lets pass at once after a pause, and what may wait before it.

    Windows bound what waits before a port (docs/design.md): all of it is to fit, as no sender is
    told of a loss here.
    """

    burst_s: float = 0.001  # at full speed; the queue's timer is finer
    least_bytes: int = 0
    queue_bytes: int = 8 << 20


NARROW: Final = Bucket()


@dataclass(frozen=True, slots=True)
class Rate:
    """Bits per second, in each direction, of frames without preamble and gap."""

    bit_s: int

    @classmethod
    def parse(cls, text: str) -> Rate | None:
        """`100mbit`, or `none`; DemoError names what is wrong."""
        if text == UNSHAPED:
            return None
        found = _TEXT.fullmatch(text.lower())
        bit_s = round(float(found[1]) * _UNITS[found[2]]) if found else 0
        if not _LEAST <= bit_s <= _MOST:
            raise DemoError(f"--rate {text}: must be {RATES}, or {UNSHAPED}")
        return cls(bit_s)

    def queue(self, mtu: int, bucket: Bucket = NARROW) -> list[str]:
        """The words after `tc qdisc replace dev ... root`."""
        burst_bytes = max(
            round(self.bit_s / 8 * bucket.burst_s),
            bucket.least_bytes,
            _BURST_FRAMES * (mtu + _FRAME_BYTES_MORE),
        )
        return f"tbf rate {self.bit_s}bit burst {burst_bytes} limit {bucket.queue_bytes}".split()
