"""Accepted variants broken on purpose, in ten ways: what gates are tested with.

Each break takes a `Subject` and a source of chance and gives a broken task, or None where it does
not apply. None of them knows any gate.

    BREAKS["dropped call"](subject, random.Random(3))       # Task | None
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

from rods.errors import TaskError
from rods.synthesis.gates.case import Facts
from rods.synthesis.rejection import Rejection
from rods.synthesis.structure.sources import Argument, Source, normal
from rods.synthesis.structure.trace import Scalar, leaves, trace
from rods.task import Task, Turn
from rods.types import ToolCall
from rods.writers.resample.rebind import put_leaf
from rods.writers.resample.writer import ResampleWriter
from synthesis_cases import ENVIRONMENT, sides, with_calls, with_turn


class Subject(NamedTuple):
    """An accepted variant beside its seed."""

    seed: Task
    facts: Facts

    @property
    def task(self) -> Task:
        return self.facts.task

    @property
    def told(self) -> str:
        """What its seed's user says."""
        return "\n".join(turn.user for turn in self.seed.turns)


Break: TypeAlias = Callable[[Subject, random.Random], "Task | None"]
BREAKS: dict[str, Break] = {}

CERTAIN = (
    "dropped call",
    "extra call",
    "unknown function",
    "leaked name",
    "held-out copy",
    "changed configuration",
    "unreachable argument",
    "wrong gap",
)
"""They change execution, provenance or offered tools: every one must be caught."""


def mutation(name: str) -> Callable[[Break], Break]:
    def register(function: Break) -> Break:
        BREAKS[name] = function
        return function

    return register


def pick(rng: random.Random, items: Sequence[Any]) -> Any:
    return rng.choice(items) if items else None


def full(task: Task, least: int = 1) -> list[int]:
    return [i for i, t in enumerate(task.turns) if len(t.ground_truth) >= least]


