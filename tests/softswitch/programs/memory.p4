// SPDX-License-Identifier: Apache-2.0
// Registers as wide as a vector, counters, indices out of range, jumps inside actions.
#include <core.p4>
#include <v1model.p4>

const bit<32> CELLS = 8;

header op_t   { bit<8> op; bit<32> index; bit<16> amount; }
header wide_t { bit<2048> value; }

struct headers_t  { op_t op; wide_t wide; }
struct metadata_t { bit<2048> sum; bit<16> seen; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.op);
        transition select(hdr.op.op) {
            0 .. 2:  wide;
            default: accept;
        }
    }
    state wide { packet.extract(hdr.wide); transition accept; }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Receive(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<2048>>(CELLS) sums;
    register<bit<16>>(CELLS) seen;
    register<int<12>>(CELLS) signed_cells;
    counter(CELLS, CounterType.packets_and_bytes) ops;

    action store() { sums.write(hdr.op.index, hdr.wide.value); }
    action add() {
        sums.read(meta.sum, hdr.op.index);
        meta.sum = meta.sum + hdr.wide.value;
        sums.write(hdr.op.index, meta.sum);
        hdr.wide.value = meta.sum;
    }
    action subtract() {
        sums.read(meta.sum, hdr.op.index);
        hdr.wide.value = meta.sum - hdr.wide.value;
    }
    action fetch() {
        hdr.wide.setValid();
        sums.read(hdr.wide.value, hdr.op.index);
    }
    action once() {
        seen.read(meta.seen, hdr.op.index);
        if (meta.seen & hdr.op.amount == 0) {
            meta.seen = meta.seen | hdr.op.amount;
            seen.write(hdr.op.index, meta.seen);
            hdr.op.amount = 0;
        } else {
            hdr.op.amount = 0xffff;
        }
        hdr.op.op = 0x55;
    }
    action signed_step() {
        int<12> cell;
        signed_cells.read(cell, hdr.op.index);
        cell = cell |-| (int<12>)hdr.op.amount[11:0];
        signed_cells.write(hdr.op.index, cell);
        hdr.op.amount = (bit<16>)(int<16>)cell;
        if (cell < -5) hdr.op.op = 0x66;
    }
    action count_only() { ops.count(hdr.op.index); }
    table dispatch {
        key = { hdr.op.op : exact; }
        actions = { store; add; subtract; fetch; once; signed_step; count_only; NoAction; }
        const default_action = NoAction();
        const entries = {
            0: store();
            1: add();
            2: subtract();
            3: fetch();
            4: once();
            5: signed_step();
            6: count_only();
        }
    }
    apply {
        std.egress_spec = 1;
        dispatch.apply();
    }
}

control Send(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {}
}

control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(Parse(), Verify(), Receive(), Send(), Update(), Deparse()) main;
