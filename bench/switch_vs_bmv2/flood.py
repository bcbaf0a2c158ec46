# SPDX-License-Identifier: Apache-2.0
"""The sender and what it is measured by: one thread, a ring of ready frames, sendmmsg."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import IO, Final

from bench.switch_vs_bmv2.traffic import RING, Traffic
from incmoe.demo.namespaces import call_in
from incmoe.demo.network import Attachment
from softswitch.ports.frames import Frames
from softswitch.ports.mmsg import MMSGHDR, MessageRoom, address_of, send_messages
from softswitch.ports.sockets import enlarge_buffers

UNLIMITED: Final = 0.0
BURST: Final = 64  # frames between two looks at the clock
_devices = Path("/proc/thread-self/net/dev")


class Arrivals:
    """Frames that came to a rank's interface, as the kernel counts them."""

    def __init__(self, at: Attachment) -> None:
        self._name = f"{at.rank_end}:"
        self._file: IO[str] = call_in(at.namespace, _devices.open)

    def count(self) -> int:
        """Since the interface was made."""
        self._file.seek(0)
        (line,) = (one.split() for one in self._file if one.lstrip().startswith(self._name))
        return int(line[2])

    def close(self) -> None:
        """Give the file back."""
        self._file.close()


def raw_socket(at: Attachment) -> socket.socket:
    """A socket on a rank's interface; it receives nothing."""

    def make() -> socket.socket:
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        enlarge_buffers(made)
        made.bind((at.rank_end, 0))
        return made

    return call_in(at.namespace, make)


class Sender:
    """Puts traffic on the wire of a rank."""

    def __init__(self, at: Attachment) -> None:
        self._socket = raw_socket(at)
        self.num_sent = 0  # frames that the kernel took, ever

    def send(
        self, traffic: Traffic, rate: float, passes: int | None, over: threading.Event
    ) -> None:
        """Pass after pass, at a rate (frames/s) or UNLIMITED, so many or until it is over."""
        batch, room = traffic.batch, MessageRoom()
        address = address_of(room.fill(Frames(batch.data, batch.offset, batch.length)))
        end = inf if passes is None else passes * RING
        started, done, step = time.monotonic(), 0, BURST if rate else RING
        while done < end and not over.is_set():
            if done % RING == 0:
                traffic.renew()
            self._put(address + done % RING * MMSGHDR.itemsize, step)
            done += step
            ahead = started + done / rate - time.monotonic() if rate else 0.0
            if ahead > 0:
                time.sleep(ahead)

    def _put(self, address: int, count: int) -> None:
        """All of them: a queue that is full is waited for."""
        sent = 0
        while sent < count:
            before = sent
            try:
                sent += send_messages(
                    self._socket.fileno(), address + sent * MMSGHDR.itemsize, count - sent
                )
                self.num_sent += sent - before
            except (BlockingIOError, InterruptedError):
                time.sleep(0)

    @contextmanager
    def sending(self, traffic: Traffic, rate: float) -> Iterator[threading.Thread]:
        """The sending thread; it ends with the traffic, or after the `with` block."""
        over = threading.Event()
        errors: list[BaseException] = []

        def run() -> None:
            try:
                self.send(traffic, rate, traffic.max_passes, over)
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield thread
        finally:
            over.set()
            thread.join()
        for error in errors:
            raise error

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
