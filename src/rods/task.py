"""Tasks: one conversation to be solved, with its ground truth, as frozen data.

A `Task` is identified by the hash of its content, so equal tasks have equal ids wherever they were
made. `scenario` is the unit of every split: tasks of one scenario are never in both splits.

    task = Task.from_json(json.loads(line))
    task.id, task.category, [turn.user for turn in task.turns]
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

from rods.errors import TaskError
from rods.infra.dotted import nearest
from rods.infra.files import replacing
from rods.infra.rows import NAMES, listed, opened, placed_rows
from rods.infra.text import TOO_DEEP, encoded, json_text, require_whole
from rods.types import Json, Message, ToolCall, Value

CARRYING = ("task", "extra_info")
"""Columns in which a row of another format may carry a task of RODS."""
_MARK = re.compile(r"\$+call")
"""Keys that mark a nested call, or data that looks like one."""
_KEYS = ("env", "category", "turns", "world", "provenance", "dialogue")


class Columns(tuple[str, ...]):
    """Columns to read of a table: these, and a task's optional ones if they are misspelled."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or bool(get_close_matches(str(name), _KEYS[4:], 1, 0.8))


COLUMNS = Columns((*_KEYS, *CARRYING))
"""Columns that are read from a table of tasks."""
PROMPTS = frozenset({"prompt", "messages", "conversations", "problem", "query", "instruction"})
"""Keys of what a user says in rows of other data sets."""
REVIEWS = ("accepted", "edited", "rejected")
"""Verdicts of a person on a seed task that was generated from nothing."""
BASE, MISS_FUNC, MISS_PARAM, LONG_CONTEXT = "base", "miss_func", "miss_param", "long_context"
CATEGORIES = (BASE, MISS_FUNC, MISS_PARAM, LONG_CONTEXT)


@dataclass(frozen=True, slots=True)
class Turn:
    """One user message and what the agent must do before it answers."""

    user: str
    """Text of the user. Empty: the turn only offers tools that an earlier one withheld."""
    ground_truth: tuple[ToolCall, ...] = ()
    """Expected calls, in order. Empty: the agent must call nothing and state what is missing."""
    withheld: tuple[str, ...] = ()
    """Names of tools of the world that this turn does not offer."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Origin of a task."""

    origin: str
    """Name of the original task (`multi_turn_base_3`); empty: its id."""
    scenario: str
    """Unit of splitting, shared by a scenario's categories and by all variants; empty: the id."""
    ancestors: tuple[str, ...] = ()
    """Ids of the tasks it was made from, oldest first; empty for an original task."""
    recipe: str = ""
    """Writer and recipe that made it (`resample:rename+cut`); empty for an original task."""
    seed: int = 0
    """Random seed that makes it again from its ancestors."""
    scenarios: tuple[str, ...] = ()
    """Every scenario that contributed a turn (the own one first) when several were recombined."""
    review: str = ""
    """A person's verdict on a generated task: `accepted`, `edited`, `rejected`; empty: none."""


