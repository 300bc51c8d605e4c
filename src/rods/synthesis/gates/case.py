"""What gates look at: one proposal beside its seed, with facts that are computed once.

Owns `Facts`, `Case` and the registry of gates. Never decides anything itself.

    case.source_turns[2]                                    # the human turn that turn 2 reworks
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple, Protocol, TypeAlias

from rods.env import Environment
from rods.synthesis.base import Base
from rods.synthesis.gates.overlap import Corpus, Neighbours, Prints, prints
from rods.synthesis.gates.usage import NO_USAGE, TextCounts, mask_of, words_of
from rods.synthesis.structure.domains import Domains, domains_of
from rods.synthesis.structure.mentions import KnownTexts, Token, tokens_in
from rods.synthesis.structure.trace import by_identity, leaves
from rods.synthesis.structure.words import literal
from rods.task import Task, Turn
from rods.types import ToolCall, ToolSpec

REWORKED = 0.35
"""Share of common words from which a message counts as a reworked message of an ancestor."""
_WORDS = re.compile(r"[a-z']+")
_CAPITALS = re.compile(r"(?<!\w)[A-Z]{3,5}(?!\w)")


class Reading(Protocol):
    """What reading a message back came to."""

    @property
    def complete(self) -> bool:
        """Whether the message says all of its calls and nothing else."""
        ...


class Language:
    """What is known of messages that templates word; this one knows no templates.

    Whoever makes the gatekeeper hands over one that does (`rods.writers.templates.language`), so
    that no gate knows a writer.
    """

    clauses: Mapping[str, Sequence[str]] = {}
    """How people ask for tools, with a `{slot}` for each value, by tool."""
    verbs: frozenset[str] = frozenset()
    """Words with which people begin an order in this environment."""
    text: str = ""
    """Every clause, and all else that templates say."""

    def read(self, facts: Facts, steps: Sequence[int], text: str) -> Reading | None:
        """What templates explain of a message that may ask for these steps; None: nothing."""
        return None

    def misread(self, case: Case, index: int) -> str | None:
        """What is wrong with a message that is made of templates; None for other wording."""
        return None


class Facts(Base):
    """What gates know of one task: how it is played, and what its messages say."""

    def __init__(self, environment: Environment, task: Task, language: Language | None = None):
        super().__init__(environment, task)
        self.language = language or Language()

    @cached_property
    def prints(self) -> Prints:
        """Fingerprints of its texts and calls."""
        return prints(self.task)

    @cached_property
    def speech(self) -> str:
        """Everything that the user says."""
        return "\n".join(turn.user for turn in self.task.turns)

    @cached_property
    def words(self) -> tuple[frozenset[str], ...]:
        """Plain words of each message."""
        return tuple(frozenset(_WORDS.findall(turn.user.lower())) for turn in self.task.turns)

    @cached_property
    def masked(self) -> tuple[str, ...]:
        """Each message with marks for quoted texts and values of calls."""
        mask = mask_of(self.calls)
        return tuple(mask(turn.user) for turn in self.task.turns)

    @cached_property
    def heard(self) -> tuple[tuple[str, ...], ...]:
        """The words of each message, in order, with marks for values."""
        return tuple(tuple(words_of(text)) for text in self.masked)

    @cached_property
    def tokens(self) -> tuple[tuple[Token, ...], ...]:
        """Values that each message says: numbers, quoted texts, codes."""
        return tuple(tokens_in(turn.user) for turn in self.task.turns)

    @cached_property
    def known(self) -> KnownTexts:
        """All values of calls, results and configuration, and what values are called."""
        texts = [*(step.result.content for step in self.steps), *_spoken(self.calls)]
        names = _names_of(texts, domains_of(self.environment))
        world = json.dumps(dict(self.task.world), ensure_ascii=False)
        acronyms = _acronyms(self.specs) | _acronyms_in(self.language.text)
        return KnownTexts([*texts, *names, world], acronyms)

    def asked(self, turn: int) -> tuple[ToolCall, ...]:
        """The calls that a message asks for: its turn's, or those that follow a deliberate gap."""
        return self.task.turns[self.answer(turn)].ground_truth

    def answer(self, turn: int) -> int:
        """The turn in which a message is acted on: the next one after a deliberate gap."""
        turns = self.task.turns
        gap = not turns[turn].ground_truth and turn + 1 < len(turns)
        return turn + 1 if gap else turn

    def answers(self, turn: int) -> bool:
        """Whether a message only gives what the turn before left open."""
        before = self.task.turns[turn - 1] if turn else None
        return before is not None and not before.ground_truth and not before.withheld

    def unexplained(self, turn: int) -> tuple[Token, ...]:
        """Values of a message that stand in no call, result or configuration."""
        return tuple(t for t in self.tokens[turn] if t not in self.known)

    def strays(self, turn: int) -> tuple[Token, ...]:
        """Values of a message that none of the calls which it asks for takes."""
        own = KnownTexts(_spoken(self.asked(turn)))
        return tuple(t for t in self.tokens[turn] if t not in own)

    def remarks(self, turn: int) -> frozenset[Token]:
        """Values of a message that neither its calls nor their results know: said by the way."""
        place = self.answer(turn)
        results = [step.result.content for step in self.steps if step.turn == place]
        own = KnownTexts([*results, *_spoken(self.asked(turn))])
        return frozenset(t for t in self.tokens[turn] if t not in own)


