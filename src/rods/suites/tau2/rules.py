"""The suites `tau2-retail` and `tau2-airline`: a checkout's tasks under its own evaluation.

Owns the form of tasks and worlds here, and the way from a trajectory to the conversation that the
checkout judges, in a process by the checkout's own Python (`checkout.py`): the reward is the
product of what a task's `reward_basis` names.

    rules = Tau2Retail(config)
    rules.score(task, trajectory).why
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from functools import cached_property
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any, cast

from rods.config import RolloutSettings, RunConfig
from rods.dialects import Dialect, structured
from rods.dialects.base import has_nested
from rods.env import Environment, TurnVerdict
from rods.envs.turns import TurnWorld
from rods.errors import ConfigError, EnvError, PrerequisiteError, TaskError
from rods.evaluation.rules import RuleOutcome, SuiteRules, executing, unbounded
from rods.suites.sections import JudgeServerSettings, ServerSettings, UserServerSettings
from rods.task import Provenance, Task, Turn
from rods.trajectory import Trajectory
from rods.types import FinishReason, Json, StopReason, ToolCall, ToolResult, ToolSpec

SECONDS = 1800.0  # Seconds that an answer may take: models are asked again after a failure
SOCKET = "socket"


class Checkout:
    """One process; it starts at the first question."""

    def __init__(self, folder: Path, suite: str) -> None:
        """Use the interpreter of the folder's `.venv`, if there is one, else this program's."""
        self._folder, self._suite, self._lock = folder.absolute(), suite, threading.Lock()
        own = self._folder / ".venv" / "bin" / "python"
        self.python = str(own) if own.exists() else sys.executable
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, what: str, *arguments: object) -> Any:
        """The value of a function of `checkout.py`.

        Raises:
            EnvError: the package raised, took too long, or its process died.
        """
        text = json.dumps([what, *arguments]).encode()
        process, place = self._running()
        try:
            with Client(str(place / SOCKET)) as pipe:
                pipe.send_bytes(text)
                found = {"error": "it took too long"}
                if pipe.poll(SECONDS):
                    found = json.loads(pipe.recv_bytes())
        except (EOFError, OSError) as error:
            _end(process, place)
            raise EnvError(f"{self._suite}: its process died at {what}: {error}") from error
        if "error" in found:
            raise EnvError(f"{self._suite}: {what}: {found['error']}")
        return found["value"]

    def _running(self) -> tuple[subprocess.Popen[bytes], Path]:
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._place = Path(tempfile.mkdtemp(prefix="rods-"))
                self._process = self._start()
                weakref.finalize(self, _end, self._process, self._place)
            while not (self._place / SOCKET).exists():
                if self._process.poll() is not None:
                    raise EnvError(f"{self._suite}: {self.python} cannot run the checkout's code.")
                time.sleep(0.01)
            return self._process, self._place

    def _start(self) -> subprocess.Popen[bytes]:
        paths = {
            "PYTHONPATH": str(self._folder / "src"),
            "TAU2_DATA_DIR": str(self._folder / "data"),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else the import asks a server for prices
        }
        command = [
            self.python,
            str(Path(__file__).with_name("checkout.py")),
            str(self._place / SOCKET),
        ]
        null, env = subprocess.DEVNULL, {**os.environ, **paths}
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=null, stderr=null, cwd=self._folder, env=env
        )

    def close(self) -> None:
        """End the process; the next question starts another, without the worlds of this one."""
        with self._lock:
            if self._process is not None:
                _end(self._process, self._place)


def _end(process: subprocess.Popen[bytes], place: Path) -> None:
    process.kill()
    process.wait()
    if process.stdin is not None:
        process.stdin.close()
    shutil.rmtree(place, ignore_errors=True)


TOO_MANY = "too many failed calls"
_WHY = {
    "DB": "the database differs",
    "ENV_ASSERTION": "the state is not as asserted",
    "ACTION": "a wanted call is missing",
    "COMMUNICATE": "something was not said",
    "NL_ASSERTION": "an assertion does not hold",
}
_POWER = re.compile(r"(?!.*\*\*.*\*\*)(?!.{1000}).*\*\*\s*[-+]?\d{1,3}(?!\d).*")
"""Powers that are calculated: one, with an exponent of three digits. The checkout's calculator
would reckon larger ones for hours, and its process is everybody's."""


