"""Trajectories of a run in DuckDB: filters, siblings and facets over its Parquet files.

Owns the tables and what is new in the folder. The table `rows` is filled at once. Texts and names
of tools take longer, so a thread fills `texts`, and a filter that needs them waits for it. Tables
lie in a temporary file; nothing is written into the run, and DuckDB loads no extension.

    index = TrajectoryIndex(Path("runs/today/trajectories"))
    index.refresh()
    index.find(TrajectoryFilter(low=0.2, high=0.8, tool="lend")).total
"""

from __future__ import annotations

import json
import re
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

from rods.infra.checkpoints import by_step, step_of
from rods.trajectory import TrainingSignal, Trajectory
from rods.trajectory_codec import read_row

PAGE = 50  # Trajectories on one page
MEMORY = "160MB"  # Memory of DuckDB for one run; what needs more goes to a temporary folder
OPTIONS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "checkpoint_threshold": "4MB",
    "memory_limit": MEMORY,
    "threads": "2",
}
_VERDICT = json.dumps(
    [
        dict.fromkeys(("expects_calls", "state", "executed", "answered", "correct"), "BOOLEAN")
        | {"calls": "INTEGER"}
    ]
)
# `TurnVerdict.solved` in SQL; a test compares the two.
_SOLVED = """CASE WHEN v.correct IS NOT NULL THEN v.correct AND v.answered
    WHEN NOT v.expects_calls THEN v.calls = 0 AND v.answered
    ELSE v.calls > 0 AND v.state AND v.executed END"""
_PLACE = "parse_filename(filename, true)[6:]::INTEGER AS step, file_row_number AS number"
_ROW = f"""{_PLACE}, task_id, member, stop, failure,
    list_sum(span_lengths) AS tokens, reward,
    CASE WHEN failure IS NULL THEN (len(list_filter(from_json(verdicts, '{_VERDICT}'), lambda v:
        {_SOLVED})) / greatest(1, n_turns))::FLOAT END AS progress"""
_TEXT = f"""{_PLACE}, lower(messages) AS text,
    list_distinct(regexp_extract_all(steps, '"name": "([^"]+)", "arguments"', 1)) AS tools"""
_WORDS = ("role", "system", "user", "assistant", "tool", "content", "calls", "name", "arguments")
_WITHOUT_KEYS = """regexp_replace(text, '"(role": "[a-z]+", "content|calls|name|arguments)": ',
    '', 'g')"""  # those of JSON; in a message its quotes have a backslash
_SELECT = {"rows": _ROW, "texts": _TEXT}
_FIRST = "number - member"  # row of a group's first member: an update may have two of one task
_FILES = "FROM read_parquet($paths, filename = true, file_row_number = true, union_by_name = true)"
_COLUMNS = "step, number, task_id, member, stop, failure, tokens, reward, progress"
_TABLES = """CREATE TABLE rows (step INTEGER, number BIGINT, task_id VARCHAR, member INTEGER,
    stop VARCHAR, failure VARCHAR, tokens BIGINT, reward FLOAT, progress FLOAT);
CREATE TABLE texts (step INTEGER, number BIGINT, text VARCHAR, tools VARCHAR[]);
CREATE TABLE kinds (task_id VARCHAR, category VARCHAR)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryFilter:
    """Which trajectories are wanted; a field with its default filters nothing."""

    low: float = 0.0
    high: float = 1.0
    """Range of progress in [0, 1], the share of turns solved; no other holds invalid ones."""
    category: str = ""
    tool: str = ""
    text: str = ""
    """Part of a message, in any case."""
    step: str = ""
    stop: str = ""
    task: str = ""
    reward_low: str = ""
    reward_high: str = ""
    page: int = 0

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> TrajectoryFilter:
        """Read a query of an address; a number that cannot be read counts as left out."""
        found: dict[str, Any] = {}
        for field in fields(cls):
            value = query.get(field.name, "")
            try:
                found[field.name] = type(field.default)(value) if value else field.default
            except ValueError:
                found[field.name] = field.default
        return cls(**found)

    @property
    def query(self) -> dict[str, str]:
        """Fields that filter, as a query of an address."""
        defaults = asdict(TrajectoryFilter())
        return {k: f"{v}" for k, v in asdict(self).items() if v != defaults[k]}


class IndexRow(NamedTuple):
    """One trajectory of the index."""

    step: int
    number: int
    """Row within the step's file."""
    task_id: str
    member: int
    stop: str
    failure: str | None
    tokens: int
    reward: float | None
    """None: it is invalid, or its file holds no reward; nor has an invalid one progress."""
    progress: float | None


