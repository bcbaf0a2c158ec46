# SPDX-License-Identifier: Apache-2.0
"""One program on the three switches: control plane after control plane, window after window."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2 as p4

from softswitch import ir
from softswitch.bmv2_json import load
from softswitch.compiler import CompiledEngine
from softswitch.interpreter import Interpreter
from softswitch.state import Update
from tests.softswitch.against_bmv2.control import RefusedError
from tests.softswitch.against_bmv2.control_plane import (
    KINDS,
    Write,
    every,
    with_priorities_of_their_own,
    writes,
)
from tests.softswitch.against_bmv2.devices import Bmv2, Bmv2Error, Copies, Frame, Ours
from tests.softswitch.against_bmv2.journal import Journal

FRAMES_PER_STATE = 500
# Refusals of ours alone, as the specification has it: PI does not look at a member's action.
ONLY_BMV2_TAKES = ("can only be the default of table",)
MOST_LEFT_OUT = 20
WINDOW = 12
MOST_COPIES = 30  # at a time: BMv2's queues hold 64 packets each
UNDEFINED = ("fault", "invalid")  # events of the interpreter's trace
MAX_KEPT = 5  # differences shown, of each kind


@dataclass(frozen=True, slots=True)
class Source:
    """What a program is given: one control plane, and frames without end."""

    updates: Iterator[Update]
    frames: Iterator[Frame]


MakeSource = Callable[[ir.Program, int], Source]  # by a seed


@dataclass(slots=True)
class Outcome:
    """Of one program. `frames`: compared on all three, and `copies` of them; `left_out`: frames
    that BMv2 was not given, and why; `refused`: entities that BMv2 refused, and why;
    `only_bmv2_takes`: why ours refused others; `counted`: control planes after which counters
    were compared, since no frame was left out.
    """

    name: str
    frames: int = 0
    copies: int = 0
    entities: int = 0
    counted: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    only_bmv2_takes: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    num_differences: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def differ(self, kind: str, text: str) -> None:
        self.num_differences[kind] += 1
        if self.num_differences[kind] <= MAX_KEPT:
            self.differences.append(f"{kind}: {text}")


class Trial:
    """Three switches with one program; open from construction until `close`."""

    def __init__(self, name: str, json: Path, p4info: Path, make_source: MakeSource) -> None:
        self.outcome = Outcome(name)
        self.program = load(json)
        self._make_source = make_source
        self._undefined: str | None = None  # that the program did with the last frame
        info = text_format.Parse(p4info.read_text(), p4info_pb2.P4Info())
        self._config = p4.ForwardingPipelineConfig(p4info=info, p4_device_config=json.read_bytes())
        with ExitStack() as opened:
            self.interpreter = Ours(partial(Interpreter, trace=self._note))
            opened.callback(self.interpreter.close)
            self.compiled = Ours(CompiledEngine)
            opened.callback(self.compiled.close)
            self.bmv2 = Bmv2()
            opened.pop_all()

    def close(self) -> None:
        for device in (self.bmv2, self.compiled, self.interpreter):
            device.close()

    def run(self, num_frames: int, seed: int) -> None:
        """Until so many frames are compared, or most of more are left out. A frame that ends BMv2
        is a difference, and it starts afresh.
        """
        pick = random.Random(seed)
        outcome = self.outcome
        while outcome.frames < num_frames and outcome.left_out.total() < MOST_LEFT_OUT * num_frames:
            source = self._make_source(self.program, pick.getrandbits(32))
            try:
                self._state(source, min(num_frames - outcome.frames, FRAMES_PER_STATE))
            except RefusedError as error:
                outcome.differ("refused", str(error))
                return
            except Bmv2Error as error:
                outcome.differ("bmv2 ends", str(error))
                self.bmv2.close()
                self.bmv2 = Bmv2()

    def _state(self, source: Source, num_frames: int) -> None:
        for device in (self.bmv2, self.interpreter, self.compiled):
            device.control.load(self._config)
        self._journal = Journal(self.interpreter.engine)
        given = writes(self._config, self.interpreter, source.updates)
        written = self._write(with_priorities_of_their_own(given))
        self._compare_entities()
        self._all_counted = True
        for first in range(0, num_frames, WINDOW):
            count = min(WINDOW, num_frames - first)
            self._window(list(islice(source.frames, count)))
        if self._all_counted:
            self._compare_counters()
            self.outcome.counted += 1
        for entity in reversed(written):  # BMv2 keeps groups and sessions beyond their pipeline
            if entity.HasField("packet_replication_engine_entry"):
                self.bmv2.control.write(p4.Update.DELETE, entity)

    # --- control plane

    def _write(self, given: Sequence[Write]) -> list[p4.Entity]:
        """What BMv2 takes, both of ours must take; returned."""
        written = []
        for kind, entity in given:
            why = self.bmv2.control.write(kind, entity)
            if why:
                self.outcome.refused[why] += 1
                continue
            ours = [d.control.write(kind, entity) for d in (self.interpreter, self.compiled)]
            if ours == ["", ""]:
                written.append(entity)
                continue
            why = next(filter(None, ours))
            if ours[0] == ours[1] and any(known in why for known in ONLY_BMV2_TAKES):
                self.outcome.only_bmv2_takes[why] += 1
            else:
                self.outcome.differ("only bmv2 takes", f"{ours}: {_one_line(entity)}")
            if kind == p4.Update.INSERT:
                self.bmv2.control.write(p4.Update.DELETE, entity)
        self.outcome.entities += len(written)
        return written

    def _compare_entities(self) -> None:
        """They read the same back."""
        for kind in KINDS:
            if kind != "value_set_entry":  # BMv2 has no way to write or read them
                self._compare_read(kind, every(kind))

    def _compare_counters(self) -> None:
        self._compare_read("counter", p4.Entity(counter_entry=p4.CounterEntry()))

    def _compare_read(self, what: str, asked: p4.Entity) -> None:
        devices = (self.bmv2, self.interpreter, self.compiled)
        read = [list(device.control.read([asked])) for device in devices]
        constant = {_key(one) for one in read[1] if one.table_entry.is_const}
        found = [{_in_order(e): e for e in every if _key(e) not in constant} for every in read]
        for name, ours in zip(("interpreter", "compiled"), found[1:], strict=True):
            for key in sorted(found[0].keys() - ours):
                self.outcome.differ(f"{what} not of {name}", _one_line(found[0][key]))
            for key in sorted(ours.keys() - found[0]):
                self.outcome.differ(f"{what} only of {name}", _one_line(ours[key]))

    # --- data plane

    def _window(self, frames: list[Frame]) -> None:
        fine, expected = self._interpreted(frames)
        flat = [copy for copies in expected for copy in copies]
        compiled = self.compiled.exchange(fine)
        if compiled != flat:
            self.outcome.differ("compiled", f"{_shown(fine)} gives {compiled}, not {flat}")
        for first, last in _parts(expected):
            found = self.bmv2.exchange(fine[first:last])
            for n, copies in enumerate(found, start=first):
                if sorted(copies) != sorted(expected[n]):
                    self.outcome.differ("bmv2", _difference(fine[n], copies, expected[n]))
        self.outcome.frames += len(fine)
        self.outcome.copies += len(flat)

    def _interpreted(self, frames: list[Frame]) -> tuple[list[Frame], list[Copies]]:
        """The frames that the program does nothing undefined with, and the copies of each. BMv2
        ends of others, goes on for ever, or finds in a field what an earlier packet has left there:
        no switch is given them, but for the interpreter, and its registers are as before.
        """
        fine, expected = [], []
        for frame in frames:
            self._undefined = None
            copies = self.interpreter.exchange([frame])
            if len(copies) > MOST_COPIES:
                self._undefined = f"more than {MOST_COPIES} copies"
            self._journal.end(undo=self._undefined is not None)
            if self._undefined is None:
                fine.append(frame)
                expected.append(copies)
            else:
                self.outcome.left_out[self._undefined] += 1
                self._all_counted = False
        return fine, expected

    def _note(self, event: str, name: str, details: Mapping[str, object]) -> None:
        """The interpreter's trace."""
        if event in UNDEFINED and self._undefined is None:
            self._undefined = f"{event} {name}"


