# SPDX-License-Identifier: Apache-2.0
"""A run's outcome as named figures in a JSON file; prints nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from incmoe.demo.outcome import BOUNDS, Outcome
from incmoe.demo.plan import PHASES
from incmoe.figures import Figure, write_figures


def figures(outcome: Outcome) -> Iterator[Figure]:
    """All figures of a run."""
    exact = outcome.plan.lane_bits == 32
    one_process = "beside the same model in one process, same prompts, greedy"
    for mode, result in outcome.modes.items():
        equal = float(result.match.all_tokens_equal)
        limit = 1 if exact else None
        yield Figure(f"tokens_equal_{mode}", equal, "", limit, one_process)
        yield Figure(f"loss_{mode}", result.match.loss, "nats/token", None, "prompts, all ranks")
    matches = [result.match for result in outcome.modes.values()]
    worst = max(match.max_logit_difference for match in matches)
    yield Figure("max_logit_difference", worst, "", None, one_process)
    yield Figure("loss_reference", matches[0].reference_loss, "nats/token", None, "one process")
    for phase in PHASES:
        yield from _traffic(outcome, phase)
    for mode, result in outcome.modes.items():
        for name, count in sorted(result.transport.items()):
            yield Figure(f"{name}_{mode}", count, "packets", None, "summed over the ranks")
        lost = sum(result.losses.values())
        yield Figure(f"lost_{mode}", lost, "frames", None, "at the switch's ports, both ways")


def _traffic(outcome: Outcome, phase: str) -> Iterator[Figure]:
    demand = outcome.demand[phase]
    how = f"hidden {outcome.shape.hidden}, N={demand.num_ranks}"
    yield Figure(f"own_bytes_{phase}", demand.own_bytes, "bytes", None, f"M; {how}")
    yield Figure(f"mean_other_ranks_{phase}", demand.mean_others, "", None, "D, from the routing")
    yield Figure(f"bytes_ring_{phase}", demand.ring_bytes, "bytes", None, f"2(N-1)M; {how}")
    for mode, result in outcome.modes.items():
        measured = result.phases[phase]
        bound, name = outcome.bound(mode, phase), BOUNDS[mode]
        counted = f"busiest rank and direction, by {outcome.counted_by}; {how}"
        yield Figure(f"bytes_{mode}_{phase}", measured.busiest(), "bytes", None, counted)
        if bound:
            over = measured.busiest() / bound
            yield Figure(f"bytes_{mode}_{phase}_over_bound", over, "", None, f"over {name}; {how}")
        yield Figure(f"seconds_{mode}_{phase}", measured.seconds, "s", None, "slowest rank")
        overlap = min(stages.overlap for stages in measured.stages)
        hidden = "stage time hidden behind other stages, worst rank"
        yield Figure(f"overlap_{mode}_{phase}", overlap, "", None, hidden)


def write(outcome: Outcome, path: Path) -> None:
    """To a file, with the plan and the model's shape."""
    plan, model = asdict(outcome.plan), asdict(outcome.shape)
    write_figures(path, figures(outcome), plan=plan, model=model)