class FoundRows(NamedTuple):
    """A page of trajectories, and how many match on all pages."""

    rows: list[IndexRow]
    total: int


class TrajectoryIndex:
    """The trajectories of one run; threads may share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._spill = tempfile.TemporaryDirectory(prefix="rods-view-")
        options: dict[str, Any] = {**OPTIONS, "temp_directory": self._spill.name}
        # Tables of a file, unlike those in memory, are compressed, and leave memory for others.
        self._db = duckdb.connect(f"{self._spill.name}/index.duckdb", config=options)
        self._db.execute(_TABLES)
        self._named = f"{self._spill.name}/step-0.parquet"  # a column that older files lack
        self._db.execute(f"COPY (SELECT NULL::DOUBLE AS reward LIMIT 0) TO '{self._named}'")
        self._files: dict[Path, tuple[int, int]] = {}
        self._lock = threading.Lock()
        self._filling: threading.Thread | None = None
        self.faults: dict[str, str] = {}  # Files that could not be read, and why

    def refresh(self) -> bool:
        """Read files that are new or have changed, forget those that are gone; whether any was."""
        with self._lock:
            now = {p: _mark(p) for p in by_step(self._folder, ".parquet")}
            old = [p for p, mark in self._files.items() if now.get(p) != mark]
            new = [p for p, mark in now.items() if self._files.get(p) != mark]
            if not old and not new:
                return False
            self.wait()
            for path in (*old, *new):
                self.faults.pop(path.name, None)
            values = {"steps": [step_of(path.stem) for path in old]}
            for table in _SELECT if old else ():
                self._run(f"DELETE FROM {table} WHERE list_contains($steps, step)", values)
            self._fill("rows", new)
            self._files = now
            self._filling = threading.Thread(target=self._fill, args=("texts", new), daemon=True)
            self._filling.start()
            return True

    def wait(self) -> None:
        """Wait until the texts of all files are in the index."""
        if self._filling is not None:
            self._filling.join()

    def _run(
        self, text: str, values: Mapping[str, object] | None = None
    ) -> duckdb.DuckDBPyConnection:
        return self._db.cursor().execute(text, values or {})

    def _fill(self, table: str, paths: Sequence[Path]) -> None:
        """Read files at once; where that fails, one by one, to find the one that is broken."""
        insert = f"INSERT INTO {table} SELECT {_SELECT[table]} {_FILES}"
        try:
            if paths:
                self._run(insert, {"paths": [self._named, *map(str, paths)]})
        except duckdb.Error as error:
            if len(paths) == 1:
                self.faults[paths[0].name] = str(error).splitlines()[0]
            else:
                for path in paths:
                    self._fill(table, [path])

    def categorize(self, categories: Mapping[str, str]) -> None:
        """State the category of tasks."""
        self._run("DELETE FROM kinds")
        self._run(
            "INSERT INTO kinds SELECT unnest($names), unnest($kinds)",
            {"names": list(categories), "kinds": list(categories.values())},
        )

    def find(self, wanted: TrajectoryFilter) -> FoundRows:
        """A page of the trajectories that match, the latest step first."""
        where, values = _where(wanted)
        table = "rows"
        if wanted.text or wanted.tool:
            self.wait()
            table = "rows JOIN texts USING (step, number)"
        found = self._run(
            f"WITH hits AS MATERIALIZED (SELECT {_COLUMNS} FROM {table} WHERE {where}) "
            f"SELECT *, (SELECT count(*) FROM hits) FROM (SELECT * FROM hits "
            f"ORDER BY step DESC, number LIMIT {PAGE} OFFSET {PAGE * max(0, wanted.page)})",
            values,
        ).fetchall()
        if not found and wanted.page:  # beyond the last page
            return self.find(replace(wanted, page=0))
        return FoundRows([IndexRow(*row[:-1]) for row in found], found[0][-1] if found else 0)

    def siblings(self, step: int, number: int) -> list[IndexRow]:
        """The group of a trajectory, itself included; empty where there is no such trajectory."""
        found = self._run(
            f"SELECT {_COLUMNS} FROM rows WHERE step = $step AND (task_id, {_FIRST}) IN (SELECT "
            f"(task_id, {_FIRST}) FROM rows WHERE step = $step AND number = $number) "
            "ORDER BY member, number",
            {"step": step, "number": number},
        )
        return [IndexRow(*row) for row in found.fetchall()]

    def groups(self, task: str) -> list[tuple[int, int, int, float | None]]:
        """Groups of a task: step, row of the first member, size, mean progress if any is valid."""
        return self._run(
            "SELECT step, min(number), count(*), avg(progress) FROM rows WHERE task_id = $task "
            f"GROUP BY step, {_FIRST} ORDER BY step, {_FIRST}",
            {"task": task},
        ).fetchall()

    def values(self, column: str) -> list[str]:
        """Every `stop`, `category` or `tool` that occurs, in order."""
        source = {
            "stop": "SELECT DISTINCT stop AS v FROM rows",
            "category": "SELECT DISTINCT category AS v FROM kinds",
            "tool": "SELECT DISTINCT unnest(tools) AS v FROM texts",
        }[column]
        found = self._run(f"SELECT v FROM ({source}) ORDER BY v").fetchall()
        return [v for (v,) in found if v]

    def read(self, step: int, number: int) -> tuple[Trajectory, TrainingSignal | None]:
        """One trajectory with its reward and advantages, where the file holds these.

        Raises `StoreError` where there is none, or its file cannot be read.
        """
        return read_row(self._folder / f"step-{step:06d}.parquet", number)

    def close(self) -> None:
        """Release memory and temporary files."""
        self.wait()
        self._db.close()
        self._spill.cleanup()


def _where(wanted: TrajectoryFilter) -> tuple[str, dict[str, Any]]:
    """The condition in SQL, and the values of its parameters."""
    values: dict[str, Any] = {"low": wanted.low - 1e-6, "high": wanted.high + 1e-6}
    parts = ["coalesce(progress BETWEEN $low AND $high, $low <= 0 AND $high >= 1)"]
    for name, test in {
        "category": "task_id IN (SELECT task_id FROM kinds WHERE category = $category)",
        "stop": "stop = $stop",
        "task": "task_id = $task",
        "step": "step::VARCHAR = $step",
        "tool": "list_contains(tools, $tool)",
        "reward_low": "reward >= TRY_CAST($reward_low AS FLOAT) - 1e-6",
        "reward_high": "reward <= TRY_CAST($reward_high AS FLOAT) + 1e-6",
    }.items():
        if value := getattr(wanted, name):
            parts.append(test)
            values[name] = value
    if wanted.text:
        # The column is JSON in ASCII, which has other escapes for a letter in the other case.
        both = (dict.fromkeys((c.lower(), c.upper().lower(), c.upper())) for c in wanted.text)
        written = ([re.escape(json.dumps(one)[1:-1].lower()) for one in some] for some in both)
        keys = any(wanted.text.lower() in word for word in _WORDS)  # else it can be in none
        parts.append(f"regexp_matches({_WITHOUT_KEYS if keys else 'text'}, $text)")
        values["text"] = "".join(f"(?:{'|'.join(dict.fromkeys(some))})" for some in written)
    return " AND ".join(parts), values


def _mark(path: Path) -> tuple[int, int]:
    try:
        state = path.stat()
    except FileNotFoundError:  # removed by a resume since the folder was read
        return 0, 0
    return state.st_mtime_ns, state.st_size
