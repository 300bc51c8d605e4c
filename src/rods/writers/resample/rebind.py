"""What holds a task's values together, and arguments that follow it when a draft is executed.

An argument that the seed took from a result is taken from the same place of the draft's result.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, cast

from rods.env import Environment, World, called
from rods.errors import TaskError
from rods.synthesis.base import Base, Link, Links, Place
from rods.synthesis.rejection import ErrorClass, Rejection
from rods.synthesis.structure import sources
from rods.synthesis.structure.domains import CodePairs, Domains, Fill, NumberKind
from rods.synthesis.structure.trace import Leaf, Path, Scalar, TraceStep, leaves, read_result
from rods.task import Task, Turn
from rods.types import Json, ToolCall, Value
from rods.writers.resample.sketch import format_number

_COMPOSED = re.compile(r"\S+[-:/]\S+")
_SENTENCE_END = re.compile(r"[.?!](?!\d)")
_RELATED = re.compile(
    r"\b(?:half|twice|double|triple|completely|entirely|fully|in full|whole|entire|rest|remain\w+"
    r"|(?:rais|increas|lower|reduc|decreas)\w*\b.* to \D*\d)",
    re.I,
)
"""A number beside this is right for what the world holds: `raise the price to 36 euros`."""
_ALPHABET = re.compile(r"alphabet\w*.{0,30}\b(?:first|last)|(?:first|last)\b.{0,30}alphabet")


class Filled(NamedTuple):
    """An argument that was computed as a wanted level less the present one."""

    argument: str
    target: float
    level: float


Together: TypeAlias = Mapping[str, Set[tuple[str, str]]]
"""Kind of a code to the pairs of codes that a task's ground truth calls with."""


@dataclass(frozen=True)
class Knowledge:
    """What the writer must know of a task to change it safely."""

    steps: tuple[TraceStep, ...]
    links: Links
    fills: Mapping[int, Filled]
    extra: Mapping[float, str]
    pinned: Set[str]  # Codes and names that come from constants of the API
    frozen: Set[float]  # Numbers that something is computed from
    keep_counters: bool
    keep_names: bool  # The alphabetical order of names matters
    pairs: Together
    landmarks: tuple[float, ...]
    """Numbers of the texts that stay and that readings are compared with."""


def analyze(base: Base, domains: Domains) -> Knowledge:
    """Find links, computed numbers and pinned values of a task."""
    steps = base.steps
    frozen: set[float] = set()
    pinned: set[str] = set()
    fills: dict[int, Filled] = {}
    extra: dict[float, str] = {}
    loose_ids = False
    for argument in base.arguments:
        value, call = argument.value, steps[argument.step].call
        kind = domains.parameter(call.name, argument.name)
        computed = argument.source is sources.Source.DERIVED or argument.inside
        links = base.links.get(argument.step, {}).get((argument.name, argument.path), ())
        if any(steps[link.step].call.name in domains.constant for link in links):
            pinned.add(str(value))
        loose = kind == "id" and argument.source is not sources.Source.RESULT
        loose_ids = loose_ids or (loose and isinstance(value, int) and value < 10)
        if not isinstance(value, int | float) or isinstance(value, bool):
            continue
        if kind not in domains.numbers or (loose and not argument.configured):
            frozen.add(float(value))
        if computed or argument.source is sources.Source.CONFIGURATION:
            fill = next((f for f in domains.fills if f.parameter == argument.name), None)
            filled = _filled(base, argument, fill) if fill is not None else None
            if fill is not None and filled is not None:
                fills[argument.step] = filled
                extra[filled.target] = kind
                frozen |= {fill.full} if filled.target == fill.full else set()
            elif computed:
                configured = (sources.numbers_of(leaf.value) for leaf in leaves(dict(base.start)))
                frozen |= _text_numbers(base, argument.turn).union({float(value)}, *configured)
    prose = "\n".join(turn.user for turn in base.task.turns)
    digits = sources.in_digits(prose, base.number_words)
    frozen |= _said_elsewhere(base, prose) if domains.inferred else set()
    return Knowledge(
        steps,
        base.links,
        fills,
        extra,
        pinned,
        frozen,
        keep_counters=loose_ids,
        keep_names=_ALPHABET.search(prose) is not None,
        pairs={known.code: _called_with(known, steps) for known in domains.pairs},
        landmarks=tuple(n for kind in domains.numbers.values() for n in _landmarks(kind, digits)),
    )


