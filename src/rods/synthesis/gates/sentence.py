"""Whether two masked messages are the same sentence, but for words in the place of words.

Owns phrases that mean the same, courtesy, negations, and how much longer or shorter a place may be.
It knows values as masks alone.

    differs(phrased(old), phrased(new), alike)              # None, or where they say other things
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Mapping, Sequence

from rods.synthesis.gates.masks import MASK
from rods.synthesis.structure.trace import Scalar
from rods.synthesis.templates.vocabulary import word_lists

LONGER = 2
"""Words by which what stands in the place of other words may be longer: a name of two words."""
LOST = 1
"""Words that may be missing in one place."""
PHRASES = 0xF000
"""First of the private characters that stand for phrases that mean the same."""
_TOKEN = re.compile("[\ue000-\uf8ff]|[\\w@#$€£%&+/\u2019'-]+(?:\\.[\\w/]+)*")
_NEGATIONS = "not no never don't doesn't won't can't cannot nothing none without neither nor"
_NEGATION = frozenset(_NEGATIONS.split())


@functools.cache
def _same_phrases() -> tuple[re.Pattern[str], Mapping[str, str]]:
    found = {
        phrase.lstrip("=").lower(): chr(PHRASES + number)
        for number, group in enumerate(word_lists().openers)
        for phrase in group
    }
    body = "|".join(re.escape(p) for p in sorted(found, key=len, reverse=True))
    return re.compile(rf"(?<![\w'])(?:{body})(?![\w'])", re.I), found


def is_phrase(value: Scalar) -> bool:
    """Whether a value is one of the phrases of which another one could mean the same."""
    return isinstance(value, str) and value.lower() in _same_phrases()[1]


def phrased(text: str) -> str:
    """A text in which phrases that mean the same are the same."""
    pattern, known = _same_phrases()
    return pattern.sub(lambda match: known[match.group().lower()], text)


def uncourteous(text: str, model: str) -> str:
    """A message without the greeting and the thanks that its model has not."""
    lists = word_lists()
    for lead in (*lists.greetings, *lists.connectors):
        if text.startswith(f"{lead} ") and not model.startswith(f"{lead} "):
            text = text[len(lead) + 1 :]
            break
    for tail in lists.closings:
        if text.endswith(f" {tail}") and not model.endswith(f" {tail}"):
            return text[: -len(tail) - 1]
    return text


def differs(old: str, new: str, alike: Mapping[str, set[str]]) -> str | None:
    """Where two masked texts say different things; None: words are replaced by words at most."""
    before, after = (_TOKEN.findall(text.lower()) for text in (old, new))
    renamed = [min(alike.get(token, {token})) for token in after]
    matcher = difflib.SequenceMatcher(None, before, renamed, autojunk=False)
    if 2 * sum(block.size for block in matcher.get_matching_blocks()) < len(before):
        return f"it says {_shown(after)} where its model says {_shown(before)}"
    for kind, i, j, k, m in matcher.get_opcodes():
        gone, come = before[i:j], after[k:m]
        if kind == "equal" or (len(gone) == len(come) and _fit(gone, come, alike)):
            continue
        masks = [t for t in (*gone, *come) if MASK.fullmatch(t)]
        added = {*come} & _NEGATION - {*gone}
        if masks or added or len(come) > len(gone) + (LONGER if gone else 0):
            return f"it says {_shown(come)} where its model says {_shown(gone)}"
        if len(gone) > len(come) + LOST + (LONGER if come else 0):
            return f"it leaves out {_shown(gone)}, which its model says"
    return None


def _fit(gone: Sequence[str], come: Sequence[str], alike: Mapping[str, set[str]]) -> bool:
    """Whether words stand for words and values for the values of the same arguments."""
    pairs = zip(gone, come, strict=True)
    return not {*come} & _NEGATION - {*gone} and all(
        a in alike.get(b, ()) if MASK.fullmatch(b) else not MASK.fullmatch(a) for a, b in pairs
    )


def _shown(words: Sequence[str]) -> str:
    """Words for people; a mask is a value."""
    texts = [
        "(a value)" if MASK.fullmatch(w) else w for w in words if not "\uf000" <= w <= "\uf8ff"
    ]
    return repr(" ".join(texts)) if texts else "nothing"
