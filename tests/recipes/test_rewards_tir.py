"""Rewards and filters of tool-integrated reasoning: one table for each formula."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import pytest

from loop_cases import Killed, Screen, kill, played, run, settings
from pool_cases import judge
from rods.config import BoundarySettings
from rods.errors import ConfigError, RewardError
from rods.recipes.otc_grpo.reward import OtcGrpo, grpo_productivity
from rods.recipes.zerotir.filter import ZeroTirFilter, ngram_repetition, repeatness, sample_fault
from rods.reward import GroupReward, Score, score, score_group
from rods.rewards import get_reward, rewards_of
from rods.rewards.answers import final_answer, judge_answer
from rods.rewards.reading import ending, prose
from rods.rewards.sameness import own_verdict, same_text
from rods.rewards.shared import ppo_productivity
from rods.store import RunDirectory
from rods.task import Task
from rods.trajectory import Group, Trajectory
from rods.trajectory_codec import read_parquet, write_parquet
from rods.types import FinishReason, ParseVerdict, StopReason
from tir_cases import (
    BROKEN,
    CALL,
    CUT,
    FORMED,
    FORMED_WRONG,
    NO_BOX,
    RIGHT,
    WRONG,
    block,
    code,
    play,
    question,
    says,
)

TASK = question()


def value(name: str, trajectory: Trajectory, task: Task = TASK) -> float:
    return score(get_reward(name), task, trajectory).value


# -- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"first \boxed{1}, then \boxed{2}.", "2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\fbox{7}", "7"),
        (r"\boxed {8}", "8"),
        (r"\boxed{3} and an open \boxed{4", "3"),
        (r"a } stray brace \boxed{5}", "5"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\left\{ x \right.}", r"\left\{ x \right."),
        (r"\boxed{}", ""),
        (r"\boxed{5}, as \boxed{} asks", "5"),
        (r"\boxed{} \boxed{ }", ""),
        ("<answer>5</answer>, in <answer></answer> tags", "5"),
        ("<answer></answer>", ""),
        ("The answer is 5, the answer isn't 6", "5, the answer isn't 6"),
        (r"\boxed 5", "5"),
        ("<answer> Paris </answer>", "Paris"),
        ("<answer>a</answer> no, <answer>b</answer>", "b"),
        ("<answer>lost <answer>c</answer>", "c"),
        (r"<answer>\boxed{9} it is</answer>", "9"),
        ("<answer>open", None),
        ("The answer is: 42. I am sure", "42"),
        ("Answer: **3.14**\nbye", "3.14"),
        ("the answer is 1, no, the answer is 2", "2"),
        (r"the answer is \boxed{6}", "6"),
        ("the answer is .", None),
        ("nothing to see", None),
        ("", None),
    ],
)
def test_where_an_answer_stands(text: str, expected: str | None) -> None:
    assert final_answer(text) == expected


def test_forms_are_looked_for_in_order() -> None:
    text = r"\boxed{1} <answer>2</answer> the answer is 3"
    assert final_answer(text, ("boxed",)) == "1"
    assert final_answer(text, ("tag", "boxed")) == "2"
    assert final_answer(text, ("phrase",)) == "3"
    assert final_answer("the answer is 3", ("boxed", "tag")) is None


@pytest.mark.parametrize(
    ("answer", "reference", "same"),
    [
        ("42", "42", True),
        ("42", "41", False),
        ("$42$", "42", True),
        ("42.", "42", True),
        ("42.0", "42", True),
        ("042", "42", True),
        ("+42", "42", True),
        ("-42", "42", False),
        ("\u221242", "-42", True),
        ("1,234", "1234", True),
        ("1{,}234", "1234", True),
        ("12,34", "1234", False),
        (r"\frac{1}{2}", "0.5", True),
        (r"\dfrac12", "1/2", True),
        ("2/4", r"\frac12", True),
        ("1/0", "1/0", True),
        ("1/0", "2/0", False),
        ("-1/2", r"-\frac{1}{2}", True),
        (r"\frac{-1}{2}", "-0.5", True),
        ("1 1/2", "3/2", True),
        (r"1\frac{1}{2}", "1.5", True),
        ("11/2", "3/2", False),
        ("0.333333", "1/3", True),
        ("0.3333", "1/3", False),
        ("1000001", "1000000", False),
        ("1000000.4", "1000000", False),
        ("0.0000012", "0.0000009", False),
        ("0", "0.0000001", False),
        (".5", "0.5", True),
        ("5.", "5", True),
        ("1e3", "1000", True),
        (r"2\times 10^{3}", "2000", True),
        (r"2\cdot10^3", "2000", True),
        ("5e-1", "0.5", True),
        ("1e9999999", "1e9999999", True),
        ("1e9999999", "1", False),
        ("9" * 150, "9" * 150, True),
        ("50%", "50", False),
        ("50%", "0.5", True),
        (r"50\%", "50%", True),
        ("50", "50%", True),
        (r"90^\circ", "90", True),
        ("x = 5", "5", True),
        ("x=5", "y=5", True),
        ("f(x)=2x", "2x", True),
        (r"\sqrt3", r"\sqrt{3}", True),
        (r"2\sqrt{3}", r"2 \sqrt{3}", True),
        (r"\text{yes}", "Yes", True),
        ("the yes", "yes", True),
        ("B", "b", True),
        ("B", "C", False),
        ("-x", "x", False),
        ("(1, 2)", "(1,2)", True),
        (r"\left(1,\frac12\right)", "(1, 0.5)", True),
        ("(1,2)", "[1,2]", False),
        ("1, 2", "(1,2)", True),
        ("[1,2)", "[1,2)", True),
        ("(1,2)", "(2,1)", False),
        (r"\{1, 2\}", r"\{2,1\}", True),
        ("(1,2,3)", "(1,2)", False),
        ("x(x+1)", "x^2+x", False),
        ("", "42", False),
        ("42", "", False),
        ("$$", "$", False),
    ],
)
def test_our_own_judge_of_mathematics(answer: str, reference: str, same: bool) -> None:
    assert (own_verdict(answer, reference) == "right") is same


@pytest.mark.parametrize(
    ("answer", "reference", "same"),
    [
        ("The Eiffel Tower!", "eiffel tower", True),
        ("an  apple", "apple", True),
        ("Lincoln", "Abraham Lincoln", False),
        ("The", "a", False),
        ("1,234", "1234", True),
    ],
)
def test_exact_match_of_texts(answer: str, reference: str, same: bool) -> None:
    assert same_text(answer, reference) is same


def test_search_tasks_are_judged_by_text_and_know_aliases() -> None:
    task = question("Abraham Lincoln", "search", aliases=["Lincoln"])
    assert judge_answer(task, r"\boxed{x} <answer>the lincoln</answer>").correct
    assert judge_answer(task, "<answer>Grant</answer> <answer>Abraham Lincoln.</answer>").correct
    assert not judge_answer(task, "<answer>Grant</answer>").correct
    assert not judge_answer(question("0.5", "search"), "<answer>1/2</answer>").correct


def test_a_task_without_an_answer_is_named() -> None:
    for answer in (None, "", 42):
        task = question(answer)
        with pytest.raises(RewardError, match=f"task {task.id}"):
            value("outcome", play(RIGHT), task)
    with pytest.raises(RewardError, match="aliases"):
        value("outcome", play(RIGHT), question("42", aliases=[1]))


def test_a_flood_of_open_boxes_costs_linear_time() -> None:
    assert final_answer(r"\boxed{1}" + r"\boxed{" * 50_000) == "1"


# -- reading -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((CALL, RIGHT), "42"),
        ((code(block(r"print('\\boxed{7}')"), False), "done"), None),
        ((code("```python", False), code("print(1)\n```", False), RIGHT), "42"),
        ((code(r"<code>'\boxed{7}'</code>", False), "done"), None),
        ((code(r'<tool_call>{"code": "\boxed{7}"}</tool_call>', False), "done"), None),
        ((code(r'{"name": "python", "code": "\boxed{7}"}', False), "done"), None),
        ((code("```json\n\\boxed{7}\n```", False), "done"), None),
        ((r"\boxed{42} then an open ```python \boxed{7}",), "42"),
        ((code(r"\boxed{42}. I check: " + block(), False), "Good."), "42"),
    ],
)
def test_an_answer_in_a_program_is_none(steps: tuple[object, ...], expected: str | None) -> None:
    assert final_answer(prose(play(*steps)), ("boxed",)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("trajectory", "expected"),
    [
        (play(RIGHT), "finished"),
        (play(CALL, RIGHT), "finished"),
        (play(CUT), "truncated"),
        (play(CALL, stop=StopReason.GENERATED), "truncated"),
        (play(CALL, stop=StopReason.CONTEXT), "truncated"),
        (play(CALL, stop=StopReason.CALLS), "odd"),
        (play(RIGHT, stop=StopReason.TURNS), "odd"),
        (play(CALL), "odd"),
        (play(says("{", verdict=ParseVerdict.MALFORMED)), "odd"),
        (play(), "odd"),
    ],
)
def test_how_a_response_ends(trajectory: Trajectory, expected: str) -> None:
    assert ending(trajectory) == expected


# -- outcome, ToRL, ReTool -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "rewards"),
    [
        # steps: outcome, torl, retool
        ((RIGHT,), (1, 1, 1)),
        ((WRONG,), (0, -1, -1)),
        ((NO_BOX,), (0, -1, -1)),
        (("no idea",), (0, -1, -1)),
        ((), (0, -1, -1)),
        ((CALL, RIGHT), (1, 1, 1)),
        ((CALL, WRONG), (0, -1, -1)),
        ((BROKEN, RIGHT), (1, 1, 1)),
        ((BROKEN, WRONG), (0, -1, -1)),
        ((BROKEN, CALL, RIGHT), (1, 1, 1)),
        ((CALL, BROKEN, RIGHT), (1, 1, 1)),
        ((code(block()), RIGHT), (1, 1, 1)),  # written, never executed
        ((CUT,), (1, 1, 1)),
    ],
)
def test_answers_pay(steps: tuple[object, ...], rewards: tuple[float, ...]) -> None:
    names = ["outcome", "torl", "retool"]
    trajectory = play(*steps)  # type: ignore[arg-type]
    assert tuple(value(name, trajectory) for name in names) == rewards
    right = score(get_reward("outcome"), TASK, trajectory).parts
    assert right["correct"] == rewards[0]


# -- ZeroTIR -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trajectory", "paid"),
    [
        (play(FORMED), 1),
        (play(FORMED_WRONG), 0),
        (play(CALL, FORMED), 1),
        (play(FORMED.replace("<think>", "")), 1),  # the template opened it
        (play(FORMED.replace("</think>", "")), 0),
        (play(FORMED.replace("<think>", "").replace("</think>", "")), 0),  # nothing was thought
        (play("<think>first</think>" + FORMED), 0),
        (play(FORMED + "</think></think>"), 0),
        (play(FORMED + FORMED), 0),
        (play(FORMED + "</answer>"), 0),
        (play("<answer>42</answer>"), 0),
        (play(RIGHT), 0),
        (play(RIGHT + " one two three four five six"), 0),
        (play(FORMED + " one two three four five"), 1),
        (play(FORMED + " one, two, three."), 0),
        (play(FORMED + " one two three four five six"), 0),
        (play(FORMED_WRONG + " one two three four five six"), 0),
        (play(says(FORMED, FinishReason.LENGTH)), 0),
        (play(FORMED, stop=StopReason.TURNS), 0),
        (play(code(block("'<answer>'"), False), FORMED), 1),
    ],
)
def test_zerotir_is_right_and_formed_and_finished(trajectory: Trajectory, paid: float) -> None:
    assert value("zerotir", trajectory) == paid


def scored(*values: float | None) -> list[Score]:
    """Scores whose part `correct` is the value; None is invalid."""
    return [
        Score(0.0, valid=False) if v is None else Score(v, {"correct": v, "well_formed": 1.0})
        for v in values
    ]


@pytest.mark.parametrize(
    ("values", "window", "expected"),
    [
        ([1.0, 0.0], (0.05, 0.8), None),
        ([0.0, 0.0], (0.05, 0.8), "too_hard"),
        ([1.0, 1.0], (0.05, 0.8), "too_easy"),
        ([0.05, 0.05], (0.05, 0.8), "too_hard"),
        ([0.05 + 5e-7] * 2, (0.05, 0.8), "too_hard"),
        ([0.05 + 2e-6] * 2, (0.05, 0.8), None),
        ([0.8, 0.8], (0.05, 0.8), "too_easy"),
        ([0.8 - 5e-7] * 2, (0.05, 0.8), "too_easy"),
        ([0.8 - 2e-6] * 2, (0.05, 0.8), None),
        ([0.04, 0.04], (0.0, 0.8), None),
        ([0.0, 0.0], (0.0, 0.8), "too_hard"),
        ([None, None, 1.0, 0.0, 0.0], (0.05, 0.8), None),  # 40 % failed: not more
        ([None, None, 1.0, 0.0], (0.05, 0.8), "failed"),
        ([None, None], (0.05, 0.8), "failed"),
        ([], (0.05, 0.8), "failed"),
    ],
)
def test_groups_outside_the_window_are_dropped(
    values: list[float | None], window: tuple[float, float], expected: str | None
) -> None:
    assert ZeroTirFilter(window).group_fault(scored(*values)) == expected


@pytest.mark.parametrize(("finished", "cut"), [(False, 1.0), (True, -1.0)])
def test_torl_may_want_an_answer_that_ends(finished: bool, cut: float) -> None:
    """The released code pays for what is written on after the box until a limit cuts it."""
    reward = get_reward("torl", {"finished": finished})
    assert reward(TASK, play(CUT)).value == cut
    assert reward(TASK, play(RIGHT)).value == 1.0
    assert get_reward("torl")(TASK, play(CUT)).value == 1.0


def test_the_window_reads_correctness_whatever_the_scale() -> None:
    members = [play(RIGHT), play(WRONG)]
    signed = score_group(get_reward("torl"), Group(TASK, members, 0))
    assert [s.value for s in signed] == [1, -1]
    assert ZeroTirFilter().group_fault(signed) is None
    with pytest.raises(RewardError, match="correct"):
        ZeroTirFilter().group_fault([Score(1.0, {"reached": 1.0})])


LOOP = "so we go round and " * 40
MADE_UP = f"{block()}\n```output\n42\n```\n{FORMED}"


@pytest.mark.parametrize(
    ("trajectory", "perplexity", "expected"),
    [
        (play(FORMED), 0, None),
        (play(FORMED_WRONG), 0, None),
        (play(CALL, FORMED), 0, None),
        (play(BROKEN, FORMED_WRONG), 0, None),
        (play(says(FORMED, FinishReason.LENGTH)), 0, "truncated"),  # the reward is 0 then
        (play(CALL, stop=StopReason.GENERATED), 0, "truncated"),
        (play(CALL, stop=StopReason.CALLS), 0, "odd_finish"),
        (play(CALL), 0, "odd_finish"),
        (play(CALL, MADE_UP), 0, None),  # a made-up pair escapes, as in the released code
        (play(CALL, block() + FORMED), 0, "shortcut"),
        (play(code("```python print(42)```", False), FORMED), 0, "shortcut"),
        (play(code(f"```python {block()}", False), FORMED), 0, None),
        (play(CALL, FORMED.replace("easy", "as ```output printed")), 0, None),
        (play(CALL, block() + FORMED_WRONG), 0, "unbalanced"),
        (play(BROKEN, block() + FORMED_WRONG), 0, None),  # nothing ran
        (play(block() + FORMED_WRONG), 0, None),
        (play(FORMED), 5.0, None),
        (play(FORMED), 5.1, "perplexity"),
        (play(CALL, block() + FORMED), 9.0, "shortcut"),
        (play(LOOP), 0, "repetition"),
        (play("a" * 400), 0, "repetition"),
        (play(LOOP + FORMED), 0, None),
        (play("no form, no repetition"), 0, None),
        (play(code('{"code": "1"}', False), FORMED), 0, None),  # calls as messages
        (play(code('{"code": "1"}'), FORMED), 0, "shortcut"),
    ],
)
def test_which_samples_get_no_loss(
    trajectory: Trajectory, perplexity: float, expected: str | None
) -> None:
    group = Group(TASK, [trajectory], 0)
    scores = score_group(get_reward("zerotir"), group)
    found = ZeroTirFilter(max_perplexity=5.0).sample_faults(group, scores, [perplexity])
    assert found == [expected]


def test_made_up_output_next_to_an_executed_program_is_a_shortcut() -> None:
    """One program ran and printed; the policy wrote an output fence of its own besides."""
    cheat = play(CALL, "```output\n42\n```\n" + FORMED)
    assert sample_fault(cheat, score(get_reward("zerotir"), TASK, cheat)) == "shortcut"


def test_a_truncated_response_that_is_right_trains() -> None:
    cut = play(says(FORMED, FinishReason.LENGTH))
    assert sample_fault(cut, Score(1.0, {"correct": 1.0})) is None


def test_invalid_members_are_no_samples_to_mask() -> None:
    group = Group(TASK, [play(LOOP, failure="away"), play(LOOP)], 0)
    scores = score_group(get_reward("zerotir"), group)
    assert ZeroTirFilter().sample_faults(group, scores) == [None, "repetition"]
    with pytest.raises(RewardError, match="2 trajectories came with 1 scores"):
        ZeroTirFilter().sample_faults(group, scores[:1])


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0.0), ("a b", 0.0), ("a b c", 0.0), ("a a a a", 0.5), ("A b c a B C", 0.25)],
)
def test_repeated_triples(text: str, expected: float) -> None:
    assert ngram_repetition(text) == expected


def naive_repeatness(text: str) -> float:
    suffixes = sorted(text[i:] for i in range(len(text)))
    shared = 0
    for a, b in itertools.pairwise(suffixes):
        shared += next(
            (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
        )
    return 2 * shared / (len(text) * (len(text) + 1))


def test_repeatness_equals_its_definition() -> None:
    texts = ["ab", "abab", "aaaa", "banana", "mississippi", "\U0001f600x\U0001f600", LOOP[:100]]
    for text in texts:
        assert repeatness(text) == pytest.approx(naive_repeatness(text)), text
    assert repeatness("abab") == 0.3
    assert repeatness("") == repeatness("a") == 0.0


# -- OTC -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("calls", "smooth", "expected"),
    [
        (0, 1.0, 1.0),
        (1, 1.0, math.cos(math.pi / 3)),
        (2, 1.0, math.cos(2 * math.pi / 5)),
        (1, 2.0, math.cos(math.pi / 4)),
        (1000, 1.0, math.cos(1000 * math.pi / 2001)),
    ],
)
def test_productivity_of_otc_ppo(calls: int, smooth: float, expected: float) -> None:
    assert ppo_productivity(calls, smooth) == expected


@pytest.mark.parametrize(
    ("calls", "fewest", "expected"),
    [
        (0, 0, 1.0),
        (1, 0, math.cos(math.pi / 3)),
        (3, 0, math.cos(3 * math.pi / 7)),
        (1, 1, 1.0),
        (3, 3, 1.0),
        (0, 2, 0.0),
        (2, 1, math.sin(4 / 3 * math.pi / 2)),
        (3, 1, math.sin(6 / 4 * math.pi / 2)),
        (1, 2, math.sin(4 / 3 * math.pi / 4)),
        (10**9, 1, 0.0),
    ],
)
def test_productivity_of_otc_grpo(calls: int, fewest: int, expected: float) -> None:
    assert grpo_productivity(calls, fewest) == pytest.approx(expected, abs=1e-8)


def test_productivity_falls_with_every_call_above_the_minimum() -> None:
    for fewest in range(4):
        curve = [grpo_productivity(m, fewest) for m in range(fewest, fewest + 20)]
        assert curve == sorted(curve, reverse=True) and curve[0] == 1.0 and curve[-1] > 0


THIRD = math.cos(math.pi / 3)


@pytest.mark.parametrize(
    ("steps", "multiplied", "added"),
    [
        ((RIGHT,), 1.0, 2.0),
        ((WRONG,), 0.0, 1.0),
        ((CALL, RIGHT), THIRD, 1 + THIRD),
        ((CALL, WRONG), 0.0, THIRD),
        ((BROKEN, RIGHT), THIRD, 1 + THIRD),  # a failed call is a call
    ],
)
def test_otc_ppo(steps: tuple[object, ...], multiplied: float, added: float) -> None:
    trajectory = play(*steps)  # type: ignore[arg-type]
    assert value("otc_ppo", trajectory) == multiplied
    assert value("otc_ppo_additive", trajectory) == added


def calls(count: int, last: str = RIGHT) -> Trajectory:
    return play(*(CALL for _ in range(count)), last)


def values(reward: GroupReward, *members: Trajectory) -> list[float]:
    return [s.value for s in reward.score_group(Group(TASK, members, 0))]


def test_otc_grpo_remembers_the_fewest_calls_of_a_question() -> None:
    reward = OtcGrpo()
    assert values(reward, calls(3, WRONG), calls(1, WRONG)) == [0.0, 0.0]
    assert reward.fewest == {}, "wrong answers set no minimum"
    assert values(reward, calls(2), calls(4), calls(0, WRONG)) == pytest.approx(
        [1.0, grpo_productivity(4, 2), 0.0]
    )
    assert values(reward, calls(1, WRONG)) == [0.0]
    assert reward.fewest == {TASK.id: 2}, "without a right answer the minimum stays"
    assert values(reward, calls(3)) == [grpo_productivity(3, 2)]
    assert values(reward, calls(1), calls(2)) == [1.0, grpo_productivity(2, 1)]
    assert values(reward, calls(0), calls(1)) == [1.0, THIRD]
    assert values(reward, calls(1)) == [THIRD], "the minimum is 0 by now"
    other = question("43")
    kept = reward.score_group(Group(other, [calls(5, r"\boxed{43}")], 0))
    assert kept[0].value == 1.0, "each question has its own"


def test_otc_grpo_scales_and_adds() -> None:
    assert values(OtcGrpo(alpha=0.5), calls(1), calls(0, WRONG)) == [0.5, 0.0]
    added = OtcGrpo(alpha=0.5, additive=True)
    assert values(added, calls(1, WRONG)) == [0.0], "no minimum is known"
    assert values(added, calls(1), calls(1, WRONG), calls(0, WRONG)) == [1.5, 0.5, 0.0]
    assert values(OtcGrpo(c=2.0), calls(0), calls(1)) == [1.0, math.cos(math.pi / 4)]


def test_otc_grpo_never_counts_an_invalid_member() -> None:
    broken = play(RIGHT, failure="EnvError: away")
    reward = OtcGrpo()
    scores = reward.score_group(Group(TASK, [broken, calls(2)], 0))
    assert [s.valid for s in scores] == [False, True]
    assert scores[0].reason == "EnvError: away" and scores[1].value == 1.0
    assert reward.fewest == {TASK.id: 2}


def test_the_registry_makes_one_group_reward_for_each_run() -> None:
    first, second = get_reward("otc_grpo"), get_reward("otc_grpo")
    assert first is not second
    assert value("otc_grpo", calls(3)) == 1.0
    added = get_reward("otc_grpo_additive")
    assert isinstance(added, OtcGrpo) and added.additive
    assert [s.value for s in score_group(added, Group(TASK, [calls(1)], 0))] == [2.0]
    with pytest.raises(ConfigError, match=r"Known: alpha, c, additive\.$"):
        get_reward("otc_grpo", {"fewest": 1})
    with pytest.raises(ConfigError, match="Did you mean 'otc_grpo'"):
        get_reward("otc_grp")


def test_a_run_that_resumes_remembers() -> None:
    groups = [Group(TASK, [calls(m + 2), calls(m)], 0) for m in (3, 1, 4)]
    whole = rewards_of()
    expected = [whole.score_group("otc_grpo", g) for g in groups]
    assert expected[0][0].value == grpo_productivity(5, 3), "the whole group is seen at once"
    before = rewards_of()
    before.score_group("outcome", groups[0])
    start = [before.score_group("otc_grpo", g) for g in groups[:2]]
    saved = json.loads(json.dumps(before.state_dict()))
    assert saved == {"otc_grpo": {"fewest": {TASK.id: 1}}}
    after = rewards_of()
    after.load_state_dict(saved)
    assert [*start, after.score_group("otc_grpo", groups[2])] == expected
    assert rewards_of().score_group("otc_grpo", groups[2]) != expected[2], "memory matters"


@pytest.mark.slow
def test_invariant_8_a_kill_and_a_resume_keep_what_a_reward_remembers(tmp_path: Path) -> None:
    config = settings(
        curriculum="static",
        updates=4,
        train={"local": {"checkpoint_steps": 2}},
        stages=[{"name": "only", "reward": "tir_cases:Weary", "epochs": 9}],
    )
    run(tmp_path / "whole", config)
    with pytest.raises(Killed):
        run(tmp_path / "killed", config, Screen(3, kill))
    saved = RunDirectory.open(tmp_path / "killed").latest_checkpoint()
    assert saved is not None and saved.step == 2
    assert "tir_cases:Weary" in json.loads((saved.path / "rewards.json").read_text())
    run(tmp_path / "killed", config)
    assert played(tmp_path / "killed") == played(tmp_path / "whole")


@pytest.mark.parametrize(
    "state",
    [{}, {"fewest": None}, {"fewest": {"a": -1}}, {"fewest": {"a": 1.5}}, {"fewest": {"a": True}}],
)
def test_a_damaged_memory_is_refused(state: dict[str, object]) -> None:
    with pytest.raises(RewardError, match="fewest"):
        OtcGrpo().load_state_dict(state)  # type: ignore[arg-type]
    for broken in ({"outcome": {}}, {"otc_grpo": []}):
        with pytest.raises(RewardError, match="cannot be read"):
            rewards_of().load_state_dict(broken)  # type: ignore[arg-type]


# -- all of them ---------------------------------------------------------------------------------

PER_TRAJECTORY = (*("outcome", "torl", "retool", "zerotir", "otc_ppo", "otc_ppo_additive"),)


def test_stored_trajectories_score_the_same(tmp_path: Path) -> None:
    kept = [play(CALL, FORMED), play(BROKEN, WRONG), play(CUT), play(), calls(2)]
    write_parquet(tmp_path / "t.parquet", kept)
    back = list(read_parquet(tmp_path / "t.parquet"))
    for name in (*PER_TRAJECTORY, "otc_grpo", "otc_grpo_additive"):
        now, then = (score_group(get_reward(name), Group(TASK, m, 0)) for m in (kept, back))
        assert now == then, name
        assert all({"correct", "answered"} <= set(s.parts) for s in now), name


def test_an_abstention_is_no_answer() -> None:
    """The ground truth of a question is empty, yet BFCL's rule does not apply: calls are fine."""
    silent, busy = play("I cannot know."), play(CALL, RIGHT)
    assert silent.solved and value("accuracy", silent) == 1.0
    assert value("outcome", silent) == 0.0 and value("outcome", busy) == 1.0


@pytest.mark.parametrize("name", ["torl", "outcome", "otc_grpo", "retool"])
@pytest.mark.parametrize("by_turns", [False, True])
def test_the_boundary_reads_correctness(name: str, by_turns: bool) -> None:
    members = [calls(1), calls(2), calls(3), play(WRONG)]
    group = Group(TASK, members, 0)
    scores = score_group(get_reward(name), group)
    for chosen in (BoundarySettings(), BoundarySettings(signal="binary")):
        judged = judge(group, scores, chosen, 0, by_turns=by_turns)
        assert judged is not None and (judged.rbar, judged.region) == (0.75, "boundary")
