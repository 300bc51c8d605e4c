"""The example's server, made with the SDK: both transports, checks, variants, worlds elsewhere."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec

import pytest

from elsewhere_cases import played
from oracle import OraclePolicy
from places import ROOT
from rods.env import called
from rods.envs import make_environment
from rods.envs.mcp.world import McpEnvironment
from rods.envs.remote.processes import ProcessEnvironment, local
from rods.errors import ConfigError
from rods.evaluation.check import check_tasks
from rods.task import Provenance, Task, Turn, read_tasks
from rods.types import Json, ToolCall
from rollout_cases import DIALECT, TEMPLATE

pytestmark = pytest.mark.skipif(find_spec("mcp") is None, reason="the extra mcp is missing")
EXAMPLE = ROOT / "examples" / "mcp_notes"
TASKS = list(read_tasks(EXAMPLE / "tasks.jsonl"))
GIVEN: dict[str, Json] = {
    "command": f"{sys.executable} {EXAMPLE / 'server.py'}",
    "reset": "reset",
    "state": "all_notes",
}
STATELESS = """
import sys
from mcp.server.mcpserver import MCPServer
server = MCPServer("x")
@server.tool()
def one() -> int:
    return 1
server.run("streamable-http", port=int(sys.argv[1]), stateless_http=True)
"""


BY_SESSION = """
import sys
from mcp.server.mcpserver import Context, MCPServer
server, kept = MCPServer("x"), {}
def mine(context):
    return kept.setdefault(context.request_context.request.headers["mcp-session-id"], [])
@server.tool()
def add(name: str, context: Context) -> int:
    mine(context).append(name)
    return len(mine(context))
@server.tool()
def items(context: Context) -> list[str]:
    return mine(context)
server.run("streamable-http", port=int(sys.argv[1]))
"""


@contextmanager
def listening(*program: str) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen(
        [sys.executable, *program, str(port)], stderr=subprocess.DEVNULL
    ) as server:
        try:
            for _ in range(600):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            server.kill()


@pytest.mark.slow
def test_the_example_passes_its_check_is_solved_and_is_the_same_in_processes() -> None:
    environment = make_environment("mcp", GIVEN)
    with closing(environment):
        assert check_tasks(TASKS[:1], environment).rows == ()
        with closing(environment.open(TASKS[0])) as world:
            world.begin_turn(0)
            assert called(world, ToolCall("read_note", {"note_id": "N-9"})).failed
            assert called(world, ToolCall("add_line", {"note_id": "N-1"})).failed
            found = called(world, ToolCall("find_notes", {"word": "milk"}))
            assert found.content == '{"N-1": "Groceries"}'
        oracle = OraclePolicy(TASKS, DIALECT, TEMPLATE)
        trajectories = played(TASKS[:1], environment, oracle)  # two rollouts at once
        assert len(trajectories) == 2 and all(t.solved for t in trajectories)
    elsewhere = ProcessEnvironment(make_environment("mcp", GIVEN), local("mcp", GIVEN), 1, 60)
    with closing(elsewhere):
        assert check_tasks(TASKS[:1], elsewhere).rows == ()


@pytest.mark.slow
def test_invariant_2_sessions_of_a_running_server_are_independent() -> None:
    calls = (ToolCall("add", {"name": "milk"}),)
    task = Task("mcp", "base", (Turn("Do it.", calls),), {}, Provenance("a", "a"))
    with listening("-c", BY_SESSION) as url:
        environment = McpEnvironment(url=url, state="items")
        with closing(environment):
            worlds = [environment.open(task) for _ in range(6)]
            for number, world in enumerate(worlds):
                world.begin_turn(0)
                for _ in range(number):
                    assert not world.call(calls[0]).failed
            states = [world.snapshot() for world in worlds]
            assert states == [{"server": {"state": ["milk"] * n}} for n in range(6)]
            assert [world.end_turn().solved for world in worlds] == [n == 1 for n in range(6)]
            for world in worlds:
                world.close()


@pytest.mark.slow
def test_sessions_of_a_running_server_that_share_its_state_are_refused() -> None:
    with listening(str(EXAMPLE / "server.py")) as url:
        environment = McpEnvironment(url=url, reset="reset", state="all_notes")
        with closing(environment):
            assert {"add_note", "read_note"} <= environment.tools.keys()
            with pytest.raises(ConfigError, match="change the state of another"):
                environment.open(TASKS[0])


@pytest.mark.slow
def test_a_url_without_sessions_is_refused_and_one_that_is_gone_is_a_failure() -> None:
    sentence = pytest.raises(ConfigError, match="keeps no sessions")
    with listening("-c", STATELESS) as url, sentence:
        McpEnvironment(url=url).warm_up()
    with pytest.raises(ConfigError, match=r"does not start \(start it first\): MCP server 'http"):
        McpEnvironment(url=url).warm_up()


@pytest.mark.slow
def test_a_rest_service_behind_fastmcp_has_a_store_for_each_world() -> None:
    pytest.importorskip("fastmcp")
    folder = ROOT / "examples" / "openapi"
    command = f"{sys.executable} {folder / 'server.py'}"
    task = next(read_tasks(folder / "tasks.jsonl"))
    [lend] = task.turns[0].ground_truth
    environment = McpEnvironment(command=command, reset="set_store", state="show_store")
    with closing(environment), closing(environment.open(task)) as one:
        assert len(environment.tools) == 6, "the agent sees neither the state nor the reset"
        with closing(environment.open(task)) as other:
            for world in (one, other):
                world.begin_turn(0)
            assert one.call(lend).content == '{"loan_id": "L-2"}'
            assert other.snapshot()["server"]["lent"] == 1  # the store before any call
            again, typed = one.call(lend), one.call(ToolCall("lend_item", {"item_id": "CAM-1"}))
            assert again.failed and "409" in again.content and "is lent already" in again.content
            assert typed.failed and "422" in typed.content and "Field required" in typed.content
            assert [one.end_turn().solved, other.end_turn().solved] == [True, False]
