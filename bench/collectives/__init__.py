# SPDX-License-Identifier: Apache-2.0
"""AllGather with ReduceScatter on shaped links: in the network, by rings, all-to-all, gloo, MPI.

    python -m bench.collectives --ranks 4 --rate 100mbit --json FILE --plots DIR       needs root

Each rank is a process in a network namespace of its own; each link has the same rate both ways.
"""
