"""verl's PPO trainer over our curriculum: groups are judged, masked and given advantages.

Owns what happens between verl's sampling and its update: trajectories become groups, rewards
score them, the boundary sees them, and rewards, masks and advantages of the recipe go where verl
reads them. Log-probabilities, critic, losses, weight transfer and checkpoints stay verl's.

    trainer = trainer_over("sync")(run, config)     # verl makes it: see start.py
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from rods.errors import StoreError, TrainError
from rods.integrations.verl.checks import SYNC
from rods.integrations.verl.rows import ESTIMATOR, TICKET, TRAJECTORY, Flight, watching
from rods.rollout.groups import InvalidShare
from rods.trainers.hosted import Drawn, HostedRun
from rods.trainers.samples import HostRow, host_row
from rods.trajectory import Group, Trajectory
from rods.trajectory_codec import from_json

_queue: Any = importlib.import_module("transfer_queue")
_tensordict: Any = importlib.import_module("tensordict")
_algorithms: Any = importlib.import_module("verl.trainer.ppo.core_algos")
_trainers: Any = importlib.import_module("verl.trainer.ppo.v1")
_PPOTrainer: Any = _trainers.PPOTrainer
PARTITION = "train"  # verl's name of the queue's part that is trained on


class KVBatchMeta(Protocol):
    """verl's class of this name: the keys of a batch whose columns are in the queue."""

    keys: list[str]
    partition_id: str

    def select_keys(self, keys: list[str]) -> KVBatchMeta:
        """The part with these keys."""
        ...


def trainer_over(mode: str) -> Any:
    """The class of our trainer over verl's trainer of a mode (`trainer.v1.trainer_mode`)."""
    return type("CurriculumTrainer", (CurriculumTrainer, _trainers.get_trainer_cls(mode)), {})


