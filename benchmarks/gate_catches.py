"""Which gate catches which break: accepted variants of both writers, each broken in many ways.

    python benchmarks/gate_catches.py [--variants 300] [--seed 0] [--show 0]
    python benchmarks/gate_catches.py --breaks 1000         # breaks that leave no trace, a class
    python benchmarks/gate_catches.py --words 200           # messages made wrong by a word

Every gate is asked, also behind one that rejects: a row tells all that would have caught a break.
With `--breaks` the subjects are two writers' variants and, as wording that no writer made, human
messages beside a seed of the same calls in other words; at the end stands how many of the unbroken
originals, variants and human messages are turned down.

`--words` asks the gates that every writer passes, whoever made the task: variants of `resample`,
`graph` and `llm` (the scripted author of the tests), and human messages, judged by gates on words
that know no task of their scenario: `human` are the training tasks, `unseen` the held-out tasks.
`+own`: with what `resample` and `graph` promise of themselves.
The first row counts unbroken tasks that pass all other gates and are rejected by those on words.
"""

from __future__ import annotations

import dataclasses
import functools
import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence

from shared import Options

import altered
import mutants
from miswordings import MISWORDED, misword
from rods.synthesis.chat import LlmWriterSettings
from rods.synthesis.gates.case import Facts
from rods.synthesis.gates.keeper import GATES, TEXTUAL, Gatekeeper
from rods.synthesis.llm.writer import LlmWriter
from rods.synthesis.pipeline import Pipeline
from rods.synthesis.planned import CallRequest
from rods.synthesis.rejection import Rejection
from rods.synthesis.writer import Writer
from rods.task import Task
from rods.writers.assembly import keeper_of
from rods.writers.graph.writer import GraphWriter
from rods.writers.templates.phrases import phrases_of
from scripted_chat import Chat
from synthesis_cases import ENVIRONMENT, graph_writer, keeper, promised, sides, writer


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
        outcome = Pipeline(keeper().environment, writers[number % 2], keeper(), 3).make(
            origin, seed + number
        )
        number += 1
        if outcome.variant is not None:
            found.append((origin, outcome.variant))
    return found


UNASKED = frozenset({"novelty", "held_out_overlap", "distance", "provenance"})
"""Gates that compare with known tasks: a human task beside the same calls tells nothing to them."""
FREE = "free"
"""Wording that neither writer made: what a language model's is to the gates."""


def human(task: Task) -> mutants.Subject:
    """A human task beside a seed that makes its calls in other words."""
    phrases, specs = phrases_of(ENVIRONMENT), keeper().facts(task).specs
    rng = random.Random(task.id)
    turns = [
        dataclasses.replace(
            turn,
            user=phrases.turn(
                [CallRequest(c, specs[c.name]) for c in turn.ground_truth], rng, first=False
            )
            if turn.ground_truth and turn.user.strip()
            else turn.user and "Something has to be done here.",
        )
        for turn in task.turns
    ]
    seed = dataclasses.replace(task, turns=tuple(turns))
    origin = dataclasses.replace(task.provenance, recipe="llm:model", ancestors=(seed.id,))
    told = dataclasses.replace(task, provenance=origin)
    return mutants.Subject(seed, Facts(ENVIRONMENT, told))


def honest(count: int, seed: int) -> dict[str, list[mutants.Subject]]:
    """Unbroken tasks by who worded them: nothing but what is turned down before any break."""
    found: dict[str, list[mutants.Subject]] = {"resample": [], "graph": [], FREE: []}
    for origin, variant in variants(count, seed):
        name = variant.provenance.recipe.partition(":")[0]
        found[name].append(mutants.Subject(origin, Facts(ENVIRONMENT, variant)))
    originals = random.Random(seed + 1).sample(list(sides().train), min(count, len(sides().train)))
    found[FREE] = [human(task) for task in originals if not _fails(task)]
    return found


def _fails(task: Task) -> bool:
    return any(step.result.failed for step in keeper().facts(task).steps)


LENIENT = [name for name in GATES if name not in UNASKED]
"""What looks at words and calls alone."""


