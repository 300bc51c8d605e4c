"""The suite `api-bank`: the next API call of a dialogue, judged by API-Bank's own classes.

Owns the reading of levels 1 and 2 of a checkout's `api-bank` folder. Each call of a dialogue is a
task: what was said before it is read, one generation is sampled, its one call is made on the
initial databases, and the class's own `check_api_call_correctness` compares what came back with
what the dialogue says. Level 1 offers the dialogue's APIs, level 2 `ToolSearcher` alone. The
dialogues' answers in words (ROUGE-L) and level 3 are not judged.

    rules = ApiBank(config)
    rules.score(rules.tasks()[0], trajectory)
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

from rods.config import RunConfig
from rods.envs.function_call.world import NotedEnvironment
from rods.errors import ConfigError, PrerequisiteError, TaskError
from rods.evaluation.rules import RuleOutcome, SuiteRules
from rods.infra.files import text_of
from rods.infra.rows import field, json_lines
from rods.rewards.single_step import READ
from rods.suites.host import Catalog, Host, ObjectRef, RaisedError
from rods.task import Provenance, Task, Turn
from rods.trajectory import Trajectory
from rods.types import Json, Message, ToolCall, Value

NAME = "api-bank"
LEVELS = {"level-1": "level-1-given-desc", "level-2": "level-2-toolsearcher"}
"""Categories, and the folders of their dialogues below `lv1-lv2-samples`."""
SEARCHER, TOKENS = "ToolSearcher", "CheckToken"
YEAR = "This year is 2023."  # The evaluator's prompt says so; dates of the ground truths need it
_TYPES = {
    "int": "integer", "float": "number", "bool": "boolean", "list": "array", "list(str)": "array",
}  # fmt: skip


class ApiBank(SuiteRules):
    """Levels 1 and 2."""

    name, steps = NAME, 1
    averages: Mapping[str, Sequence[str]] = {"both": tuple(LEVELS)}
    pooled = frozenset({"both"})

    def __init__(self, config: RunConfig) -> None:
        """Read nothing yet; raises `ConfigError` where no folder is named."""
        given = config.evaluation.suite.folder
        if not given:
            raise ConfigError(
                "evaluation.suite.folder: api-bank needs the folder `api-bank` of a checkout of "
                "AlibabaResearch/DAMO-ConvAI, with apis, init_database and lv1-lv2-samples."
            )
        self._folder = Path(given)
        self._host = Host(self._folder, NAME)
        self.environment = NotedEnvironment(NAME, self._host.close)

    @cached_property
    def _catalog(self) -> Catalog:
        if not (self._folder / "apis" / "api.py").is_file():
            raise TaskError(f"{self._folder}: there is no apis/api.py; expected api-bank's folder.")
        try:
            return self._host.catalog(
                "apis", "API", ["description", "input_parameters", "database_name"]
            )
        except RaisedError as error:
            raise PrerequisiteError(
                f"{self._folder / 'apis'} cannot be imported: {error}."
            ) from error

    def tasks(self) -> Sequence[Task]:
        """A task for each call of each dialogue."""
        made: list[Task] = []
        classes = self._catalog.classes
        for level, name in LEVELS.items():
            folder = self._folder / "lv1-lv2-samples" / name
            files = sorted(folder.glob("*.jsonl"))
            if not files:
                raise TaskError(f"{folder}: there is no .jsonl file of dialogues.")
            for file in files:
                made += read_dialogue(file, level, classes)
        return made

    def ready(self, tasks: Sequence[Task], rollouts: bool) -> None:
        """Refuse tasks whose API cannot be imported here."""
        needed = Counter(_wanted(task)["api_name"] for task in tasks)
        missing = {name: n for name, n in needed.items() if name not in self._catalog.classes}
        if not missing:
            return
        names = ", ".join(f"{name} ({n})" for name, n in sorted(missing.items()))
        why = "; ".join(f"{module}: {why}" for module, why in self._catalog.failed.items())
        omit = ", ".join(f'"{name}"' for name in sorted(missing))
        raise PrerequisiteError(
            f"api-bank: {sum(missing.values())} of {len(tasks)} tasks call APIs that cannot be "
            f"imported: {names}. {why or 'There are no such classes.'} Install what is missing, or "
            f"leave them out: --evaluation.suite.omit '[{omit}]'."
        )

    def score(self, task: Task, trajectory: Trajectory) -> RuleOutcome:
        """True if the one call is right by its class's own check."""
        if not trajectory.steps:
            return RuleOutcome(False, f"ended by a budget: {trajectory.stop.value}")
        step, wanted = trajectory.steps[0], _wanted(task)
        if step.verdict not in READ or not step.calls:
            return RuleOutcome(False, "no call that can be read")
        call, *more = step.calls
        if more:
            return RuleOutcome(False, "more than one call")
        if call.name != wanted["api_name"]:
            return RuleOutcome(False, "another API")
        try:
            return self._judged(call, wanted["result"])
        except (RaisedError, _UnfitError) as error:
            return RuleOutcome(False, f"the call fails: {str(error).partition(':')[0]}")

    def _judged(self, call: ToolCall, expected: Mapping[str, object]) -> RuleOutcome:
        api = self._catalog.classes[call.name]
        arguments = {
            key: _fit(value, key, api["input_parameters"]) for key, value in call.arguments.items()
        }
        kept: list[ObjectRef] = []
        try:
            tool = self._opened(call.name, kept)
            result = self._host.do(tool, "call", arguments)
            kept.append(result.ref)
            check = {"response": result.ref, "groundtruth": expected}
            right = self._host.do(tool, "check_api_call_correctness", check)
            kept.append(right.ref)
        finally:
            self._host.drop(kept)
        return (
            RuleOutcome(True) if right.value is True else RuleOutcome(False, "the result differs")
        )

    def _opened(self, name: str, kept: list[ObjectRef]) -> ObjectRef:
        """A fresh object of an API with its database and, where it takes tokens, their checker."""
        api = self._catalog.classes[name]
        arguments: list[object] = []
        database = self._databases.get(str(api.get("database_name")))
        if database is not None:
            arguments.append(database)
        if name != TOKENS and "token" in api["input_parameters"]:
            arguments.append(self._opened(TOKENS, kept))
        kept.append(self._host.new(api["module"], name, arguments))
        return kept[-1]

    @cached_property
    def _databases(self) -> dict[str, Any]:
        folder, found = self._folder / "init_database", dict[str, Any]()
        for file in sorted(folder.glob("*.json")):
            try:
                found[file.stem] = json.loads(text_of(file, "a database", TaskError))
            except ValueError as error:
                raise TaskError(f"{file}: not JSON: {error}.") from error
        if not found:
            raise TaskError(f"{folder}: there is no .json file of a database.")
        return found


