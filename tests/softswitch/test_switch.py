# SPDX-License-Identifier: Apache-2.0
"""The switch put together: batches between real sockets, control between batches, a clean end."""

import socket
import struct
import threading
import time

import numpy as np
import pytest

from softswitch.dataplane import DataPlane
from softswitch.engine import Batch
from softswitch.errors import SwitchError
from softswitch.ports.faults import FaultSpec
from softswitch.ports.frames import Frames
from softswitch.ports.spec import PortSpec, WireOptions, open_lines
from softswitch.switch import Switch, SwitchConfig
from tests.softswitch.p4runtime.controller import JSON, P4INFO

ALWAYS_MISS = struct.pack(">BIHBI", 4, 0, 0, 0, 0xDEAD)


def memory(*numbers):
    return tuple(PortSpec(number, "memory") for number in numbers)


def key(which, a=0, b=0, c=0, result=0):
    return struct.pack(">BIHBI", which, a, b, c, result)


class Rig:
    """A data plane whose engine is a function of the test."""

    def __init__(self, process, targets, options=None, frames_per_batch=1000):
        specs = [PortSpec(number, target) for number, target in targets.items()]
        self.lines = open_lines(specs, options or WireOptions())
        self.plane = DataPlane(self.lines, frames_per_batch)
        self.plane.process = process
        self.ports = {line.port.number: line.port for line in self.lines}

    def __enter__(self):
        self.plane.start()
        return self

    def __exit__(self, *_):
        self.plane.stop()

    def settle(self, done, limit_s=5.0):
        end = time.monotonic() + limit_s
        while not done():
            assert time.monotonic() < end, "did not happen"
            time.sleep(0.002)


def to_port(port):
    return lambda batch: Batch(
        batch.data, batch.offset, batch.length, np.full(len(batch), port, dtype=np.int32)
    )


def swapped(batch):
    """From port 1 to port 2 and back, source and destination of all headers exchanged."""
    data = batch.data.copy()
    for at in batch.offset.tolist():
        for first, second, size in ((26, 30, 4), (34, 36, 2)):
            kept = data[at + first : at + first + size].copy()
            data[at + first : at + first + size] = data[at + second : at + second + size]
            data[at + second : at + second + size] = kept
    return Batch(data, batch.offset, batch.length, batch.port)


def udp_host(address):
    host = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    host.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    host.bind((address, 0))
    host.settimeout(3)
    return host


class TestDataPlane:
    def test_frames_go_from_port_to_port_in_order(self):
        frames = [b"%04d" % i for i in range(3000)]
        with Rig(to_port(2), {1: "memory", 2: "memory"}, frames_per_batch=100) as rig:
            for frame in frames:
                rig.ports[1].inject(frame)
            rig.settle(lambda: rig.ports[2].stats.tx_packets == len(frames))
            assert rig.ports[2].take_output() == frames

    def test_copies_are_scattered_by_port_and_keep_their_order(self):
        def copies(batch):
            order = np.repeat(np.arange(len(batch)), 3)
            port = np.tile(np.array([3, 1, 9], dtype=np.int32), len(batch))
            return Batch(batch.data, batch.offset[order], batch.length[order], port)

        with Rig(copies, {1: "memory", 3: "memory"}) as rig:
            frames = [b"a", b"bb", b"ccc"]
            for frame in frames:
                rig.ports[1].inject(frame)
            rig.settle(lambda: rig.plane.counts["no_such_port"] == 3)
            assert rig.ports[1].take_output() == frames
            assert rig.ports[3].take_output() == frames

    def test_an_echo_over_udp_comes_back_whole_from_the_same_address(self):
        with Rig(swapped, {1: "udp:127.9.5.1:0"}) as rig, udp_host("127.9.5.100") as host:
            sent = [bytes([i]) * size for i, size in enumerate([0, 1, 100, 1472, 9000] * 10)]
            for payload in sent:
                host.sendto(payload, rig.ports[1].address)
            received = [host.recvfrom(10000) for _ in sent]
        assert received == [(payload, rig.ports[1].address) for payload in sent]

    def test_a_run_over_udp_comes_back_whole(self):
        with Rig(swapped, {1: "udp:127.9.5.1:0"}) as rig, udp_host("127.9.5.100") as host:
            payload = bytes(range(256)) * 200
            host.sendmsg([payload], [(17, 103, struct.pack("=H", 1024))], 0, rig.ports[1].address)
            assert b"".join(host.recv(2000) for _ in range(50)) == payload

    def test_functions_run_between_batches_while_traffic_flows(self):
        running = []

        def slow(batch):
            running.append("in")
            time.sleep(0.001)
            running.append("out")
            return to_port(2)(batch)

        with Rig(slow, {1: "memory", 2: "memory"}, frames_per_batch=10) as rig:
            for i in range(2000):
                rig.ports[1].inject(b"%04d" % i)
            for _ in range(20):
                rig.plane.call(lambda: running.append("call"))
            rig.settle(lambda: rig.ports[2].stats.tx_packets == 2000)
        text = " ".join(running)
        assert "in call" not in text
        assert running.count("call") == 20
        assert len(running) < 2 * 2000 / 10 * 2 + 20

    def test_what_a_function_raises_reaches_its_caller(self):
        def fail():
            raise SwitchError("as told")

        with Rig(to_port(1), {1: "memory"}) as rig:
            with pytest.raises(SwitchError, match="as told"):
                rig.plane.call(fail)
            assert rig.plane.call(lambda: 7) == 7
        assert rig.plane.call(lambda: 8) == 8

    def test_an_engine_that_fails_ends_the_plane_and_is_remembered(self):
        def broken(batch):
            raise ZeroDivisionError("engine")

        with Rig(broken, {1: "memory"}) as rig:
            rig.ports[1].inject(b"x")
            rig.settle(lambda: rig.plane.failure is not None)
            assert isinstance(rig.plane.failure, ZeroDivisionError)
            assert rig.plane.call(lambda: "still answers") == "still answers"

    def test_faults_hold_frames_back_only_as_long_as_told(self):
        options = WireOptions(
            rx_faults=FaultSpec(delay_ms=30), tx_faults=FaultSpec(reorder=1.0, seed=1)
        )
        with Rig(to_port(2), {1: "memory", 2: "memory"}, options) as rig:
            began = time.monotonic()
            rig.ports[1].inject(b"late")
            rig.settle(lambda: rig.ports[2].stats.tx_packets == 1)
            assert 0.03 < time.monotonic() - began < 1.0
            assert rig.ports[2].take_output() == [b"late"]

    def test_a_port_without_room_gets_the_rest_when_it_has_some(self):
        class Stubborn:
            """Takes three frames per call; the rest waits."""

            def __init__(self, port):
                self.port, self.waiting = port, []

            def __getattr__(self, name):
                return getattr(self.port, name)

            @property
            def backlog(self):
                return sum(map(len, self.waiting))

            def send(self, frames):
                self.waiting += list(frames)

            def flush(self):
                taken, self.waiting = self.waiting[:3], self.waiting[3:]
                self.port.send(_frames(taken))

        with Rig(to_port(2), {1: "memory", 2: "memory"}) as rig:
            line = rig.plane.lines[2]
            line.port = Stubborn(line.port)
            frames = [b"%d" % i for i in range(20)]
            for frame in frames:
                rig.ports[1].inject(frame)
            rig.settle(lambda: rig.ports[2].stats.tx_packets == 20)
            assert rig.ports[2].take_output() == frames
            rig.settle(lambda: not rig.plane._wants_write)

    def test_an_idle_plane_sleeps(self):
        with Rig(to_port(1), {1: "memory", 2: "udp:127.9.5.1:0"}):
            time.sleep(0.05)
            before = time.process_time()
            time.sleep(0.3)
            assert time.process_time() - before < 0.05


