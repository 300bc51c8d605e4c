"""Credit by call: the matching, the returns, the peers, which tokens get it, and who would fool it.

The reference below is written from the formulas: it tries every one-to-one matching, and knows
nothing of the code under test but its inputs.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from calls_cases import FEW, SMALL
from rods.assemble import train
from rods.assemble.refusals import require_calls
from rods.config import load_config, parse_config
from rods.env import TurnVerdict
from rods.errors import ConfigError
from rods.reward import Score
from rods.task import Task, Turn
from rods.tokens import Span
from rods.trainers.collect import Batch, collect
from rods.trainers.credit import agreement, call_rewards, step_returns
from rods.trajectory import Group, Step, Trajectory
from rods.types import FinishReason, ParseVerdict, StopReason, ToolCall, ToolResult
from sweeps import slow

LS, PWD = ToolCall("ls"), ToolCall("pwd")
CD = ToolCall("cd", {"folder": "docs"})
Steps = Sequence[tuple[ToolCall, ...] | str]
"""Of a turn: calls, or `answer`, or `error`."""


def task_of(*turns: Sequence[ToolCall]) -> Task:
    return Task("none", "base", tuple(Turn("do", tuple(calls)) for calls in turns), {})


def member(number: int, *turns: Steps) -> Trajectory:
    """Steps of one to three sampled tokens each, with two of the environment before each."""
    steps: list[Step] = []
    spans: list[Span] = []
    for turn, tried in enumerate(turns):
        for what in tried:
            size = 1 + len(steps) % 3
            calls = what if isinstance(what, tuple) else ()
            verdict = {"answer": ParseVerdict.ANSWER, "error": ParseVerdict.MALFORMED}.get(
                what if isinstance(what, str) else "", ParseVerdict.CALLS
            )
            results = tuple(ToolResult("") for _ in calls)
            steps.append(Step(turn, "", verdict, FinishReason.STOP, calls, results, tokens=size))
            spans += [Span((1, 2), None), Span((3,) * size, (-0.5,) * size)]
    verdicts = tuple(TurnVerdict(True, 1, True, True, True) for _ in turns)
    return Trajectory(
        "t",
        number,
        0,
        number,
        (),
        tuple(steps),
        verdicts,
        len(turns),
        tuple(spans),
        StopReason.DONE,
    )


def batch_of(
    task: Task, members: Sequence[Trajectory], rewards: Sequence[float] = (), kind: str = "grpo"
) -> Batch:
    scores = [Score(r) for r in rewards or [0.0] * len(members)]
    return collect([Group(task, members, 0)], [scores], kind, credit="call")


def credits(
    task: Task, members: Sequence[Trajectory], rewards: Sequence[float] = (), kind: str = "grpo"
) -> list[list[float]]:
    """Each member's advantage by step; every token of a step has the same."""
    batch = batch_of(task, members, rewards, kind)
    by_member = {sample.member: sample for sample in batch.samples}
    found: list[list[float]] = []
    for m in members:
        sizes = [step.tokens for step in m.steps]
        values = np.zeros(sum(sizes))
        sample = by_member.get(m.member)
        if sample is not None:
            assert sample.credit is not None
            ledger = np.array(m.ledger.mask, dtype=bool)
            assert not (sample.mask & ~ledger).any(), "only sampled tokens carry loss"
            values[sample.mask[ledger]] = sample.credit
        parts = np.split(values, np.cumsum(sizes)[:-1])
        assert all(np.ptp(part) == 0 for part in parts)
        found.append([float(part[0]) for part in parts])
    return found


# -- the reference, from the formulas --------------------------------------------------------------


def likeness(p: ToolCall, g: ToolCall) -> Fraction:
    if p.name != g.name:
        return Fraction(0)
    mine, theirs = set(p.arguments), set(g.arguments)
    jaccard = Fraction(len(mine & theirs), len(mine | theirs)) if mine | theirs else Fraction(1)
    values = len([k for k in theirs if k in mine and p.arguments[k] == g.arguments[k]])
    return (1 + jaccard + values) / (2 + len(theirs))


def best(made: Sequence[ToolCall], wanted: Sequence[ToolCall]) -> list[Fraction]:
    """Of all one-to-one matchings the one with the largest sum, then with the first call's most."""
    size = max(len(made), len(wanted))
    table = [
        [
            likeness(made[i], wanted[j]) if i < len(made) and j < len(wanted) else Fraction(0)
            for j in range(size)
        ]
        for i in range(size)
    ]
    rows = ([table[i][j] for i, j in enumerate(o)] for o in itertools.permutations(range(size)))
    return max(rows, key=lambda row: (sum(row), row))[: len(made)]


