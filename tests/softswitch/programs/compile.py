# SPDX-License-Identifier: Apache-2.0
"""Compiles the test programs: `python tests/softswitch/programs/compile.py [--check]`; needs p4c.

What p4c makes is checked in, since p4c is in no package registry.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
BUILD = HERE / "build"


def names() -> list[str]:
    return sorted(path.stem for path in HERE.glob("*.p4"))


def compiled(name: str) -> dict[str, str]:
    """File name in the build folder -> what p4c makes of the program now."""
    with tempfile.TemporaryDirectory() as work:
        p4info = Path(work) / f"{name}.p4info.txtpb"
        command = ["p4c", "--target", "bmv2", "--arch", "v1model", "-o", work]
        command += ["--p4runtime-files", str(p4info), f"{name}.p4"]
        subprocess.run(command, cwd=HERE, check=True)
        program = json.loads((Path(work) / f"{name}.json").read_text())
        program["program"] = f"{name}.p4"  # else the path of a temporary folder
        text = json.dumps(program, separators=(",", ":")) + "\n"
        return {f"{name}.json": text, p4info.name: p4info.read_text()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether they are current")
    check = parser.parse_args().check
    if shutil.which("p4c") is None:
        sys.stderr.write("p4c is not on PATH\n")
        return 2
    stale = []
    BUILD.mkdir(exist_ok=True)
    for name in names():
        for file, text in compiled(name).items():
            path = BUILD / file
            if not path.exists() or path.read_text() != text:
                stale.append(file)
                if not check:
                    path.write_text(text)
    sys.stderr.write("".join(f"{file}: {'stale' if check else 'written'}\n" for file in stale))
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
