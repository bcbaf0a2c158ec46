# SPDX-License-Identifier: Apache-2.0
"""The plots of bench.collectives: the bounds they draw in, and the files they write."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

from bench.collectives.plan import Plan
from bench.collectives.plots import draw, uniform_bound
from bench.collectives.routing import routes_of
from incmoe.figures import Figure, write_figures

NUM = np.array([4.0, 8.0])


def test_the_static_bound_is_the_papers():
    assert uniform_bound(("static", "ring"), NUM) == pytest.approx([2 / 3, 4 / 7])


def test_the_routed_bounds_are_those_of_the_routing_that_is_drawn():
    fanout = np.array([routes_of(Plan(num_ranks=int(n), tokens=1000)).fanout for n in NUM])
    to_ring = uniform_bound(("routed", "ring"), NUM)
    assert to_ring == pytest.approx((fanout + 1) / (2 * (NUM - 1)), rel=0.02)
    to_alltoall = uniform_bound(("routed", "alltoall"), NUM)
    assert to_alltoall == pytest.approx((fanout + 1) / (2 * fanout), rel=0.02)


@pytest.mark.parametrize("switch", ["embedded", "bmv2"])
def test_what_was_measured_is_in_the_drawings(tmp_path, switch):
    pytest.importorskip("matplotlib", reason="needs matplotlib (incmoe[plots])")
    suffix = "_n4" + ("_bmv2" if switch == "bmv2" else "")
    found = [
        Figure(f"static_over_ring{suffix}", 0.65, "ratio", 0.7, ""),
        Figure(f"static_over_bound{suffix}", 1.01, "ratio", None, ""),
        Figure(f"static_bytes{suffix}", 17 * Plan().own_bytes / 4, "bytes", None, ""),
        Figure(f"static_payload_bytes{suffix}", 4.0 * Plan().own_bytes, "bytes", None, ""),
    ]
    plan = asdict(Plan(num_ranks=4, switch=switch, schemes=("static",)))
    write_figures(tmp_path / "n4.json", found, plan=plan)
    draw([tmp_path / "n4.json"], tmp_path)
    endings = [
        f"{name}.{ending}" for name in ("bands", "bytes", "time-ratio") for ending in ("png", "svg")
    ]
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted([*endings, "n4.json"])
    assert "<!-- 4.25 -->" in (tmp_path / "bytes.svg").read_text()
