# SPDX-License-Identifier: Apache-2.0
"""Runs an STF test on simple_switch: frames through FIFOs that hold pcap, commands by its CLI.

It needs simple_switch and simple_switch_CLI on PATH, and no root. As in p4c's own runner, what the
CLI refuses is no failure of the test; its frames are.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from softswitch import ir
from softswitch.stf import differences
from softswitch.stf.names import call_of, find_table, matches_of
from softswitch.stf.session import Expected
from softswitch.stf.statements import (
    Add,
    Command,
    Expect,
    Line,
    Packet,
    SetDefault,
    Statement,
)
from tests.ports import free_tcp_port
from tests.softswitch.bmv2_files import FILE_HEADER, frame_record, read_pcap

TOP_PRIORITY = 10_000  # BMv2's lowest number wins, STF's highest
_UP_S = 30.0
_OUTPUT_S = 3.0  # how long to wait for frames that are expected
_LAST_S = 0.3  # how long for those that are not
_QUIET_S = 0.2


def is_there() -> bool:
    return all(map(shutil.which, ("simple_switch", "simple_switch_CLI")))


@dataclass
class Bmv2:
    """A running simple_switch."""

    folder: Path
    ports: Sequence[int]
    thrift_port: int
    inputs: dict[int, int]  # file descriptors
    num_sent: int = 0
    waiting: list[str] = field(default_factory=list)  # commands

    def command(self, text: str) -> None:
        self.waiting.append(text)

    def send(self, port: int, frame: bytes) -> None:
        self.run_commands()
        os.write(self.inputs[port], frame_record(self.num_sent, frame))
        self.num_sent += 1

    def run_commands(self) -> None:
        """Hands the commands on and waits until they have been carried out."""
        if self.waiting:
            time.sleep(_QUIET_S if self.num_sent else 0)  # for the frames before them
            done = subprocess.run(
                ["simple_switch_CLI", "--thrift-port", str(self.thrift_port)],
                input="\n".join(self.waiting) + "\n",
                text=True,
                capture_output=True,
                timeout=_UP_S,
                check=False,
            )
            if done.returncode:
                lines = done.stderr.splitlines() or ["without a word"]
                raise RuntimeError(f"simple_switch_CLI fails: {lines[-1]}")
            self.waiting.clear()

    def close_inputs(self) -> None:
        for fd in self.inputs.values():
            os.close(fd)
        self.inputs.clear()

    def received(self) -> dict[int, list[bytes]]:
        return {port: list(read_pcap(self.folder / f"{port}_out.pcap")) for port in self.ports}


def run(json: Path, program: ir.Program, test: Sequence[Line]) -> tuple[str, ...]:
    """What is wrong; nothing if the test passes."""
    expected: Expected = {}
    for line in test:
        if isinstance(line.statement, Expect):
            pair = line.number, line.statement
            expected.setdefault(line.statement.port, []).append(pair)
    with tempfile.TemporaryDirectory() as folder:
        try:
            received = sent(json, program, test, Path(folder))
        except RuntimeError as error:
            return (str(error),)
    return tuple(differences(expected, received, received))


def sent(
    json: Path, program: ir.Program, test: Sequence[Line], folder: Path
) -> dict[int, list[bytes]]:
    """What leaves by each port that the test names; RuntimeError if it does not run."""
    statements = [line.statement for line in test]
    ports = sorted({s.port for s in statements if isinstance(s, Packet | Expect)})
    senders = {s.port for s in statements if isinstance(s, Packet)}
    with _running(json, folder, ports, senders) as bmv2:
        for statement in statements:
            _do(bmv2, program, statement)
        bmv2.run_commands()
        bmv2.close_inputs()
        return _wait(bmv2, sum(isinstance(s, Expect) for s in statements))


def _do(bmv2: Bmv2, program: ir.Program, statement: Statement) -> None:
    match statement:
        case Packet(port, data):
            bmv2.send(port, data)
        case Command(name, words):
            bmv2.command(" ".join([name, *words]))
        case Add() as add:
            bmv2.command(_table_add(program, add))
        case SetDefault(name, call):
            table = find_table(program, name)
            action = call_of(program, table, call)
            words = ["table_set_default", table.name, action.action, *map(hex, action.arguments)]
            bmv2.command(" ".join(words))


def _table_add(program: ir.Program, add: Add) -> str:
    table = find_table(program, add.table)
    action = call_of(program, table, add.call)
    keys = map(_key, matches_of(table, add.keys))
    words = ["table_add", table.name, action.action, *keys, "=>", *map(hex, action.arguments)]
    if table.has_priorities:
        words.append(str(TOP_PRIORITY - (add.priority or 0)))
    return " ".join(words)


def _key(match: ir.Match) -> str:
    match match:
        case ir.Exact(value):
            return hex(value)
        case ir.Lpm(value, prefix):
            return f"{value:#x}/{prefix}"
        case ir.Ternary(value, mask):
            return f"{value:#x}&&&{mask:#x}"
        case ir.Range(low, high):
            return f"{low:#x}->{high:#x}"


def _wait(bmv2: Bmv2, num_expected: int) -> dict[int, list[bytes]]:
    deadline = time.monotonic() + _OUTPUT_S
    while time.monotonic() < deadline:
        if sum(map(len, bmv2.received().values())) >= num_expected:
            break
        time.sleep(0.05)
    time.sleep(_LAST_S)
    return bmv2.received()


@contextmanager
def _running(
    json: Path, folder: Path, ports: Sequence[int], senders: Collection[int]
) -> Iterator[Bmv2]:
    """simple_switch takes frames in the order of their times, so it waits for one of each sender;
    ports that send nothing have an empty file.
    """
    thrift_port = free_tcp_port()
    command = ["simple_switch", "--use-files", "0", "--log-level", "off"]
    command += ["--thrift-port", str(thrift_port), "--device-id", str(thrift_port)]
    command += ["--notifications-addr", f"ipc://{folder}/notifications"]
    for port in ports:
        if port in senders:
            os.mkfifo(folder / f"{port}_in.pcap")
        else:
            (folder / f"{port}_in.pcap").write_bytes(FILE_HEADER)
        command += ["-i", f"{port}@{folder / str(port)}"]
    with ExitStack() as opened:
        inputs = {port: os.open(folder / f"{port}_in.pcap", os.O_RDWR) for port in senders}
        bmv2 = Bmv2(folder, ports, thrift_port, inputs)
        opened.callback(bmv2.close_inputs)
        for fd in inputs.values():
            os.write(fd, FILE_HEADER)
        process = subprocess.Popen(
            [*command, str(json.resolve())],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        opened.callback(process.wait)
        opened.callback(process.terminate)
        _wait_until_up(process, thrift_port)
        yield bmv2
        if process.poll() is not None:
            raise RuntimeError(f"simple_switch ended with {process.returncode}")


def _wait_until_up(process: subprocess.Popen[bytes], thrift_port: int) -> None:
    deadline = time.monotonic() + _UP_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"simple_switch refuses the program ({process.returncode})")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", thrift_port)) == 0:
                return
        time.sleep(0.02)
    raise RuntimeError(f"simple_switch is not up after {_UP_S:g} s")
