# SPDX-License-Identifier: Apache-2.0
"""Trains the checked-in model, `python -m incmoe.model.train --minutes 8 --out DIR`; offline.

The router's balancing loss is kept small: enough that no expert dies, little enough that routing
stays what the text made it: skewed, as in life.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import OlmoeConfig, OlmoeForCausalLM, PreTrainedTokenizerFast

from incmoe.model import text, tokenizer
from incmoe.model.evaluate import Evaluation, evaluate
from incmoe.model.loading import config_of
from incmoe.model.shape import Shape

log = logging.getLogger(__name__)

SHAPE = Shape(hidden=256, experts=16, top_k=4, intermediate=64, layers=3, heads=4)
BALANCE = 0.01  # weight of the balancing loss, as in OLMoE
LEARNING_RATE = 3e-3
WARM_UP = 0.03  # share of the time
SEQUENCES, TOKENS = 5, 256  # of one step
LOG_EVERY_STEPS = 50


@dataclass(slots=True)
class Clock:
    """How much of the allowed time is used."""

    limit_s: float
    start_s: float = field(default_factory=time.monotonic)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start_s

    @property
    def progress(self) -> float:
        """0 at the start, 1 or more when the time is used up."""
        return self.elapsed_s / self.limit_s


def learning_rate(progress: float) -> float:
    """Linear warm-up, then a cosine down to a twentieth."""
    if progress < WARM_UP:
        return LEARNING_RATE * (0.02 + progress / WARM_UP) / 1.02
    fraction = min(1.0, (progress - WARM_UP) / (1 - WARM_UP))
    return LEARNING_RATE * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * fraction)))


def batches(ids: torch.Tensor, generator: torch.Generator) -> Iterator[torch.Tensor]:
    """Endless [SEQUENCES, TOKENS] pieces of the text; each pass cuts it at new places."""
    while True:
        shift = int(torch.randint(TOKENS, (1,), generator=generator))
        num_pieces = (len(ids) - shift) // TOKENS
        pieces = ids[shift : shift + num_pieces * TOKENS].view(num_pieces, TOKENS)
        order = torch.randperm(num_pieces, generator=generator)
        yield from (
            chunk for chunk in torch.split(pieces[order], SEQUENCES) if len(chunk) == SEQUENCES
        )


def optimizer_of(model: OlmoeForCausalLM) -> torch.optim.Optimizer:
    """AdamW; no decay for norms, embeddings and routers."""
    kept = ("embed", "gate.weight", "norm")
    decayed: list[torch.nn.Parameter] = []
    others: list[torch.nn.Parameter] = []
    for name, parameter in model.named_parameters():
        (others if any(word in name for word in kept) else decayed).append(parameter)
    groups = [{"params": decayed, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=(0.9, 0.97), fused=True)


def fit(model: OlmoeForCausalLM, ids: torch.Tensor, clock: Clock) -> list[dict[str, float]]:
    """Trains until the clock runs out; returns the loss curve."""
    optimizer = optimizer_of(model)
    curve: list[dict[str, float]] = []
    recent: list[float] = []
    for step, ids_BT in enumerate(batches(ids, torch.Generator().manual_seed(1))):
        if clock.progress >= 1:
            break
        rate = learning_rate(clock.progress)
        for group in optimizer.param_groups:
            group["lr"] = rate
        output = model(input_ids=ids_BT, labels=ids_BT, output_router_logits=True)
        output.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        recent.append(float((output.loss - BALANCE * output.aux_loss).detach()))
        if step % LOG_EVERY_STEPS == 0:
            curve.append(_point(step, clock, recent))
            recent = []
    return curve


def build(shape: Shape) -> OlmoeForCausalLM:
    """A fresh model, ready to be trained."""
    torch.manual_seed(0)
    config: OlmoeConfig = config_of(shape)
    config.router_aux_loss_coef = BALANCE
    model = OlmoeForCausalLM(config)
    model.set_experts_implementation("grouped_mm")
    return model.train()


def save(model: OlmoeForCausalLM, tokens: Tokenizer, out: Path) -> None:
    """config.json, model.safetensors in bfloat16, and the tokenizer's files."""
    fast = PreTrainedTokenizerFast(tokenizer_object=tokens, eos_token=tokenizer.END_OF_TEXT)
    fast.save_pretrained(out)
    model.set_experts_implementation("eager")
    model.to(torch.bfloat16).save_pretrained(out)
    model.float()


def record(curve: list[dict[str, float]], result: Evaluation, clock: Clock) -> dict[str, Any]:
    """What is kept about a training run, beside its checkpoint."""
    return {
        "held_out": {
            "loss": round(result.loss, 4),
            "loss_per_character": round(result.loss_per_character, 4),
            "num_tokens": result.num_tokens,
        },
        "expert_load": [[round(share, 4) for share in layer] for layer in result.load],
        "minutes": round(clock.elapsed_s / 60, 1),
        "tokens_per_step": SEQUENCES * TOKENS,
        "curve": curve,
        "environment": {"python": platform.python_version(), "torch": torch.__version__},
    }


def run(minutes: float, out: Path) -> Evaluation:
    """Text, tokenizer, model, training, checkpoint, record."""
    pieces = text.read(text.training_files())
    tokens = tokenizer.train(pieces)
    encoded = tokens.encode_batch([piece + tokenizer.END_OF_TEXT for piece in pieces])
    ids = torch.tensor([token for piece in encoded for token in piece.ids])
    log.info("%d characters, %d tokens", sum(map(len, pieces)), len(ids))
    model, clock = build(SHAPE), Clock(minutes * 60)
    curve = fit(model, ids, clock)
    out.mkdir(parents=True, exist_ok=True)
    save(model.eval(), tokens, out)
    result = evaluate(model, tokens)
    (out / "training.json").write_text(json.dumps(record(curve, result, clock), indent=1) + "\n")
    log.info("held-out loss %.3f; expert load %s", result.loss, result.load)
    return result


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m incmoe.model.train", description=__doc__)
    parser.add_argument("--minutes", type=float, default=8, help="how long to train (default: 8)")
    parser.add_argument("--out", type=Path, required=True, help="folder for the checkpoint")
    parser.add_argument("--threads", type=int, default=1, help="torch threads (default: 1)")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(arguments.threads)
    run(arguments.minutes, arguments.out)


def _point(step: int, clock: Clock, recent: list[float]) -> dict[str, float]:
    loss = sum(recent) / len(recent)
    log.info("step %d, %.0f s: loss %.3f", step, clock.elapsed_s, loss)
    return {"step": step, "seconds": round(clock.elapsed_s, 1), "loss": round(loss, 4)}


if __name__ == "__main__":
    main()
