# SPDX-License-Identifier: Apache-2.0
"""A P4Runtime connection to a switch: arbitration, deadlines, one-line errors. Knows no job."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import grpc
from google.rpc import code_pb2, status_pb2
from p4.v1 import p4runtime_pb2
from p4runtime_sh.p4runtime import P4RuntimeClient

from controller.errors import SwitchError
from ops.tls import Tls, open_channel

DEADLINE_S: Final = 5.0
MAX_MESSAGE_BYTES: Final = 64 << 20  # a pipeline configuration holds the whole compiled program


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who the controller is to its switches: its certificate, and its role in their elections."""

    tls: Tls | None = None
    role: str = ""

    def towards(self, certificate: str) -> Credentials:
        """Return those for a switch whose certificate bears a name of its own, if it has one."""
        if self.tls is None or not certificate:
            return self
        return replace(self, tls=replace(self.tls, name=certificate))


NOBODY: Final = Credentials()


def arbitration(device_id: int, election_id: tuple[int, int], role: str) -> Any:
    """Return the request to take part in a switch's elections; `role` "": the default one."""
    request = p4runtime_pb2.StreamMessageRequest()
    request.arbitration.device_id = device_id
    request.arbitration.election_id.high, request.arbitration.election_id.low = election_id
    if role:
        request.arbitration.role.name = role
    return request


