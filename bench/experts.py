# SPDX-License-Identifier: Apache-2.0
"""Random experts for benchmarks, of a scale that keeps values near 1; runs nothing."""

from __future__ import annotations

import torch
from torch import Tensor


def random_experts(
    num: int, hidden: int, intermediate: int, *, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return `gate_up_proj` [num, 2 I, H] and `down_proj` [num, H, I], float32."""
    up = torch.randn(num, 2 * intermediate, hidden, generator=generator) / hidden**0.5
    down = torch.randn(num, hidden, intermediate, generator=generator) / intermediate**0.5
    return up, down
