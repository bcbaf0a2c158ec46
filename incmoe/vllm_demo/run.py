# SPDX-License-Identifier: Apache-2.0
"""One run of the vLLM demo: switch, controller, server, requests; compares with transformers.

switch, controller -> vLLM's server with N ranks -> prompts of held-out text -> the same tokens?
                                                 -> vllm bench serve, if asked for
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from rich.console import Console

from host_agent.wire import Op
from incmoe.demo import subject
from incmoe.demo.child import Child, Command
from incmoe.demo.generate import Generator
from incmoe.demo.meters import Reading, difference
from incmoe.demo.outcome import EXPLAINED_DROPS
from incmoe.demo.plan import Plan
from incmoe.demo.processes import Supervisor
from incmoe.demo.progress import Narrator
from incmoe.model import tokenizer
from incmoe.vllm_demo import checkpoint, client, serving, site
from incmoe.vllm_demo.client import Answer
from incmoe.vllm_demo.serving import LAUNCHER, Serving

START_S = 600.0  # every engine imports torch and vLLM, on few cores
BENCH_S = 600.0
NAME = "incmoe"  # of the model, to the clients


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of the command line that are not the plan's; `port` 0: a free one."""

    python: str
    mode: str
    eager: bool = True
    port: int = 0
    bench: bool = False
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run found; `rows` dispatched and `sums` finished are as the switch counted."""

    prompts_equal: int
    num_prompts: int
    example: tuple[str, str]
    rows: int
    sums: int
    drops: Mapping[str, int]  # by reason
    bench: str

    @property
    def as_it_should(self) -> bool:
        """Equal tokens, by way of the switch, which dropped nothing that it should not."""
        explained = self.drops.keys() <= EXPLAINED_DROPS.keys()
        return self.prompts_equal == self.num_prompts and self.rows > 0 and explained


def run(
    plan: Plan,
    asked: Asked,
    console: Console,
    tell: Callable[[Outcome], None],
    keep_logs: Path | None = None,
) -> Outcome:
    """The whole demo; `tell` hears what it found while the server is there. Raises DemoError."""
    serving.check_python(asked.python)
    if keep_logs is not None:
        keep_logs.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="incmoe-vllm-") as name,
        Narrator(console) as narrator,
        Supervisor(keep_logs or Path(name)) as supervisor,
    ):
        running = _Run(plan, asked, Path(name), supervisor, narrator)
        with running.served() as outcome:
            tell(outcome)
            if asked.keep:
                running.serve_on()
        return outcome


class _Run:
    """The processes of a run."""

    def __init__(
        self, plan: Plan, asked: Asked, folder: Path, supervisor: Supervisor, narrator: Narrator
    ) -> None:
        self._plan, self._asked, self._folder = plan, asked, folder
        self._supervisor, self._narrator = supervisor, narrator
        self._shape = subject.check(plan)
        self._prompts = [prompt for one in subject.prompts_of(plan) for prompt in one]

    @contextmanager
    def served(self) -> Iterator[Outcome]:
        """Everything, in order; the server is there until the end of the block."""
        plan = self._plan
        with self._narrator.stage("transformers: the model by itself"):
            expected = self._expected()
        with site.opened(plan, self._shape.hidden, self._folder, self._supervisor) as place:
            self._served = served = self._serving(place)
            with self._narrator.stage(f"vLLM: {plan.num_ranks} ranks"):
                server = start(served, self._supervisor)
            before = place.meters().read()
            with self._narrator.stage(f"{len(self._prompts)} prompts at {served.url}"):
                answers = client.complete_all(served.url, NAME, self._prompts, plan.new_tokens)
            counted = place.meters().read()
            yield self._outcome(answers, expected, before, counted)
            self._supervisor.stop([server])

    def serve_on(self) -> None:
        """Until somebody asks to stop."""
        url = f"{self._served.url}/v1"
        with self._narrator.stage(f"serving at {url}, model {NAME}: Ctrl-C ends it"):
            self._supervisor.wait_until(lambda: False, "the end", timeout_s=float("inf"))

    def _outcome(
        self,
        answers: list[Answer],
        expected: list[list[int]],
        before: Reading,
        counted: Reading,
    ) -> Outcome:
        ops = difference(counted.ops, before.ops)
        equal = [
            list(answer.tokens) == tokens for answer, tokens in zip(answers, expected, strict=True)
        ]
        most = max(answers, key=lambda answer: len(set(answer.tokens)))
        prompt = self._prompts[answers.index(most)]
        decode = tokenizer.load(subject.folder_of(self._plan)).decode
        return Outcome(
            prompts_equal=sum(equal),
            num_prompts=len(equal),
            example=(decode(prompt), most.text),
            rows=ops.get(Op.DISPATCH.name, 0),
            sums=ops.get(Op.RESULT.name, 0),
            drops={
                name: num for name, num in difference(counted.drops, before.drops).items() if num
            },
            bench=self._bench(self._served) if self._asked.bench else "",
        )

    def _serving(self, place: site.Site) -> Serving:
        source = subject.folder_of(self._plan)
        return Serving(
            python=self._asked.python,
            model=checkpoint.untie(source, self._folder / "model"),
            choice="runner",
            variables=place.variables(self._asked.mode),
            parallel=[*serving.on_one_machine(self._plan.num_ranks), "--served-model-name", NAME],
            port=self._asked.port or free_port(),
            eager=self._asked.eager,
        )

    def _expected(self) -> list[list[int]]:
        """Greedy tokens of each prompt, one process, no network."""
        torch.set_num_threads(1)
        generator = Generator(subject.model_of(self._plan), torch.tensor(self._prompts))
        generator.run(self._plan.new_tokens)
        tokens: list[list[int]] = generator.result().tokens.tolist()
        return tokens

    def _bench(self, served: Serving) -> str:
        """What `vllm bench serve` says."""
        words = bench_words(served, NAME, num_prompts=32, input_len=64, output_len=16)
        with self._narrator.stage("vllm bench serve"):
            child = self._supervisor.start("bench", Command(words))
            child.may_end = True
            self._supervisor.wait_until(child.has_ended, "vllm bench serve", timeout_s=BENCH_S)
        ended = child.reap()
        if child.process.returncode:
            raise child.failure(ended)
        said = child.log.read_text().splitlines()
        first, last = (
            next(at for at, line in enumerate(said) if line.startswith("=") and mark in line)
            for mark in ("Serving Benchmark Result", "=" * 50)
        )
        return "\n".join(said[first : last + 1])


def start(served: Serving, supervisor: Supervisor, name: str = "vllm") -> Child:
    """Start a server and wait until it takes requests."""
    server = supervisor.start(name, Command(served.words()))
    is_up = partial(client.is_up, served.url)
    supervisor.wait_until(is_up, f"vLLM does not answer at {served.url}", timeout_s=START_S)
    return server


def bench_words(
    served: Serving, model: str, *, num_prompts: int, input_len: int, output_len: int
) -> list[str]:
    """`vllm bench serve` against a server, with random prompts, all at once."""
    settings = [f"{name}={value}" for name, value in serving.SETTINGS.items()]
    return [
        *("env", *settings, served.python, "-m", LAUNCHER, "bench", "serve"),
        *("--backend", "vllm", "--base-url", served.url, "--model", model),
        *("--tokenizer", str(served.model), "--dataset-name", "random", "--ignore-eos"),
        *("--random-input-len", str(input_len), "--random-output-len", str(output_len)),
        *("--num-prompts", str(num_prompts), "--temperature", "0"),
    ]


def free_port() -> int:
    """A TCP port that nobody used a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
