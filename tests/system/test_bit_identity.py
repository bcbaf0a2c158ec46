# SPDX-License-Identifier: Apache-2.0
"""Equal inputs give equal bits: whatever the timing, under loss, and with every packet twice."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from host_agent.bands import Kind, Placement, RowType
from host_agent.collectives import Geometry, Group, Layout
from host_agent.moe import InNetworkMoE, LocalExperts, Stages
from host_agent.session import Pacing, Timers
from incmoe.loopback import Loopback, on_all
from softswitch.ports.faults import FaultSpec
from softswitch.ports.spec import WireOptions

HIDDEN, EXPERTS, TOP_K, INTERMEDIATE, RANKS = 320, 8, 3, 32, 4
TOKENS = (40, 17, 0, 55)  # of each rank
RUNS = 20
Outputs = list[np.ndarray]


@dataclass(frozen=True)
class Case:
    kind: Kind
    row_type: RowType
    lane_bits: int

    @property
    def layout(self) -> Layout:
        geometry = Geometry(HIDDEN, self.row_type, self.lane_bits)
        return Layout(Placement.even(EXPERTS, RANKS), geometry, self.kind, band_rows=8)


CASES = [
    Case(Kind.STATIC, RowType.FLOAT32, 32),
    Case(Kind.ROUTED, RowType.FLOAT32, 32),
    Case(Kind.ROUTED, RowType.BFLOAT16, 16),
]


def call(group: Group) -> np.ndarray:
    """One forward of a layer made for it, with this rank's tokens."""
    generator = torch.Generator().manual_seed(group.rank)  # ranks are threads here

    def rows(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator).to(group.geometry.dtype)

    tokens, local = TOKENS[group.rank], len(group.placement.experts_of(group.rank))
    experts = LocalExperts(rows(local, 2 * INTERMEDIATE, HIDDEN), rows(local, HIDDEN, INTERMEDIATE))
    weights, ids = torch.rand(tokens, EXPERTS, generator=generator).topk(TOP_K)
    stages = Stages(group.rank)
    layer = InNetworkMoE(group, experts, stages)
    out: torch.Tensor = layer(rows(tokens, HIDDEN), ids, weights)
    stages.close()
    return out.view(torch.int32 if out.dtype == torch.float32 else torch.int16).numpy()


def run(case: Case, *, wires: WireOptions, burst_bytes: int = 1 << 18) -> tuple[Outputs, dict]:
    """A job from start to end: every rank's output bits, and what the switch counted."""
    timers = Timers(pull_after_s=0.05, pull_limit_s=0.5, deadline_s=60.0)
    job = Loopback(
        case.layout,
        num_slots=64,
        geometry="mtu1500",
        timers=timers,
        pacing=Pacing(burst_bytes=burst_bytes),
        wires=wires,
    )
    with job.open() as running:
        out = on_all(running.groups, call)
        return out, running.counters()


@pytest.fixture(scope="module", params=CASES, ids=lambda c: f"{c.kind.name}-{c.row_type.name}")
def case(request: pytest.FixtureRequest) -> tuple[Case, Outputs]:
    """A case and its outputs without any fault."""
    torch.set_num_threads(1)
    out, _ = run(request.param, wires=WireOptions())
    return request.param, out


def assert_same_bits(outputs: Outputs, expected: Outputs) -> None:
    for rank, (ours, theirs) in enumerate(zip(outputs, expected, strict=True)):
        assert (ours == theirs).all(), f"rank {rank}"


def test_timing_does_not_matter(case: tuple[Case, Outputs]) -> None:
    interval_s = sys.getswitchinterval()
    rng = random.Random(1)
    try:
        for _ in range(RUNS):
            sys.setswitchinterval(10 ** rng.uniform(-6, -2))
            burst_bytes = int(10 ** rng.uniform(3, 6))
            out, _ = run(case[0], wires=WireOptions(), burst_bytes=burst_bytes)
            assert_same_bits(out, case[1])
    finally:
        sys.setswitchinterval(interval_s)


@pytest.mark.parametrize("seed", range(3))
def test_loss_does_not_matter(case: tuple[Case, Outputs], seed: int) -> None:
    faults = FaultSpec(drop=0.05, seed=seed)
    out, counters = run(case[0], wires=WireOptions(rx_faults=faults, tx_faults=faults))
    assert counters["ops"]["PULL"] > 0
    assert_same_bits(out, case[1])


def test_duplicates_do_not_matter(case: tuple[Case, Outputs]) -> None:
    faults = FaultSpec(duplicate=1.0)
    out, counters = run(case[0], wires=WireOptions(rx_faults=faults, tx_faults=faults))
    assert counters["drops"]["REPEATED"] > 0
    assert_same_bits(out, case[1])


def test_everything_at_once_does_not_matter(case: tuple[Case, Outputs]) -> None:
    faults = FaultSpec(drop=0.1, duplicate=0.1, reorder=0.2, delay_ms=1, seed=4)
    out, _ = run(case[0], wires=WireOptions(rx_faults=faults, tx_faults=faults))
    assert_same_bits(out, case[1])
