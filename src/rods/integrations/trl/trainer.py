"""TRL's GRPOTrainer over our curriculum, rollouts and worlds (docs/guides/trl.md).

Owns what is put in the place of three parts of TRL: its data set (tasks are drawn when a batch is
generated, so nothing lags), its generation (token in, token out, exact masks) and its advantages
(those of the recipe). The loss, the optimizer, the ranks, the log and the checkpoints stay TRL's;
the run's state stands in each checkpoint as `rods.pt`.

    with rods.hosted(rods.load_config("rods", "small")) as run:
        CurriculumGRPOTrainer(run, grpo_args(run.config, "out")).train()
"""

from __future__ import annotations

import importlib
import io
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from accelerate.utils import broadcast_object_list, gather_object
from torch import Tensor
from transformers import TrainerCallback, TrainerControl, TrainingArguments

from rods.config import RunConfig
from rods.engines import make_engine, require_trainable
from rods.engines.hf import generation_stops
from rods.engines.options import EngineOptions
from rods.infra.files import write_atomic
from rods.infra.install import needed
from rods.integrations.trl.args import require_same, require_theirs, start_of
from rods.policy import Engine
from rods.rollout.template import ChatTemplate
from rods.trainers.checkpoint import ModelWeights
from rods.trainers.hosted import STATE, Drawn, HostedRun, read_state
from rods.trainers.samples import HostRow, host_row
from rods.trajectory import Group

with needed("`rods trl` needs TRL", "train", "trl"):
    _GRPOTrainer: Any = importlib.import_module("trl").GRPOTrainer
    _models: Any = importlib.import_module("trl.models")
    _datasets: Any = importlib.import_module("datasets")

T = TypeVar("T")
LIVE = "rods"  # Folder of the live files, in TRL's output folder


def recipe_reward(reward: Sequence[float | None], **_: object) -> list[float | None]:
    """Reward of the recipe; None where infrastructure failed. For TRL's log alone."""
    return list(reward)


