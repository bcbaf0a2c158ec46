// SPDX-License-Identifier: Apache-2.0
// Where packets go: unicast, multicast, drops before and after copying, truncation; IPv4 checksums.
#include <core.p4>
#include <v1model.p4>

header cmd_t  { bit<8> cmd; bit<16> group; bit<16> port; bit<16> rid; bit<32> length; bit<32> kind; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> total;
    bit<16> id; bit<3> flags; bit<13> fragment;
    bit<8> ttl; bit<8> protocol; bit<16> checksum;
    bit<32> src; bit<32> dst;
}
header sum_t { bit<16> whole; }

struct headers_t  { cmd_t cmd; ipv4_t ip; sum_t sum; }
struct metadata_t { bit<32> crc; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.cmd);
        transition select(hdr.cmd.cmd) {
            0x10 &&& 0x10: ip;
            default:       accept;
        }
    }
    state ip { packet.extract(hdr.ip); packet.extract(hdr.sum); transition accept; }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ip.isValid(),
            { hdr.ip.version, hdr.ip.ihl, hdr.ip.tos, hdr.ip.total, hdr.ip.id, hdr.ip.flags,
              hdr.ip.fragment, hdr.ip.ttl, hdr.ip.protocol, hdr.ip.src, hdr.ip.dst },
            hdr.ip.checksum, HashAlgorithm.csum16);
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ip.isValid() && hdr.ip.ttl != 0,
            { hdr.ip.version, hdr.ip.ihl, hdr.ip.tos, hdr.ip.total, hdr.ip.id, hdr.ip.flags,
              hdr.ip.fragment, hdr.ip.ttl, hdr.ip.protocol, hdr.ip.src, hdr.ip.dst },
            hdr.ip.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.sum.isValid(),
            { hdr.ip.src, hdr.ip.dst, 8w0, hdr.ip.protocol }, hdr.sum.whole, HashAlgorithm.csum16);
    }
}

control Receive(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action send() { std.egress_spec = (bit<9>)hdr.cmd.port; std.mcast_grp = hdr.cmd.group; }
    action drop_then_copy() { mark_to_drop(std); std.mcast_grp = hdr.cmd.group; }
    action copy_then_drop() { std.mcast_grp = hdr.cmd.group; mark_to_drop(std); }
    action shorten() { send(); truncate(hdr.cmd.length); }
    action grow() { send(); hdr.ip.setValid(); hdr.ip.ttl = 9; }
    action hash_to_port() {
        hash(meta.crc, HashAlgorithm.crc32, 32w2, { hdr.cmd.length, hdr.cmd.rid[10:0] }, 32w5);
        std.egress_spec = (bit<9>)meta.crc;
    }
    action hash16() {
        send();
        hash(hdr.cmd.rid, HashAlgorithm.crc16, 16w0, { hdr.cmd.length, 8w3 }, 32w65536);
        hash(hdr.cmd.length, HashAlgorithm.xor16, 32w0, { hdr.cmd.kind, 8w3 }, 64w65536);
        hash(hdr.cmd.kind, HashAlgorithm.identity, 32w0, { hdr.cmd.port }, 64w0x100000000);
    }
    table commands {
        key = { hdr.cmd.cmd : ternary; }
        actions = { send; drop_then_copy; copy_then_drop; shorten; grow; hash_to_port; hash16; }
        const default_action = send();
        const entries = {
            1 &&& 0xf: drop_then_copy();
            2 &&& 0xf: copy_then_drop();
            3 &&& 0xf: shorten();
            4 &&& 0xf: grow();
            5 &&& 0xf: hash_to_port();
            6 &&& 0xf: hash16();
        }
    }
    apply {
        commands.apply();
        if (std.checksum_error == 1) hdr.cmd.cmd = 0xff;
        if (hdr.ip.isValid()) hdr.ip.ttl = hdr.ip.ttl - 1;
    }
}

control Send(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        hdr.cmd.port = (bit<16>)std.egress_port;
        if (hdr.cmd.cmd != 6) {
            hdr.cmd.rid = std.egress_rid;
            hdr.cmd.length = std.packet_length;
            hdr.cmd.kind = std.instance_type;
        }
        // No copy goes back.
        if (std.egress_port == std.ingress_port) mark_to_drop(std);
    }
}

control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(Parse(), Verify(), Receive(), Send(), Update(), Deparse()) main;
