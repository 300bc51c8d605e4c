"""Gates on structure and execution: what is called, from where, with what outcome.

Owns the conditions that need no wording, and those that replay the ground truth without a call.
What the seed has as well is tolerated: the benchmark's own tasks are not perfect.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rods.abilities import result_key
from rods.errors import TaskError
from rods.synthesis.gates.case import Case, Facts, TurnFacts, of_turns
from rods.synthesis.gates.sentence import with_mask
from rods.synthesis.structure.domains import domains_of
from rods.synthesis.structure.profile import MAX_DISTANCE, distance
from rods.synthesis.structure.sources import Argument, Shown, Source
from rods.synthesis.structure.trace import Scalar, TraceStep, leaves, reports_failure, trace
from rods.synthesis.structure.typed import mistyped
from rods.task import Task, Turn
from rods.types import ToolCall

MAX_STRING = 200
"""Longest string argument, in characters (unless the seed has a longer one)."""
MAX_LIST = 5
"""Longest list argument (unless the seed has a longer one)."""
SLACK = 1.25
"""Largest ratio of a string beyond the limit to its seed's (other words, same text)."""


def names_its_ancestors(case: Case) -> str | None:
    """The variant names the seed and a recipe."""
    origin = case.variant.task.provenance
    if case.seed.task.id not in origin.ancestors:
        return f"ancestors {origin.ancestors} do not name the seed {case.seed.task.id}"
    return None if origin.recipe else "it names no recipe"


def is_a_seed(case: Case) -> str | None:
    """The task starts from the stage's world, names a recipe and has several turns."""
    stage, made = case.seed.task, case.variant.task
    if (made.env, made.world) != (stage.env, stage.world) or made.provenance.ancestors:
        return "it starts from another world"
    asked = sum(bool(turn.ground_truth) for turn in made.turns)
    return None if made.provenance.recipe and asked > 1 else "it has fewer than two turns"


@of_turns
def nothing_is_foreseen(case: Case, turn: TurnFacts) -> str | None:
    """No message says what only a result of its own turn brings up: nobody can know it yet."""
    facts, shown = turn.facts, ""
    before = [step.result.content for step in facts.steps if step.turn < turn.answer]
    texts = (other.text for other in facts.turns[: turn.place])
    known = "\n".join((str(facts.start), str(dict(facts.task.world)), *before, *texts))
    for step in turn.steps.values():
        for leaf in leaves(step.call):
            value = str(leaf.value)
            new = len(value) > 2 and value in shown and value not in known
            if new and value in turn.text:
                return f"the message says {value!r}, which {step.call.name} takes from a result"
        shown += step.result.content
    return None


def no_held_out_scenario(case: Case) -> str | None:
    """Every scenario that gave a turn is in the training split."""
    origin = case.variant.task.provenance
    held = {origin.scenario, *origin.scenarios} & case.corpus.scenarios
    return f"scenarios {sorted(held)} are held out" if held else None


def structure_holds(case: Case) -> str | None:
    """Category and deliberate gaps of each kind are the seed's; each gap is followed up on."""
    seed, variant = case.seed.task, case.variant.task
    if (seed.env, seed.category) != (variant.env, variant.category):
        return f"{variant.env}/{variant.category} is not the seed's {seed.env}/{seed.category}"
    (gaps, lacking, loose), theirs = _gaps(variant), _gaps(seed)
    if gaps != theirs[0]:
        return f"{gaps} turns without ground truth"
    if lacking != theirs[1]:
        return f"{lacking} turns lack a function that the next one gives back"
    return f"{loose} gaps are not followed up on" if loose > theirs[2] else None


def _gaps(task: Task) -> tuple[int, int, int]:
    """Gaps: all, those that lack a function, those without a turn that makes up for it (a few)."""
    turns = (*task.turns, Turn(""))
    found = [i for i, turn in enumerate(task.turns, 1) if not turn.ground_truth]
    lacking = sum(i < len(task.turns) and bool(task.given_back(i)) for i in found)
    return len(found), lacking, sum(not turns[i].ground_truth for i in found)


