# SPDX-License-Identifier: Apache-2.0
"""One agent of the benchmark, on a core of its own: sends rows, or receives and answers them.

ready -> (run at a time -> ran)* -> quit -> counted
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from threading import Thread

import numpy as np
from numpy.typing import NDArray

from bench.collectives import job
from bench.goodput.plan import RECEIVER, ROW_BYTES, SENDER, Plan
from host_agent.endpoint import Endpoint, OutgoingBand
from host_agent.errors import AgentError, EndpointClosed
from host_agent.session import Pacing, RowFormat, Timers
from host_agent.sockets import bound_socket
from host_agent.wire import rank_set
from incmoe.demo.channel import Channel, run_child

ROW = RowFormat(ROW_BYTES, num_values=1)
TIMERS = Timers(pull_after_s=1.0, deadline_s=20.0)


def all_rows(blob: bytes) -> NDArray[np.bool_]:
    """Every row of a band is for the receiver; the blob is their number."""
    return np.ones(int.from_bytes(blob, "big"), bool)


class Sender:
    """Keeps the window full for a while."""

    def __init__(self, endpoint: Endpoint, plan: Plan) -> None:
        self._endpoint, self._seconds = endpoint, plan.seconds
        num = plan.band_rows
        self._blob = num.to_bytes(4, "big")
        self._rows = np.random.default_rng(0).integers(0, 256, (num, ROW_BYTES), np.uint8)
        self._members = np.full(num, rank_set(RECEIVER), np.uint64)
        self._ahead = plan.num_slots // num + 1
        self._sent = self._summed = 0

    def run(self) -> int:
        """Return the bytes of rows that were answered."""
        until, before = time.monotonic() + self._seconds, self._summed
        while self._sent > self._summed or time.monotonic() < until:
            while self._sent - self._summed < self._ahead and time.monotonic() < until:
                self._send()
            if self._sent > self._summed:
                self._endpoint.wait_sums(0, self._summed)
                self._summed += 1
        return (self._summed - before) * self._rows.nbytes

    def _send(self) -> None:
        exponents = np.zeros(len(self._rows), np.int8)
        band = OutgoingBand(0, self._sent, self._blob, self._rows, self._members, exponents)
        self._endpoint.send_band(band)
        self._sent += 1


class Receiver:
    """Answers, in a thread of its own, whenever something comes."""

    def __init__(self, endpoint: Endpoint, plan: Plan) -> None:
        self._endpoint, self._seconds = endpoint, plan.seconds
        self._ones = np.ones((plan.band_rows, ROW.num_values), np.float32)
        Thread(target=self._answer, daemon=True).start()

    def run(self) -> int:
        """Let it go on for a while; the sender counts."""
        time.sleep(self._seconds)
        return 0

    def _answer(self) -> None:
        """Receive all bands that come, and add a one to the sum of each row."""
        with suppress(EndpointClosed):
            for band in count():
                incoming = self._endpoint.receive_band(SENDER, 0, band)
                self._endpoint.contribute(SENDER, incoming.numbers, self._ones)


def serve(channel: Channel, folder: Path, rank: int, ip: str) -> None:
    """The process's work."""
    os.sched_setaffinity(0, {rank})
    plan = Plan.read(folder)
    pacing = Pacing(burst_bytes=plan.burst_bytes, look_every_s=plan.look_every_s)
    session = job.ticket(folder, rank).session(rank, ROW, timers=TIMERS, pacing=pacing)
    endpoint = Endpoint(session, all_rows, bound=bound_socket(ip, job.UDP_PORT))
    endpoint.check_switch()
    role = (Sender if rank == SENDER else Receiver)(endpoint, plan)
    channel.report("ready")
    while (command := channel.next_command())["do"] == "run":
        time.sleep(max(command["at"] - time.monotonic(), 0.0))
        began, cpu_s = time.monotonic(), time.process_time()
        num_bytes = role.run()
        took = {"began": began, "ended": time.monotonic(), "cpu_s": time.process_time() - cpu_s}
        channel.report("ran", num_bytes=num_bytes, **took)
    channel.report("counted", counts=endpoint.stats())
    endpoint.abort()


def main() -> None:
    """The process: `rank FOLDER RANK RANK_IP...`."""
    folder, rank, *ips = sys.argv[1:]
    body = partial(serve, folder=Path(folder), rank=int(rank), ip=ips[int(rank)])
    sys.exit(run_child(body, expected=(AgentError,)))


if __name__ == "__main__":
    main()
