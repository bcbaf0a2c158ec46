# SPDX-License-Identifier: Apache-2.0
"""What benchmarks say while they run and when they fail, and figures that several have."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping

from incmoe.figures import Figure


def say(line: str) -> None:
    """Tell how far it is."""
    print(line, file=sys.stderr, flush=True)


def failed(name: str, error: Exception) -> int:
    """Tell why a benchmark cannot be run, with the end of a failed process's log; return 2."""
    say(f"{name}: {error}\n{getattr(error, 'log_tail', '')}")
    return 2


def spread(values: list[float]) -> str:
    """Return how far measured values lie apart, in words."""
    return f"median of {len(values)}, {min(values):.3f} to {max(values):.3f}"


def table(setting: str, found: Iterable[Figure]) -> str:
    """Return what was measured, in words, and all figures as text."""
    lines = [setting]
    for one in found:
        limit = "" if one.limit is None else f"limit {one.limit:.3f}"
        lines.append(f"{one.name:36} {one.value:9.4f} {one.unit:8} {limit:12} {one.how[:90]}")
    return "\n".join(lines)


def verdict(name: str, found: Iterable[Figure]) -> int:
    """Tell which figures are above their limits; return 1 if any is, else 0."""
    over = [one.name for one in found if one.limit is not None and one.value > one.limit]
    for figure in over:
        say(f"{name}: {figure} is beyond its limit")
    return 1 if over else 0


def repairs(counts: Mapping[str, int]) -> int:
    """Return the pulls and repeats among what a transport counted (Endpoint.stats)."""
    repeats = sum(num for name, num in counts.items() if name.startswith("repeated_"))
    return counts["pulls"] + repeats


def faults(frames_lost: int, repaired: int) -> Iterator[Figure]:
    """Yield what must not happen on links that lose nothing."""
    yield Figure("frames_lost", frames_lost, "frames", 0, "by all links and shapers, all schemes")
    how = "pulls and repeats of all ranks' transports"
    yield Figure("repairs", repaired, "messages", 0, how)
