"""Our tasks as a taskset of verifiers (its interface v1), and the environment that rolls them out.

Owns the way between its agents and our worlds. Turns, withheld tools and rewards are those of
`task_rollout`: our side is the user, and the agent's replies are read by a dialect. Needs the
package `verifiers`; nothing else imports this. `examples/verifiers/rods_tasks.py` gives it an id.

    taskset = RodsTaskset(TasksConfig(tasks="tasks.jsonl", environment="bfcl"))
    next(iter(taskset)).key                            # the id of our task
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rods.dialects import structured
from rods.env import Environment
from rods.envs import make_environment
from rods.integrations.formats.exports import verifiers_row
from rods.integrations.task_rollout import TextEpisode
from rods.task import Task

if TYPE_CHECKING:
    _vf: Any = None
else:
    _vf = importlib.import_module("verifiers.v1")

__all__ = ["RodsEnv", "RodsTask", "RodsTaskset", "TaskRow", "TasksConfig"]


class TaskRow(_vf.TaskData):
    """Data that travels: a row of `rods convert --format verifiers`."""

    task: str
    """Ours, as JSON. No part of a prompt."""
    environment: str
    """Short name or `module:attribute`."""
    arguments: str
    """Arguments of the environment's factory, as JSON."""
    dialect: str
    steps: int
    """Texts of one turn; after them it ends without an answer."""


class TasksConfig(_vf.TasksetConfig):
    """Settings: `--env.taskset.KEY`."""

    tasks: str
    """A file in any form that the environment reads."""
    environment: str = "bfcl"
    """Short name or `module:attribute`."""
    arguments: str = "{}"
    """Arguments of the environment's factory, as JSON."""
    dialect: str = "hermes"
    """In which the agent calls and answers."""
    steps: int = 20
    """Texts of one turn."""


class RodsTask(_vf.Task[TaskRow]):
    """One task; its key is our id, so that the curriculum knows it again."""

    @property
    def key(self) -> str:
        """The id of our task."""
        return str(self.data.id)


class RodsTaskset(_vf.Taskset[RodsTask, TasksConfig]):
    """The tasks of a file."""

    INFINITE: ClassVar[bool] = False

    def load(self) -> Iterable[RodsTask]:
        """All of them, in the file's order; raises `TaskError` for what cannot be rolled out."""
        config: Any = self.config
        environment = _environment(config.environment, config.arguments)
        for index, task in enumerate(environment.load(Path(config.tasks))):
            yield row_of(task, index, config)


def row_of(task: Task, index: int, config: Any) -> RodsTask:
    """One task of RODS, such as a variant, for verifiers; `config` is a `TasksConfig`.

    Raises:
        TaskError: verifiers cannot say it.
    """
    # The user's first words are said by our side when the conversation begins.
    row = {**verifiers_row(task, index), "prompt": None}
    how = {k: getattr(config, k) for k in ("environment", "arguments", "dialect", "steps")}
    return RodsTask(TaskRow(**row, **how), config.task)


class EnvConfig(_vf.EnvConfig):
    """One agent, without tools of its own."""

    agent: _vf.AgentConfig = _vf.AgentConfig(harness={"id": "null"})  # pyright: ignore


class RodsEnv(_vf.Env[EnvConfig]):
    """Rolls out a task with an agent; the reward `progress` is the share of turns solved."""

    async def run(self, task: Any, agents: Any) -> None:
        """One episode. A world that breaks fails it, which is not a reward of 0."""
        row: Any = task.data
        environment = _environment(row.environment, row.arguments)
        ours = Task.from_json(json.loads(row.task), f"task {row.id}")
        talk = TextEpisode(environment, ours, structured(row.dialect), row.steps)
        try:
            system, user = talk.opening
            asked = task.with_system_prompt(system.content)
            async with agents.agent.interaction(asked) as interaction:
                segment = await interaction.turn(user.content)
                while not segment.terminated:
                    back = talk.respond(segment.last_reply)
                    if talk.rollout.over:
                        break
                    text = "\n\n".join(message.content for message in back)
                    segment = await interaction.turn(text)
            talk.rollout.end(answered=False)
            interaction.trace.record_reward("progress", talk.rollout.progress())
        finally:
            talk.rollout.close()


@lru_cache(maxsize=8)
def _environment(name: str, arguments: str) -> Environment:
    return make_environment(name, json.loads(arguments))
