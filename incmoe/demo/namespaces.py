# SPDX-License-Identifier: Apache-2.0
"""Network namespaces that end with the process that made them, however it ends; no other's.

Their names bear the process's number. A janitor (janitor.py) is told of each and deletes them when
this process closes the pipe to it, or is gone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from incmoe.demo.errors import DemoError

T = TypeVar("T")

_NAMED: Final = Path("/run/netns")
_CLONE_NEWNET: Final = 0x40000000  # linux/sched.h
_OWN: Final = Path("/proc/self/ns/net")
_GONE_OR_NOT_OURS: Final = (FileNotFoundError, ProcessLookupError, PermissionError)


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


def enter(name: str) -> None:
    """Moves the calling thread, and what it starts, into a namespace; "": nowhere."""
    if not name:
        return
    with (_NAMED / name).open() as there:
        if ctypes.CDLL(None, use_errno=True).setns(there.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {name}")


def call_in(name: str, function: Callable[[], T]) -> T:
    """What the function returns or raises in a namespace; only a thread of its own goes there."""

    def run() -> T:
        enter(name)
        return function()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()


def are_there(names: Iterable[str]) -> bool:
    """Whether all of them have been made."""
    return all((_NAMED / name).exists() for name in names)


def delete(names: Iterable[str]) -> None:
    """Ends what runs in those that are there, and deletes them."""
    for name in names:
        if (_NAMED / name).exists():
            _end_processes(_NAMED / name)
            run(["ip", "netns", "delete", name])


def _end_processes(namespace: Path) -> None:
    if namespace.samefile(_OWN):
        return
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(*_GONE_OR_NOT_OURS), _held(int(process.name)) as pidfd:
            if namespace.samefile(process / "ns/net"):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)


@contextmanager
def _held(pid: int) -> Iterator[int]:
    """A process by a descriptor: its number cannot pass to another before it is signalled."""
    pidfd = os.pidfd_open(pid)
    try:
        yield pidfd
    finally:
        os.close(pidfd)


def _disable_ipv6(namespace: str) -> None:
    for scope in ("all", "default"):
        setting = Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6")
        if setting.exists():
            run([*inside(namespace), "tee", str(setting)], given="1")


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
        self._note(name)
        run(["ip", "netns", "add", name])
        run(["ip", "-n", name, "link", "set", "lo", "up"])
        _disable_ipv6(name)
        return name

    def adopt(self, suffix: str, pid: int) -> str:
        """Names the namespace that a process is in, which ends with the others; without IPv6."""
        name = f"incmoe-{os.getpid()}-{suffix}"
        self._note(name)
        run(["ip", "netns", "attach", name, str(pid)])
        _disable_ipv6(name)
        return name

    def _note(self, name: str) -> None:
        """Before it is made: this process may end while it is."""
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
