"""Somebody who talks with the agent within a turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rods.abilities import ability
from rods.env import UserSimulator, World
from rods.envs.hints import hinted
from rods.envs.remote.messages import Hosted
from rods.errors import EnvError, TaskError
from rods.integrations.task_rollout import TaskRollout
from rods.policy import ScriptedPolicy
from rods.task import Task
from rods.types import ParseVerdict, ToolCall
from rollout_cases import TEMPLATE, play, play_groups, script
from worlds import NotesEnvironment, notes_task

ADD = ToolCall("add", {"amount": 2})
TASK = notes_task([("add two", [ADD]), ("thanks", [])])


class Talkative(NotesEnvironment):
    """Opens a turn by its number, and replies twice in the first one."""

    opened = 0

    def open(self, task: Task) -> World:
        world: Any = super().open(task)
        Talkative.opened += 1
        number, replies = Talkative.opened, ["Go on.", "And on."]

        class Talking(type(world)):  # type: ignore[misc]
            def opens(self) -> str:
                return f"I am {number}."

            def reply(self, text: str) -> str | None:
                return f"{replies.pop(0)} ({text})" if replies else None

        world.__class__ = Talking
        return world


def test_replies_go_on_within_the_turn() -> None:
    policy = script("what?", "[add(amount=2)]", "so?", "ok", "bye")
    played = play(TASK, policy, Talkative(), steps_per_turn=9)
    assert played.failure is None
    assert [s.turn for s in played.steps] == [0, 0, 0, 0, 1]
    users = [m.content for m in played.messages if m.role == "user"]
    assert users[0].endswith("add two\n\nI am 1.") or users[0].startswith("add two")
    assert users[1:3] == ["Go on. (what?)", "And on. (so?)"]
    assert users[3].startswith("thanks")
    assert [v.solved for v in played.verdicts] == [True, True]
    assert [s.verdict for s in played.steps].count(ParseVerdict.ANSWER) == 4


def test_steps_bound_a_talk() -> None:
    played = play(TASK, script("a", "b", "c", "d"), Talkative(), steps_per_turn=2)
    assert [s.turn for s in played.steps] == [0, 0, 1]  # nobody replies any more in the second
    cut = play(TASK, script("a", "[total()]", "b", "c"), Talkative(), steps_per_turn=2)
    assert not cut.verdicts[0].answered, "what it said first was replied to"


def test_each_talk_reads_its_own_opening() -> None:
    """First prompts are rendered once for a group, but not where somebody opens."""
    policy: ScriptedPolicy = script("a", "b", "c", "d", "e", "f", "g")
    (group,) = play_groups([TASK], policy, Talkative(), k=3)
    prompts = {TEMPLATE.decode(t.spans[0].ids) for t in group.trajectories}
    assert len(prompts) == 3


def test_a_talk_goes_on_under_hints() -> None:
    world = ability(hinted(Talkative().open(TASK)), UserSimulator)
    assert world and world.opens().startswith("I am ") and world.reply("a") == "Go on. (a)"


class Counted(NotesEnvironment):
    """Notes which worlds are open; a turn of one may fail."""

    def __init__(self, kind: NotesEnvironment, fails: bool = False) -> None:
        super().__init__()
        self.kind, self.fails, self.worlds = kind, fails, list[World]()

    def open(self, task: Task) -> World:
        world = self.kind.open(task)

        class Closing(type(world)):  # type: ignore[misc]
            def begin_turn(mine, index: int) -> None:
                if self.fails:
                    raise EnvError("the shop is shut")
                super().begin_turn(index)

            def close(mine) -> None:
                self.worlds.remove(mine)
                super().close()

        world.__class__ = Closing
        self.worlds.append(world)
        return world


@pytest.mark.parametrize("host", [lambda *given: Hosted(*given).open(), TaskRollout])
def test_a_world_that_is_refused_is_closed(host: Callable[..., object]) -> None:
    environment = Counted(Talkative())
    with pytest.raises(TaskError, match=r"simulates a user.*rods\.env\.UserSimulator"):
        host(environment, TASK)
    assert environment.worlds == []


def test_a_world_whose_first_turn_fails_is_closed() -> None:
    environment = Counted(NotesEnvironment(), fails=True)
    with pytest.raises(EnvError, match="the shop is shut"):
        TaskRollout(environment, TASK)
    assert environment.worlds == []
