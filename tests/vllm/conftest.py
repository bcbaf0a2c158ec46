# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from incmoe.demo import subject
from incmoe.demo.plan import Plan
from incmoe.demo.processes import Supervisor
from incmoe.model import CHECKPOINT
from incmoe.vllm_demo import checkpoint, site
from incmoe.vllm_demo.site import Site
from tests.vllm.engines import Offline
from tests.vllm.environment import with_plugin

PROMPTS = Plan(num_ranks=4, num_prompts=5, prompt_tokens=48)


@pytest.fixture(scope="session")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment whose vLLM has the plug-in."""
    return with_plugin(tmp_path_factory.mktemp("metadata"))


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checked-in model as vLLM loads it."""
    return checkpoint.untie(CHECKPOINT, tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def prompts() -> list[list[int]]:
    """20 real ones, of 20 to 48 tokens."""
    whole = [prompt for rank in subject.prompts_of(PROMPTS) for prompt in rank]
    return [prompt[: 20 + 3 * number % 29] for number, prompt in enumerate(whole)]


@pytest.fixture(scope="session")
def stock(
    tmp_path_factory: pytest.TempPathFactory,
    plugin: dict[str, str],
    model: Path,
    prompts: list[list[int]],
) -> list[dict[str, Any]]:
    """What vLLM generates by itself, one process, the plug-in installed but not asked for."""
    (told,) = Offline(model, [prompts], plugin).run(tmp_path_factory.mktemp("stock"))
    assert told["probed"] == ["MoERunner"]
    return told["generated"]


@pytest.fixture
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """A switch and a controller for as many ranks as the test is given."""
    folder = tmp_path_factory.mktemp("site")
    plan = Plan(num_ranks=request.param)
    with Supervisor(folder) as supervisor, site.opened(plan, 256, folder, supervisor) as opened:
        yield opened
