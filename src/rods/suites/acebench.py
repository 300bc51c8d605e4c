"""The suite `acebench-agent`: ACEBench's agent tasks, judged by the state that they end in.

Owns the reading of a checkout's tasks and prompts. Tasks of many steps have no user; talks have
one, simulated by a chat server that gets the suite's own instructions. Right is who leaves every
class in the wanted state; the process is the share of milestones, in order, among the calls.

    rules = AceBenchAgent(config)
    rules.score(task, trajectory).process
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from rods.config import RunConfig
from rods.env import Environment
from rods.errors import ConfigError, PrerequisiteError, TaskError
from rods.evaluation.rules import RuleOutcome, SuiteRules
from rods.infra.dotted import nearest
from rods.infra.files import text_of
from rods.infra.rows import field, json_lines
from rods.suites.ace_world import CLASSES, FINISH, AceWorld, Speaker
from rods.suites.host import Host
from rods.suites.sections import UserServerSettings
from rods.task import Provenance, Task, Turn
from rods.trajectory import Trajectory
from rods.types import Json, StopReason, ToolCall

NAME = "acebench-agent"
KINDS, LANGUAGES = ("multi_step", "multi_turn"), ("en", "zh")
GREETINGS = {  # First question to the user simulator
    "en": "Is there anything you need help with today?",
    "zh": "\u4eca\u5929\u6709\u4ec0\u4e48\u9700\u8981\u5e2e\u52a9\u7684\u5417\uff1f",
}
STEPWISE = (
    "Work step by step with the functions; nobody answers questions. When all is done, say "
    f'"{FINISH}".'
)
_TYPES = {"dict": "object", "float": "number", "list": "array", "tuple": "array", "any": "string"}


class AceBenchAgent(SuiteRules):
    """Agent tasks of both kinds in both languages."""

    name = NAME
    steps = 20  # the suite allows 40 messages, every second one is the agent's
    executes = True
    averages: Mapping[str, Sequence[str]] = {
        "English": ("multi_step_en", "multi_turn_en"),
        "Chinese": ("multi_step_zh", "multi_turn_zh"),
    }

    def __init__(self, config: RunConfig) -> None:
        """Read nothing yet; raises `ConfigError` where no folder is named."""
        settings = config.evaluation.suite
        if not settings.folder:
            raise ConfigError(
                "evaluation.suite.folder: acebench-agent needs a checkout of "
                "chenchen0103/ACEBench, with data_all and model_inference."
            )
        self._folder = Path(settings.folder)
        self._user = Speaker(settings.section(UserServerSettings))
        self._worlds = AceEnvironment(Host(self._folder, NAME), self._user)
        self.environment = self._worlds

    def tasks(self) -> Sequence[Task]:
        """All agent tasks whose files are there."""
        made: list[Task] = []
        for language in LANGUAGES:
            data = self._folder / "data_all" / f"data_{language}"
            for kind in KINDS:
                if (data / f"data_agent_{kind}.json").is_file():
                    made += _read(self._folder, data, kind, language)
        if not made:
            raise TaskError(
                f"{self._folder}: there is no data_all/data_en/data_agent_multi_step.json, nor "
                "another file of agent tasks; expected a checkout of ACEBench."
            )
        return made

    def ready(self, tasks: Sequence[Task], rollouts: bool) -> None:
        """Refuse talks without a user simulator."""
        talks = sum("prompt" in task.world for task in tasks)
        if rollouts and talks and not self._user:
            raise PrerequisiteError(
                f"acebench-agent: {talks} of {len(tasks)} tasks need a user simulator on a chat "
                "server. Give --evaluation.suite.user.url URL (OpenAI-compatible; "
                "--evaluation.suite.user.model NAME; the key in RODS_WRITER_KEY), or leave them "
                'out: --evaluation.suite.categories \'["multi_step_en", "multi_step_zh"]\'.'
            )

    def score(self, task: Task, trajectory: Trajectory) -> RuleOutcome:
        """The state after the calls, executed again in a fresh world, and how far they came."""
        process = progress_of(trajectory, cast("list[Any]", task.world["milestones"]))
        if trajectory.stop is not StopReason.DONE:
            return RuleOutcome(False, f"ended by a budget: {trajectory.stop.value}", process)
        world = self._worlds.replay(task)
        try:
            world.begin_turn(0)
            for step in trajectory.steps:
                for call, _ in zip(step.calls, step.results, strict=False):
                    world.call(call)
            why = world.fault()
        finally:
            world.close()
        return RuleOutcome(not why, why, process if why else 1.0)


class AceEnvironment(Environment):
    """Worlds of the folder's classes; each waits for its user simulator."""

    name = NAME
    blocking = True

    def __init__(self, host: Host, user: Speaker) -> None:
        self._host, self._user = host, user

    def open(self, task: Task) -> AceWorld:
        """A fresh world; in a talk, its user is simulated."""
        return AceWorld(task, self._host, self._user.says if self._user else None)

    def replay(self, task: Task) -> AceWorld:
        """A fresh world in which calls are made alone."""
        return AceWorld(task, self._host, None)

    def close(self) -> None:
        """End the process of the classes and the connection; scoring starts another."""
        self._host.close()
        self._user.close()


