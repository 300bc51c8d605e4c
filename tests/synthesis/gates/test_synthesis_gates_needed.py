"""Gates that play again without a call: minimal calls, real gaps, needed tools; and novelty."""

from __future__ import annotations

import dataclasses

import pytest

from rods.synthesis.gates.case import Case, Facts
from rods.synthesis.gates.overlap import Corpus, Neighbors, look_of, prints
from rods.synthesis.gates.structure import (
    arguments_can_be_found,
    calls_are_offered,
    changes,
    gaps,
    gaps_are_real,
    idle,
    opens,
    structure_holds,
    superfluous,
    withheld_is_needed,
)
from rods.synthesis.gates.text import is_diverse, is_new
from rods.task import MISS_FUNC, MISS_PARAM, Task, Turn
from rods.types import ToolCall
from synthesis_cases import (
    ENVIRONMENT,
    accepted,
    keeper,
    named,
    renamed,
    sides,
    verdict,
    with_calls,
    with_turn,
)
from worlds import NotesEnvironment, notes_task


def facts(task: Task) -> Facts:
    return Facts(ENVIRONMENT, task)


def test_most_originals_are_minimal() -> None:
    tasks = [named(f"multi_turn_base_{n}") for n in range(0, 200, 10)]
    assert sum(bool(superfluous(facts(t))) for t in tasks) <= 2
    assert superfluous(facts(named("multi_turn_base_114")))  # the same list asked for twice


def test_a_repeated_look_is_superfluous_and_a_repeated_change_is_not() -> None:
    seed = named("multi_turn_base_0")
    twice = Turn("Look twice.", (ToolCall("pwd"), ToolCall("pwd")))
    made = Turn("Make two.", (ToolCall("mkdir", {"dir_name": "q1"}),))
    more = Turn("And one.", (ToolCall("mkdir", {"dir_name": "q2"}),))
    looking = facts(dataclasses.replace(seed, turns=(twice,)))
    assert superfluous(looking) == [1]
    making = facts(dataclasses.replace(seed, turns=(made, more)))
    assert making.steps[0].result.content == making.steps[1].result.content
    assert superfluous(making) == []
    assert changes(making, [1]) and not changes(looking, [1])


def test_a_call_that_moves_what_later_calls_see_is_needed() -> None:
    """The current folder is no public state, but a later result shows it."""
    seed = named("multi_turn_base_0")
    go, look = ToolCall("cd", {"folder": "document"}), ToolCall("pwd")
    task = dataclasses.replace(seed, turns=(Turn("Go and look.", (go, look)),))
    assert not facts(task).steps[0].result.failed
    assert changes(facts(task), [0])


def test_a_repeated_call_is_caught() -> None:
    for seed, variant in renamed()[:12]:
        index = next(i for i, t in enumerate(variant.turns) if t.ground_truth)
        calls = variant.turns[index].ground_truth
        assert verdict(seed, with_calls(variant, index, (*calls, calls[-1])))


def missing_param() -> list[tuple[Task, Task, int]]:
    found: list[tuple[Task, Task, int]] = []
    for seed, variant in accepted():
        mine = facts(variant)
        if variant.category == "miss_param":
            found += [(seed, variant, i) for i in gaps(mine) if opens(mine, i)]
    return found


def test_a_value_that_is_told_too_early_is_no_gap() -> None:
    assert missing_param()
    for seed, variant, gap in missing_param():
        before, after = variant.turns[gap : gap + 2]
        early = dataclasses.replace(before, user=f"{before.user} {after.user}")
        assert verdict(seed, with_turn(variant, gap, early)) in ("gap", "contradiction", "asked")


def test_a_value_that_is_never_told_is_no_gap() -> None:
    for seed, variant, gap in missing_param():
        silent = dataclasses.replace(variant.turns[gap + 1], user="You know which one.")
        assert verdict(seed, with_turn(variant, gap + 1, silent))


def test_withheld_functions_matter() -> None:
    pairs = [p for p in accepted() if p[1].category == "miss_func" and not idle(facts(p[0]))]
    assert pairs
    for seed, variant in pairs:
        assert not idle(facts(variant))
        called = {c.name for t in variant.turns for c in t.ground_truth}
        other = min(facts(variant).specs.keys() - called)
        turns = tuple(
            dataclasses.replace(t, withheld=(other,) if t.withheld else ()) for t in variant.turns
        )
        wrong = dataclasses.replace(variant, turns=turns)
        assert idle(facts(wrong)) == {other: next(iter(idle(facts(wrong)).values()))}
        assert verdict(seed, wrong)
        never = tuple(dataclasses.replace(t, withheld=(other,)) for t in variant.turns)
        assert "never given back" in str(idle(facts(dataclasses.replace(variant, turns=never))))


