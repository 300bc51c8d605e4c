"""ARTIST's two rewards: their parts by tables and by an independent reference, and attacks."""

from __future__ import annotations

import dataclasses
import itertools
import random
from functools import lru_cache

import pytest

from rods.config import load_config
from rods.env import TurnVerdict
from rods.policies.demonstrations import ProgramPlan, demonstrations
from rods.recipes.artist_fc.reward import longest, sequence_shares
from rods.recipes.artist_math.reward import math_form
from rods.reward import Score, score
from rods.rewards import get_reward, rewards_of
from rods.task import Task, Turn
from rods.trajectory import Step, Trajectory
from rods.types import FinishReason, ParseVerdict, StopReason, ToolCall, ToolResult
from tir_cases import code, play, question

# -- mathematics ---------------------------------------------------------------------------------

RUN = "<python>print(6 * 7)</python>"
END = r"<answer>\boxed{42}</answer>"
WRONG = END.replace("42", "41")


def solved(*steps: Step | str, **constants: float) -> Score:
    return score(get_reward("artist_math", constants), question(), play(*steps))


@pytest.mark.parametrize(
    ("steps", "answer", "tool", "form"),
    [
        ((code(f"<think>a</think>{RUN}", False), f"<think>b</think>{END}"), 2, 1, 0.5),
        ((f"<think>a</think>{END}",), 2, 0, 0.5),
        ((code(RUN, False), END), 2, 1, 0.5 * 2 / 3),
        ((code(f"<think>a</think>{RUN}", True), code(RUN, False), END), 2, 0.5, 0.5),
        ((code(RUN, True), WRONG), 0, 0, 0.5 * 2 / 3),
        ((code(RUN, False), "42"), 0, 1, 0),
        ((code(RUN, False), r"\boxed{42}"), 2, 1, 0),
        ((f"{END} and so on",), 2, 0, 0.5 / 3),
        ((f"{WRONG}{END}",), 2, 0, 0),
        (("<answer>42",), 0, 0, 0),
        ((f"<think>a{END}",), 2, 0, 0.5 / 3),
        ((f"{END}<think>a</think>",), 2, 0, 0),
        (("",), 0, 0, 0),
        ((), 0, 0, 0),
    ],
)
def test_artist_math(
    steps: tuple[Step | str, ...], answer: float, tool: float, form: float
) -> None:
    result = solved(*steps)
    found = [result.parts[name] for name in ("answer", "tool", "form")]
    assert found == pytest.approx([answer, tool, form])
    assert result.value == pytest.approx(answer + tool + form)
    assert result.parts["correct"] == float(answer > 0)


def test_demonstrations_of_artist_have_the_form_that_its_reward_pays() -> None:
    for made in demonstrations(ProgramPlan(("artist",)), 0, range(24)):
        assert math_form("".join(text for text, own in made.pieces[1:] if own)) == 1.0


def test_the_form_is_worth_what_the_setting_says_whole_or_in_parts() -> None:
    whole, part = (code(f"<think>a</think>{RUN}", False), END), (code(RUN, False), END)
    assert solved(*whole, form_weight=1.0).parts["form"] == 1
    assert solved(*part, form_weight=1.0).parts["form"] == pytest.approx(2 / 3)
    assert solved(*part, partial=False).parts["form"] == 0
    assert solved(*whole, partial=False).parts["form"] == 0.5
    rewards = rewards_of(load_config("rods", "", ["rewards.artist.partial=false"]).rewards)
    for name in ("artist_math", "artist_fc"):
        assert not rewards._get(name).partial  # type: ignore[attr-defined]


def reference_form(text: str) -> float:
    """The form of mathematics by reading tag after tag."""
    tags: list[str] = []
    rest = text
    while "<" in rest:
        rest = rest[rest.index("<") :]
        known = [t for n in ("think", "python", "code", "answer") for t in (f"<{n}>", f"</{n}>")]
        tag = next((t for t in known if rest.startswith(t)), None)
        rest = rest[1:]
        tags += [tag] if tag else []
    if "<answer>" not in tags or "</answer>" not in tags:
        return 0.0
    points = (
        tags.count("<answer>") == tags.count("</answer>") == 1 and text.strip()[-9:] == "</answer>"
    )
    points += text.strip()[:7] == "<think>" and "</think>" in tags
    inside, order, over = "", True, False
    for tag in tags:
        closes = tag.startswith("</")
        name = tag.strip("</>")
        order = order and not over and (name == inside if closes else not inside)
        inside = "" if closes else name
        over = over or (closes and name == "answer")
    return (points + (order and not inside)) / 3


