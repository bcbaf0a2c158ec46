# SPDX-License-Identifier: Apache-2.0
"""Compiles the test programs: `python -m tests.softswitch.programs.compile`; needs p4c.

What p4c makes is checked in, since p4c is in no package registry, with digests of the sources.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[2] / "docs" / "examples" / "p4"  # what p4c makes of them lies beside them
BUILD = HERE / "build"
DIGESTS = BUILD / "sources.sha256"


def names() -> list[str]:
    return sorted(path.stem for path in HERE.glob("*.p4"))


def examples() -> list[str]:
    return sorted(path.stem for path in EXAMPLES.glob("*.p4"))


def compiled(name: str, folder: Path = HERE) -> dict[str, str]:
    """File name in the build folder -> what p4c makes of the program now."""
    with tempfile.TemporaryDirectory() as work:
        p4info = Path(work) / f"{name}.p4info.txtpb"
        command = ["p4c", "--target", "bmv2", "--arch", "v1model", "-o", work]
        command += ["--p4runtime-files", str(p4info), f"{name}.p4"]
        subprocess.run(command, cwd=folder, check=True)
        program = json.loads((Path(work) / f"{name}.json").read_text())
        program["program"] = f"{name}.p4"  # else the path of a temporary folder
        text = json.dumps(program, separators=(",", ":")) + "\n"
        return {f"{name}.json": text, p4info.name: p4info.read_text()}


def digests() -> str:
    """A line for each source: its SHA-256 and its name, as sha256sum writes it."""
    sources = [HERE / f"{name}.p4" for name in names()]
    sources += [EXAMPLES / f"{name}.p4" for name in examples()]
    return "".join(
        f"{hashlib.sha256(source.read_bytes()).hexdigest()}  {source.name}\n" for source in sources
    )


def main() -> int:
    if shutil.which("p4c") is None:
        sys.stderr.write("p4c is not on PATH\n")
        return 2
    BUILD.mkdir(exist_ok=True)
    for name in names():
        for file, text in compiled(name).items():
            (BUILD / file).write_text(text)
    for name in examples():
        for file, text in compiled(name, EXAMPLES).items():
            (EXAMPLES / file).write_text(text)
    DIGESTS.write_text(digests())
    return 0


if __name__ == "__main__":
    sys.exit(main())
