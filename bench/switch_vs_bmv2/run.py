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
from bench.switch_vs_bmv2.contestants import Counters, running
from bench.switch_vs_bmv2.figures import Passed, Rates
from bench.switch_vs_bmv2.flood import UNLIMITED, Arrivals, Sender
from bench.switch_vs_bmv2.plan import BARE, DISPATCH, FORWARD, GEOMETRY, KINDS_OF, Plan
from bench.switch_vs_bmv2.traffic import ARM_PASSES, RING, Traffic, traffic
from incmoe.demo import veth
from incmoe.demo.errors import DemoError
from incmoe.demo.network import Links
from incmoe.demo.plan import BMV2, EMBEDDED

Say = Callable[[str], None]
STEP: Final = 1.5  # from one offer to the next, until not all gets through
ALL: Final = 0.9  # what counts as all
SLOW: Final = {EMBEDDED: 40_000.0, BMV2: 4000.0, BARE: 40_000.0}  # frames/s that each takes
ARM_TRIES: Final = 4
SETTLE_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Bench:
    """One contestant between the links."""

    plan: Plan
    senders: dict[int, Sender]  # by port
    arrivals: Arrivals  # at the rank of job.MEMBER_PORT
    counters: Counters
    slow: float  # frames/s that it takes without loss

    def rate(self, kind: str, offered: float, seconds: float) -> Passed:
        """Frames of a kind that get through in a second while so many are offered."""
        sent, count = self._armed(kind), self._counter(kind)
        sender = self.senders[sent.port]
        with sender.sending(sent, offered) as sending:
            time.sleep(self.plan.warm_s)
            first = _counted(count, sender)
            sending.join(seconds)
            last = _counted(count, sender)
        time.sleep(SETTLE_S)
        seconds = last.at_s - first.at_s
        return Passed((last.came - first.came) / seconds, (last.sent - first.sent) / seconds)

    def check(self, kind: str) -> None:
        """What comes slowly gets through whole and once; DemoError if not."""
        sent, count = self._armed(kind), self._counter(kind)
        before = count()
        self._send_slowly(sent, 1, self.slow)
        found = count() - before
        if found != RING:
            raise DemoError(f"of {RING} frames of {kind}, sent slowly, {found} were counted")

    def _armed(self, kind: str) -> Traffic:
        sent = traffic(kind)
        if sent.arming is not None:
            self._arm(sent.arming)
        return sent

    def _arm(self, arming: Traffic) -> None:
        """Has rows in all slots; one that is there already changes nothing."""
        for slower in range(ARM_TRIES):
            before = self.counters.dispatched()
            self._send_slowly(arming, ARM_PASSES, self.slow / 2**slower)
            if self.counters.dispatched() - before == job.NUM_SLOTS:
                return
        raise DemoError(f"rows are lost even at {self.slow / 2**slower:.0f} a second")

    def _counter(self, kind: str) -> Callable[[], int]:
        return self.arrivals.count if kind in (FORWARD, DISPATCH) else self.counters.collected

    def _send_slowly(self, sent: Traffic, passes: int, rate: float) -> None:
        self.senders[sent.port].send(sent, rate, passes, threading.Event())
        time.sleep(SETTLE_S)

    def overloaded(self, kind: str, offer: float, seconds: float) -> tuple[Passed, float]:
        """What gets through when not all that is asked of the sender does, and what was asked."""
        found = self.rate(kind, offer, seconds)
        while found.rate > ALL * offer:
            offer *= STEP
            found = self.rate(kind, offer, seconds)
        return found, offer

    def offer(self, kind: str) -> float:
        """What is more than gets through."""
        flooded = self.rate(kind, UNLIMITED, self.plan.probe_s).rate
        return self.overloaded(kind, STEP * flooded, self.plan.probe_s)[1]


@dataclass(frozen=True, slots=True)
class _Counted:
    """Frames that came, and when and after how many that were sent that was counted."""

    came: int
    at_s: float
    sent: float


def _counted(count: Callable[[], int], sender: Sender) -> _Counted:
    """Counting takes a while: the middle of it is its time."""
    begun_s, before = time.monotonic(), sender.num_sent
    came = count()
    return _Counted(came, (begun_s + time.monotonic()) / 2, (before + sender.num_sent) / 2)


def measure(plan: Plan, names: list[str], say: Say) -> Rates:
    """All rounds of these contestants; DemoError when it cannot be done."""
    rates: Rates = {}
    with veth.opened(job.NUM_PORTS, GEOMETRY) as links:
        offers = {name: _offers(plan, links, name, say) for name in names}
        for number in range(1, plan.rounds + 1):
            for name in names:
                with _between(links, name, plan) as bench:
                    for kind, last in offers[name].items():
                        found, offer = bench.overloaded(kind, last, plan.seconds)
                        offers[name][kind] = offer
                        rates.setdefault((name, kind), []).append(found)
                        rate, sent = found.rate, found.sent
                        say(f"{number}: {name:9} {kind:11} {rate:9.0f}/s of {sent:.0f}/s")
    return rates


def _offers(plan: Plan, links: Links, name: str, say: Say) -> dict[str, float]:
    """What to offer a contestant of each kind that it takes."""
    offers = {}
    with _between(links, name, plan) as bench:
        for kind in (one for one in plan.kinds if one in KINDS_OF[name]):
            bench.check(kind)
            offers[kind] = bench.offer(kind)
    say(f"{name} is offered {', '.join(f'{offer:.0f}/s' for offer in offers.values())}")
    return offers


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
        counters = opened.enter_context(running(name, links, folder))
        yield Bench(plan, senders, arrivals, counters, SLOW[name])
