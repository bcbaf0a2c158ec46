// SPDX-License-Identifier: Apache-2.0
// inc.p4: in-network dispatch and combine for mixture-of-experts models. Composes, and nothing else.
//
//   ours    Admit -> Rows -> Cells -> Sums -> Replicate ==copies==> Deliver
//   others  Forward                                     ==========> (unchanged)

#include <core.p4>
#include <v1model.p4>

#include "include/sizes.p4"
#include "include/wire.p4"
#include "include/drops.p4"
#include "include/metadata.p4"
#include "include/parser.p4"
#include "include/admit.p4"
#include "include/rows.p4"
#include "include/cells.p4"
#include "include/sums.p4"
#include "include/replicate.p4"
#include "include/forward.p4"
#include "include/deliver.p4"
#include "include/faults.p4"

control IngressPipe(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    @name(".drops") counter(NUM_DROPS, CounterType.packets_and_bytes) drops;   // by Drop
    @name(".ops")   counter(NUM_OPS, CounterType.packets_and_bytes)   ops;     // admitted, by Op; RESULT: sums sent
    @name(".Admit")     Admit() admit;
    @name(".Rows")      Rows() rows;
    @name(".Cells")     Cells() cells;
    @name(".Sums")      Sums() sums;
    @name(".Replicate") Replicate() replicate;
    @name(".Forward")   Forward() forward;
#ifdef WITH_FAULTS
    @name(".Entry") Faults() faults;
#endif

    apply {
        if (hdr.inc.isValid() || std.parser_error != error.NoError) {
            admit.apply(hdr, meta, std);
#ifdef WITH_FAULTS
            if (meta.drop == Drop.NONE) {
                faults.apply(hdr, meta, std.ingress_port);
            }
#endif
            if (meta.drop == Drop.NONE) {
                ops.count((bit<32>)(bit<8>)hdr.inc.op);
                if (hdr.inc.op == Op.DISPATCH || hdr.inc.op == Op.CONTRIB || hdr.inc.op == Op.PULL) {
                    rows.apply(hdr, meta, std);
                }
            }
            if (meta.drop == Drop.NONE && (hdr.inc.op == Op.CONTRIB || hdr.inc.op == Op.PULL)) {
                cells.apply(hdr, meta, std);
            }
            if (meta.drop == Drop.NONE) {
                sums.apply(hdr, meta);
                replicate.apply(hdr, meta, std);
            }
        } else {
            forward.apply(hdr, meta, std);
        }
        if (meta.finished && meta.drop == Drop.NONE) {
            ops.count((bit<32>)(bit<8>)Op.RESULT);
        }
        if (meta.drop != Drop.NONE) {
            drops.count((bit<32>)(bit<8>)meta.drop);
            mark_to_drop(std);
        }
    }
}

control EgressPipe(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    @name(".Deliver") Deliver() deliver;
#ifdef WITH_FAULTS
    @name(".lost") counter(NUM_PORTS, CounterType.packets) lost;   // on purpose, by egress port
    @name(".Exit") Faults() faults;
#endif

    apply {
        deliver.apply(hdr, meta, std);
#ifdef WITH_FAULTS
        if (hdr.inc.isValid() && std.egress_spec != DROPPED) {
            faults.apply(hdr, meta, std.egress_port);
            if (meta.drop == Drop.FAULT) {
                lost.count((bit<32>)std.egress_port);
                mark_to_drop(std);
            }
        }
#endif
    }
}

V1Switch(Parse(), VerifyChecksums(), IngressPipe(), EgressPipe(), ComputeChecksums(), Deparse()) main;
