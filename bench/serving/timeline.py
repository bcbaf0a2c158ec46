# SPDX-License-Identifier: Apache-2.0
"""The ranks' spans of all schemes as one Chrome trace, which Perfetto opens; measures nothing.

    process = rank (of the first scheme; each further scheme has numbers above)
    thread  = stage: gather, ffn, reduce, collect; model: whole forward calls

Every scheme starts at 0, so that they can be compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from host_agent.moe.trace import THREADS, Event, titles

MODEL = "model"  # the thread after those of the stages


def write(path: Path, by_scheme: Mapping[str, Sequence[Sequence[Event]]]) -> None:
    """Write the events of each scheme's ranks, schemes in the order given."""
    merged = {"traceEvents": list(_events(by_scheme)), "displayTimeUnit": "ms"}
    path.write_text(json.dumps(merged) + "\n")


def _events(by_scheme: Mapping[str, Sequence[Sequence[Event]]]) -> Iterable[Event]:
    first_pid = 0
    for scheme, by_rank in by_scheme.items():
        start_us = min(event["ts"] for events in by_rank for event in events)
        for rank, events in enumerate(by_rank):
            pid = first_pid + rank
            yield from titles(pid, f"{scheme} rank {rank}", [*THREADS, MODEL])
            for event in events:
                yield event | {"pid": pid, "ts": event["ts"] - start_us}
        first_pid += len(by_rank)
