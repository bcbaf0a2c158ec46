# SPDX-License-Identifier: Apache-2.0
"""How much of a layer's communication and computation hide each other: `python -m bench.overlap`.

One OLMoE-sized layer (hidden 2048, 64 experts, top 8; narrowed experts) runs on four ranks over the
compiled switch, every rank sending at a fixed rate as on a link, so that communication costs time
and hardly any processor. Three times are taken in turn, and the medians of several rounds compared:

    communication   the pipeline with partial rows from memory, C
    computation     the experts on the same units, no pipeline, F
    both            the pipeline as it is, P

overlap = (C + F - P) / min(C, F): 0 if they took turns, 1 if the shorter cost nothing. The first
band must be gathered before any is computed, and the last is reduced after all are computed, so of
B bands about (B - 2) / B can be hidden.

Legend: T tokens of a rank, H hidden, K experts per token, E experts, I intermediate.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from statistics import median

import numpy as np
import torch
from torch import Tensor

from bench.experts import random_experts
from host_agent.bands import Kind, Placement
from host_agent.collectives import Geometry, Group, Layout, Routing, Unit
from host_agent.moe import InNetworkMoE, LocalExperts, Stages
from host_agent.session import Pacing, Timers
from incmoe.figures import Figure, write_figures
from incmoe.loopback import Loopback, Seat, on_all
from incmoe.options import output_file, whole

HIDDEN, NUM_EXPERTS, TOP_K, NUM_RANKS = 2048, 64, 8, 4
PLACEMENT = Placement.even(NUM_EXPERTS, NUM_RANKS)


@dataclass(frozen=True)
class Plan:
    """What the command line gives."""

    num_tokens: int
    band_rows: int
    intermediate: int
    rate_bytes_s: float
    rounds: int

    @property
    def num_bands(self) -> int:
        """Bands of a rank."""
        return -(-self.num_tokens // self.band_rows)


class Rank:
    """One rank's experts, tokens and pipeline, and what its first run made of them."""

    def __init__(self, group: Group, plan: Plan) -> None:
        generator = torch.Generator().manual_seed(group.rank)
        num, inner = NUM_EXPERTS // NUM_RANKS, plan.intermediate
        up, down = random_experts(num, HIDDEN, inner, generator=generator)
        self.experts, self.stages, self.group = LocalExperts(up, down), Stages(group.rank), group
        self.x_TH = torch.randn(plan.num_tokens, HIDDEN, generator=generator)
        self.routing = self._routing(generator)
        self.units: dict[int, tuple[Unit, Tensor]] = {}
        self.pipeline(self.note)

    def _routing(self, generator: torch.Generator) -> Routing:
        scores_TE = torch.randn(len(self.x_TH), NUM_EXPERTS, generator=generator).softmax(-1)
        weights, top = scores_TE.topk(TOP_K, dim=-1)
        ids_TK, weights_TK = top.numpy().astype(np.int32), weights.numpy()
        row_scale = InNetworkMoE(self.group, self.experts, self.stages).row_scale
        exponents = row_scale.exponents(self.x_TH, ids_TK, weights_TK, self.group.rank)
        return Routing(Kind.ROUTED, ids_TK, weights_TK, exponents)

    def communicate(self) -> None:
        """The pipeline, with what the experts gave taken from memory."""
        self.pipeline(self.recall)

    def do_both(self) -> None:
        """The pipeline as it is."""
        self.pipeline(self.compute)

    def pipeline(self, compute: Callable[[Unit], Tensor]) -> None:
        """Run the layer once."""
        self.stages.run(self.group.dispatch(self.x_TH, self.routing), compute)

    def compute(self, unit: Unit) -> Tensor:
        """The experts."""
        output: Tensor = self.experts(unit.rows, unit.pairs)
        return output

    def note(self, unit: Unit) -> Tensor:
        """The experts; keep what they took and gave."""
        self.units[unit.band] = unit, self.compute(unit)
        return self.units[unit.band][1]

    def recall(self, unit: Unit) -> Tensor:
        """What the experts gave, at no cost."""
        return self.units[unit.band][1]

    @torch.no_grad()
    def compute_alone(self) -> None:
        """The experts on all units, no pipeline."""
        for unit, _ in self.units.values():
            self.compute(unit)


