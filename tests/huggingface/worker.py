# SPDX-License-Identifier: Apache-2.0
"""One process of a model that transformers distributes: `worker.py FOLDER TPxFSDP...`.

For each tp_size x fsdp_size it loads the checkpoints in FOLDER, and writes there what it answers.
What torchrun would set is in the environment.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, DistributedConfig

from host_agent.errors import EndpointClosed
from host_agent.huggingface import leave, register
from host_agent.moe import LayerError
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
            if fsdp == 1:  # FSDP's hooks find no gradients wanted in eval
                _refuses(model, tiny.prompts(rank // tp), LayerError, torch.enable_grad())
    leave()
    _refuses(model, tiny.prompts(0), EndpointClosed, torch.no_grad())
    torch.distributed.destroy_process_group()


def _refuses(model: Any, ids: Any, kind: type[Exception], setting: Any) -> None:
    """The call ends by an error of this kind, and ends."""
    with setting:
        try:
            model(ids)
        except kind:
            return
    raise AssertionError(f"no {kind.__name__}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
