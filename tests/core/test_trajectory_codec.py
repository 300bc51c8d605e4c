"""Trajectories survive files exactly, and damaged files say where they are damaged."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rods.env import TurnVerdict
from rods.errors import EnvError, StoreError
from rods.infra.interrupt import shown
from rods.tokens import Span
from rods.trajectory import Step, TrainingSignal, Trajectory
from rods.trajectory_codec import (
    from_json,
    read_parquet,
    read_row,
    to_json,
    write_parquet,
)
from rods.types import FinishReason, Message, ParseVerdict, StopReason, ToolCall, ToolResult

TEXT = st.text(max_size=8) | st.just("a\ud800\\")
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
CALL = st.builds(
    ToolCall,
    TEXT,
    st.dictionaries(
        TEXT,
        st.integers() | TEXT | st.lists(FLOATS, max_size=2) | st.just(ToolCall("f", {"x": 1})),
        max_size=2,
    ),
)
CALLS = st.lists(CALL, max_size=2).map(tuple)
SPAN = st.lists(st.tuples(st.integers(0, 2**31 - 1), FLOATS), max_size=4).flatmap(
    lambda pairs: st.sampled_from(
        [
            Span(tuple(i for i, _ in pairs), tuple(p for _, p in pairs), len(pairs)),
            Span(tuple(i for i, _ in pairs), None),
        ]
    )
)
SMALL = st.integers(0, 100)
TRAJECTORY = st.builds(
    Trajectory,
    task_id=st.text("abc0", max_size=8),
    member=SMALL,
    policy_version=SMALL,
    seed=st.integers(0, 2**63 - 1),
    messages=st.lists(
        st.builds(Message, st.sampled_from(["user", "assistant", "tool"]), TEXT, CALLS), max_size=2
    ).map(tuple),
    steps=st.lists(
        st.builds(
            Step,
            SMALL,
            TEXT,
            st.sampled_from(ParseVerdict),
            st.sampled_from(FinishReason),
            CALLS,
            st.lists(st.builds(ToolResult, TEXT, st.booleans()), max_size=2).map(tuple),
            SMALL,
        ),
        max_size=2,
    ).map(tuple),
    verdicts=st.lists(st.builds(TurnVerdict, *[st.booleans()], SMALL, *[st.booleans()] * 4)).map(
        lambda v: tuple(v[:2])
    ),
    n_turns=st.integers(1, 9),
    spans=st.lists(SPAN, max_size=3).map(tuple),
    stop=st.sampled_from(StopReason),
    failure=st.none() | st.just("EnvError: away"),
    seconds=FLOATS,
    temperature=FLOATS,
    cut_results=SMALL,
)
ONE = Trajectory("t", 0, 0, 1, (), (), (), 1, (Span((1,), None),), StopReason.DONE)


@pytest.mark.slow
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(kept=st.lists(TRAJECTORY, max_size=3))
def test_both_formats_are_exact(tmp_path: Path, kept: list[Trajectory]) -> None:
    assert [from_json(json.loads(json.dumps(to_json(t)))) for t in kept] == kept
    assert write_parquet(tmp_path / "t.parquet", kept) == len(kept)
    assert list(read_parquet(tmp_path / "t.parquet")) == kept


def test_a_broken_row_is_named() -> None:
    row = {("turns" if key == "n_turns" else key): value for key, value in to_json(ONE).items()}
    with pytest.raises(StoreError, match="row 3: not a trajectory: key 'n_turns' is missing"):
        from_json(row, "row 3")


def test_another_version_is_refused() -> None:
    with pytest.raises(StoreError, match="format version 99, this program reads 3"):
        from_json({**to_json(ONE), "version": 99})


def test_a_damaged_parquet_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    with pytest.raises(StoreError, match="no such file"):
        list(read_parquet(path))
    write_parquet(path, [ONE])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(StoreError, match=r"t\.parquet: not a Parquet file"):
        list(read_parquet(path))


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    def rows():
        yield ONE
        raise OSError("disk full")

    write_parquet(tmp_path / "t.parquet", [ONE])
    with pytest.raises(OSError, match="disk full"):
        write_parquet(tmp_path / "t.parquet", rows())
    assert list(read_parquet(tmp_path / "t.parquet")) == [ONE]
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


def test_signals_of_training_stand_beside_their_trajectories(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    kept = [replace(ONE, member=number) for number in range(2)]
    signals = [
        TrainingSignal(0.75, {"solved": 0.5, "a\ud800": 1.0}, [None]),
        TrainingSignal(None, {}, [-0.25]),
    ]
    write_parquet(path, kept, signals=signals)
    assert [read_row(path, number) for number in range(2)] == list(zip(kept, signals, strict=True))
    assert list(read_parquet(path)) == kept
    with pytest.raises(StoreError, match=r"t\.parquet has no row 2"):
        read_row(path, 2)
    with pytest.raises(ValueError, match="shorter"):
        write_parquet(path, kept, signals=signals[:1])


def test_a_failure_that_quotes_half_a_character_is_kept(tmp_path: Path) -> None:
    """It stopped the run: no column of text can hold it."""
    failed = replace(ONE, failure=shown(EnvError("no file a\ud800")))
    write_parquet(tmp_path / "t.parquet", [failed])
    (read,) = read_parquet(tmp_path / "t.parquet")
    assert read == failed and read.failure == "EnvError: no file a\\ud800"


def test_a_file_without_signals_is_read(tmp_path: Path) -> None:
    """Nobody trained on them, or the file was written before there were such columns."""
    write_parquet(tmp_path / "new.parquet", [ONE])
    table = pq.read_table(tmp_path / "new.parquet")
    pq.write_table(table.drop_columns([*TrainingSignal._fields]), tmp_path / "old.parquet")
    for name in ("new", "old"):
        assert read_row(tmp_path / f"{name}.parquet", 0) == (ONE, None)


def test_a_full_disk_is_one_message_and_keeps_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "cold.parquet"
    path.write_text("old")
    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(StoreError, match=r"cold\.parquet: the disk is full"):
        write_parquet(path, [ONE])
    assert [p.name for p in tmp_path.iterdir()] == [path.name] and path.read_text() == "old"
