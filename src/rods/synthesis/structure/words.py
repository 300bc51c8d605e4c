"""Plain words for values, parameters and tools, and the lists of words in `words.toml`.

noun("loan_id")                                         # "loan id"
alike_words()["trip"]                                   # ("journey", "tour")
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter

from rods.infra.files import toml_of
from rods.types import ToolSpec, Value

SLOT = re.compile(r"\{(\w+)\}")
"""A place in a template that takes a value."""
_VOWEL = re.compile(r"(?i)(?!uni|us[aeiu]|uti|eu|onc?e\b)[aeiou]|hour|hono|heir")
_ARTICLES = frozenset(["the", "a", "an", "its", "it", "their", "them", "all", "any", "one"])
_ID = re.compile(r" (?:ids?|codes?|numbers?|keys?|ref|no|nr)$")


def literal(value: Value, words: Mapping[str, str]) -> str:
    """A value as people say it."""
    if isinstance(value, list):
        items = [literal(item, words) for item in value] or ["nothing"]
        return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]
    if isinstance(value, dict):
        return literal([f"{noun(k)} {literal(v, words)}" for k, v in value.items()], words)
    text = str(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        text = str(int(value))
    return words.get(str(value), text)


def noun(parameter: str) -> str:
    """A parameter's name as words: `loan_id` and `loanId` become `loan id`."""
    split = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", parameter).replace("_", " ")
    return split.strip().lower()


def thing(parameter: str) -> str:
    """Return what a parameter stands for: `book` for `book_id`, else its name as words."""
    return _ID.sub("", noun(parameter))


def wholes(name: str) -> Iterator[str]:
    """A name and the names that it ends in: `to_room_id`, `room_id`, `id`."""
    yield name
    for match in re.finditer(r"(?<=[a-z0-9])(?:_+(?=.)|(?=[A-Z]))", name):
        yield name[match.end() :][:1].lower() + name[match.end() + 1 :]


def verb_of(spec: ToolSpec) -> str:
    """The word with which one orders what a tool does: `lend`."""
    return order_of(spec).partition(" ")[0]


def order_of(spec: ToolSpec) -> str:
    """The first sentence of a tool's description as one would order it."""
    text = re.sub(r".*?Tool description:\s*", "", spec.description, flags=re.S).strip()
    known = patterns("synthesis", "structure", "words.toml")
    text = known["about_tools"].sub("", re.sub(r"\s*\([^()]*\)|`|\*\*", "", text))
    sentence = known["sentence"].split(text or noun(spec.name))[0].rstrip(".!?")
    lead = "show " if known["article"].match(sentence) else "show the "
    for pattern, order in (("question", "tell me "), ("no_verb", lead)):
        if known[pattern].match(sentence):  # `Which buses serve a stop?`, `The status of a bus`
            sentence = order + sentence[0].lower() + sentence[1:]
    words = sentence.split() or [noun(spec.name)]
    verb = words[0].lower()
    words[0] = _imperative(verb)
    if words[0] != verb:  # `reports a damage and takes the car`: both are ordered
        for place in range(1, len(words) - 2):
            if words[place] in ("and", "then") and words[place + 2] in _ARTICLES:
                words[place + 1] = _imperative(words[place + 1])
    moves = {"return", "back"} & {*noun(spec.name).split()} or re.search(" to (an?|the) ", text)
    if words[0] == "return" and not moves:  # what a program returns, a user asks to see
        words[0] = "show"
    return SLOT.sub("", " ".join(words))


def _imperative(verb: str) -> str:
    """`returns` and `fetches` as one would order them."""
    if verb.endswith("ies") and len(verb) > 4:
        return verb[:-3] + "y"
    if re.search(r"(ch|sh|ss|x|zz)es$", verb):
        return verb[:-2]
    return verb[:-1] if verb.endswith("s") and not verb.endswith("ss") else verb


@dataclass(frozen=True)
class WordLists:
    """The lists of `words.toml`."""

    first_names: tuple[str, ...]
    surnames: tuple[str, ...]
    nouns: tuple[str, ...]
    extensions: tuple[str, ...]
    greetings: tuple[str, ...]
    connectors: tuple[str, ...]
    closings: tuple[str, ...]
    openers: tuple[tuple[str, ...], ...]
    alike: tuple[tuple[str, ...], ...]
    """Words that make sense in each other's place."""


@functools.cache
def word_lists() -> WordLists:
    """The lists that are shipped."""
    return TypeAdapter(WordLists).validate_python(toml_of("synthesis", "structure", "words.toml"))


@functools.cache
def patterns(*where: str, table: str = "patterns") -> Mapping[str, re.Pattern[str]]:
    """The `[patterns]` of a file; `<name>` in one stands for the text of that name in the file."""
    data = toml_of(*where)
    found: dict[str, str] = data.pop(table)
    known = re.compile(f"<({'|'.join(name for name in data if isinstance(data[name], str))})>")
    for _ in range(4):  # one text may have another one in it
        found = {name: known.sub(lambda m: data[m[1]], text) for name, text in found.items()}
    return {name: re.compile(text) for name, text in found.items()}


@functools.cache
def alike_words() -> Mapping[str, tuple[str, ...]]:
    """Each word to those of its group that take the same article, in the same number."""
    listed = word_lists().alike
    plurals = ([_plural(word) for word in group if not word.endswith("s")] for group in listed)
    groups = [*listed, *plurals]
    sound = {word: article(word) for group in groups for word in group}
    return {w: tuple(o for o in g if o != w and sound[o] == sound[w]) for g in groups for w in g}


def _plural(word: str) -> str:
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("ch", "sh", "x")) else "s")


def family(name: str) -> str:
    """Return what the family of this name is called: the Novaks, the Hugheses."""
    return name + ("es" if name.endswith(("s", "x", "z", "ch", "sh")) else "s")


def article(word: str) -> str:
    """Return `a` or `an`, as a noun phrase sounds: a unit, an hour."""
    return "an" if _VOWEL.match(word) else "a"
