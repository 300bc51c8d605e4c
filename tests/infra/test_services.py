"""Services that we start: who may ask, in what form, how many at once. None answers with 500."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from rods.engines.connection import Connection
from rods.envs.remote.server import SPLITS, ServerLimits, environment_app
from rods.errors import ConfigError, EnvError
from rods.infra.guard import DEEPEST, LOCAL, Guard
from rods.infra.listen import YOUNG, address, bound, protocol, server
from rods.infra.service import Service as Asked
from rods.task import Task
from verbs import rods
from worlds import NotesEnvironment, notes_task

TOKEN = "secret-of-the-service"
TASK = notes_task([("add two", [])]).to_json()
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    "url", ["http://host:99999/x", "http://host:port", "http://[::1", "http://host:0", "host:80"]
)
def test_an_address_that_is_none_is_refused_with_its_setting(url: str) -> None:
    with pytest.raises(ConfigError, match=r"env\.remote\.url is .*expected http"):
        Asked(url, "/step", "env.remote.url")
    with pytest.raises(ConfigError, match=r"engine\.url: .* is not the address of a server"):
        Connection(url, 1.0)


def environment() -> Guard:
    return environment_app(NotesEnvironment(), ServerLimits(body=20_000), TOKEN)


async def plain(scope: Any, receive: Any, send: Any) -> None:
    """An application that reads JSON and nothing else, as OpenEnv's does behind `Guard`."""
    raw = (await receive())["body"] if scope["type"] == "http" else b""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        return
    json.loads(raw or b"{}")
    said = json.dumps({"path": scope["path"]}).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": said})


def openenv() -> Guard:
    return Guard(plain, TOKEN, LOCAL, 20_000, in_path=True)


APPS: dict[str, tuple[Callable[[], Guard], str, dict[str, Any]]] = {
    "serve-env": (environment, "/reset", {"task": TASK}),
    "serve-env --openenv": (openenv, "/reset", {}),
}


def door() -> Any:
    pytest.importorskip("nicegui", reason="needs the extra [view]")
    from rods.view.server import BrowserDoor

    return BrowserDoor(plain, TOKEN, 1)


SERVICES: dict[str, tuple[Callable[[], Any], str, int]] = {
    "serve-env": (environment, "/health", 200),
    "serve-env --openenv": (openenv, "/health", 200),
    "view": (door, f"/?token={TOKEN}", 303),
}
"""Each service that we start, something that anybody may ask, and the answer's status."""
GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


