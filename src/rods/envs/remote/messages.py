"""Messages between a trajectory and a world that runs elsewhere, as JSON, and both ends.

Owns the form of actions and observations. It carries nothing: whoever has a way to send an action
and get its observation makes a world of it (`RemoteWorld`), whoever has a world answers (`Hosted`).

    world = RemoteWorld(hosted.open(), send, end)              # here
    hosted.step({"type": "call", "call": {"name": "ls", "arguments": {}}})     # there
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from rods import env
from rods.abilities import ability
from rods.envs.hints import hint_of
from rods.errors import EnvError, TaskError
from rods.infra.interrupt import shown
from rods.task import Task, call_from_json, call_to_json
from rods.types import Json, ToolCall, ToolResult, ToolSpec

Action: TypeAlias = dict[str, Json]
Observation: TypeAlias = dict[str, Any]
Send: TypeAlias = Callable[[Action], Observation]
"""Raises `EnvError` where no answer comes, or the world broke."""


class Hosted:
    """A world on the side where it runs."""

    def __init__(self, environment: env.Environment, task: Task) -> None:
        self._environment, self._task = environment, task
        self._world: env.World | None = None
        self._judge: env.AnswerJudge | None = None
        self._ending: env.Ending | None = None
        self._turn = -1
        self.steps = 0  # Actions so far

    def open(self) -> Observation:
        """Make the world: what every later action needs to know of it.

        Raises:
            TaskError: the world cannot run elsewhere.
        """
        world = self._world = self._environment.open(self._task)
        if ability(world, env.UserSimulator):
            self.close()
            raise TaskError(
                f"task {self._task.id}: this world simulates a user (rods.env.UserSimulator) and "
                "runs only in the process of the rollout. Set rollout.worlds.processes = 0, and "
                "use no environment on another machine."
            )
        self._judge, self._ending = ability(world, env.AnswerJudge), ability(world, env.Ending)
        return {"judges": self._judge is not None, "ends": self._ending is not None}

    def step(self, action: Mapping[str, Any]) -> Observation:
        """Do one action; `reward` and `done` stand in the observation where a turn ended.

        Raises:
            EnvError: there is no such action, or the world is not open.
        """
        self.steps += 1
        kind, world = str(action.get("type")), self._world
        if world is None:
            raise EnvError("this world is closed.")
        if kind == "begin_turn":
            self._turn = int(action["index"])
            world.begin_turn(self._turn)
            return {"offered": [dataclasses.asdict(spec) for spec in world.offered()]}
        if kind == "call":
            result = env.called(world, call_from_json(action["call"]))
            shown: Observation = {"content": result.content, "failed": result.failed}
            if ran := env.seconds_ran(world):
                shown["ran"] = ran
            return shown | ({"ended": self._ending.ended()} if self._ending else {})
        if kind == "hint":
            failure = ToolResult(str(action["content"]), failed=True)
            return {"hint": hint_of(world, call_from_json(action["call"]), failure)}
        if kind == "judge_answer" and self._judge:
            return {"correct": self._judge.judge_answer(str(action["text"]))}
        if kind == "end_turn":
            verdict = world.end_turn()
            done = self._turn == len(self._task.turns) - 1
            reward = float(verdict.solved)
            return {"verdict": dataclasses.asdict(verdict), "reward": reward, "done": done}
        if kind == "snapshot":
            return {"snapshot": _state_text(world.snapshot())}
        raise EnvError(f"there is no action {kind!r} in this world.")

    def close(self) -> None:
        """Close the world, if it is open."""
        world, self._world = self._world, None
        if world is not None:
            world.close()


class RemoteWorld:
    """A world on the side of the trajectory, with the abilities of the one on the other side."""

    def __init__(self, opened: Observation, send: Send, end: Callable[[], object]) -> None:
        """`opened` is what `Hosted.open` said."""
        self._send, self._end = send, end
        # Methods of those worlds alone that have them: `rods.abilities.ability` looks for them.
        if opened["judges"]:
            self.judge_answer = self._judged
        if opened["ends"]:
            self.ended = lambda: self._why_ended
        self._offered: tuple[ToolSpec, ...] = ()
        self._closed = False
        self._why_ended = ""  # as the last call's answer said
        self._ran = 0.0

    def begin_turn(self, index: int) -> None:
        """Enter a turn; its tools come with the answer."""
        self._why_ended = ""
        rows = self._send({"type": "begin_turn", "index": index})["offered"]
        self._offered = tuple(ToolSpec(**row) for row in rows)

    def offered(self) -> tuple[ToolSpec, ...]:
        """The tools of the current turn; none before the first."""
        return self._offered

    def call(self, call: ToolCall) -> ToolResult:
        """Execute one call there."""
        found = self._send({"type": "call", "call": call_to_json(call)})
        self._why_ended = str(found.get("ended", ""))
        self._ran = float(found.get("ran", self._ran))
        return ToolResult(str(found["content"]), bool(found["failed"]))

    def hint(self, call: ToolCall, result: ToolResult) -> str:
        """Hint after a failed call, as the other side knows."""
        action: Action = {"type": "hint", "call": call_to_json(call), "content": result.content}
        return str(self._send(action)["hint"])

    def ran(self) -> float:
        """Seconds of the policy's programs, as the last call's answer said."""
        return self._ran

    def _judged(self, text: str) -> bool:
        """Reply of the world there to an answer."""
        return bool(self._send({"type": "judge_answer", "text": text})["correct"])

    def end_turn(self) -> env.TurnVerdict:
        """The verdict of the world there."""
        return env.TurnVerdict(**self._send({"type": "end_turn"})["verdict"])

    def snapshot(self) -> str:
        """Public state as a text; equal states have equal texts."""
        return str(self._send({"type": "snapshot"})["snapshot"])

    def close(self) -> None:
        """Let the other side close it."""
        if not self._closed:
            self._closed = True
            self._end()


def _state_text(value: object) -> str:
    """Equal for equal states, 1 and 1.0 too; keys of any kinds, which JSON could not sort."""
    if isinstance(value, dict):
        items = value.items()
        rows = sorted(f"{_state_text(key)}: {_state_text(inner)}" for key, inner in items)
        return f"{{{', '.join(rows)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_state_text, value))}]"
    return repr(int(value) if isinstance(value, float) and value.is_integer() else value)


def failed(error: BaseException) -> Observation:
    """An error as an answer, so that nobody asks again for what would fail again."""
    return {"error": shown(error), "task": isinstance(error, TaskError)}


def checked(answer: Observation) -> Observation:
    """An answer that is not an error; raises `TaskError` or `EnvError` as it failed there."""
    if "error" in answer:
        raise (TaskError if answer.get("task") else EnvError)(str(answer["error"]))
    return answer
