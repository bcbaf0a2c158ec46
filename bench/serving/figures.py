# SPDX-License-Identifier: Apache-2.0
"""Samples to named figures; measures nothing.

    time to first token   from the first rank's start until every rank has its first token
    throughput            tokens of all ranks, prompts' and generated, over the time from the first
                          rank's start until every rank has its last token
    decode rate           generated tokens but the first, over the time between the above two

Ratios are of runs of the same round; the medians are given. A headline is that of the scheme of
ours that does better, at the prompts where it does worst, among those where the links alone
(payload of a ring, over the rate) take at least half of the ring's time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median

from bench.collectives.cluster import Ran
from bench.collectives.links import busiest
from bench.collectives.plan import GLOO, RING, VALUE_BYTES
from bench.report import faults, spread
from bench.serving.pipeline import BOTH, COMMUNICATION, COMPUTATION
from bench.serving.plan import IN_NETWORK, Prompts
from bench.serving.run import Outcome
from incmoe.demo.plan import BMV2
from incmoe.figures import Figure

LEAST_SHARE = 0.5  # of links in the ring's time, for a claim
LIMITS = {"ttft_over_ring": 0.67, "ttft_over_gloo": 0.62, "pipeline_over_max_stage": 1.10}
FLOORS = {"throughput_over_ring": 1.5, "throughput_over_gloo": 1.6}

Measure = Callable[[Outcome, Prompts, Ran], float]


def ttft_s(_outcome: Outcome, _prompts: Prompts, ran: Ran) -> float:
    """Return the time to first token."""
    return float(max(one["first"] for one in ran.told) - ran.began)


def throughput(outcome: Outcome, prompts: Prompts, ran: Ran) -> float:
    """Return tokens a second."""
    tokens = prompts.tokens + outcome.plan.new_tokens
    return outcome.plan.num_ranks * prompts.batch * tokens / ran.seconds


def decode_rate(outcome: Outcome, prompts: Prompts, ran: Ran) -> float:
    """Return generated tokens a second."""
    tokens = outcome.plan.num_ranks * prompts.batch * (outcome.plan.new_tokens - 1)
    return tokens / (ran.seconds - ttft_s(outcome, prompts, ran))


def link_share(outcome: Outcome, prompts: Prompts, *, whole: bool) -> float:
    """Return how much of the ring's time its bytes need on a link: of all, or of the prefill."""
    plan, shape = outcome.plan, outcome.shape
    rows = prompts.tokens + (plan.new_tokens - 1 if whole else 0)
    own_bytes = prompts.batch * rows * shape.layers * shape.hidden * VALUE_BYTES
    link_s = 2 * (plan.num_ranks - 1) * own_bytes / plan.rate_bytes_s
    runs = outcome.served[RING, str(prompts)]
    times = [run.seconds if whole else ttft_s(outcome, prompts, run) for run in runs]
    return link_s / median(times)


def figures(outcome: Outcome) -> Iterator[Figure]:
    """Everything that was measured, by name."""
    for baseline in (RING, GLOO):
        if baseline in outcome.plan.schemes:
            yield from _ratios(outcome, baseline, "ttft", ttft_s)
            yield from _ratios(outcome, baseline, "throughput", throughput)
    yield from _pipelines(outcome)
    for prompts in outcome.plan.prompts:
        for scheme in outcome.plan.schemes:
            yield from _of(outcome, scheme, prompts)
    yield from _faults(outcome)


def _ratios(outcome: Outcome, baseline: str, what: str, measure: Measure) -> Iterator[Figure]:
    """Yield the headline, then the ratio of each of our schemes at each prompts."""
    name, found = f"{what}_over_{baseline}", []
    for scheme in _ours(outcome):
        for prompts in outcome.plan.prompts:
            pairs = zip(
                _runs(outcome, scheme, prompts), _runs(outcome, baseline, prompts), strict=True
            )
            ratios = [measure(outcome, prompts, a) / measure(outcome, prompts, b) for a, b in pairs]
            how = f"{scheme} over {baseline}, {spread(ratios)}; prompts {prompts}"
            one = Figure(
                _name(outcome, f"{name}_{scheme}_{prompts}"), median(ratios), "ratio", None, how
            )
            found.append((scheme, prompts, one))
    yield from _headline(outcome, name, found)
    yield from (one for _, _, one in found)


