# SPDX-License-Identifier: Apache-2.0
"""A rank that is gone ends the others by an error that names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from incmoe.vllm_demo.site import Site
from tests.marks import needs_vllm
from tests.vllm.engines import Offline

pytestmark = [needs_vllm, pytest.mark.timeout(600)]


@pytest.mark.parametrize("place", [2], indirect=True)
def test_a_rank_that_dies_in_a_layer_is_named_by_the_other(
    place: Site, plugin: dict[str, str], model: Path, prompts: list[list[int]], tmp_path: Path
) -> None:
    environment = plugin | place.variables("routed") | {"INCMOE_VLLM": "runner"}
    asked = Offline(model, [prompts[:1], prompts[1:2]], environment, probe_rows=(8, 8), dies=1)
    codes = asked.exit_codes(tmp_path)
    assert all(codes)
    assert "RankLost: rank 1 lost" in (tmp_path / "0.log").read_text()


def test_a_deployment_that_does_not_fit_is_refused_with_a_sentence(
    plugin: dict[str, str], model: Path, prompts: list[list[int]], tmp_path: Path
) -> None:
    """One rank has no other to share experts with."""
    (code,) = Offline(model, [prompts[:1]], plugin | {"INCMOE_VLLM": "runner"}).exit_codes(tmp_path)
    assert code
    sentence = "mlp.experts: without --enable-expert-parallel"
    assert sentence in (tmp_path / "0.log").read_text()
