# SPDX-License-Identifier: Apache-2.0
"""What a program can do that costs every packet something, so that only such programs pay."""

from __future__ import annotations

from softswitch import ir
from softswitch.compiler.layout import walk


def makes_passes(program: ir.Program) -> bool:
    """Whether a frame may go through the switch more than once, or be cloned."""
    return _has(program, ir.Clone, ir.Resubmit, ir.Recirculate)


def sends_digests(program: ir.Program) -> bool:
    return _has(program, ir.SendDigest)


def has_meters(program: ir.Program) -> bool:
    return bool(program.meters) or any(t.direct_meter for t in program.tables.values())


def _has(program: ir.Program, *kinds: type) -> bool:
    return any(isinstance(node, kinds) for node in walk((program.actions, program.parser)))
