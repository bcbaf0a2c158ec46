// SPDX-License-Identifier: Apache-2.0
// parser.p4: bytes to headers and back, and the IPv4 checksum. The payload of a DISPATCH is not parsed.

parser Parse(packet_in pkt, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        pkt.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: ipv4;
            default: accept;
        }
    }

    state ipv4 {
        pkt.extract(hdr.ipv4);
        // Options and fragments are plain traffic.
        transition select(hdr.ipv4.ihl, hdr.ipv4.flags & 1, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (5, 0, 0, PROTOCOL_UDP): udp;
            default: accept;
        }
    }

    state udp {
        pkt.extract(hdr.udp);
        transition select(hdr.udp.dst) {
            INC_UDP_PORT: inc;
            default: accept;
        }
    }

    state inc {
        pkt.extract(hdr.inc);
        meta.left = hdr.inc.chunks;
        transition select(hdr.inc.op, hdr.inc.chunks) {
            (_, 0): accept;
            (Op.CONTRIB, _): chunk;
            (Op.PULL, _): chunk;
            default: accept;
        }
    }

    state chunk {
        pkt.extract(hdr.chunks.next);
        meta.left = meta.left - 1;
        transition select(meta.left) {
            0: accept;
            default: chunk;
        }
    }
}

#define IPV4_SUMMED { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_length, \
    hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.ttl, \
    hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst }

control VerifyChecksums(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5, IPV4_SUMMED, hdr.ipv4.checksum,
                        HashAlgorithm.csum16);
    }
}

control ComputeChecksums(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5, IPV4_SUMMED, hdr.ipv4.checksum,
                        HashAlgorithm.csum16);
    }
}

control Deparse(packet_out pkt, in headers_t hdr) {
    apply {
        pkt.emit(hdr.ethernet);
        pkt.emit(hdr.ipv4);
        pkt.emit(hdr.udp);
        pkt.emit(hdr.inc);
        pkt.emit(hdr.chunks);
    }
}
