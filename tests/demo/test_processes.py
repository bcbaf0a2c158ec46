# SPDX-License-Identifier: Apache-2.0
"""Supervision: whatever happens, the demo's processes end, and no other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from incmoe.demo.child import Child, Command
from incmoe.demo.errors import ChildFailedError, DemoError, InterruptedRunError
from incmoe.demo.processes import Supervisor

ROOT = Path(__file__).resolve().parents[2]
PUPPET = "tests.demo.puppet"


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    with Supervisor(tmp_path) as running:
        yield running


def start(supervisor: Supervisor, name: str = "puppet", *arguments: str) -> tuple[Child, int]:
    child = supervisor.start(name, Command.module(PUPPET, *arguments), talks=True)
    (ready,) = supervisor.gather([child], "ready", timeout_s=20)
    return child, int(ready["pid"])


def is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for_end(pid: int) -> None:
    deadline = time.monotonic() + 10
    while is_alive(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.02)


def test_children_answer_in_the_order_they_are_asked_for(supervisor: Supervisor) -> None:
    children = [start(supervisor, f"puppet {i}")[0] for i in range(2)]
    for child, text in zip(children, ("first", "second"), strict=True):
        child.send("echo", text=text)
    answers = supervisor.gather(children, "echo", timeout_s=10)
    assert [answer["text"] for answer in answers] == ["first", "second"]


def test_all_children_end_with_the_block(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        pids = [start(supervisor, f"puppet {i}")[1] for i in range(2)]
        assert all(is_alive(pid) for pid in pids)
    assert not any(is_alive(pid) for pid in pids)


def test_a_child_that_ignores_sigterm_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("incmoe.demo.processes.GRACE_S", 0.2)
    with Supervisor(tmp_path) as supervisor:
        _, pid = start(supervisor, "puppet", "stubborn")
    assert not is_alive(pid)


def test_what_a_child_started_ends_with_it(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        child, _ = start(supervisor)
        child.send("fork")
        (forked,) = supervisor.gather([child], "forked", timeout_s=10)
    wait_for_end(forked["pid"])


def test_processes_of_others_are_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        with Supervisor(tmp_path) as supervisor:
            start(supervisor)
        assert is_alive(other.pid)
        other.kill()


def test_a_child_that_ends_unasked_ends_the_run_with_its_log(supervisor: Supervisor) -> None:
    child, _ = start(supervisor, "rank 3")
    child.send("exit", status=7)
    with pytest.raises(ChildFailedError, match=r"^rank 3: ended with status 7$") as caught:
        supervisor.gather([child], "never", timeout_s=10)
    assert caught.value.log_tail == "last words"


def test_a_killed_child_is_named_with_the_signal(supervisor: Supervisor) -> None:
    child, pid = start(supervisor, "switch")
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ChildFailedError, match=r"^switch: ended by SIGKILL$"):
        supervisor.gather([child], "never", timeout_s=10)


def test_a_reported_error_is_the_reason(supervisor: Supervisor) -> None:
    child, _ = start(supervisor, "rank 1")
    child.send("fail", message="rank 2 is lost")
    with pytest.raises(ChildFailedError, match=r"^rank 1: rank 2 is lost$"):
        supervisor.gather([child], "never", timeout_s=10)


def test_silence_is_an_error_that_names_who(supervisor: Supervisor) -> None:
    child, _ = start(supervisor, "rank 1")
    with pytest.raises(DemoError, match=r"^no 'never' from rank 1 within 0\.2 s$"):
        supervisor.gather([child], "never", timeout_s=0.2)


def test_a_child_may_end_when_it_is_told_to(supervisor: Supervisor) -> None:
    child, pid = start(supervisor)
    child.may_end = True
    child.send("quit")
    wait_for_end(pid)
    supervisor.check()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_and_all_children(tmp_path: Path, number: signal.Signals) -> None:
    pids = []

    def run() -> None:
        with Supervisor(tmp_path) as supervisor:
            child, pid = start(supervisor)
            pids.append(pid)
            os.kill(os.getpid(), number)
            supervisor.gather([child], "never", timeout_s=10)

    with pytest.raises(InterruptedRunError) as caught:
        run()
    assert caught.value.signal_number == number
    assert not is_alive(pids[0])


def test_children_die_with_a_killed_demo(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from incmoe.demo.processes import Supervisor\n"
        "from incmoe.demo.child import Command\n"
        "with Supervisor(Path(sys.argv[1])) as s:\n"
        f"    child = s.start('puppet', Command.module({PUPPET!r}), talks=True)\n"
        "    print(s.gather([child], 'ready', timeout_s=20)[0]['pid'], flush=True)\n"
        "    s.gather([child], 'never', timeout_s=60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT
    ) as demo:
        assert demo.stdout is not None
        pid = int(demo.stdout.readline())
        assert is_alive(pid)
        demo.kill()
    wait_for_end(pid)
