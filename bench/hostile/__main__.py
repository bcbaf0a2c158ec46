# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.hostile`: the command line, and what was seen as named figures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import asdict

import bench.hostile
from bench.hostile.plan import Plan
from bench.hostile.run import Outcome, run
from bench.report import say, table, verdict
from incmoe.figures import Figure, write_figures
from incmoe.options import output_file, whole


def main() -> int:
    """Attack, print, write; 0 when nothing changed and everything was counted."""
    arguments = _parser().parse_args()
    plan = Plan(
        num_random=arguments.random,
        num_crafted=arguments.crafted,
        num_flood=arguments.flood,
        num_ranks=arguments.ranks,
        seed=arguments.seed,
    )
    outcome = run(plan, say)
    found = list(figures(outcome))
    print(table(f"{plan.num_ranks} ranks, one process, loopback", found))
    for name, num in sorted(outcome.drops.items()):
        print(f"  {name:20} {num:9}")
    if arguments.json:
        kinds = dict(sorted(outcome.sent.kinds.items()))
        drops = dict(sorted(outcome.drops.items()))
        write_figures(arguments.json, found, plan=asdict(plan), kinds=kinds, drops=drops)
    return verdict("bench.hostile", found)


def figures(outcome: Outcome) -> Iterator[Figure]:
    """What was seen."""
    sent = outcome.sent
    how = f"of {outcome.rows} rows in {outcome.calls} calls of all ranks, under attack"
    yield Figure("wrong_sums", outcome.wrong_sums, "rows", 0, how)
    how = "sums of calls and ranks that differ in a bit from the undisturbed job's"
    yield Figure("changed_outputs", outcome.changed, "1", 0, how)
    how = f"of {sent.num} packets: sent minus counted, by reason"
    yield Figure("miscounted", outcome.miscounted, "packets", 0, how)
    how = "of floods and of datagrams too big: sent minus counted by the port"
    yield Figure("miscounted_by_port", outcome.port_miscounted, "packets", 0, how)
    how = "messages that came to ranks and were not of the job"
    yield Figure("reached_ranks", outcome.disturbed, "1", 0, how)
    yield Figure("repairs", outcome.repairs, "1", None, "pulls and repeats of the ranks")
    how = f"{len(sent.kinds)} kinds; besides, {sent.too_big} too big for a port"
    how += f", {sent.past_the_switch} straight to a rank's socket"
    yield Figure("hostile", sent.kinds.total(), "packets", None, how)
    lost = outcome.flood_port["rx_kernel_dropped"]
    yield Figure("flood_lost", lost, "packets", None, "by the full buffer of the flooded port")
    quiet, attacked = outcome.calls_s
    how = f"calls/s under attack over undisturbed ({quiet:.0f}), generator in the same process"
    yield Figure("speed_left", attacked / quiet, "ratio", None, how)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.hostile",
        description=bench.hostile.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add, says, plan = parser.add_argument, "(default: %(default)s)", Plan()
    add("--random", type=whole(0), default=plan.num_random, metavar="N", help=f"packets {says}")
    add("--crafted", type=whole(0), default=plan.num_crafted, metavar="N", help=f"packets {says}")
    add("--flood", type=whole(0), default=plan.num_flood, metavar="N", help=f"packets {says}")
    add("--ranks", type=whole(2), default=plan.num_ranks, metavar="N", help=says)
    add("--seed", type=int, default=plan.seed, help=says)
    add("--json", type=output_file, metavar="FILE", help="write the figures here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
