"""What the filters leave out of an update, and that all of it is counted."""

from dataclasses import replace

import pytest

from rods.assemble.refusals import require_named
from rods.config import TrainSettings, load_config
from rods.errors import ConfigError, RewardError
from rods.recipes.zerotir.filter import ZeroTirFilter
from rods.reward import Score, score_group
from rods.rewards import get_reward
from rods.rewards.filters import filter_of
from rods.tokens import Span
from rods.trainers.collect import collect
from rods.trajectory import Group
from rods.types import ParseVerdict, StopReason
from tir_cases import block, code, play, question, says
from trainer_cases import make_groups, make_model, make_trainer

ZEROTIR = ZeroTirFilter((0.05, 0.8))
SPANS = (Span((1, 2), None), Span((3, 4), (-1.0, -1.0)))
CALL = code(f"Let me see.\n{block()}", False)
WELL, BAD = r"</think><answer>\boxed{42}</answer>", r"</think><answer>\boxed{41}</answer>"

MEMBERS = {
    "right": play(CALL, WELL),
    "wrong": play(CALL, BAD),
    "truncated": play(WELL[:9], stop=StopReason.GENERATED),
    "odd_finish": play(CALL, stop=StopReason.CALLS),
    "shortcut": play(f"{block()}\n```output\n42\n```\n```output\n42\n```\n{WELL}"),
    "unbalanced": play(CALL, f"{BAD}\n```python\nprint(1"),
    "repetition": play("again and again and " * 60),
    "invalid": play(failure="the tool server died"),
}


def group_of(*names, number=0):
    task = question(number=number)
    members = [
        replace(MEMBERS[n], member=i, task_id=task.id, spans=SPANS) for i, n in enumerate(names)
    ]
    return Group(task, members, 0)


def gather(groups, kind="grpo", filters=ZEROTIR):
    scores = [score_group(get_reward("zerotir"), g) for g in groups]
    return collect(groups, scores, kind, filters=filters)


def counted(counts):
    return {reason: n for reason, n in counts.items() if n}


# -- groups --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "of", "window", "reason"),
    [
        (2, 4, (0.05, 0.8), None),
        (0, 4, (0.05, 0.8), "too_hard"),
        (4, 4, (0.05, 0.8), "too_easy"),
        (1, 4, (0.25, 0.8), "too_hard"),  # strict: the bound itself is outside
        (1, 4, (0.249, 0.8), None),
        (3, 4, (0.05, 0.75), "too_easy"),
        (3, 4, (0.05, 0.751), None),
        (4, 5, (0.0, 0.8), "too_easy"),
    ],
)
@pytest.mark.parametrize("kind", ["reinforce++_baseline", "gae"])
def test_groups_by_accuracy(right, of, window, reason, kind):
    odd = group_of(*["right"] * right, *["wrong"] * (of - right), number=1)
    good = group_of("right", "wrong", number=2)
    batch = gather([odd, good], kind, ZeroTirFilter(window))
    assert counted(batch.dropped) == ({reason: 1} if reason else {})
    assert batch.groups == 2 and batch.informative == (1 if reason else 2)
    assert {s.task_id for s in batch.samples} == {good.task.id} | (
        set() if reason else {odd.task.id}
    )


def test_a_dropped_group_is_not_in_the_batch_that_standardizes():
    good, easy = group_of("right", "wrong"), group_of(*["right"] * 5, "wrong", number=1)
    with_it, without = (gather(g, "reinforce++_baseline") for g in ([good, easy], [good]))
    assert [s.advantage for s in with_it.samples] == [s.advantage for s in without.samples]
    unfiltered = gather([good, easy], "reinforce++_baseline", None)
    assert len(unfiltered.samples) == 8
    assert unfiltered.samples[0].advantage != with_it.samples[0].advantage


def test_a_group_most_of_whose_scores_failed_is_dropped():
    half = group_of("right", "wrong", "invalid", "invalid")
    batch = gather([half])
    assert counted(batch.dropped) == {"failed": 1}
    assert (batch.invalid, batch.trajectories, batch.samples) == (2, 4, [])
    assert counted(gather([group_of("right", "wrong", "right", "wrong", "invalid")]).dropped) == {}


def test_a_failed_trajectory_with_a_valid_score_counts_as_failed():
    group = group_of("right", "wrong", "invalid", "invalid")
    scores = [[Score(v, {"correct": v}) for v in (1.0, 0.0, 1.0, 0.0)]]
    assert counted(collect([group], scores, "grpo", filters=ZEROTIR).dropped) == {"failed": 1}


