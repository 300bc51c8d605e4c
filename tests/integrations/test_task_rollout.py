"""Tasks in other loops: as a conversation of texts, and as TRL's duck-typed environment."""

from __future__ import annotations

import dataclasses
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from rods.dialects import structured, structured_dialects
from rods.errors import EnvError, TaskError
from rods.integrations.formats.exports import export, verl_row
from rods.integrations.task_rollout import TaskRollout, TextEpisode
from rods.integrations.trl_environments import TaskEnvironment, task_environments
from rods.synthesis.structure.trace import all_tools
from rods.task import Task
from rods.types import Message, ToolCall, ToolResult
from rollout_cases import play, script
from synthesis_cases import ENVIRONMENT, named
from worlds import SPECS, NotesEnvironment, NotesWorld, notes_task

HERMES = structured("hermes")
ADD, NOTE = ToolCall("add", {"amount": 2}), ToolCall("note", {"text": "x"})
TASK = notes_task([("add two", [ADD]), ("and then", []), ("it is x", [NOTE])])


def trl_tools(made: TaskEnvironment) -> dict[str, Any]:
    """The methods that TRL 1.16 offers to the policy, found as it finds them."""
    names = [name for name, _ in inspect.getmembers(type(made), predicate=inspect.isfunction)]
    hidden = ("reset", "get_reward")
    return {n: getattr(made, n) for n in names if n not in hidden and not n.startswith("_")}


@pytest.mark.parametrize("category", ["base", "miss_func", "miss_param", "long_context"])
def test_a_conversation_is_a_rollout(category: str) -> None:
    """The ground truth, said as a policy would, solves every turn."""
    task = named(f"multi_turn_{category}_7")
    talk = TextEpisode(ENVIRONMENT, task, HERMES)
    assert talk.opening[-1].content == task.turns[0].user
    heard: list[str] = []
    for turn in task.turns:
        for call in turn.ground_truth:
            heard += [m.content for m in talk.respond(HERMES.write([call])) if m.role == "user"]
        heard += [m.content for m in talk.respond(HERMES.answer("Done.")) if m.role == "user"]
    assert talk.rollout.over and talk.rollout.progress() == 1.0
    for said, turn, before in zip(heard, task.turns[1:], task.turns[:-1], strict=True):
        assert said.startswith(turn.user)
        assert ("More functions" in said) == (len(before.withheld) > len(turn.withheld))
    assert talk.respond("more") == (), "nothing comes after the end"


@pytest.mark.parametrize("name", structured_dialects())
def test_a_policy_reads_what_it_reads_in_our_rollouts(name: str) -> None:
    """Without tools in the first turn, and with new ones later, in each dialect."""
    dialect = structured(name)
    turns = [("hello", []), ("add two", [ADD]), ("it is x", [NOTE])]
    task = notes_task(turns, {0: tuple(spec.name for spec in SPECS), 1: ("note",)})
    texts = [dialect.answer("Hi."), dialect.write([ADD]), *[dialect.answer("Done.")] * 2]
    ours = play(task, script(*texts), dialect=name, steps_per_turn=2, context_tokens=9_999)
    talk = TextEpisode(NotesEnvironment(), task, dialect, steps=2)
    read = [*talk.opening]
    for step in ours.steps:
        read += [Message("assistant", step.text), *talk.respond(step.text)]
    plain = [(m.role, m.content) for m in ours.messages]
    assert [(m.role, m.content) for m in read] == plain and talk.rollout.over
    row = verl_row(task, 0, NotesEnvironment(), name, "train")
    asked = [plain[3][1], plain[7][1]]  # behind the answers
    assert [(m["role"], m["content"]) for m in row["prompt"]] == plain[:2]
    assert row["extra_info"]["interaction_kwargs"]["processed_question"] == asked


def test_faults_come_back_and_calls_count_where_none_is_wanted() -> None:
    talk = TextEpisode(NotesEnvironment(), TASK, HERMES, steps=3)
    for text in ("<tool_call>{", HERMES.write([ToolCall("fly", {})])):
        (back,) = talk.respond(text)
        assert back.role == HERMES.feedback_role and "rror" in back.content
    assert [m.role for m in talk.respond(HERMES.write([ADD]))] == ["tool", "user"], (
        "steps are spent"
    )
    talk.respond(HERMES.write([ToolCall("fly", {})]))
    talk.respond(HERMES.answer("What?"))
    talk.respond(HERMES.write([NOTE]))
    talk.respond(HERMES.answer("Done."))
    assert talk.rollout.over and talk.rollout.progress() == pytest.approx(2 / 3)


