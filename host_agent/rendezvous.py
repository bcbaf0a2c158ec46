# SPDX-License-Identifier: Apache-2.0
"""Where ranks meet before a job runs: the messages, and the client a rank uses. Installs nothing.

1. A rank joins; the call returns a Ticket once every rank of the job has joined and every switch
   holds the job. What does not fit together is refused with the field, both values and both ranks.
2. While it runs, a rank watches: it is told which ranks have left or were lost. The watch is also
   how the controller learns that a rank's process is gone.
3. A rank leaves. When all have, the job is taken off the switches. Once one has left or was lost,
   the job may be joined anew and gets a new generation.

Messages are JSON over gRPC's generic calls, since a rank must not depend on protobuf.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from types import TracebackType
from typing import Final, Self, TypeVar, get_type_hints

import grpc

from host_agent.session import Pacing, RowFormat, Session, Timers
from ops.tls import Tls, open_channel

SERVICE: Final = "incmoe.Rendezvous"
# A restarted controller must see its ranks before it takes them for lost.
CHANNEL_OPTIONS: Final = (("grpc.max_reconnect_backoff_ms", 2_000),)
CONTROLLER_GONE: Final = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
DEFAULT_TIMERS: Final = Timers()
DEFAULT_PACING: Final = Pacing()
REACH_S: Final = 10.0  # how long a controller may take to accept a connection


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

    @property
    def switch(self) -> tuple[str, int]:
        """The switch's address as a socket takes it."""
        return self.switch_host, self.switch_port

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
        )


@dataclass(frozen=True, slots=True)
class Watch(Message):
    """A rank at work; answered when the ranks gone are no longer `gone`, or the job has ended."""

    job: str
    rank: int
    generation: int
    gone: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Notice(Message):
    """Who has left or was lost, and why the job ended (empty: it goes on)."""

    gone: tuple[int, ...]
    ended: str


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


class Membership:
    """A rank's place in a running job. Thread-safe; leaves at the end of a `with` block."""

    def __init__(self, channel: grpc.Channel, join: Join, ticket: Ticket) -> None:
        self.ticket: Final = ticket
        self._channel = channel
        self._join = join
        self._lock = threading.RLock()  # a call that is done at once calls back in this thread
        self._notice = Notice(gone=(), ended="")
        self._left = False
        self._watch: grpc.Future[bytes] | None = None
        self._watch_again()

    @property
    def notice(self) -> Notice:
        """Who is gone by now, without waiting."""
        with self._lock:
            return self._notice

    def leave(self, *, timeout_s: float = 10.0) -> None:
        """Leave the job, once; raises RendezvousError when the controller does not take note."""
        with self._lock:
            if self._left:
                return
            self._left = True
        message = Leave(self._join.job, self._join.rank, self.ticket.generation)
        try:
            _call(self._channel, message, Left, timeout_s=timeout_s)
        finally:
            if self._watch is not None:
                self._watch.cancel()
            self._channel.close()

    def _watch_again(self) -> None:
        watch = Watch(self._join.job, self._join.rank, self.ticket.generation, self._notice.gone)
        self._watch = _method(self._channel, Watch).future(encode(watch), wait_for_ready=True)
        self._watch.add_done_callback(self._noticed)

    def _noticed(self, call: grpc.Future[bytes]) -> None:
        # A controller that went away ends no job: wait for it (or its successor) to come back.
        with self._lock:
            if self._left or call.cancelled():
                return
            if call.exception() is None:
                self._notice = decode(Notice, call.result())
            elif _code(call.exception()) not in CONTROLLER_GONE:
                self._notice = Notice(self._notice.gone, ended=_details(call.exception()))
            if not self._notice.ended:
                self._watch_again()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.leave()
        except RendezvousError:
            if error is None:
                raise


def join(
    controller: str, request: Join, *, timeout_s: float = 120.0, tls: Tls | None = None
) -> Membership:
    """Join a job at `controller` (HOST:PORT or unix:PATH) and wait for all its ranks.

    Raises RendezvousError with the controller's reason, or naming the controller when it does not
    answer. The controller's own deadline names the ranks that are missing, so keep it the shorter.
    """
    channel = open_channel(controller, tls, CHANNEL_OPTIONS)
    try:
        grpc.channel_ready_future(channel).result(timeout=min(REACH_S, timeout_s))
        return Membership(channel, request, _call(channel, request, Ticket, timeout_s=timeout_s))
    except grpc.FutureTimeoutError:
        channel.close()
        reason = f"no controller answers at {controller}"
        raise RendezvousError(f"rank {request.rank} of job {request.job}: {reason}") from None
    except RendezvousError:
        channel.close()
        raise


def _method(
    channel: grpc.Channel, kind: type[Message]
) -> grpc.UnaryUnaryMultiCallable[bytes, bytes]:
    name = next(name for name, (asks, _) in METHODS.items() if asks is kind)
    unchanged: Callable[[bytes], bytes] = bytes
    return channel.unary_unary(
        f"/{SERVICE}/{name}", request_serializer=unchanged, response_deserializer=unchanged
    )


def _call(channel: grpc.Channel, message: Message, answer: type[M], *, timeout_s: float) -> M:
    try:
        method = _method(channel, type(message))
        body = method(encode(message), timeout=timeout_s, wait_for_ready=True)
    except grpc.RpcError as error:
        raise RendezvousError(_details(error)) from None
    return decode(answer, body)


def _code(error: object) -> grpc.StatusCode | None:
    return error.code() if isinstance(error, grpc.Call) else None


def _details(error: object) -> str:
    if not isinstance(error, grpc.Call):
        return str(error)
    code = error.code()
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return "the controller did not answer in time"
    return error.details() or str(code)