# -- samples -------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["truncated", "odd_finish", "unbalanced", "repetition"])
@pytest.mark.parametrize("kind", ["grpo", "gae"])
def test_a_masked_sample_has_no_loss_but_stays_in_the_baseline(fault, kind):
    group = group_of("right", "wrong", fault, "wrong")
    batch = gather([group], kind)
    assert [s.member for s in batch.samples] == [0, 1, 3]
    assert counted(batch.masked) == {fault: 1}
    assert (batch.trajectories, batch.invalid, batch.empty) == (4, 0, 0)
    if kind == "grpo":  # rewards 1, 0, 0, 0: mean 1/4, deviation 1/2
        got = [s.advantage for s in batch.samples]
        assert got == pytest.approx([1.5, -0.5, -0.5], abs=1e-5)
    else:
        assert [s.reward for s in batch.samples] == [1.0, 0.0, 0.0]


def test_a_right_answer_with_made_up_output_is_masked():
    batch = gather([group_of("right", "wrong", "shortcut", "wrong")])
    assert [s.member for s in batch.samples] == [0, 1, 3]
    assert counted(batch.masked) == {"shortcut": 1}
    # Rewards 1, 0, 1, 0.
    assert batch.samples[0].advantage == pytest.approx(0.5 / (1 / 3) ** 0.5, abs=1e-5)


def test_a_truncated_right_answer_trains():
    group = group_of("right", "wrong", "truncated")
    scores = [[Score(v, {"correct": v}) for v in (1.0, 0.0, 1.0)]]
    batch = collect([group], scores, "grpo", filters=ZEROTIR)
    assert len(batch.samples) == 3 and not any(batch.masked.values())


def test_counts_add_up():
    mixed = group_of("right", "wrong", "truncated", "odd_finish", "invalid")
    silent = Group(mixed.task, [*mixed.trajectories[:2]], 0)
    silent.trajectories[1] = replace(silent.trajectories[1], spans=(Span((1,), None),))
    groups = [mixed, silent, group_of("right", "right"), group_of("wrong", "wrong", "invalid")]
    for kind in ("grpo", "gae"):
        batch = gather(groups, kind)
        assert counted(batch.dropped) == {"too_easy": 1, "too_hard": 1}
        left_out = batch.empty + sum(batch.masked.values()) + batch.invalid
        assert len(batch.samples) + left_out + 2 + 2 == batch.trajectories == 12
        assert batch.empty == 1 and batch.invalid == 2


def test_invalid_members_are_counted_once():
    batch = gather([group_of("right", "wrong", "wrong", "invalid")])
    assert batch.invalid == 1 and not any(batch.masked.values())


# -- without, and wrong use ----------------------------------------------------------------------


def test_without_a_filter_nothing_is_left_out():
    groups = [group_of(*[n for n in MEMBERS if n != "invalid"])]
    batch = gather(groups, "grpo", filter_of(TrainSettings(filter="none")))
    assert len(batch.samples) == 7 and batch.dropped == batch.masked == {}


DAPO = filter_of(TrainSettings(filter="dapo"))


@pytest.mark.parametrize("kind", ["grpo", "reinforce++", "reinforce++_baseline", "gae"])
def test_dapo_trains_no_group_of_equal_scores(kind):
    good = group_of("right", "wrong", "truncated")
    flat = [group_of("right", "right", number=1), group_of("wrong", "invalid", number=2)]
    batch = gather([*flat, good], kind, DAPO)
    assert (batch.groups, batch.dropped, batch.masked) == (3, {"equal": 2}, {})
    assert [(s.group, s.member) for s in batch.samples] == [(2, 0), (2, 1), (2, 2)]
    alone = gather([good], kind, DAPO)
    assert [s.advantage for s in batch.samples] == [s.advantage for s in alone.samples]


def test_a_reward_that_does_not_say_correct_is_refused():
    group = group_of("right", "wrong")
    with pytest.raises(RewardError, match="correct"):
        collect([group], [[Score(1.0), Score(0.0)]], "grpo", filters=ZEROTIR)


def test_an_unknown_filter_is_refused():
    with pytest.raises(
        ConfigError, match=r"train\.filter: there is no filter 'sieve'.*none, dapo, zerotir"
    ):
        filter_of(TrainSettings(filter="sieve"))


# -- ppo keeps groups of equal rewards -----------------------------------------------------------


