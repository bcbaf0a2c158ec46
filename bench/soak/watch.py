# SPDX-License-Identifier: Apache-2.0
"""Memory and descriptors of processes over their lives (proc(5)); judges only growth."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at a process."""

    at_s: float
    rss_kib: int
    fds: int
    threads: int


def look(pid: int, at_s: float) -> Sample:
    """Return what a process has now; raises OSError when it is gone."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    fds = len(os.listdir(f"/proc/{pid}/fd"))
    return Sample(at_s, int(status["VmRSS"].split()[0]), fds, int(status["Threads"]))


@dataclass(frozen=True, slots=True)
class Growth:
    """From the second quarter of a life to its last, by medians; the first is for warming up."""

    rss_kib: float
    rss_before_kib: float
    fds: float
    threads: float
    life_s: float

    @property
    def rss_share(self) -> float:
        """Growth of memory as a part of what there was."""
        return self.rss_kib / self.rss_before_kib


@dataclass(slots=True)
class Watch:
    """All samples, by process name; a process that is started again begins anew."""

    _lives: dict[tuple[str, int], list[Sample]] = field(default_factory=lambda: defaultdict(list))

    def look(self, name: str, pid: int, at_s: float) -> None:
        """Note a sample, if the process is there."""
        try:
            self._lives[name, pid].append(look(pid, at_s))
        except (OSError, KeyError):  # it ended meanwhile, and is to be reaped
            return

    def longest(self, name: str) -> list[Sample]:
        """Return the samples of the longest life of a process."""
        lives = [samples for (who, _), samples in self._lives.items() if who == name and samples]
        return max(lives, key=len, default=[])

    def growth(self, name: str) -> Growth | None:
        """Return how much it grew; None for a life too short to tell."""
        samples = self.longest(name)
        quarter = len(samples) // 4
        if not quarter:
            return None
        before, after = samples[quarter : 2 * quarter], samples[-quarter:]

        def of(part: list[Sample], what: str) -> float:
            return float(median(getattr(sample, what) for sample in part))

        was = of(before, "rss_kib")
        return Growth(
            rss_kib=of(after, "rss_kib") - was,
            rss_before_kib=was,
            fds=of(after, "fds") - of(before, "fds"),
            threads=of(after, "threads") - of(before, "threads"),
            life_s=samples[-1].at_s - samples[0].at_s,
        )