def reference(
    task: Task, members: Sequence[Trajectory], rewards: Sequence[float], gamma: float
) -> list[list[float]]:
    def standardized(values: Sequence[float]) -> list[float]:
        if len(values) < 2 or max(values) - min(values) <= 1e-9:
            return [0.0] * len(values)
        mean, deviation = statistics.fmean(values), statistics.stdev(values)
        return [(v - mean) / (deviation + 1e-6) for v in values]

    found = [[a] * len(m.steps) for m, a in zip(members, standardized(rewards), strict=True)]
    for turn, wanted in enumerate(t.ground_truth for t in task.turns):
        if not wanted:
            continue
        returns: list[dict[int, tuple[int, float]]] = []
        for m in members:
            places = [
                i for i, s in enumerate(m.steps)
                if s.turn == turn and s.verdict is not ParseVerdict.ANSWER
            ]  # fmt: skip
            made = [m.steps[i].calls for i in places]
            flat = [call for calls in made for call in calls]
            worth = iter(best(flat, wanted))
            earned = [[next(worth) for _ in calls] for calls in made]
            r = [float(statistics.mean(row)) if row else 0.0 for row in earned]
            returns.append(
                {
                    d: (i, sum(gamma**k * v for k, v in enumerate(r[d:])))
                    for d, i in enumerate(places)
                }
            )
        for depth in range(max(map(len, returns))):
            there = [n for n, row in enumerate(returns) if depth in row]
            for n, a in zip(
                there, standardized([returns[n][depth][1] for n in there]), strict=True
            ):
                found[n][returns[n][depth][0]] += a
    return found


def random_call(rng: random.Random) -> ToolCall:
    names = rng.sample(["a", "b", "c"], rng.randrange(3))
    return ToolCall(rng.choice(["f", "g"]), {name: rng.randrange(2) for name in names})


def random_case(seed: int) -> tuple[Task, list[Trajectory], list[float]]:
    rng = random.Random(seed)
    wanted = [
        [random_call(rng) for _ in range(rng.randrange(4))] for _ in range(rng.randrange(1, 4))
    ]

    def tried(turn: int) -> Steps:
        steps: list[tuple[ToolCall, ...] | str] = []
        for _ in range(rng.randrange(4)):
            if rng.random() < 0.2:
                steps.append("error")
            else:
                pool = [*wanted[turn], random_call(rng)]
                steps.append(tuple(rng.choice(pool) for _ in range(rng.randrange(1, 3))))
        return [*steps, "answer"] if rng.random() < 0.8 or not steps else steps

    members = [
        member(n, *[tried(t) for t in range(len(wanted))]) for n in range(rng.randrange(2, 6))
    ]
    return task_of(*wanted), members, [rng.choice([0.0, 0.5, 1.0]) for _ in members]


@pytest.mark.parametrize("start", [0, *slow(20, 40)])
def test_random_groups_are_credited_as_the_formulas_say(start: int) -> None:
    for seed in range(start, start + 20):
        task, members, rewards = random_case(seed)
        wanted = reference(task, members, rewards, 0.9)
        got = credits(task, members, rewards)
        for mine, theirs in zip(got, wanted, strict=True):
            np.testing.assert_allclose(mine, theirs, atol=2e-6, err_msg=str(seed))


# -- properties ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["grpo", "dr_grpo", "rloo"])
def test_peers_at_the_same_depth_sum_to_zero(kind: str) -> None:
    seen = 0
    for seed in range(20):
        task, members, _ = random_case(seed)
        sums: dict[tuple[int, int], float] = {}
        for m, row in zip(members, credits(task, members, kind=kind), strict=True):
            for step in step_returns(task, m, 0.9):
                ((index,), key) = step.steps, step.peers
                sums[key] = sums.get(key, 0.0) + row[index]
                seen += row[index] != 0
        assert all(abs(total) < 1e-5 for total in sums.values())
    assert seen > 20


def test_the_order_of_peers_changes_nothing() -> None:
    for seed in range(10):
        task, members, rewards = random_case(seed)
        straight = credits(task, members, rewards)
        order = random.Random(seed).sample(range(len(members)), len(members))
        turned = credits(task, [members[i] for i in order], [rewards[i] for i in order])
        for place, i in enumerate(order):
            np.testing.assert_allclose(turned[place], straight[i], atol=1e-6)