def _headline(
    outcome: Outcome, name: str, found: list[tuple[str, Prompts, Figure]]
) -> Iterator[Figure]:
    more = name in FLOORS  # is better, and is of the whole run
    claimed = [
        (scheme, one)
        for scheme, prompts, one in found
        if RING in outcome.plan.schemes and link_share(outcome, prompts, whole=more) >= LEAST_SHARE
    ]
    if not claimed:
        return
    worst, best = (min, max) if more else (max, min)
    by_scheme = [
        worst((one for of, one in claimed if of == scheme), key=lambda one: one.value)
        for scheme in _ours(outcome)
    ]
    headline = best(by_scheme, key=lambda one: one.value)
    limit = FLOORS[name] if more else LIMITS[name]
    how = f"{'at least' if more else 'at most'}; {headline.how}; {setting(outcome)}"
    yield Figure(_name(outcome, name), headline.value, "ratio", limit, how)


def _pipelines(outcome: Outcome) -> Iterator[Figure]:
    name, found = "pipeline_over_max_stage", []
    for scheme in _ours(outcome):
        parts = [outcome.pipelines[scheme, part] for part in (BOTH, COMMUNICATION, COMPUTATION)]
        times = [[ran.seconds for ran in runs] for runs in parts]
        ratios = [both / max(stages) for both, *stages in zip(*times, strict=True)]
        middle = ", ".join(f"{median(one):.3f}" for one in times)
        how = f"{scheme}, {spread(ratios)}; both, communication, computation: {middle} s"
        value = median(ratios)
        found.append(Figure(_name(outcome, f"{name}_{scheme}"), value, "ratio", LIMITS[name], how))
    if found:
        best = min(found, key=lambda one: one.value)
        how = f"at most; {best.how}; {setting(outcome)}"
        yield Figure(_name(outcome, name), best.value, "ratio", LIMITS[name], how)
    yield from found


def _of(outcome: Outcome, scheme: str, prompts: Prompts) -> Iterator[Figure]:
    runs = _runs(outcome, scheme, prompts)

    def figure(name: str, values: list[float], unit: str, how: str) -> Figure:
        full = _name(outcome, f"{scheme}_{name}_{prompts}")
        return Figure(full, median(values), unit, None, f"{how}{spread(values)}")

    yield figure("ttft_s", [ttft_s(outcome, prompts, run) for run in runs], "s", "")
    rates = [throughput(outcome, prompts, run) for run in runs]
    yield figure("throughput", rates, "tokens/s", "prompts' and generated; ")
    rates = [decode_rate(outcome, prompts, run) for run in runs]
    yield figure("decode", rates, "tokens/s", "generated after the first; ")
    shares = [max(one["moving_s"] for one in run.told) / run.seconds for run in runs]
    yield figure("moving_share", shares, "1", "dispatch or combine under way, whole run; ")
    shares = [run.cpu_s / run.seconds / outcome.num_cores for run in runs]
    yield figure("cpu_share", shares, "1", f"of {outcome.num_cores} cores, switch and ranks; ")
    rate = outcome.plan.rate_bytes_s
    use = [busiest(run.moved) / rate / run.seconds for run in runs]
    yield figure("link_utilisation", use, "1", "busiest direction, whole run; ")
    if scheme == RING:
        for name, whole in (("ttft", False), ("throughput", True)):
            share = [link_share(outcome, prompts, whole=whole)]
            yield figure(f"link_share_{name}", share, "1", "payload over rate x time; ")


def _faults(outcome: Outcome) -> Iterator[Figure]:
    every = [
        ran for runs in (*outcome.served.values(), *outcome.pipelines.values()) for ran in runs
    ]
    lost = sum(one.lost for ran in every for one in ran.moved) + outcome.shapers_dropped
    yield from faults(lost, sum(one["repairs"] for ran in every for one in ran.told))
    off = [
        one["logit_difference"]
        for runs in outcome.served.values()
        for ran in runs
        for one in ran.told
    ]
    how = "of any logit from the whole model's in one process; all tokens are equal"
    yield Figure("logit_difference", max(off), "1", None, how)


def _runs(outcome: Outcome, scheme: str, prompts: Prompts) -> list[Ran]:
    return outcome.served[scheme, str(prompts)]


def _ours(outcome: Outcome) -> list[str]:
    return [scheme for scheme in IN_NETWORK if scheme in outcome.plan.schemes]


def _name(outcome: Outcome, name: str) -> str:
    return f"{name}_bmv2" if outcome.plan.switch == BMV2 else name


def setting(outcome: Outcome) -> str:
    """Return what was measured, in words."""
    plan, shape = outcome.plan, outcome.shape
    return (
        f"N={plan.num_ranks}, {plan.random_model or plan.model or 'checked-in'} model: "
        f"{shape.layers} layers, hidden {shape.hidden}, top {shape.top_k} of {shape.experts} "
        f"experts of {shape.intermediate}; float32, {plan.new_tokens} new tokens, "
        f"{plan.rate_bits_s / 1e6:g} Mbit/s links, {plan.geometry}, {plan.switch} switch, bands of "
        f"{plan.band_rows} rows, window {plan.window}"
    )