def without_trace(count: int, breaks: int, show: int, first: int) -> None:
    """Alterations that leave no trace: so many of each class, by who worded the task."""
    subjects = honest(count, first)
    started = time.process_time()
    excused = {s.task.id: rejects(s.seed, s.task) for found in subjects.values() for s in found}
    for name, found in subjects.items():
        by_gate = Counter(gate for s in found for gate in excused[s.task.id])
        print(f"unbroken, {name}: {len(found)} tasks; turned down by {dict(by_gate) or 'no gate'}")
    false = [t for t in sides().train if wrongly(t) is not None]
    print(f"originals beside themselves: {len(false)} of {len(sides().train)} turned down")
    for task in false[:show]:
        print(f"    {task.provenance.origin}: {wrongly(task)}")
    print(f"\n{'class':24} {'resample':>20} {'graph':>20} {'free':>20}")
    for name in altered.ALTERED:
        cells: list[str] = []
        lines: list[str] = []
        for writer_name, found in subjects.items():
            caught = total = number = 0
            while total < breaks and number < 4 * breaks and found:
                subject = found[number % len(found)]
                broken = altered.alter(subject, name, number)
                number += 1
                if broken is None:
                    continue
                total += 1
                good = bool(rejects(subject.seed, broken) - excused[subject.task.id])
                caught += good
                if not good:
                    what = differs(subject.task, broken)
                    lines.append(f"{writer_name} {subject.seed.provenance.origin}: {what}")
            cells.append(f"{caught}/{total} {_rate(caught, total)}")
        print(f"{name:24} " + " ".join(f"{cell:>20}" for cell in cells), flush=True)
        for line in random.Random(0).sample(lines, min(show, len(lines))):
            print(f"    {line}")
    print(f"\n{time.process_time() - started:.0f} CPU s")


def rejects(seed: Task, task: Task) -> set[str]:
    """Every gate that turns a task down, its writer's own ones too."""
    free = task.provenance.recipe == "llm:model"
    return set(caught_by(LENIENT if free else GATES, seed, task)) | broken_promises(seed, task)


def broken_promises(seed: Task, task: Task) -> set[str]:
    """What the writer of a task promises of it and does not hold."""
    case = keeper().case(seed, task)
    if any(GATES[name](case) for name in ("world", "offered")):
        return set()
    return {name for name, gate in promised(task).items() if gate(case) is not None}


def wrongly(task: Task) -> str | None:
    """What gates on words say of an original beside itself; failing calls are the benchmark's."""
    case = keeper().case(task, task)
    names = [n for n in LENIENT if n not in ("ancestry", "execution")]
    return next((f"{n}: {said}" for n in names if (said := GATES[n](case)) is not None), None)


def caught_by(gates: Iterable[str], seed: Task, broken: Task) -> list[str]:
    """Every gate that is not passed; what cannot be opened or is not offered cannot be played."""
    case = keeper().case(seed, broken)
    found: list[str] = []
    for name in gates:
        if ({"world", "offered"} & set(found) and name not in TEXTUAL) or "world" in found:
            continue
        if GATES[name](case) is not None:
            found.append(name)
    return found


ON_WORDS = ("units", "contrast", "order", "scope", "worded")
"""Gates on words that every writer passes."""
FOLDS = 5
HUMAN = ("human", "unseen")
"""Messages of the training tasks, and of the held-out tasks."""


@functools.cache
def strangers() -> tuple[Gatekeeper, ...]:
    """Gatekeepers that each know nothing of a fifth of the scenarios."""
    return tuple(
        keeper_of(ENVIRONMENT, [t for t in sides().train if _fold(t) != fold])
        for fold in range(FOLDS)
    )


def _fold(task: Task) -> int:
    return (
        sorted({t.provenance.scenario for t in sides().train}).index(task.provenance.scenario)
        % FOLDS
    )


def worded_wrongly(seed: Task, task: Task, names: Sequence[str], *, strange: bool = False) -> bool:
    """Whether one of these gates rejects; `strange`: it knows no task of the scenario."""
    keepers = strangers()[_fold(seed)] if strange else keeper()
    case = keepers.case(seed, task)
    return any(GATES[name](case) is not None for name in names)


