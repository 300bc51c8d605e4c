"""`rods inspect`: print variants with the verdict of every gate, computed again.

`--structure` prints the structure of tasks instead.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from rods.cli.common import AsJson, Profile, Recipe, overrides, print_results, refuse_unread
from rods.cli.structure import NumberedTask, find, read_rows, show
from rods.config import SMALL, load_config
from rods.envs import make_environment
from rods.envs.originals import brings_tasks, original_tasks, require_own, split_tasks
from rods.errors import EnvError, TaskError
from rods.infra.text import counted, quoted
from rods.synthesis.gates.overlap import Prints, prints
from rods.synthesis.structure.profile import distance
from rods.task import Task, read_tasks
from rods.types import Json

if TYPE_CHECKING:
    from rods.synthesis.gates.keeper import Gatekeeper

SEEDLESS = ("held_out_scenario", "offered", "held_out_overlap", "execution", "replay")
"""Gates that need no seed task."""


class VariantFinding(NamedTuple):
    """Verdicts of the gates on one variant."""

    variant: Task
    seed: Task | None
    """None: unknown, so the gates that compare with it did not run."""
    distance: float | None
    verdicts: Mapping[str, str | None]
    """Name of the gate to its objection; None: accepted."""

    @property
    def faults(self) -> dict[str, str]:
        """Objections of the gates that reject it."""
        return {name: problem for name, problem in self.verdicts.items() if problem is not None}


def inspect(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(help="JSON lines of variants. [default with --structure: env.tasks]"),
    ] = None,
    number: Annotated[int, typer.Option("--n", min=0, help="Number to show; 0: all.")] = 5,
    task: Annotated[
        str,
        typer.Option(help="Only this task: an original's name, an id or its start, a line number."),
    ] = "",
    structure: Annotated[
        bool,
        typer.Option("--structure", help="Show calls, sources of arguments and edges; no gates."),
    ] = False,
    tasks: Annotated[
        Path | None, typer.Option(help="JSON lines of seed tasks beside the training split.")
    ] = None,
    as_json: AsJson = False,
    recipe: Recipe = "rods",
    profile: Profile = SMALL,
) -> None:
    """Show variants and each gate's verdict on them.

    Exit status 1: a gate rejects a variant."""
    from rods.writers.assembly import keeper_of

    if structure:
        refuse_unread(context, ["tasks"], "with --structure")
    config = load_config(recipe, profile, overrides(context.args))
    if file is not None and (file / "manifest.json").is_file():
        raise TaskError(
            f"{file} is a run; expected a file of variants. To see its trajectories: rods view "
            f"{quoted(file)}. Its variants are in {file}/checkpoint/STEP/variants.jsonl."
        )
    if file is None and not structure:
        raise TaskError("rods inspect needs a file of variants, or --structure.")
    files = [file] if file else [Path(name) for name in config.env.tasks]
    where = ", ".join(map(str, files)) or "the benchmark"
    rows = [row for path in files for row in read_rows(path)]
    if not files:
        rows = [NumberedTask(0, original) for original in original_tasks(config.env)]
    if not rows:
        raise TaskError(f"{where}: holds no task.")
    variants = [row.task for row in rows]
    chosen = find(task, rows, where) if task else None
    environment = make_environment(config.env.name, config.env.arguments)
    if files:
        require_own(variants, config.env, environment, files[0])
    if structure:
        return show([chosen] if chosen else variants[: number or None], environment)
    given = list(read_tasks(tasks)) if tasks else []
    if given and not brings_tasks(config.env, environment):
        training, held_out = given, []
    else:
        splits = split_tasks(config.env, config.evaluation.files)
        training, held_out = list(splits.train), list(splits.held_out)
    keeper = keeper_of(environment, training, held_out)
    known = {t.id: t for t in (*training, *given, *variants)}
    findings = list(judged(variants, known, keeper, chosen.id if chosen else ""))
    shown = _shown(findings, len(findings) if task else number or len(findings))
    print_results([_plain(finding) for finding in findings], *shown)
    if any(finding.faults for finding in findings):
        raise typer.Exit(1)


def judged(
    variants: Sequence[Task], known: Mapping[str, Task], keeper: Gatekeeper, only: str = ""
) -> Iterator[VariantFinding]:
    """Yield verdicts; `novelty` and `diversity` also compare with the variants before each."""
    seen: dict[object, list[Prints]] = {}
    for variant in variants:
        mine, seed = prints(variant), _seed_of(variant, known)
        places = mine.calls, (seed.id if seed else "", mine.look)
        if only in ("", variant.id):
            before = (earlier for place in places for earlier in seen.get(place, ()))
            yield _judge(variant, seed, keeper, list(dict.fromkeys(before)))
        for place in places:
            seen.setdefault(place, []).append(mine)


def _judge(
    variant: Task, seed: Task | None, keeper: Gatekeeper, before: Sequence[Prints]
) -> VariantFinding:
    from rods.synthesis.gates.keeper import GATES, TEXTUAL, gates_for

    turns = tuple(dataclasses.replace(turn, ground_truth=()) for turn in variant.turns)
    silent = dataclasses.replace(variant, turns=turns)
    case = keeper.case(seed or silent, variant, before)
    verdicts: dict[str, str | None] = {}
    gates = gates_for(seed) if seed is not None else {name: GATES[name] for name in SEEDLESS}
    try:
        for name, gate in gates.items():
            # What is not offered cannot be called.
            if name in TEXTUAL or not verdicts.get("offered"):
                verdicts[name] = gate(case)
    except (TaskError, EnvError) as error:
        return VariantFinding(variant, seed, None, {**verdicts, "world": str(error)})
    comparable = seed is not None and not verdicts.get("offered")
    far = distance(case.seed.profile, case.variant.profile) if comparable else None
    return VariantFinding(variant, seed, far, verdicts)


def _seed_of(variant: Task, known: Mapping[str, Task]) -> Task | None:
    """Return the youngest known ancestor of the same category, if possible of the same origin."""
    p = variant.provenance
    ancestors = [known[i] for i in reversed(p.ancestors) if i in known]
    near = [t for t in ancestors if t.category == variant.category]
    same = [t for t in near if t.provenance.origin == p.origin]
    return next(iter(same or near), None)


def _shown(findings: Sequence[VariantFinding], number: int) -> Iterator[RenderableType]:
    yield from map(_page, findings[:number])
    rest = [f for f in findings[number:] if f.faults]
    if rest:
        table = Table("variant", "gate", "what is wrong")
        for finding in rest:
            for name, problem in finding.faults.items():
                table.add_row(finding.variant.id, name, escape(problem))
        yield table
    yield _summary(findings, min(number, len(findings)))


def _summary(findings: Sequence[VariantFinding], shown: int) -> str:
    faults = Counter(name for finding in findings for name in finding.faults)
    failed = sum(bool(finding.faults) for finding in findings)
    unknown = sum(finding.seed is None for finding in findings)
    total = counted(len(findings), "variant")
    text = f"{total}: {len(findings) - failed} accepted, {failed} rejected"
    if faults:
        text += f" ({', '.join(f'{name} {count}' for name, count in faults.most_common())})"
    if unknown:
        text += f"; the seed of {unknown} is unknown, so only {', '.join(SEEDLESS)} checked them"
    far = [f.distance for f in findings if f.distance is not None]
    if far:
        text += f"; median structural distance from the seed task {median(far):.3f}"
    more = "" if shown == len(findings) else f" Shown: {shown}; --n 0 shows all."
    return f"{text}.{more}"


def _page(finding: VariantFinding) -> Table:
    variant = finding.variant
    table = Table(title=f"variant {variant.id}", title_justify="left", show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    origin = variant.provenance
    table.add_row("category", variant.category)
    table.add_row("writer", escape(origin.recipe or "(none)"))
    table.add_row("original task", escape(f"{origin.origin}; scenario: {origin.scenario}"))
    table.add_row("ancestors", ", ".join(origin.ancestors) or "(none)")
    if finding.seed is None:
        table.add_row("seed task", "unknown: give it with --tasks")
    elif finding.distance is not None:
        far = f"structural distance {finding.distance:.3f} (0: same structure, 1: nothing alike)"
        table.add_row("seed task", f"{finding.seed.id}, {far}")
    table.add_section()
    for number, turn in enumerate(variant.turns, 1):
        table.add_row(f"turn {number}", escape(turn.user) or "(blank: tools are given back)")
        if turn.withheld:
            table.add_row("  withheld", escape(", ".join(turn.withheld)))
        calls = "\n".join(str(call) for call in turn.ground_truth)
        table.add_row("  calls", escape(calls) or "(none: the agent must ask)")
    table.add_section()
    table.add_row("accepted by", _accepting(finding))
    for name, problem in finding.faults.items():
        table.add_row(f"REJECTED by {name}", escape(problem))
    return table


def _accepting(finding: VariantFinding) -> str:
    """Return the gates that accept a variant: their number if all were asked, else their names."""
    from rods.writers import LOCAL, WRITERS

    passed = [name for name, problem in finding.verdicts.items() if problem is None]
    if finding.faults or finding.seed is None:
        return ", ".join(passed) or "(no gate)"
    made_by = finding.variant.provenance.recipe.partition(":")[0]
    # They need the writer's own training tasks, so they cannot be asked again.
    promised = WRITERS.find(made_by).promises if made_by in LOCAL else {}
    if not promised:
        return f"all {len(passed)} gates"
    once = f"{', '.join(promised)} is checked only when the variant is made"
    return f"{len(passed)} of {len(passed) + len(promised)} gates; {once}"


def _plain(finding: VariantFinding) -> dict[str, Json]:
    return {
        "id": finding.variant.id, "category": finding.variant.category,
        "recipe": finding.variant.provenance.recipe,
        "seed": finding.seed.id if finding.seed else None, "distance": finding.distance,
        "ok": not finding.faults, "verdicts": dict(finding.verdicts),
    }  # fmt: skip
