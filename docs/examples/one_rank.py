# SPDX-License-Identifier: Apache-2.0
"""One rank of the job in four-ranks.yaml, with a layer of random weights: `one_rank.py RANK`.

Start a switch and `incmoe controller serve` as that file says, then this four times, ranks 0..3.
"""

import sys

import torch

from host_agent.bands import Kind, Placement
from host_agent.collectives import Geometry, Group, Layout
from host_agent.endpoint import Endpoint
from host_agent.moe import InNetworkMoE, LocalExperts, Stages
from host_agent.rendezvous import Join, join
from host_agent.sockets import bound_socket

HIDDEN, EXPERTS, TOP_K, INTERMEDIATE, RANKS, TOKENS = 256, 16, 4, 64, 4, 100


def main(rank: int, controller: str = "127.0.0.1:9600", job: str = "four-ranks") -> None:
    """Join, run the layer once, and say what came out."""
    bound = bound_socket("127.0.0.1")
    host, port = bound.getsockname()
    request = Join(job, rank, RANKS, host, port, "mtu1500", fingerprint={"hidden": HIDDEN})
    layout = Layout(Placement.even(EXPERTS, RANKS), Geometry(HIDDEN), Kind.ROUTED)
    generator = torch.Generator().manual_seed(rank)
    gate_up_proj = torch.randn(EXPERTS // RANKS, 2 * INTERMEDIATE, HIDDEN, generator=generator)
    down_proj = torch.randn(EXPERTS // RANKS, HIDDEN, INTERMEDIATE, generator=generator)
    x_TH = torch.randn(TOKENS, HIDDEN, generator=generator)
    weights_TK, ids_TK = torch.rand(TOKENS, EXPERTS, generator=generator).topk(TOP_K)

    with join(controller, request) as membership:
        session = membership.ticket.session(rank, layout.geometry.row)
        with Endpoint(session, layout.wanted(rank), bound=bound) as endpoint:
            endpoint.check_switch()
            group, stages = Group(endpoint, layout), Stages(rank)
            layer = InNetworkMoE(group, LocalExperts(gate_up_proj, down_proj), stages)
            y_TH = layer(x_TH, ids_TK, weights_TK)
            sys.stdout.write(f"rank {rank}: {tuple(y_TH.shape)}, norm {y_TH.norm():.1f}\n")
            stages.close()
            group.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
