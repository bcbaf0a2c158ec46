# SPDX-License-Identifier: Apache-2.0
"""How Open MPI is started on the links, and a rank's line to its process there; moves no row.

mpirun, in rank 0's namespace -- mpi_enter.sh --> orted, in each other --> mpi_rank
  rank r of the benchmark --- Unix socket in the run's folder --- mpi_rank of rank r
"""

from __future__ import annotations

import importlib.util
import shutil
import time
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Final

from bench.collectives.links import NETWORK
from incmoe.demo.child import Command
from incmoe.demo.namespaces import run
from incmoe.demo.network import Links

_MPIRUN: Final = "mpirun.openmpi"  # Debian's name: `mpirun` may be another MPI's
_VERSION: Final = "(OpenRTE) 4."  # release 5 has another launcher, with other settings
_ENTER: Final = Path(__file__).with_name("mpi_enter.sh")
_FAREWELL_S: Final = 10.0  # within which mpirun ends when one of its processes has
_SETTINGS: Final = {
    "plm": "rsh",
    "plm_rsh_agent": f"sh {_ENTER}",
    "plm_rsh_no_tree_spawn": "1",
    "oob_tcp_if_include": NETWORK,
    # Every byte crosses the links: no shared memory, though all ranks are on one machine.
    "pml": "ob1",
    "btl": "self,tcp",
    "btl_tcp_if_include": NETWORK,
    "mpi_yield_when_idle": "1",
    "coll_tuned_use_dynamic_rules": "1",
    "coll_tuned_allgather_algorithm": "ring",
    "coll_tuned_reduce_scatter_algorithm": "ring",
}


def why_not() -> str | None:
    """Why Open MPI cannot be run here, with the package to install; None if it can."""
    if shutil.which(_MPIRUN) is None:
        return f"needs {_MPIRUN} (package openmpi-bin of Debian and Ubuntu)"
    if importlib.util.find_spec("mpi4py") is None:
        return "needs the Python package mpi4py (incmoe[mpi])"
    found = run([_MPIRUN, "--version"]).splitlines()[0]
    return None if _VERSION in found else f"needs Open MPI 4, and this is {found}"


def command(folder: Path, links: Links) -> Command:
    """What starts all of its ranks."""
    spaces = [at.namespace for at in links.attachments]
    settings = _SETTINGS | {"orte_tmpdir_base": str(folder)}
    python = Command.module("mpi4py", "-m", "bench.collectives.mpi_rank", str(folder))
    words = [
        *(_MPIRUN, "--allow-run-as-root", "--leave-session-attached"),
        *("-H", ",".join(spaces), "-n", str(len(spaces)), "--map-by", "node", "--bind-to", "none"),
        *(word for name, value in settings.items() for word in ("--mca", name, value)),
        *("-x", "MPI4PY_MPIABI=openmpi", *python.words),
    ]
    return Command(words, spaces[0])


def address(folder: Path, rank: int) -> str:
    """The Unix socket at which a rank awaits its process under mpirun."""
    return str(folder / f"mpi-{rank}")


class Mpi:
    """One rank's line."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._listener = Listener(address(folder, rank), "AF_UNIX")
        self._line: Connection | None = None

    def run(self, at: float) -> dict[str, float]:
        """Run both collectives once at a time; return what a Trial does."""
        if self._line is None:
            self._line = self._listener.accept()
        try:
            self._line.send(at)
            took: dict[str, float] = self._line.recv()
        except (EOFError, ConnectionError):
            time.sleep(_FAREWELL_S)  # mpirun ends, and what it says is the error of this run
            raise
        return took

    def close(self) -> None:
        """Let the process go."""
        if self._line is not None:
            self._line.close()
        self._listener.close()