def _spoken(calls: Iterable[ToolCall]) -> list[str]:
    """The values of calls as texts; a list also as people say it."""
    texts = [str(leaf.value) for call in calls for leaf in leaves(call)]
    lists = (value for call in calls for value in call.arguments.values())
    return texts + [literal(value, {}) for value in lists if isinstance(value, list)]


def _names_of(texts: Iterable[str], domains: Domains) -> list[str]:
    """Names whose codes stand in these texts."""
    words = set(_CAPITALS.findall("\n".join(texts)))
    codes = (c for t in domains.tables.values() for c in t.codes.values())
    return [name for table in codes for name, code in table.items() if code in words]


@by_identity
def _acronyms(specs: Mapping[str, ToolSpec]) -> frozenset[str]:
    """Words in capitals that tools speak of (GPS), in lower case: they are not values."""
    return _acronyms_in("\n".join(spec.description for spec in specs.values()))


@lru_cache(maxsize=64)
def _acronyms_in(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _CAPITALS.findall(text))


class SourceTurn(NamedTuple):
    """A turn of an ancestor whose message a message reworks."""

    facts: Facts
    place: int

    @property
    def turn(self) -> Turn:
        """The turn itself."""
        return self.facts.task.turns[self.place]


class Retold(NamedTuple):
    """A turn beside the human turn that it is most like."""

    near: bool
    """Whether nearly all words are the same."""
    wording: str | None
    """Which word is not."""
    problem: str | None
    """Why it does not retell that turn, with its own values."""


@dataclass
class Case:
    """One proposal beside its seed and all that it must not repeat."""

    seed: Facts
    variant: Facts
    ancestors: Sequence[Facts]
    """The seed and the other tasks that gave turns, as far as they are known."""
    corpus: Corpus
    max_distance: float
    seen: Sequence[Prints] = ()
    """Variants that were accepted before in the same request."""
    pool: Neighbours | None = None
    """All seeds, to be repeated by no variant."""
    usage: TextCounts = NO_USAGE
    """How people speak of the tools."""
    retold: dict[int, Retold] = field(default_factory=dict[int, "Retold"])
    """What is known of turns as retold ones; `worded.py` fills it."""

    @cached_property
    def aligned(self) -> bool:
        """Whether the variant calls the seed's functions in the seed's order."""
        return [c.name for c in self.seed.calls] == [c.name for c in self.variant.calls]

    @cached_property
    def readings(self) -> tuple[Reading | None, ...]:
        """What is read back of each message by the templates; None where it asks for nothing."""
        facts = self.variant
        found: list[Reading | None] = []
        for index, turn in enumerate(facts.task.turns):
            place = facts.answer(index)
            steps = [n for n, step in enumerate(facts.steps) if step.turn == place]
            silent = not steps or not turn.user.strip() or facts.answers(index)
            found.append(None if silent else facts.language.read(facts, steps, turn.user))
        return tuple(found)

    def templated(self, index: int) -> bool:
        """Whether templates explain a message to its last word."""
        reading = self.readings[index]
        return reading is not None and reading.complete

    @cached_property
    def source_turns(self) -> tuple[SourceTurn | None, ...]:
        """The ancestor's turn that each turn reworks; None for new wording.

        A blank turn belongs to the turn before it. What templates explain to the last word is new,
        however many words it shares: there are few ways to ask for a book. So is what then gives
        the value that it left open.
        """
        found: list[SourceTurn | None] = []
        for index, turn in enumerate(self.variant.task.turns):
            asked = index - 1 if self.variant.answers(index) else index
            if self.templated(asked):
                found.append(None)
            elif turn.user.strip():
                found.append(self._source_turn(index) or self._next(index, found))
            else:
                found.append(_following(found[-1]) if found else None)
        return tuple(found)

    def _source_turn(self, index: int) -> SourceTurn | None:
        mine = self.variant.words[index]
        names = _names(self.variant.task.turns[index])
        best: tuple[float, bool] = (REWORKED, False)
        nearest: SourceTurn | None = None
        for facts in self.ancestors:
            for place, words in enumerate(facts.words):
                share = len(mine & words) / max(1, len(mine | words))
                key = (share, names == _names(facts.task.turns[place]))
                if words and key > best:
                    best, nearest = key, SourceTurn(facts, place)
        return nearest

    def _next(self, index: int, before: Sequence[SourceTurn | None]) -> SourceTurn | None:
        """The turn after the one that the turn before reworks.

        It follows a gap as its answer, in whatever words; another turn must share words and calls.
        """
        source_turn = _following(before[-1]) if before else None
        if source_turn is None or (
            self.variant.answers(index) and source_turn.facts.answers(source_turn.place)
        ):
            return source_turn
        words = self.variant.words[index] & source_turn.facts.words[source_turn.place]
        called_alike = _names(source_turn.turn) == _names(self.variant.task.turns[index])
        return source_turn if words and called_alike else None

    def counterpart(self, index: int) -> SourceTurn | None:
        """The turn to measure by: the reworked one, else the seed's turn at the same place."""
        source_turn = self.source_turns[index]
        if source_turn is None and index < len(self.seed.task.turns):
            return SourceTurn(self.seed, index)
        return source_turn


def _names(turn: Turn) -> list[str]:
    return [call.name for call in turn.ground_truth]


def _following(source_turn: SourceTurn | None) -> SourceTurn | None:
    if source_turn is None or source_turn.place + 1 >= len(source_turn.facts.task.turns):
        return None
    return SourceTurn(source_turn.facts, source_turn.place + 1)


Gate: TypeAlias = Callable[[Case], "str | None"]
"""Says what is wrong, or None."""
