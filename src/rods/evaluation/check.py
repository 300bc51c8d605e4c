"""Checks tasks without a model: does every ground truth replay, twice alike, and pass its judge?

Owns the findings (`TaskFault`) and nothing else. Never changes a task, never samples a policy.
Of a question task the judge must accept the reference answer, and a generated one must come out
again (`rods.abilities.QuestionSource`).

    report = check_tasks(tasks, BfclEnvironment())
    for row in report.rows: ...
"""

from __future__ import annotations

import calendar
import json
import logging
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from traceback import extract_tb
from typing import NamedTuple, TypeAlias

from rods.abilities import QuestionSource, ability, initial_state, result_key
from rods.env import AnswerJudge, Environment, TurnVerdict, called
from rods.errors import EnvError, RewardError, RodsError, TaskError
from rods.infra.dotted import nearest
from rods.infra.interrupt import shown
from rods.rewards.answers import judge_of
from rods.synthesis.structure.trace import all_tools, failure_fields
from rods.task import BASE, LONG_CONTEXT, MISS_FUNC, MISS_PARAM, Task, call_to_json
from rods.types import Json, ToolCall, ToolResult, ToolSpec, Value

_LOG = logging.getLogger(__name__)
SHOWN = 5
"""Skipped tasks that are named one by one; all are counted."""


class TaskFault(StrEnum):
    """Kinds of faults of a task."""

    UNREACHABLE = "unreachable"
    """The world cannot be opened, a ground-truth call fails or is not offered, the ground truth
    fails its judges, or what a turn withholds is not a tool. Such a task cannot be trained on."""
    UNSTABLE = "unstable"
    """Two replays in fresh worlds differ in a result, a state or a verdict. Nor can such a task."""
    AMBIGUOUS = "ambiguous"
    """A hint: a ground-truth value that stands in nothing said or documented by then and not in the
    world's initial state (derived or guessed), or same words and world, other ground truth."""
    UNUSUAL = "unusual"
    """A hint, often at a slip: the category is not known, or the turns are not what it says."""
    UNDESCRIBED = "undescribed"
    """A hint: a tool or a parameter has no description, so that an agent guesses what it does. It
    stands once for each tool, at the first task that offers it."""


HINTS = (TaskFault.AMBIGUOUS, TaskFault.UNUSUAL, TaskFault.UNDESCRIBED)
"""Findings with which a task can be trained on."""


class CheckRow(NamedTuple):
    """One finding."""

    finding: TaskFault
    task: str
    """Content id of the task."""
    origin: str
    """Name of the original task that it is or descends from."""
    category: str
    turn: int
    """Turn from 0, printed from 1; -1 where the whole task is meant."""
    detail: str


@dataclass(frozen=True, slots=True)
class CheckReport:
    """All findings over some tasks."""

    rows: tuple[CheckRow, ...]
    tasks: int
    calls: int
    """Ground-truth calls that were replayed (each task is replayed twice)."""
    seconds: float
    failing: Mapping[tuple[str, str], tuple[int, int]]
    """By tool and field that sounds like a failure of a call that worked: the number of such calls,
    and of all calls of the tool."""

    @property
    def ok(self) -> bool:
        """No task is unreachable or unstable; the others can be trained on."""
        return all(row.finding in HINTS for row in self.rows)

    def counts(self) -> dict[str, int]:
        """Number of tasks with each finding, of tools that are undescribed."""
        of = TaskFault.UNDESCRIBED
        what = {(r.finding, r.detail if r.finding is of else r.task) for r in self.rows}
        found = Counter(fault for fault, _ in what)
        return {fault.value: found[fault] for fault in TaskFault}


Finding: TypeAlias = tuple[TaskFault, int, str]
"""A fault, its turn (-1: the whole task), and its description."""


class _Replayed(NamedTuple):
    """Observations of one turn of a replay."""

    offered: tuple[ToolSpec, ...]
    results: list[ToolResult]
    keys: list[tuple[str, bool]]
    """Key of each result, which equal ones share, and whether it failed."""
    verdict: TurnVerdict
    snapshot: object


