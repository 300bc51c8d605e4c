"""`rods observe`: sort another trainer's tasks by difficulty, from the rewards that it logged."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from rods.cli.common import AsJson, RewardKey, TaskKey, numbers, overrides_of, print_results, say
from rods.config import load_config
from rods.errors import ConfigError
from rods.infra.claims import claimed
from rods.infra.text import counted


def observe(
    context: typer.Context,
    log: Annotated[Path, typer.Argument(help="JSON lines, Parquet, a folder of them, or a run.")],
    target: Annotated[
        Path | None, typer.Option("--out", help="Write all tasks to this new .json or .csv file.")
    ] = None,
    task_key: TaskKey = "",
    reward_key: RewardKey = "",
    span: Annotated[
        str, typer.Option("--range", help="Reward of a failure and of a success, such as -1,1.")
    ] = "0,1",
    n: Annotated[int, typer.Option(min=0, help="Number of boundary tasks to print.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show which tasks are hard, at the boundary or mastered.

    Reads verl's rollout_data_dir, TRL's completions, runs of rods, or rows of task_id and reward.
    The edges of the boundary: --boundary.low VALUE, --boundary.high VALUE.
    """
    from rods.integrations.formats.logged import LogFormat, read_rewards
    from rods.integrations.observe import observe as judged
    from rods.integrations.observe import require_ending, write

    settings = load_config(overrides=overrides_of(context.args, "observe")).boundary
    if target is not None:
        require_ending(target)
        context.with_resource(claimed(target))
    low, high = numbers(span, "--range", float, "-1,1", pair=True)
    if not low < high:
        raise ConfigError(f"--range {span!r}: the first must be less than the second.")
    observed = judged(
        read_rewards(log, LogFormat(task_key, reward_key, low, high, "--range")), settings
    )
    if target is not None:
        write(target, observed)
    counts = Counter(task.region for task in observed)
    tables = [Table("region", "tasks", "share")]
    for region in ("hard", "boundary", "mastered", "unjudged"):
        tables[0].add_row(region, str(counts[region]), f"{counts[region] / len(observed):.1%}")
    urgent = [task for task in observed if task.region == "boundary"][:n]
    if urgent:
        rows = Table("at the boundary", "mean reward", "95 %", "trajectories", "step")
        for task in urgent:
            interval = f"{task.low:.2f} to {task.high:.2f}"
            step = "" if task.step is None else str(task.step)
            rows.add_row(task.task, f"{task.mean_reward:.3f}", interval, str(task.valid), step)
        tables.append(rows)
    data = {"counts": counts, "tasks": [task._asdict() for task in observed]}
    print_results(data, *tables)
    invalid = sum(task.members - task.valid for task in observed)
    if invalid:
        say(f"{counted(invalid, 'trajectory')} without a reward: left out.")
    if target is not None:
        say(f"{counted(len(observed), 'task')} in {target}")
