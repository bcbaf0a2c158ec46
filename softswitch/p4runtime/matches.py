# SPDX-License-Identifier: Apache-2.0
"""Match fields and actions, from P4Runtime messages and back; pure functions of the schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from softswitch import ir
from softswitch.p4info import DATA_PLANE_KIND, ActionInfo, FieldInfo, FieldKind, P4Info, TableInfo
from softswitch.p4runtime.bytestrings import decode, encode
from softswitch.p4runtime.scalars import decode_part, encode_part
from softswitch.p4runtime.status import RpcError, invalid

Matches = tuple[ir.Match, ...]


def decode_matches(
    owner: str,
    fields: tuple[FieldInfo, ...],
    given: Iterable[p4runtime_pb2.FieldMatch],
    *,
    is_new: bool,
) -> Matches:
    """One value for each field, wildcards for those left out (spec section 9.1.1). `is_new` as of
    `decode_part`.
    """
    by_id: dict[int, p4runtime_pb2.FieldMatch] = {}
    known = {field.id for field in fields}
    for match in given:
        if match.field_id not in known:
            raise invalid(f"{owner} has no match field with id {match.field_id}")
        if match.field_id in by_id:
            raise invalid(f"match field {match.field_id} of {owner} is given twice")
        by_id[match.field_id] = match
    found = ((field, by_id.get(field.id)) for field in fields)
    return tuple(_decode_match(owner, field, match, is_new=is_new) for field, match in found)


def _decode_match(
    owner: str, field: FieldInfo, match: p4runtime_pb2.FieldMatch | None, *, is_new: bool
) -> ir.Match:
    what = f"match field {field.name} of {owner}"
    if match is None:
        return _wildcard(field, what)
    kind = match.WhichOneof("field_match_type")
    if kind != field.kind.value.lower():
        raise invalid(f"{what} is {field.kind.value}, not {kind}")
    if kind == "exact":
        return ir.Exact(decode_part(field, match.exact.value, what, is_new=is_new))
    if kind == "optional":
        value = decode_part(field, match.optional.value, what, is_new=is_new)
        return ir.Ternary(value, (1 << field.bits) - 1)
    return _DECODERS[kind](match, field.bits, what)


def _wildcard(field: FieldInfo, what: str) -> ir.Match:
    if field.kind is FieldKind.EXACT:
        raise invalid(f"{what} is EXACT and must be given")
    everything: dict[ir.MatchKind, ir.Match] = {
        ir.MatchKind.LPM: ir.Lpm(0, 0),
        ir.MatchKind.TERNARY: ir.Ternary(0, 0),
        ir.MatchKind.RANGE: ir.Range(0, (1 << field.bits) - 1),
    }
    return everything[DATA_PLANE_KIND[field.kind]]


def _decode_lpm(match: p4runtime_pb2.FieldMatch, bits: int, what: str) -> ir.Match:
    value, prefix = decode(match.lpm.value, bits, what), match.lpm.prefix_len
    if not 1 <= prefix <= bits:
        raise invalid(f"{what}: prefix length {prefix} is not in 1..{bits}; leave out a wildcard")
    if value & ((1 << (bits - prefix)) - 1):
        raise invalid(f"{what}: {value:#x} has bits below its prefix /{prefix}")
    return ir.Lpm(value, prefix)


def _decode_ternary(match: p4runtime_pb2.FieldMatch, bits: int, what: str) -> ir.Match:
    value = decode(match.ternary.value, bits, what)
    mask = decode(match.ternary.mask, bits, f"mask of {what}")
    if mask == 0:
        raise invalid(f"{what}: a mask of 0 is a wildcard, which must be left out")
    if value & ~mask:
        raise invalid(f"{what}: {value:#x} has bits outside its mask {mask:#x}")
    return ir.Ternary(value, mask)


def _decode_range(match: p4runtime_pb2.FieldMatch, bits: int, what: str) -> ir.Match:
    low = decode(match.range.low, bits, f"low of {what}")
    high = decode(match.range.high, bits, f"high of {what}")
    if low > high:
        raise invalid(f"{what}: empty range {low:#x}..{high:#x}")
    if (low, high) == (0, (1 << bits) - 1):
        raise invalid(f"{what}: the full range is a wildcard, which must be left out")
    return ir.Range(low, high)


_DECODERS: dict[str, Callable[[p4runtime_pb2.FieldMatch, int, str], ir.Match]] = {
    "lpm": _decode_lpm,
    "ternary": _decode_ternary,
    "range": _decode_range,
}


def encode_matches(
    fields: tuple[FieldInfo, ...], matches: Matches
) -> list[p4runtime_pb2.FieldMatch]:
    """The match fields of an entry in canonical form: wildcards are left out."""
    pairs = zip(fields, matches, strict=True)
    encoded = (_encode_match(field, match) for field, match in pairs)
    return [match for match in encoded if match is not None]


def _encode_match(field: FieldInfo, match: ir.Match) -> p4runtime_pb2.FieldMatch | None:
    out = p4runtime_pb2.FieldMatch(field_id=field.id)
    match match:
        case ir.Exact(value):
            out.exact.value = encode_part(field, value)
        case ir.Lpm(value, prefix):
            if prefix == 0:
                return None
            out.lpm.value, out.lpm.prefix_len = encode(value), prefix
        case ir.Ternary(value, mask):
            if mask == 0:
                return None
            if field.kind is FieldKind.OPTIONAL:
                out.optional.value = encode_part(field, value)
            else:
                out.ternary.value, out.ternary.mask = encode(value), encode(mask)
        case ir.Range(low, high):
            if (low, high) == (0, (1 << field.bits) - 1):
                return None
            out.range.low, out.range.high = encode(low), encode(high)
    return out


def decode_action(
    info: P4Info, table: TableInfo, given: p4runtime_pb2.TableAction, *, is_default: bool
) -> ir.ActionCall:
    """The call that an entry, or the default entry, of the table is to make."""
    if given.WhichOneof("type") != "action":
        raise invalid(f"an entry of table {table.name} needs an action")
    return decode_call(info, table, given.action, is_default=is_default)


def decode_call(
    info: P4Info, table: TableInfo, given: p4runtime_pb2.Action, *, is_default: bool = False
) -> ir.ActionCall:
    """A call of one of the table's actions."""
    if given.action_id not in info.actions:
        raise invalid(f"no action has the id {given.action_id:#x}, in table {table.name}")
    action = info.actions.by_id(given.action_id)
    _check_use(table, action, is_default=is_default)
    values = _decode_params(action.name, given.params)
    known = {param.id for param in action.parameters}
    if set(values) != known:
        raise invalid(
            f"action {action.name} takes the parameters {sorted(known)}, not {sorted(values)}"
        )
    arguments = (
        decode_part(p, values[p.id], f"{p.name} of {action.name}") for p in action.parameters
    )
    return ir.ActionCall(action.name, tuple(arguments))


