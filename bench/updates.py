# SPDX-License-Identifier: Apache-2.0
"""Table entries come, change and go while packets flow: `python -m bench.updates [--json FILE]`.

A router of docs/examples/p4 forwards packets to as many addresses as there will be routes, as fast
as it can: a window of packets is always on its way, so every lost one is noticed. Meanwhile another
process inserts a route for each address beneath the default route, changes them all to another port
and next hop, and deletes them. Every packet must come out once, by the port and with the next hop
of one and the same route that its address had at some time. Needs root (a namespace, veth).
"""

from __future__ import annotations

import argparse
import multiprocessing
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2 as p4

from bench.fuzz.control import ANSWER_S, Controller
from bench.fuzz.requests import DEVICE, ELECTION
from bench.fuzz.target import FuzzError, Target, started
from bench.report import failed, table, verdict
from incmoe.demo.errors import DemoError
from incmoe.figures import Figure, write_figures
from incmoe.options import output_file, whole

ROUTER = Path(__file__).parents[1] / "docs" / "examples" / "p4" / "router"
ROUTER_MAC = bytes.fromhex("02fe00000000")
DEFAULT = 0  # the version of the default route's next hop; routes have versions 1 and 2
PORT_OF_VERSION = {DEFAULT: 2, 1: 2, 2: 1}
FIRST_ADDRESS = 0x0A000000
WINDOW = 1024  # packets on their way at most
AT_ONCE = 64
LOST_S = 5.0  # what has not come by then is lost
NUMBER_BYTES = 4  # at a packet's end: none is taken for another


@dataclass(frozen=True, slots=True)
class Plan:
    num_entries: int = 10_000
    per_request: int = 16
    quiet_s: float = 3.0


@dataclass(slots=True)
class Phase:
    """What the packets of one phase saw."""

    name: str
    sent: int = 0
    lost: int = 0
    twice: int = 0
    half_made: int = 0
    longest_gap_s: float = 0.0
    seconds: float = 0.0
    by_version: tuple[int, int, int] = (0, 0, 0)

    @property
    def packets_per_s(self) -> float:
        return self.sent / self.seconds


def next_hop(version: int, index: int) -> bytes:
    return struct.pack(">BBI", 2, version, index)


class Routes:
    """Writes for the router's table, as its P4Info has it."""

    def __init__(self) -> None:
        text = ROUTER.with_suffix(".p4info.txtpb").read_text()
        self.info = text_format.Parse(text, p4info_pb2.P4Info())
        [self._table] = [one.preamble.id for one in self.info.tables]
        [self._forward] = [
            one.preamble.id for one in self.info.actions if one.preamble.alias == "forward"
        ]

    def entity(self, version: int, index: int) -> p4.Entity:
        """A host route, or the default one."""
        entity = p4.Entity()
        entity.table_entry.table_id = self._table
        if version == DEFAULT:
            entity.table_entry.is_default_action = True
        else:
            match = entity.table_entry.match.add(field_id=1)
            match.lpm.value, match.lpm.prefix_len = struct.pack(">I", FIRST_ADDRESS + index), 32
        call = entity.table_entry.action.action
        call.action_id = self._forward
        call.params.add(param_id=1, value=next_hop(version, index).lstrip(b"\0"))
        call.params.add(param_id=2, value=bytes([PORT_OF_VERSION[version]]))
        return entity

    def write(self, controller: Controller, kind: int, entities: list[p4.Entity]) -> None:
        request = p4.WriteRequest(device_id=DEVICE, election_id=ELECTION)
        for entity in entities:
            request.updates.add(type=kind, entity=entity)
        controller.stub.Write(request, timeout=ANSWER_S)


PHASES = {
    "insert": (p4.Update.INSERT, 1),
    "modify": (p4.Update.MODIFY, 2),
    "delete": (p4.Update.DELETE, 2),
}


def write_all(address: str, plan: Plan, go: dict[str, Event], done: dict[str, Event]) -> None:
    """The controller's process: phase after phase, each when it may."""
    controller, routes = Controller(address), Routes()
    controller.load(routes.info, ROUTER.with_suffix(".json").read_bytes())
    routes.write(controller, p4.Update.MODIFY, [routes.entity(DEFAULT, 0)])
    done["load"].set()
    for name, (kind, version) in PHASES.items():
        entities = [routes.entity(version, index) for index in range(plan.num_entries)]
        go[name].wait()
        for first in range(0, plan.num_entries, plan.per_request):
            routes.write(controller, kind, entities[first : first + plan.per_request])
        done[name].set()
    controller.close()