@dataclass(frozen=True)
class Task:
    """One conversation to be solved. Two tasks are equal if their `id` is."""

    env: str
    """Short name of the environment that can open it (`bfcl`)."""
    category: str
    """`base`, `miss_func`, `miss_param`, `long_context`, or what the environment names."""
    turns: tuple[Turn, ...]
    """The turns in order, at least one."""
    world: Mapping[str, Json]
    """JSON data from which the environment makes a new world; nothing else reads them."""
    provenance: Provenance = field(default=Provenance("", ""), compare=False)
    dialogue: tuple[Message, ...] = ()
    """Messages before the first turn, which the policy reads; all their calls were executed."""

    def __post_init__(self) -> None:
        """Make a task without a name or a scenario its own; else all such would be one scenario."""
        p = self.provenance
        if not (p.origin and p.scenario):
            own = replace(p, origin=p.origin or self.id, scenario=p.scenario or self.id)
            object.__setattr__(self, "provenance", own)

    @cached_property
    def id(self) -> str:
        """First 16 hex digits of the SHA-256 of everything but the provenance."""
        body = {k: v for k, v in self.to_json().items() if k != "provenance"}
        how: Any = {"sort_keys": True, "ensure_ascii": False, "separators": (",", ":")}
        try:
            text = json.dumps(body, allow_nan=False, **how)
        except ValueError as error:
            raise TaskError(
                f"task {self.provenance.origin or self.env!r}: {error}: JSON has no NaN and no "
                "infinity. Write null or a text in its world and calls."
            ) from error
        return hashlib.sha256(encoded(text)).hexdigest()[:16]

    @property
    def calls(self) -> list[ToolCall]:
        """Calls of the ground truth, in order."""
        return [call for turn in self.turns for call in turn.ground_truth]

    def given_back(self, index: int) -> list[str]:
        """Tools that a turn offers and the one before withheld, sorted."""
        before = self.turns[index - 1].withheld if index else ()
        return sorted({*before} - {*self.turns[index].withheld})

    @property
    def is_original(self) -> bool:
        """True if it was made from no other task: by a person, or from nothing."""
        return not self.provenance.ancestors

    @property
    def is_stage(self) -> bool:
        """True if it has a world and asks for nothing: seed tasks are made for it from nothing."""
        return self.turns == (Turn(""),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Task) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def to_json(self) -> dict[str, Json]:
        """Return the task as plain JSON; `from_json` reads it back."""
        p = self.provenance
        dialogue = [_message_to_json(message) for message in self.dialogue]
        return {
            "env": self.env,
            "category": self.category,
            "turns": [
                {
                    "user": t.user,
                    "ground_truth": [call_to_json(c) for c in t.ground_truth],
                    "withheld": list(t.withheld),
                }
                for t in self.turns
            ],
            **({"dialogue": dialogue} if dialogue else {}),
            "world": dict(self.world),
            "provenance": {
                key: list(value) if isinstance(value, tuple) else value
                for key in Provenance.__dataclass_fields__
                if (value := getattr(p, key)) or key != "review"
            },
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Json], where: str = "task") -> Task:
        """Read one row; raises `TaskError`, with `where`, for a missing or wrong key."""
        shape = "Expected an object with env, category, turns (user and ground_truth) and world."
        if not isinstance(row, dict):
            names: dict[type, str] = {list: "a list", str: "a text", type(None): "null"}
            got = names.get(type(row), repr(row))
            raise TaskError(f"{where}: not a task row, but {got}. {shape}")
        data: dict[str, Any] = row
        try:
            require_keys("a task", {k: data[k] for k in data if k not in CARRYING}, _KEYS)
            turns = tuple(map(_turn_from_json, _objects(data, "turns")))
            p = _field(data, "provenance", dict, {})
            require_keys("provenance", p, [*Provenance.__dataclass_fields__])
            made: dict[str, Any] = {key: _names(p, key) for key in ("ancestors", "scenarios")}
            made |= {k: _field(p, k, str, "") for k in ("origin", "scenario", "recipe", "review")}
            origin = Provenance(**made, seed=_field(p, "seed", int, 0))
            if origin.review not in ("", *REVIEWS):
                raise ValueError(f"review must be one of {', '.join(REVIEWS)}, got {p['review']!r}")
            if origin.seed.bit_length() > 63:  # what tables hold
                raise ValueError(f"seed must have at most 63 bits, got {origin.seed!s:.40}")
            dialogue = tuple(map(_message_from_json, _objects(data, "dialogue", [])))
            head = (_field(data, "env", str), _field(data, "category", str))
            # With a name, because one without it needs its id, which NaN prevents.
            unnamed = Provenance("-", "-")
            task = cls(*head, turns, dict(_field(data, "world", dict)), unnamed, dialogue)
            plain = task.to_json()
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            what = f"key {error} is missing" if isinstance(error, KeyError) else str(error)
            what = TOO_DEEP if isinstance(error, RecursionError) else what
            raise TaskError(f"{where}: not a task row: {what}. {shape}") from error
        # A text may hold JSON again.
        require_whole([plain, astuple(origin)], where, TaskError)
        if not task.turns:
            raise TaskError(f"{where}: a task needs at least one turn, got none.")
        return replace(task, provenance=origin)


