"""Capabilities of engines and host trainers, as far as checks of settings need them.

Engines are stated here and not in `rods.engines`, because settings are checked before one is
imported; a test compares both. A host trainer states what it lacks beside its adapter.

    traits_of("vllm").server                # True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class EngineTraits:
    """Kind of an engine."""

    embedded: bool = False
    """Computes in this program: its weights and its cache are on the run's device."""
    processes: bool = False
    """Computes in a process a core, each with a copy of the weights."""
    server: bool = False
    """Samples by a server, which has weights of its own."""
    started: bool = False
    """The server is started and ended by the run and takes a share of its device."""
    ways: tuple[str, ...] = ()
    """Values of `engine.weights` that it takes."""
    undecided: bool = False
    """Stands for an engine that is chosen when the model's size is known."""
    foreign: bool = False
    """A module of the user's, which may read all settings of the section."""


ENGINES = {
    "auto": EngineTraits(embedded=True, undecided=True, ways=("fixed", "folder", "lora")),
    "hf": EngineTraits(embedded=True),
    "processes": EngineTraits(embedded=True, processes=True),
    "openai": EngineTraits(server=True, ways=("fixed", "folder", "lora")),
    "vllm": EngineTraits(server=True, started=True, ways=("fixed", "lora")),
}
"""Traits by `engine.name`."""
FOREIGN = EngineTraits(foreign=True, ways=("fixed", "folder", "lora"))


def traits_of(name: str) -> EngineTraits:
    """Traits of an engine by `engine.name`; an unknown name counts as a module of the user's."""
    return ENGINES.get(name, FOREIGN)


@dataclass(frozen=True)
class HostTrainer:
    """A host trainer, by what it cannot do."""

    name: str
    """Subject of a sentence in messages."""
    lacks: frozenset[str]
    """Keys of `rods.config.checks.NEEDS`."""
    unread: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Names of settings that it has no use for, by section."""
