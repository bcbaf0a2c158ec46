# SPDX-License-Identifier: Apache-2.0
"""One rank's batch of prompts served once, timed; compared with the whole model in one process.

Legend: B prompts, N new tokens, V vocabulary.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from transformers import OlmoeForCausalLM

from host_agent.moe import Trace
from host_agent.moe.trace import ROLES, Event, complete
from incmoe.demo.generate import Generator
from incmoe.demo.generation import Generation

LOGIT_TOLERANCE = 1e-3


class Traced(Protocol):
    """A layer that notes what its last call did."""

    last_trace: Trace | None


@dataclass(slots=True)
class Served:
    """When each forward call ended, by the clock that all processes share, and what it did."""

    began: float
    steps: list[float] = field(default_factory=list)
    traces: list[list[Trace]] = field(default_factory=list)  # by step, by layer

    def busy_s(self, role: int) -> float:
        """Return the seconds in which a role of any layer was busy."""
        return sum(trace.busy_s(ROLES[role]) for step in self.traces for trace in step)

    def events(self, rank: int, tid: int) -> Iterator[Event]:
        """Yield Chrome trace events of all calls, the model's own by thread number `tid`."""
        starts = [self.began, *self.steps]
        for step, (span_s, traces) in enumerate(
            zip(zip(starts, self.steps, strict=False), self.traces, strict=True)
        ):
            name = f"decode {step}" if step else "prefill"
            yield complete(name, span_s, pid=rank, tid=tid, cat="model")
            for trace in traces:
                yield from trace.events()


def serve(
    model: OlmoeForCausalLM, layers: Sequence[Traced], prompts_BT: torch.Tensor, new_tokens: int
) -> tuple[Served, Generation]:
    """Generate greedily; what is noted costs nothing that counts."""
    generator = Generator(model, prompts_BT, logits_to_keep=1)
    served = Served(time.monotonic())

    def note(_step: int) -> None:
        served.steps.append(time.monotonic())
        served.traces.append([layer.last_trace for layer in layers if layer.last_trace])

    generator.run(new_tokens, note)
    return served, generator.result()


def must_agree(name: str, ours: Generation, whole: Generation) -> float:
    """Return the largest difference of logits; AssertionError where a token differs, or one is off.

    `whole`: of the model in one process, on the same prompts.
    """
    wrong = int((ours.tokens != whole.tokens).sum())
    assert not wrong, f"{name}: {wrong} of {whole.tokens.size} tokens are not the whole model's"
    worst = float(np.abs(ours.logits - whole.logits).max())
    assert worst <= LOGIT_TOLERANCE, f"{name}: a logit is off by {worst}, over {LOGIT_TOLERANCE}"
    return worst