def progress_of(trajectory: Trajectory, milestones: Sequence[Any]) -> float:
    """Share of the milestones that the calls reach in order; the best of several ways.

    After one that is missing none is found, as in the suite. Each step's calls are written as the
    milestones are: `[name(key='text', other=1)]`.
    """
    ways = milestones if milestones and isinstance(milestones[0], list) else [milestones]
    steps = [
        f"[{', '.join(written(call) for call in step.calls)}]"
        for step in trajectory.steps
        if step.results
    ]
    return max((_reached(steps, cast("list[str]", way)) for way in ways), default=1.0)


def _reached(steps: Sequence[str], way: Sequence[str]) -> float:
    left = iter(steps)
    reached = sum(any(one == stone.strip() for one in left) for stone in way)
    return reached / len(way) if way else 1.0


def written(call: ToolCall) -> str:
    """A call as milestones have it: texts in single quotes, whatever is in them."""
    parts = [
        f"{key}='{value}'" if isinstance(value, str) else f"{key}={value!r}"
        for key, value in call.arguments.items()
    ]
    return f"{call.name}({', '.join(parts)})"


def _read(folder: Path, data: Path, kind: str, language: str) -> list[Task]:
    path = data / f"data_agent_{kind}.json"
    answers = data / "possible_answer" / path.name
    truths = {
        field(row, "id", str, f"{answers}:{n}", TaskError): (row, f"{answers}:{n}")
        for n, row in json_lines(answers, "answers", TaskError)
    }
    prompts = _prompts(folder, language) if kind == "multi_turn" else {}
    made: list[Task] = []
    for number, row in json_lines(path, "agent tasks", TaskError):
        where = f"{path}:{number}"
        name = field(row, "id", str, where, TaskError)
        if name not in truths:
            raise TaskError(f"{where}: {name} has no answer in {answers}.")
        made.append(_task(row, where, *truths[name], kind, language, prompts))
    return made


def _task(
    row: object,
    where: str,
    truth: object,
    answered: str,
    kind: str,
    language: str,
    prompts: Mapping[str, str],
) -> Task:
    name, asked = (field(row, key, str, where, TaskError) for key in ("id", "question"))
    classes: list[str] = field(row, "involved_classes", list, where, TaskError)
    unknown = [one for one in classes if one not in CLASSES]
    if unknown:
        raise TaskError(
            f"{where}: involved_classes: there is no class {unknown[0]!r}; expected some of "
            f"{', '.join(CLASSES)}.{nearest(unknown[0], [*CLASSES])}"
        )
    functions: list[object] = field(row, "function", list, where, TaskError)
    wanted = field(truth, "ground_truth", list, answered, TaskError)
    if not all(isinstance(one, dict) and len(one) == 1 for one in wanted):
        raise TaskError(f"{answered}: ground_truth: expected objects of one class each.")
    world: dict[str, Json] = {
        "tools": [_tool(one, where) for one in functions], "kind": kind, "language": language,
        "classes": [*classes],
        "config": field(row, "initial_config", dict, where, TaskError), "truth": wanted,
        "milestones": field(truth, "mile_stone", list, answered, TaskError),
        "entry": f"{language} {name}",
    }  # fmt: skip
    user = f"{asked}\n\n{STEPWISE}"
    if kind == "multi_turn":
        part = "BASE" if "BaseApi" in classes else "TRAVEL"
        user = prompts[f"{part}_PROMPT"]
        world["prompt"] = [
            {
                "role": "system",
                "content": prompts[f"SYSTEM_PROMPT_{part}"].replace("{instruction}", asked),
            },
            {"role": "user", "content": GREETINGS[language]},
        ]
    origin = Provenance(f"{language} {name}", f"{kind}_{language}-{name}")
    return Task(NAME, f"{kind}_{language}", (Turn(user),), world, origin)


def _prompts(folder: Path, language: str) -> dict[str, str]:
    """The suite's own instructions: those of the agent, and of the user simulator."""
    suffix = f"_{language.upper()}"
    files = {
        folder / "model_inference" / f"prompt_{language}.py": ("BASE_PROMPT", "TRAVEL_PROMPT"),
        folder / "model_inference" / "multi_turn" / "APIModel_user.py": (
            "SYSTEM_PROMPT_BASE",
            "SYSTEM_PROMPT_TRAVEL",
        ),
    }
    made: dict[str, str] = {}
    for path, names in files.items():
        texts = constants(path)
        for name in names:
            if f"{name}{suffix}" not in texts:
                raise TaskError(f"{path}: there is no text {name}{suffix}; talks need it.")
            made[name] = texts[f"{name}{suffix}"]
    return made


def constants(path: Path) -> dict[str, str]:
    """The texts that a module of Python assigns to names; it is read, not run.

    Raises:
        TaskError: the file is missing, or is not Python.
    """
    try:
        tree = ast.parse(text_of(path, "instructions", TaskError))
    except SyntaxError as error:
        raise TaskError(f"{path}: not Python: {error}.") from error
    return {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _tool(function: object, where: str) -> Json:
    return {
        "name": field(function, "name", str, where, TaskError),
        "description": field(function, "description", str, where, TaskError),
        "parameters": _schema(field(function, "parameters", dict, where, TaskError)),
    }


def _schema(node: Mapping[str, Any]) -> dict[str, Json]:
    made: dict[str, Json] = dict(node)
    made["type"] = _TYPES.get(str(node.get("type")), cast("Json", node.get("type", "string")))
    if isinstance(node.get("properties"), dict):
        made["properties"] = {k: _schema(v) for k, v in node["properties"].items()}
    if isinstance(node.get("items"), dict):
        made["items"] = _schema(node["items"])
    return made
