"""Questions over the generated world: chains of one, two or three facts.

Owns how a chain becomes a question, which questions there are, and the two splits. Every fact has
one value, so every chain has one answer. A seed from `HELD_OUT` on asks about held-out provinces,
whose people and places no training question names.

    question = make_question(hops=2, seed=3)
    question.text       # "Which river flows through the birthplace of Ana Velm?"
    question.programs   # queries that find the facts in order
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from rods.envs.questions.families import HELD_OUT, Question, require_same
from rods.envs.search import atlas
from rods.errors import ConfigError, TaskError
from rods.task import Provenance, Task, Turn
from rods.types import Json

FAMILY = "hops"
MOST_HOPS = 3
HELD_OUT_PROVINCES = 16  # Of the bundled world's 64; drawn once, the same in every run


class Hop(NamedTuple):
    """One fact of a chain."""

    subject: str
    relation: str
    value: str


@dataclass(frozen=True)
class HopQuestion(Question):
    """A question; its `programs` are the queries that find the facts in order."""

    steps: tuple[Hop, ...] = ()
    province: int = 0

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other ways to say the answer: with its unit, or without the word Lake."""
        relation = atlas.BY_NAME[self.steps[-1].relation]
        if relation.unit:
            return (f"{self.answer} {relation.unit}",)
        return (self.answer.removeprefix("Lake "),) if relation.to == atlas.LAKE else ()


def make_question(hops: int, seed: int) -> HopQuestion:
    """The question of a seed. Two seeds of one side differ until all its chains are used.

    Raises:
        ConfigError: `hops` is not 1, 2 or 3, or `seed` is negative.
    """
    if not 1 <= hops <= MOST_HOPS or seed < 0:
        raise ConfigError(
            f"search: no question has {hops} hops and seed {seed}; expected 1 to {MOST_HOPS} hops "
            "(env.questions.difficulty) and a seed of 0 or more."
        )
    side = provinces(held_out=seed >= HELD_OUT)
    turn, place = divmod(seed % HELD_OUT, len(side))
    chains = _chains(side[place], hops)
    return chain_question(chains[turn % len(chains)], side[place])


def question_task(hops: int, seed: int) -> Task:
    """The question of a seed as a task; its scenario is its province, the unit of every split."""
    question = make_question(hops, seed)
    world: dict[str, Json] = {
        "answer": question.answer,
        "family": FAMILY,
        "difficulty": hops,
        "seed": seed,
    }
    if question.aliases:
        world["aliases"] = list(question.aliases)
    origin = Provenance(f"{FAMILY}-{hops}-{seed}", f"{FAMILY}-province-{question.province}")
    return Task("search", f"{FAMILY}-{hops}", (Turn(question.text),), world, origin)


def question_of(task: Task) -> HopQuestion:
    """A generated question, made again; raises `TaskError` where it is not what the task has."""
    hops, seed = task.world.get("difficulty"), task.world.get("seed")
    ours = task.world.get("family") == FAMILY
    if not (ours and isinstance(hops, int) and isinstance(seed, int)):
        raise TaskError(
            f"task {task.id}: not a generated search question; its world must have family "
            f"{FAMILY!r}, difficulty and seed."
        )
    question = make_question(hops, seed)
    require_same(task, question, f"{FAMILY}-{hops}-{seed}")
    return question


def search_tasks(hops: Sequence[int], count: int, held_out: bool = False) -> list[Task]:
    """Generated tasks of one side, the same in every run; difficulties (`hops`) take turns.

    Raises:
        ConfigError: so many are not there, or a difficulty is none.
    """
    if not hops:
        raise ConfigError(
            f"search: env.questions.difficulty is empty, expected some of 1 to {MOST_HOPS}."
        )
    hops = list(dict.fromkeys(hops))
    first = HELD_OUT if held_out else 0
    tasks = [
        question_task(hops[number % len(hops)], first + number // len(hops))
        for number in range(count)
    ]
    if len({task.turns[0].user for task in tasks}) < count:
        raise ConfigError(
            f"search: the bundled world has no {count} different questions of hops {hops} on the "
            f"{'held-out' if held_out else 'training'} split. Lower env.questions.count."
        )
    return tasks


@lru_cache(maxsize=2)
def provinces(held_out: bool) -> tuple[int, ...]:
    """Numbers of the provinces of one side."""
    drawn = random.Random(f"rods-hops-held-out-{atlas.SEED}").sample(
        range(atlas.PROVINCES), HELD_OUT_PROVINCES
    )
    return tuple(n for n in range(atlas.PROVINCES) if (n in drawn) is held_out)


@lru_cache(maxsize=MOST_HOPS * atlas.PROVINCES)
def _chains(number: int, hops: int) -> tuple[tuple[Hop, ...], ...]:
    """All chains of a province in an order of their own."""
    found = chains_of(atlas.make_atlas().provinces[number], hops)
    random.Random(f"rods-hops-{number}-{hops}").shuffle(found)
    return tuple(found)


def chains_of(province: atlas.Province, hops: int) -> list[tuple[Hop, ...]]:
    """All chains of so many facts in a province, of whatever world."""
    return [c for entity in province.kinds for c in _from(province, entity, hops, (entity,))]


def _from(
    province: atlas.Province, entity: str, hops: int, passed: tuple[str, ...]
) -> Iterator[tuple[Hop, ...]]:
    """Chains that start at an entity and never come back to one."""
    for relation in atlas.BY_KIND[province.kinds[entity]]:
        value = province.facts[entity, relation.name]
        step = Hop(entity, relation.name, value)
        if hops == 1:
            if value not in passed:
                yield (step,)
        elif relation.to != atlas.NUMBER and value not in passed:
            for rest in _from(province, value, hops - 1, (*passed, value)):
                yield (step, *rest)


def chain_question(steps: tuple[Hop, ...], province: int) -> HopQuestion:
    """Question of a chain."""
    subject = steps[0].subject
    for step in steps[:-1]:
        subject = atlas.BY_NAME[step.relation].noun.format(x=subject)
    text = atlas.BY_NAME[steps[-1].relation].ask.format(x=subject)
    queries = tuple(f"{s.subject} {atlas.BY_NAME[s.relation].query}" for s in steps)
    return HopQuestion(text[0].upper() + text[1:], steps[-1].value, queries, steps, province)
