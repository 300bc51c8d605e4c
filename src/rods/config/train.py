"""Settings of the update: advantages, losses, filters, the optimizer."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from rods.config.base import Settings, span

CAP = 2.0
"""Largest importance weight under `train.correction.method = "truncated"`."""


class GaeSettings(Settings):
    """`train.advantage = "gae"`: PPO's critic."""

    critic_lr: float = Field(default=1e-5, gt=0)
    """Learning rate of the critic; follows `schedule`, without `warmup`. With LoRA, the critic has
    its own adapters on the policy's frozen weights. Otherwise it is a copy of the whole model."""
    critic_warmup: int = Field(default=0, ge=0)
    """Updates at the start that train only the critic; the schedule of `train.lr` waits."""
    gamma: float = Field(default=1.0, ge=0, le=1)
    """Discount from one sampled token to the next; tokens of the environment do not count."""
    lam: float = Field(default=1.0, ge=0, le=1)
    """GAE's lambda. 1: return minus value. 0: the error at one token."""
    value_clip: float = Field(default=0.0, ge=0)
    """Largest change of a value in one update before its gradient stops; 0: no clipping."""


class FilterSettings(Settings):
    """Limits of `train.filter`, and the replacement of filtered groups."""

    window: tuple[float, float] = (0.05, 0.8)
    """A group trains if its mean accuracy lies strictly between these two numbers."""
    max_perplexity: float = Field(default=0.0, ge=0)
    """Samples with a higher perplexity under the frozen initial policy carry no loss; 0: off."""
    redraw: int = Field(default=0, ge=0)
    """Largest number of rounds that draw tasks to replace filtered groups, until an update
    has `rollout.tasks_per_step` groups or no task is left. They may begin the next epoch. With
    `pipelined`, at once: an update takes at most (1 + this) x `tasks_per_step` groups."""

    @field_validator("window", mode="before")
    @classmethod
    def _lets_some_train(cls, value: Any) -> Any:
        how = "a group trains if its accuracy, which is from 0 to 1, lies between them"
        return span(value, f"such as [0.05, 0.8]: {how}")


class LocalSettings(Settings):
    """Optimizer and memory of the local trainer; a host trainer has its own."""

    weight_decay: float = Field(default=0.0, ge=0)
    """Weight decay of AdamW: an optimizer step takes this share of a weight, times the learning
    rate."""
    grad_clip: float = Field(default=1.0, gt=0)
    """Largest norm of the whole gradient, above 0; a larger one is scaled down to it."""
    microbatch_tokens: int = Field(default=16_384, ge=128)
    """Tokens of one forward pass, padding included."""
    gradient_checkpointing: bool = False
    """Compute activations again in the backward pass instead of keeping them. It takes a third more
    computation and much less memory."""
    optimizer_memory: Literal["full", "8bit", "offload"] = "full"
    """Storage of Adam's moments. `full`: float32. `8bit`: a quarter of it (needs the extra `8bit`).
    `offload`: float32 in the host's memory, with the results of `full`, but slower."""
    memory_gib: float = Field(default=0.0, ge=0)
    """Device memory that the run may use, in GiB; 0: all that is free at the start. Set it to
    repeat a run bit by bit if it bounds the engine's cache."""
    checkpoint_steps: int = Field(default=1, ge=1)
    """Updates between checkpoints; a resumed run repeats those since the last one exactly."""


class CorrectionSettings(Settings):
    """Correction for an engine whose log-probabilities differ from the trainer's.

    They differ by kernels and precision, and, under bounded staleness, by updates in between. Every
    update's record shows the difference with any method.
    """

    method: Literal["none", "recompute", "truncated"] = "none"
    """`none`: the ratio uses the engine's log-probabilities as the old ones. `recompute`: the
    trainer computes the old ones. `truncated`: as `recompute`, and each token's loss is weighted by
    trainer over engine, at most 2 (truncated importance sampling)."""


