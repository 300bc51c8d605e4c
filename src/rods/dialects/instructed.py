"""Which dialect does a rendered system text with tools instruct?

Owns the marks by which the call formats of model families are known. It parses nothing.

    instructed_dialect(text)        # "hermes", or None
"""

from __future__ import annotations

import re

from rods.dialects import DIALECTS

_MARKS = {
    "xml": re.compile(r"<function="),
    "hermes": re.compile(r"<tool_call>\s*\{+\s*[\"']name[\"']"),
    "llama": re.compile(r"[\"']name[\"']:.{1,40}[\"']parameters[\"']:\s*dictionary"),
}


def instructed_dialect(rendered_system_text: str) -> str | None:
    """The name of the registered dialect whose calls the text asks for; None: none is known."""
    for name, mark in _MARKS.items():
        if mark.search(rendered_system_text):
            return name if name in DIALECTS else None
    return None
