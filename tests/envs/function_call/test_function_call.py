"""Single steps: published rows read, multi-turn tasks split, names masked, nothing executed."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rods.assemble.refusals import require_named
from rods.config import EnvSettings, load_config
from rods.dialects import get_dialect
from rods.env import Environment
from rods.envs import make_environment
from rods.envs.function_call.environment import FunctionCallEnvironment, masked, single_steps
from rods.envs.function_call.world import key_of, tools_of
from rods.envs.function_call.written import called, schema_of
from rods.envs.originals import original_tasks, split_tasks
from rods.errors import ConfigError, EnvError, TaskError
from rods.evaluation.check import check_tasks
from rods.report.viewer import _messages
from rods.reward import score
from rods.rewards import get_reward
from rods.task import Task, Turn, read_tasks, write_tasks
from rods.types import Message, ToolCall
from rollout_cases import TEMPLATE, play, read_by_policy, script
from worlds import NotesEnvironment, notes_task

HERE = make_environment("function_call", {"environment": "bfcl"})
WEATHER = {
    "name": "weather",
    "description": "What weather() is like.",
    "parameters": {
        "city": {"description": "Which.", "type": "str"},
        "days": {"type": "int, optional"},
    },
}
CALL = {"name": "weather", "arguments": {"city": "Oslo", "days": 2}}
XLAM = {"id": 7, "query": "Rain?", "tools": json.dumps([WEATHER]), "answers": json.dumps([CALL])}
SCHEMA = {"type": "dict", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"name": "Get Weather (2 days)", "description": "It.", "parameters": SCHEMA}]
TOOLACE = {
    "system": f"Compose functions. Here is a list [{{of functions}}]:\n{json.dumps(TOOLS)}. Go.",
    "conversations": [
        {"from": "user", "value": "Oslo?"},
        {
            "from": "assistant",
            "value": '[Get Weather (2 days)(city="Oslo [N] (x)", n=[1, {"a": -2}])]',
        },
        {"from": "tool", "value": "[rain]"},
        {"from": "assistant", "value": "It rains."},
        {"from": "user", "value": "Rome and Bern?"},
        {
            "from": "assistant",
            "value": "[Get Weather (2 days)(city='Rome'), Get Weather (2 days)(city='B\\'ern')]",
        },
    ],
}
TOOL_N1 = {
    "raw_system": "Compose.",
    "tools": [WEATHER],
    "conversations": [
        {"from": "human", "value": "Rain?"},
        {"from": "function_call", "value": json.dumps([CALL])},
        {"from": "observation", "value": "no"},
        {"from": "gpt", "value": "[No] (it is dry)."},
        {"from": "human", "value": "And in Rome?"},
    ],
    "answer": [{"name": "weather", "arguments": {"city": "Rome"}}],
    "id": "toolace_multiple_turn",
}
INSTRUCTION = (
    "You help.\n\n**Available Tools**\nIn your response, you can use:\n1. Name: Get It\n"
    'Description: Two\nlines.\nParameters: {"x": {"description": "d", "type": "int", "default": 3}}'
    "\n2. Name: b\nDescription: \nParameters: {}\n\n**Steps for Each Turn**\n1. **Think:** so."
)
ASKED = (
    "**Dialogue Records History**\n<user> Do it. </user>\n\n<think> x </think>\n<tool_call>\n"
    '{"name": "b", "parameters": {}}\n</tool_call>\n<obs> done </obs>\n\n<think> y </think>\n'
    "<response> Done. </response>\n\n<user> Again. </user>"
)
WANTED = '<think> a <tool_call> </think>\n<tool_call>\n{"name": "Get It", "parameters": {"x": 1}}\n'
RLLA = {"instruction": INSTRUCTION, "input": ASKED, "output": f"{WANTED}</tool_call>"}
VERL = {
    "prompt": [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": ASKED}],
    "reward_model": {
        "style": "rule",
        "ground_truth": "<think> a </think>\n<response> No. </response>",
    },
}


def load(tmp_path: Path, *rows: Any, suffix: str = "jsonl") -> list[Task]:
    path = tmp_path / f"rows.{suffix}"
    if suffix == "parquet":
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.Table.from_pylist(list(rows)), path)
    else:
        text = json.dumps(rows) if suffix == "json" else "\n".join(map(json.dumps, rows))
        path.write_text(text)
    return HERE.load(path)


# -- published rows ------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["jsonl", "json", "parquet"])
def test_xlam(tmp_path: Path, suffix: str) -> None:
    loaded = {**XLAM, "answers": json.dumps([json.dumps(CALL), CALL])}
    one, two = load(tmp_path, XLAM, {**loaded, "query": "So?"}, suffix=suffix)
    assert one.turns == (Turn("Rain?", (ToolCall("weather", {"city": "Oslo", "days": 2}),)),)
    assert (one.dialogue, one.category, one.provenance.origin) == ((), "single", "rows-1-0")
    [tool] = tools_of(one)
    assert (tool.name, tool.required) == ("weather", ["city"])
    assert [p["type"] for p in tool.properties.values()] == ["string", "integer"]
    assert len(two.turns[0].ground_truth) == 2


def test_an_empty_list_of_answers_wants_words(tmp_path: Path) -> None:
    """Hammer's irrelevant questions."""
    [task] = load(tmp_path, {**XLAM, "answers": "[]"})
    assert not task.turns[0].ground_truth and "response" not in task.world


