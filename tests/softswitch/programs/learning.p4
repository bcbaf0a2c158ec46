// SPDX-License-Identifier: Apache-2.0
// A learning switch that talks to its controller: packet-in and packet-out, digests of two shapes,
// entries that are told of when they are idle.
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 64;
const bit<16> TYPE_PAIR = 0x9001;
const bit<16> TYPE_TO_CPU = 0x9002;

enum bit<16> Why { NO_ENTRY = 1, ASKED = 2 }

@controller_header("packet_in")
header packet_in_t { bit<9> port; @padding bit<7> pad; Why why; }

@controller_header("packet_out")
header packet_out_t { bit<9> port; @padding bit<7> pad; }

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }

struct headers_t  { packet_in_t packet_in; packet_out_t packet_out; ethernet_t ethernet; }
struct metadata_t { }
struct pair_t     { bit<48> src; bit<48> dst; }
struct seen_t     { bit<48> address; bit<9> port; bool broadcast; ethernet_t whole; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        transition select(std.ingress_port) {
            CPU_PORT: controller;
            default: ethernet;
        }
    }
    state controller { packet.extract(hdr.packet_out); transition ethernet; }
    state ethernet { packet.extract(hdr.ethernet); transition accept; }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Receive(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets) hits;

    action send(bit<9> port) { std.egress_spec = port; }
    action to_controller(Why why) {
        std.egress_spec = CPU_PORT;
        hdr.packet_in.setValid();
        hdr.packet_in.port = std.ingress_port;
        hdr.packet_in.why = why;
    }
    action learn() {
        digest<seen_t>(1, { hdr.ethernet.src, std.ingress_port,
                            hdr.ethernet.dst == 0xffffffffffff, hdr.ethernet });
    }

    table sources {
        key = { hdr.ethernet.src : exact @name("address"); }
        actions = { NoAction; @defaultonly learn; }
        const default_action = learn();
        support_timeout = true;
        size = 1024;
    }
    table counted {
        key = { hdr.ethernet.src : lpm @name("address"); }
        actions = { NoAction; }
        counters = hits;
        support_timeout = true;
    }
    table targets {
        key = { hdr.ethernet.dst : exact @name("address"); }
        actions = { send; @defaultonly to_controller; }
        default_action = to_controller(Why.NO_ENTRY);
        size = 1024;
    }
    apply {
        if (hdr.packet_out.isValid()) {
            send(hdr.packet_out.port);
            hdr.packet_out.setInvalid();
        } else {
            if (hdr.ethernet.type == TYPE_PAIR) {
                digest<pair_t>(2, { hdr.ethernet.src, hdr.ethernet.dst });
            } else {
                sources.apply();
            }
            counted.apply();
            if (hdr.ethernet.type == TYPE_TO_CPU) {
                to_controller(Why.ASKED);
            } else {
                targets.apply();
            }
        }
    }
}

control Send(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {}
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.packet_in); packet.emit(hdr.ethernet); }
}

V1Switch(Parse(), Verify(), Receive(), Send(), Update(), Deparse()) main;
