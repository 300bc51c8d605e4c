"""Walks over a board whose rows are texts, `#` for a wall."""

from __future__ import annotations

from .places import Place, distance, is_inside, neighbours

STEPS = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}


def walk(start: Place, moves: str, rows: int, columns: int) -> Place:
    """Where moves lead to; one that would leave the board is not made."""
    row, column = start
    for move in moves:
        step = STEPS[move]
        goal = (row + step[0], column + step[1])
        if is_inside(goal, rows, columns):
            row, column = goal
    return row, column


def shortest(board: list[str], start: Place, goal: Place) -> int:
    """Steps of the shortest way around walls; -1 if there is none."""
    seen, edge, steps = {start}, [start], 0
    while edge:
        if goal in edge:
            return steps
        ahead: list[Place] = []
        for place in edge:
            for other in neighbours(place, len(board), len(board[0])):
                if board[other[0]][other[1]] != "#" and other not in seen:
                    seen.add(other)
                    ahead.append(other)
        edge, steps = ahead, steps + 1
    return -1


def detour(board: list[str], start: Place, goal: Place) -> int:
    """Steps that walls cost beside the direct way; -1 if there is no way."""
    steps = shortest(board, start, goal)
    if steps < 0:
        return -1
    return steps - distance(start, goal)


def walls(board: list[str]) -> int:
    """How many squares are walls."""
    return sum(row.count("#") for row in board)