def world_opens(case: Case) -> str | None:
    """The variant's world can be made from its configuration."""
    try:
        case.variant.environment.open(case.variant.task).close()
    except TaskError as error:
        return str(error)
    return None


@of_turns
def calls_are_offered(case: Case, turn: TurnFacts) -> str | None:
    """Every called function is offered in its turn, and withheld ones are given back."""
    withheld = turn.turn.withheld
    before = case.variant.task.turns[turn.place - 1].withheld if turn.place else ()
    for name in turn.names:
        if name not in case.variant.specs:
            return f"the world has no function {name}"
        if name in withheld:
            return f"{name} is withheld"
    if turn.place and not set(withheld) <= set(before):
        return "tools are withheld that were offered before"
    back = turn.text.strip() or case.variant.task.given_back(turn.place)
    return None if back else "a blank text gives nothing back"


def arguments_are_small(case: Case) -> str | None:
    """Strings of at most 200 characters and lists of at most 5, or as long as the seed's."""
    string, items = _sizes(case.variant.calls)
    seed_string, seed_items = _sizes(case.seed.calls)
    if string > max(MAX_STRING, SLACK * seed_string):
        return f"a string of {string} characters"
    return f"a list of {items}" if items > max(MAX_LIST, seed_items) else None


@of_turns
def arguments_have_their_types(case: Case, turn: TurnFacts) -> str | None:
    """Every argument has the form that its documentation asks for: types, options, dates, codes.

    Tolerated where an ancestor gives the same function the same value: the benchmark's own are odd.
    """
    for call in turn.turn.ground_truth:
        spec = case.variant.specs.get(call.name)
        problems = mistyped(spec, call.arguments) if spec is not None else []
        if problems and not any(call in facts.calls for facts in case.ancestors):
            return f"{call.name}: {problems[0]}"
    return None


def no_held_out_overlap(case: Case) -> str | None:
    """No text or call sequence that only held-out tasks have."""
    return case.corpus.overlap(case.variant.prints)


def nothing_fails(case: Case) -> str | None:
    """No ground-truth call fails or reports failure, unless the same call does in the seed.

    A reported failure is accepted if the call of the reworked turn reports it, or every call of the
    tool in the training tasks.
    """
    for index, step in enumerate(case.variant.steps):
        made = step.call, step.result
        if not reports_failure(*made) or not reports_failure(*made, case.usual(step.call.name)):
            continue
        models = [case.seed.steps[index]] if case.aligned else []
        reworked = None if models or step.result.failed else case.source_turns[step.turn]
        if reworked is not None:
            place, theirs = (reworked.place, step.call.name), reworked.facts.steps
            models = [s for s in theirs if (s.turn, s.call.name) == place]
        if not any(
            model.result.failed >= step.result.failed and reports_failure(model.call, model.result)
            for model in models
        ):
            return f"turn {step.turn + 1}: {step.call}: {step.result.content[:160]}"
    return None


def outcomes_are_alike(case: Case) -> str | None:
    """With the seed's calls, every result has the seed's booleans: conditions go the same way."""
    if not case.aligned:
        return None
    for old, new in zip(case.seed.steps, case.variant.steps, strict=True):
        if booleans(old) != booleans(new):
            return f"turn {new.turn + 1}: {new.call}: {booleans(new)}, in the seed {booleans(old)}"
    return None


def replays(case: Case) -> str | None:
    """Two fresh worlds agree turn by turn: results and states are equal, the judge is content."""
    for index, verdict in enumerate(case.variant.trace.verdicts):
        if not verdict.solved:
            return f"turn {index + 1}: the judge does not accept the ground truth: {verdict}"
    return None


