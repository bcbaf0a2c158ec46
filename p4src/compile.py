# SPDX-License-Identifier: Apache-2.0
"""Compiles every build of inc.p4 with p4c; `make p4` runs `python -m p4src.compile [--check]`.

p4c is in no package registry, so what it makes is checked in beside a digest of the sources it was
made from. Nothing here runs when the program is used.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from p4src import BUILDS, FAULTY, ROOT, Compiled, program

DIGEST: Final = ROOT / "build" / "sources.sha256"


class CompileError(RuntimeError):
    """p4c is missing, or refused the program."""


def sources_digest() -> str:
    """Return a digest over the names and bytes of all P4 sources."""
    digest = hashlib.sha256()
    for path in sorted([*ROOT.glob("*.p4"), *ROOT.glob("include/*.p4")]):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def is_current() -> bool:
    """Say whether the checked-in builds were made from the sources as they are."""
    return DIGEST.exists() and DIGEST.read_text().strip() == sources_digest()


def compile_program(build: str, out: Path) -> Compiled:
    """Compile a build of inc.p4 into the folder `out`; raises CompileError with p4c's words."""
    p4c = shutil.which("p4c")
    if p4c is None:
        raise CompileError(
            "p4c is not on PATH; install p4lang-p4c from p4lang's own package repository"
        )
    made = Compiled(out / f"inc_{build}.json", out / f"inc_{build}.p4info.txtpb")
    with tempfile.TemporaryDirectory() as work:
        command = [p4c, "--target", "bmv2", "--arch", "v1model", "--std", "p4-16"]
        command += [f"-DGEOMETRY_{FAULTY.get(build, build).upper()}"]
        command += ["-DWITH_FAULTS"] if build in FAULTY else []
        command += ["--p4runtime-files", str(made.p4info)]
        run = subprocess.run(
            [*command, "-o", work, "inc.p4"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if run.returncode:
            raise CompileError(f"p4c refused inc.p4 ({build}):\n{run.stderr}")
        text = json.loads((Path(work) / "inc.json").read_text())
    text["program"] = "inc.p4"  # else the path of a temporary folder
    made.json.write_text(json.dumps(text, indent=1) + "\n")
    return made


def differing(build: str) -> list[str]:
    """Return the names of checked-in files that p4c makes otherwise today."""
    kept = program(build)
    with tempfile.TemporaryDirectory() as work:
        made = compile_program(build, Path(work))
        pairs = [(kept.json, made.json), (kept.p4info, made.p4info)]
        return [old.name for old, new in pairs if old.read_bytes() != new.read_bytes()]


def main() -> int:
    """Rewrite the checked-in builds, or with --check say which are not current."""
    parser = argparse.ArgumentParser(prog="python -m p4src.compile", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    check = parser.parse_args().check
    try:
        if check:
            stale = [name for build in BUILDS for name in differing(build)]
            sys.stdout.write("".join(f"not current: {name}\n" for name in stale))
            return 1 if stale else 0
        for build in BUILDS:
            sys.stdout.write(f"{compile_program(build, ROOT / 'build').json.name}\n")
        DIGEST.write_text(sources_digest() + "\n")
    except CompileError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
