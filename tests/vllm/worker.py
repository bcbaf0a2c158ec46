# SPDX-License-Identifier: Apache-2.0
"""What the tests ask of a vLLM worker from inside; runs where vLLM is."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import torch


class Probe:
    """Methods that vLLM adds to its worker."""

    def probe(self, folder: str, probe_rows: list[int], dies: int | None) -> str:
        """Call the first MoE layer with a number of rows of its own at each rank; keep both sides.

        Returns the name of the runner's class. Without `probe_rows` nothing is called; the rank
        `dies` ends there.
        """
        context = self.vllm_config.compilation_config.static_forward_context
        runner = next(one for one in context.values() if hasattr(one, "routed_experts"))
        if probe_rows:
            rank, hidden = runner.moe_config.dp_rank, runner.moe_config.hidden_dim
            if rank == dies:
                os.kill(os.getpid(), signal.SIGKILL)
            generator = torch.Generator().manual_seed(rank)
            x_TH = torch.randn(probe_rows[rank], hidden, generator=generator)
            logits_TE = torch.randn(len(x_TH), runner.moe_config.num_experts, generator=generator)
            with torch.inference_mode():
                y_TH = runner._forward_impl(x_TH, logits_TE, None)
            torch.save((x_TH, logits_TE, y_TH), Path(folder) / f"probe.{rank}.pt")
        return type(runner).__name__

    def counted(self) -> dict[str, int]:
        """What this rank's transport has counted; nothing for stock vLLM."""
        from host_agent.vllm_plugin import seat

        return dict(seat.taken().seat.endpoint.stats()) if seat._taken else {}
