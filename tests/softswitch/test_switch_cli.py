# SPDX-License-Identifier: Apache-2.0
"""The command `incmoe switch` as a process: up, in use, asked for statistics, ended, refused."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest
from p4runtime_sh.p4runtime import P4RuntimeClient
from scapy.utils import rdpcap

from incmoe.cli import main
from tests import namespaces
from tests.softswitch.p4runtime.controller import JSON, P4INFO
from tests.softswitch.switch_process import COMMAND, end, wait_for

UDP_PORT = "udp:127.9.6.1:17716"


@pytest.fixture
def run(capfd):
    """Runs a command that does not come up: its status and what it said."""

    def run(*words):
        status = main(["switch", *words])
        lines = capfd.readouterr().err.splitlines(keepends=True)
        # gRPC was loaded by an earlier test, too early for the command to silence it.
        return status, "".join(line for line in lines if not re.match(r"E\d{4} ", line))

    return run


class TestLife:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    @pytest.mark.parametrize("engine", ["compiled", "interpreter"])
    def test_it_comes_up_and_ends_on_a_signal(self, up, number, engine):
        words = ["-i", f"1@{UDP_PORT}", "--engine", engine, "--p4info", str(P4INFO), str(JSON)]
        process, where = up(*words)
        assert where["pid"] == process.pid
        assert where["ports"] == {"1": UDP_PORT}
        client = P4RuntimeClient(0, where["grpc"], (0, 1))
        assert len(client.get_p4info().tables) == 5
        client.tear_down()
        status, said = end(process, number)
        assert status == 0
        assert "up: " in said
        assert "Traceback" not in said

    @pytest.mark.parametrize("delay_ms", [1, 5, 10, 20, 40, 80])
    def test_an_interrupt_before_it_is_up_ends_it_in_silence(self, delay_ms):
        """From the moment that Python has started."""
        script = "import sys, incmoe.cli as c; print(flush=True); sys.exit(c.main(sys.argv[1:]))"
        words = [
            sys.executable,
            "-c",
            script,
            "switch",
            "--no-p4",
            "--grpc-server-addr",
            "127.0.0.1:0",
        ]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(words, text=True, **pipes) as process:
            process.stdout.readline()
            time.sleep(delay_ms / 1000)
            status, said = end(process, signal.SIGINT)
        assert status in (0, 130)
        assert all(" INFO softswitch: up: " in line for line in said.splitlines())

    @pytest.mark.parametrize("gap_ms", [0, 2, 5, 10, 20, 30, 50])
    def test_further_signals_do_not_spoil_a_clean_end(self, up, gap_ms):
        process, _ = up("--no-p4")
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
            process.send_signal(number)
            time.sleep(gap_ms / 1000)
        status, said = process.wait(10), process.stderr.read()
        assert (status, "Traceback" in said) == (0, False)

    def test_the_ready_file_goes_when_it_ends_unless_it_is_anothers(self, up, tmp_path):
        process, _ = up("--no-p4")
        other, _ = up("--no-p4")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["ready0", "ready1"]
        (tmp_path / "ready1").write_text("another's")
        assert (end(process)[0], end(other)[0]) == (0, 0)
        assert [path.name for path in tmp_path.iterdir()] == ["ready1"]

    def test_a_parent_can_be_told_through_a_descriptor(self, up):
        process, where = up("--no-p4", ready="fd")
        assert where["ports"] == {}
        assert end(process)[0] == 0

    def test_a_controller_can_bring_the_program(self, up, tmp_path):
        stats = tmp_path / "stats.json"
        process, where = up(
            *["--no-p4", "--device-id", "7", "--port", f"1@{UDP_PORT}"],
            *["--stats-file", str(stats), "--pcap", str(tmp_path)],
        )
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as host:
            host.sendto(b"too early", ("127.9.6.1", 17716))
        client = P4RuntimeClient(7, where["grpc"], (0, 1))
        client.set_fwd_pipe_config(str(P4INFO), str(JSON))
        client.tear_down()
        process.send_signal(signal.SIGUSR1)
        wait_for(stats.exists)
        first = json.loads(stats.read_text())
        assert first["dropped"] == {"no_pipeline": 1}
        assert first["ports"]["1"]["rx_packets"] == 1
        stats.unlink()
        assert end(process)[0] == 0
        last = json.loads(stats.read_text())
        assert last["ports"] == first["ports"]
        [captured] = rdpcap(str(tmp_path / "udp_127.9.6.1_17716_in.pcap"))
        assert bytes(captured).endswith(b"too early")

    def test_statistics_that_cannot_be_written_do_not_end_it(self, up, tmp_path):
        stats = tmp_path / "stats.json"
        process, _ = up("--no-p4", "--stats-file", str(stats))
        stats.mkdir()
        process.send_signal(signal.SIGUSR1)
        time.sleep(0.5)
        assert process.poll() is None
        stats.rmdir()
        code, said = end(process)
        assert code == 0
        assert f"cannot write {stats}" in said
        assert stats.is_file()

    def test_a_pipe_named_for_statistics_stays_one(self, up, tmp_path):
        stats = tmp_path / "stats"
        os.mkfifo(stats)
        with os.fdopen(os.open(stats, os.O_RDWR)) as reader:
            process, _ = up("--no-p4", "--stats-file", str(stats))
            assert end(process)[0] == 0
            assert json.loads(os.read(reader.fileno(), 1 << 16))["dropped"] == {}
        assert stats.is_fifo()

    def test_a_pipe_for_statistics_that_nobody_reads_is_not_waited_for(self, up, tmp_path):
        stats = tmp_path / "stats"
        os.mkfifo(stats)
        process, _ = up("--no-p4", "--stats-file", str(stats))
        process.send_signal(signal.SIGUSR1)
        status, said = end(process)
        assert status == 2
        assert said.count(f"cannot write {stats}: nobody has read it for 1.0 s") == 2

    def test_faults_are_injected_where_asked(self, up, tmp_path):
        stats = tmp_path / "stats.json"
        process, _ = up(
            *["-i", f"1@{UDP_PORT}", "--fault", "drop=1", "--fault-on", "rx"],
            *["--stats-file", str(stats), "--p4info", str(P4INFO), str(JSON)],
        )
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as host:
            for _ in range(10):
                host.sendto(b"x" * 20, ("127.9.6.1", 17716))
        time.sleep(0.1)
        assert end(process)[0] == 0
        found = json.loads(stats.read_text())
        assert found["ports"]["1"]["fault_drop"] == 10
        assert found["counters"]["Receive.seen"] == {}

    def test_a_fault_may_name_its_direction_and_its_frames(self, up, tmp_path):
        stats = tmp_path / "stats.json"
        process, _ = up(
            *["-i", f"1@{UDP_PORT}", "--fault", "rx:drop=1,match=42:78"],
            *["--fault", "tx:drop=1,match=42:7a", "--fault", "delay_ms=0,seed=3"],
            *["--stats-file", str(stats), "--p4info", str(P4INFO), str(JSON)],
        )
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as host:
            for payload in (b"x" * 20, b"y" * 20, b"x" * 20):
                host.sendto(payload, ("127.9.6.1", 17716))
        time.sleep(0.1)
        assert end(process)[0] == 0
        assert json.loads(stats.read_text())["ports"]["1"]["fault_drop"] == 2

    def test_the_log_goes_where_it_is_told(self, up, tmp_path):
        path = tmp_path / "log"
        process, _ = up("--no-p4", "--log-file", str(path), "--log-level", "info")
        status, said = end(process)
        assert (status, said) == (0, "")
        assert "INFO softswitch: up: " in path.read_text()


@pytest.mark.root
@pytest.mark.skipif(namespaces.why_not() is not None, reason=namespaces.why_not() or "")
def test_it_serves_interfaces_of_its_namespace(tmp_path):
    ready = tmp_path / "ready"
    with namespaces.namespace(f"incmoe-cli-{os.getpid()}") as name:
        namespaces.add_veth(name, "s1", "h1", mtu=1500)
        namespaces.add_veth(name, "s2", "h2", mtu=1500)
        words = ["-i", "1@s1", "-i", "2@s2", "--ready-file", str(ready), str(JSON)]
        command = ["ip", "netns", "exec", name, *COMMAND, *words]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        taps = namespaces.Taps(name, {1: "h1", 2: "h2"})
        wait_for(lambda: ready.exists() or process.poll() is not None)
        frame = bytes([4]) + bytes(61)
        taps.send(2, frame)
        assert taps.take(quiet_s=0.3) == {1: [frame[:8] + b"\0\0\xde\xad" + frame[12:]]}
        assert end(process)[0] == 0
        taps.close()
        process.stderr.close()


class TestRefusals:
    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ([], "no program: give a BMv2 JSON file, or --no-p4 to wait for a controller"),
            (["--no-p4", "x.json"], "--no-p4 excludes a program and --p4info"),
            (["absent.json"], "absent.json"),
            ([str(P4INFO)], "is not JSON"),
            (["--no-p4", "-i", "1@nonesuch0"], "port 1: there is no interface 'nonesuch0'"),
            (["--no-p4", "-i", "1"], "port '1' is not NUMBER@INTERFACE"),
            (["--no-p4", "-i", "1@udp:127.9.6.2:17716", "-i", "1@lo"], "given 2 times"),
            (
                ["--no-p4", "-i", "1@udp:198.51.100.7:1"],
                "cannot bind udp:198.51.100.7:1: cannot assign requested address",
            ),
            (["--no-p4", "--fault", "loss=1"], "unknown fault 'loss'"),
            (
                ["--no-p4", "--grpc-server-addr", "127.0.0.1:x"],
                "cannot listen on 127.0.0.1:x: port 'x' is not a number in 0..65535",
            ),
            (
                ["--no-p4", "--grpc-server-addr", "127.0.0.1:99999"],
                "cannot listen on 127.0.0.1:99999: port '99999' is not a number in 0..65535",
            ),
            (
                ["--no-p4", "--grpc-server-addr", "nosuchhost.invalid:0"],
                "cannot listen on nosuchhost.invalid:0: ",
            ),
            (
                ["--no-p4", "--device-id", "-1"],
                "--device-id -1 is not a number in 0..18446744073709551615",
            ),
            (
                ["--no-p4", "--device-id", "18446744073709551616"],
                "--device-id 18446744073709551616 is not a number in 0..18446744073709551615",
            ),
            (["--no-p4", "--device-id", "one"], "--device-id one is not a number in 0.."),
            (["--no-p4", "--cpu-port", "-1"], "port '-1@cpu' is not NUMBER@INTERFACE"),
            (
                ["--no-p4", "--pcap", "/dev/null/folder", "-i", "1@memory"],
                "cannot make the folder /dev/null/folder: Not a directory",
            ),
            (["--no-p4", "--log-file", "/nonesuch/log"], "/nonesuch/log"),
            (
                ["--no-p4", "--ready-file", "/nonesuch/ready"],
                "--ready-file /nonesuch/ready: there is no folder /nonesuch",
            ),
            (
                ["--no-p4", "--stats-file", "/nonesuch/stats"],
                "--stats-file /nonesuch/stats: there is no folder /nonesuch",
            ),
            (["--no-p4", "--stats-file", "/dev"], "--stats-file /dev: it is a folder"),
            (["--no-p4", "--ready-fd", "999"], "--ready-fd 999: Bad file descriptor"),
            (["--no-p4", "--ready-fd", "-1"], "--ready-fd -1: negative file descriptor"),
        ],
    )
    def test_a_mistake_is_one_line_and_status_2(self, run, words, message):
        if "--grpc-server-addr" not in words:
            words = ["--grpc-server-addr", "127.0.0.1:0", *words]
        status, said = run(*words)
        assert status == 2
        [line] = [line for line in said.splitlines() if " INFO " not in line]
        assert line.startswith("incmoe: ")
        assert message in line

    def test_compiled_code_cannot_be_traced(self, run, tmp_path):
        words = ["--trace", str(tmp_path / "t"), "--no-p4", "--grpc-server-addr", "127.0.0.1:0"]
        said = "incmoe: only the interpreter can trace packets, not compiled\n"
        assert run(*words) == (2, said)
        assert not (tmp_path / "t").exists()

    def test_ports_and_addresses_in_use_are_named(self, up, run):
        _, where = up("--no-p4", "-i", f"1@{UDP_PORT}")
        status, said = run("--no-p4", "--grpc-server-addr", "127.0.0.1:0", "-i", f"1@{UDP_PORT}")
        assert (status, said) == (
            2,
            f"incmoe: port 1: cannot bind {UDP_PORT}: address already in use\n",
        )
        status, said = run("--no-p4", "--grpc-server-addr", where["grpc"])
        assert status == 2
        address = where["grpc"]
        assert said == f"incmoe: P4Runtime cannot listen on {address}: address already in use\n"

    def test_the_process_itself_says_one_line_too(self, up):
        _, where = up("--no-p4")
        words = [*COMMAND, "--no-p4", "--grpc-server-addr", where["grpc"]]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
        address = where["grpc"]
        assert (ended.returncode, ended.stderr) == (
            2,
            f"incmoe: P4Runtime cannot listen on {address}: address already in use\n",
        )

    def test_a_feature_that_is_missing_is_named_with_its_place(self, run, tmp_path):
        program = json.loads(JSON.read_text())
        program["actions"][0]["primitives"][0]["op"] = "teleport"
        path = tmp_path / "program.json"
        path.write_text(json.dumps(program))
        status, said = run("--grpc-server-addr", "127.0.0.1:0", str(path))
        assert status == 2
        assert "teleport" in said
        assert "program.p4" in said
        assert said.count("\n") == 1
