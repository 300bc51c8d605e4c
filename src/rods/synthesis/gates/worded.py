"""Gates on messages that have an ancestor's words, with other values.

Owns the comparison of one turn with the human turn that it reworks: values are masked by the
arguments that take them, and the rest must be the same sentence. A message that is nearly an
ancestor's promises to be it (`nearly_retold`, for every writer); a writer that retells alone brings
`retells` as a gate of its own.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple, cast

from rods.synthesis.gates import sentence
from rods.synthesis.gates.case import Case, TurnFacts, of_turns
from rods.synthesis.gates.sentence import MASK, NEUTRAL, Pair, Role
from rods.synthesis.structure.domains import domains_of
from rods.synthesis.structure.mentions import only_dates
from rods.synthesis.structure.sources import Source, normal
from rods.synthesis.structure.trace import Leaf, Scalar, TraceStep, leaves
from rods.synthesis.structure.words import alike_words, family

CANDIDATES = 3
"""Human turns that are looked at for one message: those that share the most words."""
ALIKE = 0.3
"""Share of common words, values among them, from which messages are compared word by word."""
NEAR = 0.7
"""Share of two messages, values aside, from which one is nearly the other."""
SHORT = 60
"""Letters of a text that may be a name."""
_PIECE = re.compile("[a-z0-9]+|[$€£%\uf000-\uf8ff]")
_FILE = re.compile(r"[\w-]+\.[A-Za-z]\w{1,4}")


class AlignedPairs(NamedTuple):
    """Turns and steps of a task, by number, each with the one of another task that it reworks."""

    turns: dict[int, int]
    steps: dict[int, int]


class Retelling:
    """One turn beside the human turn that it reworks."""

    def __init__(self, human: TurnFacts, mine: TurnFacts, before: AlignedPairs):
        """`before`: earlier turns of the variant that rework turns of that task."""
        self._human, self._mine = human, mine
        answered = {mine.answer: human.answer} if mine.answer != mine.place else {}
        steps = zip(mine.steps, human.steps, strict=False)
        self._before = AlignedPairs(
            {**before.turns, mine.place: human.place, **answered}, {**before.steps, **dict(steps)}
        )
        self._domains = domains_of(mine.facts.environment)
        self._old, self._new = sentence.roles_of(human), sentence.roles_of(mine)

    @functools.cached_property
    def near(self) -> bool:
        """Tell whether nearly all words are the same."""
        return self.problem is None or self.likeness >= NEAR

    @functools.cached_property
    def problem(self) -> str | None:
        """Return what is wrong; None: it says the same with its own values."""
        if list(self._old) != list(self._new):
            return "its calls take other arguments than those of the turn that it reworks"
        old, new, spoken = self._texts
        return self.wording or self._apart() or self._strange(spoken) or self._turned(old, new)

    @functools.cached_property
    def wording(self) -> str | None:
        """Return what is wrong with its words, whatever its values are."""
        old, new, _ = self._texts
        return sentence.differs(old, new, self._masks_alike, self._may_stand)

    @functools.cached_property
    def likeness(self) -> float:
        """Share of the human message, values aside, that stands in the other one, from 0 to 1."""
        old, new, _ = self._texts
        return sentence.likeness(old, new, self._masks_alike)

    @functools.cached_property
    def _masks(self) -> tuple[dict[Role, str], dict[Role, str]]:
        kept = {r for r, v in self._old.items() if v == self._new.get(r) and sentence.is_phrase(v)}
        return sentence.masks_of(self._old, kept), sentence.masks_of(self._new, kept)

    @functools.cached_property
    def _texts(self) -> tuple[str, str, set[Role]]:
        """Both messages with masks for values and marks for phrases, and the arguments they say."""
        old = self._human.text
        new = sentence.uncourteous(self._mine.text, old)
        old = sentence.phrased(sentence.masked(old, self._old, self._masks[0], self._domains))
        new = sentence.phrased(sentence.masked(new, self._new, self._masks[1], self._domains))
        marks = set(MASK.findall(old)), set(MASK.findall(new))
        pairs = ((role, mask, self._masks[1].get(role)) for role, mask in self._masks[0].items())
        return old, new, {r for r, a, b in pairs if a in marks[0] and b in marks[1]}

    @functools.cached_property
    def _masks_alike(self) -> dict[str, set[str]]:
        """The masks of the model that may stand where a mask stands: those of the same argument."""
        found: dict[str, set[str]] = {}
        for role, mask in self._masks[1].items():
            if role in self._masks[0]:
                found.setdefault(mask, set()).add(self._masks[0][role])
        return found

    def _may_stand(self, gone: Sequence[str], come: Sequence[str]) -> bool:
        """Tell whether words may stand for others: they are alike, or names that were exchanged."""
        if len(gone) == len(come) and all(map(_are_alike, gone, come)):
            return True
        if only_dates(gone) and only_dates(come):
            return True
        if not (gone and come) and all(
            sentence.meanings(word) & NEUTRAL for word in (*gone, *come)
        ):
            return True
        old, new = _pieces(gone), _pieces(come)
        if not old or not new:
            return not old and not new
        known = self._renamed
        return any(old <= a and new <= b for a, b in known) or (
            old <= self._listed and new <= self._listed
        )

    @functools.cached_property
    def _renamed(self) -> list[tuple[set[str], set[str]]]:
        """Words of the names that both worlds, calls and results have in the same places."""
        pairs = [*self._configured, *self._stepped()]
        names = {(a, b) for a, b in pairs if isinstance(a, str) and isinstance(b, str) and a != b}
        names = [(a, b) for a, b in names if max(len(a), len(b)) <= SHORT]
        return [(_pieces([of(a)]), _pieces([of(b)])) for a, b in names for of in (str, family)]

    def _stepped(self) -> Iterator[Pair]:
        for before, after in zip(self._human.facts.steps, self._mine.facts.steps, strict=False):
            if before.call.name == after.call.name:
                yield from sentence.leaf_pairs(before.leaves, after.leaves)
                yield from sentence.leaf_pairs(_arguments(before), _arguments(after))

    @functools.cached_property
    def _listed(self) -> frozenset[str]:
        tables = self._domains.tables.values()
        names = [n for t in tables for n in (*t.names, *t.aliases)]
        codes = [code for t in tables for owned in t.owners.values() for code in owned]
        return frozenset(_pieces([*names, *codes]))

    def _strange(self, spoken: Set[Role]) -> str | None:
        """A value that is neither said where the model says its own nor comes from there."""
        fixed = {
            (argument.step, argument.name)
            for argument in self._human.facts.arguments
            if argument.source is Source.DOCUMENTATION
        }
        first = next(iter(self._human.steps), 0)
        for role, old in self._old.items():
            new = self._new[role]
            if role in spoken:
                continue
            sibling = self._sibling(role, old, new)
            if sibling or (sibling is None and normal(old) == normal(new)):
                continue
            if (
                sibling is False
                or (first + role.call, role.name) in fixed
                or not self._follows(role, old, new)
            ):
                return f"{role.name}={new!r} does not come from where the model's {old!r} does"
        return None

    def _sibling(self, role: Role, old: Scalar, new: Scalar) -> bool | None:
        """Tell whether a file is still called as the one of which it is another format.

        None: there is no such file, or the model names it somewhere itself.
        """
        if not isinstance(old, str) or not isinstance(new, str) or not _FILE.fullmatch(old):
            return None
        pairs = {(a, b) for a, b in self._pairs(role) if isinstance(a, str) and isinstance(b, str)}
        stems = {_stem(b) for a, b in pairs if _FILE.fullmatch(a) and _stem(a) == _stem(old)}
        if not stems or any(a == old for a, _ in pairs):
            return None
        return _stem(new) in stems

    def _apart(self) -> str | None:
        """Arguments that are equal in the model and not here: a call was given another's value."""
        known: dict[str, tuple[Role, Scalar]] = {}
        for role, old in self._old.items():
            new = self._new[role]
            other, value = known.setdefault(normal(old), (role, new))
            if not isinstance(old, bool) and normal(value) != normal(new):
                return f"{role.name}={new!r}, but {other.name}={value!r}; its model has them equal"
        return None

    def _follows(self, role: Role, old: Scalar, new: Scalar) -> bool:
        """Tell whether a changed value stands where the model's stands, wherever that is.

        One that stands nowhere is computed from what does, or a text with what does inside.
        """
        places = self._called_so(role, old) or set(map(normal, self._places(role, old)))
        if places:
            return normal(new) in places
        if isinstance(old, bool) or isinstance(new, bool) or old is None or new is None:
            return False
        pairs = list(self._pairs(role))
        if isinstance(old, str):
            names_of = self._domains.names_of
            pairs += [
                names
                for a, b in set(pairs)
                if isinstance(a, str) and isinstance(b, str)
                for names in itertools.product(names_of(a), names_of(b))
            ]
            return isinstance(new, str) and sentence.composed(old, new, pairs)
        pairs += [(fill.full, fill.full) for fill in self._domains.fills]
        return isinstance(new, int | float) and sentence.computed(old, new, pairs)

    def _called_so(self, role: Role, old: Scalar) -> set[str]:
        """Values of the variant's earlier calls where the model's take it by the same name."""
        place = (role.name, *role.path)
        return {
            normal(leaf.value)
            for before, after in self._earlier(role)
            if any(x.path == place and normal(x.value) == normal(old) for x in _arguments(before))
            for leaf in _arguments(after)
            if leaf.path == place
        }

    def _earlier(self, role: Role) -> Iterator[tuple[TraceStep, TraceStep]]:
        last = next(iter(self._mine.steps), 0) + role.call
        for mine, theirs in self._before.steps.items():
            if mine < last:
                yield self._human.facts.steps[theirs], self._mine.facts.steps[mine]

    def _said(self) -> Iterator[tuple[str, str]]:
        """The model's texts so far, with those that rework them."""
        for mine, theirs in self._before.turns.items():
            yield self._human.facts.turns[theirs].text, self._mine.facts.turns[mine].text

    def _places(self, role: Role, old: Scalar) -> Iterator[Scalar]:
        """Values of the variant where the model's texts, results, calls and world have a value."""
        key = normal(old)
        new = self._new[role]
        for theirs, mine in self._said():
            if sentence.with_mask(theirs, old, "\0", self._domains) != theirs:
                yield new if sentence.with_mask(mine, new, "\0", self._domains) != mine else None
        yield from (mine for theirs, mine in self._pairs(role) if normal(theirs) == key)

    def _pairs(self, role: Role) -> Iterator[Pair]:
        """Values of the model's texts, world, calls and results, and what the variant has there."""
        yield from self._said()
        for before, after in self._earlier(role):
            yield from sentence.leaf_pairs(before.leaves, after.leaves)
            yield from sentence.leaf_pairs(_arguments(before), _arguments(after))
        yield from self._configured

    @functools.cached_property
    def _configured(self) -> Sequence[Pair]:
        """Return what stands in the same places of the two worlds."""
        defaults = self._domains.defaults
        starts = (cast("Mapping[str, Any]", x.facts.start) for x in (self._human, self._mine))
        shown = ({n: {**defaults.get(n, {}), **start[n]} for n in start} for start in starts)
        return tuple(sentence.side_by_side(*shown))

    def _turned(self, old: str, new: str) -> str | None:
        """Two texts of one call, said by parts of them, that stand the other way round."""
        rest = [r for r, v in self._old.items() if isinstance(v, str) and len(v) > 3]
        for number, one in enumerate(rest):
            for two in rest[number + 1 :]:
                if one.call != two.call:
                    continue
                orders = (
                    _order(text, str(values[one]), str(values[two]))
                    for text, values in ((old, self._old), (new, self._new))
                )
                if set(orders) == {True, False}:
                    return f"it says {one.name} and {two.name} the other way round than its model"
        return None


