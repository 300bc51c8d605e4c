"""The sections of a configuration: every knob, its default, and what it means.

Owns the fields alone; `config.py` puts them together, reads them and digests them. Every field is
documented by the string below it. What belongs to one environment, one writer or one way of
training has a section of its own, so that the shared ones stay few. Nothing here imports torch.

    RolloutSettings(k=8).temperature        # 1.0
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, field_validator


class Settings(BaseModel):
    """Base of all sections: frozen, no unknown keys, field docstrings become descriptions."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )


Share = Annotated[float, Field(ge=0, le=1)]


def one_or_many(value: object) -> object:
    """A list may be given as its one text or number; an empty text: none."""
    return [value] * (value != "") if isinstance(value, str | int) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(one_or_many)]


class ModelSettings(Settings):
    """The policy."""

    name: str = "tiny"
    """`tiny` (bundled), a folder, or a Hugging Face name."""
    dialect: str = "compact"
    """How the model writes calls: `compact` (the bundled policy), `pythonic`, `hermes`, `think`,
    `llama`; inline, programs or queries inside one response, results inserted: `torl`, `zerotir`,
    `retool`, `search_r1`; or `module:attribute` of your own."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Arithmetic of rollouts and training. `auto`: bfloat16 on a GPU, float32 on a CPU."""
    lora_rank: int = Field(default=0, ge=0, le=1024)
    """Rank of LoRA adapters on all linear layers; 0 trains all weights."""
    threads: int = Field(default=0, ge=0)
    """CPU threads of torch; 0: as a measurement says that is repeated every few seconds. The number
    changes the last digits of sums: runs that are to repeat bit by bit set it."""


class BfclSettings(Settings):
    """The benchmark, `env.name = "bfcl"`."""

    wheel: str = ""
    """Path of the benchmark's wheel; empty: an installed package, or the package index."""
    split: Literal["grouped", "paper", "tuning"] = "grouped"
    """`grouped`: by scenario, leak-free. `paper`: half of each category at random (leaks).
    `tuning`: a fifth of the training side's scenarios is evaluated in the held-out side's place,
    which stays untouched while settings are chosen."""


class SearchSettings(Settings):
    """`env.name = "search"`."""

    corpus: str = ""
    """JSON lines of documents; empty: the bundled, generated corpus."""
    retriever: str = ""
    """Address of a retriever in the form of Search-R1, instead of `corpus`."""
    results: int = Field(default=3, ge=1)
    """Documents that one search shows."""


class PythonToolSettings(Settings):
    """`env.name = "python_tool"`."""

    sandbox: str = ""
    """Address of a SandboxFusion service; empty: the sandbox of this machine."""
    keep_variables: bool = False
    """One interpreter for a whole trajectory, whose programs see earlier ones."""
    seconds: float = Field(default=10.0, gt=0)
    """Seconds of one program, on the clock and of CPU time."""
    memory_mb: int = Field(default=512, ge=1)
    """MiB that one program may use beside the interpreter and the preloaded packages."""


class QuestionSettings(Settings):
    """Generated questions, where `env.tasks` names no file (`python_tool`, `search`)."""

    families: Texts = ()
    """Families for `python_tool`: `add`, `multiply`, `expression`, `remainder`, `shopping`,
    `travel`, `reasoning_gym:NAME`; empty: all of our own."""
    difficulty: Annotated[tuple[int, ...], BeforeValidator(one_or_many)] = (1, 2, 3)
    """1 to 5; for `search` the hops, 1 to 3."""
    count: int = Field(default=400, ge=1)
    """Questions of both sides together."""
    lenient: bool = False
    """Take an answer wherever it stands (in a box, a tag, after "the answer is"); holds for the
    questions of a file too. False: where the system of the reward wants it."""


