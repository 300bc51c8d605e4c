"""The resample writer: what it changes, what it keeps, and that it is deterministic."""

from __future__ import annotations

import datetime
import random
import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from one_outcome import synthesize
from rods.errors import ConfigError
from rods.synthesis.rejection import ErrorClass, Rejection
from rods.synthesis.structure.domains import NO_DOMAINS, domains_of
from rods.synthesis.structure.mentions import find_dates
from rods.synthesis.structure.trace import trace
from rods.task import Task
from rods.writers import make_writer
from rods.writers.resample import recombine
from rods.writers.resample.sketch import Sketch, format_number
from rods.writers.resample.writer import ResampleWriter
from rods.writers.templates.vocabulary import Vocabulary, in_case, phrases
from synthesis_cases import ENVIRONMENT, accepted, keeper, named, renamed, sides, writer

CODES = set(domains_of(ENVIRONMENT).tables["city"].owners["airport"])


@pytest.mark.slow
def test_every_accepted_variant_replays_and_is_solved() -> None:
    for _, variant in accepted():
        played = trace(ENVIRONMENT, variant)
        assert all(v.solved and v.official for v in played.verdicts)
        assert not any(step.result.failed for step in played.steps)


def test_all_categories_are_varied() -> None:
    assert {v.category for _, v in accepted()} == {t.category for t in sides().train}


def test_a_sketch_without_new_values_is_the_task() -> None:
    for seed in sides().train[::25]:
        sketch = Sketch(seed, domains_of(ENVIRONMENT), ENVIRONMENT)
        assert sketch.render([None] * len(sketch.slots)) == seed


def test_variants_name_their_ancestors_and_scenarios() -> None:
    for seed, variant in accepted():
        origin = variant.provenance
        assert seed.id in origin.ancestors
        assert origin.scenario == seed.provenance.scenario
        assert origin.recipe.startswith("resample:rename")
        if "recombine" in origin.recipe:
            assert len(origin.ancestors) == 2 and len(origin.scenarios) == 2


def test_most_values_change() -> None:
    same = total = 0
    for seed, variant in renamed():
        for old, new in zip(seed.turns, variant.turns, strict=True):
            for a, b in zip(old.ground_truth, new.ground_truth, strict=True):
                kept = [k for k in a.arguments if a.arguments[k] == b.arguments[k]]
                same += len(kept)
                total += len(a.arguments)
    assert same / total < 0.35  # modes, doors, orders and booleans stay


def test_airport_codes_exist_and_routes_are_flown() -> None:
    for _, variant in accepted():
        for turn in variant.turns:
            for call in turn.ground_truth:
                if call.name == "book_flight":
                    assert {call.arguments["travel_from"], call.arguments["travel_to"]} <= CODES


def test_structure_of_gaps_is_kept() -> None:
    for seed, variant in renamed():
        assert [not t.ground_truth for t in seed.turns] == [
            not t.ground_truth for t in variant.turns
        ]
        assert [t.withheld for t in seed.turns] == [t.withheld for t in variant.turns]


def test_same_random_state_same_variant() -> None:
    seed = named(sides().train[3].provenance.origin)
    first, second = (writer().propose(seed, random.Random(5)) for _ in range(2))
    fresh = ResampleWriter(sides().train, ENVIRONMENT).propose(seed, random.Random(5))
    assert isinstance(first, Task) and first == second == fresh


def test_a_variant_can_be_a_seed() -> None:
    seed, variant = renamed()[0]
    outcome = synthesize(variant, writer(), keeper(), 1, 5)
    assert outcome.variant is not None
    assert {seed.id, variant.id} <= set(outcome.variant.provenance.ancestors)


def test_constants_of_the_api_are_not_renamed() -> None:
    seed = next(
        t
        for t in sides().train
        if any(c.name == "list_all_airports" for turn in t.turns for c in turn.ground_truth)
        and any(c.name == "get_flight_cost" for turn in t.turns for c in turn.ground_truth)
    )
    flown = {
        str(c.arguments["travel_from"])
        for turn in seed.turns
        for c in turn.ground_truth
        if c.name == "get_flight_cost"
    }
    for number in range(4):
        variant = synthesize(seed, writer(), keeper(), number, 5).variant
        assert variant is not None
        calls = [c for turn in variant.turns for c in turn.ground_truth]
        assert {
            str(c.arguments["travel_from"]) for c in calls if c.name == "get_flight_cost"
        } == flown


def test_cut_never_parts_a_gap_from_its_follow_up() -> None:
    recombiner = recombine.Recombiner(sides().train, ENVIRONMENT, ())
    rng = random.Random(0)
    cut = 0
    for seed in sides().train[::7]:
        shorter = recombine.cut(seed, recombiner.units(seed), rng)
        if shorter is None:
            continue
        cut += 1
        assert recombine.gaps(shorter) == recombine.gaps(seed)
        assert shorter.turns[-1].ground_truth or not seed.turns[-1].ground_truth
    assert cut > 10


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("on March 3rd, 2026", "on November 22nd, 2027"),
        ("the 15th of December, 2026", "the 22nd of November, 2027"),
        ("Oct 10 2026.", "Nov 22 2027."),
        ("2026-10-10", "2027-11-22"),
        ("on 10/12/2026", "on 11/22/2027"),
        ("by December 15th", "by November 22nd"),
    ],
)
def test_dates_keep_their_form(text: str, expected: str) -> None:
    [mention] = find_dates(text)
    new = mention.render(datetime.date(2027, 11, 22))
    assert text[: mention.start] + new + text[mention.end :] == expected


