# SPDX-License-Identifier: Apache-2.0
"""Sends the same random entries and frames through BMv2, the interpreter and the compiled code.

    python -m tests.softswitch.against_bmv2 [P4C] [--packets N] [--only NAME...] [--json FILE]

For our program and, from P4C, a checkout of p4c, a dozen of its samples; simple_switch_grpc must be
on PATH, p4c-bm2-ss too for the samples. The exit status is 1 if there is a difference.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path

import p4src
from incmoe.options import output_file, whole
from softswitch import ir
from tests.softswitch.against_bmv2.trial import MakeSource, Outcome, Source, Trial
from tests.softswitch.conformance.samples import FOLDER, Sample, compiled, default_cache
from tests.softswitch.inc_traffic import Traffic, job_updates
from tests.softswitch.random_traffic import Generator

GEOMETRY = "mtu1500"
OURS = f"inc_{GEOMETRY}"
SAMPLES = (
    "action_selector_shared-bmv2",  # action profiles with selectors
    "basic_routing-bmv2",  # tables one behind the other, a checksum
    "issue1352-bmv2",  # digests
    "issue1560-bmv2",  # lookahead, IPv4 options, parser errors
    "issue1653-complex-bmv2",  # clones
    "issue1739-bmv2",  # lpm and ternary keys, a checksum verified
    "issue461-bmv2",  # counters
    "issue561-bmv2",  # stacks of header unions
    "multicast-bmv2",
    "runtime-index-2-bmv2",  # stack elements by number
    "ternary2-bmv2",  # switch over the action that ran
    "v1model-special-ops-bmv2",  # resubmit, recirculate, clones with fields kept
)
MAX_CHUNKS = 5  # of our program's messages, for this geometry


@dataclass(frozen=True, slots=True)
class Task:
    """A program, what it is given, and how much."""

    name: str
    json: Path
    p4info: Path
    make_source: MakeSource
    num_packets: int
    seed: int


def any_source(program: ir.Program, seed: int) -> Source:
    """Entries and frames for any program."""
    generator = Generator(program, seed, links=False)
    return Source(generator.updates(), _frames(generator))


def _frames(generator: Generator) -> Iterator[tuple[int, bytes]]:
    while True:
        yield generator.port(), generator.frame() or b"\0"  # BMv2 takes no empty frame


def inc_source(program: ir.Program, seed: int) -> Source:
    """A job on one switch, and messages of its ranks; now and then any entries and frames."""
    if random.Random(seed).random() < 0.2:
        return any_source(program, seed)
    traffic = Traffic(seed, MAX_CHUNKS)
    return Source(iter(job_updates(program)), _messages(traffic))


def _messages(traffic: Traffic) -> Iterator[tuple[int, bytes]]:
    while True:
        port, frame = traffic.frame()
        yield port, frame or b"\0"


def run(task: Task) -> Outcome:
    trial = Trial(task.name, task.json, task.p4info, task.make_source)
    try:
        trial.run(task.num_packets, task.seed)
    finally:
        trial.close()
    return trial.outcome


def tasks(args: argparse.Namespace) -> Iterator[Task]:
    build = p4src.program(GEOMETRY)
    rest = {"num_packets": args.packets, "seed": args.seed}
    if not args.only or OURS in args.only:
        yield Task(OURS, build.json, build.p4info, inc_source, **rest)
    if args.p4c is None:
        return
    for name in args.only or SAMPLES:
        if name == OURS:
            continue
        made = compiled(Sample(args.p4c / FOLDER / f"{name}.p4"), args.cache)
        if made.json is None or made.p4info is None:
            raise SystemExit(f"p4c makes nothing of {name}: {made.log.splitlines()[:1]}")
        yield Task(name, made.json, made.p4info, any_source, **rest)


def report(outcome: Outcome) -> str:
    total = outcome.num_differences.total()
    lines = [
        f"{outcome.name}: {outcome.frames} frames, {outcome.copies} copies,"
        f" {outcome.entities} entities, counters {outcome.counted} times: {total} differences"
    ]
    lines += [f"  left out {n}: {why}" for why, n in outcome.left_out.most_common()]
    lines += [f"  refused by bmv2 {n}: {why}" for why, n in outcome.refused.most_common(10)]
    lines += [f"  only bmv2 takes {n}: {why}" for why, n in outcome.only_bmv2_takes.most_common(10)]
    lines += [f"  {n} {kind}" for kind, n in outcome.num_differences.most_common()]
    lines += [f"  {difference}" for difference in outcome.differences]
    return "\n".join(lines) + "\n"


def record(outcome: Outcome) -> dict[str, object]:
    """For JSON; dataclasses.asdict makes no dictionaries of Counters."""
    values = {field.name: getattr(outcome, field.name) for field in fields(outcome)}
    return {k: dict(v) if isinstance(v, Counter) else v for k, v in values.items()}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make differential", description=__doc__)
    parser.add_argument("p4c", type=Path, nargs="?", metavar="P4C", help="a checkout of p4c")
    parser.add_argument(
        "--packets", type=whole(1), default=100_000, metavar="N", help="per program"
    )
    parser.add_argument("--seed", type=whole(0), default=1, metavar="N")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="programs to run, no others")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="write the results here")
    parser.add_argument("--cache", type=Path, default=default_cache(), metavar="DIR")
    parser.add_argument("--jobs", type=whole(1), default=1, metavar="N", help="programs at a time")
    args = parser.parse_args()
    if shutil.which("simple_switch_grpc") is None:
        parser.error("simple_switch_grpc is not on PATH")
    begun = time.monotonic()
    with ProcessPoolExecutor(args.jobs) as pool:
        outcomes = []
        for outcome in pool.map(run, list(tasks(args))):
            sys.stdout.write(report(outcome))
            sys.stdout.flush()
            outcomes.append(outcome)
    sys.stdout.write(f"{time.monotonic() - begun:.0f} s\n")
    if args.json:
        args.json.write_text(json.dumps(list(map(record, outcomes)), indent=1) + "\n")
    return 1 if any(outcome.num_differences for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
