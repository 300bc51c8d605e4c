"""The paper's model and settings, for estimates of memory."""

from __future__ import annotations

from transformers import Qwen3Config

from rods.config import RunConfig, load_config

QWEN3_4B = Qwen3Config(
    vocab_size=151936, hidden_size=2560, intermediate_size=9728, num_hidden_layers=36,
    num_attention_heads=32, num_key_value_heads=8, head_dim=128, max_position_embeddings=262144,
    tie_word_embeddings=True,
)  # fmt: skip


def paper(*overrides: str) -> RunConfig:
    return load_config("rods", "", overrides)
