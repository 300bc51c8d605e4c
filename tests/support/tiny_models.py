"""Tiny random language models for the engine's tests."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

VOCABULARY = 97
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
SCALED = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


def build(kind: str, seed: int = 0) -> Any:
    """A random model whose next-token distributions are far from uniform."""
    torch.manual_seed(seed)
    if kind == "qwen3":
        model: Any = Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=16, tie_word_embeddings=True))
    elif kind == "qwen2":
        model = Qwen2ForCausalLM(Qwen2Config(**SIZES))
    elif kind == "llama":
        model = LlamaForCausalLM(LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True))
    elif kind == "llama3-rope":
        model = LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=SCALED))
    elif kind == "mistral":
        model = MistralForCausalLM(MistralConfig(**SIZES, sliding_window=None))
    elif kind == "mistral-window":
        model = MistralForCausalLM(MistralConfig(**SIZES, sliding_window=12))
    elif kind == "moe":
        config = Qwen3MoeConfig(
            **SIZES, head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16
        )
        model = Qwen3MoeForCausalLM(config)
    else:
        raise ValueError(kind)
    shake(model, seed + 1)
    return model.eval()


@torch.no_grad()
def shake(model: Any, seed: int, scale: float = 0.15) -> None:
    """Add noise to every weight."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter += scale * torch.randn(parameter.shape, generator=generator)