def _parts(expected: Sequence[Copies]) -> Iterator[tuple[int, int]]:
    """From which frame to which there are no more than MOST_COPIES copies."""
    first = copies = 0
    for number, more in enumerate(expected):
        if copies + len(more) > MOST_COPIES:
            yield first, number
            first, copies = number, 0
        copies += len(more)
    yield first, len(expected)


def _key(entity: p4.Entity) -> tuple[int, tuple[bytes, ...]]:
    """Of a table entry; BMv2 has other numbers for the priorities of the program's own."""
    entry = entity.table_entry
    return entry.table_id, tuple(match.SerializeToString() for match in entry.match)


def _in_order(entity: p4.Entity) -> bytes:
    """The entity as bytes, its replicas and members in one order."""
    ordered = p4.Entity()
    ordered.CopyFrom(entity)
    replication = ordered.packet_replication_engine_entry
    for repeated in (
        replication.multicast_group_entry.replicas,
        replication.clone_session_entry.replicas,
        ordered.action_profile_group.members,
    ):
        repeated.sort(key=str)
    return ordered.SerializeToString(deterministic=True)


def _one_line(message: object) -> str:
    return " ".join(str(message).split())


def _shown(frames: Sequence[Frame]) -> str:
    return ", ".join(f"{port}: {data.hex()}" for port, data in frames)


def _difference(frame: Frame, found: Copies, expected: Copies) -> str:
    return (
        f"frame {_shown([frame])}\n    bmv2 {_shown(sorted(found))}"
        f"\n    ours {_shown(sorted(expected))}"
    )
