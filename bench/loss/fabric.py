# SPDX-License-Identifier: Apache-2.0
"""Switches that lose what they are told to, and the endpoints of all ranks; computes nothing."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from bench.collectives import job
from bench.collectives.cluster import Cluster
from bench.collectives.plan import Plan as JobPlan
from bench.loss.plan import FAULTY_GEOMETRY, GEOMETRY, LINES, NUM_VALUES, ROW, STATIC, Plan
from bench.loss.spoiled import SpoiledSocket
from bench.loss.work import wanted
from controller.faults import Loss, fault_entries, faults
from controller.switch import Switch as Control
from host_agent.bands import Kind, Placement
from host_agent.collectives import Geometry, Layout
from host_agent.endpoint import Endpoint
from host_agent.session import Session
from host_agent.sockets import RunSocket, bound_socket
from incmoe.demo import veth
from incmoe.demo.namespaces import call_in
from incmoe.demo.network import DEVICE_ID
from incmoe.demo.plan import BMV2
from incmoe.demo.processes import Supervisor
from incmoe.loopback import Loopback, on_all
from softswitch.ports.faults import FaultSpec
from softswitch.ports.spec import WireOptions

Seat = tuple[Session, socket.socket]


@contextmanager
def opened(plan: Plan) -> Iterator[list[Endpoint]]:
    """The endpoints of all ranks, joined by the switch of the plan; DemoError where they cannot."""
    with (_bmv2 if plan.switch == BMV2 else _embedded)(plan) as seats, ExitStack() as stack:
        endpoints = [_endpoint(plan, *seat) for seat in seats]
        stack.callback(on_all, endpoints, Endpoint.close)
        yield endpoints


def _endpoint(plan: Plan, session: Session, bound: socket.socket) -> Endpoint:
    return Endpoint(
        session,
        partial(wanted, rank=session.rank),
        bound=bound,
        socket_type=RunSocket if plan.switch == LINES else _spoiled(plan, session.rank),
    )


def _spoiled(plan: Plan, rank: int) -> type[RunSocket]:
    """A socket with all that the program cannot do to messages: it only loses them."""
    spec = FaultSpec(duplicate=plan.spoils, reorder=plan.spoils, seed=plan.seed)
    return type("Spoiled", (SpoiledSocket,), {"spec": spec, "stream": rank})


@contextmanager
def _embedded(plan: Plan) -> Iterator[list[Seat]]:
    placement = Placement.even(plan.num_ranks, plan.num_ranks)
    kind = Kind.STATIC if plan.mode == STATIC else Kind.ROUTED
    layout = Layout(placement, Geometry(NUM_VALUES), kind, band_rows=plan.band_rows)
    loss = FaultSpec(drop=plan.loss, duplicate=plan.spoils, reorder=plan.spoils, seed=plan.seed)
    spoil = [loss] if plan.switch == LINES and plan.loss else []
    loopback = Loopback(
        layout,
        num_slots=plan.num_slots,
        geometry=GEOMETRY if plan.switch == LINES else FAULTY_GEOMETRY,
        timers=plan.timers,
        pacing=plan.pacing,
        wires=WireOptions(rx_faults=spoil, tx_faults=spoil),
    )
    with loopback.seats() as (switch, seats):
        if plan.switch != LINES:
            assert switch.grpc_address is not None
            _lose(plan, switch.grpc_address, switch.device_id)
        yield [(seat.session, seat.bound) for seat in seats]


@contextmanager
def _bmv2(plan: Plan) -> Iterator[list[Seat]]:
    with (
        tempfile.TemporaryDirectory(prefix="incmoe-bench-") as name,
        veth.opened(plan.num_ranks, GEOMETRY) as links,
        Supervisor(Path(name)) as supervisor,
    ):
        cluster = Cluster(Path(name), links, supervisor)
        cluster.start_switch(FAULTY_GEOMETRY, BMV2)
        demand = JobPlan(
            num_ranks=plan.num_ranks,
            geometry=FAULTY_GEOMETRY,
            num_slots=plan.num_slots,
            hidden=NUM_VALUES,
        )
        tickets = job.install(demand, cluster.network)
        _lose(plan, cluster.network.p4runtime, DEVICE_ID)
        yield [
            (
                ticket.session(rank, ROW, timers=plan.timers, pacing=plan.pacing),
                call_in(at.namespace, partial(bound_socket, at.rank_ip, job.UDP_PORT)),
            )
            for rank, (ticket, at) in enumerate(zip(tickets, links.attachments, strict=True))
        ]


def _lose(plan: Plan, address: str, device_id: int) -> None:
    """Have the program lose messages at every port, both ways."""
    if plan.loss:
        entries = fault_entries(Loss(plan.loss), range(1, plan.num_ranks + 1))
        with Control.connect(address, device_id=device_id, writes=True) as control:
            control.reconcile(entries, scope=faults)
