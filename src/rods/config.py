"""The whole knob surface: one `RunConfig`, read from TOML, overridden by dotted keys, digested.

    config = load_config(recipe="rods", profile="quick", overrides=["train.lr=1e-4"])
    config.digest()          # what `--resume` compares

Every field is documented by the string below it. Nothing here imports torch. A recipe is a TOML
file: top-level tables are settings, `[profile.NAME]` tables override them.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rods.dotted import flat, merge, nearest, override
from rods.errors import ConfigError

RECIPES = Path(__file__).parent / "recipes"
SMALL = "small"
"""Stands for a recipe's first profile, the one that runs on a laptop."""


class Settings(BaseModel):
    """Base of all sections: frozen, no unknown keys, field docstrings become descriptions."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ModelSettings(Settings):
    """The policy."""

    name: str = "tiny"
    """`tiny` (bundled), a folder, or a Hugging Face name."""
    dialect: Literal[
        "compact",
        "pythonic",
        "hermes",
        "think",
        "llama",
        "torl",
        "zerotir",
        "retool",
        "search_r1",
    ] = "compact"
    """How the model writes calls; the bundled policy speaks `compact`. The last four are inline:
    programs or queries inside one response, results inserted."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Arithmetic of rollouts and training. `auto`: bfloat16 on a GPU, float32 on a CPU."""
    lora_rank: int = Field(default=0, ge=0, le=1024)
    """Rank of LoRA adapters on all linear layers; 0 trains all weights."""
    threads: int = Field(default=0, ge=0)
    """CPU threads of torch; 0: all cores that this process may use."""


class EnvSettings(Settings):
    """The environment and its original tasks."""

    name: str = "bfcl"
    """Short name, or `module:attribute` of an `Environment` or a factory of one."""
    wheel: str = ""
    """Path of the benchmark's wheel; empty: an installed package, or the package index."""
    corpus: str = ""
    """`search`: JSON lines of documents; empty: the bundled, generated corpus."""
    retriever: str = ""
    """`search`: address of a retriever in the form of Search-R1, instead of `corpus`."""
    sandbox: str = ""
    """`python_tool`: address of a SandboxFusion service; empty: the sandbox of this machine."""
    keep_variables: bool = False
    """`python_tool`: one interpreter for a whole trajectory, whose programs see earlier ones."""
    tasks: str = ""
    """JSON lines of original tasks, or for `python_tool` and `search` a published data set (JSON,
    JSON lines or Parquet); empty: those of the benchmark, or generated questions."""
    families: tuple[str, ...] = ()
    """Families of generated questions for `python_tool`: `add`, `multiply`, `expression`,
    `remainder`, `shopping`, `travel`, `reasoning_gym:NAME`; empty: all of our own."""
    difficulty: tuple[int, ...] = (1, 2, 3)
    """Difficulties of generated questions, 1 to 5; for `search` the hops, 1 to 3."""
    questions: int = Field(default=400, ge=2)
    """Generated questions of both sides together."""
    held_out: float = Field(default=0.25, gt=0, lt=1)
    """Share of the scenarios in `tasks`, or of generated questions, that is held out; the
    benchmark's is a half."""
    split: Literal["grouped", "paper"] = "grouped"
    """`grouped`: by scenario, leak-free. `paper`: half of each category at random (leaks)."""
    train_tasks: int = Field(default=0, ge=0)
    """Original tasks to train on, stratified by category; 0: all of the training side."""

    @property
    def source(self) -> str:
        """What the environment is made from: a wheel, an address, a corpus, or `sessions`."""
        if self.name == "search":
            return self.retriever or self.corpus
        if self.name == "python_tool":
            return f"sessions:{self.sandbox}" if self.keep_variables else self.sandbox
        return self.wheel


