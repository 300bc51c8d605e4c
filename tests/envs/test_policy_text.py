"""Whatever a policy writes is data: the same here, in processes, behind HTTP; never invalid."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import reduce
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pytest

from elsewhere_cases import played, served
from loopback import Loopback
from repo_cases import environment_as
from repo_cases import tasks as planted
from rods.dialects import get_dialect
from rods.env import AnswerJudge, Environment, called
from rods.envs import make_environment
from rods.envs.function_call.world import key_of
from rods.envs.python_tool.environment import PythonToolEnvironment
from rods.envs.remote import messages
from rods.envs.remote.client import RemoteEnvironment
from rods.envs.remote.processes import ProcessEnvironment, local
from rods.envs.repo.world import RepoWorld
from rods.envs.search.environment import SearchEnvironment
from rods.envs.tool_classes.world import ToolClasses
from rods.errors import EnvError
from rods.infra.files import LineLog
from rods.infra.text import json_text, whole
from rods.integrations.task_rollout import TaskRollout
from rods.integrations.trl_environments import task_environments
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import run_episode
from rods.sandbox.execution import Execution
from rods.sandbox.remote import RemoteSandbox
from rods.sandbox.shell import ShellResult
from rods.suites.ace_world import AceWorld, Speaker
from rods.suites.host import Host
from rods.suites.sections import ServerSettings
from rods.synthesis.worker.queue import SqliteQueue
from rods.task import Provenance, Task, Turn, call_from_json, call_to_json, read_tasks, write_tasks
from rods.trajectory import Trajectory
from rods.trajectory_codec import from_json, read_parquet, to_json, write_parquet
from rods.types import StopReason, ToolCall, ToolResult, Value
from rollout_cases import TEMPLATE, script, settings
from rollout_cases import play as rollout
from services import Reply, service
from worlds import NotesEnvironment, notes_task

LS: dict[str, Value] = {"name": "ls", "arguments": {}}
MARKED: list[Value] = [
    {"$call": LS},
    {"$call": 5},
    {"$$call": LS},
    {"$$$call": {"$call": {"$$call": 1}}},
    [{"$call": LS}, {"$call": ToolCall("ls", {"a": {"$call": LS}})}],
    {"$call": 1, "b": 2},
    ToolCall("echo", {"$call": {"$call": 5}}),
]
"""Data that looks like a nested call, beside calls."""


def made(value: Value) -> ToolCall:
    return ToolCall("echo", {"content": value, "$call": value})


@pytest.mark.parametrize("value", MARKED, ids=str)
def test_data_that_looks_like_a_call_is_data_in_every_codec(value: Value, tmp_path: Path) -> None:
    call = made(value)
    assert call_from_json(json.loads(json.dumps(call_to_json(call)))) == call
    task = Task("notes", "base", (Turn("u", (call,)),), {}, Provenance("o", "s", ("a",)))
    write_tasks(tmp_path / "tasks.jsonl", [task])
    assert [t.turns for t in read_tasks(tmp_path / "tasks.jsonl")] == [task.turns]
    queue = SqliteQueue(tmp_path / "queue.sqlite")
    queue.submit("one", task, 0, 1, 0.0, 0)
    order = queue.next_outcome()
    assert order is not None and order.seed.turns == task.turns
    trajectory = rollout(notes_task([("u", [])]), script("ok"))
    step = dataclasses.replace(trajectory.steps[0], calls=(call,))
    trajectory = dataclasses.replace(trajectory, steps=(step,))
    write_parquet(tmp_path / "t.parquet", [trajectory])
    for back in (from_json(to_json(trajectory)), *read_parquet(tmp_path / "t.parquet")):
        assert back.steps[0].calls == (call,)


def test_data_and_the_call_that_it_looks_like_differ() -> None:
    data, call = made({"$call": LS}), made(ToolCall("ls"))
    assert key_of(data) != key_of(call)
    ids = {Task("e", "c", (Turn("u", (c,)),), {}).id for c in (data, call, made({"$$call": LS}))}
    assert len(ids) == 3


class Echo:
    """Gives back what it was given."""

    def __init__(self) -> None:
        self.listed = 0

    def ls(self) -> str:
        """List."""
        self.listed += 1
        return "a.txt"

    def echo(self, content: dict[str, Any]) -> str:
        """Say it again.

        Args:
            content: What to say.
        """
        return repr(content)

    def say(self, text: str) -> str:
        """Say it again.

        Args:
            text: What to say.
        """
        return text

    def many(self, count: int) -> str:
        """So many letters.

        Args:
            count: How many.
        """
        return "x" * count


ECHO = ToolClasses("echo", [Echo])
TASK = Task("echo", "base", (Turn("u", (ToolCall("ls"),)),), {"classes": ["Echo"]})


def elsewhere(stack: ExitStack, kind: str, environment: Environment) -> Environment:
    """The environment on the other side of a wire."""
    if kind == "http":
        return RemoteEnvironment(stack.enter_context(served(environment)))
    if kind == "processes":
        there = ProcessEnvironment(environment, local("test_policy_text:ECHO", {}), 1, 30)
        stack.callback(there.close)
        return there
    return environment


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["here", "http", "processes"])
def test_a_marked_argument_is_never_executed(kind: str) -> None:
    with ExitStack() as stack:
        environment = elsewhere(stack, kind, ECHO)
        for value in MARKED[:2]:
            world = environment.open(TASK)
            world.begin_turn(0)
            result = world.call(ToolCall("echo", {"content": value}))
            assert json.loads(result.content) == repr(value)
            assert "'listed': 0" in str(world.snapshot())
            world.close()


ODD: dict[str, Any] = {
    "half": "a\ud800b",
    "low half": "\udc00",
    "two halves": "\ud83d\ude00",
    "nul": "a\0b",
    "bidirectional": "\u202eabc\u2066\u200f",
    "lines": "a\u2028b\x85c\x0c",
    "infinite": math.inf,
    "not a number": math.nan,
    "long number": 10**400,
    "longer than Python writes": 10**5000,
    "longer in a call": ToolCall("ls", {"a": [-(10**5000)]}),
    "deep": reduce(lambda inner, _: [inner], range(30), 1),
    "deep keys": reduce(lambda inner, _: {"k": inner}, range(700), 1),
    "deep calls": reduce(lambda inner, _: ToolCall("ls", {"a": inner}), range(700), 1),
    "deeper than any stack": reduce(lambda inner, _: [inner], range(100_000), 1),
    "as deep as it may be": reduce(lambda inner, _: ToolCall("ls", {"a": inner}), range(23), 1),
    "in a list": [["\ud800"]],
    "as a key": {"\ud800": {"$call": LS}},
    "none": None,
    "a million": "é" * (1 << 20),
    "ten million": "é" * 10_000_000,
    "many": [1] * 2_000_000,
}
"""What a policy can put into arguments."""
HUGE = {"a million", "ten million", "many", "longer than Python writes", "longer in a call"}
"""They try the wire, which is the same for all environments: one of them gets these."""
PLACES: dict[str, tuple[Callable[[], Environment], str, str]] = {
    "bfcl": (lambda: make_environment("bfcl"), "echo", "content"),
    "function_call": (
        lambda: make_environment("function_call", {"environment": "bfcl"}),
        "echo",
        "content",
    ),
    "search": (
        lambda: make_environment("search", {"questions": {"count": 4}}),
        "search",
        "query",
    ),
    "python_tool": (
        lambda: make_environment("python_tool", {"questions": {"count": 4}}),
        "code_interpreter",
        "code",
    ),
    "repo": (lambda: environment_as("plain", Path(), seconds=10), "bash", "command"),
    "mcp": (
        lambda: make_environment("mcp", {"command": SERVER, "state": "items"}),
        "echo",
        "value",
    ),
    "tool_classes": (lambda: ECHO, "say", "text"),
    "notes": (NotesEnvironment, "note", "text"),
}
"""Environments, one of their tools and its argument."""


SERVER = f"{sys.executable} -S {Path(__file__).parent / 'mcp' / 'plain_server.py'}"


def a_task(name: str, environment: Environment) -> Task:
    if name == "tool_classes":
        return TASK
    if name == "mcp":
        return Task("mcp", "base", (Turn("u", (ToolCall("add", {"name": "x"}),)),), {})
    if name == "repo":
        return planted()[0]
    if name == "notes":
        return notes_task([("u", [])])
    tasks = environment.tasks(0.25)
    return next((t for t in tasks if "GorillaFileSystem" in str(t.world)), tasks[0])


def seen(environment: Environment, task: Task, calls: list[ToolCall], text: str) -> list[Any]:
    """Results, verdict and judgement as another trainer's loop gets them."""
    play = TaskRollout(environment, task)
    found: list[Any] = [play.call(call) for call in calls]
    play.note_answer(text)
    for _ in task.turns:
        play.end(answered=True)
    play.close()
    return [*found, play.progress()]