def _are_alike(old: str, new: str) -> bool:
    """Tell whether two tokens are the same, alike, or numbers that are written alike."""
    words = alike_words()
    if re.sub(r"\d[\d,.]*", "0", old) == re.sub(r"\d[\d,.]*", "0", new):
        return True
    return any(
        b == a or b in words.get(a, ())
        for a in sentence.meanings(old)
        for b in sentence.meanings(new)
    )


def _pieces(words: Sequence[str]) -> set[str]:
    """The words themselves, without articles and what stands between them."""
    found = {piece for word in words for piece in _PIECE.findall(word.lower())}
    return found - {"a", "an", "s", "ltd"}


def _stem(name: str) -> str:
    return name.rpartition(".")[0]


def _order(text: str, one: str, two: str) -> bool | None:
    """Tell whether parts of the first value stand before parts of the second; None: not both do."""
    parts = [set(re.findall(r"[a-z]{4,}|\d{2,}", value.lower())) for value in (one, two)]
    found = [
        [text.lower().find(part) for part in sorted(mine - other) if part in text.lower()]
        for mine, other in (parts, parts[::-1])
    ]
    return min(found[0]) < min(found[1]) if found[0] and found[1] else None


def _arguments(step: TraceStep) -> Sequence[Leaf]:
    return leaves(dict(step.call.arguments))