def test_answers_and_other_turns_have_the_advantage_of_the_whole() -> None:
    task = task_of([CD], [], [LS])
    right = member(0, [(CD,), "answer"], ["answer"], [(LS,), "answer"])
    wrong = member(1, [(PWD,), "answer"], [(PWD,), "answer"], [(LS,), "answer"])
    first, second = credits(task, [right, wrong], [1.0, 0.0])
    whole = first[-1]
    assert whole == pytest.approx(math.sqrt(0.5), abs=1e-4)
    assert first == pytest.approx([2 * whole, whole, whole, whole, whole], abs=1e-5)
    assert second == pytest.approx([-2 * whole, *[-whole] * 5], abs=1e-5)


def test_a_group_with_equal_rewards_teaches_by_its_calls_alone() -> None:
    batch = batch_of(task_of([CD]), [member(0, [(CD,), "answer"]), member(1, [(PWD,), "answer"])])
    assert batch.informative == 1 == batch.zero_variance
    for sample, trajectory in zip(batch.samples, ["right", "wrong"], strict=True):
        assert sample.sampled == 1, f"{trajectory}: the answer has no advantage, so no loss"
    same = [member(n, [(CD,), "answer"]) for n in range(3)]
    batch = batch_of(task_of([CD]), same)
    assert batch.informative == 0 and not batch.samples


def test_invalid_members_are_nobodys_peer() -> None:
    broken = replace(member(1, [(PWD,)]), failure="gone")
    task, members = task_of([CD]), [member(0, [(CD,)]), broken, member(2, [(CD,)])]
    scores = [Score(0.0), Score(0.0, valid=False), Score(0.0)]
    batch = collect([Group(task, members, 0)], [scores], "grpo", credit="call")
    assert not batch.samples and batch.invalid == 1


def test_a_turn_never_reached_and_a_task_without_calls_fall_back_on_the_whole() -> None:
    cut = replace(member(0, [(CD,)]), n_turns=2)
    first, second = credits(task_of([CD], [LS]), [cut, member(1, [(CD,)], [(LS,)])], [0.0, 1.0])
    assert first[0] == -second[0] == second[1] * -1
    first, second = credits(
        task_of([], []), [member(0, ["answer"], [(LS,)]), member(1, [(LS,)])], [1.0, 0.0]
    )
    assert first == [first[0]] * 2 and second == [-first[0]]


# -- the matching ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "wanted", "value"),
    [
        (LS, LS, 1.0),
        (LS, PWD, 0.0),
        (CD, CD, 1.0),
        (ToolCall("cd", {"folder": "x"}), CD, 2 / 3),
        (ToolCall("cd"), CD, 1 / 3),
        (ToolCall("cd", {"path": "docs"}), CD, 1 / 3),
        (ToolCall("cd", {"folder": "docs", "deep": True}), CD, 2.5 / 3),
        (ToolCall("ls", {"a": True}), LS, 0.5),
        (ToolCall("f", {"n": 1.0}), ToolCall("f", {"n": 1}), 1.0),
        (ToolCall("f", {"n": "1"}), ToolCall("f", {"n": 1}), 2 / 3),
        (ToolCall("f", {"x": [LS]}), ToolCall("f", {"x": [LS]}), 1.0),
    ],
)
def test_agreement(made: ToolCall, wanted: ToolCall, value: float) -> None:
    assert agreement(made, wanted) == pytest.approx(value)


def test_the_matching_is_the_best_one_not_the_greedy_one() -> None:
    whole = ToolCall("f", {"a": 1, "b": 1})
    near = ToolCall("f", {"a": 1, "b": 2})
    far = ToolCall("f", {"a": 1})
    # Alone, `near` is nearest to itself; but then `far` would be left with `whole`.
    made, wanted = [near, whole], [near, far]
    assert call_rewards(made, wanted) == [1.0, float(agreement(whole, far))]
    made, wanted = [whole, near], [whole]
    assert call_rewards(made, wanted) == pytest.approx([1.0, 0.0])
    for seed in range(60):
        rng = random.Random(seed)
        made = [random_call(rng) for _ in range(rng.randrange(6))]
        wanted = [random_call(rng) for _ in range(rng.randrange(6))]
        got = call_rewards(made, wanted)
        assert got == [float(share) for share in best(made, wanted)]


def test_the_first_of_equal_calls_stands_for_the_wanted_one() -> None:
    assert call_rewards([CD, CD, LS, CD], [LS, CD]) == [1.0, 0.0, 1.0, 0.0]
    assert call_rewards([CD, CD, CD], [CD, CD]) == [1.0, 1.0, 0.0]
    assert call_rewards([], [CD]) == [] and call_rewards([CD], []) == [0.0]


