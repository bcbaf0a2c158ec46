# SPDX-License-Identifier: Apache-2.0
"""Rounding error of the switch's integer sums beside a library's: `python -m bench.error`.

The partial rows of one OLMoE-1B-7B layer (hidden 2048, 64 experts, top 8; narrowed experts) on four
ranks are summed twice: by torch.distributed (gloo reduce-scatter, four processes) in the rows' own
type, and by this project, through the compiled switch over loopback. Both results are in the rows'
type and are held against the float64 sum of the float32 partial rows. An error is the root mean
square over all values. Tokens are Gaussian, and routed at random.

Legend: T tokens of a rank, R ranks, H hidden, K experts per token, E experts, I intermediate.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor
from torch.multiprocessing.spawn import spawn

from bench.experts import random_experts
from host_agent import scale
from host_agent.bands import BandHeader, Kind, Placement, RowType, local_pairs
from host_agent.collectives import Geometry, Group, Layout, Routing
from host_agent.collectives.geometry import DTYPES
from host_agent.collectives.static import give
from host_agent.moe import LocalExperts
from incmoe.figures import Figure, write_figures
from incmoe.loopback import Loopback, on_all
from incmoe.options import output_file, whole

HIDDEN, NUM_EXPERTS, TOP_K, NUM_RANKS = 2048, 64, 8, 4
PLACEMENT = Placement.even(NUM_EXPERTS, NUM_RANKS)


@dataclass(frozen=True)
class Case:
    """One way to sum: the type of the rows, and the lanes they are summed in here."""

    name: str
    row_type: RowType
    lane_bits: int

    @property
    def dtype(self) -> torch.dtype:
        """The type of the rows in torch's words."""
        return DTYPES[self.row_type]


CASES = (
    Case("int32_over_float32", RowType.FLOAT32, 32),
    Case("int16_over_bfloat16", RowType.BFLOAT16, 16),
)


@dataclass(frozen=True)
class Rows:
    """What an owner knows of its tokens, and everyone's partial rows for them."""

    x: Tensor  # [T, H]
    routing: Routing
    partials: Tensor  # [R, T, H] float32


class Layer:
    """All experts of the layer, and their gains as the ranks would measure them."""

    def __init__(self, intermediate: int, dtype: torch.dtype) -> None:
        generator = torch.Generator().manual_seed(0)
        up, down = random_experts(NUM_EXPERTS, HIDDEN, intermediate, generator=generator)
        self._dtype = dtype
        self._locals = [
            LocalExperts(up[mine].to(dtype), down[mine].to(dtype))
            for mine in (PLACEMENT.experts_of(rank) for rank in range(NUM_RANKS))
        ]
        self._scale = scale.RowScale(self._gains(), PLACEMENT)

    def _gains(self) -> scale.Gains:
        rows = scale.sample_rows(HIDDEN)
        gains = [
            scale.gain_of(rows, experts.one(expert, rows))
            for experts in self._locals
            for expert in range(experts.num_experts)
        ]
        return np.array(gains, np.float64)

    def rows(self, owner: int, num_tokens: int) -> Rows:
        """Tokens of one owner, and what the experts of every rank make of them."""
        generator = torch.Generator().manual_seed(1 + owner)
        x_TH = torch.randn(num_tokens, HIDDEN, generator=generator).to(self._dtype)
        scores_TE = torch.randn(num_tokens, NUM_EXPERTS, generator=generator).softmax(-1)
        weights, ids = scores_TE.topk(TOP_K, dim=-1)
        ids_TK = ids.numpy().astype(np.int32)
        weights_TK: NDArray[np.float32] = weights.to(self._dtype).float().numpy()
        header = BandHeader(Kind.STATIC, 0, 0, 1, ids_TK, weights_TK, NUM_EXPERTS)
        partials = [
            experts(x_TH, local_pairs(header, rank, PLACEMENT, all_rows=True))
            for rank, experts in enumerate(self._locals)
        ]
        exponents = self._scale.exponents(x_TH, ids_TK, weights_TK, owner)
        routing = Routing(Kind.STATIC, ids_TK, weights_TK, exponents)
        return Rows(x_TH, routing, torch.stack(partials))


