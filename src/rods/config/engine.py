"""Settings of the inference engine, and the kinds of engines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from rods.config.base import Settings

KEY_VARIABLE = "RODS_ENGINE_KEY"
"""Environment variable with the key of an engine's server."""


@dataclass(frozen=True, slots=True)
class EngineTraits:
    """Kind of an engine."""

    embedded: bool = False
    """Computes in this program: its weights and its cache are on the run's device."""
    processes: bool = False
    """Computes in one process per core, each with a copy of the weights."""
    server: bool = False
    """Samples from a server that has its own weights."""
    started: bool = False
    """The run starts and ends the server, which takes a share of the device."""
    ways: tuple[str, ...] = ()
    """Values of `engine.weights` that it accepts."""
    undecided: bool = False
    """Stands for an engine that is chosen when the model's size is known."""
    foreign: bool = False
    """A user's module, which may read all settings of the section."""


ENGINES = {
    "auto": EngineTraits(embedded=True, undecided=True, ways=("fixed", "folder", "lora")),
    "hf": EngineTraits(embedded=True),
    "processes": EngineTraits(embedded=True, processes=True),
    "openai": EngineTraits(server=True, ways=("fixed", "folder", "lora")),
    "vllm": EngineTraits(server=True, started=True, ways=("fixed", "lora")),
}
"""Traits by `engine.name`. They are here and not in `rods.engines`, because settings are checked
before an engine is imported. A test compares both."""
FOREIGN = EngineTraits(foreign=True, ways=("fixed", "folder", "lora"))


def traits_of(name: str) -> EngineTraits:
    """Return the traits of an `engine.name`; an unknown name counts as a user's module."""
    return ENGINES.get(name, FOREIGN)


class VllmSettings(Settings):
    """`engine.name = "vllm"`: a server that the run starts and ends itself."""

    command: str = "vllm"
    """Command of the server, also from another environment (`/opt/vllm/bin/vllm`)."""
    memory: float = Field(default=0.45, gt=0, lt=1)
    """Share of the GPU's memory that the server takes; the trainer needs the rest."""
    sleep: bool = False
    """True: the server frees its memory during updates, for a GPU too small for both."""
    options: dict[str, str] = Field(default_factory=dict[str, str])
    """Further options of `vllm serve`, by name: `{tensor-parallel-size = "2"}`."""


class EngineSettings(Settings):
    """Inference engine that samples the trajectories."""

    name: str = "auto"
    """`hf`: the trainer's own model, in this process. `processes`: one process per core, each on
    one thread; the last digits of results vary from run to run. `openai`: a server that completes
    token ids and returns log-probabilities (vLLM, SGLang). `vllm`: such a server, started by the
    run. `module:attribute`: your own. `auto`: `vllm` above a billion parameters, on a GPU with
    vLLM installed; `processes` up to 50 million, on a CPU without `model.threads`; else `hf`."""
    url: str = ""
    """`openai`: base URL of the server, including /v1."""
    model: str = ""
    """`openai`: name of the model on the server; empty: the first one that it lists."""
    timeout: float = Field(default=600.0, gt=0)
    """Seconds that the server may take for one generation, or to load new weights."""
    weights: Literal["", "fixed", "folder", "lora"] = ""
    """Way in which a server gets new weights. `fixed`: never, so it can evaluate but not train.
    `lora`: adapters as files (vLLM, SGLang; needs `model.lora_rank`). `folder`: all weights as a
    file (SGLang; not in `rods train`). Left out: `vllm` uses `lora` if `model.lora_rank` is set,
    and `fixed` otherwise; `openai` uses `fixed`."""
    folder: str = ""
    """Folder for the weights of a server, which must see the same folder. `folder` and `lora` need
    it, except with `vllm`, which runs on this machine."""
    vllm: VllmSettings = VllmSettings()

    @property
    def traits(self) -> EngineTraits:
        """Kind of the named engine."""
        return traits_of(self.name)

    def way(self, lora_rank: int) -> str:
        """Return how a server gets new weights: `weights`, or the engine's default.

        It is `fixed`, `folder` or `lora`; empty without a server.
        """
        if self.weights or not self.traits.server:
            return self.weights
        return "lora" if self.traits.started and lora_rank else "fixed"
