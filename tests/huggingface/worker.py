# SPDX-License-Identifier: Apache-2.0
"""One process of a model that transformers distributes: `worker.py FOLDER KIND:SIZE...`.

For each KIND (of the parallelism beside the experts', "tp" or "fsdp") it loads the checkpoints in
FOLDER and writes its answers there. What torchrun would set is in the environment.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, DistributedConfig

from host_agent.huggingface import register
from tests.huggingface import tiny


def main(folder: Path, kinds: list[str]) -> None:
    """Answer a prompt with each checkpoint and each kind."""
    torch.set_num_threads(1)
    register()
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    for kind in kinds:
        sizes = {f"{kind}_size": size, "ep_size": size}
        config = DistributedConfig(ep_implementation="inc", **sizes)
        for checkpoint in sorted(path for path in folder.iterdir() if path.is_dir()):
            model = AutoModelForCausalLM.from_pretrained(checkpoint, distributed_config=config)
            ids = tiny.prompts(rank if kind == "fsdp" else 0)
            answers = tiny.answers_of(model.eval(), ids)
            torch.save(answers, folder / f"{checkpoint.name}.{kind}.{rank}")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