def test_an_idle_function_is_tolerated_only_beside_one_that_matters() -> None:
    """The seed withholds `find`, which is needed, and `ls`, which is not."""
    seed = named("multi_turn_miss_func_3")
    idly = keeper().case(seed, with_withheld(seed, ("ls",)))
    assert "ls is given back and not called" in str(withheld_is_needed(idly))
    assert withheld_is_needed(keeper().case(seed, with_withheld(seed, ("find",)))) is None
    assert withheld_is_needed(keeper().case(seed, seed)) is None


def with_withheld(task: Task, names: tuple[str, ...]) -> Task:
    turns = tuple(dataclasses.replace(t, withheld=names if t.withheld else ()) for t in task.turns)
    return dataclasses.replace(task, turns=turns)


def test_neighbors_find_equal_calls_and_near_texts() -> None:
    known = Neighbors(sides().train)
    task = next(t for t in sides().train if len(prints(t).triples) > 80)
    assert "calls" in str(known.repeated(prints(task)))
    call = ToolCall("echo", {"content": "something else"})
    reworded = with_calls(task, 0, (call,))
    assert "triples" in str(known.repeated(prints(reworded)))
    new = dataclasses.replace(task, turns=(Turn("Nothing like this was ever said.", (call,)),))
    assert known.repeated(prints(new)) is None


def test_neighbors_agree_with_comparing_all() -> None:
    tasks = sides().train
    index = Neighbors(known=[dataclasses.replace(prints(t), calls="") for t in tasks[:150]])
    others = [prints(t) for t in tasks[:150]]
    for task in tasks[100:260:5]:
        mine = dataclasses.replace(prints(task), calls="")
        assert bool(index.repeated(mine)) == any(mine.similarity(o) > 0.92 for o in others)


def test_a_variant_may_repeat_no_other_seed_either() -> None:
    seed, variant = renamed()[0]
    other = next(
        t for t in sides().train if t.category == seed.category and t != seed and len(t.turns) > 2
    )
    copy = dataclasses.replace(other, provenance=variant.provenance)
    assert "repeats a seed" in str(is_new(keeper().case(seed, copy)))


def noted(seed: Task, variant: Task) -> Case:
    theirs, mine = (Facts(NotesEnvironment(), task) for task in (seed, variant))
    return Case(theirs, mine, [theirs], Corpus((), ()), pool=Neighbors())


def test_a_variant_may_not_repeat_its_seed_where_that_is_a_variant_itself() -> None:
    """Such a seed is not among the training tasks, and its copy was new."""
    assert "repeats a seed" in str(is_new(noted(opening(), opening())))
    assert is_new(noted(opening(), opening("Close box R-7, Bob is on his way.", "R-7"))) is None


def lacking(*kinds: str, category: str = MISS_FUNC) -> Task:
    """A task with a gap for each kind: a function or a value (`x`), or neither, is missing."""
    turns: list[tuple[str, list[ToolCall]]] = []
    withheld: dict[int, tuple[str, ...]] = {}
    for number, kind in enumerate(kinds):
        call = ToolCall("note", {"text": "x7"}) if kind == "x" else ToolCall("read")
        if kind == "function":
            withheld |= dict.fromkeys(range(2 * number + 1), ("read",))
        turns += [("Do it.", []), ("" if kind == "function" else f"It is {kind}7.", [call])]
    return notes_task(turns, withheld, category=category)


@pytest.mark.parametrize(
    ("seed", "variant", "holds"),
    [
        (("function",), ("function",), True),
        (("function",), ("nothing",), False),
        (("x",), ("function",), False),
        (("x", "function"), ("x", "function"), True),
        (("x", "function"), ("function", "x"), True),
        (("x", "function"), ("x", "x"), False),
    ],
)
def test_as_many_functions_are_missing_as_in_the_seed_task(
    seed: tuple[str, ...], variant: tuple[str, ...], holds: bool
) -> None:
    """A gap that offers all functions asks an honest agent to do nothing."""
    problem = structure_holds(noted(lacking(*seed), lacking(*variant)))
    assert (problem is None) is holds, problem


def test_a_value_is_missing_in_a_gap_whatever_the_category() -> None:
    seed = lacking("x", "function")
    assert gaps_are_real(noted(seed, seed)) is None
    worded = with_turn(seed, 0, dataclasses.replace(seed.turns[0], user="Do it with x7."))
    assert "turn 1: nothing is missing" in str(gaps_are_real(noted(seed, worded)))
    assert [turn.answers for turn in noted(seed, seed).variant.turns] == [False, True, False, False]


