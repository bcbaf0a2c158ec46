# SPDX-License-Identifier: Apache-2.0
"""The example of the README runs as it stands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.system.cluster import JOB, cluster

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "one_rank.py"


def test_four_ranks_of_the_example_finish(tmp_path: Path) -> None:
    with cluster(tmp_path, 4) as made:
        ranks = [
            subprocess.Popen(
                [sys.executable, str(EXAMPLE), str(rank), made.rendezvous, JOB],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(4)
        ]
        for rank, process in enumerate(ranks):
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0, err
            assert out.startswith(f"rank {rank}: (100, 256), norm "), err
