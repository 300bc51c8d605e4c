"""The commands of a block of shell, as a shell reads them: variables, loops and comments.

No program runs: each is written down with its words.
"""

from __future__ import annotations

import re
import subprocess
import tempfile

SHELL = """
PATH=/nowhere
command_not_found_handle() { printf '%s\\0' "$@" >&3; printf '\\n' >&3; }
cd() { command_not_found_handle cd "$@"; }
.() { command_not_found_handle . "$@"; }
"""
SET = re.compile(r"^\s*((?:[A-Z]\w+=\S+ )+)(?=\w)", re.M)
"""Variables of one command's environment."""


def commands_of(text: str, **values: str) -> list[list[str]]:
    """Return the words of each command that the block runs, in order; `>` is a word.

    Words such as `RODS_ENV_TOKEN=...` begin the command whose environment has them. `values` are
    variables that the shell has before.
    """
    given = "".join(f"{name}={value}\n" for name, value in values.items())
    text = SET.sub(r"env \1", text).replace(".venv/bin/", "").replace(" > ", " '>' ")
    with tempfile.TemporaryFile("w+") as found:
        words = ["/bin/bash", "-c", f"exec 3>&{found.fileno()}\n{SHELL}{given}{text}"]
        done = subprocess.run(words, pass_fds=[found.fileno()], capture_output=True, text=True)
        found.seek(0)
        lines = found.read().split("\0\n")
    assert not done.returncode and not done.stderr, f"{text}\n{done.stderr}"
    return [line.removeprefix("env\0").split("\0") for line in lines[:-1]]