def _check_use(table: TableInfo, action: ActionInfo, *, is_default: bool) -> None:
    use = table.actions.get(action.id)
    if use is None:
        raise invalid(f"table {table.name} has no action {action.name}")
    if is_default and not use.as_default:
        raise _out_of_scope(f"action {action.name} cannot be the default of table {table.name}")
    if not is_default and not use.in_entries:
        raise _out_of_scope(f"action {action.name} can only be the default of table {table.name}")


def _out_of_scope(message: str) -> RpcError:
    return RpcError(code_pb2.PERMISSION_DENIED, message)


def _decode_params(action: str, params: Iterable[p4runtime_pb2.Action.Param]) -> dict[int, bytes]:
    values: dict[int, bytes] = {}
    for param in params:
        if param.param_id in values:
            raise invalid(f"parameter {param.param_id} of {action} is given twice")
        values[param.param_id] = param.value
    return values


def encode_action(info: P4Info, call: ir.ActionCall) -> p4runtime_pb2.TableAction:
    return p4runtime_pb2.TableAction(action=encode_call(info, call))


def encode_call(info: P4Info, call: ir.ActionCall) -> p4runtime_pb2.Action:
    action = info.actions.by_name(call.action)
    out = p4runtime_pb2.Action(action_id=action.id)
    for param, value in zip(action.parameters, call.arguments, strict=True):
        out.params.add(param_id=param.id, value=encode_part(param, value))
    return out
