# SPDX-License-Identifier: Apache-2.0
"""bench.backend: one short run of both on slow links; bytes are what the table says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import namespaces
from tests.demo.commands import ROOT

WHY_NOT = namespaces.why_not("ethtool", "tc")


@pytest.mark.root
@pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
def test_the_switch_moves_fewer_bytes_than_rings(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    words = ["bench.backend", "--ranks", "3", "--elements", "65536", "--rounds", "1"]
    done = subprocess.run(
        [sys.executable, "-m", *words, "--json", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = {one["name"]: one["value"] for one in json.loads(file.read_text())["figures"]}
    assert 3.0 < found["bytes_inc"] < 3.3
    assert 4.0 < found["bytes_gloo"] < 6.6  # rings, or an all_reduce in place of one
    assert found["inc_over_gloo"] > 0
