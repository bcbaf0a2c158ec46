# SPDX-License-Identifier: Apache-2.0
"""Where ranks meet before a job runs: the client a rank uses. Installs nothing.

1. A rank joins; the call returns a Ticket once every rank of the job has joined and every switch
   holds the job. What does not fit together is refused with the field, both values and both ranks.
2. While it runs, a rank watches: it is told which ranks have left or were lost, and which wait for
   the job's next generation. The watch is also how the controller learns that a rank's process is
   gone.
3. Where a job goes on without ranks it has lost, a rank reports those that it finds silent. Who is
   gone is then for the controller to say, and for good.
4. A rank leaves. When all have, the job is taken off the switches. Once one has left or was lost,
   the job may be joined anew and gets a new generation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import grpc

from host_agent.messages import (
    METHODS,
    SERVICE,
    Join,
    Leave,
    Left,
    M,
    Message,
    Notice,
    RendezvousError,
    Replace,
    Replaced,
    Report,
    Ticket,
    Watch,
    decode,
    encode,
)
from ops.tls import Tls, open_channel

__all__ = ["Join", "Membership", "Notice", "RendezvousError", "Ticket", "join", "replace"]

# A restarted controller must see its ranks before it takes them for lost.
CHANNEL_OPTIONS: Final = (("grpc.max_reconnect_backoff_ms", 2_000),)
CONTROLLER_GONE: Final = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
REACH_S: Final = 10.0  # how long a controller may take to accept a connection
LEAVE_S: Final = 10.0  # how long a controller may take to note that a rank leaves
HURRY_S: Final = 1.0  # the same after an error, which its caller waits for
REPORT_S: Final = 30.0  # how long a report waits for a controller that is being started again


class Membership:
    """A rank's place in a running job. Thread-safe; leaves at the end of a `with` block."""

    def __init__(self, channel: grpc.Channel, join: Join, ticket: Ticket) -> None:
        self.ticket: Final = ticket
        self._channel = channel
        self._join = join
        self._lock = threading.RLock()  # a call that is done at once calls back in this thread
        self._notice = Notice(gone=(), ended="")
        self._left = False
        self._heed: Callable[[Notice], None] = lambda notice: None
        self._watch: grpc.Future[bytes] | None = None
        self._report: grpc.Future[bytes] | None = None
        self._watch_again()

    @property
    def notice(self) -> Notice:
        """Who is gone by now, without waiting."""
        with self._lock:
            return self._notice

    def follow(self, heed: Callable[[Notice], None]) -> None:
        """Call `heed` with what is known now, and with every notice to come; it must not block."""
        with self._lock:
            self._heed = heed
            known = self._notice
        heed(known)

    def report(self, lost: tuple[int, ...]) -> None:
        """Report silent ranks; never blocks, and the answer is a notice, if there is one."""
        report = Report(self._join.job, self._join.rank, self.ticket.generation, lost)
        # Kept, since grpc cancels a call that nobody holds.
        self._report = _method(self._channel, Report).future(
            encode(report), timeout=REPORT_S, wait_for_ready=True
        )

    def leave(self, *, timeout_s: float = LEAVE_S) -> None:
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
        known = self._notice
        watch = Watch(
            *(self._join.job, self._join.rank, self.ticket.generation),
            *(known.gone, known.waiting),
        )
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
            heed, notice = self._heed, self._notice
        heed(notice)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.leave(timeout_s=LEAVE_S if error is None else HURRY_S)
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


def replace(
    controller: str, job: str, rank: int, *, timeout_s: float = 10.0, tls: Tls | None = None
) -> Replaced:
    """Take a rank out of a running job; raises RendezvousError with the controller's reason."""
    with open_channel(controller, tls, CHANNEL_OPTIONS) as channel:
        return _call(channel, Replace(job, rank), Replaced, timeout_s=timeout_s)


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
