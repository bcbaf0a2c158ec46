# SPDX-License-Identifier: Apache-2.0
"""A port with what sits on its wire: the capture sees the wire itself, faults lie behind it."""

from __future__ import annotations

from softswitch.ports.faults import FaultChain
from softswitch.ports.frames import Arena, Frames, no_frames
from softswitch.ports.pcap import Capture
from softswitch.ports.port import Port


class Line:
    """wire - capture - faults - switch, both ways; `now` is time.monotonic()."""

    def __init__(
        self,
        port: Port,
        *,
        capture: Capture | None = None,
        rx_faults: FaultChain | None = None,
        tx_faults: FaultChain | None = None,
    ) -> None:
        self.port = port
        self._capture = capture
        self._rx_faults = rx_faults
        self._tx_faults = tx_faults

    @property
    def has_faults(self) -> bool:
        return self._rx_faults is not None or self._tx_faults is not None

    @property
    def deadline(self) -> float | None:
        """When `release` is to be called."""
        faults = [f for f in (self._rx_faults, self._tx_faults) if f is not None]
        times = [f.deadline for f in faults]
        return min((t for t in times if t is not None), default=None)

    def receive(self, arena: Arena, now: float) -> Frames:
        frames = self.port.receive(arena)
        if self._capture:
            self._capture.received(frames)
        return self._rx_faults.apply(frames, now) if self._rx_faults else frames

    def release(self, now: float) -> Frames:
        """Received frames that faults held back until now; sends held ones as well."""
        if self._tx_faults:
            self._put_on_wire(self._tx_faults.release(now))
        return self._rx_faults.release(now) if self._rx_faults else no_frames()

    def send(self, frames: Frames, now: float) -> None:
        self._put_on_wire(self._tx_faults.apply(frames, now) if self._tx_faults else frames)

    def _put_on_wire(self, frames: Frames) -> None:
        if len(frames) == 0:
            return
        if self._capture:
            self._capture.sent(frames)
        self.port.send(frames)

    def close(self) -> None:
        self.port.close()
        if self._capture:
            self._capture.close()
