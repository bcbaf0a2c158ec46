# SPDX-License-Identifier: Apache-2.0
"""`incmoe switch` as a process of its own: started, waited for, asked, ended."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

COMMAND = [sys.executable, "-m", "incmoe.cli", "switch"]


def wait_for(done, limit_s=20):
    end = time.monotonic() + limit_s
    while not done():
        assert time.monotonic() < end, f"did not happen: {done}"
        time.sleep(0.01)


def end(process, number=signal.SIGTERM):
    """Its status and what it said; it must end soon."""
    process.send_signal(number)
    return process.wait(10), process.stderr.read()


def send(udp_port, *payloads):
    """From a host to a port written udp:ADDRESS:PORT."""
    _, address, port = udp_port.split(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as host:
        for payload in payloads:
            host.sendto(payload, (address, int(port)))


def statistics(process, path):
    """What it writes when it is asked."""
    path.unlink(missing_ok=True)
    process.send_signal(signal.SIGUSR1)
    wait_for(path.exists)
    return json.loads(path.read_text())


class Starter:
    """Starts switches and waits until they are up; `stop` ends those that still are."""

    def __init__(self, folder):
        self._folder = folder
        self._started = []

    def __call__(self, *words, ready="file", **options):
        told = self._folder / f"ready{len(self._started)}"
        read_end, write_end = os.pipe()
        where = {
            "file": ["--ready-file", str(told)],
            "fd": ["--ready-fd", str(write_end)],
        }[ready]
        address = [] if "--grpc-server-addr" in words else ["--grpc-server-addr", "127.0.0.1:0"]
        process = subprocess.Popen(
            [*COMMAND, *words, *address, *where],
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=[write_end],
            **options,
        )
        self._started.append(process)
        os.close(write_end)
        with os.fdopen(read_end) as pipe:
            if ready == "fd":
                return process, json.loads(pipe.readline())
        wait_for(lambda: told.exists() or process.poll() is not None)
        return process, json.loads(told.read_text())

    def stop(self):
        for process in self._started:
            process.kill()
            process.wait()
            process.stderr.close()
