// SPDX-License-Identifier: Apache-2.0
// deliver.p4: egress. Prunes copies and puts the receiver's addresses on what leaves.
//
// A copy is never sent to its sender, and only to ports with a receiver behind them.

control Deliver(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(NUM_PORTS, CounterType.packets) pruned;   // copies dropped, by egress port
    ranks_t behind = 0;

    action prune() { mark_to_drop(std); }
    action address(mac_t src_mac, ip_t src_ip, mac_t dst_mac, ip_t dst_ip, bit<16> dst_udp) {
        hdr.ethernet.src = src_mac;
        hdr.ethernet.dst = dst_mac;
        hdr.ipv4.src = src_ip;
        hdr.ipv4.dst = dst_ip;
        hdr.ipv4.ttl = 64;
        hdr.udp.src = INC_UDP_PORT;
        hdr.udp.dst = dst_udp;
        hdr.udp.checksum = 0;
    }
    // `ranks` is the set behind the port: the one rank attached there.
    action to_rank(ranks_t ranks, mac_t src_mac, ip_t src_ip, mac_t dst_mac, ip_t dst_ip, bit<16> dst_udp) {
        behind = ranks;
        address(src_mac, src_ip, dst_mac, dst_ip, dst_udp);
        hdr.inc.op = meta.finished ? Op.RESULT : hdr.inc.op;
    }
    action to_switch(ranks_t ranks, mac_t src_mac, ip_t src_ip, mac_t dst_mac, ip_t dst_ip, bit<16> dst_udp) {
        behind = ranks;
        address(src_mac, src_ip, dst_mac, dst_ip, dst_udp);
        hdr.inc.op = meta.finished ? Op.CONTRIB : hdr.inc.op;
    }
    table ports {
        key     = { hdr.inc.job : exact @name("job"); std.egress_port : exact @name("port"); }
        actions = { to_rank; to_switch; @defaultonly prune; }
        const default_action = prune();
        size    = MAX_PORTS;
    }

    // A PULL that asks a rank carries nothing: what it asks for goes the other way.
    action strip() {
        hdr.chunks.pop_front(MAX_CHUNKS);
        hdr.inc.chunks = 0;
        hdr.udp.length = OUR_BYTES;
        hdr.ipv4.total_length = OUR_BYTES + IPV4_BYTES;
    }

    apply {
        if (hdr.inc.isValid()) {
            switch (ports.apply().action_run) {
                to_rank: {
                    if (hdr.inc.op == Op.PULL) {
                        strip();
                    }
                }
                default: {}
            }
        }
        if (meta.copied && (std.egress_port == std.ingress_port
                            || hdr.inc.isValid() && behind & meta.receivers == 0)) {
            pruned.count((bit<32>)std.egress_port);
            prune();
        }
    }
}