class CurriculumTrainer(_PPOTrainer):
    """Any of verl's trainers, whose tasks follow the policy; see `trainer_over`."""

    def __init__(self, run: HostedRun, config: Any) -> None:
        self._run = run
        self._rows: dict[str, HostRow] = {}  # Rows of the last step on which the update trains
        self._keys: Sequence[str] = ()
        self._learns = True
        self._flight = Flight()
        _algorithms.ADV_ESTIMATOR_REGISTRY[ESTIMATOR] = self._advantages_of
        super().__init__(config)

    def _init_dataloader(self) -> None:
        super()._init_dataloader()
        self.train_dataset.bind(
            self._run, Path(self.config.rods.folder), lambda: self.global_steps - 1
        )

    @property
    def _waits(self) -> bool:
        """True if a step waits for all that it drew."""
        return self.trainer_mode == SYNC

    def _load_checkpoint(self) -> None:
        """Go on from verl's checkpoint; what was in flight then is drawn again.

        Raises:
            StoreError: the checkpoint knows no curriculum, or one of other settings or tasks.
        """
        super()._load_checkpoint()
        asked = self.config.trainer
        folder = Path(asked.default_local_dir) / f"global_step_{self.global_steps}"
        if asked.resume_mode == "resume_path":
            folder = Path(asked.resume_from_path)
        if self.global_steps and not (folder / "data.pt").is_file():  # verl would only warn
            raise StoreError(
                f"{folder}: data.pt is missing, so this checkpoint has no curriculum. Copy it "
                "back, resume from an older checkpoint (trainer.resume_mode=resume_path "
                "trainer.resume_from_path=...), or start again in another --out."
            )
        if self._restored_tq_prompt_count:
            held = (_queue.kv_list(PARTITION) or {}).get(PARTITION, {})
            _queue.kv_clear(keys=list(held), partition_id=PARTITION)
            self._restored_tq_prompt_count = 0

    def fit(self, agent_loop_manager: Any) -> None:
        """Train to the end; raises `TrainError` where an agent worker died."""
        buffer: Any = self.replay_buffer
        workers = agent_loop_manager.agent_loop_workers
        buffer._wait_for_next_poll = watching(buffer._wait_for_next_poll, workers)
        super().fit(agent_loop_manager)

    # -- before the rollouts ----------------------------------------------------------------

    def _next_train_batch(self, num_prompts: int | None = None) -> Any:
        """Rows of the next draws; first of all those that verl lost."""
        if not self._waits:
            self._draw_again()
        return super()._next_train_batch(num_prompts)

    def _draw_again(self) -> None:
        """Draws whose groups verl threw away because a trajectory's world or server failed."""
        tags = (_queue.kv_list(PARTITION) or {}).get(PARTITION, {})
        out: dict[str, Drawn] = self.train_dataset.out
        for ticket in self._flight.lost([k for k, tag in tags.items() if tag.get("is_prompt")]):
            lost = out.pop(ticket)
            self._run.curriculum.release([lost.task.id], lost.epoch)

    def _submit_batch_to_rollout(self, batch: Any) -> int:
        """Roll out rows; those that stand for no draw only where a step would not be full."""
        if self._waits:
            return super()._submit_batch_to_rollout(batch)
        tickets = _plain(batch[TICKET])
        drawn = [row for row, ticket in enumerate(tickets) if ticket]
        empty = [row for row, ticket in enumerate(tickets) if not ticket]
        uids = _plain(batch["uid"])
        self._flight.took_off([uids[row] for row in drawn], [tickets[row] for row in drawn])
        missing = self.config.data.train_batch_size - len(self.train_dataset.out)
        rows = [*drawn, *empty[: max(0, missing)]]
        return super()._submit_batch_to_rollout(batch[rows]) if rows else 0

    # -- after the rollouts -----------------------------------------------------------------

    def _balance_batch(self, batch: KVBatchMeta, metrics: dict[str, object], **others: Any) -> Any:
        return super()._balance_batch(self._judged(batch, metrics), metrics, **others)

    def _judged(self, batch: KVBatchMeta, metrics: dict[str, object]) -> KVBatchMeta:
        """The batch without what failed, and with its rewards and masks; the boundary saw it.

        Raises:
            TrainError: a trajectory is missing, or none is valid.
            EnvError: too many are invalid (`rollout.max_invalid`).
        """
        flying: dict[str, Drawn] = self.train_dataset.out
        self._flight.landed(batch.keys)
        rolled = self._rolled_out(batch)
        out = {t: d for t, d in flying.items() if self._waits or rolled[t]}
        size = self._run.config.rollout.k
        lost = [f"{t} ({len(rolled[t])})" for t in out if len(rolled[t]) != size]
        if lost:
            raise TrainError(
                f"of these draws not all {size} trajectories came back: {', '.join(lost)}. The "
                "agent workers' log has the failure; nothing of this step was judged."
            )
        drawn = list(out.values())
        groups = [_group(d, [one for _, one in rolled[t]]) for t, d in out.items()]
        trajectories = [t for group in groups for t in group.trajectories]
        share = InvalidShare(self._run.config.rollout.max_invalid, len(trajectories))
        for trajectory in trajectories:
            share.count(trajectory)
        scores = self._run.judge(drawn, groups)
        for ticket in out:
            del flying[ticket]
        collected = self._run.collect(groups, scores)
        samples = {(s.group, s.member): s for s in collected.samples}
        rewards: dict[str, float] = {}
        self._rows = {}
        filler = int(self.tokenizer.pad_token_id or 0)
        for number, (ticket, row) in enumerate(zip(out, scores, strict=True)):
            for (key, trajectory), score in zip(rolled[ticket], row, strict=True):
                if score.valid and trajectory.valid and trajectory.ledger.generated:
                    sample = samples.get((number, trajectory.member))
                    self._rows[key] = host_row(trajectory, sample, filler)
                    rewards[key] = score.value
        self._learns = bool(samples)
        figures = self._run.figures(collected, in_flight=len(flying))
        metrics |= {f"rods/{name}": float(value) for name, value in figures.items()}
        return self._kept(batch, rewards)

    def _rolled_out(self, batch: KVBatchMeta) -> dict[str, list[tuple[str, Trajectory]]]:
        """Results of all that is out, with verl's keys, by ticket in the order of the draws;
        members in their order.
        """
        data = _queue.kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=[TICKET, "extra_fields"]
        )
        found: dict[str, list[tuple[str, Trajectory]]] = {
            ticket: [] for ticket in self.train_dataset.out
        }
        for key, ticket, extra in zip(
            batch.keys, _plain(data[TICKET]), _plain(data["extra_fields"]), strict=True
        ):
            if ticket:  # else it filled the batch up
                text = json.loads(extra[TRAJECTORY])
                found[ticket].append((key, from_json(text, f"draw {ticket}")))
        for members in found.values():
            members.sort(key=lambda pair: pair[1].member)
        return found

    def _kept(self, batch: KVBatchMeta, rewards: Mapping[str, float]) -> KVBatchMeta:
        """The rows that were scored: a failure of infrastructure is no reward, not even of 0."""
        gone = [key for key in batch.keys if key not in rewards]
        if len(gone) == len(batch.keys):
            raise TrainError("no trajectory of this step is valid, so there is no update to make.")
        kept = batch.select_keys([key for key in batch.keys if key in rewards])
        if gone:
            _queue.kv_clear(keys=gone, partition_id=batch.partition_id)
        # verl's own estimators spread the reward; ours says itself what carries loss. verl's
        # figures need some token; where none carries loss there is no update.
        ours = self._ours and self._learns
        rows = [self._rows[key] for key in kept.keys]
        masks = [torch.tensor(r.trained if ours else r.mask, dtype=torch.int64) for r in rows]
        points = [torch.zeros(len(mask)) for mask in masks]
        for key, row in zip(kept.keys, points, strict=True):
            row[-1] = rewards[key]
        fields = {
            "rm_scores": _jagged(points),
            "response_mask": _jagged(masks),
            "loss_mask": _jagged(masks),
        }
        _queue.kv_batch_put(
            keys=kept.keys,
            partition_id=kept.partition_id,
            fields=_tensordict.TensorDict(fields, batch_size=len(masks)),
        )
        return kept

    @property
    def _ours(self) -> bool:
        """True if the advantages are the recipe's."""
        return self.config.algorithm.adv_estimator == ESTIMATOR

    # -- the update -------------------------------------------------------------------------

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, object]) -> Any:
        self._keys = batch.keys
        return super()._compute_advantage(batch, metrics)

    def _advantages_of(self, token_level_rewards: Tensor, **_: Any) -> tuple[Tensor, Tensor]:
        """The recipe's advantages, in the form of verl's estimators; 0 for verl's padding."""
        found = torch.zeros_like(token_level_rewards)
        for place, key in zip(found, self._keys, strict=True):
            if key in self._rows:
                row = self._rows[key].advantages
                place[: len(row)] = torch.tensor(row)
        return found, found

    def _update_actor(self, batch: object, metrics: dict[str, object]) -> Any:
        if self._ours and not self._learns:
            metrics["rods/skipped"] = 1.0
            return batch
        return super()._update_actor(batch, metrics)

    def on_step_end(self) -> None:
        """End the training with the last group of the last stage, whatever its steps say."""
        super().on_step_end()
        over = self._run.over and not self.train_dataset.out
        if over and self.global_steps < self.total_training_steps:
            self.total_training_steps = self.global_steps
            every = self.config.trainer.save_freq
            if every > 0 and self.global_steps % every:
                self._save_checkpoint()


def _group(drawn: Drawn, trajectories: Sequence[Trajectory]) -> Group:
    versions = [t.policy_version for t in trajectories]
    return Group(drawn.task, tuple(trajectories), min(versions))


def _plain(column: Iterable[object]) -> list[Any]:
    """A column without tensors, as plain values."""
    return [getattr(value, "data", value) for value in column]


def _jagged(rows: list[Tensor]) -> Tensor:
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)
