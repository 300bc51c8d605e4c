"""MCP servers as worlds: isolation, verdicts, failures of the server and of tools, no leftovers."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from rods.abilities import Bounded, StateAccess, ability
from rods.dialects import get_dialect
from rods.env import called
from rods.envs import make_environment
from rods.envs.mcp.session import McpSession
from rods.envs.mcp.world import McpEnvironment
from rods.errors import ConfigError, EnvError, PrerequisiteError, TaskError
from rods.evaluation.check import TaskFault, check_tasks
from rods.synthesis.structure.trace import all_tools
from rods.task import Provenance, Task, Turn
from rods.types import Json, ToolCall
from running import process, processes

pytestmark = pytest.mark.skipif(find_spec("mcp") is None, reason="the extra mcp is missing")
SERVER = Path(__file__).parent / "plain_server.py"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Temporary folders of servers are made here; none may be left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def made(place: Path) -> Iterator[Any]:
    """Makes environments, and looks for leftovers when they are closed."""
    environments: list[McpEnvironment] = []

    def make(words: str = "", state: str = "items", **more: Any) -> McpEnvironment:
        command = f"{sys.executable} -S {SERVER} {words}"
        environments.append(McpEnvironment(command=command, state=state, **more))
        return environments[-1]

    yield make
    for environment in environments:
        environment.close()
    assert not [path for path in place.iterdir() if path.name.startswith("rods-mcp-")]
    assert not servers()


def servers() -> list[int]:
    """Processes that run the server of these tests."""
    mine = {pid: found for pid, found in processes().items() if found.parent == os.getpid()}
    return [pid for pid, found in mine.items() if str(SERVER) in found.words]


def task_of(*calls: ToolCall, world: dict[str, Json] | None = None, name: str = "a") -> Task:
    turns = (Turn("Do it.", calls),)
    return Task("mcp", "base", turns, world or {}, Provenance(name, name))


def add(name: str) -> ToolCall:
    return ToolCall("add", {"name": name})


@pytest.mark.slow
def test_a_turn_is_judged_by_state_and_results(made: Any) -> None:
    environment = make = made()
    task = task_of(add("milk"))
    for calls, state, executed in (
        ([add("milk")], True, True),
        ([add("mulk")], False, True),
        ([], False, False),
    ):
        with closing(environment.open(task)) as world:
            world.begin_turn(0)
            results = [world.call(call) for call in calls]
            verdict = world.end_turn()
            assert (verdict.state, verdict.executed) == (state, executed)
            assert verdict.solved == (state and executed)
            assert all(not r.failed for r in results)
            assert world.snapshot() == {"server": {"items": [c.arguments["name"] for c in calls]}}
    offered = all_tools(make, task)
    assert "add" in offered and "items" not in offered  # the state tool is hidden
    with closing(environment.open(task)) as world:
        world.begin_turn(0)
        assert world.call(ToolCall("items", {})).failed
        with pytest.raises(EnvError):
            world.begin_turn(1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wanted", "given", "equal"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        (1, 1.0, True),
        (1, True, False),
        (1, "1", False),
    ],
)
def test_results_are_compared_by_value(made: Any, wanted: Json, given: Json, equal: bool) -> None:
    environment = made()
    echo = [ToolCall("echo", {"value": value}) for value in (wanted, given)]  # type: ignore[dict-item]
    with closing(environment.open(task_of(echo[0]))) as world:
        world.begin_turn(0)
        world.call(echo[1])
        assert world.end_turn().executed is equal


@pytest.mark.slow
def test_sixteen_concurrent_worlds_of_a_task_end_in_sixteen_states(made: Any) -> None:
    """Invariant 2."""
    environment = made()
    task = task_of(add("milk"))
    worlds: list[Any] = [None] * 16

    def roll_out(index: int) -> None:
        world = worlds[index] = environment.open(task)
        world.begin_turn(0)
        for number in range(index + 1):
            world.call(add(f"{index}-{number}"))

    threads = [threading.Thread(target=roll_out, args=(index,)) for index in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, world in enumerate(worlds):
        expected = [f"{index}-{number}" for number in range(index + 1)]
        assert world.snapshot() == {"server": {"items": expected}}
    assert len(servers()) == 16
    for world in worlds:
        world.close()
        world.close()
    assert not servers()


@pytest.mark.slow
def test_servers_that_can_be_reset_are_used_again(made: Any) -> None:
    environment = made(reset="reset")
    task = task_of(add("milk"), world={"reset": {"items": ["tea"]}})
    for _ in range(5):
        with closing(environment.open(task)) as world:
            assert world.snapshot() == {"server": {"items": ["tea"]}}
            world.begin_turn(0)
            world.call(add("milk"))
            assert world.end_turn().solved
    assert len(servers()) == 2  # one was the witness of the first task
    access = ability(environment, StateAccess)
    assert access and access.initial_state(task).values == {"server": {"items": ["tea"]}}
    assert environment.tools.keys().isdisjoint({"reset", "items"})
    bounded = ability(environment, Bounded)
    assert bounded and bounded.capacity == 64


@pytest.mark.slow
def test_servers_that_ended_while_they_waited_are_replaced(made: Any) -> None:
    """All at once, as where a server was restarted or lets idle sessions expire."""
    environment = made(reset="reset")
    task = task_of(add("milk"))
    worlds = [environment.open(task) for _ in range(4)]
    for world in worlds:
        world.close()
    for server in servers():
        os.kill(server, signal.SIGKILL)
    with closing(environment.open(task)) as world:
        world.begin_turn(0)
        world.call(add("milk"))
        assert world.end_turn().solved
    assert len(servers()) == 1


@pytest.mark.slow
def test_a_reset_that_forgets_something_is_a_failure_of_infrastructure(made: Any) -> None:
    environment = made(reset="reset")
    task = task_of(add("milk"))
    with closing(environment.open(task)) as world:
        world.begin_turn(0)
        world.call(ToolCall("keep", {}))
    with pytest.raises(EnvError, match="does not bring back the initial state"):
        for _ in range(3):
            environment.open(task)
    for _ in range(3):  # that server is used no more, so one agent spoils no further worlds
        environment.open(task).close()


@pytest.mark.slow
@pytest.mark.parametrize("state", ["items", ""])
def test_a_reset_that_fails_for_a_task_it_was_made_for_before_ends_no_run(
    made: Any, state: str
) -> None:
    environment = made(reset="reset", state=state)
    environment.open(task_of(add("milk"))).close()
    environment.reset = "fail"  # as a server does whose disk is full
    with pytest.raises(EnvError, match="fail failed: the shelf is full"):
        environment.open(task_of(add("milk")))
    with pytest.raises(TaskError, match="fail failed: the shelf is full"):
        environment.open(task_of(add("tea"), name="b"))
    environment.reset = "reset"
    environment.open(task_of(add("milk"))).close()


@pytest.mark.slow
def test_a_state_that_trajectories_share_is_refused(made: Any, tmp_path: Path) -> None:
    environment = made(f"shared={tmp_path / 'items.json'}")
    with pytest.raises(ConfigError, match="change the state of another"):
        environment.open(task_of(add("milk")))


@pytest.mark.slow
def test_files_of_a_task_stand_in_an_empty_folder(made: Any, place: Path) -> None:
    environment = made()
    files: dict[str, Json] = {"start.json": '["tea"]', "deep/er.txt": "caf\u00e9"}
    task = task_of(add("milk"), world={"files": files})
    with closing(environment.open(task)) as world:
        assert world.snapshot() == {"server": {"items": ["tea"]}}
        world.begin_turn(0)
        folder, names = json.loads(world.call(ToolCall("folder", {})).content)
        assert Path(folder).is_relative_to(place) and names == ["deep", "start.json"]
        assert (Path(folder) / "deep" / "er.txt").read_text(encoding="utf-8") == "caf\u00e9"


@pytest.mark.slow
def test_a_task_s_world_that_cannot_be_set_is_refused(made: Any) -> None:
    environment = made()
    worlds: list[dict[str, Json]] = [
        {"file": {}},
        {"files": []},
        {"files": {"../up": "x"}},
        {"files": {"/etc/x": "x"}},
        {"files": {"a": 1}},
        {"files": {".": "x"}},
        {"files": {"a": "x", "a/b": "y"}},
        {"files": {"a\0b": "x"}},
        {"files": {"a" * 300: "x"}},
        {"reset": {"items": []}},
    ]
    for world in worlds:
        with pytest.raises(TaskError, match=r"task \w+ \(a\): world"):
            environment.open(task_of(world=world))


def test_a_list_of_tools_that_never_ends_or_is_refused_is_an_error(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rods.envs.mcp import session

    monkeypatch.setattr(session, "PAGES", 5, raising=False)
    with pytest.raises(ConfigError, match=r"tools/list .*after 5 pages .* still a nextCursor"):
        made("cursor=again").warm_up()
    with pytest.raises(ConfigError, match=r"tools/list of the server failed: no such shelf"):
        made("mute").warm_up()
    assert "keep" in made("cursor=").tools, "an empty cursor names no further page"


def test_a_schema_may_be_true_which_takes_any_value(made: Any) -> None:
    environment = made()
    assert environment.tools["anything"].properties == {"value": {}}
    call = ToolCall("anything", {"value": [1]})
    assert check_tasks([task_of(call)], environment, tools=True).ok


def test_a_task_of_another_environment_is_refused(made: Any) -> None:
    with pytest.raises(TaskError, match="expected 'mcp'"):
        made().open(Task("bfcl", "base", (Turn("x"),), {}, Provenance("a", "a")))


@pytest.mark.slow
def test_what_a_tool_answers_is_the_agent_s(made: Any) -> None:
    with closing(made().open(task_of())) as world:
        world.begin_turn(0)

        def shown(tool: str, **given: Any) -> tuple[str, bool]:
            result = called(world, ToolCall(tool, given))
            return result.content, result.failed

        assert shown("fail") == ("the shelf is full", True)
        assert shown("refuse") == ("Error: no such shelf", True)
        assert shown("odd") == ("caf\u00e9 \u2028 \U0001f600 \0", False)
        assert shown("add", name="milk") == ('1 items\n{"count": 1}', False)
        assert shown("echo", value=None) == ('{"value": null}', False)
        assert shown("echo", value="a\ud800b") == ('{"value": "a\\ufffdb"}', False)
        nested = shown("echo", value=ToolCall("add", {"name": "x"}))
        assert nested == ("Error: an argument must be a value, not a call.", True)
        deep: Any = []
        for _ in range(200):
            deep = [deep]
        shown("echo", value=deep)  # whatever it gives, the server lives
        content, failed = shown("huge", size=2_000_000)
        assert failed and "2,000,000 characters" in content
        assert shown("add", name="tea") == ('2 items\n{"count": 2}', False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "why"),
    [
        ("die", "out of paper"),
        ("hang", "no answer for 1 seconds"),
        ("babble", "broke the protocol.*hello, I am a print"),
    ],
)
def test_a_server_that_fails_makes_the_trajectory_invalid(made: Any, tool: str, why: str) -> None:
    environment = made(seconds=1.0)
    with closing(environment.open(task_of())) as world:
        world.begin_turn(0)
        with pytest.raises(EnvError, match=rf"(?s)MCP server .*{why}"):
            world.call(ToolCall(tool, {}))
        with pytest.raises(EnvError):
            world.snapshot()


@pytest.mark.slow
def test_a_server_that_prints_fails_although_its_answer_was_faster(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(made().open(task_of())) as world:
        world.begin_turn(0)
        lost = property(lambda _: Future[Any](), lambda *_: None)  # what is cancelled
        monkeypatch.setattr(McpSession, "_asked", lost, raising=False)
        with pytest.raises(EnvError, match=r"(?s)MCP server .*broke the protocol"):
            world.call(ToolCall("babble", {}))


def test_a_server_that_cannot_start_is_a_failure(place: Path) -> None:
    ended = f"{sys.executable} -S -c 1"
    for command, why in (("no-such-program", "FileNotFoundError"), (ended, "Connection closed")):
        with pytest.raises(ConfigError, match=rf"does not start \(run the command by .*{why}"):
            McpEnvironment(command=command).warm_up()
    assert not list(place.iterdir())


def test_a_server_that_cannot_start_is_one_error_of_a_check_and_no_task_s(place: Path) -> None:
    code = "import sys; sys.exit('\\n'.join(f'line {n}' for n in range(99)))"
    environment = McpEnvironment(command=f'{sys.executable} -S -c "{code}"')
    with pytest.raises(ConfigError) as caught:
        check_tasks([task_of(add("milk")), task_of(add("tea"))], environment)
    said = str(caught.value).splitlines()
    assert said[-1] == "line 98" and len(said) <= 8, "the end of what it wrote"


def test_a_server_that_starts_too_slowly_is_a_failure(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rods.envs.mcp import session

    monkeypatch.setattr(session, "START_SECONDS", 0.5)
    with pytest.raises(ConfigError, match=r"no answer for 0\.5 seconds"):
        made("slow").warm_up()


@pytest.mark.slow
def test_a_stubborn_server_and_its_children_are_killed(made: Any) -> None:
    with closing(made("late", state="").open(task_of())) as world:
        world.begin_turn(0)
        child = int(world.call(ToolCall("child", {})).content)
        [server] = servers()
    for pid in (server, child):
        deadline = time.monotonic() + 5
        while (found := process(pid)) and time.monotonic() < deadline:
            if found.state == "Z":  # of a parent that is gone: reaped by the init process
                break
            time.sleep(0.05)
        else:
            assert not found


@pytest.mark.slow
def test_a_tool_that_draws_is_named(made: Any) -> None:
    report = check_tasks([task_of(ToolCall("draw", {}))], made())
    [unstable] = [row for row in report.rows if row.finding is TaskFault.UNSTABLE]
    assert "results of two replays differ: draw()" in unstable.detail and not report.ok


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ad", "items", "reset", ""])
def test_a_ground_truth_that_calls_what_is_not_a_tool_is_a_finding(made: Any, name: str) -> None:
    rows = check_tasks([task_of(ToolCall(name, {}))], made(reset="reset")).rows
    assert {row.finding for row in rows} == {TaskFault.UNREACHABLE}
    assert f"there is no function {name!r} among those you can call now" in rows[0].detail


@pytest.mark.slow
def test_a_resource_can_show_the_state(made: Any) -> None:
    environment = made(state="shelf://items")
    with closing(environment.open(task_of(add("milk")))) as world:
        world.begin_turn(0)
        world.call(add("milk"))
        assert world.end_turn().solved and world.snapshot() == {"server": {"items": ["milk"]}}
    assert "items" in environment.tools


@pytest.mark.slow
def test_without_a_state_results_are_judged(made: Any) -> None:
    with closing(made(state="").open(task_of(add("milk")))) as world:
        world.begin_turn(0)
        world.call(add("other"))
        assert world.end_turn().solved and world.snapshot() == {}


@pytest.mark.parametrize(
    ("words", "more", "why"),
    [
        ("names=get-sum,get.sum", {}, r"'get-sum' and 'get\.sum'.*'get_sum'"),
        ("names=get_sum,get/sum", {}, "'get_sum' and 'get/sum'.*'get_sum'"),
        ("names=class,_class", {}, "'class' and '_class'.*'_class'"),
        ("", {"state": "itms"}, "'itms'.*items"),
        ("", {"reset": "again"}, "'again'"),
    ],
)
def test_names_that_cannot_be_used_are_refused(
    made: Any, words: str, more: dict[str, str], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        made(words, **more).warm_up()


OFFERED = {
    "read-file": "read_file",
    "search.files": "search_files",
    "fs/read": "fs_read",
    "1st": "_1st",
    "class": "_class",
    "caf\u00e9": "caf_",
    "plain_name": "plain_name",
}


@pytest.mark.slow
def test_a_tool_is_offered_as_an_identifier_and_called_by_its_own_name(made: Any) -> None:
    environment = made(f"names={','.join(OFFERED)}")
    for own, offered in OFFERED.items():
        call = ToolCall(offered, {})
        for dialect in map(get_dialect, ("pythonic", "hermes", "llama", "xml")):
            written = dialect.write([call])
            assert list(dialect.parse(written, environment.tools, False).calls) == [call]
        with closing(environment.open(task_of(call))) as world:
            world.begin_turn(0)
            result = world.call(call)
            assert not result.failed
            assert result.content == f"{own} was called"
            assert world.end_turn().solved
        with closing(environment.open(task_of(call))) as world:
            world.begin_turn(0)
            assert world.call(ToolCall(own, {})).failed is (own != offered)


def test_one_of_command_and_url_is_given() -> None:
    for given in ({}, {"command": "a", "url": "http://localhost"}):
        with pytest.raises(ConfigError, match="give one of"):
            make_environment("mcp", given)


def test_a_missing_sdk_is_said_with_the_line_that_installs_it(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rods.envs.mcp.session", None)
    with pytest.raises(PrerequisiteError, match=r"pip install .*\[mcp\]"):
        made().warm_up()
