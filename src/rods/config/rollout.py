"""Settings of the policy and its rollouts."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rods.config.base import Settings, Texts


class ModelSettings(Settings):
    """The policy."""

    name: str = "tiny"
    """`tiny` or another bundled name, a folder, or a Hugging Face name."""
    dialect: str = "compact"
    """Syntax of the model's calls: `compact` (the bundled policy), `pythonic`, `hermes`, `xml`,
    `think`, `llama`, `toolrl`, `tool_n1`. Inline dialects insert results into one response: `torl`,
    `zerotir`, `retool`, `artist`, `search_r1`. Or your own, `module:attribute`."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device of the model. `auto`: the first CUDA device, or the CPU if there is none."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of rollouts and training. `auto`: bfloat16 on a GPU. On a CPU, a measurement at the
    start decides: bfloat16 if it is at least 1.5 times as fast, else float32."""
    lora_rank: int = Field(default=0, ge=0, le=1024)
    """Rank of LoRA adapters on all linear layers, with alpha twice the rank; 0: all weights."""
    threads: int = Field(default=0, ge=0)
    """CPU threads of torch; 0: a measurement at the start decides. Set it to repeat a run bit by
    bit, because the number changes the last digits of sums."""


class PipelineSettings(Settings):
    """`rollout.schedule = "pipelined"`."""

    staleness: int = Field(default=1, ge=0)
    """Updates that may happen between the start of a group and its own update. 0: exactly
    on-policy, an update waits for all trajectories in flight. 1: rollouts of the next groups run
    during an update, and continue with its weights."""


class WorldSettings(Settings):
    """Worlds that wait for something, such as tools on another machine."""

    call_seconds: float = Field(default=0.0, ge=0)
    """Longest time of a call. Then the trajectory starts once more in a new world. 0: only
    `rollout.seconds` counts. Worlds that only compute are not interrupted."""
    starting: int = Field(default=0, ge=0)
    """Worlds that start or wait for their rollout at the same time; 0: no limit."""
    running: int = Field(default=0, ge=0)
    """Rollouts at the same time, apart from starting and judging worlds; 0: no limit.
    `rollout.concurrency` limits the sum of all three."""
    judging: int = Field(default=0, ge=0)
    """Worlds that judge a turn at the same time, such as by running tests; 0: no limit."""
    processes: int = Field(default=0, ge=0)
    """Processes for worlds, one world in each: a hanging world is ended, and a crash affects no
    other world. 0: all worlds in this process."""


class RolloutSettings(Settings):
    """Sampling of trajectories."""

    k: int = Field(default=16, ge=1)
    """Rollouts of one task, the group size K; 1 with `train.advantage` `gae` or `reinforce++`."""
    tasks_per_step: int = Field(default=32, ge=1)
    """Groups of one update."""
    temperature: float = Field(default=1.0, ge=0.0, le=5.0)
    """Sampling temperature in training, from 0 (greedy) to 5."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Sample among the most probable tokens that together have this probability, in training and
    evaluation. Log-probabilities are those of the whole distribution. Servers return those of the
    nucleus, so `rods train` with a server is refused below 1."""
    stop: Texts = ()
    """Texts that end an answer, such as `</answer>`, for a base model that does not stop there.
    The answer keeps the text itself."""
    turns: int = Field(default=100, ge=1)
    """Largest number of turns (user messages) in a trajectory."""
    calls: int = Field(default=200, ge=0)
    """Largest number of tool calls in a trajectory; 0: no tools (inline dialects: only text)."""
    generated_tokens: int = Field(default=10_000, ge=1)
    """Largest number of sampled tokens in a trajectory."""
    context_tokens: int = Field(default=4096, ge=64)
    """Largest number of tokens in a trajectory, prompt included; at most the model's positions."""
    seconds: float = Field(default=600.0, gt=0)
    """Seconds that the world of a trajectory may take for calls and verdicts; a slower trajectory
    is invalid. If programs of the policy ran for at least half of it, the trajectory is truncated
    and counts. Waiting for the policy, a judge of answers or a user simulator does not count."""
    steps_per_turn: int = Field(default=6, ge=1)
    """Generations in one turn; the turn is closed after the last (1 + 5 extra in the paper)."""
    step_tokens: int = Field(default=2048, ge=1)
    """Largest number of tokens in one generation."""
    result_chars: int = Field(default=0, ge=0)
    """Longer tool results are shortened with a visible notice, and counted; 0: never."""
    concurrency: int = Field(default=256, ge=1)
    """Largest number of trajectories in flight."""
    schedule: Literal["synchronous", "asynchronous", "pipelined"] = "asynchronous"
    """`asynchronous`: each trajectory runs by itself, and an update waits for all of its
    trajectories. `pipelined`: rollouts run during updates. `synchronous`: all generate, then all
    tools run one by one, for comparison. docs/guides/schedules.md compares the guarantees."""
    pipeline: PipelineSettings = PipelineSettings()
    worlds: WorldSettings = WorldSettings()
    max_invalid: float = Field(default=0.25, ge=0, le=1)
    """Largest share of invalid trajectories in an update; above it the run stops."""

    @property
    def in_flight(self) -> int:
        """Largest number of trajectories in flight, if no filter draws more."""
        ahead = self.pipeline.staleness if self.schedule == "pipelined" else 0
        return min(self.concurrency, self.k * self.tasks_per_step * (1 + ahead))
