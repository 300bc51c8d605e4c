"""How a word stands in what people say: as a name or a noun, or as a verb or a modifier.

Owns the question whether a word may be replaced by another noun wherever it stands. Never replaces.

    is_name("draft", "Open the draft.")                     # True
    is_name("draft", "Draft a letter about the draft.")     # False: a verb in its first place
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_WORDS = re.compile(r"[A-Za-z']+|[^\sA-Za-z']+")

_leads = """
the a an my our your his her its their this that these those each every of in into from
inside within under named called titled labeled labelled entitled
"""
_LEADS = frozenset(_leads.split())
"""What stands before a noun."""
_files = """
file files folder folders directory directories document documents subfolder subdirectory
script page
"""
_FILES = frozenset(_files.split())
"""What a name may stand right before or after."""
_ends = """
of in on for with to from and or is are was were at by as into that which who while so if
then but before after using within inside under directly right exactly please too also
has have had can could will would should must contains mentions says it them
"""
_ENDS = frozenset(_ends.split())
"""What may follow a noun; anything else makes the word before it a modifier."""
_QUOTES = ("'", '"', "`", "\u2018", "\u2019", "\u201c", "\u201d")


def is_name(word: str, prose: str) -> bool:
    """Whether every place of a word (in lower case) in these texts is that of a name or a noun."""
    return all(_nominal(*around) for around in _places(word, prose))


def says(word: str, prose: str) -> bool:
    """Whether these texts say a word (in lower case) outside of quotes and of names."""
    return any(not glued for _, _, glued in _places(word, prose))


def _places(word: str, prose: str) -> Iterator[tuple[str, str, bool]]:
    """What stands before and after each place, and whether it is quoted or part of a name."""
    spaced = re.compile(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", re.I)
    for match in spaced.finditer(prose):
        left, right = prose[: match.start()], prose[match.end() :]
        glued = left[-1:] in ("_", "-", "/", "#", "@", *_QUOTES)
        glued = glued or right[:1] in ("_", "-", "/", *_QUOTES)
        glued = glued or re.match(r"\.[A-Za-z]", right) is not None
        before = _WORDS.findall(left[-30:])[-1:] or [""]
        after = _WORDS.findall(right[:30])[:1] or [""]
        yield before[0].lower(), after[0].lower(), glued


def _nominal(before: str, after: str, glued: bool) -> bool:
    if glued or before in _FILES or after in _FILES:
        return True
    ended = not after[:1].isalpha() or after in _ENDS
    return ended and before in _LEADS
