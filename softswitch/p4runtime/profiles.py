# SPDX-License-Identifier: Apache-2.0
"""Action profiles: members, groups, and entries that refer to them or have a set of their own."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias

from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from softswitch import ir
from softswitch.p4info import P4Info, ProfileInfo, TableInfo
from softswitch.p4runtime.bytestrings import decode, encode
from softswitch.p4runtime.matches import decode_action, decode_call, encode_action, encode_call
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.status import RpcError, invalid, not_found, unimplemented
from softswitch.state import (
    ActionGroup,
    ActionGroupUpdate,
    ActionSet,
    Change,
    Choice,
    MemberUpdate,
    UseGroup,
    UseMember,
    Weighted,
)
from softswitch.state.checks import MAX_WEIGHT

Watching: TypeAlias = p4runtime_pb2.ActionProfileAction | p4runtime_pb2.ActionProfileGroup.Member
WATCH_BITS = 32  # of a port number


def decode_choice(
    info: P4Info, table: TableInfo, given: p4runtime_pb2.TableAction, ports: Collection[int]
) -> Choice:
    """What an entry of the table does; `ports` are those that can be watched."""
    kind = given.WhichOneof("type")
    if kind is None:
        raise invalid(f"an entry of table {table.name} needs an action")
    if (kind == "action") != (table.profile is None):
        has = "no action profile" if table.profile is None else "an action profile"
        raise invalid(f"table {table.name} has {has}; {kind} given")
    if kind == "action_profile_member_id":
        return UseMember(given.action_profile_member_id)
    if kind == "action_profile_group_id":
        return UseGroup(given.action_profile_group_id)
    if kind == "action_profile_action_set":
        return _decode_set(info, table, given.action_profile_action_set, ports)
    return decode_action(info, table, given, is_default=False)


def _decode_set(
    info: P4Info,
    table: TableInfo,
    given: p4runtime_pb2.ActionProfileActionSet,
    ports: Collection[int],
) -> ActionSet:
    items, what = given.action_profile_actions, f"an action set of table {table.name}"
    weights = [item.weight for item in items]
    if table.profile is not None:
        _check_set(info.profiles.by_id(table.profile), weights, what)
    return ActionSet(
        tuple(
            Weighted(decode_call(info, table, i.action), i.weight, _watched(i, ports, what))
            for i in items
        )
    )


def _check_set(profile: ProfileInfo, weights: Sequence[int], what: str) -> None:
    """Spec section 9.2.3; every weight takes a row of memory."""
    for weight in weights:
        _check_weight(profile, weight, what)
    size, sizes = _size(profile, weights)
    if 0 < profile.most_of_group < size:
        raise invalid(f"{sizes} of {size} in {what}, above {profile.most_of_group}")


def _size(profile: ProfileInfo, weights: Collection[int]) -> tuple[int, str]:
    """What counts against the most of a group, and what it is."""
    return (len(weights), "members") if profile.counts_members else (sum(weights), "weights")


def _check_weight(profile: ProfileInfo, weight: int, what: str) -> None:
    most = min(profile.most_of_member or MAX_WEIGHT, MAX_WEIGHT)
    if not 1 <= weight <= most:
        raise invalid(f"a weight of {weight} in {what}, not in 1..{most}")


def _watched(given: Watching, ports: Collection[int], what: str) -> int | None:
    """The port whose link decides whether this one is chosen."""
    if given.watch:
        raise unimplemented(f"the old field watch, and {what} has it; watch_port took its place")
    if not given.watch_port:
        return None
    port = decode(given.watch_port, WATCH_BITS, f"watch_port in {what}")
    if port not in ports:
        raise invalid(f"watch_port in {what} is {port}, and the switch has no such port")
    return port


def encode_choice(info: P4Info, choice: Choice) -> p4runtime_pb2.TableAction:
    match choice:
        case ir.ActionCall():
            return encode_action(info, choice)
        case UseMember(member):
            return p4runtime_pb2.TableAction(action_profile_member_id=member)
        case UseGroup(group):
            return p4runtime_pb2.TableAction(action_profile_group_id=group)
        case ActionSet(items):
            out = p4runtime_pb2.TableAction()
            for item in items:
                out.action_profile_action_set.action_profile_actions.add(
                    action=encode_call(info, item.call),
                    weight=item.weight,
                    watch_port=_encode_watched(item.watched),
                )
            return out


def _encode_watched(port: int | None) -> bytes | None:
    return None if port is None else encode(port)


def decode_member(
    info: P4Info, change: Change, given: p4runtime_pb2.ActionProfileMember
) -> MemberUpdate:
    profile = info.profiles.by_id(given.action_profile_id)
    call = None
    if change is not Change.DELETE:
        _check_id("member", given.member_id, profile)
        if not profile.tables:
            raise invalid(f"action profile {profile.name} belongs to no table")
        call = decode_call(info, info.tables.by_id(profile.tables[0]), given.action)
    return MemberUpdate(change, profile.name, given.member_id, call)


def decode_group(
    info: P4Info,
    change: Change,
    given: p4runtime_pb2.ActionProfileGroup,
    ports: Collection[int],
) -> ActionGroupUpdate:
    """`ports` are those that can be watched."""
    profile, group = info.profiles.by_id(given.action_profile_id), given.group_id
    if change is Change.DELETE:
        return ActionGroupUpdate(change, profile.name, group)
    _check_id("group", group, profile)
    weights: dict[int, int] = {}
    watched: dict[int, int] = {}
    for member in given.members:
        if member.member_id in weights:
            raise invalid(f"member {member.member_id} is twice in group {group}")
        if (port := _watched(member, ports, f"group {group}")) is not None:
            watched[member.member_id] = port
        _check_weight(profile, member.weight, f"group {group}")
        weights[member.member_id] = member.weight
    _check_size(profile, group, weights.values(), given.max_size)
    value = ActionGroup(weights, given.max_size, watched)
    return ActionGroupUpdate(change, profile.name, group, value)


def _check_id(kind: str, number: int, profile: ProfileInfo) -> None:
    if number == 0:
        raise invalid(f"a {kind} of action profile {profile.name} needs an id above 0")


def _check_size(profile: ProfileInfo, group: int, weights: Collection[int], max_size: int) -> None:
    """Spec section 9.2.2; a max_size of 0 is taken for the profile's own, as BMv2 does."""
    most = profile.most_of_group
    if max_size < 0 or 0 < most < max_size:
        limit = f"0..{most}" if most else "0 or above"
        raise invalid(f"max_size of group {group} is {max_size}, not {limit}")
    size, sizes = _size(profile, weights)
    limit_of_size = max_size or most
    if limit_of_size and size > limit_of_size:
        message = f"the {sizes} of group {group} come to {size}, above {limit_of_size}"
        raise RpcError(code_pb2.RESOURCE_EXHAUSTED, message)


