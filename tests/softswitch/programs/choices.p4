// SPDX-License-Identifier: Apache-2.0
// Entries that choose among actions (action profiles, selectors) and meters, direct and indirect.
#include <core.p4>
#include <v1model.p4>

header op_t { bit<8> op; bit<8> key; bit<32> flow; bit<16> result; bit<8> colour; bit<8> index; }

struct headers_t  { op_t op; }
struct metadata_t { bit<2> colour; bit<8> seen; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start { packet.extract(hdr.op); transition accept; }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Receive(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action result(bit<16> value) { hdr.op.result = value; }
    action flip(bit<8> a, bit<8> b) { hdr.op.result = a ++ b; hdr.op.flow = ~hdr.op.flow; }
    action drop() { mark_to_drop(std); }

    action_profile(16) calls;
    action_selector(HashAlgorithm.crc32, 32, 16) paths;
    direct_counter(CounterType.packets_and_bytes) hits;
    direct_meter<bit<2>>(MeterType.packets) pace;
    meter(8, MeterType.bytes) volume;

    table by_member {
        key = { hdr.op.key : exact; }
        actions = { result; flip; drop; }
        implementation = calls;
        size = 16;
    }
    table by_hash {
        key = { hdr.op.key : ternary; hdr.op.flow : selector; hdr.op.index : selector; }
        actions = { result; flip; NoAction; }
        implementation = paths;
        counters = hits;
        size = 16;
    }
    table also_by_hash {
        key = { hdr.op.key : lpm; hdr.op.flow : selector; hdr.op.index : selector; }
        actions = { result; flip; NoAction; }
        implementation = paths;
        size = 16;
    }
    action paced() { pace.read(meta.colour); hdr.op.index = hdr.op.index + 1; }
    table metered {
        key = { hdr.op.key : exact; }
        actions = { paced; NoAction; }
        default_action = NoAction();
        meters = pace;
        size = 16;
    }
    apply {
        std.egress_spec = 1;
        if (hdr.op.op == 0) { by_member.apply(); }
        else if (hdr.op.op == 1) {
            if (by_hash.apply().hit) { meta.seen = 1; }
        }
        else if (hdr.op.op == 2) {
            switch (also_by_hash.apply().action_run) {
                result: { meta.seen = 2; }
                flip:   { meta.seen = 3; }
            }
        }
        else if (hdr.op.op == 3) { metered.apply(); hdr.op.colour = 6w3 ++ meta.colour; }
        else { volume.execute_meter<bit<8>>((bit<32>)hdr.op.index, hdr.op.colour); }
        hdr.op.op = meta.seen;
    }
}

control Send(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {}
}

control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(Parse(), Verify(), Receive(), Send(), Update(), Deparse()) main;