class EnvSettings(Settings):
    """The environment and its original tasks."""

    name: str = "bfcl"
    """Short name, or `module:attribute` of an `Environment` or a factory of one."""
    tasks: Texts = ()
    """Files of original tasks: JSON lines of ours, or for `python_tool` and `search` published
    data sets (JSON, JSON lines or Parquet); empty: those of the benchmark, or generated ones."""
    held_out: float = Field(default=0.25, ge=0, lt=1)
    """Share of the scenarios in `tasks`, or of generated questions, that is held out; 0: none, all
    is trained on and `evaluation.files` is evaluated on. The benchmark's is a half."""
    train_tasks: int = Field(default=0, ge=0)
    """Original tasks to train on, stratified by category; 0: all of the training side."""
    bfcl: BfclSettings = BfclSettings()
    search: SearchSettings = SearchSettings()
    python_tool: PythonToolSettings = PythonToolSettings()
    questions: QuestionSettings = QuestionSettings()
    options: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    """Keyword arguments of a factory of your own (`module:attribute`)."""

    @property
    def arguments(self) -> dict[str, JsonValue]:
        """What the environment's factory is called with, by name."""
        if self.name == "bfcl":
            return {"wheel": self.bfcl.wheel}
        if self.name == "search":
            source = self.search.retriever or self.search.corpus
            return {"source": source, "results": self.search.results}
        if self.name == "python_tool":
            mine = self.python_tool
            return {
                "source": mine.sandbox,
                "keep_variables": mine.keep_variables,
                "seconds": mine.seconds,
                "memory_mb": mine.memory_mb,
            }
        return dict(self.options)


