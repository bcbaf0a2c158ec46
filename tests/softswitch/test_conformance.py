# SPDX-License-Identifier: Apache-2.0
"""`make conformance` on a checkout that holds three programs: its table, JSON and exit status."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.softswitch.conformance import __main__ as conformance
from tests.softswitch.conformance import bmv2
from tests.softswitch.conformance.samples import FOLDER
from tests.softswitch.programs.compile import HERE

pytestmark = [
    pytest.mark.bmv2,
    pytest.mark.skipif(not bmv2.is_there(), reason="no simple_switch, or no CLI of it, on PATH"),
    pytest.mark.skipif(shutil.which("p4c-bm2-ss") is None, reason="no p4c-bm2-ss on PATH"),
]
ROW = "packet 0 06 00000003 0000\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """One test that passes, one that fails everywhere, one of another architecture."""
    folder = tmp_path / "p4c" / FOLDER
    folder.mkdir(parents=True)
    source = (HERE / "memory.p4").read_text()
    for name, port in (("good", 1), ("bad", 2)):
        (folder / f"{name}.p4").write_text(source)
        (folder / f"{name}.stf").write_text(f"{ROW}expect {port} 06\n")
    (folder / "other.p4").write_text("#include <psa.p4>\n")
    (folder / "other.stf").write_text(ROW)
    return tmp_path / "p4c"


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["conformance", *map(str, words)])
    return conformance.main()


def test_what_passes_on_which_switch_is_told(
    checkout: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    results, cache = tmp_path / "results.json", tmp_path / "cache"
    words = [checkout, "--json", results, "--cache", cache, "--all-programs"]
    assert run(monkeypatch, *words) == 0
    found = json.loads(results.read_text())
    assert found["stf_passed_over_bmv2"] == 1.0
    assert (found["programs"], found["programs_not_loaded"]) == (2, {})
    switches = ("bmv2", "interpreter", "compiled")
    outcomes = {t["name"]: [t[switch] for switch in switches] for t in found["tests"]}
    assert outcomes == {
        "good": ["passed"] * 3,
        "bad": ["failed"] * 3,
        "other": ["left out"] * 3,
    }
    out = capsys.readouterr().out
    assert "bmv2: 1 of 2 passed, 1 left out" in out
    assert "bad " in out
    assert "nothing came (line 2)" in out


def test_fewer_than_asked_for_is_a_failure(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(monkeypatch, checkout, "--cache", tmp_path, "--only", "bad") == 1
