"""The recipes of tool-integrated reasoning in small, each beside its control.

    python benchmarks/recipes.py --recipes torl retool --seeds 0 1 --parallel 2

Runs `rods train --recipe NAME --profile small` and its controls (a finished run is kept, an
unfinished one is resumed), prints first and last sixths of the meters and what the held-out tasks
say (progress before, after and their paired difference with its 95 % interval by scenario, each
seed and the mean over seeds), and draws the curves (means over the seeds) as pages in `--pictures`;
the camera of a page saves the SVG file that stands in the recipe's folder.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from plotly.graph_objects import Figure, Scatter
from plotly.subplots import make_subplots
from shared import Options

from rods.evaluation.stats import paired_difference
from rods.report.plots import smooth
from rods.report.run_data import EvalRow, load_run


@dataclass(frozen=True)
class Variant:
    """One line of a picture: a recipe, and what differs from it."""

    label: str
    recipe: str
    changes: tuple[str, ...] = ()
    profile: str = "small"


def rewarded(reward: str, categories: str = "[]") -> tuple[str, ...]:
    """The recipe's only stage with another reward."""
    stage = f'name="all", reward="{reward}", categories={categories}, epochs=1000, expand=true'
    return (f"stages=[{{{stage}}}]",)


STEPS = '["base", "miss_func", "miss_param"]'
STUDIES: Mapping[str, tuple[Variant, ...]] = {
    "torl": (Variant("ToRL", "torl"),),
    "zerotir": (Variant("ZeroTIR", "zerotir"),),
    "zero_tir_rl": (
        Variant("ZERO-TIR-RL", "zero_tir_rl"),
        Variant("without tools", "zero_tir_rl", ("rollout.calls=0",)),
    ),
    "retool": (
        Variant("with the interpreter", "retool"),
        Variant("text only", "retool", ("rollout.calls=0",)),
    ),
    "otc_ppo": (
        Variant("OTC-PPO", "otc_ppo"),
        Variant("no bonus", "otc_ppo", rewarded("outcome")),
        Variant("additive", "otc_ppo", rewarded("otc_ppo_additive")),
    ),
    "otc_grpo": (
        Variant("OTC-GRPO", "otc_grpo"),
        Variant("no bonus", "otc_grpo", rewarded("outcome")),
        Variant("additive", "otc_grpo", rewarded("otc_grpo_additive")),
    ),
    "envtuning": (
        Variant("with hints", "envtuning"),
        Variant("without", "envtuning", ("curriculum=static",)),
    ),
    "toolrl": (
        Variant("ToolRL", "toolrl"),
        Variant("coarse", "toolrl", ("rewards.toolrl.grain=coarse",)),
    ),
    "tool_n1": (
        Variant("Tool-N1", "tool_n1"),
        Variant("partial", "tool_n1", rewarded("tool_n1_names", STEPS)),
    ),
    "skyrl_v0": (Variant("SkyRL-v0", "skyrl_v0"),),
    "artist_math": (Variant("ARTIST", "artist_math"),),
    "artist_fc": (Variant("ARTIST", "artist_fc"),),
    "otc_grpo_search": (
        Variant("OTC-GRPO", "otc_grpo", (), "small_search"),
        Variant("no bonus", "otc_grpo", rewarded("outcome"), "small_search"),
    ),
}
QUICK = (
    "--updates", "1", "--evaluation.tasks", "1", "--evaluation.samples", "1",
    "--rollout.k", "2", "--rollout.tasks-per-step", "2",
)  # fmt: skip
METERS: Mapping[str, str] = {
    "accuracy": "right answers",
    "code_ratio": "responses with a call",
    "calls_per_trajectory": "calls of a response",
}
"""What is drawn and printed."""
OF_CONVERSATIONS: Mapping[str, str] = {
    "progress_mean": "share of the turns solved",
    "reward_mean": "reward",
    "zero_variance": "groups without variance",
}
"""What is drawn of `artist_fc`, `envtuning` and `skyrl_v0`."""
CONVERSATIONS = ("artist_fc", "envtuning", "skyrl_v0")
HOW: Mapping[str, str] = {"greedy": "greedy_progress", "sampled": "progress"}
COLORS = ("#1f6fb2", "#c0392b", "#2e8b57", "#8e5fb0")
Lines = list[dict[str, float]]
"""Numbers of each step, averaged over seeds."""


