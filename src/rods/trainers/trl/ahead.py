"""TRL's asynchronous trainer over our curriculum, rollouts and worlds (docs/hosts.md).

Owns what is put in the place of two parts of TRL: its rollout worker and its transfer of weights.
Both are one object here, which plays groups ahead of the updates in a thread of the trainer's
process. The loss, the optimiser, the log and the checkpoints stay TRL's. Tested with TRL 1.16,
where this trainer is experimental.

    with rods.hosted(rods.load_config("rods", "quick", CHANGES)) as run:
        CurriculumAsyncGRPOTrainer(run, async_grpo_args(run.config, "out")).train()
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from queue import Queue
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader
from transformers import TrainerCallback

from rods.errors import ConfigError, TrainError
from rods.feed import plan_of
from rods.policy import Engine
from rods.trainers.ahead import Ahead
from rods.trainers.checkpoint import ModelWeights
from rods.trainers.hosted import HostedRun
from rods.trainers.trl.ahead_args import MODULE, async_grpo_args, require_kernel, require_same
from rods.trainers.trl.ahead_rows import Played, samples_of
from rods.trainers.trl.args import Parts
from rods.trainers.trl.shared import InCheckpoints, engine_of, require_ours, start_of, trl_module

__all__ = ["CurriculumAsyncGRPOTrainer", "async_grpo_args"]

_AsyncGRPOTrainer: Any = trl_module(MODULE).AsyncGRPOTrainer
_datasets: Any = trl_module("datasets")


class CurriculumAsyncGRPOTrainer(InCheckpoints, _AsyncGRPOTrainer):
    """An AsyncGRPOTrainer whose tasks follow the policy."""

    def __init__(
        self,
        run: HostedRun,
        args: Any,
        model: str | None = None,
        processing_class: Any = None,
        peft_config: Any = None,
        **others: Any,
    ) -> None:
        """Make the trainer; tasks, worlds, rollouts and rewards come from the run.

        Args:
            run: of `rods.hosted`; it is opened in `args.output_dir`.
            args: an `AsyncGRPOConfig`, such as `async_grpo_args` makes of a recipe.
            model: a folder or a name; None: that of the run's settings.
            processing_class: its tokenizer; None: that of the run's settings.
            peft_config: adapters; None: those of the run's settings (`model.lora_rank`).
            others: handed to `AsyncGRPOTrainer`: callbacks, optimizers.

        Raises:
            ConfigError: arguments and settings contradict each other, or ask for what TRL has not,
                or there is no GPU.
        """
        require_same(run.config, args)
        require_kernel(args)
        placed = {"reward_funcs", "train_dataset", "tools", "environment_factory"}
        placed |= {"rollout_worker", "weight_transfer"}
        require_ours("CurriculumAsyncGRPOTrainer", others, placed)
        self._run = run
        self.parts = Parts.of(run.config, args.per_device_train_batch_size)
        """How TRL parts an update."""
        self.ahead = _Worker(run, self)
        if args.n_gpu > 1:
            # Not spread over all that one process sees: TRL's packed rows cannot be scattered.
            args._n_gpu = 1
        super().__init__(
            **start_of(run.config.model, model, processing_class, peft_config),
            args=args,
            # A placeholder: tasks are drawn by the worker.
            train_dataset=_datasets.Dataset.from_list([{"prompt": ""}]),
            rollout_worker=self.ahead,
            weight_transfer=self.ahead,
            **others,
        )
        self.add_callback(_Stages(self))

    def get_train_dataloader(self) -> DataLoader[Any]:
        """TRL's batches, none of them before it is asked for."""
        # Accelerate's loader looks one forward pass ahead: the last one of an update would wait
        # for the groups of the next, which wait for its weights.
        theirs = super().get_train_dataloader()
        return DataLoader(theirs.dataset, batch_size=1, collate_fn=theirs.collate_fn)

    @property
    def updates(self) -> int:
        """Updates that were made."""
        return self.state.global_step // self.parts.steps

    def require_left(self) -> None:
        """Look whether a checkpoint can be gone on from; raises `TrainError`."""
        step, most, steps = self.state.global_step, self.args.max_steps, self.parts.steps
        if step >= most:
            raise TrainError(f"all {most} steps (max_steps) are made. Set more updates to go on.")
        if step % steps:
            raise TrainError(
                f"the checkpoint was made after step {step}, within an update of {steps} steps. Go "
                "on from one that stands at an update's end."
            )

    @property
    def finished(self) -> bool:
        """Whether the last batch of the last stage is trained on."""
        return self.state.global_step % self.parts.steps == 0 and self.ahead.over


