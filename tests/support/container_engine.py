#!/usr/bin/env python3
"""A stand-in for `docker` whose containers are real: name spaces of processes, made by unshare.

Owns run, exec, restart, inspect, kill, rm and cp. The first process of a container is its process
1, so signals inside it do what they do in docker: they reach all others, and not that one. `--init`
puts a process in front that ends with its only child, as docker's does. An image is a folder beside
this file; a container has a copy of it, mounted where `-w` says. Memory and processes are not
bounded, and the file system of the machine is there to be read.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from typing import Any, NoReturn

HOME = pathlib.Path(__file__).resolve().parent
MOUNTED = "/mnt"
"""Stands for the image's folder: a folder that every Linux has."""
APART = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"]
INIT = (
    "import os, sys\nchild = os.fork()\nif not child:\n    os.execvp(sys.argv[1], sys.argv[1:])\n"
    "while os.wait()[0] != child:\n    pass\n"
)


def fail(why: str, code: int = 1) -> NoReturn:
    sys.stderr.write(f"Error response from daemon: {why}\n")
    sys.exit(code)


def state(name: str) -> dict[str, Any]:
    try:
        return json.loads((HOME / "containers" / name / "state").read_text())
    except OSError:
        fail(f"No such container: {name}")


def begin(name: str, first: list[str]) -> None:
    """Start the first process, and note its number as this machine has it."""
    place = HOME / "containers" / name
    mount = f'mount --bind "{place / "root"}" {MOUNTED} && cd {MOUNTED} && exec "$@"'
    process = subprocess.Popen(
        [*APART, "sh", "-c", mount, "sh", *first],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until, pid = time.monotonic() + 300, 0
    while time.monotonic() < until:
        with contextlib.suppress(OSError, IndexError):
            pid = int(children.read_text().split()[0])
            if os.path.samefile(f"/proc/{pid}/cwd", place / "root"):
                break
        if process.poll() is not None:
            fail(f"{first[0]}: not found", 127)
        time.sleep(0.005)
    (place / "state").write_text(json.dumps({"pid": pid, "outer": process.pid, "first": first}))


def running(known: dict[str, Any]) -> bool:
    try:
        words = pathlib.Path(f"/proc/{known['pid']}/stat").read_text().rpartition(")")[2].split()
        return words[0] != "Z" and int(words[1]) == known["outer"]
    except OSError:
        return False


def end(known: dict[str, Any]) -> None:
    with contextlib.suppress(ProcessLookupError):
        if running(known):
            os.kill(known["pid"], signal.SIGKILL)
    while running(known):
        time.sleep(0.005)


def run(words: list[str]) -> None:
    options = {}
    switches = ("-d", "--init")
    while words[0].startswith("-"):
        option = words.pop(0)
        options[option] = True if option in switches else words.pop(0)
    image, command = words[0], words[1:]
    if not (HOME / image).is_dir():
        fail(f"No such image: {image}", 125)
    first = ([options["--entrypoint"]] if "--entrypoint" in options else []) + command
    if "--init" in options:
        first = [sys.executable, "-S", "-c", INIT, *first]
    name = os.urandom(6).hex()
    shutil.copytree(HOME / image, HOME / "containers" / name / "root", symlinks=True)
    begin(name, first)
    sys.stdout.write(f"{name}\n")


def execute(words: list[str]) -> None:
    where = MOUNTED
    while words[0].startswith("-"):
        if words.pop(0) == "-w":
            asked = words.pop(0)
            where = MOUNTED if asked == "/testbed" else asked
    name, command = words[0], words[1:]
    known = state(name)
    if not running(known):
        fail(f"container {name} is not running")
    if (HOME / "broken").exists():
        fail("cannot connect", 1)
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/root"}
    enter = ["nsenter", "-t", str(known["pid"]), "-U", "--preserve-credentials", "-m", "-p"]
    done = subprocess.run([*enter, f"--wdns={where}", "--", *command], env=environment)
    sys.exit(done.returncode if done.returncode >= 0 else 128 - done.returncode)


def main() -> None:
    verb, words = sys.argv[1], sys.argv[2:]
    with open(HOME / "asked", "a") as file:
        print(verb, *words[:2], file=file)
    if verb != "exec" and (HOME / "broken").exists():
        fail("cannot connect")
    if verb == "run":
        run(words)
    elif verb == "exec":
        execute(words)
    elif verb == "cp":
        source, target = words
        name, _, path = target.partition(":")
        shutil.copy(source, HOME / "containers" / name / "root" / path.lstrip("/"))
    elif verb in ("kill", "inspect", "restart", "rm"):
        name = words[-1]
        known = state(name)
        if verb == "inspect":
            sys.stdout.write(json.dumps(running(known)))
            return
        end(known)
        if verb == "restart":
            begin(name, known["first"])
        if verb == "rm":
            shutil.rmtree(HOME / "containers" / name)
    else:
        fail(f"unknown command: {verb}", 125)


if __name__ == "__main__":
    main()
