// SPDX-License-Identifier: Apache-2.0
// Tables of every match kind, with entries in the program and from a controller; direct counters;
// choosing by hit and by action.
#include <core.p4>
#include <v1model.p4>

header key_t { bit<8> which; bit<32> a; bit<16> b; bit<4> c; bit<4> d; bit<32> result; }

struct headers_t  { key_t key; }
struct metadata_t { bit<1> hit; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start { packet.extract(hdr.key); transition accept; }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Receive(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) exact_hits;
    direct_counter(CounterType.packets_and_bytes) ternary_hits;
    action result(bit<32> value) { hdr.key.result = value; }
    action second(bit<16> value, bit<9> port) {
        hdr.key.result = 0xffff0000 | (bit<32>)value;
        std.egress_spec = port;
    }
    action miss() { hdr.key.result = 0xdead; }
    action drop() { mark_to_drop(std); }
    table by_exact {
        key = { hdr.key.a : exact @name("a"); hdr.key.c : exact @name("c"); }
        actions = { result; second; drop; @defaultonly miss; }
        default_action = miss();
        counters = exact_hits;
        size = 4;
    }
    table by_lpm {
        key = { hdr.key.a : lpm @name("a"); hdr.key.c : exact @name("c"); }
        actions = { result; miss; }
        default_action = miss();
        size = 64;
    }
    table by_ternary {
        key = { hdr.key.a : ternary @name("a"); hdr.key.b : lpm @name("b");
                hdr.key.c : optional @name("c"); }
        actions = { result; drop; miss; }
        default_action = result(7);
        counters = ternary_hits;
        size = 64;
    }
    table by_range {
        key = { hdr.key.a : range @name("a"); hdr.key.b & 0xff0 : ternary @name("b");
                hdr.key.c : exact @name("c"); }
        actions = { result; miss; }
        const default_action = miss();
        size = 64;
    }
    table constant_lpm {
        key = { hdr.key.a : lpm @name("a"); }
        actions = { result; miss; }
        const default_action = miss();
        const entries = {
            0x0a000000 &&& 0xff000000: result(1);
            0x0a0b0000 &&& 0xffff0000: result(2);
            0x0a0b0c0d:                result(3);
            _:                         result(4);
        }
    }
    table constant_ternary {
        key = { hdr.key.a : ternary @name("a"); hdr.key.c : range @name("c"); }
        actions = { result; miss; }
        const default_action = miss();
        const entries = {
            (0x01 &&& 0xff, 2 .. 5): result(1);
            (0x01 &&& 0x0f, _):      result(2);
            (_, 7 .. 7):             result(3);
        }
    }
    apply {
        std.egress_spec = 1;
        if (hdr.key.which == 0) {
            if (by_exact.apply().hit) hdr.key.d = 1; else hdr.key.d = 2;
        } else if (hdr.key.which == 1) {
            by_lpm.apply();
        } else if (hdr.key.which == 2) {
            switch (by_ternary.apply().action_run) {
                result: { hdr.key.d = 1; }
                miss:   { hdr.key.d = 2; }
                default: { exit; }
            }
        } else if (hdr.key.which == 3) {
            by_range.apply();
        } else if (hdr.key.which == 4) {
            constant_lpm.apply();
        } else {
            constant_ternary.apply();
        }
        hdr.key.which = hdr.key.which | 0x80;
    }
}

control Send(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {}
}

control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.key); } }

V1Switch(Parse(), Verify(), Receive(), Send(), Update(), Deparse()) main;
