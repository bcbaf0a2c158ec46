# SPDX-License-Identifier: Apache-2.0
"""How fast a host agent moves payload, beside iperf3 on the same path.

    python -m bench.goodput --json FILE       needs root, and iperf3

    [rank 0, core 0] ==== [embedded switch] ==== [rank 1, core 1]     veth, MTU 9000, UDP

- Ours: rank 0 sends rows of 8192 bytes that rank 1 receives, hands to its caller and answers with
  sums of one chunk, so that nothing but the rows has weight; goodput is their payload from the
  first row to the last sum.
- iperf3: datagrams of 8192 bytes from rank 0 to rank 1, at the same addresses; goodput is what its
  receiver counts, at the highest offered rate that loses less than 1%, or unlimited, whichever is
  more.
- Each sender has core 0, each receiver core 1, and the switch runs where there is room, with both.
- On links of several rates; the headline's is 3 Gbit/s, where links are the bottleneck and not two
  cores; and on links as fast as the machine, where three processes share these.
"""
