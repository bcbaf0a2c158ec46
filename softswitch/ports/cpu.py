# SPDX-License-Identifier: Apache-2.0
"""The port that a switch's controllers are behind: frames leave to a function and come by
`inject`; it knows no controller.
"""

from __future__ import annotations

from collections.abc import Callable

from softswitch.errors import ResourceExhausted
from softswitch.ports.frames import Frames
from softswitch.ports.memory import MemoryPort

MAX_WAITING = 1 << 12  # frames of controllers that the data plane has not come to


def _nobody(frames: list[bytes]) -> None:
    """What leaves before someone listens is lost."""


class CpuPort(MemoryPort):
    """`deliver` is called by the data-plane thread and must not block."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.name = f"cpu:{number}"
        self.deliver: Callable[[list[bytes]], None] = _nobody

    def inject(self, frame: bytes) -> None:
        """The frame comes in through this port; ResourceExhausted if too many wait."""
        if len(self._incoming) >= MAX_WAITING:
            raise ResourceExhausted(f"{MAX_WAITING} packets wait on port {self.number}")
        super().inject(frame)

    def send(self, frames: Frames) -> None:
        self.stats.sent(len(frames), frames.num_bytes)
        self.deliver(list(frames))
