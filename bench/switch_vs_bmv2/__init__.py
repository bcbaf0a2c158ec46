# SPDX-License-Identifier: Apache-2.0
"""How fast the embedded switch is, beside BMv2 and beside a program that only forwards.

    python -m bench.switch_vs_bmv2 --json FILE    needs root; simple_switch_grpc, gcc: see below

    [sender: rank 0, or 1] eth0 ==== s1 [switch] s2 ==== eth0 [rank 1, or 0]        veth, MTU 9000
                                        s3, s4: where copies would go that are pruned

- Both switches run the same JSON (inc_mtu9000) with the same entries on the same interfaces, one
  after the other, in turns; so does the bare forwarder: C, recvmmsg and sendmmsg on AF_PACKET
  sockets, from s1 to s2.
- The sender is one thread with a ring of ready frames and sendmmsg. It offers more than gets
  through, but not all it can: a flood takes a core that a switch of several threads wants. The
  offer is raised by half as long as 90% of it gets through.
- forward: frames of 64 bytes from port 1 to port 2, by MAC address. dispatch: rows of 1 KiB, of
  which four copies are made and three pruned. Both count what arrives, by the interface's counter.
  contrib: partial rows of 1 and 4 KiB, each added to a row that waits for 63; counted by the
  program's counter of contributions collected.
- The pipeline alone is the engine in a loop, without ports, on one core.
- Without simple_switch_grpc (BMv2, best built -O3 and without logging) there are no figures
  `..._over_bmv2`, without gcc there is no `forward_over_bare`; it says so.
"""
