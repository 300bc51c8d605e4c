"""Queries behind `rods view`: filters, siblings, files that come and go, candidates."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from report_runs import ATTACK, SEED, VARIANT, signal, trajectory, write_queue, write_run
from rods.env import TurnVerdict
from rods.errors import StoreError
from rods.report.run_data import load_run
from rods.report.viewer import member_view, stop_words, trajectory_view
from rods.store import LOCK
from rods.trajectory import TrainingSignal, Trajectory
from rods.trajectory_codec import write_parquet
from rods.types import Message, StopReason, ToolCall
from verbs import held

pytest.importorskip("duckdb", reason="needs the extra [view]")

from rods.view import charts
from rods.view.charts import boundary_map, courses, overview
from rods.view.frame import _jinja, link
from rods.view.index import TrajectoryFilter, TrajectoryIndex
from rods.view.pages import COLORS, token_spans
from rods.view.runs import RunView, open_runs


def members(task: str, step: int, solved: list[int]) -> list[Trajectory]:
    """A group; member i solves so many of two turns."""
    return [
        trajectory(task, i, step, [turn < done for turn in range(2)])
        for i, done in enumerate(solved)
    ]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[TrajectoryIndex]:
    cut = replace(members("c", 2, [0])[0], stop=StopReason.CONTEXT)
    write_parquet(tmp_path / "step-000001.parquet", members("a", 1, [0, 2]))
    write_parquet(tmp_path / "step-000002.parquet", [*members("b", 2, [1, 1]), cut])
    made = TrajectoryIndex(tmp_path)
    assert made.refresh() and not made.refresh()
    yield made
    made.close()


def found(index: TrajectoryIndex, **wanted: object) -> list[tuple[str, int]]:
    return [(r.task_id, r.member) for r in index.find(TrajectoryFilter(**wanted)).rows]  # pyright: ignore[reportArgumentType]


def test_filters(index: TrajectoryIndex) -> None:
    assert found(index) == [("b", 0), ("b", 1), ("c", 0), ("a", 0), ("a", 1)]
    assert found(index, low=0.4, high=0.75) == [("b", 0), ("b", 1)]
    assert found(index, stop="context") == [("c", 0)]
    assert found(index, step="1", low=0.9) == [("a", 1)]
    for step in ("9", "x", "9" * 30):
        assert found(index, step=step) == [], "there is no such update"
    assert found(index, task="b") == [("b", 0), ("b", 1)]
    index.categorize({"a": "base", "b": "long_context"})
    assert found(index, category="base") == [("a", 0), ("a", 1)]
    assert index.values("category") == ["base", "long_context"]
    assert index.values("stop") == ["context", "done"]


def test_text_and_tools(index: TrajectoryIndex) -> None:
    first = index.read(1, 0)[0]
    word = first.messages[0].content.split()[0].upper()
    assert len(found(index, text=word)) == 5
    assert found(index, text="no such words") == []
    assert index.values("tool") == ["cat", "cd"]
    assert found(index, tool="cat") == found(index)
    assert found(index, tool="ca") == []
    assert len(found(index, text=ATTACK)) == 5, "text is looked for as JSON writes it"
    assert found(index, task="' OR 1=1 --") == []


def test_words_of_any_language_are_found_in_any_case(tmp_path: Path) -> None:
    one, other = members("a", 1, [0, 2])
    spoken = Message("user", 'Öffne die "Straße": ПРИВЕТ')
    asked = Message("assistant", "", (ToolCall("buche", {"ort": "Köln"}),))
    other = replace(other, messages=(Message("user", "1 + 1 (two) \ud800\n*b*"),))
    write_parquet(tmp_path / "step-000001.parquet", [replace(one, messages=(spoken, asked)), other])
    made = TrajectoryIndex(tmp_path)
    made.refresh()
    for text in ("öffne", 'DIE "STRAßE"', "привет", "BUCHE", "köln"):
        assert found(made, text=text) == [("a", 0)], text
    for text in ("1 + 1 (TWO)", "\n*B*", "\ud800"):
        assert found(made, text=text) == [("a", 1)], text
    assert found(made, text="1 . 1") == [] and not made.faults
    said = replace(one, member=2, messages=(Message("user", 'my "name": "user", 5'), asked))
    write_parquet(tmp_path / "step-000002.parquet", [said])
    made.refresh()
    for text in ("name", "USER", "use", '"name": "'):
        assert found(made, text=text) == [("a", 2)], f"{text} is no key of JSON"
    assert found(made, text="role") == found(made, text="content") == []
    made.close()


def test_groups_and_siblings(index: TrajectoryIndex) -> None:
    assert [r.member for r in index.siblings(2, 1)] == [0, 1]
    assert index.siblings(2, 99) == []
    assert index.groups("b") == [(2, 0, 2, 0.5)]
    with pytest.raises(StoreError):
        index.read(2, 99)


def test_an_invalid_trajectory_has_no_progress(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=1)
    (run / "trajectories").mkdir()
    alike, gone = members("a", 1, [2, 2, 0]), members("b", 1, [0, 0])
    lost = [replace(one, failure="no server") for one in (alike.pop(), *gone)]
    rows = [*alike, *lost, *members("c", 1, [2, 1])]
    write_parquet(run / "trajectories" / "step-000001.parquet", rows)
    index = TrajectoryIndex(run / "trajectories")
    index.refresh()
    assert index.groups("a") == [(1, 0, 3, 1.0)] and index.groups("b") == [(1, 3, 2, None)]
    assert [row.progress for row in index.siblings(1, 0)] == [1.0, 1.0, None]
    assert len(found(index)) == 7 and len(found(index, low=0.1)) == 4
    assert found(index, high=0.4) == [], "an invalid one is no failure"
    page = {"run": SimpleNamespace(label="run", name_of=str), "link": link}
    values = {"task": None, "made": [], "row": None, "gates": [], "groups": index.groups("b")}
    shown = _jinja.get_template("task.html.j2").render(**page, id="b", **values)
    assert "<td>2</td><td>&ndash;</td>" in shown
    hits = index.find(TrajectoryFilter(task="a"))
    values = {"found": hits, "page": 1, "pages": 1, "links": {}}
    shown = _jinja.get_template("rows.html.j2").render(**page, **values)
    assert shown.count('class="meter"') == 2 and ">invalid<" in shown
    index.close()
    groups: Any = trajectory_view(load_run(run))["groups"]
    assert [group["task"] for group in groups] == ["c", "a", "b"], "most different results first"


def test_two_groups_of_a_task_in_one_update_stay_apart(tmp_path: Path) -> None:
    """An update that ends an epoch and begins the next may draw a task twice."""
    run = write_run(tmp_path / "run", steps=1)
    (run / "trajectories").mkdir()
    rows = [*members("a", 1, [0, 2]), *members("b", 1, [1, 1]), *members("a", 1, [2, 2])]
    write_parquet(run / "trajectories" / "step-000001.parquet", rows)
    index = TrajectoryIndex(run / "trajectories")
    index.refresh()
    assert index.groups("a") == [(1, 0, 2, 0.5), (1, 4, 2, 1.0)]
    assert [[r.number for r in index.siblings(1, n)] for n in (1, 4)] == [[0, 1], [4, 5]]
    index.close()
    judged = [
        {"task_id": task, "rbar": mean, "variance": 0.0, "region": region}
        for task, mean, region in (("a", 0.5, "boundary"), ("b", 0.5, "hard"), ("a", 1, "mastered"))
    ]
    with (run / "metrics.jsonl").open("a", encoding="utf-8") as log:
        log.write(json.dumps({"kind": "step", "step": 1, "judgements": judged}) + "\n")
    shown: Any = trajectory_view(load_run(run))["groups"]
    found = sorted((g["task"], g["mean"], g["region"], len(g["members"])) for g in shown)
    assert found == [("a", 0.5, "boundary", 2), ("a", 1.0, "mastered", 2), ("b", 0.5, "hard", 2)]


def test_a_page_beyond_the_last_shows_the_first(index: TrajectoryIndex) -> None:
    assert len(found(index, page=7)) == 5


def test_files_that_come_change_and_go(index: TrajectoryIndex, tmp_path: Path) -> None:
    write_parquet(tmp_path / "step-000003.parquet", members("d", 3, [2]))
    (tmp_path / "step-000001.parquet").unlink()
    write_parquet(tmp_path / "step-000002.parquet", members("b", 2, [1]))
    assert index.refresh()
    assert found(index) == [("d", 0), ("b", 0)]
    assert len(found(index, text="a")) == 2
    (tmp_path / "step-000004.parquet").write_bytes(b"no Parquet")
    assert index.refresh()
    assert found(index) == [("d", 0), ("b", 0)]
    assert list(index.faults) == ["step-000004.parquet"]


def test_progress_in_sql_is_that_of_the_verdicts(tmp_path: Path) -> None:
    """Every combination of what a verdict says."""
    both = (True, False)
    verdicts = [
        TurnVerdict(expects, calls, state, executed, True, answered, correct=correct)
        for expects in both
        for calls in (0, 1)
        for state in both
        for executed in both
        for answered in both
        for correct in (None, *both)
    ]
    one = trajectory("a", 0, 1, [True])
    rows = [replace(one, verdicts=(v,), n_turns=1, member=i) for i, v in enumerate(verdicts)]
    write_parquet(tmp_path / "step-000001.parquet", rows)
    index = TrajectoryIndex(tmp_path)
    index.refresh()
    by_sql = [r.progress for page in (0, 1) for r in index.find(TrajectoryFilter(page=page)).rows]
    assert by_sql == [row.progress for row in rows]
    index.close()


def test_a_filter_is_its_address() -> None:
    wanted = TrajectoryFilter(low=0.25, tool="lend", page=2)
    assert wanted.query == {"low": "0.25", "tool": "lend", "page": "2"}
    assert TrajectoryFilter.parse(wanted.query) == wanted
    assert TrajectoryFilter.parse({"low": "many", "other": "1"}) == TrajectoryFilter()


def test_tokens_have_mask_log_probabilities_and_advantages(index: TrajectoryIndex) -> None:
    one, none = index.read(1, 0)
    assert none is None, "nobody has trained on it"
    shown = token_spans(one, None, None, "mask")
    count = sum(len(span.ids) for span in one.spans)
    rows = shown["rows"]
    assert len(rows) == count == shown["total"] and shown["advantages"] == []
    strengths = [row[3] for row in rows]
    assert strengths == [float(span.sampled) for span in one.spans for _ in span.ids]
    given = (None, -0.25, None, 4.0, None, 0.0, None, None)
    colored = token_spans(one, TrainingSignal(0.5, {}, given), None, "advantage")
    assert colored["advantages"] == [-0.25, 0.0, 4.0]
    wanted = [(css, strength, words) for span, css, strength, words in zip(
        one.spans,
        ["env", "policy less", "env", "policy", "env", "policy", "env", "policy"],
        [0.0, 0.4, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0],
        ["", "-0.250", "", "+4.000", "", "+0.000", "", ""],
        strict=True,
    ) for _ in span.ids]  # fmt: skip
    found = [
        (css, v, "".join(re.findall("advantage (.*?),", t))) for _, t, css, v in colored["rows"]
    ]
    assert found == wanted


def test_rewards_are_filtered_where_files_hold_them(tmp_path: Path) -> None:
    """Files of a run that was resumed lack the column before that, or all of them lack it."""
    old = [replace(member, failure="gone") for member in members("a", 1, [0, 2])]
    file = tmp_path / "step-000001.parquet"
    write_parquet(file, old)
    pq.write_table(pq.read_table(file).drop_columns([*TrainingSignal._fields]), file)
    index = TrajectoryIndex(tmp_path)
    assert index.refresh()
    assert [row.reward for row in index.find(TrajectoryFilter()).rows] == [None, None]
    assert index.read(1, 1)[1] is None
    new = members("b", 2, [0, 1, 2])
    signals = [signal(member, 0.5) for member in new]
    signals[0] = signals[0]._replace(reward=None)
    write_parquet(tmp_path / "step-000002.parquet", new, signals=signals)
    assert index.refresh()
    rewards = [row.reward for row in index.find(TrajectoryFilter()).rows]
    assert rewards == [None, 0.5, 1.0, None, None]
    assert found(index, reward_low="0.5") == [("b", 1), ("b", 2)]
    assert found(index, reward_low="-1", reward_high="0.5", text="a") == [("b", 1)]
    assert found(index, reward_high="x") == [], "no reward is at most that"
    trajectory, known = index.read(2, 2)
    assert known and (trajectory, known._replace(span_advantages=[*known.span_advantages])) == (
        new[2], signals[2]
    )  # fmt: skip
    index.close()


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "not kept"])
def test_candidates_and_tasks_of_a_run(tmp_path: Path, kept: bool) -> None:
    run = write_run(tmp_path / "run", steps=4)
    write_queue(run, kept)
    view, other = open_runs([run, run])
    other.close()
    assert (view.label, other.label) == ("run", "run (2)")
    view.read_tasks()
    rejected, accepted = view.candidates
    refused = ["gate", "typed", "turn 1: day='x' is not a date", "Lend it on x."]
    assert rejected.variant is None and rejected.rejections == [
        ["write", "schema", "", ""],
        refused,
    ]
    values = {"run": view, "stage": "", "accepted": 1, "rejected": [(("gate", "typed"), 1)]}
    page = _jinja.get_template("synthesis.html.j2")
    shown = page.render(**values, rows=view.candidates, total=2, link=link)
    assert "wrong form of a value (typed)" in shown and "is not a date" in shown
    assert "Lend it on x." in shown and "write: schema" in shown
    assert f"/candidate?run=run&amp;seed={SEED.id}&amp;number=1&amp;attempt=1" in shown
    turns = [view.turns_of(SEED.id, 1, attempt) for attempt in range(2)]
    assert turns == ([[], [["Lend it on x.", "lend(day='x')"], [ATTACK]]] if kept else [None] * 2)
    assert accepted.variant == VARIANT and accepted.seed == SEED.id
    assert view.name_of(SEED.id) == "multi_turn_base_1"
    assert view.name_of(VARIANT.id).startswith("multi_turn_base_1")
    assert shown.count("<h3>Seed task, an original task</h3>") == 2
    again = [accepted._replace(seed=VARIANT.id)]  # a variant may itself be a seed task
    assert "Seed task, itself a variant" in page.render(**values, rows=again, total=1, link=link)
    view.close()


def test_the_map_has_the_words_of_its_axis_and_whole_updates(tmp_path: Path) -> None:
    view = RunView(write_run(tmp_path / "run", steps=4), "run")
    chart = boundary_map(view, courses(view.data)).chart
    view.close()
    assert chart is not None
    axis = chart["layout"]["xaxis"]
    assert axis["title"]["text"] == "update" and axis["dtick"] == 1
    hovers = [trace["hovertemplate"] for trace in chart["data"] if "hovertemplate" in trace]
    assert hovers and all("update %{x}, mean progress" in text for text in hovers)


@pytest.mark.parametrize(("limit", "explained"), [(400, True), (0, False)])
def test_the_map_explains_the_lines_that_it_draws(
    limit: int, explained: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(charts, "LINES", limit)
    view = RunView(write_run(tmp_path / "run", steps=4), "run")
    figure = boundary_map(view, courses(view.data))
    view.close()
    assert figure.chart is not None
    modes = {trace["mode"] for trace in figure.chart["data"] if trace["name"] != "descent"}
    assert modes == {"lines+markers" if explained else "markers"}
    assert ("solid line is the course of one task" in figure.caption) is explained


def test_the_overview_marks_the_stages_that_all_runs_have(tmp_path: Path) -> None:
    runs = open_runs([write_run(tmp_path / name, steps=12) for name in "ab"])
    reward = overview(runs)[0].chart
    assert reward is not None
    marks = [note["text"] for note in reward["layout"]["annotations"]]
    assert marks == [name for _, name in runs[0].data.stage_starts] == ["format", "all"]
    later = [replace(row, stage="all") for row in runs[1].data.steps]
    runs[1].data = replace(runs[1].data, steps=tuple(later))
    for figure in overview(runs):
        assert figure.chart is None or not figure.chart["layout"]["annotations"]
    for run in runs:
        run.close()


def test_a_run_states_whether_it_is_in_training(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", steps=4, after=False)
    view = RunView(path, "run")
    first = view.refresh()
    assert view.state == "not finished"
    (path / LOCK).symlink_to(path / ".held.lock")
    with held(path / "held"):
        assert view.refresh() == first + 1 and view.state == "training"
    assert view.refresh() == first + 2 and view.state == "not finished"
    write_run(path, steps=4)
    assert view.refresh() == first + 3 and view.state == "finished"
    page = _jinja.get_template("overview.html.j2").render(runs=[view], run=view, link=link)
    assert "<td>finished</td>" in page
    view.close()


@pytest.mark.parametrize(
    ("advantage", "said", "unsaid"),
    [
        (0.5, ["Blue tokens were sampled and carried loss."], "had a loss"),
        (
            None,
            ["Only such tokens can carry loss, and here none did.", "none: no token"],
            "carried",
        ),
    ],
)
def test_a_trajectory_without_loss_is_not_said_to_carry_it(
    advantage: float | None, said: list[str], unsaid: str, index: TrajectoryIndex
) -> None:
    one, _ = index.read(1, 0)
    some = TrainingSignal(0.5, {}, [advantage if s.sampled else None for s in one.spans])
    view = {**member_view((one, some), None), "spans": token_spans(one, some, None, "mask")}
    place = {"step": 1, "row": 0, "beside": None, "task": one.task_id, "members": []}
    page = _jinja.get_template("trajectory.html.j2")
    run = SimpleNamespace(label="run", name_of=str)
    text = page.render(run=run, link=link, color="mask", colors=COLORS, views=[view], **place)
    assert all(part in text for part in said) and unsaid not in text


@pytest.mark.parametrize("reason", StopReason)
def test_stop_reasons_name_the_limit(reason: StopReason) -> None:
    ended = reason in (StopReason.DONE, StopReason.FAILURE)
    assert (stop_words(reason.value) == reason.value) == ended
    assert stop_words("of another version") == "of another version"
    assert stop_words("generated") == "limit of generated tokens"


def test_a_run_grows(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=4)
    view = RunView(run, "run")
    first = view.refresh()
    assert view.refresh() == first
    with (run / "metrics.jsonl").open("a", encoding="utf-8") as log:
        log.write('{"kind": "step", "step": 99, "reward_mean": 0.5}\n')
    assert view.refresh() == first + 1
    assert view.data.steps[-1].step == 99
    view.close()
