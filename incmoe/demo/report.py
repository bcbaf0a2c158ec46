# SPDX-License-Identifier: Apache-2.0
"""A run's outcome as tables that a person can read; finds out nothing by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.console import Console, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from incmoe.demo.outcome import BOUNDS, EXPLAINED_DROPS, LOSSES, ModeOutcome, Outcome, Sample
from incmoe.demo.plan import BMV2, EMBEDDED, LOOPBACK, MININET, PHASES, VETH, Plan

SWITCH_NAMES = {EMBEDDED: "embedded switch", BMV2: "BMv2"}
LINK_NAMES = {LOOPBACK: "UDP over loopback", VETH: "veth links", MININET: "Mininet links"}
_UNITS = ("B", "KiB", "MiB", "GiB")
_SHOWN_CHARACTERS = 1000  # of what was generated


def show(outcome: Outcome, console: Console) -> None:
    """Prints everything, the verdict last."""
    console.print(_headline(outcome))
    for part in (
        _model_table(outcome),
        _bytes_table(outcome),
        _bytes_legend(outcome),
        _port_table(outcome),
        _time_table(outcome),
        _counter_table(outcome),
    ):
        console.print(part)
    console.print(_sample_panel(outcome.sample))
    console.print(_verdict(outcome))


def size(num_bytes: float) -> str:
    """Bytes with a binary unit."""
    unit = 0
    while abs(num_bytes) >= 1024 and unit < len(_UNITS) - 1:
        num_bytes /= 1024
        unit += 1
    return f"{num_bytes:.0f} {_UNITS[0]}" if unit == 0 else f"{num_bytes:.2f} {_UNITS[unit]}"


def _headline(outcome: Outcome) -> RenderableType:
    plan, shape = outcome.plan, outcome.shape
    rate = f" of {plan.link_rate}/s each way" if plan.link_rate else ""
    return Text(
        f"OLMoE, {shape.experts} experts, top {shape.top_k}, hidden {shape.hidden}, "
        f"{shape.layers} layers; EP={plan.num_ranks}, {plan.lane_bits}-bit lanes, {plan.geometry}; "
        f"{_switches(plan)}, {LINK_NAMES[plan.links]}{rate}; "
        f"{plan.num_prompts} prompts a rank, {plan.prompt_tokens} + {plan.new_tokens} tokens each"
    )


def _switches(plan: Plan) -> str:
    kind = SWITCH_NAMES[plan.switch]
    return kind if plan.leaves == 1 else f"{kind}, {plan.leaves} leaves under a spine"


def _table(title: str, first: str, others: Iterable[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="")
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def _model_table(outcome: Outcome) -> Table:
    columns = ["loss", "one process", "tokens equal", "largest logit difference"]
    table = _table("The model, against the same model in one process", "mode", columns)
    for mode, result in outcome.modes.items():
        match = result.match
        table.add_row(
            mode,
            f"{match.loss:.6f}",
            f"{match.reference_loss:.6f}",
            f"{match.tokens_equal} of {match.num_tokens}",
            f"{match.max_logit_difference:.2e}",
        )
    return table


def _bytes_table(outcome: Outcome) -> Table:
    columns = ["phase", "counted", "rows alone", "of rows", "ring", "of ring"]
    table = _table("Bytes on the busiest direction of a rank's link", "mode", columns)
    for mode, result in outcome.modes.items():
        for phase in PHASES:
            bound = outcome.bound(mode, phase)
            counted, ring = result.phases[phase].busiest(), outcome.demand[phase].ring_bytes
            ratios = _ratio(counted, bound), _ratio(counted, ring)
            table.add_row(mode, phase, size(counted), size(bound), ratios[0], size(ring), ratios[1])
    return table


def _bytes_legend(outcome: Outcome) -> Text:
    own = ", ".join(f"{size(outcome.demand[phase].own_bytes)} {phase}" for phase in PHASES)
    others = ", ".join(f"{outcome.demand[phase].mean_others:.2f} {phase}" for phase in PHASES)
    return Text(
        f"counted: by {outcome.counted_by}; "
        f"rows alone: {', '.join(f'{BOUNDS[mode]} {mode}' for mode in outcome.modes)}; "
        f"ring: 2(N-1)M; N = {outcome.plan.num_ranks}, M = {own}, D = {others}",
        style="dim",
    )


def _port_table(outcome: Outcome) -> Table:
    names = [f"{mode} {way}" for mode in outcome.modes for way in ("from", "to")]
    table = _table("Bytes per rank and direction, both phases", "rank", [*names, "rows, routed"])
    for rank in range(outcome.plan.num_ranks):
        cells = [
            size(sum(getattr(result.phases[phase].ports[rank], way) for phase in PHASES))
            for result in outcome.modes.values()
            for way in ("from_rank", "to_rank")
        ]
        needed = sum(outcome.demand[phase].routed_bytes_of(rank) for phase in PHASES)
        table.add_row(str(rank), *cells, size(needed))
    return table


def _time_table(outcome: Outcome) -> Table:
    stages = list(next(iter(outcome.modes.values())).phases[PHASES[0]].stages[0].busy_s)
    columns = ["phase", "whole", *stages, "the layers", "overlap"]
    table = _table("Time of the slowest rank, seconds", "mode", columns)
    for mode, result in outcome.modes.items():
        for phase in PHASES:
            times = result.phases[phase]
            slowest = max(times.stages, key=lambda rank: rank.wall_s)
            busy = [f"{slowest.busy_s[stage]:.2f}" for stage in stages]
            walls = [f"{slowest.wall_s:.2f}", f"{slowest.overlap:.0%}"]
            table.add_row(mode, phase, f"{times.seconds:.2f}", *busy, *walls)
    return table


def _counter_table(outcome: Outcome) -> Table:
    who = "switch" if outcome.plan.leaves == 1 else "switches, together,"
    title = f"What the {who} and the ranks counted, packets, calibration included"
    table = _table(title, "counter", outcome.modes)
    table.add_column("meaning")
    sections: tuple[tuple[str, str, Mapping[str, str]], ...] = (
        ("ops", "", {}),
        ("drops", "dropped: ", EXPLAINED_DROPS),
        ("losses", "lost at ports: ", LOSSES),
        ("transport", "ranks: ", {}),
    )
    for section, prefix, meanings in sections:
        counts = [_section(result, section) for result in outcome.modes.values()]
        for name in dict.fromkeys(name for mode in counts for name in mode):
            cells = [f"{mode.get(name, 0):,}" for mode in counts]
            missing = "unexplained" if section == "drops" else ""
            table.add_row(prefix + name, *cells, meanings.get(name, missing))
        table.add_section()
    return table


def _section(result: ModeOutcome, name: str) -> Mapping[str, int]:
    counts: Mapping[str, int] = getattr(result, name)
    return counts if name == "transport" else {key: n for key, n in counts.items() if n}


def _ratio(part: float, whole: float) -> str:
    return f"{part / whole:.3f}" if whole else "-"


def _sample_panel(sample: Sample) -> Panel:
    continuation = sample.continuation[:_SHOWN_CHARACTERS]
    text = Text.assemble((sample.prompt, "dim"), ("▸", "bold red"), (continuation, "bold green"))
    title = f"the liveliest of what was written, by rank {sample.rank}, from ▸ on"
    return Panel(text, title=title, title_align="left")


def _verdict(outcome: Outcome) -> Text:
    failures = outcome.failures()
    if failures:
        return Text("\n".join(failures), style="bold red")
    matches = [result.match for result in outcome.modes.values()]
    modes = " and ".join(outcome.modes)
    if all(match.all_tokens_equal for match in matches):
        said = f"All generated tokens equal the single process's, {modes}."
    else:  # narrow lanes
        equal = sum(match.tokens_equal for match in matches)
        of = sum(match.num_tokens for match in matches)
        said = f"{equal} of {of} generated tokens equal the single process's, {modes}."
    return Text(said, style="bold green")
