"""Options of an engine in several processes, for its test and for a run that is killed."""

from __future__ import annotations

from typing import Any

from rods.config import load_config
from rods.engines.options import EngineOptions
from rods.rollout.template import ChatTemplate

CONFIG = load_config(
    "rods", "small", ["rollout.k=4", "rollout.tasks_per_step=3", "model.threads=1"]
)


def options_of(parts: tuple[Any, ChatTemplate]) -> EngineOptions:
    model, template = parts
    return EngineOptions(CONFIG, template, model, "cpu", half=False, cache=None, share=True)
