"""Text that a model wrote, made fit for UTF-8: half characters (unpaired surrogates).

Owns what becomes of them: JSON keeps them as escapes, worlds read U+FFFD in their place, and files
that people give are refused, since no other program could have written them as text.

    whole(ToolCall("cat", {"file_name": "a\\ud800"}))       # cat(file_name='a\\ufffd')
    json_text({"a": "\\ud800"})                             # '{"a": "\\\\ud800"}'
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isfinite
from textwrap import TextWrapper
from typing import cast
from urllib.parse import SplitResult, urlsplit

from rods.errors import RodsError
from rods.infra.pycall import MAX_BITS
from rods.types import ToolCall, Value

_FLAT = frozenset({int, float, bool, type(None)})  # most of what there is, and nothing in it
WIDTH = 120
"""Most characters of a line where there is no terminal."""
DEEPEST = 150  # levels of a row of a file; what copies and compares it recurses
TOO_DEEP = f"a value is nested more than {DEEPEST} deep. Flatten it, or write it as a text"
_PLAIN = TextWrapper(WIDTH, "", "  ", break_long_words=False, break_on_hyphens=False)


def counted(number: int, noun: str) -> str:
    """`1 update`, `2 updates`, `2 trajectories`, `2 tries`."""
    many = f"{noun[:-1]}ies" if noun.endswith(("ory", "try")) else f"{noun}s"
    return f"{number} {noun if number == 1 else many}"


def wrapped(text: str) -> str:
    """The text in lines of at most `WIDTH` characters; a longer word stays whole."""
    return "\n".join(map(_PLAIN.fill, text.split("\n")))


def excerpt(words: object) -> str:
    """Words of a server on one line, at most 300 characters, for a message."""
    line = " ".join(str(words).split())
    return line if len(line) <= 300 else f"{line[:299]}\u2026"


def address_of(url: str) -> SplitResult | None:
    """The parts of a server's address; None if it is none, such as one with the port 99999."""
    try:
        parts = urlsplit(url.strip())
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # the port is not a number, or too large
        return None
    return parts if usable else None


def quoted(path: object) -> str:
    """A path as a command to paste has it: in quotes where a shell would split it."""
    return shlex.quote(str(path))


def encoded(text: str) -> bytes:
    """The text as UTF-8; of a half character the escape that Python and JSON write."""
    return text.encode("utf-8", "backslashreplace")


def json_text(value: object, allow_nan: bool = True) -> str:
    """JSON as text that UTF-8 can hold; `json.loads` gives an equal value back."""
    return encoded(json.dumps(value, ensure_ascii=False, allow_nan=allow_nan)).decode()


def by_value(text: str) -> str:
    """Key that texts of equal JSON share: order of keys and `1.0` for `1` do not count.

    True is not 1, and "1" is not 1. Text that is no JSON, or names a key twice, is itself.
    """

    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if len(found := dict(pairs)) < len(pairs):
            raise ValueError("a key stands twice")
        return found

    def number(text: str) -> float:
        return int(real) if (real := float(text)).is_integer() else real

    try:
        value = json.loads(text, object_pairs_hook=once, parse_float=number)
        return json.dumps(value, sort_keys=True, allow_nan=False)
    except (ValueError, RecursionError):
        return text


def same_value(one: object, other: object) -> bool:
    """True if plain values are equal as in `by_value`: unlike with `==`, True is not 1."""
    if one != other:
        return False
    if isinstance(one, Mapping):
        ours, theirs = (
            {(isinstance(key, bool), key): value for key, value in side.items()}
            for side in cast("tuple[Mapping[object, object], ...]", (one, other))
        )
        return ours.keys() == theirs.keys() and all(same_value(ours[k], theirs[k]) for k in ours)
    if isinstance(one, list) and isinstance(other, list):
        return all(map(same_value, one, other))
    return isinstance(one, bool) == isinstance(other, bool)


def require_whole(row: object, where: str, error: type[RodsError]) -> None:
    """Raise `error` for a row, found at `where`: half a character, NaN, infinity, or too deep."""
    if sum(1 for _ in levels(row)) > DEEPEST:
        raise error(f"{where}: {TOO_DEEP}.")
    try:
        json.dumps(row, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as fault:
        half = fault.object[fault.start]
        near = fault.object[max(0, fault.start - 20) : fault.start]
        raise error(
            f"{where}: half a character ({half!a}, a surrogate without its other half) stands "
            f"after {near!r}. No text can hold it: correct it, or remove the row."
        ) from fault
    except ValueError as fault:
        how = "Write null or a text, or remove the row."
        what = "a number is NaN or infinite, and JSON has no NaN and no infinity"
        raise error(f"{where}: {what}. {how}") from fault


def inside(value: object) -> tuple[list[str], Iterable[object]]:
    """The texts of a value itself, names and keys among them, and the values within it."""
    if isinstance(value, str):
        return [value], ()
    if isinstance(value, ToolCall):
        return [value.name, *value.arguments], value.arguments.values()
    if isinstance(value, Mapping):
        items: Mapping[str, object] = value
        return [*items], items.values()
    return [], value if isinstance(value, list) else ()


def levels(value: object) -> Iterator[list[object]]:
    """A value, then what is in it, level by level; however deep, no stack is exhausted."""
    level = [value]
    while level:
        yield level
        level = [item for one in level if type(one) not in _FLAT for item in inside(one)[1]]


def size_of(value: object) -> int:
    """Characters of a value's texts and keys, and one more for each value in it."""
    every = [one for level in levels(value) for one in level]
    return len(every) + sum(sum(map(len, inside(o)[0])) for o in every if type(o) not in _FLAT)


def has_numbers_of_json(value: object) -> bool:
    """True if JSON can say every number in a value: finite ones that are not too long."""
    numbers = (one for level in levels(value) for one in level if isinstance(one, int | float))
    return all(n.bit_length() <= MAX_BITS if isinstance(n, int) else isfinite(n) for n in numbers)


def whole_text(text: str) -> str:
    """The text with U+FFFD for each half character; two halves that belong together are joined."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def whole(call: ToolCall, change: Callable[[str], str] = whole_text) -> ToolCall:
    """A call as every world, here or elsewhere, is given it: names and texts have whole characters.

    Without it a service would refuse what a world in this process accepts.
    """
    given = {change(key): with_texts(item, change) for key, item in call.arguments.items()}
    return ToolCall(change(call.name), given)


def with_texts(value: Value, change: Callable[[str], str]) -> Value:
    """A value with all of its texts changed, keys and names of calls included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [with_texts(item, change) for item in value]
    if isinstance(value, ToolCall):
        return whole(value, change)
    if isinstance(value, dict):
        return {change(key): with_texts(item, change) for key, item in value.items()}
    return value
