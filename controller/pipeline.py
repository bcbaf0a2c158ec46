# SPDX-License-Identifier: Apache-2.0
"""P4Info: names to ids and sizes, and values to P4Runtime messages and back. Does no I/O."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Final

from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2

from controller import tables
from controller.allocate import Sizes
from controller.entries import Entry, MulticastGroup, Row, Value
from controller.errors import ControllerError
from p4src import Compiled

KINDS: Final = ("tables", "actions", "counters", "registers")


class Pipeline:
    """The P4Info of a program, looked up by name and by id."""

    def __init__(self, p4info: Any) -> None:
        self.p4info = p4info
        everything = [(kind, one) for kind in KINDS for one in getattr(p4info, kind)]
        self._by_name = {(kind, one.preamble.name): one for kind, one in everything}
        self._by_id = {one.preamble.id: one for _, one in everything}

    @property
    def missing(self) -> list[str]:
        """Names this controller uses that the program does not have."""
        used = [("tables", name) for name in tables.TABLES]
        used += [("actions", name) for _, actions in tables.TABLES.values() for name in actions]
        used += [("counters", name) for name in tables.COUNTERS]
        used += [("registers", name) for name in (tables.SLOT_REGISTER, tables.CELL_REGISTER)]
        return [name for kind, name in used if (kind, name) not in self._by_name]

    @property
    def tables(self) -> list[str]:
        """Names of the tables that this controller writes."""
        faulty = [name for name in tables.FAULT_TABLES if ("tables", name) in self._by_name]
        return [*tables.TABLES, *faulty]

    @property
    def counters(self) -> list[str]:
        """Names of the counters that this controller reads."""
        return [*tables.COUNTERS, *[tables.LOST] * (("counters", tables.LOST) in self._by_name)]

    def sizes(self) -> Sizes:
        """Return what jobs share, as the program has it."""
        registers = [name for kind, name in self._by_name if kind == "registers"]
        return Sizes(
            slots=self._by_name["registers", tables.SLOT_REGISTER].size,
            cells=self._by_name["registers", tables.CELL_REGISTER].size,
            max_chunks=sum(name.startswith(tables.CHUNK_REGISTERS) for name in registers),
        )

    def counter_id(self, name: str) -> int:
        """Return the id of a counter."""
        return int(self._by_name["counters", name].preamble.id)

    def table_id(self, name: str) -> int:
        """Return the id of a table."""
        return int(self._by_name["tables", name].preamble.id)

    def table_name(self, table_id: int) -> str:
        """Return the name of a table."""
        return str(self._by_id[table_id].preamble.name)

    def entity(self, entry: Entry) -> Any:
        """Return the P4Runtime entity of a value."""
        entity = p4runtime_pb2.Entity()
        if isinstance(entry, MulticastGroup):
            group = entity.packet_replication_engine_entry.multicast_group_entry
            group.multicast_group_id = entry.id
            for port in entry.ports:
                group.replicas.add(egress_port=port, instance=1)
        else:
            self._fill_row(entity.table_entry, entry)
        return entity

    def entry(self, entity: Any) -> Entry | None:
        """Return the value of an entity; None where it is none of this controller's kinds."""
        if entity.HasField("packet_replication_engine_entry"):
            group = entity.packet_replication_engine_entry.multicast_group_entry
            ports = sorted(_replica_port(replica) for replica in group.replicas)
            return MulticastGroup(group.multicast_group_id, tuple(ports))
        message = entity.table_entry
        if message.is_default_action or self.table_name(message.table_id) not in self.tables:
            return None
        return self._row(message)

    def _fill_row(self, message: Any, row: Row) -> None:
        table = self._by_name["tables", row.table]
        action = self._by_name["actions", row.action]
        message.table_id = table.preamble.id
        message.metadata = row.note.encode()
        for field in table.match_fields:
            if field.match_type == field.LPM:
                self._fill_lpm(message, field, row.key[field.name])
            else:
                exact = message.match.add(field_id=field.id).exact
                exact.value = _bytes(row.key[field.name])
        message.action.action.action_id = action.preamble.id
        for param in action.params:
            value = _bytes(row.args[param.name])
            message.action.action.params.add(param_id=param.id, value=value)

    def _fill_lpm(self, message: Any, field: Any, prefix: Value) -> None:
        assert isinstance(prefix, tuple)
        value, length = prefix
        if length:  # the default route matches on nothing
            lpm = message.match.add(field_id=field.id).lpm
            lpm.value, lpm.prefix_len = _bytes(value), length

    def _row(self, message: Any) -> Row:
        table = self._by_id[message.table_id]
        action = self._by_id[message.action.action.action_id]
        given = {match.field_id: match for match in message.match}
        params = {param.param_id: _number(param.value) for param in message.action.action.params}
        return Row(
            table=table.preamble.name,
            key={field.name: _key(field, given.get(field.id)) for field in table.match_fields},
            action=action.preamble.name,
            args={param.name: params[param.id] for param in action.params},
            note=message.metadata.decode(errors="replace"),
        )


def read_p4info(path: Path) -> Any:
    """Return the P4Info message of a text file."""
    try:
        return text_format.Parse(path.read_text(), p4info_pb2.P4Info())
    except (OSError, text_format.ParseError) as error:
        raise ControllerError(f"P4Info {path.name}: {error}") from None


def config_message(compiled: Compiled) -> Any:
    """Return the P4Runtime pipeline configuration of a compiled program, marked by a cookie."""
    config = p4runtime_pb2.ForwardingPipelineConfig()
    config.p4info.CopyFrom(read_p4info(compiled.p4info))
    config.p4_device_config = compiled.json.read_bytes()
    digest = hashlib.sha256(config.p4_device_config + compiled.p4info.read_bytes())
    config.cookie.cookie = int.from_bytes(digest.digest()[:8])
    return config


def _key(field: Any, match: Any) -> Value:
    if field.match_type != field.LPM:
        return _number(match.exact.value)
    return (_number(match.lpm.value), match.lpm.prefix_len) if match else (0, 0)


def _replica_port(replica: Any) -> int:
    return _number(replica.port) if replica.port else int(replica.egress_port)


def _bytes(value: Value) -> bytes:
    """The shortest bytes of a number: the canonical form (P4Runtime 1.3, section 8.4)."""
    assert isinstance(value, int)
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8))


def _number(value: bytes) -> int:
    return int.from_bytes(value)
