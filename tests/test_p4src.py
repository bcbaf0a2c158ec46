# SPDX-License-Identifier: Apache-2.0
"""The checked-in compiled programs belong to the sources."""

from __future__ import annotations

import shutil

import pytest

import p4src
from p4src import compile as p4_compile


def test_the_builds_were_made_from_these_sources() -> None:
    assert p4_compile.is_current(), "p4src changed: run make p4 and commit p4src/build"


@pytest.mark.skipif(shutil.which("p4c") is None, reason="needs p4c on PATH (p4lang's packages)")
@pytest.mark.parametrize("build", p4src.BUILDS)
def test_p4c_makes_the_same_builds_today(build: str) -> None:
    assert p4_compile.differing(build) == []


def test_a_missing_p4c_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(p4_compile.CompileError, match="p4c is not on PATH"):
        p4_compile.compile_program("mtu1500", p4src.ROOT)


def test_an_unknown_geometry_is_named_beside_those_there_are() -> None:
    with pytest.raises(ValueError, match="'mtu576' is none of mtu1500, mtu9000, mtu1500_faults"):
        p4src.program("mtu576")
