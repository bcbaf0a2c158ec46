# SPDX-License-Identifier: Apache-2.0
"""The model switch of these tests does what the P4 program does, message by message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_agent import wire
from host_agent.wire import HEADER_BYTES, Op
from tests.transport.fake_wire import FakeWire, Faults
from tests.transport.p4_switch import MAX_CHUNKS, P4Switch
from tests.transport.sessions import session
from tests.transport.switch_model import Job, Port, SwitchModel
from tests.transport.test_faults import PATIENT
from tests.transport.topologies import single, tree
from tests.transport.workload import Plan, run


@dataclass
class Both:
    """A model and the program side by side; what differs fails at once."""

    model: SwitchModel
    program: P4Switch

    def process(self, port: int, data: bytes) -> list[tuple[int, bytes]]:
        """Return what leaves."""
        expected = self.model.process(port, data)
        assert sorted(self.program.process(port, data)) == sorted(expected)
        return expected

    def check_drops(self) -> None:
        """Compare all drop counters."""
        assert self.program.drops() == {int(k): n for k, n in self.model.drops.items()}


@pytest.mark.parametrize("build", [single, tree])
@pytest.mark.parametrize("seed", range(3))
def test_runs_with_faults_are_the_same_on_the_program(build: Any, seed: int) -> None:
    mine = session(
        max_chunks=MAX_CHUNKS,
        row_bytes=1500,
        num_values=400,
        max_segments=2,
        timers=PATIENT,
        first_number=(1 << 30) - 3,
    )
    faults = Faults(loss=0.1, duplicates=0.1, jitter_s=0.01, seed=seed)
    fake = FakeWire(mine, faults=faults, build=build)
    switches = {
        name: Both(model, P4Switch(model.job)) for name, model in fake.topology.switches.items()
    }
    fake.topology.switches.update(switches)  # type: ignore[arg-type]
    run(fake, Plan(num_bands=2, num_rows=3, exponent=-6 if seed == 1 else 7, seed=seed))
    for both in switches.values():
        both.check_drops()


JOB = Job(
    job=3,
    generation=9,
    ports={1: Port(0b0001), 2: Port(0b0010), 3: Port(0b1100, to_switch=True)},
    num_slots=2,
    segments=2,
    max_chunks=MAX_CHUNKS,
)
ranks = st.integers(0, 15) | st.integers(0, (1 << 64) - 1)
messages = st.fixed_dictionaries(
    {
        "version": st.sampled_from([1] * 20 + [0, 2]),
        "op": st.sampled_from([*Op] * 5 + [0, 8, 255]),
        "flags": st.integers(0, 255),
        "exponent": st.integers(-128, 127),
        "job": st.sampled_from([3] * 20 + [4]),
        "slot": st.sampled_from([0, 1] * 10 + [2, 65535]),
        "generation": st.sampled_from([9] * 20 + [8, 10]),
        "seq": st.sampled_from([0, 1, 4, 5, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]),
        "members": ranks,
        "ranks": ranks,
        "owner": st.sampled_from([0, 1, 2, 3] * 10 + [4, 64, 255]),
        "segment": st.sampled_from([0, 1] * 10 + [2, 255]),
        "chunks": st.sampled_from([0, 1, 2] * 5 + [MAX_CHUNKS, MAX_CHUNKS + 1, 255]),
    }
)
lengths = st.sampled_from([0] * 12 + [-256, -1, 1, 256, 5])


@settings(max_examples=40, deadline=None)
@given(
    schedule=st.lists(
        st.tuples(st.integers(1, 4), messages, lengths, st.integers(0, 255)),
        min_size=1,
        max_size=30,
    )
)
def test_any_messages_have_the_same_fate_on_the_program(
    schedule: list[tuple[int, dict[str, Any], int, int]],
) -> None:
    both = Both(SwitchModel(JOB), P4Switch(JOB))
    for port, fields, extra, fill in schedule:
        size = max(0, min(fields["chunks"], MAX_CHUNKS + 1) * wire.CHUNK_BYTES + extra)
        both.process(port, wire.headers(1, **fields).tobytes() + bytes([fill]) * size)
    both.check_drops()


@pytest.fixture(scope="module")
def program() -> P4Switch:
    return P4Switch(JOB)


@pytest.mark.parametrize("length", range(HEADER_BYTES + 1))
def test_truncated_headers_have_the_same_fate_on_the_program(
    program: P4Switch, length: int
) -> None:
    both = Both(SwitchModel(JOB), program)
    header = wire.headers(1, op=Op.ECHO, job=3, generation=9, owner=0).tobytes()
    assert len(both.process(1, header[:length])) == (length == HEADER_BYTES)