class Remote:
    """A rank in a process of its own, which does what it is told when all are ready."""

    def __init__(self, seat: Seat, plan: Plan, together: Barrier) -> None:
        self._told, theirs = multiprocessing.Pipe()
        arguments = (seat, plan, together, theirs)
        self._process = get_context("spawn").Process(target=serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()
        self.wait()

    def start(self, name: str) -> None:
        """Have it run a method of Rank."""
        self._told.send(name)

    def wait(self) -> tuple[float, float]:
        """Wait for the end; return when it started and ended, by the clock all processes share."""
        started_s, ended_s = self._told.recv()
        return started_s, ended_s

    def end(self) -> None:
        """Have it leave."""
        self._told.send("")
        self._process.join()


def serve(seat: Seat, plan: Plan, together: Barrier, parent: Connection) -> None:
    """Be a rank until told to leave."""
    torch.set_num_threads(1)
    group = seat.take()
    rank = Rank(group, plan)
    parent.send((0.0, 0.0))
    while name := parent.recv():
        together.wait()
        started_s = time.monotonic()
        getattr(rank, name)()
        parent.send((started_s, time.monotonic()))
    group.close()
    rank.stages.close()


def seconds(ranks: Sequence[Remote], name: str) -> float:
    """Run a method of Rank at all ranks; return the time from the first start to the last end."""
    for rank in ranks:
        rank.start(name)
    spans = [rank.wait() for rank in ranks]
    return max(ended for _, ended in spans) - min(started for started, _ in spans)


@dataclass(frozen=True)
class Times:
    """Medians, in seconds."""

    communication_s: float
    computation_s: float
    both_s: float

    @property
    def overlap(self) -> float:
        """Share of the shorter that was hidden, 0..1."""
        shorter_s = min(self.communication_s, self.computation_s)
        hidden_s = self.communication_s + self.computation_s - self.both_s
        return min(max(hidden_s / shorter_s, 0.0), 1.0)


def measure(ranks: Sequence[Remote], rounds: int) -> Times:
    """Take the three times in turn."""
    names = ("communicate", "compute_alone", "do_both")
    taken = [[seconds(ranks, name) for name in names] for _ in range(rounds)]
    return Times(*(median(times) for times in zip(*taken, strict=True)))


def figures(plan: Plan) -> Iterator[Figure]:
    """Measure."""
    layout = Layout(PLACEMENT, Geometry(HIDDEN), Kind.ROUTED, band_rows=plan.band_rows)
    pacing = Pacing(burst_bytes=64 * 1024, rate_bytes_s=plan.rate_bytes_s)
    timers = Timers(pull_after_s=2.0, pull_limit_s=4.0, deadline_s=60.0)
    job = Loopback(layout, num_slots=6 * plan.band_rows, timers=timers, pacing=pacing)
    with job.seats() as (_, seats):
        together = get_context("spawn").Barrier(len(seats))
        ranks = on_all(seats, partial(Remote, plan=plan, together=together))
        times = measure(ranks, plan.rounds)
        on_all(ranks, Remote.end)
    longest_s = max(times.communication_s, times.computation_s)
    setting = (
        f"{NUM_RANKS} ranks x {plan.num_tokens} tokens in {plan.num_bands} bands, hidden {HIDDEN}, "
        f"top {TOP_K} of {NUM_EXPERTS} experts of {plan.intermediate}, "
        f"{plan.rate_bytes_s / 1e6:g} MB/s a rank: communication {times.communication_s:.3f} s, "
        f"computation {times.computation_s:.3f} s, both {times.both_s:.3f} s"
    )
    attainable = (plan.num_bands - 2) / plan.num_bands
    how = f"hidden share of the shorter; about {attainable:.2f} is attainable; {setting}"
    yield Figure("overlap", times.overlap, "1", None, how)
    how = f"both over the longer of communication and computation; {setting}"
    yield Figure("pipeline_over_longest", times.both_s / longest_s, "1", None, how)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.overlap", description=__doc__)
    parser.add_argument("--json", type=output_file, help="write the figures here")
    parser.add_argument("--tokens", type=whole(1), default=512, help="of each rank (default: 512)")
    parser.add_argument(
        "--band-rows", type=whole(1), default=32, help="tokens of a band (default: 32)"
    )
    parser.add_argument(
        "--intermediate", type=whole(1), default=384, help="of an expert (default: 384)"
    )
    parser.add_argument("--rate", type=float, default=5, help="MB/s of a rank (default: 5)")
    parser.add_argument("--rounds", type=whole(1), default=3, help="how often (default: 3)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    plan = Plan(
        num_tokens=arguments.tokens,
        band_rows=arguments.band_rows,
        intermediate=arguments.intermediate,
        rate_bytes_s=arguments.rate * 1e6,
        rounds=arguments.rounds,
    )
    found = list(figures(plan))
    for figure in found:
        print(f"{figure.name:22} {figure.value:6.3f} {figure.unit:2} {figure.how}")
    if arguments.json:
        write_figures(arguments.json, found)


if __name__ == "__main__":
    main()
