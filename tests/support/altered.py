"""Accepted variants altered without a trace: what runs, replays and says known values alone.

Each alteration takes a `Subject` and a source of chance and gives a broken task, or None where it
does not apply. All of them pass what looks at single values; none of them knows any gate.

    ALTERED["flipped boolean"](subject, random.Random(3))   # Task | None
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from mutants import Break, Subject, fails_anew, replaced
from rods.synthesis.structure.domains import domains_of
from rods.synthesis.structure.trace import Path, Scalar, leaves
from rods.task import Task
from rods.types import ToolCall
from rods.writers.resample.rebind import put_leaf
from synthesis_cases import ENVIRONMENT, with_calls, with_turn

ALTERED: dict[str, Break] = {}
DRAWS = 8
"""Alterations that are tried until one of a variant runs."""


def alteration(name: str) -> Callable[[Break], Break]:
    def register(function: Break) -> Break:
        ALTERED[name] = function
        return function

    return register


class Spot(NamedTuple):
    """One scalar argument of a ground truth."""

    turn: int
    place: int
    call: ToolCall
    name: str
    path: Path
    value: Scalar


def spots(task: Task) -> list[Spot]:
    return [
        Spot(index, place, call, name, leaf.path, leaf.value)
        for index, turn in enumerate(task.turns)
        for place, call in enumerate(turn.ground_truth)
        for name, value in call.arguments.items()
        for leaf in leaves(value)
    ]


def put(task: Task, spot: Spot, value: Scalar) -> Task:
    calls = list(task.turns[spot.turn].ground_truth)
    old = calls[spot.place]
    fresh = put_leaf(old.arguments[spot.name], spot.path, value)
    calls[spot.place] = ToolCall(old.name, {**old.arguments, spot.name: fresh})
    return with_calls(task, spot.turn, tuple(calls))


def matters(subject: Subject, broken: Task) -> bool:
    """Whether its calls do not solve the task: the way from here to there is the way back."""
    world = ENVIRONMENT.open(subject.task)
    try:
        for index, turn in enumerate(broken.turns):
            world.begin_turn(index)
            for call in turn.ground_truth:
                world.call(call)
            if not world.end_turn().solved:
                return True
    finally:
        world.close()
    return False


def first_that_runs(
    subject: Subject, rng: random.Random, options: Sequence[Callable[[], Task]]
) -> Task | None:
    for make in rng.sample(list(options), min(DRAWS, len(options))):
        broken = make()
        if (
            broken.turns != subject.task.turns
            and not fails_anew(subject, broken)
            and matters(subject, broken)
        ):
            return broken
    return None


@alteration("flipped boolean")
def flipped(subject: Subject, rng: random.Random) -> Task | None:
    found = [s for s in spots(subject.task) if isinstance(s.value, bool)]
    return first_that_runs(
        subject, rng, [lambda s=s: put(subject.task, s, not s.value) for s in found]
    )


def _alike(a: Scalar, b: Scalar) -> bool:
    """Whether one value could stand in the other's place: both texts, or both numbers."""
    if isinstance(a, bool) or isinstance(b, bool) or a == b:
        return False
    texts = isinstance(a, str), isinstance(b, str)
    return texts[0] == texts[1] and a is not None and b is not None


@alteration("exchanged arguments")
def exchanged(subject: Subject, rng: random.Random) -> Task | None:
    """Two arguments of one call change places, or the same argument of two calls."""
    found = spots(subject.task)
    pairs = [
        (a, b)
        for number, a in enumerate(found)
        for b in found[number + 1 :]
        if _alike(a.value, b.value)
        and (
            ((a.turn, a.place) == (b.turn, b.place) and a.name != b.name)
            or (
                ((a.turn, a.place) != (b.turn, b.place))
                and (a.call.name, a.name) == (b.call.name, b.name)
            )
        )
    ]
    return first_that_runs(
        subject,
        rng,
        [lambda a=a, b=b: put(put(subject.task, a, b.value), b, a.value) for a, b in pairs],
    )


