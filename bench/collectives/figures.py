# SPDX-License-Identifier: Apache-2.0
"""Samples to named figures, held against the byte model; measures nothing.

Bytes on a link's busiest direction, and so the time times the rate:

    ring, mpi 2(N-1) M     static N M     routed (D+1) M     all-to-all 2 D M

M: bytes of one rank's rows. D: mean number of other ranks that a row needs. A ratio to "ring" is to
the faster of our own ring and MPI's.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from bench.collectives.plan import ALL_TO_ALL, GLOO, MPI, RING, ROUTED, STATIC
from bench.collectives.run import Outcome, Sample
from bench.report import faults, repairs, spread
from incmoe.demo.plan import BMV2
from incmoe.figures import Figure

SLACK = 1.05  # of a ratio of times over the ratio of their bounds
RING_SLACK = 1.10  # of the ring's time over its own bound
FAIR = 1.25  # a baseline that takes more of its own bound lost packets: nothing is claimed of it
BYTES_SLACK = 1.03


def model_bytes(outcome: Outcome, scheme: str) -> float:
    """Return the bytes of payload on a link's direction, the mean over ranks."""
    num, own, fanout = outcome.plan.num_ranks, outcome.plan.own_bytes, outcome.routes.fanout
    factors = {
        RING: 2.0 * (num - 1),
        STATIC: float(num),
        ROUTED: fanout + 1,
        ALL_TO_ALL: 2 * fanout,
        GLOO: 2.0 * (num - 1),
        MPI: 2.0 * (num - 1),
    }
    return factors[scheme] * own


def busiest_bytes(outcome: Outcome, scheme: str) -> float:
    """Return the bytes of payload on the busiest direction of the busiest rank."""
    if scheme not in (ROUTED, ALL_TO_ALL):
        return model_bytes(outcome, scheme)
    copies, row_bytes = outcome.routes.copies, outcome.plan.row_bytes
    others = copies.sum(axis=0)  # rows of others that need a rank
    mine = outcome.routes.own_sent() if scheme == ROUTED else copies.sum(axis=1)
    return float((others + mine).max() * row_bytes)


def of(outcome: Outcome, scheme: str) -> list[Sample]:
    """Return the samples of a scheme, in order."""
    return [sample for sample in outcome.samples if sample.scheme == scheme]


def figures(outcome: Outcome) -> Iterator[Figure]:
    """Everything that was measured, by name."""
    yield from _ratios(outcome)
    for scheme in outcome.plan.schemes:
        yield from _of_scheme(outcome, scheme)
    yield from _bytes_over_model(outcome)
    lost = sum(one.lost for sample in outcome.samples for one in sample.moved)
    yield from faults(lost + outcome.shapers_dropped, repairs(outcome.counts))


def _bytes_over_model(outcome: Outcome) -> Iterator[Figure]:
    ratios = [
        sample.worst_bytes / busiest_bytes(outcome, sample.scheme)
        for sample in outcome.samples
        if sample.scheme in (STATIC, ROUTED)
    ]
    how = "kernel counters over payload by the model, the worst of any in-network run"
    name = "bytes_over_model" + ("_bmv2" if outcome.plan.switch == BMV2 else "")
    if ratios:
        yield Figure(name, max(ratios), "ratio", BYTES_SLACK, how)


def yardstick(outcome: Outcome) -> str | None:
    """Return the faster of the rings that were measured."""
    rings = [scheme for scheme in (RING, MPI) if scheme in outcome.plan.schemes]
    return min(rings, key=lambda scheme: _median_s(outcome, scheme), default=None)


def _median_s(outcome: Outcome, scheme: str) -> float:
    return median(sample.seconds for sample in of(outcome, scheme))


def _ratios(outcome: Outcome) -> Iterator[Figure]:
    ring = yardstick(outcome)
    pairs = [
        ("static_over_ring", STATIC, ring),
        ("routed_over_ring", ROUTED, ring),
        ("routed_over_alltoall", ROUTED, ALL_TO_ALL),
        ("gloo_over_ring", GLOO, ring),
    ]
    for name, above, below in pairs:
        if above in outcome.plan.schemes and below in outcome.plan.schemes:
            bound = model_bytes(outcome, above) / model_bytes(outcome, below)
            fair = above != GLOO and over_bound(outcome, below) <= FAIR
            limit = SLACK * bound if fair else None
            yield _ratio(outcome, name, (above, below), limit)


def over_bound(outcome: Outcome, scheme: str) -> float:
    """Return a scheme's time over the payload of its busiest direction / rate."""
    bound_s = busiest_bytes(outcome, scheme) / outcome.plan.rate_bytes_s
    return _median_s(outcome, scheme) / bound_s


def _ratio(outcome: Outcome, name: str, pair: tuple[str, str], limit: float | None) -> Figure:
    above, below = (of(outcome, scheme) for scheme in pair)
    ratios = [a.seconds / b.seconds for a, b in zip(above, below, strict=True)]
    how = f"time of {pair[0]} over {pair[1]}, {spread(ratios)}; {setting(outcome)}"
    return Figure(_name(outcome, name), median(ratios), "ratio", limit, how)


def _name(outcome: Outcome, name: str) -> str:
    suffix = "_bmv2" if outcome.plan.switch == BMV2 else ""
    return f"{name}_n{outcome.plan.num_ranks}{suffix}"


def _of_scheme(outcome: Outcome, scheme: str) -> Iterator[Figure]:
    samples, plan = of(outcome, scheme), outcome.plan
    seconds = [sample.seconds for sample in samples]
    yield Figure(_name(outcome, f"{scheme}_s"), median(seconds), "s", None, spread(seconds))
    bound_s = busiest_bytes(outcome, scheme) / plan.rate_bytes_s
    limit = RING_SLACK if scheme == yardstick(outcome) else None
    over = [each / bound_s for each in seconds]
    how = f"time over payload bytes of the busiest direction / rate; {spread(over)}"
    yield Figure(_name(outcome, f"{scheme}_over_bound"), median(over), "ratio", limit, how)
    counted = median(sample.worst_bytes for sample in samples)
    how = "kernel counters of the busiest direction of any rank"
    yield Figure(_name(outcome, f"{scheme}_bytes"), counted, "bytes", None, how)
    how = "the same without headers, by the model"
    payload = busiest_bytes(outcome, scheme)
    yield Figure(_name(outcome, f"{scheme}_payload_bytes"), payload, "bytes", None, how)
    use = [sample.worst_bytes / plan.rate_bytes_s / sample.seconds for sample in samples]
    how = "bytes of the busiest direction over rate x time"
    yield Figure(_name(outcome, f"{scheme}_link_utilisation"), median(use), "1", None, how)
    cpu = [sample.cpu_s / sample.seconds / outcome.num_cores for sample in samples]
    how = f"of {outcome.num_cores} cores, used by the switch and all ranks"
    yield Figure(_name(outcome, f"{scheme}_cpu_share"), median(cpu), "1", None, how)


def setting(outcome: Outcome) -> str:
    """Return what was measured, in words."""
    plan = outcome.plan
    return (
        f"N={plan.num_ranks}, {plan.tokens} float32 rows of hidden {plan.hidden} a rank, "
        f"{plan.rate_bits_s / 1e6:g} Mbit/s links, {plan.geometry}, {plan.switch} switch, bands of "
        f"{plan.band_rows} rows, window {plan.num_slots}, {plan.routing} routing, "
        f"D={outcome.routes.fanout:.3f}"
    )
