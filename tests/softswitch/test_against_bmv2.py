# SPDX-License-Identifier: Apache-2.0
"""The same random entries and frames through BMv2, the interpreter and compiled code, a little of
what `make differential` does; and that a difference would be noticed.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import closing

import pytest

import p4src
from tests.softswitch.against_bmv2.__main__ import any_source, inc_source, report
from tests.softswitch.against_bmv2.devices import Copies, Frame
from tests.softswitch.against_bmv2.trial import MakeSource, Outcome, Trial
from tests.softswitch.switches import PROGRAMS

pytestmark = [
    pytest.mark.bmv2,
    pytest.mark.skipif(
        shutil.which("simple_switch_grpc") is None, reason="no simple_switch_grpc on PATH"
    ),
]

FRAMES = 400
BUILD = p4src.program("mtu1500")


def trial_of(name: str, make_source: MakeSource) -> Trial:
    if name == "inc":
        return Trial(name, BUILD.json, BUILD.p4info, make_source)
    return Trial(name, PROGRAMS / f"{name}.json", PROGRAMS / f"{name}.p4info.txtpb", make_source)


def outcome_of(name: str, make_source: MakeSource) -> Outcome:
    with closing(trial_of(name, make_source)) as trial:
        trial.run(FRAMES, seed=3)
        return trial.outcome


@pytest.mark.parametrize(
    ("name", "make_source"),
    [("inc", inc_source), ("inc", any_source), ("stacks", any_source), ("arithmetic", any_source)],
)
def test_all_three_do_the_same(name: str, make_source: MakeSource) -> None:
    outcome = outcome_of(name, make_source)
    assert not outcome.num_differences, report(outcome)
    assert outcome.frames == FRAMES
    assert outcome.entities > 10


def test_a_byte_that_bmv2_has_otherwise_is_a_difference() -> None:
    with closing(trial_of("stacks", any_source)) as trial:
        right = trial.bmv2.exchange
        spoilt = []

        def wrong(frames: Sequence[Frame]) -> list[Copies]:
            found = right(frames)
            if found and found[0]:
                port, data = found[0][0]
                spoilt.append(port)
                found[0][0] = port, data[:-1] + bytes([data[-1] ^ 1])
            return found

        trial.bmv2.exchange = wrong
        trial.run(24, seed=3)
        assert trial.outcome.num_differences["bmv2"] == len(spoilt) > 0
        assert "ours" in report(trial.outcome)
