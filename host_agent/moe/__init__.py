# SPDX-License-Identifier: Apache-2.0
"""Mixture-of-experts layers over a group's ranks."""

from host_agent.moe.experts import LayerError, LocalExperts, swiglu
from host_agent.moe.layer import InNetworkMoE, LayerPlace
from host_agent.moe.stages import Stages
from host_agent.moe.trace import Span, Stage, Trace

__all__ = [
    "InNetworkMoE",
    "LayerError",
    "LayerPlace",
    "LocalExperts",
    "Span",
    "Stage",
    "Stages",
    "Trace",
    "swiglu",
]
