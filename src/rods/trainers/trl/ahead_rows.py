"""The groups of an update as samples of TRL's asynchronous trainer.

Owns how many there are, in which order they come and what they weigh. TRL makes an optimiser step
of so many samples, whatever they teach, and takes the mean over the tokens of each forward pass.
So each trajectory has a place, and advantages are scaled until the step's mean is that of the
recipe (`train.aggregation`): the clipped loss is proportional to them.

    samples = samples_of(played, config, Parts.of(config, share), first=0, filler=0)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from rods.config import RunConfig
from rods.reward import Score
from rods.trainers.batches.mini import loss_weights
from rods.trainers.samples import Sample, host_row
from rods.trainers.trl.ahead_args import MODULE
from rods.trainers.trl.args import Parts
from rods.trainers.trl.shared import trl_module
from rods.trajectory import Group, Trajectory

_RolloutSample: Any = trl_module(f"{MODULE}.async_rollout_worker").RolloutSample


class Played(NamedTuple):
    """The groups of one update, with what became of them."""

    groups: Sequence[Group]
    scores: Sequence[Sequence[Score]]
    samples: Sequence[Sample]
    """Those that teach something; see `collect`."""


class _Place(NamedTuple):
    """One sample of TRL's, and what of it is trained on."""

    row: Any
    """A RolloutSample that carries no loss."""
    trajectory: Trajectory
    sample: Sample | None


def samples_of(
    played: Played, config: RunConfig, parts: Parts, first: int, filler: int
) -> list[Any]:
    """All samples of an update, in the order in which they are trained on.

    Args:
        played: its groups; fewer than usual at the end of the stages.
        config: settings.
        parts: how an update is parted.
        first: number of its first group.
        filler: see `host_row`.
    """
    stand_in = _stand_in(played.groups, filler)
    places = list(_places(played, stand_in, first))
    places += [_Place(stand_in, places[0].trajectory, None)] * (parts.rows - len(places))
    size = parts.share * parts.gathered
    steps = [places[i : i + size] for i in range(0, parts.rows, size)]
    once = [row for step in steps for row in _step(step, config, parts, filler)]
    return once * config.train.epochs


def _places(played: Played, stand_in: Any, first: int) -> Iterator[_Place]:
    samples = {(s.group, s.member): s for s in played.samples}
    for number, (group, scores) in enumerate(zip(played.groups, played.scores, strict=True)):
        for trajectory, score in zip(group.trajectories, scores, strict=True):
            valid = score.valid and trajectory.valid
            row = replace(
                stand_in,
                model_version=group.policy_version,
                group_id=first + number,
                metrics={"reward": score.value if valid else math.nan},
            )
            yield _Place(row, trajectory, samples.get((number, trajectory.member)))


def _stand_in(groups: Sequence[Group], filler: int) -> Any:
    """What stands where nothing is trained: a trajectory up to its first sampled token.

    It is one of theirs, so that it costs no more than a prompt that is shared, and says nothing
    strange of the policy where TRL must have a token to look at.
    """
    known = [t for g in groups for t in g.trajectories]
    row = host_row(
        next((t for t in known if t.valid and t.ledger.generated), known[0]), None, filler
    )
    before = len(row.prompt)
    return _RolloutSample(
        prompt=[],
        completion=[],
        input_ids=np.array([*row.prompt, row.completion[0]], dtype=np.int64),
        completion_mask=np.zeros(before + 1, dtype=np.int64),
        old_log_probs=np.array([0.0] * before + row.logprobs[:1], dtype=np.float32),
        advantage=0.0,
        model_version=min(g.policy_version for g in groups),
        group_id=0,
        metrics={},
    )


def _step(places: Sequence[_Place], config: RunConfig, parts: Parts, filler: int) -> Iterator[Any]:
    """The samples of one step of the optimiser, those that are trained on first."""
    taught = [p for p in places if p.sample is not None]
    samples = [p.sample for p in taught if p.sample is not None]
    weights = loss_weights(samples, config.train.aggregation, config.rollout.generated_tokens)
    rows = [
        _trained(place, sample, weight, filler)
        for place, sample, weight in zip(taught, samples, weights, strict=True)
    ]
    rows += [p.row for p in places if p.sample is None]
    for start in range(0, len(rows), parts.share):
        yield from _forward_pass(rows[start : start + parts.share], parts.gathered)


def _trained(place: _Place, sample: Sample, weight: float, filler: int) -> Any:
    """A sample with its share of the step's mean for an advantage."""
    row = host_row(place.trajectory, sample, filler)
    before = len(row.prompt)
    return replace(
        place.row,
        input_ids=np.array(row.prompt + row.completion, dtype=np.int64),
        completion_mask=np.array([0] * before + row.trained, dtype=np.int64),
        old_log_probs=np.array([0.0] * before + row.logprobs, dtype=np.float32),
        advantage=sample.advantage * weight,
    )


def _forward_pass(rows: list[Any], gathered: int) -> list[Any]:
    """Rows that TRL takes the mean over: by tokens, then over the step's forward passes."""
    tokens = sum(int(row.completion_mask.sum()) for row in rows)
    if not tokens:  # TRL fails without any: a token with advantage 0
        mask = rows[0].completion_mask.copy()
        mask[-1] = 1
        return [replace(rows[0], completion_mask=mask), *rows[1:]]
    return [replace(row, advantage=row.advantage * tokens * gathered) for row in rows]