def test_toolace(tmp_path: Path) -> None:
    first, second = load(tmp_path, TOOLACE)
    arguments = {"city": "Oslo [N] (x)", "n": [1, {"a": -2}]}
    assert first.turns == (Turn("Oslo?", (ToolCall("Get Weather (2 days)", arguments),)),)
    assert [c.arguments for c in second.turns[0].ground_truth] == [
        {"city": "Rome"},
        {"city": "B'ern"},
    ]
    assert [m.role for m in second.dialogue] == ["user", "assistant", "tool", "assistant"]
    assert second.dialogue[1].calls == first.turns[0].ground_truth
    assert second.category == "multiple"
    assert first.provenance.scenario == second.provenance.scenario, "a row is on one side"


def test_tool_n1_rows(tmp_path: Path) -> None:
    [task] = load(tmp_path, TOOL_N1)
    assert task.turns == (Turn("And in Rome?", (ToolCall("weather", {"city": "Rome"}),)),)
    assert [m.content for m in task.dialogue] == ["Rain?", "", "no", "[No] (it is dry)."]


def test_tool_n1_s_prepared_rows(tmp_path: Path) -> None:
    tool = json.dumps({"type": "function", "function": WEATHER})
    prompt = [
        {
            "role": "system",
            "content": f"Here, in <tools> tags:\n<tools>\n{tool}\n{tool}\n</tools>\n",
        },
        {"role": "user", "content": "Rain?"},
        {"role": "assistant", "content": json.dumps(json.dumps([CALL]))},
        {"role": "tool", "content": "no"},
        {"role": "assistant", "content": "It is dry."},
        {"role": "user", "content": "And in Rome?"},
    ]
    wanted = json.dumps(TOOL_N1["answer"])
    for truth in (wanted, json.dumps(wanted)):
        row = {"prompt": prompt, "reward_model": {"style": "rule", "ground_truth": truth}}
        [task] = load(tmp_path, row)
        assert task.turns == load(tmp_path, TOOL_N1)[0].turns
        assert [str(m.calls or m.content) for m in task.dialogue] == [
            "Rain?",
            "(weather(city='Oslo', days=2),)",
            "no",
            "It is dry.",
        ]


def test_rlla(tmp_path: Path) -> None:
    raw, verl = load(tmp_path, RLLA)[0], load(tmp_path, VERL)[0]
    assert raw.turns == (Turn("Again.", (ToolCall("Get It", {"x": 1}),)),)
    assert (verl.turns, verl.dialogue) == ((Turn("Again."),), raw.dialogue)
    assert [(m.role, m.content) for m in raw.dialogue[2:]] == [
        ("tool", "done"),
        ("assistant", "Done."),
    ]
    assert [(t.name, t.description) for t in tools_of(raw)] == [
        ("Get It", "Two\nlines."),
        ("b", ""),
    ]
    [both] = load(tmp_path, {**RLLA, "output": f"{RLLA['output']}\n<response> b </response>"})
    assert both.world["response"] is True and both.turns[0].ground_truth
    [none] = load(tmp_path, {**RLLA, "output": "<think> nothing </think>"})
    assert none.world["response"] is False


