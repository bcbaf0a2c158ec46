# SPDX-License-Identifier: Apache-2.0
"""Reports to named figures; measures nothing.

Ratios are of runs of one round, ours over the control's; the medians are given. All prompts of a
run come at once: the time to first token is the median over them, the throughput counts prompts'
and generated tokens, both as `vllm bench serve` reports them.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from bench.report import spread
from bench.vllm.plan import CONTROL, OURS
from bench.vllm.run import Outcome
from host_agent.vllm_plugin.choice import Choice
from incmoe.figures import Figure

TTFT, THROUGHPUT = "median_ttft_ms", "total_token_throughput"
HEADLINES = (
    ("vllm_ttft_over_gloo", TTFT, 0.67, "at most"),
    ("vllm_throughput_over_gloo", THROUGHPUT, 1.5, "at least"),
)


def figures(outcome: Outcome) -> Iterator[Figure]:
    """Everything that was measured, by name."""
    for name, field, limit, way in HEADLINES:
        pairs = zip(_values(outcome, OURS, field), _values(outcome, CONTROL, field), strict=True)
        ratios = [ours / control for ours, control in pairs]
        how = f"{way}; {spread(ratios)}; {setting(outcome)}"
        yield Figure(name, median(ratios), "ratio", limit, how)
    for choice in (OURS, CONTROL):
        times = [value / 1e3 for value in _values(outcome, choice, TTFT)]
        yield Figure(f"vllm_{choice}_ttft_s", median(times), "s", None, spread(times))
        rates = _values(outcome, choice, THROUGHPUT)
        yield Figure(f"vllm_{choice}_throughput", median(rates), "tokens/s", None, spread(rates))
        bytes_ = [float(num) for num in outcome.moved[choice]]
        how = f"busiest direction of a link, with vLLM's own; {spread(bytes_)}"
        yield Figure(f"vllm_{choice}_link_bytes", median(bytes_), "bytes", None, how)
        shares = [
            moved / outcome.plan.rate_bytes_s / report["duration"]
            for moved, report in zip(bytes_, outcome.reports[choice], strict=True)
        ]
        how = f"of the busiest direction, whole run; {spread(shares)}"
        yield Figure(f"vllm_{choice}_link_utilisation", median(shares), "1", None, how)
    yield Figure("vllm_frames_lost", outcome.frames_lost, "frames", 0, "by all links and shapers")


def setting(outcome: Outcome) -> str:
    """Return what was measured, in words."""
    plan, shape = outcome.plan, outcome.shape
    return (
        f"vLLM {outcome.version}, N={plan.num_ranks}, {plan.mode}, random weights: {shape.layers} "
        f"layers, hidden {shape.hidden}, top {shape.top_k} of {shape.experts} experts of "
        f"{shape.intermediate}; float32, {plan.num_prompts} prompts of {plan.input_len} tokens at "
        f"once, {plan.output_len} new ones, {plan.rate_bits_s / 1e6:g} Mbit/s links, "
        f"{plan.geometry}, bands of {plan.band_rows} rows"
    )


def _values(outcome: Outcome, choice: Choice, field: str) -> list[float]:
    return [float(report[field]) for report in outcome.reports[choice]]