class RolloutSettings(Settings):
    """How trajectories are sampled."""

    k: int = Field(default=16, ge=1)
    """Rollouts of one task, the group size K; 1 with `train.advantage` `gae` or `reinforce++`."""
    tasks_per_step: int = Field(default=32, ge=1)
    """Groups of one update."""
    temperature: float = Field(default=1.0, ge=0.0, le=5.0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Sample among the most probable tokens that together have this probability, in training and
    evaluation. Log-probabilities stay those of the whole distribution."""
    stop: Texts = ()
    """Texts that end the answer where the policy writes them, such as `</answer>`: a base model
    would write on. What it wrote up to there is kept whole."""
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
    max_invalid: float = Field(default=0.25, ge=0, le=1)
    """Largest share of invalid trajectories in a step; above it the run stops."""


class ThompsonSettings(Settings):
    """`boundary.priority = "thompson"`."""

    visits: int = Field(default=3, ge=1)
    """Last visits of a task that the posterior is drawn from."""


class BoundarySettings(Settings):
    """Where the boundary of the policy's capability lies (rods.md, section 3)."""

    low: float = Field(default=0.20, ge=0, le=1)
    """rbar below it: hard."""
    high: float = Field(default=0.85, ge=0, le=1)
    """rbar above it: mastered."""
    min_valid: float = Field(default=0.5, gt=0, le=1)
    """Share of a group that must be valid for it to be judged."""
    priority: Literal["phi", "variance", "thompson", "random"] = "phi"
    """Which boundary tasks become seeds first. `random`: the ablation that takes any judged task,
    whatever its region."""
    thompson: ThompsonSettings = ThompsonSettings()
    min_variance: float = Field(default=0.0, ge=0)
    """Boundary tasks with a smaller reward variance are not seeds."""
    seeds: int = Field(default=16, ge=1)
    """Seeds of one synthesis cycle, M."""
    lend_quota: bool = False
    """Whether a type's unused quota is lent to the others."""
    cooldown_epochs: float = Field(default=1.0, ge=0)
    """A seed is not chosen again for this many epochs."""
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
    retire: tuple[Share, Share] | tuple[()] = (0.20, 0.95)
    """A variant is retired when its rbar is below the first (too hard) or above the second
    (mastered). Empty: the ablation without retirement and burn-in."""
    stale_epochs: int = Field(default=3, ge=1)
    """A generated task not judged for this many epochs is retired."""
    retest: float = Field(default=0.0, ge=0, le=1)
    """Share of an epoch's draws that re-test retired tasks."""


class ResampleSettings(Settings):
    """The writer `resample` beside another one."""

    share: float = Field(default=0.0, ge=0, le=1)
    """Share of the proposals that it makes beside `synthesis.writer`."""


class LlmWriterSettings(Settings):
    """The writer `llm` and its chat server."""

    url: str = ""
    """Base URL of an OpenAI-compatible chat server."""
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
    """Seconds that the chat server may be silent while it is asked."""
    max_tokens: int = Field(default=2048, ge=1)
    """Longest answer of the chat server, its thinking included."""
    price_in: float = Field(default=0.0, ge=0)
    """Cost of a million prompt tokens, in any currency; log and tables then show what was spent."""
    price_out: float = Field(default=0.0, ge=0)
    """Cost of a million tokens of answers."""


class SynthesisSettings(Settings):
    """How variants are made."""

    writer: str = "resample"
    """`resample`, `graph`, `llm`, or `module:attribute` of a writer. For question tasks the first
    two mean `family`, another question of the same family and difficulty."""
    resample: ResampleSettings = ResampleSettings()
    llm: LlmWriterSettings = LlmWriterSettings()
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
    `rollout.tasks_per_step` of them train or the epoch has no more."""


class LocalSettings(Settings):
    """The local trainer's optimiser and memory; a host trainer brings its own."""

    weight_decay: float = Field(default=0.0, ge=0)
    grad_clip: float = Field(default=1.0, gt=0)
    microbatch_tokens: int = Field(default=16_384, ge=128)
    """Tokens of one forward pass, padding included."""
    gradient_checkpointing: bool = False
    checkpoint_steps: int = Field(default=1, ge=1)
    """Steps between checkpoints; a resumed run repeats the steps since the last one exactly."""


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
    filter: Literal["none", "zerotir", "dapo"] = "none"
    """`dapo`: groups whose scores are all equal do not count, so that `filtering.redraw` draws
    others for them (dynamic sampling). `zerotir`: leave out groups whose accuracy is outside
    `filtering.window` or whose scores mostly failed, and samples that are cut and wrong, odd, made
    up, repetitive or (by `filtering.max_perplexity`) too unlikely under the base model. All are
    counted. Needs a reward that logs `correct`."""
    filtering: FilterSettings = FilterSettings()
    credit: Literal["trajectory", "turn"] = "trajectory"
    """`trajectory`: every token has the advantage of the whole. `turn`: that of its turn, among the
    members of the group that entered the turn in the same condition. Rewards that are not a sum
    over turns (`format`) keep `trajectory`."""
    loss: Literal["clipped", "gspo", "cispo"] = "clipped"
    clip_low: float = Field(default=0.2, ge=0)
    clip_high: float = Field(default=0.28, ge=0)
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
    mask_env_tokens: bool = True
    """False: tokens that the environment inserted carry loss too; the world-model experiment."""
    local: LocalSettings = LocalSettings()


class StaticSettings(Settings):
    """`curriculum = "static"`."""

    variants: Texts = ()
    """Files of variants made once (`rods synth`) that the pool holds beside the original tasks."""


class StageSettings(Settings):
    """One stage of the curriculum."""

    name: str
    reward: str = "progress"
    """Short name or `module:attribute`."""
    categories: Texts = ()
    """Categories of tasks; empty: all."""
    epochs: int = Field(default=5, ge=1)
    tasks: int = Field(default=0, ge=0)
    """Original tasks of this stage at most, stratified; 0: all."""
    slice: int = Field(default=0, ge=0)
    """Original tasks that one epoch draws, the next ones of the stage in turn, so that short epochs
    bring all of them into play; 0: all in every epoch."""
    expand: bool = False
    """Whether boundary, synthesis and buffer are at work in this stage."""


class EvaluationSettings(Settings):
    """Held-out evaluation, before and after (and every `epochs`)."""

    tasks: int = Field(default=0, ge=0)
    """Original held-out tasks, stratified; 0: all."""
    files: Texts = ()
    """Files of evaluation tasks (AIME, MATH500), read as `env.tasks` are, in place of the held-out
    side. A training task that stands in them too is left out, and counted in a warning."""
    variants: int = Field(default=0, ge=0)
    """Variants of held-out scenarios, made once with their own seed and never trained on."""
    samples: int = Field(default=1, ge=0)
    """Samples of a task at `temperature`, averaged, beside one greedy trajectory; 0: that alone."""
    temperature: float = Field(default=1.0, le=5.0)
    """Of the samples."""

    @field_validator("temperature")
    @classmethod
    def _above_zero(cls, value: float) -> float:
        if value <= 0:
            raise ValueError(
                "samples need one above 0; for greedy alone set evaluation.samples = 0"
            )
        return value


class OtcSettings(Settings):
    """The rewards `otc_...`."""

    alpha: float = Field(default=1.0, gt=0)
    """Weight of tool productivity."""
    c: float = Field(default=1.0, gt=0)
    """How productivity falls with the calls: cos(m pi / (2m + c))."""


class RewardSettings(Settings):
    """Constants of rewards; each stage's `reward` says which one scores."""

    otc: OtcSettings = OtcSettings()