def main() -> None:
    parser = Options(__doc__, {"recipes": ["torl"], "out": Path("runs/recipes-quick")})
    parser.add_argument("--recipes", nargs="+", default=list(STUDIES), choices=list(STUDIES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/recipes"))
    parser.add_argument("--pictures", type=Path, help="Folder of the pages.")
    options, extra = parser.parse_known_args()
    if options.quick:
        extra += QUICK
    options.out.mkdir(parents=True, exist_ok=True)
    jobs = [(v, s) for name in options.recipes for v in STUDIES[name] for s in options.seeds]
    with ThreadPoolExecutor(options.parallel) as pool:
        done = pool.map(lambda job: play(options.out, *job, extra), dict.fromkeys(jobs))
        for path in done:
            print(f"finished {path}")
    for name in options.recipes:
        show(name, options.out, options.seeds)
        if options.pictures:
            options.pictures.mkdir(parents=True, exist_ok=True)
            image = {"format": "svg", "filename": name}
            save = {"toImageButtonOptions": image, "modeBarButtons": [["toImage"]]}
            drawn = picture(name, options.out, options.seeds)
            drawn.write_html(options.pictures / f"{name}.html", config=save)


def folder(out: Path, variant: Variant, seed: int) -> Path:
    room = variant.profile.removeprefix("small")
    return out / f"{variant.recipe}{room}-{variant.label.replace(' ', '-')}-{seed}"


def play(out: Path, variant: Variant, seed: int, extra: Sequence[str]) -> Path:
    """One run, its words in a log beside it."""
    path = folder(out, variant, seed)
    manifest = path / "manifest.json"
    command = [sys.executable, "-m", "rods.cli.main", "train"]
    if manifest.exists():
        if json.loads(manifest.read_text())["finished"]:
            return path
        command += ["--resume", str(path)]
    else:
        command += ["--recipe", variant.recipe, "--profile", variant.profile, "--seed", str(seed)]
        command += ["--out", str(path), *(f"--{change}" for change in variant.changes), *extra]
    with (out / f"{path.name}.log").open("a") as log:
        subprocess.run(command, check=True, stdout=log, stderr=log)
    return path


def lines(out: Path, variant: Variant, seeds: Sequence[int]) -> Lines:
    """Means over seeds of every number, step by step; a number that a seed lacks is left out."""
    runs = [load_run(folder(out, variant, seed)).steps for seed in seeds]
    return [
        {
            key: statistics.fmean(row.numbers[key] for row in rows if key in row.numbers)
            for key in {k for row in rows for k in row.numbers}
        }
        for rows in zip(*runs, strict=False)
    ]


def show(name: str, out: Path, seeds: Sequence[int]) -> None:
    """First and last sixth of each meter."""
    print(f"\n{name} ({len(seeds)} seeds): first and last sixth of the updates")
    keys = [*METERS, "tool_productivity", "response_tokens", "execution_success", "reward_mean"]
    keys += ["progress_mean", "zero_variance", "hints"]
    keys += ["calls_needed", "calls_wasted", "calls_short"]
    for variant in STUDIES[name]:
        rows = lines(out, variant, seeds)
        cut = max(1, len(rows) // 6)
        found = {k: (mean(rows[:cut], k), mean(rows[-cut:], k)) for k in keys}
        seconds = sum(r["seconds_rollout"] + r["seconds_update"] for r in rows)
        print(f"  {variant.label} ({len(rows)} updates, {seconds:.0f} s)")
        for key, (first, last) in found.items():
            print(f"    {key:22} {first:8.3f} {last:8.3f}")
        for how in HOW:
            print(f"    held out, {how:17}", "; ".join(held_out(how, out, variant, seeds)))


def held_out(how: str, out: Path, variant: Variant, seeds: Sequence[int]) -> list[str]:
    """Progress of the same tasks before and after: each seed, then all, a task's mean over them."""
    pairs = [evaluations(folder(out, variant, seed)) for seed in seeds]
    found = [difference([(b, a)], HOW[how]) for b, a in pairs]
    return found if len(pairs) == 1 else [*found, f"mean {difference(pairs, HOW[how])}"]


Rows = Mapping[str, EvalRow]
"""By task."""


def evaluations(path: Path) -> tuple[Rows, Rows]:
    run = load_run(path)
    before, after = run.evaluation("before"), run.evaluation("after")
    if before is None or after is None:
        raise SystemExit(f"{path}: the run has no evaluation before and after; finish it first.")
    return {r.task_id: r for r in before.rows}, {r.task_id: r for r in after.rows}


def difference(pairs: Sequence[tuple[Rows, Rows]], key: str) -> str:
    """Before, after and the difference in words, over the tasks that all evaluations have."""
    tasks = sorted(set.intersection(*(set(rows) for pair in pairs for rows in pair)))
    before = [statistics.fmean(b[t].values[key] for b, _ in pairs) for t in tasks]
    after = [statistics.fmean(a[t].values[key] for _, a in pairs) for t in tasks]
    gain = paired_difference(before, after, [pairs[0][0][t].scenario for t in tasks])
    told = "" if gain is None else f" ({gain.mean:+.3f} ± {gain.half_width:.3f}, {len(tasks)})"
    return f"{statistics.fmean(before):.3f} to {statistics.fmean(after):.3f}{told}"


def mean(rows: Lines, key: str) -> float:
    known = [row[key] for row in rows if key in row]
    return statistics.fmean(known) if known else float("nan")


def picture(name: str, out: Path, seeds: Sequence[int]) -> Figure:
    """A chart a meter, side by side; thin lines are the updates, thick ones their average."""
    runs = {v.label: lines(out, v, seeds) for v in STUDIES[name]}
    meters = OF_CONVERSATIONS if name in CONVERSATIONS else METERS
    figure = make_subplots(1, len(meters), subplot_titles=list(meters.values()))
    for column, key in enumerate(meters, 1):
        for (label, rows), color in zip(runs.items(), COLORS, strict=False):
            xs = [row["step"] for row in rows]
            ys = [row.get(key, float("nan")) for row in rows]
            thick = {"color": color, "width": 2}
            look = {"mode": "lines", "legendgroup": label, "showlegend": column == 1}
            raw = Scatter(
                x=xs, y=ys, line={**thick, "width": 1}, opacity=0.3, mode="lines", showlegend=False
            )
            figure.add_trace(raw, 1, column)
            figure.add_trace(
                Scatter(x=xs, y=smooth(ys, 5), name=label, line=thick, **look), 1, column
            )
    figure.update_xaxes(title_text="update")
    legend = {"orientation": "h", "y": -0.3}
    return figure.update_layout(
        width=940, height=300, template="plotly_white", legend=legend, margin={"t": 40, "b": 20}
    )


if __name__ == "__main__":
    main()
