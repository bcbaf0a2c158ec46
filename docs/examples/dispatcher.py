# SPDX-License-Identifier: Apache-2.0
"""Experts of your own on many ranks, through the switch: `dispatcher.py RANK RANKS`, once per rank.

The environment says where the ranks meet, INCMOE_CONTROLLER and INCMOE_JOB: see
docs/integrations/dispatcher.md.
"""

import sys

import torch
from torch import Tensor, nn

from host_agent.dispatcher import Buffer

HIDDEN, EXPERTS, TOP_K, TOKENS = 64, 8, 2, 50


def experts_of(rank: int, num_ranks: int) -> list[nn.Linear]:
    """Return the experts of a rank, the same ones whoever asks."""
    torch.manual_seed(0)
    return [nn.Linear(HIDDEN, HIDDEN) for _ in range(EXPERTS)][rank * EXPERTS // num_ranks :][
        : EXPERTS // num_ranks
    ]


@torch.no_grad()
def moe(buffer: Buffer, experts: list[nn.Linear], x: Tensor, ids: Tensor, gate: Tensor) -> Tensor:
    """Return the sum over each token's experts, wherever they are, of gate weight x output."""
    rows, handle, _ = buffer.dispatch(x, ids, gate)
    partial = torch.zeros(len(rows), HIDDEN)
    for number, expert in enumerate(experts):
        at, weights = rows.of(number)
        partial.index_add_(0, at, expert(rows.x[at]) * weights[:, None])
    return buffer.combine(partial, handle)[0]


def main(rank: int, num_ranks: int) -> None:
    """Take part, and run one layer on tokens of this rank's own."""
    experts = experts_of(rank, num_ranks)
    torch.manual_seed(1 + rank)
    x = torch.randn(TOKENS, HIDDEN)
    gate, ids = torch.rand(TOKENS, EXPERTS).softmax(dim=-1).topk(TOP_K)
    with Buffer.join(rank, num_ranks, num_experts=EXPERTS, hidden=HIDDEN) as buffer:
        y = moe(buffer, experts, x, ids, gate)
    sys.stdout.write(f"rank {rank}: {tuple(y.shape)}, norm {y.norm():.3f}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
