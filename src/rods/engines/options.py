"""Options of an engine: the one argument of every factory in `rods.engines.ENGINES`.

EngineOptions(config, template, model, "cpu", half=False, cache=2**30, share=True)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rods.config import RunConfig
from rods.rollout.template import ChatTemplate


@dataclass(frozen=True)
class EngineOptions:
    """Options of an engine: settings, template, model, device and memory."""

    config: RunConfig
    template: ChatTemplate
    """Ids that end a generation, and the text of ids."""
    model: Any
    """The trainer's model; None: none is loaded, because the engine has its own weights."""
    device: str
    """Where this process computes: `cpu` or `cuda:0`."""
    half: bool
    """True if arithmetic is bfloat16."""
    cache: int | None
    """Bytes that a cache in this process may grow to; None: as many as all rows take."""
    share: bool
    """True if the trainer's own weights may be read: no update runs while it samples."""