def _frames(items):
    length = np.array([len(item) for item in items], dtype=np.int32)
    offset = np.cumsum(length) - length
    return Frames(np.frombuffer(b"".join(items), dtype=np.uint8), offset, length)


class TestSwitch:
    @pytest.mark.parametrize("engine", ["interpreter", "compiled"])
    def test_a_program_without_a_server_runs(self, engine):
        config = SwitchConfig(memory(1, 2), JSON, engine=engine, grpc_address=None)
        with Switch(config) as switch:
            switch.inject(2, key(4))
            assert switch.take_output() == {1: [ALWAYS_MISS]}
            stats = switch.stats()
        assert stats["ports"]["2"]["rx_packets"] == 1
        assert stats["counters"]["Receive.seen"] == {"4": {"packets": 1, "bytes": 12}}

    def test_a_switch_that_was_not_started_answers_all_the_same(self):
        switch = Switch(SwitchConfig(memory(1), JSON, P4INFO, grpc_address="127.0.0.1:0"))
        assert switch.stats()["ports"]["1"]["rx_packets"] == 0
        switch.stop()

    def test_output_is_not_waited_for_when_nothing_runs(self):
        switch = Switch(SwitchConfig(memory(1), JSON, grpc_address=None))
        switch.inject(1, key(4))
        with pytest.raises(SwitchError, match="the data plane is not running"):
            switch.take_output()
        switch.stop()

    def test_nothing_is_left_when_it_has_stopped(self):
        before = set(threading.enumerate())
        config = SwitchConfig(memory(1), JSON, P4INFO, grpc_address="127.0.0.1:0")
        with Switch(config) as switch:
            address = switch.grpc_address
        host, port = address.split(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), timeout=1)
        end = time.monotonic() + 2
        while set(threading.enumerate()) - before and time.monotonic() < end:
            time.sleep(0.01)
        assert set(threading.enumerate()) - before == set()

    def test_a_unix_socket_can_carry_the_server(self, tmp_path):
        address = f"unix:{tmp_path}/grpc"
        with Switch(SwitchConfig(memory(1), JSON, P4INFO, grpc_address=address)) as switch:
            assert switch.grpc_address == address
            assert (tmp_path / "grpc").exists()

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"engine": "none"}, "unknown engine 'none', known are compiled, interpreter"),
            ({"ports": memory(1, 1)}, "port number 1 is given 2 times"),
            ({"program": JSON.with_name("absent.json")}, "absent.json"),
            ({"program": P4INFO}, "is not JSON"),
            ({"p4info": JSON}, "is not P4Info text"),
            ({"grpc_address": "198.51.100.7:9559"}, "P4Runtime cannot listen on 198.51.100.7:9559"),
        ],
    )
    def test_what_cannot_work_is_said_and_nothing_stays_open(self, change, message):
        settings = {
            "ports": (PortSpec(1, "udp:127.9.5.2:17712"),),
            "program": JSON,
            "p4info": P4INFO,
            "grpc_address": "127.0.0.1:0",
        }
        before = threading.active_count()
        with pytest.raises(SwitchError, match=message):
            Switch(SwitchConfig(**{**settings, **change}))
        assert threading.active_count() == before
        with udp_host("127.9.5.100"), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
            again.bind(("127.9.5.2", 17712))

    def test_an_address_in_use_is_refused(self):
        first = Switch(SwitchConfig(grpc_address="127.0.0.1:0"))
        with pytest.raises(SwitchError, match="P4Runtime cannot listen on"):
            Switch(SwitchConfig(grpc_address=first.grpc_address))
        first.stop()
