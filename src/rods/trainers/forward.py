"""The forward pass of training: log-probability and entropy of every sampled token.

Owns how samples become one model call. It computes logits only where the next token was sampled,
and divides them by the sampling temperature, so that new and old log-probabilities compare. Owns
the mode of a model while it trains, too. It never computes a loss.

    logprobs, entropy = token_scores(model, micro, entropy_gradient=False)     # both (N,)
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from rods.trainers.batches.micro import Microbatch
from rods.trainers.batches.tree_attention import tree_attention
from rods.trainers.samples import Ints

SPLIT = ("llama", "mistral", "qwen2", "qwen3")
"""Model types whose logits are exactly `lm_head(model(ids))`: no scaling, no soft cap."""

LOGITS = {"cpu": 1 << 25, "cuda": 1 << 28}
"""Logits held at once (128 MiB and 1 GiB in float32); above it they are computed in pieces, twice.
On a CPU smaller pieces are as fast."""


def token_scores(
    model: PreTrainedModel, micro: Microbatch, entropy_gradient: bool
) -> tuple[Tensor, Tensor]:
    """Log-probability of each sampled token, and entropy of the distribution it came from.

    A shared micro-batch runs as a tree of common prefixes. In a padded one samples stand on the
    left, and causal attention never looks right, so no padding mask is needed where the
    architecture is known; another architecture gets one, and full logits.

    Args:
        model: a causal language model; runs in its present mode, under the caller's autocast.
        micro: the samples; `shared` only where `supports_trees(model)`.
        entropy_gradient: whether the entropy will be differentiated.

    Returns:
        Two float32 tensors of shape (N,), N sampled tokens in the micro-batch's order.
    """

    if model.config.model_type not in SPLIT:
        logits = token_outputs(model, micro, "logits")
        return select_scores(logits, torch.nn.Identity(), micro, entropy_gradient)
    decoder: PreTrainedModel = model.get_decoder()
    head = cast("nn.Module", model.get_output_embeddings())
    states = token_outputs(decoder, micro, "last_hidden_state")
    return select_scores(states, head, micro, entropy_gradient)


def token_outputs(model: PreTrainedModel, micro: Microbatch, name: str) -> Tensor:
    """Output of a model, or its decoder, where the next token was sampled; see `token_scores`.

    One row of its output `name`, which is `logits` or `last_hidden_state`, for each.
    """

    def put(array: Ints) -> Tensor:
        return torch.from_numpy(array).to(model.device)

    if micro.shared:
        tree = micro.tree
        ids, positions = put(tree.ids)[None], put(tree.positions)[None]
        with tree_attention(model):
            found = model(
                input_ids=ids, position_ids=positions, rods_tree=tree.nodes, use_cache=False
            )
        return getattr(found, name)[0, put(micro.places)]
    ids = put(micro.padded)
    mask: Tensor | None = None
    if model.config.model_type not in SPLIT:
        lengths = torch.tensor([len(s.context) for s in micro.samples], device=model.device)
        mask = (torch.arange(ids.shape[1], device=model.device)[None, :] < lengths[:, None]).long()
    found = model(input_ids=ids, attention_mask=mask, use_cache=False)
    return getattr(found, name)[put(micro.rows), put(micro.columns)]


def select_scores(
    states: Tensor, head: torch.nn.Module, micro: Microbatch, entropy_gradient: bool
) -> tuple[Tensor, Tensor]:
    """From the states that predict the sampled tokens, (N, width), to `token_scores`' result."""
    targets = torch.from_numpy(micro.targets).to(states.device)
    temperatures = torch.from_numpy(micro.temperatures).to(states.device)

    def score(some: Tensor, target: Tensor, temperature: Tensor) -> tuple[Tensor, Tensor]:
        logits = head(some).float() / temperature[:, None]
        logs = torch.log_softmax(logits, dim=-1)
        with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
            entropy = -(logs.exp() * logs).sum(-1)
        return logs.gather(1, target[:, None])[:, 0], entropy

    width = getattr(head, "out_features", states.shape[1])
    piece = max(1, LOGITS.get(states.device.type, LOGITS["cuda"]) // width)
    if len(states) <= piece:
        return score(states, targets, temperatures)
    parts = [
        checkpoint(score, *some, use_reentrant=False)
        for some in zip(*(t.split(piece) for t in (states, targets, temperatures)), strict=True)
    ]
    return torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])


def prepare_checkpointing(model: PreTrainedModel) -> None:
    """Compute activations again in the backward pass; dropout stays off although it trains."""
    # Renamed in transformers 5.23; the old name warns there, the new one is missing before.
    renamed: Any = getattr(model, "activation_checkpointing_enable", None)
    (renamed or model.gradient_checkpointing_enable)({"use_reentrant": False})
    for module in model.modules():
        # A layer that runs again is in training mode, and may drop by a rate of its own.
        for name, value in vars(module).items():
            if "drop" in name and isinstance(value, float):
                setattr(module, name, 0.0)


@contextmanager
def training_mode(model: PreTrainedModel, checkpointing: bool, trees: bool) -> Generator[None]:
    """The mode of a model in which gradients are made; evaluation mode after the block."""
    # Dropout and the noise of routers stay off, so that an unchanged policy has the ratio 1. Only
    # the layers that run again inside backward (gradient checkpointing) ask for training mode.
    model.eval()
    for module in model.modules() if checkpointing else ():
        module.training = bool(getattr(module, "gradient_checkpointing", False))
    try:
        with tree_attention(model) if trees else nullcontext():
            yield
    finally:
        model.eval()
