"""What the writers without a model make of three small environments that strangers wrote.

    python benchmarks/own_tools.py [--variants 40] [--seeds 0,1] [--names clinic] [--show 40]

`strangers/` has a restaurant's reservations, a network of parcel lockers and a dental clinic, each
with eight tasks, a quarter of them held out. For each writer: candidates and how many of them are
accepted, training tasks with a variant, and how many variants, messages without their ids,
days and numbers are distinct. Then, for each seed task, how many of its variants are the same as
another of them but for ids. `--show` prints messages, for a reader to judge. One core.
"""

from __future__ import annotations

import importlib
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from shared import Options

from rods.split import split
from rods.synthesis.gates.overlap import Prints, prints
from rods.synthesis.pipeline import Pipeline
from rods.synthesis.structure.sources import NUMBER_WORD
from rods.task import Task, read_tasks
from rods.writers import make_writer
from rods.writers.assembly import keeper_of

NAMES = ("restaurant", "locker", "clinic")
HELD_OUT = 0.25
LIMIT = 20
"""Candidates for each variant, after which a writer is given up."""


class Made(NamedTuple):
    """What a writer made of the training tasks of one environment."""

    variants: Sequence[Task]
    candidates: int
    seeds: int
    """Training tasks."""
    used: int
    """Of these, those with a variant."""


def make(name: str, writer: str, count: int, seed: int) -> Made:
    """Variants of one environment, its training tasks by turns, as `rods synth` makes them."""
    environment = importlib.import_module(f"strangers.{name}").environment
    tasks = read_tasks(Path(__file__).parent / "strangers" / f"{name}.jsonl")
    sides = split(list(tasks), held_out_share=HELD_OUT)
    author = make_writer(writer, sides.train, environment)
    keeper = keeper_of(environment, sides.train, sides.held_out)
    found: list[Task] = []
    candidates = 0
    seen: dict[str, list[Prints]] = {}
    for number in itertools.count(LIMIT * count * seed):
        task = sides.train[number % len(sides.train)]
        outcome = Pipeline(keeper.environment, author, keeper, 3).make(
            task, number, seen.get(task.id, ())
        )
        candidates += len(outcome.rejections) + (outcome.variant is not None)
        if outcome.variant is not None:
            found.append(outcome.variant)
            seen.setdefault(task.id, []).append(prints(outcome.variant))
        if len(found) == count or candidates >= LIMIT * count:
            break
    used = {task.provenance.origin for task in found}
    return Made(found, candidates, len(sides.train), len(used))


def masked(text: str) -> str:
    """A message without what only counts or names."""
    return re.sub(rf"\S*\d\S*|{NUMBER_WORD.pattern}", "#", text, flags=re.I)


def alike_by_seed(variants: Sequence[Task]) -> list[str]:
    """For each seed task, how many of its variants repeat another one's messages but for ids."""
    found: dict[str, Counter[tuple[str, ...]]] = {}
    for task in variants:
        messages = tuple(masked(turn.user) for turn in task.turns)
        found.setdefault(task.provenance.origin, Counter())[messages] += 1
    alike = {seed: sum(n for n in rows.values() if n > 1) for seed, rows in found.items()}
    return [f"{seed} {n} of {found[seed].total()}" for seed, n in alike.items()]


def show(name: str, writer: str, made: Made, messages: int) -> None:
    """One line, and the messages where they are asked for."""
    said = [turn.user for task in made.variants for turn in task.turns if turn.user]
    whole = {tuple(masked(turn.user) for turn in task.turns) for task in made.variants}
    print(
        f"{name:10} {writer:8} candidates {made.candidates:4}"
        f"  accepted {len(made.variants):3} ({len(made.variants) / made.candidates:4.0%})"
        f"  tasks with a variant {made.used} of {made.seeds}"
        f"  distinct but for ids: conversations {len(whole)} of {len(made.variants)},"
        f" messages {len(set(map(masked, said)))} of {len(said)}"
    )
    print(f"    the same but for ids, by seed task: {', '.join(alike_by_seed(made.variants))}")
    for text in said[:messages]:
        print(f"    {text}")


def main() -> None:
    """Make and print."""
    parser = Options(__doc__, {"variants": 4, "seeds": "0"})
    parser.add_argument("--variants", type=int, default=40)
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--names", default=",".join(NAMES))
    parser.add_argument("--show", type=int, default=0)
    args = parser.parse_args()
    for seed in map(int, args.seeds.split(",")):
        print(f"seed {seed}")
        for name in args.names.split(","):
            for writer in ("graph", "resample"):
                show(name, writer, make(name, writer, args.variants, seed), args.show)


if __name__ == "__main__":
    main()
