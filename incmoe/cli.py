# SPDX-License-Identifier: Apache-2.0
"""The command `incmoe`: finds the subcommand, runs it, and turns a user's error into one line.

Nothing slow is imported before `main` looks after Ctrl-C.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing itself takes milliseconds
if TYPE_CHECKING:
    import argparse
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
INTERRUPTED: Final = 130  # as a shell says of what SIGINT has ended


def build_parser(names: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser with the subcommands `names` in full and the others by their name only."""
    import argparse
    import importlib

    parser = argparse.ArgumentParser(prog="incmoe", description=__doc__)
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, summary) in SUBCOMMANDS.items():
        if name in names:
            importlib.import_module(module).add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=summary, add_help=False)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run `incmoe ARGV` and return its exit status: 0, 1 (the job failed), 2 (a user's error) or
    130 (Ctrl-C before the subcommand looks after it).
    """
    try:
        return _main(argv)
    except KeyboardInterrupt:
        return INTERRUPTED


def _main(argv: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    name = next((word for word in words if word in SUBCOMMANDS), "")
    try:
        args = _parser_of(name).parse_args(words)
        return int(args.run(args))
    except ModuleNotFoundError as missing:
        extra = EXTRAS.get(name, "dev")
        print(f"incmoe: {missing}; pip install 'incmoe[{extra}]'", file=sys.stderr)
    except (ValueError, OSError, RuntimeError) as error:
        print(f"incmoe: {error}", file=sys.stderr)
    return USER_ERROR


def _parser_of(name: str) -> argparse.ArgumentParser:
    """Ctrl-C waits until it is there: modules half imported make other errors of it."""
    import signal

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return build_parser([name])
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


if __name__ == "__main__":
    sys.exit(main())
