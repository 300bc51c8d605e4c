"""Runner of calls inside a workplace; `checks.py` sends its text there.

Owns nothing outside: it knows no expected value, so whatever the code under test does to it, it
cannot make it right. Standard input is JSON: `calls`, `states` (`files` of a folder of its own, or
null: the working folder) and `seconds` of processor time for all calls in one state. A line of JSON
comes out: for each state the text of each value, or `raises NAME`; null where it did not end well.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import sys
from typing import Any


def outcome(call: str) -> str:
    """Text of what a call gives."""
    module = call.partition("(")[0].rpartition(".")[0]
    try:
        importlib.import_module(module)
        names = {module.partition(".")[0]: sys.modules[module.partition(".")[0]]}
        return repr(eval(call, names))
    except BaseException as error:  # noqa: BLE001 (whatever the code under test raises is its value)
        return f"raises {type(error).__name__}"


def run(calls: list[str], seconds: float) -> list[str] | None:
    """The calls in a process that an alarm ends; a busy machine changes no outcome."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read)
            signal.setitimer(signal.ITIMER_PROF, seconds)
            sys.path.insert(0, os.getcwd())
            data = json.dumps([outcome(call) for call in calls]).encode()
            while data:
                data = data[os.write(write, data) :]
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        data = pipe.read()
    os.waitpid(pid, 0)
    try:
        return json.loads(data)
    except ValueError:
        return None


def main() -> None:
    """All states, one after the other."""
    asked = json.load(sys.stdin)
    out = os.fdopen(os.dup(1), "w")
    null = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(null, number)
    here, found = os.getcwd(), list[Any]()
    for state in asked["states"]:
        if state is not None:
            for path, text in state.items():
                os.makedirs(os.path.dirname(f"job/{path}"), exist_ok=True)
                with open(f"job/{path}", "w") as file:
                    file.write(text)
            os.chdir("job")
        found.append(run(asked["calls"], asked["seconds"]))
        os.chdir(here)
        if state is not None:
            shutil.rmtree("job")
    out.write(json.dumps(found))
    out.flush()


if __name__ == "__main__":
    main()
