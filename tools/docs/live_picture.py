"""The picture of the live display: a run's records up to an update, drawn as on a terminal.

python tools/docs/live_picture.py runs/A 28 docs/live.svg
"""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from rods.report.live import TrainDisplay
from rods.store import METRICS


def picture(run: Path, update: int) -> str:
    """Return the display after this update as SVG that asks for no font from elsewhere."""
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    lines = (run / METRICS).read_text(encoding="utf-8").splitlines()
    now = [0.0]
    total = manifest["config"]["updates"]
    display = TrainDisplay(run.name, total, console=Console(quiet=True), clock=lambda: now[0])
    for record in map(json.loads, lines):
        if record["kind"] == "step" and record["step"] > update:
            break
        now[0] += _seconds(record)
        display.record(record)
    size = manifest["config"]["rollout"]
    display.rollout(0, size["tasks_per_step"] * size["k"])  # the next update begins
    console = Console(record=True, force_terminal=True, width=88, file=io.StringIO())
    console.print(display._draw())  # pyright: ignore[reportPrivateUsage]
    svg = console.export_svg(title=manifest["command"])
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


def _seconds(record: dict[str, Any]) -> float:
    return (record.get("seconds_rollout") or 0) + (record.get("seconds_update") or 0)


if __name__ == "__main__":
    Path(sys.argv[3]).write_text(picture(Path(sys.argv[1]), int(sys.argv[2])), encoding="utf-8")
