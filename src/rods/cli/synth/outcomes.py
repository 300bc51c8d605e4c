"""Progress, outcomes and reasons for rejections, as `rods synth` prints them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence, Set
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from rich.table import Table

from rods.cli import common
from rods.infra.files import write_atomic
from rods.synthesis.rejection import reason_words
from rods.synthesis.yields import SeedYield, low_yields
from rods.task import Task

if TYPE_CHECKING:
    from rods.synthesis.collect import Collection
    from rods.synthesis.pipeline import Statistics

REDRAW = 0.5  # seconds between two bars
EACH = 5  # with fewer variants per tool, an uncalled tool may be chance
FIGURES = ("calls", "prompt_tokens", "completion_tokens", "cost")
"""Metrics in the table for each stage of a writer with a server."""


def say_low_yields(yields: Sequence[SeedYield], at: Path, of: str = "seed task") -> None:
    """Print which seed tasks or worlds have a low yield and why; write all reasons to a file."""
    rejected_file(at).unlink(missing_ok=True)  # of an earlier synthesis
    keys, file = ("seed", "stage", "reason", "detail", "message"), rejected_file(at)
    low = [(made.name, *row) for made in yields if made.is_low for row in made.rejections]
    if low:
        rows = (json.dumps(dict(zip(keys, row, strict=True)), ensure_ascii=False) for row in low)
        write_atomic(file, "\n".join(rows) + "\n")
        common.say("\n".join(low_yields(yields, of)))
        common.say(f"  The reasons of all {len(low)} rejected candidates of these {of}s: {file}")


def rejected_file(target: Path) -> Path:
    """Return the path of the reasons why seed tasks of a data set have few variants or none."""
    return target.with_name(f"{target.name}.rejected.jsonl")


def why_none(counted: Statistics, advice: str) -> str:
    """Return why no candidate was accepted; `advice` holds where tasks were made from nothing."""
    planned = sum(n for (stage, _), n in counted.rejected.items() if stage == "plan")
    if advice and 2 * planned > counted.tried:
        few = "too few tools, or too little that tasks could speak of"
        return f"the example above says why. There may be {few}. {advice}"
    same = sum(counted.rejected["gate", reason] for reason in ("novelty", "diversity"))
    if 2 * same > counted.tried:
        return "nothing in these tasks varies (docs/reference/tool-classes.md)"
    return "see the table"


def never_called(tools: Set[str], made: Sequence[Task]) -> list[str]:
    """Return which of these tools no task calls; none while the tasks are few."""
    called = {call.name for task in made for call in task.calls}
    return sorted(tools - called) if len(made) >= EACH * len(tools) else []


def shown(show: Callable[..., None], what: str) -> Callable[[Collection], None]:
    """Return a callback that shows a collection's progress after each outcome and each wait."""
    from rods.report.live import synthesis_line

    drawn, pause = 0.0, None

    def report(collection: Collection) -> None:
        nonlocal drawn, pause
        why = collection.worker.suspension
        if why is not None and why != pause:
            common.say(f"synthesis pauses for {why.seconds:g} s: {why.reason}")
        pause = why
        if time.monotonic() - drawn >= REDRAW or collection.finished:  # figures are sums over all
            drawn = time.monotonic()
            show(
                len(collection.accepted), synthesis_line(collection.state(), what.removesuffix("s"))
            )

    return report


def table(collection: Collection, what: str) -> Table:
    """Return the number of candidates by outcome, with costs."""
    counted = collection.statistics()
    tried, accepted = max(counted.tried, 1), max(counted.accepted, 1)
    rows = Table("outcome", "count", "share")
    rows.add_row("candidates", str(counted.tried), "")
    rows.add_row("accepted", str(counted.accepted), f"{counted.accepted / tried:.1%}")
    for (stage, reason), count in counted.rejected.most_common():
        rows.add_row(f"{stage}: {reason_words(reason)}", str(count), f"{count / tried:.1%}")
    rows.add_row(f"seconds per {what.removesuffix('s')}", f"{counted.seconds / accepted:.3f}", "")
    if counted.distances and any(task.provenance.ancestors for task in collection.accepted):
        what_far = "median structural distance from the seed task (0: same structure)"
        rows.add_row(what_far, f"{median(counted.distances):.3f}", "")
    for stage, row in sorted(collection.worker.usage().items()):
        for figure in FIGURES:
            what = f"{stage}: {figure.replace('_', ' ')} per accepted"
            rows.add_row(what, f"{row.get(figure, 0) / accepted:.4g}", "")
    return rows
