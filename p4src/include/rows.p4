// SPDX-License-Identifier: Apache-2.0
// rows.p4: which row each slot holds. A DISPATCH opens the slot that its sum is collected in.
//
//   slot holds        DISPATCH          CONTRIB, PULL
//   nothing, older    arm               not armed
//   this row          no change         armed
//   a newer row       drop STALE_SEQ    drop STALE_SEQ
//
// A slot of another generation holds nothing, so state is cleared by a new generation alone.

control Rows(in headers_t hdr, inout metadata_t meta, in standard_metadata_t std) {
    register<generation_t>(NUM_SLOTS) generation;
    register<seq_t>(NUM_SLOTS)        seq;
    register<ranks_t>(NUM_SLOTS)      expected;
    register<port_t>(NUM_SLOTS)       back;
    generation_t held_generation = 0;
    seq_t        held_seq = 0;

    action look_up() {
        generation.read(held_generation, meta.slot);
        seq.read(held_seq, meta.slot);
    }
    action recall() {
        expected.read(meta.expected, meta.slot);
        back.read(meta.back, meta.slot);
    }
    action arm() {
        generation.write(meta.slot, hdr.inc.generation);
        seq.write(meta.slot, hdr.inc.seq);
        expected.write(meta.slot, meta.expected);
        back.write(meta.slot, std.ingress_port);
    }

    apply {
        look_up();
        bool  held = held_generation == hdr.inc.generation;
        seq_t ahead = hdr.inc.seq - held_seq;
        meta.armed = held && ahead == 0;
        if (held && ahead[31:31] == 1) {
            meta.drop = Drop.STALE_SEQ;
        } else if (hdr.inc.op == Op.DISPATCH) {
            meta.expected = hdr.inc.members & ~meta.behind;
            if (meta.expected == 0) {
                meta.drop = Drop.NO_MEMBERS;
            } else if (!meta.armed) {
                arm();
            }
        } else if (meta.armed) {
            recall();
        }
    }
}
