"""Input of the gates: one candidate beside its seed task, with facts that are computed once.

Owns `Facts`, `Case` and the registry of gates. Never decides anything itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, wraps
from typing import TypeAlias

from rods.env import Environment
from rods.synthesis.base import Base
from rods.synthesis.gates.overlap import Corpus, Neighbors, Prints, prints
from rods.synthesis.gates.usage import NO_USAGE, Mask, TextCounts, mask_of, words_of
from rods.synthesis.structure.domains import Domains, domains_of
from rods.synthesis.structure.mentions import KnownTexts, Token, tokens_in
from rods.synthesis.structure.trace import TraceStep, by_identity, leaves
from rods.synthesis.structure.words import literal
from rods.task import Task
from rods.types import ToolCall, ToolSpec

REWORKED = 0.35
"""Share of common words from which a message counts as a reworked message of an ancestor."""
_WORDS = re.compile(r"[a-z']+")
_CAPITALS = re.compile(r"(?<!\w)[A-Z]{3,5}(?!\w)")


class Language:
    """Templates in which messages are worded; this class knows none.

    The maker of the gatekeeper passes one that does (`rods.writers.templates.reading`), so that no
    gate knows a writer.
    """

    clauses: Mapping[str, Sequence[str]] = {}
    """Phrases by which people ask for tools, with a `{slot}` for each value, by tool."""
    verbs: frozenset[str] = frozenset()
    """Words with which people begin an order in this environment."""
    text: str = ""
    """Every clause, and all else that templates say."""

    def explains(self, turn: TurnFacts) -> bool:
        """Tell whether templates say a message to its last word: its calls and nothing else."""
        return False

    def misread(self, case: Case, turn: TurnFacts) -> str | None:
        """Return what is wrong with a message that is made of templates; None for other wording."""
        return None


class Facts(Base):
    """Facts of one task: its replay, and what its messages say."""

    def __init__(self, environment: Environment, task: Task, language: Language | None = None):
        super().__init__(environment, task)
        self.language = language or Language()

    @cached_property
    def turns(self) -> tuple[TurnFacts, ...]:
        """Return what is known of each turn."""
        return tuple(TurnFacts(self, place) for place in range(len(self.task.turns)))

    @cached_property
    def prints(self) -> Prints:
        """Fingerprints of its texts and calls."""
        return prints(self.task)

    @cached_property
    def speech(self) -> str:
        """Everything that the user says."""
        return "\n".join(turn.user for turn in self.task.turns)

    @cached_property
    def mask(self) -> Mask:
        """Return what marks quoted texts and values of calls in a message."""
        return mask_of(self.calls)

    @cached_property
    def known(self) -> KnownTexts:
        """All values of calls, results and configuration, and what values are called."""
        texts = [*(step.result.content for step in self.steps), *_spoken(self.calls)]
        names = _names_of(texts, domains_of(self.environment))
        world = json.dumps(dict(self.task.world), ensure_ascii=False)
        acronyms = _acronyms(self.specs) | _acronyms_in(self.language.text)
        return KnownTexts([*texts, *names, world], acronyms)


class TurnFacts:
    """Facts of one turn, computed on first use."""

    def __init__(self, facts: Facts, place: int):
        self.facts, self.place = facts, place
        self.turn = facts.task.turns[place]
        self.text = self.turn.user

    @cached_property
    def answer(self) -> int:
        """The turn in which the message is acted on: the next one after a deliberate gap."""
        gap = not self.turn.ground_truth and self.place + 1 < len(self.facts.task.turns)
        return self.place + gap

    @property
    def asked(self) -> tuple[ToolCall, ...]:
        """The calls that the message asks for: its turn's, or those that follow a gap."""
        return self.facts.task.turns[self.answer].ground_truth

    @cached_property
    def steps(self) -> Mapping[int, TraceStep]:
        """The calls that the message asks for, executed, by their numbers in the ground truth."""
        return {n: step for n, step in enumerate(self.facts.steps) if step.turn == self.answer}

    @cached_property
    def answers(self) -> bool:
        """Tell whether the message only gives what the turn before left open."""
        task, place = self.facts.task, self.place
        return place > 0 and not (task.turns[place - 1].ground_truth or task.given_back(place))

    @property
    def next(self) -> TurnFacts | None:
        """The turn after it."""
        later = self.place + 1
        return self.facts.turns[later] if later < len(self.facts.turns) else None

    @property
    def names(self) -> list[str]:
        """The functions that the turn calls."""
        return [call.name for call in self.turn.ground_truth]

    @cached_property
    def words(self) -> frozenset[str]:
        """Plain words of the message."""
        return frozenset(_WORDS.findall(self.text.lower()))

    def shared(self, other: TurnFacts) -> float:
        """Share of the words of two messages that both have."""
        return len(self.words & other.words) / max(1, len(self.words | other.words))

    @cached_property
    def masked(self) -> str:
        """The message with marks for quoted texts and values of calls."""
        return self.facts.mask(self.text)

    @cached_property
    def marked_words(self) -> tuple[str, ...]:
        """Words of the message, in order, with marks for values."""
        return tuple(words_of(self.masked))

    @cached_property
    def tokens(self) -> tuple[Token, ...]:
        """Values that the message says: numbers, quoted texts, codes."""
        return tokens_in(self.text)

    @cached_property
    def unexplained(self) -> tuple[Token, ...]:
        """Values of the message that stand in no call, result or configuration."""
        return tuple(t for t in self.tokens if t not in self.facts.known)

    @cached_property
    def strays(self) -> tuple[Token, ...]:
        """Values of the message that none of the calls takes for which it asks."""
        own = KnownTexts(_spoken(self.asked))
        return tuple(t for t in self.tokens if t not in own)

    @cached_property
    def remarks(self) -> frozenset[Token]:
        """Values of the message that neither its calls nor their results have: said by the way."""
        results = [step.result.content for step in self.steps.values()]
        own = KnownTexts([*results, *_spoken(self.asked)])
        return frozenset(t for t in self.tokens if t not in own)


