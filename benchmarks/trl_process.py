"""A TRL trainer in its own interpreter, which makes an update when it is asked to.

trl = TrlProcess("update_trl.py", "/opt/trl/bin/python", folder, batch, rows=8, updates=4)
trl.update()                    # {"wall": seconds, "cpu": seconds, ...}
trl.end()
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


class TrlProcess:
    """A script of this folder in TRL's interpreter; `trl_timed.py` is the other end.

    Args:
        script: its name; it reads `batch.json` in the folder, and answers one line with another.
        python: an interpreter with TRL.
        folder: for the batch and the log; holds the model already.
        batch: what it trains on.
        rows: rows of one of its passes.
        updates: how many it will make at most.
    """

    def __init__(
        self, script: str, python: str, folder: Path, batch: dict[str, Any], rows: int, updates: int
    ) -> None:
        (folder / "batch.json").write_text(json.dumps(batch))
        command = [python, str(Path(__file__).with_name(script)), str(folder)]
        own = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        quiet = {"TRL_EXPERIMENTAL_SILENCE": "1", "HF_HUB_OFFLINE": "1"}
        self._log = (folder / "log").open("w+")
        self._process = subprocess.Popen(
            [*command, str(rows), str(updates)], text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self._log, env={**own, **quiet},
        )  # fmt: skip

    def update(self) -> dict[str, Any]:
        """Ask for an update; returns its seconds, `wall` and `cpu`, and the script's figures."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            self._log.seek(0)
            sys.exit(f"TRL ended; its last words:\n{self._log.read()[-3000:]}")
        return json.loads(answer)

    def end(self) -> None:
        """Stop it."""
        self._process.kill()
        self._process.wait()
        self._log.close()
