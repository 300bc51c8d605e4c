"""The graph writer: plans on the API graph, executed, worded by templates, gaps that are real."""

from __future__ import annotations

import random
import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files

import pytest

from rods.errors import SynthesisError
from rods.synthesis.planned import CallRequest
from rods.synthesis.rejection import Rejection
from rods.synthesis.structure.domains import Domains, Table
from rods.synthesis.structure.trace import all_tools, owners
from rods.synthesis.structure.words import literal, noun
from rods.synthesis.writer import Writer
from rods.task import Task
from rods.types import ToolCall, ToolSpec
from rods.writers import MixedWriter
from rods.writers.graph.api_graph import ApiGraph
from rods.writers.graph.fresh import Texts, draws
from rods.writers.graph.ground import Grounder
from rods.writers.graph.writer import GraphWriter
from rods.writers.resample.assign import Materials
from rods.writers.templates import phrases as phrasing
from rods.writers.templates.described import from_description
from rods.writers.templates.phrases import NO_PHRASES, phrases_of
from rods.writers.templates.vocabulary import Vocabulary
from synthesis_cases import ENVIRONMENT, graph_writer, sides, walked


@pytest.fixture
def writer() -> GraphWriter:
    return graph_writer()


@pytest.fixture
def accepted() -> Sequence[tuple[Task, Task]]:
    return walked()


@pytest.mark.slow
def test_most_seeds_yield_a_variant_that_passes_all_gates(
    accepted: Sequence[tuple[Task, Task]],
) -> None:
    assert len(accepted) >= 0.7 * len(sides().train[::14])
    categories = Counter(made.category for _, made in accepted)
    assert min(categories[c] for c in ("base", "miss_func", "miss_param", "long_context")) >= 3


def test_structure_is_kept_and_calls_are_new(accepted: Sequence[tuple[Task, Task]]) -> None:
    changed = 0
    for seed, made in accepted:
        assert [len(t.ground_truth) for t in made.turns] == [
            len(t.ground_truth) for t in seed.turns
        ]
        names = [[c.name for t in task.turns for c in t.ground_truth] for task in (seed, made)]
        changed += names[0] != names[1]
        assert made.provenance.recipe == "graph:walk"
        assert seed.id in made.provenance.ancestors
    assert changed >= 0.6 * len(accepted)


def test_missing_functions_are_withheld_until_they_are_given_back(
    accepted: Sequence[tuple[Task, Task]],
) -> None:
    made = [m for _, m in accepted if m.category == "miss_func"]
    assert made
    for task in made:
        gap = next(i for i, turn in enumerate(task.turns) if not turn.ground_truth)
        (missing,) = task.turns[gap].withheld
        assert all(turn.withheld == (missing,) for turn in task.turns[: gap + 1])
        assert task.turns[gap + 1].user == ""
        assert missing in [c.name for c in task.turns[gap + 1].ground_truth]
        assert missing not in [c.name for t in task.turns[:gap] for c in t.ground_truth]


def test_missing_values_cannot_be_read_before_they_are_given(
    accepted: Sequence[tuple[Task, Task]],
) -> None:
    made = [m for _, m in accepted if m.category == "miss_param"]
    assert made
    for task in made:
        gap = next(i for i, turn in enumerate(task.turns) if not turn.ground_truth)
        before = " ".join(turn.user for turn in task.turns[: gap + 1]).lower()
        answer = task.turns[gap + 1].user
        values = [str(v) for c in task.turns[gap + 1].ground_truth for v in c.arguments.values()]
        given = [v for v in values if v in answer]
        assert any(v.lower() not in before for v in given), (answer, values)


def test_messages_name_no_tool_or_parameter(accepted: Sequence[tuple[Task, Task]]) -> None:
    for seed, made in accepted:
        tools = all_tools(ENVIRONMENT, seed)
        names = {n for n in tools if "_" in n or re.search("[a-z][A-Z]", n)}
        for spec in tools.values():
            names |= {p for p in spec.parameters["properties"] if "_" in p}  # type: ignore[union-attr]
        values = " ".join(str(call) for t in made.turns for call in t.ground_truth)
        for turn in made.turns:
            said_names = {w for w in re.findall(r"\w+", turn.user) if w in names}
            assert not {w for w in said_names if w not in values.replace("=", " ").split()}


@pytest.mark.slow
def test_a_proposal_depends_on_its_random_state_alone(writer: GraphWriter) -> None:
    seed = sides().train[0]
    fresh = GraphWriter(sides().train, ENVIRONMENT)
    one, two = (w.propose(seed, random.Random(4)) for w in (writer, fresh))
    assert one == two
    assert not isinstance(one, Rejection)


def test_mixed_writer_keeps_its_share(writer: GraphWriter) -> None:
    class Other(Writer):
        name = "other"

        def propose(
            self, seed: Task, rng: random.Random, history: Sequence[Rejection] = ()
        ) -> Rejection:
            return Rejection("write", "other")

    class Main(Other):
        name = "main"

        def propose(
            self, seed: Task, rng: random.Random, history: Sequence[Rejection] = ()
        ) -> Rejection:
            return Rejection("write", "main")

    mixed, rng = MixedWriter(Main(), Other(), 0.25), random.Random(0)
    drawn = Counter(mixed.propose(sides().train[0], rng).reason for _ in range(400))  # type: ignore[union-attr]
    assert 70 <= drawn["other"] <= 130
    assert mixed.name == "main+other"