class CurriculumGRPOTrainer(_GRPOTrainer):
    """TRL's `GRPOTrainer` with the tasks, rollouts, rewards and advantages of a run of RODS."""

    def __init__(
        self,
        run: HostedRun,
        args: Any,
        model: object = None,
        processing_class: object = None,
        peft_config: object = None,
        **others: Any,
    ) -> None:
        """Make the trainer; tasks, worlds and rewards come from the run.

        Args:
            run: what `with rods.hosted(config) as run` gives. Its folder is `args.output_dir`.
            args: a `trl.GRPOConfig`; `grpo_args` makes one from settings.
            model: a `PreTrainedModel`, or the name or folder of one. None: `model.name`.
            processing_class: the tokenizer of `model`. None: that of `model.name`, the same model.
            peft_config: a `peft.LoraConfig`. None: `model.lora_rank`, unless `model` has adapters.
            others: more arguments of `GRPOTrainer`, such as `callbacks` or `optimizers`.

        Raises:
            ConfigError: arguments and settings contradict each other, or ask for what TRL lacks.
        """
        require_same(run.config, args)
        require_theirs(others)
        self._run = run
        self.rows: list[HostRow] = []
        """Rows that this process has of the batch that was rolled out last."""
        self._over = False
        groups = args.generation_batch_size // args.num_generations
        super().__init__(
            **start_of(run.config.model, model, processing_class, peft_config),
            reward_funcs=[recipe_reward],
            args=args,
            # The rows are placeholders: a task is drawn when a batch is generated.
            train_dataset=_datasets.Dataset.from_list([{"prompt": ""}] * groups),
            **others,
        )
        self.rollout_func = _rolled_out
        self.add_callback(_Stages(self))

    # -- generation -------------------------------------------------------------------------

    def _generate_and_score_completions(self, inputs: Sequence[object]) -> dict[str, Any]:
        size, ranks = self.num_generations, self.accelerator.num_processes
        rank, local = self.accelerator.process_index, len(inputs)
        # TRL counts steps of the optimizer; a policy version is an update, as in `rods train`.
        passes = self.args.steps_per_generation * self.args.num_iterations
        steps = math.ceil(passes / self.args.gradient_accumulation_steps)
        version = self.state.global_step // steps
        drawn = self._by_first(lambda: self._run.draw(local * ranks // size, version))
        groups = self._roll_out(drawn, version)
        scores = self._by_first(lambda: self._run.judge(drawn, groups))
        self._over = self._by_first(lambda: self._run.over)
        batch = self._run.collect(groups, scores)
        samples = {(s.group, s.member): s for s in batch.samples}
        filler = int(self.processing_class.pad_token_id)
        rows, rewards = list[HostRow](), list[float | None]()
        for number, (group, row) in enumerate(zip(groups, scores, strict=True)):
            for trajectory, score in zip(group.trajectories, row, strict=True):
                sample = samples.get((number, trajectory.member))
                rows.append(host_row(trajectory, sample, filler))
                rewards.append(score.value if score.valid and trajectory.valid else None)
        short = local * ranks - len(rows)
        rows += [HostRow([filler], [filler], [0], [0.0], [0], [0.0])] * short
        rewards += [None] * short
        mine = slice(rank * local, (rank + 1) * local)
        self.rows = rows[mine]
        output = super()._generate_and_score_completions(
            [
                {"prompt": self.processing_class.decode(row.prompt), "reward": reward}
                for row, reward in zip(self.rows, rewards[mine], strict=True)
            ]
        )
        # A deque of one batch, in which TRL has advantages that it computed of the rewards.
        self._logs["advantages"].extend(sum(r.advantages) / max(1, sum(r.trained)) for r in rows)
        for name, value in self._run.figures(batch).items():
            self._metrics["train"][f"rods/{name}"].append(float(value))
        return self._as_ours(output)

    def _by_first(self, work: Callable[[], T]) -> T:
        """Result of the first process, in all of them."""
        made: list[Any] = [work() if self.accelerator.is_main_process else None]
        if self.accelerator.num_processes > 1:
            broadcast_object_list(made)
        return made[0]

    def _roll_out(self, drawn: Sequence[Drawn], version: int) -> list[Group]:
        """Roll out all groups: each process its share, or the first one all of them by a server."""
        served = self._run.config.engine.traits.server
        ranks = 1 if served else self.accelerator.num_processes
        rank, mine = self.accelerator.process_index, list[Group]()
        whole = self.args.ds3_gather_for_generation
        with _models.unwrap_model_for_generation(
            self.model_wrapped, self.accelerator, gather_deepspeed3_params=whole
        ) as model:
            if rank < ranks:
                if not self._run.begun:
                    self._run.begin(*_engine_of(self._run.config, self, model), ranks)
                weights = ModelWeights(model, hasattr(model, "peft_config"))
                mine = self._run.roll_out(drawn[rank::ranks], weights, version)
        gathered = gather_object(mine)
        order = [i for other in range(ranks) for i in range(other, len(drawn), ranks)]
        return [group for _, group in sorted(zip(order, gathered, strict=True), key=lambda p: p[0])]

    def _as_ours(self, output: dict[str, Tensor]) -> dict[str, Tensor]:
        """TRL's batch, with the masks and advantages of our samples."""
        like = output["completion_ids"]
        trained = _padded([row.trained for row in self.rows], like).long()
        # TRL divides by these tokens, so what `mask_truncated_completions` masks must not count.
        output["tool_mask"] = trained = trained * output["completion_mask"]
        output["advantages"] = _padded([row.advantages for row in self.rows], like)
        output["num_items_in_batch"] = self.accelerator.gather(trained.sum()).sum()
        if self._run.config.train.correction.method == "none":
            # Only with TRL's own vLLM would it take the ones of sampling.
            output["old_per_token_logps"] = output["sampling_per_token_logps"]
        return output

    # -- checkpoints ------------------------------------------------------------------------

    def _save_checkpoint(self, model: object, trial: object) -> None:
        # Ours first: a checkpoint that TRL has finished is whole.
        if self.accelerator.is_main_process:
            folder = Path(self._get_output_dir(trial=trial))
            folder = folder / f"checkpoint-{self.state.global_step}"
            folder.mkdir(parents=True, exist_ok=True)
            data = io.BytesIO()
            torch.save(self._run.state_dict(), data)
            write_atomic(folder / STATE, data.getvalue())
        super()._save_checkpoint(model, trial)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)  # TRL reads its own state here, too
        if checkpoint is not None:
            self.open(Path(checkpoint))

    def open(self, checkpoint: str | Path | None = None) -> None:
        """Begin the curriculum again or from a checkpoint, unless it has begun; `train` does it."""
        if self.accelerator.is_main_process and not self._run.opened:
            state = None if checkpoint is None else read_state(Path(checkpoint))
            self._run.open(Path(self.args.output_dir) / LIVE, state)

    @property
    def finished(self) -> bool:
        """True if the last batch of the last stage is trained on."""
        every = self.args.steps_per_generation * self.num_iterations
        return self._over and self._step % every == 0


def _engine_of(config: RunConfig, trainer: Any, model: Any) -> tuple[Engine, ChatTemplate]:
    """Engine that rolls out beside a trainer, with a copy of the weights, and its model's template.

    Raises:
        ConfigError: nothing can be learned from it.
    """
    args, tokenizer = trainer.args, trainer.processing_class
    template = ChatTemplate(tokenizer, generation_stops(model))
    device, half = str(trainer.accelerator.device), args.bf16 and not args.use_cpu
    # A copy of the weights: the optimizer and its wrappers hold the model's own.
    if config.engine.traits.undecided:
        settings = config.engine.model_copy(update={"name": "hf"})
        config = config.model_copy(update={"engine": settings})
    engine = make_engine(EngineOptions(config, template, model, device, half, None, share=False))
    require_trainable(config, engine)
    return engine, template


def _padded(rows: Sequence[Sequence[float]], like: Tensor) -> Tensor:
    full = [[*row, *[0.0] * (like.shape[1] - len(row))] for row in rows]
    return torch.tensor(full, dtype=torch.float32, device=like.device)


def _rolled_out(prompts: Sequence[str], trainer: CurriculumGRPOTrainer) -> dict[str, Any]:
    """Rollouts so far, as TRL's rollout function gives them."""
    rows = trainer.rows
    return {
        "prompt_ids": [row.prompt for row in rows],
        "completion_ids": [row.completion for row in rows],
        "logprobs": [row.rollout_logprobs for row in rows],
        "env_mask": [row.mask for row in rows],
    }


class _Stages(TrainerCallback):
    """Begins the stages where no checkpoint did, and ends the training with the last task."""

    def __init__(self, trainer: CurriculumGRPOTrainer) -> None:
        self._trainer = trainer

    def on_train_begin(self, args: object, state: object, control: object, **_: Any) -> None:
        self._trainer.open()

    def on_step_end(
        self, args: TrainingArguments, state: object, control: TrainerControl, **_: Any
    ) -> None:
        if self._trainer.finished:
            control.should_training_stop = True
            control.should_save = args.save_strategy != "no"
