"""Settings of the update, and constants of the rewards that it learns from.

TrainSettings(advantage="gae")
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rods.config.base import Settings

CAP = 2.0
"""Largest importance weight under `train.correction.method = "truncated"`."""


class GaeSettings(Settings):
    """`train.advantage = "gae"`: PPO's critic."""

    critic_lr: float = Field(default=1e-5, gt=0)
    """Learning rate of the critic; follows `schedule`, without `warmup`. Under LoRA the critic has
    adapters of its own over the policy's frozen weights, else it is a copy of the whole model."""
    critic_warmup: int = Field(default=0, ge=0)
    """Updates at the start that train the critic alone."""
    gamma: float = Field(default=1.0, ge=0, le=1)
    """Discount from one sampled token to the next; tokens of the environment do not count."""
    lam: float = Field(default=1.0, ge=0, le=1)
    """GAE's lambda. 1: return minus value. 0: the error of one step."""
    value_clip: float = Field(default=0.0, ge=0)
    """How far a value may move in one update until its gradient stops; 0: no clipping."""


class FilterSettings(Settings):
    """`train.filter`: which groups and samples it leaves out, and what comes in their place."""

    window: tuple[float, float] = (0.05, 0.8)
    """A group trains if its mean accuracy lies strictly between."""
    max_perplexity: float = Field(default=0.0, ge=0)
    """Samples whose perplexity under the frozen start is higher carry no loss; 0: not looked at."""
    redraw: int = Field(default=0, ge=0)
    """Rounds in which a step draws further tasks for groups that the filter dropped, until
    `rollout.tasks_per_step` of them train or the epoch has no more. `pipelined` draws them at once:
    an update takes at most `tasks_per_step` groups times one more than this."""


class LocalSettings(Settings):
    """The local trainer's optimiser and memory; a host trainer brings its own."""

    weight_decay: float = Field(default=0.0, ge=0)
    """Share of a weight that AdamW takes away at each step, times the learning rate; 0: none."""
    grad_clip: float = Field(default=1.0, gt=0)
    """Largest norm of the whole gradient, above 0; a longer one is scaled down to it."""
    microbatch_tokens: int = Field(default=16_384, ge=128)
    """Tokens of one forward pass, padding included."""
    gradient_checkpointing: bool = False
    """Compute activations again in the backward pass instead of keeping them: a third more
    arithmetic, much less memory."""
    optimizer_memory: Literal["full", "8bit", "offload"] = "full"
    """Adam's moments: float32; 8 bits a number (a quarter; needs the extra `8bit`); or
    float32 in the host's memory, with the same results as `full`, slower."""
    memory_gib: float = Field(default=0.0, ge=0)
    """What the run may hold on its device; 0: what is free there when it starts. Where that bounds
    the engine's cache, runs that are to repeat each other bit by bit set it."""
    checkpoint_steps: int = Field(default=1, ge=1)
    """Steps between checkpoints; a resumed run repeats the steps since the last one exactly."""


class CorrectionSettings(Settings):
    """What is done about an engine whose log-probabilities are not the trainer's own.

    Kernels and precision differ, and under bounded staleness the policy has moved on. Every step's
    record shows the gap, whatever is done about it.
    """

    method: Literal["none", "recompute", "truncated"] = "none"
    """`none`: the engine's log-probabilities are the old ones of the ratio. `recompute`: the old
    ones are recomputed by the trainer. `truncated`: that, and each token's loss is weighed by
    trainer over engine, at most `CAP` (truncated importance sampling)."""


