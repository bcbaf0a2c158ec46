# SPDX-License-Identifier: Apache-2.0
"""What `incmoe switch` writes of packets, traces and captures, and that packets go on without it:
full disks, closed pipes, pipes that nobody reads.
"""

import json
import os
import re
import resource
import signal
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest
from scapy.utils import rdpcap

from softswitch.interpreter.trace import TraceWriter
from softswitch.outlet import Outlet
from tests.softswitch.switch_process import COMMAND, end, send, statistics, wait_for

UDP_PORT = "udp:127.9.6.1:17726"
NUM_PACKETS = 10
# It drops what we send.
CALCULATOR = Path(__file__).parents[2] / "docs" / "examples" / "p4" / "calculator.json"


@pytest.fixture
def traced(up, tmp_path):
    """Starts a switch that traces: the process, and where its statistics go."""

    def start(trace, **options):
        stats = tmp_path / "stats.json"
        words = ["--engine", "interpreter", "--trace", str(trace), "-i", f"1@{UDP_PORT}"]
        words += ["--stats-file", str(stats), str(CALCULATOR)]
        return up(*words, **options)[0], stats

    return start


@pytest.fixture
def unread():
    """A pipe whose reader sleeps."""
    read_end, write_end = os.pipe()
    yield write_end
    os.close(write_end)
    os.close(read_end)


def lost(stats):
    return sum(stats["untraced"].values())


def settled(process, stats, num_packets=NUM_PACKETS):
    """The statistics once all packets have been through."""
    wait_for(lambda: statistics(process, stats)["ports"]["1"]["rx_packets"] == num_packets)
    return statistics(process, stats)