def check_tasks(
    tasks: Iterable[Task], environment: Environment, tools: bool = False
) -> CheckReport:
    """Replay every ground truth in two fresh worlds and look for values that must be guessed.

    `tools`: also look for tools without a description.
    Never raises for a bad task: what is wrong with it becomes a row.
    """
    start = time.perf_counter()
    rows: list[CheckRow] = []
    spoken: dict[str, tuple[str, Task]] = {}
    known: set[str] = set()
    count = calls = 0
    by_tool, failing = Counter[str](), Counter[tuple[str, str]]()
    for task in tasks:
        count += 1
        found = [*_contradictions(task, spoken)]
        try:
            found += _unusual(task, environment)
            found += _misnamed(task, environment)
            first, second = _replay(task, environment), _replay(task, environment)
            found += _answer(task, environment)
        except Exception as error:  # noqa: BLE001 (whatever an environment raises is a finding)
            found.append(_refused(task, error))
        else:
            calls += 2 * sum(len(turn.results) for turn in first)
            results = chain.from_iterable(turn.results for turn in first)
            for call, result in zip(task.calls, results, strict=True):
                by_tool[call.name] += 1
                if not result.failed:
                    failing.update((call.name, name) for name in failure_fields(call, result))
            found += [*_unreachable(task, first), *_unstable(task, first, second)]
            found += _guessed(task, first)
            found += _undescribed(first, known) if tools else ()
        rows += [_row(task, *one) for one in found]
    shares = {place: (times, by_tool[place[0]]) for place, times in failing.items()}
    return CheckReport(tuple(rows), count, calls, time.perf_counter() - start, shares)


def replaying(tasks: Iterable[Task], environment: Environment) -> tuple[list[Task], list[CheckRow]]:
    """Tasks whose ground truth solves them, and the first fault of each that it does not.

    Replayed once. Questions have no calls to replay: all of them are kept.
    """
    if ability(environment, QuestionSource):
        return list(tasks), []
    kept, faults = list[Task](), list[CheckRow]()
    for task in tasks:
        try:
            found, replayed = [*_misnamed(task, environment)], _replay(task, environment)
        except Exception as error:  # noqa: BLE001 (whatever an environment raises is a finding)
            fault = _refused(task, error)
        else:
            fault = next(chain(found, _unreachable(task, replayed)), None)
        if fault is None:
            kept.append(task)
        else:
            faults.append(_row(task, *fault))
    return kept, faults


def without_broken(
    tasks: Iterable[Task], environment: Environment, where: str
) -> tuple[list[Task], list[CheckRow]]:
    """Tasks of a file that can be trained on, and why the others cannot; these are reported.

    Raises:
        TaskError: not one of them replays.
    """
    kept, faults = replaying(tasks, environment)
    for row in faults[:SHOWN]:
        parts = [row.origin] * (row.origin != row.task) + [f"turn {row.turn + 1}"] * (row.turn >= 0)
        named = f"{row.task} ({', '.join(parts)})" if parts else row.task
        _LOG.warning("%s: task %s is skipped: %s", where, named, row.detail)
    if faults and not kept:
        raise TaskError(
            f"{where}: the ground truth of none of {len(faults)} tasks replays, the first: task "
            f"{faults[0].task}: {faults[0].detail.rstrip('.')}. `rods check --tasks FILE` lists "
            "all."
        )
    if faults:
        what = f"{len(faults)} of {len(kept) + len(faults)} tasks are skipped"
        how = "their ground truth does not replay; `rods check --tasks FILE` lists all."
        _LOG.warning("%s: %s, %s", where, what, how)
    return kept, faults


def _refused(task: Task, error: Exception) -> Finding:
    """An error as a finding, whose row names the task; raised where no task has caused it."""
    if not isinstance(error, RodsError):  # of the user's own code: people look for its line
        place = extract_tb(error.__traceback__)[-1]
        why = f"{shown(error)}, raised at {place.filename}:{place.lineno}"
        return TaskFault.UNREACHABLE, -1, why
    if not isinstance(error, (TaskError, EnvError, RewardError)):
        raise error
    detail = re.sub(rf"^task {task.id}( \(.*?\))?(: |, )", "", str(error))
    return TaskFault.UNREACHABLE, -1, detail


def _row(task: Task, finding: TaskFault, turn: int, detail: str) -> CheckRow:
    return CheckRow(finding, task.id, task.provenance.origin, task.category, turn, detail)


def _replay(task: Task, environment: Environment) -> list[_Replayed]:
    turns: list[_Replayed] = []
    key = result_key(environment)
    with closing(environment.open(task)) as world:
        for index, turn in enumerate(task.turns):
            world.begin_turn(index)
            offered = world.offered()
            results = [called(world, call, contained=False) for call in turn.ground_truth]
            keys = [(key(r.content), r.failed) for r in results]
            turns.append(_Replayed(offered, results, keys, world.end_turn(), world.snapshot()))
    return turns


