// SPDX-License-Identifier: Apache-2.0
// sums.p4: adds payloads. A chunk is one number of 2048 bits: one register cell, one addition.
//
// The three actions of a chunk exist once; EACH_CHUNK repeats them for every chunk of a packet.

control Sums(inout headers_t hdr, in metadata_t meta) {
#define CHUNK_STATE(i) \
    register<bit<2048>>(NUM_CELLS) sums_##i; \
    action store_##i() { sums_##i.write(meta.cell, hdr.chunks[i].lanes); } \
    action add_##i() { \
        bit<2048> sum; \
        sums_##i.read(sum, meta.cell); \
        hdr.chunks[i].lanes = hdr.chunks[i].lanes + sum; \
        sums_##i.write(meta.cell, hdr.chunks[i].lanes); \
    } \
    action load_##i() { sums_##i.read(hdr.chunks[i].lanes, meta.cell); }
    EACH_CHUNK(CHUNK_STATE)

#define STORE_CHUNK(i) if (hdr.chunks[i].isValid()) { store_##i(); }
#define ADD_CHUNK(i)   if (hdr.chunks[i].isValid()) { add_##i(); }
#define LOAD_CHUNK(i)  if (hdr.chunks[i].isValid()) { load_##i(); }
    apply {
        if (meta.sum == Sum.STORE) {
            EACH_CHUNK(STORE_CHUNK)
        } else if (meta.sum == Sum.ADD) {
            EACH_CHUNK(ADD_CHUNK)
        } else if (meta.sum == Sum.LOAD) {
            EACH_CHUNK(LOAD_CHUNK)
        }
    }
}
