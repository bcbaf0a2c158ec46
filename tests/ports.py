# SPDX-License-Identifier: Apache-2.0
"""TCP ports of the loopback interface, for servers that tests start."""

from __future__ import annotations

import socket


def free_tcp_port() -> int:
    """A TCP port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def accepts(address: str) -> bool:
    """Whether something accepts connections at HOST:PORT."""
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0
