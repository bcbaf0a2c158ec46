// SPDX-License-Identifier: Apache-2.0
// A calculator: a packet brings an operator and two operands, and goes back with the result.
//
//   Ethernet type 0x1234 | 'P' '4' | version 1 | operator, ASCII | a | b | result, 32 bits each
//
// Compile:  p4c --target bmv2 --arch v1model --p4runtime-files calculator.p4info.txtpb calculator.p4
#include <core.p4>
#include <v1model.p4>

const bit<16> TYPE_CALCULATOR = 0x1234;
const bit<16> MAGIC = 0x5034;  // "P4"
const bit<8> VERSION = 1;

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header question_t {
    bit<16> magic; bit<8> version; bit<8> operator;
    bit<32> a; bit<32> b; bit<32> result;
}

struct headers_t  { ethernet_t ethernet; question_t question; }
struct metadata_t { }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            TYPE_CALCULATOR: peek;
            default: accept;
        }
    }
    state peek {
        transition select(packet.lookahead<bit<24>>()) {
            MAGIC ++ VERSION: question;
            default: accept;
        }
    }
    state question { packet.extract(hdr.question); transition accept; }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Answer(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(256, CounterType.packets) asked;  // by operator

    action drop() { mark_to_drop(std); }
    action reply(bit<32> result) {
        bit<48> asker = hdr.ethernet.src;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = asker;
        hdr.question.result = result;
        std.egress_spec = std.ingress_port;
    }
    action add() { reply(hdr.question.a + hdr.question.b); }
    action subtract() { reply(hdr.question.a - hdr.question.b); }
    action bit_and() { reply(hdr.question.a & hdr.question.b); }
    action bit_or() { reply(hdr.question.a | hdr.question.b); }
    action bit_xor() { reply(hdr.question.a ^ hdr.question.b); }

    table calculate {
        key = { hdr.question.operator : exact @name("operator"); }
        actions = { add; subtract; bit_and; bit_or; bit_xor; drop; }
        const default_action = drop();
        const entries = {
            0x2b: add();       // +
            0x2d: subtract();  // -
            0x26: bit_and();   // &
            0x7c: bit_or();    // |
            0x5e: bit_xor();   // ^
        }
    }
    apply {
        if (hdr.question.isValid()) {
            asked.count((bit<32>)hdr.question.operator);
            calculate.apply();
        } else {
            drop();
        }
    }
}

control Send(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {}
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.ethernet); packet.emit(hdr.question); }
}

V1Switch(Parse(), Verify(), Answer(), Send(), Update(), Deparse()) main;
