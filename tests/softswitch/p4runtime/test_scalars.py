# SPDX-License-Identifier: Apache-2.0
"""Numbers as byte strings: the examples of the specification's section 8.4, and as P4Data."""

import pytest
from google.protobuf import text_format
from google.rpc import code_pb2
from p4.config.v1 import p4types_pb2
from p4.v1 import p4data_pb2
from p4.v1 import p4runtime_pb2 as p4

from softswitch.p4info import ScalarType, scalar_type
from softswitch.p4runtime.bytestrings import decode, decode_signed, encode, encode_signed
from softswitch.p4runtime.digest_data import Kinds, digest_data
from softswitch.p4runtime.scalars import decode_scalar, encode_scalar
from softswitch.p4runtime.status import RpcError
from tests.softswitch.p4runtime.controller import INSERT, MODIFY, Controller
from tests.softswitch.switches import PROGRAMS

DECODERS = {"bit": decode, "int": decode_signed}


@pytest.mark.parametrize(
    ("kind", "bits", "number", "text", "is_shortest"),
    [
        ("bit", 8, 99, "63", True),
        ("bit", 16, 99, "0063", False),
        ("bit", 16, 99, "63", True),
        ("bit", 16, 12388, "3064", True),
        ("bit", 16, 12388, "003064", False),
        ("bit", 12, 99, "0063", False),
        ("bit", 12, 99, "000063", False),
        ("int", 8, 99, "63", True),
        ("int", 8, -99, "9d", True),
        ("int", 8, -99, "ff9d", False),
        ("int", 12, -739, "fd1d", True),
        ("int", 16, 0, "0000", False),
        ("int", 16, 0, "00", True),
        ("int", 16, 128, "0080", True),
        ("int", 16, -128, "80", True),
        ("int", 16, -32768, "8000", True),
        ("int", 1, -1, "ff", True),
    ],
)
def test_examples_of_valid_strings(kind, bits, number, text, is_shortest):
    given, held = bytes.fromhex(text), number & ((1 << bits) - 1)
    assert DECODERS[kind](given, bits, "value") == held
    written = encode(held) if kind == "bit" else encode_signed(held, bits)
    assert (written == given) is is_shortest


@pytest.mark.parametrize(
    ("kind", "bits", "text"),
    [
        ("bit", 8, "0163"),
        ("bit", 8, ""),
        ("bit", 16, "010063"),
        ("bit", 12, "1063"),
        ("bit", 12, "010063"),
        ("bit", 12, "004063"),
        ("int", 8, "009d"),
        ("int", 12, "8d1d"),
        ("int", 16, ""),
    ],
)
def test_examples_of_invalid_strings(kind, bits, text):
    with pytest.raises(RpcError) as error:
        DECODERS[kind](bytes.fromhex(text), bits, "value")
    assert error.value.code == code_pb2.OUT_OF_RANGE


TYPES = text_format.Parse(
    """
    serializable_enums { key: "colour_t" value { underlying_type { bitwidth: 6 } } }
    new_types { key: "own_t" value { original_type { bitstring { int { bitwidth: 9 } } } } }
    new_types { key: "own_own_t" value { original_type { new_type { name: "own_t" } } } }
    new_types { key: "port_t" value { translated_type { uri: "p" sdn_bitwidth: 32 } } }
    """,
    p4types_pb2.P4TypeInfo(),
)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("bitstring { bit { bitwidth: 5 } }", ScalarType(5)),
        ("bitstring { int { bitwidth: 5 } }", ScalarType(5, is_signed=True)),
        ("bool {}", ScalarType(1, data="bool")),
        ('serializable_enum { name: "colour_t" }', ScalarType(6, data="enum_value")),
        ('new_type { name: "own_own_t" }', ScalarType(9, is_signed=True)),
        ('new_type { name: "port_t" }', ScalarType(32)),
        ('struct { name: "pair_t" }', None),
    ],
)
def test_types_of_single_numbers(spec, expected):
    found = scalar_type(text_format.Parse(spec, p4types_pb2.P4DataTypeSpec()), TYPES, {})
    assert found == expected


def test_data_of_another_kind_is_refused():
    colour = ScalarType(6, data="enum_value")
    data = encode_scalar(colour, 33)
    assert data == p4data_pb2.P4Data(enum_value=b"\x21")
    assert decode_scalar(colour, data, "cell") == 33
    with pytest.raises(RpcError, match="cell is a enum_value, not a bitstring"):
        decode_scalar(colour, p4data_pb2.P4Data(bitstring=b"\x21"), "cell")


def test_a_digest_has_signed_numbers():
    spec = p4types_pb2.P4DataTypeSpec()
    spec.bitstring.int.bitwidth = 12
    assert digest_data(spec, Kinds(TYPES), [0xFFF]) == p4data_pb2.P4Data(bitstring=b"\xff")
    assert digest_data(spec, Kinds(TYPES), [255]) == p4data_pb2.P4Data(bitstring=b"\x00\xff")


def test_a_register_of_signed_numbers_is_read_as_it_was_written(switch):
    ctl = Controller(switch, PROGRAMS / "memory.json", PROGRAMS / "memory.p4info.txtpb")
    ctl.set_pipeline()
    entity = p4.Entity()
    entity.register_entry.register_id = ctl.id("registers", "signed_cells")
    entity.register_entry.index.index = 3
    entity.register_entry.data.bitstring = b"\xfd\x1d"
    ctl.write((MODIFY, entity))
    assert ctl.read(entity) == [entity]
    entity.register_entry.data.bitstring = b"\x0f\xff"
    [(_, code, _)] = ctl.refused((MODIFY, entity))
    assert code == "OUT_OF_RANGE"
    everything = p4.Entity(register_entry={"index": {"index": 300}})
    assert len(ctl.read(everything)) == 8 * len(ctl.info.registers)
    [(_, code, _)] = ctl.refused((INSERT, entity))
    assert code == "INVALID_ARGUMENT"
    ctl.client.tear_down()
