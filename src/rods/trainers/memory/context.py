"""How many tokens a model has positions for, and the refusal of a longer context.

Owns the reading of that number from a model's config. Beyond it a model writes noise, whatever fits
into memory.

    require_context(config, positions_of(load_architecture(config.model)))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import PretrainedConfig

from rods.config import RunConfig
from rods.errors import ConfigError

STRETCHED = ("linear", "dynamic", "yarn")
"""Kinds of RoPE scaling whose factor multiplies the positions of the config."""


def positions_of(config: PretrainedConfig) -> int:
    """Tokens of a row at most; 0: the model's config names no limit."""
    text: Any = config.get_text_config()
    most = int(getattr(text, "max_position_embeddings", 0) or 0)
    rope = getattr(text, "rope_scaling", None) or getattr(text, "rope_parameters", None) or {}
    if not isinstance(rope, Mapping) or _kind(rope) not in STRETCHED:
        return most
    # YaRN's config may name the positions before or after stretching; both mean the larger number.
    before = int(rope.get("original_max_position_embeddings") or most)
    return max(most, int(before * float(rope.get("factor") or 1)))


def _kind(rope: Mapping[str, Any]) -> str:
    return str(rope.get("rope_type") or rope.get("type") or "default")


def require_context(config: RunConfig, positions: int) -> None:
    """Refuse a context longer than the model's positions; raises `ConfigError`."""
    asked = config.rollout.context_tokens
    if 0 < positions < asked:
        raise ConfigError(
            f"model {config.model.name!r} has positions for {positions:,} tokens, and "
            f"rollout.context_tokens is {asked:,}: text beyond them would be noise. Set "
            f"--rollout.context_tokens {positions} or less, or take another --model."
        )
