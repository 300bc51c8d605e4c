"""Nested tables of settings and their dotted keys.

Owns how `section.key=value` finds its place in plain data. Only the hints know settings.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from rods.errors import ConfigError

LAST = 0.65  # how much the last part of a key counts for its likeness to another
LIKE = 0.62  # names that are less alike are not hinted at
ALGORITHMS = {
    "algorithm": "--train.advantage and --train.loss",
    "ppo": "--train.advantage gae --train.credit trajectory",
    "reinforce": "--train.advantage reinforce++ --train.credit trajectory",
    "dapo": "--train.filter dapo --train.clip_high 0.28 --train.aggregation token --train.kl 0",
    "gspo": "--train.loss gspo",
    **{name: f"--train.advantage {name}" for name in ("grpo", "dr_grpo", "rloo")},
}
"""Options for algorithms by the names that papers and other trainers give them."""
SYNONYMS = {
    "fixed": "static", "num_generations": "rollout.k", "max_steps": "updates",
    "learning_rate": "train.lr", "beta": "train.kl", "epsilon_high": "train.clip_high",
    "num_iterations": "train.epochs", "batch_size": "rollout.tasks_per_step",
    "max_completion_length": "rollout.generated_tokens",
    "max_prompt_length": "rollout.context_tokens",
    **dict.fromkeys(("report_to", "logger"), "track.names"),
    **dict.fromkeys(("reward_funcs", "reward_processing_classes"), "stages.0.reward"),
    **dict.fromkeys(("train_dataset", "train_files"), "env.tasks"),
    **dict.fromkeys(("eval_dataset", "val_files"), "evaluation.files"),
    **dict.fromkeys(("tools", "environment_factory", "rollout_func"), "env.name"),
    **dict.fromkeys(("model", "processing_class"), "model.name"),
    "peft_config": "model.lora_rank", "output_dir": "out", "num": "n",
}  # fmt: skip
"""Values and settings of RODS by the word that other trainers have for them."""


def nearest(name: str, known: Sequence[str]) -> str:
    """A hint at what this name means, or the known name most like it; empty if there is none."""
    if options := ALGORITHMS.get(name.lower().replace("-", "_")):
        return f" {name} is {options}."
    meant = SYNONYMS.get(name.rpartition(".")[2].lower().replace("-", "_"), "")
    if meant in known:
        return f" Did you mean {meant!r}?"
    best = max(known, key=lambda other: _likeness(name, other), default="") if name else ""
    return f" Did you mean {best!r}?" if best and _likeness(name, best) >= LIKE else ""


def _likeness(one: str, other: str) -> float:
    """From 0 to 1. The last part of a key says what is meant, the section only where it stands."""
    (here, _, ours), (there, _, theirs) = (key.lower().rpartition(".") for key in (one, other))
    short = theirs == _initials(ours) or ours == _initials(theirs)
    last = 0.95 if short else difflib.SequenceMatcher(None, ours, theirs).ratio()
    if not short and ours[:1] != theirs[:1]:  # people seldom mistype the first letter
        last *= 0.9
    if not here:
        return last if not there else 0.88 * last
    return LAST * last + (1 - LAST) * difflib.SequenceMatcher(None, here, there).ratio()


def _initials(name: str) -> str:
    """`lr` of `learning_rate`; empty for a single word."""
    words = name.split("_")
    return "".join(word[:1] for word in words) if len(words) > 1 else ""


def shown(value: object) -> str:
    """A setting's value as messages write it."""
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def within(key: str, names: Collection[str]) -> bool:
    """Whether a key is one of these names, or of a section among them."""
    return any(key == name or key.startswith(f"{name}.") for name in names)


def override(data: dict[str, Any], text: str) -> None:
    """Put `section.key=value` into nested tables; `ConfigError` for another form or place."""
    key, equals, raw = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"override {text!r}: expected section.key=value.")
    try:
        value = tomllib.loads(f"value = {raw}")["value"]
    except tomllib.TOMLDecodeError:
        value = raw
    *path, last = key.strip().split(".")
    place: Any = data
    for part in path:
        place = _enter(place, part, text)
    if not isinstance(place, dict):
        raise ConfigError(f"override {text!r}: {'.'.join(path)} is not a table of settings.")
    place[last] = value


def _enter(place: object, part: str, text: str) -> Any:
    if isinstance(place, list):
        rows: list[Any] = place
        if not part.isdigit() or int(part) >= len(rows):
            several = f"{len(rows)} stages, stages.0 to stages.{len(rows) - 1}"
            known = several if len(rows) > 1 else "one stage, stages.0"
            raise ConfigError(f"override {text!r}: this profile has {known}.")
        return rows[int(part)]
    if not isinstance(place, dict):
        raise ConfigError(f"override {text!r}: {part} stands inside a value that is not a table.")
    return cast("dict[str, Any]", place).setdefault(part, {})


def merge(into: dict[str, Any], other: Mapping[str, object]) -> None:
    """Lay nested tables over others; the other's values win."""
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value


def flat(data: object, prefix: str = "") -> dict[str, Any]:
    """Nested tables as one, by dotted keys; tables in a list by their place."""
    if isinstance(data, list) and data and isinstance(data[0], dict):
        data = {str(i): value for i, value in enumerate(cast("list[Any]", data))}
    if not isinstance(data, dict):
        return {prefix: data}
    out: dict[str, Any] = {}
    for key, value in cast("dict[str, Any]", data).items():
        out.update(flat(value, f"{prefix}.{key}" if prefix else key))
    return out


def changes(ours: Mapping[str, object], theirs: Mapping[str, object]) -> list[str]:
    """Keys whose values differ, as `key: ours -> theirs`; a missing one is None."""
    rows = ((key, ours.get(key), theirs.get(key)) for key in sorted(ours.keys() | theirs.keys()))
    return [f"{key}: {mine} -> {other}" for key, mine, other in rows if mine != other]
