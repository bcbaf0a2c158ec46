// SPDX-License-Identifier: Apache-2.0
// faults.p4: loses packets on purpose, in builds WITH_FAULTS. Controller twin: controller/faults.py.
//
// One instance behind the door and one at the exits, where each copy of a row is lost for itself. A
// packet of ours is lost if a random value is below `chance`, of its port and op (RESULT at an exit).

#ifdef WITH_FAULTS
control Faults(in headers_t hdr, inout metadata_t meta, in port_t port) {
    action lose(bit<32> chance) {
        bit<32> drawn;
        random(drawn, 0, 0xFFFFFFFF);
        meta.drop = drawn < chance ? Drop.FAULT : meta.drop;
    }
    action spare() {}
    table chances {
        key     = { port : exact @name("port"); hdr.inc.op : exact @name("op"); }
        actions = { lose; @defaultonly spare; }
        const default_action = spare();
        size    = MAX_FAULTS;
    }

    apply { chances.apply(); }
}
#endif
