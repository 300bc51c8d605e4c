"""Messages made wrong by a word: they run, replay, say their values and ask for another thing.

Each one takes a `Subject` and a source of chance and gives a broken task, or None where it does not
apply. None of them knows any gate, and their lists are not those of the gates. A word of a clause
that names nothing of a call is none of its words: `the open road` contradicts no call when it
becomes `the close road`. Words of other tools stand in the form of the words that they replace, as
a writer that mistakes the tool would write them: `canceling` becomes `placing`, not `place`.

    MISWORDED["opposite"](subject, random.Random(3))        # Task | None
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from altered import asked
from mutants import Break, Subject
from rods.task import Task
from rods.types import ToolSpec
from synthesis_cases import with_turn

MISWORDED: dict[str, Break] = {}

UNITS = (
    "gallon liter|gallons liters|litre gallon|litres gallons",
    "mile kilometer|miles kilometers|miles meters|km miles|meters feet",
    "dollar euro|dollars euros|dollars yen|usd eur|euros dollars|euro dollar|$ €|$ £|gbp usd",
    "psi bar|kpa psi|celsius fahrenheit|hours minutes|minutes hours",
)
OPPOSITES = (
    "lock unlock|locked unlocked|confirm cancel|cancel confirm|canceled confirmed|added removed",
    "follow unfollow|add remove|remove add|adding removing|start stop|starting stopping",
    "buy sell|sell buy|purchase sell|purchasing selling|open close|close open|opening closing",
    "activate deactivate|engage release|press release|increase decrease|deposit withdraw",
    "withdraw deposit|highest lowest|lowest highest|most least|book cancel|booking cancelling",
    "send delete|create delete|create close|delete create|fill empty|filling draining",
    "copy delete|move copy|duplicate delete|resolve reopen|ascending descending|above below",
    "below above|enable disable|import export|save discard|maximum minimum|largest smallest",
    "latest oldest|arrival departure|multiply divide|subtract add|sum difference|write erase",
    "include exclude|public private|accept decline|display hide|show hide|find lose|join leave",
    "upload download|retrieve discard|cancelled booked",
)
WIDER = (
    "{} And the others too.",
    "{} Do the same for all the other ones.",
    "{} Then do it for everything else as well.",
    "{} The rest, too, please.",
    "{} Please also handle the remaining ones in the same way.",
    "{} And repeat that for each of the others.",
)
NARROWER = (
    "{} But leave out the last one.",
    "{} All but the first one, that is.",
    "{} Except for the second half of it.",
)
_WORD = re.compile(r"[A-Za-z']+")


def miswording(name: str) -> Callable[[Break], Break]:
    def register(function: Break) -> Break:
        MISWORDED[name] = function
        return function

    return register


def _pairs(rows: Sequence[str]) -> list[tuple[str, str]]:
    pairs = [tuple(pair.split()) for row in rows for pair in row.split("|")]
    return [(a, b) for a, b in pairs]


def _sayings(subject: Subject) -> Iterator[tuple[int, str, list[tuple[int, int]]]]:
    """Messages that calls answer, with the places of what is quoted or a call's value."""
    for index, mine in asked(subject.task):
        text = subject.task.turns[index].user
        if not mine and not subject.facts.turns[index].asked:
            continue
        values = [str(s.value) for s in mine if isinstance(s.value, str) and len(s.value) > 2]
        spans = [
            m.span()
            for m in re.finditer(r"(?<!\w)'[^']{1,300}'(?!\w)|\"[^\"]{1,300}\"|`[^`]*`", text)
        ]
        spans += [m.span() for v in values for m in re.finditer(re.escape(v), text, re.I)]
        yield index, text, spans


