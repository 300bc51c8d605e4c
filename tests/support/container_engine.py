#!/usr/bin/env python3
"""A stand-in for `docker` whose containers are real: name spaces of processes, made by unshare.

Owns run, exec, restart, inspect, kill, rm and cp. The first process of a container is its process
1, so signals inside it do what they do in docker: they reach all others, and not that one. `--init`
puts a process in front that ends with its only child, as docker's does. An image is a folder beside
this file; a container has a copy of it, mounted where `-w` says. Memory and processes are not
bounded, and the file system of the machine is there to be read.

A command of an agent starts this twice, and its tests hundreds of times: it imports almost nothing.
"""

import os
import sys
import time

HOME = os.path.dirname(os.path.realpath(__file__))
MOUNTED = "/mnt"
"""Stands for the image's folder: a folder that every Linux has."""
APART = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"]
INIT = (
    "import os, sys\nchild = os.fork()\nif not child:\n    os.execvp(sys.argv[1], sys.argv[1:])\n"
    "while os.wait()[0] != child:\n    pass\n"
)


def fail(why: str, code: int = 1) -> None:
    sys.stderr.write(f"Error response from daemon: {why}\n")
    sys.exit(code)


def read(path: str) -> str:
    with open(path) as file:
        return file.read()


def place(name: str) -> str:
    return f"{HOME}/containers/{name}"


def state(name: str) -> list[str]:
    """Numbers of the first process and of the one that made its name space; its command."""
    try:
        return read(f"{place(name)}/state").split("\0")
    except OSError:
        fail(f"No such container: {name}")
        raise


def begin(name: str, first: list[str]) -> None:
    """Start the first process, and note its number as this machine has it."""
    root = f"{place(name)}/root"
    mount = f'mount --bind "{root}" {MOUNTED} && cd {MOUNTED} && exec "$@"'
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    words = [*APART, "sh", "-c", mount, "sh", *first]
    outer = os.posix_spawnp(words[0], words, os.environ, file_actions=nowhere, setsid=True)
    until, pid = time.monotonic() + 300, "0"
    while time.monotonic() < until:
        try:
            pid = read(f"/proc/{outer}/task/{outer}/children").split()[0]
            if os.path.samefile(f"/proc/{pid}/cwd", root):
                break
        except (OSError, IndexError):
            time.sleep(0.005)
        if os.waitpid(outer, os.WNOHANG)[0]:
            fail(f"{first[0]}: not found", 127)
        time.sleep(0.005)
    with open(f"{place(name)}/state", "w") as file:
        file.write("\0".join([pid, str(outer), *first]))


def running(known: list[str]) -> bool:
    try:
        words = read(f"/proc/{known[0]}/stat").rpartition(")")[2].split()
    except OSError:
        return False
    return words[0] != "Z" and words[1] == known[1]


def end(known: list[str]) -> None:
    try:
        if running(known):
            os.kill(int(known[0]), 9)
    except ProcessLookupError:
        return
    while running(known):
        time.sleep(0.005)


def run(words: list[str]) -> None:
    options: dict[str, str] = {}
    while words[0].startswith("-"):
        option = words.pop(0)
        options[option] = "" if option in ("-d", "--init") else words.pop(0)
    image, command = words[0], words[1:]
    if not os.path.isdir(f"{HOME}/{image}"):
        fail(f"No such image: {image}", 125)
    first = ([options["--entrypoint"]] if "--entrypoint" in options else []) + command
    if "--init" in options:
        first = [sys.executable, "-S", "-c", INIT, *first]
    name = os.urandom(6).hex()
    os.makedirs(place(name))
    os.spawnlp(os.P_WAIT, "cp", "cp", "-a", f"{HOME}/{image}", f"{place(name)}/root")
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
    if os.path.exists(f"{HOME}/broken"):
        fail("cannot connect", 1)
    path = f"{HOME}/python/bin:{os.environ['PATH']}"
    environment = {"PATH": path, "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/root"}
    enter = ["nsenter", "-t", known[0], "-U", "--preserve-credentials", "-m", "-p"]
    code = os.spawnvpe(
        os.P_WAIT, enter[0], [*enter, f"--wdns={where}", "--", *command], environment
    )
    sys.exit(code if code >= 0 else 128 - code)


def main() -> None:
    verb, words = sys.argv[1], sys.argv[2:]
    with open(f"{HOME}/asked", "a") as file:
        print(verb, *words[:2], file=file)
    if verb != "exec" and os.path.exists(f"{HOME}/broken"):
        fail("cannot connect")
    if verb == "run":
        run(words)
    elif verb == "exec":
        execute(words)
    elif verb == "cp":
        source, target = words
        name, _, path = target.partition(":")
        os.spawnlp(os.P_WAIT, "cp", "cp", source, f"{place(name)}/root/{path.lstrip('/')}")
    elif verb in ("kill", "inspect", "restart", "rm"):
        name = words[-1]
        known = state(name)
        if verb == "inspect":
            sys.stdout.write("true" if running(known) else "false")
            return
        end(known)
        if verb == "restart":
            begin(name, known[2:])
        if verb == "rm":
            os.spawnlp(os.P_WAIT, "rm", "rm", "-rf", place(name))
    else:
        fail(f"unknown command: {verb}", 125)


if __name__ == "__main__":
    main()
