# SPDX-License-Identifier: Apache-2.0
"""`vllm bench serve` on shaped links: our layer over the switch beside the same plug-in over gloo.

    sudo python -m bench.vllm --python PYTHON_OF_VLLM --ranks 4 --rate 20mbit --json FILE

Every data-parallel rank of vLLM is a server process in a network namespace of its own; all that
ranks tell each other crosses the links, vLLM's own control traffic too. Two servers, one for each
choice of INCMOE_VLLM, are there all the time, and the client asks them in turn: prompts, weights,
experts' kernel and processes are the same, only the way of the rows differs. vLLM by itself has no
expert parallelism on CPUs to compare with.
"""