@pytest.mark.parametrize(
    ("said", "value", "real"),
    [
        ("Note the day.", "2026-03-04", True),
        ("Note the day, March 4th.", "2026-03-04", False),
        ("Note the day, 4 March 2026.", "2026-03-04", False),
        ("Note the day, March 5th.", "2026-03-04", True),
        ("Note the tag.", "#rain", True),
        ("Note the tag Rain.", "#rain", False),
    ],
)
def test_a_day_that_is_said_in_another_form_is_not_missing(
    said: str, value: str, real: bool
) -> None:
    calls = [ToolCall("note", {"text": value})]
    task = notes_task([(said, []), (f"It is {value}.", calls)], category=MISS_PARAM)
    assert opens(Facts(NotesEnvironment(), task), 0) is real


@pytest.mark.parametrize(
    ("said", "amount", "found"),
    [("-25", -25, True), ("25", 25, True), ("-25", 25, False), ("25", -25, False)],
)
def test_a_number_is_said_with_its_sign(said: str, amount: int, found: bool) -> None:
    seed, variant = (
        notes_task([(f"Add {text}, please.", [ToolCall("add", {"amount": number})])])
        for text, number in (("-18", -18), (said, amount))
    )
    assert (arguments_can_be_found(noted(seed, variant)) is None) is found


def test_a_blank_text_gives_a_function_back() -> None:
    given = lacking("function")
    assert calls_are_offered(noted(given, given)) is None
    kept = dataclasses.replace(given.turns[1], withheld=("read",), ground_truth=())
    assert "gives nothing back" in str(calls_are_offered(noted(given, with_turn(given, 1, kept))))


def test_a_world_that_cannot_be_made_is_no_crash() -> None:
    seed, variant = next((s, v) for s, v in accepted() if "GorillaFileSystem" in str(v.world))
    config = {**variant.world["initial_config"], "GorillaFileSystem": {"root": {}}}  # type: ignore[dict-item]
    broken = dataclasses.replace(variant, world={**variant.world, "initial_config": config})
    assert verdict(seed, broken) == "world"


def opening(text: str = "Open L-3 for Ann.", box: str = "L-3", tool: str = "open") -> Task:
    return notes_task([(text, [ToolCall(tool, {"box": box, "who": "Ann"})])])


@pytest.mark.parametrize(
    ("other", "alike"),
    [
        (opening("Open L-77 for Ann.", "L-77"), True),
        (opening("Hi! Open L-4 for Ann. Thanks!", "L-4"), True),
        (opening("Open L-3 for Bob."), False),
        (opening("Please open L-3 for Ann."), False),
        (opening(tool="close"), False),
        (opening(box="the left one"), False),
        (dataclasses.replace(opening(), category=MISS_FUNC), False),
        (
            with_turn(opening(), 0, dataclasses.replace(opening().turns[0], withheld=("open",))),
            False,
        ),
        (dataclasses.replace(opening(), turns=opening().turns * 2), False),
    ],
)
def test_what_differs_in_ids_and_numbers_alone_looks_alike(other: Task, alike: bool) -> None:
    assert (look_of(other) == look_of(opening())) == alike


@pytest.mark.parametrize(
    ("one", "other"),
    [("on May 8th", "on June 21st"), ("for two days", "for 3 days"), ("at 9:30", "at 16:00")],
)
def test_days_and_number_words_are_numbers(one: str, other: str) -> None:
    assert look_of(opening(f"Open it {one}.")) == look_of(opening(f"Open it {other}."))


def test_a_seed_task_has_two_variants_that_are_like_it_but_for_ids() -> None:
    environment, seed = NotesEnvironment(), opening()

    def problem(*tasks: Task, of: Task = seed, ancestors: tuple[Task, ...] = ()) -> str | None:
        *before, last = tasks
        theirs, mine, *others = (Facts(environment, t) for t in (of, last, *ancestors))
        seen = [prints(task) for task in before]
        return is_diverse(Case(theirs, mine, [theirs, *others], Corpus((), ()), seen))

    four, five, six, seven = (opening(f"Open L-{n} for Ann.", f"L-{n}") for n in (4, 5, 6, 7))
    bobs = [opening(f"Open L-{n} for Bob.", f"L-{n}") for n in (4, 5, 6, 7)]
    assert problem(four) is None and problem(four, five) is None
    found = problem(four, five, six)
    assert found is not None and "3 tasks" in found
    assert problem(*bobs[:3]) is None and problem(*bobs) == found, "the seed task is not like them"
    assert problem(four, five, bobs[0]) is None
    assert problem(six, seven, of=five) is None, "the seed task is a variant of another one"
    assert problem(six, seven, of=five, ancestors=(seed,)) == found, "that is like it"
