# SPDX-License-Identifier: Apache-2.0
"""How ranks and switches are joined in these tests; moves no message."""

from __future__ import annotations

from dataclasses import dataclass

from tests.transport.switch_model import Job, Port, SwitchModel

Place = tuple[str, int]  # switch and its port, or "rank" and its number


@dataclass(frozen=True)
class Geometry:
    """What a job gets of every switch."""

    num_slots: int
    segments: int
    max_chunks: int


@dataclass
class Topology:
    """Switches by name, and what each (switch, port) is joined to, both ways."""

    switches: dict[str, SwitchModel]
    links: dict[Place, Place]


def single(world_size: int, geometry: Geometry, job: int, generation: int) -> Topology:
    """One switch; rank r on port r + 1."""
    ports = {rank + 1: Port(1 << rank) for rank in range(world_size)}
    return _joined({"s": ports}, [], geometry, (job, generation))


def tree(world_size: int, geometry: Geometry, job: int, generation: int) -> Topology:
    """Two ranks under each leaf, port 9 of a leaf up to a spine."""
    ports: dict[str, dict[int, Port]] = {"spine": {}}
    everyone = (1 << world_size) - 1
    links: list[tuple[Place, Place]] = []
    for leaf in range(-(-world_size // 2)):
        ranks = [rank for rank in (2 * leaf, 2 * leaf + 1) if rank < world_size]
        below = sum(1 << rank for rank in ranks)
        name = f"leaf{leaf}"
        ports[name] = {rank + 1: Port(1 << rank) for rank in ranks}
        ports[name][9 + world_size] = Port(everyone & ~below, to_switch=True)
        ports["spine"][leaf + 1] = Port(below, to_switch=True)
        links.append(((name, 9 + world_size), ("spine", leaf + 1)))
    return _joined(ports, links, geometry, (job, generation))


def _joined(
    ports: dict[str, dict[int, Port]],
    between: list[tuple[Place, Place]],
    geometry: Geometry,
    identity: tuple[int, int],
) -> Topology:
    links = dict(between) | {b: a for a, b in between}
    switches = {}
    for name, of_switch in ports.items():
        job = Job(*identity, of_switch, geometry.num_slots, geometry.segments, geometry.max_chunks)
        switches[name] = SwitchModel(job)
        for number, port in of_switch.items():
            if not port.to_switch:
                rank: Place = ("rank", port.behind.bit_length() - 1)
                links[name, number] = rank
                links[rank] = (name, number)
    return Topology(switches, links)
