"""The bundled rewards by name; one is imported when it is asked for.

Of turns, judged by the world:

* `progress` - share of the task's turns that were solved, with the fixed denominator (the default)
* `accuracy` - 1 if every turn was solved
* `parity` - 1 if the benchmark's own checker accepts every turn
* `format` - well-formed steps and successful calls, for the first stage
* `envtuning_format`, `envtuning_progress` - both as EnvTuning's released code has them, of codes

Of final answers, for tasks with `world["answer"]` (`answers.py`); each logs `correct`, 0 or 1:

* `outcome`, `outcome_signed` - right or not, as 1/0 and +1/-1
* `torl`, `torl_penalty`, `torl_penalty_code`, `torl_wformat`
* `retool`, `retool_recipe`
* `zerotir`, `zerotir_format`, `zerotir_format_code`
* `otc_ppo`, `otc_ppo_additive`, and of whole groups `otc_grpo`, `otc_grpo_additive`
* `artist_math`

Of calls (`calls/`); each logs `correct`:

* `toolrl`, of one response; `rewards.toolrl` has its variants
* `tool_n1`, of one response; `tool_n1_paper`, `tool_n1_no_think`, `tool_n1_partial`,
  `tool_n1_names`, `tool_n1_bonus`, `tool_n1_llama`
* `artist_fc`, of a conversation
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, cast

from rods.errors import ConfigError
from rods.registry import Registry, takes
from rods.reward import Reward, Rewards

REWARDS = Registry(
    "stages.reward",
    "reward",
    {
        "progress": "rods.rewards.progress:progress",
        "accuracy": "rods.rewards.progress:accuracy",
        "parity": "rods.rewards.progress:parity",
        "format": "rods.rewards.format:format_reward",
        "envtuning_format": "rods.rewards.envtuning:envtuning_format",
        "envtuning_progress": "rods.rewards.envtuning:envtuning_progress",
        "outcome": "rods.rewards.outcome:outcome",
        "outcome_signed": "rods.rewards.outcome:outcome_signed",
        "torl": "rods.rewards.torl:torl",
        "torl_penalty": "rods.rewards.torl:torl_penalty",
        "torl_penalty_code": "rods.rewards.torl:torl_penalty_code",
        "torl_wformat": "rods.rewards.torl:torl_wformat",
        "retool": "rods.rewards.retool:retool",
        "retool_recipe": "rods.rewards.retool:retool_recipe",
        "zerotir": "rods.rewards.zerotir:zerotir",
        "zerotir_format": "rods.rewards.zerotir:zerotir_format",
        "zerotir_format_code": "rods.rewards.zerotir:zerotir_format_code",
        "otc_ppo": "rods.rewards.otc:OtcPpo",
        "otc_ppo_additive": "rods.rewards.otc:OtcPpoAdditive",
        "otc_grpo": "rods.rewards.otc:OtcGrpo",
        "otc_grpo_additive": "rods.rewards.otc:OtcGrpoAdditive",
        "artist_math": "rods.rewards.calls.artist:ArtistMath",
        "artist_fc": "rods.rewards.calls.artist:ArtistFc",
        "toolrl": "rods.rewards.calls.toolrl:ToolRl",
        "tool_n1": "rods.rewards.calls.tool_n1:ToolN1",
        "tool_n1_paper": "rods.rewards.calls.tool_n1:ToolN1Paper",
        "tool_n1_no_think": "rods.rewards.calls.tool_n1:ToolN1NoThink",
        "tool_n1_partial": "rods.rewards.calls.tool_n1:ToolN1Partial",
        "tool_n1_names": "rods.rewards.calls.tool_n1:ToolN1Names",
        "tool_n1_bonus": "rods.rewards.calls.tool_n1:ToolN1Bonus",
        "tool_n1_llama": "rods.rewards.calls.tool_n1:ToolN1Llama",
    },
)

Constants: TypeAlias = Mapping[str, float | str | bool]
"""Constants of a reward, by name."""


def get_reward(name: str, constants: Constants | None = None) -> Reward:
    """A reward by its short name or `module:attribute`; a class is called for a new object.

    Args:
        name: of the reward.
        constants: what a class is called with, by name; else its defaults.

    Raises:
        ConfigError: there is none of this name (the message has the nearest one), or it is called
            otherwise.
    """
    found = REWARDS.find(name)
    made = found(**(constants or {})) if isinstance(found, type) else found
    if not callable(made):
        kind = type(made).__name__
        raise ConfigError(f"stages.reward: {name!r} is a {kind}; expected a function or a class.")
    return cast("Reward", takes("stages.reward", name, made, "a task", "a trajectory"))


def rewards_of(constants: Mapping[str, Constants] | None = None) -> Rewards:
    """The rewards of one run; `constants`: by the words that the names of theirs begin with."""
    given = constants or {}

    def make(name: str) -> Reward:
        own = (key for key in given if name == key or name.startswith(f"{key}_"))
        return get_reward(name, given[key] if (key := next(own, "")) else None)

    return Rewards(make)
