# SPDX-License-Identifier: Apache-2.0
"""vLLM's CPU platform with another communicator, for what gathers and scatters whole batches."""

from __future__ import annotations

from typing import Final

from vllm.platforms.cpu import CpuPlatform

from host_agent.vllm_plugin.choice import Choice

_COMMUNICATORS: Final = {
    Choice.COMMUNICATOR: "host_agent.vllm_plugin.communicator.SwitchCommunicator",
    Choice.GLOO: "host_agent.vllm_plugin.communicator.GlooCommunicator",
}


class GatheringCpuPlatform(CpuPlatform):
    """A CPU platform to vLLM (its `_enum` stays)."""

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """Return the communicator's name, by INCMOE_VLLM."""
        choice = Choice.from_environment()
        if choice not in _COMMUNICATORS:
            inherited: str = super().get_device_communicator_cls()
            return inherited
        return _COMMUNICATORS[choice]
