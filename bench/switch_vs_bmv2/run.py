# SPDX-License-Identifier: Apache-2.0
"""The rounds: each contestant in turn is started, given each kind of traffic, and counted."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.switch_vs_bmv2 import job
from bench.switch_vs_bmv2.contestants import running
from bench.switch_vs_bmv2.figures import Rates
from bench.switch_vs_bmv2.flood import UNLIMITED, Arrivals, Sender
from bench.switch_vs_bmv2.plan import DISPATCH, FORWARD, GEOMETRY, KINDS_OF, Plan
from bench.switch_vs_bmv2.traffic import ARM_PASSES, Traffic, traffic
from incmoe.demo import veth
from incmoe.demo.network import Links

Say = Callable[[str], None]
MULTIPLES: Final = (1.25, 2.0)  # of what was done of a flood, that are offered as well
ARM_RATE: Final = 4000.0  # frames/s that even the slowest switch takes
SETTLE_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class Bench:
    """One contestant between the links."""

    plan: Plan
    senders: dict[int, Sender]  # by port
    arrivals: Arrivals  # at the rank of job.MEMBER_PORT
    collected: Callable[[], int]

    def rate(self, kind: str, offered: float, seconds: float) -> float:
        """Frames of a kind that get through in a second while so many are offered."""
        sent = traffic(kind)
        if sent.arming is not None:
            self._arm(sent.arming)
        count = self.arrivals.count if kind in (FORWARD, DISPATCH) else self.collected
        with self.senders[sent.port].sending(sent, offered) as sending:
            time.sleep(self.plan.warm_s)
            first, begun = _timed(count)
            sending.join(seconds)
            last, ended = _timed(count)
        time.sleep(SETTLE_S)
        return (last - first) / (ended - begun)

    def _arm(self, arming: Traffic) -> None:
        self.senders[arming.port].send(arming, ARM_RATE, ARM_PASSES, threading.Event())
        time.sleep(SETTLE_S)

    def best_offer(self, kind: str) -> float:
        """What to offer for the most to get through."""
        probe_s = self.plan.probe_s
        flooded = self.rate(kind, UNLIMITED, probe_s)
        tried = {offer: self.rate(kind, offer, probe_s) for offer in _offers(flooded)}
        return max({UNLIMITED: flooded} | tried, key=lambda offer: tried.get(offer, flooded))


def _offers(flooded: float) -> list[float]:
    return [multiple * flooded for multiple in MULTIPLES]


def _timed(count: Callable[[], int]) -> tuple[int, float]:
    """A count and when it was taken."""
    before = time.monotonic()
    found = count()
    return found, (before + time.monotonic()) / 2


def measure(plan: Plan, names: list[str], say: Say) -> Rates:
    """All rounds of these contestants; DemoError when it cannot be done."""
    rates: Rates = {}
    offers: dict[tuple[str, str], float] = {}
    with veth.opened(job.NUM_PORTS, GEOMETRY) as links:
        for number in range(plan.rounds + 1):
            for name in names:
                with _between(links, name, plan) as bench:
                    for kind in KINDS_OF[name]:
                        if number == 0:
                            offers[name, kind] = bench.best_offer(kind)
                            continue
                        found = bench.rate(kind, offers[name, kind], plan.seconds)
                        rates.setdefault((name, kind), []).append(found)
                        offered = f"{offers[name, kind]:.0f}/s" if offers[name, kind] else "a flood"
                        say(f"{number}: {name:9} {kind:11} {found:9.0f}/s of {offered}")
    return rates


@contextmanager
def _between(links: Links, name: str, plan: Plan) -> Iterator[Bench]:
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="incmoe-bench-")))
        senders = {}
        for port in (job.OWNER_PORT, job.MEMBER_PORT):
            senders[port] = Sender(links.attachments[port - 1])
            opened.callback(senders[port].close)
        arrivals = Arrivals(links.attachments[job.MEMBER_PORT - 1])
        opened.callback(arrivals.close)
        collected = opened.enter_context(running(name, links, folder))
        yield Bench(plan, senders, arrivals, collected)
