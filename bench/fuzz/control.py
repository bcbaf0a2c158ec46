# SPDX-License-Identifier: Apache-2.0
"""The control plane's side: an honest controller with its canary, and requests sent as bytes."""

from __future__ import annotations

import queue
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.rpc import code_pb2
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2 as p4
from p4.v1 import p4runtime_pb2_grpc

from bench.fuzz.judge import REFUSALS, judged
from bench.fuzz.requests import DEVICE, ELECTION, Request
from bench.fuzz.target import FuzzError
from controller.session import arbitration

ANSWER_S = 30.0  # a program may have to be compiled first
NUM_CALLERS = 8
MAX_KEPT = 20  # wrong answers that are kept to be shown


@dataclass(slots=True)
class Answers:
    """How many of each code, and what should not have been answered."""

    codes: Counter[str] = field(default_factory=Counter)
    harms: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    num_wrong: int = 0

    @property
    def num(self) -> int:
        return self.codes.total()

    def note(self, request: Request, code: str, *, is_right: bool, message: str = "") -> None:
        self.codes[f"{request.call} {code}"] += 1
        self.harms[request.harm] += 1
        if not is_right:
            self.num_wrong += 1
            if len(self.wrong) < MAX_KEPT:
                data = request.data[:200].hex()
                self.wrong.append(f"{request.call} ({request.harm}): {code} {message}: {data}")


class Controller:
    """Primary of the default role, and honest."""

    def __init__(self, address: str) -> None:
        self.channel = grpc.insecure_channel(address, [("grpc.max_receive_message_length", -1)])
        self.stub = p4runtime_pb2_grpc.P4RuntimeStub(self.channel)
        self._outgoing: queue.SimpleQueue[p4.StreamMessageRequest | None] = queue.SimpleQueue()
        self._stream = self.stub.StreamChannel(iter(self._outgoing.get, None))
        self._outgoing.put(arbitration(DEVICE, (ELECTION["high"], ELECTION["low"]), role=""))
        next(self._stream)

    def close(self) -> None:
        self._outgoing.put(None)
        self.channel.close()

    def load(self, info: p4info_pb2.P4Info, program: bytes) -> None:
        request = p4.SetForwardingPipelineConfigRequest(device_id=DEVICE, election_id=ELECTION)
        request.action = request.VERIFY_AND_COMMIT
        request.config.p4info.CopyFrom(info)
        request.config.p4_device_config = program
        self.stub.SetForwardingPipelineConfig(request, timeout=ANSWER_S)

    def insert(self, entity: p4.Entity) -> None:
        request = p4.WriteRequest(device_id=DEVICE, election_id=ELECTION)
        request.updates.add(type=p4.Update.INSERT, entity=entity)
        self.stub.Write(request, timeout=ANSWER_S)

    def check(self, answers_in_s: float) -> None:
        """A request that has one right answer."""
        try:
            found = self.stub.Capabilities(p4.CapabilitiesRequest(), timeout=answers_in_s)
        except grpc.RpcError as error:
            raise FuzzError(f"Capabilities was answered {error.code().name}") from error
        if not found.p4runtime_api_version.startswith("1."):
            raise FuzzError(f"Capabilities was answered {found}")


class Attacker:
    """Sends requests as they are, a few at a time."""

    def __init__(self, address: str, answers: Answers) -> None:
        self._answers = answers
        options = [("grpc.max_receive_message_length", -1)]
        self._channel = grpc.insecure_channel(address, options)
        self._callers = ThreadPoolExecutor(NUM_CALLERS)
        name = "/p4.v1.P4Runtime/"
        one: Any = self._channel.unary_unary
        many: Any = self._channel.unary_stream
        self._calls: dict[str, Any] = {
            call: one(f"{name}{call}")
            for call in ("Write", "Capabilities", "SetForwardingPipelineConfig")
        }
        self._calls["GetForwardingPipelineConfig"] = one(f"{name}GetForwardingPipelineConfig")
        self._calls["Read"] = many(f"{name}Read")
        stream: Any = self._channel.stream_stream
        self._stream = stream(f"{name}StreamChannel")

    def close(self) -> None:
        self._callers.shutdown()
        self._channel.close()

    def send(self, requests: Iterable[Request]) -> None:
        for request, code, is_right, message in self._callers.map(self._answer, requests):
            self._answers.note(request, code, is_right=is_right, message=message)

    def _answer(self, request: Request) -> tuple[Request, str, bool, str]:
        try:
            answer = self._calls[request.call](request.data, timeout=ANSWER_S)
            if request.call == "Read":
                for _ in answer:
                    pass
        except grpc.RpcError as error:
            return request, *judged(request.call, error), error.details() or ""
        return request, "OK", True, ""

    def stream(self, requests: list[Request]) -> None:
        """All on one stream; the answers say which were refused, or why it ended."""
        refused: list[str] = []
        ending = "OK"
        try:
            for data in self._stream(iter([r.data for r in requests]), timeout=ANSWER_S):
                response = p4.StreamMessageResponse.FromString(data)
                if response.WhichOneof("update") == "error":
                    refused.append(code_pb2.Code.Name(response.error.canonical_code))
        except grpc.RpcError as error:
            ending = error.code().name
        for request, code in _pairs(requests, [*refused, ending]):
            is_right = code == "OK" or code in REFUSALS
            self._answers.note(request, code, is_right=is_right)


def _pairs(requests: list[Request], codes: list[str]) -> Iterator[tuple[Request, str]]:
    """Each message once; those that nothing was said of are taken to be fine."""
    for index, request in enumerate(requests):
        yield request, codes[index] if index < len(codes) else "OK"
    for code in codes[len(requests) :]:
        yield requests[-1], code
