# SPDX-License-Identifier: Apache-2.0
"""Every family that transformers has, made tiny: eight experts of rows of 64, random weights."""

from __future__ import annotations

from typing import Any, Final

import torch
import transformers
from transformers import CONFIG_MAPPING, GenerationMixin, PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto

HIDDEN, EXPERTS, VOCABULARY = 64, 8, 96

# What a size is set to, in whichever config has it.
SIZES: Final[dict[str, Any]] = {
    "hidden_size": HIDDEN,
    "moe_hidden_size": HIDDEN,
    "intermediate_size": 32,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "shared_experts_intermediate_size": 32,
    "moe_shared_expert_intermediate_size": 32,
    "shared_intermediate_size": 32,
    "dense_intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "num_global_key_value_heads": 2,
    "head_dim": 16,
    "global_head_dim": 16,
    "vocab_size": VOCABULARY,
    "vocab_size_per_layer_input": VOCABULARY,
    "unpadded_vocab_size": VOCABULARY,
    "max_position_embeddings": 64,
    "num_experts": EXPERTS,
    "n_routed_experts": EXPERTS,
    "num_local_experts": EXPERTS,
    "moe_num_experts": EXPERTS,
    "num_experts_per_tok": 2,
    "num_experts_per_token": 2,
    "moe_topk": 2,
    "moe_k": 2,
    "top_k_experts": 2,
    "n_group": 2,
    "topk_group": 1,
    "num_expert_group": 2,
    "n_shared_experts": 1,
    "first_k_dense_replace": 0,
    "moe_layer_start_index": 0,
    "mlp_layer_types": ["sparse"] * 2,
    "mlp_only_layers": [],
    "num_dense_layers": 0,
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "o_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "qk_head_dim": 16,
    "v_head_dim": 16,
    "index_n_heads": 2,
    "index_head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_num_heads": 4,
    "linear_head_dim": 16,
    "mamba_n_heads": 4,
    "mamba_d_head": 32,
    "mamba_d_state": 8,
    "mamba_num_heads": 4,
    "mamba_head_dim": 32,
    "n_groups": 2,
    "ssm_state_size": 8,
    # Of the parts that see and hear.
    "depth": 1,
    "num_heads": 4,
    "out_hidden_size": HIDDEN,
    "text_hidden_size": HIDDEN,
    "output_dim": HIDDEN,
    "d_model": HIDDEN,
    "encoder_layers": 1,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 32,
    "downsample_hidden_size": 16,
    "projector_hidden_size": 32,
    "projection_intermediate_size": 32,
    "merged_hidden_size": 64,
    "deepstack_visual_indexes": (0,),
    "hidden_sizes": (8, 8, 8, 8),
    "depths": (1, 1, 1, 1),
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
    "swa_num_attention_heads": 4,
    "swa_num_key_value_heads": 4,
    "swa_head_dim": 16,
    "sliding_window_size": 16,
    "initializer_range": 0.1,
}


