# SPDX-License-Identifier: Apache-2.0
"""Goodput against loss, and that no loss changes a bit.

    python -m bench.loss --json FILE       the whole matrix; BMv2 needs root

Every rank sends bands of rows, answers the rows of all others and waits for its sums: rows to every
rank (static) or each to a few (routed). For each loss, in both directions, of all kinds of message
and on every link, with duplicates and reordering besides, the sums must be exact, and have the bits
of the run without any fault. Goodput is the bytes of the rows over the time to the last sum.

- lines: the embedded switch over loopback, which loses frames on its ports.
- program: the same, but the P4 program loses them (build mtu1500_faults).
- bmv2: that program on BMv2, on veth links, paced by what BMv2 can take.
"""
