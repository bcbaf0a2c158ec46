# SPDX-License-Identifier: Apache-2.0
"""Bytes per rank and direction of a layer call, counted at the switch's ports with all headers.

`python -m bench.bytes [--json FILE]`. One forward of a layer with OLMoE-1B-7B's dimensions (experts
made narrow: they do not travel) on four ranks, every row once in static and once in routed mode.

    limit, both directions of every rank     static  1.06 N M     routed  1.08 (D+1) M

M: bytes of one rank's rows; D: mean number of other ranks a row needs, counted from the routing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from bench.collectives.routing import Routes
from bench.experts import random_experts
from host_agent.bands import Kind, Placement, RowType
from host_agent.collectives import Geometry, Group, Layout
from host_agent.moe import InNetworkMoE, LocalExperts, Stages
from host_agent.session import Timers
from incmoe.figures import Figure, write_figures
from incmoe.loopback import Loopback, Running, max_chunks, on_all
from incmoe.options import output_file, whole

HIDDEN, EXPERTS, TOP_K = 2048, 64, 8  # OLMoE-1B-7B
INTERMEDIATE = 32
RANKS = 4
GEOMETRY = "mtu9000"
BAND_ROWS, NUM_SLOTS = 64, 256
FORMATS = {"float32": (RowType.FLOAT32, 32), "bfloat16": (RowType.BFLOAT16, 16)}
LIMITS = {Kind.STATIC: 1.06, Kind.ROUTED: 1.08}
# Messages that a loss-free run has no need of, by the names of Endpoint.stats().
CONTROL = ("pulls", "repeated_dispatches", "repeated_contributions", "rescaled_rows", "probes")


@dataclass(frozen=True, slots=True)
class Case:
    """One mode with one number format."""

    kind: Kind
    form: str

    @property
    def layout(self) -> Layout:
        """What the ranks agree on."""
        row_type, lane_bits = FORMATS[self.form]
        geometry = Geometry(HIDDEN, row_type, lane_bits)
        if self.kind is Kind.STATIC:
            geometry = Geometry.packed(HIDDEN, row_type, lane_bits, max_chunks(GEOMETRY))
        return Layout(Placement.even(EXPERTS, RANKS), geometry, self.kind, BAND_ROWS)


@dataclass(frozen=True, slots=True)
class Tokens:
    """What one rank's layer is given."""

    hidden: torch.Tensor  # [T, H]
    ids: torch.Tensor  # [T, K]
    weights: torch.Tensor  # [T, K]


@dataclass(frozen=True, slots=True)
class Measured:
    """One forward."""

    worst_bytes: int  # of any rank and direction
    bound_bytes: float  # N M or (D+1) M
    fanout: float  # D
    control: int  # messages a loss-free run has no need of

    @property
    def ratio(self) -> float:
        """Measured over bound."""
        return self.worst_bytes / self.bound_bytes


def tokens_of(rank: int, num: int, dtype: torch.dtype) -> Tokens:
    """Rows as a norm gives them, routed by a random router."""
    generator = torch.Generator().manual_seed(1000 + rank)
    logits = torch.randn(num, EXPERTS, generator=generator)
    weights, ids = logits.softmax(dim=-1).topk(TOP_K)
    return Tokens(torch.randn(num, HIDDEN, generator=generator).to(dtype), ids, weights)


def layer_of(group: Group) -> InNetworkMoE:
    """The layer with this rank's experts."""
    generator = torch.Generator().manual_seed(group.rank)
    local = len(group.placement.experts_of(group.rank))
    up, down = random_experts(local, HIDDEN, INTERMEDIATE, generator=generator)
    dtype = group.geometry.dtype
    return InNetworkMoE(group, LocalExperts(up.to(dtype), down.to(dtype)), Stages(group.rank))


def measure(case: Case, num_tokens: int) -> Measured:
    """Count one forward of a layer that stands."""
    layout = case.layout
    given = [tokens_of(rank, num_tokens, layout.geometry.dtype) for rank in range(RANKS)]
    timers = Timers(pull_after_s=5.0, pull_limit_s=5.0, deadline_s=60.0)  # cores are shared here
    job = Loopback(layout, NUM_SLOTS, GEOMETRY, timers)
    with job.open() as running:
        layers = dict(enumerate(on_all(running.groups, layer_of)))
        before = running.port_bytes()
        on_all(running.groups, lambda group: forward(layers[group.rank], given[group.rank]))
        after = running.port_bytes()
        control = control_messages(running)
        on_all(running.groups, lambda group: layers[group.rank].stages.close())
    worst = max(
        new - old for rank in after for new, old in zip(after[rank], before[rank], strict=True)
    )
    own_bytes = num_tokens * HIDDEN * layout.geometry.dtype.itemsize
    ids = np.stack([one.ids.numpy() for one in given])
    fanout = Routes(ids, layout.placement).fanout
    bound = RANKS * own_bytes if case.kind is Kind.STATIC else (fanout + 1) * own_bytes
    return Measured(worst, bound, fanout, control)


def forward(layer: InNetworkMoE, tokens: Tokens) -> torch.Tensor:
    """One call of the layer."""
    out: torch.Tensor = layer(tokens.hidden, tokens.ids, tokens.weights)
    return out


def control_messages(running: Running) -> int:
    """Messages of all ranks that a loss-free run has no need of."""
    stats = [group.fabric.stats() for group in running.groups]
    return sum(one[name] for one in stats for name in CONTROL)


def figures(measured: dict[Case, Measured], num_tokens: int) -> Iterator[Figure]:
    """The figures of all cases: for each mode the worst, then each."""
    shape = (
        f"hidden {HIDDEN}, {EXPERTS} experts, top {TOP_K}, N={RANKS}, {num_tokens} tokens a rank"
    )
    for kind in (Kind.STATIC, Kind.ROUTED):
        name = f"bytes_{kind.name.lower()}_over_bound"
        bound = "N M" if kind is Kind.STATIC else "(D+1) M"
        how = f"switch port counters, worst rank and direction, over {bound}; {shape}, {GEOMETRY}"
        cases = {case.form: one for case, one in measured.items() if case.kind is kind}
        worst = max(one.ratio for one in cases.values())
        yield Figure(name, worst, "ratio", LIMITS[kind], how)
        for form, one in cases.items():
            how = f"{form} rows, D={one.fanout:.3f}, {one.worst_bytes} bytes"
            yield Figure(f"{name}_{form}", one.ratio, "ratio", LIMITS[kind], how)
    control = sum(one.control for one in measured.values())
    how = f"{', '.join(CONTROL)} of all ranks, all cases"
    yield Figure("control_packets_lossfree", control, "messages", 0, how)


def main() -> None:
    """Measure all cases, print them, and write the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.bytes", description=__doc__)
    parser.add_argument("--json", type=output_file, help="write the figures to this file")
    parser.add_argument("--tokens", type=whole(1), default=256, help="tokens of each rank")
    args = parser.parse_args()
    torch.set_num_threads(1)
    cases = [Case(kind, form) for kind in (Kind.STATIC, Kind.ROUTED) for form in FORMATS]
    measured = {case: measure(case, args.tokens) for case in cases}
    taken = list(figures(measured, args.tokens))
    for one in taken:
        print(f"{one.name:38} {one.value:8.4f}  limit {one.limit}  ({one.how})")
    if args.json:
        write_figures(args.json, taken)


if __name__ == "__main__":
    main()
