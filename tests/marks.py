# SPDX-License-Identifier: Apache-2.0
"""Marks that several folders' tests bear."""

from __future__ import annotations

import pytest

from tests.packet.devices import why_no_bmv2
from tests.vllm.environment import why_no_vllm

NO_BMV2 = why_no_bmv2()
NO_VLLM = why_no_vllm()

needs_vllm = pytest.mark.skipif(NO_VLLM is not None, reason=NO_VLLM or "")

on_both = pytest.mark.parametrize(
    "switch",
    [
        pytest.param(
            "bmv2",
            marks=[
                pytest.mark.bmv2,
                pytest.mark.skipif(NO_BMV2 is not None, reason=NO_BMV2 or ""),
            ],
        ),
        "embedded",
    ],
)
