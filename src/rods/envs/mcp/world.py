"""`env.name = "mcp"`: worlds that are servers of the Model Context Protocol.

Owns what a task's world may hold, and which server a world gets. Turns are judged as those of
hosted classes (`rods.envs.judge`). An agent sees neither the state tool nor the reset.

    world = McpEnvironment(command="python server.py", state="list_notes").open(task)
"""

from __future__ import annotations

import atexit
import dataclasses
import shlex
import threading
from collections.abc import Mapping
from contextlib import closing
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, cast

from rods.abilities import InitialState
from rods.dialects.base import nested
from rods.envs import judge
from rods.envs.turns import named
from rods.errors import ConfigError, EnvError, TaskError
from rods.infra.install import needed
from rods.infra.text import same_value, whole
from rods.task import Task
from rods.types import Json, ToolCall, ToolResult, ToolSpec

if TYPE_CHECKING:
    from rods.envs.mcp.session import McpSession

SERVER = "server"  # owner of all tools and of the state


class McpEnvironment(judge.PreparedTasks["PreparedServer"]):
    """Worlds with the tools of an MCP server, each with a server or a session of its own."""

    name, blocking, world_keys = "mcp", True, ("files", "reset")

    def __init__(
        self, command: str = "", url: str = "", reset: str = "", state: str = "",
        seconds: float = 60.0, size: int = 64,
    ) -> None:  # fmt: skip
        super().__init__()
        words = shlex.split(command)
        if bool(words) == bool(url):
            raise ConfigError("env.name = mcp: give one of env.mcp.command and env.mcp.url.")
        # A server starts elsewhere: its files are named from here.
        self._command = [str(Path(w).absolute()) if Path(w).is_file() else w for w in words]
        self.url, self.reset, self.state = url, reset, state
        self._seconds, self.capacity = seconds, size
        self.isolated = not state  # a ground truth has changed its own server's state alone
        self._lock = threading.Lock()
        self._all: set[McpSession] = set()
        self._idle: list[McpSession] = []
        self.own_names: dict[str, str] = {}  # the server's, by what agents write

    @cached_property
    def tools(self) -> Mapping[str, ToolSpec]:
        """Tools that agents may call; `ConfigError` for a name that is not there or not clear."""
        try:
            session = self.session({})
        except EnvError as error:  # no task is at fault, so it ends the command
            how = "run the command by itself" if self._command else "start it first"
            raise ConfigError(f"env.mcp: the server does not start ({how}): {error}") from error
        from rods.envs.mcp.session import spec_of

        try:
            found = session.tools()
        except EnvError as error:
            raise ConfigError(f"env.mcp: tools/list of the server failed: {error}") from error
        finally:
            self.give_back(session)
        for name in (self.reset, self.state):
            if name and "://" not in name and found.pop(name, None) is None:
                known = ", ".join(found)
                raise ConfigError(f"env.mcp: the server has no tool {name!r}; known: {known}.")
        specs = {name: spec_of(tool) for name, tool in found.items()}
        for name, spec in specs.items():
            if (other := self.own_names.setdefault(spec.name, name)) != name:
                raise ConfigError(
                    f"env.name = mcp: the server's tools {other!r} and {name!r} would both be "
                    f"offered as {spec.name!r}. Rename one of them."
                )
        return {spec.name: spec for spec in specs.values()}

    def session(self, files: Mapping[str, str]) -> McpSession:
        """A session with a new server, or with one that waits for its reset."""
        with needed('env.name = "mcp" needs {}', "mcp"):
            from rods.envs.mcp.session import McpSession
        with self._lock:
            if self._idle:
                return self._idle.pop()
        session = McpSession(self._command, self.url, self._seconds, files)
        if self.url and not session.id:
            session.close()
            raise ConfigError(
                f"env.mcp.url: the server at {self.url} keeps no sessions, so trajectories would "
                "share its state. Let it keep sessions, or have it started: env.mcp.command."
            )
        with self._lock:
            if not self._all:
                atexit.register(self.close)
            self._all.add(session)
        return session

    def give_back(self, session: McpSession) -> None:
        """Keep a session that can be reset; end another one."""
        with self._lock:
            if self.reset and session.healthy:
                session.waited = True
                self._idle.append(session)
                return
            self._all.discard(session)
        session.close()

    def warm_up(self) -> None:
        """Ask a server for its tools."""
        _ = self.tools

    def make_ready(self, task: Task) -> PreparedServer:
        """Data that the worlds of a task share; raises `TaskError` for a world of another form."""
        return PreparedServer(self, task)

    def open(self, task: Task) -> judge.JudgedWorld[PreparedServer]:
        """A world in the task's initial state; raises `TaskError` if it cannot be set."""
        with self._preparing[hash(task) % 64]:  # a group's ground truth is executed once
            prepared = self.prepare(task)
            _ = prepared.replay
        return judge.JudgedWorld(prepared)

    def initial_state(self, task: Task) -> InitialState:
        """Arguments of the reset, which writers can vary (`rods.abilities.StateAccess`)."""
        return InitialState((SERVER,), {SERVER: task.world.get("reset", {})})

    def with_initial_state(self, task: Task, state: InitialState) -> Task:
        """The task with other arguments of the reset."""
        given = state.values.get(SERVER, {})
        return dataclasses.replace(
            task, world={**task.world, "reset": given} if given else task.world
        )

    def own_world(self) -> Mapping[str, Json]:
        """The server as it starts (`rods.abilities.OwnStart`)."""
        return {}

    def close(self) -> None:
        """End all servers that were started, and all sessions."""
        with self._lock:
            sessions = list(self._all)
            self._all.clear()
            self._idle.clear()
        for session in sessions:
            session.stop()
        for session in sessions:
            session.close()
        atexit.unregister(self.close)


