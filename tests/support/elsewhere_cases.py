"""Worlds behind HTTP and their trajectories, to be compared with those of this process."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rods.config import RolloutSettings
from rods.env import Environment
from rods.envs.remote.server import ServerLimits, environment_app
from rods.infra.listen import server as listening
from rods.policy import Policy
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import run_groups
from rods.task import Task
from rods.trajectory import Trajectory
from rods.types import ToolCall
from rollout_cases import DIALECT, TEMPLATE
from worlds import notes_task

ADD = ToolCall("add", {"amount": 2})
TASK = notes_task(
    [("add two", [ADD]), ("note it", []), ("it is x", [ToolCall("note", {"text": "x"})])],
    withheld={0: ("note",), 1: ("note",)},
)


@contextmanager
def served(environment: Environment, token: str = "secret", **limits: Any) -> Iterator[str]:
    """The address of a service that plays these worlds; its token is in the environment."""
    app = environment_app(environment, ServerLimits(**limits), token)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        server = listening(app, limits.get("sessions", 1024), 1 << 20)
        found.listen(64)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [found]}, daemon=True)
        thread.start()
        before = os.environ.get("RODS_ENV_TOKEN")
        os.environ["RODS_ENV_TOKEN"] = token
        try:
            yield f"http://127.0.0.1:{found.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)
            os.environ.pop("RODS_ENV_TOKEN")
            if before is not None:
                os.environ["RODS_ENV_TOKEN"] = before


def played(
    tasks: list[Task], environment: Environment, policy: Policy, **more: Any
) -> list[Trajectory]:
    usual = {"k": 2, "max_invalid": 1.0, "context_tokens": 32_768, "temperature": 0.0}
    settings = RolloutSettings(**{**usual, **more})

    async def collect() -> list[Trajectory]:
        context = RolloutContext(environment, policy, DIALECT, TEMPLATE, settings)
        return [t async for group in run_groups(context, tasks) for t in group.trajectories]

    return [dataclasses.replace(t, seconds=0.0) for t in asyncio.run(collect())]


def bfcl_tasks(environment: Environment) -> list[Task]:
    tasks = [t for t in environment.tasks(0.5) if len(t.turns) <= 4]
    by_category = {t.category: t for t in tasks}
    return list(by_category.values())
