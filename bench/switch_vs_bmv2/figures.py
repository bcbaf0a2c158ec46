# SPDX-License-Identifier: Apache-2.0
"""What was measured, as named figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Final

from bench.report import spread
from bench.switch_vs_bmv2.plan import BARE, FORWARD, KINDS, LEAST, MOST_COMPILE_S
from incmoe.demo.plan import BMV2, EMBEDDED
from incmoe.figures import Figure

_ALL_SENT: Final = 0.97  # of what was sent: the switch may have had room for more


@dataclass(frozen=True, slots=True)
class Passed:
    """Frames/s that got through, and that the sender sent meanwhile."""

    rate: float
    sent: float


Rates = dict[tuple[str, str], list[Passed]]  # of each round, by contestant and kind

_HOW = {
    "forward": "frames of 64 bytes forwarded by MAC address",
    "dispatch": "rows of 1 KiB, four copies of which three are pruned",
    "contrib_1k": "partial rows of 1 KiB added",
    "contrib_4k": "partial rows of 4 KiB added",
}


def ratios(rates: Rates) -> Iterator[Figure]:
    """Ours over the others', round by round."""
    for other, kinds in ((BMV2, KINDS), (BARE, (FORWARD,))):
        for kind in kinds:
            if (other, kind) in rates:
                yield _ratio(f"{kind}_over_{other}", rates[EMBEDDED, kind], rates[other, kind])


def _ratio(name: str, ours: list[Passed], theirs: list[Passed]) -> Figure:
    each = [one.rate / other.rate for one, other in zip(ours, theirs, strict=True)]
    what = _HOW[name.partition("_over_")[0]]
    how = f"at least; {what}; {spread(each)}{_limits('ours', ours)}{_limits('theirs', theirs)}"
    return Figure(name, median(each), "ratio", LEAST[name], how)


def _limits(whose: str, rounds: list[Passed]) -> str:
    """Where the sender was the limit: a ratio that has it below is too high, else too low."""
    num = sum(one.rate > _ALL_SENT * one.sent for one in rounds)
    return f"; {whose} limited by the sender in {num} rounds" if num else ""


def alone(packets_s: Mapping[str, float], rates: Rates) -> Iterator[Figure]:
    """The pipeline without ports; over BMv2 with them, and the least of all kinds."""
    over = {
        kind: value / median(one.rate for one in rates[BMV2, kind])
        for kind, value in packets_s.items()
        if (BMV2, kind) in rates
    }
    if over:
        worst = min(over, key=lambda kind: over[kind])
        listed = ", ".join(f"{kind} {value:.0f}" for kind, value in over.items())
        name = "pipeline_over_bmv2"
        how = f"at least; the engine in a loop, {worst}; of {listed}"
        yield Figure(name, over[worst], "ratio", LEAST[name], how)
    for kind, value in packets_s.items():
        yield Figure(f"{kind}_per_s_pipeline", value, "1/s", None, f"{_HOW[kind]}; no ports")


def packets(rates: Rates) -> Iterator[Figure]:
    """What got through in a second."""
    for (name, kind), rounds in rates.items():
        values = [one.rate for one in rounds]
        sent = median(one.sent for one in rounds)
        how = f"median, {min(values):.0f} to {max(values):.0f}, of {sent:.0f} sent"
        yield Figure(f"{kind}_per_s_{name}", median(values), "1/s", None, how)


def compiling(seconds: list[float]) -> Figure:
    """How long a program takes."""
    how = f"at most; inc_mtu9000.json to the first packet; most of {len(seconds)}"
    return Figure("compile_s", max(seconds), "s", MOST_COMPILE_S, how)
