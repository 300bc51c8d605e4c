"""An environment behind HTTP: reset, step and state, as OpenEnv calls them.

Owns the routes, the sessions and their limits. A session is one world, used by one owner; the
answer to its last step is kept, so that a step whose answer was lost can be asked for again.

    app = environment_app(environment, ServerLimits(), token="secret")
    serve(app, bound("127.0.0.1", 8010), connections=1024, body=16 << 20)     # rods.infra.listen

`POST /reset` {"task": {...}} opens a world: {"episode_id", "observation", "reward": null,
"done": false}. `POST /step` {"episode_id", "number", "action": {"type": "call", ...}} gives
"observation", "reward" and "done"; actions stand in `messages.py`. `GET /state?episode_id=` says
how many steps there were. `POST /close` ends a session, `POST /tasks` gives the environment's own
tasks of both splits, `GET /health` needs no token.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import Response

from rods.env import Environment, own_split
from rods.envs.remote.messages import Hosted, Observation, failed
from rods.errors import RodsError
from rods.infra.guard import LOCAL, Guard
from rods.rollout.owner import Owner
from rods.task import Task

SPLITS = 4  # Shares held out whose tasks are kept as texts, or are being made


@dataclass(frozen=True)
class ServerLimits:
    """Limits of what the server takes."""

    sessions: int = 1024
    """Worlds open at once; above it, HTTP 429."""
    body: int = 16 << 20
    """Bytes of one request; above it, HTTP 413."""
    seconds: float = 60.0
    """Seconds of one action; then the world is given up."""
    idle: float = 600.0
    """Seconds after which a session that nobody asks is closed."""


@dataclass(eq=False)
class _Session:
    hosted: Hosted
    owner: Owner
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    used: float = field(default_factory=time.monotonic)
    number: int = -1
    """Number of the last step."""
    answer: Observation = field(default_factory=dict[str, Any])

    async def do(self, work: Callable[[], Observation]) -> Observation:
        """Do work in the world and return the observation; a failure is an answer, too."""
        self.used = time.monotonic()
        try:
            return await self.owner(work)
        except Exception as error:  # noqa: BLE001 (a world's code; the other side raises it)
            return failed(error)
        finally:
            self.used = time.monotonic()


class _Routes:
    """Answers by address, and the worlds that are open."""

    def __init__(self, environment: Environment, limits: ServerLimits) -> None:
        self._environment, self._limits = environment, limits
        self._open: dict[str, _Session] = {}
        self._thread = ThreadPoolExecutor(1)
        self._splits: dict[float, asyncio.Future[str]] = {}
        """By share held out, oldest first; a text of megabytes each."""

    async def reset(self, request: Request) -> Any:
        body = await _body(request)
        try:
            task = Task.from_json(cast("Any", body.get("task")), "task")
        except RodsError as error:
            raise HTTPException(422, str(error)) from error
        if len(self._open) >= self._limits.sessions:
            raise HTTPException(429, f"{len(self._open)} worlds are open, no more are taken")
        # On a thread also where calls only compute: one that never ends must not stop the service.
        computes = not self._environment.blocking
        owner = Owner(True, 1e9, self._limits.seconds, computes, "rods serve-env --seconds")
        name, session = secrets.token_hex(16), _Session(Hosted(self._environment, task), owner)
        self._open[name] = session
        opened = await session.do(session.hosted.open)
        if "error" in opened:
            self._end(name)
        return _json({"episode_id": name, "observation": opened, "reward": None, "done": False})

    async def step(self, request: Request) -> Any:
        body = await _body(request)
        action, number = body.get("action"), body.get("number")
        if not isinstance(action, dict) or type(number) is not int:
            raise HTTPException(422, "a step needs an action and its number")
        session = self._find(str(body.get("episode_id")))
        async with session.lock:
            if number not in (session.number, session.number + 1):
                raise HTTPException(
                    409, f"step {number} does not follow step {session.number} of this session"
                )
            if number > session.number:
                step = partial(session.hosted.step, action)
                session.answer = await session.do(step)
                session.number = number
            seen = session.answer
        done = bool(seen.get("done"))
        return _json({"observation": seen, "reward": seen.get("reward"), "done": done})

    async def state(self, episode_id: str) -> Any:
        return {"episode_id": episode_id, "step_count": self._find(episode_id).hosted.steps}

    async def close(self, request: Request) -> Any:
        self._end(str((await _body(request)).get("episode_id")))
        return {}

    async def tasks(self, request: Request) -> Any:
        held_out = (await _body(request)).get("held_out", 0.0)
        if type(held_out) not in (int, float) or not 0 <= held_out < 1:
            raise HTTPException(422, f"held_out is {held_out!r}, expected a share below 1")
        share = float(held_out)
        made = self._splits.get(share) or self._make_splits(share)
        try:
            return Response(await asyncio.shield(made), media_type="application/json")
        except RodsError as error:
            self._splits.pop(share, None)
            raise HTTPException(422, str(error)) from error

    def _make_splits(self, held_out: float) -> asyncio.Future[str]:
        """Let a thread make the tasks of both splits; the latest few stay for who asks again."""
        if len(self._splits) == SPLITS:
            oldest = next(iter(self._splits))
            if not self._splits[oldest].done():
                why = f"tasks of {SPLITS} other shares are being made: ask again"
                raise HTTPException(503, why, {"Retry-After": "5"})
            del self._splits[oldest]
        loop = asyncio.get_running_loop()
        made = self._splits[held_out] = loop.run_in_executor(self._thread, self._tasks, held_out)
        return made

    def _tasks(self, held_out: float) -> str:
        split = own_split(self._environment, list(self._environment.tasks(held_out)), held_out)
        train, other = ([task.to_json() for task in side] for side in (split.train, split.held_out))
        return json.dumps({"train": train, "held_out": other, "digest": split.digest})

    async def health(self) -> Any:
        return {"environment": self._environment.name, "sessions": len(self._open)}

    def _find(self, name: str) -> _Session:
        if name not in self._open:
            raise HTTPException(404, "there is no such session; it may have been idle for too long")
        return self._open[name]

    def _end(self, name: str) -> None:
        session = self._open.pop(name, None)
        if session is not None:
            session.owner.close(cast("Any", session.hosted))

    async def reap(self) -> None:
        """Close sessions that nobody asks, again and again."""
        while True:
            await asyncio.sleep(self._limits.idle / 4)
            before = time.monotonic() - self._limits.idle
            for name in [n for n, s in self._open.items() if s.used < before]:
                self._end(name)

    def end(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        for name in list(self._open):
            self._end(name)


async def _body(request: Request) -> dict[str, Any]:
    found = json.loads(await request.body() or b"null")  # the guard has read it
    if not isinstance(found, dict):
        raise HTTPException(400, "expected a JSON object")
    return found


def _json(data: object) -> Response:
    """Data as ASCII: what a tool gives may hold half of a character, or NaN."""
    return Response(json.dumps(data), media_type="application/json")


def environment_app(
    environment: Environment, limits: ServerLimits, token: str, hosts: frozenset[str] | None = LOCAL
) -> Guard:
    """The service of an environment, an ASGI application.

    Clients must show the token as a bearer, and may call this machine what `hosts` says; None:
    anything.
    """
    routes = _Routes(environment, limits)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncGenerator[None]:
        reaper = asyncio.create_task(routes.reap())
        yield
        reaper.cancel()
        routes.end()

    app = FastAPI(title=f"rods environment {environment.name}", lifespan=life, openapi_url=None)
    for name in ("reset", "step", "close", "tasks", "health"):
        app.post(f"/{name}")(getattr(routes, name))
    app.get("/state")(routes.state)
    app.get("/health")(routes.health)
    return Guard(app, token, hosts, limits.body)
