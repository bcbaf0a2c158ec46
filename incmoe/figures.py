# SPDX-License-Identifier: Apache-2.0
"""Named figures and the file they go to, for the demo and the benchmarks; measures nothing.

The file: {"figures": [{"name", "value", "unit", "limit", "how"}], "environment": {...}}.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

# Packages that figures depend on; those not installed are left out.
PACKAGES: Final = ("numpy", "torch", "transformers", "llvmlite", "grpcio")


@dataclass(frozen=True, slots=True)
class Figure:
    """One number, the limit it is held against (None: for information) and how it was taken."""

    name: str
    value: float
    unit: str
    limit: float | None
    how: str


def environment() -> dict[str, object]:
    """What figures depend on besides the program."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "packages": dict(_versions()),
    }


def write_figures(path: Path, figures: Iterable[Figure], **details: object) -> None:
    """Write `figures` and the environment, `details` among it, as JSON."""
    listed = [asdict(figure) for figure in figures]
    record = {"figures": listed, "environment": environment() | details}
    path.write_text(json.dumps(record, indent=2) + "\n")


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _versions() -> Iterable[tuple[str, str]]:
    for name in PACKAGES:
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