def test_the_form_of_mathematics_on_drawn_responses() -> None:
    rng, seen = random.Random("artist"), set[float]()
    pieces = [
        "<think>a</think>",
        "<think>",
        "</think>",
        RUN,
        "<code>x</code>",
        "<python>",
        "</python>",
    ]
    pieces += [END, END, "<answer>", "</answer>", " ", "so", "<", "\n"]
    for _ in range(2_000):
        text = "".join(rng.choices(pieces, k=rng.randrange(6)))
        assert math_form(text) == pytest.approx(reference_form(text)), text
        seen.add(round(math_form(text), 3))
    assert seen == {0.0, 0.333, 0.667, 1.0}


def test_what_fools_artist_math() -> None:
    """The paper's own terms: a program that runs pays 1, whatever it does."""
    useless = code("<python>1</python>", False)
    assert solved(useless).value == 1
    assert solved(useless, WRONG).value == pytest.approx(1 + 0.5 * 2 / 3)
    assert solved(END).value > solved(useless, WRONG).value, "a right answer pays more"
    assert solved(*[useless] * 9).value == 1, "many programs do not pay more than one"


@pytest.mark.parametrize(
    "attack", ["What is six times seven?", "<answer>six times seven</answer>", "<answer></answer>",
               "<think></think>", "<python></python>", r"<answer>\boxed{41, 42, 43}</answer>",
               "<answer>" * 1000, "<think>" * 1000 + "</think>" * 1000],
)  # fmt: skip
def test_attacks_on_artist_math_pay_at_most_the_form(attack: str) -> None:
    result = solved(attack)
    assert (result.parts["answer"], result.parts["tool"]) == (0, 0)
    assert result.value <= 0.5 * 2 / 3 + 1e-9


# -- function calling ----------------------------------------------------------------------------

A, B, C = ToolCall("a"), ToolCall("b"), ToolCall("c")
TASK = Task("x", "base", (Turn("do", (A, B)), Turn("and", (C,)), Turn("what?")), {})
RIGHT = TurnVerdict(True, 1, True, True, True)
UNTOUCHED = TurnVerdict(True, 0, True, False, False)
OFF = TurnVerdict(True, 1, False, False, False)
SILENT = TurnVerdict(False, 0, True, True, True)
ACTED = TurnVerdict(False, 1, True, True, True)
FORCED = TurnVerdict(False, 0, True, True, True, answered=False)


def act(turn: int, *calls: ToolCall, verdict: ParseVerdict = ParseVerdict.CALLS) -> Step:
    ran = tuple(ToolResult("") for _ in calls) if verdict is ParseVerdict.CALLS else ()
    return Step(turn, "", verdict, FinishReason.STOP, calls, ran, 5)


def said(turn: int) -> Step:
    return Step(turn, "Done.", ParseVerdict.ANSWER, FinishReason.STOP, tokens=5)


def plays(verdicts: tuple[TurnVerdict, ...], *steps: Step, task: Task = TASK) -> Score:
    trajectory = Trajectory(
        task.id, 0, 0, 1, (), steps, verdicts, len(task.turns), (), StopReason.DONE
    )
    return score(get_reward("artist_fc"), task, trajectory)


BROKEN = act(0, verdict=ParseVerdict.MALFORMED)
ALL = (act(0, A, B), said(0), act(1, C), said(1), said(2))


@pytest.mark.parametrize(
    ("verdicts", "steps", "state", "sequence", "form"),
    [
        ((RIGHT, RIGHT, SILENT), ALL, 0.5, 0.5, 0.5),
        ((RIGHT, RIGHT, SILENT), (act(0, A), act(0, B), *ALL[1:]), 0.5, 0.5, 0.5),
        ((RIGHT, RIGHT, ACTED), (*ALL[:4], act(2, A)), 1 / 3, 0.5 * 3 / 4, 0.5),
        ((RIGHT, RIGHT, FORCED), ALL[:4], 1 / 3, 0.5, 0.5),
        ((RIGHT,), ALL[:2], 0.5 / 3, 0.5 * 2 / 3, 0.5),
        ((OFF, RIGHT, SILENT), (act(0, B, A), *ALL[1:]), 1 / 3, 0.5 * 2 / 3, 0.5),
        ((OFF, RIGHT, SILENT), (act(0, B), *ALL[1:]), 1 / 3, 0.5 * 2 / 3, 0.5),
        ((OFF, RIGHT, SILENT), (act(0, C, A, C, B, C), *ALL[1:]), 1 / 3, 0.5 * 3 / 6, 0.5),
        ((OFF, OFF, SILENT), (act(0, C), act(1, A, B)), 0.5 / 3, 0, 0.5),
        ((RIGHT, RIGHT, SILENT), (BROKEN, *ALL), 0.5, 0.5, 0.5 * 5 / 6),
        ((UNTOUCHED, UNTOUCHED, SILENT), (said(0), said(1), said(2)), 0.5 / 3, 0, 0),
        ((UNTOUCHED,), (BROKEN,), 0, 0, 0),
        ((), (), 0, 0, 0),
    ],
)
def test_artist_fc(
    verdicts: tuple[TurnVerdict, ...],
    steps: tuple[Step, ...],
    state: float,
    sequence: float,
    form: float,
) -> None:
    result = plays(verdicts, *steps)
    found = [result.parts[name] for name in ("state", "sequence", "form")]
    assert found == pytest.approx([state, sequence, form])
    assert result.value == pytest.approx(state + sequence + form)
    assert len(result.turns) == 3 and sum(result.turns) == pytest.approx(result.value)


