# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.failures`: the command line, and what was found as named figures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Final

import bench.failures
from bench.failures.job import context
from bench.failures.plan import NUM_RANKS, TIMERS, Event, Run, possible
from bench.failures.run import Outcome, perform
from bench.report import say
from incmoe.figures import Figure, write_figures
from incmoe.options import output_file, whole

SLACK_S: Final = 1.5  # a shared machine's; what is documented leaves it out


def main() -> int:
    """Do all runs, print, write; 1 if one did not end as documented."""
    arguments = _parser().parse_args()
    events = [Event[name] for name in arguments.events] or possible()
    fork = context()
    outcomes = []
    for number in range(arguments.first, arguments.first + arguments.runs):
        run = Run.drawn(number, arguments.seed, events)
        outcomes.append(perform(run, fork))
        say(_line(outcomes[-1]))
    found = list(figures(outcomes, arguments.slack))
    for one in found:
        print(f"{one.name:24} {one.value:9.3f} {one.unit:6} {one.how}")
    if arguments.json:
        runs = [_record(one) for one in outcomes]
        write_figures(arguments.json, found, seed=arguments.seed, runs=runs)
    return int(any(not _good(one, arguments.slack) for one in outcomes))


def figures(outcomes: list[Outcome], slack_s: float) -> Iterator[Figure]:
    """What the runs showed."""
    num = len(outcomes)
    kinds = len({(one.run.event, one.run.on_loss) for one in outcomes})
    good = sum(_good(one, slack_s) for one in outcomes)
    worst = max((one.over_s for one in outcomes), default=0.0)
    how = (
        f"{kinds} kinds of failure and policy; {NUM_RANKS} ranks, {TIMERS.deadline_s:g} s deadline"
    )
    yield Figure("runs", num, "1", None, how)
    how = f"every rank as in docs/failures.md, at most {slack_s:g} s late"
    yield Figure("ended_as_documented", good, "1", num, how)
    yield Figure("hung", sum(one.hung for one in outcomes), "1", 0, "a rank came to no end")
    yield Figure("wrong_outputs", sum(one.wrong for one in outcomes), "1", 0, "calls, all ranks")
    yield Figure("worst_over_deadline", worst, "s", slack_s, "beyond the documented time")


def _good(one: Outcome, slack_s: float) -> bool:
    return not (one.problems or one.hung or one.wrong) and one.over_s <= slack_s


def _line(one: Outcome) -> str:
    run = one.run
    state = "; ".join(one.problems) or "as documented"
    return (
        f"{run.number:3} {run.event}, {run.on_loss}, rank {run.victim}: {state}, "
        f"{one.over_s:+.2f} s, wrong outputs {one.wrong} [{' | '.join(one.endings)}]"
    )


def _record(one: Outcome) -> dict[str, object]:
    run = one.run
    return {
        **{"number": run.number, "event": run.event, "on_loss": run.on_loss, "victim": run.victim},
        **{"endings": one.endings, "over_s": one.over_s, "problems": one.problems},
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.failures",
        description=bench.failures.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--runs", type=whole(1), default=100, metavar="N")
    parser.add_argument(
        "--first", type=whole(0), default=0, metavar="N", help="number of the first run"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=output_file, metavar="FILE", help="where the figures go")
    parser.add_argument(
        "--slack", type=float, default=SLACK_S, metavar="SECONDS", help="what a run may be late"
    )
    parser.add_argument(
        "--events",
        nargs="+",
        default=[],
        choices=[event.name for event in Event],
        metavar="EVENT",
        help="only these of: %(choices)s",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