class PreparedServer(judge.PreparedTask):
    """A task made ready: what its servers start from, and its ground truth, executed."""

    def __init__(self, environment: McpEnvironment, task: Task) -> None:
        super().__init__(task, environment.tools)
        self.environment = environment
        self.initial: dict[str, judge.State] = {}  # empty where the server shows no state
        self.files, self.given = _start(environment, task)

    def machine(self) -> Server:
        """A server in the task's initial state."""
        return Server(self)

    @cached_property
    def replay(self) -> judge.Replay:
        """The ground truth's trace; the first that changes a state must not change another's."""
        truth = [turn.ground_truth for turn in self.task.turns]
        with closing(self.machine()) as machine:
            if self.environment.isolated:
                return judge.replayed(machine, truth)
            with closing(self.machine()) as witness:
                replay = judge.replayed(machine, truth)
                if not same_value(witness.read(), self.initial[SERVER]):
                    raise ConfigError(
                        "env.name = mcp: calls of one trajectory change the state of another. The "
                        "server keeps it outside of its process and folder, or sessions share it."
                    )
                changed = not same_value(replay[-1].snapshot, self.initial)
                self.environment.isolated = changed
                return replay


def _start(environment: McpEnvironment, task: Task) -> tuple[dict[str, str], dict[str, Json]]:
    """Files and arguments of the reset in a task's world; raises `TaskError` for anything else."""
    files, given = task.world.get("files", {}), task.world.get("reset", {})
    alone = not (environment.url or environment.reset)
    fits = (alone or not files) and (environment.reset or not given)
    fits = fits and not task.world.keys() - {"files", "reset"}
    if not (fits and isinstance(files, dict) and isinstance(given, dict)):
        raise TaskError(
            f"{named(task)}: world may have `files` (texts by path; with env.mcp.command and "
            "without env.mcp.reset) or `reset` (arguments of env.mcp.reset), and nothing else."
        )
    for path, text in files.items():
        place = PurePosixPath(path)
        odd = path[:1] in "/~" or ".." in place.parts or "\0" in path or not place.name
        within = {*map(str, place.parents)} & {*files}  # no file within a file
        if odd or within or not isinstance(text, str) or len(path.encode()) > 255:
            raise TaskError(
                f"{named(task)}: world.files: {path!r} must be a text below the folder, in no file."
            )
    return cast("dict[str, str]", files), given


class Server:
    """One server, or one session with it, of one world."""

    def __init__(self, prepared: PreparedServer) -> None:
        self.initial: Mapping[str, judge.State] = prepared.initial
        self._environment = prepared.environment
        self.version: dict[str, int] = {}
        self._seen: tuple[int, judge.State] | None = None
        while True:
            self._session = self._environment.session(prepared.files)
            try:
                return self._begin(prepared)
            except BaseException as error:  # Ctrl-C too: nobody else knows this session
                lost = isinstance(error, EnvError)
                ended = lost and self._session.waited and not self._session.healthy  # meanwhile
                self._session.healthy &= not lost  # nor would the next world get its start
                self.close()
                if not ended:
                    raise

    def _begin(self, prepared: PreparedServer) -> None:
        reset, initial = self._environment.reset, prepared.initial
        result = self._session.call(reset, prepared.given) if reset else ToolResult("")
        if result.failed:  # of a start that was set before, the task is not at fault
            kind = EnvError if initial or "replay" in vars(prepared) else TaskError
            raise kind(f"{named(prepared.task)}: {reset} failed: {result.content[:300]}")
        if self._environment.state and not initial:
            initial[SERVER] = self.read()
        elif reset and initial and not same_value(self.read(), initial[SERVER]):
            raise EnvError(f"env.mcp.reset: {reset} does not bring back the initial state.")

    def run(self, call: ToolCall) -> ToolResult:
        """Execute one call; raises `EnvError` where the server fails."""
        if len([*nested(call)]) > 1:
            return ToolResult("Error: an argument must be a value, not a call.", failed=True)
        name = self._environment.own_names.get(call.name)
        if name is None:  # of a ground truth; the policy's calls were looked at before
            return ToolResult(judge.refusal(call.name, self._environment.own_names), failed=True)
        self.version[SERVER] = self.version.get(SERVER, 0) + 1
        return self._session.call(name, whole(call).arguments)

    def read(self) -> judge.State:
        """The state that the server shows."""
        value = self._session.value(self._environment.state)
        return value if isinstance(value, dict) else {"state": value}

    def copy_state(self, name: str) -> judge.State:
        """Return the copy of the state that is fetched once after each call."""
        version = self.version.get(name, 0)
        if self._seen is None or self._seen[0] != version:
            self._seen = version, self.read()
        return self._seen[1]

    def same(self, name: str, expected: judge.State) -> bool:
        """True if the server shows this state."""
        return same_value(self.copy_state(name), expected)

    unchanged = same

    def close(self) -> None:
        """Let go of the session."""
        self._environment.give_back(self._session)
