"""The invariants of design.md that the rollout upholds, by their numbers."""

from __future__ import annotations

import dataclasses

import pytest

from oracle import OraclePolicy
from rods.errors import EnvError
from rods.reward import score, score_group
from rods.rewards import get_reward
from rods.rollout.groups import InvalidShare
from rods.trajectory import Group, Trajectory
from rods.types import StopReason, ToolCall
from rollout_cases import (
    DIALECT,
    TEMPLATE,
    NoisyPolicy,
    play,
    play_groups,
    read_by_policy,
    script,
)
from worlds import NotesEnvironment, fail_first, notes_task

ADD = ToolCall("add", {"amount": 2})
TASK = notes_task(
    [("add two", [ADD]), ("note it", []), ("it is x", [ToolCall("note", {"text": "x"})])],
    withheld={0: ("note",), 1: ("note",)},
)


def plain(groups: list[Group]) -> list[Trajectory]:
    """Trajectories without their wall-clock times."""
    return [dataclasses.replace(t, seconds=0.0) for g in groups for t in g.trajectories]


def test_invariant_1_sampled_ids_survive_and_only_they_carry_loss() -> None:
    for trajectory in plain(play_groups([TASK], NoisyPolicy(), k=12)):
        ledger = trajectory.ledger
        assert len(ledger.ids) == len(ledger.mask) == len(ledger.logprobs)
        sampled = [span for span in trajectory.spans if span.sampled]
        assert len(sampled) == len(trajectory.steps)
        assert sum(ledger.mask) == sum(step.tokens for step in trajectory.steps)
        for span, step in zip(sampled, trajectory.steps, strict=True):
            assert TEMPLATE.decode(span.ids) == step.text
            # letters one by one: encoding the text again would give other ids
            assert all(len(TEMPLATE.decode([i])) == 1 for i in span.ids[:-1])


def test_invariant_1_spans_alternate_from_the_prompt_on() -> None:
    trajectory = play(TASK, OraclePolicy(TASK, DIALECT, TEMPLATE))
    assert [span.sampled for span in trajectory.spans] == [False, True] * 5
    assert trajectory.spans[0].ids[-1] != TEMPLATE.end_id


@pytest.mark.slow
def test_invariant_2_sixteen_rollouts_end_in_sixteen_independent_states() -> None:
    environment = NotesEnvironment()
    trajectories = plain(play_groups([TASK], NoisyPolicy(7), environment, k=16))
    assert len({id(world.state) for world in environment.worlds}) == 16
    alone = [
        [r.content for s in t.steps for r in s.results]
        for t in plain(play_groups([TASK], NoisyPolicy(), k=16, concurrency=1))
    ]
    together = [[r.content for s in t.steps for r in s.results] for t in trajectories]
    assert together == alone and len(set(map(str, together))) > 8
    assert all(world.closed for world in environment.worlds)


def test_invariant_2_a_retry_gets_a_fresh_world() -> None:
    def every_second(task: object, number: int) -> None:
        if number % 2 == 0:
            raise EnvError("away")

    environment = NotesEnvironment(every_second)  # type: ignore[arg-type]
    groups = play_groups([TASK], OraclePolicy([TASK], DIALECT, TEMPLATE), environment)
    assert all(t.solved for t in groups[0].trajectories)
    assert len(environment.worlds) == 8


@pytest.mark.parametrize(
    "text",
    [
        "[__import__('os').system('touch pwned')]",
        "[add(amount=__import__('os').getpid())]",
        "[add(amount=open('x', 'w'))]",
        "[note(text='x')]",
        "[add(amount=note(text='x'))]",
        "[NotesWorld.end_turn()]",
        "[(lambda: 1)()]",
        "[add(amount=[x for x in range(3)])]",
    ],
)
def test_invariant_3_text_is_parsed_and_only_offered_tools_are_called(text: str) -> None:
    environment = NotesEnvironment()
    trajectory = play(TASK, script(text, "a", "b", "c"), environment)
    assert environment.worlds[0].log == []
    assert environment.worlds[0].snapshot() == (0, ())
    assert trajectory.steps[0].verdict.is_error and trajectory.valid


def test_invariant_4_the_ground_truth_never_reaches_the_policy() -> None:
    secret = ToolCall("note", {"text": "qzsecret17", "tag": "qztag"})
    task = notes_task([("note it", [secret]), ("hm", [ToolCall("add", {"amount": 918273})])])
    texts = ["[note(text='other')]", "[gone()]", "[note(", "[note()]", "ok", "[divide(by=0)]", "ok"]
    trajectory = play(task, script(*texts))
    assert not trajectory.solved and len(trajectory.verdicts) == 2
    assert "Error: integer" in read_by_policy(trajectory)  # failed results are read
    everything = read_by_policy(trajectory) + str(trajectory.messages)
    for word in ("qzsecret17", "qztag", "918273", "ground_truth", task.id):
        assert word not in everything


def test_invariant_5_an_infrastructure_failure_is_invalid_and_not_zero() -> None:
    other = notes_task([("other", [ADD])])

    def broken(task: object, number: int) -> None:
        if task == TASK:
            raise EnvError("the tool server is away")

    environment = NotesEnvironment(broken)  # type: ignore[arg-type]
    policy = OraclePolicy([TASK, other], DIALECT, TEMPLATE)
    groups = play_groups([TASK, other], policy, environment, max_invalid=0.5)
    reward = get_reward("progress")
    scores = score_group(reward, groups[0])
    assert [s.valid for s in scores] == [False] * 4
    assert "the tool server is away" in str(scores[0].reason)
    assert {t.stop for t in groups[0].trajectories} == {StopReason.FAILURE}
    assert [score(reward, other, t).value for t in groups[1].trajectories] == [1.0] * 4


def test_invariant_5_too_many_failures_stop_the_run() -> None:
    environment = NotesEnvironment(fail_first(99))
    with pytest.raises(EnvError, match=r"2 of the 4 .* rollout\.max_invalid = 0\.25.*is away"):
        play_groups([TASK], script("[total()]"), environment, max_invalid=0.25)
    groups = play_groups([TASK], script("[total()]"), environment, max_invalid=1.0)
    assert not any(t.valid for t in groups[0].trajectories)


@pytest.mark.slow
def test_same_seed_same_trajectories_whatever_arrives_first() -> None:
    tasks = [TASK, notes_task([("other", [ADD])] * 3), notes_task([("third", [])])]
    runs = [
        plain(play_groups(tasks, NoisyPolicy(waits), seed=1, concurrency=width))
        for waits, width in ((None, 256), (1, 256), (2, 3), (None, 1))
    ]
    assert runs[0] == runs[1] == runs[2] == runs[3]
    assert plain(play_groups(tasks, NoisyPolicy(), seed=2)) != runs[0]


@pytest.mark.parametrize(("share", "total", "most"), [(0.29, 100, 29), (0.07, 100, 7), (0.5, 3, 1)])
def test_as_many_trajectories_may_be_invalid_as_the_share_says(
    share: float, total: int, most: int
) -> None:
    """0.29 * 100 is 28.999999999999996, and 29 of 100 are not more than that share."""
    failed = dataclasses.replace(play(TASK, script("ok", "ok", "ok")), failure="down")
    invalid = InvalidShare(share, total)
    for _ in range(most):
        invalid.count(failed)
    with pytest.raises(EnvError, match=f"{most + 1} of the {total} trajectories"):
        invalid.count(failed)
