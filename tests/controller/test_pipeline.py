# SPDX-License-Identifier: Apache-2.0
"""Values to P4Runtime messages and back, as the program's P4Info has them."""

from __future__ import annotations

from functools import cache

from hypothesis import given
from hypothesis import strategies as st
from p4.v1 import p4runtime_pb2

from controller import tables
from controller.entries import Entry, MulticastGroup, Row
from controller.pipeline import Pipeline, config_message, read_p4info
from p4src import program


@cache
def pipeline() -> Pipeline:
    return Pipeline(read_p4info(program("mtu1500").p4info))


def exact(bits: int) -> st.SearchStrategy[int]:
    return st.integers(0, 2**bits - 1)


def prefixes() -> st.SearchStrategy[tuple[int, int]]:
    masks = st.integers(0, 32).map(
        lambda length: ((0xFFFF_FFFF << 32 - length) & 0xFFFF_FFFF, length)
    )
    return st.tuples(exact(32), masks).map(lambda pair: (pair[0] & pair[1][0], pair[1][1]))


ENTRIES: st.SearchStrategy[Entry] = st.one_of(
    st.builds(MulticastGroup, exact(15), st.sets(exact(9)).map(lambda ports: tuple(sorted(ports)))),
    st.builds(
        Row,
        st.just(tables.DELIVER),
        st.fixed_dictionaries({"job": exact(16), "port": exact(9)}),
        st.sampled_from([tables.TO_RANK, tables.TO_SWITCH]),
        st.fixed_dictionaries(
            dict(zip(tables.ADDRESSES, map(exact, (64, 48, 32, 48, 32, 16)), strict=True))
        ),
    ),
    st.builds(
        Row,
        st.just(tables.ROUTES),
        st.fixed_dictionaries({"dst": prefixes()}),
        st.just(tables.VIA),
        st.fixed_dictionaries({"port": exact(9), "src_mac": exact(48), "dst_mac": exact(48)}),
    ),
    st.builds(
        Row,
        st.just(tables.JOBS),
        st.fixed_dictionaries({"job": exact(16)}),
        st.just(tables.KNOWN),
        st.fixed_dictionaries({"generation": exact(32), "group": exact(16)}),
        st.text(max_size=9),
    ),
)


@given(ENTRIES)
def test_an_entry_comes_back_as_it_went(entry: Entry) -> None:
    assert pipeline().entry(pipeline().entity(entry)) == entry


def test_numbers_go_in_their_shortest_form() -> None:
    row = Row(tables.JOBS, {"job": 0}, tables.KNOWN, {"generation": 256, "group": 1}, note="demo")
    message = pipeline().entity(row).table_entry
    assert message.match[0].exact.value == b"\0"
    assert [param.value for param in message.action.action.params] == [b"\1\0", b"\1"]
    assert message.metadata == b"demo"


def test_default_actions_and_tables_of_others_are_no_entries() -> None:
    default = p4runtime_pb2.Entity()
    default.table_entry.table_id = pipeline().table_id(tables.JOBS)
    default.table_entry.is_default_action = True
    assert pipeline().entry(default) is None


def test_a_program_is_marked_by_a_cookie_of_its_bytes() -> None:
    small, large = (config_message(program(name)) for name in ("mtu1500", "mtu9000"))
    assert small.cookie.cookie != large.cookie.cookie
    assert small.cookie == config_message(program("mtu1500")).cookie
    assert small.p4_device_config == program("mtu1500").json.read_bytes()
