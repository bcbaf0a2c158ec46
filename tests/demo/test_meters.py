# SPDX-License-Identifier: Apache-2.0
"""Readings of several switches together: bytes by rank, counts summed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from incmoe.demo.meters import Meters, Reading, SwitchMeter
from incmoe.demo.network import SwitchNode
from incmoe.demo.traffic import PortBytes


@dataclass(frozen=True, slots=True)
class Fixed:
    """A switch that has counted."""

    drops: dict[str, int]
    ports: tuple[PortBytes, ...]

    def read(self) -> Reading:
        return Reading({"PULL": 1}, self.drops, {"not_taken_in": 2}, self.ports)


def meter(first: int, num_ports: int, **drops: int) -> SwitchMeter:
    ports = (PortBytes(first + port, 0) for port in range(num_ports))
    return cast("SwitchMeter", Fixed(drops, tuple(ports)))


def test_a_ranks_bytes_are_its_ports_and_every_switchs_drops_are_counted() -> None:
    found = Meters(
        [
            (SwitchNode("spine", (), ("a", "b")), meter(900, 2, NO_ROUTE=1)),
            (SwitchNode("leaf2", (2, 3), ("u",)), meter(200, 3, NO_ROUTE=2, WRONG_PORT=5)),
            (SwitchNode("leaf1", (0, 1), ("u",)), meter(100, 3, COLLECTED=7)),
        ]
    ).read()
    assert [port.from_rank for port in found.ports] == [100, 101, 200, 201]
    assert found.drops == {"NO_ROUTE": 3, "WRONG_PORT": 5, "COLLECTED": 7}
    assert (found.ops, found.losses) == ({"PULL": 3}, {"not_taken_in": 6})
