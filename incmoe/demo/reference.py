# SPDX-License-Identifier: Apache-2.0
"""The single-process model on the ranks' prompts: what a run is compared with; uses no network.

It takes the ranks' batches one after the other, so that both sides multiply matrices of one shape.
It also counts, from its own routing, which other ranks each row needs: the byte bounds.

Legend: B sequences, T tokens, K experts of a token, R ranks, L layers.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from transformers import OlmoeForCausalLM

from incmoe.demo import subject
from incmoe.demo.channel import Channel, run_child
from incmoe.demo.errors import DemoError
from incmoe.demo.generate import Generator
from incmoe.demo.generation import Generation
from incmoe.demo.plan import PHASES, Plan
from incmoe.model.errors import ModelError
from incmoe.model.evaluate import routing


def rows_needing(ranks_TK: torch.Tensor, owner: int, num_ranks: int) -> torch.Tensor:
    """[R]: how many rows need each rank, given the ranks of each row's experts.

    In the owner's own place: how many need any other rank (traffic.Demand).
    """
    needed_TR = torch.zeros(len(ranks_TK), num_ranks, dtype=torch.bool)
    needed_TR.scatter_(1, ranks_TK, True)
    needed_TR[:, owner] = False
    needed_TR[:, owner] = needed_TR.any(dim=1)
    return needed_TR.sum(dim=0)


def run_rank(
    model: OlmoeForCausalLM, plan: Plan, rank: int, prompts_BT: torch.Tensor
) -> tuple[Generation, dict[str, list[int]]]:
    """One rank's sequences, and per phase what `rows_needing` counts over all layers."""
    experts_per_rank = model.config.num_experts // plan.num_ranks
    generator = Generator(model, prompts_BT)
    needs = {}
    for phase in PHASES:
        with routing(model) as chosen:
            generator.run(plan.num_steps(phase))
        counts = [
            rows_needing(experts_TK // experts_per_rank, rank, plan.num_ranks)
            for layer in chosen
            for experts_TK in layer
        ]
        needs[phase] = torch.stack(counts).sum(dim=0).tolist() if counts else [0] * plan.num_ranks
    return generator.result(), needs


def run(folder: Path, channel: Channel) -> None:
    """All ranks' sequences, saved in the run's folder."""
    plan = Plan.read(folder)
    model = subject.model_of(plan)
    needs: dict[str, list[list[int]]] = {phase: [] for phase in PHASES}
    for rank, prompts in enumerate(subject.prompts_of(plan)):
        prompts_BT = torch.tensor(prompts)
        generation, counts = run_rank(model, plan, rank, prompts_BT)
        generation.save(folder / f"reference.{rank}.npz")
        for phase in PHASES:
            needs[phase].append(counts[phase])
        channel.report("progress", done=rank + 1, of=plan.num_ranks)
    channel.report("done", needs=needs)
    channel.next_command()


def main() -> None:
    """The process: `reference FOLDER`."""
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    sys.exit(run_child(lambda channel: run(folder, channel), expected=(DemoError, ModelError)))


if __name__ == "__main__":
    main()