def _unreachable(task: Task, replayed: Sequence[_Replayed]) -> Iterator[Finding]:
    for index, (turn, found) in enumerate(zip(task.turns, replayed, strict=True)):
        for call, result in zip(turn.ground_truth, found.results, strict=True):
            if result.failed:
                yield TaskFault.UNREACHABLE, index, f"{call} failed: {result.content[:200]}"
        failed = any(result.failed for result in found.results)  # has its own row
        if not (failed or (found.verdict.solved and found.verdict.official)):
            why = "state or answer differs" if found.verdict.executed else "results differ"
            what = f"the ground truth ran but is not judged solved (its {why})"
            yield TaskFault.UNREACHABLE, index, what


def _misnamed(task: Task, environment: Environment) -> Iterator[Finding]:
    """Names in `withheld` that are not tools, so that nothing is withheld."""
    withheld = [(index, name) for index, turn in enumerate(task.turns) for name in turn.withheld]
    tools = list(all_tools(environment, task)) if withheld else []
    for index, name in withheld:
        if name not in tools:
            detail = f"withheld: there is no tool {name!r} in its world.{nearest(name, tools)}"
            yield TaskFault.UNREACHABLE, index, detail


def _unusual(task: Task, environment: Environment) -> Iterator[Finding]:
    """A category of hosted classes that is none, or whose turns are not as it says."""
    if not initial_state(environment, task).owners:
        return
    known = (BASE, MISS_FUNC, MISS_PARAM, LONG_CONTEXT)
    if task.category not in known:
        detail = f"category {task.category!r} is none of {', '.join(known)}."
        yield TaskFault.UNUSUAL, -1, detail + nearest(task.category, known)
    last = len(task.turns) - 1
    named = f"category {task.category}"
    if task.category in (BASE, LONG_CONTEXT) and not task.turns[last].ground_truth:
        detail = "its last turn has no calls, so the agent must call nothing there."
        yield TaskFault.UNUSUAL, last, f"{named}: {detail} Is its ground truth missing?"
    if task.category == MISS_FUNC and not any(turn.withheld for turn in task.turns):
        how = f"Name one in `withheld` of a turn, or take category {BASE}."
        yield TaskFault.UNUSUAL, -1, f"{named}: no turn withholds a tool. {how}"
    missing = task.category in (MISS_FUNC, MISS_PARAM)
    if missing and all(turn.ground_truth for turn in task.turns):
        how = f"Empty the ground_truth of the turn that lacks something, or take category {BASE}."
        yield TaskFault.UNUSUAL, -1, f"{named}: no turn is without calls, in which to ask. {how}"


def _undescribed(replayed: Sequence[_Replayed], known: set[str]) -> Iterator[Finding]:
    """Tools that are not in `known` and lack a description, their own or of a parameter."""
    for spec in {spec.name: spec for turn in replayed for spec in turn.offered}.values():
        silent = [key for key, rest in spec.properties.items() if not rest.get("description")]
        # Without a docstring, the name stands for it.
        said = spec.description.strip().rstrip(".").lower()
        lacks = ["no description"] * (said in ("", spec.name.replace("_", " ").lower()))
        lacks += [f"no description of {', '.join(map(repr, silent))}"] * bool(silent)
        if lacks and spec.name not in known:
            how = "Add it (a class: docstring with Args; an MCP server: docstring, and for a "
            how += "parameter Annotated[str, Field(description=...)]): an agent reads no code."
            yield TaskFault.UNDESCRIBED, -1, f"tool {spec.name!r} has {' and '.join(lacks)}. {how}"
        known.add(spec.name)


def _answer(task: Task, environment: Environment) -> Iterator[Finding]:
    """A question's reference is not an answer to it, or not what its program gives."""
    answer = task.world.get("answer")
    with closing(environment.open(task)) as world:
        if isinstance(world, AnswerJudge) and isinstance(answer, str):
            # A judge of texts compares what a tag holds to the letter, box included.
            held = answer if judge_of(task) == "text" else f"\\boxed{{{answer}}}"
            if not world.judge_answer(f"<answer>{held}</answer>"):
                what = f"its judge does not accept its own answer {answer!r}"
                yield TaskFault.UNREACHABLE, 0, what
    if (source := ability(environment, QuestionSource)) and (problem := source.replay(task)):
        yield TaskFault.UNREACHABLE, 0, problem