class _UnfitError(ValueError):
    """An argument that the API's declaration does not take."""


def _fit(value: Value, key: str, declared: Mapping[str, Any]) -> object:
    """An argument as the suite hands it over: text, but for numbers and truth values.

    Raises:
        _UnfitError: the API has no such parameter, or the text is not a number.
    """
    if key not in declared:
        raise _UnfitError("an unknown parameter")
    kind, text = declared[key]["type"], value if isinstance(value, str) else str(value)
    if kind == "bool":
        return text == "True"
    if kind not in ("int", "float"):
        return text
    if isinstance(value, str) and not value.replace(".", "", kind == "float").isdigit():
        raise _UnfitError("not a number")
    try:
        return int(cast("Any", value)) if kind == "int" else float(cast("Any", value))
    except (TypeError, ValueError, OverflowError) as error:
        raise _UnfitError("not a number") from error


class _Row(NamedTuple):
    role: str
    text: str
    call: ToolCall
    row: Mapping[str, Any]


def read_dialogue(
    path: Path, level: str, classes: Mapping[str, Mapping[str, object]]
) -> list[Task]:
    """A task for each call of one file.

    Args:
        path: JSON lines of `role` (User, AI, API) and `text`, or `api_name`, `param_dict` and
            `result`.
        level: the category.
        classes: the APIs that are there, with `description` and `input_parameters`.

    Raises:
        TaskError: a row is broken; file, row and key are named.
    """
    rows = [_row(row, f"{path}:{n}") for n, row in json_lines(path, "a dialogue", TaskError)]
    apis = dict.fromkeys(row.call.name for row in rows if row.role == "API")
    offered = [SEARCHER] if level == "level-2" else list(apis)
    tools: list[Json] = [_tool(name, classes[name]) for name in offered if name in classes]
    made: list[Task] = []
    for index, row in enumerate(rows):
        if row.role != "API":
            continue
        dialogue = [m for one in rows[:index] for m in _messages(one)] or [Message("user", "")]
        dialogue[0] = replace(dialogue[0], content=f"{YEAR}\n\n{dialogue[0].content}".strip())
        user = dialogue.pop().content if dialogue[-1].role == "user" else ""
        name = f"{path.name}#{index + 1} {row.call.name}"
        world: dict[str, Json] = {"tools": tools, "wanted": dict(row.row), "sample": name}
        origin = Provenance(name, f"{level}-{path.stem}")
        task = Task(NAME, level, (Turn(user),), world, origin, tuple(dialogue))
        made.append(task)
    return made


def _row(row: object, where: str) -> _Row:
    role = field(row, "role", str, where, TaskError)
    if role not in ("User", "AI", "API"):
        raise TaskError(f"{where}: role: expected User, AI or API, got {role!r}.")
    data = cast("Mapping[str, Any]", row)
    if role != "API":
        return _Row(role, field(row, "text", str, where, TaskError), ToolCall(""), data)
    name = field(row, "api_name", str, where, TaskError)
    arguments = field(row, "param_dict", dict, where, TaskError)
    result = field(row, "result", dict, where, TaskError)
    if "output" not in result:
        raise TaskError(f"{where}: result: expected an object with output, got {result!r:.60}.")
    return _Row(role, "", ToolCall(name, arguments), data)


def _messages(row: _Row) -> tuple[Message, ...]:
    if row.role != "API":
        return (Message("user" if row.role == "User" else "assistant", row.text),)
    output = row.row["result"]["output"]
    return (Message("assistant", "", (row.call,)), Message("tool", str(output)))


def _wanted(task: Task) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", task.world["wanted"])


def _tool(name: str, api: Mapping[str, Any]) -> Json:
    declared: Mapping[str, Mapping[str, Any]] = api["input_parameters"]
    properties: dict[str, Json] = {
        key: {"type": _TYPES.get(one["type"], "string"), "description": one["description"]}
        for key, one in declared.items()
    }
    required: list[Json] = [
        key for key, one in declared.items() if "[Optional]" not in one["description"]
    ]
    schema: dict[str, Json] = {"type": "object", "properties": properties, "required": required}
    return {"name": name, "description": api["description"], "parameters": schema}
