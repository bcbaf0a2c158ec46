# SPDX-License-Identifier: Apache-2.0
"""An OLMoE model served by ranks on shaped links: our layer beside layers without overlap.

    sudo python -m bench.serving --ranks 4 --rate 10mbit --json FILE --trace FILE

Every rank is a process in a network namespace of its own, with its own prompts of held-out text and
its share of the experts (data parallel, expert parallel). All schemes serve the same prompts with
the same weights and must generate the same tokens; see figures.py for what is measured.

    static, routed   host_agent.moe.InNetworkMoE
    ring, gloo       AllGather of rows, experts, ReduceScatter of partial rows, one after the other
    all_to_all       rows to the ranks that need them, experts, partial rows back, likewise
"""
