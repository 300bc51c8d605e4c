"""How much of an update's gradient is signal, and how much of the signal is of the task alone.

Groups of the training side are rolled out by one policy, each task `--visits` times, and each group
gives a gradient. If that is a direction common to all tasks plus noise, the mean product of two
tasks' gradients is the squared length of the common part. Products of one task's visits have in
addition what holds for that task only: what is learned there is learned by heart. Groups without
variance have no gradient and count like the others. ± is a 95 % interval over tasks (bootstrap).

    python benchmarks/gradient_noise.py                         # before training
    python benchmarks/gradient_noise.py --run runs/A            # by the last checkpoint of a run
    python benchmarks/gradient_noise.py --profile smollm2 --tasks 32
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from shared import Options

from rods.assemble.engines import engine_of, template_of
from rods.config import RunConfig, load_config
from rods.dialects import get_dialect
from rods.envs import make_environment
from rods.envs.originals import split_tasks
from rods.reward import score_group
from rods.rewards import get_reward
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import RolloutRunner
from rods.store import RunDirectory
from rods.trainers.loading import load_model
from rods.trainers.local import LocalTrainer
from rods.trajectory import Group

TOGETHER = 8  # Groups that are rolled out at once, as in an update


def trainer_of(config: RunConfig, run: Path | None) -> LocalTrainer:
    """One optimizer step an update, of gradients that nothing clips."""
    model, tokenizer = load_model(config.model)
    whole = config.train.model_copy(update={
        "minibatch": 0, "epochs": 1,
        "local": config.train.local.model_copy(update={"grad_clip": 1e9}),
    })  # fmt: skip
    made = LocalTrainer(model, tokenizer, whole, config.model, 1000, 0, 10**6)
    if run is not None:
        latest = RunDirectory.open(run).latest_checkpoint()
        assert latest is not None, f"{run} has no checkpoint"
        made.load(latest.path / "policy")
    return made


async def rolled_out(
    config: RunConfig, trainer: LocalTrainer, tasks: int, visits: int
) -> list[Group]:
    """Groups of so many tasks of the training side, the visits of a task behind each other."""
    template = template_of(trainer.model, trainer.tokenizer)
    engine = engine_of(config, trainer.model, template)
    await engine.start()
    await engine.sync(trainer.weights(), 0)
    context = RolloutContext(
        make_environment("bfcl"), engine, get_dialect(config.model.dialect), template,
        config.rollout.model_copy(update={"temperature": 1.0}),
    )  # fmt: skip
    pool = sorted(split_tasks(config.env).train, key=lambda t: t.id)
    runner = RolloutRunner(context, 10**6)
    drawn = random.Random(config.seed).sample(pool, tasks)
    wanted = [(task, visit) for task in drawn for visit in range(visits)]
    found: list[Group] = []
    for start in range(0, len(wanted), TOGETHER):
        some = wanted[start : start + TOGETHER]
        found += await asyncio.gather(*(runner.group(task, visit) for task, visit in some))
        print(f"{len(found)} of {len(wanted)} groups", flush=True)
    await engine.close()
    return found


def gradient(trainer: LocalTrainer, group: Group) -> torch.Tensor:
    """That of one update with this group, which is not made; zeros: nothing to learn."""
    kept: list[torch.Tensor] = []
    parameters: list[Any] = trainer._parameters

    def step() -> None:
        kept.append(torch.cat([
            torch.zeros_like(p).flatten() if p.grad is None else p.grad.detach().flatten().clone()
            for p in parameters
        ]).float())  # fmt: skip

    own: Any = trainer._optimizer
    own.step, before = step, own.step
    try:
        trainer.update([group], [score_group(get_reward("progress"), group)])
    finally:
        own.step = before
    return kept[0] if kept else torch.zeros(sum(p.numel() for p in parameters))


def report(gram: np.ndarray, visits: int, seed: int) -> None:
    """Print the share of each part of a group's gradient, and what that means for a batch.

    `gram` has the products of all groups' gradients, the visits of a task behind each other.
    """
    tasks = len(gram) // visits
    blocks = gram.reshape(tasks, visits, tasks, visits).transpose(0, 2, 1, 3)
    inside = blocks[range(tasks), range(tasks)]
    whole = np.einsum("tvv->tv", inside).mean(1)  # of a group with itself
    same = (inside.sum((1, 2)) - visits * whole) / max(1, visits * (visits - 1))
    across = blocks.mean((2, 3))

    def shares(order: np.ndarray) -> tuple[float, float]:
        differ = order[:, None] != order[None, :]
        size = float(whole[order].mean())
        return float(across[np.ix_(order, order)][differ].mean()) / size, same[order].mean() / size

    rng = np.random.default_rng(seed)
    orders = (rng.choice(tasks, tasks) for _ in range(1000))
    drawn = np.array([shares(order) for order in orders if len(set(order)) > 1])
    common, of_task = shares(np.arange(tasks))
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
    print("share of a group's squared gradient, with its 95 % interval:")
    print(f"  common to all tasks      {common:8.4f} ({low[0]:.4f} to {high[0]:.4f})")
    print(f"  common to a task's visits{of_task:8.4f} ({low[1]:.4f} to {high[1]:.4f})")
    print(f"groups that hold as much signal as noise: {_groups(common)} "
          f"({_groups(high[0])} to {_groups(low[0])})")  # fmt: skip


def _groups(share: float) -> str:
    return f"{(1 - share) / share:,.0f}" if share > 0 else "no number is enough"


def main() -> None:
    """Roll out, compute a gradient for each group, print."""
    parser = Options(__doc__, {"tasks": 3})
    parser.add_argument("--profile", default="small")
    parser.add_argument("--run", type=Path, help="its last checkpoint instead of the start")
    parser.add_argument("--tasks", type=int, default=96)
    parser.add_argument("--visits", type=int, default=2, help="groups of each task")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("settings", nargs="*", help="others, as train.credit=trajectory")
    options = parser.parse_args()
    settings = [f"seed={options.seed}", "rollout.max_invalid=1.0", *options.settings]
    config = load_config("rods", options.profile, settings)
    trainer = trainer_of(config, options.run)
    groups = asyncio.run(rolled_out(config, trainer, options.tasks, options.visits))
    gradients: list[torch.Tensor] = []
    for group in groups:
        gradients.append(gradient(trainer, group))
        print(f"{len(gradients)} of {len(groups)} gradients", flush=True)
    flat = sum(not bool(g.any()) for g in gradients)
    print(f"{len(groups)} groups of {config.rollout.k}, {flat} without a gradient")
    stacked = torch.stack(gradients)
    report((stacked @ stacked.T).double().numpy(), options.visits, options.seed)


if __name__ == "__main__":
    main()