def _spoken(calls: Iterable[ToolCall]) -> list[str]:
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


@dataclass(eq=False)
class Case:
    """One candidate beside its seed and all that it must not repeat."""

    seed: Facts
    variant: Facts
    ancestors: Sequence[Facts]
    """The seed and the other tasks that gave turns, as far as they are known."""
    corpus: Corpus
    seen: Sequence[Prints] = ()
    """Variants that were accepted before in the same request."""
    pool: Neighbors | None = None
    """All seeds, to be repeated by no variant."""
    usage: TextCounts = NO_USAGE
    """Words that people use for the tools."""
    usual: Callable[[str], frozenset[str]] = lambda _: frozenset()
    """Fields of a tool's results that are no failure of it (`usual_failures`)."""

    @cached_property
    def aligned(self) -> bool:
        """Tell whether the variant calls the seed's functions in the seed's order."""
        return [c.name for c in self.seed.calls] == [c.name for c in self.variant.calls]

    @cached_property
    def source_turns(self) -> tuple[TurnFacts | None, ...]:
        """The ancestor's turn that each turn reworks; None for new wording.

        A blank turn belongs to the turn before it. What templates explain to the last word is new,
        however many words it shares: there are few ways to ask for a book. So is what then gives
        the value that it left open.
        """
        found: list[TurnFacts | None] = []
        explains = self.variant.language.explains
        for turn in self.variant.turns:
            following = found[-1].next if found and found[-1] is not None else None
            if explains(self.variant.turns[turn.place - turn.answers]):
                found.append(None)
            elif turn.text.strip():
                found.append(self._nearest(turn) or self._following(turn, following))
            else:
                found.append(following)
        return tuple(found)

    def _nearest(self, turn: TurnFacts) -> TurnFacts | None:
        best: tuple[float, bool] = (REWORKED, False)
        nearest: TurnFacts | None = None
        for theirs in (theirs for facts in self.ancestors for theirs in facts.turns):
            key = (turn.shared(theirs), turn.names == theirs.names)
            if theirs.words and key > best:
                best, nearest = key, theirs
        return nearest

    def _following(self, turn: TurnFacts, theirs: TurnFacts | None) -> TurnFacts | None:
        """The turn after the one that the turn before reworks.

        It follows a gap as its answer, in whatever words; another turn must share words and calls.
        """
        if theirs is None or (turn.answers and theirs.answers):
            return theirs
        return theirs if turn.words & theirs.words and turn.names == theirs.names else None

    def model(self, turn: TurnFacts) -> TurnFacts | None:
        """The ancestor's turn that a turn of the variant reworks; None for new wording."""
        return self.source_turns[turn.place]


Gate: TypeAlias = Callable[[Case], "str | None"]
"""Says what is wrong, or None."""


def of_turns(problem_of: Callable[[Case, TurnFacts], str | None]) -> Gate:
    """A gate that asks the same of each turn of the variant."""

    @wraps(problem_of)
    def gate(case: Case) -> str | None:
        found = ((turn.place, problem_of(case, turn)) for turn in case.variant.turns)
        return next((f"turn {place + 1}: {wrong}" for place, wrong in found if wrong), None)

    return gate