def unbroken(name: str, count: int, seed: int) -> list[mutants.Subject]:
    """Proposals of a writer that pass all gates but those on words."""
    rng = random.Random(seed)
    if name in HUMAN:
        tasks = list(sides().train if name == "human" else sides().held_out)
        return [human(task) for task in rng.sample(tasks, min(count, len(tasks)))]
    made: list[mutants.Subject] = []
    settings = LlmWriterSettings(planner="graph")
    maker: Writer = {
        "resample": writer,
        "graph": graph_writer,
        "llm": lambda: LlmWriter(ENVIRONMENT, Chat(), settings, graph_writer()),
    }[name]()
    others = [gate for gate in GATES if gate not in ON_WORDS]
    while len(made) < count:
        origin = rng.choice(sides().train)
        proposal = maker.propose(origin, random.Random(rng.random()))
        if not isinstance(proposal, Rejection) and not caught_by(others, origin, proposal):
            made.append(mutants.Subject(origin, Facts(ENVIRONMENT, proposal)))
    return made


def by_words(counts: tuple[int, int], breaks: int, show: int, first: int) -> None:
    """Messages made wrong by a word: how many of each kind are caught, by who worded them.

    `counts` are variants of each writer, and originals.
    """
    found: dict[str, list[mutants.Subject]] = {}
    row: list[str] = []
    for name in ("resample", "graph", "llm", *HUMAN):
        # all originals: one in four of them is the same scenario in another category
        subjects = unbroken(name, counts[name in HUMAN], first)
        good = [
            s
            for s in subjects
            if not worded_wrongly(s.seed, s.task, ON_WORDS, strange=name == "human")
        ]
        found[name] = good
        wrong = len(subjects) - len(good)
        row.append(f"{wrong}/{len(subjects)} {_rate(wrong, len(subjects))}")
        row += [""] if name in ("resample", "graph") else []
    heads = ("resample", "+own", "graph", "+own", "llm", *HUMAN)
    print("| kind | " + " | ".join(heads) + " |")
    print("|---" * (len(heads) + 1) + "|")
    print("| rejected although unbroken | " + " | ".join(row) + " |", flush=True)
    for name in MISWORDED:
        cells: list[str] = []
        missed: list[str] = []
        for writer_name, subjects in found.items():
            caught = own = total = number = 0
            while total < breaks and number < 4 * breaks and subjects:
                subject = subjects[number % len(subjects)]
                broken = misword(subject, name, number)
                number += 1
                if broken is None:
                    continue
                total += 1
                strange = writer_name == "human"
                gates = ON_WORDS if writer_name in HUMAN else [g for g in GATES if g != "novelty"]
                good = worded_wrongly(subject.seed, broken, gates, strange=strange)
                caught += good
                own += good or bool(broken_promises(subject.seed, broken))
                if not good:
                    missed.append(f"{writer_name}: {differs(subject.task, broken)}")
            cells.append(f"{caught}/{total} {_rate(caught, total)}")
            if writer_name in ("resample", "graph"):
                cells.append(f"{own}/{total} {_rate(own, total)}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
        for line in random.Random(0).sample(missed, min(show, len(missed))):
            print(f"    {line}")


def main() -> None:
    """Break, ask, print the table."""
    parser = Options(__doc__, {"variants": 6, "originals": 40})
    parser.add_argument("--variants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=0, help="breaks that pass, to show for each")
    parser.add_argument("--breaks", type=int, default=0, help="breaks without a trace, a class")
    parser.add_argument("--words", type=int, default=0, help="wrong wordings, a kind and writer")
    parser.add_argument("--originals", type=int, default=400, help="with human messages, of them")
    args = parser.parse_args()
    if args.words:
        by_words((args.variants, args.originals), args.words, args.show, args.seed)
        return
    if args.breaks:
        without_trace(args.variants, args.breaks, args.show, args.seed)
        return
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
            gates = [*caught_by(GATES, subject.seed, broken)]
            gates += broken_promises(subject.seed, broken)
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
        gates = [f"{g} {row[g] / row['broken']:.0%}" for g in GATES if row[g]]
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
