# SPDX-License-Identifier: Apache-2.0
"""What a run is to measure; starts nothing."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final

from bench.shaped import LinksPlan
from host_agent.vllm_plugin.choice import Choice
from incmoe.demo.plan import VETH
from incmoe.demo.plan import Plan as DemoPlan

SHAPE: Final = "hidden=512,experts=16,top_k=4,intermediate=1024,layers=2"
OURS: Final = Choice.RUNNER
CONTROL: Final = Choice.GLOO


@dataclass(frozen=True, slots=True)
class Plan(LinksPlan):
    """The options of the command line."""

    rate_bits_s: int = 20_000_000
    band_rows: int = 32
    python: str = sys.executable
    mode: str = "routed"
    random_model: str = SHAPE
    num_prompts: int = 16  # of a run, all at once
    input_len: int = 64
    output_len: int = 8

    @property
    def demo(self) -> DemoPlan:
        """Return what the demo calls the same links, switch and model."""
        return DemoPlan(
            num_ranks=self.num_ranks,
            geometry=self.geometry,
            switch=self.switch,
            links=VETH,
            random_model=self.random_model,
            band_rows=self.band_rows,
        )
