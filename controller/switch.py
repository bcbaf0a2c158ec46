# SPDX-License-Identifier: Apache-2.0
"""One switch: reads back what it holds, repairs what differs, verifies. Plans no job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Any, Final, Self

from p4.v1 import p4runtime_pb2

from controller import tables
from controller.allocate import Holding
from controller.drops import Drop
from controller.entries import Entry
from controller.errors import SwitchError
from controller.pipeline import Pipeline, config_message
from controller.session import DEADLINE_S, NOBODY, Credentials, Session
from controller.state import Changes, Scope, SwitchState, changes, everything
from host_agent.wire import Op
from p4src import Compiled


class Load(Enum):
    """When to load the program."""

    AUTO = "auto"  # where the switch has another one and no jobs
    KEEP = "keep"  # never
    FORCE = "force"  # always; what the switch holds is lost


@dataclass(frozen=True, slots=True)
class Count:
    """A counter's cell."""

    packets: int
    bytes: int


# Counter -> the names of its indices.
INDEX_NAMES: Final = {
    tables.DROPS: {int(reason): reason.name for reason in Drop},
    tables.OPS: {int(op): op.name for op in Op},
    tables.PRUNED: {},
    tables.LOST: {},
}


class Switch:
    """A connected switch. Close it, or use it in a `with` block."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._pipeline: Pipeline | None = None

    @classmethod
    def connect(
        cls,
        address: str,
        *,
        device_id: int = 0,
        writes: bool,
        deadline_s: float = DEADLINE_S,
        credentials: Credentials = NOBODY,
    ) -> Self:
        """Connect to the P4Runtime server at `address`; raises SwitchError."""
        session = Session(
            address, device_id, writes=writes, deadline_s=deadline_s, credentials=credentials
        )
        return cls(session)

    @property
    def address(self) -> str:
        """HOST:PORT of the P4Runtime server."""
        return self._session.address

    @property
    def pipeline(self) -> Pipeline:
        """The program the switch runs; raises SwitchError where it is not ours."""
        if self._pipeline is None:
            config = self._session.get_config("P4INFO_AND_COOKIE")
            if config is None:
                raise SwitchError(self.address, "has no program; load one with `controller apply`")
            pipeline = Pipeline(config.p4info)
            if pipeline.missing:
                missing = ", ".join(pipeline.missing)
                raise SwitchError(self.address, f"runs another program: it has no {missing}")
            self._pipeline = pipeline
        return self._pipeline

    def load(self, compiled: Compiled, *, how: Load) -> bool:
        """See to it that the switch runs `compiled`; say whether it was loaded now."""
        wanted = config_message(compiled)
        have = self._session.get_config("ALL")
        if how is not Load.FORCE and have is not None and _same(have, wanted):
            return False
        if how is Load.KEEP:
            raise SwitchError(self.address, f"does not run {compiled.json.name}")
        if have is not None and not Pipeline(have.p4info).missing:
            self._clear(how, compiled)
        self._session.set_config(wanted)
        self._pipeline = None
        return True

    def _clear(self, how: Load, compiled: Compiled) -> None:
        # BMv2 keeps its multicast groups over a new program, where P4Runtime no longer shows them.
        state = self.read_state()
        names = [job.name or f"number {job.id}" for job in state.jobs().values()]
        if names and how is not Load.FORCE:
            problem = f"runs another program than {compiled.json.name} for job {', '.join(names)}"
            raise SwitchError(self.address, f"{problem}; remove it, or force the load")
        self.reconcile([], scope=everything)

    def holding(self) -> Holding:
        """Return the switch's sizes and what it holds now."""
        return Holding(self.pipeline.sizes(), self.read_state())

    def read_state(self) -> SwitchState:
        """Read all rows and multicast groups back."""
        wanted = []
        for name in self.pipeline.tables:
            entity = p4runtime_pb2.Entity()
            entity.table_entry.table_id = self.pipeline.table_id(name)
            wanted.append(entity)
        groups = p4runtime_pb2.Entity()
        groups.packet_replication_engine_entry.multicast_group_entry.SetInParent()
        found = self._session.read([*wanted, groups])
        entries = (self.pipeline.entry(entity) for entity in found)
        return SwitchState.of(entry for entry in entries if entry is not None)

    def reconcile(self, want: Iterable[Entry], *, scope: Scope) -> Changes:
        """Make what is in `scope` equal to `want`; return what had to be changed.

        Reads back at the end and raises SwitchError where the switch holds something else.
        """
        entries = list(want)
        done = changes(self.read_state(), entries, scope)
        if done:
            self._write(done)
            left = changes(self.read_state(), entries, scope)
            if left:
                raise SwitchError(self.address, f"does not hold what was written: {left}")
        return done

    def counters(self) -> dict[str, dict[str, Count]]:
        """Return every counter by name and index name, cells at zero left out."""
        return {name: self._counter(name) for name in self.pipeline.counters}

    def _counter(self, name: str) -> dict[str, Count]:
        entity = p4runtime_pb2.Entity()
        entity.counter_entry.counter_id = self.pipeline.counter_id(name)
        names = INDEX_NAMES[name]
        cells = {
            found.counter_entry.index.index: found.counter_entry.data
            for found in self._session.read([entity])
        }
        return {
            names.get(index, str(index)): Count(data.packet_count, data.byte_count)
            for index, data in sorted(cells.items())
            if data.packet_count
        }

    def _write(self, todo: Changes) -> None:
        self._send("DELETE", todo.delete)
        # A group BMv2 kept over a new program shows only in its copies: insert, delete, insert.
        self._send("INSERT", todo.insert_groups)
        self._send("DELETE", todo.insert_groups)
        self._send("INSERT", todo.insert_groups)
        self._send("MODIFY", todo.modify)
        self._send("INSERT", todo.insert)

    def _send(self, kind: str, entries: Iterable[Entry]) -> None:
        listed = list(entries)
        entities = [self.pipeline.entity(entry) for entry in listed]
        self._session.write_all(kind, entities, lambda index: str(listed[index]))

    def close(self) -> None:
        """Close the connection; the switch keeps what it holds."""
        self._session.tear_down()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _same(have: Any, wanted: Any) -> bool:
    if have.cookie.cookie:
        return bool(have.cookie.cookie == wanted.cookie.cookie)
    return bool(have.p4info == wanted.p4info and have.p4_device_config == wanted.p4_device_config)
