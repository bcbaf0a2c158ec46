// SPDX-License-Identifier: Apache-2.0
// Parsing and header stacks: next, last, lookahead, advance, verify, value sets; push, pop, elements
// chosen at run time.
#include <core.p4>
#include <v1model.p4>

header eth_t   { bit<48> dst; bit<48> src; bit<16> kind; }
header op_t    { bit<8> op; bit<8> index; bit<8> skip; }
header label_t { bit<20> label; bit<3> tc; bit<1> bottom; bit<8> ttl; }
header tail_t  { bit<4> version; bit<12> value; }

struct headers_t  { eth_t eth; op_t op; label_t[3] labels; tail_t tail; }
struct metadata_t { bit<4> next_version; bit<2> index; bit<8> last_ttl; label_t spare; }

error { BadVersion }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    value_set<bit<16>>(4) tails;
    state start {
        packet.extract(hdr.eth);
        transition select(hdr.eth.kind) {
            0x8847:            op;
            0x1000 &&& 0xf000: tail;
            tails:             tail;
            default:           accept;
        }
    }
    state op {
        packet.extract(hdr.op);
        packet.advance((bit<32>)hdr.op.skip * 8);
        transition labels;
    }
    state labels {
        packet.extract(hdr.labels.next);
        meta.last_ttl = hdr.labels.last.ttl;
        transition select(hdr.labels.last.bottom, packet.lookahead<bit<4>>()) {
            (0, _): labels;
            (1, 6): tail;
            (1, _): accept;
        }
    }
    state tail {
        meta.next_version = packet.lookahead<bit<4>>();
        packet.extract(hdr.tail);
        verify(hdr.tail.version == 6, error.BadVersion);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Receive(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action push() {
        hdr.labels.push_front(1);
        hdr.labels[0].setValid();
        hdr.labels[0].label = (bit<20>)hdr.op.index;
        hdr.labels[0].ttl = meta.last_ttl;
    }
    action push_two() { hdr.labels.push_front(2); }
    action pop() { hdr.labels.pop_front(1); }
    action pop_two() { hdr.labels.pop_front(2); }
    action raise() {
        meta.index = hdr.op.index[1:0];
        hdr.labels[meta.index].ttl = hdr.labels[meta.index].ttl + 1;
    }
    action copy_down() {
        meta.index = hdr.op.index[1:0];
        hdr.labels[0] = hdr.labels[meta.index];
    }
    action remove() {
        meta.index = hdr.op.index[1:0];
        hdr.labels[meta.index].setInvalid();
    }
    action compare() {
        hdr.op.index = hdr.labels[0] == hdr.labels[1] ? 8w1 : 8w0;
    }
    action through_spare() {
        meta.spare = hdr.labels[0];
        hdr.labels[0] = hdr.labels[1];
        hdr.labels[1] = meta.spare;
    }
    action nothing() {}
    table ops {
        key = { hdr.op.op : exact; }
        actions = { push; push_two; pop; pop_two; raise; copy_down; remove; compare; through_spare; nothing; }
        const default_action = nothing();
        const entries = {
            1: push();
            2: push_two();
            3: pop();
            4: pop_two();
            5: raise();
            6: copy_down();
            7: remove();
            8: compare();
            9: through_spare();
        }
    }
    apply {
        std.egress_spec = 1;
        if (hdr.op.isValid()) ops.apply();
        // What the parser found, for all to see.
        if (std.parser_error == error.PacketTooShort) hdr.eth.src[31:0] = 1;
        else if (std.parser_error == error.StackOutOfBounds) hdr.eth.src[31:0] = 2;
        else if (std.parser_error == error.BadVersion) hdr.eth.src[31:0] = 3;
        else hdr.eth.src[31:0] = 0;
        hdr.eth.src[47:44] = meta.next_version;
        if (hdr.labels[1].isValid() && !hdr.labels[2].isValid()) hdr.eth.src[43:40] = 2;
    }
}

control Send(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { hdr.eth.dst[31:0] = std.packet_length; }
}

control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(Parse(), Verify(), Receive(), Send(), Update(), Deparse()) main;
