# SPDX-License-Identifier: Apache-2.0
"""bench.switch_vs_bmv2: its figures, its traffic, and one short run without BMv2's part."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import p4src
from bench import one_job
from bench.switch_vs_bmv2 import figures, job
from bench.switch_vs_bmv2.plan import CONTRIB_1K, DISPATCH, FORWARD, GEOMETRY, KINDS
from bench.switch_vs_bmv2.traffic import ARM_PASSES, CONTRIBUTORS, RING, traffic
from controller import tables
from controller.drops import Drop
from incmoe.demo.plan import BMV2, EMBEDDED
from softswitch.bmv2_json import load
from softswitch.compiler import CompiledEngine
from tests import namespaces
from tests.demo.commands import ROOT

WHY_NOT = namespaces.why_not("gcc", "ethtool")


@pytest.fixture(scope="module")
def engine() -> CompiledEngine:
    program = load(p4src.program(GEOMETRY).json)
    made = CompiledEngine(program)
    made.update(one_job.snapshot(program, job.entries()))
    return made


@pytest.mark.parametrize("kind", [FORWARD, DISPATCH])
def test_a_frame_comes_out_once_by_the_members_port(engine: CompiledEngine, kind: str) -> None:
    sent = traffic(kind)
    for _ in range(3):
        sent.renew()
        assert engine.process(sent.batch).port.tolist() == [job.MEMBER_PORT] * RING
    if kind == DISPATCH:
        packets, _ = engine.read_counter(tables.PRUNED)
        assert packets[[1, 2, 3, 4]].tolist() == [3 * RING, 0, 3 * RING, 3 * RING]


def test_no_contribution_repeats_another(engine: CompiledEngine) -> None:
    sent = traffic(CONTRIB_1K)
    assert sent.arming is not None
    assert sent.max_passes == ARM_PASSES * len(CONTRIBUTORS)
    for _ in range(ARM_PASSES):
        sent.arming.renew()
        assert len(engine.process(sent.arming.batch)) == 0
    before, _ = engine.read_counter(tables.DROPS)
    for _ in range(sent.max_passes):
        sent.renew()
        assert len(engine.process(sent.batch)) == 0
    after, _ = engine.read_counter(tables.DROPS)
    wanted = np.zeros_like(before)
    wanted[Drop.COLLECTED] = sent.max_passes * RING
    assert (after - before == wanted).all()


def passed(*rates: float) -> list[figures.Passed]:
    """Rounds in which twice as many were sent."""
    return [figures.Passed(rate, 2 * rate) for rate in rates]


def test_figures_are_medians_of_the_rounds_ratios_with_their_limits() -> None:
    rates = {(EMBEDDED, kind): passed(300.0, 400.0, 900.0) for kind in KINDS}
    rates |= {(BMV2, kind): passed(100.0, 100.0, 100.0) for kind in KINDS}
    rates["bare", FORWARD] = passed(600.0, 500.0, 900.0)
    found = {one.name: (one.value, one.limit) for one in figures.ratios(rates)}
    assert found == {
        "forward_over_bmv2": (4.0, 5.0),
        "dispatch_over_bmv2": (4.0, 10.0),
        "contrib_1k_over_bmv2": (4.0, 15.0),
        "contrib_4k_over_bmv2": (4.0, 15.0),
        "forward_over_bare": (0.8, 0.7),
    }
    speeds = dict(zip(KINDS, [9e4, 8e4, 7e3, 6e4], strict=True))
    alone = next(iter(figures.alone(speeds, rates)))
    assert (alone.name, alone.value, alone.limit) == ("pipeline_over_bmv2", 70.0, 100.0)


def test_a_figure_says_in_how_many_rounds_the_sender_was_the_limit() -> None:
    slow_sender = [figures.Passed(400.0, 401.0), figures.Passed(400.0, 900.0)]
    rates = {(EMBEDDED, FORWARD): passed(500.0, 500.0), ("bare", FORWARD): slow_sender}
    [ratio] = figures.ratios(rates)
    assert ratio.how.endswith("; theirs limited by the sender in 1 rounds")


def test_without_bmv2_there_are_no_figures_over_it() -> None:
    rates = {(EMBEDDED, kind): passed(300.0) for kind in KINDS}
    rates |= {("bare", FORWARD): passed(600.0)}
    assert [one.name for one in figures.ratios(rates)] == ["forward_over_bare"]
    assert not any("over" in one.name for one in figures.alone(dict.fromkeys(KINDS, 1.0), rates))


@pytest.mark.root
@pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
def test_a_short_run_without_bmv2_measures_the_rest_and_says_so(tmp_path: Path) -> None:
    file, path = tmp_path / "figures.json", tmp_path / "bin"
    path.mkdir()
    for name in ("ip", "ethtool", "gcc", "as", "ld", "tee"):
        found = shutil.which(name)
        assert found is not None
        (path / name).symlink_to(found)
    words = ["bench.switch_vs_bmv2", "--rounds", "1", "--seconds", "0.1", "--json", str(file)]
    done = subprocess.run(
        [sys.executable, "-m", *words, "--kinds", f"{FORWARD},{CONTRIB_1K}"],
        cwd=ROOT,
        env={"PATH": str(path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "no figures over bmv2: simple_switch_grpc is not on PATH" in done.stderr
    written = json.loads(file.read_text())
    found = {one["name"]: one["value"] for one in written["figures"]}
    assert not any(name.endswith("over_bmv2") for name in found)
    assert found["forward_over_bare"] > 0.1
    assert found["forward_per_s_embedded"] > 5000
    assert found["contrib_1k_per_s_embedded"] > 5000
    assert "dispatch_per_s_embedded" not in found
    assert 0 < found["compile_s"] < 30
