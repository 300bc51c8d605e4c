"""Reading messages of templates back: which calls they say, and what is left of them.

Owns the patterns of clauses with their values filled in. A message that is read to its last word
asks for these calls and for nothing else, whoever wrote it. Never judges other wording.

    read(phrases, specs, steps, range(0, 2), "Please cancel order 7.")  # Reading([1], "")
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from rods.synthesis.clarity import place_of
from rods.synthesis.flow import Step
from rods.synthesis.phrases import Giver, Phrases, Wording, frame_words, from_description, ways
from rods.synthesis.sources import normal
from rods.types import ToolCall, ToolSpec, Value

_WORD = re.compile(r"[a-z']+")
_SLOT = re.compile(r"\{(\w+)\}")
_FRAME = frame_words()
OPEN = "[^\\x01]{1,300}?"
"""Any value."""
END = r"(?:(?=[.?!](?:\s|$)|\s*$| as well\b|, (?:please|too)\b|\x01)|(?<=[.?!]')(?=\s))"
"""What follows a clause."""
MEANING = r"(?:the|that|this|those|its|my|your) [a-z][a-z' ]{1,60}?"
"""Words that may stand for a value which a result showed: they point, and are no value."""
DONE = "\x01"
"""Stands where a clause was, so that no clause is found across it."""
MEANT = 2
"""Most arguments of a call that are referred to where nobody wrote templates for its tool."""


class Reading(NamedTuple):
    """What reading back came to."""

    unsaid: Sequence[int]
    """Steps that no clause says."""
    rest: str
    """The message without the clauses that were found."""

    @property
    def complete(self) -> bool:
        """Whether the message says all of its calls and nothing else."""
        return not self.unsaid and not foreign(self.rest)


def read(
    phrases: Phrases,
    specs: Mapping[str, ToolSpec],
    steps: Sequence[Step],
    asked: Iterable[int],
    text: str,
) -> Reading:
    """Take the clauses of these calls out of a message.

    Args:
        phrases: templates of the environment; tools without any get their descriptions'.
        specs: all tools.
        steps: the executed ground truth, for what references may point back to.
        asked: the steps that the message may ask for.
        text: the message.
    """
    unsaid, rest = list(asked), text
    for scene in phrases.scenes:
        rest = rest.replace(scene, " ")
    for meant in (False, True):
        for number in tuple(unsaid):
            for filled, wording in _fillings(phrases, specs, steps, number, meant=meant):
                shorter = _without(rest, filled, wording)
                if shorter is not None:
                    unsaid.remove(number)
                    rest = shorter
                    break
    return Reading(unsaid, rest)


def _fillings(
    phrases: Phrases,
    specs: Mapping[str, ToolSpec],
    steps: Sequence[Step],
    number: int,
    *,
    meant: bool,
) -> Iterator[tuple[dict[str, str], Wording]]:
    """Patterns for the arguments of a call with the wording that they go into."""
    call = steps[number].call
    written = phrases.wording(call.name)
    if written is not None:
        yield (_ways if meant else _values)(steps, number, written), written
        return
    spec = specs.get(call.name)
    if spec is None:
        return
    if not meant:
        wording = from_description(spec)
        yield _values(steps, number, wording), wording
        return
    for count in range(1, min(MEANT, len(call.arguments)) + 1):
        for names in itertools.combinations(call.arguments, count):
            wording = from_description(spec, frozenset(names))
            values = _values(steps, number, wording)
            yield (
                values | {n: p for n, p in _ways(steps, number, wording).items() if n in names},
                (wording),
            )


def foreign(text: str) -> set[str]:
    """Words that no frame around a clause has."""
    return set(_WORD.findall(text.lower())) - _FRAME


def _values(steps: Sequence[Step], number: int, wording: Wording) -> dict[str, str]:
    """How each argument of a step is said, as a pattern."""
    call = steps[number].call
    return {name: _one_of(wording.texts(name, value)) for name, value in call.arguments.items()}


def _ways(steps: Sequence[Step], number: int, wording: Wording) -> dict[str, str]:
    """The same, where values may also be meant, by what showed them, or left open."""
    filled: dict[str, str] = {}
    for name, value in steps[number].call.arguments.items():
        givers = _givers(steps[:number], value)
        texts = _one_of(ways(wording, name, value, givers))
        told = givers or _tells(steps[:number], value)
        filled[name] = f"(?:{texts}|{MEANING})" if told else texts
    return filled


def _tells(steps: Iterable[Step], value: Value) -> bool:
    """Whether a result shows a text inside another one."""
    found = value.lower() if isinstance(value, str) and len(value) > 2 else None
    return found is not None and any(found in step.result.content.lower() for step in steps)


def _givers(steps: Iterable[Step], value: Value) -> list[Giver]:
    if isinstance(value, list | dict | ToolCall):
        return []
    key = normal(value)
    shown = [step for step in steps if any(normal(leaf.value) == key for leaf in step.leaves)]
    places = [Giver(step.call, place) for step in shown if (place := place_of(step, value))]
    return [*(Giver(step.call) for step in shown), *places]


def _without(text: str, filled: Mapping[str, str], wording: Wording) -> str | None:
    """The message without the clause that says a call so; None without one.

    Args:
        text: the message, or what is left of it.
        filled: a pattern for each argument of the call.
        wording: of its tool.
    """
    lower = text.lower()
    for say in sorted(wording.say, key=len, reverse=True):
        if not all(piece in lower for piece in pieces(say)) or not _slots(say) <= filled.keys():
            continue
        whole = pattern(say, filled)
        for name, forms in wording.optional.items():
            if name in filled:
                whole += f" (?:{'|'.join(pattern(form, filled) for form in forms)})"
        cut = re.sub(whole + END, DONE, text, count=1, flags=re.I)
        if cut != text:
            return cut
    return None


def _one_of(texts: Iterable[str]) -> str:
    return f"(?:{'|'.join(re.escape(text) for text in texts)})"


@lru_cache(maxsize=4096)
def pieces(template: str) -> tuple[str, ...]:
    """The fixed texts of a template, in lower case, the longest first."""
    return tuple(sorted((piece.lower() for piece in _SLOT.split(template)[::2]), key=len))[::-1]


@lru_cache(maxsize=4096)
def _slots(template: str) -> set[str]:
    return {match[1] for match in _SLOT.finditer(template)}


def pattern(template: str, filled: Mapping[str, str]) -> str:
    """A template as a regular expression; a slot that is not filled takes any value."""
    parts: list[str] = []
    at = 0
    for match in _SLOT.finditer(template):
        parts += [re.escape(template[at : match.start()]), filled.get(match[1], OPEN)]
        at = match.end()
    return "".join([*parts, re.escape(template[at:])])
