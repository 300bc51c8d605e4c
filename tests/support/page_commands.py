"""The commands of a page, as a reader would type them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path


def commands(page: Path) -> list[list[str]]:
    """The words of each indented line that begins with a program; variables are put in."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = re.findall(r"^    ((?:rods |python |[A-Z]+=).*(?:\\\n.*)*)$", text, re.MULTILINE)
    values: dict[str, str] = {}
    found: list[list[str]] = []
    for line in lines:
        line = line.replace("\\\n", " ")
        for name, value in values.items():
            line = line.replace(f"${name}", value)
        words = shlex.split(line, comments=True)
        if named := re.fullmatch(r"([A-Z]+)=(.*)", words[0]):
            values[named[1]] = named[2]
        else:
            found.append(words)
    return found
