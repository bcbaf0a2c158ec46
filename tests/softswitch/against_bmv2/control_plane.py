# SPDX-License-Identifier: Apache-2.0
"""Random entities for a program, as P4Runtime has them: random_traffic's updates, encoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from p4.v1 import p4runtime_pb2 as p4

from softswitch.errors import SwitchError
from softswitch.p4runtime.pipeline import Host, Pipeline, load_pipeline
from softswitch.p4runtime.read import read
from softswitch.p4runtime.roles import Role
from softswitch.state import Update

T = TypeVar("T")
Write = tuple[p4.Update.Type, p4.Entity]

# In an order in which each may be written: an entry names members, a clone session a group.
KINDS = (
    "action_profile_member",
    "action_profile_group",
    "packet_replication_engine_entry.multicast_group_entry",
    "packet_replication_engine_entry.clone_session_entry",
    "value_set_entry",
    "table_entry",
)


def every(kind: str) -> p4.Entity:
    """A read's entity that asks for all of a kind of KINDS."""
    asked = p4.Entity()
    part = asked
    for name in kind.split("."):
        part = getattr(part, name)
    part.SetInParent()
    return asked


def writes(
    config: p4.ForwardingPipelineConfig, host: Host, updates: Iterable[Update]
) -> list[Write]:
    """What a controller writes to a fresh switch for these updates; those that the program has no
    room for are left out. The host makes engines that are not used.
    """
    pipeline = load_pipeline(config, host)
    for update in updates:
        try:
            pipeline.state.apply([update])
        except SwitchError:
            continue
    found = [_insert(entity) for kind in KINDS for entity in _read(pipeline, every(kind))]
    return [*found, *_defaults(pipeline)]


def _insert(entity: p4.Entity) -> Write:
    kind = p4.Update.MODIFY if entity.HasField("value_set_entry") else p4.Update.INSERT
    return kind, entity


def _defaults(pipeline: Pipeline) -> Iterator[Write]:
    """A default entry is only modified; one that is as the program has it need not be."""
    initial = load_pipeline(pipeline.config, pipeline.host)
    for table in pipeline.info.tables:
        asked = p4.Entity()
        asked.table_entry.table_id = table.id
        asked.table_entry.is_default_action = True
        [now], [before] = _read(pipeline, asked), _read(initial, asked)
        if now != before:
            yield p4.Update.MODIFY, now


def _read(pipeline: Pipeline, asked: p4.Entity) -> list[p4.Entity]:
    found, [error] = read(pipeline, p4.ReadRequest(entities=[asked]), Role())
    assert error is None, error
    return found


def with_priorities_of_their_own(given: Sequence[Write]) -> list[Write]:
    """Which of two entries of one priority wins is undefined."""
    found = []
    for number, (kind, entity) in enumerate(given, start=1):
        if entity.table_entry.priority:
            entity.table_entry.priority = number
        found.append((kind, entity))
    return found
