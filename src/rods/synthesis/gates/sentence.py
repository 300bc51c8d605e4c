"""Compares two messages as sentences, with a private character (a mask) for each value.

Owns the forms of a value in a text, phrases that mean the same, and whether a changed value is
computed or composed of others as its model is.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple, TypeAlias, TypeGuard, cast

from rods.synthesis.gates.case import TurnFacts
from rods.synthesis.structure.domains import Domains
from rods.synthesis.structure.mentions import find_dates, iso
from rods.synthesis.structure.sources import AMOUNT_WORD, NUMBER, amount, normal, numbers_listed
from rods.synthesis.structure.trace import Leaf, Path, Scalar, leaves
from rods.synthesis.structure.words import word_lists

NEAR = 1e-4
"""Tolerance of computed numbers."""
Pair: TypeAlias = tuple[Scalar, Scalar]
"""A value of the human task, and the variant's in its place."""


def is_number(value: Scalar) -> TypeGuard[int | float]:
    """Tell whether it is a number and not a truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def leaf_pairs(theirs: Sequence[Leaf], mine: Sequence[Leaf]) -> Iterator[Pair]:
    """Scalars at the same paths of two values."""
    there = {leaf.path: leaf.value for leaf in mine}
    return ((x.value, there[x.path]) for x in theirs if x.path in there)


def side_by_side(theirs: object, mine: object) -> Iterator[Pair]:
    """Names and values in the same places of two configurations, whose names may differ."""
    if isinstance(theirs, dict) and isinstance(mine, dict):
        rows = [list(node.items()) for node in (theirs, mine)]
        if len(rows[0]) != len(rows[1]) or theirs.keys() == mine.keys():
            rows = [[row for row in node if row[0] in mine and row[0] in theirs] for node in rows]
            rows = [sorted(node, key=lambda row: row[0]) for node in rows]
        for (name, inner), (other, there) in zip(*rows, strict=True):
            yield name, other
            yield from side_by_side(inner, there)
    elif isinstance(theirs, list) and isinstance(mine, list):
        for pair in zip(theirs, mine, strict=False):
            yield from side_by_side(*pair)
    elif not isinstance(theirs, dict | list) and not isinstance(mine, dict | list):
        yield cast("Scalar", theirs), cast("Scalar", mine)


def computed(old: float, new: float, pairs: Sequence[Pair]) -> bool:
    """Tell whether a number comes from the variant's numbers as another one from the model's.

    It is one of them rounded or inside a text, or what one is short of another.
    """
    digits = len(repr(old).partition(".")[2]) if isinstance(old, float) else 0
    known = set(_numbers(pairs))
    if any(round(a, digits) == old and round(b, digits) == new for a, b in known):
        return True
    return any(
        abs(a - less - old) < NEAR and abs(b - fewer - new) < NEAR
        for a, b in known
        for less, fewer in known
    )


def _numbers(pairs: Iterable[Pair]) -> Iterator[tuple[float, float]]:
    """Pairs of numbers, those inside texts by their place among the text's numbers."""
    for old, new in pairs:
        if is_number(old) and is_number(new):
            yield float(old), float(new)
        elif isinstance(old, str) and isinstance(new, str):
            texts = numbers_listed(old), numbers_listed(new)
            if len(texts[0]) == len(texts[1]):
                yield from zip(*texts, strict=True)


def composed(old: str, new: str, pairs: Sequence[Pair]) -> bool:
    """Tell whether a text is another one with the variant's values in place of the model's."""
    old, new = (NUMBER.sub(lambda m: normal(m.group().replace(",", "")), t) for t in (old, new))
    known: dict[str, set[str]] = {}
    for theirs, mine in (*pairs, *_numbers(pairs)):
        if str(theirs) in old and len(str(theirs)) > 1:
            known.setdefault(str(theirs), set()).add(str(mine))
    forms = "|".join(re.escape(x) for x in sorted(known, key=len, reverse=True))
    parts = re.split(rf"(?<!\w)({forms})(?!\w)", old) if known else [old]
    either = [
        "|".join(map(re.escape, sorted(known[part]))) if number % 2 else re.escape(part)
        for number, part in enumerate(parts)
    ]
    return re.fullmatch("".join(f"(?:{text})" for text in either), new) is not None


MASKS = 0xE000
"""First of the private characters that stand for values."""
MASK = re.compile("[\ue000-\uefff]")


class Role(NamedTuple):
    """One scalar argument of the calls that a message asks for."""

    call: int
    name: str
    path: Path


