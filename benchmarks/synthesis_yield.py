"""Yield of the writers without a model: variants a second, what gates reject, how varied they are.

    python benchmarks/synthesis_yield.py [--writer resample|graph] [--resample-share 0.5]
        [--proposals 2000] [--warm 800] [--seed 0] [--wheel PATH]

One core, one process, CPU seconds. Every accepted variant is replayed once more in a fresh world,
and compared once more with the held-out side.
"""

from __future__ import annotations

import random
import statistics
import time
from collections import Counter

from shared import Options

from rods.envs.bfcl.tasks import load_tasks
from rods.envs.bfcl.world import BfclEnvironment
from rods.split import split
from rods.synthesis.gates.keeper import GATES
from rods.synthesis.gates.overlap import Corpus, prints
from rods.synthesis.pipeline import Pipeline
from rods.synthesis.structure.trace import trace
from rods.task import Task
from rods.writers import make_writer
from rods.writers.assembly import keeper_of
from yields import Yield


def main() -> None:
    """Run and print the tables."""
    parser = Options(__doc__, {"proposals": 20, "warm": 0})
    parser.add_argument("--wheel", default="")
    parser.add_argument("--writer", default="resample")
    parser.add_argument("--resample-share", type=float, default=0.0)
    parser.add_argument("--proposals", type=int, default=2000)
    parser.add_argument("--warm", type=int, default=800)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--attempts", type=int, default=1)
    parser.add_argument("--show", type=int, default=0, help="rejections to show for each reason")
    parser.add_argument("--accept", type=int, default=0, help="stop after so many; 0: do not")
    args = parser.parse_args()

    sides = split(load_tasks(args.wheel))
    environment = BfclEnvironment(args.wheel)
    writer = make_writer(args.writer, sides.train, environment, args.resample_share)
    keeper = keeper_of(environment, sides.train, sides.held_out)
    pipeline = Pipeline(environment, writer, keeper, args.attempts)
    rng = random.Random(args.seed)
    for number in range(args.warm):
        pipeline.make(rng.choice(sides.train), -number)

    counted = Yield()
    by_category: Counter[tuple[str, bool]] = Counter()
    by_class: Counter[tuple[str, bool]] = Counter()
    accepted: list[Task] = []
    reasons: dict[str, list[str]] = {}
    started = time.process_time()
    for number in range(args.proposals):
        seed = rng.choice(sides.train)
        if args.accept and len(accepted) == args.accept:
            break
        outcome = pipeline.make(seed, number)
        counted.add(outcome)
        good = outcome.variant is not None
        by_category[seed.category, good] += 1
        for name in seed.world["classes"]:  # type: ignore[union-attr]
            by_class[str(name), good] += 1
        if outcome.variant is not None:
            accepted.append(outcome.variant)
        for r in outcome.rejections:
            line = f"{r.recipe} {seed.provenance.origin}: {r.detail}"
            reasons.setdefault(str(r.reason), []).append(line)
    seconds = time.process_time() - started

    print(f"{counted.tried} proposals in {seconds:.1f} CPU s: {counted.tried / seconds:.0f}/s")
    print(f"accepted {len(accepted)}: {len(accepted) / seconds:.0f}/s")
    print(f"yield {len(accepted) / counted.tried:.1%}")
    print(f"median profile distance {statistics.median(counted.distances):.3f}, ", end="")
    print(f"largest {max(counted.distances):.3f}")
    table("recipe", counted.recipes)
    table("category", by_category)
    table("class", by_class)
    print("\nrejected by gate")
    for name in GATES:
        print(f"  {name:28} {counted.rejected['gate', name]:6}")
    for (stage, reason), count in counted.rejected.most_common():
        if stage != "gate":
            print(f"  {stage + ': ' + reason:28} {count:6}")
    for reason, lines in reasons.items():
        for line in lines[: args.show]:
            print(f"    {reason}: {line[:220]}")
    variety(accepted, sides.train)
    failed = [t for t in accepted if not all(v.solved for v in trace(environment, t).verdicts)]
    print(f"\nreplayed once more in fresh worlds: {len(accepted) - len(failed)}/{len(accepted)}")
    corpus = Corpus(sides.train, sides.held_out)
    shared = [t for t in accepted if corpus.overlap(prints(t)) is not None]
    held = {t.provenance.scenario for t in sides.held_out}
    mixed = [t for t in accepted if held & {t.provenance.scenario, *t.provenance.scenarios}]
    print(f"overlap with held-out tasks: {len(shared)} by text or calls, {len(mixed)} by scenario")


def table(title: str, counts: Counter[tuple[str, bool]]) -> None:
    """Yield of each key."""
    print(f"\n{title:36} tried accepted yield")
    for key in sorted({key for key, _ in counts}):
        good, bad = counts[key, True], counts[key, False]
        print(f"{key:36} {good + bad:5} {good:8} {good / (good + bad):5.0%}")


def variety(accepted: list[Task], originals: tuple[Task, ...]) -> None:
    """How different the variants are from each other and from the originals."""
    calls = [";".join(str(c) for t in task.turns for c in t.ground_truth) for task in accepted]
    old = {";".join(str(c) for t in task.turns for c in t.ground_truth) for task in originals}
    texts = {turn.user for task in originals for turn in task.turns if turn.user.strip()}
    said = [turn.user for task in accepted for turn in task.turns if turn.user.strip()]
    print(f"\ndistinct ground truths {len(set(calls)) / len(calls):.1%}")
    print(f"ground truths equal to an original's {sum(c in old for c in calls) / len(calls):.1%}")
    print(f"distinct tasks {len({task.id for task in accepted}) / len(accepted):.1%}")
    print(f"distinct user texts {len(set(said)) / len(said):.1%}")
    print(f"user texts equal to an original's {sum(s in texts for s in said) / len(said):.1%}")


if __name__ == "__main__":
    main()