@alteration("another existing value")
def another(subject: Subject, rng: random.Random) -> Task | None:
    """An argument takes a value that another call takes or a result shows."""
    found = spots(subject.task)
    others = [s.value for s in found]
    others += [leaf.value for step in subject.facts.steps for leaf in step.leaves]
    options: list[Callable[[], Task]] = []
    for spot in found:
        fit = [v for v in others if _alike(v, spot.value) and len(str(v)) < 60]
        for value in rng.sample(fit, min(3, len(fit))):
            kept = value if isinstance(value, str) else type(spot.value)(value)  # type: ignore[arg-type, call-arg, misc]
            options.append(lambda s=spot, v=kept: put(subject.task, s, v))
    return first_that_runs(subject, rng, options)


def by_name(value: Scalar) -> list[str]:
    """How people call a value that stands for something with a name: a company, a city."""
    tables = domains_of(ENVIRONMENT).tables.values()
    return [t.owners[kind][value] for t in tables for kind in t.codes if value in t.owners[kind]]


@alteration("told early")
def told_early(subject: Subject, rng: random.Random) -> Task | None:
    """What a gap leaves open is told in it or before it, by its value or by its name."""
    task = subject.task
    gaps = [
        i
        for i, turn in enumerate(task.turns[:-1])
        if not turn.ground_truth and not turn.withheld and task.turns[i + 1].ground_truth
    ]
    if not gaps:
        return None
    gap = rng.choice(gaps)
    heard = "\n".join(turn.user.lower() for turn in task.turns[: gap + 1])
    answer = task.turns[gap + 1].user.lower()
    missing = [
        (s, form)
        for s in spots(task)
        if s.turn == gap + 1 and isinstance(s.value, str | int | float)
        for form in [said_as(s.value), *by_name(s.value)]
        if form.lower() in answer and form.lower() not in heard
    ]
    if not missing:
        return None
    spot, form = rng.choice(missing)
    form = rng.choice([form, *by_name(spot.value)])
    noun = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", spot.name).lower()
    told = rng.choice(
        ("{0} I mean {1}.", "{0} The {2} is {1}.", "It is about {1}. {0}", "{0} ({1}, that is.)")
    )
    where = gap if rng.random() < 0.7 else rng.randrange(gap + 1)
    turn = task.turns[where]
    if not turn.user.strip():
        return None
    user = told.format(turn.user, form, noun)
    return with_turn(task, where, dataclasses.replace(turn, user=user))


def said_as(value: Scalar) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def asked(task: Task) -> Iterator[tuple[int, list[Spot]]]:
    """Each message with the arguments that it asks for."""
    found = spots(task)
    for index, turn in enumerate(task.turns):
        gap = not turn.ground_truth and index + 1 < len(task.turns)
        if turn.user.strip():
            yield index, [s for s in found if s.turn == index + gap]


def says(text: str, value: Scalar) -> bool:
    long = isinstance(value, str) and len(value) > 2
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return (long or number) and replaced(text, value, "\x00") != text


@alteration("exchanged in the message")
def exchanged_in_message(subject: Subject, rng: random.Random) -> Task | None:
    """Two values of different arguments change places in what the user says."""
    options: list[tuple[int, Scalar, Scalar]] = []
    for index, mine in asked(subject.task):
        text = subject.task.turns[index].user
        said = [s for s in mine if says(text, s.value)]
        options += [
            (index, a.value, b.value)
            for number, a in enumerate(said)
            for b in said[number + 1 :]
            if _alike(a.value, b.value)
            and (a.name != b.name or a.place != b.place)
            and said_as(a.value).lower() not in said_as(b.value).lower()
            and said_as(b.value).lower() not in said_as(a.value).lower()
        ]
    if not options:
        return None
    index, a, b = rng.choice(options)
    turn = subject.task.turns[index]
    user = replaced(replaced(turn.user, a, "\x00"), b, said_as(a)).replace("\x00", said_as(b))
    return with_turn(subject.task, index, dataclasses.replace(turn, user=user))


