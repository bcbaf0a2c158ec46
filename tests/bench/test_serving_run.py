# SPDX-License-Identifier: Apache-2.0
"""One short run of bench.serving on shaped links: all schemes, figures, what its trace shows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.serving.plan import SCHEMES
from tests import namespaces
from tests.demo.commands import ROOT

WHY_NOT = namespaces.why_not("ethtool", "tc")
OPTIONS = "--ranks 2 --rate 20mbit --prompts 4x24 --new-tokens 3 --rounds 1 --band-rows 16"


@pytest.mark.root
@pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
def test_all_schemes_serve_the_same_tokens_and_ours_overlaps(tmp_path: Path) -> None:
    files = ["--json", str(tmp_path / "figures.json"), "--trace", str(tmp_path / "trace.json")]
    words = [sys.executable, "-m", "bench.serving", *OPTIONS.split(), *files]
    run = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert run.returncode == 0, run.stderr
    listed = json.loads((tmp_path / "figures.json").read_text())["figures"]
    found = {figure["name"]: figure["value"] for figure in listed}
    assert all(found[f"{scheme}_throughput_4x24"] > 0 for scheme in SCHEMES)
    assert (found["frames_lost"], found["repairs"]) == (0, 0)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert 0 < overlapping_us(events, "static rank 0") <= 3e6
    assert overlapping_us(events, "ring rank 0") == 0


def overlapping_us(events: list[dict], process: str) -> float:
    """How long two of gather, ffn and the rest were busy at once, for different bands."""
    pid = next(e["pid"] for e in events if e["ph"] == "M" and e["args"]["name"] == process)
    stages = [e for e in events if e["ph"] == "X" and e["pid"] == pid and "band" in e["name"]]
    return sum(
        max(0.0, min(a["ts"] + a["dur"], b["ts"] + b["dur"]) - max(a["ts"], b["ts"]))
        for a in stages
        for b in stages
        if a["tid"] < b["tid"] and a["cat"] == b["cat"] and a["name"] != b["name"]
    )
