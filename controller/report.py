# SPDX-License-Identifier: Apache-2.0
"""What the command prints about jobs and counters: names, not ids. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller import tables
from controller.address import ip_text, mac_text
from controller.drops import EXPLAINED
from controller.entries import Row
from controller.state import InstalledJob, SwitchState
from controller.switch import Count
from host_agent.wire import ranks_in

Counters = Mapping[str, Mapping[str, Count]]


def job_lines(job: InstalledJob, state: SwitchState) -> Iterator[str]:
    """Describe a job as a switch holds it."""
    group = next((group for group in state.groups() if group.id == job.group), None)
    yield f"job {job.name or '(no name)'}: number {job.id}, generation {job.generation}"
    yield f"  {group or f'multicast group {job.group} is missing'}"
    receivers = {
        row.key["port"]: row for row in state.rows(tables.DELIVER) if row.key["job"] == job.id
    }
    for port, ranks in sorted(job.behind.items()):
        yield f"  port {port}: {_ranks(ranks)}{_receiver(receivers.get(port))}"
    for owner, slots in sorted(job.slots.items()):
        yield (
            f"  owner {owner}: slots {_span(slots.first_slot, slots.num_slots)}, "
            f"cells {_span(slots.first_cell, slots.num_cells)}, segments {slots.segments}"
        )


def switch_lines(address: str, state: SwitchState, names: list[str]) -> Iterator[str]:
    """Describe all jobs on a switch, or those of the given names or numbers."""
    jobs = state.jobs().values()
    shown = [job for job in jobs if not names or {job.name, str(job.id)} & set(names)]
    total = f"{len(jobs)} {'job' if len(jobs) == 1 else 'jobs'}"
    yield f"switch {address}: {f'{len(shown)} of ' if names else ''}{total}"
    for job in shown:
        yield from (f"  {line}" for line in job_lines(job, state))
    plain = [row for table in tables.FORWARD_TABLES for row in state.rows(table)]
    if plain and not names:
        yield f"  plain traffic: {len(plain)} entries"


def counter_lines(address: str, counters: Counters) -> Iterator[str]:
    """Describe the counters of a switch; drops that are no fault are marked."""
    yield f"switch {address}"
    for counter, cells in counters.items():
        for name, count in cells.items():
            note = _note(counter, name)
            yield f"  {counter:16} {name:16} {count.packets:12} packets{_bytes(count)}{note}"
    if not any(counters.values()):
        yield "  all counters are 0"


def counters_document(counters: Counters) -> dict[str, dict[str, dict[str, int]]]:
    """Return the counters as plain JSON values."""
    return {
        counter: {
            name: {"packets": count.packets, "bytes": count.bytes} for name, count in cells.items()
        }
        for counter, cells in counters.items()
    }


def _note(counter: str, name: str) -> str:
    explained = counter == tables.DROPS and name in {reason.name for reason in EXPLAINED}
    return "  (no fault)" if explained else ""


def _bytes(count: Count) -> str:
    return f" {count.bytes:15} bytes" if count.bytes else ""


def _ranks(bits: int) -> str:
    ranks = ranks_in(bits)
    return f"{'ranks' if len(ranks) > 1 else 'rank'} {', '.join(map(str, ranks))}"


def _receiver(row: Row | None) -> str:
    if row is None:
        return ", nothing is delivered there"
    where = f"{ip_text(row.args['dst_ip'])}:{row.args['dst_udp']} ({mac_text(row.args['dst_mac'])})"
    return f" at {where}" if row.action == tables.TO_RANK else f" through the switch at {where}"


def _span(first: int, size: int) -> str:
    return f"{first}..{first + size - 1}"
