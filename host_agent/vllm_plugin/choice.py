# SPDX-License-Identifier: Apache-2.0
"""What is asked for, and of which vLLM; imports nothing of vLLM."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Self

from host_agent.errors import AgentError

VARIABLE: Final = "INCMOE_VLLM"
OLDEST: Final = (0, 29)
TOO_NEW: Final = (0, 33)


class ChoiceError(AgentError, ValueError):
    """A choice there is not, or a vLLM, model or deployment that it does not fit."""


class Choice(StrEnum):
    """Values of INCMOE_VLLM."""

    RUNNER = "runner"  # dispatch, experts and combine in bands that overlap, through the switch
    COMMUNICATOR = "communicator"  # AllGather, experts, ReduceScatter, through the switch
    GLOO = "gloo"  # the same through torch.distributed: no switch, to compare with

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Self | None:
        """Return what INCMOE_VLLM asks for; None where it is not set or empty."""
        text = (os.environ if environ is None else environ).get(VARIABLE, "")
        if not text:
            return None
        try:
            return cls(text)
        except ValueError:
            raise ChoiceError(f"{VARIABLE} is {text!r}, not {' or '.join(cls)}") from None

    @property
    def needs_switch(self) -> bool:
        """Whether the ranks must join a job."""
        return self != Choice.GLOO


def check_version(version: str) -> None:
    """Raise ChoiceError unless this vLLM is one that the plug-in knows."""
    found = re.match(r"(\d+)\.(\d+)", version)
    numbers = (int(found[1]), int(found[2])) if found else None
    if numbers is None or not OLDEST <= numbers < TOO_NEW:
        oldest, too_new = (f"{major}.{minor}" for major, minor in (OLDEST, TOO_NEW))
        raise ChoiceError(
            f"vLLM is {version}: {VARIABLE} works with {oldest} or newer, older than {too_new}"
        )
