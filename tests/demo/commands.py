# SPDX-License-Identifier: Apache-2.0
"""Runs `incmoe demo` as a user does, small, and looks at what became of its processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SMALL = ("--ranks", "2", "--prompts", "1", "--prompt-tokens", "12", "--new-tokens", "4")
PATIENCE_S = 120


def command(*arguments: str) -> list[str]:
    """The command line."""
    return [sys.executable, "-m", "incmoe", "demo", *arguments]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """To its end."""
    return subprocess.run(
        command(*arguments),
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def children_of(parent: int) -> list[int]:
    """Those it started and has not reaped."""
    listed = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(pid) for pid in listed.split()]


def has_gone(pid: int) -> bool:
    """Gone, or dead and only waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True