@pytest.mark.slow
@pytest.mark.parametrize("name", PLACES)
def test_odd_text_gets_the_same_verdict_here_and_behind_http(name: str) -> None:
    if name == "mcp" and find_spec("mcp") is None:
        pytest.skip("the extra mcp is missing")
    make, tool, argument = PLACES[name]
    environment = make()
    task = a_task(name, environment)
    with served(environment) as url:
        remote = RemoteEnvironment(url)
        for kind, value in ODD.items():
            if kind in HUGE and name != "tool_classes":
                continue
            calls = [ToolCall(tool, {argument: value}), ToolCall("no\ud800 such", {"a": value})]
            if name == "repo":  # the other tool of its workplace
                calls.append(ToolCall("str_replace_editor", {"path": value}))
            text = f"\\boxed{{{value}}}" if isinstance(value, str) and len(value) < 99 else "x"
            ours, theirs = (seen(where, task, calls, text) for where in (environment, remote))
            assert ours == theirs, kind
            for result in ours[: len(calls)]:
                result.content.encode()  # no half is left for whoever shows it
    environment.close()


WRITTEN = [
    r'<tool_call>{"name": "say", "arguments": {"text": "a\ud800b"}}</tool_call>',
    r'<tool_call>{"name": "ec\ud800ho", "arguments": {"content": "x"}}</tool_call>',
    r'<tool_call>{"name": "echo", "arguments": {"con\udc00tent": "x"}}</tool_call>',
    r'<tool_call>{"name": "echo", "arguments": {"content": {"$call": {"name": "ls"}}}}</tool_call>',
    '<tool_call>{"name": "echo", "arguments": {"content": 1e999}}</tool_call>',
    '<tool_call>{"name": "say", "arguments": {"text": "\u202e\\u0000"}}</tool_call>',
    '<tool_call>{"name": "many", "arguments": {"count": 4611686018427387904}}</tool_call>',
]


