# SPDX-License-Identifier: Apache-2.0
"""A process that dies is named by every rank within the deadline, in real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.cluster import Cluster, cluster
from tests.system.rank_loop import DEADLINE_S

NUM_RANKS = 4
SLACK_S = 6.0  # two cores are shared by six processes


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Cluster]:
    """Four ranks that have finished their first call."""
    with cluster(tmp_path, NUM_RANKS) as made:
        for rank in range(NUM_RANKS):
            made.start_rank(rank)
        for rank in range(NUM_RANKS):
            assert made.line(f"rank {rank}") == "running", made.errors(f"rank {rank}")
        yield made


def ended(running: Cluster, rank: int) -> tuple[float, str]:
    """How long a rank waited for its error, and the error."""
    seconds, _, error = running.line(f"rank {rank}").partition(" ")
    return float(seconds), error


def test_a_killed_rank_is_named_by_every_other(running: Cluster) -> None:
    running.processes["rank 2"].kill()
    for rank in (0, 1, 3):
        seconds, error = ended(running, rank)
        assert error.startswith("RankLost rank 2 lost: "), running.errors(f"rank {rank}")
        assert seconds < DEADLINE_S + SLACK_S


def test_a_killed_switch_is_named_by_every_rank(running: Cluster) -> None:
    running.processes["switch"].kill()
    for rank in range(NUM_RANKS):
        seconds, error = ended(running, rank)
        address = f"{running.prefix}.{rank + 1}:17710"
        assert error.startswith(f"SwitchLost switch {address}"), running.errors(f"rank {rank}")
        assert seconds < DEADLINE_S + SLACK_S