def arguments_can_be_found(case: Case) -> str | None:
    """Every argument is found at least as directly as in the seed (or in a task that gave turns).

    User texts and results count alike; documentation, configuration and derivation are worse.
    """
    allowed: dict[tuple[str, str], int] = {}
    for facts in case.ancestors:
        for argument in facts.arguments:
            key = (facts.steps[argument.step].call.name, argument.name)
            allowed[key] = max(allowed.get(key, 0), _reach(argument))
    exact = [_reach(a) for a in case.seed.arguments]
    same = case.aligned and len(exact) == len(case.variant.arguments)
    for index, argument in enumerate(case.variant.arguments):
        call = case.variant.steps[argument.step].call
        limit = exact[index] if same else allowed.get((call.name, argument.name), DOCUMENTED)
        if _reach(argument) > limit:
            where = _FOUND[argument.source]
            if isinstance(argument.value, int | float) and argument.source in _UNSEEN:
                where = "stands as digits in no message and no result before"
            return f"turn {argument.turn + 1}: {argument.name}={argument.value!r} {where}"
    return None


def profile_is_near(case: Case) -> str | None:
    """The complexity profile is near the seed's."""
    far = distance(case.seed.profile, case.variant.profile)
    return f"structural distance {far:.3f}, at most {MAX_DISTANCE}" if far > MAX_DISTANCE else None


DOCUMENTED = 1
"""Level up to which an argument that no ancestor has is looked for: visible documentation."""
_FOUND = {
    Source.DOCUMENTATION: "stands only in the tool's description",
    Source.CONFIGURATION: "stands only in the initial state, which nothing has shown",
    Source.DERIVED: "stands nowhere: it must be computed or guessed",
}
_UNSEEN = (Source.CONFIGURATION, Source.DERIVED)
_REACH = {
    **dict.fromkeys((Source.TURN, Source.EARLIER_TURN, Source.RESULT), 0),
    Source.DOCUMENTATION: DOCUMENTED, Source.CONFIGURATION: 2, Source.DERIVED: 3,
}  # fmt: skip


def _reach(argument: Argument) -> int:
    """Distance of the source; a number stands in a configuration by chance, so it is derived."""
    number = isinstance(argument.value, int | float)
    if number and argument.source is Source.CONFIGURATION:
        return _REACH[Source.DERIVED]
    return _REACH[argument.source]


def booleans(step: TraceStep) -> tuple[Scalar, ...]:
    """The booleans of a result, in order."""
    return tuple(leaf.value for leaf in step.leaves if isinstance(leaf.value, bool))


def _sizes(calls: Sequence[ToolCall]) -> tuple[int, int]:
    found = [leaf for call in calls for leaf in leaves(call)]
    strings = (len(leaf.value) for leaf in found if isinstance(leaf.value, str))
    places = (part + 1 for leaf in found for part in leaf.path if isinstance(part, int))
    return max(strings, default=0), max(places, default=0)


def changes(facts: Facts, left_out: Collection[int]) -> bool:
    """Tell whether a state or another call's result differs without these steps."""
    traced, key = trace(facts.environment, facts.task, left_out), result_key(facts.environment)
    if not all(verdict.state for verdict in traced.verdicts):
        return True
    kept = (step for number, step in enumerate(facts.steps) if number not in left_out)
    return any(
        key(a.result.content) != key(b.result.content)
        for a, b in zip(kept, traced.steps, strict=True)
    )


def superfluous(facts: Facts) -> list[int]:
    """Steps that change nothing and whose result an earlier call gave already.

    A result that stands alone is needed, so only repeated results cost a run.
    """
    seen, key = set[str](), result_key(facts.environment)
    found: list[int] = []
    for number, step in enumerate(facts.steps):
        if (result := key(step.result.content)) in seen and not changes(facts, [number]):
            found.append(number)
        seen.add(result)
    return found


def every_call_is_needed(case: Case) -> str | None:
    """Dropping any one call changes a state or loses a result that no other call gives.

    Tolerated where the seed has the same redundancy at the same place, or the turn that is reworked
    has it.
    """
    steps = case.variant.steps
    for number in superfluous(case.variant):
        if case.aligned and number in superfluous(case.seed):
            continue
        step = steps[number]
        model = case.source_turns[step.turn]
        if model is not None and _has(model, step.call.name):
            continue
        return (
            f"turn {step.turn + 1}: {step.call} changes nothing and returns what is already known"
        )
    return None


