"""Many concurrent episodes whose worlds fail, hang, dawdle and die, for hours if you like.

Every call of a world fails, hangs, is slow or breaks by a chance of its own, and worker processes
are killed now and then. Counts how episodes ended (each is a result or a classified invalid one)
and shows the resident memory, threads and hanging calls after each thousand; they must not grow.

    python benchmarks/soak.py --episodes 20000 --concurrency 1024
    python benchmarks/soak.py --episodes 400 --concurrency 64 --processes 8
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import resource
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shared import Options

from fake_tokenizer import FakeTokenizer
from rods.config import RolloutSettings
from rods.dialects import get_dialect
from rods.env import Environment, World
from rods.envs.remote.processes import STARTING, ProcessEnvironment, local
from rods.errors import EnvError
from rods.policy import Completion
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import RolloutRunner
from rods.rollout.owner import hanging
from rods.rollout.template import ChatTemplate
from rods.task import Task
from rods.types import FinishReason, ToolCall, ToolResult
from worlds import NotesEnvironment, NotesWorld, notes_task

K = 8
CALL_SECONDS = 0.5


@dataclass
class Chances:
    """Of one call."""

    tool_fails: float = 0.05
    breaks: float = 0.01
    hangs: float = 0.002
    """For some seconds: longer than a call may take, so that it is given up."""
    slow: float = 0.05
    hang_seconds: float = 3.0


@dataclass
class Troubled(NotesEnvironment):
    """Opens troubled worlds; keeps none of them."""

    blocking: bool = True
    chances: Chances = field(default_factory=Chances)
    rng: random.Random = field(default_factory=lambda: random.Random(os.getpid()))

    def open(self, task: Task) -> World:
        if self.rng.random() < self.chances.breaks:
            raise EnvError("the world does not open")
        return TroubledWorld(self, task, 0)


class TroubledWorld(NotesWorld):
    """A world in which things go wrong."""

    def call(self, call: ToolCall) -> ToolResult:
        environment: Any = self._environment
        chances, rng = environment.chances, environment.rng
        drawn = rng.random()
        for share, what in (
            (chances.hangs, "hang"), (chances.breaks, "break"), (chances.slow, "slow"),
            (chances.tool_fails, "fail"),
        ):  # fmt: skip
            if drawn < share:
                if what == "break":
                    raise EnvError("the tool server is away")
                if what == "fail":
                    return ToolResult("Error: no such thing", failed=True)
                time.sleep(chances.hang_seconds if what == "hang" else rng.uniform(0.01, 0.1))
                break
            drawn -= share
        return super().call(call)


class Quick:
    """A policy that calls two tools and answers, at once."""

    version = 0

    def __init__(self, template: ChatTemplate) -> None:
        self._texts = [
            (*template.encode(text), template.end_id)
            for text in ("[add(amount=1)]", "[note(text='a')]", "ok")
        ]

    def open(self, seed: int, shared_prompt: Any = ()) -> Any:
        return _QuickSession(self._texts)


class _QuickSession:
    def __init__(self, texts: list[tuple[int, ...]]) -> None:
        self._texts = iter(texts)

    async def generate(self, *args: Any, **options: Any) -> Completion:
        await asyncio.sleep(0)
        ids = next(self._texts)
        return Completion(ids, (-0.5,) * len(ids), FinishReason.STOP, 0)

    def close(self) -> None:
        pass


def resident() -> float:
    """MiB that this process holds."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@dataclass
class Soaked:
    """What came of it."""

    ended: Counter[str] = field(default_factory=Counter)
    memory: list[float] = field(default_factory=list)
    """MiB after each tenth."""
    threads: list[int] = field(default_factory=list)
    replaced: int = 0
    seconds: float = 0.0


async def soak(environment: Environment, episodes: int, concurrency: int, kill: int = 0) -> Soaked:
    """Play so many episodes, so many at once.

    Args:
        environment: whose worlds.
        episodes: all told.
        concurrency: at once.
        kill: episodes between kills of a worker process; 0: none.
    """
    settings = RolloutSettings(
        k=K, max_invalid=1.0, concurrency=concurrency, seconds=30.0,
        worlds={"call_seconds": CALL_SECONDS},
    )  # fmt: skip
    template = ChatTemplate(FakeTokenizer())
    context = RolloutContext(
        environment, Quick(template), get_dialect("pythonic"), template, settings
    )
    found, tenth, rng = Soaked(), max(K, episodes // 10), random.Random(1)

    def count(trajectory: Any) -> None:
        found.ended[f"{trajectory.stop.value}{'' if trajectory.valid else ', invalid'}"] += 1
        if kill and found.ended.total() % kill == 0:
            workers: Any = environment._all  # type: ignore[attr-defined]
            os.kill(rng.choice([worker.pid for worker in workers]), signal.SIGKILL)
        if found.ended.total() % tenth == 0:
            gc.collect()
            found.memory.append(resident())
            found.threads.append(threading.active_count())

    player = RolloutRunner(context, concurrency, count)
    started = time.perf_counter()
    running: set[asyncio.Task[None]] = set()

    async def play(task: Task) -> None:
        await player.group(task)  # what it gives is not kept, or memory would say nothing

    for number in range(episodes // K):
        context.prompts.clear()
        task = notes_task([(f"add 1 to {number}", [ToolCall("add", {"amount": 1})])])
        running.add(asyncio.create_task(play(task)))
        if len(running) * K >= 2 * concurrency:
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for group in done:
                group.result()
    await asyncio.gather(*running)
    found.seconds = time.perf_counter() - started
    found.replaced = getattr(environment, "replaced", 0)
    return found


def main() -> None:
    """Parse, run, print."""
    parser = Options(__doc__, {"episodes": 100, "concurrency": 32})
    parser.add_argument("--episodes", type=int, default=20_000)
    parser.add_argument("--concurrency", type=int, default=1024)
    parser.add_argument("--processes", type=int, default=0, help="worlds in so many processes")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    environment: Environment = Troubled()
    if options.processes:
        environment = ProcessEnvironment(
            environment, local("soak:Troubled", {}), options.processes, CALL_SECONDS, STARTING
        )
        environment.warm_up()
    found = asyncio.run(
        soak(environment, options.episodes, options.concurrency, 100 * bool(options.processes))
    )
    total = found.ended.total()
    print(f"{total} episodes, {options.concurrency} at once, {found.seconds:.0f} s")
    for how, times in found.ended.most_common():
        print(f"  {how:20} {times:7} {times / total:7.2%}")
    print("resident MiB after each tenth:", " ".join(f"{m:.0f}" for m in found.memory))
    print("threads after each tenth:", " ".join(map(str, found.threads)))
    print(f"calls that still hang: {hanging()}; processes replaced: {found.replaced}")
    environment.close()


if __name__ == "__main__":
    main()
