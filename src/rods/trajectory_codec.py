"""Trajectories as Parquet files and as plain JSON, exact in both directions.

Owns the two forms and their version. Whole files are written by a temporary file and a rename.
Never scores and never drops a row: what cannot be read stops with file and row.

    write_parquet(path, [t for group in groups for t in group.trajectories])
    trajectories = list(read_parquet(path))
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice, repeat, starmap
from pathlib import Path
from typing import Any, TypeAlias

from rods.env import TurnVerdict
from rods.errors import StoreError, TokenError
from rods.infra.files import pyarrow, replacing, table_rows
from rods.infra.rows import listed, opened
from rods.task import call_to_json, calls_from_json
from rods.tokens import Span
from rods.trajectory import Step, TrainingSignal, Trajectory
from rods.types import FinishReason, Json, Message, ParseVerdict, StopReason, ToolResult

VERSION = 3
"""Version of both formats."""
# JSON stays ASCII: a model can write lone surrogates, which UTF-8 cannot hold.
TEMPLATE = "rods.template"
"""Metadata of a file: the digest of its chat template."""
_ROWS = 512
"""Rows of one Parquet row group: bounds the memory of writing and reading."""
Row: TypeAlias = dict[str, Any]  # of a table: values by column
Signaled: TypeAlias = tuple[Trajectory, TrainingSignal | None]
"""A trajectory with its reward and advantages; None: the file does not hold these."""

_SCALARS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "task_id": ("string", str), "member": ("int32", int), "policy_version": ("int64", int),
    "seed": ("int64", int), "n_turns": ("int32", int), "stop": ("string", StopReason),
    "failure": ("string", lambda reason: reason), "seconds": ("float64", float),
    "temperature": ("float64", float), "cut_results": ("int64", int),
}  # fmt: skip
"""Plain fields of a trajectory: the type of the column, and how the value is read."""


def to_json(trajectory: Trajectory) -> dict[str, Json]:
    """Plain JSON; `from_json` gives an equal trajectory back."""
    row: dict[str, Any] = {
        "version": VERSION,
        **{name: getattr(trajectory, name) for name in _SCALARS},
        "stop": trajectory.stop.value,
        "messages": [
            {"role": m.role, "content": m.content, "calls": [call_to_json(c) for c in m.calls]}
            for m in trajectory.messages
        ],
        "steps": [_step_to_json(step) for step in trajectory.steps],
        "verdicts": [asdict(verdict) for verdict in trajectory.verdicts],
        "spans": [
            {
                "ids": list(s.ids),
                "logprobs": None if s.logprobs is None else list(s.logprobs),
                "version": s.version,
            }
            for s in trajectory.spans
        ],
    }
    return row


def from_json(row: Mapping[str, Json], where: str = "trajectory") -> Trajectory:
    """Read one row; `StoreError` names `where` and a key of another version or type, or none."""
    data: Mapping[str, Any] = row
    found = data.get("version")
    if found != VERSION:
        raise StoreError(
            f"{where}: trajectories of format version {found}, this program reads {VERSION}."
        )
    try:
        return Trajectory(
            **{name: read(data[name]) for name, (_, read) in _SCALARS.items()},
            messages=tuple(
                Message(m["role"], m["content"], calls_from_json(m["calls"]))
                for m in data["messages"]
            ),
            steps=tuple(_step_from_json(step) for step in data["steps"]),
            verdicts=tuple(TurnVerdict(**verdict) for verdict in data["verdicts"]),
            spans=tuple(_span(s) for s in data["spans"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, TokenError) as error:
        what = f"key {error} is missing" if isinstance(error, KeyError) else str(error)
        raise StoreError(f"{where}: not a trajectory: {what}.") from error


def write_parquet(
    path: Path,
    trajectories: Iterable[Trajectory],
    template: str = "",
    signals: Sequence[TrainingSignal] = (),
) -> int:
    """Write a Parquet file; ids and log-probabilities are columns of lists; returns how many rows.

    Args:
        path: of the file.
        trajectories: written in pieces as they come.
        template: digest of the chat template that made the ids, where no manifest names it.
        signals: what an update made of each; empty: nobody trained on them.

    Raises:
        PrerequisiteError: pyarrow is not installed; StoreError: the file cannot be written.
    """
    arrow, parquet = pyarrow()
    schema = _schema(arrow).with_metadata({TEMPLATE: template} if template else None)
    count = 0
    with replacing(path) as part, parquet.ParquetWriter(part, schema, compression="zstd") as writer:
        rows: list[dict[str, Any]] = []
        for trajectory, signal in zip(trajectories, signals or repeat(None), strict=bool(signals)):
            rows.append(_flat(trajectory, signal))
            count += 1
            if len(rows) == _ROWS:
                writer.write_table(arrow.Table.from_pylist(rows, schema))
                rows.clear()
        if rows:
            writer.write_table(arrow.Table.from_pylist(rows, schema))
    return count


def read_parquet(path: str | Path) -> Iterator[Trajectory]:
    """Read a Parquet file.

    Raises:
        StoreError: no such file, no Parquet file, or a row is broken; file and row are named.
        PrerequisiteError: pyarrow is not installed.
    """
    return (trajectory for trajectory, _ in read_signals(Path(path)))


def read_signals(path: Path) -> Iterator[Signaled]:
    """Read a Parquet file with what an update made of each trajectory; see `read_parquet`."""
    return starmap(_signaled, table_rows(path, "trajectories", StoreError))


def read_row(path: Path, number: int) -> Signaled:
    """One row of a Parquet file, from 0, with what an update made of it, if the file holds that.

    Raises as `read_parquet`, and `StoreError` where there is no such row.
    """
    found = next(islice(table_rows(path, "trajectories", StoreError), number, None), None)
    if found is None:
        raise StoreError(f"{path.name} has no row {number}.")
    return _signaled(*found)


def _signaled(where: str, row: Row) -> Signaled:
    signal = None
    if row.get("span_advantages") is not None:
        row["reward_parts"] = json.loads(row["reward_parts"])
        signal = TrainingSignal(*(row[name] for name in TrainingSignal._fields))
    return _unflat(row, where), signal


def template_in(path: Path) -> str:
    """Digest of the chat template that a Parquet file names; empty: none, or no such file."""
    arrow, parquet = pyarrow()
    try:
        named = parquet.read_schema(path).metadata or {}
    except (OSError, arrow.ArrowException):  # reading the rows says it with the row
        return ""
    return named.get(TEMPLATE.encode(), b"").decode()


def _step_to_json(step: Step) -> dict[str, Any]:
    return {
        "turn": step.turn, "text": step.text, "verdict": step.verdict.value,
        "finish": step.finish.value, "calls": [call_to_json(c) for c in step.calls],
        "results": [asdict(result) for result in step.results], "tokens": step.tokens,
    }  # fmt: skip


def _step_from_json(row: Mapping[str, Any]) -> Step:
    return Step(
        turn=int(row["turn"]),
        text=str(row["text"]),
        verdict=ParseVerdict(row["verdict"]),
        finish=FinishReason(row["finish"]),
        calls=calls_from_json(row["calls"]),
        results=tuple(ToolResult(**result) for result in listed(row["results"], "results")),
        tokens=int(row["tokens"]),
    )


def _span(span: Mapping[str, Any]) -> Span:
    ids, logprobs = tuple(_column(span, "ids")), _column(span, "logprobs")
    if logprobs is None:
        return Span(ids, None)
    return Span(ids, tuple(logprobs), int(span["version"]))


def _column(row: Mapping[str, object], key: str) -> Any:
    """Numbers of a row, which may be JSON text."""
    return opened(row.get(key), key)


_TEXTS = ("messages", "steps", "verdicts")
"""Nested columns, kept as JSON text: people read them, trainers do not."""


def _flat(trajectory: Trajectory, signal: TrainingSignal | None) -> dict[str, Any]:
    """One Parquet row: scalars, JSON texts, and lists for the spans and their tokens."""
    row: dict[str, Any] = to_json(trajectory)
    del row["spans"]
    for key in _TEXTS:
        row[key] = json.dumps(row[key])
    row["span_lengths"] = [len(s.ids) for s in trajectory.spans]
    row["span_sampled"] = [s.sampled for s in trajectory.spans]
    row["span_versions"] = [s.version for s in trajectory.spans]
    row["ids"] = [i for s in trajectory.spans for i in s.ids]
    row["logprobs"] = [p for s in trajectory.spans for p in s.logprobs or ()]
    if signal is not None:
        row |= {**signal._asdict(), "reward_parts": json.dumps(signal.reward_parts)}
    return row


def _unflat(row: Row, where: str) -> Trajectory:
    try:
        for key in _TEXTS:
            row[key] = listed(row[key], key)
        if row.get("spans") is not None:  # `to_json`, written as a table by somebody
            row["spans"] = listed(row["spans"], "spans")
            return from_json(row, where)
        ids, logprobs = iter(_column(row, "ids")), iter(_column(row, "logprobs"))
        lengths, sampled = _column(row, "span_lengths"), _column(row, "span_sampled")
        versions = _column(row, "span_versions")
        row["spans"] = [
            {
                "ids": [next(ids) for _ in range(length)],
                "logprobs": [next(logprobs) for _ in range(length)] if ours else None,
                "version": version,
            }
            for length, ours, version in zip(lengths, sampled, versions, strict=True)
        ]
    except (KeyError, TypeError, ValueError, StopIteration) as error:
        raise StoreError(f"{where}: not a trajectory: {error!r}.") from error
    return from_json(row, where)


def _schema(arrow: Any) -> Any:
    scalars = {name: getattr(arrow, kind)() for name, (kind, _) in _SCALARS.items()}
    columns = {
        "version": arrow.int32(),
        **scalars,
        **dict.fromkeys(_TEXTS, arrow.string()),
        "span_lengths": arrow.list_(arrow.int32()), "span_sampled": arrow.list_(arrow.bool_()),
        "span_versions": arrow.list_(arrow.int64()), "ids": arrow.list_(arrow.int32()),
        "logprobs": arrow.list_(arrow.float64()), "reward": arrow.float64(),
        "reward_parts": arrow.string(), "span_advantages": arrow.list_(arrow.float32()),
    }  # fmt: skip
    return arrow.schema(list(columns.items()))
