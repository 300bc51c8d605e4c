"""Whether a turn that lacks a value gives itself away by its words, and not by what it lacks.

    python benchmarks/gap_words.py [--variants 300] [--seed 5] [--wheel PATH]

For the originals (training side) and the variants of each writer: the share of gap turns and of the
other turns with vague words (`VAGUE`), and how well a logistic model on bags of words tells gap
turns from others that it has not seen (area under the curve, folds by scenario; values become
`NUM`, `NAME` and `TEXT`). One core.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from shared import Options

from rods.envs.bfcl.tasks import load_tasks
from rods.envs.bfcl.world import BfclEnvironment
from rods.split import split
from rods.synthesis.pipeline import Pipeline
from rods.task import MISS_PARAM, Task
from rods.writers import make_writer
from rods.writers.assembly import keeper_of

VAGUE = re.compile(
    r"\b(?:certain|in mind|specific|particular|some|somebody|someone|something|somewhere|one of"
    r"|another|different|other|else)\b",
    re.I,
)
FOLDS = 5
STEPS = 300
RATE = 0.5
DECAY = 1e-3
COMMON = 4
"""Turns in which a word must stand to be looked at."""


class Said(NamedTuple):
    """One message, and whether it leaves a value open."""

    text: str
    gap: bool
    scenario: str


def said(tasks: Sequence[Task]) -> Iterator[Said]:
    """The messages that ask for something; answers to a question of the assistant are left out."""
    for task in tasks:
        turns = task.turns
        for index, turn in enumerate(turns):
            answers = index > 0 and not turns[index - 1].ground_truth
            if turn.user.strip() and not answers:
                yield Said(turn.user, not turn.ground_truth, task.provenance.scenario)


def shares(rows: Sequence[Said]) -> tuple[float, float]:
    """Share of vague words among gap turns, and among the others."""
    gap, other = ([bool(VAGUE.search(r.text)) for r in rows if r.gap == g] for g in (True, False))
    return float(np.mean(gap)), float(np.mean(other))


def bag(text: str) -> set[str]:
    """Words, word pairs, punctuation, first word and length; values by their kind alone."""
    text = re.sub(r"'[^']+ [^']*'|\"[^\"]+\"", " TEXT ", text)
    text = re.sub(r"\S*\d\S*", " NUM ", text)
    text = re.sub(r"(?<=[a-z,] )[A-Z]\w+|\w+[._]\w+", " NAME ", text)
    words = re.findall(r"[A-Za-z']+|[.,;:?!()]", text)
    words = [w if w in ("TEXT", "NUM", "NAME") else w.lower() for w in words]
    pairs = {f"{a} {b}" for a, b in itertools.pairwise(words)}
    return {*words, *pairs, f"first={words[0] if words else ''}", f"length={len(words) // 8}"}


def area(rows: Sequence[Said]) -> float:
    """Area under the curve of a logistic model, each scenario judged by one that never saw it."""
    bags = [bag(row.text) for row in rows]
    counts: dict[str, int] = {}
    for words in bags:
        for word in words:
            counts[word] = counts.get(word, 0) + 1
    index = {w: i for i, w in enumerate(sorted(w for w, c in counts.items() if c >= COMMON))}
    x = np.zeros((len(rows), len(index) + 1))
    x[:, -1] = 1
    for row, words in enumerate(bags):
        x[row, [index[word] for word in words if word in index]] = 1
    y = np.array([float(row.gap) for row in rows])
    names = sorted({row.scenario for row in rows})
    fold = np.array([names.index(row.scenario) % FOLDS for row in rows])
    scores = np.zeros(len(rows))
    for k in range(FOLDS):
        train, test = fold != k, fold == k
        scores[test] = x[test] @ fit(x[train], y[train])
    return rank_area(scores, y)


def fit(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Logistic regression, both classes of equal weight."""
    weight = np.where(y == 1, 0.5 / max(y.sum(), 1), 0.5 / max((1 - y).sum(), 1))
    w = np.zeros(x.shape[1])
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-(x @ w)))
        w -= RATE * (x.T @ (weight * (p - y)) + DECAY * w)
    return w


def rank_area(scores: np.ndarray, y: np.ndarray) -> float:
    """The chance that a gap turn scores higher than another one."""
    gaps, others = scores[y == 1], scores[y == 0]
    above = (gaps[:, None] > others[None, :]).mean()
    return float(above + 0.5 * (gaps[:, None] == others[None, :]).mean())


def show(name: str, tasks: Sequence[Task]) -> None:
    """One line."""
    rows = list(said(tasks))
    gap, other = shares(rows)
    gaps = sum(row.gap for row in rows)
    print(
        f"{name:10} gap turns {gaps:5}  others {len(rows) - gaps:5}  "
        f"vague {gap:.1%} / {other:.1%} (ratio {gap / max(other, 1e-9):.2f})  AUC {area(rows):.3f}"
    )


def variants(name: str, count: int, seed: int, wheel: str) -> list[Task]:
    """Accepted variants of seeds with a missing value."""
    sides = split(load_tasks(wheel))
    environment = BfclEnvironment(wheel)
    writer = make_writer(name, sides.train, environment, 0.0)
    keeper = keeper_of(environment, sides.train, sides.held_out)
    seeds = [task for task in sides.train if task.category == MISS_PARAM]
    rng = random.Random(seed)
    found: list[Task] = []
    number = 0
    while len(found) < count:
        number += 1
        outcome = Pipeline(keeper.environment, writer, keeper, 1).make(rng.choice(seeds), number)
        if outcome.variant is not None:
            found.append(outcome.variant)
    return found


def main() -> None:
    """Run and print."""
    parser = Options(__doc__, {"variants": 10})
    parser.add_argument("--wheel", default="")
    parser.add_argument("--variants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()
    originals = [t for t in split(load_tasks(args.wheel)).train if t.category == MISS_PARAM]
    show("originals", originals)
    for name in ("graph", "resample"):
        show(name, variants(name, args.variants, args.seed, args.wheel))


if __name__ == "__main__":
    main()
