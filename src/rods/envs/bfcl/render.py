"""Results of calls as text: what `json.dumps` writes, sooner.

Owns the writing of dictionaries, which is most of the time that a world of long context takes.
Never changes a character of what the benchmark shows.

    json_text({"result": 3})                                # '{"result": 3}'
"""

from __future__ import annotations

import functools
import json
import marshal
from collections.abc import Callable, Iterable
from typing import Any

_LONG = 200
"""Items from which a list's text is remembered."""


def _chunks() -> Callable[[Any, bool], Iterable[str]]:
    """What `json.dumps` makes again for each of its calls, where Python has it in C."""
    make: Callable[..., Any] | None = getattr(json.encoder, "c_make_encoder", None)
    plain = json.JSONEncoder(check_circular=False)
    if make is None:
        return plain.iterencode
    text = json.encoder.encode_basestring_ascii
    return make(None, plain.default, text, None, ": ", ", ", False, False, True)


_json_chunks = _chunks()


def json_text(result: dict[Any, Any]) -> str:
    """As `json.dumps` writes it, or as `str` where it cannot."""
    try:
        if list in map(type, result.values()):
            return _json_of_lists(result)
        return "".join(_json_chunks(result, False))
    except (TypeError, ValueError, RecursionError):
        return str(result)


def _json_of_lists(result: dict[Any, Any]) -> str:
    """Long lists are the fillers of long context, which come again and again."""
    long = any(type(value) is list and len(value) >= _LONG for value in result.values())
    if not long or not all(type(key) is str for key in result):
        return "".join(_json_chunks(result, False))
    items = (f"{json.dumps(key)}: {_json_of(value)}" for key, value in result.items())
    return "{" + ", ".join(items) + "}"


def _json_of(value: Any) -> str:
    if type(value) is list and len(value) >= _LONG:
        try:
            packed = marshal.dumps(value, 2)
        except ValueError:  # something in it is not plain data
            return json.dumps(value)
        return _text_of(packed)
    return json.dumps(value)


@functools.lru_cache(maxsize=64)
def _text_of(packed: bytes) -> str:
    """By the exact value: 1, 1.0 and True are equal but are written differently."""
    return json.dumps(marshal.loads(packed))
