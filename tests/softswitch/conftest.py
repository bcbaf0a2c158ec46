# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the switch's tests: every engine test runs on each engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.softswitch.switch_process import Starter
from tests.softswitch.switches import ENGINES, EngineClass, Switch


@pytest.fixture(params=list(ENGINES))
def engine_class(request: pytest.FixtureRequest) -> EngineClass:
    return ENGINES[request.param]


@pytest.fixture
def start(engine_class: EngineClass) -> Callable[[str], Switch]:
    """Start a test program by name."""
    return lambda name: Switch(name, engine_class)


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Starter]:
    """Starts `incmoe switch` and waits until it is up; it is gone afterwards."""
    starter = Starter(tmp_path)
    yield starter
    starter.stop()


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture) -> None:
    """`caplog` has what the switch says: p4runtime-shell has the root logger take errors only."""
    caplog.set_level("INFO", logger="softswitch")
