"""Trajectories per second of whole training steps (rollout and update), beside another commit.

Both commits train the same policy by the small profile, each with its own settings of it, a few
updates, in turn; the other commit comes from a clone in a temporary folder. With `--busy` another
process multiplies matrices on one core all the while. Steps after the first are counted (the first
one measures threads), medians and the ratio printed, with the machine's matrix rate beside them.

    python benchmarks/whole_step.py --against 12213f5 --updates 4 --rounds 2
    python benchmarks/whole_step.py --against 12213f5 --updates 4 --busy
    python benchmarks/whole_step.py --against 12213f5 --updates 6 --same
    python benchmarks/whole_step.py --against HEAD --ours "--engine.name hf"

The settings differ in what a step has to do: `--same` gives this commit those of 12213f5 that
decide it (24 tasks, all weights, credit by trajectory); `--ours` gives it others, and the last line
compares them with those that the same commit has by itself.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from shared import ROOT, SHORT, Options

import rods
from rods.engines.threads import UPDATE, set_threads, use_threads

POLICY = Path(rods.__file__).parent / "policies" / "tiny"
SAME = (
    "--env.train_tasks", "24", "--model.lora_rank", "0", "--train.lr", "1e-4",
    "--train.credit", "trajectory", "--train.schedule", "constant",
    "--rollout.tasks_per_step", "8", "--train.minibatch", "16",
)  # fmt: skip
"""Settings of 12213f5 that decide how much a step has to do."""
BUSY = "import numpy; a = numpy.ones((512, 512), 'f')\nwhile True: a @ a"


def steps_of(source: Path, out: Path, updates: int, rest: list[str]) -> list[dict[str, float]]:
    """The records of a short training by the code in `source`."""
    command = [
        sys.executable, "-m", "rods.cli.main", "train", "--recipe", "rods", "--profile", "small",
        "--model.name", str(POLICY), "--updates", str(updates), "--out", str(out),
        "--evaluation.tasks", "1", "--evaluation.variants", "0", *rest,
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(source / "src")}
    made = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if made.returncode:
        raise SystemExit(f"{source}: ended with {made.returncode}: {made.stderr[-2000:]}")
    lines = (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [r for r in map(json.loads, lines) if r["kind"] == "step"][1:]


def speeds(steps: list[dict[str, float]]) -> str:
    """Medians of what a step came to."""
    generated = statistics.median(s["tokens_per_s"] for s in steps)
    trained = statistics.median(s["tokens"] / s["seconds_update"] for s in steps)
    rolled = statistics.median(s["seconds_rollout"] for s in steps)
    updated = statistics.median(s["seconds_update"] for s in steps)
    return (
        f"median rollout {rolled:.1f} s, {generated:.0f} tokens/s generated; "
        f"update {updated:.1f} s, {trained:.0f} tokens/s"
    )


def rate(steps: list[dict[str, float]]) -> float:
    """Median trajectories per second of rollout and update together."""
    return statistics.median(
        s["trajectories"] / (s["seconds_rollout"] + s["seconds_update"]) for s in steps
    )


def matrix_rate() -> float:
    """Giga-operations per second of a float32 product of 1,024 x 1,024 with torch's threads."""
    import torch

    set_threads(0)
    use_threads(UPDATE)
    a = torch.ones(1024, 1024)
    times: list[float] = []
    for _ in range(10):
        started = time.perf_counter()
        a @ a
        times.append(time.perf_counter() - started)
    return 2 * 1024**3 / statistics.median(times) / 1e9


@contextmanager
def busy(wanted: bool) -> Generator[None]:
    """Another process beside what is measured."""
    if not wanted:
        yield
        return
    one = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    other = subprocess.Popen([sys.executable, "-c", BUSY], env=one)
    try:
        yield
    finally:
        other.kill()
        other.wait()


def main() -> None:
    parser = Options(__doc__, {"against": "HEAD", "updates": 2})
    parser.add_argument("--against", default="12213f5", help="the other commit")
    parser.add_argument("--updates", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--same", action="store_true", help="the settings of 12213f5 for both")
    parser.add_argument("--ours", default="", help="settings for this commit alone")
    parser.add_argument("--busy", action="store_true", help="beside one busy process")
    arguments, rest = parser.parse_known_args()
    if arguments.quick:
        rest += [word for text in SHORT for word in f"--{text}".split("=", 1)]
    with tempfile.TemporaryDirectory() as folder, busy(arguments.busy):
        other = Path(folder) / "other"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(other)], check=True)
        subprocess.run(["git", "-C", str(other), "checkout", "-q", arguments.against], check=True)
        found: dict[str, list[dict[str, float]]] = {arguments.against: [], "this": []}
        for turn in range(arguments.rounds):
            for name, source in ((arguments.against, other), ("this", ROOT)):
                out = Path(folder) / f"{name}-{turn}"
                ours = [*(SAME if arguments.same else ()), *arguments.ours.split()]
                more = ours if name == "this" else []
                found[name] += steps_of(source, out, arguments.updates, [*more, *rest])
        print(f"matrix product, float32: {matrix_rate():.0f} Gop/s")
    for name, steps in found.items():
        print(f"{name}: {rate(steps):.2f} trajectories/s over {len(steps)} steps ({speeds(steps)})")
    print(f"ratio: {rate(found['this']) / rate(found[arguments.against]):.2f}")


if __name__ == "__main__":
    main()
