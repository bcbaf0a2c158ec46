# SPDX-License-Identifier: Apache-2.0
"""The calls of P4Runtime, each as a function of its message; it knows gRPC only to report errors.

Who may do what: anyone reads; only the primary of a role writes or sets the pipeline; each within
the scope of its role (roles.py).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import TypeAlias

import grpc
from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from ops.tls import client_name
from softswitch.errors import SwitchError, UnsupportedFeature
from softswitch.p4runtime.arbitration import Arbiter, election_id_of
from softswitch.p4runtime.keep_cells import keep_cells
from softswitch.p4runtime.messages import MESSAGE_BYTES, split
from softswitch.p4runtime.notifier import Notifier
from softswitch.p4runtime.pipeline import Host, Pipeline, carry_over, load_pipeline
from softswitch.p4runtime.read import read
from softswitch.p4runtime.roles import Role, Roles
from softswitch.p4runtime.status import RpcError, abort, abort_batch, invalid, not_found
from softswitch.p4runtime.write import follow_links, prepare

API_VERSION = "1.4.1"
# BMv2's words: controllers know by them that they have to bring a pipeline (finsy does).
NO_PIPELINE = "no forwarding pipeline config set for this device"
ENTITIES_PER_RESPONSE = 500
MAX_PACKET_BYTES = 0xFFFF  # of a packet-out: some thousand may wait

SetRequest: TypeAlias = p4runtime_pb2.SetForwardingPipelineConfigRequest
GetRequest: TypeAlias = p4runtime_pb2.GetForwardingPipelineConfigRequest
log = logging.getLogger(__name__)


class Service:
    """One device. Calls may come from any thread."""

    def __init__(self, host: Host, roles: Roles | None = None) -> None:
        self.arbiter = Arbiter()
        self.roles = roles or Roles()
        self._host = host
        self._pipeline: Pipeline | None = None
        self._saved: Pipeline | None = None  # not in use; what is written and read is its
        self._lock = threading.RLock()  # of the pipeline and its state
        self.notifier = Notifier(self.arbiter, self.roles, lambda: self._pipeline, self._lock)

    @property
    def device_id(self) -> int:
        return self._host.device_id

    def close(self) -> None:
        """Tells controllers nothing more."""
        self.notifier.close()

    def check_device(self, number: int) -> None:
        if number != self._host.device_id:
            raise not_found(f"device {number} is not here, this is device {self._host.device_id}")

    def load(self, config: p4runtime_pb2.ForwardingPipelineConfig) -> None:
        """Puts a configuration into use, as VERIFY_AND_COMMIT does."""
        with self._lock:
            self._commit(load_pipeline(config, self._host))

    def _commit(self, pipeline: Pipeline, *, keeps_from: Pipeline | None = None) -> None:
        def swap() -> None:
            state = pipeline.state.snapshot
            pipeline.engine.update(state)
            if keeps_from:
                keep_cells(keeps_from.engine, keeps_from.state.snapshot, pipeline.engine, state)
            self._host.use(pipeline.engine)
            self.notifier.forget()
            self._pipeline = pipeline

        self._host.between_batches(swap)
        self._saved = None
        self.notifier.wake()
        log.info("pipeline %s is in use", pipeline.program.name or "without a name")

    def links_changed(self) -> None:
        """Ports of the host went up or down."""
        with self._lock:
            for pipeline in (self._pipeline, self._saved):
                if pipeline is not None:
                    self._host.between_batches(follow_links(pipeline))

    def write(
        self, request: p4runtime_pb2.WriteRequest, context: grpc.ServicerContext
    ) -> p4runtime_pb2.WriteResponse:
        try:
            role = self._checked_writer(request, context)
            with self._lock:
                pipeline = self._asked()
                outcome = prepare(pipeline, request, role)
                self._host.between_batches(outcome.commit)
                pipeline.digests.follow(pipeline.state.snapshot.digests)
            if pipeline.idle.deadline_ns is not None or pipeline.digests.deadline_ns() is not None:
                self.notifier.wake()
        except SwitchError as error:
            abort(context, error)
        if any(outcome.errors):
            abort_batch(context, outcome.errors, "updates")
        return p4runtime_pb2.WriteResponse()

    def _checked_writer(
        self, request: p4runtime_pb2.WriteRequest | SetRequest, context: grpc.ServicerContext
    ) -> Role:
        self.check_device(request.device_id)
        role = self.roles.taken(request.role, client_name(context))
        self.arbiter.check_writer(request.role, election_id_of(request))
        return role

    def packet_out(self, packet: p4runtime_pb2.PacketOut) -> None:
        """A packet of a controller that may send it."""
        if len(packet.payload) > MAX_PACKET_BYTES:
            raise invalid(f"a packet of {len(packet.payload)} bytes, at most {MAX_PACKET_BYTES}")
        with self._lock:
            frame = self._present().packet_out.frame(packet)
        self._host.inject_from_cpu(frame)

    def acknowledge(self, ack: p4runtime_pb2.DigestListAck, role: Role) -> None:
        """A list was told to a controller of this role, which may read its digest."""
        entity = p4runtime_pb2.Entity(digest_entry={"digest_id": ack.digest_id})
        with self._lock:
            pipeline = self._present()
            role.check_read(pipeline.info, entity)
            pipeline.digests.acknowledge(ack)

    def _present(self) -> Pipeline:
        if self._pipeline is None:
            raise RpcError(code_pb2.FAILED_PRECONDITION, NO_PIPELINE)
        return self._pipeline

    def _asked(self) -> Pipeline:
        """What Write and Read refer to: the saved pipeline, until it is committed."""
        return self._saved or self._present()

    def read(
        self, request: p4runtime_pb2.ReadRequest, context: grpc.ServicerContext
    ) -> Iterator[p4runtime_pb2.ReadResponse]:
        try:
            self.check_device(request.device_id)
            role = self.roles.taken(request.role, client_name(context))
            with self._lock:
                entities, errors = read(self._asked(), request, role)
        except SwitchError as error:
            abort(context, error)
        yield from _responses(entities)
        if any(errors):
            abort_batch(context, errors, "requests")

    def set_pipeline(
        self, request: SetRequest, context: grpc.ServicerContext
    ) -> p4runtime_pb2.SetForwardingPipelineConfigResponse:
        try:
            self._checked_writer(request, context).check_pipeline()
            with self._lock:
                _act(self, request)
        except SwitchError as error:
            abort(context, error)
        return p4runtime_pb2.SetForwardingPipelineConfigResponse()

    def _verify(self, request: SetRequest) -> None:
        load_pipeline(request.config, self._host)

    def _verify_and_save(self, request: SetRequest) -> None:
        self._saved = load_pipeline(request.config, self._host)

    def _verify_and_commit(self, request: SetRequest) -> None:
        self.load(request.config)

    def _commit_saved(self, request: SetRequest) -> None:
        if request.HasField("config"):
            raise invalid("COMMIT takes no configuration, it uses the saved one")
        if self._saved is None:
            raise not_found("no configuration has been saved")
        self._commit(self._saved)

    def _reconcile_and_commit(self, request: SetRequest) -> None:
        pipeline = load_pipeline(request.config, self._host)
        if self._pipeline is not None:
            carry_over(self._pipeline, pipeline)
        self._commit(pipeline, keeps_from=self._pipeline)

    def get_pipeline(
        self, request: GetRequest, context: grpc.ServicerContext
    ) -> p4runtime_pb2.GetForwardingPipelineConfigResponse:
        try:
            self.check_device(request.device_id)
            if request.response_type not in GetRequest.ResponseType.values():
                raise invalid(f"response_type {request.response_type} is none of the request's")
            with self._lock:
                pipeline = self._pipeline
        except SwitchError as error:
            abort(context, error)
        response = p4runtime_pb2.GetForwardingPipelineConfigResponse()
        if pipeline is None:
            return response
        config = pipeline.config
        response.config.SetInParent()
        if config.HasField("cookie"):
            response.config.cookie.CopyFrom(config.cookie)
        if request.response_type in (GetRequest.ALL, GetRequest.P4INFO_AND_COOKIE):
            response.config.p4info.CopyFrom(config.p4info)
        if request.response_type in (GetRequest.ALL, GetRequest.DEVICE_CONFIG_AND_COOKIE):
            response.config.p4_device_config = config.p4_device_config
        return response

    def capabilities(
        self, request: p4runtime_pb2.CapabilitiesRequest, context: grpc.ServicerContext
    ) -> p4runtime_pb2.CapabilitiesResponse:
        return p4runtime_pb2.CapabilitiesResponse(p4runtime_api_version=API_VERSION)


_ACTIONS: dict[int, Callable[[Service, SetRequest], None]] = {
    SetRequest.VERIFY: Service._verify,
    SetRequest.VERIFY_AND_SAVE: Service._verify_and_save,
    SetRequest.VERIFY_AND_COMMIT: Service._verify_and_commit,
    SetRequest.COMMIT: Service._commit_saved,
    SetRequest.RECONCILE_AND_COMMIT: Service._reconcile_and_commit,
}


def _act(service: Service, request: SetRequest) -> None:
    if request.action not in _ACTIONS:
        raise invalid(f"action {request.action} is not one of SetForwardingPipelineConfig")
    try:
        _ACTIONS[request.action](service, request)
    except UnsupportedFeature as error:  # spec section 14: INVALID_ARGUMENT
        raise invalid(str(error)) from error


def _responses(entities: list[p4runtime_pb2.Entity]) -> Iterator[p4runtime_pb2.ReadResponse]:
    """Entities in messages that gRPC accepts; one empty message if there are none."""
    for part in split(entities, ENTITIES_PER_RESPONSE, MESSAGE_BYTES) if entities else [[]]:
        yield p4runtime_pb2.ReadResponse(entities=part)
