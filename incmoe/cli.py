# SPDX-License-Identifier: Apache-2.0
"""The command `incmoe`: finds the subcommand, runs it, and turns a user's error into one line."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Final

# Subcommand -> module whose add_parser(subparsers) describes it. Imported only when asked for:
# a rank's machine need not have the control plane's packages.
SUBCOMMANDS: Final = {
    "switch": ("softswitch.cli", "run the embedded P4 switch"),
    "controller": ("controller.cli", "install, show and remove jobs; serve the rendezvous"),
    "demo": ("incmoe.demo.cli", "four ranks, one switch, one model: the main job, checked"),
    "vllm-demo": ("incmoe.vllm_demo.cli", "vLLM with its experts on all ranks, through the switch"),
    "mininet": ("incmoe.emulation.cli", "the demo's job on shaped links in Mininet"),
}
_ALL = "agent,control,switch"
EXTRAS: Final = {
    "switch": "switch",
    "controller": "control",
    "demo": _ALL,
    "vllm-demo": _ALL,
    "mininet": f"{_ALL},mininet",
}
USER_ERROR: Final = 2


def build_parser(names: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser with the subcommands `names` in full and the others by their name only."""
    parser = argparse.ArgumentParser(prog="incmoe", description=__doc__)
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, summary) in SUBCOMMANDS.items():
        if name in names:
            importlib.import_module(module).add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=summary, add_help=False)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run `incmoe ARGV` and return its exit status: 0, 1 (the job failed) or 2 (a user's error)."""
    words = list(sys.argv[1:] if argv is None else argv)
    name = next((word for word in words if word in SUBCOMMANDS), "")
    try:
        args = build_parser([name]).parse_args(words)
        return int(args.run(args))
    except ModuleNotFoundError as missing:
        extra = EXTRAS.get(name, "dev")
        print(f"incmoe: {missing}; pip install 'incmoe[{extra}]'", file=sys.stderr)
    except (ValueError, OSError, RuntimeError) as error:
        print(f"incmoe: {error}", file=sys.stderr)
    return USER_ERROR


if __name__ == "__main__":
    sys.exit(main())
