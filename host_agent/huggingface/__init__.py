# SPDX-License-Identifier: Apache-2.0
"""Hugging Face models whose experts lie on the ranks of a job, through transformers' own seams.

| for | seam of transformers | here |
|---|---|---|
| `from_pretrained(..., distributed_config=...)` | EPImplementationInterface (5.23) | `register` |
| a model that is loaded already | ExpertsInterface | `install` |
"""

from host_agent.huggingface.experts import FamilyError
from host_agent.huggingface.install import Installed, install, layout_of, replace_experts
from host_agent.huggingface.registration import leave, register

__all__ = [
    "FamilyError",
    "Installed",
    "install",
    "layout_of",
    "leave",
    "register",
    "replace_experts",
]
