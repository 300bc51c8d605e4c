"""A workplace in a container of an image that a user has, by the command of docker or podman.

Owns one container: starts it without a network, runs commands in it, removes it. It never pulls an
image. What keeps a command in is the container, and what it may use is bounded by it; no keeper
locks it as `rods.sandbox.shell.Shell` does.

    place = Container("xingyaoww/sweb.eval.x86_64.getmoto_s_moto-4799", memory_mb=4096)
    place.run(["git", "status"]).output
    place.close()
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from importlib.resources import files

from rods.errors import EnvError
from rods.sandbox.shell import Done

FOLDER = "/testbed"
"""Where SWE-Gym's images have the repository."""
OUTPUT = 64 * 1024
"""Characters of a command's output that are kept, from its end: of the agent's commands."""
START_SECONDS, GRACE = 600.0, 30.0
OVER = 124
"""What `timeout` says of a command that took too long."""
EDIT = "\nimport json, sys\nprint(json.dumps(edit(json.load(sys.stdin))))\n"


class Container:
    """One container; owned by one thread."""

    def __init__(self, image: str, memory_mb: int, command: str = "docker") -> None:
        """Start it.

        Raises:
            EnvError: there is no such command or image here, or it does not start.
        """
        self._command, self._seconds = command, 30.0
        bounds = ["--network", "none", "--memory", f"{memory_mb}m", "--pids-limit", "512"]
        locks = ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--pull", "never"]
        start = ["run", "-d", "--init", *bounds, *locks, image, "sleep", "infinity"]
        done = self._ask(start, "", START_SECONDS)
        if done.returncode:
            raise EnvError(f"{command}: {image} does not start: {done.stderr.strip()[-500:]}")
        self._id = done.stdout.split()[-1]

    def _ask(
        self, words: Sequence[str], stdin: str, seconds: float
    ) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [self._command, *words],
                input=stdin,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EnvError(f"{self._command} {words[0]}: {error}") from error

    def run(
        self,
        argv: Sequence[str],
        stdin: str = "",
        seconds: float | None = None,
        whole: bool = False,
    ) -> Done:
        """Run a program; what it started is ended after it.

        Args:
            argv: program and arguments.
            stdin: what it may read.
            seconds: wall clock.
            whole: keep all of its output.

        Raises:
            EnvError: the container was lost.
        """
        most = self._seconds if seconds is None else seconds
        within = ["timeout", "-k", "5", f"{most:g}", *argv]
        exec_in = ["exec", "-i", "-w", FOLDER, self._id]
        done = self._ask([*exec_in, *within], stdin, most + GRACE)
        self._ask(["exec", self._id, "sh", "-c", "kill -9 -1"], "", GRACE)
        output = done.stdout + done.stderr
        limit = "time" if done.returncode in (OVER, 128 + 9) else ""
        return Done(output if whole else output[-OUTPUT:], done.returncode, limit)

    def edit(self, arguments: Mapping[str, object]) -> tuple[str, bool]:
        """Let the editor do one command, on the image's own interpreter."""
        program = files("rods.sandbox").joinpath("editor.py").read_text(encoding="utf-8") + EDIT
        done = self.run(["python3", "-c", program], json.dumps(dict(arguments)), whole=True)
        try:
            text, failed = json.loads(done.output)
        except ValueError:
            return f"Error: the editor does not run here: {done.output[-300:]}", True
        return str(text), bool(failed)

    def close(self) -> None:
        """Remove the container with all that runs in it."""
        self._ask(["rm", "-f", self._id], "", START_SECONDS)
