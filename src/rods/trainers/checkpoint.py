"""Checkpoints: a folder that transformers loads, plus what training needs to go on.

Owns the folder's layout: weights (safetensors) and tokenizer as `save_pretrained` writes them,
`optimizer.pt`, `trainer.json`, under PPO `critic.pt`. That it appears whole or not at all is
`rods.infra.checkpoints`' business. Training has no other random state: mini-batches are shuffled by
(seed, step, epoch) and dropout is off.

    save_checkpoint(folder, model, tokenizer, optimizer, {"step": 3})
    state = load_checkpoint(folder, model, optimizer)
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

from rods.engines.weights import base_of, merged
from rods.errors import StoreError
from rods.infra.files import open_to_readers
from rods.trainers.loading import quiet

if TYPE_CHECKING:
    from rods.trainers.critic import Critic

STATE, OPTIMIZER, ADAPTER = "trainer.json", "optimizer.pt", "adapter_model.safetensors"
CRITIC = "critic.pt"


@dataclass(frozen=True)
class ModelWeights:
    """The weights of a model as they are now; see `rods.policy.Weights`."""

    model: nn.Module
    """A transformers model, or the peft model around one."""
    adapters: bool = False
    """True if it is a peft model, of which `save` writes the adapters alone."""

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Name and tensor of each weight, adapters added in; of tied ones the first."""
        base = base_of(self.model)
        seen: set[int] = set()
        with torch.no_grad():
            for name, tensor in base.state_dict().items():
                layer, inner, rest = name.partition(".base_layer.")
                if ".lora_" in name or tensor.data_ptr() in seen:
                    continue
                seen.add(tensor.data_ptr())
                if inner and rest == "weight":
                    tensor = merged(base.get_submodule(layer))
                yield (f"{layer}.{rest}" if inner else name), tensor

    def save(self, folder: Path) -> None:
        """Write safetensors and configuration."""
        # Embeddings are never trained by adapters; else peft asks where their base came from.
        peft = hasattr(self.model, "peft_config")
        own: dict[str, Any] = {"save_embedding_layers": False} if peft else {}
        with quiet():
            cast("PreTrainedModel", self.model).save_pretrained(str(folder), **own)
        if peft:  # peft's card has nothing filled in
            (folder / "README.md").unlink(missing_ok=True)
        open_to_readers(folder)


def save_checkpoint(
    folder: Path,
    model: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    optimizer: torch.optim.Optimizer,
    state: Mapping[str, int],
    critic: Critic | None = None,
) -> None:
    """Write a checkpoint into a new folder. Of a peft model only the adapter is written.

    `load_checkpoint` returns `state`.

    Raises:
        StoreError: the disk is full or not writable.
    """
    try:
        ModelWeights(model).save(folder)
        with quiet():
            tokenizer.save_pretrained(str(folder))
        torch.save(optimizer.state_dict(), folder / OPTIMIZER)
        if critic is not None:
            torch.save(critic.state_dict(), folder / CRITIC)
        (folder / STATE).write_text(json.dumps(dict(state)) + "\n", encoding="utf-8")
    except (OSError, SafetensorError, RuntimeError) as error:
        raise StoreError(
            f"{folder}: the checkpoint could not be written: {error}. Free space or choose "
            "another folder; the last checkpoint is untouched."
        ) from error


def load_checkpoint(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, critic: Critic | None = None
) -> dict[str, int]:
    """Put weights, optimizer state and critic back, in place, and return the saved state.

    Raises `StoreError` where a file is missing or damaged, or belongs to another model.
    """
    for name in (STATE, OPTIMIZER) if critic is None else (STATE, OPTIMIZER, CRITIC):
        if not (folder / name).is_file():
            raise StoreError(f"{folder / name}: missing; expected a checkpoint of the trainer.")
    try:
        state: dict[str, int] = json.loads((folder / STATE).read_text(encoding="utf-8"))
        saved = torch.load(folder / OPTIMIZER, map_location="cpu", weights_only=True)
        with quiet():
            _load_weights(folder, model)
        if critic is not None:
            judged = torch.load(folder / CRITIC, map_location="cpu", weights_only=True)
            critic.load_state_dict(judged)
        optimizer.load_state_dict(saved)
    except (ValueError, RuntimeError, KeyError, SafetensorError, pickle.UnpicklingError,
            EOFError, OSError) as error:  # fmt: skip
        raise StoreError(
            f"{folder}: the checkpoint cannot be loaded: {error}. It is damaged or belongs to "
            f"another model. Remove the folder {folder.parent} to resume from the one before it."
        ) from error
    return state


def _load_weights(folder: Path, model: nn.Module) -> None:
    if (folder / ADAPTER).is_file():
        from peft import load_peft_weights, set_peft_model_state_dict

        weights = load_peft_weights(str(folder), device="cpu")
        if missed := set_peft_model_state_dict(model, weights).unexpected_keys:
            raise ValueError(f"unknown adapter weights: {missed[:3]}")
        return
    dtype = next(model.parameters()).dtype
    loaded = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True)
    theirs = loaded.state_dict()
    if names := sorted(model.state_dict().keys() ^ theirs.keys()):
        raise ValueError(f"the weights' names differ: {names[:3]}")
    model.load_state_dict(theirs)
