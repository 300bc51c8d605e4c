"""What one driver can serve, with simulated workers: where it saturates, and what grows with what.

    python benchmarks/scale.py curriculum --tasks 1000000 --groups 20000 --threads 8
    python benchmarks/scale.py worlds --workers 1000 --episodes 4000
    python benchmarks/scale.py writers --workers 1000 --outcomes 4000
    python benchmarks/scale.py ray --workers 3 --calls 600          # a real one, of this machine

Everything of the driver is the real thing (buffer, judgements, rollout, worlds' lines, generator,
queue); what answers it is made up: rewards, actors that wait as long as a real one would, variants.
`--seconds` is the median time of an actor's answer, log-normal; 0: at once, so that what is left is
the driver. The last command asks real actors for the smallest thing they do.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from boundary_cost import CATEGORIES, InstantQueue
from shared import Options
from soak import NotesEnvironment, resident, soak

from rods.config import parse_config
from rods.curriculum.online import OnlineCurriculum
from rods.curriculum.saving import load, save
from rods.envs.remote.messages import Action, Hosted, Observation, failed
from rods.envs.remote.processes import ProcessEnvironment, on
from rods.infra.cluster import Cluster
from rods.synthesis.pipeline import RequestOutcome
from rods.synthesis.worker.generator import Generator
from rods.synthesis.worker.queue import SqliteQueue
from rods.task import Provenance, Task, Turn

SPREAD = 0.8
"""Standard deviation of the logarithm of an answer's time: the 99th percentile is 6.4 medians."""
K = 16


class Clock:
    """Seconds on the clock and of this process since it was made."""

    def __init__(self) -> None:
        self._clock, self._processor = time.perf_counter(), time.process_time()

    def said(self, what: str, number: int, of: str) -> None:
        """Print them, and the rate."""
        clock = time.perf_counter() - self._clock
        processor = time.process_time() - self._processor
        print(
            f"{what}: {clock:.1f} s, {processor:.1f} of the processor; {60 * number / clock:,.0f} "
            f"{of} a minute, {1000 * processor / number:.2f} ms of the processor each"
        )


def waiting(median: float) -> Callable[[], float]:
    """How long the next answer takes."""
    rng = random.Random(0)
    return lambda: rng.lognormvariate(0.0, SPREAD) * median


# -- groups into the curriculum ------------------------------------------------------------------


def small_tasks(count: int) -> list[Task]:
    """Of four turns and two hundred bytes of world."""
    return [
        Task(
            "bench",
            CATEGORIES[i % 4],
            tuple(Turn(f"message {turn} of task {i}") for turn in range(4)),
            {"files": "some text " * 20},
            Provenance(f"t{i}", f"s{i}"),
        )
        for i in range(count)
    ]


def curriculum(options: argparse.Namespace, folder: Path) -> None:
    """Threads that draw tasks and tell of rewards, as many hosts would."""
    config = parse_config(
        {
            "rollout": {"k": K, "tasks_per_step": 32},
            "boundary": {"seeds": 256},
            "stages": [{"name": "all", "epochs": 1000, "expand": True}],
        },
        "benchmark",
    )
    made = small_tasks(options.tasks)
    clock = Clock()
    driven = OnlineCurriculum(config, made, InstantQueue())
    clock.said("buffer made", options.tasks, "tasks")
    clock = Clock()
    driven.draw(1)
    clock.said("first epoch begun", options.tasks, "tasks")
    print(f"  {resident():,.0f} MiB resident")
    lock, left, took = threading.Lock(), [options.groups], list[float]()

    def host(number: int) -> None:
        rng = random.Random(number)
        while True:
            with lock:
                if left[0] <= 0:
                    return
                left[0] -= options.batch
            leases = driven.draw(options.batch)
            for lease in leases:
                level = rng.random()
                values = [sum(rng.random() < level for _ in range(4)) / 4 for _ in range(K)]
                began = time.perf_counter()
                driven.observe_values(lease.task.id, values, version=0, epoch=lease.epoch)
                took.append(time.perf_counter() - began)

    clock = Clock()
    with ThreadPoolExecutor(options.threads) as pool:
        list(pool.map(host, range(options.threads)))
    clock.said(f"groups observed by {options.threads} hosts", len(took), "groups")
    took.sort()
    print(f"  one: median {1000 * took[len(took) // 2]:.1f} ms, longest {1000 * took[-1]:.0f} ms")
    clock = Clock()
    save(driven, folder)
    size = sum(file.stat().st_size for file in folder.iterdir())
    clock.said("checkpoint written", size, "bytes")
    again, clock = OnlineCurriculum(config, made, InstantQueue()), Clock()
    load(again, folder)
    clock.said("checkpoint read", size, "bytes")
    print(f"  {resident():,.0f} MiB resident with both")


# -- episodes in worlds elsewhere ----------------------------------------------------------------