def _said_elsewhere(base: Base, prose: str) -> set[float]:
    """Numbers that a phrase or a text says too, a result shows first, or the world's decides."""
    found = {
        float(sources.amount(word))
        for word in sources.NUMBER_WORD.findall(sources.AMOUNT_WORD.sub("", prose))
    }
    related = filter(_RELATED.search, _SENTENCE_END.split(prose))
    found = found.union(*map(_amounts, related))
    taken: set[float] = set()
    for step in base.steps:
        taken |= sources.numbers_taken([step.call])
        shown = set[float]().union(*(_amounts(leaf.value) for leaf in step.leaves))
        found = found.union(shown - taken, *map(_amounts, sources.texts_taken([step.call])))
    return found


def _amounts(value: Scalar) -> set[float]:
    """The numbers of a value, without those of a day, a time or a code."""
    return sources.numbers_of(
        sources.in_digits(_COMPOSED.sub(" ", value)) if isinstance(value, str) else value
    )


def _filled(base: Base, argument: sources.Argument, fill: Fill) -> Filled | None:
    """`amount = target - level`: the target is the full level or stands in the text."""
    config = base.start.get(fill.owner)
    level = config.get(fill.field) if isinstance(config, dict) else None
    if not isinstance(level, int | float) or isinstance(level, bool):
        return None
    target = float(argument.value or 0) + level
    wanted = target == fill.full or target in _text_numbers(base, argument.turn)
    return Filled(argument.name, target, float(level)) if wanted else None


def _text_numbers(base: Base, turn: int) -> set[float]:
    texts = (t.user for t in base.task.turns[: turn + 1])
    return sources.numbers_in(sources.in_digits("\n".join(texts), base.number_words))


def _called_with(known: CodePairs, steps: Iterable[TraceStep]) -> Set[tuple[str, str]]:
    """Pairs of codes that calls take together."""
    given = (step.call.arguments for step in steps if not step.result.failed)
    one, two = known.parameters
    return {(str(a[one]), str(a[two])) for a in given if known.given(a)}


def _landmarks(kind: NumberKind, prose: str) -> list[float]:
    """What readings are compared with: by the tools, and by people."""
    low, high = kind.compared or (1, 0)
    return [*kind.landmarks, *sorted(n for n in sources.numbers_in(prose) if low <= n <= high)]


def rebind(
    environment: Environment, draft: Task, knowledge: Knowledge, numbers: Mapping[float, float]
) -> Task | Rejection:
    """Execute a draft, arguments following the new results; rejected where a call newly fails."""
    # All tools in one turn: which are offered when is the gates' business, not the writer's.
    stage = dataclasses.replace(draft, turns=(Turn(""),))
    try:
        world = environment.open(stage)
    except TaskError as error:
        return Rejection("execute", ErrorClass.VM_EXEC_FAILED, str(error))
    with closing(world):
        world.begin_turn(0)
        made = _Rebound(world, draft, knowledge, numbers).task()
    return dataclasses.replace(made, turns=draft.turns) if isinstance(made, Rejection) else made


