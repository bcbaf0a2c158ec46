# SPDX-License-Identifier: Apache-2.0
"""Network namespaces with veth pairs whose host ends are raw sockets of the test's own process."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

from incmoe.demo.namespaces import call_in

PACKET_IGNORE_OUTGOING = 23
SOL_PACKET = 263
T = TypeVar("T")


def why_not(*commands: str) -> str | None:
    """Why namespaces cannot be made here, or what is to run in them, or None."""
    if os.geteuid() != 0:
        return "needs root (network namespaces)"
    if shutil.which("ip") is None:
        return "needs the command ip (package iproute2)"
    missing = [command for command in commands if shutil.which(command) is None]
    return f"needs {', '.join(missing)}" if missing else None


def ip(*words: str) -> None:
    """Run the command ip; raises with its words."""
    run = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {run.stderr.strip()}")


@contextlib.contextmanager
def namespace(name: str) -> Iterator[str]:
    """A namespace with loopback up, gone afterwards."""
    ip("netns", "add", name)
    try:
        ip("-n", name, "link", "set", "lo", "up")
        yield name
    finally:
        ip("netns", "delete", name)


def add_veth(name: str, near: str, far: str, *, mtu: int) -> None:
    """Add a veth pair inside a namespace: both ends up, without IPv6 and ARP."""
    ip(
        "-n",
        name,
        "link",
        "add",
        near,
        "mtu",
        str(mtu),
        "type",
        "veth",
        "peer",
        far,
        "mtu",
        str(mtu),
    )
    for end in (near, far):
        inside(name, _silence, end)
        ip("-n", name, "link", "set", end, "arp", "off", "up")


def _silence(interface: str) -> None:
    Path(f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6").write_text("1")


def inside(name: str, function: Callable[..., T], *args: object) -> T:
    """Call a function on a thread that lives in the namespace, and return what it returns."""
    return call_in(name, partial(function, *args))


def _raw_socket(interface: str) -> socket.socket:
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
    raw.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
    raw.bind((interface, 0))
    return raw


class Taps:
    """Raw sockets on the host ends of veth pairs: port number -> frames in, frames out."""

    def __init__(self, name: str, interfaces: dict[int, str]) -> None:
        self.sockets: dict[int, socket.socket] = {}
        for port, interface in interfaces.items():
            made = inside(name, _raw_socket, interface)
            assert isinstance(made, socket.socket)
            self.sockets[port] = made

    def send(self, port: int, frame: bytes) -> None:
        """Put a frame on the wire of a port."""
        self.sockets[port].send(frame)

    def take(self, *, quiet_s: float, until: bytes | None = None) -> dict[int, list[bytes]]:
        """Collect frames of all ports until none came for `quiet_s`, or until one in particular."""
        ports = {sock.fileno(): port for port, sock in self.sockets.items()}
        out: dict[int, list[bytes]] = {}
        while until is None or all(until not in frames for frames in out.values()):
            ready, _, _ = select.select(list(ports), [], [], quiet_s)
            if not ready:
                break
            for fileno in ready:
                port = ports[fileno]
                out.setdefault(port, []).append(self.sockets[port].recv(65536))
        return out

    def close(self) -> None:
        """Close all sockets."""
        for sock in self.sockets.values():
            sock.close()
