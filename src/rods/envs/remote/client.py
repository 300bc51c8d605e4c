"""`env.name = "remote"`: worlds that a service runs (`rods serve-env`).

Owns the requests. A service that is busy, broken or away is a failure of infrastructure:
`EnvError`, never a result. A step whose answer was lost is asked for again by its number, and done
once.

    environment = RemoteEnvironment("http://worlds.example:8010", token="RODS_ENV_TOKEN")
    world = environment.open(task)
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from rods.env import Environment
from rods.envs.class_world import ClassTasks
from rods.envs.remote.messages import Action, Observation, RemoteWorld, checked
from rods.errors import EnvError
from rods.infra.service import Service, ServiceFailure, read_key
from rods.split import Split, split
from rods.task import Task


class RemoteEnvironment(ClassTasks, Environment):
    """Runs worlds on a service.

    Args beside those of `rods.infra.service.Service`:
        token: Name of the environment variable that holds its token, where it wants one.

    Raises:
        EnvError: the service does not answer.
    """

    blocking = True

    def __init__(
        self, url: str, token: str = "RODS_ENV_TOKEN", seconds: float = 90.0, size: int = 256
    ) -> None:
        secret = read_key(token)
        self._headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        self._url, self._seconds, self._size = url, seconds, size
        self._reset, self._step, self._close, self._tasks = map(
            self._service, ("/reset", "/step", "/close", "/tasks")
        )
        self.name = str(_asked(self._service("/health"), {})["environment"])
        """Name of the environment which the service runs, since tasks name it."""
        self._own: Split | None = None

    def _service(self, path: str) -> Service:
        return Service(
            self._url, path, "env.remote.url", self._seconds, size=self._size, headers=self._headers
        )

    def open(self, task: Task) -> RemoteWorld:
        """A world on the service; raises `TaskError` if it cannot load the task's."""
        answer = _asked(self._reset, {"task": task.to_json()})
        opened = checked(answer["observation"])
        name, numbers = str(answer["episode_id"]), itertools.count()

        def send(action: Action) -> Observation:
            body = {"episode_id": name, "number": next(numbers), "action": action}
            return checked(_asked(self._step, body)["observation"])

        return RemoteWorld(opened, send, lambda: _asked(self._close, {"episode_id": name}))

    def tasks(self, held_out: float) -> Sequence[Task]:
        """The service's own tasks; it parts them too."""
        answer = _asked(self._tasks, {"held_out": held_out})
        train, other = (
            tuple(Task.from_json(row, f"{self._tasks.where}, {side}") for row in answer[side])
            for side in ("train", "held_out")
        )
        self._own = Split(train, other, str(answer["digest"]))
        return [*train, *other]

    def part(self, tasks: Sequence[Task], held_out: float | None) -> Split:
        """Split the service's own tasks as it does, and those of files by scenario."""
        if held_out is None and self._own is not None:
            return self._own
        return split(tasks, held_out_share=held_out or 0.0)


def _asked(service: Service, body: object) -> dict[str, Any]:
    def understand(answer: object) -> dict[str, Any]:
        if not isinstance(answer, dict):
            raise ServiceFailure(f"{service.where} answered {str(answer)[:200]!r}", False)
        return answer

    try:
        return service.ask(body, understand)[0]
    except ServiceFailure as failure:
        raise EnvError(f"the environment's service failed: {failure}") from failure
