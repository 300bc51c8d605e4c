"""Thoughts, fences and tags around calls: what opens something, and what is only mentioned.

Owns the one rule by which a tag in a text is a mention: it is quoted, or it stands amid the words
of a line and its pair holds nothing. Never reads calls. Takes time in proportion to the text.

    >>> next_tag("Put it into the <tool_call> tag.", "tool_call")
"""

from __future__ import annotations

import re
from functools import cache

_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_FENCE = re.compile(r"```[ \t]*\w*[ \t\r]*(?=[\n\[{<])")
_WORD_AFTER = re.compile(r"[ \t]+\w|[ \t]*[.,;:)?!<…/]|-\w|'s ")
_PAIRS = ("**", "__", "~~", "||", "[]", "{}", "<>", "«»", "‘’", "„“", "””", "「」")  # noqa: RUF001
"""What stands on both sides of a tag that is named."""
_HELD = re.compile(r"\s*(?:```[ \t]*\w*\s*)?[{\[<]")
_JOINED = re.compile(r"\s*(?:and|or|to|/|,|-|\.\.\.|…)?\s*")
_WINDOW = 200
"""Characters of a line before and after a tag that are looked at."""


def without_thought(text: str) -> str:
    """The text after a thought that it starts with, without blanks around it."""
    return _THOUGHT.sub("", text, count=1).strip()


def unfence(text: str) -> str:
    """The inside of a code fence if the whole text is one, else the text."""
    body = text.strip()
    opened = _FENCE.match(body)
    if opened is None or not body.endswith("```") or opened.end() > len(body) - 3:
        return text
    return body[opened.end() : -3].strip()


def next_tag(text: str, tag: str, at: int = 0) -> re.Match[str] | None:
    """The next `<tag>` or `</tag>` from a place on that is not only mentioned."""
    found = _form(tag).search(text, at)
    while found is not None and (end := mention_end(found, tag)):
        found = _form(tag).search(text, end)
    return found


def closes(tag: re.Match[str]) -> bool:
    """Whether a tag is a closing one."""
    return tag[0].startswith("</")


def mention_end(found: re.Match[str], tag: str) -> int:
    """Where the mention of a tag, or of a pair of them, ends; 0: it is no mention.

    A tag in front of JSON or of another tag is none, whatever stands around it: whether such a call
    is quoted can be seen when it was read (`quoted`).
    """
    text, start, end = found.string, found.start(), found.end()
    opens = not closes(found)
    if opens and _holds(found, tag):
        return 0
    before = _line_before(text, start).rstrip(" \t")[-1:]
    if before + text[end : end + _WINDOW].lstrip(" \t")[:1] in _PAIRS or quoted(text, start, end):
        return end
    following = _form(tag).search(text, end) if opens else None
    if following and not closes(following) and _holds(following, tag):
        return end  # that one begins the call
    if not (before.isalnum() or before in ("(", ",")) or not _WORD_AFTER.match(text, end):
        return 0
    if following is None or not closes(following):
        return end
    joined = _JOINED.fullmatch(text, end, min(following.start(), end + _WINDOW))
    return following.end() if joined and joined.end() == following.start() else 0


def _holds(found: re.Match[str], tag: str) -> bool:
    held = _HELD.match(found.string, found.end())
    return held is not None and not _form(tag).match(found.string, held.end() - 1)


def quoted(text: str, start: int, end: int) -> bool:
    """Whether a part of a text stands in quotation marks or backticks that it does not hold."""
    before = _line_before(text, start)
    after = text[end : end + _WINDOW].partition("\n")[0]
    if before[-1:] == after[:1] == "'" or ("“" in before.rpartition("”")[2] and "”" in after):
        return True
    before, after = before.replace("```", ""), after.replace("```", "")
    return any(before.count(mark) % 2 == 1 and mark in after for mark in '`"')


def _line_before(text: str, start: int) -> str:
    return text[max(0, start - _WINDOW) : start].rpartition("\n")[2]


@cache
def _form(tag: str) -> re.Pattern[str]:
    return re.compile(rf"</?{re.escape(tag)}>")
