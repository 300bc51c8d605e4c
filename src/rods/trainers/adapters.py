"""LoRA adapters: new ones in a model, folders of some, their base, and how they get into it.

Owns `adapter_config.json` as peft writes it, in checkpoints of RODS, of TRL and of anybody. It
loads no base.

    saved = with_lora(model, rank=16, seed=0)
"""

from __future__ import annotations

import importlib
import json
import os
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn
from transformers import PreTrainedModel

from rods.config import ModelSettings
from rods.config.bundled import ADAPTER_CONFIG, adapters_at, local_path
from rods.errors import PolicyError, StoreError
from rods.infra.files import text_of
from rods.infra.install import needed


def of_base(settings: ModelSettings) -> ModelSettings:
    """Settings of the model itself: of the base where the name leads to adapters."""
    folder = adapters_at(settings.name)
    return settings if folder is None else of_base(base_settings(settings, folder))


def base_settings(settings: ModelSettings, folder: Path) -> ModelSettings:
    """The settings with the base's name in place of that of its adapters.

    Raises:
        PolicyError: the folder's configuration is damaged, names no base or itself, or is of
            adapters other than LoRA.
    """
    file = folder / ADAPTER_CONFIG
    try:
        found: Any = json.loads(text_of(file, "settings of adapters", PolicyError))
        base, kind = found.get("base_model_name_or_path"), found.get("peft_type")
    except (ValueError, AttributeError) as error:
        raise PolicyError(f"{file}: not an object of JSON: {error}.") from error
    if kind != "LORA":
        raise PolicyError(f'{file}: peft_type is {kind!r}; expected "LORA".')
    if not isinstance(base, str) or not base:
        raise PolicyError(
            f"{file}: it names no base model. Put its folder or name under base_model_name_or_path."
        )
    beside, here = folder / base, Path(os.path.expanduser(base)).is_dir()
    base = str(beside) if beside.is_dir() and not here else base  # a relative path from elsewhere
    if local_path(base).resolve() == folder.resolve():
        raise PolicyError(
            f"{file}: the adapters name themselves as their base. Put the base model's folder or "
            "name under base_model_name_or_path."
        )
    return settings.model_copy(update={"name": base})


def load_adapters(model: PreTrainedModel, folder: Path, merge: bool = False) -> PreTrainedModel:
    """`model` with the LoRA adapters of a folder around it; they are not trained on.

    `merge` adds them to the weights, rounded to the precision of these; else they stay apart.

    Raises:
        StoreError: they do not belong to this model.
        PrerequisiteError: peft is not installed.
    """
    peft = _peft(f"{folder} holds LoRA adapters, which need peft")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # as in `with_lora`
            found = peft.PeftModel.from_pretrained(model, str(folder))
    except (ValueError, RuntimeError, KeyError, OSError, SafetensorError) as error:
        raise StoreError(
            f"{folder}: the adapters cannot be put into this model: {error}. They are damaged or "
            "belong to another one; model.name must be that of their run."
        ) from error
    if not merge:
        return found.eval()
    merged: PreTrainedModel = found.merge_and_unload()
    return merged.requires_grad_(True).eval()  # peft had frozen them


def with_lora(model: PreTrainedModel, rank: int, seed: int) -> nn.Module:
    """The peft model around `model`: adapters on all linear layers, alpha twice the rank."""
    config = lora_config(rank)
    with torch.random.fork_rng(), warnings.catch_warnings():
        # peft 0.21 asks transformers 5.23 by a name that it calls deprecated.
        warnings.simplefilter("ignore", FutureWarning)
        torch.manual_seed(seed)
        made: nn.Module = _peft().get_peft_model(model, config)
    for module in made.modules():
        if hasattr(module, "cast_input_dtype_enabled"):
            module.register_forward_pre_hook(_as_autocast)
    return made


def _as_autocast(layer: Any, inputs: tuple[Any, ...]) -> None:
    """Leave the cast of an adapted layer's inputs to autocast, where that is on.

    peft makes a float32 copy of each input, the type of the adapters, which autocast rounds again.
    The numbers are the same, and the backward pass would keep all three.
    """
    layer.cast_input_dtype_enabled = not torch.is_autocast_enabled(inputs[0].device.type)


def lora_config(rank: int) -> Any:
    """peft's settings of these adapters; raises `PrerequisiteError` where it is not installed."""
    return _peft().LoraConfig(
        r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM"
    )


def _peft(need: str = "model.lora_rank (or set it to 0) needs peft") -> Any:
    with needed(need, "train"):
        return importlib.import_module("peft")
