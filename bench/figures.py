# SPDX-License-Identifier: Apache-2.0
"""Figures a benchmark reports, and the file they go to; it never measures anything."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Figure:
    """One number, the limit it is held against (None: for information) and how it was taken."""

    name: str
    value: float
    unit: str
    limit: float | None
    how: str


def environment() -> dict[str, str | int]:
    """What the figures depend on besides the program."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def write_figures(path: Path, figures: Sequence[Figure]) -> None:
    """Write `figures` and the environment as JSON."""
    record = {"figures": [asdict(figure) for figure in figures], "environment": environment()}
    path.write_text(json.dumps(record, indent=2) + "\n")
