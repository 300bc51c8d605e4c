"""Nested tables of settings and their dotted keys.

Owns how `section.key=value` finds its place in plain data. Only the hints know settings.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from datetime import date
from datetime import time as clock
from typing import Any, cast

from rods.errors import ConfigError

LAST = 0.65  # how much the last part of a key counts for its likeness to another
LIKE = 0.62  # names that are less alike are not hinted at
AHEAD = 0.12  # by how much a name of another kind must be nearer
SURE = 0.8  # likeness from which a name may also be one of another kind (`ELSEWHERE`)
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
    "num_iterations": "train.epochs",
    **dict.fromkeys(("batch_size", "steps_per_generation"), "rollout.tasks_per_step"),
    "max_completion_length": "rollout.generated_tokens",
    "max_prompt_length": "rollout.context_tokens",
    **dict.fromkeys(("report_to", "logger"), "track.names"),
    **dict.fromkeys(("reward", "reward_funcs", "reward_processing_classes"), "stages.0.reward"),
    **dict.fromkeys(("train_dataset", "train_files"), "env.tasks"),
    **dict.fromkeys(("eval_dataset", "val_files"), "evaluation.files"),
    **dict.fromkeys(("tools", "environment_factory", "rollout_func"), "env.name"),
    **dict.fromkeys(("model", "processing_class"), "model.name"),
    "peft_config": "model.lora_rank", "output_dir": "out", "num": "n",
    "bf16": "bfloat16", "fp32": "float32",
}  # fmt: skip
"""Values and settings of RODS by the word that other trainers have for them."""
ELSEWHERE: ContextVar[Callable[[], Mapping[str, str]]] = ContextVar("ELSEWHERE", default=dict)
"""The options, settings and values that a command line may name, and how each is typed."""
UNREAD: ContextVar[Callable[[], Mapping[str, str]]] = ContextVar("UNREAD", default=dict)
"""Names that other commands know and a command line may not have, with their meaning in words."""


def nearest(name: str, known: Collection[str], anywhere: bool = False) -> str:
    """A hint at what this name means, or the known name most like it; empty if there is none.

    A mapping of known names says how each is typed. `anywhere`: a name may also be meant for
    another option of the command line; that takes a greater likeness.
    """
    name = name.lstrip("-\u2013\u2014")
    last = name.rpartition(".")[2]
    own = known if isinstance(known, Mapping) else dict(zip(known, known, strict=True))
    elsewhere = ELSEWHERE.get()() if anywhere else {}
    typed = {**elsewhere, **cast("Mapping[str, str]", own)}
    options = ALGORITHMS.get(last.lower().replace("-", "_"), "")
    if options and (not elsewhere or options.split()[0][2:] in typed):  # this command takes them
        return f" {last} is {options}."
    if (meant := SYNONYMS.get(last.lower().replace("-", "_"), "")) in typed:
        return f" Did you mean {typed[meant]!r}?"
    if anywhere and own and name not in typed and (what := UNREAD.get()().get(name)):
        return f" {name} is {what}, which this command does not read."
    same = [typed[other] for other in own if "." in other and other.rpartition(".")[2] == name]
    if 1 < len(same) <= 4:  # as `name`, which several sections have
        return f" Did you mean {' or '.join(map(repr, same))}?"
    alike = {other: _likeness(name, other) for other in typed if name}
    near = max(own, key=lambda other: alike.get(other, 0), default="")
    best = max(typed, key=lambda other: alike.get(other, 0), default="")
    # Another option must be much nearer, since the right one was most probably named.
    if alike.get(near, 0) >= max(LIKE, alike.get(best, 0) - AHEAD):
        best = near
    elif alike.get(best, 0) < SURE:
        return ""
    return f" Did you mean {typed[best]!r}?"


def nearest_setting(name: str, value: str, known: Collection[str]) -> str:
    """A hint at an unknown setting by its name, else by its value: `train.algorithm grop`."""
    by_value = {value.lower(), name.rpartition(".")[2].lstrip("-")} & ALGORITHMS.keys()
    words = [nearest(name, known, anywhere=True), nearest(value, (), anywhere=True)]
    return next(filter(None, words[::-1] if by_value else words), "")


def not_among(what: str, value: str, known: Collection[str]) -> str:
    """The sentences about a value of an option that takes only known ones, with the nearest."""
    hint = nearest(value, [*known], anywhere=True)
    return f"{what} {value!r}: expected one of {', '.join(known)}.{hint}"


def _likeness(one: str, other: str) -> float:
    """From 0 to 1. The last part of a key says what is meant, the section only where it stands."""
    (here, _, ours), (there, _, theirs) = (key.lower().rpartition(".") for key in (one, other))
    short = theirs == _initials(ours) or ours == _initials(theirs)
    last = 0.95 if short else difflib.SequenceMatcher(None, ours, theirs).ratio()
    if sorted(ours) == sorted(theirs):  # letters are often swapped
        last = max(last, 0.9)
    if not (here or there) and len(ours) > 2 and theirs.startswith(ours):  # cut short
        last = max(last, 0.75)
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
    """True if a key is one of these names, or of a section among them."""
    return any(key == name or key.startswith(f"{name}.") for name in names)


def override(data: dict[str, object], text: str) -> None:
    """Put `section.key=value` into nested tables; `ConfigError` for another form or place."""
    key, equals, raw = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"override {text!r}: expected section.key=value.")
    try:
        value = tomllib.loads(f"value = {raw}")["value"]
    except tomllib.TOMLDecodeError:
        value = raw
    if isinstance(value, date | clock):  # no setting is one, but a folder may have such a name
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
        if not part.isdecimal() or int(part) >= len(rows):
            several = f"{len(rows)} stages, stages.0 to stages.{len(rows) - 1}"
            known = several if len(rows) > 1 else "one stage, stages.0 (of its profile or --stages)"
            raise ConfigError(f"override {text!r}: this run has {known}.")
        return rows[int(part)]
    if not isinstance(place, dict):
        raise ConfigError(f"override {text!r}: {part} stands inside a value that is not a table.")
    return place.setdefault(part, {})


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
        data = {str(i): value for i, value in enumerate(data)}
    if not isinstance(data, dict):
        return {prefix: data}
    out: dict[str, Any] = {}
    for key, value in data.items():
        out.update(flat(value, f"{prefix}.{key}" if prefix else key))
    return out


def changes(ours: Mapping[str, object], theirs: Mapping[str, object]) -> list[str]:
    """Keys whose values differ, as `key: ours -> theirs`; a missing one is None."""
    rows = ((key, ours.get(key), theirs.get(key)) for key in sorted(ours.keys() | theirs.keys()))
    return [f"{key}: {mine} -> {other}" for key, mine, other in rows if mine != other]
