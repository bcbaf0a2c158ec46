# SPDX-License-Identifier: Apache-2.0
"""p4c's sample programs, and what p4c makes of them, kept in a folder."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path("testdata/p4_16_samples")
_INCLUDES_V1MODEL = re.compile(r"#include\s*[<\"]v1model\.p4[>\"]")
_COMPILE_S = 120.0


@dataclass(frozen=True, slots=True)
class Sample:
    """A program; its test lies beside it, if it has one."""

    source: Path

    @property
    def test(self) -> Path:
        return self.source.with_suffix(".stf")

    @property
    def name(self) -> str:
        return self.source.stem

    @property
    def is_v1model(self) -> bool:
        return bool(_INCLUDES_V1MODEL.search(self.source.read_text(errors="replace")))


@dataclass(frozen=True, slots=True)
class Compiled:
    """`json` is None if p4c gives no program; then `log` says why."""

    json: Path | None
    p4info: Path | None
    log: str


def samples(p4c: Path) -> Iterator[Sample]:
    """All programs of p4c's checkout, with a test or without."""
    yield from map(Sample, sorted((p4c / FOLDER).glob("*.p4")))


def compiled(sample: Sample, cache_folder: Path) -> Compiled:
    """What p4c makes of the program; from the folder if it is there already."""
    stem = cache_folder / f"{sample.name}-{_digest(sample)}"
    json, p4info, log = (stem.with_suffix(end) for end in (".json", ".txtpb", ".log"))
    if not log.exists():
        cache_folder.mkdir(parents=True, exist_ok=True)
        part = log.with_suffix(".part")
        part.write_text(_compile(sample, json, p4info))
        part.replace(log)
    return Compiled(_existing(json), _existing(p4info), log.read_text())


def _compile(sample: Sample, json: Path, p4info: Path) -> str:
    """Compile; what the compiler said. P4Info is left out where it is refused."""
    program = ["p4c-bm2-ss", "-o", str(json), sample.source.name]
    done = _run([*program, "--p4runtime-files", str(p4info)], sample.source.parent)
    if done.returncode:
        json.unlink(missing_ok=True)
        done = _run(program, sample.source.parent)
    if done.returncode:
        json.unlink(missing_ok=True)
    return done.stderr


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["nice", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=_COMPILE_S,
        check=False,
    )


def _existing(path: Path) -> Path | None:
    return path if path.exists() and path.stat().st_size else None


def _digest(sample: Sample) -> str:
    """Of the source and the compiler's version."""
    text = sample.source.read_bytes() + _version().encode()
    return hashlib.sha256(text).hexdigest()[:12]


@cache
def _version() -> str:
    return subprocess.run(
        ["p4c-bm2-ss", "--version"], capture_output=True, text=True, check=True
    ).stdout


def default_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "incmoe" / "p4c-samples"
