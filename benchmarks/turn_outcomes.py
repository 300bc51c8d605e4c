"""How turns end in the trajectories of a run, by updates: what the policy learns, and what is left.

    python benchmarks/turn_outcomes.py RUN [--parts 4]

Of turns that expect calls: done, without any call, calls without an error that do not do it, calls
of which one failed, never reached. Of turns in which a function or a value is missing: those in
which the policy held back and answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from shared import Options, short_run

from rods.trajectory import Trajectory
from rods.trajectory_codec import read_parquet

ACTS = ("done", "no call", "calls, none failed", "calls, one failed", "not reached")


def outcomes(trajectory: Trajectory) -> Iterator[tuple[str, str]]:
    """`act` or `gap`, and how the turn ended, for each turn that was judged."""
    for turn, verdict in enumerate(trajectory.verdicts):
        steps = [step for step in trajectory.steps if step.turn == turn]
        if not verdict.expects_calls:
            yield "gap", "held back" if verdict.answered and not verdict.calls else "acted"
        elif verdict.executed and verdict.state:
            yield "act", "done"
        elif not steps:
            yield "act", "not reached"
        elif not verdict.calls:
            yield "act", "no call"
        else:
            failed = any(result.failed for step in steps for result in step.results)
            yield "act", "calls, one failed" if failed else "calls, none failed"


def line(files: list[Path]) -> str:
    """The shares of some updates."""
    found = Counter(
        outcome for path in files for one in read_parquet(path) for outcome in outcomes(one)
    )
    acts = sum(count for (kind, _), count in found.items() if kind == "act")
    gaps = sum(count for (kind, _), count in found.items() if kind == "gap")
    shares = [f"{name} {found['act', name] / max(acts, 1):.0%}" for name in ACTS]
    held = f"held back {found['gap', 'held back'] / max(gaps, 1):.0%}"
    names = f"{files[0].stem} to {files[-1].stem[5:]}"
    return f"{names}: {', '.join(shares)} of {acts} turns; {held} of {gaps} gaps"


def main() -> None:
    parser = Options(__doc__, {})
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--parts", type=int, default=4)
    told = parser.parse_args()
    if told.run:
        table(told.run, told.parts)
    elif told.quick:
        with short_run() as run:
            table(run, told.parts)
    else:
        parser.error("name a run folder")


def table(run: Path, parts: int) -> None:
    """Print a line for each part of the run."""
    files = sorted((run / "trajectories").glob("step-*.parquet"))
    size = max(1, -(-len(files) // parts))
    for first in range(0, len(files), size):
        print(line(files[first : first + size]))


if __name__ == "__main__":
    main()