def read_members(
    pipeline: Pipeline, asked: p4runtime_pb2.ActionProfileMember
) -> Iterator[p4runtime_pb2.ActionProfileMember]:
    """One member, all of one profile, or all; of all profiles those of one number."""
    for profile in _profiles(pipeline, asked.action_profile_id):
        members = pipeline.state.snapshot.profiles[profile.name].members
        if asked.action_profile_id and asked.member_id and asked.member_id not in members:
            raise not_found(f"action profile {profile.name} has no member {asked.member_id}")
        for number in sorted(members):
            if asked.member_id not in (0, number):
                continue
            yield p4runtime_pb2.ActionProfileMember(
                action_profile_id=profile.id,
                member_id=number,
                action=encode_call(pipeline.info, members[number]),
            )


def read_groups(
    pipeline: Pipeline, asked: p4runtime_pb2.ActionProfileGroup
) -> Iterator[p4runtime_pb2.ActionProfileGroup]:
    """One group, all of one profile, or all; of all profiles those of one number."""
    for profile in _profiles(pipeline, asked.action_profile_id):
        groups = pipeline.state.snapshot.profiles[profile.name].groups
        if asked.action_profile_id and asked.group_id and asked.group_id not in groups:
            raise not_found(f"action profile {profile.name} has no group {asked.group_id}")
        for number in sorted(groups):
            if asked.group_id not in (0, number):
                continue
            group = groups[number]
            out = p4runtime_pb2.ActionProfileGroup(
                action_profile_id=profile.id, group_id=number, max_size=group.max_size
            )
            for member, weight in group.weights.items():
                port = _encode_watched(group.watched.get(member))
                out.members.add(member_id=member, weight=weight, watch_port=port)
            yield out


def _profiles(pipeline: Pipeline, number: int) -> list[ProfileInfo]:
    profiles = pipeline.info.profiles
    return [profiles.by_id(number)] if number else list(profiles)
