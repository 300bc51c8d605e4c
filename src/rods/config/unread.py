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
from rods.errors import ConfigError
from rods.infra.dotted import shown, within

Values = Mapping[str, Any]
"""Settings by their dotted keys."""


class Rule(NamedTuple):
    """Condition under which some settings are read."""

    keys: tuple[str, ...]
    """Settings, or sections of them."""
    by: tuple[str, ...]
    """Settings that decide it."""
    read: Callable[[Values], bool]
    want: str
    """Condition in words, for the message."""


def _pipelined(values: Values) -> bool:
    return values["rollout.schedule"] == "pipelined"


def _engine(values: Values) -> EngineTraits:
    return traits_of(values["engine.name"])


def _open(values: Values) -> bool:
    """Return true if the engine may read the whole section: undecided, or a user's module."""
    return _engine(values).undecided or _engine(values).foreign


def _puts_weights(values: Values) -> bool:
    there = _engine(values).server and not _engine(values).started
    return _open(values) or (there and values["engine.weights"] in ("folder", "lora"))


RULES = (
    Rule(
        ("rollout.pipeline",),
        ("rollout.schedule",),
        _pipelined,
        'rollout.schedule = "pipelined"',
    ),
    Rule(
        ("rollout.worlds.starting", "rollout.worlds.running", "rollout.worlds.judging"),
        ("rollout.schedule",),
        lambda values: values["rollout.schedule"] != "synchronous",
        'rollout.schedule = "asynchronous" or "pipelined"',
    ),
    Rule(
        ("train.gae",),
        ("train.advantage",),
        lambda values: values["train.advantage"] == "gae",
        'train.advantage = "gae"',
    ),
    Rule(
        ("train.filtering.redraw",),
        ("train.filter",),
        lambda values: values["train.filter"] != "none",
        'train.filter = "dapo" or "zerotir", because without a filter no group is dropped',
    ),
    Rule(
        ("train.filtering.window", "train.filtering.max_perplexity"),
        ("train.filter",),
        lambda values: values["train.filter"] not in ("none", "dapo"),
        'train.filter = "zerotir"',
    ),
    Rule(
        ("train.dual_clip",),
        ("train.loss",),
        lambda values: values["train.loss"] != "cispo",
        'train.loss = "clipped" or "gspo"',
    ),
    Rule(
        ("train.kl_in",), ("train.kl",), lambda values: values["train.kl"] > 0, "train.kl above 0"
    ),
    Rule(
        ("engine.vllm",),
        ("engine.name",),
        lambda values: _engine(values).started or _open(values),
        'engine.name = "vllm"',
    ),
    Rule(
        ("engine.timeout",),
        ("engine.name",),
        lambda values: _engine(values).server or _open(values),
        'engine.name = "openai" or "vllm", which use a server',
    ),
    Rule(
        ("engine.folder",),
        ("engine.name", "engine.weights"),
        _puts_weights,
        'engine.name = "openai" with engine.weights = "folder" or "lora"',
    ),
    Rule(
        ("engine.vllm.sleep",),
        ("rollout.schedule", "rollout.pipeline.staleness"),
        lambda values: not _pipelined(values) or values["rollout.pipeline.staleness"] == 0,
        "rollout.pipeline.staleness = 0 or another rollout.schedule, because a server that samples "
        "during updates never sleeps",
    ),
)


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
    decided = max(_last(key, layers) for key in rule.by)
    return [
        key
        for key in values
        if within(key, rule.keys)
        and values[key] != usual.get(key)
        and _last(key, layers) >= max(decided, 0)
    ]


def _last(key: str, layers: Sequence[Collection[str]]) -> int:
    """Return the index of the strongest layer that sets a key, or -1."""
    # A free table may be set as a whole, so that its own keys are not named.
    return max((n for n, layer in enumerate(layers) if _named(key, layer)), default=-1)


def _named(key: str, layer: Collection[str]) -> bool:
    return within(key, layer) or any(within(name, (key,)) for name in layer)


def _are(rule: Rule, values: Values) -> str:
    return " and ".join(f"{key} = {shown(values[key])}" for key in rule.by)