def hermes(environment: Environment, *texts: str) -> Trajectory:
    context = RolloutContext(
        environment, script(*texts), get_dialect("hermes"), TEMPLATE, settings()
    )
    return dataclasses.replace(asyncio.run(run_episode(context, TASK)), seconds=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["http", "processes"])
def test_no_text_makes_a_trajectory_invalid(kind: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        there = elsewhere(stack, kind, ECHO)
        for text in WRITTEN:
            ours, theirs = (hermes(where, text, "ok") for where in (ECHO, there))
            assert ours.valid and theirs == ours, text
            write_parquet(tmp_path / "t.parquet", [ours])
            assert list(read_parquet(tmp_path / "t.parquet")) == [ours]


def test_an_agent_that_asks_for_too_much_memory_gets_a_failed_call() -> None:
    [step, _] = hermes(ECHO, WRITTEN[-1], "ok").steps
    assert [(r.failed, "MemoryError" in r.content) for r in step.results] == [(True, True)]


def test_states_with_keys_of_many_kinds_cross_the_wire() -> None:
    a, b = ({"m": {1: "x", "1": "y", None: 2.0}}, {"m": {None: 2.0, "1": "y", 1: "x"}})
    text = messages._state_text  # pyright: ignore[reportPrivateUsage]
    assert text(a) == text(b) != text({"m": {1: "y", "1": "x", None: 2.0}})


def test_whole_calls_are_as_they_were_and_halves_are_replaced() -> None:
    call = ToolCall("f", {"a": ["é", {"b": ToolCall("g", {"c": 1.5})}], "n": None})
    assert whole(call) == call
    odd = ToolCall("f\ud800", {"\udc00": ["\ud83d\ude00", ToolCall("g", {"c": "x\ud800"})]})
    assert whole(odd) == ToolCall("f\ufffd", {"\ufffd": ["😀", ToolCall("g", {"c": "x\ufffd"})]})
    within = whole(ToolCall("f", {"a": [{"k\udc00": {"\ud800": 1}}]}))
    assert within == ToolCall("f", {"a": [{"k\ufffd": {"\ufffd": 1}}]})
    assert json.loads(json_text({"a": "é\ud800"})) == {"a": "é\ud800"}
    json_text({"a": "é\ud800"}).encode()


@pytest.mark.parametrize("name", ["tool_classes", "notes"])
def test_a_world_is_given_whole_characters(name: str) -> None:
    make, tool, argument = PLACES[name]
    environment = make()
    world = environment.open(a_task(name, environment))
    world.begin_turn(0)
    result = called(world, ToolCall(tool, {argument: "a\ud800b"}))
    assert not result.failed
    assert "a\ufffdb" in f"{result.content} {world.snapshot()}"
    world.close()


class Listener:
    """A world that notes its calls, and answers each with one text."""

    def __init__(self, says: str = "ok") -> None:
        self.says, self.heard = says, list[ToolCall]()

    def call(self, call: ToolCall) -> ToolResult:
        self.heard.append(call)
        return ToolResult(self.says)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("deep keys", "more than 24 levels"),
        ("deep calls", "more than 24 levels"),
        ("ten million", "more than 1,048,576 characters"),
        ("many", "more than 1,048,576 characters"),
        ("infinite", "infinite, NaN or too long"),
        ("long number", ""),
        ("longer than Python writes", "infinite, NaN or too long"),
        ("as deep as it may be", ""),
    ],
)
def test_a_call_beyond_the_bounds_reaches_no_world(kind: str, said: str) -> None:
    world = Listener()
    result = called(cast("Any", world), ToolCall("f", {"a": ODD[kind]}))
    assert (result.failed, len(world.heard)) == ((True, 0) if said else (False, 1))
    assert said in result.content


