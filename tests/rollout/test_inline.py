"""Inline episodes: one response with results inserted; what carries loss, budgets, failures."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import json
import time
from collections.abc import Callable, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers.processors import TemplateProcessing

from calculator_world import SPEC, Calculator, CalculatorWorld
from pretrain.tokenizer import train_tokenizer
from rods.config import RolloutSettings, TrainSettings
from rods.dialects import DIALECTS, InlineDialect, get_dialect, structured
from rods.dialects.fences import ReTool, Torl, ZeroTir
from rods.dialects.programs import printed
from rods.errors import ConfigError, EnvError, PolicyError, TaskError
from rods.policy import Completion, ScriptedPolicy, Session
from rods.rewards.reading import ending
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import preflight, run_episode
from rods.rollout.template import ChatTemplate
from rods.task import Task, Turn
from rods.trainers.examples import encode_row
from rods.trainers.losses import LossInputs, objective
from rods.trainers.samples import to_sample
from rods.trajectory import Group, Trajectory
from rods.types import FinishReason, Message, ParseVerdict, StopReason, ToolCall, ToolResult

TASK = Task("calculator", "add", (Turn("What is 473 * 28?"),), {"answer": "13244"})
NAMES = ("torl", "zerotir", "retool", "artist")
ANSWER = {
    "torl": r"It is \boxed{13244}.",
    "zerotir": r"</think> <answer> \boxed{13244} </answer>",
    "retool": r"<answer>\boxed{13244}</answer>",
    "artist": r"<answer>\boxed{13244}</answer>",
    "hermes": "It is 13244.",
}


@cache
def template() -> ChatTemplate:
    """A real byte-level BPE tokenizer that knows the fences only in part."""
    texts = ["```python\nprint(473 * 28)\n```\n```output\n13244\n```", "<code></code> été"]
    return ChatTemplate(train_tokenizer(texts * 3, ["is"], vocab=310))


class Listening:
    """Plays a script and keeps everything that the engine was fed and gave."""

    def __init__(self, *texts: str, closed: bool = True) -> None:
        ids = [template().encode(text) for text in texts]
        if closed:
            ids[-1].append(template().end_id)
        self._inner = ScriptedPolicy(ids, decode=template().raw_decode)
        self.version = 0
        self.seen: list[int] = []
        self.stops: list[tuple[str, ...]] = []

    def open(self, seed: int, shared_prompt: Sequence[int] = ()) -> ListeningSession:
        return ListeningSession(self, self._inner.open(seed, shared_prompt))


class ListeningSession:
    def __init__(self, policy: Listening, inner: Session) -> None:
        self._policy, self._inner = policy, inner

    async def generate(
        self,
        new_ids: Sequence[int],
        max_tokens: int,
        temperature: float,
        stops: Sequence[str] = (),
        top_p: float = 1.0,
    ) -> Completion:
        completion = await self._inner.generate(new_ids, max_tokens, temperature, stops, top_p)
        self._policy.seen += [*new_ids, *completion.ids]
        self._policy.stops.append(tuple(stops))
        return completion

    def close(self) -> None:
        self._inner.close()


def program(name: str, number: int = 0) -> str:
    """What the policy writes to have `print(number)` run."""
    if name == "hermes":
        call = {"name": "code_interpreter", "arguments": {"code": f"print({number})"}}
        return f"<tool_call>\n{json.dumps(call)}\n</tool_call>"
    dialect: Any = get_dialect(name)
    return f"So été {number}.\n" + dialect.demonstration([f"print({number})"], ["1"], "")[0][0]


def play(
    name: str,
    policy: Listening,
    run: Callable[[str], ToolResult] | None = None,
    environment: Calculator | None = None,
    task: Task = TASK,
    **changes: Any,
) -> Trajectory:
    world = environment or Calculator(run or (lambda code: ToolResult(f"ran {code}\n")))
    settings = RolloutSettings(**{"max_invalid": 1.0, **changes})
    context = RolloutContext(world, policy, get_dialect(name), template(), settings)
    return asyncio.run(run_episode(context, task))


def solution(name: str, calls: int) -> Listening:
    texts = [program(name, number) for number in range(calls)]
    if name == "hermes":
        end = template().raw_decode([template().end_id])
        return Listening(*[text + end for text in texts], ANSWER[name])
    return Listening(*texts, ANSWER[name])


@pytest.mark.parametrize("calls", [0, 1, 2, 5])
@pytest.mark.parametrize("name", [*NAMES, "hermes"])
def test_invariant_1_no_environment_token_carries_loss(name: str, calls: int) -> None:
    policy = solution(name, calls)
    trajectory = play(name, policy)
    assert trajectory.failure is None and trajectory.stop is StopReason.DONE
    assert [len(step.calls) for step in trajectory.steps] == [1] * calls + [0]
    assert trajectory.ledger.ids == policy.seen  # what was ledgered is what the engine saw
    sample = to_sample(trajectory, 1.0)
    assert sample.ids.tolist() == policy.seen
    said = [span for span in trajectory.spans if span.sampled]
    text = "".join(template().raw_decode(span.ids) for span in said)
    assert template().raw_decode(sample.ids[sample.mask].tolist()) == text
    assert "ran print" not in text and text.count("print(") == calls
    given = "".join(template().raw_decode(s.ids) for s in trajectory.spans if not s.sampled)
    assert given.count("ran print") == calls
    assert sum(step.tokens for step in trajectory.steps) == trajectory.ledger.generated


@pytest.mark.parametrize("calls", [0, 2])
def test_an_answer_ends_where_the_settings_say_and_a_base_model_writes_on(calls: int) -> None:
    programs = [program("zerotir", number) for number in range(calls)]
    wordy = "It is <answer>\\boxed{13244}</answer>\nUser: And \\boxed{1}? <answer>2</answer>"
    free = Listening(*programs, wordy)
    played = play("zerotir", free)
    assert "User: And" in played.steps[-1].text
    policy = Listening(*programs, wordy, closed=False)
    played = play("zerotir", policy, stop=("</answer>",))
    last = played.steps[-1]
    assert played.stop is StopReason.DONE and played.failure is None
    assert last.verdict is ParseVerdict.ANSWER and last.text.count("</answer>") == 1
    assert "User" not in last.text and last.finish is FinishReason.STOP_STRING
    assert [len(step.calls) for step in played.steps] == [1] * calls + [0]
    assert played.ledger.ids == policy.seen and played.verdicts[0].answered
    assert ending(played) == "finished"


def test_the_settings_sampling_reaches_the_policy() -> None:
    class Noting(Listening):
        def open(self, seed: int, shared_prompt: Sequence[int] = ()) -> ListeningSession:
            session = super().open(seed, shared_prompt)
            generate = session.generate

            async def noted(*args: Any) -> Completion:
                asked.append(args[4])
                return await generate(*args)

            session.generate = noted  # type: ignore[method-assign]
            return session

    asked: list[float] = []
    play("torl", Noting(ANSWER["torl"]), top_p=0.7)
    assert asked == [0.7]


@pytest.mark.slow
@pytest.mark.parametrize("blocking", [True, False])
def test_a_judge_that_takes_its_time_does_not_make_a_trajectory_invalid(blocking: bool) -> None:
    class Slow(CalculatorWorld):
        def judge_answer(self, text: str) -> bool:
            time.sleep(0.6)
            return super().judge_answer(text)

    class Room(Calculator):
        def open(self, task: Task) -> CalculatorWorld:
            return Slow(self)

    room = Room(lambda code: ToolResult("1"))
    room.blocking = blocking
    played = play("torl", solution("torl", 1), environment=room, seconds=0.5)
    assert played.failure is None and played.stop is StopReason.DONE
    assert played.verdicts[0].correct


def test_a_program_that_sleeps_through_the_deadline_keeps_its_step() -> None:
    class Room(Calculator):
        def open(self, task: Task) -> CalculatorWorld:
            world: Any = super().open(task)
            world.ran = lambda: 9.0
            return world

    room = Room(lambda code: time.sleep(0.2) or ToolResult("1"))
    room.blocking = True
    played = play("torl", solution("torl", 2), environment=room, seconds=0.1)
    assert (played.stop, played.valid) == (StopReason.SECONDS, True)
    assert sum(step.tokens for step in played.steps) == played.ledger.generated > 0


@pytest.mark.parametrize("name", NAMES)
def test_ids_before_an_insertion_stay_as_they_are(name: str) -> None:
    whole = play(name, solution(name, 5)).ledger.ids
    for calls in (1, 2, 3):
        spans = play(name, solution(name, calls)).spans[:-1]  # without the answer
        ids = [i for span in spans for i in span.ids]
        assert whole[: len(ids)] == ids


@pytest.mark.parametrize("name", NAMES)
def test_ids_are_never_made_again_from_text(name: str) -> None:
    policy = solution(name, 1)
    letters = [i for c in program(name) for i in template().encode(c)]
    policy._inner = ScriptedPolicy(  # spelled letter by letter, as no encoder would
        [letters, [*template().encode(ANSWER[name]), template().end_id]],
        decode=template().raw_decode,
    )
    ids = play(name, policy).ledger.ids
    assert "".join(map(str, letters)) in "".join(map(str, ids))
    assert template().encode(template().raw_decode(ids)) != ids


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("torl", "```output\nran print(0)\n```\nIt"),
        ("zerotir", "```\n```output\nran print(0)\n```\n\n\n</think>"),
        ("retool", "</code>\n<interpreter>\nran print(0)\n</interpreter>\n<answer>"),
        ("artist", "</python>\n<output>\nran print(0)\n</output>\n<answer>"),
    ],
)
def test_what_the_policy_reads(name: str, text: str) -> None:
    trajectory = play(name, solution(name, 1))
    read = template().raw_decode(trajectory.ledger.ids)
    dialect: Any = get_dialect(name)
    assert read.startswith(dialect.prompt(TASK.turns[0].user)) and text in read
    assert "What is 473 * 28?" in read and "13244" not in read[: read.index("So été")]
    assert [m.role for m in trajectory.messages] == ["user", "assistant", "tool", "assistant"]
    assert trajectory.steps[0].calls == (ToolCall("code_interpreter", {"code": "print(0)"}),)


@pytest.mark.parametrize("name", NAMES)
def test_after_the_last_call_there_are_no_stop_strings(name: str) -> None:
    texts = [program(name, 0), program(name, 1), program(name, 2) + ANSWER[name]]
    policy = Listening(*texts)
    environment = Calculator(lambda code: ToolResult("7"))
    trajectory = play(name, policy, environment=environment, calls=2)
    assert environment.programs == ["print(0)", "print(1)"]
    assert policy.stops[-1] == () and all(policy.stops[:-1])
    last = trajectory.steps[-1]
    assert (last.verdict, last.calls) == (ParseVerdict.ANSWER, ())
    assert trajectory.stop is StopReason.DONE and trajectory.solved


def test_a_step_may_be_several_generations() -> None:
    policy = solution("zerotir", 1)
    trajectory = play("zerotir", policy)
    assert policy.stops == [("```python",), ("```",), ("```python",)]
    assert [len(span.ids) > 0 for span in trajectory.spans] == [True] * 5
    assert len(trajectory.steps) == 2


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("budget", "stop"),
    [("generated_tokens", StopReason.GENERATED), ("context_tokens", StopReason.CONTEXT)],
)
def test_budgets_of_tokens_end_the_response(name: str, budget: str, stop: StopReason) -> None:
    whole = play(name, solution(name, 2))
    total = whole.ledger.generated if budget == "generated_tokens" else len(whole.ledger)
    assert play(name, solution(name, 2), **{budget: total}).stop is StopReason.DONE
    prompt = 0 if budget == "generated_tokens" else len(whole.spans[0].ids)
    for limit in range(max(64, prompt + 1), total, 5):
        cut = play(name, solution(name, 2), **{budget: limit})
        assert cut.stop is stop and not cut.solved and cut.failure is None
        assert len(cut.ledger) <= limit or budget == "generated_tokens"
        assert cut.ledger.generated <= limit
        assert cut.ledger.ids == whole.ledger.ids[: len(cut.ledger)]
        assert sum(step.tokens for step in cut.steps) == cut.ledger.generated


def test_a_long_generation_is_truncated_and_not_run() -> None:
    environment = Calculator(lambda code: ToolResult("7"))
    trajectory = play("torl", solution("torl", 1), environment=environment, step_tokens=9)
    (step,) = trajectory.steps
    assert (step.verdict, step.finish) == (ParseVerdict.TRUNCATED, FinishReason.LENGTH)
    assert not environment.programs and not trajectory.solved
    assert trajectory.stop is StopReason.DONE and trajectory.verdicts[0].answered is False


@pytest.mark.parametrize("name", NAMES)
def test_a_failing_sandbox_makes_the_trajectory_invalid(name: str) -> None:
    def broken(code: str) -> ToolResult:
        raise EnvError("the sandbox is away")

    trajectory = play(name, solution(name, 1), broken)
    assert trajectory.stop is StopReason.FAILURE and not trajectory.valid
    assert "the sandbox is away" in str(trajectory.failure)


@pytest.mark.parametrize("name", [*NAMES, "hermes"])
def test_the_world_judges_the_answer(name: str) -> None:
    environment = Calculator(lambda code: ToolResult("13244"))
    right = play(name, solution(name, 1), environment=environment)
    assert right.verdicts[0].correct is True and right.solved
    assert "print(0)" in environment.judged[0] and "13244" in environment.judged[0]
    wrong = play(name, Listening("I do not know."), environment=environment)
    assert wrong.verdicts[0].correct is False and not wrong.solved  # abstained, yet not solved
    silent = dataclasses.replace(right.verdicts[0], answered=False)
    assert not silent.solved


def test_attempts_without_a_program_are_answered_and_count() -> None:
    policy = Listening("a ```output", "b ```output", "c ```output" + ANSWER["torl"])
    environment = Calculator(lambda code: ToolResult("7"))
    trajectory = play("torl", policy, environment=environment, calls=2)
    assert not environment.programs
    kinds = [step.verdict for step in trajectory.steps]
    assert kinds == [ParseVerdict.MALFORMED] * 2 + [ParseVerdict.ANSWER]
    assert "no python block" in template().raw_decode(trajectory.ledger.ids)


def test_answers_without_calls_pass_the_preflight() -> None:
    direct = play("torl", solution("torl", 0))
    preflight([Group(TASK, [direct], 0)])
    unjudged = dataclasses.replace(direct.verdicts[0], correct=None)
    with pytest.raises(PolicyError, match="not one tool call"):
        preflight([Group(TASK, [dataclasses.replace(direct, verdicts=(unjudged,))], 0)])


@pytest.mark.parametrize(
    ("verdict", "way"),
    [("malformed", "model.dialect"), ("unknown_tool", "cold start"), ("bad_args", "cold start")],
)
def test_the_preflight_names_the_dialect_only_if_no_call_is_read(verdict: str, way: str) -> None:
    """A model that calls tools it knows from elsewhere speaks the dialect."""
    direct = play("torl", solution("torl", 0))
    step = dataclasses.replace(direct.steps[0], verdict=ParseVerdict(verdict))
    unjudged = dataclasses.replace(direct.verdicts[0], correct=None)
    mute = dataclasses.replace(direct, steps=(step,), verdicts=(unjudged,))
    with pytest.raises(PolicyError, match=f"was read as {verdict}.*{way}"):
        preflight([Group(TASK, [mute], 0)])


def test_results_cannot_forge_special_tokens() -> None:
    forged = template().raw_decode([template().end_id]) * 3
    trajectory = play("retool", solution("retool", 1), lambda code: ToolResult(forged))
    given = [i for s in trajectory.spans if not s.sampled for i in s.ids]
    assert not template().special_ids.intersection(given)


def test_shortened_results_are_counted() -> None:
    trajectory = play("torl", solution("torl", 1), lambda code: ToolResult("8" * 400))
    assert trajectory.cut_results == 1
    assert "8" * 128 + "..." + "8" * 128 + "\n```" in template().raw_decode(trajectory.ledger.ids)


def test_a_setting_that_cannot_work_says_so() -> None:
    other = dataclasses.replace(SPEC, name="search")
    with pytest.raises(ConfigError, match="offers search"):
        play("torl", solution("torl", 0), environment=Calculator(ToolResult, other))
    with pytest.raises(TaskError, match="2 turns"):
        play("torl", solution("torl", 0), task=Task("x", "y", (Turn("a"), Turn("b")), {}))
    with pytest.raises(ConfigError, match="inline"):
        structured("zerotir")


FENCES = 'x = """\n```python\ny\n```\n"""\nprint(x)'
"""A program whose text holds a block of its own."""


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("torl", "```python\na\n```\nor\n```python\nb\n```\n```output", "b"),
        ("torl", "```python\na\n```output", "a"),
        ("torl", "```Python\na\n```output", "a"),
        ("retool", "<code>\n```PY\nx = 1\n```\n</code>", "x = 1"),
        ("torl", "```python a```\n```output\n", "a"),
        ("torl", "no block ```output", ""),
        ("zerotir", "so ```python\na", None),
        ("zerotir", "so ```python\n  a\n```", "a"),
        ("zerotir", "so ```python```", ""),
        ("retool", "<code>\n```python\nx = 1\nx\n```\n</code>", "x = 1\nprint(x)"),
        ("retool", "<code>2 + 2</code>", "print(2 + 2)"),
        ("retool", "```python\na\n```</code>", ""),
        ("artist", "<python>\n2 + 2\n</python>", "2 + 2"),
        ("artist", "<python>\n```python\nx = 1\nx\n```\n</python>", "x = 1\nx"),
        ("artist", "print(1)</python>", ""),
        # a fence in an item of a list
        ("torl", "1. So:\n   ```python\n   a = 1\n   b\n   ```\n   ```output", "a = 1\nb"),
        ("torl", "- ```python\n  a = 1\n  b\n  ```\n  ```output", "a = 1\nb"),
        ("torl", "```python\na\n```\n- ```python title=x\n  b\n  ```\n```output", "b"),
        ("zerotir", "1. So:\n   ```python\n   a = 1\n   b\n   ```", "a = 1\nb"),
        ("retool", "- <code>\n  ```python\n  a = 1\n  b\n  ```\n  </code>", "a = 1\nprint(b)"),
        ("artist", "- <python>\n  ```python\n  a = 1\n  b\n  ```\n  </python>", "a = 1\nb"),
        # an indented body without a fence
        ("retool", "<code>\n    a = 1\n    b\n</code>", "a = 1\nprint(b)"),
        ("artist", "<python>\n\n    if a:\n        b\n    c\n</python>", "if a:\n    b\nc"),
        ("artist", "<python>    a = 1\n    b</python>", "a = 1\nb"),
        # other fences
        ("torl", "```py\na\n```\n```output", "a"),
        ("torl", "``` python\na\n```\n```output", "a"),
        ("torl", "So: ```  py\na\n```\n```output", "a"),
        ("retool", "<code>\n``` python\na\n```\n</code>", "print(a)"),
        ("artist", "<python>\n``` py\na\n```\n</python>", "a"),
        ("torl", "```\na\n```\n```output", "a"),
        ("torl", "```json\n{}\n```\nand\n```\na\n```\n```output", "a"),
        ("torl", "```json\n{}\n```\n```output", ""),
        ("retool", "<code>\n```py\na\n```\n</code>", "print(a)"),
        ("retool", "<code>\n```\na\n```\n</code>", "print(a)"),
        ("artist", "<python>\n```python3\na\n```\n</python>", "a"),
        # a program that prints a fence, or a tag
        ("torl", "```python\nprint('```')\n```\n```output", "print('```')"),
        ("torl", "```python\nprint('```'\n```\n```output", "print('```'"),
        ("torl", "I use ``` here.\n```\na\n```\n```output", "a"),
        ("torl", "```python\nprint('```python')\nb\n```\n```output", "print('```python')\nb"),
        ("torl", f"```python\n{FENCES}\n```\n```output", FENCES),
        ("retool", f"<code>\n```python\n{FENCES}\n```\n</code>", FENCES),
        ("artist", f"<python>\n{FENCES}\n</python>", FENCES),
        ("artist", "<python>\nprint('<python>')\n</python>", "print('<python>')"),
        ("retool", "The <code> tag runs it:\n<code>a</code>", "print(a)"),
        # words amid and after
        ("torl", "```python\na\n```\nthe ```python block above\n```output", "a"),
        ("torl", "```python\na\n```\n```python\nb```output", "b"),
        ("torl", "go ```python a\nb\n```\n```output", "a\nb"),
    ],
)
def test_how_a_program_is_found(name: str, text: str, code: str | None) -> None:
    parsed = get_dialect(name).read(text)
    if code is None:
        assert parsed is None
    elif not code:
        assert parsed and parsed.verdict is ParseVerdict.MALFORMED and not parsed.calls
    else:
        assert parsed and [call.arguments["code"] for call in parsed.calls] == [code]


@pytest.mark.parametrize(
    ("source", "run"),
    [
        ("x", "print(x)"),
        ("x = 1", "x = 1"),
        ("print(x)", "print(x)"),
        ("if a:\n    b", "if a:\n    b"),
        ("f(\n1)", "f(\n1)"),
        ("x = 1 + \\\n2", "x = 1 + \\\n2"),
        ("'é' + x  # so", "print('é' + x)  # so"),
        ("x = (", "x = ("),
        (r"'\d'", r"print('\d')"),
    ],
)
def test_the_last_line_is_printed(source: str, run: str) -> None:
    assert printed(source) == run


def test_how_results_are_shortened() -> None:
    trace = 'Traceback:\n  File "/a/b/main.py", line 1\nZeroDivisionError: division by zero'
    torl, zerotir, retool = Torl(), ZeroTir(), ReTool()
    assert torl.shorten(ToolResult(trace, True), len) == "ZeroDivisionError: division by zero"
    assert torl.shorten(ToolResult("a\nb\n"), len) == "a\nb"
    assert torl.shorten(ToolResult("x" * 255), len) == "x" * 255
    assert torl.shorten(ToolResult("x" * 256), len) == "x" * 128 + "..." + "x" * 128
    assert "Timeout" in torl.shorten(ToolResult(" \n"), len)
    assert zerotir.shorten(ToolResult("x" * 256), len) == "x" * 256
    assert "too long" in zerotir.shorten(ToolResult("x" * 257), len)
    assert zerotir.shorten(ToolResult("x" * 900), lambda text: 3) == "x" * 900
    assert 'File "main.py"' in zerotir.shorten(ToolResult(trace, True), len)
    assert retool.shorten(ToolResult("x" * 900 + "\n"), len) == "x" * 900


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_demonstration_is_what_a_rollout_makes(name: str, count: int) -> None:
    programs = tuple(f"x = {n}\nprint(x)" for n in range(count))
    question = SimpleNamespace(text=TASK.turns[0].user, answer="13244", programs=programs)
    outputs = [f"{n}0\n" for n in range(count)]
    dialect: Any = get_dialect(name)
    pieces = dialect.demonstration(question.programs, outputs, question.answer)
    assert [mine for _, mine in pieces] == [True, False] * count + [True]
    queue = [ToolResult(output) for output in outputs]
    policy = Listening(*[text for text, mine in pieces if mine])
    trajectory = play(name, policy, lambda code: queue.pop(0))
    ids = template().encode(dialect.prompt(question.text))
    ids += [i for text, _ in pieces for i in template().encode(text)]
    assert trajectory.ledger.ids == [*ids, template().end_id] and trajectory.solved
    assert [str(c.arguments["code"]) for s in trajectory.steps for c in s.calls] == [*programs]
    with pytest.raises(TaskError, match="outputs"):
        dialect.demonstration(question.programs, ["1"] * (count + 1), question.answer)


@pytest.mark.parametrize("name", [*NAMES, "hermes"])
def test_the_world_model_experiment_is_off_by_default(name: str) -> None:
    assert TrainSettings().mask_env_tokens
    trajectory = play(name, solution(name, 2))
    masked, open_ = to_sample(trajectory, 1.0), to_sample(trajectory, 1.0, mask_env_tokens=False)
    prompt = len(trajectory.spans[0].ids)
    assert open_.mask.tolist() == [False] * prompt + [True] * (len(open_) - prompt)
    added = open_.mask & ~masked.mask
    assert "ran print(1)" in template().raw_decode(open_.ids[added].tolist())
    assert (
        np.isnan(open_.rollout_logprobs[added]).all()
        and np.isfinite(open_.rollout_logprobs[~added]).all()
    )
    assert np.array_equal(open_.rollout_logprobs[masked.mask], masked.rollout_logprobs[masked.mask])


@pytest.mark.parametrize("loss", ["clipped", "gspo"])
def test_tokens_without_a_sampling_probability_have_the_ratio_1(loss: str) -> None:
    new = torch.tensor([-1.0, -2.0, -0.5], requires_grad=True)
    old = torch.tensor([-1.5, float("nan"), float("nan")])
    inputs = LossInputs(
        old, torch.full((3,), 2.0), torch.full((3,), 1 / 3), torch.tensor([0, 0, 1])
    )
    settings = TrainSettings(loss=loss, kl=0, entropy=0, clip_high=9.0, clip_low=1.0)  # type: ignore[arg-type]
    terms = objective(new, torch.zeros(3), inputs, settings)
    (slope,) = torch.autograd.grad(terms.loss, new)
    assert torch.isfinite(terms.loss) and terms.sums["clip_high"] == 0
    assert float(slope[2]) == pytest.approx(-2 / 3)  # advantage times weight, nothing else


FIRST = "<|begin|>"


@cache
def begun() -> ChatTemplate:
    """A tokenizer whose post-processor puts a token before a text and one after it."""
    tokenizer: Any = train_tokenizer(["print(473 * 28)"] * 3, ["is"], vocab=310)
    tokenizer.add_special_tokens({"bos_token": FIRST})
    marks = [(FIRST, tokenizer.bos_token_id), ("<|end|>", tokenizer.eos_token_id)]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{FIRST} $A <|end|>", special_tokens=marks
    )
    return ChatTemplate(tokenizer)


@pytest.mark.parametrize("name", [*NAMES, "search_r1"])
def test_a_raw_prompt_begins_as_the_tokenizer_begins_a_text(name: str) -> None:
    dialect: Any = get_dialect(name)
    world = Calculator(lambda code: ToolResult("1"), dataclasses.replace(SPEC, name=dialect.tool))
    policy = Listening("5")
    context = RolloutContext(world, policy, dialect, begun(), RolloutSettings(max_invalid=1.0))
    ids = asyncio.run(run_episode(context, TASK)).ledger.ids
    prompt = dialect.prompt(TASK.turns[0].user)
    tokenizer: Any = begun().tokenizer
    whole = tokenizer.encode(prompt, add_special_tokens=True)
    assert ids[: len(whole) - 1] == whole[:-1] and ids.count(tokenizer.bos_token_id) == 1
    # Supervised data begin the same way, and a BOS that a row brings is not doubled.
    for text in (prompt, FIRST + prompt):
        row, _ = encode_row({"pieces": [[text, False], ["5", True]]}, begun())
        assert row[: len(whole) - 1] == whole[:-1]
        assert row.count(tokenizer.bos_token_id) == 1
    assert begun().raw_prompt("x") == [tokenizer.bos_token_id, *begun().encode("x")]
    assert template().raw_prompt("x") == template().encode("x")


def test_every_inline_dialect_is_tried() -> None:
    inline = {name for name in DIALECTS if isinstance(get_dialect(name), InlineDialect)}
    assert inline == {*NAMES, "search_r1"}


@pytest.mark.parametrize("shown", [False, True], ids=["without a BOS", "with a BOS"])
@pytest.mark.parametrize(
    "name", [name for name in DIALECTS if not isinstance(get_dialect(name), InlineDialect)]
)
def test_a_chat_prompt_begins_as_transformers_begins_it(name: str, shown: bool) -> None:
    """The template says whether a BOS stands there; no later round has one."""
    tokenizer: Any = copy.deepcopy(begun().tokenizer)
    if shown:
        tokenizer.chat_template = "{{ bos_token }}" + tokenizer.chat_template
    one, dialect = ChatTemplate(tokenizer), structured(name)
    said = [Message("system", dialect.system_prompt()), *dialect.opening((), "What?")]
    rows = [{"role": message.role, "content": message.content} for message in said]
    theirs = tokenizer.apply_chat_template(rows, add_generation_prompt=True, return_dict=True)
    assert one.prompt(said) == list(theirs["input_ids"])
    assert one.prompt(said).count(tokenizer.bos_token_id) == shown
    assert tokenizer.bos_token_id not in one.increment([Message("user", "more")])