def switch_sums(rows: Sequence[Rows], case: Case) -> tuple[list[Tensor], int]:
    """Return every owner's sums [T, H] float32, and how many rows took another exponent."""
    geometry = Geometry(HIDDEN, case.row_type, case.lane_bits)
    job = Loopback(Layout(PLACEMENT, geometry, Kind.STATIC, band_rows=32))
    with job.open() as running:
        sums = on_all(running.groups, partial(_switch_rank, rows))
        return sums, sum(group.fabric.stats()["rescaled_rows"] for group in running.groups)


def _switch_rank(rows: Sequence[Rows], group: Group) -> Tensor:
    mine = rows[group.rank]
    dispatch = group.dispatch(mine.x, mine.routing)
    give(dispatch, [one.partials[group.rank] for one in rows])
    return dispatch.combine()


def library_sums(rows: Sequence[Rows], case: Case) -> list[Tensor]:
    """Return every owner's sums [T, H] of the rows' type from gloo's reduce-scatter."""
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(NUM_RANKS):
            mine = torch.cat([one.partials[rank] for one in rows]).to(case.dtype)
            torch.save(mine, Path(folder, f"partials{rank}"))
        spawn(_library_rank, (folder,), nprocs=NUM_RANKS)  # type: ignore[no-untyped-call]
        return [torch.load(Path(folder, f"sums{rank}")) for rank in range(NUM_RANKS)]


def _library_rank(rank: int, folder: str) -> None:
    warnings.simplefilter("ignore", FutureWarning)  # torch 2.13 has another name for it
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=NUM_RANKS
    )
    partials = torch.load(Path(folder, f"partials{rank}"))
    sums = torch.empty(len(partials) // NUM_RANKS, HIDDEN, dtype=partials.dtype)
    dist.reduce_scatter_tensor(sums, partials)
    torch.save(sums, Path(folder, f"sums{rank}"))
    dist.destroy_process_group()


def figures(case: Case, num_tokens: int, intermediate: int) -> Iterator[Figure]:
    """Measure one case."""
    layer = Layer(intermediate, case.dtype)
    rows = [layer.rows(owner, num_tokens) for owner in range(NUM_RANKS)]
    exact = torch.cat([one.partials.double().sum(0) for one in rows])
    ours, rescaled = switch_sums(rows, case)
    our_error = _rms(torch.cat(ours).to(case.dtype), exact)
    their_error = _rms(torch.cat(library_sums(rows, case)), exact)
    how = (
        f"rms error of the sums of {NUM_RANKS} ranks x {num_tokens} tokens, hidden {HIDDEN}, top "
        f"{TOP_K} of {NUM_EXPERTS} experts of {intermediate}, against float64: switch "
        f"{our_error:.3g}, gloo reduce-scatter {their_error:.3g}"
    )
    yield Figure(f"error_{case.name}", our_error / their_error, "1", 1.0, how)
    how = f"rows of {NUM_RANKS * num_tokens} that had to be repeated at another exponent"
    yield Figure(f"rescaled_{case.name.partition('_')[0]}", float(rescaled), "rows", 0.0, how)


def _rms(values: Tensor, exact: Tensor) -> float:
    return float((values.double() - exact).square().mean().sqrt())


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.error", description=__doc__)
    parser.add_argument("--json", type=output_file, help="write the figures here")
    parser.add_argument("--tokens", type=whole(1), default=64, help="of each rank (default: 64)")
    parser.add_argument(
        "--intermediate", type=whole(1), default=64, help="of each expert (default: 64)"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found: list[Figure] = []
    with torch.no_grad():
        for case in CASES:
            found += figures(case, arguments.tokens, arguments.intermediate)
    for figure in found:
        print(f"{figure.name:26} {figure.value:7.3f} {figure.unit:5} {figure.how}")
    if arguments.json:
        write_figures(arguments.json, found)


if __name__ == "__main__":
    main()