def test_a_result_of_any_size_is_a_failed_call() -> None:
    for says, failed in (("x" * (1 << 20), False), ("x" * ((1 << 20) + 1), True)):
        result = called(cast("Any", Listener(says)), ToolCall("f"))
        assert result.failed is failed and len(result.content) <= 1 << 20


def test_a_log_takes_half_characters(tmp_path: Path) -> None:
    log = LineLog(tmp_path / "log.jsonl")
    log.append({"a": "x\ud800"})
    assert log.records() == [{"a": "x\ud800"}]


def test_trl_reads_no_half_of_a_result() -> None:
    (kind,) = task_environments(ECHO, [TASK]).values()
    trl: Any = kind()
    trl.reset(task=TASK.to_json())
    assert "\\ufffd" in ascii(trl.say(text="a\ud800"))
    assert trl.get_reward() == 0.0


# -- services: what the policy wrote is at fault where they answer something else ------------------


def choosy(body: dict[str, Any], _: int) -> Reply:
    """A retriever that falls over at one word."""
    (query,) = body["queries"]
    if "crash" in query:
        return 500, b"oops"
    return 200, json.dumps({"result": [[{"document": {"contents": '"T"\nX'}}]]}).encode()


def fragile(body: dict[str, Any], _: int) -> Reply:
    """A sandbox whose pod one program ends."""
    if "crash" in body["code"]:
        return 200, b'{"status": "SandboxError", "message": "pod lost"}'
    run = {"status": "Finished", "return_code": 0, "stdout": "a\ud800", "stderr": ""}
    return 200, json.dumps({"status": "Success", "run_result": run}).encode()


