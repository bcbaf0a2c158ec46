// SPDX-License-Identifier: Apache-2.0
// Types that a controller has strings for: in keys, parameters, controller headers and a digest.
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 64;

@p4runtime_translation("", string)
@p4runtime_translation_mappings({ {"", 0}, {"default \"one\"", 16w9} })
type bit<4> vrf_t;
@p4runtime_translation("example.org/port", string)
type bit<9> port_t;
@p4runtime_translation("example.org/port", string)
type bit<16> wide_port_t;

@controller_header("packet_in")
header packet_in_t  { wide_port_t port; }
@controller_header("packet_out")
header packet_out_t { wide_port_t port; }
header key_t        { bit<16> host; bit<8> vrf; }

struct learned_t  { bit<16> host; vrf_t vrf; }
struct headers_t  { packet_out_t packet_out; packet_in_t packet_in; key_t key; }
struct metadata_t { vrf_t vrf; port_t port; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        transition select(std.ingress_port) {
            CPU_PORT: from_cpu;
            default: key;
        }
    }
    state from_cpu { packet.extract(hdr.packet_out); transition key; }
    state key { packet.extract(hdr.key); transition accept; }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Receive(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action in_vrf(vrf_t vrf) { meta.vrf = vrf; }
    action no_vrf() { }
    action send(port_t port) { std.egress_spec = (bit<9>)port; }
    action tell(port_t port) {
        std.egress_spec = CPU_PORT;
        hdr.packet_in.setValid();
        hdr.packet_in.port = (wide_port_t)(bit<16>)(bit<9>)port;
    }
    action drop() { mark_to_drop(std); }
    table vrfs {
        key = { hdr.key.host : exact @name("host"); meta.port : optional @name("port"); }
        actions = { in_vrf; no_vrf; }
        default_action = no_vrf();
        size = 64;
    }
    table routes {
        key = { meta.vrf : exact @name("vrf"); }
        actions = { send; tell; drop; }
        default_action = drop();
        size = 64;
    }
    apply {
        meta.port = (port_t)std.ingress_port;
        if (hdr.packet_out.isValid()) {
            std.egress_spec = ((bit<16>)hdr.packet_out.port)[8:0];
            hdr.packet_out.setInvalid();
        } else {
            vrfs.apply();
            routes.apply();
            digest<learned_t>(1, { hdr.key.host, meta.vrf });
        }
        hdr.key.vrf = 4w0 ++ (bit<4>)meta.vrf;
    }
}

control Send(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {}
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.packet_in); packet.emit(hdr.key); }
}

V1Switch(Parse(), Verify(), Receive(), Send(), Update(), Deparse()) main;
