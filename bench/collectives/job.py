# SPDX-License-Identifier: Apache-2.0
"""The job of a run: what the switch is to hold, and each rank's session in it; moves no row."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bench.collectives.plan import VALUE_BYTES, Plan
from controller.address import Endpoint, parse_ip, parse_mac, rank_mac
from controller.deploy import Deployer
from controller.job import Forwarding, Job, PortRef, Rank, Switch
from controller.pipeline import Pipeline, read_p4info
from host_agent.messages import Ticket, decode, encode
from host_agent.session import Pacing, RowFormat, Session, Timers
from host_agent.wire import CHUNK_BYTES
from incmoe.demo.network import DEVICE_ID, Links, Network
from p4src import program

UDP_PORT: Final = 17711  # of every rank, each in its own namespace
_SWITCH: Final = "s1"
_NAME: Final = "collectives"
_FILE: Final = "{}.ticket{}.json"
LEAST_PATIENCE_S: Final = 1.0


def install(
    plan: Plan, network: Network, name: str = _NAME, udp_port: int = UDP_PORT
) -> list[Ticket]:
    """Give the switch the job and the ranks' MAC addresses; raises ControllerError."""
    sizes = Pipeline(read_p4info(program(plan.geometry).p4info)).sizes()
    chunks = -(-plan.row_bytes // CHUNK_BYTES)
    least = -(-chunks // sizes.max_chunks)
    segments = min(least + least // 4, sizes.cells // (plan.num_ranks * plan.num_slots))
    ranks = _ranks(network.links, udp_port)
    job = Job(
        name=name,
        geometry=plan.geometry,
        num_slots=plan.num_slots,
        segments=segments,
        ranks=ranks,
        switches={_SWITCH: _switch(network.links, network.p4runtime)},
        links=(),
    )
    installed = Deployer().install(job, renew=True)
    return [installed.ticket(rank) for rank in range(plan.num_ranks)]


def write(tickets: list[Ticket], folder: Path, name: str = _NAME) -> None:
    """Leave the tickets for the ranks."""
    for rank, ticket in enumerate(tickets):
        (folder / _FILE.format(name, rank)).write_bytes(encode(ticket))


def ticket(folder: Path, rank: int, name: str = _NAME) -> Ticket:
    """What `write` left for a rank."""
    return decode(Ticket, (folder / _FILE.format(name, rank)).read_bytes())


def session(plan: Plan, folder: Path, rank: int, name: str = _NAME) -> Session:
    """A rank's session, by its ticket."""
    return ticket(folder, rank, name).session(
        rank,
        RowFormat(plan.row_bytes, plan.hidden, 8 * VALUE_BYTES),
        timers=_timers(plan),
        pacing=Pacing(look_every_s=plan.look_every_s),
    )


def _timers(plan: Plan) -> Timers:
    """No sum is late that waits in queues: all that may be out at once, of all ranks, passes one
    link as rows and another as partial rows, each after what was queued before.
    """
    out_bytes = plan.num_ranks * min(plan.num_slots, plan.tokens) * plan.row_bytes
    pull_s = max(LEAST_PATIENCE_S, 4 * out_bytes / plan.rate_bytes_s)
    return Timers(pull_s, 2 * pull_s, probe_every_s=2 * pull_s, deadline_s=20 * pull_s)


def _ranks(links: Links, udp_port: int) -> tuple[Rank, ...]:
    return tuple(
        Rank(PortRef(_SWITCH, r + 1), Endpoint(rank_mac(r), parse_ip(at.rank_ip), udp_port))
        for r, at in enumerate(links.attachments)
    )


def _switch(links: Links, p4runtime: str) -> Switch:
    mac = parse_mac(links.switch_mac)
    macs = {rank_mac(r): r + 1 for r in range(len(links.attachments))}
    own_ips = tuple(sorted({parse_ip(at.switch_ip) for at in links.attachments}))
    return Switch(
        name=_SWITCH,
        grpc=p4runtime,
        device_id=DEVICE_ID,
        ports={
            r + 1: Endpoint(mac, parse_ip(at.switch_ip)) for r, at in enumerate(links.attachments)
        },
        forwarding=Forwarding(macs=macs, flood=(), own_macs=(), routes=(), own_ips=own_ips),
    )
