"""The helper by which one worker makes what all workers read."""

from __future__ import annotations

from pathlib import Path

import pytest

from once import made_once


def test_a_folder_is_made_once_and_again_after_an_error(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        if len(made) == 1:
            raise OSError("no space")
        (folder / "file").write_text("whole")

    with pytest.raises(OSError, match="no space"):
        made_once(tmp_path_factory, "made_once", make)
    first, second = (made_once(tmp_path_factory, "made_once", make) for _ in range(2))
    assert len(made) == 2 and first == second == made[1]
    assert (first / "file").read_text() == "whole"
