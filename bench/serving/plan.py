# SPDX-License-Identifier: Apache-2.0
"""What a run is to measure, as all its processes read it; starts nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from bench.collectives.plan import ALL_TO_ALL, GLOO, RING, ROUTED, STATIC, VALUE_BYTES
from bench.collectives.plan import Plan as JobPlan
from bench.shaped import LinksPlan, read_plan
from host_agent.bands import RowType
from host_agent.collectives import Geometry
from incmoe.demo.errors import DemoError
from incmoe.demo.plan import Plan as DemoPlan
from incmoe.loopback import max_chunks

IN_NETWORK: Final = (STATIC, ROUTED)
BASELINES: Final = (RING, GLOO, ALL_TO_ALL)
SCHEMES: Final = IN_NETWORK + BASELINES
TRACE_FILE: Final = "{}.{}.trace.json"  # of a scheme and a rank


@dataclass(frozen=True, slots=True)
class Prompts:
    """`batch` prompts of `tokens` tokens at each rank."""

    batch: int
    tokens: int

    def __str__(self) -> str:
        return f"{self.batch}x{self.tokens}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """From BATCHxTOKENS; DemoError when it is not that."""
        batch, _, tokens = text.partition("x")
        if not (batch.isdigit() and tokens.isdigit() and int(batch) and int(tokens) > 1):
            raise DemoError(f"--prompts {text}: BATCHxTOKENS, at least 1x2, is needed")
        return cls(int(batch), int(tokens))


@dataclass(frozen=True, slots=True)
class Plan(LinksPlan):
    """The options of the command line."""

    rate_bits_s: int = 10_000_000
    band_rows: int = 32
    model: str = ""  # checkpoint folder; empty: the checked-in one
    random_model: str = ""  # a shape (incmoe.model.Shape); empty: a checkpoint
    prompts: tuple[Prompts, ...] = (Prompts(4, 32), Prompts(12, 8))
    new_tokens: int = 8
    window: int = 256  # model rows that a rank may have out
    schemes: tuple[str, ...] = SCHEMES

    def demo(self, prompts: Prompts) -> DemoPlan:
        """Return what the demo calls the same model and prompts."""
        return DemoPlan(
            num_ranks=self.num_ranks,
            model=self.model,
            random_model=self.random_model,
            num_prompts=prompts.batch,
            prompt_tokens=prompts.tokens,
            new_tokens=self.new_tokens,
        )

    def row_geometry(self, scheme: str, hidden: int) -> Geometry:
        """Return how rows fill messages: as many as fit in static mode, which all go one way."""
        if scheme != STATIC:
            return Geometry(hidden)
        lane_bits = 8 * VALUE_BYTES
        return Geometry.packed(hidden, RowType.FLOAT32, lane_bits, max_chunks(self.geometry))

    def job(self, geometry: Geometry) -> JobPlan:
        """Return the plan of one in-network scheme's job; its rows are messages."""
        most = max(prompts.batch * prompts.tokens for prompts in self.prompts)
        return JobPlan(
            num_ranks=self.num_ranks,
            rate_bits_s=self.rate_bits_s,
            geometry=self.geometry,
            switch=self.switch,
            tokens=geometry.messages(most),
            hidden=geometry.row.num_values,
            num_slots=geometry.messages(self.window),
            look_every_s=self.look_every_s,
        )

    @classmethod
    def read(cls, folder: Path) -> Plan:
        """What `write` wrote."""
        values = read_plan(folder)
        prompts = tuple(Prompts(**one) for one in values["prompts"])
        return cls(**values | {"prompts": prompts, "schemes": tuple(values["schemes"])})
