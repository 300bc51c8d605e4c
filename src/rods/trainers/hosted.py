"""A run whose loop belongs to a host trainer (TRL, verl): what the host asks of us, in plain calls.

Owns draws, rollouts, scores and observations of one process of the host, and their state as one
value. The first process owns the curriculum and the synthesis worker; the others only roll out.
Never updates weights, and knows no host.

    with hosted(config) as run:                     # rods.hosted
        run.open(folder, state)                     # in the first process
        drawn = run.draw(8, version)                # there too; the host hands them round
        groups = run.roll_out(drawn, weights, version)
        scores = run.judge(drawn, groups)           # in the first process again
        state = run.state_dict()
"""

from __future__ import annotations

import asyncio
import json
import pickle
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, NamedTuple, get_args

import torch

from rods.components import Synthesis
from rods.config import RunConfig, parse_config
from rods.config.drift import require_same
from rods.curriculum.boundary import Judgement, Region
from rods.curriculum.online import OnlineCurriculum
from rods.dialects import get_dialect
from rods.env import Environment
from rods.errors import StoreError, TrainError
from rods.infra.files import disk, locked, released
from rods.infra.interrupt import run_to_end
from rods.policy import Engine, Weights
from rods.reward import Score
from rods.rewards import rewards_of
from rods.rewards.filters import filter_of
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import RolloutRunner, preflight, together
from rods.rollout.template import ChatTemplate
from rods.task import Task
from rods.trainers.collect import Batch, collect
from rods.trajectory import Group

QUEUE, LOCK = "synthesis.sqlite", ".lock"
"""Live files of the first process."""
STATE = "rods.pt"
"""State of the run in each checkpoint of TRL."""


class Drawn(NamedTuple):
    """A task that was drawn, as it goes to its rollout."""

    task: Task
    epoch: int
    """The epoch that drew it."""
    visit: int
    """Number of earlier tries of the same policy version: other noise."""
    hinted: bool
    """True if failed calls are answered with hints."""