T = TypeVar("T")


def _field(row: Mapping[str, object], key: str, kind: type[T], default: T | None = None) -> T:
    """A field of a row; null counts as missing, and lists and objects may be JSON text.

    Raises `KeyError` where it is missing without a default, `TypeError` for another type.
    """
    value = row[key] if default is None else row.get(key, default)
    if value is None and default is not None:
        return default
    value = opened(value, key) if kind in (list, dict) else value
    if not isinstance(value, kind):
        if kind is list and isinstance(value, dict):
            return cast("T", listed(value, key))
        raise TypeError(f"{key} must be {NAMES[kind]}, got {json.dumps(value, default=str):.80}")
    return value


def require_keys(what: str, row: Mapping[str, object], known: Sequence[str]) -> None:
    """Raise `ValueError` for a key that nothing reads; null counts as missing."""
    for key in row:
        if key not in known and row[key] is not None:
            hint = f" ({meant.strip()})" if (meant := nearest(key, known)) else ""
            raise ValueError(f"{what} has no key {key!r}, only {', '.join(map(repr, known))}{hint}")


def _objects(row: Mapping[str, object], key: str, default: list[object] | None = None) -> list[Any]:
    """A field that is a list of objects, each of which may be JSON text, too."""
    return listed(_field(row, key, list, default), key)


def _names(row: Mapping[str, object], key: str) -> tuple[str, ...]:
    names = _field(row, key, list, [])
    return tuple(_field({key: name}, key, str) for name in names)


def _turn_from_json(turn: Mapping[str, object]) -> Turn:
    require_keys("a turn", turn, [*Turn.__dataclass_fields__])
    calls = tuple(map(call_from_json, _objects(turn, "ground_truth")))
    return Turn(_field(turn, "user", str), calls, _names(turn, "withheld"))


def _message_to_json(message: Message) -> Json:
    calls: list[Json] = [call_to_json(call) for call in message.calls]
    row: dict[str, Json] = {"role": message.role, "content": message.content}
    return {**row, "calls": calls} if calls else row


def _message_from_json(row: Mapping[str, object]) -> Message:
    require_keys("a message", row, ("role", "content", "calls"))
    if row["role"] not in ("user", "assistant", "tool"):
        raise ValueError(f"role {row['role']!r} in dialogue; expected user, assistant or tool")
    calls = calls_from_json(row.get("calls"))
    return Message(row["role"], _field(row, "content", str, ""), calls)


def call_to_json(call: ToolCall) -> dict[str, Json]:
    """`{"name": ..., "arguments": {...}}`; a nested call becomes `{"$call": {...}}`.

    An object of the user's whose one key is `$call`, `$$call` and so on gets one `$` more, so that
    no value is taken for a call.
    """
    return {"name": call.name, "arguments": {k: _dump(v) for k, v in call.arguments.items()}}


def call_from_json(row: Mapping[str, object]) -> ToolCall:
    """The inverse of `call_to_json`; arguments may be JSON text."""
    require_keys("a call", row, ("name", "arguments"))
    given = _field(row, "arguments", dict)
    return ToolCall(_field(row, "name", str), {str(k): _load(v) for k, v in given.items()})


def calls_from_json(rows: object) -> tuple[ToolCall, ...]:
    """The calls of a list, or of JSON text of one; none where it is null."""
    return tuple(map(call_from_json, listed(rows, "the calls")))


def _dump(value: Value) -> Json:
    if isinstance(value, ToolCall):
        return {"$call": call_to_json(value)}
    if isinstance(value, list):
        return [_dump(v) for v in value]
    if isinstance(value, dict):
        more = "$" if _marked(value) else ""
        return {more + k: _dump(v) for k, v in value.items()}
    return value


