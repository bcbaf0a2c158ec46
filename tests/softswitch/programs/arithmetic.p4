// SPDX-License-Identifier: Apache-2.0
// Every operator on signed, unsigned and odd-sized operands; one result field each.
#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<16> a; bit<16> b; int<16> s; int<16> t; bit<5> n; bit<11> m; bit<64> w; bit<8> shift;
}
header out_t {
    bit<16> sum; bit<16> difference; bit<16> product; bit<16> negated; bit<16> inverted;
    bit<16> ands; bit<16> ors; bit<16> xors; bit<16> left; bit<16> right;
    bit<16> saturated_sum; bit<16> saturated_difference;
    int<16> signed_sum; int<16> signed_product; int<16> signed_negated; int<16> signed_right;
    int<16> signed_left; int<16> signed_saturated_sum; int<16> signed_saturated_difference;
    bit<16> narrowed; int<32> widened; bit<32> joined; bit<16> sliced; bit<16> odd;
    bit<16> compared; bit<64> wide; bit<16> chosen; bit<16> patched;
}

struct headers_t  { in_t i; out_t o; }
struct metadata_t { bool flag; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start { packet.extract(hdr.i); transition accept; }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Receive(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action unsigned_results() {
        hdr.o.sum = hdr.i.a + hdr.i.b;
        hdr.o.difference = hdr.i.a - hdr.i.b;
        hdr.o.product = hdr.i.a * hdr.i.b;
        hdr.o.negated = -hdr.i.a;
        hdr.o.inverted = ~hdr.i.a;
        hdr.o.ands = hdr.i.a & hdr.i.b;
        hdr.o.ors = hdr.i.a | hdr.i.b;
        hdr.o.xors = hdr.i.a ^ hdr.i.b;
        hdr.o.left = hdr.i.a << hdr.i.shift;
        hdr.o.right = hdr.i.a >> hdr.i.shift;
        hdr.o.saturated_sum = hdr.i.a |+| hdr.i.b;
        hdr.o.saturated_difference = hdr.i.a |-| hdr.i.b;
    }
    action signed_results() {
        hdr.o.signed_sum = hdr.i.s + hdr.i.t;
        hdr.o.signed_product = hdr.i.s * hdr.i.t;
        hdr.o.signed_negated = -hdr.i.s;
        hdr.o.signed_right = hdr.i.s >> hdr.i.shift;
        hdr.o.signed_left = hdr.i.s << hdr.i.shift;
        hdr.o.signed_saturated_sum = hdr.i.s |+| hdr.i.t;
        hdr.o.signed_saturated_difference = hdr.i.s |-| hdr.i.t;
        hdr.o.widened = (int<32>)hdr.i.s;
        hdr.o.narrowed = (bit<16>)(bit<8>)(int<8>)hdr.i.s;
    }
    action mixed_results() {
        hdr.o.joined = hdr.i.a ++ hdr.i.b;
        hdr.o.sliced = (bit<16>)hdr.i.w[40:29];
        hdr.o.odd = (bit<16>)(hdr.i.n + (bit<5>)hdr.i.m) + (bit<16>)(hdr.i.m * 3);
        hdr.o.wide = (hdr.i.w * 0x10001 - 5) ^ (hdr.i.w << hdr.i.shift) ^ (hdr.i.w >> 3);
        meta.flag = hdr.i.a < hdr.i.b || hdr.i.s < hdr.i.t;
        hdr.o.compared = (hdr.i.a == hdr.i.b ? 16w1 : 0) | (hdr.i.a != hdr.i.b ? 16w2 : 0)
                       | (hdr.i.a < hdr.i.b ? 16w4 : 0) | (hdr.i.a <= hdr.i.b ? 16w8 : 0)
                       | (hdr.i.a > hdr.i.b ? 16w16 : 0) | (hdr.i.a >= hdr.i.b ? 16w32 : 0)
                       | (hdr.i.s < hdr.i.t ? 16w64 : 0) | (hdr.i.s >= hdr.i.t ? 16w128 : 0)
                       | (meta.flag ? 16w256 : 0) | (!meta.flag && hdr.i.n != 3 ? 16w512 : 0);
        hdr.o.chosen = hdr.i.s < 0 ? hdr.i.a - 1 : hdr.i.b + 1;
        hdr.o.patched[11:4] = hdr.i.a[7:0];
    }
    apply {
        std.egress_spec = 1;
        hdr.o.setValid();
        unsigned_results();
        signed_results();
        mixed_results();
    }
}

control Send(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {}
}

control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(Parse(), Verify(), Receive(), Send(), Update(), Deparse()) main;
