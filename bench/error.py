# SPDX-License-Identifier: Apache-2.0
"""Rounding error of the switch's integer sums beside a library's: `python -m bench.error`.

The partial rows of one OLMoE-1B-7B layer (hidden 2048, 64 experts, top 8, narrowed experts) on four
ranks are summed by torch.distributed (gloo reduce-scatter, four processes) in the row's own type,
and by this project's lanes: quantised at the exponent that the owner chose, added as integers,
repeated at another exponent where the flags ask for it, turned to floats, the owner's own partial
row added last. Both results are in the row's type and are held against the float64 sum of the
float32 partial rows; an error is the root mean square over all values.

Legend: T tokens of a rank, R ranks, H hidden, K experts per token, E experts, I intermediate.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, multiprocessing

from bench.figures import Figure, write_figures
from host_agent import lanes, scale
from host_agent.bands import BandHeader, Kind, Placement, local_pairs
from host_agent.moe import LocalExperts

HIDDEN, NUM_EXPERTS, TOP_K, NUM_RANKS = 2048, 64, 8, 4
ATTEMPTS = 4  # of a row: the first and three repeats
PLACEMENT = Placement.even(NUM_EXPERTS, NUM_RANKS)


@dataclass(frozen=True)
class Case:
    """One way to sum: the rows' type and ours and the library's width."""

    name: str
    dtype: torch.dtype
    lane_bits: int


CASES = (
    Case("error_int32_over_float32", torch.float32, 32),
    Case("error_int16_over_bfloat16", torch.bfloat16, 16),
)


@dataclass(frozen=True)
class Rows:
    """What an owner knows of its tokens, and everyone's partial rows for them."""

    owner: int
    x_TH: Tensor
    ids_TK: NDArray[np.int32]
    weights_TK: NDArray[np.float32]
    partials_RTH: Tensor  # float32


class Layer:
    """All experts of the layer, and their gains as the ranks would measure them."""

    def __init__(self, intermediate: int, dtype: torch.dtype) -> None:
        generator = torch.Generator().manual_seed(0)
        up = torch.randn(NUM_EXPERTS, 2 * intermediate, HIDDEN, generator=generator) / HIDDEN**0.5
        down = torch.randn(NUM_EXPERTS, HIDDEN, intermediate, generator=generator)
        down /= intermediate**0.5
        self._locals = [
            LocalExperts(up[mine].to(dtype), down[mine].to(dtype))
            for mine in (PLACEMENT.experts_of(rank) for rank in range(NUM_RANKS))
        ]
        self.scale = scale.RowScale(self._gains(), PLACEMENT)
        self._dtype = dtype

    def _gains(self) -> scale.Gains:
        samples = scale.sample_rows(HIDDEN)
        return np.array(
            [
                scale.gain_of(samples, experts.one(expert, samples))
                for experts in self._locals
                for expert in range(experts.num_experts)
            ]
        )

    def rows(self, owner: int, num_tokens: int) -> Rows:
        """Gaussian tokens of one owner, routed at random, through the experts of every rank."""
        generator = torch.Generator().manual_seed(1 + owner)
        x_TH = torch.randn(num_tokens, HIDDEN, generator=generator).to(self._dtype)
        scores_TE = torch.randn(num_tokens, NUM_EXPERTS, generator=generator).softmax(-1)
        weights, ids = scores_TE.topk(TOP_K, dim=-1)
        ids_TK = ids.numpy().astype(np.int32)
        weights_TK = weights.to(self._dtype).float().numpy()
        header = BandHeader(Kind.STATIC, 0, 0, 1, ids_TK, weights_TK, NUM_EXPERTS)
        partials = [
            experts(x_TH, local_pairs(header, rank, PLACEMENT, all_rows=True))
            for rank, experts in enumerate(self._locals)
        ]
        return Rows(owner, x_TH, ids_TK, weights_TK, torch.stack(partials))


