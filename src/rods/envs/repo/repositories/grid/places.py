"""Places as (row, column), counted from 0."""

from __future__ import annotations

Place = tuple[int, int]


def is_inside(place: Place, rows: int, columns: int) -> bool:
    """Whether a place is on the board."""
    return 0 <= place[0] < rows and 0 <= place[1] < columns


def distance(a: Place, b: Place) -> int:
    """Steps between two places along rows and columns."""
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


def neighbours(place: Place, rows: int, columns: int) -> list[Place]:
    """Places one step away that are on the board: above, below, left, right."""
    row, column = place
    near = [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
    return [other for other in near if is_inside(other, rows, columns)]


def number(place: Place, columns: int) -> int:
    """Number of a place, row by row."""
    return place[0] * columns + place[1]


def place_of(number: int, columns: int) -> Place:
    """The place of a number."""
    return number // columns, number % columns


def is_corner(place: Place, rows: int, columns: int) -> bool:
    """Whether a place is one of the four corners."""
    return place[0] in (0, rows - 1) and place[1] in (0, columns - 1)