@contextmanager
def serving(
    app: Any, connections: int = 64, seconds: float = 30.0, room: int = 128
) -> Iterator[str]:
    with bound("127.0.0.1", 0) as listening:
        made = server(app, connections, 1 << 16)
        made.config.http = protocol(connections, seconds, room)
        thread = threading.Thread(target=made.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not made.started:
            time.sleep(0.01)
        try:
            yield address(listening, "127.0.0.1")
        finally:
            made.should_exit = True
            thread.join(10)


@pytest.fixture(scope="module", params=APPS)
def service(request: pytest.FixtureRequest) -> Iterator[tuple[str, str, dict[str, Any]]]:
    make, route, body = APPS[request.param]
    with serving(make()) as url:
        yield url, route, body


def ask(
    service: tuple[str, str, dict[str, Any]], raw: bytes | None = None, **headers: str | None
) -> int:
    url, route, body = service
    sent: dict[str, str | None] = {"Content-Type": "application/json", **BEARER}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    raw = json.dumps(body).encode() if raw is None else raw
    kept = {name: value for name, value in sent.items() if value is not None}
    return httpx.post(f"{url}{route}", content=raw, headers=kept, timeout=60).status_code


Service = tuple[str, str, dict[str, Any]]


def test_a_client_that_shows_the_token_is_answered(service: Service) -> None:
    url = service[0]
    assert ask(service) == 200
    assert ask(service, Host=f"localhost:{url.rpartition(':')[2]}") == 200
    assert ask(service, Content_Type="application/json; charset=utf-8") == 200
    assert ask(service, Origin=url) == 200
    assert httpx.get(f"{url}/health").status_code == 200


PAGES: dict[str, dict[str, str | None]] = {
    "a foreign name": {"Host": "evil.example"},
    "a foreign name and our port": {"Host": "evil.example:8010"},
    "a name that begins like ours": {"Host": "127.0.0.1.evil.example"},
    "a user in the name": {"Host": "localhost@evil.example"},
    "no name": {"Host": ""},
    "an origin": {"Origin": "https://evil.example"},
    "a file's origin": {"Origin": "null"},
    "another port's origin": {"Origin": "http://127.0.0.1:1"},
    "text": {"Content-Type": "text/plain"},
    "a form": {"Content-Type": "application/x-www-form-urlencoded"},
    "no content type": {"Content-Type": None},
    "no token": {"Authorization": None},
    "another token": {"Authorization": "Bearer x"},
    "an empty token": {"Authorization": "Bearer"},
    "a token that is no ASCII": {"Authorization": "Bearer \xe4"},
    "a password": {"Authorization": f"Basic {TOKEN}"},
}


@pytest.mark.parametrize("page", PAGES)
def test_requests_of_web_pages_and_strangers_are_refused(service: Service, page: str) -> None:
    changed = {name.replace("-", "_"): value for name, value in PAGES[page].items()}
    headers = {k: v.encode("latin-1") if v else v for k, v in changed.items()}
    assert ask(service, **headers) in (400, 401, 403, 415)  # type: ignore[arg-type]


def test_health_is_no_way_around(service: Service) -> None:
    url = service[0]
    assert httpx.get(f"{url}/health", headers={"Host": "evil.example"}).status_code == 403
    assert httpx.post(f"{url}/health", json={}).status_code == 401
    for path in ("/health/../reset", "//health", "/docs", "/openapi.json", "/v1/models", "/state"):
        assert httpx.get(f"{url}{path}").status_code == 401


def deep(levels: int) -> bytes:
    return b'{"task": ' + b"[" * levels + b"]" * levels + b"}"


BODIES: dict[str, bytes] = {
    "nested a little": deep(DEEPEST + 2),
    "nested": deep(5000),
    "nested objects": b'{"a":' * 5000 + b"1" + b"}" * 5000,
    "half": b'{"task": ',
    "no JSON": b"task=1",
    "a list": b"[]",
    "null": b"null",
    "a text": b'"x"',
    "NaN": b'{"held_out": NaN, "temperature": NaN, "task": NaN}',
    "infinity": b'{"held_out": -Infinity}',
    "too large a number": b'{"held_out": 1e999}',
    "too long a number": b'{"held_out": ' + b"9" * 5000 + b"}",
    "a text for a number": b'{"held_out": "x", "number": "x"}',
    "a list for a number": b'{"held_out": [1], "number": [], "prompt": [[]]}',
    "a truth for a number": b'{"held_out": true, "number": true, "action": {}}',
    "half a character": b'{"task": "\\ud800", "model": "\\ud800", "prompt": ["\\ud800"]}',
    "a NUL": b'{"model_path": "a\\u0000b", "weight_version": 1, "task": "\\u0000"}',
    "no UTF-8": b'{"task": "\xff"}',
    "nothing": b"",
    "too much": b'{"a": "' + b"x" * 30_000 + b'"}',
}
ROUTES = {
    "serve-env": ("/reset", "/step", "/close", "/tasks"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ROUTES)
def test_no_body_is_an_error_of_the_server(name: str) -> None:
    with serving(APPS[name][0]()) as url:
        for route in ROUTES[name]:
            for what, raw in BODIES.items():
                status = ask((url, route, {}), raw)
                assert status == 200 or 400 <= status < 500, (route, what, status)
        strict = {what: ask((url, ROUTES[name][0], {}), raw) for what, raw in BODIES.items()}
        assert all(400 <= status < 500 for status in strict.values()), strict
        assert strict["too much"] == 413
        url, route, body = url, *APPS[name][1:]
        assert ask((url, route, body)) == 200


UNREADABLE = ("nested a little", "nested", "half", "NaN", "infinity", "too large a number")


@pytest.mark.parametrize("what", UNREADABLE)
def test_json_that_others_cannot_read_reaches_no_application(service: Service, what: str) -> None:
    """Nor does what an application would refuse by itself, as that of an environment does."""
    url, route, _ = service
    assert ask((url, route, {}), BODIES[what]) == 400
    assert ask((url, route, {}), deep(DEEPEST - 1)) in (200, 422)


@pytest.mark.parametrize("held_out", ["x", None, [], {}, True, -1, 1, 2, 1e300])
def test_a_share_that_is_none_is_refused(held_out: object) -> None:
    with serving(environment()) as url:
        assert ask((url, "/tasks", {"held_out": held_out})) == 422


def test_a_token_in_the_path_is_for_clients_without_headers() -> None:
    with serving(openenv()) as url:
        assert httpx.get(f"{url}/{TOKEN}/tasks").json() == {"path": "/tasks"}
        assert httpx.get(f"{url}/{TOKEN}").json() == {"path": "/"}
        assert httpx.get(f"{url}/{TOKEN}x/tasks").status_code == 401
        page = {"Origin": "https://evil.example"}
        assert httpx.get(f"{url}/{TOKEN}/tasks", headers=page).status_code == 403
    with serving(environment()) as url:
        assert httpx.get(f"{url}/{TOKEN}/state?episode_id=x").status_code == 401


def test_a_service_without_a_token_cannot_be_made() -> None:
    for make in (
        lambda: environment_app(NotesEnvironment(), ServerLimits(), ""),
        lambda: Guard(plain, "", LOCAL, 1),
    ):
        with pytest.raises(ValueError, match="needs a token"):
            make()


@contextmanager
def connected(url: str, count: int, said: bytes = b"") -> Iterator[list[socket.socket]]:
    held = [socket.create_connection(_place(url)) for _ in range(count)]
    try:
        for one in held:
            one.sendall(said)
            one.setblocking(False)
        yield held
    finally:
        for one in held:
            one.close()


def until(holds: Callable[[], bool], seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds()


HALVES = {
    "nothing": b"",
    "half of a line": b"POST /re",
    "half of the head": b"POST /reset HTTP/1.1\r\nHost: localhost\r\nX-A: ",
    "half of the body": (
        b"POST /reset HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        + f"Authorization: Bearer {TOKEN}\r\nContent-Length: 100\r\n\r\n{{".encode()
    ),
    "half of a second head": b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /heal",
}


@pytest.mark.slow
@pytest.mark.parametrize("half", HALVES)
def test_a_half_sent_request_ends(half: str) -> None:
    app = Guard(environment().app, TOKEN, LOCAL, 1000, seconds=0.3)
    with serving(app, seconds=0.3) as url, socket.create_connection(_place(url)) as client:
        client.settimeout(10)
        client.sendall(HALVES[half])
        began, said = time.monotonic(), b""
        with pytest.MonkeyPatch.context():
            try:
                while part := client.recv(4096):
                    said += part
            except ConnectionResetError:
                pass
        assert time.monotonic() - began < 8
        assert (b" 408 " in said) == (half == "half of the body")


UPGRADE = "Host: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
KEY = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["GET", "POST"])
@pytest.mark.parametrize(
    "more", ["", KEY, "Content-Length: 9\r\n", f"{KEY}Transfer-Encoding: chunked\r\n"]
)
@pytest.mark.parametrize("name", SERVICES)
def test_a_stranger_that_asks_for_a_websocket_ends(name: str, more: str, verb: str) -> None:
    asked = f"{verb} /ws HTTP/1.1\r\n{UPGRADE}{more}\r\nab".encode()
    with serving(SERVICES[name][0](), seconds=0.3) as url, connected(url, 1, asked) as held:
        assert until(lambda: _ended(held[0]), 8)


@pytest.mark.slow
def test_one_that_sends_a_byte_now_and_then_ends() -> None:
    with serving(environment(), seconds=0.5) as url, socket.create_connection(_place(url)) as one:
        began = time.monotonic()
        with pytest.raises(OSError):
            for byte in b"GET /health HTTP/1.1\r\nX: " + b"x" * 999:
                one.sendall(bytes([byte]))
                time.sleep(0.05)
        assert time.monotonic() - began < 5


def test_connections_are_bounded() -> None:
    with serving(environment(), connections=8, room=4) as url, connected(url, 30) as held:
        assert until(lambda: sum(map(_ended, held)) == 30 - 8 - 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", SERVICES)
def test_connections_at_rest_lock_out_nobody(name: str) -> None:
    make, path, status = SERVICES[name]
    with (
        serving(make(), connections=8, room=4) as url,
        connected(url, 4) as idle,
        connected(url, 4, b"GET /hea") as half,
        connected(url, 4, GET) as answered,
    ):
        time.sleep(YOUNG + 0.1)
        for _ in range(12):  # each takes the place of one at rest
            assert httpx.get(url + path, timeout=20).status_code == status
        assert sum(map(_ended, (*idle, *half, *answered))) >= 12 - 8


@pytest.mark.parametrize("more", [{}, {"Connection": "Upgrade", "Upgrade": "websocket"}])
def test_where_all_connections_work_the_next_is_told_at_once(more: dict[str, str]) -> None:
    goes_on, works = threading.Event(), list[str]()

    async def waiting(scope: Any, receive: Any, send: Any) -> None:
        works.append(scope["type"])
        while scope["type"] == "http" and not goes_on.is_set():
            await asyncio.sleep(0.01)
        await plain(scope, receive, send)

    with serving(waiting, connections=3) as url, ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(httpx.get, f"{url}/x", timeout=60) for _ in range(3)]
        assert until(lambda: works.count("http") == 3)
        for _ in range(30):  # one that is refused keeps no place
            refused = httpx.post(f"{url}/x", json={"a": "x" * 50_000}, headers=more, timeout=20)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        goes_on.set()
        assert [one.result().status_code for one in asked] == [200] * 3
        assert httpx.get(f"{url}/x").status_code == 200


@pytest.mark.slow
def test_a_client_that_does_not_read_ends() -> None:
    async def much(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return await plain(scope, receive, send)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(64 << 20)})

    with serving(much, seconds=0.3) as url, connected(url, 1, GET) as held:
        time.sleep(1.0)
        held[0].settimeout(10)
        read = 0
        with contextlib.suppress(ConnectionResetError):
            while part := held[0].recv(1 << 20):
                read += len(part)
        assert 0 < read < 32 << 20  # what the kernel held


class OwnTasks(NotesEnvironment):
    """One that takes long to say its tasks."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[float] = []
        self.goes_on = threading.Event()
        self.fails = False

    def tasks(self, held_out: float) -> list[Task]:
        self.asked.append(held_out)
        assert self.goes_on.wait(30)
        if self.fails:
            raise EnvError("there are none")
        return [notes_task([(f"add {n}", [])], count=n) for n in range(4)]


@pytest.mark.slow
def test_two_hundred_that_ask_for_tasks_at_once_are_answered() -> None:
    own, answers = OwnTasks(), list[int]()
    app = environment_app(own, ServerLimits(), TOKEN)

    with serving(app, connections=300) as url:

        def get() -> None:
            answers.append(ask((url, "/tasks", {"held_out": 0.25})))

        threads = [threading.Thread(target=get) for _ in range(200)]
        for thread in threads:
            thread.start()
        assert until(lambda: bool(own.asked))
        assert httpx.get(f"{url}/health", timeout=10).status_code == 200
        assert ask((url, "/reset", {"task": TASK})) == 200  # who plays does not wait either
        own.goes_on.set()
        for thread in threads:
            thread.join(60)
        assert answers == [200] * 200 and own.asked == [0.25]


def test_tasks_of_too_many_shares_at_once_are_refused_for_now() -> None:
    own = OwnTasks()

    def get(share: float) -> httpx.Response:
        body = {"held_out": share}
        return httpx.post(f"{url}/tasks", json=body, headers=BEARER, timeout=60)

    with serving(environment_app(own, ServerLimits(), TOKEN)) as url:
        with ThreadPoolExecutor(2 * SPLITS) as pool:
            asked = [pool.submit(get, number / 10) for number in range(2 * SPLITS)]
            assert until(lambda: sum(one.done() for one in asked) == SPLITS)
            refused = [one.result() for one in asked if one.done()]
            own.goes_on.set()
            statuses = [one.result().status_code for one in asked]
        assert {(one.status_code, one.headers["retry-after"]) for one in refused} == {(503, "5")}
        assert sorted(statuses) == [200] * SPLITS + [503] * SPLITS
        assert get(0.9).status_code == get(0.0).status_code == 200
        own.fails = True
        assert get(0.8).status_code == get(0.8).status_code == 422
        own.fails = False
        assert get(0.8).status_code == 200


def _ended(one: socket.socket) -> bool:
    try:
        while one.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


def _place(url: str) -> tuple[str, int]:
    host, port = url.removeprefix("http://").split(":")
    return host, int(port)


VERB = ("serve-env", "--env.name", "python_tool")


def command(*words: str) -> list[str]:
    return [sys.executable, "-c", "from rods.cli.main import main; main()", *words]


@pytest.mark.slow
def test_a_port_in_use_is_said_before_any_address() -> None:
    with bound("127.0.0.1", 0) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            command(*VERB, "--port", port), capture_output=True, text=True, timeout=120
        )
    assert done.returncode == 2
    assert "in use" in done.stderr and "http://" not in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


@pytest.mark.slow
def test_the_address_that_is_printed_answers_with_the_token_that_is_printed() -> None:
    words = command(*VERB, "--port", "0")
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            said = process.stderr.readline() + process.stderr.readline()
            url = re.findall(r"http://127\.0\.0\.1:\d+", said)[0]
            token = re.findall(r"=(\S+)", said)[0]
            path = "/state?episode_id=x"
            known = httpx.get(f"{url}{path}", headers={"Authorization": f"Bearer {token}"})
            assert known.status_code == 404
            assert httpx.get(f"{url}{path}").status_code == 401
        finally:
            process.terminate()


@pytest.mark.parametrize(("host", "port"), [("192.0.2.1", 0), ("no such host", 0), ("", -1)])
def test_an_address_that_is_not_ours_is_a_plain_error(host: str, port: int) -> None:
    with pytest.raises(ConfigError, match="nothing can listen there"):
        bound(host, port)


def test_without_a_token_it_listens_on_this_machine_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RODS_ENV_TOKEN", raising=False)
    assert rods(*VERB, "--host", "0.0.0.0", monkeypatch=monkeypatch) == 2
    assert "RODS_ENV_TOKEN, or listen at 127.0.0.1" in capsys.readouterr().err
