"""Settings of what samples the trajectories, and what kinds of engines there are.

EngineSettings(name="openai", url="http://localhost:8000/v1", weights="folder", folder="/shared")
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from rods.config.base import Settings

KEY_VARIABLE = "RODS_ENGINE_KEY"
"""Environment variable of the key that an engine's server wants to be shown."""


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
"""Traits by `engine.name`. They stand here and not in `rods.engines`, because settings are checked
before an engine is imported; a test compares both."""
FOREIGN = EngineTraits(foreign=True, ways=("fixed", "folder", "lora"))


def traits_of(name: str) -> EngineTraits:
    """Traits of an engine by `engine.name`; an unknown name counts as a module of the user's."""
    return ENGINES.get(name, FOREIGN)


class VllmSettings(Settings):
    """`engine.name = "vllm"`: a server that the run starts and ends itself."""

    command: str = "vllm"
    """The program; another environment's works too (`/opt/vllm/bin/vllm`)."""
    memory: float = Field(default=0.45, gt=0, lt=1)
    """Share of the GPU's memory that it takes; the trainer needs the rest."""
    sleep: bool = False
    """Give its memory back during updates: for a GPU that cannot hold both at once."""
    options: dict[str, str] = Field(default_factory=dict[str, str])
    """Further options of `vllm serve`, by name: `{tensor-parallel-size = "2"}`."""


class EngineSettings(Settings):
    """What samples the trajectories."""

    name: str = "auto"
    """`auto`: `vllm` for models above a billion parameters, on a GPU and where vLLM is installed;
    `processes` for models of up to 50 million on a CPU where `model.threads` is left out; else
    `hf`. `hf`: in this process, by the trainer's own model. `processes`: the same in a process a
    core, each on one thread; which last digits come out depends on the clock. `openai`:
    a server that completes token ids and returns log-probabilities (vLLM, SGLang). `vllm`: such a
    server, started by the run. Or `module:attribute` of your own."""
    url: str = ""
    """`openai`: base URL of the server, up to and with /v1."""
    model: str = ""
    """`openai`: what the server calls the model; empty: the first one that it lists."""
    timeout: float = Field(default=600.0, gt=0)
    """Seconds that the server may take for one generation, or to take over weights."""
    weights: Literal["", "fixed", "folder", "lora"] = ""
    """How a server gets new weights. `fixed`: not at all, so that it evaluates but does not train
    (what `openai` means by none). `lora`: adapters as files (vLLM, SGLang; needs
    `model.lora_rank`). `folder`: all weights as a file (SGLang, inside TRL alone). Left out,
    `vllm` takes `lora` under LoRA and `fixed` otherwise."""
    folder: str = ""
    """Where weights are put for a server; it must see the same folder. Needed by `folder` and
    `lora`, but not with `vllm`, which runs on this machine."""
    vllm: VllmSettings = VllmSettings()

    @property
    def traits(self) -> EngineTraits:
        """Kind of the named engine."""
        return traits_of(self.name)

    def way(self, lora_rank: int) -> str:
        """How a server gets new weights: `weights`, or what the engine means by leaving it out.

        It is `fixed`, `folder` or `lora`; empty where no server samples.
        """
        if self.weights or not self.traits.server:
            return self.weights
        return "lora" if self.traits.started and lora_rank else "fixed"
