# SPDX-License-Identifier: Apache-2.0
"""Changes protobuf messages and bytes at random; it knows no P4Runtime."""

from __future__ import annotations

import random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

Field = Any  # a FieldDescriptor, of an older protobuf than the type stubs are for
_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, (1 << 64) - 1),
    FieldDescriptor.CPPTYPE_ENUM: (0, 12),
}
REPEATED: int = 3  # FieldDescriptor.LABEL_REPEATED
MAX_BYTES = 80


def mutate(rng: random.Random, message: Message, depth: int = 8) -> None:
    """Changes one field of the message or, more often, of a message in it."""
    listed: list[tuple[Field, Any]] = list(message.ListFields())
    present = [field for field, _ in listed if field.message_type is not None]
    if present and depth and rng.random() < 0.85:
        sizes = [_size(message, field) for field in present]
        mutate_inside(rng, message, rng.choices(present, sizes)[0], depth)
        return
    fields: list[Field] = list(message.DESCRIPTOR.fields)
    if not fields:
        return
    field = rng.choice(fields)
    if rng.random() < 0.2:
        message.ClearField(field.name)
    elif field.label == REPEATED:
        _change_repeated(rng, message, field)
    elif field.message_type is not None:
        getattr(message, field.name).SetInParent()
    else:
        setattr(message, field.name, value(rng, field))


def _size(message: Message, field: Field) -> int:
    """How much there is in it to change."""
    inner = getattr(message, field.name)
    items = inner if field.label == REPEATED else [inner]
    if field.label == REPEATED and field.message_type.GetOptions().map_entry:
        return 1
    size: int = 1 + sum(one.ByteSize() for one in items)
    return size


def mutate_inside(rng: random.Random, message: Message, field: Field, depth: int) -> None:
    inner = getattr(message, field.name)
    if field.label != REPEATED:
        mutate(rng, inner, depth - 1)
    elif field.message_type.GetOptions().map_entry or not len(inner):
        message.ClearField(field.name)
    elif rng.random() < 0.8:
        mutate(rng, rng.choice(inner), depth - 1)
    else:
        _change_repeated(rng, message, field)


def _change_repeated(rng: random.Random, message: Message, field: Field) -> None:
    items: Any = getattr(message, field.name)
    if field.message_type is not None:
        if field.message_type.GetOptions().map_entry:
            return
        if len(items) and rng.random() < 0.5:
            items.add().CopyFrom(rng.choice(items))
        else:
            items.add()
    elif len(items) and rng.random() < 0.5:
        del items[rng.randrange(len(items))]
    else:
        items.append(value(rng, field))


def value(rng: random.Random, field: Field) -> Any:
    """Any value of a scalar field, the limits of its type among them."""
    kind = field.cpp_type
    if kind in _INTEGERS:
        low, high = _INTEGERS[kind]
        small = rng.randint(max(low, -2), min(high, 600))
        return rng.choice([low, high, small, small, rng.randint(low, high)])
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return rng.random() < 0.5
    if field.type == FieldDescriptor.TYPE_BYTES:
        return rng.randbytes(rng.choice([0, 1, 2, 4, 6, 16, rng.randrange(MAX_BYTES)]))
    if kind == FieldDescriptor.CPPTYPE_STRING:
        noise = rng.randbytes(rng.randrange(MAX_BYTES))
        return rng.choice(["", "*", "x", noise.decode("latin-1")])
    return rng.uniform(-1e9, 1e9)


def spoil(rng: random.Random, data: bytes) -> bytes:
    """Bytes with some of them changed, missing, or more than there were."""
    spoilt = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(spoilt) + 1)
        match rng.randrange(4):
            case 0 if at < len(spoilt):
                spoilt[at] ^= 1 << rng.randrange(8)
            case 1:
                del spoilt[at:]
            case 2:
                spoilt[at:at] = rng.randbytes(rng.randint(1, 9))
            case _:
                del spoilt[at : at + rng.randint(1, 5)]
    return bytes(spoilt)
