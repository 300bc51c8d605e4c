"""A workplace in a container of an image that a user has, by the command of docker or podman.

Owns one container: starts it without a network, runs commands in it, removes it. It never pulls an
image. What keeps a command in is the container, and what it may use is bounded by it; no keeper
locks it as `rods.sandbox.shell.Shell` does.

    place = Container("xingyaoww/sweb.eval.x86_64.getmoto_s_moto-4799", memory_mb=4096)
    place.run(["git", "status"]).output
    place.close()

An agent may break its own container: that ends its attempt and is not a failure of infrastructure.
Only where the engine itself does not answer an `EnvError` is raised.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib.resources import files
from multiprocessing.connection import wait

from rods.errors import EnvError
from rods.sandbox.observed import Output
from rods.sandbox.shell import ShellResult

FOLDER = "/testbed"  # Where SWE-Gym's images have the repository
OUTPUT, MOST = 64 * 1024, 16 << 20
"""Characters of a command's output that are kept, from its end; bytes at which it is ended."""
START_SECONDS, GRACE = 600.0, 30.0
OVER = 124  # Exit status of `timeout` for a command that took too long
EDIT = "\nimport json, sys\nprint(json.dumps(edit(json.load(sys.stdin))))\n"
FIRST = "while :; do sleep 3600; done"
"""The first process of a container. It waits for orphans, and no signal from inside ends it, so
that all others can be killed; docker's own (`--init`) would end with its only child."""
BEGIN = 'printf %s "$0"; "$@" 2>&1; code=$?; kill -9 -1; exit $code'
"""Says a mark before the command: without it the command did not start. Ends what it left running,
which would keep its output open."""
SWEEP = "kill -9 -1; printf %s "  # Ends all but the first process and itself, and says a mark
LOST = "container"  # The limit of a command whose container does not run any more


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
        first = ["--entrypoint", "sh", image, "-c", FIRST]
        done = self._ask(["run", "-d", *bounds, *locks, *first], "", START_SECONDS)
        if done.code:
            raise EnvError(f"{command}: {image} does not start: {done.output.strip()[-500:]}")
        self._id = done.output.split()[-1]
        self._lost = False

    def _ask(self, words: Sequence[str], stdin: str = "", seconds: float = GRACE) -> ShellResult:
        """Run the engine's command; one that takes or writes too much is ended (`limit`).

        Raises:
            EnvError: there is no such command, or it cannot be started.
        """
        try:
            with tempfile.TemporaryFile() as given:  # the disk may be full
                given.write(stdin.encode("utf-8", "replace"))
                given.seek(0)
                process = subprocess.Popen(
                    [self._command, *words],
                    stdin=given,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                )
        except OSError as error:
            raise EnvError(f"{self._command} {words[0]}: {error}") from error
        assert process.stdout is not None
        with process, process.stdout as pipe:
            output = Output(pipe.fileno(), MOST)
            limit = _read(output, time.monotonic() + seconds)
            if limit:
                process.kill()
            return ShellResult(output.text, process.wait(), limit)

    def run(
        self,
        argv: Sequence[str],
        stdin: str = "",
        seconds: float | None = None,
        whole: bool = False,
    ) -> ShellResult:
        """Run a program for so many seconds (wall clock); what it started is ended after it.

        With `whole` all of its output is kept.

        Raises:
            EnvError: the engine does not answer.
        """
        most = self._seconds if seconds is None else seconds
        within = ["timeout", "-k", "5", f"{most:g}", *argv]
        mark = secrets.token_hex(8)
        exec_in = ["exec", "-i", "-w", FOLDER, self._id, "sh", "-c", BEGIN, mark]
        result = ShellResult("", 1, LOST)
        if not self._lost:
            result = self._ask([*exec_in, *within], stdin, most + GRACE)
            self._sweep()
        said, begun, output = result.output.partition(mark)  # podman warns before every command
        if not begun:
            why = said.strip()[-500:] or "no answer"
            return ShellResult(
                f"the container runs no commands any more: {why}", result.code or 1, LOST
            )
        limit = result.limit or ("time" if result.code in (OVER, 128 + 9) else "")
        return ShellResult(output if whole else output[-OUTPUT:], result.code, limit)

    def _sweep(self) -> None:
        """End what a command left running: from inside, else with the container's first process.

        Raises:
            EnvError: the engine does not answer.
        """
        mark = secrets.token_hex(8)
        result = self._ask(["exec", self._id, "sh", "-c", SWEEP + mark])
        if result.output.endswith(mark) and result.code == 0:
            return
        again = self._ask(["restart", "-t", "0", self._id], "", START_SECONDS)
        self._lost = again.code != 0
        if self._lost and (known := self._ask(["inspect", self._id])).code:
            why = known.output.strip()[-500:]
            raise EnvError(f"{self._command}: container {self._id} was lost: {why}")

    def edit(self, arguments: Mapping[str, object]) -> tuple[str, bool]:
        """Let the editor do one command, on the image's own interpreter."""
        program = files("rods.sandbox").joinpath("editor.py").read_text(encoding="utf-8") + EDIT
        done = self.run(["python3", "-c", program], json.dumps(dict(arguments)), whole=True)
        try:
            text, failed = json.loads(done.output)
        except (ValueError, TypeError, RecursionError):
            return f"Error: the editor does not run here: {done.output[-300:]}", True
        return str(text), bool(failed)

    def close(self) -> None:
        """Remove the container with all that runs in it; raises `EnvError` if it is still there."""
        result = self._ask(["rm", "-f", self._id], "", START_SECONDS)
        if result.code or result.limit:
            raise EnvError(
                f"{self._command}: container {self._id} was not removed: {result.output[-500:]}"
            )


def _read(output: Output, deadline: float) -> str:
    """Read until the end; which limit was met, if one was."""
    while not output.full:
        left = deadline - time.monotonic()
        if left <= 0:
            return "time"
        if wait([output.descriptor], left) and not output.take():
            return ""
    return "output"
