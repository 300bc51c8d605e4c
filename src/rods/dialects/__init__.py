"""Dialects: how a model writes calls, and how what it wrote is read.

Owns the words between text and calls, in both directions. Never executes or evaluates anything: a
parse gives a verdict, and the verdict is data that goes back to the model as feedback.

* `pythonic` - BFCL: `[cd(folder='x'), ls()]` is the whole text; anything else is an answer
* `compact` - the same, tools described by names and parameters alone (the bundled policy)
* `hermes` - Qwen: JSON in `<tool_call>` tags, several blocks allowed
* `think` - EnvTuning: `<think>` and then one `<tool_call>` or one `<answer>`
* `llama` - JSON with `name` and `parameters`, `<|python_tag|>` allowed
* `torl`, `zerotir`, `retool` - inline: programs in fences of one response, results inserted
* `search_r1` - inline: queries in tags of one response, what was found inserted

    dialect = get_dialect("pythonic")
    parsed = dialect.parse("[ls(a=True)]", {spec.name: spec for spec in offered}, truncated=False)
    parsed.verdict, parsed.calls
"""

from __future__ import annotations

import difflib
from typing import TypeAlias

from rods.dialects.base import Dialect, InlineDialect, Parsed, signature
from rods.dialects.fences import ReTool, Torl, ZeroTir
from rods.dialects.jsonic import Hermes, Llama
from rods.dialects.pythonic import Compact, Pythonic
from rods.dialects.searching import SearchR1
from rods.dialects.think import Think
from rods.errors import ConfigError

__all__ = [
    "DIALECTS",
    "INLINE",
    "AnyDialect",
    "Dialect",
    "InlineDialect",
    "Parsed",
    "get_dialect",
    "signature",
    "structured",
]

AnyDialect: TypeAlias = Dialect | InlineDialect
"""Calls as messages of their own, or programs inside one response."""

DIALECTS: dict[str, Dialect] = {
    "pythonic": Pythonic(),
    "compact": Compact(),
    "hermes": Hermes(),
    "think": Think(),
    "llama": Llama(),
}
"""All dialects with structured calls by name; they hold no state."""

INLINE: dict[str, InlineDialect] = {
    "torl": Torl(),
    "zerotir": ZeroTir(),
    "retool": ReTool(),
    "search_r1": SearchR1(),
}
"""All inline dialects by name."""


def get_dialect(name: str) -> AnyDialect:
    """A dialect by the name that `model.dialect` uses.

    Raises:
        ConfigError: there is none of this name.
    """
    known: dict[str, AnyDialect] = {**DIALECTS, **INLINE}
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, 1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ConfigError(
        f"model.dialect: there is no dialect {name!r}.{hint} Known: {', '.join(known)}."
    )


def structured(dialect: AnyDialect | str) -> Dialect:
    """A dialect whose calls are messages of their own, by itself or by name.

    Raises:
        ConfigError: it is an inline one, or there is none of this name.
    """
    found = get_dialect(dialect) if isinstance(dialect, str) else dialect
    if not isinstance(found, InlineDialect):
        return found
    raise ConfigError(
        f"model.dialect: {dialect!r} is inline: it writes programs inside one response and has no "
        f"calls as messages, which this needs. Use one of {', '.join(DIALECTS)}."
    )
