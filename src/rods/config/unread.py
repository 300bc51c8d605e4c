"""Refusal of settings that have no effect under another setting.

Owns the rules of which choice reads which setting. A setting without effect is refused if it stands
in the layer of that choice or in a later one. The layers are recipe, profile and command line. So a
recipe may hold settings for a choice that its profile or the command line changes.

    require_read(values, usual, [{"train.lr"}, {"rollout.pipeline.staleness"}], "command line")
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from rods.config.engine import EngineTraits, traits_of
from rods.config.env import EnvSettings
from rods.errors import ConfigError
from rods.infra.dotted import shown, within

Values = Mapping[str, Any]
"""Settings by their dotted keys."""


_PUT = ("folder", "lora")
"""Ways that put weights into a folder."""


class Rule(NamedTuple):
    """Condition under which some settings are read."""

    keys: str
    """Settings, or sections of them, with blanks between them."""
    by: str
    """Settings that decide it, likewise."""
    read: Callable[[Values], bool]
    want: str
    """Condition in words, for the message."""


def _engine(able: Callable[[EngineTraits, Values], bool]) -> Callable[[Values], bool]:
    """Make a condition on the engine; one that is undecided, or a user's module, meets all."""

    def read(values: Values) -> bool:
        traits = traits_of(values["engine.name"])
        return traits.undecided or traits.foreign or able(traits, values)

    return read


RULES = (
    Rule(
        "rollout.pipeline", "rollout.schedule", lambda v: v["rollout.schedule"] == "pipelined",
        'rollout.schedule = "pipelined"',
    ),
    Rule(
        "rollout.worlds.starting rollout.worlds.running rollout.worlds.judging", "rollout.schedule",
        lambda v: v["rollout.schedule"] != "synchronous",
        'rollout.schedule = "asynchronous" or "pipelined"',
    ),
    Rule(
        "train.gae", "train.advantage", lambda v: v["train.advantage"] == "gae",
        'train.advantage = "gae"',
    ),
    Rule(
        "train.filtering.redraw", "train.filter", lambda v: v["train.filter"] != "none",
        'train.filter = "dapo" or "zerotir", because without a filter no group is dropped',
    ),
    Rule(
        "train.filtering.window train.filtering.max_perplexity", "train.filter",
        lambda v: v["train.filter"] not in ("none", "dapo"), 'train.filter = "zerotir"',
    ),
    Rule("train.kl_in", "train.kl", lambda v: v["train.kl"] > 0, "train.kl above 0"),
    Rule(
        "engine.vllm", "engine.name", _engine(lambda traits, _: traits.started),
        'engine.name = "vllm"',
    ),
    Rule(
        "engine.timeout", "engine.name", _engine(lambda traits, _: traits.server),
        'engine.name = "openai" or "vllm", which use a server',
    ),
    Rule(
        "engine.folder", "engine.name engine.weights",
        _engine(lambda t, v: t.server and not t.started and v["engine.weights"] in _PUT),
        'engine.name = "openai" with engine.weights = "folder" or "lora"',
    ),
    Rule(
        "engine.vllm.sleep", "rollout.schedule rollout.pipeline.staleness",
        lambda v: v["rollout.schedule"] != "pipelined" or v["rollout.pipeline.staleness"] == 0,
        "rollout.pipeline.staleness = 0 or another rollout.schedule, because a server that samples "
        "during updates never sleeps",
    ),
)  # fmt: skip


def require_read(
    values: Values, usual: Values, layers: Sequence[Collection[str]], where: str
) -> None:
    """Refuse settings that have no effect.

    Args:
        values: all settings after all layers.
        usual: all defaults; a setting at its default is never refused.
        layers: the keys that each layer sets, the strongest last.

    Raises:
        ConfigError: one line for each such setting; it begins with `where`.
    """
    lines = [
        f"{key} = {shown(values[key])} has no effect. It is read with {rule.want}; here "
        f"{_are(rule, values)}. Set that, or leave {key} out."
        for rule in RULES
        for key in _unread(rule, values, usual, layers)
    ]
    if lines:
        raise ConfigError(f"{where}: " + "\n".join(dict.fromkeys(lines)))


def _unread(
    rule: Rule, values: Values, usual: Values, layers: Sequence[Collection[str]]
) -> list[str]:
    """Return the keys of a rule that are set without effect."""
    if rule.read(values):
        return []
    decided = max(_last(key, layers) for key in rule.by.split())
    return [
        key
        for key in values
        if within(key, rule.keys.split())
        and values[key] != usual.get(key)
        and _last(key, layers) >= max(decided, 0)
    ]


def without_replaced(
    data: Mapping[str, object], layers: Sequence[Collection[str]] = ()
) -> Mapping[str, Any]:
    """Return plain data without the settings of an environment that a later layer replaced.

    Those at their defaults also go.
    """
    env: Any = data.get("env")
    own = {*EnvSettings.model_fields, *(EnvSettings.read(env) if isinstance(env, dict) else ())}
    if not isinstance(env, dict) or env.keys() <= own:
        return data
    choice = ("env.name", f"env.{env.get('name')}.environment")
    decided = max(0, *(_last(key, layers) for key in choice))
    kept = dict(env)
    for name, kind in EnvSettings.sections().items():
        if name not in own and isinstance(section := env.get(name), dict):
            usual = kind().model_dump(mode="json")
            late = [key for key in section if _last(f"env.{name}.{key}", layers) >= decided]
            kept[name] = {k: section[k] for k in late if section[k] != usual.get(k)}
            if not kept[name]:
                del kept[name]
    return {**data, "env": kept}


def _last(key: str, layers: Sequence[Collection[str]]) -> int:
    """Return the index of the strongest layer that sets a key, or -1."""
    # A free table may be set as a whole, so that its own keys are not named.
    return max((n for n, layer in enumerate(layers) if _named(key, layer)), default=-1)


def _named(key: str, layer: Collection[str]) -> bool:
    return within(key, layer) or any(within(name, (key,)) for name in layer)


def _are(rule: Rule, values: Values) -> str:
    return " and ".join(f"{key} = {shown(values[key])}" for key in rule.by.split())
