# SPDX-License-Identifier: Apache-2.0
"""What bench.vllm makes of the client's reports, and the words it starts servers with."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.vllm.figures import figures
from bench.vllm.plan import CONTROL, OURS, Plan
from bench.vllm.run import Outcome
from incmoe.model import Shape
from incmoe.vllm_demo.serving import Serving, on_one_machine


def report(ttft_ms: float, rate: float) -> dict[str, float]:
    return {"median_ttft_ms": ttft_ms, "total_token_throughput": rate, "duration": 2.0}


def test_ratios_are_of_runs_of_one_round_and_their_median_counts() -> None:
    plan = Plan(rate_bits_s=8_000_000, rounds=3)
    outcome = Outcome(plan, Shape.parse(plan.random_model), "0.32.0")
    outcome.reports[OURS] = [report(100, 30), report(300, 20), report(90, 45)]
    outcome.reports[CONTROL] = [report(200, 10), report(400, 20), report(300, 30)]
    outcome.moved[OURS], outcome.moved[CONTROL] = [500_000] * 3, [1_000_000] * 3

    found = {one.name: (one.value, one.limit) for one in figures(outcome)}
    assert found["vllm_ttft_over_gloo"] == (0.5, 0.67)
    assert found["vllm_throughput_over_gloo"] == (1.5, 1.5)
    assert found["vllm_runner_ttft_s"] == (pytest.approx(0.1), None)
    assert found["vllm_gloo_link_utilisation"] == (pytest.approx(0.5), None)
    assert found["vllm_frames_lost"] == (0, 0)


def test_a_server_is_started_by_its_variables_and_options() -> None:
    served = Serving(
        python="py",
        model=Path("m"),
        choice="runner",
        variables={"INCMOE_CONTROLLER": "c:1"},
        parallel=on_one_machine(4),
        port=8000,
    )
    words = served.words()
    assert words[0] == "env"
    at = words.index("py")
    assert {"INCMOE_VLLM=runner", "INCMOE_CONTROLLER=c:1", "OMP_NUM_THREADS=1"} <= set(words[1:at])
    assert words[at : at + 5] == ["py", "-m", "host_agent.vllm_plugin.launch", "serve", "m"]
    options = " ".join(words[at + 5 :])
    assert "--port 8000" in options
    assert "--data-parallel-size 4 --enable-expert-parallel" in options
    assert "--dtype float32" in options
