"""What values, parameters and tools are called in plain words, where nobody wrote templates.

Owns these words alone. Never words a message.

    noun("loan_id")                                         # "loan id"
    verb_of(spec)                                           # "lend"
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rods.types import ToolSpec, Value

SLOT = re.compile(r"\{(\w+)\}")
"""A place in a template that takes a value."""
_ID = re.compile(r" (?:ids?|codes?|numbers?|keys?|ref)$")


def literal(value: Value, words: Mapping[str, str]) -> str:
    """A value as people say it."""
    if isinstance(value, list):
        items = [literal(item, words) for item in value] or ["nothing"]
        return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]
    if isinstance(value, dict):
        return literal(
            [f"{noun(key)} {literal(item, words)}" for key, item in value.items()], words
        )
    text = str(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        text = str(int(value))
    return words.get(str(value), text)


def noun(parameter: str) -> str:
    """A parameter's name as words: `loan_id` and `loanId` become `loan id`."""
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", parameter).replace("_", " ")
    return parted.strip().lower()


def thing(parameter: str) -> str:
    """What a parameter stands for: `book` for `book_id`, else its name as words."""
    return _ID.sub("", noun(parameter))


def verb_of(spec: ToolSpec) -> str:
    """The word with which one orders what a tool does: `lend`."""
    return order_of(spec).partition(" ")[0]


def order_of(spec: ToolSpec) -> str:
    """The first sentence of a tool's description as one would order it."""
    text = re.sub(r".*?Tool description:\s*", "", spec.description, flags=re.S).strip()
    sentence = re.split(r"(?<=[.!?])\s|\n|[:;] ", text or noun(spec.name))[0].rstrip(".!?")
    words = sentence.split() or [noun(spec.name)]
    words[0] = _imperative(words[0].lower())
    return SLOT.sub("", " ".join(words))


def _imperative(verb: str) -> str:
    """`returns` and `fetches` as one would order them."""
    if verb.endswith("ies") and len(verb) > 4:
        return verb[:-3] + "y"
    if re.search(r"(ch|sh|ss|x|zz)es$", verb):
        return verb[:-2]
    if verb.endswith("s") and not verb.endswith("ss"):
        return verb[:-1]
    return verb
