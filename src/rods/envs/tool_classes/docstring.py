"""What a method's docstring says: the text before its sections, and what each parameter means.

Owns the wording that tools show; the forms (Google, Sphinx, NumPy, epydoc) are read by
`docstring_parser`. Never fails: what is not understood is left out.

    read_docstring(Library.lend).parameters["member_id"]
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import NamedTuple

from docstring_parser import ParseError, parse


class Doc(NamedTuple):
    """A docstring, parted."""

    text: str
    """What stands before the first section, in one paragraph a line."""
    parameters: dict[str, str]


def read_docstring(function: Callable[..., object]) -> Doc:
    """Part a function's docstring; empty where it has none."""
    text = inspect.getdoc(function) or ""
    try:
        doc = parse(text)
    except ParseError:
        return Doc(_paragraphs(text), {})
    found = {p.arg_name.lstrip("*"): " ".join((p.description or "").split()) for p in doc.params}
    return Doc(_paragraphs(doc.description or ""), found)


def _paragraphs(text: str) -> str:
    return "\n".join(" ".join(block.split()) for block in text.split("\n\n") if block.strip())
