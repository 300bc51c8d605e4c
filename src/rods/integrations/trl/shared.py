"""What TRL's trainer shares with the run: its model, its engine, its state in checkpoints.

Owns the file `rods.pt` in each of TRL's checkpoints, and the engine that plays beside a trainer's
model. Never draws, plays or judges.

    class CurriculumGRPOTrainer(InCheckpoints, GRPOTrainer): ...
    state = read_state(Path("out/checkpoint-20"))
"""

from __future__ import annotations

import importlib
import io
import pickle
from pathlib import Path
from typing import Any

import torch

from rods.config import ModelSettings, RunConfig
from rods.engines import make_engine, require_trainable
from rods.engines.hf import generation_stops
from rods.engines.options import EngineOptions
from rods.errors import PrerequisiteError, StoreError
from rods.infra.files import write_atomic
from rods.infra.install import install_line
from rods.policy import Engine
from rods.rollout.template import ChatTemplate
from rods.trainers.adapters import adapters_at
from rods.trainers.hosted import HostedRun
from rods.trainers.loading import load_model, load_tokenizer, path_or_name
from rods.trainers.prepare import lora_config

STATE = "rods.pt"
"""Our state in each of TRL's checkpoints."""
LIVE = "rods"
"""Folder of the live files, in TRL's output folder."""

_Base: Any = object
"""TRL's trainer, as far as types go."""


def trl_module(name: str) -> Any:
    """A module of TRL's, or one that it needs; raises `PrerequisiteError`."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise PrerequisiteError(f"the TRL adapter needs trl: {install_line('trl')}.") from error


def start_of(settings: ModelSettings, model: Any, tokenizer: Any, adapters: Any) -> dict[str, Any]:
    """Arguments of TRL's trainer: what is trained, that of the settings where none is given."""
    if adapters is None and settings.lora_rank:
        adapters = lora_config(settings.lora_rank)
    if model is None and adapters_at(settings.name) is not None:
        model, _ = load_model(settings)  # TRL would train on in these adapters
    return {
        "model": path_or_name(settings.name) if model is None else model,
        "processing_class": tokenizer or load_tokenizer(settings),
        "peft_config": adapters,
    }


def engine_of(config: RunConfig, trainer: Any, model: Any) -> tuple[Engine, ChatTemplate]:
    """What plays beside a trainer, with a copy of the weights, and the template of its model.

    Raises:
        ConfigError: nothing can be learned from it.
    """
    args, tokenizer = trainer.args, trainer.processing_class
    template = ChatTemplate(tokenizer, generation_stops(model))
    device, half = str(trainer.accelerator.device), args.bf16 and not args.use_cpu
    # A copy of the weights: the optimiser and its wrappers hold the model's own.
    if config.engine.traits.undecided:
        settings = config.engine.model_copy(update={"name": "hf"})
        config = config.model_copy(update={"engine": settings})
    engine = make_engine(EngineOptions(config, template, model, device, half, None, share=False))
    require_trainable(config, engine)
    return engine, template


class InCheckpoints(_Base):
    """Keeps the run's state in the checkpoints of TRL's trainer; stands before it."""

    _run: HostedRun

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        # Ours first: a checkpoint that TRL has finished is whole.
        if self.accelerator.is_main_process:
            folder = Path(self._get_output_dir(trial=trial))
            folder = folder / f"checkpoint-{self.state.global_step}"
            folder.mkdir(parents=True, exist_ok=True)
            data = io.BytesIO()
            torch.save(self._run.state_dict(), data)
            write_atomic(folder / STATE, data.getvalue())
        super()._save_checkpoint(model, trial)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)  # TRL reads its own state here, too
        if checkpoint is not None:
            self.open(Path(checkpoint))

    def open(self, checkpoint: Path | None = None) -> None:
        """Begin the curriculum again or from a checkpoint, unless it has begun; `train` does it."""
        if self.accelerator.is_main_process and not self._run.opened:
            state = None if checkpoint is None else read_state(checkpoint)
            self._run.open(Path(self.args.output_dir) / LIVE, state)


def read_state(checkpoint: Path) -> dict[str, Any]:
    """Our state in one of TRL's checkpoints.

    Raises:
        StoreError: there is none, or it is damaged.
    """
    path = checkpoint / STATE
    if not path.is_file():
        raise StoreError(
            f"{path}: missing, so this checkpoint knows no curriculum. It was not made by "
            "a trainer over one; resume from one that was, or start again."
        )
    try:
        return torch.load(path, weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise StoreError(f"{path}: damaged: {error}. Use an older checkpoint.") from error