def require_own_weights(engine: Engine) -> None:
    """TRL's model has another attention, so nothing else can run it; raises `ConfigError`."""
    if not engine.capabilities.beside_updates:
        raise ConfigError(
            'rollout.schedule = "pipelined": inside TRL the engine must have weights of its own. '
            'Take engine.name = "vllm" or "openai", an architecture that the engine in this '
            'process knows, or rollout.schedule = "asynchronous".'
        )


class _Worker:
    """TRL's rollout worker and its transfer of weights."""

    def __init__(self, run: HostedRun, trainer: CurriculumAsyncGRPOTrainer) -> None:
        self._run, self._trainer = run, trainer
        self._ahead: Ahead | None = None
        self._groups = 0
        """Groups that were handed to TRL."""
        self.rollout_buffer = _Buffer(self._more)
        self.metrics_queue: Queue[dict[str, float]] = Queue()

    @property
    def over(self) -> bool:
        """Whether no update follows."""
        return self._playing.over

    @property
    def _playing(self) -> Ahead:
        if self._ahead is None:
            raise TrainError("nothing is played before train() was called.")
        return self._ahead

    # -- TRL's transfer of weights ----------------------------------------------------------

    def init_weight_transfer(self) -> None:
        """Begin the curriculum and the engine."""
        trainer = self._trainer
        trainer.require_left()
        trainer.open()
        if not self._run.begun:
            self._run.begin(*engine_of(self._run.config, trainer, trainer.model))
        require_own_weights(self._run.engine)
        plan = plan_of(self._run.config)
        most = trainer.args.max_steps // trainer.parts.steps
        self._ahead = Ahead(self._run, replace(plan, last=most), trainer.updates)
        # TRL counts one up at its first transfer; from there on its versions are ours.
        trainer.model_version = trainer.updates - 1

    def pause(self) -> None:
        """Hand the weights over. What is in flight goes on under them, as the engine does it.

        Here and not in `send_weights`: in between TRL adds adapters to the weights themselves,
        whose numbers are too coarse for them in half precision.
        """
        trainer = self._trainer
        model = trainer.accelerator.unwrap_model(trainer.model)
        self._playing.hand_over(ModelWeights(model, adapters=hasattr(model, "peft_config")))

    def send_weights(self, iterator: Iterator[tuple[str, Tensor]]) -> None:
        """Nothing: they are handed over."""

    def resume(self) -> None:
        """Nothing: the engine goes on by itself."""

    def destroy(self) -> None:
        """Nothing: the run closes its engine."""

    # -- TRL's rollout worker ---------------------------------------------------------------

    def start(self) -> None:
        """Begin to play."""
        self._playing.start()

    def stop(self) -> None:
        """End what is played."""
        if self._ahead is not None:
            self._ahead.stop()

    def update_model_version(self, model_version: int) -> None:
        """Nothing: versions come with the weights."""

    def check_health(self, stale_after_s: float) -> None:
        """Raise what stopped the playing, if anything did.

        A slow group is no failure: worlds and servers have time limits of their own.
        """
        self._playing.require_alive()

    def _more(self, timeout: float | None) -> list[Any]:
        """The samples of the next update."""
        judged = self._playing.take(timeout)
        run, parts = self._run, self._trainer.parts
        batch = run.collect(judged.groups, judged.scores)
        figures = {
            "informative": batch.informative / batch.groups,
            "invalid": batch.invalid / batch.trajectories,
            **run.curriculum.metrics(),
            **judged.meters,
        }
        self.metrics_queue.put({f"rods/{k}": float(str(v)) for k, v in figures.items()})
        played = Played(judged.groups, judged.scores, batch.samples)
        filler = int(self._trainer.processing_class.pad_token_id)
        first, self._groups = self._groups, self._groups + batch.groups
        return samples_of(played, run.config, parts, first, filler)


class _Buffer(Queue[Any]):
    """The queue that TRL's trainer takes samples from.

    It is filled when TRL asks for the first sample of an update: groups that TRL does not train on
    before a checkpoint are not judged in it.
    """

    def __init__(self, more: Any) -> None:
        super().__init__()
        self._more, self._samples = more, deque[Any]()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """The next sample; raises `queue.Empty` where there is none in time."""
        if not self._samples:
            self._samples.extend(self._more(timeout))
        return self._samples.popleft()

    def qsize(self) -> int:
        """Samples of the update that is under way."""
        return len(self._samples)


class _Stages(TrainerCallback):
    """Ends the training with the last task."""

    def __init__(self, trainer: CurriculumAsyncGRPOTrainer) -> None:
        self._trainer = trainer

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._trainer.finished:
            control.should_training_stop = True
            control.should_save = args.save_strategy != "no"
