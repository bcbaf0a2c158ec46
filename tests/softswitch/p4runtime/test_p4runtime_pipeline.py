# SPDX-License-Identifier: Apache-2.0
"""The forwarding pipeline over P4Runtime: verified, saved, committed, reconciled, given back."""

import grpc
import pytest
from p4.v1 import p4runtime_pb2 as p4
from p4runtime_sh.p4runtime import P4RuntimeException

from tests.softswitch.p4runtime.controller import DELETE, DEVICE, INSERT, JSON, MODIFY, exact, key

SET = p4.SetForwardingPipelineConfigRequest
GET = p4.GetForwardingPipelineConfigRequest


class TestPipeline:
    def set(self, ctl, action, config=True, **fields):
        request = SET(device_id=DEVICE, action=action, **fields)
        request.election_id.low = 1
        if config:
            request.config.p4info.CopyFrom(ctl.info)
            request.config.p4_device_config = JSON.read_bytes()
            request.config.cookie.cookie = 77
        return ctl.client.stub.SetForwardingPipelineConfig(request)

    def code(self, call, *args, **fields):
        with pytest.raises(grpc.RpcError) as error:
            call(*args, **fields)
        return error.value.code().name, error.value.details()

    def get(self, ctl, kind):
        return ctl.client.stub.GetForwardingPipelineConfig(
            GET(device_id=DEVICE, response_type=kind)
        )

    def test_before_a_pipeline_reads_and_writes_are_a_failed_precondition(self, bare):
        message = "no forwarding pipeline config set for this device"
        expected = ("FAILED_PRECONDITION", message)
        assert self.code(bare.read, p4.Entity(table_entry=p4.TableEntry())) == expected
        assert not self.get(bare, GET.ALL).HasField("config")
        assert self.code(bare.write, (INSERT, exact(bare, b"\x01"))) == expected
        bare.switch.inject(1, key(0))
        assert bare.switch.take_output() == {}
        assert bare.switch.stats()["dropped"] == {"no_pipeline": 1}

    def test_what_cannot_be_run_is_refused_whatever_the_action(self, bare):
        header = bare.info.controller_packet_metadata.add()
        header.preamble.name, header.preamble.id = "packet_in", 0x4000001
        header.metadata.add(id=1, name="port", bitwidth=9)
        for action in (SET.VERIFY, SET.VERIFY_AND_SAVE, SET.VERIFY_AND_COMMIT):
            code, reason = self.code(self.set, bare, action)
            assert code == "INVALID_ARGUMENT"
            assert reason == "controller header packet_in has 9 bits, not whole bytes"
        header.metadata[0].bitwidth = 0
        code, reason = self.code(self.set, bare, SET.VERIFY)
        assert (code, "not support" in reason) == ("INVALID_ARGUMENT", True)

    def test_entries_of_the_program_that_are_not_constant_can_be_changed(self, bare):
        [table] = [t for t in bare.info.tables if t.preamble.alias == "constant"]
        table.is_const_table, table.has_initial_entries = False, True
        self.set(bare, SET.VERIFY_AND_COMMIT)
        assert [bare.result(3, a=a)[1] for a in (1, 2, 3)] == [11, 22, 0xDEAD]
        one, two, three = (
            bare.entry("constant", [(1, "exact", a)], ("result", b"\x21"))
            for a in (b"\x01", b"\x02", b"\x03")
        )
        table.size = 3
        self.set(bare, SET.VERIFY_AND_COMMIT)
        bare.write((INSERT, three))
        bare.write((DELETE, three))
        bare.write((DELETE, one), (MODIFY, two), (INSERT, three))
        assert [bare.result(3, a=a)[1] for a in (1, 2, 3)] == [0xDEAD, 0x21, 0x21]
        assert {e.table_entry.is_const for e in bare.read(bare.entry("constant"))} == {False}

    def test_verify_changes_nothing(self, bare):
        self.set(bare, SET.VERIFY)
        assert not self.get(bare, GET.ALL).HasField("config")

    def test_a_saved_pipeline_is_used_from_commit_on(self, bare):
        assert self.code(self.set, bare, SET.COMMIT, config=False)[0] == "NOT_FOUND"
        self.set(bare, SET.VERIFY_AND_SAVE)
        assert not self.get(bare, GET.ALL).HasField("config")
        self.set(bare, SET.COMMIT, config=False)
        assert bare.result(3, 1) == (1, 11)

    def test_what_is_written_after_a_save_is_there_from_commit_on(self, bare):
        self.set(bare, SET.VERIFY_AND_COMMIT)
        old = exact(bare, b"\x02", ("result", b"\x11"))
        bare.write((INSERT, old))
        self.set(bare, SET.VERIFY_AND_SAVE)
        assert bare.read(bare.entry("by_exact")) == []
        new = exact(bare, b"\x01", ("result", b"\x2a"))
        bare.write((INSERT, new))
        assert bare.read(bare.entry("by_exact")) == [new]
        assert (bare.result(0, 1), bare.result(0, 2)) == ((1, 0xDEAD), (1, 0x11))
        self.set(bare, SET.COMMIT, config=False)
        assert bare.read(bare.entry("by_exact")) == [new]
        assert (bare.result(0, 1), bare.result(0, 2)) == ((1, 42), (1, 0xDEAD))
        assert self.code(self.set, bare, SET.COMMIT, config=False)[0] == "NOT_FOUND"

    def test_reconcile_keeps_what_cells_hold(self, bare):
        self.set(bare, SET.VERIFY_AND_COMMIT)
        bare.result(5, 3, 7)  # adds 7 to cell 3
        bare.write((INSERT, exact(bare, b"\x01", ("result", b"\x2a"))))
        bare.result(0, 1)
        table = {"table_id": bare.id("tables", "by_exact")}
        asked = [
            p4.Entity(register_entry={"register_id": bare.id("registers", "cells")}),
            p4.Entity(counter_entry={"counter_id": bare.id("counters", "seen")}),
            p4.Entity(direct_counter_entry={"table_entry": table}),
        ]
        before = [bare.read(one) for one in asked]
        assert any(e.register_entry.data.bitstring == b"\x07" for e in before[0])
        self.set(bare, SET.RECONCILE_AND_COMMIT)
        assert [bare.read(one) for one in asked] == before

    def test_commit_starts_afresh_and_reconcile_keeps_the_state(self, bare):
        self.set(bare, SET.VERIFY_AND_COMMIT)
        entity = exact(bare, b"\x01", ("result", b"\x2a"), metadata=b"kept")
        bare.write((INSERT, entity))
        self.set(bare, SET.RECONCILE_AND_COMMIT)
        assert bare.read(bare.entry("by_exact")) == [entity]
        assert bare.result(0, 1) == (1, 42)
        self.set(bare, SET.VERIFY_AND_COMMIT)
        assert bare.read(bare.entry("by_exact")) == []
        assert bare.result(0, 1) == (1, 0xDEAD)

    def test_the_configuration_is_given_back_as_asked(self, bare):
        self.set(bare, SET.VERIFY_AND_COMMIT)
        parts = {
            kind: self.get(bare, kind).config
            for kind in (
                GET.ALL,
                GET.COOKIE_ONLY,
                GET.P4INFO_AND_COOKIE,
                GET.DEVICE_CONFIG_AND_COOKIE,
            )
        }
        assert {config.cookie.cookie for config in parts.values()} == {77}
        assert [c.p4info == bare.info for c in parts.values()] == [True, False, True, False]
        text = JSON.read_bytes()
        assert [c.p4_device_config == text for c in parts.values()] == [True, False, False, True]

    def test_a_configuration_without_a_cookie_is_known_all_the_same(self, ctl):
        found = self.get(ctl, GET.COOKIE_ONLY)
        assert found.HasField("config")
        assert not found.config.HasField("cookie")

    def test_a_part_that_there_is_not_is_refused(self, ctl):
        expected = ("INVALID_ARGUMENT", "response_type 9 is none of the request's")
        assert self.code(self.get, ctl, 9) == expected

    def test_tables_that_p4info_leaves_out_are_named(self, bare, caplog):
        request = SET(device_id=DEVICE, action=SET.VERIFY_AND_COMMIT)
        request.election_id.low = 1
        request.config.p4info.CopyFrom(bare.info)
        del request.config.p4info.tables[1:]
        request.config.p4_device_config = JSON.read_bytes()
        bare.client.stub.SetForwardingPipelineConfig(request)
        [told] = [r.getMessage() for r in caplog.records if "P4Info" in r.getMessage()]
        assert told.startswith("nobody can write Receive.by_lpm, Receive.by_ternary, Receive.const")

    def test_a_bad_pipeline_is_refused_and_the_old_one_stays(self, ctl):
        request = SET(device_id=DEVICE, action=SET.VERIFY_AND_COMMIT)
        request.election_id.low = 1
        send = ctl.client.stub.SetForwardingPipelineConfig
        code, message = self.code(send, request)
        assert (code, message) == ("INVALID_ARGUMENT", "the configuration has no P4Info")
        request.config.p4info.CopyFrom(ctl.info)
        for config in (b"", b"\xff\xfe", b"[]", b"{}", b"not json"):
            request.config.p4_device_config = config
            code, message = self.code(send, request)
            assert code == "INVALID_ARGUMENT"
            assert message.startswith(("the device configuration", "program"))
        request.config.p4_device_config = JSON.read_bytes()
        request.config.p4info.tables[0].preamble.name = "Receive.other"
        code, message = self.code(send, request)
        assert code == "INVALID_ARGUMENT"
        assert "Receive.other" in message
        assert ctl.result(3, 1) == (1, 11)

    def test_an_unknown_action_is_refused(self, bare):
        assert self.code(self.set, bare, SET.UNSPECIFIED)[0] == "INVALID_ARGUMENT"

    def test_another_device_is_not_found(self, ctl):
        message = "device 4 is not here, this is device 3"
        read = p4.ReadRequest(device_id=4)
        assert self.code(list, ctl.client.stub.Read(read)) == ("NOT_FOUND", message)
        write = p4.WriteRequest(device_id=4)
        assert self.code(ctl.client.stub.Write, write) == ("NOT_FOUND", message)
        get = GET(device_id=4)
        assert self.code(ctl.client.stub.GetForwardingPipelineConfig, get)[0] == "NOT_FOUND"

    def test_reading_what_is_not_there_is_an_error(self, ctl):
        entry = exact(ctl, b"\x01")
        ctl.write((INSERT, entry))
        found, refused = ctl.read_refused(
            p4.Entity(table_entry=p4.TableEntry(table_id=42)),
            p4.Entity(counter_entry=p4.CounterEntry(counter_id=42)),
            ctl.entry("by_exact"),
            p4.Entity(register_entry=p4.RegisterEntry(register_id=42)),
            p4.Entity(),
            p4.Entity(extern_entry=p4.ExternEntry()),
        )
        assert found == [entry]
        assert [(number, code) for number, code, _ in refused] == [
            (0, "NOT_FOUND"),
            (1, "NOT_FOUND"),
            (3, "NOT_FOUND"),
            (4, "INVALID_ARGUMENT"),
            (5, "UNIMPLEMENTED"),
        ]

    def test_the_api_version_is_that_of_the_messages(self, bare):
        assert bare.client.api_version() == "1.4.1"

    def test_the_shells_own_calls_work(self, ctl):
        assert ctl.client.get_p4info() == ctl.info
        ctl.client.device_id = 9
        with pytest.raises(P4RuntimeException, match="NOT_FOUND"):
            ctl.client.get_p4info()
