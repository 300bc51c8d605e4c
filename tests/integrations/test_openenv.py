"""Our worlds behind OpenEnv's own server, played by OpenEnv's own client."""

from __future__ import annotations

import importlib.util
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rods.dialects import structured
from rods.env import Environment
from rods.types import ToolCall
from worlds import NotesEnvironment, notes_task

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.skipif(importlib.util.find_spec("openenv") is None, reason="needs openenv"),
]

HERMES = structured("hermes")
TOKEN = "token-of-the-tests"
ADD, NOTE = ToolCall("add", {"amount": 2}), ToolCall("note", {"text": "x"})
TASKS = [
    notes_task([(f"add two to {n}", [ADD]), ("note it", []), ("it is x", [NOTE])], count=n)
    for n in range(4)
]


class OwnTasks(NotesEnvironment):
    def tasks(self, held_out: float) -> Any:
        return TASKS

    def part(self, tasks: Any, held_out: float | None) -> Any:
        from rods.split import given_split

        return given_split(tasks[:3], tasks[3:])


@contextmanager
def served(environment: Environment) -> Iterator[str]:
    import uvicorn

    from rods.integrations.openenv import openenv_app

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        found.listen(64)
        app = openenv_app(environment, HERMES, TOKEN)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [found]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{found.getsockname()[1]}/{TOKEN}"
        finally:
            server.should_exit = True
            thread.join(10)


def solve(env: Any, task: Any) -> Any:
    result = None
    for turn in task.turns:
        for call in turn.ground_truth:
            result = env.step({"text": HERMES.write([call])})
            assert result.reward is None and not result.done
        result = env.step({"text": HERMES.answer("Done.")})
    return result


def test_openenvs_client_plays_our_worlds() -> None:
    from openenv import GenericEnvClient

    with served(OwnTasks()) as url, GenericEnvClient(base_url=url).sync() as env:
        opened = env.reset(split="train", index=1)
        system, user = opened.observation["messages"]
        assert (system["role"], user["content"]) == ("system", "add two to 1")
        assert '"add"' in system["content"]
        back = env.step({"text": HERMES.write([ADD])})
        assert back.observation["messages"] == [{"role": "tool", "content": "3"}]
        back = env.step({"text": HERMES.answer("Done.")})
        assert back.observation["messages"] == [{"role": "user", "content": "note it"}]
        state = env.state()
        assert (state["task_id"], state["turn"], state["turns"]) == (TASKS[1].id, 1, 3)
        env.reset(task=TASKS[3].to_json())  # a variant of one's own; the session goes on
        ended = solve(env, TASKS[3])
        assert ended.done and ended.reward == 1.0 and ended.observation["messages"] == []
        env.reset(seed=5)
        assert env.state()["task_id"] == TASKS[2].id


def test_sessions_share_nothing_and_tasks_are_listed_without_answers() -> None:
    import json
    import urllib.request

    from openenv import GenericEnvClient

    with served(OwnTasks()) as url:
        one, other = (GenericEnvClient(base_url=url).sync() for _ in range(2))
        with one, other:
            for env in (one, other):
                env.reset(split="test", index=0)
            assert solve(one, TASKS[3]).reward == 1.0
            other.step({"text": HERMES.answer("Done.")})
            other.step({"text": HERMES.answer("What?")})
            assert other.step({"text": HERMES.answer("Done.")}).reward == pytest.approx(1 / 3)
            with pytest.raises(Exception, match="so 9 is not among them"):
                one.reset(split="test", index=9)
        asked = urllib.request.Request(
            f"{url}/notes/tasks", b'{"split": "train"}', {"content-type": "application/json"}
        )
        with urllib.request.urlopen(asked) as answer:
            listed = json.load(answer)
        assert [task["id"] for task in listed["tasks"]] == [task.id for task in TASKS[:3]]
        assert "ground_truth" not in json.dumps(listed)


def test_a_web_socket_of_a_stranger_is_refused_and_odd_json_is_answered() -> None:
    import json

    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect

    with served(OwnTasks()) as url:
        place = url.replace("http", "ws")
        for where, headers in (
            (place, {"Origin": "https://evil.example"}),
            (place, {"Host": "evil.example"}),
            (place.removesuffix(f"/{TOKEN}"), {}),
            (place.removesuffix(TOKEN) + "x", {}),
        ):
            with pytest.raises(InvalidStatus), connect(f"{where}/ws", additional_headers=headers):
                pass
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        bare = place.removesuffix(f"/{TOKEN}")
        with connect(f"{bare}/ws", additional_headers=bearer) as socket_:
            for text in ("[" * 5000, '{"a":' * 5000, '{"type": NaN}', "x"):
                socket_.send(text)
                assert json.loads(socket_.recv(timeout=10))["type"] == "error"