def switch_sums(rows: Rows, row_scale: scale.RowScale, lane_bits: int) -> tuple[Tensor, int]:
    """Return the owner's sums [T, H] float32 by way of lanes, and how many rows were repeated."""
    members = PLACEMENT.members(rows.ids_TK, rows.owner)
    exponents = row_scale.exponents(rows.x_TH, rows.ids_TK, rows.weights_TK, rows.owner)
    exponents = exponents.astype(np.int64)
    out_TH, repeats = np.zeros(rows.x_TH.shape, np.float32), 0
    todo = np.flatnonzero(members)
    for attempt in range(ATTEMPTS):
        out_TH[todo], flags = _lane_sums(rows, members, todo, exponents[todo], lane_bits)
        better = [
            lanes.next_exponent(int(f), int(e)) for f, e in zip(flags, exponents[todo], strict=True)
        ]
        again = np.array([exponent is not None for exponent in better], bool)
        if not again.any() or attempt == ATTEMPTS - 1:
            break
        todo = todo[again]
        exponents[todo] = [exponent for exponent in better if exponent is not None]
        repeats += len(todo)
    return torch.from_numpy(out_TH) + rows.partials_RTH[rows.owner], repeats


def _lane_sums(
    rows: Rows,
    members: NDArray[np.uint64],
    todo: NDArray[np.int64],
    exponents: NDArray[np.int64],
    lane_bits: int,
) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    counts, wire = np.bitwise_count(members[todo]), f">u{lane_bits // 8}"
    num_bytes = lanes.payload_bytes(HIDDEN, lane_bits)
    total = np.zeros((len(todo), num_bytes * 8 // lane_bits), np.uint64)
    flags = np.zeros(len(todo), np.uint8)
    for rank in range(NUM_RANKS):
        here = (members[todo] >> np.uint64(rank) & np.uint64(1)).astype(bool)
        values = rows.partials_RTH[rank].numpy()[todo[here]]
        payload, told = lanes.quantise(values, exponents[here], counts[here], lane_bits)
        total[here] += payload.view(wire)
        flags[here] |= told
    assert not (total >> np.uint64(lane_bits)).any(), "a lane overflowed"
    summed = total.astype(wire).view(np.uint8)
    return lanes.dequantise(summed, exponents, counts, lane_bits, HIDDEN), flags


def library_sums(rows: list[Rows], dtype: torch.dtype) -> list[Tensor]:
    """Return every owner's sums [T, H] of `dtype` from gloo's reduce-scatter."""
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(NUM_RANKS):
            mine = torch.cat([one.partials_RTH[rank] for one in rows]).to(dtype)
            torch.save(mine, Path(folder, f"partials{rank}"))
        multiprocessing.spawn(_library_rank, (folder,), nprocs=NUM_RANKS)
        return [torch.load(Path(folder, f"sums{rank}")) for rank in range(NUM_RANKS)]


def _library_rank(rank: int, folder: str) -> None:
    warnings.simplefilter("ignore", FutureWarning)  # the name is an older one's from torch 2.13 on
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
    exact = torch.cat([one.partials_RTH.double().sum(0) for one in rows])
    ours, repeats = zip(
        *(switch_sums(one, layer.scale, case.lane_bits) for one in rows), strict=True
    )
    our_error = _rms(torch.cat(ours).to(case.dtype), exact)
    their_error = _rms(torch.cat(library_sums(rows, case.dtype)), exact)
    how = (
        f"rms error against float64, {NUM_RANKS} ranks x {num_tokens} tokens, hidden {HIDDEN}, "
        f"top {TOP_K} of {NUM_EXPERTS} experts of {intermediate}: ours {our_error:.3g}, "
        f"gloo reduce-scatter {their_error:.3g}"
    )
    yield Figure(case.name, our_error / their_error, "1", 1.0, how)
    name = case.name.partition("_over_")[0].replace("error", "repeated_rows")
    yield Figure(name, float(sum(repeats)), "rows", 0.0, "rows repeated at another exponent")


def _rms(values: Tensor, exact: Tensor) -> float:
    return float((values.double() - exact).square().mean().sqrt())


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.error", description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--tokens", type=int, default=64, help="of each rank (default: 64)")
    parser.add_argument("--intermediate", type=int, default=64, help="of each expert (default: 64)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with torch.no_grad():
        found = [f for c in CASES for f in figures(c, arguments.tokens, arguments.intermediate)]
    for figure in found:
        print(f"{figure.name:28} {figure.value:8.3f} {figure.unit:5} {figure.how}")
    if arguments.json:
        write_figures(arguments.json, found)


if __name__ == "__main__":
    main()
