"""The closed loop against the fixed pool: seeds x curricula, pooled figures.

    python benchmarks/closed_loop.py --seeds 0 1 2 --parallel 2

Runs `rods train` for every pair (a finished run is kept, an unfinished one is resumed), then prints
one table and writes `summary.json`. Two runs at once with one thread each use two cores better than
one run with two. Options that it does not know go to `rods train`. `--variants 144` evaluates the
start and every run's last checkpoint on so many held-out variants, for closer intervals.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rods.evaluation.stats import paired_difference

LAST = 0.25
"""Share of a run's updates that counts as its end."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--curricula", nargs="+", default=["rods", "static"])
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/closed_loop"))
    parser.add_argument("--variants", type=int, default=0)
    options, extra = parser.parse_known_args()
    options.out.mkdir(parents=True, exist_ok=True)
    jobs = [(c, s) for s in options.seeds for c in options.curricula]
    with ThreadPoolExecutor(options.parallel) as pool:
        threads = [] if options.parallel == 1 else ["--model.threads", "1"]
        done = pool.map(lambda job: play(options.out, *job, [*threads, *extra]), jobs)
        for path in done:
            print(f"finished {path}")
    summary = {
        c: summarise([options.out / f"{c}-{s}" for s in options.seeds]) for c in options.curricula
    }
    if options.variants:
        start = evaluate(options.out, "start", options.variants)
        for c, figures in summary.items():
            names = [f"{c}-{s}" for s in options.seeds]
            ends = [evaluate(options.out, name, options.variants) for name in names]
            figures["held_out_again"] = look_closer(start, ends)
    (options.out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    show(summary)


def play(out: Path, curriculum: str, seed: int, extra: list[str]) -> Path:
    """One run, its words in a log beside it."""
    path = out / f"{curriculum}-{seed}"
    manifest = path / "manifest.json"
    command = [sys.executable, "-m", "rods.cli.main", "train"]
    if manifest.exists():
        if json.loads(manifest.read_text())["finished"]:
            return path
        command += ["--resume", str(path)]
    else:
        command += ["--curriculum", curriculum, "--seed", str(seed), "--out", str(path), *extra]
    with (out / f"{path.name}.log").open("a") as log:
        subprocess.run(command, check=True, stdout=log, stderr=log)
    return path


def records(path: Path, kind: str) -> list[dict[str, Any]]:
    rows = map(json.loads, (path / "metrics.jsonl").read_text().splitlines())
    return [row for row in rows if row["kind"] == kind]


def summarise(paths: list[Path]) -> dict[str, Any]:
    """Figures of one curriculum, pooled over its seeds."""
    steps = [records(path, "step") for path in paths]
    ends = [rows[-max(1, round(LAST * len(rows))) :] for rows in steps]
    first = [j for rows in steps for row in rows for j in row["judgements"]]
    landed = [j for j in first if j["origin"] == "variant" and j["first_visit"]]
    epochs = [records(path, "epoch") for path in paths]
    return {
        "runs": len(paths),
        "updates": [len(rows) for rows in steps],
        "zero_variance_end": [share(rows) for rows in ends],
        "zero_variance_start": [
            share(rows[: len(end)]) for rows, end in zip(steps, ends, strict=True)
        ],
        "variants_landed": len(landed),
        "rbar_median": statistics.median(j["rbar"] for j in landed) if landed else None,
        "on_boundary": sum(j["region"] == "boundary" for j in landed) / max(1, len(landed)),
        "with_variance": sum(j["variance"] > 0 for j in landed) / max(1, len(landed)),
        "injected": [sum(e["injected"] for e in rows) for rows in epochs],
        "epochs_with_injection": [sum(e["injected"] > 0 for e in rows) for rows in epochs],
        "retired": [sum(sum(e["retired"].values()) for e in rows) for rows in epochs],
        "regions_second_quarter": regions(
            [rows[len(end) : 2 * len(end)] for rows, end in zip(steps, ends, strict=True)]
        ),
        "regions_end": regions(ends),
        "without_variance_end": without_variance(ends),
        "held_out": {kind: gains(paths, kind) for kind in ("variant", "original")},
    }


def share(rows: list[dict[str, Any]]) -> float:
    """Share of groups whose rewards were all equal."""
    return sum(r["zero_variance"] * r["groups"] for r in rows) / sum(r["groups"] for r in rows)


Rows = list[dict[str, Any]]


def regions(parts: list[Rows]) -> dict[str, float]:
    """Share of the judgements in each region, all runs together."""
    found = Counter(j["region"] for rows in parts for row in rows for j in row["judgements"])
    return {name: round(count / found.total(), 3) for name, count in found.items()}


def without_variance(parts: list[Rows]) -> dict[str, int]:
    """Judgements without variance, by region and origin, all runs together."""
    js = [j for rows in parts for row in rows for j in row["judgements"] if j["variance"] <= 1e-12]
    return dict(Counter(f"{j['region']} {j['origin']}" for j in js))


def look_closer(start: Rows, ends: list[Rows]) -> dict[str, Any]:
    """The gain in all, of each run, and by category and writer."""
    found = {"all": compare([start] * len(ends), ends)}
    found |= {f"run {i}": compare([start], [end]) for i, end in enumerate(ends)}
    for key in ("category", "recipe"):
        for value in sorted({row[key].split(":")[0] for row in start}):
            parts = [[row for row in rows if row[key].startswith(value)] for rows in (start, *ends)]
            found[value] = compare(parts[:1] * len(ends), parts[1:])
    return found


def evaluate(out: Path, name: str, variants: int) -> Rows:
    """Held-out rows of the start policy or a run's last checkpoint; what is known is kept."""
    path = out / f"{name}.{variants}.json"
    if not path.exists():
        command = [sys.executable, "-m", "rods.cli.main", "eval", "--json", "--model.threads", "1"]
        command += ["--evaluation.variants", str(variants), "--evaluation.tasks", "1"]
        command += [] if name == "start" else ["--run", str(out / name)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        path.write_text(done.stdout)
    return [row for row in json.loads(path.read_text()) if row["set"] == "variant"]


def gains(paths: list[Path], kind: str) -> dict[str, Any]:
    """Held-out progress before and after, as the runs themselves measured it."""
    found: dict[str, list[Rows]] = {"before": [], "after": []}
    for path in paths:
        for record in records(path, "eval"):
            found[record["when"]].append([r for r in record["rows"] if r["set"] == kind])
    return compare(found["before"], found["after"])


def compare(before: list[Rows], after: list[Rows]) -> dict[str, Any]:
    """Every task averaged over samples and seeds, paired, clustered by scenario."""
    first, last = averages(before), averages(after)
    ids = sorted(first)
    scenario = {row["task_id"]: row["scenario"] for rows in before for row in rows}
    found = paired_difference(
        [first[i] for i in ids], [last[i] for i in ids], [scenario[i] for i in ids]
    )
    return {
        "tasks": len(ids),
        "before": statistics.fmean(first.values()),
        "after": statistics.fmean(last.values()),
        "gain": None if found is None else [found.mean, found.low, found.high],
    }


def averages(runs: list[Rows]) -> dict[str, float]:
    values: dict[str, list[float]] = defaultdict(list)
    for rows in runs:
        for row in rows:
            values[row["task_id"]].append(statistics.fmean(row["progress"]))
    return {task: statistics.fmean(seen) for task, seen in values.items()}


def show(summary: dict[str, Any]) -> None:
    for curriculum, figures in summary.items():
        print(f"\n{curriculum}")
        for name, value in figures.items():
            print(f"  {name}: {json.dumps(value)}")


if __name__ == "__main__":
    main()
