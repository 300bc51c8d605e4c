"""A made-up but realistic run directory for the tests of the report (no model, no benchmark)."""

import json
import math
import random
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rods.env import TurnVerdict
from rods.synthesis.pipeline import RequestOutcome
from rods.synthesis.rejection import Rejection
from rods.synthesis.worker.queue import NextOutcome, SqliteQueue
from rods.task import BASE, LONG_CONTEXT, MISS_FUNC, MISS_PARAM, Provenance, Task, Turn
from rods.tokens import Span
from rods.trajectory import Step, TrainingSignal, Trajectory
from rods.trajectory_codec import write_parquet
from rods.types import FinishReason, Message, ParseVerdict, StopReason, ToolCall, ToolResult

CATEGORIES = (BASE, MISS_FUNC, MISS_PARAM, LONG_CONTEXT)
ATTACK = "<script>alert('x')</script><img src=x onerror=alert(1)> </script> & \u2028 {{ 7*7 }}"


def write_run(
    path: Path, seed: int = 0, steps: int = 64, after: bool = True, curriculum: str = "rods"
) -> Path:
    """Write manifest and metrics; `after=False` is a run that was stopped early."""
    rng = random.Random(seed)
    path.mkdir(parents=True, exist_ok=True)
    grows = curriculum == "rods"
    manifest: dict[str, Any] = {
        "seed": seed,
        "profile": "small",
        "digest": "4be1c7a09d2f6e13",
        "split_hash": "a91c0de2f7b3",
        "template_hash": "77ab12",
        "versions": {"rods": "0.1.0", "torch": "2.13.0", "python": "3.11.2"},
        "started": "2026-01-05T10:00:00+00:00",
        "config": {
            "seed": seed,
            "minutes": 10.0,
            "curriculum": curriculum,
            "model": {"name": "tiny"},
            "env": {"name": "bfcl", "bfcl": {"split": "grouped"}},
            "rollout": {"k": 8, "tasks_per_step": 16},
            "boundary": {"low": 0.2, "high": 0.85},
            "evaluation": {"samples": 2, "temperature": 1.0},
            "stages": [{"name": "format", "epochs": 1}, {"name": "all", "epochs": 5}],
        },
    }
    if after:
        manifest["finished"] = "2026-01-05T10:09:41+00:00"
    (path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    rows = [_eval("before", random.Random(99), 0.0)]
    per_epoch = max(1, steps // 6)
    visited: set[str] = set()
    for step in range(steps if after else steps // 2):
        if step % per_epoch == 0:
            rows.append(_epoch(step // per_epoch, step, rng, grows))
        rows.append(_step(step, step // per_epoch, steps, rng, grows, visited))
    if after:
        rows.append(_eval("after", random.Random(99), 0.11 if grows else 0.05))
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (path / "metrics.jsonl").write_text(text, encoding="utf-8")
    return path


def _epoch(epoch: int, step: int, rng: random.Random, grows: bool) -> dict[str, Any]:
    generated = 14 * epoch if grows else 0
    burst = grows and epoch > 0
    tried = 96 * epoch if burst else 0
    accepted = 64 * epoch if burst else 0
    return {
        "kind": "epoch",
        "epoch": epoch,
        "stage": "format" if epoch == 0 else "all",
        "step": step,
        "originals": 96,
        "generated": generated,
        "injected": rng.randint(16, 22) if burst else 0,
        "deferred": rng.randint(0, 9) if burst else 0,
        "retired": {
            "mastered": epoch if burst else 0,
            "too_hard": rng.randint(0, 3) if burst else 0,
            "burn_in": rng.randint(1, 4) if burst else 0,
            "stale": max(0, epoch - 3) if burst else 0,
            "pruned": 0,
        },
        "synthesis": {
            "tried": tried,
            "accepted": accepted,
            "rejected": {"replay_differs": 14 * epoch, "distance": 12 * epoch, "overlap": 6 * epoch}
            if burst
            else {},
            "seconds": 0.3 * tried,
        },
    }


def _step(
    step: int, epoch: int, steps: int, rng: random.Random, grows: bool, visited: set[str]
) -> dict[str, Any]:
    done = step / steps
    judgements: list[dict[str, Any]] = []
    for _ in range(16):
        variant = grows and epoch > 1 and rng.random() < 0.3
        number = rng.randrange(96)
        task = f"{'v' if variant else 'o'}{number:03d}{epoch if variant else 0}a7c"
        center = 0.5 if variant else (number % 10) / 10 * 0.7 + 0.25 * done
        turns = 2 + number % 4
        certain = rng.random() < (0.15 if variant else 0.25 + 0.15 * done)
        p = min(0.99, max(0.01, center + rng.gauss(0, 0.15)))
        same = sum(rng.random() < p for _ in range(turns)) / turns
        rewards = [
            same if certain else sum(rng.random() < p for _ in range(turns)) / turns
            for _ in range(8)
        ]
        rbar = sum(rewards) / 8
        judgements.append(
            {
                "task_id": task,
                "category": CATEGORIES[number % 4],
                "origin": "variant" if variant else "original",
                "rbar": rbar,
                "phi": 4 * rbar * (1 - rbar),
                "variance": sum((r - rbar) ** 2 for r in rewards) / 8,
                "n_valid": 8,
                "region": "hard" if rbar < 0.2 else "mastered" if rbar > 0.85 else "boundary",
                "first_visit": task not in visited,
            }
        )
        visited.add(task)
    flat = sum(j["variance"] == 0 for j in judgements)
    regions = [j["region"] for j in judgements]
    return {
        "kind": "step",
        "step": step,
        "epoch": epoch,
        "stage": "format" if epoch == 0 else "all",
        "reward_mean": sum(j["rbar"] for j in judgements) / 16,
        "reward_std": 0.3,
        "progress_mean": sum(j["rbar"] for j in judgements) / 16,
        "zero_variance": flat / 16,
        "groups": 16,
        "trajectories": 128,
        "invalid": 0,
        "regions": {r: regions.count(r) for r in ("hard", "boundary", "mastered")},
        "tokens_generated": 9200 + rng.randint(-600, 600),
        "seconds_rollout": 6.1 + rng.random(),
        "seconds_update": 2.2 + 0.3 * rng.random(),
        "tokens_per_s": 1330 + rng.gauss(0, 60),
        "trajectories_per_s": 18.6 + rng.gauss(0, 1),
        "loss": 0.02 * rng.gauss(0, 1) * (1 - done) - 0.01,
        "grad_norm": 0.6 + 0.2 * rng.random() + 0.3 * math.exp(-8 * done),
        "kl": 0.06 * done + 0.004 * rng.random(),
        "entropy": 0.42 - 0.14 * done + 0.02 * rng.gauss(0, 1),
        "clip_high": 0.004 + 0.003 * rng.random(),
        "clip_low": 0.002 + 0.002 * rng.random(),
        "lr": 1e-5,
        "informative_groups": 16 - flat,
        "judgements": judgements,
    }


def _eval(when: str, rng: random.Random, gain: float) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for kind, count, level in (("original", 80, 0.14), ("variant", 120, 0.48)):
        for i in range(count):
            turns, p = 2 + i % 4, min(0.95, max(0.02, level + gain + rng.gauss(0, 0.2)))
            won = [sum(rng.random() < p for _ in range(turns)) for _ in range(2)]
            best = sum(rng.random() < p + 0.08 for _ in range(turns))
            rows.append(
                {
                    "task_id": f"{kind}-{i}",
                    "category": CATEGORIES[i % 4],
                    "set": kind,
                    "scenario": f"scenario-{i // 4}",
                    "recipe": ("graph:1", "resample:2")[i % 3 == 0] if kind == "variant" else "",
                    "greedy_progress": [best / turns],
                    "greedy_solved": [best == turns],
                    "greedy_official": [best == turns],
                    "progress": [w / turns for w in won],
                    "solved": [float(w == turns) for w in won],
                    "official": [float(w >= turns - 1 and p > 0.3) for w in won],
                }
            )
    return {"kind": "eval", "when": when, "rows": rows}


def trajectory(task_id: str, member: int, version: int, solved: Iterable[bool]) -> Trajectory:
    """A conversation of two turns on files; its texts try to break the page."""
    wins = list(solved)
    calls = (ToolCall("cd", {"folder": "reports"}), ToolCall("cat", {"file_name": "draft.txt"}))
    first = "[cd(folder='reports'), cat(file_name='draft.txt')]"
    system = "Tools:\ncd(folder)\ncat(file_name)\nsort(file_name)\nmv(source, destination)"
    said = [
        Message("system", system),
        Message("user", "Open the draft in the reports folder and show me what it says."),
        Message("assistant", first, calls),
        Message("tool", "reports\n" + ATTACK),
        Message("assistant", "Done: it holds three lines. " + ATTACK),
        Message("user", "Sort it."),
        Message("assistant", "[sort(file_name='draft.txt', <script>"),
        Message("tool", "The call could not be parsed: a closing bracket is missing."),
        Message("assistant", "I cannot sort it."),
    ]
    ok, bad = ParseVerdict.CALLS, ParseVerdict.MALFORMED
    stop, answer = FinishReason.STOP, ParseVerdict.ANSWER
    results = (ToolResult("reports"), ToolResult("no such file", failed=member % 2 == 1))
    steps = (
        Step(0, said[2].content, ok, stop, calls, results, 21),
        Step(0, said[4].content, answer, stop, tokens=14),
        Step(1, said[6].content, bad, stop, tokens=11),
        Step(1, said[8].content, answer, stop, tokens=6),
    )
    spans: list[Span] = []
    for step, context in zip(steps, (96, 31, 9, 16), strict=True):
        spans.append(Span(tuple(range(context)), None))
        spans.append(Span(tuple(range(step.tokens)), (-0.25,) * step.tokens))
    verdicts = tuple(TurnVerdict(True, 2, win, win, win) for win in wins)
    return Trajectory(
        task_id, member, version, 7, tuple(said), steps, verdicts, 2, tuple(spans), StopReason.DONE
    )


def signal(member: Trajectory, mean: float) -> TrainingSignal:
    """What `progress` and `dr_grpo` make of a trajectory in a group of this mean reward."""
    solved = sum(v.solved for v in member.verdicts) / member.n_turns
    advantage = solved - mean
    spans = [advantage if s.sampled and advantage else None for s in member.spans]
    return TrainingSignal(solved, {"solved": solved, "reached": 1.0}, spans)


def write_trajectories(path: Path, signals: bool = True) -> None:
    """Two files of 6 tasks with 8 members each, named as a run names them.

    Without `signals` they are as a run that held no rewards of single trajectories has them.
    """
    folder = path / "trajectories"
    folder.mkdir(exist_ok=True)
    for step in (0, 31):
        rng = random.Random(step)
        members = [
            trajectory(f"o{task:03d}0a7c", member, step, [rng.random() < p for p in (0.7, 0.4)])
            for task in range(6)
            for member in range(8)
        ]
        made = [signal(member, 0.4) for member in members]
        file = folder / f"step-{step:06d}.parquet"
        write_parquet(file, members, signals=made)
        if not signals:
            pq.write_table(pq.read_table(file).drop_columns([*TrainingSignal._fields]), file)


SEED = Task("bfcl", "base", (Turn("Lend it."),), {}, Provenance("multi_turn_base_1", "1"))
VARIANT = Task(
    "bfcl", "base", (Turn("Lend that."),), {},
    Provenance("multi_turn_base_1", "1", (SEED.id,), "resample:cut"),
)  # fmt: skip
REFUSED = Rejection(
    "gate", "typed", "turn 1: day='x' is not a date", message="Lend it on x.",
    turns=(Turn("Lend it on x.", (ToolCall("lend", {"day": "x"}),)), Turn(ATTACK)),
)  # fmt: skip


def write_queue(path: Path, candidates: bool = True) -> None:
    """A queue whose one seed has an accepted variant and one of which all candidates are rejected.

    Without `candidates` it is as a run that kept no messages of theirs has it.
    """
    early = Rejection("write", "schema")
    queue = SqliteQueue(path / "synthesis.sqlite")
    queue.submit("r", SEED, 0, 2, 1.0, 1)
    outcomes = (RequestOutcome(VARIANT, 0.5, (early,)), RequestOutcome(None, 1.0, (early, REFUSED)))
    for number, outcome in enumerate(outcomes):
        queue.record(NextOutcome(SEED, number), outcome, 0.1)
    queue.close()
    if not candidates:
        with closing(sqlite3.connect(path / "synthesis.sqlite")) as db:
            db.execute("DROP TABLE candidates")