def _marked(value: Mapping[str, object]) -> bool:
    """Return true if an object looks like a nested call, or like an escaped one."""
    return len(value) == 1 and _MARK.fullmatch(next(iter(value))) is not None


def _load(value: Any) -> Value:
    if isinstance(value, dict):
        items: dict[str, Any] = value
        if set(items) == {"$call"}:
            return call_from_json(items["$call"])
        less = int(_marked(items))
        return {k[less:]: _load(v) for k, v in items.items()}
    if isinstance(value, list):
        return [_load(v) for v in value]
    return value


def write_tasks(path: str | Path, tasks: Iterable[Task]) -> int:
    """Write tasks as JSON lines by a temporary file and a rename; returns how many.

    Raises `TaskError` for a number that is NaN or infinite, `StoreError` if it cannot be written.
    """
    count = 0
    with replacing(Path(path)) as part, part.open("w", encoding="utf-8") as out:
        for task in tasks:
            _ = task.id  # refuses what JSON cannot hold
            out.write(json_text(task.to_json()) + "\n")
            count += 1
    return count


def read_tasks(path: str | Path) -> Iterator[Task]:
    """Read tasks from JSON lines, a table or a data set; a foreign row may `carry` a task.

    Raises:
        TaskError: a row is broken, carries no task or one that stands twice; names file and line.
        PrerequisiteError: a table, and pyarrow is not installed.
    """
    seen: dict[str, str] = {}
    for where, row in placed_rows(Path(path), "tasks", TaskError, COLUMNS):
        plain = carried(row, where)
        if plain is None:
            require_no_prompts(Path(path), row, where)
        task = Task.from_json(plain or row, where)
        require_new(task, where, seen)
        yield task


def require_no_prompts(path: Path, row: object, where: str) -> None:
    """Raise `TaskError` for a row with what a user says and no turns; it names other commands."""
    if path.suffix not in (".json", ".jsonl"):  # of a table, only some columns were read
        _, row = next(placed_rows(path, "tasks", TaskError))
    keys = [*row] if isinstance(row, dict) else []
    if "turns" not in keys and not PROMPTS.isdisjoint(keys):
        raise TaskError(
            f"{where}: the file has prompts, not tasks ({', '.join(map(repr, keys))}). Tasks have "
            "turns with the calls that are expected. Questions with answers are read with "
            "--env.name python_tool or search, single calls with function_call. Solved "
            "conversations are for `rods sft`. For your own tools, `rods synth --from-scratch N` "
            "proposes tasks."
        )


def require_new(task: Task, where: str, seen: dict[str, str]) -> None:
    """Note where a task stands; raises `TaskError` if it stands elsewhere already."""
    if (first := seen.setdefault(task.id, where)) != where:
        raise TaskError(
            f"{where}: the same task (id {task.id}) stands at {first} already. Remove one of them."
        )


def carried(row: object, where: str) -> Mapping[str, Any] | None:
    """The task of ours that a row of another format carries: `task`, or `extra_info.task`.

    The `row` may be of any data set; one of ours carries itself. None: it holds none of RODS.
    Raises `TaskError`, which begins with `where`, for a task that is a text and not JSON.
    """
    if not isinstance(row, dict):
        return None
    table: dict[str, Any] = row
    if {"turns", "world"} <= set(table):
        return table
    extra: object = None
    with suppress(ValueError):  # it may be any text
        extra = opened(table.get("extra_info"), "extra_info")
    within = extra.get("task") if isinstance(extra, dict) else None
    found = within or table.get("task")
    if isinstance(found, str) and found.lstrip().startswith("{"):  # else a name
        try:
            found = json.loads(found)
        except (ValueError, RecursionError) as error:
            raise TaskError(f"{where}: its task is not JSON: {error}. Remove the row.") from error
    return found if isinstance(found, dict) else None
