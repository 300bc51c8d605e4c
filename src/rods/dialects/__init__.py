"""Dialects: how a model writes calls, and how what it wrote is read.

Owns the words between text and calls, in both directions. Never executes or evaluates anything: a
parse gives a verdict, and the verdict is data that goes back to the model as feedback.

* `pythonic` - BFCL: `[cd(folder='x'), ls()]` is the whole text; anything else is an answer
* `compact` - the same, tools described by names and parameters alone (the bundled policy)
* `hermes` - Qwen: JSON in `<tool_call>` tags, several blocks allowed
* `think` - EnvTuning: `<think>` and then one `<tool_call>` or one `<answer>`
* `llama` - JSON with `name` and `parameters`, `<|python_tag|>` allowed

    dialect = get_dialect("pythonic")
    parsed = dialect.parse("[ls(a=True)]", {spec.name: spec for spec in offered}, truncated=False)
    parsed.verdict, parsed.calls
"""

from __future__ import annotations

import difflib

from rods.dialects.base import Dialect, Parsed, signature
from rods.dialects.jsonic import Hermes, Llama
from rods.dialects.pythonic import Compact, Pythonic
from rods.dialects.think import Think
from rods.errors import ConfigError

__all__ = ["DIALECTS", "Dialect", "Parsed", "get_dialect", "signature"]

DIALECTS: dict[str, Dialect] = {
    "pythonic": Pythonic(),
    "compact": Compact(),
    "hermes": Hermes(),
    "think": Think(),
    "llama": Llama(),
}
"""All dialects by name; they hold no state."""


def get_dialect(name: str) -> Dialect:
    """A dialect by the name that `model.dialect` uses.

    Raises:
        ConfigError: there is none of this name.
    """
    if name in DIALECTS:
        return DIALECTS[name]
    near = difflib.get_close_matches(name, DIALECTS, 1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ConfigError(
        f"model.dialect: there is no dialect {name!r}.{hint} Known: {', '.join(DIALECTS)}."
    )
