# SPDX-License-Identifier: Apache-2.0
"""Deletes network namespaces when the process that made them is gone; makes none.

    python -m incmoe.demo.janitor      names come on stdin, one a line; its end is the sign

Not even a process that is killed by SIGKILL can leave its end of a pipe open. But `ip`, which it
had started, may run on for a moment, and make a namespace that was not there yet.
"""

from __future__ import annotations

import sys
import time
from typing import Final

from incmoe.demo.namespaces import are_there, delete

LATE_S: Final = 1.0
LOOK_S: Final = 0.05


def main() -> None:
    """The process."""
    names = sys.stdin.read().split()
    is_whole = are_there(names)
    delete(names)
    until = time.monotonic() + LATE_S
    while not is_whole and time.monotonic() < until:
        time.sleep(LOOK_S)
        delete(names)


if __name__ == "__main__":
    main()
