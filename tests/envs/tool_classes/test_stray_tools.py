"""Tools that try to end the program: a failed call that the agent reads, everywhere."""

from __future__ import annotations

import argparse
import asyncio
import functools
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from elsewhere_cases import played, served
from oracle import OraclePolicy
from places import SUPPORT
from rods.env import Environment, called
from rods.envs import make_environment
from rods.envs.hints import hinted
from rods.envs.remote.client import RemoteEnvironment
from rods.envs.remote.messages import Hosted
from rods.envs.remote.processes import ProcessEnvironment, WorldRunner, local
from rods.envs.search.environment import SearchEnvironment
from rods.envs.tool_classes import ToolClasses
from rods.errors import ConfigError, EnvError, TaskError
from rods.evaluation.check import check_tasks
from rods.infra.interrupt import ctrl_c, unless_ctrl_c
from rods.integrations.task_rollout import TaskRollout
from rods.rollout.owner import Owner
from rods.suites.host import Host, RaisedError
from rods.task import Provenance, Task, Turn
from rods.types import StopReason, ToolCall, ToolResult
from rollout_cases import DIALECT, TEMPLATE
from worlds import NotesEnvironment, NotesWorld, notes_task

STRAYS = {
    "argparse": "SystemExit: 2",
    "exit": "SystemExit: bye",
    "interrupt": "KeyboardInterrupt",
    "generator": "GeneratorExit",
    "cancelled": "CancelledError",
    "recursion": "maximum recursion depth exceeded",
    "hidden": "SystemExit: 3",
}


def stray(kind: str) -> None:
    """Raise what ends a program."""
    if kind == "argparse":
        argparse.ArgumentParser().parse_args(["--no-such-option"])
    if kind == "exit":
        sys.exit("bye")
    if kind == "interrupt":
        raise KeyboardInterrupt
    if kind == "generator":
        raise GeneratorExit
    if kind == "cancelled":
        raise asyncio.CancelledError
    if kind == "hidden":
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            sys.exit(3)
    if kind == "recursion":
        stray(kind)


class Desk:
    def __init__(self) -> None:
        self.count = 0

    def end(self, kind: str) -> str:
        """Go home."""
        stray(kind)
        return "still here"

    def add(self, amount: int) -> int:
        """Add to the count."""
        self.count += amount
        return self.count


desk = ToolClasses("desk", [Desk])


class LeavingWorld(NotesWorld):
    """A world of the user's own, without any guard."""

    def call(self, call: ToolCall) -> ToolResult:
        if call.name == "note":
            stray(str(call.arguments["text"]))
        return super().call(call)


class Leaving(NotesEnvironment):
    def open(self, task: Task) -> NotesWorld:
        super().open(task)
        return LeavingWorld(self, task, 0)


def leaving() -> Environment:
    return Leaving()


def task_of(environment: str, kind: str) -> Task:
    """First a call that tries to end the program, then one that works."""
    if environment == "desk":
        calls = (ToolCall("end", {"kind": kind}), ToolCall("add", {"amount": 2}))
        origin = Provenance("desk_0", "desk_0")
        return Task("desk", "base", (Turn("go", calls),), {"classes": ["Desk"]}, origin)
    calls = (ToolCall("note", {"text": kind}), ToolCall("add", {"amount": 2}))
    return notes_task([("go", calls)])


def environment_of(name: str) -> Environment:
    return desk if name == "desk" else Leaving()


def by_hosted(environment: Environment, task: Task) -> list[str]:
    hosted = Hosted(environment, task)
    hosted.open()
    hosted.step({"type": "begin_turn", "index": 0})
    rows: list[dict[str, Any]] = [
        {"type": "call", "call": {"name": c.name, "arguments": dict(c.arguments)}}
        for c in task.turns[0].ground_truth
    ]
    return [hosted.step(row)["content"] for row in rows]


def by_played(environment: Environment, task: Task) -> list[str]:
    one = TaskRollout(environment, task)
    return [one.call(call).content for call in task.turns[0].ground_truth]


def by_hints(environment: Environment, task: Task) -> list[str]:
    world = hinted(environment.open(task))
    world.begin_turn(0)
    return [world.call(call).content for call in task.turns[0].ground_truth]