def _exchanged(
    subject: Subject,
    rng: random.Random,
    pairs: Sequence[tuple[str, str]],
    every: bool = True,
    acts: bool = False,
) -> Task | None:
    """One word by its fellow, wherever a message says it outside of values.

    `acts`: only in clauses that speak of a call.
    """
    options: list[tuple[int, str, str]] = []
    for index, text, spans in _sayings(subject):
        for old, new in pairs:
            edge = r"(?<!\w){}(?!\w)" if old[0].isalpha() else "{}"
            found = [
                m.span()
                for m in re.finditer(edge.format(re.escape(old)), text, re.I)
                if not any(a <= m.start() < b for a, b in spans)
                and (not acts or _is_about_a_call(subject, index, text, m, spans))
            ]
            if found and not re.search(rf"(?<!\w){re.escape(new)}(?!\w)", text, re.I):
                for a, b in reversed(found if every else found[:1]):
                    text_of = new.capitalize() if text[a].isupper() else new
                    text_new = text[:a] + text_of + text[b:]
                    options.append((index, text_new, new))
                    if every:
                        text = text_new
                if every:
                    options = [*options[: -len(found)], options[-1]]
                    text = subject.task.turns[index].user
    if not options:
        return None
    index, user, _ = rng.choice(options)
    return with_turn(subject.task, index, dataclasses.replace(subject.task.turns[index], user=user))


_CLAUSE_END = re.compile(r"[.!?;:,\n\u2014]|\b(?:and|but|so|then|to|before|after|if|that)\b", re.I)
_DETERMINED = re.compile(r"\b(?:an?|the|this|that|these|those|my|your|our|its|their)\s+$", re.I)


def _is_about_a_call(
    subject: Subject, index: int, text: str, match: re.Match[str], spans: list[tuple[int, int]]
) -> bool:
    """Whether the word is no noun and its clause has a value or another word of a call."""
    if match[0].lower().endswith("ing") and _DETERMINED.search(text[: match.start()]):
        return False
    ends = [m for m in _CLAUSE_END.finditer(text) if not any(a <= m.start() < b for a, b in spans)]
    start = max((m.end() for m in ends if m.end() <= match.start()), default=0)
    end = min((m.start() for m in ends if m.start() >= match.end()), default=len(text))
    if any(start <= a < end for a, _ in spans):
        return True
    acts, things = set[str](), set[str]()
    for call in subject.facts.turns[index].asked:
        spec = subject.facts.specs[call.name]
        says = spec.description.rpartition("description:")[2].partition(". ")[0]
        acts |= {*_parts(call.name), *(word.lower() for word in _WORD.findall(says))}
        things |= {part for name in spec.properties for part in _parts(name)}
    others = [m[0] for m in _WORD.finditer(text, start, end) if m.span() != match.span()]
    named = any(_same_stem(match[0], part) for part in acts if len(part) > 3)
    known = [part for part in acts | things if len(part) > 3]
    return named or any(_same_stem(word, part) for word in others for part in known)


@miswording("another unit or currency")
def another_unit(subject: Subject, rng: random.Random) -> Task | None:
    pairs = _pairs(UNITS)
    return _exchanged(subject, rng, [*pairs, *((b, a) for a, b in pairs)])


@miswording("opposite")
def opposite(subject: Subject, rng: random.Random) -> Task | None:
    return _exchanged(subject, rng, _pairs(OPPOSITES), acts=True)


def _parts(name: str) -> list[str]:
    return [p.lower() for p in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name) if len(p) > 2]


def _same_stem(word: str, part: str) -> bool:
    word = word.lower()
    return word == part or (len(part) > 3 and word.startswith(part[: max(4, len(part) - 2)]))


_NO_NOUNS = frozenset(["from", "based", "sent", "current", "with", "for", "and", "the"])


def _inflected(word: str, old: str, part: str) -> str | None:
    """A verb or a noun in the form in which a text has another one; None: it is no form of it."""
    form, stem = old.lower(), part.removesuffix("e")
    if form == part:
        return word
    for ending in ("ing", "ed", "s"):
        if not form.endswith(ending):
            continue
        root = form.removesuffix(ending)
        if root not in (part, stem, part + part[-1]):
            return None
        if ending == "s":
            return word if word.endswith("s") else word + "s"
        return word.removesuffix("e").removesuffix("s") + ending
    return None


def _is_verb(spec: ToolSpec) -> bool:
    """Whether the first word of its name is what its description begins with."""
    says = _WORD.findall(spec.description.rpartition("description:")[2])
    parts = _parts(spec.name)  # `ls` has no word
    return bool(says and parts) and _same_stem(says[0], parts[0])


