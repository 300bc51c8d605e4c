"""Seed tasks from nothing: a walk over an API in a world that no task describes.

Owns the choice of tools: those go on with what earlier calls were about. Values are
`invent.py`'s, the execution is the walk's, the wording the templates'.

    planned = ScratchWalk(planner, base, random.Random(3)).run()     # list[PlannedTurn]
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from rods.synthesis.planned import PlannedTurn, Producer, missing_function, missing_value
from rods.synthesis.rejection import ErrorClass, Rejection
from rods.synthesis.structure.trace import field_of
from rods.synthesis.structure.words import noun, order_of
from rods.task import BASE, MISS_FUNC, MISS_PARAM
from rods.types import ToolCall, json_choices, json_type
from rods.writers.graph.ground import PASSING
from rods.writers.graph.invent import Inventor, lists
from rods.writers.graph.walk import Walk
from rods.writers.templates.described import from_description

TURNS = (2, 3, 3, 4)
"""Turns of a conversation, each drawn alike."""
SECOND = 0.25
"""How often a turn asks for another call behind one that changed nothing."""
STAY = 0.8
"""How often a turn is about the class of the turn before."""
GOES_ON = 20.0
"""How much likelier a tool is that goes on with what earlier calls were about."""
AGAIN = 0.02
"""The same for each time that it was called before."""
_said = "day date time reason note notes comment comments remark message body text description"
SAID = frozenset([*_said.split(), "details", "subject"])
"""Last words of parameters that people say at once: days, times, written texts."""
GAPS = {BASE: 3, MISS_FUNC: 1, MISS_PARAM: 1}
"""How often each category is planned."""


def category_of(planned: Sequence[PlannedTurn]) -> str:
    """The category of a conversation with these turns."""
    if any(turn.withheld for turn in planned):
        return MISS_FUNC
    return MISS_PARAM if any(turn.left_open for turn in planned) else BASE


def _words(tool: str) -> set[str]:
    return set(noun(tool).split())


class ScratchWalk(Walk):
    """One walk that no seed guides."""

    grounder = Inventor

    def run(self) -> list[PlannedTurn] | Rejection:
        """Plan and execute all turns; a rejection says what could not be found."""
        turns: list[PlannedTurn] = []
        with closing(self._world):
            self._world.begin_turn(0)
            start = self._world.snapshot()
            for _ in range(self._rng.choice(TURNS)):
                before, state = len(self._steps), self._world.snapshot()
                self._began = [*self._began[-1:], before]
                owner, used = self._next_owner(), set[str]()
                for _ in range(1 + (self._rng.random() < SECOND)):
                    # Nobody asks at once for a thing and for what comes of it.
                    if self._world.snapshot() != state or not self._sample(owner, used):
                        break
                    used.add(self._steps[-1].call.name)
                if len(self._steps) == before:
                    break
                turns.append(self._planned(before))
            changed = not start or self._world.snapshot() != start
        if len(turns) < 2 or not changed:
            what = "no two turns fit" if len(turns) < 2 else "its calls change nothing"
            return Rejection("plan", ErrorClass.NO_PATTERN, what)
        return self._with_gap(turns)

    def _meant(self, call: ToolCall, *, kept: bool) -> dict[str, Producer]:
        """Only what the last call showed: an appointment that was named since has a pet, too."""
        found = super()._meant(call, kept=kept)
        return {name: p for name, p in found.items() if p.call is self._steps[-1].call}

    def _may_blur(self, tool: str, name: str) -> bool:
        """Whether a clause reads well that leaves an argument open: a person, a thing, a place."""
        if tool in self._planner.phrases.wordings:
            return self._planner.may_blur(tool, name)
        spec = self._base.specs[tool]
        schema = spec.properties[name]
        if from_description(spec).noun(name) not in order_of(spec).lower():
            return False  # nobody says `with a name`
        said, last = str(schema.get("description", "")), noun(name).split()[-1]
        special = last in SAID or "YYYY-MM-DD" in said or "HH:MM" in said
        return json_type(schema) == "string" and not json_choices(schema) and not special

    def _next_owner(self) -> str:
        """The class of the next turn."""
        last = self._owner(self._steps[-1].call) if self._steps else ""
        left = {self._owner(s.call) for s in self._steps if _words(s.call.name) & lists()["leaves"]}
        every = [owner for owner in dict.fromkeys(self._base.owners.values()) if owner not in left]
        stays = last in every and self._rng.random() < STAY
        return last if stays else self._rng.choice(every or [""])

    def _weights(self, before: str, tools: Sequence[str]) -> list[float]:
        """Tools that take what earlier calls took or showed, and new ones, come first."""
        domains, weights = self._planner.domains, list[float]()
        calls = [step.call for step in self._steps]
        names = {name for call in calls for name in call.arguments}
        names |= {field_of(leaf.path) for step in self._steps for leaf in step.leaves}
        kinds = {domains.parameter(c.name, n) for c in calls for n in c.arguments} - PASSING
        for tool in tools:
            takes = self._base.specs[tool].required
            goes_on = any(n in names or domains.parameter(tool, n) in kinds for n in takes)
            uses = sum(call.name == tool for call in calls)
            weight = (GOES_ON if goes_on else 1.0) * AGAIN**uses
            words = _words(tool)
            back = any(c.name != tool and _words(c.name) == words for c in calls)  # a_to_b, b_to_a
            late, soon = words & lists()["enters"] and before, words & lists()["leaves"]
            if back or late or (soon and len(calls) < 2):
                weight = 0.0001
            weights.append(weight)
        return weights

    def _with_gap(self, turns: list[PlannedTurn]) -> list[PlannedTurn]:
        """The turns, one of them with a gap where one was drawn and is possible."""
        category = self._rng.choices(list(GAPS), list(GAPS.values()))[0]
        for place in self._rng.sample(range(len(turns)), len(turns) if category != BASE else 0):
            turn, before = turns[place], turns[:place]
            made = (
                missing_function(turn, before, self._rng)
                if category == MISS_FUNC
                else missing_value(
                    turn, before, self._may_blur, self._planner.domains.parameter, self._rng
                )
            )
            if isinstance(made, PlannedTurn):
                return [*before, made, *turns[place + 1 :]]
        return turns
