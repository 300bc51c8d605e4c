"""Can a model be used with tools? The answer in words, by its chat template and a dialect.

Owns the verdict in words, the advice, and the search for the dialect that reads the calls of a
template. It compares no ids; `template_check` does.

    tools_in_words(template, "hermes", fault="").text
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from os.path import commonprefix
from typing import NamedTuple

from rods.dialects import DIALECTS, Dialect, InlineDialect, get_dialect, structured
from rods.errors import PolicyError
from rods.rollout.template import ChatTemplate
from rods.types import Message, ParseVerdict, ToolCall, ToolResult, ToolSpec

LIST = ToolSpec(
    "list_files",
    "List the files of a folder.",
    {"type": "object", "properties": {"folder": {"type": "string"}}, "required": ["folder"]},
)
CALL = ToolCall("list_files", {"folder": "docs"})


class ToolUse(NamedTuple):
    """Whether tools can be used, and a sentence or two that say so."""

    usable: bool
    text: str


def tools_in_words(template: ChatTemplate, name: str, fault: str) -> ToolUse:
    """Whether a dialect can be used with tools under a chat template, and what to do if not.

    Args:
        name: of a structured dialect.
        fault: what was wrong with conversations that have calls; empty: nothing.
    """
    dialect = structured(name)
    shown = template.renders_tools and not dialect.shows_tools
    if fault:
        return ToolUse(False, f"the model cannot be used with them: {fault}{_instead(template)}")
    where = "the chat template shows them" if shown else "the system message describes them"
    advice = ""
    if shown and (written := own_call(template)) and not reads(dialect, written):
        reader = _reader(written)
        if reader is None:
            own = ", ".join(name for name, other in _structured() if other.shows_tools)
            return ToolUse(
                False,
                "the model cannot be used with them as its chat template shows them: it writes "
                f"calls as {written.strip()[:120]!r}, which no dialect reads. Take one that "
                f"describes tools itself (--dialect {own}), or your own (module:attribute).",
            )
        if reader != name:
            advice = (
                f" The chat template has calls in the form of the dialect {reader}: take "
                f'model.dialect = "{reader}" unless the model is to learn {name}.'
            )
    return ToolUse(True, f"the model can be used with them; {where}.{advice}")


def own_call(template: ChatTemplate) -> str:
    """How the template writes a call, with any thought; empty where it refuses or omits calls."""
    user, said = Message("user", "u"), Message("assistant", "", (CALL,))
    tools = (LIST,) if template.renders_tools else ()
    try:
        texts = [template.raw_decode(template.prompt(m, tools)) for m in ([user], [user, said])]
    except PolicyError:
        return ""
    same = commonprefix(texts)  # noqa: RUF071 (no paths)
    begun = re.sub(r"(?:<think>\s*)?(?:<[^<>]*)?\Z", "", same)  # less a thought, or half a tag
    written = texts[1].removeprefix(begun).partition(template.raw_decode([template.end_id]))[0]
    return written if CALL.name in written else ""


def reads(dialect: Dialect, text: str) -> bool:
    """Whether a dialect reads the text as the one call."""
    parsed = dialect.parse(text, {LIST.name: LIST}, truncated=False)
    return parsed.verdict is ParseVerdict.CALLS and parsed.calls == (CALL,)


def _reader(written: str) -> str | None:
    """The first dialect that reads a template's own call; None where there is none."""
    return next((name for name, dialect in _structured() if reads(dialect, written)), None)


def _structured() -> Sequence[tuple[str, Dialect]]:
    found = ((name, get_dialect(name)) for name in DIALECTS)
    return [(name, d) for name, d in found if not isinstance(d, InlineDialect)]


def _instead(template: ChatTemplate) -> str:
    """Advice to take a dialect whose results are messages of the user, where the template joins."""
    others = [name for name, dialect in _structured() if _joins(template, dialect)]
    said = f" Or take a dialect that writes results as a user's messages: {', '.join(others)}."
    return said if others else ""


def _joins(template: ChatTemplate, dialect: Dialect) -> bool:
    results = dialect.results([CALL], [ToolResult("r")])
    if {dialect.feedback_role, *(message.role for message in results)} != {"user"}:
        return False
    try:
        template.prompt([Message("system", "s"), Message("user", "u")])
        template.increment(results)
    except PolicyError:
        return False
    return True
