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

import inspect
from collections.abc import Mapping
from typing import Any, TypeAlias, get_type_hints

from pydantic import TypeAdapter, ValidationError

from rods.errors import ConfigError
from rods.infra.dotted import nearest
from rods.registry import Registry, takes
from rods.reward import Reward, Rewards

STAGE = "stages.N.reward"
"""The setting, for messages that do not know the stage."""
REWARDS = Registry(
    STAGE,
    "reward",
    {
        "progress": "rods.rewards.shared:progress",
        "accuracy": "rods.rewards.shared:accuracy",
        "format": "rods.rewards.shared:format_reward",
        "outcome": "rods.rewards.shared:outcome",
    },
    "rewards",
)

Constants: TypeAlias = Mapping[str, float | str | bool]
"""Constants of a reward, by name."""


def get_reward(name: str, constants: Constants | None = None, setting: str = STAGE) -> Reward:
    """A reward by its short name or `module:attribute`; a class is called for a new object.

    A class is called with the constants, by name; else with its defaults. `setting` names it.

    Raises:
        ConfigError: there is none of this name (the message has the nearest one), or it is called
            otherwise.
    """
    made = _made(name, REWARDS.find(name, setting), constants or {})
    if not callable(made):
        kind = type(made).__name__
        raise ConfigError(f"{setting}: {name!r} is a {kind}; expected a function or a class.")
    return takes(setting, name, made, "a task", "a trajectory")


def _made(name: str, found: object, constants: Constants) -> Any:
    """Make a reward; raises `ConfigError` for constants that it has not or that are wrong."""
    kind: type[Any] | None = found if isinstance(found, type) else None
    known = list(inspect.signature(kind).parameters) if kind else []
    for key in constants:
        if key not in known:
            raise ConfigError(
                f"rewards: the reward {name!r} has no constant {key!r}.{nearest(key, known)} "
                f"Known: {', '.join(known) or 'none'}."
            )
    if kind is None:
        return found
    types = get_type_hints(kind, include_extras=True)
    checked: dict[str, Any] = {}
    for key, value in constants.items():
        try:
            checked[key] = TypeAdapter[Any](types.get(key, Any)).validate_python(value)
        except ValidationError as error:
            wrong = error.errors()[0]["msg"]
            raise ConfigError(f"rewards: {key} of {name!r} is {value!r}. {wrong}.") from error
    return kind(**checked)


def belongs(table: str, name: str) -> bool:
    """True if the constants of a table are those of the reward with this name."""
    return name == table or name.startswith(f"{table}_")


def rewards_of(constants: Mapping[str, Constants] | None = None) -> Rewards:
    """The rewards of one run; `constants`: by the words that the names of theirs begin with.

    Raises:
        ConfigError: no reward has a name that begins with one of the words.
    """
    given = constants or {}
    require_tables(given)
    return Rewards(lambda name: reward_of(name, given))


def require_tables(given: Mapping[str, Constants]) -> None:
    """Raise `ConfigError` where no reward has a name that begins with one of the words."""
    words = sorted({word for name in REWARDS for word in (name, name.rpartition("_")[0]) if word})
    for table in given:
        if ":" not in table and not any(belongs(table, name) for name in REWARDS):
            raise ConfigError(
                f"rewards.{table}: no reward has such a name.{nearest(table, words)} Name one of "
                f"{', '.join(REWARDS)}, or the word that it begins with."
            )


def reward_of(name: str, given: Mapping[str, Constants], setting: str = STAGE) -> Reward:
    """Make a reward with the constants of its tables, the longer name last; see `get_reward`."""
    tables = sorted((table for table in given if belongs(table, name)), key=len)
    own = {key: value for table in tables for key, value in given[table].items()}
    return get_reward(name, own, setting)