class _Rebound:
    def __init__(
        self, world: World, draft: Task, knowledge: Knowledge, numbers: Mapping[float, float]
    ):
        self._world = world
        self._numbers = numbers
        self._draft = draft
        self._knowledge = knowledge
        self._results: list[Json] = []
        self._texts = [turn.user for turn in draft.turns]

    def task(self) -> Task | Rejection:
        done: list[tuple[ToolCall, ...]] = []
        for index, turn in enumerate(self._draft.turns):
            calls: list[ToolCall] = []
            for call in turn.ground_truth:
                call = self._bound(len(self._results), index, call)
                result = called(self._world, call)
                before = self._knowledge.steps[len(self._results)].result
                if result.failed and not before.failed:
                    detail = f"turn {index + 1}: {call}: {result.content[:200]}"
                    return Rejection("execute", ErrorClass.VM_EXEC_FAILED, detail)
                parsed, shown = read_result(result.content)
                if not self._alike(shown):
                    return Rejection("execute", "outcome", f"turn {index + 1}: {call}")
                self._results.append(parsed)
                calls.append(call)
            done.append(tuple(calls))
        turns = tuple(
            Turn(text, calls, turn.withheld)
            for text, calls, turn in zip(self._texts, done, self._draft.turns, strict=True)
        )
        return dataclasses.replace(self._draft, turns=turns)

    def _alike(self, after: Sequence[Leaf]) -> bool:
        """Conditions go the same way, and as much is found."""
        before = self._knowledge.steps[len(self._results)].leaves
        return len(before) == len(after) and all(
            old.value == new.value
            for old, new in zip(before, after, strict=True)
            if isinstance(old.value, bool) or isinstance(new.value, bool)
        )

    def _bound(self, step: int, turn: int, call: ToolCall) -> ToolCall:
        places = self._knowledge.links.get(step)
        fill = self._knowledge.fills.get(step)
        if not places and fill is None:
            return call
        arguments: dict[str, Value] = dict(call.arguments)
        if fill is not None:
            level = self._numbers.get(fill.level, fill.level)
            target = self._numbers.get(fill.target, fill.target)
            missing = round(target - level, 4)
            old = arguments[fill.argument]
            exact = isinstance(old, int) and missing.is_integer()
            arguments[fill.argument] = int(missing) if exact else missing
        for place, links in (places or {}).items():
            arguments[place[0]] = self._follow(turn, arguments[place[0]], place, links)
        return ToolCall(call.name, arguments)

    def _follow(self, turn: int, value: Value, place: Place, links: Sequence[Link]) -> Value:
        current = next((leaf.value for leaf in leaves(value) if leaf.path == place[1]), None)
        if links[0].token:
            new: Scalar = self._tokens(str(current), links)
        else:
            new = self._whole(current, place, links)
            if sources.normal(new) != sources.normal(current):
                self._say(turn, str(current), str(new))
        return put_leaf(value, place[1], new)

    def _whole(self, current: Scalar, place: Place, links: Sequence[Link]) -> Scalar:
        shown: list[tuple[Link, Scalar]] = []
        for link in links:
            leaf = find_leaf(self._results[link.step], link.path)
            if leaf is not None and link.decimals is not None and isinstance(leaf, int | float):
                leaf = round(leaf, link.decimals)
            if leaf is not None:
                shown.append((link, leaf))
        if not shown or any(sources.normal(leaf) == sources.normal(current) for _, leaf in shown):
            return current
        named = [leaf for link, leaf in shown if link.path[-1:] == (place[0],)]
        new = (named or [leaf for _, leaf in shown])[-1]
        if isinstance(new, float) and isinstance(current, str) and current.isdigit():
            new = round(new)  # "6500" was written of 6500.0: the answer alone, to the integer
        return typed_like(new, current)

    def _tokens(self, current: str, links: Sequence[Link]) -> str:
        """Exchange the n-th standing number for what the linked results show now."""
        fresh: dict[str, str] = {}
        for link in links:
            before = find_leaf(self._knowledge.steps[link.step].parsed, link.path)
            after = find_leaf(self._results[link.step], link.path)
            old, new = sources.numbers_listed(str(before)), sources.numbers_listed(str(after))
            if float(link.token) in old and len(old) == len(new):
                fresh[link.token] = format_number(new[old.index(float(link.token))], link.token)
        known = {number for text in self._texts for number in sources.numbers_in(text)}

        def swap(match: re.Match[str]) -> str:
            token = match.group()
            return token if float(token) in known else fresh.get(token, token)

        return re.sub(r"(?<![\w.])\d+(?:\.\d+)?(?!\w)", swap, current)

    def _say(self, turn: int, old: str, new: str) -> None:
        """A generated id that people repeat is repeated with its new value."""
        if len(old) < 5 or not any(char.isdigit() for char in old):
            return
        pattern = re.compile(rf"(?<!\w){re.escape(old)}(?!\w)")
        for index in range(turn, len(self._texts)):
            self._texts[index] = pattern.sub(lambda _: new, self._texts[index])


def find_leaf(value: Json, path: Path) -> Scalar:
    """The scalar at a path of a result, None where there is none."""
    node: object = value
    for part in path:
        if isinstance(node, dict):
            node = cast("dict[object, object]", node).get(part)
        elif isinstance(node, list) and isinstance(part, int):
            items = cast("list[object]", node)
            node = items[part] if part < len(items) else None
        else:
            return None
    return None if isinstance(node, dict | list) else cast("Scalar", node)


def put_leaf(value: Value, path: Path, new: Scalar) -> Value:
    """The value with another scalar at a path."""
    if not path:
        return new
    head, rest = path[0], path[1:]
    if isinstance(value, dict) and isinstance(head, str):
        return {k: put_leaf(v, rest, new) if k == head else v for k, v in value.items()}
    if isinstance(value, list):
        return [put_leaf(v, rest, new) if i == head else v for i, v in enumerate(value)]
    if isinstance(value, ToolCall) and head == "$call":
        arguments = {
            k: put_leaf(v, rest[1:], new) if k == rest[0] else v for k, v in value.arguments.items()
        }
        return ToolCall(value.name, arguments)
    return value


def typed_like(new: Scalar, old: Scalar) -> Scalar:
    """Give a followed value the type that the argument had."""
    if isinstance(old, str) and not isinstance(new, str):
        return str(new)
    if isinstance(old, float) and isinstance(new, int):
        return float(new)
    if isinstance(old, int) and not isinstance(old, bool) and isinstance(new, str):
        return int(new) if new.isdigit() else new
    return new