def test_what_a_policy_of_toolrl_reads_is_what_rlla_says(tmp_path: Path) -> None:
    [task] = load(tmp_path, RLLA)
    dialect: Any = get_dialect("toolrl")
    [told] = dialect.opening(task.dialogue, task.turns[0].user)
    for part in ("<user> Do it. </user>", "<obs> done </obs>", "<response> Done. </response>"):
        assert part in told.content and part in ASKED
    assert "1. Name: Get It\nDescription: Two\nlines.\nParameters: {" in dialect.describe(
        tools_of(task)
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"a": 1}, r"its keys \['a'\] are of no form. Expected query, tools and answers"),
        ([1], r"the row is \[1\], expected an object"),
        ({**XLAM, "tools": "nothing"}, 'tools must be a list, got "nothing"'),
        ({**XLAM, "tools": "[5]"}, "an entry of tools is 5, expected an object"),
        ({**XLAM, "tools": '[{"description": "x"}]'}, "key 'name' is missing"),
        ({**XLAM, "answers": '[{"arguments": {}}]'}, "a call is {'arguments': {}}, expected"),
        ({**XLAM, "answers": '[{"name": "weather", "arguments": 5}]'}, "the arguments of weather"),
        ({**XLAM, "query": 5}, "query is 5, expected a text"),
        ({**TOOLACE, "system": "no list [{ here"}, "system holds no JSON list of tools"),
        ({**TOOLACE, "conversations": [{"from": "nobody", "value": ""}]}, "is from 'nobody'"),
        (
            {**TOOLACE, "conversations": ["hi"]},
            "an entry of conversations is 'hi', expected an object",
        ),
        ({**RLLA, "instruction": "none"}, "has no tools after"),
        ({**RLLA, "input": "Do it."}, "the input has no <user> message"),
        ({**RLLA, "output": "<tool_call>\n{broken\n</tool_call>"}, "a call is not JSON: '{broken'"),
        ({**RLLA, "output": '<tool_call>\n{"name": "b"}\n</tool_call>'}, "the parameters of b"),
        ({**VERL, "prompt": [{"role": "user", "content": "x"}]}, "key 'system' is missing"),
    ],
)
def test_a_broken_row_is_one_message_with_file_and_row(
    tmp_path: Path, row: Any, message: str
) -> None:
    with pytest.raises(TaskError, match=rf"rows\.jsonl:2: .*{message}"):
        load(tmp_path, XLAM, row)


def test_a_line_that_is_not_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(f"{json.dumps(XLAM)}\n\n{{'a': 1}}\n")
    with pytest.raises(TaskError, match=r"x\.jsonl:3: not JSON: .* Fix it, or remove the row"):
        HERE.load(tmp_path / "x.jsonl")
    with pytest.raises(TaskError, match="there is no such file of steps"):
        HERE.load(tmp_path / "y.jsonl")


