# SPDX-License-Identifier: Apache-2.0
"""The command `incmoe switch`: options like BMv2's, signals, and files for the parent process."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ops import logs, tls
from ops.metrics import OPTION_HELP, MetricsError, served
from softswitch import report_files
from softswitch.errors import SwitchError

if TYPE_CHECKING:
    from softswitch.interpreter.trace import TraceWriter
    from softswitch.ports.faults import FaultSpec
    from softswitch.switch import Switch, SwitchConfig

DEFAULT_ADDRESS = "127.0.0.1:9559"
MAX_DEVICE_ID = 2**64 - 1  # P4Runtime's device_id is a uint64
STF = Path("stf")  # in place of a program
USER_ERROR = 2
FAILED = 1
_ENDING = {signal.SIGINT, signal.SIGTERM}
_CHECK_S = 0.5  # how often a data plane that died is looked for
log = logging.getLogger("softswitch")


def add_parser(subparsers: Any) -> None:
    """Describes the subcommand."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "switch",
        help="run the embedded P4 switch",
        description="Runs a P4 program (v1model, as BMv2 JSON) and serves P4Runtime, or runs a"
        " packet test: incmoe switch stf PROGRAM.json P4INFO TEST.stf.",
    )
    _add_program(parser)
    _add_ports(parser)
    _add_control(parser)
    _add_watching(parser)
    parser.set_defaults(run=run)


def _add_program(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "json",
        nargs="?",
        type=Path,
        help="the compiled program, BMv2 JSON; or the word stf, to run a packet test instead",
    )
    parser.add_argument(
        "files",
        nargs="*",
        type=Path,
        metavar="PROGRAM.json P4INFO TEST.stf",
        help="after stf: the program, its P4Info (- for none) and the test",
    )
    parser.add_argument("--p4info", type=Path, metavar="FILE", help="its P4Info, text format")
    parser.add_argument(
        "--no-p4", action="store_true", help="no program yet: a controller will bring one"
    )
    parser.add_argument(
        "--engine",
        choices=["compiled", "interpreter", "both"],
        default="compiled",
        help="how the program runs; both is for stf only (default: %(default)s)",
    )


def _add_ports(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-i",
        "--interface",
        "--port",
        dest="ports",
        action="append",
        default=[],
        metavar="NUMBER@WHERE",
        help="a port: 1@veth1 for an interface, 1@udp:127.9.9.1:17710 for a UDP socket; repeat",
    )
    parser.add_argument(
        "--cpu-port",
        metavar="NUMBER",
        help="the port that packets of P4Runtime's stream come and leave by (default: none)",
    )
    parser.add_argument("--pcap", type=Path, metavar="DIR", help="capture every port to pcap files")
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="SPEC",
        help="spoil the wires: drop=0.05,duplicate=0.01,corrupt=0.01,reorder=0.01,delay_ms=5,seed=7"
        ",match=43:02 (frames with these bytes at this offset); rx: or tx: before it for one "
        "direction; repeat",
    )
    parser.add_argument(
        "--fault-on",
        choices=["rx", "tx", "both"],
        default="rx",
        help="for those that name no direction, seen from the switch (default: %(default)s)",
    )


def _add_control(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--grpc-server-addr",
        default=DEFAULT_ADDRESS,
        metavar="ADDRESS",
        help="where P4Runtime is served; port 0 takes a free one (default: %(default)s)",
    )
    parser.add_argument(
        "--device-id", default="0", metavar="N", help="P4Runtime's, 64 bit (default: %(default)s)"
    )
    tls.add_options(parser)
    parser.add_argument(
        "--roles", type=Path, metavar="FILE", help="what P4Runtime's roles may do, JSON"
    )


def _add_watching(parser: argparse.ArgumentParser) -> None:
    logs.add_options(parser)
    parser.add_argument(
        "--trace",
        type=Path,
        metavar="FILE",
        help="what befalls each packet, with --engine interpreter: text, JSON lines if the name"
        " ends in .json, - for the standard output",
    )
    parser.add_argument("--metrics", metavar="ADDRESS", help=OPTION_HELP)
    parser.add_argument(
        "--stats-file",
        type=Path,
        metavar="FILE",
        help="what was counted, on SIGUSR1 and at the end",
    )
    parser.add_argument("--ready-file", type=Path, metavar="FILE", help="written once all is up")
    parser.add_argument("--ready-fd", type=int, metavar="FD", help="likewise, and then closed")


