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
from collections.abc import Callable
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any, cast

from rods.errors import EnvError

SECONDS = 120.0
"""How long the package may take, its import included."""
TALK_SECONDS = 1800.0
"""How long it may take where it asks a model, which it does again after a failure."""
TALKS = ("opens", "replies", "score")


class Checkout:
    """One process; it starts at the first question."""

    def __init__(self, folder: Path, suite: str) -> None:
        """Start nothing yet; `suite` is named in messages.

        The interpreter is that of the folder's `.venv`, where it has one, else this program's.
        """
        self._folder, self._suite, self._lock = folder.absolute(), suite, threading.Lock()
        own = self._folder / ".venv" / "bin" / "python"
        self.python = str(own) if own.exists() else sys.executable
        self._process: subprocess.Popen[bytes] | None = None
        self._end: Callable[[], object] = lambda: None

    def ask(self, what: str, *arguments: object) -> Any:
        """The value of a function of `checkout.py`.

        Raises:
            EnvError: the package raised, took too long, or its process died.
        """
        text = json.dumps([what, *arguments]).encode()
        try:
            with Client(self._address()) as pipe:
                pipe.send_bytes(text)
                if not pipe.poll(TALK_SECONDS if what in TALKS else SECONDS):
                    if what not in TALKS:  # else another server is late
                        self.close()
                    raise EnvError(f"{self._suite}: {what} took too long.")
                found = json.loads(pipe.recv_bytes())
        except (EOFError, OSError) as error:
            raise EnvError(f"{self._suite}: its process died at {what}: {error}") from error
        if "error" in found:
            raise EnvError(f"{self._suite}: {what}: {found['error']}")
        return found["value"]

    def _address(self) -> str:
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._end()
                self._start()
            process, address = cast("subprocess.Popen[bytes]", self._process), self._socket
            until = time.monotonic() + SECONDS
            while not address.exists():
                if process.poll() is not None or time.monotonic() > until:
                    raise EnvError(f"{self._suite}: {self.python} cannot run the checkout's code.")
                time.sleep(0.01)
        return str(address)

    def _start(self) -> None:
        place = tempfile.mkdtemp(prefix="rods-")
        self._socket = Path(place, "socket")
        paths = {
            "PYTHONPATH": str(self._folder / "src"),
            "TAU2_DATA_DIR": str(self._folder / "data"),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else the import asks a server for prices
        }
        self._process = subprocess.Popen(
            [self.python, str(Path(__file__).with_name("checkout.py")), str(self._socket)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._folder,
            env={**os.environ, **paths},
        )
        self._end = weakref.finalize(self, _end, self._process, place)

    def close(self) -> None:
        """End the process; the next question starts another, without the worlds of this one."""
        with self._lock:
            self._end()
            self._process = None


def _end(process: subprocess.Popen[bytes], place: str) -> None:
    process.kill()
    process.communicate()
    shutil.rmtree(place, ignore_errors=True)
