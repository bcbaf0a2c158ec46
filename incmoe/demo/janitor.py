# SPDX-License-Identifier: Apache-2.0
"""Deletes network namespaces when the process that made them is gone; makes none.

    python -m incmoe.demo.janitor      names come on stdin, one a line; its end is the sign

Not even a process that is killed by SIGKILL can leave its end of a pipe open.
"""

from __future__ import annotations

import sys

from incmoe.demo.namespaces import delete


def main() -> None:
    """The process."""
    delete(sys.stdin.read().split())


if __name__ == "__main__":
    main()