class TrainSettings(Settings):
    """How the policy learns."""

    advantage: Literal[
        "grpo",
        "dr_grpo",
        "rloo",
        "reinforce++",
        "reinforce++_baseline",
        "reinforce++_by_trajectory",
        "reinforce++_baseline_by_trajectory",
        "gae",
    ] = "grpo"
    """`reinforce++` and its baseline form standardise over the batch's tokens, as verl and OpenRLHF
    do; with `_by_trajectory` over its trajectories. `gae`: PPO with a critic, an advantage for each
    token, whitened over the batch; groups play no part, so that equal rewards teach too."""
    gae: GaeSettings = GaeSettings()
    filter: str = "none"
    """`dapo`: groups whose scores are all equal do not count, so that `filtering.redraw` draws
    others for them (dynamic sampling). `zerotir`: leave out groups whose accuracy is outside
    `filtering.window` or whose scores mostly failed, and samples that are cut and wrong, odd, made
    up, repetitive or (by `filtering.max_perplexity`) too unlikely under the base model. All are
    counted. Needs a reward that logs `correct`. Or `module:attribute` of yours."""
    filtering: FilterSettings = FilterSettings()
    credit: Literal["trajectory", "turn", "call"] = "trajectory"
    """`trajectory`: every token has the advantage of the whole. `turn`: that of its turn, among the
    members of the group that entered the turn in the same condition. Rewards that are not a sum
    over turns (`format`) keep `trajectory`. `call`: that of the whole, and on a step's tokens
    besides how much more its calls were the wanted ones than those of peers at the same depth;
    needs tasks whose ground truth has calls."""
    loss: Literal["clipped", "gspo", "cispo"] = "clipped"
    """`clipped`: PPO's clipped surrogate on each token's ratio. `gspo`: GSPO-token, one ratio of
    the whole sequence and each token's own gradient, which keeps credit by turn, call or token.
    `cispo`: the ratio is clipped and weighs the token's log-probability, so that no token loses
    its gradient."""
    clip_low: float = Field(default=0.2, ge=0)
    """How far the ratio of new to old probability may fall below 1: clipped at 1 - clip_low; 0 or
    more."""
    clip_high: float = Field(default=0.28, ge=0)
    """How far it may rise above 1: clipped at 1 + clip_high; 0 or more, above `clip_low` in DAPO's
    clip-higher."""
    dual_clip: float = Field(default=10.0, ge=0)
    """For negative advantages the loss is at most this times -advantage; 0: off."""
    kl: float = Field(default=0.01, ge=0)
    """Coefficient of the KL divergence from the frozen start; 0: none is measured."""
    kl_in: Literal["loss", "reward"] = "loss"
    """`loss`: k3 beside the surrogate. `reward`: k1, the log-ratio of each sampled token, is taken
    from the reward: from that of its token under `gae`, else their sum from the trajectory's."""
    entropy: float = Field(default=0.001, ge=0)
    """Coefficient of the entropy bonus."""
    aggregation: Literal["token", "sequence", "constant"] = "token"
    """`token`: mean over all tokens of the mini-batch. `sequence`: mean over sequence means.
    `constant`: mean over sequence sums, divided by `rollout.generated_tokens` (Dr. GRPO)."""
    lr: float = Field(default=1e-6, gt=0)
    """Peak learning rate of AdamW, a step without unit, above 0. Full weights of large models take
    about 1e-6, adapters 1e-5 to 1e-4, the bundled policies 1e-3 to 3e-3."""
    schedule: Literal["constant", "cosine"] = "constant"
    """`cosine` falls to 0 over the whole run; where the pool grows, `updates` must say how long
    that is."""
    warmup: int = Field(default=0, ge=0)
    """Steps of linear warm-up."""
    minibatch: int = Field(default=0, ge=0)
    """Trajectories of one optimiser step, about; 0: all of the step's, exactly on-policy. Groups
    are shuffled and never split (their common prefixes are computed once), and the parts are as
    equal as whole groups allow."""
    epochs: int = Field(default=1, ge=1)
    """Passes over one step's trajectories."""
    correction: CorrectionSettings = CorrectionSettings()
    mask_env_tokens: bool = True
    """False: tokens that the environment inserted carry loss too; the world-model experiment."""
    local: LocalSettings = LocalSettings()
