"""Tiny models of architectures that the fast path does not know."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
)

from tiny_models import SIZES, VOCABULARY, build, shake


def odd(kind: str) -> Any:
    torch.manual_seed(0)
    if kind == "gemma3":  # five of six layers look back through a window, two rotary embeddings
        config = Gemma3TextConfig(**SIZES | {"num_hidden_layers": 7}, head_dim=16, sliding_window=8)
        model: Any = Gemma3ForCausalLM(config)
    elif kind == "gpt_neox":
        sizes = {k: v for k, v in SIZES.items() if k != "num_key_value_heads"}
        model = GPTNeoXForCausalLM(GPTNeoXConfig(**sizes))
    elif kind == "bloom":  # positions follow from a mask
        ids = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": 0}
        model = BloomForCausalLM(
            BloomConfig(vocab_size=VOCABULARY, hidden_size=32, n_layer=2, n_head=4, **ids)
        )
    else:
        return build(kind)
    shake(model, 1, 0.05)
    return model.eval()
