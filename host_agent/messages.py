# SPDX-License-Identifier: Apache-2.0
"""What ranks and the rendezvous say to each other; sends nothing (host_agent.rendezvous does).

Messages are JSON over gRPC's generic calls, since a rank must not depend on protobuf.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Final, TypeVar, get_type_hints

from host_agent.session import (
    DEFAULT_PACING,
    DEFAULT_TIMERS,
    OnLoss,
    Pacing,
    RowFormat,
    Session,
    Timers,
)

SERVICE: Final = "incmoe.Rendezvous"


class RendezvousError(RuntimeError):
    """The controller cannot be reached, refused the rank, or spoke another language."""


@dataclass(frozen=True, slots=True)
class Message:
    """Any of the messages below."""


@dataclass(frozen=True, slots=True)
class Join(Message):
    """A rank that wants to take part."""

    job: str  # name, as in the job file
    rank: int
    world_size: int
    host: str  # where its UDP socket is bound
    udp_port: int
    geometry: str
    fingerprint: Mapping[str, object]  # what must be equal at all ranks: model, row format


@dataclass(frozen=True, slots=True)
class Ticket(Message):
    """What a rank must know to take part in an installed job."""

    job: int  # number on the wire
    generation: int
    num_slots: int  # rows an owner may have out
    segments: int  # packets a row may be cut in
    max_chunks: int  # 256-byte chunks a packet may carry
    switch_host: str  # where this rank sends
    switch_port: int
    ranks: tuple[int, ...]
    on_loss: str = OnLoss.FAIL.value  # what the job does when it loses a rank

    @property
    def switch(self) -> tuple[str, int]:
        """The switch's address as a socket takes it."""
        return self.switch_host, self.switch_port

    def check_whole(self, user: str) -> None:
        """Raise RendezvousError, for `user`, where the job may go on without some of its ranks."""
        if self.on_loss != OnLoss.FAIL:
            raise RendezvousError(
                f"{user} needs all ranks of its job, whose on_loss is {self.on_loss}, "
                f"not {OnLoss.FAIL}"
            )

    def session(
        self,
        rank: int,
        row: RowFormat,
        *,
        timers: Timers = DEFAULT_TIMERS,
        pacing: Pacing = DEFAULT_PACING,
    ) -> Session:
        """Return the session of a rank that got this ticket; raises SessionError."""
        return Session(
            job=self.job,
            generation=self.generation,
            rank=rank,
            world_size=len(self.ranks),
            num_slots=self.num_slots,
            max_chunks=self.max_chunks,
            switch=self.switch,
            row=row,
            timers=timers,
            pacing=pacing,
            max_segments=self.segments,
            on_loss=OnLoss(self.on_loss),
        )


@dataclass(frozen=True, slots=True)
class Watch(Message):
    """A rank at work; answered when what the rank knows is no longer so, or the job has ended."""

    job: str
    rank: int
    generation: int
    gone: tuple[int, ...]
    waiting: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Notice(Message):
    """Who has left or was lost, and why the job ended (empty: it goes on).

    `waiting`: ranks that have joined the next generation, which needs all of them.
    """

    gone: tuple[int, ...]
    ended: str
    waiting: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Report(Message):
    """A rank that awaits something of ranks `lost`, which are silent."""

    job: str
    rank: int
    generation: int
    lost: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reported(Message):
    """The controller has taken it in; what follows comes as a Notice."""


@dataclass(frozen=True, slots=True)
class Replace(Message):
    """An operator who wants another process in the place of a rank."""

    job: str
    rank: int


@dataclass(frozen=True, slots=True)
class Replaced(Message):
    """The rank is out of this generation, and whoever joins as it opens the next one."""

    generation: int


@dataclass(frozen=True, slots=True)
class Leave(Message):
    """A rank that takes no further part."""

    job: str
    rank: int
    generation: int


@dataclass(frozen=True, slots=True)
class Left(Message):
    """The controller has noted it."""


METHODS: Final[dict[str, tuple[type[Message], type[Message]]]] = {
    "join": (Join, Ticket),
    "watch": (Watch, Notice),
    "leave": (Leave, Left),
    "report": (Report, Reported),
    "replace": (Replace, Replaced),
}
PYTHON_TYPES: Final = {int: int, str: str, tuple[int, ...]: list, Mapping[str, object]: dict}
M = TypeVar("M", bound=Message)


def encode(message: Message) -> bytes:
    """Return the JSON body of a message."""
    return json.dumps(asdict(message)).encode()


def decode(kind: type[M], body: bytes) -> M:
    """Return the message of a JSON body; raises RendezvousError naming the field that is wrong."""
    try:
        values = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RendezvousError(f"{kind.__name__}: not JSON: {error}") from None
    names = {field.name for field in fields(kind)}
    if not isinstance(values, dict) or set(values) != names:
        found = sorted(values) if isinstance(values, dict) else type(values).__name__
        raise RendezvousError(f"{kind.__name__} has fields {sorted(names)}, got {found}")
    hints = get_type_hints(kind)
    return kind(**{name: _checked(kind, name, hints[name], values[name]) for name in names})


def _checked(kind: type[Message], name: str, hint: object, value: object) -> object:
    expected = next(python for annotated, python in PYTHON_TYPES.items() if annotated == hint)
    if type(value) is not expected:
        raise RendezvousError(f"{kind.__name__}.{name} is {value!r}, not {expected.__name__}")
    if not isinstance(value, list):
        return value
    if any(type(item) is not int for item in value):
        raise RendezvousError(f"{kind.__name__}.{name} is {value!r}, not list of int")
    return tuple(value)
