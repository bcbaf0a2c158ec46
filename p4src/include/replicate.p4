// SPDX-License-Identifier: Apache-2.0
// replicate.p4: where an admitted packet goes.
//
//   DISPATCH           copies to `ranks` that are members
//   CONTRIB            nowhere, or, when it completes the sum, back to the owner
//   PULL               back with the sum, or copies to those who are missing
//   STATUS             the owner
//   PROBE              copies to `ranks`
//   ECHO               where it came from

control Replicate(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action copy() {
        meta.copied = true;
        std.mcast_grp = meta.group;
    }
    action send_back() { std.egress_spec = meta.back; }
    action reflect() { std.egress_spec = std.ingress_port; }

    apply {
        if (meta.finished) {
            send_back();
        } else if (hdr.inc.op == Op.CONTRIB) {
            meta.drop = Drop.COLLECTED;
        } else if (hdr.inc.op == Op.ECHO) {
            reflect();
        } else {
            if (hdr.inc.op == Op.DISPATCH) {
                meta.receivers = hdr.inc.ranks & hdr.inc.members;
            } else if (hdr.inc.op == Op.PROBE) {
                meta.receivers = hdr.inc.ranks;
            } else if (hdr.inc.op == Op.STATUS) {
                meta.receivers = 64w1 << hdr.inc.owner;
            }
            copy();
        }
    }
}
