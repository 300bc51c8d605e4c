"""The prompts of the language-model writer: Jinja files, their hash, and what they are filled with.

Owns reading and rendering `prompts/*.jinja`. Never sends anything.

    messages = render("judge", turns=[...], state="", problem="")   # one user message
    prompts_hash()                                           # part of every variant's provenance
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, cast

import jinja2

STAGES = ("plan", "execute", "critic", "rewrite", "coherence", "judge")
"""One prompt each."""
STATE_CHARS = 12_000
"""Longest rendering of a world's state; what is cut is marked."""
TEXT_CHARS, ITEMS = 160, 40
"""Longest text, list and mapping inside a state; they are cut before the whole is."""
RESULT_CHARS = 400
POINTED_CHARS = 160
"""Longest rendering of a result that a message may point at."""


@functools.cache
def _texts() -> Mapping[str, str]:
    folder = files("rods").joinpath("synthesis", "llm", "prompts")
    return {s: folder.joinpath(f"{s}.jinja").read_text(encoding="utf-8") for s in STAGES}


@functools.cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.DictLoader(dict(_texts())),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        trim_blocks=False,
    )


@functools.cache
def prompts_hash() -> str:
    """First 8 hex digits of a hash of all prompts."""
    return hashlib.sha256(json.dumps(dict(_texts()), sort_keys=True).encode()).hexdigest()[:8]


def render(stage: str, **values: Any) -> list[Mapping[str, str]]:
    """The messages of one request; the first line of a prompt tells a server's log the stage."""
    return [{"role": "user", "content": _environment().get_template(stage).render(**values)}]


def trimmed(value: object) -> object:
    """A state with long texts, lists and mappings cut, so that all its fields can be seen.

    Plain fields come first: a token must not be lost behind a long list of cards.
    """
    if isinstance(value, str) and len(value) > TEXT_CHARS:
        return f"{value[:TEXT_CHARS]} ... ({len(value) - TEXT_CHARS} characters left out)"
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        shown = {k: trimmed(v) for k, v in list(fields.items())[:ITEMS]}
        more = {"...": f"({len(fields) - ITEMS} more)"} if len(fields) > ITEMS else {}
        plain = {k: v for k, v in shown.items() if not isinstance(v, dict | list)}
        return plain | shown | more
    if isinstance(value, list):
        items = cast("list[object]", value)
        more = [f"({len(items) - ITEMS} more)"] if len(items) > ITEMS else []
        return [trimmed(item) for item in items[:ITEMS]] + more
    return value


def shortened(value: object, most: int = STATE_CHARS) -> str:
    """JSON (or text) of at most so many characters; a cut is marked."""
    plain = trimmed(value)
    text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, default=str)
    text = value if isinstance(value, str) else text
    cut = f"{text[:most]} ... ({len(text) - most} characters left out)"
    return text if len(text) <= most else cut


def summary(description: str) -> str:
    """The first sentence of a tool's description, without what is said of its class."""
    text = description.split("Tool description:", 1)[-1].strip()
    return text.split(". ", 1)[0].strip().rstrip(".") + "."


def schema(properties: Mapping[str, Any], required: Sequence[str] = ()) -> dict[str, Any]:
    """A JSON schema of type object, for servers that support structured output."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required or properties),
    }
