// SPDX-License-Identifier: Apache-2.0
// Headers of changing shape: header unions, stacks of them, variable-length fields; and loops.
#include <core.p4>
#include <v1model.p4>

header op_t    { bit<8> op; bit<8> index; bit<8> length; bit<8> next; }
header byte_t  { bit<8> b; }
header word_t  { bit<16> w; }
header text_t  { bit<4> kind; varbit<64> text; bit<4> check; }
header sum_t   { bit<16> sum; }

header_union either_t { byte_t byte; word_t word; }

struct headers_t  {
    op_t op; either_t one; either_t two; either_t[3] many; text_t text; text_t copy; sum_t sum;
}
struct metadata_t { bit<2> index; text_t spare; bit<8> count; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.op);
        transition select(hdr.op.next) {
            0x01 &&& 0x01: byte;
            0x02 &&& 0x02: word;
            default: many;
        }
    }
    state byte { packet.extract(hdr.one.byte); transition many; }
    state word { packet.extract(hdr.one.word); transition many; }
    state many {
        transition select(packet.lookahead<bit<8>>()) {
            0x01: next_byte;
            0x02: next_word;
            0x03: text;
            default: accept;
        }
    }
    state next_byte { packet.extract(hdr.many.next.byte); transition many; }
    state next_word { packet.extract(hdr.many.next.word); transition many; }
    state text {
        packet.advance(8);
        packet.extract(hdr.text, (bit<32>)hdr.op.length);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.sum.isValid(),
                        { hdr.text.kind, hdr.text.text, hdr.text.check, hdr.copy.text, 4w5 },
                        hdr.sum.sum, HashAlgorithm.csum16);
    }
}

control Receive(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    varbit<64> kept;
    action one_to_two() { hdr.two = hdr.one; }
    action make_byte()  { hdr.one.byte.setValid(); hdr.one.byte.b = hdr.op.index; }
    action make_word()  { hdr.one.word.setValid(); hdr.one.word.w = 0x1234; }
    action unmake()     { hdr.one.byte.setInvalid(); hdr.two.word.setInvalid(); }
    action push()       { hdr.many.push_front(1); hdr.many[0].word.setValid(); }
    action pop()        { hdr.many.pop_front(1); }
    action copy_text()  { hdr.copy = hdr.text; hdr.copy.kind = hdr.copy.kind + 1; }
    action keep_text()  {
        kept = hdr.text.text;
        hdr.copy.setValid();
        hdr.copy.text = kept;
    }
    action add_text()   { hdr.text.setInvalid(); hdr.text.setValid(); hdr.text.check = 9; }
    action spare_text() { meta.spare = hdr.text; hdr.text.setInvalid(); hdr.copy = meta.spare; }
    action loop() {
        for (bit<8> i = 0; i < hdr.op.index; i = i + 1) {
            if (i == 7) { continue; }
            if (i == 60) { break; }
            meta.count = meta.count + i;
        }
        hdr.op.index = meta.count;
    }
    table ops {
        key = { hdr.op.op : exact; }
        actions = {
            one_to_two; make_byte; make_word; unmake; push; pop; copy_text; keep_text; add_text;
            spare_text; loop; NoAction;
        }
        const entries = {
            0: one_to_two();
            1: make_byte();
            2: make_word();
            3: unmake();
            4: push();
            5: pop();
            6: copy_text();
            7: keep_text();
            8: add_text();
            9: spare_text();
            10: loop();
        }
        const default_action = NoAction();
    }
    apply {
        ops.apply();
        std.egress_spec = 1;
        if (hdr.one.isValid() && hdr.two.isValid()) { hdr.op.next = 0xee; }
        if (hdr.text == hdr.copy) { hdr.op.next = hdr.op.next + 1; }
        if (hdr.text.isValid() && hdr.copy.isValid() && hdr.text.text == hdr.copy.text) { hdr.op.next = hdr.op.next + 2; }
        if (hdr.text.isValid()) { hdr.sum.setValid(); }
    }
}

control Send(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        hdr.op.length = (bit<8>)std.packet_length;
        if (hdr.op.op == 11) { hdr.one.byte.setValid(); hdr.text.setInvalid(); }
    }
}

control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(Parse(), Verify(), Receive(), Send(), Update(), Deparse()) main;
