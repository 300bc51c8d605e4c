r"""`python_tool`: questions that are answered with a Python interpreter.

Owns the tool, what the policy reads of an execution, the sandbox that its worlds share, and what
the curriculum asks of a question environment (`rods.abilities.QuestionSource`). Programs run in
`rods.sandbox`, never in this process. Never shortens a result: dialects do, each as its system.

    environment = PythonToolEnvironment()           # or the address of a SandboxFusion service
    world = environment.open(task)
    world.begin_turn(0)
    world.call(ToolCall("code_interpreter", {"code": "print(6 * 7)"})).content      # "42\n"
    world.judge_answer(r"It is \boxed{42}.")                                        # True
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from rods.dialects.programs import MARKS, dedented, unwrapped
from rods.envs.questions import QuestionSettings, families
from rods.envs.questions.environment import QuestionEnvironment, QuestionWorld
from rods.rewards.answers import judge_answer
from rods.rewards.reading import without_calls
from rods.sandbox.execution import MIB, Execution, SandboxLimits
from rods.sandbox.pool import SandboxPool
from rods.sandbox.remote import RemoteSandbox
from rods.task import Task
from rods.types import ToolResult, ToolSpec, Value

TOOL = "code_interpreter"
ERROR_LINES = 20  # Lines of standard error that are shown, from its end

SPEC = ToolSpec(
    TOOL,
    "Run a Python program and read what it prints.",
    {
        "type": "object",
        "properties": {"code": {"type": "string", "description": "The whole program."}},
        "required": ["code"],
    },
)


class PythonToolEnvironment(QuestionEnvironment):
    """Question tasks with one tool, `code_interpreter`.

    Args beside those of `PythonToolSettings`:
        questions: Settings of `env.questions`.
        size: Programs at once; 0: as many as processors (a remote service: 16).
        preload: Packages that programs find loaded, where they are installed.
    """

    name = "python_tool"
    blocking = True  # each world has a thread: a program takes milliseconds at least

    def __init__(
        self,
        sandbox: str = "",
        seconds: float = 10.0,
        memory_mb: int = 512,
        questions: Mapping[str, JsonValue] | None = None,
        size: int = 0,
        preload: Sequence[str] = ("numpy", "sympy"),
    ) -> None:
        super().__init__(questions)
        self._size, self._preload = size, preload
        self._limits = SandboxLimits(seconds, seconds, memory_mb * MIB)
        self.program_seconds = seconds
        self._lock = threading.Lock()
        self._pools: dict[bool, SandboxPool] = {}
        self._remote = RemoteSandbox(sandbox, size or 16, self._limits) if sandbox else None

    def warm_up(self) -> None:
        """Start the sandbox, which takes a second; else the first program does."""
        if self._remote is None:
            self._local()

    def _local(self, bare: bool = False) -> SandboxPool:
        with self._lock:
            if not self._pools:
                atexit.register(self.close)
            if bare not in self._pools:
                size, preload = (1, ()) if bare else (self._size, self._preload)
                self._pools[bare] = SandboxPool(size, self._limits, preload)
            return self._pools[bare]

    def execute(self, code: str, bare: bool = False) -> Execution:
        """Run a program that stands alone.

        `bare`: without NumPy and SymPy, in a sandbox that starts and runs faster.

        Raises:
            EnvError: the sandbox failed.
            PrerequisiteError: it cannot lock itself on this machine.
        """
        where = self._local(bare) if self._remote is None else self._remote
        # Half characters, which a model can write, no pipe can carry.
        return where.execute(code.encode("utf-8", "replace").decode()).checked()

    def close(self) -> None:
        """End the sandbox; the next program starts another."""
        with self._lock:
            pools, self._pools = self._pools, {}
        if pools:
            atexit.unregister(self.close)
        for pool in pools.values():
            pool.close()

    def world(self, task: Task) -> PythonToolWorld:
        """A fresh world."""
        return PythonToolWorld(task, self)

    # -- its questions ------------------------------------------------------------

    def generate(self, settings: QuestionSettings, count: int, held_out: bool) -> Sequence[Task]:
        """Questions of `env.questions.families`."""
        chosen = settings.families or tuple(families.FAMILIES)
        return families.question_tasks(chosen, settings.difficulty, count, held_out, self.name)

    def make(self, like: Task, seed: int) -> Task:
        """The question of another seed."""
        family, difficulty = str(like.world["family"]), int(str(like.world["difficulty"]))
        return families.question_task(family, difficulty, seed, self.name)

    def remake(self, task: Task) -> families.Question:
        """A generated question, made again."""
        return families.question_of(task)

    def wrong(self, question: families.Question) -> str | None:
        """True if its program prints its answer."""
        if not question.program:
            return None
        done = self.execute(question.program, bare=True)
        printed = done.stdout.strip()
        if done.ok and printed == question.answer:
            return None
        shown = printed[-200:] if done.ok else done.detail
        return f"its program gives {shown!r}, its answer is {question.answer!r}"


class PythonToolWorld(QuestionWorld):
    """One single-use world of one question."""

    spec = SPEC

    def __init__(self, task: Task, environment: PythonToolEnvironment):
        super().__init__(task)
        self._environment = environment
        self._ran = 0.0

    def use(self, arguments: Mapping[str, Value]) -> ToolResult:
        """Run a program."""
        code = arguments.get("code")
        if not isinstance(code, str) or not code.strip():
            return ToolResult(f"Error: code is {code!r}, expected a program.", failed=True)
        fenced = code.lstrip().startswith(MARKS)
        done = self._environment.execute(unwrapped(code) if fenced else dedented(code))
        self._ran += done.seconds
        return shown(done)

    def ran(self) -> float:
        """Seconds that the programs ran."""
        return self._ran

    def judge_answer(self, text: str) -> bool:
        """True if the last boxed (else tagged) answer outside of programs is the reference."""
        return judge_answer(self._task, without_calls(text)).correct


def shown(done: Execution) -> ToolResult:
    """Text that the policy reads: what was printed; of a failure, the end of the error."""
    if done.ok:
        return ToolResult(done.stdout)
    lines = [line.rstrip() for line in done.stderr.splitlines() if line.strip()][-ERROR_LINES:]
    if done.limit:
        lines.append(f"{_LIMITS.get(done.limit, 'Error')}: {done.detail}")
    return ToolResult("\n".join(lines) or done.detail, failed=True)


_LIMITS = {"time": "TimeoutError", "cpu": "TimeoutError", "memory": "MemoryError"}