def test_every_tool_of_the_benchmark_has_wording_with_all_its_arguments() -> None:
    tools: dict[str, ToolSpec] = {}
    classes: set[str] = set()
    for task in sides().train:
        tools.update(all_tools(ENVIRONMENT, task))
        classes |= set(owners(ENVIRONMENT, task).values())
    folder = files("rods").joinpath("envs", "bfcl", "phrases")
    rows = {}
    for owner in classes:
        rows.update(tomllib.loads(folder.joinpath(f"{owner}.toml").read_text(encoding="utf-8")))
    assert set(tools) <= rows.keys()
    for name, spec in tools.items():
        required = sorted(spec.parameters.get("required", []))  # type: ignore[arg-type]
        for clause in rows[name]["say"]:
            assert sorted(re.findall(r"\{(\w+)\}", clause)) == required, (name, clause)
        for argument, forms in rows[name].get("with", {}).items():
            assert argument in spec.parameters["properties"]  # type: ignore[operator]
            assert all(re.findall(r"\{(\w+)\}", form) == [argument] for form in forms)


def test_nobody_adds_nothing_or_one_gallons(writer: GraphWriter) -> None:
    planner = writer.planner
    grounder = Grounder(planner.domains, {}, planner.graph, planner.materials)
    grounder._rng = random.Random(0)  # pyright: ignore[reportPrivateUsage]
    drawn = [grounder._number("fuel", "number") for _ in range(400)]  # pyright: ignore
    assert min(float(str(value)) for value in drawn) >= 2


def test_a_ticket_is_described_whatever_its_title_is_said_with() -> None:
    ticket = phrases_of(ENVIRONMENT).wordings["create_ticket"]
    ends = {form.partition(" {")[0] for form in ticket.optional["description"]}
    assert "and the description" not in ends  # "titled 'Late' and the description ..."


def test_weights_follow_the_pool() -> None:
    graph = ApiGraph.of(sides().train, lambda task: owners(ENVIRONMENT, task))
    assert graph.weight("pressBrakePedal", "startEngine") > graph.weight("", "startEngine")
    assert graph.weight("", "never_called") > 0
    assert "documents" in graph.exemplars["cd", "folder"] or graph.exemplars["cd", "folder"]


def test_wording_without_templates_comes_from_the_description() -> None:
    spec = ToolSpec(
        "reserve_book",
        "Reserves a book for a member. More text.",
        {"type": "object", "properties": {"bookId": {}, "note": {}}, "required": ["bookId"]},
    )
    assert from_description(spec).say == ("reserve {bookId} for a member",)
    text = NO_PHRASES.clause(
        CallRequest(ToolCall("reserve_book", {"bookId": "B-7", "note": "soon"}), spec),
        random.Random(1),
    )
    assert text == "reserve book B-7 for a member (note: soon)"


def test_values_as_people_say_them() -> None:
    assert literal(["a", "b", "c"], {}) == "a, b and c"
    assert literal([], {}) == "nothing"
    assert literal(True, {"True": "unlock"}) == "unlock"
    assert literal({"priority": 2, "newTitle": "x"}, {}) == "priority 2 and new title x"
    assert noun("cardId") == noun("card_id") == "card id"


def test_a_broken_file_of_phrases_is_named() -> None:
    with pytest.raises(SynthesisError, match=r"Shop\.toml.*say"):
        phrasing._read("[buy]\nwith = {}\n", "Shop.toml", {})


FORMS = {"badge": "B-{0007..0009}", "born": "{date 1990..1991}", "lane": "{old|new} {noun}, {town}"}


def test_an_environment_says_what_its_new_values_look_like() -> None:
    town = Table(codes={"zip": {"Oldham": "OL1"}})
    domains = Domains(forms=FORMS, tables={"town": town})
    drawn = draws(domains, Materials(Vocabulary(["book"]), {}))
    rng = random.Random(3)
    for _ in range(20):
        assert drawn["badge"](rng) in ("B-0007", "B-0008", "B-0009")
        assert re.fullmatch(r"199[01]-\d\d-\d\d", str(drawn["born"](rng)))
        assert re.fullmatch(r"(old|new) [a-z]+, Oldham", str(drawn["lane"](rng)))
    assert drawn["zip"](rng) == "OL1"


def test_a_slot_that_nobody_knows_is_refused_before_anything_is_drawn() -> None:
    materials = Materials(Vocabulary(["book"]), {})
    with pytest.raises(SynthesisError, match=r"slot \{color\} is not known.*Noun"):
        draws(Domains(forms={"badge": "B-{color}"}), materials)
    with pytest.raises(SynthesisError, match=r"slot \{city\} is not known"):
        Texts(Domains(texts={"note": ["See you.", "Off to {city}!"]}), materials)
