// SPDX-License-Identifier: Apache-2.0
// cells.p4: who has contributed to each segment of each row. A contribution is added once.
//
//   CONTRIB, row not armed                 drop NOT_ARMED
//   CONTRIB, a rank not expected           drop NOT_MEMBER
//   CONTRIB, all its ranks seen            drop REPEATED
//   CONTRIB, some of its ranks seen        drop OVERLAP
//   CONTRIB, the first of its row          STORE
//   CONTRIB, a later one                   ADD
//   ... and seen == expected               finished
//   PULL, seen == expected                 LOAD, finished
//   PULL, otherwise                        ask the ranks that are missing
//
// A cell of another row or generation has seen nobody, so nothing is ever cleared.

control Cells(inout headers_t hdr, inout metadata_t meta, in standard_metadata_t std) {
    register<generation_t>(NUM_CELLS) generation;
    register<seq_t>(NUM_CELLS)        seq;
    register<ranks_t>(NUM_CELLS)      seen;
    register<flags_t>(NUM_CELLS)      flags;
    register<bit<8>>(NUM_CELLS)       chunks;
    bool    started = false;
    ranks_t present = 0;
    flags_t all_flags = 0;
    bit<8>  num_chunks = 0;

    action look_up() {
        generation_t held_generation;
        seq_t        held_seq;
        generation.read(held_generation, meta.cell);
        seq.read(held_seq, meta.cell);
        seen.read(present, meta.cell);
        flags.read(all_flags, meta.cell);
        chunks.read(num_chunks, meta.cell);
        started = held_generation == hdr.inc.generation && held_seq == hdr.inc.seq;
        present = started ? present : 0;
        all_flags = started ? all_flags : 0;
        num_chunks = started ? num_chunks : hdr.inc.chunks;
    }
    action refuse(Drop reason) { meta.drop = reason; }
    action count_in() {
        present = present | hdr.inc.ranks;
        all_flags = all_flags | hdr.inc.flags;
        generation.write(meta.cell, hdr.inc.generation);
        seq.write(meta.cell, hdr.inc.seq);
        seen.write(meta.cell, present);
        flags.write(meta.cell, all_flags);
        chunks.write(meta.cell, hdr.inc.chunks);
        meta.sum = started ? Sum.ADD : Sum.STORE;
    }
    action finish() {
        meta.finished = true;
        hdr.inc.ranks = meta.expected;
        hdr.inc.flags = all_flags;
    }
    action answer() {
        meta.sum = Sum.LOAD;
        meta.back = std.ingress_port;
    }
    action ask_missing() {
        ranks_t missing = meta.armed ? meta.expected & ~present : hdr.inc.members & ~meta.behind;
        hdr.inc.ranks = hdr.inc.ranks & missing;
        meta.receivers = hdr.inc.ranks;
    }

    apply {
        look_up();
        ranks_t again = hdr.inc.ranks & present;
        bool    complete = meta.armed && present == meta.expected;
        if (num_chunks != hdr.inc.chunks && (complete || hdr.inc.op == Op.CONTRIB)) {
            refuse(Drop.WRONG_LENGTH);
        } else if (hdr.inc.op == Op.PULL) {
            if (complete) {
                answer();
                finish();
            } else {
                ask_missing();
            }
        } else if (!meta.armed) {
            refuse(Drop.NOT_ARMED);
        } else if (hdr.inc.ranks & ~meta.expected != 0) {
            refuse(Drop.NOT_MEMBER);
        } else if (again == hdr.inc.ranks) {
            refuse(Drop.REPEATED);
        } else if (again != 0) {
            refuse(Drop.OVERLAP);
        } else {
            count_in();
            if (present == meta.expected) {
                finish();
            }
        }
    }
}