def _unstable(task: Task, *replays: Sequence[_Replayed]) -> Iterator[Finding]:
    for index, (turn, one, other) in enumerate(zip(task.turns, *replays, strict=True)):
        pairs = zip(turn.ground_truth, one.keys, other.keys, strict=True)
        named = next((f": {call}" for call, here, there in pairs if here != there), "")
        for name, what in (("keys", "results"), ("snapshot", "snapshots"), ("verdict", "verdicts")):
            if getattr(one, name) != getattr(other, name):
                yield TaskFault.UNSTABLE, index, f"{what} of two replays differ{named}"


def _contradictions(task: Task, spoken: dict[str, tuple[str, Task]]) -> Iterator[Finding]:
    """Same words, tools and world up to a turn, but other calls or another answer than before."""
    dialogue = [[m.role, m.content, str(m.calls)] for m in task.dialogue]
    answer, name = task.world.get("answer"), task.provenance.origin
    # The world of a question of a file holds the row's name, which makes no other world.
    world = {k: v for k, v in task.world.items() if k != "answer" and v != name}
    observed: list[object] = [task.env, json.dumps(world, sort_keys=True), dialogue]
    for index, turn in enumerate(task.turns):
        observed.append([turn.user, sorted(turn.withheld)])
        calls = json.dumps([answer, *map(call_to_json, turn.ground_truth)], sort_keys=True)
        known, other = spoken.setdefault(json.dumps(observed), (calls, task))
        if known != calls:
            what = "other calls" if turn.ground_truth else "another answer"
            yield TaskFault.AMBIGUOUS, index, f"same words as {other.provenance.origin}, {what}"
        observed.append(calls)


def _guessed(task: Task, replayed: Sequence[_Replayed]) -> Iterator[Finding]:
    """Values of the ground truth that nothing said so far contains."""
    seen = _Seen()
    seen.read(json.dumps(task.world, ensure_ascii=False))
    for message in task.dialogue:
        seen.read(f"{message.content} {message.calls}")
    known: set[str] = set()
    for index, (turn, found) in enumerate(zip(task.turns, replayed, strict=True)):
        seen.read(turn.user)
        for spec in found.offered:
            if spec.name not in known:
                known.add(spec.name)
                seen.read(f"{spec.description} {json.dumps(spec.parameters)}")
        for call, result in zip(turn.ground_truth, found.results, strict=True):
            for key, value in _leaves(call.arguments):
                if not seen.holds(value):
                    what = f"{call.name}: {key}={value!r} stands nowhere before: derived or guessed"
                    yield TaskFault.AMBIGUOUS, index, what
            seen.read(result.content)


def _leaves(arguments: Mapping[str, Value]) -> Iterator[tuple[str, Json]]:
    for key, value in arguments.items():
        value = value.arguments if isinstance(value, ToolCall) else value
        if isinstance(value, Mapping):
            yield from _leaves(value)
        elif isinstance(value, list):
            yield from _leaves({f"{key}[{i}]": item for i, item in enumerate(value)})
        elif not (value is None or isinstance(value, bool)):
            yield key, value


_WORD = re.compile(r"[a-z]+|\d+(?:\.\d+)?")
_NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
_ORDINALS = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth"]
_MONTHS = [name.lower() for name in calendar.month_name[1:]]
_NUMERALS: dict[str, str] = {
    **{word: str(i) for i, word in enumerate(_NUMBERS)},
    **{word: str(i) for i, word in enumerate(_ORDINALS, 1)},
    **{word: str(i) for i, word in enumerate(_MONTHS, 1)},
    **{word[:3]: str(i) for i, word in enumerate(_MONTHS, 1) if word != "may"},
    "half": "0.5", "hundred": "100", "thousand": "1000", "million": "1000000",
}  # fmt: skip


class _Seen:
    """The words that an agent has read; numbers, number words and months count by value."""

    def __init__(self) -> None:
        self._words: set[str] = set()

    def read(self, text: str) -> None:
        words = set(_WORD.findall(text.lower().replace(",", "").replace("\\n", " ")))
        self._words.update(map(_canonical, words))
        self._words.update(_NUMERALS[word] for word in words if word in _NUMERALS)

    def holds(self, value: Json) -> bool:
        """True if at least half of the value's words were read; every word, for a single one."""
        text = str(value).lower().replace(",", "")
        words = [_canonical(word) for word in _WORD.findall(text)]
        return 2 * sum(word in self._words for word in words) >= len(words)


def _canonical(word: str) -> str:
    return f"{float(word):g}" if word[0].isdigit() and len(word) < 16 else word
