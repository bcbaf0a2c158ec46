# SPDX-License-Identifier: Apache-2.0
"""A controller's claim on a switch: a P4Runtime stream that stays open; writes nothing.

1. A switch takes an election id only once. So who opens a stream under an id made of a job's name
   is the only one to serve that job, as long as the stream, or the process, lives.
2. `turn` is the claim to write: a controller reads, decides and writes before the next one does.
3. Claims have ids up to TURN, below every writer's, which is the time: they never keep it out.
4. A claim that breaks says that the switch has gone, perhaps to come back with nothing in it.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, NoReturn, Self
from zlib import crc32

import grpc
from p4.v1 import p4runtime_pb2_grpc

from controller.errors import ControllerError, SwitchError
from controller.session import NOBODY, Credentials, arbitration
from ops.tls import open_channel

TURN: Final = 1 << 33
TURN_AGAIN_S: Final = 0.05


class ClaimedError(ControllerError):
    """Another controller has the claim."""


@dataclass(frozen=True, slots=True)
class Place:
    """A switch, and who the controller is to it: claims of one role do not see another's."""

    address: str  # HOST:PORT or unix:PATH
    device_id: int
    credentials: Credentials = NOBODY


class Claim:
    """The claim `election_id` on one switch, which `refusal` is the error of if it is taken.

    Raises ClaimedError or SwitchError. Given up at the end of a `with` block.
    """

    def __init__(self, place: Place, election_id: int, refusal: str, *, deadline_s: float) -> None:
        self.address: Final = place.address
        self._answered = threading.Event()
        self._broken = threading.Event()
        self._error: grpc.RpcError | None = None
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._channel = open_channel(self.address, place.credentials.tls)
        stub = p4runtime_pb2_grpc.P4RuntimeStub(self._channel)
        replies = stub.StreamChannel(iter(self._requests.get, None), wait_for_ready=True)
        role = place.credentials.role
        self._requests.put(arbitration(place.device_id, (0, election_id), role))
        threading.Thread(target=self._listen, args=(replies,), name="claim", daemon=True).start()
        if not self._answered.wait(deadline_s):
            self.release()
            raise SwitchError(self.address, f"no answer within {deadline_s:g} s")
        if self._broken.is_set():
            self._give_up(refusal)

    @property
    def is_broken(self) -> bool:
        """Whether the switch has ended the stream, or is gone."""
        return self._broken.is_set()

    def release(self) -> None:
        """Give the claim up."""
        self._requests.put(None)
        self._channel.close()

    def _listen(self, replies: Any) -> None:
        try:
            for _ in replies:
                self._answered.set()
        except grpc.RpcError as error:
            self._error = error
        self._broken.set()
        self._answered.set()

    def _give_up(self, refusal: str) -> NoReturn:
        self.release()
        error = self._error
        code = error.code() if isinstance(error, grpc.Call) else None
        if code is grpc.StatusCode.INVALID_ARGUMENT:
            raise ClaimedError(refusal)
        raise SwitchError(self.address, f"ended a controller's stream: {code}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def claim_job(place: Place, job: str, *, deadline_s: float) -> Claim:
    """Return the claim to serve a job on a switch."""
    refusal = f"job {job} is served by another controller at switch {place.address}"
    return Claim(place, 1 + crc32(job.encode()), refusal, deadline_s=deadline_s)


@contextmanager
def turn(place: Place, *, deadline_s: float) -> Iterator[None]:
    """Wait until no other controller writes to a switch, and keep them waiting meanwhile."""
    until = time.monotonic() + deadline_s
    refusal = f"another controller has been writing to switch {place.address} for {deadline_s:g} s"
    while True:
        try:
            claim = Claim(place, TURN, refusal, deadline_s=deadline_s)
            break
        except ClaimedError:
            if time.monotonic() >= until:
                raise
            time.sleep(TURN_AGAIN_S)
    with claim:
        yield