class Traffic:
    """Packets to every address in turn, and what came of them."""

    def __init__(self, target: Target, num_addresses: int) -> None:
        self._wires = target.wires
        for wire in self._wires:
            wire.setblocking(False)
        self._frames = [_frame(index) for index in range(num_addresses)]
        self._rests = [_forwarded(frame) for frame in self._frames]
        self._next = 0
        self._num_sent = 0
        self._in_flight: set[int] = set()  # numbers of packets
        self._last_s = 0.0
        self._counts = [0, 0, 0]

    def phase(self, name: str, is_over: Callable[[], bool]) -> Phase:
        found, begun_s = Phase(name), time.monotonic()
        self._last_s, self._counts = begun_s, [0, 0, 0]
        while not is_over() or self._in_flight:
            if not is_over():
                found.sent += self._send()
            self._receive(found)
        found.seconds = time.monotonic() - begun_s
        found.by_version = (self._counts[0], self._counts[1], self._counts[2])
        return found

    def _send(self) -> int:
        num = min(AT_ONCE, WINDOW - len(self._in_flight))
        for _ in range(num):
            self._num_sent += 1
            number = self._num_sent.to_bytes(NUMBER_BYTES, "big")
            self._wires[0].send(self._frames[self._next] + number)
            self._in_flight.add(self._num_sent)
            self._next = (self._next + 1) % len(self._frames)
        return num

    def _receive(self, found: Phase) -> None:
        num = 0
        for port, wire in enumerate(self._wires, start=1):
            for frame in _waiting(wire):
                number = int.from_bytes(frame[-NUMBER_BYTES:], "big")
                if number in self._in_flight:
                    self._in_flight.remove(number)
                    num += 1
                else:
                    found.twice += 1
                found.half_made += not self._is_whole(port, frame[:-NUMBER_BYTES])
        now_s = time.monotonic()
        if num:
            found.longest_gap_s = max(found.longest_gap_s, now_s - self._last_s)
            self._last_s = now_s
        elif self._in_flight and now_s - self._last_s > LOST_S:
            found.lost += len(self._in_flight)
            self._in_flight.clear()
            self._last_s = now_s
        elif not self._in_flight:
            self._last_s = now_s

    def _is_whole(self, port: int, frame: bytes) -> bool:
        """Whether it left as one route has it, its address's own or the default one."""
        version, index = frame[1], int.from_bytes(frame[30:34], "big") - FIRST_ADDRESS
        if PORT_OF_VERSION.get(version) != port or not 0 <= index < len(self._rests):
            return False
        self._counts[version] += 1
        hop = next_hop(version, index if version != DEFAULT else 0)
        return frame == hop + self._rests[index]


def _waiting(wire: socket.socket) -> Iterator[bytes]:
    for _ in range(2 * AT_ONCE):
        try:
            yield wire.recv(2048)
        except BlockingIOError:
            return


def _checksum(header: bytes) -> int:
    total: int = sum(struct.unpack(">10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF


def _ipv4(index: int, ttl: int) -> bytes:
    address = struct.pack(">II", 0x0A7F0001, FIRST_ADDRESS + index)
    head = struct.pack(">BBHHHBBH", 0x45, 0, 60, 0, 0, ttl, 17, 0) + address
    return head[:10] + struct.pack(">H", _checksum(head)) + head[12:]


def _frame(index: int) -> bytes:
    payload = np.random.default_rng(index).bytes(40 - NUMBER_BYTES)
    return ROUTER_MAC + bytes(6) + b"\x08\x00" + _ipv4(index, 64) + payload


def _forwarded(frame: bytes) -> bytes:
    """What the router makes of a frame, without the next hop's address."""
    index = int.from_bytes(frame[30:34], "big") - FIRST_ADDRESS
    return ROUTER_MAC + b"\x08\x00" + _ipv4(index, 63) + frame[34:]


def run(plan: Plan) -> list[Phase]:
    """The quiet phase, then the others."""
    spawn = multiprocessing.get_context("spawn")
    go = {name: spawn.Event() for name in PHASES}
    done = {name: spawn.Event() for name in ("load", *PHASES)}
    with tempfile.TemporaryDirectory() as folder, started(Path(folder)) as target:
        writer = spawn.Process(target=write_all, args=(target.address, plan, go, done))
        writer.start()
        try:
            if not done["load"].wait(ANSWER_S):
                raise FuzzError("the router was not loaded in time")
            traffic = Traffic(target, plan.num_entries)
            end_s = time.monotonic() + plan.quiet_s
            phases = [traffic.phase("quiet", lambda: time.monotonic() > end_s)]
            for name in PHASES:
                go[name].set()
                phases.append(traffic.phase(name, _over(done[name], writer.is_alive)))
        finally:
            writer.kill()
            writer.join()
    return phases


def _over(done: Event, is_alive: Callable[[], bool]) -> Callable[[], bool]:
    def is_over() -> bool:
        if done.is_set():
            return True
        if not is_alive():
            raise FuzzError("the controller's process failed")
        return False

    return is_over


def figures(plan: Plan, phases: list[Phase]) -> Iterator[Figure]:
    quiet, *others = phases
    how = f"of {sum(one.sent for one in phases)} packets, {WINDOW} on their way at a time"
    yield Figure("lost", sum(one.lost for one in phases), "packets", 0, how)
    how = "packets that came a second time, or after they were given up"
    yield Figure("twice", sum(one.twice for one in phases), "packets", 0, how)
    how = "packets that did not leave by port and next hop of one route"
    yield Figure("half_made", sum(one.half_made for one in phases), "packets", 0, how)
    yield Figure("quiet_packets_per_s", quiet.packets_per_s, "1/s", None, "no updates")
    yield Figure("quiet_longest_gap_s", quiet.longest_gap_s, "s", None, "between packets")
    for one in others:
        how = f"{plan.num_entries} routes, {plan.per_request} in a request"
        yield Figure(f"{one.name}_updates_per_s", plan.num_entries / one.seconds, "1/s", None, how)
        how = f"left by the default route, first and second routes: {one.by_version}"
        yield Figure(f"{one.name}_packets_per_s", one.packets_per_s, "1/s", None, how)
        yield Figure(f"{one.name}_longest_gap_s", one.longest_gap_s, "s", None, "between packets")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    plan = Plan()
    parser.add_argument("--entries", type=whole(1), default=plan.num_entries, metavar="N")
    parser.add_argument("--per-request", type=whole(1), default=plan.per_request, metavar="N")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="write the figures here")
    arguments = parser.parse_args()
    plan = Plan(arguments.entries, arguments.per_request)
    try:
        found = list(figures(plan, run(plan)))
    except (FuzzError, DemoError) as error:
        return failed("bench.updates", error)
    print(table("a router under updates, veth", found))
    if arguments.json:
        write_figures(arguments.json, found, plan=asdict(plan))
    return verdict("bench.updates", found)


if __name__ == "__main__":
    sys.exit(main())
