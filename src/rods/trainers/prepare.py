"""Making a model ready to be trained: adapters, gradient checkpointing, its mode while it trains.

Owns what happens to a model before and around its updates. It never computes a loss and never
touches an optimiser.

    saved = with_lora(model, rank=16, seed=0)
    with training_mode(model, checkpointing=False, trees=True):
        ...                                         # forward and backward passes
"""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from typing import Any, cast

import torch
from torch import nn
from transformers import PreTrainedModel

from rods.errors import PrerequisiteError
from rods.infra.install import install_line
from rods.trainers.batches.tree_attention import tree_attention


def with_lora(model: PreTrainedModel, rank: int, seed: int) -> nn.Module:
    """The peft model around `model`: adapters on all linear layers, alpha twice the rank."""
    config = lora_config(rank)
    from peft import get_peft_model

    with torch.random.fork_rng(), warnings.catch_warnings():
        # peft 0.21 asks transformers 5.23 by a name that it calls deprecated.
        warnings.simplefilter("ignore", FutureWarning)
        torch.manual_seed(seed)
        made = cast("nn.Module", get_peft_model(model, config))
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
    """peft's settings of these adapters.

    Raises:
        PrerequisiteError: peft is not installed.
    """
    try:
        from peft import LoraConfig
    except ImportError as error:
        raise PrerequisiteError(
            f"model.lora_rank needs peft: {install_line('train')}; or set it to 0."
        ) from error
    return LoraConfig(
        r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM"
    )


def prepare_checkpointing(model: PreTrainedModel) -> None:
    """Compute activations again in the backward pass; dropout stays off although it trains."""
    # Renamed in transformers 5.23; the old name warns there, the new one is missing before.
    renamed: Any = getattr(model, "activation_checkpointing_enable", None)
    (renamed or model.gradient_checkpointing_enable)({"use_reentrant": False})
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if hasattr(module, "attention_dropout"):
            cast("Any", module).attention_dropout = 0.0


@contextmanager
def training_mode(model: PreTrainedModel, checkpointing: bool, trees: bool) -> Generator[None]:
    """The mode of a model in which gradients are made; evaluation mode after the block."""
    # Dropout stays off, so that an unchanged policy has the ratio 1; only gradient
    # checkpointing asks for training mode.
    model.train(checkpointing)
    # Checkpointing runs forward passes again inside backward.
    try:
        with tree_attention(model) if trees else nullcontext():
            yield
    finally:
        model.eval()
