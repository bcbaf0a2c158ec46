# SPDX-License-Identifier: Apache-2.0
"""The options of `incmoe mininet`; lays nothing."""

from __future__ import annotations

import sys

import pytest

from incmoe.cli import main


class NoBench:
    """Finds that there is no package `bench`, as where only the package is installed."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "bench":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_where_the_benchmarks_are_not_it_says_where_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "bench"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [NoBench, *sys.meta_path])
    assert main(["mininet", "bench"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("incmoe: bench: the measurements come with a checkout")
    assert said.count("\n") == 1


def test_the_benchmarks_own_options_follow_the_action(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["mininet", "--ranks", "4", "bench", "--schemes", "carrier-pigeon"])
    assert ended.value.code == 2
    assert "carrier-pigeon: not one of static, routed, ring" in capsys.readouterr().err


def test_the_measurements_refuse_a_tree(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mininet", "--leaves", "2", "bench"]) == 2
    said = "incmoe: --leaves 2: the measurements are made on one switch\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("words", [["--ranks", "17", "demo"], ["demo", "--ranks", "17"]])
def test_options_may_stand_on_either_side_of_the_action(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("mininet.net", reason="needs the Python package mininet")
    assert main(["mininet", *words]) == 2
    assert capsys.readouterr().err == "incmoe: --ranks 17: must be 2 to 16 in Mininet\n"
