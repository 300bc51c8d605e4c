"""The page of `rods view --tasks`: proposed seed tasks, to be accepted, edited or rejected.

Owns the file while a person reviews it: each verdict is written at once, atomically, into a file
that is read again before. An edit that does not replay is refused; nothing else changes a task.

    SeedFile(Path("seeds.jsonl"), environment).review("8b0d3000fe176954", "accepted")
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastapi import Request
from nicegui import ui

from rods.env import Environment
from rods.errors import RodsError, TaskError
from rods.evaluation.check import replaying
from rods.infra.claims import claimed
from rods.infra.files import is_table
from rods.infra.rows import placed_rows
from rods.infra.text import quoted
from rods.synthesis.base import Base
from rods.synthesis.gates.keeper import Gatekeeper
from rods.synthesis.stages import stage_of
from rods.task import Task, carried, read_tasks, write_tasks
from rods.view.frame import head, html, json_for_people


class SeedFile:
    """JSON lines of tasks that a person reviews."""

    def __init__(self, path: Path, environment: Environment) -> None:
        """Read it; raises `TaskError` where a line is broken."""
        self.path, self.environment = path, environment
        self.tasks()

    def tasks(self) -> list[Task]:
        """All tasks, as the file has them now; `TaskError` where a verdict would lose the rest."""
        tasks = list(read_tasks(self.path))
        rows = placed_rows(self.path, "tasks", TaskError)
        bare = self.path.is_file() and not is_table(self.path)
        if not (bare and all(carried(row, where) is row for where, row in rows)):
            raise TaskError(
                f"{self.path}: expected JSON lines of tasks alone; verdicts rewrite the file. "
                f"First: rods convert --tasks {quoted(self.path)} --out NEW.jsonl --env.name NAME."
            )
        return tasks

    def review(self, task_id: str, verdict: str, text: str = "") -> None:
        """Write a verdict on a task; `text`: JSON of the task that takes its place.

        Raises:
            TaskError: the file has no such task any more, or the new one cannot be trained on.
            StoreError: another process writes the file.
        """
        with claimed(self.path, "file"):
            tasks = self.tasks()
            old = next((task for task in tasks if task.id == task_id), None)
            if old is None:
                raise TaskError(f"{self.path}: task {task_id} is gone; somebody changed the file.")
            new = old
            if text:
                try:
                    new = Task.from_json(json.loads(text), "the edit")
                except (ValueError, RecursionError) as error:
                    raise TaskError(f"the edit is not JSON: {error}") from error
                if faults := replaying([new], self.environment)[1]:
                    raise TaskError(f"the edit is refused: {faults[0].detail}")
            if new.id in {task.id for task in tasks} - {task_id}:
                raise TaskError(f"{self.path}: the edited task stands in it already.")
            new = replace(new, provenance=replace(new.provenance, review=verdict))
            write_tasks(self.path, [new if task is old else task for task in tasks])

    def shown(self, task: Task) -> Mapping[str, Any]:
        """Results of its ground truth, and what a gate has against it."""
        try:
            steps = Base.of(self.environment, task).steps
            stage = stage_of(task.env, task.world, task.provenance.scenario)
            rejection = Gatekeeper(self.environment, [stage]).check(stage, task).rejection
        except RodsError as error:
            return {"steps": (), "problem": str(error)}
        return {"steps": steps, "problem": rejection and f"{rejection.reason}: {rejection.detail}"}


def add_seed_page(file: SeedFile) -> None:
    """Register the page."""

    def show(request: Request) -> None:
        head((), None, "/", request.cookies.get("rods_theme", ""))
        with ui.element("div").classes("content"):
            cards()

    @ui.refreshable
    def cards() -> None:
        tasks = file.tasks()
        html("seeds", path=file.path, tasks=tasks)
        for task in tasks:
            with ui.element("article").classes("card pane seed"):
                html("seed", task=task, **file.shown(task))
                _controls(file, task, cards.refresh)

    ui.page("/", title="rods view seed tasks")(show)


def _controls(file: SeedFile, task: Task, done: Callable[[], object]) -> None:
    """Buttons of a task, its text to be edited, and why an edit is refused."""

    def write(verdict: str) -> None:
        try:
            file.review(task.id, verdict, (text.value or "") if verdict == "edited" else "")
        except RodsError as error:
            problem.set_text(str(error))
        else:
            done()

    text = ui.textarea("task", value=json_for_people(task.to_json())).props("outlined")
    text.set_visibility(False)
    problem = ui.label().classes("bad")
    with ui.row():
        ui.button("Accept", on_click=lambda: write("accepted")).props("flat")
        ui.button("Reject", on_click=lambda: write("rejected")).props("flat")
        ui.button("Edit", on_click=lambda: text.set_visibility(True)).props("flat")
        save = ui.button("Save", on_click=lambda: write("edited")).props("flat")
        save.bind_visibility_from(text, "visible")