class HalfWorld(NotesWorld):
    """Its tools make halves of characters, as one that reads escapes can."""

    def call(self, call: ToolCall) -> ToolResult:
        return ToolResult(f"{super().call(call).content}\ud800")


class Half(NotesEnvironment):
    def open(self, task: Task) -> NotesWorld:
        super().open(task)
        return HalfWorld(self, task, 0)


def test_no_half_of_a_character_comes_back() -> None:
    """Feedback quotes what the policy wrote, and a host sends it as UTF-8."""
    assert TaskRollout(Half(), TASK).call(ADD).content == "2\ufffd"
    talk = TextEpisode(NotesEnvironment(), TASK, HERMES)
    call = '{"name": "add", "arguments": {"amount": 1}, "k\\ud800": 1}'
    (back,) = talk.respond(f"<tool_call>{call}</tool_call>")
    assert 'the key "k\ufffd" does not belong' in back.content


def test_trl_gets_tools_reward_and_the_next_request(tmp_path: Path) -> None:
    tasks = [named("multi_turn_base_7"), named("multi_turn_base_3")]
    export(tasks, tmp_path / "t.jsonl", "trl", ENVIRONMENT)
    rows = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    factories = task_environments(ENVIRONMENT, tasks)
    for task, row in zip(tasks, rows, strict=True):
        made = factories[row["environment"]]()
        assert trl_tools(made).keys() == {*all_tools(ENVIRONMENT, task), "reply_to_user"}
        for solved in (True, False):  # instances are used again
            given = {key: value for key, value in row.items() if key != "environment"}
            assert made.reset(**given) is None
            said = [task.turns[0].user]
            for turn in task.turns:
                for call in turn.ground_truth if solved else ():
                    assert isinstance(getattr(made, call.name)(**call.arguments), str)
                said.append(made.reply_to_user("Done."))
            assert said == [*(t.user for t in task.turns), "The conversation is over."]
            assert made.get_reward() == float(solved)


@pytest.mark.slow
def test_trl_reads_the_tools_from_the_methods() -> None:
    """By transformers' own reader of signatures, hints and docstrings."""
    from transformers.utils import get_json_schema

    task = named("multi_turn_base_7")
    (kind,) = task_environments(ENVIRONMENT, [task]).values()
    for name, spec in all_tools(ENVIRONMENT, task).items():
        shown = get_json_schema(trl_tools(kind())[name])["function"]
        read = shown["parameters"]
        assert shown["name"] == name
        assert read["properties"].keys() == spec.properties.keys()
        assert set(read.get("required", ())) == set(spec.required)
        for key, schema in spec.properties.items():
            assert read["properties"][key]["type"] == schema["type"], (name, key)


def test_what_is_open_at_the_end_is_not_an_answer() -> None:
    made = task_environments(NotesEnvironment(), [TASK])["notes"]()
    made.reset(**{"task": TASK.to_json()})
    assert made.add(amount=2) == "2"  # type: ignore[attr-defined]
    made.reply_to_user("Done.")
    assert made.get_reward() == pytest.approx(1 / 3), "saying nothing is no abstention"
    with pytest.raises(EnvError, match="reset comes first"):
        type(made)().get_reward()


def test_a_world_that_breaks_gives_no_reward() -> None:
    class Breaking(NotesEnvironment):
        def open(self, task: Task) -> Any:
            world = super().open(task)
            world.call = lambda _: (_ for _ in ()).throw(EnvError("away"))  # type: ignore
            return world

    made = task_environments(Breaking(), [TASK])["notes"]()
    made.reset(task=TASK.to_json())
    with pytest.raises(EnvError, match="away"):
        made.add(amount=2)  # type: ignore[attr-defined]
    with pytest.raises(EnvError, match="there is no reward: away"):
        made.get_reward()


def test_what_trl_cannot_play_is_refused() -> None:
    withheld = dataclasses.replace(
        TASK, turns=(dataclasses.replace(TASK.turns[0], withheld=("add",)),)
    )
    with pytest.raises(TaskError, match="it withholds tools"):
        task_environments(NotesEnvironment(), [withheld])
    with pytest.raises(TaskError, match="columns prompt carries no task"):
        task_environments(NotesEnvironment(), [TASK])["notes"]().reset(prompt="x")
