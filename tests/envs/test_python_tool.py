"""The environment `python_tool`: its tool, judge and interpreters, what the curriculum asks."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

import pytest

from rods.abilities import QuestionSource
from rods.config import EnvSettings, load_config
from rods.dialects import get_dialect
from rods.env import AnswerJudge
from rods.envs import make_environment
from rods.envs.originals import split_tasks
from rods.envs.python_tool import PythonToolSettings
from rods.envs.python_tool.environment import PythonToolEnvironment, PythonToolWorld, shown
from rods.envs.questions import QuestionSettings
from rods.envs.questions.families import HELD_OUT, question_task
from rods.errors import EnvError, TaskError
from rods.evaluation.check import check_tasks
from rods.rewards.answers import leniently
from rods.sandbox.execution import Execution
from rods.task import Provenance, Task, Turn
from rods.types import ParseVerdict, ToolCall, ToolResult
from services import answered, service

TASK = question_task("multiply", 3, 7)  # What is 609 * 38?


@pytest.fixture(scope="module")
def environment() -> Iterator[PythonToolEnvironment]:
    made = PythonToolEnvironment(seconds=5, size=1, preload=())
    yield made
    made.close()


@pytest.fixture
def world(environment: PythonToolEnvironment) -> Iterator[PythonToolWorld]:
    made = environment.open(TASK)
    made.begin_turn(0)
    yield made
    made.close()


def run(world: PythonToolWorld, code: object) -> ToolResult:
    return world.call(ToolCall("code_interpreter", {"code": code}))  # type: ignore[dict-item]


def test_a_program_runs_and_only_what_it_prints_comes_back(world: PythonToolWorld) -> None:
    assert run(world, "print(609 * 38)\n3 + 4") == ToolResult("23142\n")
    assert run(world, "x = 1") == ToolResult("")


@pytest.mark.parametrize(
    "code", ["```python\n{}\n```", "```py\n{}\n```\n", "```\n{}\n```", "\n    {}", "{}"]
)
def test_a_fence_around_a_program_is_not_run(world: PythonToolWorld, code: str) -> None:
    program = "x = '```'\nprint(x)"
    indent = "\n" + code.partition("{")[0].rpartition("\n")[2]
    assert run(world, code.format(program.replace("\n", indent))) == ToolResult("```\n")


def test_programs_stand_alone(world: PythonToolWorld) -> None:
    run(world, "x = 3")
    again = run(world, "print(x)")
    assert again.failed and again.content.endswith("NameError: name 'x' is not defined")


@pytest.mark.parametrize(
    ("code", "end"),
    [
        ("print('before')\n1/0", "ZeroDivisionError: division by zero"),
        ("print(", "SyntaxError: '(' was never closed"),
        ("raise SystemExit(3)", "the program ended with exit status 3"),
        ("print('x' * 300000)", "Error: it printed more than 262144 bytes"),
        ("open('/etc/passwd')", "Permission denied: '/etc/passwd'"),
    ],
)
def test_a_failure_is_the_programs_and_its_last_line_says_why(
    world: PythonToolWorld, code: str, end: str
) -> None:
    result = run(world, code)
    assert result.failed and result.content.endswith(end)
    assert "before" not in result.content


def test_a_long_traceback_keeps_its_end() -> None:
    stderr = "".join(f"line {n}\n\n" for n in range(50))
    assert shown(Execution("", stderr, "error", 0.0)).content.split("\n")[0] == "line 30"
    late = Execution("", "", "limit", 5.0, "time", "it ran longer than 5 s")
    assert shown(late) == ToolResult("TimeoutError: it ran longer than 5 s", failed=True)


def test_half_characters_reach_no_pipe(world: PythonToolWorld) -> None:
    assert run(world, "print('\ud800')") == ToolResult("?\n")


@pytest.mark.parametrize("code", [3, None, "", " \n", ["print(1)"]])
def test_what_is_no_program_is_refused(world: PythonToolWorld, code: object) -> None:
    result = run(world, code)
    assert result.failed and "expected a program" in result.content


def test_another_tool_is_refused(world: PythonToolWorld) -> None:
    result = world.call(ToolCall("code_interpretor", {"code": "print(1)"}))
    assert result.failed and "Did you mean code_interpreter?" in result.content


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (r"So it is \boxed{23142}.", True),
        (r"\boxed{1} or rather \boxed{23{,}142}", True),
        (r"\boxed{23142} no, \boxed{5}", False),
        ("<answer>23142</answer>", True),
        (r"<answer>5</answer> \boxed{23142}", True),
        ("The answer is 23142.", False),
        ("```python\nprint('\\\\boxed{23142}')\n```\n```output", False),
        (r"<code>\boxed{23142}</code> I do not know", False),
        ("", False),
    ],
)
def test_the_answer_is_judged_boxed_then_tagged_outside_of_programs(
    world: PythonToolWorld, text: str, right: bool
) -> None:
    assert isinstance(world, AnswerJudge)
    assert world.judge_answer(text) is right


def test_turns_and_their_end(environment: PythonToolEnvironment) -> None:
    world = environment.open(TASK)
    with pytest.raises(EnvError, match="outside of a turn"):
        run(world, "print(1)")
    world.begin_turn(0)
    before = world.snapshot()
    run(world, "print(1)")
    verdict = world.end_turn()
    assert (verdict.calls, verdict.correct, verdict.expects_calls) == (1, None, False)
    assert world.snapshot() == before == {}
    world.close()
    world.close()
    with pytest.raises(EnvError, match="closed"):
        world.snapshot()


def test_a_withheld_tool_is_not_offered(environment: PythonToolEnvironment) -> None:
    bare = dataclasses.replace(TASK, turns=(Turn("?", withheld=("code_interpreter",)),))
    world = environment.open(bare)
    world.begin_turn(0)
    assert world.offered() == ()
    assert run(world, "print(1)").failed
    world.close()


def test_tasks_without_an_answer_are_refused(environment: PythonToolEnvironment) -> None:
    with pytest.raises(TaskError, match="expected 'python_tool'"):
        environment.open(dataclasses.replace(TASK, env="bfcl"))
    with pytest.raises(TaskError, match=r"world\['answer'\] is None"):
        environment.open(dataclasses.replace(TASK, world={}))


@pytest.mark.slow
def test_seconds_and_memory_of_a_program_are_settings() -> None:
    asked = ["env.name=python_tool", "env.python_tool.seconds=0.7", "env.python_tool.memory_mb=64"]
    environment = make_environment("python_tool", load_config("torl", "", asked).env.arguments)
    assert isinstance(environment, PythonToolEnvironment)
    late = environment.execute("while True: pass", bare=True)
    large = environment.execute("print(len(bytearray(96 << 20)))", bare=True)
    environment.close()
    assert (late.limit, large.limit) == ("time", "memory") and late.seconds < 5


def test_a_remote_sandbox_by_setting() -> None:
    with service(lambda body, number: answered(stdout="42\n")) as (url, seen):
        settings = EnvSettings(name="python_tool", python_tool=PythonToolSettings(sandbox=url))
        environment = make_environment("python_tool", settings.arguments)
        world = environment.open(TASK)
        world.begin_turn(0)
        assert world.call(ToolCall("code_interpreter", {"code": "print(42)"})).content == "42\n"
        assert seen[0][1]["code"] == "print(42)"
        world.close()
        environment.close()  # type: ignore[attr-defined]


def test_a_sandbox_that_fails_is_no_fault_of_the_program() -> None:
    with service(lambda body, number: (400, b"no")) as (url, _):
        environment = PythonToolEnvironment(sandbox=url)
        world = environment.open(TASK)
        world.begin_turn(0)
        with pytest.raises(EnvError, match="the code sandbox failed"):
            run(world, "print(1)")
        environment.close()


@pytest.mark.slow
def test_the_pool_is_shared_and_comes_back_after_close() -> None:
    environment = PythonToolEnvironment(size=1, preload=())
    environment.warm_up()
    pool = environment._local()
    assert environment._local() is pool
    environment.close()
    environment.close()
    assert environment.execute("print(1)").stdout == "1\n"
    assert environment._local() is not pool
    environment.close()


# -- what the curriculum asks --------------------------------------------------------------------


def test_another_question_of_the_same_kind_and_side(environment: PythonToolEnvironment) -> None:
    assert isinstance(environment, QuestionSource)
    for seed in (7, HELD_OUT + 7):
        task = question_task("travel", 2, seed)
        made = environment.another(task, random.Random(1))
        assert made is not None and made == environment.another(task, random.Random(1))
        assert made.turns[0].user != task.turns[0].user
        assert (made.category, made.world["difficulty"]) == ("travel", 2)
        assert environment.is_held_out(made) is environment.is_held_out(task) is (seed >= HELD_OUT)


def test_another_question_is_judged_as_leniently(environment: PythonToolEnvironment) -> None:
    for task in (TASK, leniently(TASK)):
        made = environment.another(task, random.Random(1))
        assert made is not None and made.world.get("lenient") == task.world.get("lenient")


def test_replay_finds_wrong_answers(environment: PythonToolEnvironment) -> None:
    assert environment.replay(TASK) is None
    wrong = dataclasses.replace(TASK, world={**TASK.world, "answer": "5"})
    assert "made by another version" in str(environment.replay(wrong))
    loaded = Task("python_tool", "aime", (Turn("?"),), {"answer": "5"}, Provenance("a-1", "a"))
    assert environment.replay(loaded) is None
    assert environment.another(loaded, random.Random(0)) is None


def test_replay_runs_the_program(
    environment: PythonToolEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "execute", lambda code, bare: Execution("7\n", "", "ok", 0.0))
    assert environment.replay(TASK) == "its program gives '7', its answer is '23142'"


@pytest.mark.slow
def test_check_replays_questions(environment: PythonToolEnvironment) -> None:
    good = [question_task("shopping", 2, seed) for seed in range(3)]
    odd = "}" + 200 * "5" + "{"  # no box can hold it
    loaded = Task("python_tool", "aime", (Turn("?"),), {"answer": odd}, Provenance("a-1", "a"))
    wrong = dataclasses.replace(TASK, world={**TASK.world, "answer": "5"})
    report = check_tasks([*good, loaded, wrong], environment)
    assert [(row.task, row.finding) for row in report.rows] == [
        (loaded.id, "unreachable"),
        (wrong.id, "unreachable"),
    ]


def test_structured_dialects_can_call_it(environment: PythonToolEnvironment) -> None:
    tools = {spec.name: spec for spec in environment.open(TASK).offered()}
    parse = get_dialect("hermes").parse  # type: ignore[union-attr]
    text = '<tool_call>{"name": "code_interpreter", "arguments": {"code": "print(1)"}}</tool_call>'
    parsed = parse(text, tools, False)
    assert parsed.verdict is ParseVerdict.CALLS
    assert parsed.calls == (ToolCall("code_interpreter", {"code": "print(1)"}),)


def test_settings_bring_tasks_that_the_environment_opens() -> None:
    environment = make_environment("python_tool")
    for task in split_tasks(
        EnvSettings(name="python_tool", questions=QuestionSettings(count=12))
    ).train:
        environment.open(task).close()