class TestTrace:
    def test_the_interpreter_writes_what_befalls_packets(self, traced, tmp_path):
        trace = tmp_path / "trace.json"
        process, _ = traced(trace)
        send(UDP_PORT, b"hello")
        wait_for(lambda: '"drop"' in trace.read_text() or '"sent"' in trace.read_text())
        assert end(process)[0] == 0
        events = [json.loads(line) for line in trace.read_text().splitlines()]
        assert (events[0]["event"], events[0]["name"]) == ("packet", "on port 1")

    def test_a_pipe_that_nobody_reads_loses_lines_and_no_packets(self, traced, unread):
        process, stats = traced("-", stdout=unread)
        num_packets = 0
        while not lost(found := settled(process, stats, num_packets)):
            send(UDP_PORT, *[bytes(8000)] * NUM_PACKETS)
            num_packets += NUM_PACKETS
            assert num_packets < 10_000
        assert list(found["untraced"]) == ["reader_too_slow"]
        time.sleep(0.3)  # the log is told by another thread
        began = time.monotonic()
        status, said = end(process)
        assert (status, time.monotonic() - began < 5) == (0, True)
        assert said.count("the trace to standard output is read too slowly: lines are lost") == 1
        [num_lost] = re.findall(r"the trace to standard output lost (\d+) lines", said)
        assert int(num_lost) > lost(found)

    def test_a_signal_ends_it_while_the_pipe_is_full(self, traced, unread):
        process, stats = traced("-", stdout=unread)
        send(UDP_PORT, *[bytes(8000)] * NUM_PACKETS)
        settled(process, stats)
        status, said = end(process, signal.SIGINT)
        assert status == 0
        assert "the trace to standard output lost " in said

    def test_so_does_one_while_the_log_goes_to_the_same_pipe(self, unread, tmp_path):
        ready = tmp_path / "ready"
        words = ["--engine", "interpreter", "--trace", "-", "-i", f"1@{UDP_PORT}", str(CALCULATOR)]
        words += ["--grpc-server-addr", "127.0.0.1:0", "--ready-file", str(ready)]
        process = subprocess.Popen([*COMMAND, *words], stdout=unread, stderr=unread)
        wait_for(ready.exists)
        send(UDP_PORT, *[bytes(8000)] * NUM_PACKETS)
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0

    @pytest.mark.parametrize(
        ("is_pipe", "reason"),
        [(False, "No space left on device"), (True, "Broken pipe")],
        ids=["full disk", "closed pipe"],
    )
    def test_what_cannot_be_written_is_said_once_and_packets_go_on(self, traced, is_pipe, reason):
        read_end, write_end = os.pipe()
        os.close(read_end)
        process, stats = traced("-" if is_pipe else "/dev/full", stdout=write_end)
        os.close(write_end)
        send(UDP_PORT, *[b"one"] * NUM_PACKETS)
        found = settled(process, stats)
        assert list(found["untraced"]) == ["write_failed"]
        assert lost(found) > 2 * NUM_PACKETS
        status, said = end(process)
        assert status == 0
        name = "standard output" if is_pipe else "/dev/full"
        assert said.count(f"cannot write the trace to {name}: {reason}; packets go on") == 1
        assert "Traceback" not in said

    def test_a_named_pipe_may_get_its_reader_later_or_never(self, traced, tmp_path):
        trace = tmp_path / "pipe"
        os.mkfifo(trace)
        process, stats = traced(trace)
        send(UDP_PORT, *[b"one"] * NUM_PACKETS)
        settled(process, stats)
        with trace.open() as reader:
            assert reader.readline().startswith("1: packet on port 1 ")
        send(UDP_PORT, *[b"two"] * NUM_PACKETS)
        settled(process, stats, 2 * NUM_PACKETS)
        assert end(process)[0] == 0

    def test_where_lines_are_lost_a_line_says_how_many(self, tmp_path):
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        with closing(Outlet(pipe, "trace", max_bytes=200_000)) as outlet:
            trace = TraceWriter(outlet, as_json=True)
            for number in range(10_000):
                trace("packet", str(number), {"bytes": 100})
            num_lost = outlet.lost["reader_too_slow"]
            assert 0 < num_lost < 10_000
            with pipe.open() as reader:
                seen = [json.loads(reader.readline()) for _ in range(10_000 - num_lost)]
                time.sleep(0.1)
                trace("drop", "ingress", {})
                last = [json.loads(reader.readline()) for _ in range(2)]
        assert [one["name"] for one in seen] == [str(number) for number in range(len(seen))]
        assert last == [
            {"packet": 10_000, "event": "lost", "name": "lines", "num": num_lost},
            {"packet": 10_000, "event": "drop", "name": "ingress"},
        ]


class TestCapture:
    def test_a_full_disk_ends_a_capture_and_is_said_once(self, up, tmp_path):
        stats = tmp_path / "stats.json"
        process, _ = up(
            *[
                "-i",
                f"1@{UDP_PORT}",
                "--pcap",
                str(tmp_path),
                "--stats-file",
                str(stats),
                "--no-p4",
            ],
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000)),
        )
        for _ in range(NUM_PACKETS):
            send(UDP_PORT, bytes(1000))
            time.sleep(0.01)
        found = settled(process, stats)
        whole = (5000 - 24) // (16 + 42 + 1000)
        assert found["ports"]["1"]["rx_not_captured"] == NUM_PACKETS - whole
        assert found["dropped"] == {"no_pipeline": NUM_PACKETS}
        status, said = end(process)
        assert status == 0
        path = tmp_path / "udp_127.9.6.1_17726_in.pcap"
        assert said.count(f"capture {path} ends: File too large; packets go on") == 1
        assert len(rdpcap(str(path))) == whole

    def test_one_that_cannot_begin_is_refused(self, tmp_path):
        path: Path = tmp_path / "udp_127.9.6.1_17726_in.pcap"
        path.symlink_to("/dev/full")
        words = ["--no-p4", "-i", f"1@{UDP_PORT}", "--pcap", str(tmp_path)]
        ended = subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=False)
        said = f"incmoe: cannot write {path}: No space left on device\n"
        assert (ended.returncode, ended.stderr) == (2, said)
