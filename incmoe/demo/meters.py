# SPDX-License-Identifier: Apache-2.0
"""Reads what switches have counted: packets by name, bytes and losses by port; changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller import tables
from controller.drops import Drop
from controller.switch import Switch
from host_agent.wire import Op
from incmoe.demo.network import DEVICE_ID, SwitchNode
from incmoe.demo.outcome import NOT_TAKEN_IN
from incmoe.demo.port_meters import PortMeter
from incmoe.demo.traffic import PortBytes

# Dropped before they are counted by kind (p4src/include/admit.p4); the other reasons come after.
AT_THE_DOOR: Final = (
    Drop.NO_JOB,
    Drop.STALE_GENERATION,
    Drop.WRONG_PORT,
    Drop.NO_SLOT,
    Drop.UNKNOWN_OP,
    Drop.TRUNCATED,
    Drop.WRONG_VERSION,
    Drop.BAD_CHECKSUM,
)


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything since the start; several switches' counts summed."""

    ops: Mapping[str, int]  # packets by name of Op
    drops: Mapping[str, int]  # packets by name of Drop
    losses: Mapping[str, int]  # frames that never came to the program or never left, by reason
    ports: tuple[PortBytes, ...]  # of the ranks', or of one switch in their order


@dataclass(frozen=True, slots=True)
class SwitchMeter:
    """One switch's counters, by P4Runtime, and those of its ports: the first meter's bytes."""

    p4runtime: str
    port_meters: Sequence[PortMeter]

    def read(self) -> Reading:
        """Asks the switch; raises ControllerError or DemoError when it does not answer.

        The ports come first: what they count later would seem lost.
        """
        found = [meter.read() for meter in self.port_meters]
        with Switch.connect(self.p4runtime, device_id=DEVICE_ID, writes=False) as switch:
            counters = switch.counters()
        ops, drops = (
            {name: count.packets for name, count in counters[table].items()}
            for table in (tables.OPS, tables.DROPS)
        )
        losses = total(loss for reading in found for loss in reading.losses)
        losses[NOT_TAKEN_IN] = max(0, found[0].frames_in - _taken_in(ops, drops))
        return Reading(ops=ops, drops=drops, losses=losses, ports=found[0].ports)


@dataclass(frozen=True, slots=True)
class Meters:
    """All switches of a run."""

    switches: Sequence[tuple[SwitchNode, SwitchMeter]]

    def read(self) -> Reading:
        """Asks them all, one after the other; raises like SwitchMeter."""
        found = [(node, meter.read()) for node, meter in self.switches]
        by_rank = {
            rank: moved
            for node, one in found
            for rank, moved in zip(node.ranks, one.ports, strict=False)  # cables have ports too
        }
        return Reading(
            ops=total(one.ops for _, one in found),
            drops=total(one.drops for _, one in found),
            losses=total(one.losses for _, one in found),
            ports=tuple(moved for _, moved in sorted(by_rank.items(), key=lambda item: item[0])),
        )


def _taken_in(ops: Mapping[str, int], drops: Mapping[str, int]) -> int:
    """Packets that came to the program: those it admitted, and those it dropped at the door."""
    admitted = sum(count for name, count in ops.items() if name != Op.RESULT.name)
    return admitted + sum(drops.get(reason.name, 0) for reason in AT_THE_DOOR)


def difference(after: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    """What was counted between two readings."""
    return {name: count - before.get(name, 0) for name, count in after.items()}


def total(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sum by name."""
    added: Counter[str] = Counter()
    for one in counts:
        added.update(one)
    return dict(added)
