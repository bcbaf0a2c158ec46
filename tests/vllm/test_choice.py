# SPDX-License-Identifier: Apache-2.0
"""What the plug-in does before any model: asks for nothing, refuses what it does not know."""

from __future__ import annotations

import subprocess
import sys

import pytest

from host_agent import vllm_plugin
from host_agent.vllm_plugin.choice import Choice, ChoiceError, check_version
from incmoe.demo.errors import DemoError
from incmoe.vllm_demo import serving


def test_nothing_is_asked_for_and_nothing_imported_without_the_variable() -> None:
    program = (
        "import sys; from host_agent import vllm_plugin as p; p.register(); p.register(); "
        "assert p.platform() is None; assert not {'vllm', 'torch', 'grpc'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={})


@pytest.mark.parametrize("text", list(Choice))
def test_the_variable_says_which(text: str) -> None:
    assert Choice.from_environment({"INCMOE_VLLM": text}) == text


def test_another_value_is_refused_with_those_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INCMOE_VLLM", "yes")
    sentence = "INCMOE_VLLM is 'yes', not runner or communicator or gloo"
    with pytest.raises(ChoiceError, match=sentence):
        vllm_plugin.register()


@pytest.mark.parametrize("version", ["0.29.0", "0.30.1", "0.32.0+cpu"])
def test_a_known_version_is_taken(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize("version", ["0.28.9", "0.33.0", "1.0", "dev"])
def test_another_version_is_refused_with_the_range(version: str) -> None:
    with pytest.raises(
        ChoiceError, match=rf"vLLM is {version}: .*0\.29 or newer, older than 0\.33"
    ):
        check_version(version)


def test_the_demo_says_which_interpreter_cannot_run_vllm() -> None:
    with pytest.raises(DemoError, match="false cannot run vLLM with the plug-in: it says nothing"):
        serving.check_python("false")
    with pytest.raises(DemoError, match="/no/python cannot be run: No such file"):
        serving.check_python("/no/python")
