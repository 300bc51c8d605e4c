"""The rewards that several recipes share, by name; one is imported when it is asked for.

Those of one published system are in its folder of `recipes/`, under `[provides.rewards]`.

Of turns, judged by the world:

* `progress` - share of the task's turns that were solved, with the fixed denominator (the default)
* `accuracy` - 1 if every turn was solved
* `format` - well-formed steps and successful calls, for the first stage

Of final answers, for tasks with `world["answer"]` (`answers.py`); it logs `correct`, 0 or 1:

* `outcome` - 1 if the answer is right, else 0
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
        "format": "rods.rewards.format:format_reward",
        "outcome": "rods.rewards.outcome:outcome",
    },
    "rewards",
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
