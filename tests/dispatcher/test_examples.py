# SPDX-License-Identifier: Apache-2.0
"""The dispatcher's examples against a switch: as the processes they are, and beside all experts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
import torch
from torch import Tensor

from host_agent.bands import Placement
from host_agent.collectives import Geometry, Group, Layout
from host_agent.dispatcher import Buffer
from incmoe.loopback import Loopback, on_all

EXAMPLES = Path("docs/examples")
RANKS = 4
SIMPLE, DEEPEP = "dispatcher.py", "dispatcher_deepep.py"


def names_of(example: str) -> dict[str, Any]:
    return run_path(str(EXAMPLES / example))


def job(names: dict[str, Any]) -> Loopback:
    return Loopback(Layout(Placement.even(names["EXPERTS"], RANKS), Geometry(names["HIDDEN"])))


def tokens(names: dict[str, Any], rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return what an example draws as the tokens of a rank: rows, ids, gate weights."""
    torch.manual_seed(1 + rank)
    x = torch.randn(names["TOKENS"], names["HIDDEN"])
    scores = torch.rand(names["TOKENS"], names["EXPERTS"])
    gate, ids = scores.softmax(dim=-1).topk(names["TOP_K"])
    return x, ids, gate


def dense(names: dict[str, Any], x: Tensor, ids: Tensor, gate: Tensor) -> Tensor:
    """Return what an example's experts make of tokens, all of them at one place, in float64."""
    every_TE = torch.zeros(len(x), names["EXPERTS"], dtype=torch.float64)
    every_TE.scatter_(1, ids, gate.double())
    if "Weights" in names:
        weights = names["Weights"].all_of_them()
        up, value = (x.double() @ weights.up.double()).chunk(2, dim=-1)
        outputs_ETH = (torch.nn.functional.silu(up) * value) @ weights.down.double()
    else:
        experts = names["experts_of"](0, 1)
        outputs_ETH = torch.stack([expert.double()(x.double()) for expert in experts]).detach()
    return torch.einsum("te,eth->th", every_TE, outputs_ETH)


@pytest.mark.parametrize("example", [SIMPLE, DEEPEP])
def test_an_example_gives_what_all_experts_at_one_place_give(example):
    names = names_of(example)

    given = [tokens(names, rank) for rank in range(RANKS)]
    run, experts = (
        (names["moe"], [names["experts_of"](rank, RANKS) for rank in range(RANKS)])
        if example == SIMPLE
        else (
            names["moe_forward"],
            [names["Weights"].all_of_them().of(rank, RANKS) for rank in range(RANKS)],
        )
    )

    def body(group: Group) -> Tensor:
        return run(Buffer(group), experts[group.rank], *given[group.rank])

    wanted = [dense(names, *of_rank) for of_rank in given]
    with job(names).open() as running:
        outputs = on_all(running.groups, body)
    for got, want in zip(outputs, wanted, strict=True):
        assert (got - want).abs().max() < 1e-5


@pytest.mark.parametrize("example", [SIMPLE, DEEPEP])
def test_an_example_runs_as_processes(example):
    names = names_of(example)
    with job(names).served() as environment:
        ranks = [
            subprocess.Popen(
                [sys.executable, str(EXAMPLES / example), str(rank), str(RANKS)],
                env=os.environ | environment | {"OMP_NUM_THREADS": "1", "PYTHONPATH": "."},
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(RANKS)
        ]
        said = [process.communicate(timeout=120)[0] for process in ranks]
    for rank, text in enumerate(said):
        told = re.fullmatch(rf"rank {rank}: \((\d+), (\d+)\), norm ([\d.]+)\n", text)
        assert told, text
        norm = dense(names, *tokens(names, rank)).norm()
        assert abs(float(told[3]) - norm) < 1e-3


def test_the_short_example_is_short():
    assert len((EXAMPLES / SIMPLE).read_text().splitlines()) < 60
