# SPDX-License-Identifier: Apache-2.0
"""The engine without ports: how long it takes to be ready, and how fast it is in a loop."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

import p4src
from bench import one_job
from bench.switch_vs_bmv2 import job
from bench.switch_vs_bmv2.plan import FORWARD, GEOMETRY
from bench.switch_vs_bmv2.traffic import ARM_PASSES, Traffic, traffic
from softswitch.bmv2_json import load
from softswitch.compiler import CompiledEngine, OutputBuffers

PASSES: Final = 1000


def compile_s() -> float:
    """From the JSON file to the first packet out of a new engine: all that compiling takes."""
    first = traffic(FORWARD)
    start = time.monotonic()
    engine = _ready()
    out = engine.process(first.batch)
    seconds = time.monotonic() - start
    assert (out.port == job.MEMBER_PORT).all()
    assert out.frames() == [(job.MEMBER_PORT, frame) for _, frame in first.batch.frames()]
    return seconds


def packets_s(kinds: Iterable[str]) -> dict[str, float]:
    """Packets of each kind that go in, in a second of processor time."""
    engine, buffers = _ready(), OutputBuffers()
    return {kind: _packets_s(engine, buffers, traffic(kind)) for kind in kinds}


def _ready() -> CompiledEngine:
    program = load(p4src.program(GEOMETRY).json)
    engine = CompiledEngine(program)
    engine.update(one_job.snapshot(program, job.entries()))
    return engine


def _packets_s(engine: CompiledEngine, buffers: OutputBuffers, sent: Traffic) -> float:
    if sent.arming is not None:
        _pass(engine, buffers, sent.arming, ARM_PASSES)
    num_passes = min(PASSES, sent.max_passes or PASSES)
    return num_passes * len(sent.batch) / _pass(engine, buffers, sent, num_passes)


def _pass(engine: CompiledEngine, buffers: OutputBuffers, sent: Traffic, num_passes: int) -> float:
    """Processor time of so many passes, without their preparation."""
    seconds = 0.0
    for _ in range(num_passes):
        sent.renew()
        start = time.thread_time()
        engine.process(sent.batch, buffers)
        seconds += time.thread_time() - start
    return seconds
