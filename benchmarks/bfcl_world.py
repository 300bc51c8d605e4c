"""Episodes a second of our world and judge against the package's own executor and checker.

Plays the ground truth of every task of two categories on one core, both sides in one run, in turns.
An episode opens the world (ours) or makes both worlds (the package), plays every call and judges
every turn. Reading the tasks and our one replay of each ground truth are not counted; the package
has no such replay, it plays the ground truth each time.

    python benchmarks/bfcl_world.py --rounds 5
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from shared import Options

from rods.envs.bfcl import assets
from rods.envs.bfcl.tasks import load_tasks
from rods.envs.bfcl.world import BfclEnvironment
from rods.task import Task

TARGETS = {"base": 10.0, "long_context": 5.0}


def ours(tasks: list[Task], environment: BfclEnvironment) -> None:
    """Play and judge each task's ground truth once."""
    for task in tasks:
        with closing(environment.open(task)) as world:
            for index, turn in enumerate(task.turns):
                world.begin_turn(index)
                for call in turn.ground_truth:
                    world.call(call)
                verdict = world.end_turn()
                assert verdict.solved and verdict.official, task.provenance.origin


def official(category: str) -> Callable[[], None]:
    """The same with the package's checker, on its own entries and strings."""
    name = "bfcl_eval.eval_checker.multi_turn_eval"
    checker = assets.module(f"{name}.multi_turn_checker")
    utils = assets.module(f"{name}.multi_turn_utils")
    answers = {row["id"]: row["ground_truth"] for row in assets.rows("answer", category)}
    entries: list[dict[str, Any]] = assets.rows("question", category)
    runs = itertools.count()

    def play() -> None:
        model = f"run{next(runs)}"
        for entry in entries:
            truth = answers[entry["id"]]
            steps = [[turn] if turn else [] for turn in truth]
            result = checker.multi_turn_checker(steps, truth, entry, category, model)
            assert result["valid"], entry["id"]
        for key in [key for key in vars(utils) if key.endswith("_instance")]:
            delattr(utils, key)

    return play


def timed(play: Callable[[], None], repeats: int) -> float:
    """Processor seconds of one pass (other load on the machine does not count)."""
    start = time.process_time()
    for _ in range(repeats):
        play()
    return (time.process_time() - start) / repeats


def main() -> None:
    """Print a table: median episodes a second of both sides and their ratio."""
    parser = Options(__doc__, {"rounds": 1, "repeats": 1})
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    tasks = load_tasks()
    environment = BfclEnvironment()
    print("category       ours ep/s   package ep/s   ratio (median of rounds)   target")
    for category, target in TARGETS.items():
        chosen = [task for task in tasks if task.category == category]
        theirs = official(category)
        ours(chosen, environment)
        theirs()
        pairs = [
            (
                timed(lambda: ours(chosen, environment), options.repeats),  # noqa: B023
                timed(theirs, options.repeats),
            )
            for _ in range(options.rounds)
        ]
        mine = len(chosen) / statistics.median(a for a, _ in pairs)
        other = len(chosen) / statistics.median(b for _, b in pairs)
        ratio = statistics.median(b / a for a, b in pairs)
        print(f"{category:13} {mine:10.0f} {other:14.0f} {ratio:12.1f} {target:27.1f}")


if __name__ == "__main__":
    main()
