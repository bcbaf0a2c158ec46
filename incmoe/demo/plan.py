# SPDX-License-Identifier: Apache-2.0
"""What one run of the demo does, as data that every process of it reads; does nothing itself."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from host_agent.wire import MAX_RANKS
from incmoe.demo.errors import DemoError

STATIC: Final = "static"
ROUTED: Final = "routed"
MODES: Final = {STATIC: (STATIC,), ROUTED: (ROUTED,), "both": (STATIC, ROUTED)}
PREFILL: Final = "prefill"
DECODE: Final = "decode"
PHASES: Final = (PREFILL, DECODE)
EMBEDDED: Final = "embedded"
BMV2: Final = "bmv2"
SWITCHES: Final = (EMBEDDED, BMV2)
LOOPBACK: Final = "loopback"
VETH: Final = "veth"
MININET: Final = "mininet"
LINKS: Final = (LOOPBACK, VETH)  # those that the demo makes by itself
JOB: Final = "demo"  # the job's name at the controller

_FILE = "plan.json"


@dataclass(frozen=True, slots=True)
class Plan:
    """The options of the command line. Every rank has num_prompts prompts of its own."""

    num_ranks: int = 4
    modes: tuple[str, ...] = MODES["both"]
    lane_bits: int = 32
    geometry: str = "mtu9000"
    switch: str = EMBEDDED
    links: str = LOOPBACK
    leaves: int = 1  # switches with ranks; several are under one spine
    link_rate: str = ""  # empty: as fast as the machine is
    model: str = ""  # checkpoint folder; empty: the checked-in one
    random_model: str = ""  # a shape (incmoe.model.Shape); empty: a checkpoint
    num_prompts: int = 4
    prompt_tokens: int = 96
    new_tokens: int = 32
    band_rows: int | None = None  # None: what suits the switch
    seed: int = 0

    def __post_init__(self) -> None:
        if self.switch == BMV2 and self.links == LOOPBACK:
            raise DemoError(f"--links {self.links}: BMv2 has no UDP ports, only --links {VETH}")
        for option, value, least, most in (
            ("ranks", self.num_ranks, 2, MAX_RANKS),
            ("leaves", self.leaves, 1, self.num_ranks),
            ("prompts", self.num_prompts, 1, None),
            ("prompt-tokens", self.prompt_tokens, 2, None),  # a loss needs two
            ("new-tokens", self.new_tokens, 1, None),
            ("band-rows", 1 if self.band_rows is None else self.band_rows, 1, None),
        ):
            if value < least or (most is not None and value > most):
                limit = f"at least {least}" if most is None else f"{least} to {most}"
                raise DemoError(f"--{option} {value}: must be {limit}")
        if self.num_ranks % self.leaves:
            raise DemoError(f"--leaves {self.leaves}: must divide the {self.num_ranks} ranks")

    @property
    def num_switches(self) -> int:
        """The leaves, and the spine if there are several."""
        return self.leaves + 1 if self.leaves > 1 else 1

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
