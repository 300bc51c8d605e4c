"""Lines of a bounded width."""

from __future__ import annotations


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most so many characters; a word that is longer has a line of its own."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    if line:
        lines.append(line)
    return lines


def shorten(text: str, width: int) -> str:
    """A text of at most so many characters, the last three of them points if it was longer."""
    if len(text) <= width:
        return text
    return text[: width - 3] + "..."


def centre(text: str, width: int) -> str:
    """A text in the middle of blanks; of an odd number of blanks more stand to the right."""
    blanks = max(0, width - len(text))
    before = blanks // 2
    return " " * before + text + " " * (blanks - before)


def pages(text: str, width: int, lines: int) -> int:
    """Pages of so many lines that a text takes."""
    return (len(wrap(text, width)) + lines - 1) // lines


def indent(text: str, depth: int) -> str:
    """Every line that is not blank, two blanks to the right for each level of depth."""
    return "\n".join("  " * depth + row if row.strip() else row for row in text.split("\n"))
