# SPDX-License-Identifier: Apache-2.0
"""Whatever the wire does, every row is summed exactly once; `run` compares all sums."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_agent.session import Pacing, Timers
from host_agent.wire import Op
from tests.transport.fake_wire import FakeWire, Faults
from tests.transport.sessions import session
from tests.transport.switch_model import Message
from tests.transport.topologies import Place, single, tree
from tests.transport.workload import Plan, run

# Chance alone must not pass for a death: with 15% loss per link many probes in a row fail.
PATIENT = Timers(probe_every_s=1.0, deadline_s=300.0)

faults = st.builds(
    Faults,
    loss=st.sampled_from([0.0, 0.02, 0.15]),
    duplicates=st.sampled_from([0.0, 0.1]),
    jitter_s=st.sampled_from([0.0, 0.005, 0.1]),
    seed=st.integers(0, 1 << 16),
)
shapes = st.fixed_dictionaries(
    {
        "world_size": st.integers(2, 5),
        "num_slots": st.integers(3, 9),
        "row_bytes": st.sampled_from([1, 64, 300]),
        "num_values": st.sampled_from([32, 100, 200]),
        "max_chunks": st.integers(1, 2),
        "first_number": st.sampled_from([0, (1 << 30) - 5]),
        "pacing": st.sampled_from([Pacing(), Pacing(burst_bytes=500), Pacing(credit_bytes=1000)]),
    }
)
plans = st.builds(
    Plan,
    num_bands=st.integers(1, 3),
    num_rows=st.integers(0, 3),
    exponent=st.sampled_from([7, 7, -6, 40]),  # right, too small, too large
    seed=st.integers(0, 1 << 16),
    compute_s=st.sampled_from([(0.0,), (0.0, 0.3)]),
)


@settings(max_examples=60, deadline=None)
@given(shape=shapes, plan=plans, faults=faults, build=st.sampled_from([single, tree]))
def test_every_row_is_summed_once_whatever_is_lost(
    shape: dict[str, Any], plan: Plan, faults: Faults, build: Any
) -> None:
    fake = FakeWire(session(timers=PATIENT, **shape), faults=faults, build=build)
    run(fake, plan)
    assert fake.total("malformed") == fake.total("foreign") == 0
    assert fake.seen.most_out <= fake.cores[0].session.num_slots


@settings(max_examples=40, deadline=None)
@given(losses=st.lists(st.booleans(), max_size=60), num_slots=st.integers(1, 4))
def test_any_pattern_of_early_losses_is_repaired(losses: list[bool], num_slots: int) -> None:
    pattern = iter(losses)
    fake = FakeWire(
        session(world_size=3, num_slots=num_slots, timers=PATIENT),
        faults=Faults(lose=lambda message, to: next(pattern, False)),
    )
    run(fake, Plan(num_bands=2, num_rows=min(num_slots, 2)))


@settings(max_examples=30, deadline=None)
@given(
    op=st.sampled_from([Op.DISPATCH, Op.CONTRIB, Op.RESULT, Op.PULL, Op.STATUS]),
    to_ranks=st.booleans(),
    seed=st.integers(0, 1 << 16),
)
def test_one_kind_of_message_may_be_lost_half_the_time_in_one_direction(
    op: Op, to_ranks: bool, seed: int
) -> None:
    others = Faults(loss=0.5, duplicates=0.1, jitter_s=0.01, seed=seed)
    faults = replace(others, ops=(op,), to_ranks=to_ranks, to_switches=not to_ranks)
    fake = FakeWire(session(timers=PATIENT), faults=faults)
    run(fake, Plan(num_bands=2, num_rows=3, seed=seed))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1 << 16), build=st.sampled_from([single, tree]))
def test_questions_and_answers_with_a_wrong_bit_harm_no_sum(seed: int, build: Any) -> None:
    faults = Faults(corruption=0.3, ops=(Op.PULL, Op.STATUS, Op.PROBE), seed=seed)
    losing = replace(faults, lose=_now_and_then(seed))
    run(FakeWire(session(timers=PATIENT), faults=losing, build=build), Plan(seed=seed))


def _now_and_then(seed: int) -> Any:
    chance = random.Random(seed)
    return lambda message, to: chance.random() < 0.1


def _once(op: Op, **fields: int) -> Any:
    """Lose the first message of a kind on its way to anyone."""
    left = [1]

    def lose(message: Message, to: Place) -> bool:
        matches = message.op == op and all(
            getattr(message, name) == value for name, value in fields.items()
        )
        if matches and left:
            left.pop()
            return True
        return False

    return lose


@pytest.mark.parametrize("op", [Op.DISPATCH, Op.CONTRIB, Op.RESULT])
@pytest.mark.parametrize("flags", [0, 1])
@pytest.mark.parametrize("segment", [0, 1])
def test_one_loss_costs_few_messages(op: Op, flags: int, segment: int) -> None:
    fields = {"segment": segment} | ({"flags": flags} if op == Op.DISPATCH else {})
    fake = FakeWire(session(row_bytes=300, num_values=100), faults=Faults(lose=_once(op, **fields)))
    run(fake, Plan(num_bands=1, num_rows=4))
    assert fake.now < 1.0
    assert fake.total("repeated_dispatches") <= 2
    assert fake.total("repeated_contributions") <= 2 * 3


@pytest.mark.parametrize("at", [0.0005, 0.0015, 0.0025, 0.0035])
def test_a_switch_that_forgets_everything_is_armed_again(at: float) -> None:
    plan = Plan(num_bands=2, num_rows=4)
    fake = FakeWire(session(timers=PATIENT))
    process = fake.topology.switches["s"].process
    forgotten: list[bool] = []

    def forgetful(port: int, data: bytes) -> list[tuple[int, bytes]]:
        if fake.now >= at and not forgotten:
            forgotten.append(True)
            fake.topology.switches["s"].restart()
        return process(port, data)

    fake.topology.switches["s"].process = forgetful  # type: ignore[method-assign]
    run(fake, plan)
    assert forgotten


def test_a_row_at_the_wrong_scale_is_repeated_without_its_payload() -> None:
    plan = Plan(num_bands=1, num_rows=4, exponent=-6)
    fake = FakeWire(session())
    run(fake, plan)
    again = [message for message in fake.sent(Op.DISPATCH) if message.seq % 4]
    assert len(again) == fake.total("rescaled_rows") > 0
    assert {(message.payload, message.segment) for message in again} == {(b"", 0)}
    assert fake.total("pulls") == fake.total("repeated_contributions") == 0
