// SPDX-License-Identifier: Apache-2.0
// One of each thing that P4Runtime names. Rebuild, in this folder:
//   p4c --target bmv2 --arch v1model --p4runtime-files program.p4info.txtpb \
//       program.p4 && rm program.p4i
#include <core.p4>
#include <v1model.p4>

header key_t { bit<8> which; bit<32> a; bit<16> b; bit<8> c; bit<32> result; }

struct headers_t  { key_t key; }
struct metadata_t { }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    value_set<bit<8>>(4) refused;
    state start {
        packet.extract(hdr.key);
        transition select(hdr.key.which) {
            refused: no;
            default: accept;
        }
    }
    state no { hdr.key.result = 0xbad; transition accept; }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Receive(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) exact_hits;
    counter(8, CounterType.packets_and_bytes) seen;
    register<bit<128>>(4) cells;

    action result(bit<32> value) { hdr.key.result = value; }
    action send(bit<9> port, bit<16> value) {
        std.egress_spec = port;
        hdr.key.result = (bit<32>)value;
    }
    action replicate(bit<16> group) { std.mcast_grp = group; }
    action miss() { hdr.key.result = 0xdead; }

    table by_exact {
        key = { hdr.key.a : exact @name("a"); }
        actions = { result; send; replicate; @defaultonly miss; }
        default_action = miss();
        counters = exact_hits;
        size = 4;
    }
    table by_lpm {
        key = { hdr.key.a : lpm @name("a"); hdr.key.c : exact @name("c"); }
        actions = { result; @tableonly send; miss; }
        default_action = result(7);
        size = 16;
    }
    table by_ternary {
        key = { hdr.key.a : ternary @name("a"); hdr.key.b : range @name("b");
                hdr.key.c : optional @name("c"); }
        actions = { result; miss; }
        const default_action = miss();
        size = 16;
    }
    table constant {
        key = { hdr.key.a : exact @name("a"); }
        actions = { result; miss; }
        default_action = miss();
        const entries = { 1 : result(11); 2 : result(22); }
    }
    table always {
        actions = { result; miss; }
        default_action = miss();
    }
    apply {
        std.egress_spec = 1;
        seen.count((bit<32>)hdr.key.which);
        if (hdr.key.result == 0xbad) {
            std.egress_spec = 2;
        } else if (hdr.key.which == 0) {
            by_exact.apply();
        } else if (hdr.key.which == 1) {
            by_lpm.apply();
        } else if (hdr.key.which == 2) {
            by_ternary.apply();
        } else if (hdr.key.which == 3) {
            constant.apply();
        } else if (hdr.key.which == 4) {
            always.apply();
        } else if (hdr.key.which == 5) {
            bit<128> cell;
            cells.read(cell, hdr.key.a);
            cells.write(hdr.key.a, cell + (bit<128>)hdr.key.b);
        }
    }
}

control Send(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {}
}

control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.key); } }

V1Switch(Parse(), Verify(), Receive(), Send(), Update(), Deparse()) main;
