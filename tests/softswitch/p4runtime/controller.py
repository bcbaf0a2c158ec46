# SPDX-License-Identifier: Apache-2.0
"""A controller for P4Runtime tests, made of p4runtime-shell's client, that knows program.p4."""

import struct
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from google.protobuf import text_format
from google.rpc.code_pb2 import Code
from google.rpc.status_pb2 import Status
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2 as p4
from p4runtime_sh.p4runtime import P4RuntimeClient

from softswitch.ports.spec import PortSpec
from softswitch.switch import Switch, SwitchConfig

HERE = Path(__file__).parent
JSON, P4INFO = HERE / "program.json", HERE / "program.p4info.txtpb"
INSERT, MODIFY, DELETE = p4.Update.INSERT, p4.Update.MODIFY, p4.Update.DELETE
DEVICE = 3
CPU_PORT = 64


def key(which, a=0, b=0, c=0, result=0):
    return struct.pack(">BIHBI", which, a, b, c, result)


class Controller:
    """A primary controller that knows a program's names."""

    def __init__(self, switch, json=JSON, p4info=P4INFO):
        self.switch = switch
        self.files = str(p4info), str(json)
        self.client = P4RuntimeClient(DEVICE, switch.grpc_address, (0, 1))
        self.info = text_format.Parse(p4info.read_text(), p4info_pb2.P4Info())

    def id(self, kind, alias):
        [found] = [i for i in getattr(self.info, kind) if i.preamble.alias == alias]
        return found.preamble.id

    def set_pipeline(self):
        self.client.set_fwd_pipe_config(*self.files)

    def entry(self, table, matches=(), action=None, **fields):
        """`matches` are (field id, kind, its values); `action` is (alias, byte strings)."""
        entry = p4.TableEntry(table_id=self.id("tables", table), **fields)
        for field, kind, *values in matches:
            match = entry.match.add(field_id=field)
            target = getattr(match, kind)
            for name, value in zip(_PARTS[kind], values, strict=True):
                setattr(target, name, value)
        if action:
            alias, *arguments = action
            entry.action.action.action_id = self.id("actions", alias)
            for number, value in enumerate(arguments, start=1):
                entry.action.action.params.add(param_id=number, value=value)
        return p4.Entity(table_entry=entry)

    def write(self, *updates, atomicity=p4.WriteRequest.CONTINUE_ON_ERROR):
        request = p4.WriteRequest(atomicity=atomicity)
        for kind, entity in updates:
            request.updates.add(type=kind, entity=entity)
        request.device_id, request.election_id.low = DEVICE, 1
        return self.client.stub.Write(request)

    def refused(self, *updates, **options):
        """The (index, code name, message) of every update that is refused."""
        with pytest.raises(grpc.RpcError) as error:
            self.write(*updates, **options)
        return self._failed(error.value, len(updates))

    @staticmethod
    def _failed(error, num_parts):
        assert error.code() is grpc.StatusCode.UNKNOWN
        # Not with p4runtime-shell's iterator: 0.0.6 never gets past an update that went well.
        details = dict(error.trailing_metadata())["grpc-status-details-bin"]
        found = [p4.Error.FromString(any.value) for any in Status.FromString(details).details]
        assert len(found) == num_parts
        listed = [(i, Code.Name(e.canonical_code), e.message) for i, e in enumerate(found)]
        return [each for each in listed if each[1] != "OK"]

    def read(self, *entities):
        request = p4.ReadRequest(device_id=DEVICE, entities=entities)
        return [e for response in self.client.stub.Read(request) for e in response.entities]

    def read_refused(self, *entities):
        """What is read all the same, and the (index, code name, message) of what is refused."""
        request = p4.ReadRequest(device_id=DEVICE, entities=entities)
        call, found = self.client.stub.Read(request), []
        with pytest.raises(grpc.RpcError) as error:
            found.extend(entity for response in call for entity in response.entities)
        return found, self._failed(error.value, len(entities))

    def result(self, *fields, **named):
        """The port and the result field with which a key comes out."""
        self.switch.inject(1, key(*fields, **named))
        [(port, [frame])] = self.switch.take_output().items()
        return port, int.from_bytes(frame[-4:], "big")


_PARTS = {
    "exact": ["value"],
    "lpm": ["value", "prefix_len"],
    "ternary": ["value", "mask"],
    "range": ["low", "high"],
    "optional": ["value"],
}


@contextmanager
def with_cpu_port(kind, json, p4info, engine):
    """A controller of that kind, with its pipeline, of a switch with two memory ports."""
    ports = (PortSpec(1, "memory"), PortSpec(2, "memory"), PortSpec(CPU_PORT, "cpu"))
    config = SwitchConfig(ports, grpc_address="127.0.0.1:0", device_id=DEVICE, engine=engine)
    with Switch(config) as switch:
        controller = kind(switch, json, p4info)
        controller.set_pipeline()
        yield controller
        controller.client.tear_down()


def exact(ctl, a, action=("result", b"\x01"), **fields):
    return ctl.entry("by_exact", [(1, "exact", a)], action, **fields)
