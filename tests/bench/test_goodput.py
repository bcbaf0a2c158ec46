# SPDX-License-Identifier: Apache-2.0
"""bench.goodput: its figures, and one short run of both on a slow link."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.goodput.__main__ import figures
from bench.goodput.plan import Plan
from bench.goodput.run import Outcome, Round
from tests import namespaces
from tests.demo.commands import ROOT

WHY_NOT = namespaces.why_not("iperf3", "ethtool", "tc", "ss")


def test_a_ratio_is_the_median_of_the_rounds_own_ratios() -> None:
    pairs = [(80.0, 100.0), (50.0, 200.0), (90.0, 100.0)]
    rounds = tuple(Round(ours, theirs, (0.5, 0.6)) for ours, theirs in pairs)
    found = {one.name: one for one in figures(Plan(), Outcome("1gbit", rounds, repairs=3))}
    assert found["goodput_over_iperf3_1gbit"].value == pytest.approx(0.8)
    assert found["goodput_over_iperf3_1gbit"].limit == 0.7
    assert found["goodput_repairs_1gbit"].value == 3


@pytest.mark.parametrize(
    ("rate", "name"),
    [("3gbit", "goodput_over_iperf3"), ("none", "goodput_over_iperf3_unshaped")],
)
def test_the_headline_bears_the_plain_name(rate: str, name: str) -> None:
    found = list(figures(Plan(), Outcome(rate, (Round(1, 2, (0, 0)),), 0)))
    assert found[0].name == name


@pytest.mark.root
@pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
def test_on_a_slow_link_both_fill_it(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    words = ["bench.goodput", "--rates", "100mbit", "--rounds", "1", "--seconds", "1"]
    done = subprocess.run(
        [sys.executable, "-m", *words, "--band-rows", "16", "--window", "64", "--json", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = {one["name"]: one["value"] for one in json.loads(file.read_text())["figures"]}
    assert found["iperf3_mb_s_100mbit"] == pytest.approx(12.3, rel=0.15)
    assert found["goodput_mb_s_100mbit"] == pytest.approx(12.3, rel=0.15)
