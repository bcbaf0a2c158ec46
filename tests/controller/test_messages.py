# SPDX-License-Identifier: Apache-2.0
"""The messages ranks and controller exchange: JSON and back, and what is wrong with it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_agent.messages import Join, Notice, RendezvousError, Ticket, decode, encode

SCALARS = st.one_of(st.text(max_size=5), st.integers(), st.booleans(), st.none())
FINGERPRINTS = st.recursive(
    st.dictionaries(st.text(max_size=5), SCALARS, max_size=3),
    lambda inner: st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=5,
)
JOINS = st.builds(
    Join, st.text(), st.integers(), st.integers(), st.text(), st.integers(), st.text(), FINGERPRINTS
)


@given(JOINS)
def test_a_join_comes_back_as_it_went(join: Join) -> None:
    assert decode(Join, encode(join)) == join


def test_tuples_come_back_as_tuples() -> None:
    assert decode(Notice, encode(Notice((1, 2), ""))) == Notice((1, 2), "")


WRONG = [
    (b"{", "Notice: not JSON"),
    (b"[" * 100_000, "Notice: not JSON"),
    (b"[]", "Notice has fields ['ended', 'gone', 'waiting'], got list"),
    (b'{"gone": []}', "Notice has fields ['ended', 'gone', 'waiting'], got ['gone']"),
    (b'{"gone": [], "ended": "", "x": 1}', "Notice has fields ['ended', 'gone', 'waiting'], got"),
    (b'{"gone": 1, "ended": "", "waiting": []}', "Notice.gone is 1, not list"),
    (b'{"gone": [], "ended": null, "waiting": []}', "Notice.ended is None, not str"),
    (b'{"gone": ["1"], "ended": "", "waiting": []}', "Notice.gone is ['1'], not list of int"),
]


@pytest.mark.parametrize(("body", "message"), WRONG)
def test_a_message_of_another_form_is_refused_by_field(body: bytes, message: str) -> None:
    with pytest.raises(RendezvousError) as error:
        decode(Notice, body)
    assert str(error.value).startswith(message)


def test_a_truth_value_is_no_number() -> None:
    body = encode(Ticket(1, 2, 3, 4, 5, "h", 6, (0, 1))).replace(b'"job": 1', b'"job": true')
    with pytest.raises(RendezvousError, match=r"Ticket\.job is True, not int"):
        decode(Ticket, body)


def test_a_rank_needs_no_protobuf() -> None:
    code = "import sys, host_agent.rendezvous\n"
    code += (
        "assert not [name for name in sys.modules if name.startswith(('google.protobuf', 'p4'))]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
