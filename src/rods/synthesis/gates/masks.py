"""A message with a private character in the place of each value that its calls take.

Owns which argument a value belongs to and how a value may be written in a text. Never compares two
messages.

    known = roles_of(facts, turn)
    masked(message, known, masks_of(known, kept=set()), domains)       # a mask for each value
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, NamedTuple

from rods.synthesis.structure.dates import find_dates, iso
from rods.synthesis.structure.domains import Domains
from rods.synthesis.structure.sources import NUMBER, normal
from rods.synthesis.structure.trace import Path, Scalar, TraceStep, leaves

if TYPE_CHECKING:
    from rods.synthesis.gates.case import Facts

MASKS = 0xE000
"""First of the private characters that stand for values."""
MASK = re.compile("[\ue000-\uefff]")


class Role(NamedTuple):
    """One scalar argument of the calls that a message asks for."""

    call: int
    """Which of these calls."""
    name: str
    path: Path


def _asked(facts: Facts, turn: int) -> list[TraceStep]:
    place = facts.answer(turn)
    return [step for step in facts.steps if step.turn == place]


def roles_of(facts: Facts, turn: int) -> dict[Role, Scalar]:
    """The scalar arguments of the calls that a message asks for."""
    return {
        Role(number, name, leaf.path): leaf.value
        for number, step in enumerate(_asked(facts, turn))
        for name, value in step.call.arguments.items()
        for leaf in leaves(value)
    }


def masks_of(roles: Mapping[Role, Scalar], kept: Set[Role]) -> dict[Role, str]:
    """A character for each argument, without those that are kept; equal values have one."""
    known: dict[str, str] = {}
    return {
        role: known.setdefault(normal(value), chr(MASKS + number))
        for number, (role, value) in enumerate(roles.items())
        if role not in kept
    }


def masked(
    text: str, roles: Mapping[Role, Scalar], masks: Mapping[Role, str], domains: Domains
) -> str:
    """A text with masks for the values that it says, the longest first."""
    for role in sorted(masks, key=lambda role: -len(str(roles[role]))):
        text = with_mask(text, roles[role], masks[role], domains)
    return text


def with_mask(text: str, value: Scalar, mask: str, domains: Domains) -> str:
    """A text with a mask wherever it says a value, in any way that it can be written."""
    if isinstance(value, bool) or value is None:
        return text
    date = iso(value) if isinstance(value, str) else None
    if date is not None:
        for mention in reversed(find_dates(text)):
            if mention.matches(date):
                text = text[: mention.start] + mask + text[mention.end :]
    key = normal(value)
    if not isinstance(value, str) or re.fullmatch(r"\d+(?:\.\d+)?", value):
        text = NUMBER.sub(
            lambda m: mask if normal(float(m.group().replace(",", ""))) == key else m.group(), text
        )
    if not isinstance(value, str):
        return text
    for name in domains.names_of(value):
        text = _put(name, mask, text)
    bare = value.lstrip("#@").rstrip(".")
    for form, flags in ((value, 0), (bare, 0), (value, re.I), (bare, re.I)):
        masked = _put(form, mask, text, flags) if len(form) > 1 else text
        if masked != text:
            return masked
    return text


def _put(form: str, mask: str, text: str, flags: int = 0) -> str:
    return re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", mask, text, flags=flags)
