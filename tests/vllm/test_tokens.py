# SPDX-License-Identifier: Apache-2.0
"""vLLM through the switch generates what vLLM by itself does, however ranks share the prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional

from incmoe.vllm_demo.site import Site
from tests.marks import needs_vllm
from tests.vllm.engines import Offline

pytestmark = [needs_vllm, pytest.mark.timeout(600)]

# Prompts of each rank, very uneven: most are done long before the others, and have no tokens then.
# At least one: offline, nobody else wakes an engine of vLLM.
SHARES = {2: (17, 3), 4: (1, 2, 4, 13)}
PROBE_ROWS = {2: (0, 150), 4: (70, 0, 1, 9)}  # more than a band, none, one
TOP_K = 4


@pytest.mark.parametrize(
    ("place", "mode", "choice", "eager"),
    [
        pytest.param(2, "routed", "runner", False, id="2 ranks, routed, compiled"),
        pytest.param(2, "static", "runner", True, id="2 ranks, static, eager"),
        pytest.param(4, "routed", "runner", True, id="4 ranks, routed, eager"),
        pytest.param(4, "static", "runner", True, id="4 ranks, static, eager"),
        pytest.param(2, "static", "communicator", True, id="2 ranks, communicator, eager"),
        pytest.param(2, "static", "gloo", True, id="2 ranks, gloo, eager"),
    ],
    indirect=["place"],
)
def test_tokens_and_logprobs_are_those_of_stock_vllm(
    place: Site,
    mode: str,
    choice: str,
    eager: bool,
    plugin: dict[str, str],
    model: Path,
    prompts: list[list[int]],
    stock: list[dict[str, Any]],
    tmp_path: Path,
) -> None:
    num_ranks = place.plan.num_ranks
    ends = torch.tensor(SHARES[num_ranks]).cumsum(0).tolist()
    shares = [prompts[end - num : end] for num, end in zip(SHARES[num_ranks], ends, strict=True)]
    environment = plugin | place.variables(mode) | {"INCMOE_VLLM": choice}
    probe_rows = PROBE_ROWS[num_ranks] if choice == "runner" else ()
    told = Offline(model, shares, environment, eager, probe_rows=probe_rows).run(tmp_path)

    generated = [one for rank in told for one in rank["generated"]]
    assert [one["tokens"] for one in generated] == [one["tokens"] for one in stock]
    for ours, theirs in zip(generated, stock, strict=True):
        assert ours["logprobs"] == pytest.approx(theirs["logprobs"], abs=1e-3)
    assert [rank["probed"] for rank in told] == [["InNetworkRunner"]] * num_ranks
    through_switch = choice != "gloo"
    for rank in told:
        assert (rank["counted"] != [{}]) == through_switch
    for rank, num_rows in enumerate(probe_rows):
        _check_probe(tmp_path / f"probe.{rank}.pt", num_rows, model)


def _check_probe(file: Path, num_rows: int, model: Path) -> None:
    """The first layer's rows and outputs beside plain torch in float64."""
    x_TH, logits_TE, y_TH = torch.load(file)
    assert x_TH.shape == y_TH.shape == (num_rows, 256)
    weights_TK, ids_TK = logits_TE.double().softmax(dim=1).topk(TOP_K, dim=1)
    experts = _experts(model, logits_TE.shape[1])
    expected_TH = torch.zeros_like(x_TH, dtype=torch.float64)
    for row, (weights, ids) in enumerate(zip(weights_TK, ids_TK, strict=True)):
        for weight, expert in zip(weights, ids.tolist(), strict=True):
            gate, up, down = experts[expert]
            x = x_TH[row].double()
            expected_TH[row] += weight * (down @ (functional.silu(gate @ x) * (up @ x)))
    torch.testing.assert_close(y_TH.double(), expected_TH, rtol=1e-4, atol=1e-4)


def _experts(model: Path, num: int) -> list[list[torch.Tensor]]:
    weights = load_file(model / "model.safetensors")
    prefix = "model.layers.0.mlp.experts"
    names = ("gate_proj", "up_proj", "down_proj")
    return [[weights[f"{prefix}.{e}.{name}.weight"].double() for name in names] for e in range(num)]