def _renamed(subject: Subject, rng: random.Random, verbs: bool) -> Task | None:
    """A word that names a called tool becomes the word at its place in another tool's name."""
    specs = subject.facts.specs
    options: list[tuple[int, str]] = []
    for index, text, spans in _sayings(subject):
        called = {call.name for call in subject.facts.turns[index].asked}
        known = {p for name in called for p in _parts(name)} | _NO_NOUNS
        others = sorted(
            {
                part
                for other, spec in specs.items()
                for place, part in enumerate(_parts(other))
                if other not in called and (place == 0) == verbs and part not in known
                if not verbs or _is_verb(spec)
            }
        )
        for name in sorted(called):
            parts = _parts(name)
            if verbs and not _is_verb(specs[name]):
                continue
            for part in parts[:1] if verbs else parts[1:]:
                for m in _WORD.finditer(text):
                    inside = any(a <= m.start() < b for a, b in spans)
                    noun = verbs and _DETERMINED.search(text[: m.start()])
                    if not others or inside or noun or _inflected(part, m[0], part) is None:
                        continue
                    new = _inflected(rng.choice(others), m[0], part)
                    options.append((index, text[: m.start()] + str(new) + text[m.end() :]))
    if not options:
        return None
    index, user = rng.choice(options)
    return with_turn(subject.task, index, dataclasses.replace(subject.task.turns[index], user=user))


@miswording("another tool's verb")
def another_verb(subject: Subject, rng: random.Random) -> Task | None:
    return _renamed(subject, rng, verbs=True)


@miswording("another tool's noun")
def another_noun(subject: Subject, rng: random.Random) -> Task | None:
    return _renamed(subject, rng, verbs=False)


@miswording("another option")
def another_option(subject: Subject, rng: random.Random) -> Task | None:
    """A listed option that the message says becomes another one of its list."""
    pairs: list[tuple[str, str]] = []
    for call in subject.facts.calls:
        properties: Mapping[str, dict[str, object]] = subject.facts.specs[call.name].properties  # type: ignore[assignment]
        for name, value in call.arguments.items():
            listed = properties[name].get("enum") or re.findall(
                r'"(\w+)"', str(properties[name].get("description", ""))
            )
            if isinstance(value, str) and isinstance(listed, list) and value in listed:
                pairs += [(value, str(o)) for o in listed if isinstance(o, str) and o != value]
    options: list[tuple[int, str]] = []
    for index, _ in asked(subject.task):
        text = subject.task.turns[index].user
        for old, new in pairs:
            user = re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", new, text, flags=re.I)
            if user != text and len(old) > 2:
                options.append((index, user))
    if not options:
        return None
    index, user = rng.choice(options)
    return with_turn(subject.task, index, dataclasses.replace(subject.task.turns[index], user=user))


@miswording("exchanged messages")
def exchanged_messages(subject: Subject, rng: random.Random) -> Task | None:
    task = subject.task
    names = {i: [c.name for c in subject.facts.turns[i].asked] for i, mine in asked(task) if mine}
    pairs = [(i, j) for i in names for j in names if i < j and set(names[i]) != set(names[j])]
    if not pairs:
        return None
    i, j = rng.choice(pairs)
    first = dataclasses.replace(task.turns[i], user=task.turns[j].user)
    second = dataclasses.replace(task.turns[j], user=task.turns[i].user)
    return with_turn(with_turn(task, i, first), j, second)


def _added(subject: Subject, rng: random.Random, forms: Sequence[str]) -> Task | None:
    found = [(index, text) for index, text, _ in _sayings(subject)]
    if not found:
        return None
    index, text = rng.choice(found)
    user = rng.choice(forms).format(text)
    return with_turn(subject.task, index, dataclasses.replace(subject.task.turns[index], user=user))


@miswording("and the others too")
def wider(subject: Subject, rng: random.Random) -> Task | None:
    return _added(subject, rng, WIDER)


@miswording("but not the last one")
def narrower(subject: Subject, rng: random.Random) -> Task | None:
    return _added(subject, rng, NARROWER)


NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "dozen")


@miswording("another number word")
def number_word(subject: Subject, rng: random.Random) -> Task | None:
    return _exchanged(subject, rng, [(a, b) for a in NUMBERS for b in NUMBERS if a != b])


def misword(subject: Subject, name: str, number: int) -> Task | None:
    """A broken copy that is not the variant itself."""
    rng = random.Random(f"{name}:{subject.task.id}:{number}")
    broken = MISWORDED[name](subject, rng)
    return broken if broken is not None and broken.turns != subject.task.turns else None
