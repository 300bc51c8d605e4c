"""Requests to a synthesis worker on the benchmark, and their results."""

from __future__ import annotations

from rods.envs import ENVIRONMENTS
from rods.synthesis.worker.client import SynthesisWorker
from rods.synthesis.worker.settings import WorkerSettings
from rods.writers.assembly import PIPELINE
from synthesis_cases import sides

SETTINGS = WorkerSettings(
    sides().train[:48], sides().held_out[:48], ENVIRONMENTS.address("bfcl"), PIPELINE
)
SEEDS = sides().train[:6]


def ordered(worker: SynthesisWorker, n: int = 2) -> list[str]:
    ids = [f"r{i}" for i in range(len(SEEDS))]
    for i, (name, seed) in enumerate(zip(ids, SEEDS, strict=True)):
        worker.submit(name, seed, 0, n, float(i), 1)
    return ids


def drained(worker: SynthesisWorker, ids: list[str]) -> list[tuple[str, int, str]]:
    assert worker.drain(ids, 120.0)
    return [(name, number, task.id) for name, number, task, _ in worker.results(ids)]
