"""The process in which a checkout's code runs, by the checkout's own Python.

Owns its start, its end and the way of questions (`checkout.py`); threads may ask at once.

    Checkout(Path("tau2-bench"), "tau2-retail").ask("domain", "retail")["tools"]
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

from rods.errors import EnvError

SECONDS = 1800.0
"""How long an answer may take: models are asked again after a failure."""
SOCKET = "socket"


class Checkout:
    """One process; it starts at the first question."""

    def __init__(self, folder: Path, suite: str) -> None:
        """Its interpreter is that of the folder's `.venv`, if there is one, else this program's."""
        self._folder, self._suite, self._lock = folder.absolute(), suite, threading.Lock()
        own = self._folder / ".venv" / "bin" / "python"
        self.python = str(own) if own.exists() else sys.executable
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, what: str, *arguments: object) -> Any:
        """The value of a function of `checkout.py`.

        Raises:
            EnvError: the package raised, took too long, or its process died.
        """
        text = json.dumps([what, *arguments]).encode()
        process, place = self._running()
        try:
            with Client(str(place / SOCKET)) as pipe:
                pipe.send_bytes(text)
                found = {"error": "it took too long"}
                if pipe.poll(SECONDS):
                    found = json.loads(pipe.recv_bytes())
        except (EOFError, OSError) as error:
            _end(process, place)
            raise EnvError(f"{self._suite}: its process died at {what}: {error}") from error
        if "error" in found:
            raise EnvError(f"{self._suite}: {what}: {found['error']}")
        return found["value"]

    def _running(self) -> tuple[subprocess.Popen[bytes], Path]:
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._place = Path(tempfile.mkdtemp(prefix="rods-"))
                self._process = self._start()
                weakref.finalize(self, _end, self._process, self._place)
            while not (self._place / SOCKET).exists():
                if self._process.poll() is not None:
                    raise EnvError(f"{self._suite}: {self.python} cannot run the checkout's code.")
                time.sleep(0.01)
            return self._process, self._place

    def _start(self) -> subprocess.Popen[bytes]:
        paths = {
            "PYTHONPATH": str(self._folder / "src"),
            "TAU2_DATA_DIR": str(self._folder / "data"),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else the import asks a server for prices
        }
        command = [
            self.python,
            str(Path(__file__).with_name("checkout.py")),
            str(self._place / SOCKET),
        ]
        null, env = subprocess.DEVNULL, {**os.environ, **paths}
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=null, stderr=null, cwd=self._folder, env=env
        )

    def close(self) -> None:
        """End the process; the next question starts another, without the worlds of this one."""
        with self._lock:
            if self._process is not None:
                _end(self._process, self._place)


def _end(process: subprocess.Popen[bytes], place: Path) -> None:
    process.kill()
    process.wait()
    if process.stdin is not None:
        process.stdin.close()
    shutil.rmtree(place, ignore_errors=True)
