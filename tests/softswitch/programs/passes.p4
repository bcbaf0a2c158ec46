// SPDX-License-Identifier: Apache-2.0
// Packets that come again: clones from ingress and egress, resubmission, recirculation; and digests.
#include <core.p4>
#include <v1model.p4>

const bit<8> KEEP_ALL = 1;
const bit<8> KEEP_ONE = 2;
const bit<8> KEEP_NONE = 3;

header op_t   { bit<8> op; bit<8> left; bit<8> port; bit<8> session; bit<16> group; bit<16> value; }
header note_t {
    bit<8> kind; bit<16> length; bit<16> port; bit<16> rid; bit<16> one; bit<16> two; bit<8> late;
}
header tail_t { bit<8> a; bit<8> b; }

struct headers_t  { op_t op; note_t[3] notes; tail_t tail; }
struct metadata_t {
    @field_list(KEEP_ALL, KEEP_ONE) bit<16> one;
    @field_list(KEEP_ALL)           bit<9>  two;
    bit<8> parsed;
}

struct told_t { bit<9> port; bit<16> value; bit<8> left; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        meta.parsed = 7 + meta.one[7:0];
        packet.extract(hdr.op);
        transition select(packet.lookahead<bit<8>>()) {
            0xfe:    note;
            default: tail;
        }
    }
    state note {
        packet.advance(8);
        packet.extract(hdr.notes.next);
        transition select(packet.lookahead<bit<8>>()) {
            0xfe:    note;
            default: tail;
        }
    }
    state tail { packet.extract(hdr.tail); transition accept; }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Receive(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<16>>(4) seen;
    action count(bit<32> index) {
        bit<16> before;
        seen.read(before, index);
        seen.write(index, before + 1);
    }
    apply {
        if (hdr.op.left > 3 && hdr.op.op & 0xfe != 0x10) { hdr.op.left = 3; }
        count(std.instance_type == 4 ? 32w1 : 32w0);
        bool fresh = std.instance_type == 0;
        meta.one = meta.one + hdr.op.value;
        meta.two = meta.two + 1;
        std.egress_spec = (bit<9>)hdr.op.port;
        if (hdr.op.op & 0x01 == 0x01) { std.mcast_grp = hdr.op.group; }
        if (hdr.op.op & 0x02 == 0x02 && fresh) {
            clone_preserving_field_list(CloneType.I2E, (bit<32>)hdr.op.session, KEEP_ALL);
            hdr.op.value = 0xaaaa;
        }
        if (hdr.op.op & 0x04 == 0x04 && (fresh || std.instance_type == 6) && meta.two < 4) {
            hdr.op.left = 99;
            resubmit_preserving_field_list(KEEP_ALL);
        }
        if (hdr.op.op & 0x40 == 0x40) {
            digest<told_t>(1, { std.ingress_port, meta.one, hdr.op.left });
        }
        if (hdr.op.op & 0x80 == 0x80) { hdr.tail.setInvalid(); truncate(12); }
    }
}

control Send(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        bit<32> kind = std.instance_type;
        if (hdr.op.op & 0x08 == 0x08 && kind != 2 && hdr.op.left > 0) {
            clone_preserving_field_list(CloneType.E2E, (bit<32>)hdr.op.session, KEEP_ONE);
        }
        hdr.notes.push_front(1);
        hdr.notes[0].setValid();
        hdr.notes[0].kind = 0xfe;
        hdr.notes[0].length = (bit<16>)std.packet_length;
        hdr.notes[0].port = (bit<16>)std.egress_port;
        hdr.notes[0].rid = std.egress_rid;
        hdr.notes[0].one = meta.one;
        hdr.notes[0].two = (bit<16>)meta.two;
        hdr.notes[0].late = meta.parsed + (bit<8>)kind;
        if (hdr.op.op & 0x10 == 0x10 && hdr.op.left > 0 && kind != 1) {
            hdr.op.left = hdr.op.left - 1;
            if (hdr.op.left[0:0] == 0) { recirculate_preserving_field_list(KEEP_ONE); }
            else { recirculate_preserving_field_list(KEEP_NONE); }
        }
        if (hdr.op.op & 0x20 == 0x20 && std.egress_port == 3) { mark_to_drop(std); }
    }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.op); packet.emit(hdr.notes); packet.emit(hdr.tail); }
}

V1Switch(Parse(), Verify(), Receive(), Send(), Update(), Deparse()) main;