def _has(model: TurnFacts, name: str) -> bool:
    theirs = [model.facts.steps[number] for number in superfluous(model.facts)]
    return any(step.turn == model.place and step.call.name == name for step in theirs)


def gaps_are_real(case: Case) -> str | None:
    """The value that is missing in a turn stands nowhere before, and the next message gives it.

    Tolerated where the turn reworks a gap that is none either, names no more values than it, and
    the next message no fewer.
    """
    for index in gaps(case.variant):
        if case.variant.task.given_back(index + 1) or opens(case.variant, index):
            continue
        model = case.source_turns[index]
        if model is None or not _as_loose(case.variant.turns[index], model):
            return f"turn {index + 1}: nothing is missing, or the next message does not give it"
    return None


def _as_loose(gap: TurnFacts, model: TurnFacts) -> bool:
    """Tell whether the reworked gap is none either, and values stand where they stood."""
    if model.place not in gaps(model.facts) or opens(model.facts, model.place):
        return False
    given, theirs = (side.facts.turns[side.place + 1] for side in (gap, model))
    fewer = len(gap.tokens) <= len(model.tokens) and len(given.tokens) >= len(theirs.tokens)
    return fewer and bool(given.words & theirs.words or theirs.tokens)


def gaps(facts: Facts) -> list[int]:
    """Turns without ground truth that another turn follows."""
    turns = facts.task.turns
    return [i for i, turn in enumerate(turns[:-1]) if not turn.ground_truth]


def opens(facts: Facts, gap: int) -> bool:
    """Tell whether an argument of the next turn is unknown at the gap and known a message later."""
    shown, after = Shown(facts.number_words), Shown(facts.number_words)
    said = "\n".join(turn.user for turn in facts.task.turns[: gap + 1])
    shown.hear(said)
    for number, step in enumerate(facts.steps):
        if step.turn <= gap:
            shown.read(number, step)
    after.hear(facts.task.turns[gap + 1].user)
    return any(
        shown.turn_with(argument.value) is None
        and shown.in_result(argument.value) is None
        and with_mask(said, argument.value, "\0", domains_of(facts.environment)) == said
        and after.turn_with(argument.value) is not None
        for argument in facts.arguments
        if argument.turn == gap + 1 and not isinstance(argument.value, bool)
    )


def withheld_is_needed(case: Case) -> str | None:
    """Withheld functions are given back, called then, and the turn fails without them.

    Tolerated where the same function is withheld as idly in an ancestor, as long as another one is
    needed, or none is in that ancestor either.
    """
    mine = idle(case.variant)
    alone = mine.keys() >= withheld(case.variant)
    for name, problem in mine.items():
        models = [facts for facts in case.ancestors if name in idle(facts)]
        if alone:
            models = [facts for facts in models if idle(facts).keys() >= withheld(facts)]
        if not models:
            return problem
    return None


def withheld(facts: Facts) -> set[str]:
    """Every function that some turn withholds."""
    return {name for turn in facts.task.turns for name in turn.withheld}


def idle(facts: Facts) -> dict[str, str]:
    """Withheld functions that do not matter, and why."""
    turns = facts.task.turns
    found: dict[str, str] = {}
    for name in sorted(withheld(facts)):
        last = max(i for i, turn in enumerate(turns) if name in turn.withheld)
        back = last + 1
        steps = [n for n, step in enumerate(facts.steps) if step.call.name == name]
        if back == len(turns):
            found[name] = f"{name} is never given back"
        elif turns[last].ground_truth:
            found[name] = f"turn {last + 1}: {name} is withheld, but no turn without calls shows it"
        elif not any(facts.steps[n].turn == back for n in steps):
            found[name] = f"turn {back + 1}: {name} is given back and not called"
        elif trace(facts.environment, facts.task, steps).verdicts[back].solved:
            found[name] = f"turn {back + 1}: the turn is solved without {name}"
    return found
