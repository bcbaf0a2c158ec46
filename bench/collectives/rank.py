# SPDX-License-Identifier: Apache-2.0
"""One rank of the benchmark; told what to do.

    ready -> (run SCHEME at a time -> ran)* -> quit -> counted

The first run of each scheme is checked against what it must give.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import torch

from bench.collectives import plan as schemes
from bench.collectives.all_to_all import AllToAll
from bench.collectives.in_network import InNetwork
from bench.collectives.job import UDP_PORT, session
from bench.collectives.library import Gloo
from bench.collectives.mesh import Mesh
from bench.collectives.mpi import Mpi
from bench.collectives.plan import Plan
from bench.collectives.ring import Ring
from bench.collectives.routing import Routes
from bench.collectives.tensors import Tensors
from bench.collectives.trial import Trial
from host_agent.bands import Kind
from host_agent.collectives import Geometry, Group, Layout
from host_agent.endpoint import Endpoint
from host_agent.errors import AgentError
from host_agent.moe import Stages
from host_agent.sockets import bound_socket
from incmoe.demo.channel import Channel, run_child


class Rank:
    """A rank's schemes, ready to run."""

    def __init__(self, folder: Path, rank: int, ips: list[str]) -> None:
        self.plan = Plan.read(folder)
        self.tensors = Tensors(self.plan, rank, Routes.read(folder))
        self._stack = ExitStack()
        self._trial = Trial(self.tensors)
        layout = Layout(
            self.tensors.placement,
            Geometry(self.plan.hidden),
            Kind.ROUTED,
            band_rows=self.plan.band_rows,
        )
        seat = session(self.plan, folder, rank)
        bound = bound_socket(ips[rank], UDP_PORT)
        self.endpoint = Endpoint(seat, layout.wanted(rank), bound=bound)
        self.endpoint.check_switch()
        group = Group(self.endpoint, layout)
        stages = Stages(rank)
        self._stack.callback(stages.close)
        self._stack.callback(group.close)
        self._switch = InNetwork(group, stages, self.tensors)
        mesh = Mesh(rank, ips)
        self._stack.callback(mesh.close)
        self._ring, self._all_to_all = Ring(mesh, self.tensors), AllToAll(mesh, self.tensors)
        self._gloo: Gloo | None = None
        if schemes.GLOO in self.plan.schemes:
            self._gloo = Gloo(self.tensors, folder)
            self._stack.callback(self._gloo.close)
        self._mpi: Mpi | None = None
        if schemes.MPI in self.plan.schemes:
            self._mpi = Mpi(folder, rank)
            self._stack.callback(self._mpi.close)

    def run(self, scheme: str, at: float) -> dict[str, float]:
        """Run a scheme at a time; return when it began and ended, by the clock all share."""
        if scheme == schemes.MPI:
            assert self._mpi is not None
            return self._mpi.run(at)
        return self._trial.run(scheme, partial(self._run, scheme), at)

    def _run(self, scheme: str) -> object:
        if scheme == schemes.RING:
            return self._ring.run()
        if scheme == schemes.ALL_TO_ALL:
            return self._all_to_all.run()
        if scheme == schemes.GLOO:
            assert self._gloo is not None
            return self._gloo.run()
        return self._switch.run(Kind.ROUTED if scheme == schemes.ROUTED else Kind.STATIC)

    def close(self) -> None:
        """Leave everything."""
        self._stack.close()


def serve(channel: Channel, folder: Path, rank: int, ips: list[str]) -> None:
    """The process's work."""
    one = Rank(folder, rank, ips)
    channel.report("ready")
    while (command := channel.next_command())["do"] == "run":
        channel.report("ran", **one.run(command["scheme"], command["at"]))
    channel.report("counted", counts=one.endpoint.stats())
    one.close()


def main() -> None:
    """The process: `rank FOLDER RANK RANK_IP...`."""
    torch.set_num_threads(1)
    folder, rank, *ips = sys.argv[1:]
    body = partial(serve, folder=Path(folder), rank=int(rank), ips=ips)
    sys.exit(run_child(body, expected=(AgentError, AssertionError)))


if __name__ == "__main__":
    main()
