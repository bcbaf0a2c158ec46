# SPDX-License-Identifier: Apache-2.0
"""Becomes a program that dies with its parent; starts nothing besides.

    python -m incmoe.demo.tether PARENT_PID PROGRAM [ARGUMENT ...]

The kernel's parent-death signal also works for a parent killed by SIGKILL, and outlasts exec. It is
asked for here and not between fork and exec, since code that runs there in a parent with threads
may deadlock.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with(parent: int) -> None:
    """Asks the kernel for SIGKILL when the parent dies; exits at once when it already has."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        sys.exit(1)


def main() -> None:
    """Ties this process to its parent, then becomes the program."""
    parent, *words = sys.argv[1:]
    die_with(int(parent))
    os.execvp(words[0], words)


if __name__ == "__main__":
    main()
