"""Thoughts, fences and tags around calls: what opens something, and what is only mentioned.

Owns what a code fence looks like, and the one rule by which a tag in a text is a mention: it is
quoted, or the words beside it speak of it, and its pair holds nothing. Never reads calls. Takes
time in proportion to the text.

    >>> next_tag("Put it into the <tool_call> tag.", "tool_call")
"""

from __future__ import annotations

import re
from functools import cache

_THINK = re.compile(r"\A\s*<think>")
PYTHON = r"(?:i?python|py)\d*(?:\.\d+)*"
"""Names of Python in fences, such as `Python3` and `python3.11`."""
ITEM = r"(?:[-*+>•–]|\(?\w{1,2}[.)])[ \t]*"  # noqa: RUF001
"""The mark of an item of a list."""
ATTRIBUTES = (
    r"(?:[ \t]+(?:\{[ \t]*[.#\w][^{}\n]*\}|[\w-]+=(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s\"'`=]+)))*[ \t\r]*"
)
"""Text that may follow the language of a fence on its line: `{cmd=true}`, `title="a b"`."""
FENCE = rf"(`{{3,}}|~{{3,}})[ \t]*(?:\{{[ \t]*\.?[A-Za-z][^{{}}\n]*\}}|[\w.+-]*){ATTRIBUTES}"
"""The whole opening of a fence of any language."""
_FENCE = re.compile(rf"{FENCE}(?=[\n\[{{<])")
_WORD_AFTER = re.compile(r"[ \t]+\w|[ \t]*[.,;:)?!<…/]|-\w|'s |\{(?:\.\.\.|…)\}")
_PAIRS = ("**", "__", "~~", "||", "[]", "{}", "<>", "«»", "‘’", "„“", "””", "「」")  # noqa: RUF001
"""Characters on both sides of a tag that is named."""
_NAMES = re.compile(
    r"(?:\b(?:the|an?|no|and|or|of|with|without|by|between)|\btags?(?: (?:is|are|was|called))?)"
    r"\W{0,3}\Z",
    re.IGNORECASE,
)
"""The end of words that name the tag behind them."""
_NAMED = re.compile(
    r"(?:-?s\b|[:,]?[ \t]+(?:tags?|is|are|was|opens|closes|marks|means|begins|starts|ends|must|has"
    r"|and|or)\b)"
)
"""The beginning of words that speak of the tag before them."""
_HELD = re.compile(rf"\s*(?:{FENCE}\s*)?(?!\{{(?:\.\.\.|…)\}})[{{\[<]")
_JOINED = re.compile(r"\s*(?:and|or|to|/|,|-|\{?(?:\.\.\.|…)\}?)?\s*")
_LISTED = re.compile(rf"\s*(?:and|or|to|/|,|\n[ \t]*{ITEM})\s*")
"""Words between a tag and its closing one where both are named, and where no call is meant."""
_WINDOW = 200
"""Characters of a line before and after a tag that are looked at."""


def without_thought(text: str) -> str:
    """The text after a thought that it starts with, without blanks around it.

    A closing tag that is only mentioned ends the thought if no other one does.
    """
    found, first = _THINK.match(text), text.find("</think>")
    if found is None or first < 0:
        return text.strip()
    while found and not closes(found):
        found = next_tag(text, "think", found.end())
    return text[found.end() if found else first + len("</think>") :].strip()


def unfence(text: str) -> str:
    """The inside of a code fence if the whole text is one, else the text."""
    body = text.strip()
    opened = _FENCE.match(body)
    end = len(body.rstrip(opened[1][0])) if opened else 0
    if opened is None or len(body) - end < 3 or opened.end() > end:
        return text
    return body[opened.end() : end].strip()


def opening(language: str) -> str:
    """The pattern of a fence of a language, which may stand in braces (`{.python}`)."""
    braced = rf"\{{[ \t]*\.?(?i:{language})\b[^{{}}\n]*\}}"
    return rf"(?:```|~~~)[ \t]*(?:{braced}|(?i:{language})\b)"


def next_tag(text: str, tag: str, at: int = 0) -> re.Match[str] | None:
    """The next `<tag>` or `</tag>` from a place on that is not only mentioned."""
    found = _form(tag).search(text, at)
    while found is not None and (end := mention_end(found, tag)):
        found = _form(tag).search(text, end)
    return found


def closes(tag: re.Match[str]) -> bool:
    """True if a tag is a closing one."""
    return tag[0].startswith("</")


def mention_end(found: re.Match[str], tag: str) -> int:
    """Where the mention of a tag, or of a pair of them, ends; 0: it is not a mention.

    A tag in front of JSON or of another tag is none, whatever stands around it: whether such a call
    is quoted can be seen when it was read (`quoted`).
    """
    text, start, end = found.string, found.start(), found.end()
    opens = not closes(found)
    if opens and _holds(found, tag):
        return 0
    line = _line_before(text, start).rstrip(" \t")
    before = line[-1:]
    if before + text[end : end + _WINDOW].lstrip(" \t")[:1] in _PAIRS or quoted(text, start, end):
        return end
    following = _form(tag).search(text, end) if opens else None
    if following and not closes(following) and _holds(following, tag):
        return end  # that one begins the call
    pair = following if following and closes(following) else None
    gap = text[end : min(pair.start(), end + _WINDOW)] if pair else ""
    after = text[end : end + _WINDOW].lstrip(" \t*.,;:!?)")
    after = after.partition("\n")[0] if not opens else after
    if pair and _LISTED.fullmatch(gap):
        return pair.end()
    amid = (before.isalnum() or before in ("(", ",")) and _WORD_AFTER.match(text, end)
    named = _NAMED.match(text, end)
    if not (amid or named or (_NAMES.search(line) and (pair or not after.strip()))):
        return 0
    if pair is None or (named and _NAMED.match(text, pair.end())):
        return end
    return pair.end() if _JOINED.fullmatch(gap) else 0


def _holds(found: re.Match[str], tag: str) -> bool:
    held = _HELD.match(found.string, found.end())
    return held is not None and not _form(tag).match(found.string, held.end() - 1)


def quoted(text: str, start: int, end: int) -> bool:
    """True if a part of a text stands in quotation marks or backticks that it does not hold."""
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
