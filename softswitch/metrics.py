# SPDX-License-Identifier: Apache-2.0
"""A switch's statistics as metrics; counters of the program keep its names and indices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ops.metrics import Metric

DIRECTIONS = ("rx", "tx")
UNITS = ("packets", "bytes")
# Name of the metric, its key in the statistics, what it counts.
_BY_REASON = (
    ("dropped_packets", "dropped", "frames that reached no port, by reason"),
    ("faults_packets", "faults", "packets that the program could not process, by reason"),
    (
        "untold_messages",
        "untold",
        "packets, digests and notifications that no controller was told, by reason",
    ),
    ("untraced_lines", "untraced", "lines that the trace lost, by reason"),
)


def collect(stats: Mapping[str, Any]) -> Iterator[Metric]:
    """Yield what `Switch.stats` returned."""
    ports = stats["ports"]
    for unit in UNITS:
        values = {
            (port, ways): counts[f"{ways}_{unit}"]
            for port, counts in ports.items()
            for ways in DIRECTIONS
        }
        text = f"{unit} that crossed a port, with Ethernet headers"
        yield Metric(f"incmoe_switch_port_{unit}_total", text, ("port", "direction"), values)
    up = {(port, counts["name"]): int(counts["up"]) for port, counts in ports.items()}
    text = "1 if the port's interface has a link; 1 for ports that are no interfaces"
    yield Metric("incmoe_switch_port_up", text, ("port", "name"), up)
    totals = {f"{ways}_{unit}" for ways in DIRECTIONS for unit in UNITS} | {"name", "up"}
    odd = {
        (port, reason): num
        for port, counts in ports.items()
        for reason, num in counts.items()
        if reason not in totals
    }
    yield Metric(
        "incmoe_switch_port_events_total",
        "frames that a port lost, refused or harmed, by reason",
        ("port", "reason"),
        odd,
    )
    for name, key, text in _BY_REASON:
        reasons = {(reason,): num for reason, num in stats[key].items()}
        yield Metric(f"incmoe_switch_{name}_total", text, ("reason",), reasons)
    for unit in UNITS:
        cells = {
            (counter, index): cell[unit]
            for counter, indices in stats["counters"].items()
            for index, cell in indices.items()
        }
        text = f"{unit} counted by the program, by counter and index"
        yield Metric(f"incmoe_switch_program_{unit}_total", text, ("counter", "index"), cells)