def test_numbers_keep_their_form() -> None:
    assert format_number(2500.0, "10,000") == "2,500"
    assert format_number(2500.0, "10.0") == "2500.0"
    assert format_number(12.5, "7.25") == "12.5"


def test_words_keep_their_case() -> None:
    assert (in_case("river", "FILE"), in_case("river", "File")) == ("RIVER", "River")
    vocabulary = Vocabulary()
    assert re.fullmatch(r"USR\d{3}", "USR" + vocabulary.like("005", random.Random(1)))
    assert len({vocabulary.word(random.Random(i)) for i in range(200)}) > 150


def test_unknown_writer_and_environment_without_domains() -> None:
    with pytest.raises(ConfigError, match="resample"):
        make_writer("resampel", sides().train, ENVIRONMENT)
    assert domains_of(SimpleNamespace(name="own", knowledge=None)) is NO_DOMAINS  # type: ignore[arg-type]


def test_a_seed_that_does_not_replay_is_rejected() -> None:
    seed = sides().train[0]
    broken = Task(seed.env, seed.category, seed.turns, {**seed.world, "initial_config": {}})
    found = writer().propose(broken, random.Random(1))
    assert isinstance(found, Rejection)
    assert found.reason in (ErrorClass.CONVERSATION_CONSTRUCT_FAILED, ErrorClass.VM_EXEC_FAILED)


@pytest.mark.slow
def test_enumerations_stay_in_values_and_in_texts() -> None:
    seed = named("multi_turn_base_174")
    for number in range(4):
        variant = synthesize(seed, writer(), keeper(), number, 5).variant
        assert variant is not None
        [kind] = {
            call.arguments["insurance_type"]
            for turn in variant.turns
            for call in turn.ground_truth
            if call.name == "purchase_insurance"
        }
        assert any(str(kind) in turn.user for turn in variant.turns)


def proposals(origin: str) -> list[dict[str, list[dict[str, Any]]]]:
    """Arguments by function of some variants that are not recombined."""
    found: list[dict[str, list[dict[str, Any]]]] = []
    for number in range(12):
        made = writer().propose(named(origin), random.Random(number))
        if isinstance(made, Task) and made.provenance.recipe == "resample:rename":
            calls: dict[str, list[dict[str, Any]]] = {}
            for call in (call for turn in made.turns for call in turn.ground_truth):
                calls.setdefault(call.name, []).append(dict(call.arguments))
            found.append(calls)
    assert len(found) >= 4
    return found


@pytest.mark.parametrize(
    ("origin", "tool", "name", "words"),
    [
        (
            "multi_turn_base_24",
            "diff",
            "file_name1",
            ("draft", "report"),
        ),  # "draft and final"
        ("multi_turn_base_6", "cat", "file_name", ("annual", "report")),  # "in the annual report"
        ("multi_turn_miss_func_0", "sort", "file_name", ("final", "report")),
        ("multi_turn_miss_func_48", "wc", "file_name", ("test",)),  # "'test' in their names"
        ("multi_turn_long_context_26", "cd", "folder", ("tmp",)),  # "the temporary directory"
    ],
)
def test_what_people_call_a_file_without_naming_it_stays_its_name(
    origin: str, tool: str, name: str, words: Sequence[str]
) -> None:
    for calls in proposals(origin):
        assert all(word in calls[tool][-1][name].lower() for word in words), calls[tool]


@pytest.mark.slow
def test_a_file_in_another_format_keeps_its_name_or_is_turned_down() -> None:
    """`Create a docx file with the same name`: file3.docx beside file3.txt."""
    seed, kept = named("multi_turn_miss_param_26"), 0
    for number in range(12):
        made = synthesize(seed, writer(), keeper(), number, 1).variant
        calls = {c.name: c.arguments for t in made.turns for c in t.ground_truth} if made else {}
        if calls:
            source, copy = (str(calls[tool]["file_name"]) for tool in ("cat", "touch"))
            assert source.rpartition(".")[0] == copy.rpartition(".")[0]
            kept += 1
    assert kept > 3


def test_the_name_of_a_function_is_no_name() -> None:
    """`What's the mean of the quarterly revenue?`, beside MeanRevenue.txt."""
    for number in range(8):
        made = writer().propose(named("multi_turn_miss_func_44"), random.Random(number))
        assert isinstance(made, Task) and "the mean of" in made.turns[1].user
        written = str(made.turns[-1].ground_truth[-1].arguments["content"])
        assert written.isdigit(), "only the answer, rounded to the nearest integer"


def test_a_day_of_the_week_fits_its_date() -> None:
    for calls in proposals("multi_turn_miss_param_158"):
        travel = datetime.date.fromisoformat(calls["book_flight"][0]["travel_date"])
        assert f"{travel:%A}" == "Thursday"


def test_politeness_reads_like_politeness() -> None:
    vocabulary = Vocabulary()
    rng = random.Random(2)
    assert vocabulary.courteous(" ", rng, 1.0, first=True) == " "
    said = vocabulary.courteous("Could you please kindly go?", rng, 1.0, first=True)
    assert "please kindly" not in said and "Could you please go?" in said
    assert all("=" not in phrase for group in phrases().values() for phrase in group)
    assert "to" not in phrases()  # only ever put in for `in order to`
