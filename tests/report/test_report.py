"""The report, the comparison and the tables, on made-up run directories."""

import base64
import gzip
import io
import json
import re
import sys
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from plotly.graph_objects import Figure
from plotly.offline import get_plotlyjs
from rich.console import Console
from rich.table import Column

from pool_cases import original
from report_runs import ATTACK, signal, trajectory, write_run, write_trajectories
from rods.config import BoundarySettings
from rods.curriculum.boundary import judge_values
from rods.errors import StoreError
from rods.evaluation.stats import Interval, paired_difference
from rods.evaluation.suites import Accuracy, SuiteRow
from rods.report.build import build_report, details, forests, interval, span, uses
from rods.report.compare import compare_runs
from rods.report.heldout import (
    WRITERS_NOTE,
    MetricCell,
    ResultRow,
    TaskSubset,
    result_rows,
    shown,
)
from rods.report.panels import (
    boundary_without_variance,
    first_visits,
    held_out_curves,
    landing_of,
    learning_curves,
    mechanism_figures,
    pool_figures,
    schedule_curves,
    signed,
    synthesis_figure,
    tool_curves,
)
from rods.report.plots import Axes, Series, forest, histogram, line_chart, scatter, smooth
from rods.report.results import (
    change,
    evaluation_table,
    markdown_table,
    numbers,
    plain_table,
    reach,
    suite_table,
    summary,
)
from rods.report.run_data import EvalRow, EvaluationPass, RunData, evaluation_of, load_run
from rods.report.viewer import trajectory_view
from rods.store import RunDirectory
from rods.synthesis.gates.keeper import GATES, QUESTION_GATES, SEED_GATES
from rods.synthesis.pipeline import RequestOutcome
from rods.synthesis.rejection import ErrorClass, Rejection, reasons
from rods.synthesis.worker.queue import SqliteQueue
from rods.trajectory_codec import write_parquet
from verbs import rods


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_run(tmp_path_factory.mktemp("runs") / "finished")
    write_trajectories(path)
    return path


@pytest.fixture(scope="module")
def built(finished: Path) -> str:
    return build_report(finished).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "stopped", after=False)


