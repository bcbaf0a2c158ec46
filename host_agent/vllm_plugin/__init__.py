# SPDX-License-Identifier: Apache-2.0
"""vLLM's entry points: puts our layer in place of vLLM's where INCMOE_VLLM asks for it.

vLLM calls both functions in each of its processes, maybe twice; without the variable they do
nothing. vLLM itself is imported only then.
"""

from __future__ import annotations

from host_agent.vllm_plugin.choice import Choice, check_version


def register() -> None:
    """Entry point `vllm.general_plugins`; raises ChoiceError where vLLM or the choice is wrong."""
    choice = Choice.from_environment()
    if choice is None:
        return
    from vllm.version import __version__

    check_version(__version__)
    from host_agent.vllm_plugin import runner

    runner.install(choice)


def platform() -> str | None:
    """Entry point `vllm.platform_plugins`: a platform whose communicator is ours, or None."""
    choice = Choice.from_environment()
    if choice is None or choice == Choice.RUNNER:
        return None
    return "host_agent.vllm_plugin.platform.GatheringCpuPlatform"