class RolloutSettings(Settings):
    """How trajectories are sampled."""

    k: int = Field(default=16, ge=2)
    """Rollouts of one task, the group size K."""
    tasks_per_step: int = Field(default=32, ge=1)
    """Groups of one update."""
    temperature: float = Field(default=1.0, ge=0.0, le=5.0)
    turns: int = Field(default=100, ge=1)
    """Budget of turns (user messages) of a trajectory."""
    calls: int = Field(default=200, ge=0)
    """Budget of tool calls of a trajectory; 0: no tools (inline dialects: text alone)."""
    generated_tokens: int = Field(default=10_000, ge=1)
    """Budget of sampled tokens of a trajectory."""
    context_tokens: int = Field(default=32_768, ge=64)
    """Budget of all tokens of a trajectory, prompt included."""
    seconds: float = Field(default=600.0, gt=0)
    """Budget of what a trajectory's world takes (calls, judging); beyond it, it is invalid. Waiting
    for the policy does not count."""
    steps_per_turn: int = Field(default=6, ge=1)
    """Generations in one turn; the turn is closed after the last (1 + 5 extra in the paper)."""
    step_tokens: int = Field(default=2048, ge=1)
    """Tokens of one generation at most."""
    result_chars: int = Field(default=0, ge=0)
    """Longer tool results are shortened with a visible notice, and counted; 0: never."""
    concurrency: int = Field(default=256, ge=1)
    """Trajectories in flight at once."""
    preflight: bool = True
    """False: go on although not one call of the first step could be parsed."""
    max_invalid: float = Field(default=0.25, ge=0, le=1)
    """Largest share of invalid trajectories in a step; above it the run stops."""


class BoundarySettings(Settings):
    """Where the boundary of the policy's capability lies (rods.md, section 3)."""

    low: float = Field(default=0.20, ge=0, le=1)
    """rbar below it: hard."""
    high: float = Field(default=0.85, ge=0, le=1)
    """rbar above it: mastered."""
    min_valid: float = Field(default=0.5, gt=0, le=1)
    """Share of a group that must be valid for it to be judged."""
    priority: Literal["phi", "variance", "thompson"] = "phi"
    thompson_visits: int = Field(default=3, ge=1)
    """Last visits of a task that `thompson` draws its posterior from."""
    min_variance: float = Field(default=0.0, ge=0)
    """Boundary tasks with a smaller reward variance are no seeds."""
    seeds: int = Field(default=16, ge=1)
    """Seeds of one synthesis cycle, M."""
    lend_quota: bool = False
    """Whether a type's unused quota is lent to the others."""
    cooldown_epochs: float = Field(default=1.0, ge=0)
    """A seed is not chosen again for this many epochs."""
    select: Literal["boundary", "random"] = "boundary"
    """`random`: the ablation that takes any judged task as seed."""
    signal: Literal["progress", "binary"] = "progress"
    """`binary`: the ablation that reads the boundary from solved or not."""


class ReplaySettings(Settings):
    """The dynamic replay buffer (rods.md, section 5)."""

    cap: int = Field(default=400, ge=0)
    """Generated tasks alive at most, P_max."""
    inject: float = Field(default=0.20, ge=0, le=1)
    """Share of the active pool that may enter at an epoch's start, beta."""
    burn_in: float = Field(default=0.20, ge=0, le=1)
    """A new variant whose first judged rbar is lower is evicted."""
    retire_above: float = Field(default=0.95, ge=0, le=1)
    retire_below: float = Field(default=0.20, ge=0, le=1)
    stale_epochs: int = Field(default=3, ge=1)
    """A generated task not judged for this many epochs is retired."""
    retest: float = Field(default=0.0, ge=0, le=1)
    """Share of an epoch's draws that re-test retired tasks."""
    retire: bool = True
    """False: the ablation without retirement and burn-in."""