def by_rollout(environment: Environment, task: Task) -> list[str]:
    (one,) = played([task], environment, OraclePolicy(task, DIALECT, TEMPLATE), k=1)
    assert (one.stop, one.failure) == (StopReason.DONE, None)
    return [result.content for step in one.steps for result in step.results]


def by_service(environment: Environment, task: Task) -> list[str]:
    with served(environment) as url:
        return by_rollout(RemoteEnvironment(url), task)


@functools.cache
def processes(name: str) -> ProcessEnvironment:
    made = "desk" if name == "desk" else "leaving"
    return ProcessEnvironment(environment_of(name), local(f"test_stray_tools:{made}", {}), 1, 20.0)


@pytest.fixture(scope="module", autouse=True)
def _ended() -> Iterator[None]:
    yield
    for name in ("desk", "notes"):
        processes(name).close()


def by_processes(environment: Environment, task: Task) -> list[str]:
    return by_rollout(processes(environment.name), task)


ROUTES: list[Any] = [
    by_rollout,
    by_hosted,
    by_played,
    by_hints,
    pytest.param(by_service, marks=pytest.mark.slow),
    pytest.param(by_processes, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("kind", STRAYS)
@pytest.mark.parametrize("name", ["desk", "notes"])
@pytest.mark.parametrize("route", ROUTES)
def test_a_tool_that_tries_to_end_the_program_is_a_failed_call(
    route: Callable[[Environment, Task], list[str]], name: str, kind: str
) -> None:
    results = route(environment_of(name), task_of(name, kind))
    assert len(results) == 2
    assert STRAYS[kind] in results[0]
    assert results[1] == "2", "the world goes on"


def test_the_check_names_such_a_call() -> None:
    for name in ("desk", "notes"):
        rows = check_tasks([task_of(name, "argparse")], environment_of(name)).rows
        assert rows[0].finding == "unreachable"
        assert "SystemExit: 2" in rows[0].detail


class Ends:
    def __init__(self) -> None:
        sys.exit(4)

    def put(self) -> None: ...


class EndsWithValues:
    def __init__(self, count: int) -> None:
        sys.exit(count)

    def put(self) -> None: ...


def test_a_class_that_ends_the_program_when_it_is_made_is_named() -> None:
    with pytest.raises(ConfigError, match="class Ends: an object cannot be made: SystemExit: 4"):
        ToolClasses("ends", [Ends])
    world: Any = {"classes": ["EndsWithValues"], "initial_config": {"EndsWithValues": {"count": 5}}}
    environment = ToolClasses("ends", [EndsWithValues])
    with pytest.raises(TaskError, match="EndsWithValues cannot be loaded: SystemExit: 5"):
        environment.open(Task("ends", "base", (Turn("x"),), world))


@pytest.mark.parametrize("blocking", [False, True])
def test_what_else_ends_the_program_is_a_failure_of_the_environment(blocking: bool) -> None:
    owner = Owner(blocking, 1e9, 9.0)
    for ask in (owner, owner.opening, owner.unhurried):
        with pytest.raises(EnvError, match="its world raised SystemExit: bye"):
            asyncio.run(ask(lambda: stray("exit")))  # type: ignore[arg-type]
    owner.close(None)


class Shut(Leaving):
    """Its worlds cannot be opened."""

    def open(self, task: Task) -> NotesWorld:
        stray(str(task.turns[0].user))
        raise AssertionError


def shut() -> Environment:
    return Shut()


@pytest.mark.parametrize("kind", STRAYS)
def test_a_process_of_worlds_answers_where_none_can_be_opened(kind: str) -> None:
    """It is an answer: the process, or the actor, goes on with the next task."""
    runner = WorldRunner("test_stray_tools:shut", {})
    answer = runner.answer({"open": notes_task([(kind, [])]).to_json()})
    assert STRAYS[kind] in answer["error"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", STRAYS)
def test_code_of_a_suites_folder_ends_no_process(kind: str, tmp_path: Path) -> None:
    places = [str(Path(__file__).parent), str(SUPPORT)]
    (tmp_path / "odd.py").write_text(
        f"import sys\nsys.path[:0] = {places!r}\nfrom test_stray_tools import Desk\n"
    )
    host = Host(tmp_path, "odd")
    try:
        one = host.new("odd", "Desk")
        with pytest.raises(RaisedError, match=STRAYS[kind]):
            host.do(one, "end", {"kind": kind})
        assert host.do(one, "add", {"amount": 2}).value == 2
    finally:
        host.close()


class StrayRetriever:
    def __init__(self, kind: str) -> None:
        self.kind = kind

    def search(self, query: str, k: int) -> list[Any]:
        stray(self.kind)
        return []


@pytest.mark.parametrize("kind", STRAYS)
def test_a_retriever_of_ones_own_is_a_tool_too(kind: str) -> None:
    environment = SearchEnvironment(index=StrayRetriever(kind))
    world = environment.open(environment.tasks(0.5)[0])
    world.begin_turn(0)
    result = called(world, ToolCall("search", {"query": "x"}))
    assert result.failed and STRAYS[kind] in result.content


PROGRAMS = [
    "import sys; sys.exit(3)",
    "raise KeyboardInterrupt",
    "raise GeneratorExit",
    "import asyncio; raise asyncio.CancelledError",
    "def f(): f()\nf()",
    "import argparse; argparse.ArgumentParser().parse_args(['--x'])",
    "import os; os._exit(1)",
]


@pytest.mark.slow
def test_programs_that_end_themselves_end_nothing_else() -> None:
    environment = make_environment("python_tool", {})
    world = environment.open(environment.tasks(0.5)[0])
    world.begin_turn(0)
    try:
        for program in PROGRAMS:
            assert called(world, ToolCall("code_interpreter", {"code": program})).failed, program
        assert world.call(ToolCall("code_interpreter", {"code": "print(2)"})).content == "2\n"
    finally:
        world.close()
        environment.close()


def press(then: str = "") -> None:
    """What Ctrl-C does, while a tool runs that may answer it in its own way."""
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt as error:
        if then == "exit":
            sys.exit(130)
        if then == "another":
            raise KeyboardInterrupt("stopped") from error
        if then == "wrong":
            raise ValueError("stopped") from error
        raise


class Pressed:
    def put(self, then: str) -> None:
        press(then)


@pytest.mark.parametrize("then", ["", "exit", "another", "wrong"])
@pytest.mark.parametrize("handler", ["default", "asyncio", "ours", "own"])
def test_a_real_ctrl_c_still_stops(handler: str, then: str) -> None:
    environment = ToolClasses("pressed", [Pressed])
    world = environment.open(Task("pressed", "base", (Turn("x"),), {"classes": ["Pressed"]}))
    world.begin_turn(0)
    call = ToolCall("put", {"then": then})

    def own(*_: Any) -> None:
        raise KeyboardInterrupt

    async def twice() -> None:
        signal.raise_signal(signal.SIGINT)  # the first one cancels the task
        world.call(call)

    former = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(KeyboardInterrupt):
            if handler == "asyncio":
                asyncio.run(twice())
            elif handler == "ours":
                with ctrl_c():
                    signal.raise_signal(signal.SIGINT)  # the first one waits for a safe place
                    world.call(call)
            else:
                if handler == "own":
                    signal.signal(signal.SIGINT, own)
                world.call(call)
    finally:
        signal.signal(signal.SIGINT, former)


PROGRAM = """
import sys, time
from rods.env import called
from rods.envs.search.environment import SearchEnvironment
from rods.suites.host import Host, RaisedError
from rods.envs.tool_classes import ToolClasses
from rods.task import Task, Turn
from rods.types import ToolCall

class Slow:
    def sleep(self) -> None:
        print("ready", flush=True)
        time.sleep(30)
    def loop(self) -> None:
        print("ready", flush=True)
        while True:
            pass

task = Task("slow", "base", (Turn("x"),), {{"classes": ["Slow"]}})
world = ToolClasses("slow", [Slow]).open(task)
world.begin_turn(0)
called(world, ToolCall({tool!r}))
print("went on")
"""


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["sleep", "loop"])
def test_ctrl_c_ends_a_tool_that_takes_long(tool: str) -> None:
    program = PROGRAM.format(tool=tool)
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert "KeyboardInterrupt" in err
    assert "went on" not in out


def test_an_exception_of_no_program_is_nobodys_ctrl_c() -> None:
    for error in (KeyboardInterrupt(), SystemExit(1), ValueError("x")):
        unless_ctrl_c(error)
