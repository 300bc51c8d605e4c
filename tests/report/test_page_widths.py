"""Pages of runs in a real browser: what does not fit has a visible scrollbar, or is a fault."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from report_runs import write_run, write_trajectories
from rods.report.build import build_report
from rods.report.compare import compare_runs

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SECTIONS = {
    "results", "model", "difficulty", "tools", "curves", "schedule", "pool", "rollouts", "glossary",
}  # fmt: skip
CUT = """() => {
  const found = [];
  for (const box of document.querySelectorAll("main, main *:not(svg, svg *)")) {
    if (!box.clientWidth || box.scrollWidth <= box.clientWidth + 1) continue;
    const style = getComputedStyle(box);
    const bar = box.offsetHeight - box.clientHeight
      - parseFloat(style.borderTopWidth) - parseFloat(style.borderBottomWidth);
    found.push({
      box: `${box.tagName}.${box.className}: ${box.scrollWidth} in ${box.clientWidth}`,
      bar: style.overflowX === "auto" && bar >= 8,
    });
  }
  for (const plot of document.querySelectorAll(".plot")) {
    const edge = plot.getBoundingClientRect();
    for (const text of plot.querySelectorAll("text")) {
      const at = text.getBoundingClientRect();
      const inside = at.left >= edge.left - 1 && at.right <= edge.right + 1
        && at.top >= edge.top - 1 && at.bottom <= edge.bottom + 1;
      if (at.width && !inside) found.push({ box: `text ${text.textContent}`, bar: false });
    }
  }
  return found;
}"""
"""Boxes that are wider inside than outside, and texts of charts outside of their chart."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A report with all sections, and a comparison; in both some intervals do not exist."""
    folder = tmp_path_factory.mktemp("runs")
    run = write_run(folder / "run")
    write_trajectories(run)
    (run / "checkpoint").mkdir()
    (run / "checkpoint" / "latest").write_text("step-000001")
    rejected = {"contradiction": 40, "question_side": 9, "replay_differs": 251}
    more: dict[str, Any] = {
        "code_ratio": 0.5, "accuracy": 0.25, "schedule": {"idle_rollout": 0.2, "idle_update": 0.1},
        "synthesis": {"tried": 900, "accepted": 600, "rejected": rejected},
    }  # fmt: skip
    _alter(run, lambda row: row | more if row["kind"] == "step" else _solved_alike(row))
    other = write_run(folder / "a-run-with-a-name-that-is-long-2026-01-05", curriculum="static")
    _alter(other, _solved_alike)
    return {
        "report": build_report(run),
        "comparison": compare_runs([run, other]).write(folder / "comparison.html"),
    }


def _alter(run: Path, change: Any) -> None:
    log = run / "metrics.jsonl"
    rows = [change(json.loads(line)) for line in log.read_text(encoding="utf-8").splitlines()]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _solved_alike(row: dict[str, Any]) -> dict[str, Any]:
    """All conversations of one category end alike, so that no interval can be computed."""
    for task in row["rows"] if row["kind"] == "eval" else ():
        if task["category"] == "base":
            task |= {"greedy_solved": [False], "solved": [0.0, 0.0]}
    return row


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium with scrollbars, which it hides by default where no person looks."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with playwright.sync_playwright() as driver:
        hide = ["--hide-scrollbars"]
        started = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], ignore_default_args=hide
        )
        yield started
        started.close()


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("name", ["report", "comparison"])
def test_nothing_of_a_page_is_cut_off(
    name: str, width: int, pages: dict[str, Path], browser: Any
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(pages[name].as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.wait_for_function(
        "[...document.querySelectorAll('.plot')].every((one) => one.querySelector('.main-svg'))"
    )
    heads = set(page.evaluate("[...document.querySelectorAll('h2')].map((one) => one.id)"))
    assert name == "comparison" or heads == SECTIONS
    assert page.locator("table.results small", has_text="no interval").count()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    wide = page.evaluate(CUT)
    page.close()
    assert not [one["box"] for one in wide if not (width == 400 and one["bar"])]
    assert bool(wide) == (width == 400), "tables of numbers do not fit a phone"