class Page(HTMLParser):
    """Tags, attributes and the data of the viewer."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.data = ""
        self.packed = ""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_data(self, data: str) -> None:
        if self._inside == "script" and data.strip().startswith("{"):
            self.data = data
        elif self._inside == "script" and data.startswith("H4sI"):
            self.packed = data
        elif self._inside not in ("script", "style"):
            self.words.append(data)


def read(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def charts_of(page: Page) -> list[Any]:
    """The figures of a page as plotly reads them: it refuses what it does not know."""
    found = [a["data-figure"] or "" for _, a in page.tags if "data-figure" in a]
    return [Figure(json.loads(re.sub(r"var\(--\w+\)", "#123456", text))) for text in found]


def is_alone(page: Page, text: str) -> None:
    """Nothing in a page asks for anything outside, and the browser would refuse it."""
    assert not [t for t, a in page.tags if t in ("link", "img", "iframe") or "src" in a]
    ids = {f"#{a['id']}" for _, a in page.tags if "id" in a}
    assert {a["href"] for _, a in page.tags if "href" in a} <= ids | {"checkpoint"}
    assert "url(" not in text and "@import" not in text
    assert not re.findall(r"https?:", text)
    policy = next(a["content"] or "" for _, a in page.tags if "http-equiv" in a)
    assert policy.startswith("default-src 'none'")
    assert set(re.findall(r"-src ([^;]+)", policy)) <= {"'none'", "'unsafe-inline'", "data:"}
    assert gzip.decompress(base64.b64decode(page.packed)).decode() == get_plotlyjs()


def note_lines(path: Path, lines: list[str]) -> None:
    with (path / "metrics.jsonl").open("a", encoding="utf-8") as out:
        out.writelines(lines)


# -- the page ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_page_is_whole_and_asks_for_nothing_outside(built: str) -> None:
    page = Page(built)
    words = " ".join(page.words)
    for part in (
        "RODS run finished",
        "4be1c7a09d2f6e13",
        "All settings, versions and hashes",
        "Held-out variants",
        "Progress, greedy",
        "Conversations solved, sampled",
        "Official verdict, greedy",
        "human-written messages",
        "Where new variants land",
        "Variance against mean progress",
        "Regions over training",
        "Entropy and KL",
        "Retired variants, by reason",
        "9 min 41 s",
    ):
        assert part in words, part
    is_alone(page, built)
    assert 'id="schedule"' not in built
    assert [t for t, _ in page.tags].count("figure") == len(charts_of(page)) == 22
    for chart in charts_of(page):
        assert chart.data and all(len(trace.x) == len(trace.y) > 0 for trace in chart.data)


@pytest.mark.slow
def test_text_of_a_model_stays_text(built: str) -> None:
    page = Page(built)
    assert [t for t, _ in page.tags].count("script") == 3
    assert "<" not in page.data and "&" not in page.data
    groups = json.loads(page.data)["groups"]
    texts = [m["content"] for g in groups for member in g["members"] for m in member["messages"]]
    assert any(ATTACK in text for text in texts)  # nothing of it was lost either


@pytest.mark.slow
def test_names_and_settings_of_a_run_stay_text(tmp_path: Path) -> None:
    path = write_run(tmp_path / "a <b>run")
    manifest = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
    manifest["config"]["model"]["name"] = manifest["versions"]["x<y"] = ATTACK
    (path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    epoch = {"kind": "epoch", "epoch": 9, "step": 70, "stage": ATTACK, "retired": {ATTACK: 2}}
    note_lines(path, [json.dumps(epoch) + "\n", f'{{"kind": "step", "step": "{ATTACK[:20]}"}}\n'])
    page = read(build_report(path))
    assert [t for t, _ in page.tags].count("script") == 3
    assert not [t for t, _ in page.tags if t in ("b>run", "img")]
    assert "49" not in [w.strip() for w in page.words]
    other = write_run(tmp_path / "other")
    compared = read(compare_runs([path, other]).write(tmp_path / "c.html"))
    assert [t for t, _ in compared.tags].count("script") == 2
    assert not [t for t, _ in compared.tags if t == "img"]


@pytest.mark.slow
def test_a_run_that_was_stopped_says_what_is_missing(stopped: Path) -> None:
    words = " ".join(read(build_report(stopped)).words)
    assert "not finished" in words
    assert "There is no evaluation after training." in words
    assert "No trajectories are stored in this run." in words
    assert "no difference can be given" in words
    assert "nan" not in words.lower().split()


@pytest.mark.slow
def test_an_almost_empty_run_still_has_a_report(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    words = " ".join(read(build_report(tmp_path)).words)
    assert "the run stopped before its first record" in words
    assert "No evaluation is recorded in this run." in words


@pytest.mark.slow
def test_a_broken_report_leaves_the_old_one(finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "gone" / "report.html"
    with pytest.raises(StoreError, match="there is no folder"):
        build_report(finished, out)
    assert not out.parent.exists()


# -- reading a run -------------------------------------------------------------------------------


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", steps=12)
    whole = load_run(path)
    assert whole.notes == ()
    note_lines(
        path,
        [
            '{"kind": "step", "step": 3, "reward_mean": 0.75}\n',
            '{"kind": "step", "step": 99, "judgements": [{"task_id": "x"}]}\n',
            '{"kind": "step", "st',
        ],
    )
    run = load_run(path)
    assert [r.step for r in run.steps] == [r.step for r in whole.steps]
    assert run.steps[3].numbers["reward_mean"] == 0.75
    count = len((path / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    assert set(run.notes) == {
        f"metrics.jsonl:{count - 1}: a broken step record left out "
        "(judgements.0.rbar: Field required).",
        f"metrics.jsonl:{count} is not a record (torn when the run was stopped); it was left out.",
        "Updates repeated after a resume: 1; the last record of each counts.",
    }


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x1c"])
def test_a_record_may_hold_what_other_programs_take_for_the_end_of_a_line(
    mark: str, tmp_path: Path
) -> None:
    """The store writes such characters as they are, except those below U+0020."""
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    rows = [{"task_id": "t", "scenario": f"one{mark}two", "progress": [1.0]}]
    RunDirectory(tmp_path, {}).log({"kind": "eval", "step": 0, "when": "before", "rows": rows})
    run = load_run(tmp_path)
    assert not [note for note in run.notes if "is not a record" in note], run.notes
    before = run.evaluation("before")
    assert before is not None and before.rows[0].scenario == f"one{mark}two"


@pytest.mark.parametrize(
    ("setting", "noted"),
    [
        ("evaluation.temperature: 1.0 -> 0.5", True),
        ("train.lr: 1e-05 -> 0.0001", True),
        ("updates: 40 -> 80", False),
        ("evaluation.every: 0 -> 4", False),
        ("model.threads: 1 -> 2", False),
    ],
)
def test_what_a_resume_changed_is_noted_beside_the_gain(
    setting: str, noted: bool, tmp_path: Path
) -> None:
    path = write_run(tmp_path / "run", steps=4)
    run = load_run(with_manifest(path, changes=[{"step": 3, "setting": setting}]))
    assert (run.notes == (f"A resume after update 3 changed {setting}.",)) is noted
    assert bool(run.notes) is noted
    assert load_run(with_manifest(path, changes=[[3, 40]])).notes == (), "those of `rods sft`"


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such run"):
        load_run(tmp_path / "nowhere")
    with pytest.raises(StoreError, match=r"no run of `rods train`.*with `rods eval`"):
        load_run(tmp_path)
    (tmp_path / "manifest.json").write_text("{", encoding="utf-8")
    with pytest.raises(StoreError, match="damaged"):
        load_run(tmp_path)


def test_the_pool_counts_originals_and_variants(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    rows: list[dict[str, Any]] = [
        {"kind": "epoch", "epoch": 0, "step": 1, "originals": 32, "generated": 5, "synthesis": {}},
        {"kind": "step", "step": 1, "synthesis": {"tried": 8, "accepted": 6, "rejected": {"a": 2}}},
    ]
    note_lines(tmp_path, [json.dumps(r) + "\n" for r in rows])
    run = load_run(tmp_path)
    assert (run.epochs[0].originals, run.epochs[0].generated) == (32, 5)
    assert (run.made.tried, run.made.accepted) == (8, 6)


# -- results -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_results_pair_the_same_tasks(tmp_path: Path) -> None:
    def rows(values: dict[str, float]) -> list[dict[str, Any]]:
        return [
            {"task_id": k, "category": "base", "set": "original", "scenario": k, "progress": [v]}
            for k, v in values.items()
        ]

    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    before, after = {"a": 0.0, "b": 0.5, "c": 1.0}, {"c": 1.0, "b": 0.75, "d": 0.2}
    note_lines(
        tmp_path,
        [
            json.dumps({"kind": "eval", "step": 0, "when": "before", "rows": rows(before)}) + "\n",
            json.dumps({"kind": "eval", "step": 9, "when": "after", "rows": rows(after)}) + "\n",
        ],
    )
    run = load_run(tmp_path)
    (row,) = result_rows(run.evaluation("before"), run.last_evaluation)
    cell = row.cells["progress"]
    assert cell.paired == 2 and cell.difference is not None
    assert cell.difference.mean == pytest.approx(0.125)
    assert cell.before is not None and cell.before.mean == pytest.approx(0.5)
    assert row.cells["solved"].difference is None
    note = "Evaluated only once, so in no difference: 2 tasks."
    assert note in run.notes and note in " ".join(read(build_report(tmp_path)).words)


@pytest.mark.slow
def test_no_difference_without_an_interval(finished: Path) -> None:
    run = load_run(finished)
    before, after = run.evaluation("before"), run.evaluation("after")
    assert before is not None and after is not None
    (row,) = result_rows(
        EvaluationPass("before", before.rows[:1]), EvaluationPass("after", after.rows[:1])
    )
    assert row.cells["progress"].difference is None


# -- figures -------------------------------------------------------------------------------------


def test_every_figure_of_a_full_run_has_a_chart(finished: Path) -> None:
    run = load_run(finished)
    figures = [*learning_curves(run), *pool_figures(run), *mechanism_figures(run)]
    assert all(f.chart for f in [*figures, synthesis_figure(run)])


def test_runs_without_answers_have_no_meters_of_tools(finished: Path) -> None:
    assert tool_curves(load_run(finished)) == []


@pytest.mark.slow
def test_meters_of_tools_are_drawn(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run")
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    for row in rows:
        if row["kind"] == "step":
            row |= {"code_ratio": 0.5, "accuracy": 0.25, "execution_success_right": None}
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    figures = {f.title: f for f in tool_curves(load_run(path))}
    assert figures["Answers and calls"].chart is not None
    assert figures["Execution success"].chart is None  # measured nowhere: said, not drawn as 0


METERS = {
    "groups_queued": 3,
    "groups_in_rollout": 5,
    "acceptance": 1.0,
    "staleness_mean": 0.5,
    "staleness_max": 1,
    "idle_rollout": 0.1,
    "idle_update": 0.4,
    "worlds_hanging": 0,
}


def with_meters(path: Path, meters: dict[str, Any], *more: dict[str, Any]) -> Path:
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    steps = [row for row in rows if row["kind"] == "step"]
    for row in steps:
        row["schedule"] = meters
    lines = [json.dumps(row) + "\n" for row in [*rows, *more]]
    (path / "metrics.jsonl").write_text("".join(lines))
    return path


@pytest.mark.slow
def test_meters_of_the_schedule_are_drawn_where_they_say_something(tmp_path: Path) -> None:
    path = with_meters(write_run(tmp_path / "run"), METERS)
    drawn = {f.title: f for f in schedule_curves(load_run(path))}
    assert list(drawn) == ["Idle share", "Groups ahead", "Staleness"], "all groups passed"
    assert all(figure.chart for figure in drawn.values())
    still = METERS | {"groups_queued": 0, "groups_in_rollout": 0}
    still |= {"staleness_mean": 0.0, "staleness_max": 0}
    path = with_meters(path, still)
    assert [f.title for f in schedule_curves(load_run(path))] == ["Idle share"]
    page = build_report(path, tmp_path / "a.html").read_text()
    assert 'id="schedule"' in page and "Trainer idle" not in page and "trainer idle" in page


def test_groups_that_no_update_took_are_noted(tmp_path: Path) -> None:
    unused = {"kind": "unused", "step": 64, "finished": 2, "in_flight": 3}
    path = with_meters(write_run(tmp_path / "run"), METERS, unused)
    said = "5 groups were begun and are in no update: 2 had been rolled out, 3 were in flight."
    assert said in load_run(path).notes


def test_the_landing_histogram_holds_every_first_visit(finished: Path) -> None:
    run = load_run(finished)
    visits = first_visits(run)
    assert len({j.task_id for j in visits}) == len(visits) > 50
    chart = mechanism_figures(run)[0].chart
    assert chart and sum(sum(trace["y"]) for trace in chart["data"]) == len(visits)


def test_boundary_tasks_without_variance_are_counted(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    cases = [(0.5, 0.0, "boundary"), (0.5, 0.2, "boundary"), (0.0, 0.0, "hard")]
    judged = [
        {"task_id": str(i), "rbar": r, "variance": v, "region": g, "first_visit": True}
        for i, (r, v, g) in enumerate(cases)
    ]
    record = {"kind": "step", "step": 1, "regions": {"hard": 1, "boundary": 2}}
    note_lines(tmp_path, [json.dumps({**record, "judgements": judged}) + "\n"])
    run = load_run(tmp_path)
    assert boundary_without_variance(run) == (2, 1)
    figures = mechanism_figures(run)
    assert "Of 2 judgements on the boundary, 1 (50%) have no variance" in figures[0].caption
    note_lines(tmp_path, [json.dumps({**record, "step": 2, "synthesis": {"tried": 3}}) + "\n"])
    figures = mechanism_figures(load_run(tmp_path))
    assert figures[0].chart is None and "No variant was visited" in figures[0].caption


def test_the_landing_histogram_holds_every_category(tmp_path: Path) -> None:
    row = {"rbar": 0.5, "variance": 0.1, "origin": "variant", "first_visit": True}
    judged = [{"task_id": f"{n}", "category": f"kind {n:02d}", **row} for n in range(40)]
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    note_lines(tmp_path, [json.dumps({"kind": "step", "step": 1, "judgements": judged}) + "\n"])
    chart = mechanism_figures(load_run(tmp_path))[0].chart
    assert chart and sum(sum(trace["y"]) for trace in chart["data"]) == 40


def test_a_variant_lands_where_its_judgement_put_it(tmp_path: Path) -> None:
    values, settings = [0.7, 0.1, 0.0, 0.0], BoundarySettings(low=0.2)
    judged = judge_values("v", "base", values, settings, step=1, version=0)
    assert judged and judged.rbar < 0.2 and judged.region == "boundary", "it misses by rounding"
    row = {"task_id": "v", "rbar": judged.rbar, "variance": judged.variance, "origin": "variant",
           "region": judged.region, "first_visit": True}  # fmt: skip
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    note_lines(tmp_path, [json.dumps({"kind": "step", "step": 1, "judgements": [row]}) + "\n"])
    found = landing_of(load_run(tmp_path))
    assert found and found.inside == 1


def test_synthesis_reasons_add_up(finished: Path) -> None:
    run = load_run(finished)
    chart = synthesis_figure(run).chart
    assert chart and re.fullmatch(r"\d+ \(\d+%\)", chart["data"][0]["text"][0])
    assert sum(chart["data"][0]["x"]) == run.made.tried == 576


def test_a_moving_average_keeps_constants_and_gaps() -> None:
    assert smooth([2.0] * 9, 5) == [2.0] * 9
    assert smooth([0.0, 3.0, 6.0], 3) == [1.5, 3.0, 4.5]
    nan = float("nan")
    assert smooth([nan, nan, nan, 4.0], 3)[2:] == [4.0, 4.0]


def test_charts_hold_their_values_and_escape_names() -> None:
    axes = Axes("step", (0, 1))
    chart = line_chart([Series("<b>&", [0, 1, 2], [0, float("nan"), 1])], axes)
    assert chart["data"][0]["y"] == [0, None, 1]
    assert chart["layout"]["yaxis"]["range"] == [0, 1]
    assert "<b>" not in json.dumps(chart, allow_nan=False)
    dots = scatter([("p", [(0.0, 0.25, 1), (1.0, 0.5, 4)], "s-1")], axes, (0.2, 0.8), [(0, 0)])
    assert (dots["data"][0]["x"], dots["data"][0]["y"]) == ([0.0, 1.0], [0.25, 0.5])
    assert dots["data"][0]["marker"]["size"] == pytest.approx([5.6, 7.4])
    groups = [("g", [0.0, 0.1, 1.0], "s-1")]
    bins = histogram(groups, [0, 0.5, 1], axes, (0.2, 0.8), (0.1, "median"))
    assert bins["data"][0]["y"] == [2, 1]
    assert bins["data"][0]["customdata"] == ["0 to 0.5", "0.5 to 1"]
    flat = ("base", 0.3, 0.3, 0.3, "s-2", "[no interval]")
    rows = forest([("base", 0.1, -0.1, 0.2, "s-grey", "[-0.1, 0.2]"), flat], (-1, 1))
    assert rows["data"][0]["error_x"]["arrayminus"] == pytest.approx([0.2, 0.0])
    assert rows["layout"]["yaxis"]["ticktext"] == ["base", "base"]


@pytest.mark.parametrize(
    ("ys", "mode"), [([0.0, 1.0], "tozero"), ([9.0, 9.5], "normal"), ([-1.0, 1.0], "normal")]
)
def test_an_axis_starts_at_zero_where_that_costs_little_room(ys: list[float], mode: str) -> None:
    chart = line_chart([Series("a", [0, 1], ys)], Axes())
    assert chart["layout"]["yaxis"] == {"rangemode": mode}


@pytest.mark.slow
def test_a_page_without_plotly_says_how_to_get_it(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(StoreError, match=r"needs plotly: .*\[train\]"):
        build_report(finished, tmp_path / "report.html")


def test_a_clock_that_was_set_back_gives_no_duration(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", steps=6)
    assert load_run(path).seconds == 581
    manifest = (path / "manifest.json").read_text()
    (path / "manifest.json").write_text(manifest.replace("T10:00:00", "T11:00:00"))
    assert load_run(path).seconds is None


def test_durations_in_words() -> None:
    assert [span(s) for s in (4.4, 65, 3661)] == ["4 s", "1 min 5 s", "1 h 1 min"]


# -- the viewer ----------------------------------------------------------------------------------


def test_the_viewer_aligns_messages_turns_and_spans(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", steps=2)
    (path / "trajectories").mkdir()
    wins = [(True, False), (True, True)]
    members = [trajectory("task", m, 0, w) for m, w in enumerate(wins)]
    file = path / "trajectories" / "step-000001.parquet"
    write_parquet(file, members, signals=[signal(member, 0.75) for member in members])
    view: Any = trajectory_view(load_run(path), decode=lambda ids: f"{len(ids)} decoded")
    (group,) = view["groups"]
    assert (
        group["mean"] == 0.75 and view["note"] == "Shown: 2 of 2 trajectories, from 1 of 1 files."
    )
    first = group["members"][0]
    assert (first["progress"], first["solved"], group["members"][1]["solved"]) == (0.5, False, True)
    assert [m["turn"] for m in first["messages"]] == [None, 0, 0, 0, 0, 1, 1, 1, 1]
    malformed = first["messages"][6]
    assert (malformed["verdict"], malformed["bad"], malformed["calls"]) == ("malformed", True, [])
    assert first["messages"][2]["calls"][0] == "cd(folder='reports')"
    assert [s["policy"] for s in first["spans"]] == [False, True] * 4
    shown = {"policy": True, "n": 21, "text": "21 decoded", "logprob": -0.25, "advantage": -0.25}
    assert first["spans"][1] == shown and first["spans"][0]["advantage"] is None
    assert first["signal"] == {"reward": 0.5, "reward_parts": {"solved": 0.5, "reached": 1.0}}
    write_parquet(file, members)
    view = trajectory_view(load_run(path))
    assert view["groups"][0]["members"][0]["signal"] is None


def test_a_group_in_rollout_during_an_update_stays_whole(tmp_path: Path) -> None:
    """Its members began under different versions of the policy."""
    path = write_run(tmp_path / "run", steps=2)
    (path / "trajectories").mkdir()
    wins = [(True, True), (False, False), (True, False)]
    members = [trajectory("task", m, 5 + m // 2, w) for m, w in enumerate(wins)]
    assert {m.policy_version for m in members} == {5, 6}
    write_parquet(path / "trajectories" / "step-000001.parquet", members)
    view: Any = trajectory_view(load_run(path))
    assert [(len(g["members"]), g["mean"], g["version"]) for g in view["groups"]] == [(3, 0.5, 5)]


def test_a_table_in_markdown_holds_any_category() -> None:
    rows = [
        {"task_id": f"t{i}", "category": kind, "scenario": f"s{i}", "greedy_progress": [0.5]}
        for i, kind in enumerate(["a|b", "c\nd"] * 3)
    ]
    passes = (evaluation_of("before", rows), evaluation_of("after", rows))
    table = markdown_table(RunData(Path("run"), {}, evaluations=passes))
    assert [len(re.findall(r"(?<!\\)\|", line)) for line in table] == [4] * 5
    assert not any("\n" in line for line in table) and "| a\\|b | 3 |" in table[3]


def test_names_of_runs_are_no_markup_of_tables(tmp_path: Path) -> None:
    names = [f"[red]{one}[/x]" for one in "ab"]
    paths = [write_run(tmp_path / one, steps=2) for one in "ab"]
    found = compare_runs([f"{name}={path}" for name, path in zip(names, paths, strict=True)])
    screen = Console(file=io.StringIO(), width=200)
    screen.print(found.table())
    assert f"minus {names[0]}" in screen.file.getvalue()  # pyright: ignore


def test_a_difference_of_nothing_has_no_minus_on_a_page() -> None:
    nothing = Interval(-1e-17, -4e-4, 4e-4, 9, 9)
    assert interval(nothing) == "[+0.000, +0.000]" and signed(nothing.mean) == "+0.000"


def test_without_a_tokenizer_sampled_text_is_shown_and_the_rest_counted(finished: Path) -> None:
    view: Any = trajectory_view(load_run(finished))
    spans = view["groups"][0]["members"][0]["spans"]
    assert spans[0]["text"] is None and spans[0]["n"] == 96
    assert spans[1]["text"].startswith("[cd(")
    assert "64 of 96 trajectories, from 2 of 2 files" in view["note"]
    assert "No tokenizer was found" in view["note"]


def test_a_damaged_file_of_trajectories_is_named(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", steps=2)
    write_trajectories(path)
    (path / "trajectories" / "step-000000.parquet").write_text("{torn", encoding="utf-8")
    view: Any = trajectory_view(load_run(path))
    assert len(view["groups"]) == 4 and "step-000000.parquet was left out" in view["note"]


# -- comparison and tables -----------------------------------------------------------------------


@pytest.mark.slow
def test_runs_are_compared_task_by_task(finished: Path, tmp_path: Path) -> None:
    static = write_run(tmp_path / "static", curriculum="static")
    comparison = compare_runs([static, finished])
    assert comparison.notes == () and not comparison.several
    assert [arm.name for arm in comparison.arms] == ["A: static", "B: finished"]
    first, second = comparison.arms
    assert (first.overrides, second.overrides) == (("curriculum=static",), ("curriculum=rods",))
    one, other = (arm.cell(TaskSubset("variant"), "greedy_progress") for arm in comparison.arms)
    assert one.against is None and other.against is not None and other.paired == 120
    assert one.after is not None and other.after is not None
    assert other.against.mean == pytest.approx(other.after.mean - one.after.mean)
    assert other.against.low > 0
    console = Console(width=80, record=True, file=(tmp_path / "out").open("w"))
    console.print(comparison.table())
    console.file.close()
    text = console.export_text()
    assert f"{other.against.mean:+.3f}" in text and "  minus A" in text and "seeds" not in text
    assert (
        "Gain: after minus before training. Minus A: this run minus A, both after. ±"
        in " ".join(text.split())
    )
    assert "…" not in text and max(map(len, text.splitlines())) <= 80
    page = read(comparison.write(tmp_path / "compare.html"))
    is_alone(page, (tmp_path / "compare.html").read_text(encoding="utf-8"))
    assert len(charts_of(page)) >= 8
    assert all(c.data[0].name == "A: static" for c in charts_of(page))
    words = " ".join(page.words)
    assert "Minus A: the run minus A, both after training." in words
    assert "curriculum=static" in words and "120 tasks in common" in str(page.tags)
    assert "seeds" not in words


@pytest.mark.slow
def test_unfair_comparisons_are_said(finished: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", seed=3, steps=40)
    manifest = json.loads((other / "manifest.json").read_text(encoding="utf-8"))
    manifest["split_hash"] = "other"
    manifest["config"]["rollout"]["k"] = 16
    (other / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    text = (other / "metrics.jsonl").read_text(encoding="utf-8")
    (other / "metrics.jsonl").write_text(text.replace("variant-", "u-").replace("original-", "w-"))
    warnings = " ".join(compare_runs([finished, other]).notes)
    for part in (
        "the budgets differ (rollout.k: 8, 16), so this is not fair",
        "different budgets of trajectories: 8192, 5120",
        "seed differs: 0, 3",
        "split hash differs",
        "A: finished and B: other have no evaluated task in common, so there is no difference",
        "A: finished alone has 80 held-out original tasks (original-0, original-1, original-10, "
        "...) and 120 held-out variants",
        "B: other alone has 80 held-out original tasks (w-0, w-1, w-10, ...) and 120 held-out",
    ):
        assert part in warnings, part
    third = write_run(tmp_path / "third")
    assert compare_runs([finished, other]).is_apart
    assert not compare_runs([finished, other, third]).is_apart
    with pytest.raises(StoreError, match="two runs or more"):
        compare_runs([finished])


@pytest.mark.slow
def test_runs_that_share_some_tasks_say_which(finished: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other")
    text = (other / "metrics.jsonl").read_text(encoding="utf-8")
    (other / "metrics.jsonl").write_text(re.sub(r'"variant-(\d)"', r'"other-\1"', text))
    comparison = compare_runs([finished, other])
    (said,) = comparison.notes
    assert "A: finished and B: other have 190 of 200 evaluated tasks in common" in said
    assert (
        "A: finished alone has 10 held-out variants (variant-0, variant-1, variant-2, ...)" in said
    )
    assert "B: other alone has 10 held-out variants (other-0, other-1, other-2, ...)" in said
    assert comparison.arms[1].cell(TaskSubset("variant"), "progress").common == 110
    assert "finished alone has 10" in " ".join(read(comparison.write(tmp_path / "p.html")).words)
    (same,) = compare_runs([other, other]).notes
    assert same == f"one run counts 2 times (A: other, B: other): {other}."


def evaluated(finished: Path, to: Path) -> Path:
    """The last evaluation of a run as `rods eval --json > FILE` prints it."""
    lines = (finished / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    (last,) = [line for line in lines if '"when": "after"' in line]
    to.write_text(json.dumps(json.loads(last)["rows"], indent=2), encoding="utf-8")
    return to


@pytest.mark.slow
@pytest.mark.parametrize("kinds", ["run json", "json run", "json json"])
def test_evaluations_alone_are_compared_with_runs_and_with_each_other(
    kinds: str, finished: Path, tmp_path: Path
) -> None:
    paths = {"run": finished, "json": evaluated(finished, tmp_path / "a.json")}
    comparison = compare_runs([paths[kind] for kind in kinds.split()])
    cells = [arm.cell(TaskSubset("variant"), "progress") for arm in comparison.arms]
    assert cells[0].after == cells[1].after and cells[1].against is not None
    assert cells[1].against.mean == 0
    assert "a.json" in " ".join(arm.name for arm in comparison.arms)
    said = "rods eval: its settings, training and first evaluation are not known."
    (note,) = (note for note in comparison.notes if said in note)
    assert note.partition(" an evaluation")[0].count(": ") == kinds.count("json"), "once per kind"
    assert not [note for note in comparison.notes if "differ" in note], "nothing to compare with"
    comparison.write(tmp_path / "p.html")


SUITE_ROW = {"task_id": "a", "origin": "a", "category": "c", "scenario": "s", "right": [True]}


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "3", "null", "[1]", '[{"task_id": "a"}]', "[" * 5000, json.dumps([SUITE_ROW])],
    ids=["empty", "no rows", "object", "number", "null", "numbers", "no values", "deep", "suite"],
)
def test_a_file_that_is_no_evaluation_is_refused(text: str, finished: Path, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(StoreError, match=r"a\.json: expected the rows of `rods eval --json`"):
        compare_runs([finished, tmp_path / "a.json"])


@pytest.mark.slow
def test_a_run_that_is_not_finished_is_compared_by_its_last_evaluation(
    finished: Path, tmp_path: Path
) -> None:
    early = write_run(tmp_path / ("a-run-with-a-very-long-name" * 3), after=False)
    lines = (finished / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    (last,) = [line for line in lines if '"when": "after"' in line]
    with (early / "metrics.jsonl").open("a", encoding="utf-8") as log:
        log.write(last.replace('"when": "after"', '"when": "update 4"') + "\n")
    comparison = compare_runs([finished, early])
    cells = [arm.cell(TaskSubset("variant"), "progress") for arm in comparison.arms]
    assert cells[0].after == cells[1].after and cells[1].against is not None
    assert cells[1].against.mean == 0
    console = Console(width=80, record=True, file=(tmp_path / "out").open("w"))
    console.print(comparison.table())
    console.file.close()
    assert max(map(len, console.export_text().splitlines())) <= 80


@pytest.mark.parametrize("after", [True, False])
def test_the_final_table_fits_a_terminal(after: bool, tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", after=after)
    with (tmp_path / "out").open("w", encoding="utf-8") as out:
        Console(width=80, file=out).print(summary(path))
    text = (tmp_path / "out").read_text(encoding="utf-8")
    assert "…" not in text and max(map(len, text.splitlines())) <= 80
    assert "missing parameter" in text
    assert ("±" in text.split("±: half")[0]) is after
    lines = " ".join(text.split())
    assert re.search(r", first (\d+) and last \1 of \d+ updates\.", lines)
    assert re.search(
        r"whose rollouts all earned the same reward: \d+%, \d+ of \d+ judgements", lines
    )
    places = [text.index(w) for w in ("variants", "template-written", "human-written", "original")]
    assert places == sorted(places)
    assert re.search("greedy +sampled +greedy +sampled", text)
    assert ("no evaluation after training" in text) is not after


@pytest.mark.parametrize("when", ["", "update 30"])
def test_the_table_of_a_stopped_run_names_its_evaluation_and_how_to_get_one_after_training(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = with_checkpoint(write_run(tmp_path / "run", after=False))
    log = path / "metrics.jsonl"
    first = log.read_text(encoding="utf-8").splitlines()[0]
    if when:
        with log.open("a", encoding="utf-8") as file:
            file.write(first.replace('"when": "before"', f'"when": "{when}"') + "\n")
    assert rods("report", str(path), monkeypatch=monkeypatch) == 0
    printed = capsys.readouterr()
    title = "Held-out results of run" + (f", before training and at {when}" if when else "")
    assert title in {line.strip() for line in printed.out.splitlines()}
    notes = " ".join(printed.err.split())
    assert "There is no evaluation after training." in notes
    assert f"rods train --resume {path}" in notes and f"rods eval {path}" in notes
    finished = write_run(tmp_path / "done")
    assert rods("report", str(finished), monkeypatch=monkeypatch) == 0
    printed = capsys.readouterr()
    assert "before training and" not in printed.out and "--resume" not in printed.err


@pytest.mark.parametrize("damaged", [False, True])
def test_a_report_names_seed_tasks_with_a_low_yield(
    damaged: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write_run(tmp_path / "run")
    with closing(SqliteQueue(path / "synthesis.sqlite")) as queue:
        queue.submit("r", original(1), 0, 1, 1.0, 1)
        request = queue.next_outcome()
        assert request is not None
        failed = (Rejection("execute", "vm_exec_failed", "closed"),) * 3
        queue.record(request, RequestOutcome(None, 1.0, failed), 0.1)
    if damaged:
        (path / "synthesis.sqlite").write_bytes(b"not a database, " * 99)
    assert rods("report", str(path), monkeypatch=monkeypatch) == 0
    shown = " ".join(capsys.readouterr().out.split())
    page = (path / "report.html").read_text(encoding="utf-8")
    expected = "0 of 3 candidates accepted; 3 rejected: a call failed"
    expected = "synthesis.sqlite: opening the synthesis queue failed" if damaged else expected
    assert expected in shown and expected in page
    assert rods("report", str(path), "--json", monkeypatch=monkeypatch) == 0
    rows = json.loads(capsys.readouterr().out)["by_seed"]
    assert [row["candidates"] for row in rows] == [3] * (not damaged)


def test_names_of_short_stages_stand_below_each_other() -> None:
    series = [Series("a", [0.0, 100.0], [0.0, 1.0], "s-1")]
    far = line_chart(series, Axes(marks=[(0.0, "format"), (60.0, "base")]))
    near = line_chart(series, Axes(marks=[(0.0, "format"), (2.0, "base"), (3.0, "all")]))
    assert len({note["yshift"] for note in far["layout"]["annotations"]}) == 1
    assert len({note["yshift"] for note in near["layout"]["annotations"]}) == 3


def of(mean: float, reach: float) -> Interval:
    return Interval(mean, mean - reach, mean + reach, 9, 9)


@pytest.mark.parametrize(
    ("found", "least", "said"),
    [
        (of(0.5, 0.1), 0.0, " ±0.100"),
        (of(0.5, 6.353), 0.0, ""),
        (of(0.95, 0.2), 0.0, " (0.75 to 1)"),
        (of(0.0, 0.0), 0.0, ""),
        (of(0.2, 1e-17), -1.0, ""),
        (of(0.1, 0.2), 0.0, " (0 to 0.30)"),
        (of(-0.1, 0.2), -1.0, " ±0.200"),
        (of(0.5, 6.353), -1.0, ""),
        (of(-0.9, 0.2), -1.0, " (-1 to -0.70)"),
        (of(0.55, 0.85), -1.0, " (-0.30 to 1)"),
    ],
)
def test_an_interval_of_shares_stays_within_the_possible(
    found: Interval, least: float, said: str
) -> None:
    assert reach(found, least) == said
    if least < 0:  # the page has the same limits, and none where the terminal has none
        assert ("no interval" in interval(found)) is (said == "")
        assert ("1.000" in interval(found)) is ("(" in said)


def two_tasks() -> EvaluationPass:
    rows = [{"task_id": f"t{n}", "greedy_progress": [float(n)]} for n in range(2)]
    return evaluation_of("after", rows)


def test_no_number_is_cut_off_where_a_table_is_too_wide() -> None:
    shown = Console(file=io.StringIO(), width=80)
    names = ["tasks", "greedy", "sampled", "solved", "solved sampled"]
    table = plain_table("held out", "", Column("", no_wrap=True), *numbers(names))
    table.add_row(
        "template-written", "13", *["0.108 \N{RIGHTWARDS ARROW} 0.233\n+0.25 (-0.55 to 1)"] * 4
    )
    shown.print(table)
    assert isinstance(shown.file, io.StringIO)
    text = shown.file.getvalue()
    assert "\N{HORIZONTAL ELLIPSIS}" not in text and "template-written" in text
    assert text.split().count("(-0.55") == text.split().count("0.233") == 4


def test_two_tasks_have_no_interval_and_the_table_says_why() -> None:
    shown = Console(file=io.StringIO(), width=80)
    shown.print(evaluation_table(two_tasks()))
    assert isinstance(shown.file, io.StringIO)
    said = " ".join(shown.file.getvalue().split())
    assert "0.500" in said and "0.500 ±0" not in said and "6.353" not in said
    assert "No ± is shown if there are too few scenarios, or if all differences are equal." in said


def test_a_table_of_an_evaluation_counts_invalid_trajectories() -> None:
    rows = [{"task_id": f"t{n}", "greedy_progress": [n / 4], "invalid": n} for n in range(3)]
    for some, noted in ((rows, True), ([*rows[:1], {**rows[1], "invalid": 0}], False)):
        shown = Console(file=io.StringIO(), width=80)
        shown.print(evaluation_table(evaluation_of("after", some)))
        assert isinstance(shown.file, io.StringIO)
        text = " ".join(shown.file.getvalue().split())
        note = "3 invalid trajectories, counted in no value: infrastructure failed."
        assert (note in text) is noted and ("invalid" in text) is noted


def test_a_suite_and_a_page_say_it_likewise() -> None:
    shown = Console(file=io.StringIO(), width=80)
    rows = [SuiteRow("t", "t", "c", "s", (True,), ("",), (), (), ())]
    shown.print(suite_table("s", [Accuracy("c", False, 2, 0.5, of(0.5, 6.353), None)], rows))
    assert isinstance(shown.file, io.StringIO)
    said = " ".join(shown.file.getvalue().split())
    assert "6.353" not in said and "No ± is shown if there are too few scenarios" in said
    assert interval(of(0.5, 3.0)) == "[no interval: too few scenarios]"
    assert interval(of(1.0, 0.0)) == interval(of(0.0, 0.0)) == "[no interval: all changed alike]"
    rounded = paired_difference([0.3, 0.5, 0.4], [0.1, 0.3, 0.2])
    assert rounded and not rounded.excludes_zero, "all fell by 0.2, but for rounding"
    assert interval(rounded) == "[no interval: all changed alike]"
    assert change(rounded).plain == "-0.200"
    assert not of(1.0, 0.0).excludes_zero
    assert interval(of(0.5, 0.7)) == "[-0.200, +1.000]"


@pytest.mark.parametrize("word", ["bundled", "pretrained"])
def test_the_legend_of_writers_holds_for_any_tasks(word: str) -> None:
    assert word not in WRITERS_NOTE


@pytest.mark.parametrize(
    ("solved", "expected"),
    [
        (1.0, ["greedy_progress", "progress"]),  # one turn: nothing but progress
        (0.5, ["greedy_progress", "progress", "greedy_solved", "solved"]),
        (0.0, ["greedy_progress", "progress"]),  # no column of zeros: a sentence
    ],
)
def test_conversations_solved_are_shown_where_they_are_not_progress(
    solved: float, expected: list[str]
) -> None:
    values = {"greedy_progress": 1.0, "progress": 1.0, "greedy_solved": solved, "solved": solved}
    rows = tuple(EvalRow(f"t{n}", "add", "original", f"s{n}", "", values, 1) for n in range(2))
    found = EvaluationPass("after", rows)
    assert shown(result_rows(None, found)) == expected
    console = Console(file=io.StringIO(), width=200)
    console.print(evaluation_table(found))
    assert isinstance(console.file, io.StringIO)
    note = "Conversations solved, greedy and sampled: 0 everywhere."
    assert (note in " ".join(console.file.getvalue().split())) == (solved == 0)


# -- what a reader of the page needs -------------------------------------------------------------


def with_manifest(path: Path, **more: Any) -> Path:
    manifest = json.loads((path / "manifest.json").read_text(encoding="utf-8")) | more
    (path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return path


def with_checkpoint(path: Path) -> Path:
    (path / "checkpoint").mkdir()
    (path / "checkpoint" / "latest").write_text("step-000001")
    return path


ALWAYS = ["export it", "serve it on a GPU"]
RAW = " (send prompts to /v1/completions: docs/guides/use-the-model.md)"


@pytest.mark.parametrize(
    ("dialect", "steps", "evaluated", "expected"),
    [
        ("compact", 8, True, ["talk with it", "evaluate it", *ALWAYS]),
        ("toolrl", 1, True, ["evaluate it", *ALWAYS]),  # one response to a task
        ("hermes", 8, False, ["talk with it", *ALWAYS]),  # no held-out tasks
        *[
            (inline, 8, True, ["evaluate it", ALWAYS[0], ALWAYS[1] + RAW])
            for inline in ("torl", "search_r1", "artist")
        ],
        ("gone.py:dialect", 8, True, ["evaluate it", *ALWAYS]),
        (None, 8, True, ["evaluate it", *ALWAYS]),  # settings of another version
    ],
)
def test_a_page_shows_commands_that_accept_the_run(
    dialect: str | None, steps: int, evaluated: bool, expected: list[str], tmp_path: Path
) -> None:
    (tmp_path / "metrics.jsonl").touch()
    rows = [{"task_id": "t", "progress": [1.0]}] if evaluated else []
    note_lines(tmp_path, [json.dumps({"kind": "eval", "when": "before", "rows": rows}) + "\n"])
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    config = {"model": {"dialect": dialect}, "rollout": {"steps_per_turn": steps}}
    manifest = {"finished": "2026-01-05T10:09:41", "config": config}
    run = load_run(with_manifest(tmp_path, **manifest))
    assert uses(run) == []
    assert [what for what, _ in uses(load_run(with_checkpoint(tmp_path)))] == expected


@pytest.mark.slow
def test_a_page_names_recipe_command_checkpoint_and_how_to_serve_it(tmp_path: Path) -> None:
    command = "rods train --recipe rods --seed 3"
    path = with_manifest(write_run(tmp_path / "a run"), recipe="rods", command=command)
    before = read(build_report(path))
    assert "checkpoint" not in [a.get("href") for _, a in before.tags]
    page = read(build_report(with_checkpoint(path)))
    words = " ".join(" ".join(page.words).split())
    assert "Recipe rods" in words and f"Command: {command}" in words
    assert "checkpoint" in [a.get("href") for _, a in page.tags]
    table = (path / "report.html").read_text(encoding="utf-8")
    assert "<td>config.model.name</td>" in table
    assert "<tr><td>format</td>" not in table and "<tr><td>kind</td>" not in table
    for part in (f"rods eval '{path}'", f"rods export '{path}' --out agent", "vllm serve ./agent"):
        assert part in words, part
    assert "Split hash" not in words, "hashes are among the settings"


@pytest.mark.slow
def test_a_page_has_contents_and_a_glossary_of_its_words(built: str) -> None:
    page = Page(built)
    heads = [a.get("id") for t, a in page.tags if t == "h2"]
    assert None not in heads
    assert [a["href"] for _, a in page.tags if (a.get("href") or "").startswith("#")] == [
        f"#{name}" for name in heads
    ]
    words = [word.strip() for word in page.words]
    for term in ("progress", "boundary", "retired", "judgement"):
        assert term in words, term
    assert 'document.createElement("abbr")' in built


@pytest.mark.slow
def test_a_run_without_variants_has_no_section_about_them(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", curriculum="static")
    run = load_run(path)
    assert not run.injected and not run.made.tried
    text = build_report(path).read_text()
    assert 'id="pool"' not in text and "Nothing was synthesized" not in text
    assert "variants injected" not in text and "RODS writes variants" not in text


def test_intervals_of_differences_end_where_differences_do() -> None:
    cells = {"greedy_progress": MetricCell(of(0.0, 0.0), of(0.95, 0.1), of(0.95, 0.1), 9)}
    row = ResultRow(TaskSubset("original"), 9, 9, cells)
    chart = forests([row], ["greedy_progress"])[0].chart
    assert chart and chart["data"][0]["error_x"]["array"] == [pytest.approx(0.05)]
    assert chart["data"][0]["customdata"] == ["[+0.850, +1.000]"]


@pytest.mark.parametrize(
    ("difference", "bar", "said"),
    [
        (of(0.2, 0.1), 0.1, "[+0.100, +0.300]"),
        (of(0.5, 6.353), 0.0, "[no interval: too few scenarios]"),
        (of(0.2, 0.0), 0.0, "[no interval: all changed alike]"),
    ],
)
def test_a_difference_without_an_interval_has_no_bar(
    difference: Interval, bar: float, said: str
) -> None:
    row = ResultRow(TaskSubset("original"), 9, 9, {"progress": MetricCell(None, None, difference)})
    (figure,) = forests([row], ["progress"])
    assert figure.chart
    (trace,) = figure.chart["data"]
    assert trace["error_x"]["array"] == [pytest.approx(bar)]
    assert trace["error_x"]["arrayminus"] == [pytest.approx(bar)]
    assert trace["customdata"] == [said]
    assert ("no interval" in figure.caption) == ("no interval" in said)
    reaches = figure.chart["layout"]["xaxis"]["range"]
    assert max(map(abs, reaches)) < 0.6, "what has no bar takes no room for one"


@pytest.mark.parametrize(("xs", "reach"), [([0.0], [-0.5, 0.5]), ([3.0, 3.0], [2.5, 3.5])])
def test_a_single_point_stands_in_the_middle_of_its_axis(
    xs: list[float], reach: list[float]
) -> None:
    axis = line_chart([Series("a", xs, xs)], Axes("update"))["layout"]["xaxis"]
    assert axis["range"] == reach and axis["dtick"] == 1
    assert "range" not in line_chart([Series("a", [0, 1], [0, 1])], Axes())["layout"]["xaxis"]


def test_what_is_0_in_every_update_is_said_and_not_drawn(tmp_path: Path) -> None:
    steps = [
        {"kind": "step", "step": n, "kl": 0.0, "entropy": 0.5, "clip_high": 0.0, "clip_low": 0.0}
        for n in range(3)
    ]
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    note_lines(tmp_path, [json.dumps(step) + "\n" for step in steps])
    figures = {f.title: f for f in learning_curves(load_run(tmp_path))}
    clipped, entropy = figures["Clipped tokens"], figures["Entropy and KL"]
    assert clipped.chart is None and clipped.caption == "0 in every update."
    assert entropy.chart and [line["name"] for line in entropy.chart["data"]] == ["entropy"]
    assert entropy.caption.endswith("0 in every update: KL.")
    skipped = {"kind": "step", "step": 3, "kl": None, "entropy": None, "clip_high": None}
    note_lines(tmp_path, [json.dumps(skipped) + "\n"])
    figures = {f.title: f for f in learning_curves(load_run(tmp_path))}
    chart = figures["Entropy and KL"].chart
    assert chart and [line["name"] for line in chart["data"]] == ["entropy"]
    assert chart["data"][0]["y"] == [0.5, 0.5, 0.5, None], "an update that was skipped is a gap"
    assert figures["Clipped tokens"].caption == "0 in every update."


def test_the_held_out_curve_has_a_point_for_each_evaluation(tmp_path: Path) -> None:
    evaluations = [("before", 0.1), ("update 2", 0.3), ("after", 0.6)]
    lines = [{"kind": "step", "step": n + 1, "trajectories": 8} for n in range(4)]
    lines += [
        {
            **{"kind": "eval", "when": when},
            "rows": [{"task_id": "t", "set": "original", "progress": [v], "greedy_progress": [v]}],
        }
        for when, v in evaluations
    ]
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    note_lines(tmp_path, [json.dumps(line) + "\n" for line in lines[:-1]])
    assert held_out_curves(load_run(tmp_path)) == [], "two points are no curve"
    note_lines(tmp_path, [json.dumps(lines[-1]) + "\n"])
    (figure,) = held_out_curves(load_run(tmp_path))
    assert figure.chart and [line["x"] for line in figure.chart["data"]] == [[0, 2, 4]] * 2
    assert figure.chart["data"][0]["y"] == [0.1, 0.3, 0.6]


def test_every_reason_of_a_rejection_has_words() -> None:
    gates = {*GATES, *QUESTION_GATES, *SEED_GATES, "retold", "templates"}
    assert not {*map(str, ErrorClass), *gates} - reasons().keys()


def test_settings_of_a_page_show_no_login() -> None:
    address = {"url": "http://me:pw@host:8000/v1", "model": "a@b", "options": {"api-key": "pw"}}
    shown = {"engine.url": "http://***@host:8000/v1", "engine.model": "a@b"}
    assert details({"engine": address}) == {**shown, "engine.options.api-key": "***"}