HYBRID: Final = ["linear_attention", "full_attention"]
MROPE: Final = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
# What a family needs beside, by the configuration that has it.
OTHER_SIZES: Final[dict[str, dict[str, Any]]] = {
    "bailing_hybrid": {"layer_types": HYBRID, "num_nextn_predict_layers": 0},
    "deepseek_v4": {"mlp_layer_types": ["hash_moe", "moe"]},
    "diffusion_gemma_text": {"enable_moe_block": True},
    "ernie4_5_vl_moe_text": {
        "moe_intermediate_size": [32, 16],
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [3, 3, 2]},
    },
    "gemma4_text": {"enable_moe_block": True},
    "glm4v_moe_text": {"rope_parameters": MROPE | {"mrope_section": [1, 1, 2]}},
    "glm5_next_text": {
        "layer_types": ["linear_attention", "indexed_attention"],
        "qk_rope_head_dim": 0,
        "head_dim": 0,
    },
    "granitemoehybrid": {"layer_types": HYBRID},
    "hy_v4_vl_text": {"rope_parameters": MROPE | {"mrope_section": [1, 1, 2]}},
    "inkling2_loop_text": {
        "n_layers_per_attn_res_block": 1,
        "loop_layer_index_start": 1,
        "loop_layer_index_end": 2,
        "num_hidden_layers": 3,
        "mlp_layer_types": ["sparse"] * 3,
    },
    "jamba": {
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "expert_layer_period": 1,
        "expert_layer_offset": 0,
    },
    "kimi_linear": {"layer_types": HYBRID},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "mimo_v2_flash": {"num_key_value_heads": 2},
    "muse_spark_audio": {"num_hidden_layers": 4},
    "nemotron_h": {"layers_block_type": [*HYBRID, "moe"], "num_hidden_layers": 3},
    "qwen3_5_moe_text": {"layer_types": HYBRID},
    "qwen3_next": {"layer_types": HYBRID},
    "qwen3_omni_moe_thinker": {"vision_start_token_id": 151652},
    "qwen4_exp_text": {
        "layer_types": HYBRID,
        "indexer_n_heads": 2,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 16,
        "indexer_budget": 16,
        "indexer_compress_ratio": 4,
    },
    "step3p7": {"pad_token_id": 0},
    "step3p5": {"pad_token_id": 0, "sliding_window": 8},
    "zaya": {"num_experts_per_tok": 1},
}


# The part with the experts, of families whose own name has no head for tokens.
PART_OF: Final = {"qwen3_omni_moe": "qwen3_omni_moe_thinker"}
AUTO_CLASSES: Final = (
    modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    modeling_auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
    {"diffusion_gemma": "DiffusionGemmaForBlockDiffusion"},
)


def model_of(family: str) -> PreTrainedModel:
    """Return a tiny model of a family, its weights the same in every call."""
    name = _name_of(family)
    kind = next(names[name] for names in AUTO_CLASSES if name in names)
    torch.manual_seed(3)
    model = getattr(transformers, kind)(config_of(name)).float().eval()
    model.set_experts_implementation("eager")
    return model


def _name_of(family: str) -> str:
    text = f"{family}_text"
    return text if text in AUTO_CLASSES[0] else PART_OF.get(family, family)


def config_of(name: str) -> PreTrainedConfig:
    """Return a tiny configuration by its name."""
    kind = CONFIG_MAPPING[name]
    return kind(**_sizes(kind()))


def prompts(rank: int, num: int = 2, length: int = 6) -> torch.Tensor:
    """Return a rank's own token ids [num, length]."""
    generator = torch.Generator().manual_seed(rank)
    return torch.randint(VOCABULARY, (num, length), generator=generator)


def logits_of(model: PreTrainedModel, ids: torch.Tensor) -> torch.Tensor:
    """Return the logits of a prompt."""
    fixed = {"decoder_input_ids": ids} if "DiffusionGemma" in type(model).__name__ else {}
    with torch.no_grad():  # FSDP knows no inference mode
        logits: torch.Tensor = model(input_ids=ids, **fixed).logits
    return logits


def answers_of(model: PreTrainedModel, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the logits of a prompt and the tokens that follow it (or the likeliest everywhere)."""
    logits = logits_of(model, ids)
    if getattr(type(model), "generate", None) is not GenerationMixin.generate:  # draws, or none
        return logits, logits.argmax(dim=-1)
    return logits, model.generate(ids, max_new_tokens=4, do_sample=False)


def _sizes(default: PreTrainedConfig) -> dict[str, Any]:
    fields = type(default).__dataclass_fields__
    sizes = {name: size for name, size in SIZES.items() if name in fields}
    parts = {name: getattr(default, name) for name in fields if name.endswith("_config")}
    sizes |= {
        name: _sizes(part) for name, part in parts.items() if isinstance(part, PreTrainedConfig)
    }
    return sizes | OTHER_SIZES.get(default.model_type, {})
