"""Our worlds as an OpenEnv environment: any client of OpenEnv rolls them out, text by text.

Owns the words of the protocol: actions, observations, state, the list of tasks. Turns, withheld
tools and rewards are those of `task_rollout`. Needs the extra `openenv`; nothing else imports it.

    app = openenv_app(environment, structured("hermes"), token="secret")   # serve-env --openenv

    with GenericEnvClient(base_url="http://localhost:8010/secret").sync() as env:
        result = env.reset(split="train", index=3)                    # or task=TASK_ROW
        result = env.step({"text": "<tool_call>...</tool_call>"})
        result.observation["messages"], result.reward, result.done

A step's reward is None until the conversation is over; then it is the share of turns solved.
"""

# pyright: reportMissingImports=false, reportUntypedBaseClass=false
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment as OpenEnvironment
from openenv.core.env_server.types import Action, Observation, State

from rods.dialects.base import Dialect
from rods.env import Environment, own_split
from rods.errors import TaskError
from rods.infra.guard import LOCAL, Guard
from rods.integrations.task_rollout import TextEpisode
from rods.task import Task
from rods.types import Message


class Text(Action):
    """Text of the policy."""

    text: str


class NewMessages(Observation):
    """Reply to the policy."""

    messages: list[dict[str, str]]
    """With `role` and `content`; the first time the whole opening, tools included."""


class Standing(State):
    """Where the conversation stands."""

    task_id: str = ""
    turn: int = 0
    turns: int = 0


STEPS = 20  # Texts of one turn; after them it ends without an answer


def openenv_app(
    environment: Environment,
    dialect: Dialect,
    token: str,
    *,
    body: int = 4 << 20,
    held_out: float = 0.25,
    sessions: int = 1024,
) -> Guard:
    """The service, an ASGI application.

    Args:
        token: clients must show it, as a bearer or, as OpenEnv's own client sends no header, as
            the first part of the path.
        body: bytes of one request.
        held_out: share of generated tasks that is on the side `test`.
        sessions: conversations at once.
    """

    @cache
    def splits() -> Mapping[str, Sequence[Task]]:
        split = own_split(environment, list(environment.tasks(held_out)), held_out)
        return {"train": split.train, "test": split.held_out}

    single = {"REQUIRES_SINGLE_THREAD_EXECUTOR": not environment.blocking}
    kind: Any = type("RodsEnvironment", (_Worlds,), single)

    def made() -> Any:
        return kind(lambda task: TextEpisode(environment, task, dialect, STEPS), splits)

    app = create_fastapi_app(
        made,
        Text,
        NewMessages,
        max_concurrent_envs=sessions,
        env_name=environment.name,
        state_cls=Standing,
    )
    return Guard(app, token, LOCAL, body, in_path=True)


class _Worlds(OpenEnvironment):
    """One session: a conversation after another."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(
        self,
        begin: Callable[[Task], TextEpisode],
        splits: Callable[[], Mapping[str, Sequence[Task]]],
    ) -> None:
        """`splits` makes the environment's own tasks by split ready when they are asked for."""
        super().__init__()
        self._begin, self._splits = begin, splits
        self._talk: TextEpisode | None = None
        self._state = Standing()

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        *,
        task: dict[str, Any] | None = None,
        split: str = "train",
        index: int | None = None,
        **_: Any,
    ) -> NewMessages:
        """Begin a task of RODS, or one of the environment's own; by its seed if none is named."""
        self.close()
        if task is not None:
            chosen = Task.from_json(task, "task")
        else:
            count = self.num_tasks(split)
            number = (seed or 0) % count if index is None and count else index or 0
            chosen = self._find(split, number)
        self._talk = self._begin(chosen)
        turns = len(chosen.turns)
        self._state = Standing(episode_id=episode_id, task_id=chosen.id, turns=turns)
        return NewMessages(messages=_plain(self._talk.opening))

    def step(self, action: Text, timeout_s: float | None = None, **_: Any) -> NewMessages:
        talk = self._talk
        if talk is None:
            raise TaskError("no task was begun: reset comes first.")
        messages = _plain(talk.respond(action.text))
        rollout = talk.rollout
        self._state.step_count += 1
        self._state.turn = rollout.turn
        reward = rollout.progress() if rollout.over else None
        return NewMessages(messages=messages, reward=reward, done=rollout.over)

    @property
    def state(self) -> Standing:
        return self._state

    def close(self) -> None:
        talk, self._talk = self._talk, None
        if talk is not None:
            talk.rollout.close()

    # OpenEnv's list of tasks; ground truths stay here.

    def list_splits(self) -> list[str]:
        return list(self._splits())

    def num_tasks(self, split: str) -> int:
        return len(self._splits().get(split, ()))

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        task = self._find(split, index)
        return {"id": task.id, "index": index, "category": task.category}

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        return [self.get_task(split, index) for index in range(self.num_tasks(split))]

    def get_task_range(
        self, split: str, start: int | None = None, stop: int | None = None
    ) -> list[dict[str, Any]]:
        return self.list_tasks(split)[start:stop]

    def _find(self, split: str, index: int) -> Task:
        """One task; raises `IndexError`, which OpenEnv answers with 400, where there is none."""
        count = self.num_tasks(split)
        if not 0 <= index < count:
            raise IndexError(f"{split!r} has {count} tasks, so {index} is not among them.")
        return self._splits()[split][index]


def _plain(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in messages]
