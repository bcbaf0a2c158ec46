# SPDX-License-Identifier: Apache-2.0
"""Locates the P4 program and its compiled forms; never compiles or reads them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent
GEOMETRIES: Final = ("mtu1500", "mtu9000")
# Builds that lose packets as the controller tells them (include/faults.p4), for tests.
FAULTY: Final = {"mtu1500_faults": "mtu1500"}  # and their geometries
BUILDS: Final = (*GEOMETRIES, *FAULTY)


@dataclass(frozen=True, slots=True)
class Compiled:
    """One build of the program: what a switch loads."""

    json: Path  # BMv2 JSON
    p4info: Path  # P4Info, text form


def program(geometry: str) -> Compiled:
    """Return the compiled program for a geometry, or another of BUILDS.

    Raises ValueError naming the geometry and those there are.
    """
    if geometry not in BUILDS:
        raise ValueError(f"geometry {geometry!r} is none of {', '.join(BUILDS)}")
    build = ROOT / "build"
    return Compiled(build / f"inc_{geometry}.json", build / f"inc_{geometry}.p4info.txtpb")
