# SPDX-License-Identifier: Apache-2.0
"""One data-parallel rank of vLLM, offline: `offline.py RANK FOLDER`; runs where vLLM is.

Reads FOLDER/asked.json, writes FOLDER/RANK.json, and waits for the others before it ends: engines
with nothing to do still take part in the others' steps.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def main() -> None:
    """The process."""
    rank, folder = int(sys.argv[1]), Path(sys.argv[2])
    asked = json.loads((folder / "asked.json").read_text())
    num_ranks = len(asked["prompts"])
    if num_ranks > 1:
        port = str(asked["master_port"])
        os.environ |= {
            "VLLM_DP_RANK": str(rank),
            "VLLM_DP_RANK_LOCAL": "0",
            "VLLM_DP_SIZE": str(num_ranks),
            "VLLM_DP_MASTER_IP": "127.0.0.1",
            "VLLM_DP_MASTER_PORT": port,
        }
    from vllm import LLM

    llm = LLM(
        enable_expert_parallel=num_ranks > 1,
        worker_extension_cls="tests.vllm.worker.Probe",
        **asked["engine"],
    )
    probed = llm.collective_rpc("probe", args=(str(folder), asked["probe_rows"], asked["dies"]))
    generated = generate(llm, asked["prompts"][rank], asked["new_tokens"])
    told = {"generated": generated, "probed": probed, "counted": llm.collective_rpc("counted")}
    (folder / f"{rank}.part").write_text(json.dumps(told))
    (folder / f"{rank}.part").rename(folder / f"{rank}.json")
    until = time.monotonic() + asked["patience_s"]
    while len(list(folder.glob("[0-9]*.json"))) < num_ranks and time.monotonic() < until:
        time.sleep(0.1)
    llm.llm_engine.engine_core.shutdown()


def generate(llm, prompts, new_tokens):
    """Greedy tokens and their log-probabilities."""
    from vllm import SamplingParams

    parameters = SamplingParams(temperature=0, max_tokens=new_tokens, logprobs=0, ignore_eos=True)
    asked = [{"prompt_token_ids": prompt} for prompt in prompts]
    found = []
    for output in llm.generate(asked, parameters, use_tqdm=False) if asked else []:
        (one,) = output.outputs
        logprobs = [
            at[token].logprob for at, token in zip(one.logprobs, one.token_ids, strict=True)
        ]
        found.append({"tokens": list(one.token_ids), "logprobs": logprobs})
    return found


if __name__ == "__main__":
    main()
