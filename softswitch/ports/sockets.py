# SPDX-License-Identifier: Apache-2.0
"""Socket options that the port kinds share: buffer sizes and the kernel's count of drops."""

from __future__ import annotations

import fcntl
import socket
import struct

SO_MEMINFO = 55  # asm-generic/socket.h; nine u32, the last one counts drops (linux/sock_diag.h)
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
SIOCGIFFLAGS, SIOCGIFMTU, SIOCGIFINDEX = 0x8913, 0x8921, 0x8933
IFF_UP, IFF_RUNNING = 0x1, 0x40
BUFFER_BYTES = 8 << 20


def enlarge_buffers(target: socket.socket, num_bytes: int = BUFFER_BYTES) -> None:
    """Asks for large buffers: beyond the system's limit with the right to, else up to it."""
    for forced, plain in (
        (SO_RCVBUFFORCE, socket.SO_RCVBUF),
        (SO_SNDBUFFORCE, socket.SO_SNDBUF),
    ):
        try:
            target.setsockopt(socket.SOL_SOCKET, forced, num_bytes)
        except PermissionError:
            target.setsockopt(socket.SOL_SOCKET, plain, num_bytes)


def kernel_drops(target: socket.socket) -> int:
    """Packets that the kernel dropped because the socket's receive buffer was full."""
    try:
        info = target.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36)
    except OSError:
        return 0  # before Linux 4.12
    return int(struct.unpack("=9I", info)[8]) if len(info) == 36 else 0


def interface_mtu(any_socket: socket.socket, interface: str) -> int:
    """The interface's MTU in bytes, without the Ethernet header; 0 if it is gone."""
    return _asked(any_socket, SIOCGIFMTU, interface) or 0


def interface_index(any_socket: socket.socket, interface: str) -> int:
    """The interface's number; 0 if it is gone."""
    return _asked(any_socket, SIOCGIFINDEX, interface) or 0


def link_problem(any_socket: socket.socket, interface: str) -> str:
    """Why no frame can cross the interface; "" if it is up."""
    flags = _asked(any_socket, SIOCGIFFLAGS, interface)
    if flags is None:
        return "gone"
    if not flags & IFF_UP:
        return "down"
    return "" if flags & IFF_RUNNING else "without a carrier"


def _asked(any_socket: socket.socket, request: int, interface: str) -> int | None:
    """A number from a struct ifreq; flags have 16 bits. None: the interface is gone."""
    asked = struct.pack("=16sI20x", interface.encode(), 0)
    try:
        answer = fcntl.ioctl(any_socket.fileno(), request, asked)
    except OSError:
        return None
    return int(struct.unpack_from("=I", answer, 16)[0])
