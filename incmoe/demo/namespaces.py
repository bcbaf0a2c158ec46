# SPDX-License-Identifier: Apache-2.0
"""Network namespaces that end with the process that made them, however it ends; no other's.

Their names bear the process's number. A janitor (janitor.py) is told of each and deletes them when
this process closes the pipe to it, or is gone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from incmoe.demo.errors import DemoError

_NAMED: Final = Path("/run/netns")


def run(command: Sequence[str], given: str = "") -> str:
    """What the command prints; DemoError with the command and what it says when it fails."""
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        said = " ".join(done.stderr.split()) or f"ended with status {done.returncode}"
        raise DemoError(f"{' '.join(command)}: {said}")
    return done.stdout


def inside(namespace: str) -> list[str]:
    """What comes before a command that is to run in a namespace; nothing for none."""
    return ["ip", "netns", "exec", namespace] if namespace else []


def delete(names: Iterable[str]) -> None:
    """Deletes those that are there. Processes in them keep what they use until they end."""
    for name in names:
        if (_NAMED / name).exists():
            run(["ip", "netns", "delete", name])


class Namespaces:
    """The namespaces of a run, gone after the `with` block."""

    def __init__(self) -> None:
        self._names: list[str] = []

    def __enter__(self) -> Self:
        self._janitor = subprocess.Popen(
            [sys.executable, "-m", "incmoe.demo.janitor"],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a Ctrl-C at the terminal does not reach it
        )
        return self

    def add(self, suffix: str) -> str:
        """Makes one with loopback up and without IPv6; returns its name."""
        name = f"incmoe-{os.getpid()}-{suffix}"
        run(["ip", "netns", "add", name])
        self._note(name)
        run(["ip", "-n", name, "link", "set", "lo", "up"])
        for scope in ("all", "default"):
            setting = Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6")
            if setting.exists():
                run([*inside(name), "tee", str(setting)], given="1")
        return name

    def _note(self, name: str) -> None:
        self._names.append(name)
        assert self._janitor.stdin is not None
        self._janitor.stdin.write(f"{name}\n")
        self._janitor.stdin.flush()

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        assert self._janitor.stdin is not None
        self._janitor.stdin.close()
        self._janitor.wait()
        delete(self._names)  # nothing is left, unless something befell the janitor
