# SPDX-License-Identifier: Apache-2.0
"""The wire format: golden bytes, round trips, noise; one format in Python, P4 and the builds."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import p4src
from host_agent import wire
from tests.packet.messages import Inc

P4 = (p4src.ROOT / "include" / "wire.p4").read_text()

# version op flags exponent | job slot | generation | seq | members | ranks | owner segment chunks -
GOLDEN = "01 02 81 f4 0007 0123 01020304 00000015 0000000000000006 0000000000000002 00 03 05 00"
VALUES = {
    "op": 2,
    "flags": 0x81,
    "exponent": -12,
    "job": 7,
    "slot": 0x123,
    "generation": 0x01020304,
    "seq": 21,
    "members": 6,
    "ranks": 2,
    "owner": 0,
    "segment": 3,
    "chunks": 5,
}


def p4_header(name: str) -> list[tuple[str, int]]:
    """Fields of a header in wire.p4: (name, bits)."""
    widths = {"Op": 8} | {n: int(w) for w, n in re.findall(r"typedef bit<(\d+)>\s+(\w+);", P4)}
    body = re.search(rf"header {name} {{(.*?)^}}", P4, re.S | re.M)
    assert body
    fields = re.findall(r"^\s*(bit<\d+>|\w+)\s+(\w+);", body[1], re.M)
    return [
        (field, int(kind[4:-1]) if kind.startswith("bit<") else widths[kind])
        for kind, field in fields
    ]


def test_the_golden_header() -> None:
    golden = bytes.fromhex(GOLDEN.replace(" ", ""))
    assert wire.encode(wire.headers(1, **VALUES)).tobytes() == golden
    header, payload = wire.decode(np.frombuffer(golden + b"payload", np.uint8).reshape(1, -1))
    assert {name: header[name][0].item() for name in VALUES} == VALUES
    assert payload.tobytes() == b"payload"


def test_scapy_reads_the_same_header() -> None:
    assert bytes(Inc(**VALUES)) == bytes.fromhex(GOLDEN.replace(" ", ""))


def test_python_p4_and_the_compiled_programs_have_the_same_header() -> None:
    assert list(wire.FIELDS) == p4_header("inc_t")
    for geometry in p4src.GEOMETRIES:
        program = json.loads(p4src.program(geometry).json.read_text())
        (inc,) = [h for h in program["header_types"] if h["name"] == "inc_t"]
        assert [(name, bits) for name, bits, _ in inc["fields"]] == list(wire.FIELDS)


def test_python_and_p4_have_the_same_constants() -> None:
    enum = re.search(r"enum bit<8> Op {(.*?)}", P4, re.S)
    assert enum
    ops = {name: int(code) for name, code in re.findall(r"(\w+)\s*= (\d+)", enum[1])}
    assert ops == {op.name: op.value for op in wire.Op}
    consts = dict(re.findall(r"const bit<\d+>\s+(\w+)\s*= (\w+);", P4))
    assert int(consts["INC_UDP_PORT"]) == wire.INC_UDP_PORT
    assert int(consts["INC_VERSION"]) == wire.VERSION
    assert int(consts["OUR_BYTES"]) == 8 + wire.HEADER_BYTES
    assert sum(bits for _, bits in p4_header("chunk_t")) == 8 * wire.CHUNK_BYTES
    outer = ("ethernet_t", "ipv4_t", "udp_t")
    assert sum(b for h in outer for _, b in p4_header(h)) == 8 * wire.OUTER_BYTES


@given(st.lists(st.binary(min_size=36, max_size=36), min_size=1, max_size=8), st.integers(0, 3))
def test_what_is_decoded_encodes_to_the_same_bytes(texts: list[bytes], extra: int) -> None:
    run = np.frombuffer(b"".join(b"\x01" + t[1:] + bytes(extra) for t in texts), np.uint8)
    run = run.reshape(len(texts), 36 + extra)
    assert (wire.encode(*wire.decode(run)) == run).all()


@pytest.mark.parametrize("length", range(wire.HEADER_BYTES))
def test_a_message_shorter_than_its_header_is_refused(length: int) -> None:
    with pytest.raises(wire.WireError, match=f"{length} bytes, a header has 36"):
        wire.decode(np.ones((2, length), np.uint8))


@given(st.integers(0, 255).filter(lambda version: version != wire.VERSION))
def test_another_version_is_refused_by_its_number(version: int) -> None:
    run = wire.encode(wire.headers(2))
    run[1, 0] = version
    with pytest.raises(wire.WireError, match=f"version {version}, this program speaks 1"):
        wire.decode(run)


@given(st.sets(st.integers(0, 63)))
def test_rank_sets_round_trip(ranks: set[int]) -> None:
    assert wire.ranks_in(wire.rank_set(*ranks)) == sorted(ranks)


@pytest.mark.parametrize("rank", [-1, 64])
def test_a_rank_no_bitmap_holds_is_refused(rank: int) -> None:
    with pytest.raises(wire.WireError, match=f"rank {rank} is outside 0..63"):
        wire.rank_set(rank)


def test_no_constant_of_the_wire_is_written_twice() -> None:
    text = Path(wire.__file__).read_text()
    assert text.count("17710") == 1
