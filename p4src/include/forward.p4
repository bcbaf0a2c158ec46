// SPDX-License-Identifier: Apache-2.0
// forward.p4: traffic that is not ours, so that the same links carry TCP. Switched by MAC address, or
// routed by IPv4 address where it is sent to the switch's own MAC address.
//
// Ranks believe what comes from their switch's address, and a switch sends no plain traffic: what says
// that it comes from there, whole or in fragments, is dropped.

control Forward(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action spoofed() { meta.drop = Drop.SPOOFED; }
    table sources {
        key     = { hdr.ipv4.src : exact @name("src"); }
        actions = { spoofed; @defaultonly NoAction; }
        const default_action = NoAction();
        size    = MAX_SOURCES;
    }

    action no_route() { meta.drop = Drop.NO_ROUTE; }
    action to_port(port_t port) { std.egress_spec = port; }
    action flood(bit<16> group) {
        std.mcast_grp = group;
        meta.copied = true;
    }
    action route() {}
    table macs {
        key     = { hdr.ethernet.dst : exact @name("dst"); }
        actions = { to_port; flood; route; @defaultonly no_route; }
        const default_action = no_route();
        size    = MAX_MACS;
    }

    action via(port_t port, mac_t src_mac, mac_t dst_mac) {
        std.egress_spec = port;
        hdr.ethernet.src = src_mac;
        hdr.ethernet.dst = dst_mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    table routes {
        key     = { hdr.ipv4.dst : lpm @name("dst"); }
        actions = { via; @defaultonly no_route; }
        const default_action = no_route();
        size    = MAX_ROUTES;
    }

    apply {
        if (hdr.ipv4.isValid()) {
            sources.apply();
        }
        if (meta.drop == Drop.NONE) {
            switch (macs.apply().action_run) {
                route: {
                    if (!hdr.ipv4.isValid()) {
                        no_route();
                    } else if (hdr.ipv4.ttl <= 1) {
                        meta.drop = Drop.EXPIRED;
                    } else {
                        routes.apply();
                    }
                }
                default: {}
            }
        }
    }
}