def other_value(value: Scalar, subject: Subject, rng: random.Random) -> Scalar:
    """Another value of the same kind: half of the time one that stands elsewhere in the task."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return type(value)(value + rng.choice((1, 2, 3, 7, 10, 25)))
    same = [
        a.value
        for a in subject.facts.arguments
        if isinstance(a.value, str)
        and len(a.value) > 3
        and a.value.lower() not in value.lower()
        and value.lower() not in a.value.lower()
        and a.value.isupper() == value.isupper()
    ]
    if same and rng.random() < 0.5:
        return rng.choice(same)
    fresh = "".join(rng.choice("bcdfghjklmnpqrstvwxz") for _ in range(max(4, min(len(value), 9))))
    return fresh.upper() if value.isupper() else fresh


def said(argument: Argument) -> bool:
    value = argument.value
    long = isinstance(value, str) and len(value) > 3
    return argument.source is Source.TURN and (
        long or (not isinstance(value, bool | str) and bool(value))
    )


def replaced(text: str, old: Scalar, new: Scalar) -> str:
    needle = str(old)
    if isinstance(old, float) and old.is_integer() and needle not in text:
        needle, new = str(int(old)), str(new).removesuffix(".0")
    return re.sub(rf"(?<!\w){re.escape(needle)}(?!\w)", lambda _: str(new), text)


@mutation("wrong value in a message")
def wrong_value(subject: Subject, rng: random.Random) -> Task | None:
    argument = pick(rng, [a for a in subject.facts.arguments if said(a)])
    if argument is None:
        return None
    new = other_value(argument.value, subject, rng)
    turn = subject.task.turns[argument.turn]
    user = replaced(turn.user, argument.value, new)
    if user == turn.user:
        return None
    return with_turn(subject.task, argument.turn, dataclasses.replace(turn, user=user))


@mutation("dropped call")
def dropped_call(subject: Subject, rng: random.Random) -> Task | None:
    index = pick(rng, full(subject.task, 2))
    if index is None:
        return None
    calls = list(subject.task.turns[index].ground_truth)
    del calls[rng.randrange(len(calls))]
    return with_calls(subject.task, index, tuple(calls))


@mutation("extra call")
def extra_call(subject: Subject, rng: random.Random) -> Task | None:
    """The same again, a call of another turn, or a call that needs no argument."""
    task = subject.task
    index = pick(rng, full(task))
    mine = task.turns[index].ground_truth
    others = [c for i in full(task) if i != index for c in task.turns[i].ground_truth]
    free = [
        ToolCall(name)
        for name, spec in subject.facts.specs.items()
        if not spec.parameters.get("required") and name not in task.turns[index].withheld
    ]
    new = pick(rng, rng.choice([list(mine), others or list(mine), free or list(mine)]))
    if new.name in task.turns[index].withheld:
        return None
    at = rng.randrange(len(mine) + 1)
    return with_calls(task, index, (*mine[:at], new, *mine[at:]))


@mutation("unknown function")
def unknown_function(subject: Subject, rng: random.Random) -> Task | None:
    index = pick(rng, full(subject.task))
    calls = list(subject.task.turns[index].ground_truth)
    at = rng.randrange(len(calls))
    calls[at] = dataclasses.replace(calls[at], name=f"{calls[at].name}_{rng.choice(('all', 'v2'))}")
    return with_calls(subject.task, index, tuple(calls))


@mutation("leaked name")
def leaked_name(subject: Subject, rng: random.Random) -> Task | None:
    spec = rng.choice([s for _, s in sorted(subject.facts.specs.items())])
    names = [spec.name, *cast("Mapping[str, Any]", spec.parameters.get("properties", {}))]
    names = [n for n in names if "_" in n.strip("_") or re.search("[a-z][A-Z]", n)]
    index = pick(rng, [i for i, t in enumerate(subject.task.turns) if t.user.strip()])
    turn = subject.task.turns[index]
    names = [n for n in names if n not in turn.user and n not in subject.told]
    if not names:
        return None
    name = rng.choice(names)
    form = rng.choice(("{} Use {}.", "{} ({})", "{} The {} matters."))
    user = form.format(turn.user, name)
    return with_turn(subject.task, index, dataclasses.replace(turn, user=user))


@functools.cache
def _thief() -> ResampleWriter:
    return ResampleWriter(sides().held_out, ENVIRONMENT, recombine_share=0, cut_share=0)


@mutation("held-out copy")
def held_out_copy(subject: Subject, rng: random.Random) -> Task | None:
    """A held-out task, plain or with new entities, that says it comes from the seed."""
    same = [t for t in sides().held_out if t.category == subject.task.category]
    victim = rng.choice(same)
    if rng.random() < 0.7:
        renamed = _thief().propose(victim, rng)
        victim = victim if isinstance(renamed, Rejection) else renamed
    return dataclasses.replace(victim, provenance=subject.task.provenance)


@mutation("changed configuration")
def changed_configuration(subject: Subject, rng: random.Random) -> Task | None:
    """A configured thing that the calls name is gone or has another name; execution must differ."""
    task = subject.task
    used = {normal(leaf.value) for call in subject.facts.calls for leaf in leaves(call)}
    config = copy.deepcopy(cast("dict[str, Any]", task.world.get("initial_config", {})))
    places = list(_places(config, used))
    rng.shuffle(places)
    for holder, key in places[:4]:
        changed = copy.deepcopy(config)
        node = _at(changed, holder)
        old = node[key]
        if isinstance(old, int | float) and not isinstance(old, bool):
            node[key] = type(old)(0)
        else:
            del node[key]
            if isinstance(node, dict) and rng.random() < 0.5:
                node[f"{key}x"] = old
        broken = dataclasses.replace(task, world={**task.world, "initial_config": changed})
        if fails_anew(subject, broken):
            return broken
    return None


def fails_anew(subject: Subject, broken: Task) -> bool:
    """Whether some call fails that did not fail before, or the world cannot be made."""
    try:
        steps = trace(ENVIRONMENT, broken).steps
    except TaskError:
        return True
    pairs = zip(steps, subject.facts.steps, strict=True)
    return any(new.result.failed and not old.result.failed for new, old in pairs)


def _places(
    node: Any, used: set[str], at: tuple[Any, ...] = ()
) -> list[tuple[tuple[Any, ...], Any]]:
    found: list[tuple[tuple[Any, ...], Any]] = []
    items = list(node.items()) if isinstance(node, dict) else list(enumerate(node))
    for key, value in items:
        named = isinstance(key, str) and len(at) > 0 and normal(key) in used
        if named or (not isinstance(value, dict | list) and normal(value) in used):
            found.append((at, key))
        if isinstance(value, dict | list):
            found += _places(value, used, (*at, key))
    return found


def _at(node: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        node = node[key]
    return node


@mutation("contradictory turn")
def contradictory_turn(subject: Subject, rng: random.Random) -> Task | None:
    """Two messages change places, or one takes back what it says."""
    task = subject.task
    places = [i for i in full(task) if task.turns[i].user.strip()]
    pairs = [
        (i, j)
        for i in places
        for j in places
        if i < j and _names(task.turns[i]) != _names(task.turns[j])
    ]
    if pairs and rng.random() < 0.6:
        i, j = rng.choice(pairs)
        first = dataclasses.replace(task.turns[i], user=task.turns[j].user)
        second = dataclasses.replace(task.turns[j], user=task.turns[i].user)
        return with_turn(with_turn(task, i, first), j, second)
    index = pick(rng, places)
    if index is None:
        return None
    taken_back = rng.choice(
        ("On second thought, do none of that.", "But please change nothing at all.", "Forget it.")
    )
    turn = task.turns[index]
    return with_turn(task, index, dataclasses.replace(turn, user=f"{turn.user} {taken_back}"))


def _names(turn: Turn) -> list[str]:
    return [call.name for call in turn.ground_truth]


@mutation("unreachable argument")
def unreachable_argument(subject: Subject, rng: random.Random) -> Task | None:
    """A call takes a value that nobody says and nothing shows."""
    text = json.dumps(subject.task.to_json(), ensure_ascii=False).lower()
    text += "".join(step.result.content.lower() for step in subject.facts.steps)
    free = [a for a in subject.facts.arguments if said(a)]
    argument = pick(rng, free)
    if argument is None:
        return None
    value = argument.value
    new: Scalar
    if isinstance(value, str):
        new = "".join(rng.choice("bcdfghjklmnpqrstvwxz") for _ in range(8))
    else:
        new = type(value)(
            cast("float", value)
            + rng.choice((0.37, 3.41, 11.53)) * (1 if isinstance(value, float) else 100)
        )
    if str(new) in text or new == value:
        return None
    first = next(i for i, s in enumerate(subject.facts.steps) if s.turn == argument.turn)
    calls = list(subject.task.turns[argument.turn].ground_truth)
    at = argument.step - first
    old = calls[at].arguments[argument.name]
    fresh = put_leaf(old, argument.path, new)
    calls[at] = ToolCall(calls[at].name, {**calls[at].arguments, argument.name: fresh})
    return with_calls(subject.task, argument.turn, tuple(calls))


@mutation("wrong gap")
def wrong_gap(subject: Subject, rng: random.Random) -> Task | None:
    """The missing value is told too early or never, or another function is withheld."""
    task = subject.task
    acted = [bool(t.ground_truth) for t in task.turns]
    gaps = [i for i in range(len(acted) - 1) if acted[i + 1] and not acted[i]]
    gap = pick(rng, gaps)
    if gap is None:
        return None
    before, after = task.turns[gap], task.turns[gap + 1]
    if before.withheld:
        return _other_withheld(subject, gap, rng)
    if not any(said(a) for a in subject.facts.arguments if a.turn == gap + 1):
        return None
    if rng.random() < 0.5:
        early = dataclasses.replace(before, user=f"{before.user} {after.user}")
        return with_turn(task, gap, early)
    never = dataclasses.replace(after, user="Go ahead with the one that I mean.")
    return with_turn(task, gap + 1, never)


def _other_withheld(subject: Subject, gap: int, rng: random.Random) -> Task | None:
    """A function that nobody calls is withheld instead, or it is given back without a gap."""
    task = subject.task
    called = {call.name for call in subject.facts.calls}
    idle = sorted(subject.facts.specs.keys() - called)
    if not idle:
        return None
    names = (rng.choice(idle),)
    turns = tuple(dataclasses.replace(t, withheld=names if t.withheld else ()) for t in task.turns)
    return dataclasses.replace(task, turns=turns)


def break_it(subject: Subject, name: str, number: int) -> Task | None:
    """A broken copy that is not the variant itself, from at most five draws."""
    rng = random.Random(f"{name}:{subject.task.id}:{number}")
    for _ in range(5):
        broken = BREAKS[name](subject, rng)
        if broken is not None and broken != subject.task:
            return broken
    return None