class HostedRun(AbstractContextManager["HostedRun"]):
    """A run whose loop belongs to another trainer, in one of its processes; close it at the end."""

    def __init__(
        self,
        config: RunConfig,
        worlds: Callable[[int], Environment],
        originals: Sequence[Task],
        worker: Callable[[Path], AbstractContextManager[Synthesis | None]],
        hints: Callable[[Any], Any],
        drift: bool = False,
    ) -> None:
        """Start nothing yet.

        Args:
            worlds: makes the environment that opens the tasks' worlds, for one of so many processes
                that roll out; called by `begin`.
            originals: original tasks of the training split.
            worker: starts synthesis with its queue in a folder.
            hints: makes the wrapper of worlds whose failed calls are answered with hints.
            drift: a saved state may be of other settings, but for those of `drift.SAVED`.
        """
        self.config = config
        self.judged: list[Judgement | None] = []
        """Judgements of the groups that were judged last."""
        self._worlds, self._originals = worlds, originals
        self._worker, self._hints, self._drift = worker, hints, drift
        self._rewards = rewards_of(config.rewards)
        self._curriculum: OnlineCurriculum | None = None
        self._rolling: tuple[Engine, RolloutContext] | None = None
        self._visits: Counter[str] = Counter()
        self._version, self._looked_at = -1, False
        self._running = ExitStack()
        self._loop = asyncio.Runner()
        # In a thread, as a loop cannot be closed within another one, such as a notebook's.
        self._running.callback(lambda: run_to_end(asyncio.to_thread(self._loop.close)))

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End engine, worlds and synthesis worker; files stay. The end of `with` calls it."""
        self._rolling = None
        self._running.close()

    # -- the curriculum, in the first process -----------------------------------------------

    def open(self, folder: str | Path, state: Mapping[str, Any] | None = None) -> None:
        """Start the curriculum and the synthesis worker, in the first process only.

        `folder` gets the queue of synthesis. `state` is what `state_dict` returned, also on another
        machine. None: a new run, for which the queue of an earlier one is removed.

        Raises:
            StoreError: another process runs here, or the state belongs to other settings or tasks.
        """
        if state is not None:
            theirs = parse_config(json.loads(state["config"]), "the saved state")
            require_same("the saved state", theirs.changed(self.config), self._drift)
        with disk(folder := Path(folder), "making"):
            folder.mkdir(parents=True, exist_ok=True)
        busy = f"{folder}: another process is training here. Stop it, or choose another folder."
        self._running.callback(released, locked(folder / LOCK, busy))
        if state is None:
            for stale in folder.glob(f"{QUEUE}*"):
                stale.unlink()
        synthesis = self._running.enter_context(self._worker(folder))
        curriculum = OnlineCurriculum(self.config, self._originals, synthesis)
        if state is not None:
            curriculum.load_state_dict(state["curriculum"])
            self._rewards.load_state_dict(json.loads(state["rewards"]))
            self._looked_at = True
        self._curriculum = curriculum

    @property
    def opened(self) -> bool:
        """True if this process has the curriculum."""
        return self._curriculum is not None

    @property
    def curriculum(self) -> OnlineCurriculum:
        """The curriculum; raises `TrainError` before `open`, and in all processes but the first."""
        if self._curriculum is None:
            raise TrainError("this process has no curriculum: call open() in the first process.")
        return self._curriculum

    @property
    def over(self) -> bool:
        """True if every task of all stages was drawn."""
        return self.curriculum.last and self.curriculum.drawn_out

    def draw(self, n: int, version: int) -> list[Drawn]:
        """Draw `n` tasks for weights number `version`; fewer only at the end of all stages.

        Raises:
            TrainError: all stages are over.
        """
        if version != self._version:
            self._visits.clear()
            self._version = version
        drawn: list[Drawn] = []
        # A draw starts one epoch at most; a host's batch has its size however small the pool is.
        while leases := self.curriculum.draw(n - len(drawn)) if len(drawn) < n else []:
            for task, epoch in leases:
                hinted = self.curriculum.hints(epoch)
                drawn.append(Drawn(task, epoch, self._visits[task.id], hinted))
                self._visits[task.id] += 1
        if not drawn:
            raise TrainError("all stages are done: there is no task left to draw.")
        return drawn

    def judge(self, drawn: Sequence[Drawn], groups: Sequence[Group]) -> list[list[Score]]:
        """Score each group, judge its task and request variants; a row of scores for each group.

        Raises:
            PolicyError: not one call of the first groups was understood.
        """
        if not self._looked_at:
            preflight(groups)
            self._looked_at = True
        stages = [self.curriculum.stage_of(d.epoch) for d in drawn]
        scores = [
            self._rewards.score_group(stage.reward, group)
            for stage, group in zip(stages, groups, strict=True)
        ]
        self.judged = self.curriculum.judge(groups, scores, [d.epoch for d in drawn])
        self.curriculum.request_variants()
        return scores

    def state_dict(self) -> dict[str, Any]:
        """Return settings, curriculum and rewards for a checkpoint, as text, numbers and bytes."""
        return {
            "config": self.config.model_dump_json(),
            "curriculum": self.curriculum.state_dict(),
            "rewards": json.dumps(self._rewards.state_dict()),
        }

    # -- roll out, in every process ---------------------------------------------------------

    def begin(self, engine: Engine, template: ChatTemplate, ranks: int = 1) -> None:
        """Start engine and environment, in each of the `ranks` processes that roll out.

        `rods.assemble.engines` makes both arguments: `engine_of`, `template_of`. `close` ends them.
        """
        self._running.callback(lambda: run_to_end(engine.close(), self._loop.run))
        run_to_end(engine.start(), self._loop.run)
        environment = self._worlds(ranks)
        self._running.callback(environment.close)
        config, dialect = self.config, get_dialect(self.config.model.dialect)
        shared = (environment, engine, dialect, template, config.rollout, config.seed)
        self._rolling = engine, RolloutContext(*shared)

    @property
    def begun(self) -> bool:
        """True if there is an engine."""
        return self._rolling is not None

    def roll_out(self, drawn: Sequence[Drawn], weights: Weights, version: int) -> list[Group]:
        """Roll out each task `rollout.k` times by weights number `version`; groups in this order.

        Raises:
            EnvError: too many trajectories are invalid (`rollout.max_invalid`).
            TrainError: there is no engine yet.
        """

        if self._rolling is None:
            raise TrainError("no rollout can start before begin() got an engine.")
        engine, context = self._rolling

        async def rolled_out() -> list[Group]:
            await engine.wake()
            await engine.sync(weights, version)
            runner = RolloutRunner(context, self.config.rollout.k * len(drawn))
            wrappers = [self._hints if d.hinted else None for d in drawn]
            pairs = zip(drawn, wrappers, strict=True)
            groups = await together(runner.group(d.task, d.visit, w) for d, w in pairs)
            await engine.sleep()
            return groups

        return run_to_end(rolled_out(), self._loop.run)

    def figures(self, batch: Batch, **more: float) -> dict[str, float]:
        """Metrics of an update for a host's log; where the curriculum is, its metrics too."""
        shares = {
            "informative": batch.informative / max(1, batch.groups),
            "invalid": batch.invalid / max(1, batch.trajectories),
        }
        if self.opened:  # an epoch's counts lack what an update of two epochs judged in the first
            found = Counter(judged.region for judged in self.judged if judged is not None)
            more |= {f"regions/{name}": found[name] for name in get_args(Region)}
        return shares | more | (self.curriculum.metrics() if self.opened else {})

    def collect(self, groups: Sequence[Group], scores: Sequence[Sequence[Score]]) -> Batch:
        """Make the samples of an update by filter, advantages and credit of the settings."""
        train = self.config.train
        kept = filter_of(train)
        return collect(groups, scores, train.advantage, filters=kept, credit=train.credit)


def read_state(checkpoint: Path) -> dict[str, Any]:
    """Return the run's state in a checkpoint of TRL.

    Raises:
        StoreError: there is none, or it is damaged.
    """
    path = checkpoint / STATE
    if not path.is_file():
        raise StoreError(
            f"{path}: missing, so this checkpoint has no state of a curriculum. Resume from a "
            "checkpoint that RODS wrote, or start a new run."
        )
    try:
        return torch.load(path, weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise StoreError(f"{path}: damaged: {error}. Use an older checkpoint.") from error
