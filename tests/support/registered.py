"""Names of recipes in shared tables: a deleted recipe takes its rows along and fails nothing."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Container, Iterable
from typing import Any

from rods.registry import recipe_names

OF_RECIPES = frozenset(
    {
        "artist", "artist_fc", "artist_math", "otc_grpo", "otc_grpo_additive", "otc_ppo",
        "otc_ppo_additive", "retool", "tool_n1", "toolrl", "torl", "zerotir",
    }
)  # fmt: skip
"""Names that only a recipe registers, in one registry or the other; all others stand for good."""


def registered(names: Iterable[str], registry: Container[str]) -> list[str]:
    """The names without those of recipes that are gone; a misspelled one stays, and fails."""
    return [name for name in names if name in registry or name not in OF_RECIPES]


def readers() -> dict[str, Callable[[str], object]]:
    """How rewards of recipes read calls in a text, by the dialect that writes them; None: none."""
    found: dict[str, Callable[[str], object]] = {}
    if "tool_n1" in recipe_names():
        n1: Any = importlib.import_module("rods.recipes.tool_n1.reward")
        found["tool_n1"] = lambda text: n1.read_reply(text).calls
    if "toolrl" in recipe_names():
        found["toolrl"] = importlib.import_module("rods.recipes.toolrl.reward").read_lines
    return found