NEGATIONS = (
    "Please do not do the following: {}",
    "Don't do this: {}",
    "I do not want you to do this: {}",
    "Under no circumstances should you do what follows. {}",
    "{} But please do not actually do that.",
    "Whatever you do, never do this: {}",
    "{} Or rather, do nothing of the kind.",
)


@alteration("negated request")
def negated(subject: Subject, rng: random.Random) -> Task | None:
    index = rng.choice([i for i, mine in asked(subject.task) if mine] or [0])
    turn = subject.task.turns[index]
    text = turn.user
    inline = [
        (r"^Please ", "Please don't "),
        (r"^Could you ", "Could you not "),
        (r"^(Can|Would) you ", r"\1 you please not "),
        (r"\bI'd like you to ", "I'd like you not to "),
        (r"\bI need you to ", "I need you not to "),
        (r"\bplease ", "please do not "),
    ]
    fit = [(old, new) for old, new in inline if re.search(old, text)]
    if fit and rng.random() < 0.4:
        old, new = rng.choice(fit)
        user = re.sub(old, new, text, count=1)
    else:
        user = rng.choice(NEGATIONS).format(text)
    return with_turn(subject.task, index, dataclasses.replace(turn, user=user))


REMARKS = (
    "I read something about {} today.",
    "{}: what a day it has been.",
    "My neighbour talks about {} all the time.",
    "It was {} that I thought of this morning. The weather is fine.",
    "{}. That is all I know.",
)


@alteration("asks for nothing")
def remark(subject: Subject, rng: random.Random) -> Task | None:
    """A message that says the same values and wants nothing."""
    index, mine = rng.choice([(i, mine) for i, mine in asked(subject.task) if mine])
    turn = subject.task.turns[index]
    said = [said_as(s.value) for s in mine if says(turn.user, s.value)]
    values = ", ".join(dict.fromkeys(f"'{v}'" if " " in v else v for v in said)) or "the usual"
    user = rng.choice(REMARKS).format(values)
    return with_turn(subject.task, index, dataclasses.replace(turn, user=user))


BAD_DATES = ("2026-10-32", "2026-02-30", "2025-13-04", "2024-00-10", "2027-06-31")


@alteration("value of no type")
def mistyped(subject: Subject, rng: random.Random) -> Task | None:
    """A date that no calendar has, a zip code of letters, an enumeration that is not listed."""
    options: list[tuple[Spot, Scalar]] = []
    for spot in spots(subject.task):
        value = spot.value
        if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", value):
            options.append((spot, rng.choice(BAD_DATES)))
        elif isinstance(value, str) and re.fullmatch(r"\d{5}", value):
            options.append((spot, rng.choice((value[:4], value + "0", "x" + value[1:]))))
        spec = subject.facts.specs[spot.call.name].parameters["properties"][spot.name]  # type: ignore[index, call-overload]
        if isinstance(spec, dict) and spec.get("enum") and isinstance(value, str):
            options.append((spot, value[::-1] + "ly"))
    if not options:
        return None
    spot, value = rng.choice(options)
    broken = put(subject.task, spot, value)
    turns = tuple(
        dataclasses.replace(t, user=replaced(t.user, spot.value, value)) for t in broken.turns
    )
    broken = dataclasses.replace(broken, turns=turns)
    return None if fails_anew(subject, broken) else broken


def alter(subject: Subject, name: str, number: int) -> Task | None:
    """An altered copy that is not the variant itself."""
    rng = random.Random(f"{name}:{subject.task.id}:{number}")
    broken = ALTERED[name](subject, rng)
    return broken if broken is not None and broken.turns != subject.task.turns else None