class Session(P4RuntimeClient):  # type: ignore[misc]  # the package has no types
    """A client of one switch. Without `writes` it takes part in no election and can only read."""

    def __init__(
        self,
        address: str,
        device_id: int,
        *,
        writes: bool,
        deadline_s: float = DEADLINE_S,
        credentials: Credentials = NOBODY,
    ) -> None:
        self.address: Final = address
        self.deadline_s: Final = deadline_s
        self._writes = writes
        self._credentials = credentials
        self.stream_out_q: Any = None
        self.stream_in_q: Any = None
        self.stream_recv_thread: Any = None
        self.stream: Any = None
        self.channel: Any
        self.stub: Any
        # The last to come has the highest id, unless clocks differ, and is the primary.
        now_ms = time.time_ns() // 1_000_000
        self.election_id: tuple[int, int]
        super().__init__(device_id, address, election_id=(0, now_ms))

    def set_up_stream(self) -> None:
        """Wait for the switch and, to write, become its primary controller."""
        self.channel.close()
        options = [("grpc.max_receive_message_length", MAX_MESSAGE_BYTES)]
        self.channel = open_channel(self.address, self._credentials.tls, options)
        self.stub = type(self.stub)(self.channel)
        if not self._answers():
            self.channel.close()
            raise self._error(f"no answer within {self.deadline_s:g} s")
        if self._writes:
            super().set_up_stream()

    def _answers(self) -> bool:
        # grpc.channel_ready_future would do, but costs 0.2 s when the channel is closed.
        request = p4runtime_pb2.CapabilitiesRequest()
        try:
            self.stub.Capabilities(request, timeout=self.deadline_s, wait_for_ready=True)
        except grpc.RpcError as error:
            return error.code() is grpc.StatusCode.UNIMPLEMENTED
        return True

    def handshake(self) -> None:
        """Become the primary controller, or raise SwitchError."""
        problem = self._arbitration_problem()
        if problem:
            self.tear_down()
            raise self._error(problem)

    def tear_down(self) -> None:
        """Close the connection, also to a switch that no longer answers."""
        if self.stream_recv_thread is not None:
            self.stream_out_q.put(None)
            self.stream_recv_thread.join(self.deadline_s)
        self.channel.close()

    def _arbitration_problem(self) -> str:
        """Why this is not the primary; "" if it is. A switch may remember a higher election id than
        this one (spec 1.4, section 5.3), of a controller whose clock was ahead: then one above it.
        """
        role, replies = self._credentials.role, self.stream_in_q["arbitration"]
        while not replies.empty():
            replies.get()  # what it was told of others before
        while True:
            self.stream_out_q.put(arbitration(self.device_id, self.election_id, role))
            try:
                reply = replies.get(timeout=self.deadline_s)
            except queue.Empty:
                return f"no arbitration within {self.deadline_s:g} s"
            if reply is None:
                return f"refused the controller: {self.stream.details() or self.stream.code()}"
            code, told = reply.arbitration.status.code, reply.arbitration.election_id
            if code == code_pb2.OK:
                return ""
            highest = (told.high, told.low)
            if code != code_pb2.NOT_FOUND or highest < self.election_id:
                return f"has another primary controller (election id {told.high}:{told.low})"
            above = (told.high << 64 | told.low) + 1
            if above >> 128:
                return "remembers the highest election id there is: restart it"
            self.election_id = divmod(above, 1 << 64)

    def get_config(self, response_type: str) -> Any:
        """Return the pipeline configuration, or its part; None where the switch has none."""
        request = p4runtime_pb2.GetForwardingPipelineConfigRequest(device_id=self.device_id)
        request.response_type = request.ResponseType.Value(response_type)
        try:
            reply = self.stub.GetForwardingPipelineConfig(request, timeout=self.deadline_s)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
                return None
            raise self._error(f"reading its program: {_reason(error)}") from None
        return reply.config if reply.config.p4info.tables else None

    def set_config(self, config: Any) -> None:
        """Load a pipeline configuration; the switch forgets everything else."""
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(device_id=self.device_id)
        request.role = self._credentials.role
        request.action = request.VERIFY_AND_COMMIT
        request.config.CopyFrom(config)
        with self._errors("loading the program"):
            self._ask(self.stub.SetForwardingPipelineConfig, request, 6 * self.deadline_s)

    def read(self, entities: Iterable[Any]) -> list[Any]:
        """Return the entities that match."""
        request = p4runtime_pb2.ReadRequest(
            device_id=self.device_id, role=self._credentials.role, entities=entities
        )
        with self._errors("reading"):
            replies = self.stub.Read(request, timeout=self.deadline_s)
            return [entity for reply in replies for entity in reply.entities]

    def write_all(self, kind: str, entities: Iterable[Any], describe: Callable[[int], str]) -> None:
        """Insert, modify or delete entities; an error names the first one refused by `describe`."""
        request = p4runtime_pb2.WriteRequest(device_id=self.device_id, role=self._credentials.role)
        for entity in entities:
            request.updates.add(type=p4runtime_pb2.Update.Type.Value(kind), entity=entity)
        if not request.updates:
            return
        try:
            self._ask(self.stub.Write, request, self.deadline_s)
        except grpc.RpcError as error:
            raise self._error(f"{kind.lower()} {_refusal(error, describe)}") from None

    def _ask(self, call: Callable[..., Any], request: Any, timeout_s: float) -> None:
        """As the primary controller: again, if one that came later has gone meanwhile."""
        request.election_id.high, request.election_id.low = self.election_id
        try:
            call(request, timeout=timeout_s)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.PERMISSION_DENIED or self._arbitration_problem():
                raise
            request.election_id.high, request.election_id.low = self.election_id
            call(request, timeout=timeout_s)

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except grpc.RpcError as error:
            raise self._error(f"{doing}: {_reason(error)}") from None

    def _error(self, problem: str) -> SwitchError:
        return SwitchError(self.address, problem)


def _reason(error: Any) -> str:
    return f"{error.code().name} {error.details() or ''}".strip()


def _refusal(error: Any, describe: Callable[[int], str]) -> str:
    """Name the first update that was refused (P4Runtime 1.3, section 12.3).

    p4runtime-shell 0.0.6 has a reader for this, which never ends where the first update was good.
    """
    for index, update in enumerate(update_errors(error)):
        if update.canonical_code != code_pb2.OK:
            code = code_pb2.Code.Name(update.canonical_code)
            return f"{describe(index)}: {code} {update.message}".strip()
    return f"refused: {_reason(error)}"


def update_errors(error: Any) -> list[Any]:
    """Return what a refused Write says of each of its updates, as p4.v1.Error; [] if nothing."""
    status = status_pb2.Status()
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            status.ParseFromString(value)
    found = [p4runtime_pb2.Error() for _ in status.details]
    for detail, update in zip(status.details, found, strict=True):
        detail.Unpack(update)
    return found
