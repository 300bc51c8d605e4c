"""Which call stands for which wanted one: agreement of two calls, and the best one-to-one matching.

Owns MatchTIR's likeness of calls (arXiv 2601.10712, as released) and the assignment over it, which
is exact. Never executes a call.

    agreement(ToolCall("cd", {"folder": "x"}), ToolCall("cd", {"folder": "docs"}))      # 2 / 3
    call_rewards([ls, ls], wanted=[ls])                                                 # [1.0, 0.0]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, cast

import networkx as nx

from rods.types import ToolCall


def agreement(made: ToolCall, wanted: ToolCall) -> Fraction:
    """How much a call is the wanted one, in [0, 1]; 0 if it is of another tool.

    (1 + J + C) / (2 + n): J is the Jaccard index of the arguments' names (1 where there are none),
    C how many of the n wanted arguments have the wanted value. Values are equal as in Python: 1,
    1.0 and true are.
    """
    if made.name != wanted.name:
        return Fraction(0)
    given, asked = made.arguments, wanted.arguments
    either = given.keys() | asked.keys()
    names = Fraction(len(given.keys() & asked.keys()), len(either)) if either else Fraction(1)
    values = sum(key in given and given[key] == value for key, value in asked.items())
    return (1 + names + values) / (2 + len(asked))


def call_rewards(made: Sequence[ToolCall], wanted: Sequence[ToolCall]) -> list[float]:
    """What each made call is worth: its agreement with the wanted call that it stands for, else 0.

    A wanted call is stood for once, so that a second call of the same earns nothing. Of all
    matchings the one with the largest sum counts; of equal ones that which gives the first call
    most, then the second, and so on.
    """
    pairs = [(i, j, agreement(m, w)) for i, m in enumerate(made) for j, w in enumerate(wanted)]
    whole = math.lcm(*(share.denominator for _, _, share in pairs))
    # Whole numbers keep it exact. The sum stands above the calls' own shares, which are the digits
    # of a number to the base `whole + 1`, the first call's in front.
    base, digits = whole + 1, len(made)
    graph: Any = nx.Graph()
    for i, j, share in pairs:
        if share:
            weight = int(share * whole) * (base**digits + base ** (digits - 1 - i))
            graph.add_edge(("made", i), ("wanted", j), weight=weight, share=share)
    found = [0.0] * len(made)
    for edge in cast("set[tuple[tuple[str, int], ...]]", nx.max_weight_matching(graph)):
        (_, i), _ = sorted(edge)
        found[i] = float(graph.edges[edge]["share"])
    return found
