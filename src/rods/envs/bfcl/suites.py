"""The suites `bfcl-single-turn` and `bfcl-multi-turn`: the benchmark by its own harness's rules.

Owns the reading of single-turn entries, from the package or a folder in its layout, and what the
harness does otherwise than training. Java's and JavaScript's entries are not here: their values are
texts of another language. Prompts are the dialect's, not the package's.

    rules = SingleTurn(config)
    rules.score(rules.tasks()[0], trajectory).right
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, cast

from rods.config import RunConfig
from rods.envs.bfcl import BfclSettings, assets
from rods.envs.bfcl.ast_match import Accepted, fault
from rods.envs.bfcl.tasks import json_schema, load_tasks
from rods.envs.bfcl.world import BfclEnvironment, BfclWorld
from rods.envs.function_call.world import NotedEnvironment
from rods.errors import TaskError
from rods.evaluation.rules import RuleOutcome, SuiteRules
from rods.infra.rows import field, json_lines
from rods.rewards.single_step import READ
from rods.task import Provenance, Task, Turn
from rods.trajectory import Trajectory
from rods.types import Json, Message, Role, StopReason, ToolCall, ToolResult

NAME = "bfcl-single-turn"
STEPS = 21  # Steps of a turn: the harness gives up when it has executed more than 20


class SingleTurn(SuiteRules):
    """Single-turn categories whose calls are Python's: one generation, judged by what it calls."""

    name = NAME
    averages: Mapping[str, Sequence[str]] = {
        "non-live, Python": ("simple_python", "multiple", "parallel", "parallel_multiple"),
        "live": ("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple"),
        "irrelevance, both": ("irrelevance", "live_irrelevance"),
    }
    pooled = frozenset({"live"})
    steps = 1

    def __init__(self, config: RunConfig) -> None:
        """Read nothing yet; data is in `evaluation.suite.folder`, or the benchmark's package."""
        self._folder = config.evaluation.suite.folder
        self._wheel = config.env.section(BfclSettings).wheel
        self.environment = NotedEnvironment(NAME)

    def tasks(self) -> Sequence[Task]:
        """All entries; of a folder those of the categories whose files are there."""
        return _tasks(self._folder, self._wheel)

    def score(self, task: Task, trajectory: Trajectory) -> RuleOutcome:
        """Match the calls with the accepted ones; without any, calling or not calling counts."""
        if not trajectory.steps:
            return RuleOutcome(False, f"ended by a budget: {trajectory.stop.value}")
        step = trajectory.steps[0]
        called = step.verdict in READ and bool(step.calls)
        if task.category in assets.UNANSWERED:
            if task.category.endswith("irrelevance"):
                return RuleOutcome(not called, "a call where none fits" if called else "")
            return RuleOutcome(called, "" if called else "no call that can be read")
        if not called:
            return RuleOutcome(False, "no call that can be read")
        functions = cast("list[Mapping[str, Any]]", task.world["functions"])
        accepted = cast("list[Accepted]", task.world["accepted"])
        why = fault(step.calls, functions, accepted, task.category)
        return RuleOutcome(not why, why)


@functools.lru_cache(maxsize=2)
def _tasks(folder: str, wheel: str) -> tuple[Task, ...]:
    data = Path(folder) if folder else assets.obtain(wheel) / "bfcl_eval" / "data"
    files = {name: data / f"BFCL_v4_{name}.json" for name in assets.SINGLE_TURN}
    there = {name: path for name, path in files.items() if path.is_file()}
    if not there:
        raise TaskError(
            f"evaluation.suite.folder {data}: there is none of the files BFCL_v4_NAME.json with "
            f"NAME among {', '.join(files)}. Name the folder that holds them."
        )
    return tuple(task for name, path in there.items() for task in _entries(name, path))


def _entries(category: str, path: Path) -> list[Task]:
    answers = (
        {} if category in assets.UNANSWERED else _answers(path.parent / "possible_answer", path)
    )
    made: list[Task] = []
    for number, row in json_lines(path, "entries", TaskError):
        where = f"{path}:{number}"
        name = field(row, "id", str, where, TaskError)
        if category not in assets.UNANSWERED and name not in answers:
            raise TaskError(f"{where}: {name} has no answer in possible_answer/{path.name}.")
        made.append(_task(row, name, category, answers.get(name, []), where))
    return made


def _answers(folder: Path, path: Path) -> dict[str, list[Json]]:
    found: dict[str, list[Json]] = {}
    for number, row in json_lines(folder / path.name, "answers", TaskError):
        where = f"{folder / path.name}:{number}"
        truth = field(row, "ground_truth", list, where, TaskError)
        for one in truth:
            if not (isinstance(one, dict) and len(one) == 1):
                raise TaskError(
                    f"{where}: ground_truth: expected objects of one function each, with the "
                    f"accepted values of its parameters, got {one!r:.60}."
                )
        found[field(row, "id", str, where, TaskError)] = truth
    return found


