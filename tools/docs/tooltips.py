"""Meanings of the words of docs/start/concepts.md, shown where a page first uses one.

Owns which words get a meaning on hover, and where. It changes no text that a reader sees.

    with_meanings("<p>A variant is checked.</p>", {"variant": "a task from another one"})
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping

ROW = re.compile(r"^\| ([a-z][a-z ,-]*) \| (.+) \|$", re.MULTILINE)
TAG = re.compile(r"<(/?)(\w+)[^>]*>")
SKIPPED = {"a", "abbr", "code", "pre", "script", "style", "svg", "th", *(f"h{n}" for n in range(7))}
"""Elements whose text stays as it is: links explain themselves, and code is code."""
COMMON = {
    *("task", "turn", "step", "seed", "row", "stage", "update", "solved", "split", "hard"),
    *("other epochs", "world", "environment", "reward", "word", "schedule", "yield", "priority"),
}
"""Words that pages also use in another sense, or so often that a meaning would disturb."""


def meanings(page: str) -> dict[str, str]:
    """Return the first sentence of each meaning, without its marks, by word."""
    found: dict[str, str] = {}
    for words, text in ROW.findall(page):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("`", "")
        sentence = plain.partition(". ")[0]
        found |= dict.fromkeys(set(words.split(", ")) - COMMON, sentence)
    return found


def with_meanings(page: str, words: Mapping[str, str]) -> str:
    """Return a page's HTML with a meaning at the first use of each word."""
    left, parts, at, depth = dict(words), list[str](), 0, 0
    for tag in TAG.finditer(page):
        text = page[at : tag.start()]
        parts += [text if depth else _explain(text, left), tag[0]]
        at = tag.end()
        if tag[2] in SKIPPED:
            depth += -1 if tag[1] else 1
    return "".join([*parts, page[at:]])


def _explain(text: str, left: dict[str, str]) -> str:
    """Mark words of a text, longest first, and take them from `left`."""
    longest = sorted(left, key=len, reverse=True)
    if not longest or not text.strip():
        return text
    any_word = "|".join(re.sub(r"y$", "(?:y|ies)", word) for word in longest)
    pattern = re.compile(rf"(?<![\w.&-])({any_word})(?:s|es)?(?![\w-])", re.IGNORECASE)

    def mark(found: re.Match[str]) -> str:
        meaning = left.pop(re.sub(r"ies$", "y", found[1].lower()), None)
        return f'<abbr title="{html.escape(meaning)}">{found[0]}</abbr>' if meaning else found[0]

    return pattern.sub(mark, text)