# -- attacks ---------------------------------------------------------------------------------------


def returned(*tried: tuple[ToolCall, ...] | str, wanted: Sequence[ToolCall] = (CD,)) -> list[float]:
    found = step_returns(task_of(wanted), member(0, tried), 0.9)
    return [round(step.value, 4) for step in found]


def test_calling_everything_does_not_pay() -> None:
    assert returned((CD,), "answer") == [1.0]
    assert returned((LS, PWD, CD)) == [round(1 / 3, 4)], "at once: the mean falls"
    assert max(returned((LS,), (PWD,), (CD,))) == 1.0 and returned((LS,), (PWD,), (CD,))[0] == 0.81
    assert returned((CD,), (LS,), (PWD,)) == [1.0, 0.0, 0.0], "afterwards: it earns nothing"


def test_duplicates_do_not_pay() -> None:
    assert returned((CD, CD)) == [0.5]
    assert returned((CD,), (CD,)) == [1.0, 0.0]
    guesses = tuple(ToolCall("cd", {"folder": name}) for name in ("a", "b", "docs"))
    assert returned(guesses) == [round(1 / 3, 4)]


def test_answering_at_once_earns_and_costs_nothing() -> None:
    task = task_of([CD])
    silent, right, wrong = member(0, ["answer"]), member(1, [(CD,)]), member(2, [(LS,)])
    rows = credits(task, [silent, right, wrong])
    assert rows[0] == [0.0] and rows[1][0] == -rows[2][0] > 0
    rows = credits(task, [silent, right], [0.0, 1.0])
    assert rows[0][0] < 0 < rows[1][0], "the trajectory's own reward wants the call"


def test_a_step_that_was_not_executed_earns_nothing() -> None:
    assert returned("error", (CD,)) == [0.9, 1.0]
    refused = member(0, [(CD, LS)])
    steps = (replace(refused.steps[0], verdict=ParseVerdict.BAD_ARGS, results=()),)
    found = step_returns(task_of([CD]), replace(refused, steps=steps), 0.9)
    assert found[0].value == 0.0
    spent = (replace(refused.steps[0], calls=(LS, CD), results=(ToolResult(""),)),)
    found = step_returns(task_of([CD]), replace(refused, steps=spent), 0.9)
    assert found[0].value == 0.0, "the budget ended before the right call"


def test_what_fools_it_is_as_the_docs_say() -> None:
    assert returned((CD, LS), wanted=(CD, LS)) == [1.0]
    assert returned((CD,), (LS,), wanted=(CD, LS)) == [1.9, 1.0]
    assert returned((ToolCall("cd", {"folder": "nowhere"}),)) == [round(2 / 3, 4)]


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize("credit", ["turn", "call"])
@pytest.mark.parametrize(
    "other",
    [
        {"advantage": "gae"},
        {"advantage": "reinforce++"},
        {"advantage": "reinforce++_baseline"},
        {"mask_env_tokens": False},
    ],
)
def test_settings_that_contradict_credit_are_refused(credit: str, other: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=f'train.credit = "{credit}" compares peers'):
        parse_config({"train": {"credit": credit, **other}}, "here")


def test_tasks_of_which_none_wants_a_call_are_refused() -> None:
    config = load_config("artist_fc", "small", ["train.credit=call"])
    with pytest.raises(ConfigError, match=r"none of the 2 tasks of env.name = .bfcl. has calls"):
        require_calls(config, [task_of([]), task_of([], [])])
    require_calls(config, [task_of([]), task_of([], [LS])])
    require_calls(load_config("torl", "small"), [task_of([])])


@pytest.mark.slow
def test_tasks_that_want_no_calls_are_refused_before_the_start(tmp_path: Path) -> None:
    config = load_config("torl", "small", ["train.credit=call", "updates=1"])
    with pytest.raises(ConfigError, match=r'"python_tool" has calls in its ground truth'):
        train(config, str(tmp_path / "run"))
    assert not (tmp_path / "run").exists(), "a refused start leaves no folder"


@pytest.mark.slow
def test_an_update_with_credit_by_call(tmp_path: Path) -> None:
    config = load_config("toolrl", "small", [*SMALL, FEW, "train.credit=call"])
    run = train(config, str(tmp_path / "run"))
    [record] = [row for row in run.metrics() if row["kind"] == "step"]
    assert record["skipped"] is None and int(str(record["trained"])) > 0