class TrainSettings(Settings):
    """Update of the policy."""

    advantage: Literal["grpo", "dr_grpo", "rloo", "reinforce++", "reinforce++_baseline", "gae"] = (
        "grpo"
    )
    """`reinforce++` and its baseline form standardize over the batch's tokens, as verl and OpenRLHF
    do. `gae`: PPO with a critic and an advantage for each token, whitened over the batch. It
    compares no groups, so equal rewards teach too."""
    gae: GaeSettings = GaeSettings()
    filter: str = "none"
    """`dapo`: drop groups with equal scores; `filtering.redraw` replaces them (dynamic sampling).
    `zerotir`: drop groups whose accuracy is outside `filtering.window` or whose scores mostly
    failed. Of samples, it drops wrong ones that a limit cut, unfinished and repetitive ones. It
    also drops those whose outputs do not match their programs, or that are too unlikely under the
    base model (`filtering.max_perplexity`). All are counted. It needs a reward that logs `correct`.
    Or your own, `module:attribute`."""
    filtering: FilterSettings = FilterSettings()
    credit: Literal["trajectory", "turn", "call"] = "trajectory"
    """`trajectory`: every token has the advantage of the trajectory. `turn`: the advantage of its
    turn, among members of the group that entered the turn in the same condition. Rewards that are
    not a sum over turns (`format`) keep `trajectory`. `call`: as `trajectory`, plus a term for each
    step that compares its calls with the ground truth, relative to peers at the same depth. It
    needs tasks whose ground truth has calls."""
    loss: Literal["clipped", "gspo"] = "clipped"
    """`clipped`: PPO's clipped surrogate on each token's ratio. `gspo`: GSPO-token, one ratio of
    all tokens of a trajectory that carry loss and each token's own gradient, which keeps credit by
    turn, call or token. A token whose credit is 0 carries none."""
    clip_low: float = Field(default=0.2, ge=0)
    """Lower clip range: the ratio of new to old probability is clipped at 1 - this, 0 or more."""
    clip_high: float = Field(default=0.28, ge=0)
    """Upper clip range: the ratio is clipped at 1 + clip_high; 0 or more, above `clip_low` in
    DAPO's clip-higher."""
    dual_clip: float = Field(default=10.0, ge=0)
    """For negative advantages, the loss is at most this times -advantage; 0: off."""
    kl: float = Field(default=0.01, ge=0)
    """Coefficient of the KL divergence from the frozen initial policy; 0: it is not computed."""
    kl_in: Literal["loss", "reward"] = "loss"
    """`loss`: add k3 to the loss. `reward`: subtract k1, the log-ratio of each sampled token, from
    the token's reward with `gae`, and otherwise their sum from the trajectory's reward."""
    entropy: float = Field(default=0.001, ge=0)
    """Coefficient of the entropy bonus."""
    aggregation: Literal["token", "sequence", "constant"] = "token"
    """`token`: mean over all tokens of the mini-batch. `sequence`: mean over sequence means.
    `constant`: mean over sequence sums, divided by `rollout.generated_tokens` (Dr. GRPO)."""
    lr: float = Field(default=1e-6, gt=0)
    """Peak learning rate of AdamW, above 0. Usual are 1e-6 for all weights of a large model, 1e-5
    to 1e-4 for adapters, and 1e-3 to 3e-3 for the bundled policies."""
    schedule: Literal["constant", "cosine"] = "constant"
    """`cosine` falls to 0 over the whole run; a pool that grows needs `updates`, its length."""
    warmup: int = Field(default=0, ge=0)
    """Updates (not optimizer steps) of linear warm-up."""
    minibatch: int = Field(default=0, ge=0)
    """Trajectories of one optimizer step, approximately; 0: all of the update, exactly on-policy.
    Groups are shuffled and never split, because their common prefixes are computed once. The
    mini-batches are as equal as whole groups allow."""
    epochs: int = Field(default=1, ge=1)
    """Passes over the trajectories of one update."""
    correction: CorrectionSettings = CorrectionSettings()
    mask_env_tokens: bool = True
    """False: tokens inserted by the environment also carry loss (the world-model experiment)."""
    local: LocalSettings = LocalSettings()
