# SPDX-License-Identifier: Apache-2.0
"""What one run of the demo does, as data that every process of it reads; does nothing itself."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from incmoe.demo.errors import DemoError

STATIC: Final = "static"
ROUTED: Final = "routed"
MODES: Final = {STATIC: (STATIC,), ROUTED: (ROUTED,), "both": (STATIC, ROUTED)}
PREFILL: Final = "prefill"
DECODE: Final = "decode"
PHASES: Final = (PREFILL, DECODE)

_FILE = "plan.json"
_MOST_RANKS = 64  # bits of the wire's rank bitmap


@dataclass(frozen=True, slots=True)
class Plan:
    """The options of the command line. Every rank has num_prompts prompts of its own."""

    num_ranks: int = 4
    modes: tuple[str, ...] = MODES["both"]
    lane_bits: int = 32
    geometry: str = "mtu9000"
    model: str = ""  # checkpoint folder; empty: the checked-in one
    random_model: str = ""  # a shape (incmoe.model.Shape); empty: a checkpoint
    num_prompts: int = 4
    prompt_tokens: int = 96
    new_tokens: int = 32
    band_rows: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        if not 2 <= self.num_ranks <= _MOST_RANKS:
            raise DemoError(f"--ranks {self.num_ranks}: must be 2 to {_MOST_RANKS}")
        for name in ("num_prompts", "new_tokens", "band_rows"):
            if getattr(self, name) < 1:
                raise DemoError(f"{name} {getattr(self, name)}: must be at least 1")
        if self.prompt_tokens < 2:
            raise DemoError(f"--prompt-tokens {self.prompt_tokens}: a loss needs at least 2")

    def num_steps(self, phase: str) -> int:
        """Forward calls of a phase; prefill yields the first new token."""
        return 1 if phase == PREFILL else self.new_tokens - 1

    def rows(self, phase: str) -> int:
        """Rows of one rank in each layer, over a phase."""
        tokens = self.prompt_tokens if phase == PREFILL else self.new_tokens - 1
        return self.num_prompts * tokens

    def write(self, folder: Path) -> None:
        """For the other processes of this run."""
        (folder / _FILE).write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> Plan:
        """What `write` wrote."""
        values = json.loads((folder / _FILE).read_text())
        return cls(**values | {"modes": tuple(values["modes"])})
