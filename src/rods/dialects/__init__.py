"""Dialects: how a model writes calls, and how what it wrote is read.

Owns the words between text and calls, in both directions. Never executes or evaluates anything: a
parse gives a verdict, and the verdict is data that goes back to the model as feedback.

* `pythonic` - BFCL: `[cd(folder='x'), ls()]` is the whole text; anything else is an answer
* `compact` - the same, tools described by names and parameters alone (the bundled policy)
* `hermes` - Qwen: JSON in `<tool_call>` tags, several blocks allowed
* `xml` - Qwen3-Coder, Qwen3.5, Nemotron: each argument in a tag of its own
* `think` - EnvTuning: `<think>` and then one `<tool_call>` or one `<answer>`
* `llama` - JSON with `name` and `parameters`, `<|python_tag|>` allowed
* `torl`, `zerotir`, `retool` - inline: programs in one response, results inserted
* `search_r1` - inline: queries in tags of one response, what was found inserted

Those of one published system (`toolrl`, `tool_n1`, `artist`) are in its folder of `recipes/`.
Yours is named `module:attribute`, `--model.dialect my_module:MyDialect`.

    dialect = get_dialect("pythonic")
    parsed = dialect.parse("[ls(a=True)]", {spec.name: spec for spec in offered}, truncated=False)
    parsed.verdict, parsed.calls
"""

from __future__ import annotations

from typing import TypeAlias

from rods.dialects.base import Dialect as Dialect
from rods.dialects.base import Parsed as Parsed
from rods.dialects.base import signature as signature
from rods.dialects.fences import InlineDialect as InlineDialect
from rods.errors import ConfigError
from rods.registry import Registry, require

AnyDialect: TypeAlias = Dialect | InlineDialect
"""Calls as messages of their own, or programs inside one response."""

DIALECTS = Registry(
    "model.dialect",
    "dialect",
    {
        "pythonic": "rods.dialects.pythonic:Pythonic",
        "compact": "rods.dialects.pythonic:Compact",
        "hermes": "rods.dialects.jsonic:Hermes",
        "xml": "rods.dialects.tagged:Xml",
        "think": "rods.dialects.think:Think",
        "llama": "rods.dialects.jsonic:Llama",
        "torl": "rods.dialects.fences:Torl",
        "zerotir": "rods.dialects.fences:ZeroTir",
        "retool": "rods.dialects.fences:ReTool",
        "search_r1": "rods.dialects.fences:SearchR1",
    },
    "dialects",
)


def get_dialect(name: str) -> AnyDialect:
    """A dialect by its short name or `module:attribute`; a class is called. It holds no state.

    Raises:
        ConfigError: there is none of this name, or it is not a dialect.
    """
    found = DIALECTS.find(name)
    made: AnyDialect = found() if isinstance(found, type) else found
    if not isinstance(made, InlineDialect):
        require("model.dialect", name, made, Dialect)
    return made


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
        f"calls as messages, which this needs. Use one of {', '.join(structured_dialects())}."
    )


def structured_dialects() -> dict[str, Dialect]:
    """All dialects with a short name whose calls are messages of their own."""
    known = {name: get_dialect(name) for name in DIALECTS}
    return {name: one for name, one in known.items() if not isinstance(one, InlineDialect)}
