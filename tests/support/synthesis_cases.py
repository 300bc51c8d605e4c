"""What the tests of synthesis share: the benchmark's training split, one writer, one gatekeeper."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import random
from collections.abc import Callable, Iterator, Mapping

from one_outcome import synthesize
from rods.envs.bfcl.tasks import load_tasks
from rods.envs.bfcl.world import BfclEnvironment
from rods.split import Split, split
from rods.synthesis.gates.case import Gate
from rods.synthesis.gates.keeper import Gatekeeper
from rods.synthesis.rejection import Rejection
from rods.synthesis.writer import Writer
from rods.task import Task, Turn
from rods.types import ToolCall
from rods.writers.assembly import keeper_of
from rods.writers.graph.writer import GraphWriter
from rods.writers.resample.writer import ResampleWriter

ENVIRONMENT = BfclEnvironment()


@functools.cache
def sides() -> Split:
    return split(load_tasks())


@functools.cache
def writer() -> ResampleWriter:
    return ResampleWriter(sides().train, ENVIRONMENT)


@functools.cache
def graph_writer() -> GraphWriter:
    return GraphWriter(sides().train, ENVIRONMENT)


@functools.cache
def keeper() -> Gatekeeper:
    return keeper_of(ENVIRONMENT, sides().train, sides().held_out)


def named(origin: str) -> Task:
    return next(t for t in load_tasks() if t.provenance.origin == origin)


def accepted(count: int = 30) -> tuple[tuple[Task, Task], ...]:
    """(seed, variant) pairs of the resample writer, over all categories.

    More of them begin with those of a smaller count, which are not made again.
    """
    made, following = _resampled()
    made += itertools.islice(following, max(0, count - len(made)))
    return tuple(made[:count])


def walked(step: int = 14) -> tuple[tuple[Task, Task], ...]:
    """(seed, variant) pairs of the graph writer, where one of each `step` seeds has a variant."""
    seeds = range(0, len(sides().train), step)
    made = [(sides().train[number], _walked(number)) for number in seeds]
    return tuple((seed, variant) for seed, variant in made if variant is not None)


@functools.cache
def _resampled() -> tuple[list[tuple[Task, Task]], Iterator[tuple[Task, Task]]]:
    """Pairs that were made, and the following ones."""

    def following() -> Iterator[tuple[Task, Task]]:
        rng = random.Random(11)
        for number in itertools.count():
            seed = rng.choice(sides().train)
            outcome = synthesize(seed, writer(), keeper(), number, 3)
            if outcome.variant is not None:
                yield seed, outcome.variant

    return [], following()


@functools.cache
def _walked(number: int) -> Task | None:
    return synthesize(sides().train[number], graph_writer(), keeper(), 5, 3).variant


def renamed() -> list[tuple[Task, Task]]:
    """Pairs whose variant has the seed's turns."""
    return [(s, v) for s, v in accepted() if v.provenance.recipe == "resample:rename"]


def with_turn(task: Task, index: int, turn: Turn) -> Task:
    turns = (*task.turns[:index], turn, *task.turns[index + 1 :])
    return dataclasses.replace(task, turns=turns)


def with_calls(task: Task, index: int, calls: tuple[ToolCall, ...]) -> Task:
    return with_turn(task, index, dataclasses.replace(task.turns[index], ground_truth=calls))


def verdict(seed: Task, variant: Task) -> str:
    """Name of the gate that rejects, empty if none does; its writer's promise is asked, too."""
    found: Rejection | None = keeper().check(seed, variant, (), promised(variant)).rejection
    return str(found.reason) if found else ""


def promised(variant: Task) -> Mapping[str, Gate]:
    """The gates that the writer of a variant brings."""
    makers: Mapping[str, Callable[[], Writer]] = {"resample": writer, "graph": graph_writer}
    maker = makers.get(variant.provenance.recipe.partition(":")[0])
    return {} if maker is None else maker().gates(variant)