def roles_of(turn: TurnFacts) -> dict[Role, Scalar]:
    """The scalar arguments of the calls that a message asks for."""
    return {
        Role(number, name, leaf.path): leaf.value
        for number, step in enumerate(turn.steps.values())
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
        if domains.number_words:
            text = AMOUNT_WORD.sub(lambda m: mask if normal(amount(m[0])) == key else m[0], text)
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


LONGER = 2
"""Words by which what stands in the place of other words may be longer: a name of two words."""
_neutral = "please well oh so now then also and okay ok just a an"
NEUTRAL = frozenset(_neutral.split())
"""Words that may be missing or added."""
PHRASES = 0xF000
"""First of the private characters that stand for phrases that mean the same."""
_TOKEN = re.compile("[\ue000-\uf8ff]|[\\w@#$€£%&+/\u2019'-]+(?:\\.[\\w/]+)*")


@functools.cache
def _same_phrases() -> tuple[re.Pattern[str], Mapping[str, str]]:
    """A pattern of all phrases, and each one's character; groups with a common phrase are one."""
    found: dict[str, str] = {}
    for number, group in enumerate(word_lists().openers):
        phrases = [phrase.lstrip("=").lower() for phrase in group]
        known = {found[phrase] for phrase in phrases if phrase in found}
        mark = min(known, default=chr(PHRASES + number))
        found.update(dict.fromkeys(phrases, mark))
        found = {phrase: mark if old in known else old for phrase, old in found.items()}
    body = "|".join(re.escape(p) for p in sorted(found, key=len, reverse=True))
    return re.compile(rf"(?<![\w'])(?:{body})(?![\w'])", re.I), found


def meanings(token: str) -> set[str]:
    """Return what a token can stand for: the phrases of a mark, or the word itself."""
    return {phrase for phrase, mark in _same_phrases()[1].items() if mark == token} or {token}


def is_phrase(value: Scalar) -> bool:
    """Tell whether a value is one of the phrases of which another one could mean the same."""
    return isinstance(value, str) and value.lower() in _same_phrases()[1]


def phrased(text: str) -> str:
    """A text in which phrases that mean the same are the same."""
    pattern, known = _same_phrases()
    short = re.sub(r"\bI am\b", "I'm", text)  # a phrase may be listed in one form alone
    return pattern.sub(lambda match: known[match.group().lower()], short)


def uncourteous(text: str, model: str) -> str:
    """A message without the greeting and the thanks that its model has not."""
    lists = word_lists()
    for lead in (*lists.greetings, *lists.connectors):
        if text.startswith(f"{lead} ") and not model.startswith(f"{lead} "):
            text = text[len(lead) + 1 :]
            break
    for tail in lists.closings:
        if text.endswith(f" {tail}") and not model.endswith(f" {tail}"):
            return text[: -len(tail) - 1]
    return text


Words = Callable[[Sequence[str], Sequence[str]], bool]
"""True if some words, which are no values of the turn's calls, may stand in the place of others."""


def likeness(old: str, new: str, alike: Mapping[str, set[str]]) -> float:
    """Share of two masked messages that is the same; 1 where one stands within the other."""
    before, _, renamed = _tokens(old, new, alike)
    matcher = difflib.SequenceMatcher(None, before, renamed, autojunk=False)
    same = sum(block.size for block in matcher.get_matching_blocks())
    return 1.0 if same == len(before) > 2 else matcher.ratio()


def _tokens(
    old: str, new: str, alike: Mapping[str, set[str]]
) -> tuple[list[str], list[str], list[str]]:
    """The tokens of both texts, and those of the second one with the masks of the first."""
    before, after = (_TOKEN.findall(text.lower()) for text in (old, new))
    return before, after, [min(alike.get(token, {token})) for token in after]


def differs(old: str, new: str, alike: Mapping[str, set[str]], may: Words) -> str | None:
    """Where two masked texts say different things; None: what is replaced means the same."""
    before, after, renamed = _tokens(old, new, alike)
    matcher = difflib.SequenceMatcher(None, before, renamed, autojunk=False)
    if 2 * sum(block.size for block in matcher.get_matching_blocks()) < len(before):
        return f"it says {_shown(after)} where its model says {_shown(before)}"
    for kind, i, j, k, m in matcher.get_opcodes():
        gone, come = before[i:j], after[k:m]
        if kind == "equal" or _fit(gone, come, alike, may):
            continue
        if come:
            return f"it says {_shown(come)} where its model says {_shown(gone)}"
        return f"it leaves out {_shown(gone)}, which its model says"
    return None


def _fit(
    gone: Sequence[str], come: Sequence[str], alike: Mapping[str, set[str]], may: Words
) -> bool:
    """Tell whether values stand for values of the same arguments, and words for words that may."""
    if len(gone) == len(come):
        pairs = [(a, b) for a, b in zip(gone, come, strict=True) if a not in alike.get(b, {b})]
        gone, come = [a for a, _ in pairs], [b for _, b in pairs]
    if any(MASK.fullmatch(token) for token in (*gone, *come)):
        return False
    if not gone and not come:
        return True
    return abs(len(come) - len(gone)) <= LONGER and may(gone, come)


def _shown(words: Sequence[str]) -> str:
    """Words for people; a mask is a value."""
    plain = [word for word in words if not "\uf000" <= word <= "\uf8ff"]
    texts = ["(a value)" if MASK.fullmatch(word) else word for word in plain]
    return repr(" ".join(texts)) if texts else "nothing"