def _spoken(text: str) -> dict[str, Any]:
    return {
        **TOOLACE,
        "conversations": [*TOOLACE["conversations"][:1], {"from": "gpt", "value": text}],
    }


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**XLAM, "answers": '[{"name": "sun", "arguments": {}}]'}, "not in its list: [sun()]"),
        ({**XLAM, "answers": '[{"name": "weather", "arguments": {"x": NaN}}]'}, "JSON cannot say"),
        ({**XLAM, "tools": "[]"}, "there are no tools"),
        (_spoken("[Sun(city='x')]"), "calls of unknown tools"),
        (_spoken("[Get Weather (2 days)('Oslo')]"), "the arguments are positional"),
        (_spoken("[Get Weather (2 days)(city=os.getcwd())]"), "the plain name of a function"),
        (_spoken("[Get Weather (2 days)(city=getcwd())]"), "a call as an argument"),
        (_spoken("[Get Weather (2 days)(city='x]"), "a bracket is not closed"),
        (_spoken("[Get Weather (2 days)(city='x') and so on]"), "stands 'and so on'"),
    ],
)
def test_steps_that_cannot_be_used_are_dropped_and_counted(
    tmp_path: Path, row: Any, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert len(load(tmp_path, XLAM, row)) == 1
    shown = [record.getMessage() for record in caplog.records]
    assert "rows.jsonl:2" in shown[0] and message in shown[0]
    assert shown[1].endswith("1 steps are dropped, 1 are kept")


def test_words_in_brackets_are_words() -> None:
    assert called("[sic]", ["f"]) == called("I would [f(x=1)] call.", ["f"]) == ()


@pytest.mark.parametrize(
    ("parameters", "properties", "required"),
    [
        (None, {}, []),
        ({"x": {"type": "List[int]"}}, {"x": {"type": "array"}}, ["x"]),
        ({"x": {"type": "str", "default": "a"}}, {"x": {"type": "string", "default": "a"}}, []),
        ({"x": {"type": "str", "default": ""}}, {"x": {"type": "string", "default": ""}}, ["x"]),
        (
            {"x": {"type": "int", "required": False}},
            {"x": {"type": "integer", "required": False}},
            [],
        ),
        ({"x": "what"}, {"x": {"description": "what"}}, ["x"]),
        ({"properties": {"type": "str"}}, {"properties": {"type": "string"}}, ["properties"]),
        ({"type": "dict", "properties": {"x": {"type": "any"}}}, {"x": {"type": "any"}}, []),
        (
            {"x": {"type": "Callable[[float], float]"}},
            {"x": {"type": "Callable[[float], float]"}},
            ["x"],
        ),
    ],
)
def test_parameters_become_a_schema(parameters: Any, properties: Any, required: list[str]) -> None:
    assert schema_of(parameters) == {
        "type": "object",
        "properties": properties,
        "required": required,
    }


# -- split ---------------------------------------------------------------------------------------

NOTE, TOTAL = ToolCall("note", {"text": "7 bags"}), ToolCall("total")
ADD = ToolCall("add", {"amount": 41})


def test_a_conversation_becomes_its_steps() -> None:
    task = notes_task([("Add 41, tell.", [ADD, TOTAL]), ("Which?", []), ("Note it.", [NOTE])])
    first, second, third = single_steps(task, NotesEnvironment(), "function_call")
    assert first.turns == (Turn("Add 41, tell.", (ADD, TOTAL)),)
    assert first.dialogue == ()
    assert second.turns == (Turn("Which?"),)
    assert [m.role for m in second.dialogue] == ["user", "assistant", "tool", "tool", "assistant"]
    assert second.dialogue[1].calls == (ADD, TOTAL)
    assert third.turns == (Turn("Note it.", (NOTE,)),)
    assert third.dialogue[-2:] == (
        Message("user", "Which?"),
        Message("assistant", "Which one exactly? Please tell me more."),
    )
    assert [t.provenance.origin.rpartition("-")[2] for t in (first, second, third)] == [
        "0",
        "1",
        "2",
    ]
    assert len({t.provenance.scenario for t in (first, second, third)}) == 1


def test_a_call_that_needs_a_result_waits_for_it_in_a_step_of_its_own() -> None:
    calls = [ADD, ToolCall("note", {"text": "141"})]
    task = notes_task([("Add 41 and note the total.", calls)], count=100)
    made = single_steps(task, NotesEnvironment(), "function_call")
    assert [step.turns[0].ground_truth for step in made] == [(calls[0],), (calls[1],)]
    assert made[1].turns[0].user == ""
    assert made[1].dialogue[-1] == Message("tool", "141")


def test_long_results_of_a_dialogue_are_shortened_visibly() -> None:
    calls = [ToolCall("note", {"text": "x" * 90}), ToolCall("read")]
    task = notes_task([("Note it, read it.", calls), ("Sum?", [TOTAL])])
    [_, last] = single_steps(task, NotesEnvironment(), "function_call", result_chars=20)
    told = [m.content for m in last.dialogue if m.role == "tool"]
    assert told == ["note 1", ":" + "x" * 19 + "\n[71 more characters were left out]"]


def test_a_conversation_whose_call_fails_gives_no_step() -> None:
    task = notes_task([("Divide.", [ToolCall("divide", {"by": 0})])])
    assert single_steps(task, NotesEnvironment(), "function_call") == []


@pytest.fixture(scope="module")
def steps() -> list[Task]:
    return original_tasks(EnvSettings(name="function_call"))


@pytest.mark.slow
def test_the_steps_of_the_benchmark_are_its_ground_truth(steps: list[Task]) -> None:
    source = make_environment("bfcl")
    wanted = {task.provenance.origin: task for task in source.tasks(0.0)}
    made: dict[str, list[ToolCall]] = {}
    for step in steps:
        made.setdefault(step.provenance.origin.rpartition("-")[0], []).extend(
            step.turns[0].ground_truth
        )
    assert len(steps) > 3_000
    assert len(made) > 790
    for origin, calls in made.items():
        truth = [call for turn in wanted[origin].turns for call in turn.ground_truth]
        # a step that stands in several categories of a scenario is one task
        assert len(calls) <= len(truth)
        assert set(map(key_of, calls)) <= set(map(key_of, truth))


@pytest.mark.slow
def test_no_step_shows_its_own_ground_truth(steps: list[Task]) -> None:
    """What is told before a step are earlier calls; its own are in no message and no tool."""
    dialect: Any = get_dialect("hermes")
    for step in steps[::7]:
        truth = step.turns[0].ground_truth
        told = dialect.opening(step.dialogue, step.turns[0].user)
        earlier = sum(len(m.calls) for m in step.dialogue)
        assert sum(m.content.count("<tool_call>") for m in told) == earlier
        if truth and not earlier:
            assert all(dialect.write([call]) not in m.content for m in told for call in truth)


@pytest.mark.slow
def test_every_step_solves_its_own_ground_truth_and_no_other(steps: list[Task]) -> None:
    report = check_tasks(steps[::5], HERE)
    assert report.ok and report.tasks > 600
    for step in steps[::50]:
        world = HERE.open(step)
        world.begin_turn(0)
        for call in step.turns[0].ground_truth[1:]:
            world.call(call)
        assert world.end_turn().solved is not bool(step.turns[0].ground_truth)


@pytest.mark.slow
def test_sides_are_those_of_the_source(steps: list[Task]) -> None:
    split = split_tasks(EnvSettings(name="function_call"))
    sides = [{task.provenance.scenario for task in side} for side in (split.train, split.held_out)]
    assert not sides[0] & sides[1]
    theirs = split_tasks(EnvSettings(name="bfcl"))
    assert sides[1] == {task.provenance.scenario for task in theirs.held_out}
    assert len(split.train) + len(split.held_out) == len(steps)


@pytest.mark.slow
def test_a_file_of_conversations_is_split_one_of_steps_is_not(
    tmp_path: Path, steps: list[Task]
) -> None:
    whole = list(make_environment("bfcl").tasks(0.0))[:3]
    write_tasks(tmp_path / "whole.jsonl", whole)
    made = HERE.load(tmp_path / "whole.jsonl")
    assert made == steps[: len(made)] and len(made) > 3
    write_tasks(tmp_path / "steps.jsonl", made)
    assert [t.to_json() for t in HERE.load(tmp_path / "steps.jsonl")] == [t.to_json() for t in made]
    assert next(iter(read_tasks(tmp_path / "steps.jsonl"))).env == "function_call"
    with pytest.raises(ConfigError, match=r"env\.function_call\.environment names no environment"):
        FunctionCallEnvironment().load(tmp_path / "whole.jsonl")


# -- masked names --------------------------------------------------------------------------------


@pytest.mark.slow
def test_masking_renames_tools_and_parameters_everywhere(steps: list[Task]) -> None:
    for step in [s for s in steps[::40] if s.dialogue and s.turns[0].ground_truth]:
        hidden = masked(step, random.Random(0))
        before, after = tools_of(step), tools_of(hidden)
        names = {a.name: b.name for a, b in zip(before, after, strict=True)}
        assert len(set(names.values())) == len(names)
        assert not set(names) & set(names.values())
        for a, b in zip(before, after, strict=True):
            assert len(a.properties) == len(b.properties) and len(a.required) == len(b.required)
            assert list(a.properties.values()) == list(b.properties.values())
            assert not set(a.properties) & set(b.properties)
        pairs = zip(step.turns[0].ground_truth, hidden.turns[0].ground_truth, strict=True)
        for old, new in pairs:
            assert new.name == names[old.name]
            assert list(new.arguments.values()) == list(old.arguments.values())
            assert set(new.arguments) <= set(
                next(t for t in after if t.name == new.name).properties
            )
        assert [m.content for m in hidden.dialogue] == [m.content for m in step.dialogue]
        assert all(c.name in names.values() for m in hidden.dialogue for c in m.calls)
        assert hidden.provenance.scenario == step.provenance.scenario
        assert masked(step, random.Random(0)) == hidden != masked(step, random.Random(1))
    assert check_tasks([masked(s, random.Random(2)) for s in steps[::60]], HERE).ok


@pytest.mark.parametrize(("share", "count"), [(0.0, 0), (0.5, 20), (1.0, 40)])
def test_a_share_of_the_steps_is_masked_always_the_same(
    tmp_path: Path, share: float, count: int
) -> None:
    rows = [{**XLAM, "query": f"Rain {n}?"} for n in range(40)]
    (tmp_path / "x.json").write_text(json.dumps(rows))
    environment: Environment = make_environment("function_call", {"masked": share})
    made = environment.load(tmp_path / "x.json")
    found = [t for t in made if t.provenance.origin.endswith("-masked")]
    assert abs(len(found) - count) <= (8 if 0 < count < 40 else 0)
    assert made == environment.load(tmp_path / "x.json")


# -- played --------------------------------------------------------------------------------------


def _played(name: str, task: Task, text: Callable[[Any], str]) -> Any:
    dialect: Any = get_dialect(name)
    return play(task, script(text(dialect)), HERE, name, steps_per_turn=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["toolrl", "tool_n1", "hermes", "compact", "think"])
def test_a_step_is_played_in_one_generation(tmp_path: Path, name: str) -> None:
    [task] = load(tmp_path, TOOL_N1)
    truth = task.turns[0].ground_truth
    played = _played(name, task, lambda dialect: dialect.write(truth))
    assert played.solved and len(played.steps) == 1 and played.steps[0].calls == truth
    read = read_by_policy(played)
    assert "And in Rome?" in read
    assert "What weather() is like." in read
    wrong = _played(name, task, lambda dialect: dialect.write([ToolCall("weather", {"city": "x"})]))
    assert not wrong.solved
    form = {} if name in ("toolrl", "tool_n1") else {"form": "dialect"}
    for reward in ("toolrl", "tool_n1"):
        if form or reward == name:
            best = score(get_reward(reward, form), task, played)
            assert best.value == {"toolrl": 4, "tool_n1": 1}[reward]
            assert score(get_reward(reward, form), task, wrong).value < best.value


def test_what_was_said_is_read_once_and_carries_no_loss(tmp_path: Path) -> None:
    [task] = load(tmp_path, TOOL_N1)
    played = _played("hermes", task, lambda dialect: dialect.write(task.turns[0].ground_truth))
    said = [(m.role, m.content) for m in played.messages]
    assert [role for role, _ in said[:6]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    ledger = played.ledger
    sampled = [i for i, m in zip(ledger.ids, ledger.mask, strict=True) if m]
    assert TEMPLATE.raw_decode(sampled).count("weather") == 1
    shown: Any = _messages(played.messages, played.steps)
    assert [row.get("verdict") for row in shown if row["role"] == "assistant"] == [
        None,
        None,
        "calls",
    ]


def test_an_inline_dialect_refuses_a_dialogue(tmp_path: Path) -> None:
    [task] = load(tmp_path, TOOL_N1)
    with pytest.raises(TaskError, match="1 turns and 4 earlier messages"):
        play(task, script("x"), HERE, "retool")  # type: ignore[arg-type]


def test_a_world_refuses_other_tasks_and_calls_out_of_turn(tmp_path: Path) -> None:
    [task] = load(tmp_path, XLAM)
    with pytest.raises(TaskError, match="env is 'bfcl' with 1 turns"):
        HERE.open(Task("bfcl", "x", task.turns, task.world))
    with pytest.raises(TaskError, match=r"world\['tools'\] must be a list"):
        HERE.open(Task("function_call", "x", task.turns, {"tools": [{"name": "a"}]}))
    world = HERE.open(task)
    with pytest.raises(EnvError, match="begin_turn comes first"):
        world.call(ToolCall("weather"))
    world.begin_turn(0)
    assert world.call(ToolCall("wether")).failed
    assert not world.end_turn().solved
    world.close()


@pytest.mark.parametrize(
    ("made", "solved"),
    [
        ([ToolCall("weather", {"days": 2.0, "city": "Oslo"})], True),
        ([ToolCall("weather", {"days": True, "city": "Oslo"})], False),
        ([ToolCall("weather", {"days": 2, "city": "Oslo"})] * 2, False),
        ([], False),
    ],
)
def test_which_calls_are_the_wanted_ones(
    tmp_path: Path, made: list[ToolCall], solved: bool
) -> None:
    [task] = load(tmp_path, XLAM)
    world = HERE.open(task)
    world.begin_turn(0)
    for call in made:
        world.call(call)
    assert len(world.snapshot()) == len(made)  # type: ignore[arg-type]
    assert world.end_turn().solved is solved


def test_a_curriculum_of_variants_is_refused_before_the_start() -> None:
    config = load_config("rods", "", ["env.name=function_call"])
    with pytest.raises(ConfigError, match=r"no writer of variants for env\.name 'function_call'"):
        require_named(config)
    require_named(load_config("rods", "", ["env.name=function_call", "curriculum=static"]))
