"""Whether a sentence made of a description reads plainly; words of what it lacks are for users.

flaw(spec, from_description(spec))          # "`at one` is not plain English"
"""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files

from rods.synthesis.structure.words import SLOT, noun, patterns, thing
from rods.types import ToolSpec
from rods.writers.templates.wording import Wording

LONGEST = 16  # Words of a clause besides its values
_WHERE = ("writers", "templates", "described.toml")
_DATA = tomllib.loads(files("rods").joinpath(*_WHERE).read_text(encoding="utf-8"))
_FLAWS, _PHRASES = (patterns(*_WHERE, table=table) for table in ("flaws", "phrases"))
_VERBS, _FIRST = frozenset(_DATA["verbs"].split()), ("question", "claim", "new", "verb", "object")


def flaw(spec: ToolSpec, wording: Wording) -> str:
    """Return why a sentence made of a description reads odd; empty where it reads plainly."""
    text = marked(wording, wording.say[0])
    clause = text.partition(" (<")[0]
    words = re.findall(r"[a-z'-]+", clause)
    verb, own = words[0] if words else "", noun(spec.name).split()[0]
    known = {w for n in spec.properties for w in (n, thing(n))}
    if verb not in _VERBS and (verb != own or verb in known or " " not in noun(spec.name)):
        return f"its description does not begin with a verb (`{verb}`)"
    for reason, pattern in _FLAWS.items():
        if found := pattern.search(text):
            return reason.format(_said(found[found.lastindex or 0]))
    at, bare = _read(clause, verb), _PHRASES["verb"].match(clause)
    if at < len(clause) or (bare and at == bare.end() < len(text)):
        return f"`{_said(text[at:][:40])}` is not plain English"
    outside = re.findall(r"[a-z'-]+", re.sub("<[^>]*>", "", clause))
    again = (w for w in {*outside} - {"called", "with", "from"} if len(w) > 3)
    if twice := [w for w in again if words.count(w) > 1]:  # two devices are two values
        return f"`{min(twice)}` occurs twice"
    count = len(re.sub("<[^>]*>", "", clause).split())
    return f"it has {count} words" if count > LONGEST else ""


def _read(clause: str, verb: str) -> int:
    """How much of a clause is a verb and phrases that are known to read well."""
    for name in ("question", "claim"):
        if found := _PHRASES[name].fullmatch(clause):
            return found.end()
    free = verb in _DATA["figures"].split()  # the area of a triangle
    clause = re.sub(r"(?<!<)\ban? (?!\w* ?called)", "the ", clause) if free else clause
    begun, start = "new", _PHRASES["new"].match(clause)
    if start is None:
        begun, start = "verb", _PHRASES["verb"].match(clause)
    at, first = start.end() if start else 0, True
    while at < len(clause):
        names = [n for n in _PHRASES if n not in _FIRST or (n == "object" and first)]
        if first and verb not in _DATA["alone_for"].split() and "new" not in begun:
            names = ["object", "named", "idiom"]  # nobody books for three nights
        found = next((m for n in names if (m := _PHRASES[n].match(clause, at))), None)
        if found is None:
            break
        at, first = found.end(), False
    return at


def _said(text: str) -> str:
    return re.sub("[<>]", "", text).replace("#", "...").strip()


def marked(wording: Wording, say: str) -> str:
    """A clause with `<the price #>` for `{price}`: `#` is the value, in its noun phrase."""

    def phrase(match: re.Match[str]) -> str:
        return f"<{wording.named.get(match[1], ('{}',))[0].replace('{}', '#')}>"

    return SLOT.sub(phrase, say)
