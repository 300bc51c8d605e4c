"""From trajectories to micro-batches."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rods.errors import TokenError, TrainError
from rods.reward import Score
from rods.task import Task, Turn
from rods.tokens import Span
from rods.trainers.batches.micro import grow, loss_weights, pack
from rods.trainers.collect import collect, training_signals
from rods.trainers.credit import with_credit
from rods.trainers.samples import Estimates, Sample, host_row, span_advantages, to_sample
from rods.trajectory import Group, Trajectory
from rods.types import StopReason

TASK = Task("none", "base", (Turn("hello"),), {})


def make(spans, member=0, failure=None, temperature=1.0, task=TASK):
    stop = StopReason.FAILURE if failure else StopReason.DONE
    return Trajectory(
        task.id, member, 0, member, (), (), (), 1, tuple(spans), stop, failure,
        temperature=temperature,
    )  # fmt: skip


TURNS = [
    Span((1, 2, 3), None),
    Span((4, 5), (-0.5, -1.5)),
    Span((6,), None),
    Span((), None),
    Span((7, 8, 9), (-0.1, -0.2, -0.3)),
    Span((10,), None),
]


def sample(length, sampled=1, task_id="t", member=0):
    mask = np.zeros(length, dtype=np.bool_)
    mask[length - sampled :] = True
    ids = np.arange(1, length + 1, dtype=np.int64)
    return Sample(ids, mask, np.where(mask, -1, 0).astype(np.float32), 1.0, task_id, member)


def test_invariant_1_ids_and_masks_arrive_unchanged():
    got = to_sample(make(TURNS), 0.5)
    assert got.ids.tolist() == list(range(1, 11))
    assert got.mask.tolist() == [False] * 3 + [True] * 2 + [False] + [True] * 3 + [False]
    want = [0, 0, 0, -0.5, -1.5, 0, -0.1, -0.2, -0.3, 0]
    assert got.rollout_logprobs.tolist() == pytest.approx(want)
    assert (got.advantage, got.task_id, got.sampled, len(got)) == (0.5, TASK.id, 5, 10)


def test_invariant_1_only_sampled_tokens_are_targets():
    micro = pack([to_sample(make(TURNS), 0.5)], 100)[0]
    assert micro.targets.tolist() == [4, 5, 7, 8, 9]
    assert micro.columns.tolist() == [2, 3, 5, 6, 7]
    assert micro.rollout_logprobs.tolist() == pytest.approx([-0.5, -1.5, -0.1, -0.2, -0.3])
    assert micro.samples[0].ids[micro.columns + 1].tolist() == micro.targets.tolist()


def test_an_invalid_trajectory_is_refused():
    with pytest.raises(TrainError, match="tool server died"):
        to_sample(make(TURNS, failure="tool server died"), 1.0)


def test_a_greedy_trajectory_is_refused():
    with pytest.raises(TrainError, match="temperature"):
        to_sample(make(TURNS, temperature=0.0), 1.0)


@pytest.mark.parametrize(
    "spans",
    [
        [],
        [Span((1, 2), None)],
        [Span((1,), (-1.0,))],
        [Span((1,), None), Span((2,), (float("nan"),))],
        [Span((1,), None), Span((2,), (0.5,))],
    ],
    ids=["empty", "nothing sampled", "sampled first", "not a number", "above zero"],
)
def test_broken_ledgers_are_refused(spans):
    with pytest.raises(TokenError, match=TASK.id):
        to_sample(make(spans), 1.0)


def test_collect_withholds_groups_without_a_signal():
    flat = Group(TASK, [make(TURNS, i) for i in range(3)], 0)
    other = Task("none", "base", (Turn("again"),), {})
    signal = Group(
        other,
        [
            make(TURNS, 0, task=other),
            make(TURNS, 1, failure="timeout", task=other),
            make(TURNS, 2, task=other),
            make([Span((1,), None)], 3, task=other),
        ],
        0,
    )
    scores = [[Score(1.0)] * 3, [Score(1.0), Score(0.0), Score(0.0), Score(0.5)]]
    batch = collect([flat, signal], scores, "dr_grpo")
    assert [(s.task_id, s.member, s.advantage) for s in batch.samples] == [
        (other.id, 0, 0.5),
        (other.id, 2, -0.5),
    ]
    assert (batch.groups, batch.informative, batch.zero_variance) == (2, 1, 1)
    assert (batch.trajectories, batch.invalid, batch.empty) == (7, 1, 1)


def test_invariant_5_an_invalid_score_is_no_zero():
    group = Group(TASK, [make(TURNS, i) for i in range(3)], 0)
    scores = [Score(1.0), Score(1.0), Score(0.0, valid=False, reason="judge failed")]
    batch = collect([group], [scores], "grpo")
    assert batch.samples == [] and batch.zero_variance == 1 and batch.invalid == 1


def test_signals_have_the_reward_its_parts_and_an_advantage_for_each_span_with_a_loss():
    none = make([Span((1,), None)], 2)
    group = Group(TASK, [make(TURNS, 0), make(TURNS, 1), none, make(TURNS, 3, "gone")], 0)
    flat = Group(TASK, [make(TURNS, i) for i in range(2)], 0)
    half = Score(np.float32(0.5), {"solved": np.float32(0.5)})
    scores = [[Score(1.0)] * 2, [Score(1.0, {"solved": 1.0}), half, Score(0.0), Score(9.0)]]
    batch = collect([flat, group], scores, "dr_grpo")
    signals = training_signals([flat, group], scores, batch.samples)
    idle = (None,) * len(TURNS)
    assert signals[0] == [(1.0, {}, idle)] * 2, "equal rewards teach nothing"
    assert signals[1] == [
        (1.0, {"solved": 1.0}, (None, 0.5, None, None, 0.5, None)),
        (0.5, {"solved": 0.5}, (None, 0.0, None, None, 0.0, None)),
        (0.0, {}, (None,)),
        (None, {}, idle),
    ]
    assert all(type(s.reward) in (float, type(None)) for s in signals[1]), "as JSON knows them"


def test_the_advantage_of_a_span_is_the_mean_over_its_tokens_with_a_loss():
    one = to_sample(make(TURNS), 0.5)
    wide = to_sample(make(TURNS), 0.5, mask_env_tokens=False)
    credit = with_credit(one, np.array([0, 0, 1, 3, 0], dtype=np.float32))
    five = np.array([1, 2, 0, -3, -3], dtype=np.float32)
    judged = dataclasses.replace(one, estimates=Estimates(five, five, five))
    found = [span_advantages(make(TURNS), s) for s in (one, wide, credit, judged, None)]
    assert found == [
        (None, 0.5, None, None, 0.5, None),
        (None, 0.5, 0.5, None, 0.5, 0.5),
        (None, None, None, None, 2.0, None),
        (None, 1.5, None, None, -2.0, None),
        (None,) * 6,
    ]


class Picky:
    """Drops groups that begin with the reward 9, and masks the second member."""

    group_reasons, sample_reasons = ("nine",), ("second",)

    def group_fault(self, scores):
        return "nine" if scores[0].value == 9 else None

    def sample_faults(self, group, scores, perplexities=None):
        return ["second" if t.member == 1 else None for t in group.trajectories]


def test_what_a_filter_leaves_out_keeps_the_places_of_the_others():
    groups = [Group(TASK, [make(TURNS, i) for i in range(3)], 0) for _ in range(3)]
    scores = [
        [Score(9.0), Score(0.0), Score(1.0)],
        [Score(1.0)] * 3,
        [*map(Score, (0.0, 1.0, 2.0))],
    ]
    batch = collect(groups, scores, "dr_grpo", filters=Picky())
    assert [(s.group, s.member, s.advantage) for s in batch.samples] == [(2, 0, -1.0), (2, 2, 1.0)]
    assert (batch.dropped, batch.masked) == ({"nine": 1}, {"second": 1})
    none = (None,) * len(TURNS)
    signals = training_signals(groups, scores, batch.samples)
    assert [s.span_advantages for row in signals[:2] for s in row] == [none] * 6
    assert [s.span_advantages[1] for s in signals[2]] == [-1.0, None, 1.0]


def test_a_masked_member_weighs_nothing_where_tokens_weigh():
    long = [Span((1,), None), Span((2,) * 50, (-0.5,) * 50)]
    group = Group(TASK, [make(TURNS, 0), make(long, 1), make(TURNS, 2)], 0)
    scores = [[Score(0.0), Score(7.0), Score(1.0)]]
    batch = collect([group], scores, "reinforce++", filters=Picky())
    # Five tokens of 0 and five of 1: mean 0.5, sample variance 10/9 of 1/4.
    high = 0.5 / np.sqrt(10 / 36 + 1e-8)
    assert [s.advantage for s in batch.samples] == pytest.approx([-high, high], rel=1e-6)


def test_scores_of_another_shape_are_refused():
    with pytest.raises(TrainError, match="one score for each"):
        collect([Group(TASK, [make(TURNS)], 0)], [[Score(1.0), Score(0.0)]], "grpo")


def test_pack_sorts_by_length_and_keeps_the_bound():
    rng = np.random.default_rng(0)
    samples = [sample(int(n), member=i) for i, n in enumerate(rng.integers(2, 90, 40))]
    batches = pack(samples, 200)
    seen = [s.member for b in batches for s in b.samples]
    assert sorted(seen) == list(range(40))
    lengths = [len(s) for b in batches for s in b.samples]
    assert lengths == sorted(lengths, reverse=True)
    assert all(b.padded.size == b.positions <= 200 for b in batches)
    assert [[s.member for s in b.samples] for b in pack(samples, 200)] == [
        [s.member for s in b.samples] for b in batches
    ]


def test_pack_never_cuts_a_long_sample():
    batches = pack([sample(5), sample(50), sample(4)], 20)
    assert [[len(s) for s in b.samples] for b in batches] == [[50], [5, 4]]
    assert pack([], 20) == []


def test_padding_stands_on_the_right():
    micro = pack([sample(2), sample(4)], 100)[0]
    # The last sampled token is a target and never an input.
    assert micro.padded.tolist() == [[1, 2, 3], [1, 0, 0]]


def test_weights_of_all_tokens_sum_to_one():
    samples = [sample(9, 1), sample(9, 3), sample(9, 6)]
    assert loss_weights(samples, "token") == pytest.approx([0.1, 0.1, 0.1])
    assert loss_weights(samples, "sequence") == pytest.approx([1 / 3, 1 / 9, 1 / 18])
    for kind in ("token", "sequence"):
        weights = loss_weights(samples, kind)
        assert sum(w * s.sampled for w, s in zip(weights, samples, strict=True)) == pytest.approx(1)
    micro = pack(samples, 1000, loss_weights(samples, "sequence"))[0]
    assert micro.token_weights.sum() == pytest.approx(1)


def test_samples_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        sample(3).advantage = 2.0  # type: ignore[misc]


def test_what_follows_the_last_sampled_token_is_not_computed():
    assert to_sample(make(TURNS), 0.5).context.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_shared_batches_count_a_prefix_once():
    samples = [sample(40, task_id=t, member=m) for m in range(3) for t in ("a", "b")]
    [one] = pack(samples, 1000, shared=True)
    assert [s.task_id for s in one.samples] == ["a"] * 3 + ["b"] * 3
    assert one.positions == 39 and one.shared
    assert one.tree.ids[one.places].tolist() == [39] * 6
    assert len(pack(samples, 39, shared=True)) == 1
    assert [len(b.samples) for b in pack([*samples, sample(50)], 39, shared=True)] == [6, 1]


@pytest.mark.parametrize(("common", "bound"), [(10, 60), (10, 120), (15, 50), (40, 75)])
def test_shared_batches_keep_the_bound_where_short_common_parts_are_computed_twice(common, bound):
    samples = []
    for number in range(1, 9):
        one = sample(common + 6, member=number)
        one.ids[common:] = 100 * number
        samples.append(one)
    batches = pack(samples, bound, shared=True)
    assert sorted(s.member for b in batches for s in b.samples) == list(range(1, 9))
    assert all(b.positions <= bound for b in batches)
    for left, right in itertools.pairwise(batches):  # and none could take the next one's first
        more = [s.context for s in (*left.samples, right.samples[0])]
        assert len(grow(more).ids) > bound


sequences = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=8)


@pytest.mark.slow
@given(sequences, st.integers(1, 5))
def test_a_tree_gives_every_sequence_back(rows, least):
    arrays = [np.array(r, dtype=np.int64) for r in rows]
    tree = grow(arrays, least)
    assert len(tree.ids) == len(tree.positions) == sum(n.length for n in tree.nodes)
    assert len(tree.ids) <= sum(map(len, rows))
    for row, places in zip(rows, tree.places, strict=True):
        assert tree.ids[places].tolist() == row
        assert tree.positions[places].tolist() == list(range(len(row)))
    for index, node in enumerate(tree.nodes):
        assert node.path[-1] == index and node.length > 0
        assert node.path[:-1] == (tree.nodes[node.path[-2]].path if len(node.path) > 1 else ())


@pytest.mark.slow
@given(sequences)
def test_without_a_threshold_nothing_is_computed_twice(rows):
    tree = grow([np.array(r, dtype=np.int64) for r in rows], 1)
    assert len(tree.ids) == len({tuple(r[: i + 1]) for r in rows for i in range(len(r))})


def test_a_host_s_row_is_the_ledger_cut_behind_the_last_sampled_token():
    spans = (Span((1, 2, 3), None), Span((4, 5), (-0.5, -1.0)), Span((6,), None),
             Span((7, 8), (-2.0, -0.25)), Span((9, 9), None))  # fmt: skip
    trajectory = Trajectory("t", 2, 0, 0, (), (), (), 1, spans, StopReason.DONE)
    bare = host_row(trajectory, None)
    assert (bare.prompt, bare.completion) == ([1, 2, 3], [4, 5, 6, 7, 8])
    assert bare.mask == [1, 1, 0, 1, 1] and bare.rollout_logprobs == [-0.5, -1.0, 0.0, -2.0, -0.25]
    assert bare.trained == [0] * 5 and bare.advantages == [0.0] * 5
    whole = host_row(trajectory, to_sample(trajectory, 0.5))
    assert whole.trained == whole.mask and whole.advantages == [0.5, 0.5, 0.0, 0.5, 0.5]
    credit = np.array([0.0, 1.0, 0.0, -1.0], dtype=np.float32)
    part = host_row(trajectory, with_credit(to_sample(trajectory, 0.5), credit))
    assert part.trained == [0, 1, 0, 0, 1] and part.advantages == [0.0, 1.0, 0.0, 0.0, -1.0]
    assert part.mask == whole.mask


def test_what_must_not_be_shown_to_a_host_is_filled_in():
    sampled = (Span((1,), None), Span((4,), (-0.5,)))
    failed = Trajectory("t", 0, 0, 0, (), (), (), 1, sampled, StopReason.FAILURE, "down")
    mute = Trajectory("t", 0, 0, 0, (), (), (), 1, sampled[:1], StopReason.DONE)
    for trajectory in (failed, mute):
        row = host_row(trajectory, None, filler=3)
        assert (row.prompt, row.completion, row.mask, row.trained) == ([3], [3], [0], [0])
