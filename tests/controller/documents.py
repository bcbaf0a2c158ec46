# SPDX-License-Identifier: Apache-2.0
"""Job files as parsed documents: the starting points of the tests."""

from __future__ import annotations

from typing import Any


def one_switch(num_ranks: int = 3, **changes: Any) -> dict[str, Any]:
    """`num_ranks` ranks on ports 1, 2, .. of switch s1, with all addresses."""
    numbers = range(1, num_ranks + 1)
    document: dict[str, Any] = {
        "job": "demo",
        "geometry": "mtu1500",
        "slots": 8,
        "segments": 2,
        "switches": {
            "s1": {
                "grpc": "127.0.0.1:9559",
                "ports": {n: {"ip": f"127.9.9.{n}"} for n in numbers},
            }
        },
        "ranks": [{"port": n, "ip": "127.0.0.1", "udp_port": 5000 + n} for n in numbers],
    }
    return document | changes


def tree(**changes: Any) -> dict[str, Any]:
    """Ranks 0, 1 at leaf a, ranks 2, 3 at leaf b, both leaves at spine s."""
    document: dict[str, Any] = {
        "job": "wide",
        "geometry": "mtu9000",
        "slots": 4,
        "switches": {
            "a": {"grpc": "127.0.0.1:9551", "ip": "10.0.0.1", "ports": {1: {}, 2: {}, 3: {}}},
            "b": {"grpc": "127.0.0.1:9552", "ip": "10.0.0.2", "ports": {1: {}, 2: {}, 9: {}}},
            "s": {"grpc": "127.0.0.1:9553", "ip": "10.0.0.3", "ports": {1: {}, 2: {}}},
        },
        "links": [["a:3", "s:1"], ["s:2", "b:9"]],
        "ranks": [
            {"switch": switch, "port": port, "ip": f"10.0.1.{index}", "udp_port": 6000}
            for index, (switch, port) in enumerate([("a", 1), ("a", 2), ("b", 1), ("b", 2)])
        ],
    }
    return document | changes


def changed(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return the document with the value at a dotted path set; `...` removes it."""
    import copy

    made = copy.deepcopy(document)
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    node: Any = made
    for step in steps:
        node = node[step]
    if value is ...:
        del node[last]
    else:
        node[last] = value
    return made
