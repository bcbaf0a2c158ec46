# SPDX-License-Identifier: Apache-2.0
"""What benchmarks on shaped links are told: fields of their plans, and the options for them."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from incmoe.demo.errors import DemoError
from incmoe.demo.plan import EMBEDDED, SWITCHES
from incmoe.emulation.shaping import RATES, Rate
from incmoe.options import whole
from p4src import GEOMETRIES

PLAN_FILE: Final = "plan.json"


@dataclass(frozen=True, slots=True)
class LinksPlan:
    """Fields of every plan."""

    num_ranks: int = 4
    rate_bits_s: int = 100_000_000
    geometry: str = "mtu9000"
    switch: str = EMBEDDED
    band_rows: int = 8
    look_every_s: float = 0.004  # of the ranks' transports
    rounds: int = 5

    @property
    def rate_bytes_s(self) -> float:
        """Of a link, each way, with Ethernet headers."""
        return self.rate_bits_s / 8

    def write(self, folder: Path) -> None:
        """For the other processes of this run."""
        (folder / PLAN_FILE).write_text(json.dumps(asdict(self)))


def read_plan(folder: Path) -> dict[str, Any]:
    """The fields of the plan that was written."""
    values: dict[str, Any] = json.loads((folder / PLAN_FILE).read_text())
    return values


def add_options(parser: argparse.ArgumentParser, plan: LinksPlan) -> None:
    """Describe the options, whose defaults are those of `plan`."""
    add, says = parser.add_argument, "(default: %(default)s)"
    add("--ranks", type=whole(2), default=plan.num_ranks, metavar="N", help=f"ranks {says}")
    rate = f"{plan.rate_bits_s // 10**6}mbit"
    add("--rate", type=_rate, default=rate, help=f"of each link, each way {says}")
    add("--geometry", choices=GEOMETRIES, default=plan.geometry, help=f"build and MTU {says}")
    add("--switch", choices=SWITCHES, default=plan.switch, help=says)
    add("--band-rows", type=whole(1), default=plan.band_rows, help=f"tokens of a band {says}")
    look_ms = plan.look_every_s * 1e3
    add("--look-every", type=float, default=look_ms, metavar="MS", help=f"of transports {says}")
    add(
        "--rounds",
        type=whole(1),
        default=plan.rounds,
        help=f"of everything that is measured {says}",
    )


def given(arguments: argparse.Namespace) -> dict[str, Any]:
    """The fields that the options of `add_options` give."""
    return {
        "num_ranks": arguments.ranks,
        "rate_bits_s": arguments.rate,
        "geometry": arguments.geometry,
        "switch": arguments.switch,
        "band_rows": arguments.band_rows,
        "look_every_s": arguments.look_every / 1e3,
        "rounds": arguments.rounds,
    }


def _rate(text: str) -> int:
    try:
        rate = Rate.parse(text)
    except DemoError:
        raise argparse.ArgumentTypeError(f"{text}: must be {RATES}") from None
    if rate is None:
        raise argparse.ArgumentTypeError(f"{text}: links are the bottleneck here, and need a rate")
    return rate.bit_s