def nearly_retold(case: Case) -> str | None:
    """A message that is nearly an ancestor's has the same words, but for names.

    Where all messages are, each has its own values where its model has them.
    """
    turns = [turn for turn in case.variant.turns if turn.text.strip()]
    explains = case.variant.language.explains
    free = [turn for turn in turns if not explains(turn)]
    own = [t.place for t in free if any(t.shared(x) >= ALIKE for x in _models(case, t)[:1])]
    found = _retold(case) if own else {}
    near = {place: retold for place, retold in found.items() if retold.near}
    whole = all(turn.place in own and turn.place in near for turn in turns)
    for place in own:
        retold = near.get(place)
        problem = retold and (retold.problem if whole else retold.wording)
        if problem is not None:
            return f"turn {place + 1}: {problem}"
    return None


@of_turns
def retells(case: Case, turn: TurnFacts) -> str | None:
    """Every message is an ancestor's, word for word, with its own values in their places."""
    retold = _retold(case).get(turn.place)
    return "no turn of an ancestor makes these calls" if retold is None else retold.problem


@functools.lru_cache(maxsize=1)
def _retold(case: Case) -> Mapping[int, Retelling]:
    """Each turn beside the likest turn of an ancestor that makes the same calls, if any does."""
    found: dict[int, Retelling] = {}
    pairs: dict[str, AlignedPairs] = {}
    for turn in case.variant.turns:
        for model in _models(case, turn):
            known = pairs.setdefault(model.facts.task.id, AlignedPairs({}, {}))
            retelling = Retelling(model, turn, known)
            if turn.place not in found or retelling.near > found[turn.place].near:
                found[turn.place] = retelling
            if retelling.problem is None:
                found[turn.place] = retelling
                known.turns[turn.place] = model.place
                if turn.turn.ground_truth:
                    known.steps.update(zip(turn.steps, model.steps, strict=False))
                break
    return found


def _models(case: Case, turn: TurnFacts) -> list[TurnFacts]:
    """Turns of ancestors that make the same calls in the same place of a gap, the likest first."""
    theirs = (other for facts in case.ancestors for other in facts.turns)
    found = [other for other in theirs if _shape(other) == _shape(turn)]
    return sorted(found, key=turn.shared, reverse=True)[:CANDIDATES]


def _shape(turn: TurnFacts) -> object:
    names = [call.name for call in turn.asked]
    return names, bool(turn.turn.ground_truth), bool(turn.text.strip())
