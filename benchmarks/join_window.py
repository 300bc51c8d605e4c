"""Does it pay to wait for more tool results before they interrupt the engine's running batch?

The load of `rollout_engine.py` (64 trajectories, 6 turns) with a tool between turns that takes a
log-normal time. A context that comes back joins when `join_at` are waiting, or when the first of
them has waited for `patience` decode steps. Processor seconds, since the machine may be shared.

    python benchmarks/join_window.py --rounds 3
"""

from __future__ import annotations

import asyncio
import math
import random
import statistics
import time

from rollout_engine import CONTEXT, ROLLOUTS, TASKS, TURNS, Workload, make_model, make_workload
from shared import Options

from engine_counts import EngineCounts
from rods.engines.hf import HFPolicy
from rods.engines.scheduler import Scheduler

WINDOWS = {"at once": (1, 1), "8, or 4 steps": (8, 4), "16, or 16 steps": (16, 16)}


async def play(policy: HFPolicy, work: Workload, number: int, median: float) -> None:
    """One trajectory with tools."""
    rng, prompt = random.Random(number), work.prompts[number // ROLLOUTS]
    session = policy.open(number, prompt)
    new = prompt
    for turn, length in enumerate(work.lengths[number]):
        await session.generate(new, length, 1.0)
        await asyncio.sleep(rng.lognormvariate(math.log(median), 1.0))
        new = work.observations[number][turn]
    session.close()


def main() -> None:
    """Parse, run, print."""
    parser = Options(__doc__, {"rounds": 1, "tasks": 1, "turns": 2})
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=TASKS, help="of 8 trajectories each")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--median", type=float, default=0.05)
    options = parser.parse_args()
    model, work = make_model(), make_workload(options.tasks, options.turns)
    found: dict[str, list[tuple[float, float, int, int]]] = {name: [] for name in WINDOWS}

    async def play_all(policy: HFPolicy) -> None:
        numbers = range(len(work.lengths))
        await asyncio.gather(*(play(policy, work, i, options.median) for i in numbers))

    for _ in range(options.rounds):
        for name, (join_at, patience) in WINDOWS.items():
            policy = HFPolicy(model, [], rows=64, max_context=CONTEXT, threads=1)
            policy.scheduler = Scheduler(policy._backend, [], join_at, patience)
            counts = EngineCounts(policy)
            clock, started = time.perf_counter(), time.process_time()
            asyncio.run(play_all(policy))
            found[name].append(
                (
                    time.process_time() - started,
                    time.perf_counter() - clock,
                    counts.prefill_passes,
                    counts.decode_steps,
                )
            )
    print("join at           processor s  on the clock  prefill passes  decode steps  (medians)")
    for name, rows in found.items():
        spent, clock, passes, steps = (
            statistics.median(column) for column in zip(*rows, strict=True)
        )
        print(f"{name:16} {spent:12.1f} {clock:13.1f} {passes:15.0f} {steps:13.0f}")


if __name__ == "__main__":
    main()
