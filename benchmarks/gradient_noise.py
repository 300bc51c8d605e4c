"""How much of an update's gradient is signal: the cosine of the gradients of two halves of a batch.

Groups of the training side are played once by one policy; then two disjoint sets of n groups each
give a gradient each, for several n and random choices. If a group's gradient is the mean of all
plus noise, the cosine is s / (s + 1 / n) with s the signal of one group: at 1 / s groups a half is
as much signal as noise. Groups without variance have no gradient and count like the others.

    python benchmarks/gradient_noise.py                         # before training
    python benchmarks/gradient_noise.py --run runs/A            # by the last checkpoint of a run
    python benchmarks/gradient_noise.py --credit trajectory
"""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from shared import Options

from rods.assemble.engines import engine_of, template_of
from rods.config import RunConfig, load_config
from rods.dialects import get_dialect
from rods.envs import make_environment
from rods.envs.originals import split_tasks
from rods.reward import Score, score_group
from rods.rewards import get_reward
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import RolloutRunner
from rods.store import RunDirectory
from rods.trainers.loading import load_model
from rods.trainers.local import LocalTrainer
from rods.trajectory import Group


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


async def played(config: RunConfig, trainer: LocalTrainer, groups: int) -> list[Group]:
    """Groups of so many tasks of the training side."""
    template = template_of(trainer.model, trainer.tokenizer)
    engine = engine_of(config, trainer.model, template)
    await engine.start()
    await engine.sync(trainer.weights(), 0)
    context = RolloutContext(
        make_environment("bfcl"), engine, get_dialect(config.model.dialect), template,
        config.rollout.model_copy(update={"temperature": 1.0}),
    )  # fmt: skip
    pool = sorted(split_tasks(config.env).train, key=lambda t: t.id)
    player = RolloutRunner(context, 10**6)
    tasks = random.Random(config.seed).sample(pool, groups)
    found = await asyncio.gather(*(player.group(task, 0) for task in tasks))
    await engine.close()
    return list(found)


def gradient(
    trainer: LocalTrainer, groups: Sequence[Group], scores: Sequence[Sequence[Score]]
) -> torch.Tensor | None:
    """That of one update with these groups, which is not made; None: nothing to learn."""
    kept: list[torch.Tensor] = []
    parameters: list[Any] = trainer._parameters

    def step() -> None:
        kept.append(torch.cat([p.grad.flatten() for p in parameters if p.grad is not None]))

    own: Any = trainer._optimizer
    own.step, before = step, own.step
    try:
        trainer.update(groups, scores)
    finally:
        own.step = before
    return kept[0] if kept else None


def main() -> None:
    """Play, cut in halves, print."""
    parser = Options(__doc__, {"groups": 2, "halves": [1], "cuts": 1})
    parser.add_argument("--run", type=Path, help="its last checkpoint instead of the start")
    parser.add_argument("--groups", type=int, default=96)
    parser.add_argument("--halves", type=int, nargs="*", default=[4, 6, 12, 24, 48])
    parser.add_argument("--cuts", type=int, default=6, help="random choices for each size")
    parser.add_argument("--credit", default="turn", choices=["turn", "trajectory"])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    config = load_config("rods", "small", [
        f"seed={options.seed}", f"train.credit={options.credit}", "rollout.max_invalid=1.0",
    ])  # fmt: skip
    trainer = trainer_of(config, options.run)
    groups = asyncio.run(played(config, trainer, options.groups))
    scores = [score_group(get_reward("progress"), group) for group in groups]
    flat = sum(len({s.value for s in some}) == 1 for some in scores)
    print(f"{len(groups)} groups of {config.rollout.k}, {flat} without variance")
    print("groups a half  cosine: median (lowest to highest)  signal of a group  norm")
    rng = random.Random(options.seed)
    for size in options.halves:
        cosines: list[float] = []
        norms: list[float] = []
        for _ in range(options.cuts):
            order = rng.sample(range(len(groups)), 2 * size)
            halves = [
                gradient(trainer, [groups[i] for i in part], [scores[i] for i in part])
                for part in (order[:size], order[size:])
            ]
            a, b = halves
            if a is None or b is None:
                continue
            cosines.append(float(torch.nn.functional.cosine_similarity(a, b, 0)))
            norms += [float(a.norm()), float(b.norm())]
        if not cosines:
            print(f"{size:13} no two halves in which rewards differ", flush=True)
            continue
        middle = statistics.median(cosines)
        signal = middle / (1 - middle) / size
        print(
            f"{size:13} {middle:8.2f} ({min(cosines):.2f} to {max(cosines):.2f}) "
            f"{signal:24.4f} {statistics.median(norms):9.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