class SynthesisSettings(Settings):
    """How variants are made."""

    writer: str = "resample"
    """`resample`, `graph`, `llm`, or `module:attribute` of a writer. For question tasks the first
    two mean `family`, another question of the same family and difficulty."""
    url: str = ""
    """Base URL of an OpenAI-compatible chat server, for the writer `llm`."""
    model: str = ""
    """Model of that server; empty: the first one that it lists."""
    models: dict[str, str] = Field(default_factory=dict[str, str])
    """Other models for single stages: plan, execute, critic, rewrite, coherence, judge."""
    temperature: float = Field(default=1.0, ge=0, le=2)
    temperatures: dict[str, float] = Field(default_factory=dict[str, float])
    """Other temperatures for single stages."""
    top_p: float = Field(default=0.7, gt=0, le=1)
    planner: Literal["model", "graph"] = "model"
    """`graph`: plan and execute by walking the API graph; the model writes messages alone."""
    narrative: bool = True
    """False: the ablation whose plans tell no story."""
    coherence: bool = True
    """False: the ablation that does not rewrite the whole conversation once."""
    feedback: bool = True
    """False: the ablation in which a failed attempt teaches the next one nothing."""
    concurrency: int = Field(default=8, ge=1)
    """Requests in flight at the chat server."""
    timeout: float = Field(default=120.0, gt=0)
    """Seconds of one request."""
    max_tokens: int = Field(default=2048, ge=1)
    """Longest answer of the chat server, its thinking included."""
    price_in: float = Field(default=0.0, ge=0)
    """Cost of a million prompt tokens, in any currency; log and tables then show what was spent."""
    price_out: float = Field(default=0.0, ge=0)
    """Cost of a million tokens of answers."""
    resample_share: float = Field(default=0.0, ge=0, le=1)
    """Share of the proposals that the resample writer makes beside `writer`."""
    variants_per_seed: int = Field(default=2, ge=1)
    attempts: int = Field(default=3, ge=1)
    """Whole attempts for one variant, K_max."""
    max_distance: float = Field(default=0.25, ge=0, le=1)
    """Largest distance between the complexity profiles of a variant and its seed."""
    cycles_per_epoch: int = Field(default=1, ge=1)
    """Synthesis cycles in an epoch, evenly spaced; each submits `boundary.seeds` seeds."""
    backlog_epochs: float = Field(default=2.0, gt=0)
    """Never more waiting variants than this many epochs can inject."""
    drain_seconds: float = Field(default=0.0, ge=0)
    """At an epoch's start, wait at most so long for requests of earlier epochs: a run can then be
    repeated exactly, as long as the writer is in time (the log says so where it is not). 0: nothing
    waits, the epoch takes what is there. Updates never wait."""


class TrainSettings(Settings):
    """The local trainer."""

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
    token, whitened over the batch; groups play no part, so that equal rewards teach too. The
    settings from `critic_lr` to `value_clip` are read under `gae` alone."""
    critic_lr: float = Field(default=1e-5, gt=0)
    """Learning rate of the critic; follows `schedule`, without `warmup`. Under LoRA the critic has
    adapters of its own over the policy's frozen weights, else it is a copy of the whole model."""
    critic_warmup: int = Field(default=0, ge=0)
    """Updates at the start that train the critic alone."""
    gamma: float = Field(default=1.0, ge=0, le=1)
    """Discount from one sampled token to the next; tokens of the environment do not count."""
    gae_lambda: float = Field(default=1.0, ge=0, le=1)
    """1: return minus value. 0: the error of one step."""
    value_clip: float = Field(default=0.0, ge=0)
    """How far a value may move in one update until its gradient stops; 0: no clipping."""
    filter: Literal["none", "zerotir"] = "none"
    """`zerotir`: leave out groups whose accuracy is outside `group_window` or whose scores mostly
    failed, and samples that are cut and wrong, odd, made up or repetitive. All are counted. Needs a
    reward that logs `correct`. The perplexity under a base model is not looked at."""
    group_window: tuple[float, float] = (0.05, 0.8)
    """Under `filter`: a group trains if its mean accuracy lies strictly between."""
    loss: Literal["clipped", "gspo", "cispo"] = "clipped"
    clip_low: float = Field(default=0.2, ge=0)
    clip_high: float = Field(default=0.28, ge=0)
    dual_clip: float = Field(default=10.0, ge=0)
    """For negative advantages the loss is at most this times -advantage; 0: off."""
    kl: float = Field(default=0.01, ge=0)
    """Coefficient of the k3 KL loss against the frozen start; 0: no reference model is kept."""
    entropy: float = Field(default=0.001, ge=0)
    """Coefficient of the entropy bonus."""
    aggregation: Literal["token", "sequence", "constant"] = "token"
    """`token`: mean over all tokens of the mini-batch. `sequence`: mean over sequence means.
    `constant`: mean over sequence sums, divided by `rollout.generated_tokens` (Dr. GRPO)."""
    lr: float = Field(default=1e-6, gt=0)
    schedule: Literal["constant", "cosine"] = "constant"
    """`cosine` falls to 0 over the whole run; where the pool grows, `updates` must say how long
    that is."""
    warmup: int = Field(default=0, ge=0)
    """Steps of linear warm-up."""
    weight_decay: float = Field(default=0.0, ge=0)
    grad_clip: float = Field(default=1.0, gt=0)
    minibatch: int = Field(default=0, ge=0)
    """Trajectories of one optimiser step, about; 0: all of the step's, exactly on-policy. Groups
    are shuffled and never split (their common prefixes are computed once), and the parts are as
    equal as whole groups allow."""
    epochs: int = Field(default=1, ge=1)
    """Passes over one step's trajectories."""
    microbatch_tokens: int = Field(default=16_384, ge=128)
    """Tokens of one forward pass, padding included."""
    mask_env_tokens: bool = True
    """False: tokens that the environment inserted carry loss too; the world-model experiment."""
    gradient_checkpointing: bool = False
    checkpoint_steps: int = Field(default=1, ge=1)
    """Steps between checkpoints; a resumed run repeats the steps since the last one exactly."""