def test_gae_withholds_no_group():
    groups = [group_of("right", "right"), group_of("wrong", "wrong"), group_of("invalid", "right")]
    batch = gather(groups, "gae", None)
    assert (batch.informative, batch.zero_variance) == (3, 3)
    assert [s.reward for s in batch.samples] == [1.0, 1.0, 0.0, 0.0, 1.0]
    assert gather(groups, "grpo", None).informative == 0


# -- the report ----------------------------------------------------------------------------------


@pytest.fixture
def trainer(one_thread):
    return make_trainer(make_model(), filter="zerotir")


def update(trainer, groups):
    return trainer.update(groups, [score_group(get_reward("zerotir"), g) for g in groups])


def test_the_report_counts_by_reason(trainer):
    groups = [group_of("right", "wrong", "odd_finish"), group_of("right", "right", number=1)]
    report = update(trainer, groups)
    assert report.trained == 2 and report.skipped is None
    row = report.metrics()
    assert (row["dropped_too_easy"], row["dropped_too_hard"], row["dropped_failed"]) == (1, 0, 0)
    assert (row["masked_odd_finish"], row["masked_truncated"]) == (1, 0)
    assert "masked_perplexity" not in row


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ((["right"] * 2, ["wrong"] * 2), "dropped every group: 1 too_hard, 1 too_easy"),
        ((["shortcut", "odd_finish"],), "masked 1 odd_finish, 1 shortcut, and nothing is left"),
        ((["wrong"] * 2, ["invalid"] * 2), "dropped every group: 1 failed, 1 too_hard"),
    ],
)
def test_nothing_to_learn_is_said(trainer, members, words):
    report = update(trainer, [group_of(*names) for names in members])
    assert words in report.skipped and report.version == 0


def test_without_a_filter_the_log_has_no_counts():
    row = make_trainer(make_model()).update([], []).metrics()
    assert not [key for key in row if key.startswith(("dropped", "masked"))]


def test_ppo_without_a_valid_trajectory_says_so():
    trainer = make_trainer(make_model(), advantage="gae")
    report = update(trainer, [group_of("invalid", "invalid")])
    assert report.skipped == "all 2 trajectories are invalid" and report.critic is None


def test_the_cases_are_what_they_say():
    assert says(WELL).verdict is ParseVerdict.ANSWER
    scores = score_group(get_reward("zerotir"), group_of(*MEMBERS))
    right = [n for n, s in zip(MEMBERS, scores, strict=True) if s.value]
    assert right == ["right", "shortcut"]


@pytest.mark.parametrize(("limit", "masked"), [(1.0001, True), (1e9, False)])
def test_unlikely_samples_are_masked_and_counted(limit, masked, monkeypatch):
    monkeypatch.setattr("rods.recipes.zerotir.filter.ending", lambda trajectory: "finished")
    filtering = {"window": (0.0, 1.1), "max_perplexity": limit}
    trainer = make_trainer(make_model(), filter="zerotir", **filtering)
    groups = make_groups(trainer.model)
    right = {"correct": 1.0, "well_formed": 1.0}
    scores = [[Score(float(i % 2), right) for i in range(4)] for _ in groups]
    row = trainer.update(groups, scores).metrics()
    assert (row["masked_perplexity"] > 0) is masked


# -- a filter of one's own ----------------------------------------------------------------------


class Odd:
    """Drops groups of an odd size; a filter of a user's."""

    group_reasons = ("odd",)
    sample_reasons = ("first",)

    def __init__(self, window, max_perplexity):
        self.window = window

    def group_fault(self, scores):
        return "odd" if len(scores) % 2 else None

    def sample_faults(self, group, scores, perplexities=None):
        return ["first", *[None] * (len(scores) - 1)]


def test_a_filter_is_named_by_module_and_attribute():
    found = filter_of(TrainSettings(filter=f"{__name__}:Odd"))
    groups = [group_of("right", "wrong"), group_of("right", "wrong", "wrong", number=1)]
    batch = gather(groups, "grpo", found)
    assert (batch.dropped, batch.masked) == ({"odd": 1}, {"first": 1})
    assert len(batch.samples) == 1 and found.window == TrainSettings().filtering.window


def test_what_is_no_filter_is_refused_before_training():
    with pytest.raises(ConfigError, match="has no 'group_fault', 'group_reasons'"):
        filter_of(TrainSettings(filter="rods.reward:Score"))
    for name, said in (("zero_tir", "Did you mean 'zerotir'"), ("dappo", "Did you mean 'dapo'")):
        with pytest.raises(ConfigError, match=said):
            require_named(load_config("rods", "small", [f"train.filter={name}"]))
