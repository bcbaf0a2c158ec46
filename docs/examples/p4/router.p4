// SPDX-License-Identifier: Apache-2.0
// A basic IPv4 router: the longest prefix says the next hop's address and the port.
//
//   parse Ethernet, IPv4 -> checksum right? -> TTL left? -> routes -> new addresses, TTL - 1 -> out
//
// Compile:  p4c --target bmv2 --arch v1model --p4runtime-files router.p4info.txtpb router.p4
#include <core.p4>
#include <v1model.p4>

const bit<16> TYPE_IPV4 = 0x0800;

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }

header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> length;
    bit<16> id; bit<3> flags; bit<13> offset;
    bit<8> ttl; bit<8> protocol; bit<16> checksum;
    bit<32> src; bit<32> dst;
}

struct headers_t  { ethernet_t ethernet; ipv4_t ipv4; }
struct metadata_t { }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            TYPE_IPV4: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        verify(hdr.ipv4.version == 4 && hdr.ipv4.ihl == 5, error.ParserInvalidArgument);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id,
              hdr.ipv4.flags, hdr.ipv4.offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src,
              hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control Route(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) route_hits;
    counter(3, CounterType.packets) refused;  // not IPv4, wrong, TTL over

    action drop() { mark_to_drop(std); }
    action forward(bit<48> next_hop, bit<9> port) {
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = next_hop;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        std.egress_spec = port;
    }
    table routes {
        key = { hdr.ipv4.dst : lpm @name("dst"); }
        actions = { forward; drop; }
        default_action = drop();
        counters = route_hits;
        size = 16384;
    }
    apply {
        if (!hdr.ipv4.isValid()) {
            refused.count(0);
            drop();
        } else if (std.parser_error != error.NoError || std.checksum_error == 1) {
            refused.count(1);
            drop();
        } else if (hdr.ipv4.ttl <= 1) {
            refused.count(2);
            drop();
        } else {
            routes.apply();
        }
    }
}

control Send(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {}
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id,
              hdr.ipv4.flags, hdr.ipv4.offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src,
              hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.ethernet); packet.emit(hdr.ipv4); }
}

V1Switch(Parse(), Verify(), Route(), Send(), Update(), Deparse()) main;
