# SPDX-License-Identifier: Apache-2.0
"""Entries in words, for messages; nothing reads them back."""

from __future__ import annotations

from softswitch.ir import ActionCall, Exact, Lpm, Match, Range, Table, Ternary
from softswitch.state.snapshot import ActionSet, Choice, UseGroup, UseMember


def describe_key(table: Table, matches: tuple[Match, ...], priority: int) -> str:
    """Such as `(hdr.ipv4.dst=0xa000000/8, hdr.ipv4.protocol=0x6) of priority 5`."""
    pairs = zip(table.keys, matches, strict=True)
    text = ", ".join(f"{key.name}={describe_match(match)}" for key, match in pairs)
    return f"({text}) of priority {priority}" if priority else f"({text})"


def describe_match(match: Match) -> str:
    match match:
        case Exact(value):
            return f"{value:#x}"
        case Lpm(value, prefix_bits):
            return f"{value:#x}/{prefix_bits}"
        case Ternary(value, mask):
            return f"{value:#x}&{mask:#x}"
        case Range(low, high):
            return f"{low:#x}..{high:#x}"


def describe_choice(choice: Choice) -> str:
    match choice:
        case ActionCall():
            return f"action {choice.action}"
        case UseMember(member):
            return f"member {member}"
        case UseGroup(group):
            return f"group {group}"
        case ActionSet():
            return "an action set"