def _task(
    row: Mapping[str, object], name: str, category: str, accepted: list[Json], where: str
) -> Task:
    turns = field(row, "question", list, where, TaskError)
    functions: list[Any] = field(row, "function", list, where, TaskError)
    if len(turns) != 1 or not isinstance(turns[0], list):
        raise TaskError(f"{where}: question: expected one list of messages, got {turns!r:.60}.")
    *dialogue, last = _messages(turns[0], where)
    if last.role != "user":
        raise TaskError(
            f"{where}: question: the last message is the {last.role}'s, not the user's."
        )
    world: dict[str, Json] = {
        "entry": name,  # a few entries say the same
        "tools": [_tool(function, where) for function in functions],
        "functions": functions,
        "accepted": accepted,
    }
    # Live entries are called CATEGORY_NUMBER-FUNCTIONS-QUESTION: those of the same functions.
    numbers = name.rsplit("_", 1)[-1].split("-")
    scenario = f"{category}-{numbers[1] if len(numbers) == 3 else numbers[0]}"
    turn, origin = (Turn(last.content),), Provenance(name, scenario)
    return Task(NAME, category, turn, world, origin, tuple(dialogue))


def _messages(rows: Sequence[object], where: str) -> list[Message]:
    """Messages of alternating roles; what the system says stands before the first user's words."""
    messages = [
        (field(row, "role", str, where, TaskError), field(row, "content", str, where, TaskError))
        for row in rows
    ]
    unknown = sorted({role for role, _ in messages} - {"system", "user", "assistant"})
    if unknown or not messages:
        raise TaskError(f"{where}: question: expected messages of system, user, assistant.")
    roles = [("assistant" if role == "assistant" else "user", text) for role, text in messages]
    return [
        Message(cast("Role", role), "\n\n".join(text for _, text in texts))
        for role, texts in groupby(roles, key=lambda one: one[0])
    ]


def _tool(function: object, where: str) -> Json:
    """A function's documentation in the form that the world reads."""
    schema = field(function, "parameters", dict, where, TaskError)
    try:
        parameters = json_schema(schema)
    except (KeyError, TypeError) as error:
        raise TaskError(
            f"{where}: function: parameters hold a type that is not known: {error}."
        ) from error
    return {
        "name": field(function, "name", str, where, TaskError),
        "description": field(function, "description", str, where, TaskError),
        "parameters": parameters,
    }


class MultiTurn(SuiteRules):
    """The multi-turn categories, all 800 tasks, training and held-out split alike.

    Every call that can be read is executed, also of a withheld function; what cannot be read ends
    the turn; a turn of more than 20 steps ends the conversation, which is then wrong, but for its
    last turn. A conversation is right where the benchmark's checker says so of every turn;
    abstention is not judged.
    """

    name = "bfcl-multi-turn"
    steps, executes = STEPS, True
    averages: Mapping[str, Sequence[str]] = {"overall": assets.CATEGORIES}

    def __init__(self, config: RunConfig) -> None:
        """Read nothing yet; the wheel is `env.bfcl.wheel`."""
        self._wheel = config.env.section(BfclSettings).wheel
        self.environment = HarnessEnvironment(self._wheel)

    def tasks(self) -> Sequence[Task]:
        """The benchmark's 800."""
        return load_tasks(self._wheel)

    def score(self, task: Task, trajectory: Trajectory) -> RuleOutcome:
        """The checker's verdict on the executed calls, replayed in a fresh world."""
        if trajectory.stop not in (StopReason.DONE, StopReason.STEPS):
            return RuleOutcome(False, f"ended by a budget: {trajectory.stop.value}")
        if len(trajectory.verdicts) < len(task.turns):
            return RuleOutcome(False, f"a turn of more than {STEPS - 1} steps")
        world = self.environment.open(task)
        try:
            for index in range(len(task.turns)):
                world.begin_turn(index)
                for step in trajectory.steps:
                    if step.turn == index:
                        for call, _ in zip(step.calls, step.results, strict=False):
                            world.call(call)
                verdict = world.end_turn()
                if not verdict.official:
                    why = "a result is missing" if verdict.state else "the state differs"
                    none = "no call in a turn that needs one"
                    return RuleOutcome(False, why if verdict.calls else none)
        finally:
            world.close()
        return RuleOutcome(True)


class HarnessEnvironment(BfclEnvironment):
    """Worlds that execute withheld functions too, as the benchmark's executor does."""

    gives_up = True

    def open(self, task: Task) -> BfclWorld:
        """A fresh world in the task's initial state."""
        return _HarnessWorld(self.prepare(task))


class _HarnessWorld(BfclWorld):
    __slots__ = ()

    def _refused(self, call: ToolCall) -> ToolResult | None:
        """Nothing is refused; a function that the classes lack fails as a call."""
        return None
