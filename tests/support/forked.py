"""Programs of tests, each in a fork of one process that has imported what they take long to import.

A process of its own for each, as a user has it, without five seconds of imports. The tests of
`tests/core/test_main_job.py` about kills start real ones.

    done = run(["-m", "rods.cli.main", "doctor"], folder)
"""

from __future__ import annotations

import atexit
import functools
import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

IMPORTED = """
import pandas, torch, transformers.models.qwen3.modeling_qwen3, peft, sys
import rods.assemble, rods.cli.main
from rods.envs.bfcl.tasks import load_tasks
load_tasks()
del sys.modules["rods.cli.main"]
"""
"""And the tasks that most programs read.

The program itself is run as `__main__`, where `runpy` warns of one that was imported before.
"""


def run(
    words: list[str], folder: Path, timeout: float = 500, imported: str = IMPORTED
) -> subprocess.CompletedProcess[str]:
    """Like `subprocess.run([sys.executable, *words], cwd=folder, capture_output=True)`.

    `imported` is what the process that forks runs once.
    """
    server = _server(imported)
    assert server.stdin and server.stdout
    with tempfile.TemporaryDirectory() as place:
        files = [f"{place}/out", f"{place}/err"]
        asked = {"words": words, "folder": str(folder), "files": files, "env": dict(os.environ)}
        server.stdin.write(json.dumps({**asked, "timeout": timeout}) + "\n")
        server.stdin.flush()
        try:
            status = int(server.stdout.readline())
        except BaseException:  # a timeout of the test, or Ctrl-C: its answer is not the next one's
            os.killpg(server.pid, signal.SIGKILL)
            _server.cache_clear()
            raise
        out, err = (Path(file).read_text(encoding="utf-8") for file in files)
    if status == -signal.SIGALRM:
        raise subprocess.TimeoutExpired(words, timeout, out, err)
    return subprocess.CompletedProcess(words, status, out, err)


def _start(imported: str) -> subprocess.Popen[str]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    words = [sys.executable, __file__, imported]
    server = subprocess.Popen(words, start_new_session=True, **pipes)  # type: ignore[call-overload]
    atexit.register(server.communicate)
    return server


_server = functools.cache(_start)


def _serve() -> None:
    exec(sys.argv[1])
    gc.freeze()
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if not child:
            _become(asked)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()


def _become(asked: dict[str, object]) -> NoReturn:
    """Be the program that was asked for, as if it had been started."""
    words, folder, files, env, seconds = asked.values()
    signal.alarm(int(seconds))  # its default ends the process
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, file in enumerate(files, 1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
    module = words[0] == "-m"
    sys.argv = words[module:]
    sys.path[0] = folder if module else str(Path(words[0]).parent)
    if module:
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(words[0], run_name="__main__")
    sys.exit()


if __name__ == "__main__":
    _serve()
