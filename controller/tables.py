# SPDX-License-Identifier: Apache-2.0
"""Names of tables, actions, counters and registers of the P4 program, once; a test holds them
against P4Info.
"""

from __future__ import annotations

from typing import Final

JOBS: Final = "Admit.jobs"
PORTS: Final = "Admit.ports"
SLOTS: Final = "Admit.slots"
DELIVER: Final = "Deliver.ports"
SOURCES: Final = "Forward.sources"
MACS: Final = "Forward.macs"
ROUTES: Final = "Forward.routes"

KNOWN: Final = "Admit.known"
BEHIND: Final = "Admit.behind"
OWNS: Final = "Admit.owns"
TO_RANK: Final = "Deliver.to_rank"
TO_SWITCH: Final = "Deliver.to_switch"
SPOOFED: Final = "Forward.spoofed"
TO_PORT: Final = "Forward.to_port"
FLOOD: Final = "Forward.flood"
ROUTE: Final = "Forward.route"
VIA: Final = "Forward.via"

# Table -> (keys, action -> parameters in order).
Tables = dict[str, tuple[tuple[str, ...], dict[str, tuple[str, ...]]]]
ADDRESSES: Final = ("ranks", "src_mac", "src_ip", "dst_mac", "dst_ip", "dst_udp")
TABLES: Final[Tables] = {
    DELIVER: (("job", "port"), {TO_RANK: ADDRESSES, TO_SWITCH: ADDRESSES}),
    SLOTS: (("job", "owner"), {OWNS: ("first_slot", "num_slots", "first_cell", "segments")}),
    PORTS: (("job", "port"), {BEHIND: ("ranks",)}),
    JOBS: (("job",), {KNOWN: ("generation", "group")}),
    SOURCES: (("src",), {SPOOFED: ()}),
    MACS: (("dst",), {TO_PORT: ("port",), FLOOD: ("group",), ROUTE: ()}),
    ROUTES: (("dst",), {VIA: ("port", "src_mac", "dst_mac")}),
}
# Only in builds that lose packets on purpose.
ENTRY_CHANCES: Final = "Entry.chances"
EXIT_CHANCES: Final = "Exit.chances"
FAULT_TABLES: Final[Tables] = {
    ENTRY_CHANCES: (("port", "op"), {"Entry.lose": ("chance",)}),
    EXIT_CHANCES: (("port", "op"), {"Exit.lose": ("chance",)}),
}
# The door opens last and closes first: rows are written in this order and deleted in the reverse.
WRITE_ORDER: Final = (*TABLES, *FAULT_TABLES)
JOB_TABLES: Final = (DELIVER, SLOTS, PORTS, JOBS)
FORWARD_TABLES: Final = (SOURCES, MACS, ROUTES)

DROPS: Final = "drops"
OPS: Final = "ops"
PRUNED: Final = "Deliver.pruned"  # copies not for that port, by egress port
COUNTERS: Final = (DROPS, OPS, PRUNED)
LOST: Final = "lost"  # on purpose, by egress port; only where there are FAULT_TABLES

# Registers whose sizes bound what can be allocated, and those that hold the chunks of a packet.
SLOT_REGISTER: Final = "Rows.seq"
CELL_REGISTER: Final = "Cells.seen"
CHUNK_REGISTERS: Final = "Sums.sums_"
