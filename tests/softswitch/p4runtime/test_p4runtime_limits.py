# SPDX-License-Identifier: Apache-2.0
"""What a client of gRPC takes by default, 8 KiB at the end of a call and 4 MiB in a message; and
what one client may take of the server.
"""

import grpc
import pytest
from p4.v1 import p4runtime_pb2 as p4

from softswitch import ir
from softswitch.errors import AlreadyExists, NotFound
from softswitch.p4runtime.messages import split
from softswitch.p4runtime.server import MAX_READS, MAX_STREAMS, MAX_THREADS, limited
from softswitch.state import Change, ControlState, EntryUpdate
from tests.softswitch.p4runtime.controller import DEVICE, INSERT, exact
from tests.softswitch.switches import program


def test_a_long_value_is_refused_with_its_code(ctl):
    [(number, code, message)] = ctl.refused((INSERT, exact(ctl, b"\xff" * 9000)))
    assert (number, code) == (0, "OUT_OF_RANGE")
    assert message.endswith("...")


def test_a_long_role_is_refused_with_its_code(ctl):
    request = p4.WriteRequest(device_id=DEVICE, role="r" * 20_000)
    with pytest.raises(grpc.RpcError) as error:
        ctl.client.stub.Write(request)
    assert error.value.code() is grpc.StatusCode.PERMISSION_DENIED


def test_of_some_refusals_the_texts_are_cut(ctl):
    wrong = exact(ctl, b"\x01\x00\x00\x00\x00")
    good = exact(ctl, b"\x01")
    found = ctl.refused((INSERT, good), *[(INSERT, wrong)] * 60)
    assert [(number, code) for number, code, _ in found] == [
        (number, "OUT_OF_RANGE") for number in range(1, 61)
    ]
    assert ctl.read(ctl.entry("by_exact")) == [good]


def test_of_many_refusals_the_first_is_told(ctl):
    wrong = exact(ctl, b"\x01\x00\x00\x00\x00")
    with pytest.raises(grpc.RpcError) as error:
        ctl.write((INSERT, exact(ctl, b"\x01")), *[(INSERT, wrong)] * 1000)
    assert error.value.code() is grpc.StatusCode.UNKNOWN
    assert "1000 of 1001 updates failed; number 1: match field a" in error.value.details()
    assert len(ctl.read(ctl.entry("by_exact"))) == 1


def test_of_many_updates_not_made_the_one_that_was_refused_is_told(ctl):
    wrong, good = exact(ctl, b"\x01\x00\x00\x00\x00"), exact(ctl, b"\x01")
    updates = [*[(INSERT, good)] * 150, (INSERT, wrong), *[(INSERT, good)] * 50]
    with pytest.raises(grpc.RpcError) as error:
        ctl.write(*updates, atomicity=p4.WriteRequest.ROLLBACK_ON_ERROR)
    assert "number 150: match field a" in error.value.details()


def test_each_update_that_can_be_made_is_made():
    known = program("matches")
    table = known.tables["Receive.by_exact"]
    state = ControlState(known)

    def entry(change, value):
        call = None if change is Change.DELETE else ir.ActionCall("Receive.result", (value,))
        return EntryUpdate(change, table.name, tuple(ir.Exact(value) for _ in table.keys), 0, call)

    before = state.snapshot
    errors = state.apply_each([entry(Change.DELETE, 1), entry(Change.MODIFY, 2)])
    assert [type(error) for error in errors] == [NotFound, NotFound]
    assert state.snapshot is before
    changes = [(Change.INSERT, 1), (Change.INSERT, 1), (Change.INSERT, 2), (Change.DELETE, 1)]
    errors = state.apply_each([entry(*change) for change in changes])
    assert [type(error) for error in errors] == [type(None), AlreadyExists, type(None), type(None)]
    [left] = state.snapshot.tables[table.name].entries.values()
    assert left.call == ir.ActionCall("Receive.result", (2,))


def test_what_is_told_is_split_by_number_and_by_size():
    entries = [p4.TableEntry(metadata=bytes(size)) for size in (10, 10, 10, 90, 200, 10)]
    parts = list(split(entries, 2, 120))
    assert [[len(entry.metadata) for entry in part] for part in parts] == [
        [10, 10],
        [10, 90],
        [200],
        [10],
    ]
    assert list(split([], 2, 120)) == []


def test_reads_that_nobody_takes_leave_threads_to_other_calls():
    class Aborted(Exception):  # noqa: N818
        pass

    class Context:
        def abort(self, code, text):
            raise Aborted(code)

    read = limited(lambda request, context: iter("abc"), most=2)
    first, second = read(None, Context()), read(None, Context())
    assert (next(first), next(second)) == ("a", "a")
    with pytest.raises(Aborted, match="RESOURCE_EXHAUSTED"):
        next(read(None, Context()))
    first.close()  # its client has gone
    assert list(read(None, Context())) == ["a", "b", "c"]
    assert list(second) == ["b", "c"]
    assert MAX_THREADS > MAX_STREAMS + MAX_READS
