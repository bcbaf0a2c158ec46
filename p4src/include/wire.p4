// SPDX-License-Identifier: Apache-2.0
// wire.p4: everything that crosses the wire, and nothing else. Python twin: host_agent/wire.py (docs/wire.md).

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_UDP   = 17;
const bit<16> INC_UDP_PORT   = 17710;
const bit<8>  INC_VERSION    = 1;

const bit<32> ETHERNET_BYTES = 14;
const bit<16> IPV4_BYTES     = 20;
const bit<16> OUR_BYTES      = 44;   // udp_t and inc_t

typedef bit<48> mac_t;
typedef bit<32> ip_t;
typedef bit<9>  port_t;
typedef bit<16> job_t;
typedef bit<32> generation_t;
typedef bit<32> seq_t;
typedef bit<64> ranks_t;   // a set of ranks, bit i = rank i
typedef bit<8>  flags_t;

enum bit<8> Op {
    DISPATCH = 1,   // owner -> members: a row; opens the slot its sum is collected in
    CONTRIB  = 2,   // member -> switch: a partial row to add
    RESULT   = 3,   // switch -> owner: the sum
    PULL     = 4,   // owner -> switch: the sum, or ask those who are missing
    STATUS   = 5,   // member -> owner: why there is no contribution yet, or a sign of life
    PROBE    = 6,   // rank -> ranks: are you there
    ECHO     = 7    // rank -> switch -> same rank: is the switch there
}

header ethernet_t {
    mac_t   dst;
    mac_t   src;
    bit<16> ether_type;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  tos;
    bit<16> total_length;
    bit<16> identification;
    bit<3>  flags;
    bit<13> fragment_offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    ip_t    src;
    ip_t    dst;
}

header udp_t {
    bit<16> src;
    bit<16> dst;
    bit<16> length;
    bit<16> checksum;
}

header inc_t {
    bit<8>       version;
    Op           op;
    flags_t      flags;       // CONTRIB, RESULT: range of the values; DISPATCH, STATUS: kind
    bit<8>       exponent;    // DISPATCH: two's complement; 2^exponent bounds a contribution's values
    job_t        job;
    bit<16>      slot;        // 0 .. the owner's number of slots - 1
    generation_t generation;  // never used twice on a switch; older packets are dropped
    seq_t        seq;         // which row, and which attempt at it, the slot holds
    ranks_t      members;     // ranks whose partial rows make the sum; never the owner
    ranks_t      ranks;       // DISPATCH, PROBE: receivers; CONTRIB, RESULT: ranks summed; PULL: ranks
                              // asked; STATUS: the sender
    bit<8>       owner;       // rank the row belongs to; PROBE, ECHO: the sender
    bit<8>       segment;     // piece of a row longer than a packet
    bit<8>       chunks;      // chunk_t headers that follow in CONTRIB, RESULT and PULL
    bit<8>       reserved;
}

// A vector of lanes. The switch adds it as one number; hosts see to it that no lane reaches the next.
header chunk_t {
    bit<2048> lanes;
}
