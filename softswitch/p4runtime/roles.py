# SPDX-License-Identifier: Apache-2.0
"""What the roles of controllers may do, and who may take them; elects nobody, knows no gRPC.

A role's scope is agreed outside of P4Runtime (spec 1.4, section 5): in a file that the switch is
given. Without one, every role may do everything. With one, other roles than its own are refused.

    {"":        {"clients": ["controller"]},
     "monitor": {"clients": ["grafana"], "reads": ["drops", "ops"], "writes": [],
                 "pipeline": false}}

`clients` are the common names of certificates (left out: anyone); `reads` and `writes` are patterns
of names of tables, action profiles, counters, meters, registers, value sets and digests as P4Info
has them, and "groups" for multicast groups and clone sessions (left out: all). `pipeline`: whether
the role may load a program, `packets`: whether it sends and gets packets (left out: it may). A role
is told of those digests and idle entries that it may read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Self

from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from softswitch.errors import SwitchError
from softswitch.p4info import Items, P4Info
from softswitch.p4runtime.status import RpcError, not_found

GROUPS = "groups"
ALL = ("*",)
_SWITCHES = ("pipeline", "packets")  # true or false


class RolesError(SwitchError):
    """A file of roles that cannot be used; names what is wrong in it."""


@dataclass(frozen=True, slots=True)
class Role:
    """One role's scope."""

    name: str = ""
    clients: tuple[str, ...] | None = None
    reads: tuple[str, ...] = ALL
    writes: tuple[str, ...] = ALL
    pipeline: bool = True
    packets: bool = True

    def may_read(self, info: P4Info, entity: p4runtime_pb2.Entity) -> bool:
        """Whether an entity may be read; one that stands for all of its kind always may."""
        name = name_of(info, entity)
        return name is None or _matches(name, self.reads)

    def check_read(self, info: P4Info, entity: p4runtime_pb2.Entity) -> None:
        """PERMISSION_DENIED for an entity that may not be read."""
        if not self.may_read(info, entity):
            raise self._denied(f"may not read {name_of(info, entity)}")

    def check_write(self, info: P4Info, entity: p4runtime_pb2.Entity) -> None:
        """PERMISSION_DENIED for an entity that may not be written."""
        name = name_of(info, entity)
        if name is not None and not _matches(name, self.writes):
            raise self._denied(f"may not write {name}")

    def check_pipeline(self) -> None:
        """PERMISSION_DENIED for a role that may not load a program."""
        if not self.pipeline:
            raise self._denied("may not load a program")

    def check_packets(self) -> None:
        """PERMISSION_DENIED for a role that may not send packets."""
        if not self.packets:
            raise self._denied("may not send packets")

    def check_client(self, client: str) -> None:
        """PERMISSION_DENIED for a client that may not take the role."""
        if self.clients is not None and client not in self.clients:
            who = f"client {client!r}" if client else "a client without a certificate"
            raise _denied(f"{who} may not take {_title(self.name)}")

    def _denied(self, what: str) -> RpcError:
        return _denied(f"{_title(self.name)} {what}")


@dataclass(frozen=True, slots=True)
class Roles:
    """All roles of a switch; none named: any role may do everything."""

    named: Mapping[str, Role] = field(default_factory=dict)

    def scope(self, name: str) -> Role:
        """Return a role that was taken before."""
        return self.named.get(name, Role(name))

    def taken(self, name: str, client: str) -> Role:
        """Return the role that a client takes; NOT_FOUND, PERMISSION_DENIED where it may not."""
        if not self.named:
            return Role(name)
        if name not in self.named:
            raise not_found(f"{_title(name)} is unknown here")
        role = self.named[name]
        role.check_client(client)
        return role

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file; RolesError names what is wrong in it."""
        try:
            document = json.loads(path.read_text())
        except OSError as error:
            raise RolesError(f"cannot read {path}: {error.strerror}") from error
        except ValueError as error:
            raise RolesError(f"{path} is not JSON: {error}") from error
        if not isinstance(document, dict) or not document:
            raise RolesError(f"{path}: not an object with at least one role")
        return cls({name: _role(path, name, scope) for name, scope in document.items()})


def _role(path: Path, name: str, scope: Any) -> Role:
    known = [one.name for one in fields(Role)][1:]
    where = f"{path}: {_title(name)}"
    if not isinstance(scope, dict):
        raise RolesError(f"{where}: not an object")
    for key, value in scope.items():
        if key not in known:
            raise RolesError(f"{where}: unknown field {key!r}, known are {', '.join(known)}")
        is_switch = key in _SWITCHES
        if is_switch and not isinstance(value, bool):
            raise RolesError(f"{where}: {key} is {value!r}, not true or false")
        if not is_switch and not _is_names(value):
            raise RolesError(f"{where}: {key} is {value!r}, not a list of names")
    values: dict[str, Any] = {
        key: tuple(v) if isinstance(v, list) else v for key, v in scope.items()
    }
    return Role(name, **values)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def name_of(info: P4Info, entity: p4runtime_pb2.Entity) -> str | None:
    """Return what an entity belongs to, by P4Info's name; None for all of a kind, or nothing known.

    What is unknown is refused elsewhere, by whoever has to understand it.
    """
    kind = entity.WhichOneof("entity")
    if kind == "packet_replication_engine_entry":
        one = entity.packet_replication_engine_entry
        names_one = (
            one.multicast_group_entry.multicast_group_id or one.clone_session_entry.session_id
        )
        return GROUPS if names_one else None
    if kind not in _NAMES:
        return None
    items, number = _NAMES[kind](info, getattr(entity, kind))
    return items.by_id(number).name if number in items else None


_NAMES: dict[str | None, Callable[[P4Info, Any], tuple[Items[Any], int]]] = {
    "table_entry": lambda info, one: (info.tables, one.table_id),
    "direct_counter_entry": lambda info, one: (info.tables, one.table_entry.table_id),
    "counter_entry": lambda info, one: (info.counters, one.counter_id),
    "meter_entry": lambda info, one: (info.meters, one.meter_id),
    "direct_meter_entry": lambda info, one: (info.tables, one.table_entry.table_id),
    "action_profile_member": lambda info, one: (info.profiles, one.action_profile_id),
    "action_profile_group": lambda info, one: (info.profiles, one.action_profile_id),
    "register_entry": lambda info, one: (info.registers, one.register_id),
    "value_set_entry": lambda info, one: (info.value_sets, one.value_set_id),
    "digest_entry": lambda info, one: (info.digests, one.digest_id),
}


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _title(name: str) -> str:
    return f"role {name!r}" if name else "the default role"


def _denied(message: str) -> RpcError:
    return RpcError(code_pb2.PERMISSION_DENIED, message)
