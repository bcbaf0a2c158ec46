# SPDX-License-Identifier: Apache-2.0
"""vLLM's OpenAI-compatible server with its experts on two ranks, and the demo that starts one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from incmoe.demo.processes import Supervisor
from incmoe.vllm_demo import client, serving
from incmoe.vllm_demo.run import free_port, start
from incmoe.vllm_demo.serving import PYTHON_VARIABLE, Serving
from incmoe.vllm_demo.site import Site
from tests.marks import needs_vllm
from tests.vllm.environment import ROOT, python

pytestmark = [needs_vllm, pytest.mark.timeout(600)]

REQUESTS = 200
NEW_TOKENS = 6


@pytest.mark.parametrize("place", [2], indirect=True)
def test_a_server_survives_a_client_that_hangs_up_and_200_requests(
    place: Site, plugin: dict[str, str], model: Path, prompts: list[list[int]], tmp_path: Path
) -> None:
    name = str(model)
    served = Serving(
        python=python(),
        model=model,
        choice="runner",
        variables={"PYTHONPATH": plugin["PYTHONPATH"], **place.variables("routed")},
        parallel=serving.on_one_machine(2),
        port=free_port(),
    )
    with Supervisor(tmp_path) as supervisor:
        start(served, supervisor)
        first = client.complete_all(served.url, name, prompts, NEW_TOKENS)
        for _ in range(3):
            client.hang_up(served.port, name, prompts[0], 400)
        many = [prompts[number % len(prompts)] for number in range(REQUESTS)]
        answers = client.complete_all(served.url, name, many, NEW_TOKENS, at_once=16)
        supervisor.check()  # nothing has ended
    tokens = [answer.tokens for answer in answers]
    assert tokens == [answer.tokens for answer in first] * (REQUESTS // len(prompts))
    assert all(len(one) == NEW_TOKENS for one in tokens)
    assert len(set(tokens)) > 1


def test_the_demo_shows_equal_tokens_through_the_switch(plugin: dict[str, str]) -> None:
    words = [sys.executable, "-m", "incmoe", "vllm-demo", "--new-tokens", "8", "--ranks", "4"]
    done = subprocess.run(
        words,
        cwd=ROOT,
        env=plugin | {PYTHON_VARIABLE: python()},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout
    assert "greedy tokens as of the model in one process: 20 of 20 prompts" in done.stdout
