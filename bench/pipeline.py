# SPDX-License-Identifier: Apache-2.0
"""How fast the pipeline is by itself, without ports: `python -m bench.pipeline [--json FILE]`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import p4src
from bench import one_job
from host_agent import wire
from incmoe.figures import Figure, write_figures
from incmoe.options import output_file
from softswitch.bmv2_json import load
from softswitch.compiler import CompiledEngine, OutputBuffers
from softswitch.engine import Batch
from softswitch.interpreter import Interpreter

CHUNKS = {"mtu1500": 4, "mtu9000": 32}
MAIN = "mtu9000"  # the geometry whose figures bear the plain names
ROW_BYTES = 1024  # of a DISPATCH
AT_LEAST_RATIO = 100.0
AT_MOST_NS_PER_KIB = 400.0
AT_MOST_COMPILE_S = 3.0
ROUNDS = 200
INTERPRETER_ROUNDS = 3

Process = Callable[[Batch], Batch]


class Traffic:
    """The same rounds for any engine: rows go out, then come back as contributions."""

    def __init__(self, chunks: int) -> None:
        self.dispatches = one_job.dispatches(ROW_BYTES)
        self.contributions = one_job.contributions(chunks)

    def seconds(self, process: Process, rounds: int) -> tuple[float, float]:
        """The shortest time for all dispatches of a round, and for all contributions."""
        times = [self._round(process, seq) for seq in range(1, rounds + 1)]
        return min(first for first, _ in times), min(second for _, second in times)

    def _round(self, process: Process, seq: int) -> tuple[float, float]:
        self.dispatches.set_seq(seq)
        self.contributions.set_seq(seq)
        sent, dispatch_s = _timed(process, self.dispatches.batch)
        assert len(sent) == len(self.dispatches.batch) * len(one_job.MEMBERS)
        sums, contribution_s = _timed(process, self.contributions.batch)
        assert len(sums) == one_job.NUM_SLOTS
        return dispatch_s, contribution_s


def _timed(process: Process, batch: Batch) -> tuple[Batch, float]:
    """The result and the processor time it took: what else the machine does shall not count."""
    start = time.thread_time()
    result = process(batch)
    return result, time.thread_time() - start


@dataclass(frozen=True)
class Measured:
    """Seconds of one round, and of getting ready."""

    geometry: str
    compile_s: float
    dispatch_s: float
    contribution_s: float
    interpreter_s: float


def measure(geometry: str) -> Measured:
    program = load(p4src.program(geometry).json)
    state = one_job.job_state(program)
    traffic = Traffic(CHUNKS[geometry])
    start = time.thread_time()
    compiled = CompiledEngine(program)
    compile_s = time.thread_time() - start
    compiled.update(state)
    buffers = OutputBuffers()
    best = traffic.seconds(lambda batch: compiled.process(batch, buffers), ROUNDS)
    interpreter = Interpreter(program)
    interpreter.update(state)
    slow = traffic.seconds(interpreter.process, INTERPRETER_ROUNDS)
    return Measured(geometry, compile_s, *best, sum(slow))


def figures(m: Measured) -> Iterator[Figure]:
    chunks = CHUNKS[m.geometry]
    num_rows, num_contributions = one_job.NUM_SLOTS, one_job.NUM_SLOTS * len(one_job.MEMBERS)
    how = f"{m.geometry}, {chunks} chunks, CPU time, best of {ROUNDS} rounds of {num_rows} rows"
    suffix = "" if m.geometry == MAIN else f"_{m.geometry}"
    kib = num_contributions * chunks * wire.CHUNK_BYTES / 1024
    ratio = m.interpreter_s / (m.dispatch_s + m.contribution_s)
    ns_per_kib = m.contribution_s / kib * 1e9
    for name, value, unit, limit, more in (
        ("pps_compiled_over_interpreter", ratio, "ratio", AT_LEAST_RATIO, "; at least"),
        ("ns_per_kib", ns_per_kib, "ns/KiB", AT_MOST_NS_PER_KIB, "; at most"),
        ("contributions_per_s", num_contributions / m.contribution_s, "1/s", None, ""),
        ("dispatches_per_s", num_rows / m.dispatch_s, "1/s", None, f", {ROW_BYTES} bytes"),
    ):
        yield Figure(name + suffix, value, unit, limit, how + more)
    ready = f"{m.geometry}, CPU time from the loaded program to an engine; at most"
    yield Figure("compile_s" + suffix, m.compile_s, "s", AT_MOST_COMPILE_S, ready)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=output_file, help="file to write the figures to")
    arguments = parser.parse_args()
    found = [figure for geometry in CHUNKS for figure in figures(measure(geometry))]
    for figure in found:
        print(f"{figure.name:45} {figure.value:14.1f} {figure.unit:8} {figure.how}")
    if arguments.json:
        write_figures(arguments.json, found)


if __name__ == "__main__":
    main()