def test_a_query_that_no_retriever_answers_is_a_failed_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    with service(choosy) as (url, _):
        environment = SearchEnvironment(corpus=url)
        result = environment.find("crash it")
        assert result.failed and "cannot be searched" in result.content
        assert "(Title: T)" in environment.find("river").content
    with (
        service(lambda *_: (500, b"oops")) as (url, _),
        pytest.raises(EnvError, match="the retriever failed"),
    ):
        SearchEnvironment(corpus=url).find("river")


@pytest.mark.parametrize("broken", [False, True])
def test_a_program_that_no_remote_sandbox_survives_failed(broken: bool) -> None:
    with service(lambda b, n: fragile({"code": "crash"} if broken else b, n)) as (url, _):
        sandbox = RemoteSandbox(url, retries=1, patience=0.001)
        done = sandbox.execute("crash()")
        assert done.status == ("sandbox" if broken else "error")
        assert ("runs other programs" in done.detail) is not broken
        if not broken:
            assert sandbox.execute("print(1)").stdout == "a\ufffd"


class Sleepy(PythonToolEnvironment):
    """Programs that say how long they ran, without running."""

    share = 1.0

    def execute(self, code: str, bare: bool = False) -> Execution:
        time.sleep(0.2)
        return Execution("", "", "ok", 0.2 * self.share)


@pytest.mark.parametrize("kind", ["here", "http"])
@pytest.mark.parametrize(("share", "valid"), [(1.0, True), (0.1, False)])
@pytest.mark.slow
def test_a_policy_that_sleeps_discards_nothing(kind: str, share: float, valid: bool) -> None:
    environment = Sleepy(questions={"count": 4})
    environment.share = share
    task = environment.tasks(0.25)[0]
    with ExitStack() as stack:
        there = elsewhere(stack, kind, environment)
        policy = script(*["[code_interpreter(code='x')]"] * 12)
        late = played([task], there, policy, k=1, seconds=0.5, steps_per_turn=12)[0]
    assert (late.stop, late.valid) == (StopReason.SECONDS, valid)
    assert not late.solved
    assert isinstance(environment.open(task), AnswerJudge)


@pytest.mark.slow
def test_words_beyond_the_users_context_end_the_conversation_and_no_trajectory_is_invalid() -> None:
    prompt = {"role": "user", "content": "Hi."}
    facts: dict[str, Any] = {"kind": "multi_turn", "language": "en", "prompt": [prompt]}
    facts |= {"classes": [], "config": {}, "tools": []}
    task = Task("acebench-agent", "talk", (Turn("u"),), facts, Provenance("o", "s"))
    with Loopback(lambda _: "hello", context=500) as server:
        user = Speaker(ServerSettings(url=server.url, model="loopback"))
        world = AceWorld(task, Host(Path(), "acebench-agent"), user.says)
        world.begin_turn(0)
        assert world.opens() == "hello"
        assert world.reply("x" * 1000) is None
        user.close()
    down = Speaker(ServerSettings(url=server.url, model="loopback"))
    with pytest.raises(EnvError, match="does not answer"):
        down.says([prompt])


def test_a_command_that_no_program_can_be_given_is_a_failed_call() -> None:
    class Nowhere:
        def run(self, argv: Any, stdin: str = "", seconds: float | None = None) -> ShellResult:
            if len(" ".join(argv)) > 1 << 17:
                raise EnvError("docker exec: Argument list too long")
            return ShellResult("abc", 0)

    world = RepoWorld(TASK, cast("Any", Nowhere()), lambda _: False, 1.0)
    world.begin_turn(0)
    result = world.call(ToolCall("bash", {"command": "echo " + "é" * 100_000}))
    assert result.failed and "more than 100000 bytes" in result.content


def test_checks_that_a_patch_holds_up_are_the_policys_seconds() -> None:
    class Place:
        def run(self, argv: Any, stdin: str = "", seconds: float | None = None) -> ShellResult:
            return ShellResult("abc", 0)

    seen: list[float] = []

    def judge(patch: str) -> bool:
        time.sleep(0.01)
        seen.append(world.ran())
        time.sleep(0.01)
        return False

    world = RepoWorld(TASK, cast("Any", Place()), judge, 1.0)
    world.begin_turn(0)
    world.end_turn()
    assert 0.01 <= seen[0] <= world.ran() - 0.01, "those under way are counted too"