class Tau2(SuiteRules):
    """Tasks of one domain of the released split `base`, by train and test."""

    domain: str
    executes = trials = True

    def __init__(self, config: RunConfig) -> None:
        """Read nothing yet; raises `ConfigError` where no folder is named."""
        settings = config.evaluation.suite
        if not settings.folder or not Path(settings.folder, "src", "tau2").is_dir():
            raise ConfigError(
                f"evaluation.suite.folder: {self.name} needs a checkout of "
                f"sierra-research/tau2-bench, with src/tau2 and data; got {settings.folder!r}."
            )
        self._user = settings.section(UserServerSettings)
        self._judge, self._written = settings.section(JudgeServerSettings), config.model.dialect
        checkout = Checkout(Path(settings.folder), self.name)
        self._worlds = Tau2Environment(self.name, self.domain, checkout, self._user)
        self.environment = self._worlds

    def tasks(self) -> Sequence[Task]:
        """All tasks of the split."""
        return read_tasks(self.name, self._worlds.domain)

    def ready(self, tasks: Sequence[Task], rollouts: bool) -> None:
        """Refuse where nobody simulates the user, or judges what has to be judged."""
        key = "(OpenAI-compatible; .model NAME; the key in RODS_WRITER_KEY)"
        if rollouts and not self._user.url:
            raise PrerequisiteError(
                f"{self.name}: every task needs a user simulator on a chat server. Give "
                f"--evaluation.suite.user.url URL {key}."
            )
        judged = sum(task.category.endswith("_words") for task in tasks)
        if judged and not self._judge.url:
            raise PrerequisiteError(
                f"{self.name}: in {judged} of {len(tasks)} tasks a model judges the conversation. "
                f"Give --evaluation.suite.judge.url URL {key}, or leave them out: "
                '--evaluation.suite.categories \'["test_state", "train_state"]\'.'
            )

    def rollout(self, settings: RolloutSettings) -> RolloutSettings:
        """The checkout's bound on messages: every second one is the agent's, and the last one ends
        a conversation, whatever it says."""
        return unbounded(settings, steps_per_turn=self._worlds.domain["messages"] // 2 - 1)

    def score(self, task: Task, trajectory: Trajectory) -> RuleOutcome:
        """The checkout's evaluation of a conversation that its user ended."""
        failed = sum(r.failed for s in trajectory.steps for r in s.results)
        last = trajectory.steps[-1] if trajectory.steps else None
        if trajectory.stop is not StopReason.DONE:
            return RuleOutcome(False, f"ended by a budget: {trajectory.stop.value}")
        if failed >= self._worlds.domain["errors"]:
            return RuleOutcome(False, TOO_MANY)
        if last is None or last.calls or not last.text.strip():
            return RuleOutcome(False, "said nothing")
        messages, judge = self._conversation(task, trajectory), self._judge.model_dump()
        missed = self._worlds.checkout.ask("score", self.domain, task.world["row"], messages, judge)
        why = next((_WHY[one] for one in _WHY if one in missed), "")
        return RuleOutcome(not why, why)

    @cached_property
    def _dialect(self) -> Dialect:
        return executing(structured(self._written))

    def _conversation(self, task: Task, trajectory: Trajectory) -> list[Mapping[str, Any]]:
        """The conversation as the checkout has it; results are those that the agent read."""
        steps, called = iter(trajectory.steps), False
        offered = {one.name: one for one in self._worlds.specs}
        made: list[Mapping[str, Any]] = [
            {"role": "assistant", "content": self._worlds.domain["greeting"]}
        ]
        for message in trajectory.messages:
            text = message.content.removeprefix(task.turns[0].user).strip()
            if message.role == "assistant":
                step = next(steps)
                pairs = zip(step.calls, step.results, strict=False)
                calls = [
                    [c.name, c.arguments, r.content, r.failed]
                    for c, r in pairs
                    if not has_nested(c)
                ]
                called, cut = bool(step.results), step.finish is FinishReason.LENGTH
                text = self._dialect.parse(step.text, offered, cut).answer  # that the user reads
                made += [{"calls": calls}] if calls else []
            if message.role != "system" and not called:  # else it is a result
                made.append({"role": message.role, "content": text})
        return made


class Tau2Retail(Tau2):
    """A shop."""

    name, domain = "tau2-retail", "retail"
    averages: Mapping[str, Sequence[str]] = {
        "test": ("test_state", "test_words"),
        "train": ("train_state", "train_words"),
        "base": ("test_state", "test_words", "train_state", "train_words"),
    }
    pooled = frozenset(averages)


class Tau2Airline(Tau2):
    """An airline; no model judges."""

    name, domain = "tau2-airline", "airline"
    averages: Mapping[str, Sequence[str]] = {"base": ("test_state", "train_state")}
    pooled = frozenset(averages)


class Tau2Environment(Environment):
    """Worlds of one domain; each waits for its user simulator."""

    blocking = True
    gives_up = True

    def __init__(self, suite: str, domain: str, checkout: Checkout, user: ServerSettings) -> None:
        self.name, self.checkout, self.user, self._domain = suite, checkout, user, domain

    @cached_property
    def domain(self) -> Mapping[str, Any]:
        """Return `checkout.domain`; raises PrerequisiteError where the package cannot run."""
        try:
            return self.checkout.ask("domain", self._domain)
        except EnvError as error:
            raise PrerequisiteError(
                f"{error} The checkout's code runs with {self.checkout.python}; install it there, "
                "in the checkout: python3.12 -m venv .venv && .venv/bin/pip install -e ."
            ) from error

    @cached_property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The domain's tools."""
        return tuple(
            ToolSpec(one["name"], one["description"], one["parameters"])
            for one in self.domain["tools"]
        )

    def open(self, task: Task) -> Tau2World:
        """A fresh world."""
        return Tau2World(task, self, self.checkout.ask("begin", self._domain, task.world["row"]))

    def close(self) -> None:
        """End the process; scoring starts another."""
        self.checkout.close()


class Tau2World(TurnWorld):
    """One single-use world of one task: databases and user `number` of the checkout's process."""

    def __init__(self, task: Task, home: Tau2Environment, number: int) -> None:
        super().__init__(task)
        self._home, self._number, self._failed = home, number, 0

    def offered(self) -> tuple[ToolSpec, ...]:
        """The domain's tools."""
        return self._home.specs

    def _execute(self, call: ToolCall) -> ToolResult:
        sums = str(call.arguments.get("expression")) if call.name == "calculate" else ""
        if has_nested(call):
            text, failed = "Error: an argument is itself a call; make one call at a time.", True
        elif "**" in sums and not _POWER.fullmatch(sums):
            text, failed = "Error: int too large to convert to float", True
        else:
            text, failed = self._ask("call", call.name, call.arguments)
        self._failed += failed
        return ToolResult(text, failed)

    def ended(self) -> str:
        """Why the conversation is over; empty: it is not."""
        return TOO_MANY if self._failed >= self._home.domain["errors"] else ""

    def opens(self) -> str:
        """The user's first words."""
        reply, over = self._ask("opens", self._home.user.model_dump())
        if over:
            raise EnvError(f"{self._home.name}: the user simulator ended at once: {reply!r:.80}")
        return reply

    def reply(self, text: str) -> str | None:
        """The user's reply to an answer; None: the conversation is over."""
        reply, over = (self._ask("replies", text) if text.strip() else None) or ("", True)
        return None if over else reply

    def _verdict(self) -> TurnVerdict:
        right = not self.ended() and bool(self._ask("state")[1])
        return TurnVerdict(True, self._calls, right, right, right)

    def _state(self) -> str:
        """A digest of the databases."""
        return self._ask("state")[0]

    def close(self) -> None:
        """Let go of databases and user."""
        if not self._closed:
            self._closed, self._in_turn = True, False
            self._ask("drop")

    def _ask(self, what: str, *arguments: object) -> Any:
        return self._home.checkout.ask(what, self._number, *arguments)


def read_tasks(suite: str, domain: Mapping[str, Any]) -> list[Task]:
    """All tasks of the split `base` in the checkout's order.

    Raises:
        TaskError: one is in neither part of the split, or begins in the middle.
    """
    sides = {name: side for side in ("train", "test") for name in domain["splits"][side]}
    opening = f"{domain['prompt']}\n\nYou have greeted the customer: {domain['greeting']}"
    made: list[Task] = []
    for row in domain["tasks"]:
        name = row["id"]
        if name not in sides:
            raise TaskError(f"{suite}: task {name!r} of base is neither in train nor in test.")
        if (row["initial_state"] or {}).get("message_history") is not None:
            raise TaskError(f"{suite}: task {name!r} begins in the middle of a conversation.")
        judged = row["evaluation_criteria"] or {}
        words = judged.get("nl_assertions") and "NL_ASSERTION" in judged["reward_basis"]
        category = f"{sides[name]}_{'words' if words else 'state'}"
        origin = Provenance(f"{suite.removeprefix('tau2-')} {name}", f"{suite}-{name}")
        world: dict[str, Json] = {"row": cast("Json", row)}
        turns = (Turn(f"{opening}\nThe customer says:"),)
        made.append(Task(suite, category, turns, world, origin))
    return made
