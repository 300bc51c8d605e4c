"""How a rollout grows with the episodes at once, and the curriculum with the tasks.

Episodes are those of BFCL by the small profile, each number of them in a process of its own, so
that its memory is its own: once sampled by the bundled policy, once played from the ground truth,
which leaves what Python and the worlds cost. Seconds of the processor say more than those of the
clock where other jobs run beside. The curriculum is that of `boundary_cost.py`: 32 groups of 16
rewards a step, over the last draws of an epoch and the first of the next.

    python benchmarks/growth.py                             # some minutes
    python benchmarks/growth.py --episodes 1 64 --tasks 100
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from boundary_cost import play as play_curriculum
from shared import Options

from oracle import OraclePolicy
from rods.assemble.engines import engine_of, template_of
from rods.config import RunConfig, load_config, parse_config
from rods.dialects import get_dialect
from rods.engines.threads import set_threads
from rods.envs import make_environment
from rods.envs.originals import split_tasks
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import run_groups
from rods.rollout.template import ChatTemplate
from rods.trainers.loading import load_model, load_tokenizer

DRAWS = 320
"""That are left of an epoch when the curriculum is timed."""
POLICIES = ("tiny", "ground truth")


def settings(episodes: int) -> RunConfig:
    """Of so many episodes at once."""
    k = min(8, max(2, episodes))  # GRPO compares at least two
    return load_config("rods", "small", [
        f"rollout.k={k}", f"rollout.tasks_per_step={max(1, episodes // k)}",
        f"rollout.concurrency={episodes}", "rollout.max_invalid=1.0",
    ])  # fmt: skip


async def rollout(config: RunConfig, policy: str, least: int) -> dict[str, float]:
    """One size, and so many episodes at least, in this process."""
    rollouts = config.rollout
    dialect = get_dialect(config.model.dialect)
    groups = max(least, rollouts.concurrency) // rollouts.k
    pool = sorted(split_tasks(config.env).train, key=lambda t: t.id)
    tasks = random.Random(0).choices(pool, k=groups)
    if policy == "tiny":
        model, tokenizer = load_model(config.model)
        template = template_of(model, tokenizer)
        engine: Any = engine_of(config, model, template)
        await engine.start()
    else:
        template = ChatTemplate(load_tokenizer(config.model))
        engine = OraclePolicy(tasks, dialect, template)
    environment = make_environment("bfcl")
    environment.warm_up()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started, busy = time.perf_counter(), time.process_time()
    played = run_groups(RolloutContext(environment, engine, dialect, template, rollouts), tasks)
    trajectories = [t async for group in played for t in group.trajectories]
    seconds, busy = time.perf_counter() - started, time.process_time() - busy
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    steps = sum(len(t.steps) for t in trajectories)
    return {
        "episodes": len(trajectories),
        "invalid": sum(not t.valid for t in trajectories),
        "episodes_per_s": len(trajectories) / seconds,
        "steps_per_s": steps / seconds,
        "processor_ms": 1000 * busy / len(trajectories),
        "resident_mib": after / 1024,
        "grown_mib": (after - before) / 1024,
    }


def apart(episodes: int, policy: str, least: int) -> dict[str, float]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--one", str(episodes), "--policy", policy]
    command += ["--least", str(least)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def episodes_table(sizes: list[int], least: int) -> None:
    """Print a line for each size and policy."""
    print(
        "at once  policy        episodes/s  steps/s  processor ms an episode  peak MiB  of it new"
    )
    for policy in POLICIES:
        for size in sizes:
            row = apart(size, policy, least)
            print(
                f"{size:7}  {policy:12} {row['episodes_per_s']:11.2f} {row['steps_per_s']:8.1f} "
                f"{row['processor_ms']:24.0f} {row['resident_mib']:9.0f} {row['grown_mib']:10.0f}"
                + (f"  {row['invalid']:.0f} invalid" if row["invalid"] else ""),
                flush=True,
            )


def tasks_table(sizes: list[int], steps: int) -> None:
    """Print a line for each size of the pool."""
    config = parse_config(
        {
            "rollout": {"k": 16, "tasks_per_step": 32},
            "boundary": {"seeds": 64},
            "replay": {"retire": [0.0, 1.0]},
            "stages": [{"name": "all", "epochs": 1000, "expand": True}],
        },
        "benchmark",
    )
    print("\n  tasks  variants  draw + judge + log, processor ms a step  epoch's start  saved KiB")
    for size in sizes:
        options = argparse.Namespace(tasks=size, steps=steps, done=max(0.0, 1 - DRAWS / size))
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            timed, active = play_curriculum(config, folder, options)
            stored = sum(file.stat().st_size for file in folder.iterdir())
        rows = timed.rows()
        parts = [rows[key]["processor_ms"] for key in ("draw", "judge", "figures for the log")]
        start = rows["start of an epoch"]["processor_ms"]
        print(
            f"{size:7} {active:9}  {' + '.join(f'{p:.1f}' for p in parts):>22} = {sum(parts):5.1f} "
            f"{start:22.1f} ms {stored / 1024:12,.0f}",
            flush=True,
        )


def main() -> None:
    """Parse, run, print."""
    parser = Options(__doc__, {"episodes": [2], "least": 2, "tasks": [50], "steps": 2})
    parser.add_argument("--episodes", type=int, nargs="*", default=[1, 4, 16, 64, 256, 1024])
    parser.add_argument("--least", type=int, default=16, help="episodes, or one would be timed")
    parser.add_argument("--tasks", type=int, nargs="*", default=[100, 1000, 10_000])
    parser.add_argument("--steps", type=int, default=40, help="of the curriculum")
    parser.add_argument("--one", type=int, default=0, help="this number of episodes, as JSON")
    parser.add_argument("--policy", choices=POLICIES, default=POLICIES[0], help="with --one")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    if options.one:
        set_threads(1)
        asked = options.policy, options.least
        print(json.dumps(asyncio.run(rollout(settings(options.one), *asked))))
        return
    if options.episodes:
        episodes_table(options.episodes, options.least)
    if options.tasks:
        tasks_table(options.tasks, options.steps)


if __name__ == "__main__":
    main()
