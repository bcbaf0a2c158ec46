# SPDX-License-Identifier: Apache-2.0
"""`from_pretrained(..., distributed_config=DistributedConfig(ep_implementation="inc", ...))`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from host_agent.bands import Placement
from host_agent.collectives import Geometry, Layout
from incmoe.loopback import Loopback
from tests.huggingface import tiny
from tests.ports import free_tcp_port

FAMILIES = ("olmoe", "gpt_oss")
TOLERANCE = 2e-5


def run_ranks(folder: Path, num_ranks: int, environment: dict[str, str], *kinds: str) -> None:
    """Run worker.py as `num_ranks` processes; raises what the first that failed said."""
    environment = (
        os.environ
        | environment
        | {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_tcp_port()),
            "WORLD_SIZE": str(num_ranks),
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
        }
    )
    command = [sys.executable, "-m", "tests.huggingface.worker", str(folder), *kinds]
    ranks = [
        subprocess.Popen(
            command,
            env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(num_ranks)
    ]
    said = [rank.communicate()[1] for rank in ranks]
    for rank, text in zip(ranks, said, strict=True):
        assert rank.returncode == 0, text[-3000:]


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_a_model_loaded_by_all_ranks_answers_as_the_whole_one(num_ranks, tmp_path):
    models = {family: tiny.model_of(family) for family in FAMILIES}
    for family, model in models.items():
        model.save_pretrained(tmp_path / family)
    layout = Layout(Placement.even(tiny.EXPERTS, num_ranks), Geometry(tiny.HIDDEN))
    with Loopback(layout).served() as environment:
        run_ranks(tmp_path, num_ranks, environment, "tp", "fsdp")
    for family, model in models.items():
        for kind in ("tp", "fsdp"):
            for rank in range(num_ranks):
                want, tokens = tiny.answers_of(model, tiny.prompts(rank if kind == "fsdp" else 0))
                got, got_tokens = torch.load(tmp_path / f"{family}.{kind}.{rank}")
                assert (got - want).abs().max() < TOLERANCE
                assert torch.equal(got_tokens, tokens)
