# SPDX-License-Identifier: Apache-2.0
"""Which families of the installed transformers can lie on several ranks, and why the others cannot.

    python -m host_agent.huggingface        prints both lists

Reads the text of transformers' model files; imports none of them.
"""

from __future__ import annotations

import textwrap
from importlib.util import find_spec
from pathlib import Path
from typing import Final

DECORATOR: Final = "use_experts_implementation"
DISPATCHED: Final = '"ep_dispatch_experts"'
NO_EXPERTS: Final = "no experts that look up their implementation, as ExpertsInterface has it"

_ONE_EACH: Final = "every expert is a module of its own, no call has ids and weights of all"
# Families with experts that do not go through the seams, and what their experts are instead.
REFUSED: Final = {
    "dbrx": "the weights of all experts lie in one matrix, which no expert-parallel plan cuts",
    "doge": "experts are rows of two embeddings, one value each, not networks",
    "jetmoe": "experts are called with rows sorted beforehand, for attention as well",
    "llama4": "experts are called with one copy of all rows each, weighted before: no top-k ids",
    "longcat_flash": "some experts are the identity and have no weights that a rank could hold",
    "nllb_moe": _ONE_EACH,
    "switch_transformers": _ONE_EACH,
    "vitpose_backbone": _ONE_EACH,
}


def refusal_of(family: str) -> str:
    """Return why the experts of a family, or of a model without, cannot lie on several ranks."""
    name = family.removesuffix("_text")
    return REFUSED.get(name, NO_EXPERTS)


def families() -> list[str]:
    """Return the families of the installed transformers whose experts go through a seam."""
    spec = find_spec("transformers")
    assert spec is not None  # the package needs transformers
    root = Path(str(spec.origin)).parent / "models"
    return sorted(folder.name for folder in root.iterdir() if _goes_through_a_seam(folder))


def _goes_through_a_seam(folder: Path) -> bool:
    """Whether a family's experts look up their implementation, or its plan dispatches to them."""
    sources = {"modeling": DECORATOR, "configuration": DISPATCHED}
    return any(
        mark in file.read_text()
        for kind, mark in sources.items()
        for file in folder.glob(f"{kind}_*.py")
    )


def lists() -> str:
    """Return both lists, as docs/integrations/huggingface.md prints them."""
    refused = [f"- {family}: {reason}" for family, reason in REFUSED.items()]
    supported = textwrap.fill(", ".join(families()), 110, break_on_hyphens=False)
    return "\n".join([supported, "", "Not these:", "", *refused, ""])
