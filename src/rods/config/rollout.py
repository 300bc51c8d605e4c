"""Settings of what is played and how: the policy, its rollouts, the held-out evaluation.

RolloutSettings(k=8).temperature        # 1.0
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from rods.config.base import Settings, Texts


class ModelSettings(Settings):
    """The policy."""

    name: str = "tiny"
    """`tiny` (bundled), a folder, or a Hugging Face name."""
    dialect: str = "compact"
    """How the model writes calls: `compact` (the bundled policy), `pythonic`, `hermes`, `xml`,
    `think`, `llama`, `toolrl`, `tool_n1`; inline, programs or queries inside one response, results
    inserted: `torl`, `zerotir`, `retool`, `artist`, `search_r1`; or `module:attribute` of yours."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the model is. `auto`: the first CUDA device where there is one, else the CPU."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Arithmetic of rollouts and training. `auto`: bfloat16 on a GPU, float32 on a CPU."""
    lora_rank: int = Field(default=0, ge=0, le=1024)
    """Rank of LoRA adapters on all linear layers; 0 trains all weights."""
    threads: int = Field(default=0, ge=0)
    """CPU threads of torch; 0: as a measurement at the start says. The number
    changes the last digits of sums: runs that are to repeat bit by bit set it."""


class PipelineSettings(Settings):
    """`rollout.schedule = "pipelined"`."""

    staleness: int = Field(default=1, ge=0)
    """Updates that may happen between a group's start and its own. 0: exactly on-policy, an update
    waits for all that is in flight. 1: the next groups are played while an update runs, and go on
    under its weights."""


class WorldSettings(Settings):
    """Worlds that wait for something, such as tools on another machine."""

    call_seconds: float = Field(default=0.0, ge=0)
    """A call that takes longer is given up, and the trajectory tried once more in a fresh world;
    0: only the trajectory's own seconds count. Worlds that only compute are not interrupted."""
    starting: int = Field(default=0, ge=0)
    """Worlds that start at once, those that then wait to be played included; 0: as many as come."""
    running: int = Field(default=0, ge=0)
    """Trajectories that are played at once, while others start and are judged (`concurrency` is the
    sum of all three); 0: as many as come."""
    judging: int = Field(default=0, ge=0)
    """Worlds that judge a turn at once, such as by running tests; 0: as many as come."""
    processes: int = Field(default=0, ge=0)
    """Play each world in a process, so many at once: one that hangs is ended, and a crash takes no
    other world along. 0: in this process."""


class RolloutSettings(Settings):
    """How trajectories are sampled."""

    k: int = Field(default=16, ge=1)
    """Rollouts of one task, the group size K; 1 with `train.advantage` `gae` or `reinforce++`."""
    tasks_per_step: int = Field(default=32, ge=1)
    """Groups of one update."""
    temperature: float = Field(default=1.0, ge=0.0, le=5.0)
    """Of sampling in training, 0 (greedy) to 5."""
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
    context_tokens: int = Field(default=4096, ge=64)
    """Budget of all tokens of a trajectory, prompt included; at most the model's positions."""
    seconds: float = Field(default=600.0, gt=0)
    """Budget of what a trajectory's world takes (calls, verdicts); beyond it, it is invalid.
    Waiting for the policy does not count, nor for a judge of answers or a simulated user."""
    steps_per_turn: int = Field(default=6, ge=1)
    """Generations in one turn; the turn is closed after the last (1 + 5 extra in the paper)."""
    step_tokens: int = Field(default=2048, ge=1)
    """Tokens of one generation at most."""
    result_chars: int = Field(default=0, ge=0)
    """Longer tool results are shortened with a visible notice, and counted; 0: never."""
    concurrency: int = Field(default=256, ge=1)
    """Trajectories in flight at once."""
    schedule: Literal["synchronous", "asynchronous", "pipelined"] = "asynchronous"
    """`asynchronous`: each trajectory goes on by itself, an update waits for the whole step.
    `pipelined`: groups are played while updates run. `synchronous`: all generate, then all tools
    run one by one; for comparison. docs/schedules.md says what holds in which."""
    pipeline: PipelineSettings = PipelineSettings()
    worlds: WorldSettings = WorldSettings()

    @property
    def in_flight(self) -> int:
        """Trajectories in flight at once, at most, where no filter asks for more."""
        ahead = self.pipeline.staleness if self.schedule == "pipelined" else 0
        return min(self.concurrency, self.k * self.tasks_per_step * (1 + ahead))

    max_invalid: float = Field(default=0.25, ge=0, le=1)
    """Largest share of invalid trajectories in a step; above it the run stops."""


class ServerSettings(Settings):
    """A model beside the policy, in a suite."""

    url: str = ""
    """Base URL of an OpenAI-compatible chat server; its key stands in RODS_WRITER_KEY."""
    model: str = ""
    """Model of that server; empty: the first one that it lists."""


class SuiteSettings(Settings):
    """A published benchmark, `rods eval --suite NAME`."""

    folder: str = ""
    """Where its data is; empty: the benchmark's package, for suites that have one."""
    categories: Texts = ()
    """Only these of its categories; empty: all."""
    user: ServerSettings = ServerSettings()
    """Who plays the user, where tasks are talks with one."""
    judge: ServerSettings = ServerSettings()
    """Who judges what is asserted of a conversation in words, where tasks have such assertions."""
    omit: Texts = ()
    """Tasks are left out, and counted, whose own names hold one of these texts."""
    tasks: int = Field(default=0, ge=0)
    """So many of its tasks, as even over categories as they allow; 0: all."""
    repeats: int = Field(default=1, ge=1)
    """How often each task is played, greedily. An engine of ours repeats itself; servers that batch
    do not."""


class EvaluationSettings(Settings):
    """Held-out evaluation, before and after training."""

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

    every: int = Field(default=0, ge=0)
    """Updates between evaluations on the way, for curves; 0: none but before and after training."""
    suite: SuiteSettings = SuiteSettings()

    @field_validator("temperature")
    @classmethod
    def _above_zero(cls, value: float) -> float:
        if value <= 0:
            raise ValueError(
                "samples need one above 0; for greedy alone set evaluation.samples = 0"
            )
        return value
