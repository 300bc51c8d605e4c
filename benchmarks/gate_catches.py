"""Which gate catches which break: accepted variants of both writers, each broken in ten ways.

    python benchmarks/gate_catches.py [--variants 300] [--seed 0] [--show 0]

Every gate is asked, also behind one that rejects: a row tells all that would have caught a break.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

from rods.synthesis.gates import TEXTUAL, Gatekeeper, gate_names
from rods.synthesis.gates_case import GATES, Facts
from rods.synthesis.pipeline import synthesize
from rods.synthesis.writers import Writer
from rods.synthesis.writers.graph import GraphWriter
from rods.task import Task

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import mutants
from synthesis_cases import ENVIRONMENT, keeper, sides, writer


def variants(count: int, seed: int) -> list[tuple[Task, Task]]:
    """Accepted variants: both writers in turn, all categories in turn."""
    rng = random.Random(seed)
    writers: list[Writer] = [writer(), GraphWriter(sides().train, ENVIRONMENT)]
    categories = sorted({task.category for task in sides().train})
    found: list[tuple[Task, Task]] = []
    number = 0
    while len(found) < count:
        category = categories[number // 2 % len(categories)]
        origin = rng.choice([t for t in sides().train if t.category == category])
        outcome = synthesize(origin, writers[number % 2], keeper(), seed + number, 3)
        number += 1
        if outcome.variant is not None:
            found.append((origin, outcome.variant))
    return found


def caught_by(gates: Gatekeeper, seed: Task, broken: Task) -> list[str]:
    """Every gate that is not passed; what cannot be opened or is not offered cannot be played."""
    case = gates.case(seed, broken)
    found: list[str] = []
    for name in gate_names():
        if ({"world", "offered"} & set(found) and name not in TEXTUAL) or "world" in found:
            continue
        if GATES[name](case) is not None:
            found.append(name)
    return found


def main() -> None:
    """Break, ask, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=0, help="breaks that pass, to show for each")
    args = parser.parse_args()
    subjects = [
        mutants.Subject(s, Facts(ENVIRONMENT, v)) for s, v in variants(args.variants, args.seed)
    ]
    started = time.process_time()
    table: dict[str, Counter[str]] = {name: Counter() for name in mutants.BREAKS}
    missed: dict[str, list[str]] = {name: [] for name in mutants.BREAKS}
    for number, subject in enumerate(subjects):
        recipe = subject.task.provenance.recipe.partition(":")[0]
        for name, row in table.items():
            broken = mutants.break_it(subject, name, number)
            if broken is None:
                continue
            gates = caught_by(keeper(), subject.seed, broken)
            row.update(
                ["broken", recipe, *gates, *(["caught", f"{recipe} caught"] if gates else [])]
            )
            if not gates:
                missed[name].append(
                    f"{recipe} {subject.seed.provenance.origin}: {differs(subject.task, broken)}"
                )
    total = sum(row["broken"] for row in table.values())
    print(f"{len(subjects)} variants, {total} breaks, {time.process_time() - started:.0f} CPU s\n")
    print(f"{'break':26} broken caught    rate  resample   graph")
    for name, row in table.items():
        rates = [_rate(row[f"{w} caught"], row[w]) for w in ("resample", "graph")]
        overall = _rate(row["caught"], row["broken"])
        print(
            f"{name:26} {row['broken']:6} {row['caught']:6} "
            f"{overall:>7} {rates[0]:>9} {rates[1]:>7}"
        )
    print("\ncaught by gate (every gate that rejects, in percent of the breaks)")
    for name, row in table.items():
        gates = [f"{g} {row[g] / row['broken']:.0%}" for g in gate_names() if row[g]]
        print(f"  {name:26} {', '.join(gates)}")
    for name, lines in missed.items():
        for line in lines[: args.show]:
            print(f"    {name}: {line}")


def _rate(caught: int, broken: int) -> str:
    return f"{caught / broken:.1%}" if broken else "-"


def differs(task: Task, broken: Task) -> str:
    """What a break changed, for people."""
    lines = [
        f"[{i}] {new.user[:300]!r} {list(new.ground_truth)} was {old.user[:300]!r} "
        f"{list(old.ground_truth)}"
        for i, (old, new) in enumerate(zip(task.turns, broken.turns, strict=False))
        if old != new
    ]
    return " / ".join(lines)[:1200] or "another configuration"


if __name__ == "__main__":
    main()
