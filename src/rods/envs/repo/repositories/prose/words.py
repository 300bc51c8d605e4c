"""Words of a text."""

from __future__ import annotations

SMALL = ("a", "an", "and", "of", "the", "to")
"""Words that a title writes small, but at its beginning."""


def words(text: str) -> list[str]:
    """Words in small letters, without marks at their ends."""
    found = [word.strip(".,;:!?").lower() for word in text.split()]
    return [word for word in found if word]


def count(text: str, word: str) -> int:
    """How often a word stands in a text, whatever its letters' case."""
    return words(text).count(word.lower())


def common(text: str, most: int) -> list[str]:
    """The words that come most often, equally frequent ones in the order of the alphabet."""
    found = words(text)
    return sorted(set(found), key=lambda word: (-found.count(word), word))[:most]


def title(text: str) -> str:
    """A text with capitals as in a title."""
    parts: list[str] = []
    for place, word in enumerate(text.split()):
        small = place > 0 and word.lower() in SMALL
        parts.append(word.lower() if small else word.capitalize())
    return " ".join(parts)


def is_palindrome(text: str) -> bool:
    """Whether the letters read the same from both ends; a text without letters does not count."""
    letters = [letter.lower() for letter in text if letter.isalpha()]
    return len(letters) > 0 and letters == letters[::-1]