class StageSettings(Settings):
    """One stage of the curriculum."""

    name: str
    reward: str = "progress"
    """Short name or `module:attribute`."""
    categories: tuple[str, ...] = ()
    """Categories of tasks; empty: all."""
    epochs: int = Field(default=5, ge=1)
    tasks: int = Field(default=0, ge=0)
    """Original tasks of this stage at most, stratified; 0: all."""
    expand: bool = False
    """Whether boundary, synthesis and buffer are at work in this stage."""


class EvaluationSettings(Settings):
    """Held-out evaluation, before and after (and every `epochs`)."""

    tasks: int = Field(default=0, ge=0)
    """Original held-out tasks, stratified; 0: all."""
    variants: int = Field(default=0, ge=0)
    """Variants of held-out scenarios, made once with their own seed and never trained on."""
    samples: int = Field(default=1, ge=1)
    """Samples of a task, averaged."""
    temperature: float = Field(default=0.0, ge=0)
    """0: greedy."""


class RunConfig(Settings):
    """Everything that decides what a run does."""

    seed: int = Field(default=0, ge=0)
    updates: int = Field(default=0, ge=0)
    """Stop after this many updates, so that two curricula get the same budget; 0: play all
    stages."""
    curriculum: Literal["rods", "static"] = "rods"
    """`static`: the fixed pool, same budget, no synthesis."""
    model: ModelSettings = ModelSettings()
    env: EnvSettings = EnvSettings()
    rollout: RolloutSettings = RolloutSettings()
    boundary: BoundarySettings = BoundarySettings()
    replay: ReplaySettings = ReplaySettings()
    synthesis: SynthesisSettings = SynthesisSettings()
    train: TrainSettings = TrainSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    stages: tuple[StageSettings, ...] = (StageSettings(name="all", expand=True),)

    @model_validator(mode="after")
    def _consistent(self) -> RunConfig:
        if self.boundary.low >= self.boundary.high:
            raise ValueError("boundary.low must be below boundary.high")
        if self.replay.retire_below >= self.replay.retire_above:
            raise ValueError("replay.retire_below must be below replay.retire_above")
        if not self.stages:
            raise ValueError("stages: at least one stage is needed")
        self._consistent_train()
        names = [s.name for s in self.stages]
        if len(set(names)) < len(names):
            raise ValueError(f"stages: names must differ, got {names}")
        return self

    def _consistent_train(self) -> None:
        train = self.train
        if train.group_window[0] >= train.group_window[1]:
            raise ValueError("train.group_window: its first number must be below its second")
        if train.advantage != "gae":
            return
        if train.loss == "gspo":
            raise ValueError(
                'train.loss = "gspo" weighs whole answers, train.advantage = "gae" single tokens; '
                "use clipped or cispo with gae"
            )
        if not train.mask_env_tokens:
            raise ValueError(
                'train.advantage = "gae" has no value for tokens of the environment; '
                "train.mask_env_tokens must be true with it"
            )

    def digest(self) -> str:
        """First 16 hex digits of the SHA-256 of all settings; resume compares it."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def changed(self, other: RunConfig) -> list[str]:
        """Dotted keys whose values differ, as `key: ours -> theirs`."""
        ours, theirs = flat(self.model_dump(mode="json")), flat(other.model_dump(mode="json"))
        keys = sorted(ours.keys() | theirs.keys())
        return [
            f"{k}: {ours.get(k)} -> {theirs.get(k)}" for k in keys if ours.get(k) != theirs.get(k)
        ]


def load_config(
    recipe: str = "rods", profile: str = "", overrides: Sequence[str] = ()
) -> RunConfig:
    """A recipe, its profile, then overrides of the form `section.key=value` (value in TOML).

    Args:
        recipe: short name of a bundled recipe, or path of a TOML file.
        profile: name of a `[profile.NAME]` table of the recipe; empty: none; `small`: its first
            one, which runs on a laptop (`quick`, `smoke`).
        overrides: applied in order; a bare word that is no TOML value counts as a string.

    Raises:
        ConfigError: file, key, what was got, what was expected, the nearest valid key.
    """
    path = Path(recipe) if recipe.endswith(".toml") else RECIPES / f"{recipe}.toml"
    if not path.is_file():
        known = sorted(p.stem for p in RECIPES.glob("*.toml"))
        raise ConfigError(
            f"there is no recipe {recipe!r}.{nearest(recipe, known)} Known: {', '.join(known)}; "
            "or give the path of a .toml file."
        )
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}.") from error
    profiles = cast("dict[str, dict[str, Any]]", data.pop("profile", {}))
    if profile == SMALL and SMALL not in profiles:
        profile = next(iter(profiles), "")
    if profile:
        if profile not in profiles:
            raise ConfigError(
                f"{path}: there is no profile {profile!r}.{nearest(profile, list(profiles))} "
                f"Known: {', '.join(sorted(profiles)) or 'none'}."
            )
        merge(data, profiles[profile])
    for text in overrides:
        override(data, text)
    return parse_config(data, str(path))


def with_overrides(config: RunConfig, overrides: Sequence[str]) -> RunConfig:
    """A configuration with some settings changed; raises `ConfigError` as `load_config` does."""
    data = config.model_dump(mode="json")
    for text in overrides:
        override(data, text)
    return parse_config(data, "overrides")


def parse_config(data: Mapping[str, Any], where: str) -> RunConfig:
    """Validate plain data.

    Raises:
        ConfigError: one line for each fault, with key, what was got and the nearest valid key.
    """
    try:
        return RunConfig.model_validate(data)
    except ValidationError as error:
        lines = [_explain(dict(fault)) for fault in error.errors()]
        raise ConfigError(f"{where}: " + "\n".join(lines)) from error


def _explain(fault: dict[str, Any]) -> str:
    location = [str(part) for part in fault["loc"]]
    key = ".".join(location)
    if fault["type"] == "extra_forbidden":
        return f"there is no setting {key!r}.{nearest(key, keys())}"
    got = "" if not location else f", got {fault['input']!r}"
    return f"{key or 'settings'}: {fault['msg']}{got}."


def keys() -> list[str]:
    """All dotted keys that can be set, `stages` by its fields."""
    found = list(flat(RunConfig().model_dump(mode="json")))
    stage = [f"stages.0.{name}" for name in StageSettings.model_fields]
    return sorted({k for k in found if not k.startswith("stages")} | set(stage))
