# SPDX-License-Identifier: Apache-2.0
"""Makes `DistributedConfig(ep_implementation="inc")` known to transformers.

    import torch
    from transformers import AutoModelForCausalLM, DistributedConfig
    from host_agent.huggingface import register

    register()
    config = DistributedConfig(ep_implementation="inc", ep_size=4, tp_size=4)
    model = AutoModelForCausalLM.from_pretrained(path, distributed_config=config)

Which job, and how: the environment (host_agent/access.py). The process takes its seat in the first
forward and leaves it when it ends, or by `leave()`.
"""

from __future__ import annotations

from typing import Final

import transformers

from host_agent.huggingface.job import leave
from host_agent.moe.experts import LayerError

__all__ = ["NAME", "leave", "register"]

NAME: Final = "inc"


def register() -> None:
    """Register `NAME`; may be called again. LayerError where transformers is too old."""
    try:
        from transformers.distributed.expert_parallel import EPImplementationInterface
    except ImportError:
        raise LayerError(
            f"transformers {transformers.__version__} has no EPImplementationInterface, "
            "5.23 has: use host_agent.huggingface.install on a loaded model"
        ) from None
    from host_agent.huggingface.expert_parallel import InNetworkEP

    EPImplementationInterface.register(NAME, InNetworkEP)
