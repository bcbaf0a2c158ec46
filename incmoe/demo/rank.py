# SPDX-License-Identifier: Apache-2.0
"""One rank of the demo: own prompts, whole attention, its share of the experts; told what to do.

ready -> (open -> opened, run prefill -> ran, run decode -> ran, close -> closed)* -> quit
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from transformers import OlmoeForCausalLM

from host_agent.errors import AgentError
from host_agent.rendezvous import RendezvousError
from incmoe.demo import subject
from incmoe.demo.channel import Channel, Message, run_child
from incmoe.demo.errors import DemoError
from incmoe.demo.generate import Generator
from incmoe.demo.plan import Plan
from incmoe.demo.seat import Place, Seat, seat
from incmoe.demo.stage_clock import StageClock
from incmoe.model.errors import ModelError

EXPECTED_ERRORS = (DemoError, ModelError, AgentError, RendezvousError)


class Rank:
    """A rank's part in a run, from `ready` to `quit`."""

    def __init__(self, folder: Path, place: Place, channel: Channel) -> None:
        self._folder = folder
        self._place = place
        self._channel = channel
        self._prompts_BT = torch.tensor(subject.prompts_of(place.plan)[place.rank])

    def serve(self) -> None:
        """Does what it is told until told to quit."""
        model: OlmoeForCausalLM | None = subject.model_of(self._place.plan)
        self._channel.report("ready")
        for command in self._commands_but("quit"):
            assert command["do"] == "open", command
            self._run_mode(command["mode"], model or subject.model_of(self._place.plan))
            model = None  # its experts are gone

    def _run_mode(self, mode: str, model: OlmoeForCausalLM) -> None:
        with seat(self._place, mode, model) as taken:
            self._channel.report("opened")
            generator = Generator(model, self._prompts_BT)
            for command in self._commands_but("close"):
                assert command["do"] == "run", command
                self._run_phase(command["phase"], generator, taken)
            generator.result().save(self._folder / f"{mode}.{self._place.rank}.npz")
            transport = _transport_counts(taken.endpoint.stats())
        self._channel.report("closed", transport=transport)

    def _run_phase(self, phase: str, generator: Generator, taken: Seat) -> None:
        clock, start_s = StageClock(), time.monotonic()

        def after(step: int) -> None:
            clock.add(taken.installed.layers)
            self._channel.report("progress", step=step)

        generator.run(self._place.plan.num_steps(phase), after)
        seconds = time.monotonic() - start_s
        self._channel.report("ran", seconds=seconds, busy_s=clock.busy_s, wall_s=clock.wall_s)

    def _commands_but(self, last: str) -> Iterator[Message]:
        while (command := self._channel.next_command())["do"] != last:
            if command["do"] == "quit":  # the demo has gone
                sys.exit(1)
            yield command


def _transport_counts(stats: dict[str, int]) -> dict[str, int]:
    """What tells a run without a fault from another."""
    return {
        "pulls": stats["pulls"],
        "repeats": sum(count for name, count in stats.items() if name.startswith("repeated_")),
        "rescaled_rows": stats["rescaled_rows"],
    }


def main() -> None:
    """The process: `rank FOLDER RANK CONTROLLER HOST`."""
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    place = Place(Plan.read(folder), int(sys.argv[2]), controller=sys.argv[3], host=sys.argv[4])
    sys.exit(
        run_child(lambda channel: Rank(folder, place, channel).serve(), expected=EXPECTED_ERRORS)
    )


if __name__ == "__main__":
    main()
