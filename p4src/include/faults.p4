// SPDX-License-Identifier: Apache-2.0
// faults.p4: loses packets on purpose, in builds with WITH_FAULTS. Controller twin: controller/faults.py.
//
// One instance at the door and one at the exits, so that each copy of a row is lost for itself. Only
// the program's own packets are lost, by a random value: below `chance` of 2^32.

#ifdef WITH_FAULTS
control Faults(in headers_t hdr, inout metadata_t meta, in port_t port) {
    action lose(bit<32> chance) {
        bit<32> drawn;
        random(drawn, 0, 0xFFFFFFFF);
        meta.drop = drawn < chance ? Drop.FAULT : meta.drop;
    }
    action spare() {}
    // `op` is that of the packet as it comes; a sum leaves with the contribution that completed it.
    table chances {
        key     = { port : exact @name("port"); hdr.inc.op : exact @name("op"); }
        actions = { lose; @defaultonly spare; }
        const default_action = spare();
        size    = MAX_FAULTS;
    }

    apply { chances.apply(); }
}
#endif
