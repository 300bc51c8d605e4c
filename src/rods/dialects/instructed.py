"""Which dialect a rendered chat template instructs.

Owns the recognition of call formats in the text with which a template shows tools. It looks for the
example that the template gives, never for words alone: many formats share tags (`<tool_call>` holds
JSON, XML or key-value lines). Never renders a template.

    >>> instructed_dialect("Respond in the format [func_name1(params_name1=params_value1)]")
    'pythonic'
"""

from __future__ import annotations

import re

# An example has a placeholder where a described tool has a JSON text: {"name": <function-name>, ...
_NAME = r'"name":\s*(?:<|\{|\[|[a-z]+[ ,_-]|"(?:<|function|tool_)[^"]*")'
_FORMATS = {
    "xml": re.compile(r"<tool_call>\s*<function=[^<>]+>"),
    "hermes": re.compile(
        rf'<tool_call>\s*\[?\{{+\s*(?:{_NAME}[^{{}}]*"arguments"|"arguments":\s*[<{{\w])'
    ),
    "llama": re.compile(rf'(?<!>)\{{\s*{_NAME}[^{{}}]*"parameters":\s*(?:<|\{{?[a-z_])'),
    "pythonic": re.compile(r"\[(?:func|function|tool)\w*\(\w+=[^\[\]]*\)?[^\[\]]*\]"),
}


def instructed_dialect(rendered_system_text: str) -> str | None:
    """Name the dialect that a template instructs, or None.

    Args:
        rendered_system_text: what the template renders in front of the first generation, tools
            shown, with a neutral system message: the instructions of a dialect would be recognised
            too. Templates that put tools into the user's message need that message as well.

    Returns:
        A name of `rods.dialects.DIALECTS`. None: the template instructs nothing, or a format that
        no dialect reads.
    """
    for name, example in _FORMATS.items():
        if example.search(rendered_system_text):
            return name
    return None
