# SPDX-License-Identifier: Apache-2.0
"""Rounds of both on links of one rate: lays the links, starts switch and agents, takes turns."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from bench.collectives import job
from bench.collectives import links as shaped
from bench.collectives.cluster import Cluster
from bench.collectives.plan import VALUE_BYTES
from bench.collectives.plan import Plan as JobPlan
from bench.goodput import iperf
from bench.goodput.plan import GEOMETRY, RECEIVER, ROW_BYTES, SENDER, Plan
from bench.report import repairs
from incmoe.demo.network import Links
from incmoe.demo.plan import EMBEDDED
from incmoe.demo.processes import Supervisor
from incmoe.emulation.shaping import Rate

PROBE_S: Final = 1.0
PROBES: Final = 6
_HIGHEST: Final = 2.0  # times what arrives of an unlimited stream

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Round:
    """One run of each, by its own count of payload."""

    ours_bytes_s: float
    theirs_bytes_s: float
    ours_cores: tuple[float, float]  # in use by sender and receiver


@dataclass(frozen=True, slots=True)
class Outcome:
    """All rounds on links of one rate."""

    rate: str
    rounds: tuple[Round, ...]
    repairs: int  # pulls and repeats

    @property
    def ratio(self) -> float:
        """Ours over theirs, the median round."""
        return median(one.ours_bytes_s / one.theirs_bytes_s for one in self.rounds)


def measure(plan: Plan, rate: str, say: Say) -> Outcome:
    """Measure on links of one rate; DemoError when it cannot be done."""
    parsed = Rate.parse(rate)
    with (
        tempfile.TemporaryDirectory(prefix="incmoe-bench-") as name,
        shaped.opened(2, GEOMETRY, parsed.bit_s if parsed else None) as links,
        Supervisor(Path(name)) as supervisor,
    ):
        cluster = Cluster(Path(name), links, supervisor)
        plan.write(cluster.folder)
        cluster.start_switch(GEOMETRY, EMBEDDED)
        demand = JobPlan(num_ranks=2, num_slots=plan.num_slots, hidden=ROW_BYTES // VALUE_BYTES)
        job.write(job.install(demand, cluster.network), cluster.folder)
        cluster.start_ranks("bench.goodput.rank")
        offers = _offers(links)
        say(f"{rate}: iperf3 is to offer {', '.join(map(_text, offers))}")
        rounds = [_round(plan, cluster, offers, say) for _ in range(plan.rounds)]
        return Outcome(rate, tuple(rounds), repairs(cluster.dismiss()))


def _offers(links: Links) -> list[int]:
    """Unlimited; and, if much of that is lost, the highest rate (bits/s) at which little is."""
    unlimited = iperf.sent(links, iperf.UNLIMITED, PROBE_S)
    if unlimited.lost < iperf.MOST_LOST:
        return [iperf.UNLIMITED]
    low, high = 0.0, _HIGHEST * 8 * unlimited.bytes_s
    for _ in range(PROBES):
        middle = (low + high) / 2
        if iperf.sent(links, int(middle), PROBE_S).lost < iperf.MOST_LOST:
            low = middle
        else:
            high = middle
    return [iperf.UNLIMITED, int(low)]


def _text(offer: int) -> str:
    return f"{offer / 8e6:.0f} MB/s" if offer else "all it can"


def _round(plan: Plan, cluster: Cluster, offers: list[int], say: Say) -> Round:
    heard = [iperf.sent(cluster.links, offer, plan.seconds) for offer in offers]
    ran = cluster.run()
    mine = ran.told[SENDER]
    seconds = mine["ended"] - mine["began"]
    done = Round(
        mine["num_bytes"] / seconds,
        max(one.bytes_s for one in heard),
        (mine["cpu_s"] / seconds, ran.told[RECEIVER]["cpu_s"] / plan.seconds),
    )
    told = ", ".join(f"{one.bytes_s / 1e6:.0f} ({one.lost:.1%} lost)" for one in heard)
    say(f"  ours {done.ours_bytes_s / 1e6:.0f} MB/s, iperf3 {told}; load {os.getloadavg()[0]:.1f}")
    return done
