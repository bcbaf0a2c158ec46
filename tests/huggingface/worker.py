# SPDX-License-Identifier: Apache-2.0
"""One process of a model that transformers distributes: `worker.py FOLDER TPxFSDP...`.

For each tp_size x fsdp_size it loads the checkpoints in FOLDER, and writes there what it answers.
What torchrun would set is in the environment.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, DistributedConfig

from host_agent.huggingface import register
from tests.huggingface import tiny


def main(folder: Path, sizes: list[str]) -> None:
    """Answer a prompt with each checkpoint for each of `sizes`."""
    torch.set_num_threads(1)
    register()
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    for size in sizes:
        tp, fsdp = map(int, size.split("x"))
        config = DistributedConfig(
            ep_implementation="inc", ep_size=world_size, tp_size=tp, fsdp_size=fsdp
        )
        for checkpoint in sorted(path for path in folder.iterdir() if path.is_dir()):
            model = AutoModelForCausalLM.from_pretrained(checkpoint, distributed_config=config)
            answers = tiny.answers_of(model.eval(), tiny.prompts(rank // tp))
            torch.save(answers, folder / f"{checkpoint.name}.{size}.{rank}")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
