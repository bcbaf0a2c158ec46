# SPDX-License-Identifier: Apache-2.0
"""Open MPI on the links of bench.collectives: it moves a ring's bytes, and nothing is left."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.collectives import mpi
from tests import namespaces
from tests.demo.commands import ROOT

NO_MPI = namespaces.why_not() or mpi.why_not()
PATIENCE_S = 120
LAUNCHES = 3
LAUNCH_FAILED = re.compile("bench.collectives: mpi: ended with status (213|139)\\n")
NUM_RANKS = 4

pytestmark = [pytest.mark.root, pytest.mark.skipif(NO_MPI is not None, reason=NO_MPI or "")]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where all of a run's files are: its processes are known by that name."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def started(folder: Path, *options: str) -> subprocess.Popen[str]:
    """A run of few rows over rings of MPI and of our own, which has run the former once.

    On a busy machine mpirun now and then gives up (status 213), or ends by a fault of memory (139),
    while its daemons start, before any rank runs: it may try again.
    """
    for _ in range(LAUNCHES):
        run = launched(folder, *options)
        assert run.stderr is not None
        said = run.stderr.readline()
        if said.startswith("mpi "):
            return run
        said += run.communicate(timeout=PATIENCE_S)[1]
        assert LAUNCH_FAILED.match(said), said
        assert nothing_is_left(folder, run.pid)
    pytest.fail(f"{LAUNCHES} times: {said}")


def launched(folder: Path, *options: str) -> subprocess.Popen[str]:
    """The same, just begun."""
    words = ["bench.collectives", "--ranks", str(NUM_RANKS), "--rate", "100mbit", "--tokens", "64"]
    return subprocess.Popen(
        [sys.executable, "-m", *words, "--schemes", "mpi,ring", *options],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(folder)},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )


def processes(folder: Path, word: str = "") -> list[int]:
    """Those of a run, or those among them that have a word in their command."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_text().replace("\0", " ")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if str(folder) in command and word in command:
            found.append(int(process.name))
    return found


def nothing_is_left(folder: Path, pid: int) -> bool:
    """Whether a run's processes and namespaces are gone, within a few seconds."""
    for _ in range(100):
        spaces = list(Path("/run/netns").glob(f"incmoe-{pid}-*"))
        if not spaces and not processes(folder):
            return True
        time.sleep(0.1)
    return False


def test_both_collectives_of_mpi_move_a_rings_bytes(folder):
    out = folder / "out.json"
    run = started(folder, "--rounds", "1", "--json", str(out))
    _, said = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 0, said
    found = {one["name"]: one["value"] for one in json.loads(out.read_text())["figures"]}
    payload = 2 * (NUM_RANKS - 1) * 64 * 2048 * 4
    assert payload < found["mpi_bytes_n4"] < 1.05 * payload
    assert nothing_is_left(folder, run.pid)


def test_nothing_of_mpi_outlives_a_killed_run(folder):
    run = started(folder)
    assert len(processes(folder, "mpi_rank")) >= NUM_RANKS
    run.kill()
    run.wait()
    assert nothing_is_left(folder, run.pid)


def test_a_process_that_dies_under_mpirun_ends_the_run_with_the_reason(folder):
    run = started(folder, "--rounds", "50")
    one = next(pid for pid in processes(folder, "mpi_rank") if "mpirun" not in name_of(pid))
    os.kill(one, signal.SIGKILL)
    _, said = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 2
    assert "bench.collectives: mpi: ended with status" in said
    assert "signal 9" in said
    assert nothing_is_left(folder, run.pid)


def name_of(pid: int) -> str:
    """Return a process's name."""
    return Path(f"/proc/{pid}/comm").read_text()