def test_what_a_turn_of_function_calling_earned() -> None:
    """Two wanted calls of three, a third of the state, a third of the form whatever it did."""
    turns = plays((RIGHT, OFF, SILENT), *ALL[:2], act(1, A), *ALL[3:]).turns
    assert turns == pytest.approx([0.5 / 3 + 0.5 * 2 / 3 + 0.5 / 3, 0.5 / 3, 0.5 / 3 + 0.5 / 3])
    rambling = plays((RIGHT, OFF, SILENT), *ALL[:2], *(act(1) for _ in range(9)), *ALL[3:]).turns
    assert rambling[1] == pytest.approx(turns[1])


def test_calls_that_were_not_executed_are_no_part_of_the_sequence() -> None:
    refused = act(0, A, B, verdict=ParseVerdict.UNKNOWN_TOOL)
    assert plays((UNTOUCHED,), refused).parts["sequence"] == 0
    cut = dataclasses.replace(act(0, A, B), results=(ToolResult(""),))
    assert plays((OFF,), cut).parts["sequence"] == pytest.approx(0.5 / 3)


def test_a_task_that_wants_no_call_at_all() -> None:
    task = Task("x", "miss", (Turn("what?"),), {})
    assert plays((SILENT,), said(0), task=task).value == 1.5
    assert plays((ACTED,), act(0, A), task=task).value == 0.5


@pytest.mark.slow
def test_the_longest_common_subsequence_is_that_of_its_recursion() -> None:
    @lru_cache
    def slow(a: str, b: str) -> int:
        if not a or not b:
            return 0
        if a[0] == b[0]:
            return 1 + slow(a[1:], b[1:])
        return max(slow(a[1:], b), slow(a, b[1:]))

    words = ["".join(w) for n in range(5) for w in itertools.product("abc", repeat=n)]
    rng = random.Random("sequences")
    for _ in range(2_000):
        wanted, made = ([rng.choice(words) for _ in range(3)] for _ in range(2))
        assert [longest(w, m) for w, m in zip(wanted, made, strict=True)] == [
            slow(w, m) for w, m in zip(wanted, made, strict=True)
        ]
        common = sum(slow(w, m) for w, m in zip(wanted, made, strict=True))
        most = max(len("".join(wanted)), len("".join(made)))
        shares = sequence_shares(wanted, made)
        assert sum(shares) == pytest.approx(common / most if most else 1)


def test_attacks_on_artist_fc() -> None:
    """Doing nothing, stopping early, calling everything, calling anything."""
    honest = plays((RIGHT, RIGHT, SILENT), *ALL).value
    nothing = plays((UNTOUCHED, UNTOUCHED, SILENT), said(0), said(1), said(2))
    assert nothing.value == pytest.approx(0.5 / 3), "the turn that wants nothing, and no more"
    early = plays((RIGHT,), *ALL[:2]).value
    assert early < honest
    everything = [act(t, *[A, B, C] * 5) for t in (0, 1)]
    flood = plays((OFF, OFF, ACTED), *everything, act(2, A))
    assert flood.parts["sequence"] == pytest.approx(0.5 * 3 / 31)
    assert flood.parts["state"] == 0
    assert flood.value < early
    touched = plays((RIGHT, RIGHT, SILENT), act(0, C), said(0), act(1, A), said(1), said(2))
    assert touched.parts["state"] == 0.5, "any call earns the state of turns that change nothing"
    assert touched.value < honest
