"""A working copy that an agent repairs: its three tools, its patch, and when it is over.

Owns the tools, what the agent reads, and the rule by which it goes in circles. Hidden checks never
come near the workplace: the patch is judged in another one (`environment.py`).

    world = RepoWorld(task, shell, judge, seconds=30)
    world.begin_turn(0)
    world.call(ToolCall("bash", {"command": "ls"})).content
    world.call(ToolCall("finish"))
    world.ended()                   # "finish"
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from typing import NamedTuple, Protocol

from rods.env import TurnVerdict
from rods.envs.judge import refusal
from rods.envs.turns import TurnWorld
from rods.errors import EnvError
from rods.sandbox.shell import ShellResult
from rods.task import Task
from rods.types import ToolCall, ToolResult, ToolSpec, Value

BASH, EDITOR, FINISH = "bash", "str_replace_editor", "finish"
STUCK = "stuck"
SAME, FAILED, TURNS = 4, 3, 6  # Calls that are a circle, see `stuck`
LONGEST = 100_000  # Bytes of a command; Linux starts no program with an argument of 128 KiB
STOPPED = "The same calls come again and again, so this attempt ends here."
START = "test -d .git || (git init -q && git add -A && git commit -q -m start); git rev-parse HEAD"
"""Images have a repository already; its history is theirs."""
PATCH = (
    'g() { git -c core.fsmonitor=false -c core.quotePath=false "$@"; }; g add -A && '
    "g diff --cached --binary --no-color --no-ext-diff --no-textconv "
)
APPLY_SECONDS = 600.0
"""Most that making or applying a patch may take, as in SkyRL-v0; a busy machine needs minutes."""
_ROWS = files("rods.envs.repo").joinpath("tools.json").read_text(encoding="utf-8")
SPECS = tuple(ToolSpec(**row) for row in json.loads(_ROWS))  # The agent's tools


class Workplace(Protocol):
    """Where commands run: `rods.sandbox.shell.Shell`, or a container."""

    def run(
        self, argv: Sequence[str], stdin: str = "", seconds: float | None = None
    ) -> ShellResult:
        """Run a program with all that it starts."""
        ...

    def edit(self, arguments: Mapping[str, object]) -> tuple[str, bool]:
        """Do one command of the editor."""
        ...

    def close(self) -> None:
        """End all that runs in it, and remove what it left."""


class RepoWorld(TurnWorld):
    """One single-use working copy of one task."""

    def __init__(
        self, task: Task, place: Workplace, judge: Callable[[str], bool], seconds: float
    ) -> None:
        """Make the first commit of the task's files, which are in the place.

        Args:
            judge: whether the repository passes its hidden checks with a patch.
            seconds: of one command of the agent.

        Raises:
            EnvError: there is no git in the workplace, or it was lost.
        """
        super().__init__(task)
        self._place, self._judge, self._seconds = place, judge, seconds
        self._did: list[Did] = []
        self._ended, self._patch, self._ran = "", "", 0.0
        self._began: float | None = None
        done = place.run(["bash", "-c", START])
        if not done.ok:
            raise EnvError(f"a working copy could not be made: {done.output[-500:]}")
        self._base = done.output.split()[-1]

    def begin_turn(self, index: int) -> None:
        """Enter a turn."""
        super().begin_turn(index)
        self._ended = ""

    def offered(self) -> tuple[ToolSpec, ...]:
        """The three tools."""
        return SPECS

    def ended(self) -> str:
        """Why the turn is over: `finish`, or `stuck` where it goes in circles; empty: it is not."""
        return self._ended

    def _execute(self, call: ToolCall) -> ToolResult:
        if self._ended:
            return ToolResult("Error: the repository was handed in.", failed=True)
        result = self._do(call)
        self._did.append(Did(str(call), result.content, result.failed))
        if not self._ended and stuck(self._did):
            self._ended = STUCK
            result = ToolResult(f"{result.content}\n{STOPPED}", result.failed)
        return result

    def _do(self, call: ToolCall) -> ToolResult:
        if call.name == BASH:
            return self._bash(call.arguments.get("command"))
        if call.name == EDITOR:
            # A nested call is nothing that the editor knows.
            given = {k: str(v) if isinstance(v, ToolCall) else v for k, v in call.arguments.items()}
            return ToolResult(*self._place.edit(given))
        if call.name == FINISH:
            self._ended = FINISH
            return ToolResult("Handed in.")
        return ToolResult(refusal(call.name, [spec.name for spec in SPECS]), failed=True)

    def _bash(self, command: Value) -> ToolResult:
        if not isinstance(command, str) or not command.strip() or "\0" in command:
            return ToolResult(f"Error: command is {command!r}, expected a text.", failed=True)
        command = command.encode("utf-8", "replace").decode()
        if len(command.encode()) > LONGEST:
            what = f"Error: the command has more than {LONGEST} bytes. Write files with the editor."
            return ToolResult(what, failed=True)
        with self._running():
            done = self._place.run(["bash", "-c", command], seconds=self._seconds)
        parts = [done.output.rstrip("\n")]
        if done.limit:
            parts.append(f"[ended: it met the limit of {done.limit}]")
        elif done.code:
            parts.append(f"[exit status {done.code}]")
        return ToolResult("\n".join(part for part in parts if part), failed=not done.ok)

    @contextmanager
    def _running(self) -> Generator[None]:
        """Code of the policy runs within."""
        self._began = time.monotonic()
        try:
            yield
        finally:
            self._ran, self._began = self.ran(), None

    def ran(self) -> float:
        """Seconds of commands, the patch and its checks so far, those under way included."""
        return self._ran + (0.0 if self._began is None else time.monotonic() - self._began)

    def _verdict(self) -> TurnVerdict:
        """Judge the patch: it applies, and the hidden checks pass."""
        with self._running():  # the agent's own git may be slow, too
            self._patch = self._diff()
            solved = bool(self._patch) and self._judge(self._patch)
        return TurnVerdict(True, self._calls, solved, solved, solved, answered=False)

    def _diff(self) -> str:
        """Changes since the start; nothing where the agent broke its own git."""
        done = self._place.run(["bash", "-c", PATCH + self._base], seconds=APPLY_SECONDS)
        return done.output if done.ok else ""

    def _state(self) -> str:
        """The patch so far."""
        return self._patch if not self._in_turn and self._patch else self._diff()

    def close(self) -> None:
        """End the workplace."""
        self._closed = True
        self._place.close()


class Did(NamedTuple):
    """One call and what it gave."""

    call: str
    result: str
    failed: bool


def stuck(done: Sequence[Did]) -> bool:
    """True if the last calls go in circles, by the rule of the agent whose loop SkyRL-v0 uses: the
    same call with the same result four times in a row, the same call failing three times in a row,
    or two calls in turns three times.
    """
    last = done[-SAME:]
    if len(last) == SAME and len(set(last)) == 1:
        return True
    last = done[-FAILED:]
    if len(last) == FAILED and all(one.failed for one in last) and len({d.call for d in last}) == 1:
        return True
    last = done[-TURNS:]
    return len(last) == TURNS and len({*last[::2]}) == 1 and len({*last[1::2]}) == 1
