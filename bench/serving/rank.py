# SPDX-License-Identifier: Apache-2.0
"""One rank of the benchmark; told what to do.

    ready -> (run serve | pipeline, at a time -> ran)* -> quit -> counted

Every generation is compared with that of the whole model in one process, outside of what is timed.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import torch

from bench.report import repairs
from bench.serving.pipeline import Pipeline
from bench.serving.plan import IN_NETWORK, TRACE_FILE, Plan, Prompts
from bench.serving.schemes import InNetwork, Place, schemes_of
from bench.serving.serving import Served, must_agree, serve
from host_agent.errors import AgentError
from host_agent.moe import Stage
from incmoe.demo import subject
from incmoe.demo.channel import Channel, Message, run_child
from incmoe.demo.errors import DemoError
from incmoe.demo.generation import Generation
from incmoe.model.errors import ModelError

GATHER, _, REDUCE = range(3)  # of trace.ROLES


class Rank:
    """A rank's schemes and prompts, ready to run."""

    def __init__(self, place: Place) -> None:
        self._place, self._plan = place, place.plan
        self._prompts = {str(one): self._prompts_of(one) for one in place.plan.prompts}
        whole, new_tokens = place.model(), place.plan.new_tokens
        self._whole: dict[str, Generation] = {
            name: serve(whole, [], prompts_BT, new_tokens)[1]
            for name, prompts_BT in self._prompts.items()
        }
        del whole
        self._stack = ExitStack()
        self._schemes = schemes_of(place, self._stack)
        self._pipelines: dict[str, Pipeline] = {}

    def serve(self, scheme: str, prompts: str, trace: str) -> Message:
        """Serve prompts once; write the trace if it has a name."""
        one = self._schemes[scheme]
        one.prepare()
        cpu_s = time.process_time()
        served, generation = serve(
            one.model, one.layers, self._prompts[prompts], self._plan.new_tokens
        )
        cpu_s = time.process_time() - cpu_s
        worst = must_agree(f"{scheme} {prompts}", generation, self._whole[prompts])
        if trace:
            events = list(served.events(self._place.rank, len(Stage)))
            file = self._place.folder / TRACE_FILE.format(trace, self._place.rank)
            file.write_text(json.dumps(events))
        return _told(served) | {"cpu_s": cpu_s, "logit_difference": worst}

    def pipeline(self, scheme: str, part: str) -> Message:
        """Do one part of a layer's pipeline."""
        if scheme not in self._pipelines:
            self._pipelines[scheme] = self._captured(scheme)
        cpu_s, began = time.process_time(), time.monotonic()
        self._pipelines[scheme].run(part)
        ended = time.monotonic()
        return {"began": began, "ended": ended, "cpu_s": time.process_time() - cpu_s}

    def counts(self) -> dict[str, int]:
        """Everything that the transports of all jobs counted."""
        counts: Counter[str] = Counter()
        for scheme in self._schemes.values():
            if isinstance(scheme, InNetwork):
                counts.update(scheme.endpoint.stats())
        return dict(counts)

    def close(self) -> None:
        """Leave everything."""
        self._stack.close()

    def _captured(self, scheme: str) -> Pipeline:
        one = self._schemes[scheme]
        assert isinstance(one, InNetwork), f"{scheme} is none of {IN_NETWORK}"
        most = max(self._prompts.values(), key=torch.Tensor.numel)
        pipeline = Pipeline(one.layers[len(one.layers) // 2])
        pipeline.capture(lambda: serve(one.model, one.layers, most, 1))
        return pipeline

    def _prompts_of(self, prompts: Prompts) -> torch.Tensor:
        """[B, T] token ids of held-out text, other ones at every rank."""
        return torch.tensor(subject.prompts_of(self._plan.demo(prompts))[self._place.rank])


def _told(served: Served) -> Message:
    return {
        "began": served.began,
        "first": served.steps[0],
        "ended": served.steps[-1],
        # Of dispatch and of combine, waiting for other ranks included.
        "moving_s": served.busy_s(GATHER) + served.busy_s(REDUCE),
    }


def work(channel: Channel, place: Place) -> None:
    """The process's work."""
    one = Rank(place)
    channel.report("ready")
    while (command := channel.next_command())["do"] == "run":
        at, what = command["at"], getattr(one, command["what"])
        gc.collect()
        time.sleep(max(at - time.monotonic(), 0.0))
        before = repairs(one.counts())
        told = what(*command["given"])
        channel.report("ran", repairs=repairs(one.counts()) - before, **told)
    channel.report("counted", counts=one.counts())
    one.close()


def main() -> None:
    """The process: `rank FOLDER RANK RANK_IP...`."""
    torch.set_num_threads(1)
    name, rank, *ips = sys.argv[1:]
    folder = Path(name)
    place = Place(Plan.read(folder), folder, int(rank), ips)
    expected = (AgentError, AssertionError, DemoError, ModelError)
    sys.exit(run_child(partial(work, place=place), expected=expected))


if __name__ == "__main__":
    main()
