# SPDX-License-Identifier: Apache-2.0
"""How jobs stand, and what their switches count, as metrics; reads switches when it is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from controller import tables
from controller.errors import SwitchError
from controller.journal import EVENTS, Standing
from controller.rendezvous import Rendezvous
from controller.session import Credentials
from controller.switch import Count, Switch
from ops.metrics import Metric

SCRAPE_S: Final = 2.0  # for each answer of a switch
PACKETS: Final = {
    tables.DROPS: ("incmoe_switch_drops_packets_total", "packets dropped", "reason"),
    tables.OPS: ("incmoe_switch_ops_packets_total", "packets admitted, and sums sent", "op"),
    tables.PRUNED: ("incmoe_switch_pruned_copies_total", "copies without a receiver", "port"),
}
Counters = Mapping[str, Mapping[str, Count]]


def collect(rendezvous: Rendezvous, credentials: Credentials) -> Iterator[Metric]:
    """Yield everything a controller knows, its switches asked for what they count."""
    standings = rendezvous.standings()
    yield from _jobs(standings)
    yield from _switches(_read(standings, credentials))


def _jobs(standings: list[Standing]) -> Iterator[Metric]:
    by_job = {one.job.name: one for one in standings}
    yield Metric(
        "incmoe_job_generation",
        "generation under which a job runs, 0 while it does not",
        ("job",),
        {(name,): one.generation for name, one in by_job.items()},
    )
    yield Metric(
        "incmoe_job_ranks",
        "ranks of a job, gone from it, joined to its next generation",
        ("job", "state"),
        {
            (name, state): num
            for name, one in by_job.items()
            for state, num in (
                ("named", one.job.world_size),
                ("gone", one.gone),
                ("joining", one.joined),
            )
        },
    )
    yield Metric(
        "incmoe_job_events_total",
        f"what happened at the rendezvous: {', '.join(EVENTS)}",
        ("job", "event"),
        {
            (name, event): one.events.get(event, 0)
            for name, one in by_job.items()
            for event in EVENTS
        },
    )


def _read(standings: list[Standing], credentials: Credentials) -> dict[str, Counters | None]:
    """Return the counters of every switch by its address; None where it does not answer."""
    switches = {one.grpc: one for standing in standings for one in standing.job.switches.values()}
    found: dict[str, Counters | None] = {}
    for address, switch in switches.items():
        try:
            with Switch.connect(
                address,
                device_id=switch.device_id,
                writes=False,
                deadline_s=SCRAPE_S,
                credentials=credentials.towards(switch.certificate),
            ) as connected:
                found[address] = connected.counters()
        except SwitchError:
            found[address] = None
    return found


def _switches(found: Mapping[str, Counters | None]) -> Iterator[Metric]:
    yield Metric(
        "incmoe_switch_up",
        "1 if a switch answers the controller and runs its program",
        ("switch",),
        {(address,): float(counters is not None) for address, counters in found.items()},
    )
    for counter, (name, text, label) in PACKETS.items():
        values = {
            (address, cell): count.packets
            for address, counters in found.items()
            if counters is not None
            for cell, count in counters[counter].items()
        }
        yield Metric(name, text, ("switch", label), values)
