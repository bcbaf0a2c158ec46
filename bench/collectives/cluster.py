# SPDX-License-Identifier: Apache-2.0
"""The processes of a run on shaped links: a switch, and ranks that do one thing at once.

ready -> (run ... at a time -> ran)* -> quit -> counted
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.collectives import links as shaped
from bench.collectives.links import Moved
from incmoe.demo.channel import Message
from incmoe.demo.child import Child, Command
from incmoe.demo.fabric import await_answer
from incmoe.demo.network import Links, Network
from incmoe.demo.plan import VETH
from incmoe.demo.plan import Plan as DemoPlan
from incmoe.demo.processes import Supervisor
from incmoe.demo.switches import switch_command

START_S: Final = 180.0
SILENCE_S: Final = 180.0
SETTLE_S: Final = 0.3  # the last acknowledgements pass, and shapers fill up
NOTICE_S: Final = 0.3  # for every rank to hear of a run before it begins
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Ran:
    """What all ranks did together once."""

    told: tuple[Message, ...]  # by rank; each has `began`, `ended` and `cpu_s`
    moved: tuple[Moved, ...]  # by rank
    cpu_s: float  # of the switch and all ranks

    @property
    def seconds(self) -> float:
        """From the first start to the last end."""
        return float(max(one["ended"] for one in self.told) - self.began)

    @property
    def began(self) -> float:
        """The first start, by the clock that all processes share."""
        return float(min(one["began"] for one in self.told))


@dataclass(eq=False)
class Cluster:
    """The switch and the ranks."""

    folder: Path
    links: Links
    supervisor: Supervisor
    ranks: list[Child] = field(default_factory=list)

    @property
    def network(self) -> Network:
        """Where everything listens."""
        return Network.inside(self.folder, self.links)

    def start_switch(self, geometry: str, switch: str) -> None:
        """Start it and wait until it answers."""
        num_ranks = len(self.links.attachments)
        demo = DemoPlan(num_ranks=num_ranks, geometry=geometry, switch=switch, links=VETH)
        (node,) = self.links.switches
        command = switch_command(demo, self.network, node, self.folder)
        self._switch = self.supervisor.start("switch", command)
        await_answer(self.supervisor, "switch", self.network.p4runtime, timeout_s=START_S)

    def start_ranks(self, module: str) -> None:
        """Start `module FOLDER RANK RANK_IP...` for each and wait until all are ready."""
        ips = [at.rank_ip for at in self.links.attachments]
        for rank, at in enumerate(self.links.attachments):
            words = [module, str(self.folder), str(rank), *ips]
            command = Command.module(*words, namespace=at.namespace)
            self.ranks.append(self.supervisor.start(f"rank {rank}", command, talks=True))
        self.supervisor.gather(self.ranks, "ready", timeout_s=START_S)

    def run(self, **what: object) -> Ran:
        """Have all ranks do something at the same time."""
        time.sleep(SETTLE_S)
        moved, switch_s = shaped.moved(self.links), self._switch_cpu_s()
        for rank in self.ranks:
            rank.send("run", at=time.monotonic() + NOTICE_S, **what)
        told = self.supervisor.gather(self.ranks, "ran", timeout_s=SILENCE_S)
        cpu_s = self._switch_cpu_s() - switch_s + sum(one["cpu_s"] for one in told)
        time.sleep(SETTLE_S)
        now = [new.since(old) for new, old in zip(shaped.moved(self.links), moved, strict=True)]
        return Ran(tuple(told), tuple(now), cpu_s)

    def dismiss(self, others: tuple[Child, ...] = ()) -> dict[str, int]:
        """Let the ranks end, and `others` with them; return what all transports counted."""
        for child in (*self.ranks, *others):
            child.may_end = True
        for rank in self.ranks:
            rank.send("quit")
        told = self.supervisor.gather(self.ranks, "counted", timeout_s=SILENCE_S)
        counts = [message["counts"] for message in told]
        return {name: sum(count[name] for count in counts) for name in counts[0]}

    def _switch_cpu_s(self) -> float:
        """Return the processor time of the switch so far (proc(5): utime, stime)."""
        stat = Path(f"/proc/{self._switch.process.pid}/stat").read_text()
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS
