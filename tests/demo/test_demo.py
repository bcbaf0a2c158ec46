# SPDX-License-Identifier: Apache-2.0
"""The command `incmoe demo` as a user runs it, with real processes, small."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.demo.commands import ROOT, SMALL, children_of, command, has_gone, run


def test_two_ranks_generate_what_one_process_does(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    done = run(*SMALL, "--json", str(file))
    assert done.returncode == 0, done.stderr
    figures = {f["name"]: f["value"] for f in json.loads(file.read_text())["figures"]}
    assert (figures["tokens_equal_static"], figures["tokens_equal_routed"]) == (1, 1)
    assert figures["max_logit_difference"] < 1e-3
    assert figures["bytes_routed_prefill"] > 0
    assert (figures["lost_static"], figures["lost_routed"]) == (0, 0)
    assert "tokens equal the single process's, static and routed" in done.stdout


def test_rows_of_several_packets_and_narrow_lanes_run_too() -> None:
    model = "hidden=1024,heads=8,experts=8,top_k=2,layers=1"
    options = ["--geometry", "mtu1500", "--lanes", "16", "--mode", "routed"]
    done = run(*SMALL, *options, "--random-model", model)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ranks", "3"], "incmoe: 16 experts do not divide among 3 ranks"),
        (["--model", "/nowhere"], "incmoe: no model: /nowhere holds no config.json"),
        (["--random-model", "hidden=x"], "incmoe: model shape: hidden must be a"),
        (["--band-rows", "0"], "incmoe: --band-rows 0: must be at least 1"),
    ],
)
def test_bad_input_is_one_clear_line(options: list[str], message: str) -> None:
    done = run(*options)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(message)
    assert "Traceback" not in done.stderr


def test_ctrl_c_ends_every_process_that_the_demo_started() -> None:
    with subprocess.Popen(
        command(*SMALL, "--new-tokens", "500"), cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stderr is not None
        assert any("loading the model" in line for line in demo.stderr)
        time.sleep(0.5)
        children = children_of(demo.pid)
        os.kill(demo.pid, signal.SIGINT)
        last = demo.stderr.read().splitlines()[-1]
        assert demo.wait(timeout=30) == 128 + signal.SIGINT
    assert last == "incmoe: stopped on request; all processes of the demo have ended"
    assert len(children) >= 4  # switch, controller, two ranks; the reference may not be reaped
    assert all(has_gone(pid) for pid in children)
