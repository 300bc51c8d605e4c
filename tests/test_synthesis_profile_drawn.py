"""A task's graph as people see it: the picture's geometry, and the verb `rods profile`."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

from rods.report.graph_svg import graph_svg, lanes, shorten
from rods.synthesis.structure.profile import profile
from rods.synthesis.structure.sources import sources
from rods.synthesis.structure.trace import all_tools, trace
from rods.task import Task, write_tasks
from rods.types import ToolCall
from synthesis_cases import ENVIRONMENT, named
from verbs import rods
from worlds import NotesEnvironment, notes_task

SVG = "{http://www.w3.org/2000/svg}"


class Rect(NamedTuple):
    x: float
    y: float
    width: float
    height: float

    def meets(self, other: Rect) -> bool:
        apart = self.x + self.width <= other.x or other.x + other.width <= self.x
        return not (apart or self.y + self.height <= other.y or other.y + other.height <= self.y)

    def has_side_at(self, x: float, y: float) -> bool:
        sides = min(abs(x - self.x), abs(x - self.x - self.width)) < 0.2
        return sides and self.y < y < self.y + self.height


def drawn(task: Task, state: bool = True) -> ElementTree.Element:
    steps = trace(ENVIRONMENT, task).steps
    arguments = sources(task, steps, all_tools(ENVIRONMENT, task))
    phi = profile(ENVIRONMENT, task, steps, arguments, state=state)
    return ElementTree.fromstring(graph_svg(task, arguments, phi))


def rects(picture: ElementTree.Element) -> dict[str, Rect]:
    found: dict[str, Rect] = {}
    for group in picture.iter(f"{SVG}g"):
        rect = group.find(f"{SVG}rect")
        assert rect is not None
        found[group.attrib["data-key"]] = Rect(
            *(float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
        )
    return found


def paths(picture: ElementTree.Element) -> list[tuple[ElementTree.Element, list[float]]]:
    edges = [p for p in picture.iter(f"{SVG}path") if "data-from" in p.attrib]
    return [(p, [float(n) for n in re.findall(r"-?\d+\.\d+", p.attrib["d"])]) for p in edges]


TASKS = [
    "multi_turn_base_3",
    "multi_turn_miss_param_55",
    "multi_turn_base_24",
    "multi_turn_base_98",
]


@pytest.mark.parametrize("origin", TASKS)
def test_boxes_do_not_overlap_and_stay_on_the_page(origin: str) -> None:
    picture = drawn(named(origin))
    boxes = rects(picture)
    task = named(origin)
    assert len(boxes) == len(task.turns) + sum(len(t.ground_truth) for t in task.turns)
    for a, b in combinations(boxes.values(), 2):
        assert not a.meets(b)
    width, height = float(picture.attrib["width"]), float(picture.attrib["height"])
    assert all(
        b.x > 0 and b.x + b.width < width and b.y + b.height < height for b in boxes.values()
    )


@pytest.mark.parametrize("origin", TASKS)
def test_edges_join_their_boxes_in_lanes_of_their_own(origin: str) -> None:
    picture = drawn(named(origin))
    boxes = rects(picture)
    uprights: list[tuple[float, float, float]] = []
    ports: list[tuple[float, float]] = []
    for path, (x0, y0, lane, y1, x1) in paths(picture):
        assert boxes[path.attrib["data-from"]].has_side_at(x0, y0)
        assert boxes[path.attrib["data-to"]].has_side_at(x1, y1)
        assert y0 < y1, "all edges point down"
        uprights.append((lane, y0, y1))
        ports += [(x0, y0), (x1, y1)]
        for box in boxes.values():
            inside = box.x <= lane <= box.x + box.width
            assert not (inside and box.y < y1 and y0 < box.y + box.height), "runs through a box"
    assert uprights and len(set(ports)) == len(ports)
    for a, b in combinations(uprights, 2):
        assert a[0] != b[0] or a[2] < b[1] or b[2] < a[1], "two edges on one line"


def test_every_edge_of_the_profile_is_drawn_in_its_style() -> None:
    task = named("multi_turn_base_3")
    phi = profile(ENVIRONMENT, task, state=True)
    assert phi.state is not None
    found = sorted(
        (p.attrib["class"], p.attrib["data-from"], p.attrib["data-to"])
        for p, _ in paths(drawn(task))
    )
    wanted = [("edge value", f"call {e.producer}", f"call {e.consumer}") for e in phi.value_edges]
    wanted += [("edge state", f"call {e.producer}", f"call {e.consumer}") for e in phi.state.edges]
    wanted += [("edge message", f"turn {e.turn}", f"call {e.consumer}") for e in phi.message_edges]
    assert found == sorted(wanted)
    style = drawn(task).findtext(f"{SVG}style") or ""
    assert ".state{stroke:#b4540a;stroke-dasharray" in style


def test_without_state_edges_the_picture_says_nothing_of_them() -> None:
    picture = drawn(named("multi_turn_base_98"), state=False)
    assert not [p for p, _ in paths(picture) if "state" in p.attrib["class"]]
    words = " ".join(t.text or "" for t in picture.iter(f"{SVG}text"))
    assert "state edge" not in words and "value edge" in words


def test_texts_are_escaped_and_need_nothing_from_elsewhere() -> None:
    task = notes_task([("Note <b> & \"c\" 'd'.", [ToolCall("note", {"text": '<b> & "c"'})])])
    environment = NotesEnvironment()
    steps = trace(environment, task).steps
    arguments = sources(task, steps, all_tools(environment, task))
    text = graph_svg(task, arguments, profile(environment, task, steps, arguments))
    words = [t.text or "" for t in ElementTree.fromstring(text).iter(f"{SVG}text")]
    assert any("<b> & \"c\" 'd'." in word for word in words)
    assert "href" not in text and "@import" not in text and "<script" not in text


def test_lanes_keep_what_meets_apart() -> None:
    assert lanes([(0, 1), (2, 3), (1, 2), (0, 3)]) == [0, 0, 1, 2]
    assert lanes([]) == []


def test_a_cut_is_marked() -> None:
    assert shorten("abcdef", 4) == "abc…"
    assert shorten("abcd", 4) == "abcd"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tasks") / "tasks.jsonl"
    write_tasks(path, [named("multi_turn_base_3"), named("multi_turn_base_98")])
    # A blank line before the second task: lines are those of the file.
    path.write_text(path.read_text().replace("\n", "\n\n", 1))
    return path


def test_the_tree_names_turns_calls_sources_and_edges(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "graph.svg"
    command = ["profile", "multi_turn_base_98", "--svg", str(target)]
    assert rods(*command, monkeypatch=monkeypatch) == 0
    shown = capsys.readouterr().out
    for words in (
        "turn 1: I'm feeling",
        "3 startEngine",
        "state edges from 1 lockDoors, 2 pressBrakePedal",
        "cityA = '62947' ← result of call 4",
        "ignitionMode = 'START' ← documentation",
        "calls a turn        2 2 3, together 7",
        "state edges         2, 1 across turns, depth 1",
        "value edges         3, 0 across turns, depth 1",
    ):
        assert words in shown
    assert ElementTree.parse(target).getroot().tag == f"{SVG}svg"


def test_a_picture_that_is_there_is_not_overwritten(
    pool: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "graph.svg"
    target.write_text("mine")
    command = ["profile", "1", "--tasks", str(pool), "--svg", str(target)]
    assert rods(*command, monkeypatch=monkeypatch) == 2
    shown = capsys.readouterr()
    assert f"{target}: exists" in shown.err and not shown.out
    assert target.read_text() == "mine"


@pytest.mark.parametrize("key", ["multi_turn_base_98", "3", "c12df3", "c12df30b685e0c55"])
def test_a_task_is_found_by_name_line_and_id(
    key: str, pool: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rods("profile", key, "--tasks", str(pool), "--json", monkeypatch=monkeypatch) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["origin"] == "multi_turn_base_98"
    assert row["state_edges"] == [[1, 3], [2, 3]]
    assert (row["calls"], row["depth"], row["state_depth"]) == ([2, 2, 3], 1, 1)


def test_no_state_costs_no_runs(
    pool: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["profile", "1", "--tasks", str(pool), "--json", "--no-state"]
    assert rods(*words, monkeypatch=monkeypatch) == 0
    assert "state_edges" not in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("multi_turn_bse_98", "Did you mean multi_turn_base_98"),
        ("2", "a line from 1 to 3"),
        ("c12", "4 digits"),
    ],
)
def test_an_unknown_task_is_an_error_of_the_user(
    key: str,
    said: str,
    pool: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert rods("profile", key, "--tasks", str(pool), monkeypatch=monkeypatch) == 2
    shown = capsys.readouterr()
    assert said in shown.err and "Traceback" not in shown.err
    assert not shown.out


def test_a_name_of_several_variants_is_not_guessed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "tasks.jsonl"
    tasks = [named("multi_turn_base_3"), named("multi_turn_miss_func_3")]
    rows = [json.dumps(t.to_json()).replace("multi_turn_miss_func_3", "multi_turn_base_3")
            for t in tasks]  # fmt: skip
    path.write_text("\n".join(rows))
    assert rods("profile", "multi_turn_base_3", "--tasks", str(path), monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert tasks[0].id in said and tasks[1].id in said
