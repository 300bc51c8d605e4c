"""Which earlier call a message may point back to without being misunderstood.

Owns the conditions under which "that order" has one meaning: the result shows one such value, no
later call or result has another one, and it was seen in this turn or the one before. "The order
you placed" wants that only one was placed, "that order" that its turn placed no other. A reference
that repeats what was asked for ("the branch nearest to Rome") needs none of that. Never words.

    clear_producer(steps, [0, 2], call, "loan_id", phrases, domains)  # Producer(lend(...))
"""

from __future__ import annotations

from collections.abc import Sequence

from rods.synthesis.planned import Producer
from rods.synthesis.structure.domains import Domains
from rods.synthesis.structure.sources import fields_with, normal, place_of, values_of
from rods.synthesis.structure.trace import Scalar, TraceStep, field_of
from rods.types import ToolCall
from rods.writers.templates.phrases import Phrases

LOOSE = frozenset({"", "id", "ident", "body"})
"""Kinds of which two values may be about quite different things."""


def clear_producer(
    steps: Sequence[TraceStep],
    began: Sequence[int],
    call: ToolCall,
    name: str,
    phrases: Phrases,
    domains: Domains,
) -> Producer | None:
    """The latest call that showed a value so that words can mean it; None: it must be said.

    Args:
        steps: what was called before.
        began: first steps of the turn before and of this turn.
        call: the call that takes the value.
        name: its argument.
        phrases: how things are referred to.
        domains: what arguments mean: another book is a rival whatever its argument is called.
    """
    value = call.arguments[name]
    if isinstance(value, bool | list | dict | ToolCall) or value is None:
        return None
    kind = domains.parameter(call.name, name)
    for number in range(len(steps) - 1, -1, -1):
        fields = fields_with(steps[number], value)
        if not fields or (domains.inferred and name not in fields):
            continue
        made = steps[number].call
        alone = any(len(values_of(steps[number], field)) == 1 for field in fields)
        named = phrases.names_its_producer(call, name, made)
        alike = [n for n, step in enumerate(steps) if step.call.name == made.name and n != number]
        turn = max((first for first in began if first <= number), default=0)
        if not named and any(n >= turn for n in alike):
            return None
        only = not alike
        producer = Producer(made, "" if alone or named else place_of(steps[number], value), only)
        if not phrases.can_refer(call, name, producer):
            return None
        if named:
            return producer
        recent = number >= began[0]
        stood = {name, *fields} - {""}
        rivals = any(_rival(s, stood, value, kind, domains) for s in steps[number + 1 :])
        return producer if recent and (alone or producer.place) and not rivals else None
    return None


def _rival(step: TraceStep, named: set[str], value: Scalar, kind: str, domains: Domains) -> bool:
    """Whether a later call takes or shows another value where this one stood."""
    key = normal(value)
    alike = {
        argument
        for argument in step.call.arguments
        if kind not in LOOSE and domains.parameter(step.call.name, argument) == kind
    }
    taken = {
        normal(given)
        for argument, given in step.call.arguments.items()
        if argument in named | alike and not isinstance(given, bool | list | dict | ToolCall)
    }
    shown = {normal(leaf.value) for leaf in step.leaves if field_of(leaf.path) in named}
    return bool((taken | shown) - {key})
