"""What a language model's text holds once the talk around it is taken away.

Owns the removal of thinking and the search for JSON in prose. It fixes only what has one meaning
(a trailing comma, a raw line break in a string), guesses nothing, and never evaluates text.

    find_json('<think>hm</think> Here you are: {"a": [1, 2,]}')  # {"a": [1, 2]}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import cast

from rods.types import Json

_THINKING = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.IGNORECASE | re.DOTALL)
_CLOSING = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_FENCE = re.compile(r"```[\w+-]*[ \t]*\n(.*?)```", re.DOTALL)
_TRAILING = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', re.DOTALL)
_START = re.compile(r"""\{(?=\s*["'}])|\[(?=\s*["'\d{\[\]tfn-])""")
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\]]', re.DOTALL)


def strip_thinking(text: str) -> str:
    """The answer without its thinking; thinking that never ends leaves nothing behind it."""
    # The prompt of some models holds the opening tag: all before a lone closing one is thinking.
    return _CLOSING.split(_THINKING.sub("", text))[-1].strip()


def find_json(text: str) -> Json | None:
    """The JSON of a text: all of it, its last fenced block, or the longest object or list in it.

    A cut or broken object gives None, never one of its parts.
    """
    text = strip_thinking(text)
    for candidate in (text, *reversed(_FENCE.findall(text))):
        found, value = _parsed(candidate)
        if found:
            return value
    best, length = None, 0
    for span in _spans(text):
        found, value = _parsed(span)
        if found and len(span) >= length:
            best, length = value, len(span)
    return best


def _parsed(text: str) -> tuple[bool, Json]:
    for form in (text, _TRAILING.sub(lambda match: match.group(1) or "", text)):
        try:
            value = cast("Json", json.loads(form, strict=False, parse_constant=_refuse))
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is not text
        except (ValueError, RecursionError):
            continue
        return True, value
    return False, None


def _refuse(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


def _spans(text: str) -> Iterator[str]:
    """Balanced objects and lists, outermost only; nothing after one that is never closed."""
    place = 0
    while found := _START.search(text, place):
        depth = 0
        for token in _TOKEN.finditer(text, start := found.start()):
            depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token.group(), 0)
            if depth == 0:
                yield text[start : (place := token.end())]
                break
        else:
            return
