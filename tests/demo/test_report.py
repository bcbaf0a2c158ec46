# SPDX-License-Identifier: Apache-2.0
"""The report and the figures, from fixed data."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from incmoe.demo import figures, report
from incmoe.demo.generation import Match
from incmoe.demo.outcome import ModeOutcome, Outcome, PhaseOutcome, Sample, StageTimes
from incmoe.demo.plan import BMV2, DECODE, PREFILL, ROUTED, STATIC, VETH, Plan
from incmoe.demo.traffic import Demand, PortBytes
from incmoe.model import Shape

TIMES = StageTimes({"gather": 3.0, "ffn": 4.0, "reduce": 3.0}, wall_s=5.0)
DEMAND = Demand([[300, 200], [100, 300]], rows_per_rank=400, row_bytes=1024)


def mode(equal: int = 64, **counts: int) -> ModeOutcome:
    phase = PhaseOutcome(1.5, [PortBytes(900_000, 800_000), PortBytes(1, 2)], [TIMES, TIMES])
    return ModeOutcome(
        match=Match(1.25, 1.25, equal, 64, 3e-6),
        phases={PREFILL: phase, DECODE: phase},
        ops={"DISPATCH": 12, "PULL": 0},
        drops={"COLLECTED": 9, "WRONG_PORT": 0} | counts,
        losses={"tx_queue_full": 0},
        transport={"pulls": 0, "repeats": 0},
    )


def outcome(**modes: ModeOutcome) -> Outcome:
    return Outcome(
        plan=Plan(num_ranks=2),
        shape=Shape(layers=3),
        demand={PREFILL: DEMAND, DECODE: DEMAND},
        modes=modes or {STATIC: mode(), ROUTED: mode()},
        sample=Sample(1, "def f(", "x):"),
    )


def shown(result: Outcome) -> str:
    file = io.StringIO()
    report.show(result, Console(file=file, width=400))
    return file.getvalue()


def test_the_report_shows_what_was_found() -> None:
    text = shown(outcome())
    for words in (
        "EP=2, 32-bit lanes, mtu9000",
        "64 of 64",
        "3.00e-06",
        "878.91 KiB",  # counted
        "800.00 KiB",  # N M
        "550.00 KiB",  # (D+1) M
        "N = 2, M = 400.00 KiB prefill, 400.00 KiB decode, D = 0.38 prefill, 0.38 decode",
        "83%",  # overlap: 5 s hidden of the 6 s that could be
        "added to its sum, which was not complete yet",
        "def f(▸x):",
        "All generated tokens equal the single process's, static and routed.",
    ):
        assert words in text
    assert "WRONG_PORT" not in text


def test_tokens_that_differ_are_a_failure() -> None:
    result = outcome(static=mode(), routed=mode(equal=63))
    assert result.failures() == ["routed: only 63 of 64 tokens equal the single process's"]
    assert result.failures()[0] in shown(result)


def test_narrow_lanes_may_differ_and_the_verdict_says_so() -> None:
    result = outcome(static=mode(), routed=mode(equal=63))
    narrow = replace(result, plan=replace(result.plan, lane_bits=16))
    assert narrow.failures() == []
    verdict = "127 of 128 generated tokens equal the single process's, static and routed."
    assert shown(narrow).splitlines()[-1] == verdict


def test_unexplained_drops_are_a_failure_and_explained_ones_are_not() -> None:
    result = outcome(static=mode(WRONG_PORT=2, REPEATED=5))
    assert result.failures() == ["static: the switch dropped 2 packets for WRONG_PORT"]


def test_a_trees_counts_are_of_all_its_switches() -> None:
    result = outcome(static=mode(WRONG_PORT=2))
    in_tree = replace(result, plan=replace(result.plan, leaves=2))
    assert in_tree.failures() == ["static: the switches dropped 2 packets for WRONG_PORT"]
    assert "embedded switch, 2 leaves under a spine, UDP over loopback" in shown(in_tree)


def test_the_report_says_which_switch_it_was_and_who_counted() -> None:
    result = outcome()
    over_veth = replace(result, plan=replace(result.plan, switch=BMV2, links=VETH))
    assert "embedded switch, UDP over loopback" in shown(result)
    assert "counted: by the switch, all headers" in shown(result)
    assert "BMv2, veth links" in shown(over_veth)
    assert "counted: by the kernel, at the switch's interfaces" in shown(over_veth)


@pytest.mark.parametrize(
    ("busy", "wall", "overlap"),
    [((3, 4, 3), 10, 0), ((3, 4, 3), 4, 1), ((3, 4, 3), 12, 0), ((0, 4, 0), 4, 0)],
)
def test_overlap_is_the_share_hidden_of_what_could_hide(
    busy: tuple[float, ...], wall: float, overlap: float
) -> None:
    stages = dict(zip(("gather", "ffn", "reduce"), busy, strict=True))
    assert StageTimes(stages, wall).overlap == overlap


def test_figures_have_the_names_that_others_read(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    figures.write(outcome(static=mode(), routed=mode(equal=63)), path)
    written = json.loads(path.read_text())
    values = {figure["name"]: figure["value"] for figure in written["figures"]}
    assert values["tokens_equal_static"] == 1
    assert values["tokens_equal_routed"] == 0
    assert values["max_logit_difference"] == 3e-6
    assert values["bytes_static_prefill_over_bound"] == pytest.approx(900_000 / 819_200)
    assert all(set(f) == {"name", "value", "unit", "limit", "how"} for f in written["figures"])
    assert written["environment"]["plan"]["num_ranks"] == 2


@pytest.mark.parametrize(
    ("num_bytes", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.50 KiB"), (2**31, "2.00 GiB")]
)
def test_sizes_have_a_unit(num_bytes: int, text: str) -> None:
    assert report.size(num_bytes) == text
