"""Which arguments follow earlier results, and the leaves that show them.

Owns the search for these leaves: exact, rounded, or inside a text. Never changes a value.

    dict(linked(steps, arguments))[argument]                # [Link(step=2, path=("loan_id",))]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from rods.synthesis.structure.sources import Argument, Source, normal, numbers_in
from rods.synthesis.structure.trace import Path, Scalar, TraceStep

Place: TypeAlias = tuple[str, Path]
"""An argument's name and the path inside its value."""


class Link(NamedTuple):
    """A leaf of an earlier result that shows an argument's value."""

    step: int
    path: Path
    decimals: int | None = None
    """The argument is the leaf rounded to so many decimals; None: as it is."""
    token: str = ""
    """The part of a text argument that the leaf shows; empty: the whole argument."""


Links: TypeAlias = Mapping[int, Mapping[Place, Sequence[Link]]]
"""What shows the arguments of each step."""


def linked(
    steps: Sequence[TraceStep], arguments: Iterable[Argument]
) -> Iterator[tuple[Argument, list[Link]]]:
    """Each argument with the leaves of earlier results that it follows; mostly none."""
    index = _Index(steps)
    for argument in arguments:
        computed = argument.source is Source.DERIVED or argument.inside
        told = isinstance(argument.value, str) and argument.source is Source.DERIVED
        follows = argument.source is Source.RESULT and not computed
        found = index.links(argument) if follows or _distinctive(argument) or told else []
        yield argument, found


def links_of(steps: Sequence[TraceStep], arguments: Iterable[Argument]) -> Links:
    """The same by step, name and path, without arguments that follow nothing."""
    links: dict[int, dict[Place, Sequence[Link]]] = {}
    for argument, found in linked(steps, arguments):
        if found:
            links.setdefault(argument.step, {})[argument.name, argument.path] = found
    return links


def _distinctive(argument: Argument) -> bool:
    """A generated id that people repeat: long and with a digit."""
    text = str(argument.value)
    return (
        argument.source in (Source.TURN, Source.EARLIER_TURN)
        and not isinstance(argument.value, float)
        and len(text) >= 5
        and any(char.isdigit() for char in text)
        and " " not in text
    )


class _Index:
    """The leaves of all results, by value."""

    def __init__(self, steps: Sequence[TraceStep]):
        self._steps = steps
        self._exact: dict[str, list[Link]] = {}
        for index, step in enumerate(steps):
            for leaf in step.leaves:
                self._exact.setdefault(normal(leaf.value), []).append(Link(index, leaf.path))

    def links(self, argument: Argument) -> list[Link]:
        """Leaves of earlier results that show an argument: exactly, else rounded, else in part."""
        value = argument.value
        exact = [k for k in self._exact.get(normal(value), ()) if k.step < argument.step]
        if exact:
            return exact
        if isinstance(value, str):
            return _token_links(argument, self._steps)
        decimals = len(repr(value).partition(".")[2]) if isinstance(value, float) else 0
        return [
            Link(index, leaf.path, decimals)
            for index in range(argument.step)
            for leaf in self._steps[index].leaves
            if _rounds(leaf.value, value, decimals)
        ]


def _rounds(leaf: Scalar, value: Scalar, decimals: int) -> bool:
    if not isinstance(leaf, float) or isinstance(value, bool | str) or value is None:
        return False
    return round(leaf, decimals) == value


def _token_links(argument: Argument, steps: Sequence[TraceStep]) -> list[Link]:
    """Numbers inside a text argument that earlier results show (`79` of `79.pdf`)."""
    found: list[Link] = []
    tokens = {m.group() for m in re.finditer(r"(?<![\w.])\d+(?:\.\d+)?(?!\w)", str(argument.value))}
    if not tokens:
        return found
    for index in range(argument.step):
        for leaf in steps[index].leaves:
            shown = _numbers(leaf.value)
            found += [Link(index, leaf.path, None, t) for t in tokens if float(t) in shown]
    return found


def _numbers(value: Scalar) -> set[float]:
    if isinstance(value, bool) or value is None:
        return set()
    return {float(value)} if isinstance(value, int | float) else numbers_in(value)
