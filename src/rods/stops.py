r"""Stop strings: whether the token just sampled completes one of them.

Owns the test alone; it never samples. It costs next to nothing: a token that cannot be the end of a
stop string is known by its own text, which is decoded once; only for the others are the last few
ids decoded. A character cut in two by tokens of bytes is not an obstacle.

    stops = Stops(tokenizer.decode).of(["```output"])
    stops.completed_by([5, 9, 17])          # True: the text up to 9 held none, that up to 17 does
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from rods.errors import PolicyError

Decode: TypeAlias = Callable[[Sequence[int]], str]
"""Text of ids, special tokens included."""

_MARGIN = 4
"""Ids in front of the longest stop string: the first may be the rest of a character."""


class StopStrings:
    """Some stop strings under one tokenizer."""

    def __init__(self, stops: Sequence[str], decode: Decode) -> None:
        self._stops = tuple(stops)
        self._decode = decode
        # No token is shorter than a byte.
        self._window = max(len(stop.encode()) for stop in stops) + _MARGIN
        self._possible: dict[int, bool] = {}

    def completed_by(self, ids: Sequence[int]) -> bool:
        """Return true if the last of these ids completes a stop string within their text.

        Args:
            ids: all ids of one generation; called after each of them.
        """
        last = ids[-1]
        possible = self._possible.get(last)
        if possible is None:
            possible = self._possible[last] = self._can_end(self._decode([last]))
        if not possible:
            return False
        text = self._decode(ids[-self._window :])
        return any(stop in text for stop in self._stops)

    def _can_end(self, text: str) -> bool:
        """Return true if a stop string can end within a token of this text."""
        if not text or "\ufffd" in text:
            return True  # a part of a character, or a blank that is not shown alone
        return any(
            stop in text or any(text.startswith(stop[-size:]) for size in range(1, len(stop)))
            for stop in self._stops
        )


class Stops:
    """The stop strings that a policy was asked for, each set prepared once."""

    def __init__(self, decode: Decode | None) -> None:
        """Keep the decoder; None: stop strings cannot be asked for."""
        self._decode = decode
        self._known: dict[tuple[str, ...], StopStrings] = {}

    def of(self, stops: Sequence[str]) -> StopStrings | None:
        """Stop strings made ready; None for none. `PolicyError` if one is empty, or no decoder."""
        if not stops:
            return None
        key = tuple(stops)
        if key not in self._known:
            if self._decode is None or "" in key:
                raise PolicyError(
                    f"stop strings {key} are given; expected no empty one, and a policy that was "
                    "made with `decode`: ChatTemplate.raw_decode, or the tokenizer's decode with "
                    "special tokens."
                )
            self._known[key] = StopStrings(key, self._decode)
        return self._known[key]
