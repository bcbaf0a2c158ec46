# SPDX-License-Identifier: Apache-2.0
"""iperf3's UDP goodput between two namespaces, each end on a core of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from bench.goodput.plan import RECEIVER, ROW_BYTES, SENDER
from incmoe.demo.errors import DemoError
from incmoe.demo.namespaces import inside, run
from incmoe.demo.network import Attachment, Links

MOST_LOST: Final = 0.01
UNLIMITED: Final = 0
BUFFER: Final = "4M"
_ATTEMPTS: Final = 20
_BETWEEN_ATTEMPTS_S: Final = 0.2
_PATIENCE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Heard:
    """What the receiver counted."""

    offered_bytes_s: float
    bytes_s: float
    lost: float  # share of the datagrams


def check() -> None:
    """DemoError when it is not installed."""
    if shutil.which("iperf3") is None:
        raise DemoError("iperf3 is not installed (package iperf3)")


def sent(links: Links, bits_s: int, seconds: float) -> Heard:
    """Offer datagrams at a rate; `UNLIMITED` for as fast as it can."""
    sender, receiver = (links.attachments[rank] for rank in (SENDER, RECEIVER))
    words = f"iperf3 -c {receiver.rank_ip} -u -b {bits_s} -l {ROW_BYTES} -t {seconds} -w {BUFFER}"
    words += f" -A {SENDER},{RECEIVER} --json"
    with _listening(receiver):
        told: dict[str, Any] = json.loads(run([*inside(sender.namespace), *words.split()]))
    offered, got = told["end"]["sum_sent"], told["end"]["sum_received"]
    received = got["packets"] - got["lost_packets"]
    share = got["lost_packets"] / max(got["packets"], 1)
    bytes_s = received * ROW_BYTES / got["seconds"]
    return Heard(offered["bits_per_second"] / 8, bytes_s, share)


@contextmanager
def _listening(at: Attachment) -> Iterator[None]:
    """A server for one client."""
    server = subprocess.Popen(
        [*inside(at.namespace), "iperf3", "-s", "-1"], stdout=subprocess.DEVNULL
    )
    try:
        _await_listener(at)
        yield
        server.wait(_PATIENCE_S)
    finally:
        server.kill()
        server.wait()


def _await_listener(at: Attachment) -> None:
    for _ in range(_ATTEMPTS):
        if run([*inside(at.namespace), "ss", "-Hlt", "sport", "=", "5201"]):
            return
        time.sleep(_BETWEEN_ATTEMPTS_S)
    raise DemoError("iperf3 does not listen")
