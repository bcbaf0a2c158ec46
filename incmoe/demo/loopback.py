# SPDX-License-Identifier: Apache-2.0
"""Links over the loopback interface: no root, no configuration; opens nothing.

    rank r, 127.0.0.1 ---- UDP ---- 127.a.b.(r+1):17710 [switch port r+1]

a and b are drawn at random, so that runs on one machine do not meet.
"""

from __future__ import annotations

import random
import socket
from typing import Final

from host_agent.wire import INC_UDP_PORT
from incmoe.demo.errors import DemoError
from incmoe.demo.network import Attachment, Links

_HOST: Final = "127.0.0.1"
_ATTEMPTS: Final = 20


def choose(num_ranks: int) -> Links:
    """Addresses that nobody used a moment ago."""
    for _ in range(_ATTEMPTS):
        prefix = f"127.{random.randint(1, 254)}.{random.randint(1, 254)}"
        ips = [f"{prefix}.{rank + 1}" for rank in range(num_ranks)]
        if all(map(_is_free, ips)):
            ports = [Attachment(f"udp:{ip}:{INC_UDP_PORT}", ip, _HOST) for ip in ips]
            return Links.around_one_switch(ports)
    raise DemoError(
        f"no free UDP port {INC_UDP_PORT} on any of {_ATTEMPTS} loopback networks tried"
    )


def _is_free(ip: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((ip, INC_UDP_PORT))
        except OSError:
            return False
    return True
