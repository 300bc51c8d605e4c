"""How fast `rods view` opens and filters a large run, and what memory it takes.

    python benchmarks/view.py                       # 100,000 trajectories, written first (minutes)
    python benchmarks/view.py --folder /tmp/large   # written there once and used again
    python benchmarks/view.py --quick

The run is generated: groups of 8, three turns each, some 1,700 characters of messages and 180
tokens in a trajectory. `open` is until the first page of the list can be drawn: folder, metrics and
index. Texts are read after that, in a thread (`texts`); `text` filters are timed once they are
there. Each filter is timed five times and the slowest counts. Memory is the most that the process
has held at once since the run was opened.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from pathlib import Path

from shared import Options

from rods.env import TurnVerdict
from rods.tokens import Span
from rods.trajectory import Step, TrainingSignal, Trajectory
from rods.trajectory_codec import write_parquet
from rods.types import FinishReason, Message, ParseVerdict, StopReason, ToolCall, ToolResult
from rods.view.index import TrajectoryFilter
from rods.view.runs import RunView

WORDS = ("river", "book", "price", "lend", "member", "return", "order", "cancel", "list", "account")
TOOLS = ("lend", "find", "account")
K, GROUPS = 8, 32
OPEN, FILTER, MEMORY = 2.0, 0.3, 500.0
"""Limits: seconds, seconds, MiB."""
FILTERS = {
    "progress": TrajectoryFilter(low=0.3, high=0.7),
    "category and stop": TrajectoryFilter(category="base", stop="done"),
    "step": TrajectoryFilter(step="1"),
    "tool": TrajectoryFilter(tool="lend", low=0.5),
    "reward": TrajectoryFilter(reward_low="0.5"),
    "rare text": TrajectoryFilter(text="order no. 77"),
    "common text": TrajectoryFilter(text="river book"),
}


def words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choices(WORDS, k=count))


def trajectory(rng: random.Random, task: str, member: int, step: int) -> Trajectory:
    messages: list[Message] = []
    steps: list[Step] = []
    verdicts: list[TurnVerdict] = []
    spans: list[Span] = []
    for turn in range(3):
        call = ToolCall(rng.choice(TOOLS), {"number": rng.randrange(999)})
        said, result, answer = words(rng, 15), words(rng, 12), words(rng, 12)
        messages += [Message("user", words(rng, 25)), Message("assistant", said, (call,))]
        messages += [Message("tool", result), Message("assistant", answer)]
        done, stop = (ToolResult(result),), FinishReason.STOP
        steps.append(Step(turn, said, ParseVerdict.CALLS, stop, (call,), done, 12))
        steps.append(Step(turn, answer, ParseVerdict.ANSWER, stop, tokens=8))
        right = rng.random() < 0.5
        verdicts.append(TurnVerdict(True, 1, right, right, right))
        spans.append(Span(tuple(rng.choices(range(40_000), k=40)), None))
        spans.append(Span(tuple(rng.choices(range(40_000), k=20)), (-0.25,) * 20, step))
    turns = (tuple(messages), tuple(steps), tuple(verdicts))
    return Trajectory(task, member, step, 0, *turns, 3, tuple(spans), StopReason.DONE)


def signal(made: Trajectory) -> TrainingSignal:
    """Reward with its parts, and advantages as of a mean reward of 0.4."""
    solved = made.progress
    parts = dict.fromkeys(("reached", "solved", "state", "executed"), solved)
    return TrainingSignal(solved, parts, [solved - 0.4 if s.sampled else None for s in made.spans])


def write_run(folder: Path, count: int) -> None:
    """Write trajectories and metrics of so many steps that `count` is reached."""
    rng = random.Random(0)
    with (folder / "metrics.jsonl").open("w", encoding="utf-8") as log:
        for step in range(1, -(-count // (K * GROUPS)) + 1):
            tasks = [f"{number:016x}" for number in rng.sample(range(2000), GROUPS)]
            rows = [trajectory(rng, task, i, step) for task in tasks for i in range(K)]
            path = folder / f"trajectories/step-{step:06d}.parquet"
            write_parquet(path, rows, signals=[signal(row) for row in rows])
            judged = [
                {"task_id": task, "category": "base", "rbar": 0.5, "variance": 0.1, "n_valid": K}
                for task in tasks
            ]
            record = {"kind": "step", "step": step, "reward_mean": 0.5, "judgements": judged}
            log.write(json.dumps(record) + "\n")


class Clock:
    """Seconds on the clock since it was made, and of the processor over all threads."""

    def __init__(self) -> None:
        self._clock, self._processor = time.perf_counter(), time.process_time()

    def seconds(self) -> tuple[float, float]:
        return time.perf_counter() - self._clock, time.process_time() - self._processor


def held(name: str) -> float:
    """A size of this process in MiB, by the name that Linux gives it."""
    rows = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(rows[name].split()[0]) / 1024


def measure(folder: Path) -> bool:
    """Print times and memory; whether all are below the limits."""
    import rods.view.server  # its memory counts

    assert rods.view.server
    Path("/proc/self/clear_refs").write_text("5")  # what was held to write the run does not count
    clock = Clock()
    run = RunView(folder, "large")
    run.refresh()
    total = run.index.find(TrajectoryFilter()).total
    opened, processor = clock.seconds()
    print(f"{total:,} trajectories: open {opened:.2f} s, {processor:.2f} of the processor")
    clock = Clock()
    run.index.wait()
    print(f"texts {clock.seconds()[0]:.2f} s, in the background")
    slowest = 0.0
    for name, wanted in FILTERS.items():
        took: list[tuple[float, float]] = []
        for _ in range(5):
            clock = Clock()
            found = run.index.find(wanted).total
            took.append(clock.seconds())
        wall, processor = max(took)
        slowest = max(slowest, wall)
        print(
            f"{name:18} {1000 * wall:5.0f} ms, {1000 * processor:5.0f} of the processor, {found:,}"
        )
    memory, left = (held(name) for name in ("VmHWM", "VmRSS"))
    print(f"{memory:,.0f} MiB resident at most, {left:,.0f} at the end")
    run.close()
    print(f"limits: open {OPEN:g} s, a filter {1000 * FILTER:g} ms, {MEMORY:g} MiB")
    return opened < OPEN and slowest < FILTER and memory < MEMORY


def main() -> None:
    parser = Options(__doc__, {"trajectories": 512})
    parser.add_argument("--trajectories", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="where the run is written, or lies already")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        if not (folder / "metrics.jsonl").exists():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "trajectories").mkdir()
            write_run(folder, options.trajectories)
        print("all within the limits" if measure(folder) else "a limit is exceeded")


if __name__ == "__main__":
    main()
