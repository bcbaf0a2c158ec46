// SPDX-License-Identifier: Apache-2.0
// admit.p4: identity is checked at the door. Controller twin: controller/entries.py.
//
// 1. The packet is whole, of our version, and its length is what its header says.
// 2. Its job is installed, and the generation is the job's.
// 3. The ranks it speaks for lie behind the port it came from.
// 4. Its slot and segment are the owner's, and inside the registers.

control Admit(inout headers_t hdr, inout metadata_t meta, in standard_metadata_t std) {
    generation_t job_generation = 0;
    bit<16>      owned_slots = 0;
    bit<32>      cells = 0;
    bit<8>       row_segments = 0;

    action unknown_job() { meta.drop = Drop.NO_JOB; }
    action known(generation_t generation, bit<16> group) {
        job_generation = generation;
        meta.group = group;
    }
    table jobs {
        key     = { hdr.inc.job : exact @name("job"); }
        actions = { known; @defaultonly unknown_job; }
        const default_action = unknown_job();
        size    = MAX_JOBS;
    }

    action wrong_port() { meta.drop = Drop.WRONG_PORT; }
    action behind(ranks_t ranks) { meta.behind = ranks; }
    table ports {
        key     = { hdr.inc.job : exact @name("job"); std.ingress_port : exact @name("port"); }
        actions = { behind; @defaultonly wrong_port; }
        const default_action = wrong_port();
        size    = MAX_PORTS;
    }

    action no_slot() { meta.drop = Drop.NO_SLOT; }
    action owns(bit<32> first_slot, bit<16> num_slots, bit<32> first_cell, bit<8> segments) {
        meta.slot = first_slot + (bit<32>)hdr.inc.slot;
        owned_slots = num_slots;
        cells = first_cell;
        row_segments = segments;
    }
    table slots {
        key     = { hdr.inc.job : exact @name("job"); hdr.inc.owner : exact @name("owner"); }
        actions = { owns; @defaultonly no_slot; }
        const default_action = no_slot();
        size    = MAX_OWNERS;
    }

    action refuse(Drop reason) { meta.drop = reason; }
    action locate() {
        meta.cell = cells + (bit<32>)hdr.inc.slot * (bit<32>)row_segments + (bit<32>)hdr.inc.segment;
    }

    apply {
        bool summed = hdr.inc.op == Op.CONTRIB || hdr.inc.op == Op.PULL;
        bool rowed = hdr.inc.op == Op.DISPATCH || summed;
        // A contribution or status speaks for `ranks`, everything else for its owner (0: no such rank).
        ranks_t speaks_for = 64w1 << hdr.inc.owner;
        if (hdr.inc.op == Op.CONTRIB || hdr.inc.op == Op.STATUS) {
            speaks_for = hdr.inc.ranks;
        }

        if (!hdr.inc.isValid()) {
            refuse(Drop.TRUNCATED);
        } else if (std.checksum_error == 1) {
            refuse(Drop.BAD_CHECKSUM);
        } else if (hdr.inc.version != INC_VERSION) {
            refuse(Drop.WRONG_VERSION);
        } else if (hdr.inc.op == Op.RESULT || (bit<8>)hdr.inc.op == 0 || (bit<8>)hdr.inc.op >= NUM_OPS) {
            refuse(Drop.UNKNOWN_OP);
        } else if (summed && hdr.inc.chunks > MAX_CHUNKS) {
            refuse(Drop.WRONG_LENGTH);
        } else if (std.parser_error != error.NoError
                   || (bit<32>)hdr.ipv4.total_length + ETHERNET_BYTES > std.packet_length
                   || hdr.udp.length < OUR_BYTES
                   || hdr.udp.length + IPV4_BYTES != hdr.ipv4.total_length) {
            refuse(Drop.TRUNCATED);
        } else if (summed && hdr.udp.length - OUR_BYTES != (bit<16>)hdr.inc.chunks << 8) {
            refuse(Drop.WRONG_LENGTH);
        } else if (jobs.apply().hit) {
            if (hdr.inc.generation != job_generation) {
                refuse(Drop.STALE_GENERATION);
            } else if (ports.apply().hit) {
                if (speaks_for == 0 || speaks_for & ~meta.behind != 0) {
                    refuse(Drop.WRONG_PORT);
                } else if (rowed && slots.apply().hit) {
                    locate();
                    if (hdr.inc.slot >= owned_slots || meta.slot >= NUM_SLOTS
                        || summed && (hdr.inc.segment >= row_segments || meta.cell >= NUM_CELLS)) {
                        refuse(Drop.NO_SLOT);
                    }
                }
            }
        }
    }
}