class Simulated:
    """An actor that plays a world in this process and answers when a real one would."""

    alive = True

    def __init__(self, median: float) -> None:
        self._environment, self._seconds = NotesEnvironment(), waiting(median)
        self._hosted: Hosted | None = None

    def ask(self, action: Action, seconds: float) -> Observation:
        """Wait, then do it."""
        time.sleep(self._seconds())
        if "open" in action:
            self._hosted = Hosted(self._environment, Task.from_json(action["open"]))  # type: ignore[arg-type]
            return self._hosted.open()
        if "close" in action or self._hosted is None:
            return {}
        try:
            return self._hosted.step(action)
        except Exception as error:  # noqa: BLE001 (the other side raises it)
            return failed(error)

    def end(self) -> None:
        """There is nothing to end."""
        self.alive = False


def worlds(options: argparse.Namespace, folder: Path) -> None:
    """Episodes of two calls and an answer, at most as many at once as there are actors."""
    logging.disable(logging.WARNING)
    environment = ProcessEnvironment(
        NotesEnvironment(), lambda: Simulated(options.seconds), options.workers, 60.0
    )
    clock = Clock()
    found = asyncio.run(soak(environment, options.episodes, options.workers))
    calls = options.episodes * ASKED
    clock.said(f"episodes in {options.workers} actors", options.episodes, "episodes")
    print(f"  {calls / found.seconds:,.0f} requests to actors a second; {dict(found.ended)}")
    environment.close()


ASKED = 6
"""Requests of an episode: open, begin the turn, two calls, end it, close."""


# -- outcomes of the synthesis worker ------------------------------------------------------------


class SimulatedWriters:
    """As many pipelines elsewhere, each of which takes its time."""

    def __init__(self, workers: int, median: float) -> None:
        self.parallel, self._seconds = workers, waiting(median)

    def make(self, seed: Task, rng_seed: int, seen: Sequence[object] = ()) -> RequestOutcome:
        """A variant that differs by a number."""
        time.sleep(self._seconds())
        opening, *rest = seed.turns
        p = seed.provenance
        turns = (Turn(f"{opening.user} {rng_seed}"), *rest)
        about = Provenance(p.origin, p.scenario, (seed.id,), "benchmark", rng_seed)
        return RequestOutcome(Task(seed.env, seed.category, turns, seed.world, about), 0.1, ())

    def usage(self) -> dict[str, dict[str, float]]:
        """Nothing."""
        return {}

    def close(self) -> None:
        """Nothing."""


def writers(options: argparse.Namespace, folder: Path) -> None:
    """Orders of one variant for so many seeds, until all are recorded and taken."""
    queue = SqliteQueue(folder / "synthesis.sqlite")
    pipeline = SimulatedWriters(options.workers, options.seconds)
    generator = Generator(queue, pipeline, 0, max_waiting=10 * options.outcomes)
    seeds = small_tasks(options.outcomes)
    clock = Clock()
    for i, seed in enumerate(seeds):
        queue.submit(f"r{i}", seed, 0, 1, 1.0, 0)
    clock.said("orders written", len(seeds), "orders")
    clock = Clock()
    while queue.open_requests():
        generator.turn()
    clock.said(f"variants by {options.workers} writers", len(seeds), "variants")
    clock = Clock()
    taken = queue.results([f"r{i}" for i in range(len(seeds))])
    clock.said("variants taken", len(taken), "variants")
    generator.close()
    queue.close()


# -- real actors ---------------------------------------------------------------------------------


def ray(options: argparse.Namespace, folder: Path) -> None:
    """The smallest request, one after the other, and by all at once."""
    cluster = Cluster.at("local")
    clock = Clock()
    begin = on(cluster, "bfcl", {}, 0.25)
    actors = [begin() for _ in range(options.workers)]
    for actor in actors:
        actor.ask({}, 300.0)
    clock.said("actors ready", options.workers, "actors")
    clock = Clock()
    for _ in range(options.calls):
        actors[0].ask({}, 60.0)
    clock.said("requests, one after the other", options.calls, "requests")

    def ask(actor: Any) -> None:
        for _ in range(options.calls // options.workers):
            actor.ask({}, 60.0)

    clock = Clock()
    with ThreadPoolExecutor(options.workers) as pool:
        list(pool.map(ask, actors))
    clock.said(f"requests to {options.workers} actors at once", options.calls, "requests")
    for actor in actors:
        actor.end()


def main() -> None:
    """Read the options, run, print."""
    parser = Options(
        __doc__,
        {"tasks": 2000, "groups": 64, "workers": 20, "episodes": 40, "outcomes": 40, "calls": 20},
    )
    parts = {"curriculum": curriculum, "worlds": worlds, "writers": writers, "ray": ray}
    parser.add_argument("part", choices=parts)
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, default=20_000)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--batch", type=int, default=32, help="tasks that a host draws at once")
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--episodes", type=int, default=4000)
    parser.add_argument("--outcomes", type=int, default=4000)
    parser.add_argument("--calls", type=int, default=600)
    parser.add_argument("--seconds", type=float, default=0.05, help="median of an actor's answer")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        parts[options.part](options, Path(folder))


if __name__ == "__main__":
    main()
