"""Environment Tuning: codes of its turn loop against a reference, attacks on its rewards."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from pool_cases import config as small_config
from pool_cases import originals
from rods.assemble.refusals import require_named
from rods.config import load_config
from rods.curriculum.draws import Stages
from rods.dialects import get_dialect
from rods.envs.bfcl.tasks import load_tasks
from rods.envs.bfcl.world import BfclEnvironment
from rods.envs.hints import hinted
from rods.errors import ConfigError
from rods.recipes.envtuning.reward import codes
from rods.reward import score
from rods.rewards import get_reward
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import RolloutRunner
from rods.task import Task
from rods.trajectory import Group, Trajectory
from rods.types import ParseVerdict, StopReason, ToolCall
from rollout_cases import TEMPLATE, play, script, settings

THINK = get_dialect("think")
BFCL = BfclEnvironment()
LIMIT = 5
"""Further model steps of one turn in the released loop."""
WRITTEN = {
    "answer": "<think>done</think><answer>Done.</answer>",
    "text": "What do you want me to do?",
    "untagged": '[{"name": "pwd", "arguments": {}}]',
    "ok": '<think>look</think><tool_call>{"name": "pwd", "arguments": {}}</tool_call>',
    "raises": '<think>.</think><tool_call>{"name": "cd", "arguments": {"folder": 7}}</tool_call>',
    "error": '<think>.</think><tool_call>{"name": "cat", "arguments": {"file_name": "no"}}'
    "</tool_call>",
    "unknown": '<think>.</think><tool_call>{"name": "dir", "arguments": {}}</tool_call>',
    "missing": '<think>.</think><tool_call>{"name": "cd", "arguments": {}}</tool_call>',
}
"""What a policy writes; `truth` stands for the calls of the turn."""
KINDS = [*WRITTEN, "truth"]
FILES = [t for t in load_tasks() if t.world["classes"] == ["GorillaFileSystem"]]


def texts(task: Task, kinds: Sequence[Sequence[str]]) -> list[str]:
    """What is written in each turn, one after the other."""
    return [
        THINK.write(turn.ground_truth) if kind == "truth" else WRITTEN[kind]
        for turn, row in zip(task.turns, kinds, strict=True)
        for kind in row
    ]


def played(task: Task, kinds: Sequence[Sequence[str]], **changes: int) -> Trajectory:
    big = {"generated_tokens": 10**6, "context_tokens": 10**6, "step_tokens": 10**5, **changes}
    return play(task, script(*texts(task, kinds)), BFCL, "think", **big)  # type: ignore[arg-type]


def released(task: Task, kinds: Sequence[Sequence[str]]) -> tuple[list[int], list[list[ToolCall]]]:
    """The released loop, step by step: its codes (None for a turn's verdict) and its calls."""
    found: list[int] = []
    made: list[list[ToolCall]] = []
    for turn, row in zip(task.turns, kinds, strict=True):
        made.append([])
        for attempts, kind in enumerate(row, 1):
            formed = kind not in ("text", "untagged")
            if formed and not turn.ground_truth:
                found.append(1 if kind == "answer" else 0)
                break
            if kind == "answer":
                found.append(VERDICT)
                break
            if kind == "truth":
                made[-1] += turn.ground_truth
            elif formed and kind in ("ok", "raises", "error"):
                name = {"ok": "pwd", "raises": "cd", "error": "cat"}[kind]
                given = {"raises": {"folder": 7}, "error": {"file_name": "no"}}.get(kind, {})
                made[-1].append(ToolCall(name, given))
            if attempts > LIMIT:
                found.append(VERDICT if turn.ground_truth else 0)
                break
            raised = kind in ("raises", "unknown", "missing")
            found.append(-3 if not formed else -2 if raised else -1)
    return found, made


VERDICT = 99
"""In place of 0 or 1, which the world says."""


def verdicts(task: Task, calls: Sequence[Sequence[ToolCall]]) -> list[int]:
    """Whether each turn is solved, played again in a world of its own."""
    world = BFCL.open(task)
    found: list[int] = []
    for index, row in enumerate(calls):
        world.begin_turn(index)
        for call in row:
            world.call(call)
        found.append(int(world.end_turn().solved))
    return found


def expected(task: Task, kinds: Sequence[Sequence[str]]) -> list[int]:
    found, made = released(task, kinds)
    solved = verdicts(task, made)
    judged = iter(s for turn, s in zip(task.turns, solved, strict=True) if turn.ground_truth)
    return [next(judged) if code == VERDICT else code for code in found]


def rows(task: Task, rng: random.Random) -> list[list[str]]:
    """A script: each turn ends by an answer or after its last step."""
    found: list[list[str]] = []
    for turn in task.turns:
        kinds = [k for k in KINDS if k != "answer" and (k != "truth" or turn.ground_truth)]
        row = [rng.choice(kinds) for _ in range(rng.randint(0, LIMIT + 1))]
        if turn.ground_truth and row and rng.random() < 0.6:
            row[0] = "truth"
        found.append(row if len(row) > LIMIT else [*row, "answer"])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("category", ["base", "miss_func", "miss_param"])
def test_codes_are_those_of_the_released_loop(category: str) -> None:
    rng = random.Random(category)
    tasks = [task for task in FILES if task.category == category]
    seen: set[int] = set()
    for _ in range(12):
        task = rng.choice(tasks)
        kinds = rows(task, rng)
        found = [int(code) for code in codes(played(task, kinds))]
        assert found == expected(task, kinds), (task.provenance.origin, kinds)
        seen |= {*found}
    assert seen == {-3, -2, -1, 0, 1}


# -- what was cut by a budget --------------------------------------------------------------------

NAVIGATES = next(task for task in FILES if len(task.turns) >= 3)
"""A task of the category base."""
MISSES = next(t for t in FILES if t.category == "miss_param" and not t.turns[0].ground_truth)
"""One whose first turn expects no call."""
ALL = [["truth", "answer"]] * len(NAVIGATES.turns)


def budget_after(steps: int) -> int:
    """Tokens of the first so many steps, and a few more."""
    return sum(step.tokens for step in played(NAVIGATES, ALL).steps[:steps]) + 5


@pytest.mark.parametrize(
    ("steps", "found"), [(1, [-1]), (2, [-1, 1]), (3, [-1, 1, -1]), (4, [-1, 1, -1, 1])]
)
def test_a_turn_that_a_budget_cut_has_no_code(steps: int, found: list[int]) -> None:
    cut = played(NAVIGATES, ALL, generated_tokens=budget_after(steps))
    assert cut.stop is StopReason.GENERATED
    assert cut.steps[-1].verdict is ParseVerdict.TRUNCATED, "of the cut generation itself neither"
    assert [int(code) for code in codes(cut)] == found


def test_an_answer_closes_its_turn_though_no_token_is_left() -> None:
    cut = played(NAVIGATES, ALL, generated_tokens=budget_after(2) - 5)
    assert cut.stop is StopReason.GENERATED and len(cut.verdicts) == 1
    assert [int(code) for code in codes(cut)] == [-1, 1]


def test_a_turn_without_calls_to_make_is_closed_by_force_or_cut() -> None:
    silent = ["text"] * (LIMIT + 1)
    kinds = [silent, *[["answer"]] * (len(MISSES.turns) - 1)]
    forced = played(MISSES, kinds)
    assert [int(code) for code in codes(forced)][: LIMIT + 1] == [-3] * LIMIT + [0]
    tokens = forced.steps[0].tokens
    cut = played(MISSES, kinds, generated_tokens=2 * tokens + 3)
    assert len(cut.steps) == 3 and [int(code) for code in codes(cut)] == [-3, -3]


def test_turns_that_were_closed_keep_their_codes_where_turns_are_limited() -> None:
    limited = played(NAVIGATES, ALL, turns=2)
    assert limited.stop is StopReason.TURNS and [int(c) for c in codes(limited)] == [-1, 1, -1, 1]


def test_a_turn_whose_last_step_ends_the_conversation_has_its_code() -> None:
    whole = played(NAVIGATES, [["ok"] * (LIMIT + 1)] * len(NAVIGATES.turns))
    first = {"steps": whole.steps[: LIMIT + 1], "verdicts": whole.verdicts[:1]}
    given_up = replace(whole, **first, stop=StopReason.STEPS)  # type: ignore[arg-type]
    assert [int(code) for code in codes(given_up)] == [-1] * LIMIT + [0]


def test_an_answer_to_which_a_user_replies_has_no_code() -> None:
    """The released loop has no simulated user; such an answer is neither a call nor an error."""
    whole = played(NAVIGATES, ALL)
    asked = replace(whole.steps[1], text="Which file?")
    steps = (asked, whole.steps[0], asked, *whole.steps[1:])
    talk = replace(whole, steps=steps)
    assert [int(code) for code in codes(talk)] == [-1, 1] * len(NAVIGATES.turns)
    unheard = replace(talk, steps=steps[:3], verdicts=whole.verdicts[:1], stop=StopReason.GENERATED)
    assert [int(code) for code in codes(unheard)] == [-1, 1]


def test_a_generation_that_is_too_long_is_a_format_error() -> None:
    kinds = [["answer"] * (LIMIT + 1)] * len(NAVIGATES.turns)
    long = played(NAVIGATES, kinds, step_tokens=8)
    assert {int(code) for code in codes(long)} == {-3, 0}


# -- attacks -------------------------------------------------------------------------------------

REWARDS = ("envtuning_format", "progress")


def pays(task: Task, written: Sequence[str], **changes: int) -> tuple[float, ...]:
    """What the rewards pay for a policy that says these texts."""
    big = {"generated_tokens": 10**6, "context_tokens": 10**6, "step_tokens": 10**5, **changes}
    trajectory = play(task, script(*written), BFCL, "think", **big)  # type: ignore[arg-type]
    return tuple(score(get_reward(name), task, trajectory).value for name in REWARDS)


def each_turn(task: Task, kind: str, times: int = 1, close: bool = True) -> list[str]:
    return texts(task, [[kind] * times + ["answer"] * close] * len(task.turns))


def questions(task: Task, form: str, times: int) -> list[str]:
    return [form.format(turn.user) for turn in task.turns for _ in range(times)]


@pytest.mark.parametrize("task", [NAVIGATES, MISSES], ids=["base", "miss_param"])
def test_what_has_no_form_pays_nothing(task: Task) -> None:
    nothing = (0.0, 0.0)
    assert pays(task, questions(task, "{}", LIMIT + 1)) == nothing, "the question"
    assert pays(task, questions(task, "", LIMIT + 1)) == nothing, "nothing"
    assert pays(task, questions(task, "<think>{}</think>", LIMIT + 1)) == nothing, "a thought"
    bare = [str(list(turn.ground_truth)) for turn in task.turns for _ in range(LIMIT + 1)]
    assert pays(task, bare) == nothing, "the right calls without their tags"


@pytest.mark.parametrize("said", ["{}", "", "I need more information.", "Done."])
def test_answers_alone_pay_the_turns_where_nothing_is_to_be_called(said: str) -> None:
    """Right there, and no less than these: the base rate of every figure of progress."""
    form = f"<think></think><answer>{said}</answer>"
    assert pays(NAVIGATES, questions(NAVIGATES, form, 1)) == (0.0, 0.0)
    share = sum(not turn.ground_truth for turn in MISSES.turns) / len(MISSES.turns)
    assert 0 < share < 1
    assert pays(MISSES, questions(MISSES, form, 1)) == (0.0, share)


def test_calls_where_nothing_is_to_be_called_pay_nothing_there() -> None:
    acts = pays(MISSES, each_turn(MISSES, "ok"))
    assert acts[1:] == (0.0,)


def test_never_closing_a_turn_does_not_pay() -> None:
    """One turn solved, then talk until the tokens are spent: that turn has no code."""
    first = texts(NAVIGATES, ALL)[:2]
    said = [*first, "and " * 200]
    _, fixed = pays(NAVIGATES, said, generated_tokens=budget_after(2) + 50)
    assert fixed == 1 / len(NAVIGATES.turns)


def test_a_harmless_call_pays_in_full_in_the_format_stage() -> None:
    """Known: it teaches the form alone, so a run must leave it."""
    assert pays(NAVIGATES, each_turn(NAVIGATES, "ok")) == (2.0, 0.0)


def test_errors_in_dictionaries_pay_in_the_released_format_and_not_in_ours() -> None:
    trajectory = played(NAVIGATES, [["error", "answer"]] * len(NAVIGATES.turns))
    paid = [score(get_reward(n), NAVIGATES, trajectory).value for n in (REWARDS[0], "format")]
    assert paid == [2.0, 1.0]


def test_the_truth_pays_in_full() -> None:
    assert pays(NAVIGATES, texts(NAVIGATES, ALL)) == (2.0, 1.0)


def test_parts_have_the_names_that_the_released_code_logs() -> None:
    parts = score(get_reward("envtuning_format"), NAVIGATES, played(NAVIGATES, ALL)).parts
    rounds = 2.0 * len(NAVIGATES.turns)
    assert parts == {
        "progress": 1.0,
        "format_reward": 1.0,
        "tool_call_reward": 1.0,
        "is_tool_call": 1.0,
        "total_interaction_rounds": rounds,
    }


# -- the curriculum ------------------------------------------------------------------------------

FOUR = [
    {"name": "format", "reward": "format", "tasks": 4, "epochs": 2},
    {"name": "base", "categories": ["base"], "epochs": 1},
    {"name": "all", "epochs": 5},
]


def hinted_epochs(**changes: Any) -> list[bool]:
    made = small_config(**{"curriculum": "envtuning", "stages": FOUR, **changes})
    stages = Stages(made, originals(16))
    return [stages.hints(epoch) for epoch in range(len(stages))]


def test_hints_are_given_between_the_first_stage_and_the_last_half_of_the_last() -> None:
    off, on = [False], [True]
    assert hinted_epochs() == off * 2 + on * 4 + off * 2
    assert hinted_epochs(stages=FOUR[2:]) == on * 3 + off * 2
    assert hinted_epochs(stages=FOUR[:2]) == off * 2 + on


@pytest.mark.parametrize("budget", [{"updates": 10}, {"trajectories": 160}])
def test_half_of_the_last_stage_is_half_of_what_is_reached(budget: dict[str, int]) -> None:
    """4 groups an update, 4 rollouts a group: epochs of 1, 1, 1, then 4 updates each."""
    sizes = {"k": 4, "tasks_per_step": 4}
    assert hinted_epochs(rollout=sizes, **budget) == [False] * 2 + [True] * 2 + [False] * 4


def test_an_epoch_smaller_than_an_update_is_a_whole_one() -> None:
    """6 updates reach 6 epochs, three of them of the last stage, though each has 16 tasks."""
    sizes = {"k": 4, "tasks_per_step": 32}
    assert hinted_epochs(rollout=sizes, updates=6) == [False] * 2 + [True] * 3 + [False] * 3


def test_stages_with_hints_may_be_named() -> None:
    named = {"envtuning": {"hints": ["all"]}}
    assert hinted_epochs(**named) == [False] * 3 + [True] * 5
    for curriculum in ("static", "rods"):
        assert not any(hinted_epochs(curriculum=curriculum, **named))
    with pytest.raises(ConfigError, match=r"envtuning\.hints: no stage is called 'al'\. Name"):
        small_config(envtuning={"hints": ["al"]}, stages=FOUR)


def test_programs_inside_one_response_have_no_hints() -> None:
    with pytest.raises(ConfigError, match=r'get no hints\. Take curriculum = "static"'):
        require_named(load_config("torl", "small", ["curriculum=envtuning"]))


def test_the_policy_reads_hints_where_its_groups_are_played_under_the_layer() -> None:
    rollout = settings(k=2, steps_per_turn=2, context_tokens=16_384)
    wrong = THINK.write([ToolCall("cat", {"file_name": "nothing.here"})])
    says = script(*[wrong, WRITTEN["answer"]] * len(NAVIGATES.turns))
    context = RolloutContext(BFCL, says, THINK, TEMPLATE, rollout)

    async def play_both() -> tuple[Group, Group]:
        player = RolloutRunner(context, 4)
        return await player.group(NAVIGATES, 0, hinted), await player.group(NAVIGATES, 1)

    under, plain = asyncio.run(play_both())
    for group, seen in ((under, True), (plain, False)):
        for trajectory in group.trajectories:
            read = TEMPLATE.tokenizer.decode(trajectory.ledger.ids, skip_special_tokens=False)
            assert ("Hint: " in read) is seen
            assert all(("Hint: " in s.results[0].content) is seen for s in trajectory.steps[::2])
    verdicts_of = [[t.verdicts for t in group.trajectories] for group in (under, plain)]
    assert verdicts_of[0] == verdicts_of[1]
