// SPDX-License-Identifier: Apache-2.0
// metadata.p4: what a packet carries through the pipeline besides its bytes.

struct headers_t {
    ethernet_t          ethernet;
    ipv4_t              ipv4;
    udp_t               udp;
    inc_t               inc;
    chunk_t[MAX_CHUNKS] chunks;
}

// What to do with the payload's chunks and the sums in the registers.
enum bit<2> Sum {
    NONE  = 0,
    STORE = 1,   // the first contribution of a row overwrites what was there
    ADD   = 2,
    LOAD  = 3    // the sum takes the place of the payload
}

struct metadata_t {
    Drop     drop;
    bit<8>   left;        // chunks still to parse
    // Admit
    bit<16>  group;       // the job's multicast group
    ranks_t  behind;      // ranks behind the ingress port
    bit<32>  slot;        // index of the row's registers
    bit<32>  cell;        // index of the segment's registers
    // Rows
    bool     armed;       // the slot holds this very row
    ranks_t  expected;    // ranks whose contributions this switch waits for
    port_t   back;        // the way to the owner
    // Cells
    Sum      sum;
    // Replicate
    bool     finished;    // carries a complete sum: RESULT to a rank, CONTRIB to a switch
    bool     copied;      // multicast, to be pruned
    ranks_t  receivers;   // ranks that a copy is for
}