def run(args: argparse.Namespace) -> int:
    """Runs the switch until a signal ends it: 0 then, 1 if the data plane failed; or a test."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # an error is said once, by us
    try:
        if args.json == STF:
            from softswitch.stf.cli import run_test

            return run_test(args.files, args.engine)
        with _logging_to(args), _own_signals():
            return _run(args)
    except (SwitchError, MetricsError, tls.TlsError) as error:
        sys.stderr.write(f"incmoe: {error}\n")
        return USER_ERROR


def _run(args: argparse.Namespace) -> int:
    from softswitch.switch import Switch, check_can_trace

    report_files.check("--stats-file", args.stats_file)
    report_files.check("--ready-file", args.ready_file)
    if args.trace is not None:
        check_can_trace(args.engine)  # before there is a file
    with (
        _trace(args.trace) as trace,
        Switch(replace(_config(args), trace=trace)) as switch,
        _metrics(switch, args.metrics) as metrics,
        _announced(switch, args, metrics),
    ):
        status = _serve(switch, args.stats_file)
        _write_stats(switch, args.stats_file)
    return status


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keeps the signals for `_serve`; threads that start meanwhile never get them.

    After a switch that ran they stay blocked: its process ends, and one more would spoil that.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_ENDING, signal.SIGUSR1})
    try:
        yield
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise


@contextmanager
def _logging_to(args: argparse.Namespace) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            stack.enter_context(
                logs.logged([log.name], args.log_level, args.log_format, args.log_file)
            )
        except OSError as error:
            raise SwitchError(f"cannot write {args.log_file}: {error.strerror}") from error
        yield


def _config(args: argparse.Namespace) -> SwitchConfig:
    from softswitch.p4runtime.roles import Roles
    from softswitch.ports.spec import PortSpec, WireOptions
    from softswitch.switch import SwitchConfig

    if args.files or args.engine == "both":
        what = f"the file {args.files[0]}" if args.files else "--engine both"
        raise SwitchError(f"{what} is for packet tests: incmoe switch stf ...")
    if args.json is None and not args.no_p4:
        raise SwitchError("no program: give a BMv2 JSON file, or --no-p4 to wait for a controller")
    if args.no_p4 and (args.json or args.p4info):
        raise SwitchError("--no-p4 excludes a program and --p4info")
    cpu_port = [] if args.cpu_port is None else [f"{args.cpu_port}@cpu"]
    return SwitchConfig(
        ports=tuple(PortSpec.parse(text) for text in [*args.ports, *cpu_port]),
        program=args.json,
        p4info=args.p4info,
        grpc_address=args.grpc_server_addr,
        device_id=_device_id(args.device_id),
        engine=args.engine,
        wires=WireOptions(
            pcap_dir=args.pcap,
            rx_faults=_faults(args, "rx"),
            tx_faults=_faults(args, "tx"),
        ),
        tls=tls.of_options(args),
        roles=Roles.load(args.roles) if args.roles else Roles(),
    )


def _device_id(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > MAX_DEVICE_ID:
        raise SwitchError(f"--device-id {text} is not a number in 0..{MAX_DEVICE_ID}")
    return int(text)


@contextmanager
def _metrics(switch: Switch, address: str | None) -> Iterator[str | None]:
    """Serves metrics if asked to; yields where."""
    from softswitch.metrics import collect

    if address is None:
        yield None
        return
    with served(address, lambda: collect(switch.stats())) as where:
        yield where


@contextmanager
def _trace(path: Path | None) -> Iterator[TraceWriter | None]:
    from softswitch.interpreter.trace import TraceWriter
    from softswitch.outlet import Outlet

    if path is None:
        yield None
        return
    with closing(Outlet(path, "trace")) as outlet:
        yield TraceWriter(outlet, as_json=path.suffix == ".json")


def _faults(args: argparse.Namespace, direction: str) -> list[FaultSpec]:
    """The faults of one direction: those that name it, and those that name none, by --fault-on."""
    from softswitch.ports.faults import FaultSpec

    specs = []
    for text in args.fault:
        named, colon, rest = text.partition(":")
        has_name = bool(colon) and named in ("rx", "tx")
        spec = FaultSpec.parse(rest if has_name else text)
        if direction == named if has_name else args.fault_on in (direction, "both"):
            specs.append(spec)
    return specs


@contextmanager
def _announced(switch: Switch, args: argparse.Namespace, metrics: str | None) -> Iterator[None]:
    """Tells the log and the parent that the switch is up, and where, while it is."""
    where: dict[str, object] = {
        "grpc": switch.grpc_address,
        "pid": os.getpid(),
        "ports": switch.port_names(),
    }
    if metrics:
        where["metrics"] = metrics
    text = json.dumps(where) + "\n"
    log.info("up: %s", text.rstrip())
    with report_files.present(args.ready_file, text):
        if args.ready_fd is not None:
            _tell(args.ready_fd, text)
        yield


def _tell(fd: int, text: str) -> None:
    try:
        with os.fdopen(fd, "w") as parent:
            parent.write(text)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SwitchError(f"--ready-fd {fd}: {reason}") from error


def _serve(switch: Switch, stats_file: Path | None) -> int:
    """Sleeps between signals."""
    while switch.failure is None:
        received = signal.sigtimedwait({*_ENDING, signal.SIGUSR1}, _CHECK_S)
        if received is None:
            continue
        if received.si_signo in _ENDING:
            return 0
        try:
            _write_stats(switch, stats_file)
        except SwitchError as error:
            log.error("%s", error)  # packets go on
    sys.stderr.write(f"incmoe: the data plane failed: {switch.failure!r}\n")
    return FAILED


def _write_stats(switch: Switch, path: Path | None) -> None:
    if path:
        report_files.write(path, json.dumps(switch.stats(), indent=1) + "\n")
