# SPDX-License-Identifier: Apache-2.0
"""The steps of a DeepEP program in normal mode, over the switch: `dispatcher_deepep.py RANK RANKS`.

DeepEP's README has `dispatch_forward` and `combine_forward`, and computes the layout first. Here
dispatch needs no layout; it is there to be looked at. Two micro-batches are in flight: one is on
its way while the other is computed.
"""

import sys
from dataclasses import dataclass

import torch
from torch import Tensor

from host_agent.dispatcher import Buffer, Event, Handle, Rows

HIDDEN, EXPERTS, TOP_K, TOKENS, INTERMEDIATE = 64, 8, 2, 48, 32


@dataclass(frozen=True)
class Weights:
    """Gated experts: `up` [E, H, 2 x I], `down` [E, I, H]."""

    up: Tensor
    down: Tensor

    @classmethod
    def all_of_them(cls) -> "Weights":
        """Return those of all experts, the same ones whoever asks."""
        torch.manual_seed(0)
        up = torch.randn(EXPERTS, HIDDEN, 2 * INTERMEDIATE) / HIDDEN**0.5
        return cls(up, torch.randn(EXPERTS, INTERMEDIATE, HIDDEN) / INTERMEDIATE**0.5)

    def of(self, rank: int, num_ranks: int) -> "Weights":
        """Return those of a rank's experts."""
        return Weights(self.up.chunk(num_ranks)[rank], self.down.chunk(num_ranks)[rank])


def dispatch_forward(
    buffer: Buffer, x: Tensor, topk_idx: Tensor, topk_weights: Tensor
) -> tuple[Rows, Handle, Event]:
    """Begin to bring the tokens to their experts."""
    layout = buffer.get_dispatch_layout(topk_idx)
    assert int(layout.num_tokens_per_expert.sum()) == topk_idx.numel()
    return buffer.dispatch(x, topk_idx, topk_weights, async_finish=True)


def grouped_experts(weights: Weights, recv: Rows) -> Tensor:
    """Return the partial rows: rows sorted by expert, a product for each group, weights, sums."""
    recv_x, recv_topk_idx, recv_topk_weights = recv.x, recv.topk_ids, recv.topk_weights
    num_recv_tokens_per_expert_list = recv.num_per_expert
    token, place = (recv_topk_idx >= 0).nonzero(as_tuple=True)
    order = torch.argsort(recv_topk_idx[token, place], stable=True)
    token, place = token[order], place[order]
    groups = recv_x[token].split(num_recv_tokens_per_expert_list)
    outputs = []
    for up, down, group in zip(weights.up, weights.down, groups, strict=True):
        gate, value = (group @ up).chunk(2, dim=-1)
        outputs.append((torch.nn.functional.silu(gate) * value) @ down)
    weighted = torch.cat(outputs) * recv_topk_weights[token, place][:, None]
    return torch.zeros(recv_x.shape).index_add_(0, token, weighted)


def combine_forward(buffer: Buffer, partial: Tensor, handle: Handle) -> tuple[Tensor, Event]:
    """Begin to bring the sums back to the tokens' rank."""
    return buffer.combine(partial, handle, async_finish=True)


def moe_forward(
    buffer: Buffer, weights: Weights, x: Tensor, topk_idx: Tensor, topk_weights: Tensor
) -> Tensor:
    """Run a layer in two micro-batches; all ranks cut alike, whatever they have."""
    halves = [
        dispatch_forward(buffer, *half)
        for half in zip(*(t.tensor_split(2) for t in (x, topk_idx, topk_weights)), strict=True)
    ]
    combining = []
    for recv, handle, event in halves:
        event.wait()
        combining.append(combine_forward(buffer, grouped_experts(weights, recv), handle))
    for _, event in combining:
        event.wait()
    return torch.cat([combined for combined, _ in combining])


def main(rank: int, num_ranks: int) -> None:
    """Take part, and run one layer on tokens of this rank's own."""
    weights = Weights.all_of_them().of(rank, num_ranks)
    torch.manual_seed(1 + rank)
    x = torch.randn(TOKENS, HIDDEN)
    topk_weights, topk_idx = torch.rand(TOKENS, EXPERTS).softmax(dim=-1).topk(TOP_K)
    with Buffer.join(rank, num_ranks, num_experts=EXPERTS, hidden=HIDDEN) as buffer:
        combined_x = moe_forward(buffer, weights, x, topk_idx, topk_weights)
    sys.stdout.write(f"rank {rank}: {tuple(combined_x.shape)}, norm {combined_x.norm():.3f}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
