"""Exceptions, results and states whose own code fails: a failed call, or another state; no crash.

What a method gives depends on what the policy wrote. None of it may end the run, or make the
trajectory invalid: neither here, nor in a process, nor behind HTTP.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from elsewhere_cases import served
from rods.env import Environment, World, called
from rods.envs.hints import hinted
from rods.envs.remote.client import RemoteEnvironment
from rods.envs.remote.messages import failed
from rods.envs.remote.processes import ProcessEnvironment, local
from rods.envs.tool_classes import ToolClasses
from rods.errors import ConfigError, EnvError, TaskError
from rods.evaluation.check import check_tasks
from rods.infra.interrupt import error_text, shown, unless_ctrl_c
from rods.integrations.task_rollout import TaskRollout
from rods.rollout.episode import _root  # pyright: ignore[reportPrivateUsage]
from rods.task import Provenance, Task, Turn
from rods.types import ToolCall


def burst(kind: str) -> Any:
    """What the code of an exception or a value does, in the place of its duty."""
    if kind == "exit":
        raise SystemExit("inner")
    if kind == "interrupt":
        raise KeyboardInterrupt
    if kind == "error":
        raise ValueError("inner")
    if kind == "recursion":
        return burst(kind)
    if kind == "again":
        raise Ending("exit")
    return object()  # no text, no number, no iterator


KINDS = ("exit", "interrupt", "error", "recursion", "again", "wrong type")


class Failing(Exception):
    def __str__(self) -> str:
        return burst(self.args[0])

    __repr__ = __str__


class Ending(SystemExit):
    def __str__(self) -> str:
        return burst(str(self.args[0]))


class Shy:
    """Says nothing of itself."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __str__(self) -> str:
        return burst(self.kind)

    __repr__ = __str__


class Twisted(str):
    """A text that is another one for those who ask in another way."""

    __slots__ = ()

    def __contains__(self, key: str) -> bool:  # type: ignore[override]
        raise SystemExit("inner")

    def __format__(self, spec: str) -> str:
        raise SystemExit("inner")


class Saying(Exception):
    def __str__(self) -> str:
        return Twisted("fine words")


def circle(kind: str) -> Exception:
    error = ValueError(kind)
    error.__context__ = error.__cause__ = error
    return error


RAISED: dict[str, Callable[[str], BaseException]] = {
    "text": Failing,
    "stray": Ending,
    "key": lambda kind: KeyError(Shy(kind)),
    "argument": lambda kind: ValueError(Shy(kind)),
    "stray argument": lambda kind: SystemExit(Shy(kind)),
    "circle": circle,
    "subclass": lambda _: Saying(),
}


class Number(int):
    kind = ""

    def __int__(self) -> int:
        return burst(self.kind)


class Share(float):
    kind = ""

    def __float__(self) -> float:
        return burst(self.kind)


class Rows(list[int]):
    kind = ""

    def __iter__(self) -> Iterator[int]:
        return burst(type(self).kind)


class Lazy(Mapping[str, int]):
    def __init__(self, kind: str) -> None:
        self.data = kind  # where mappings of the standard library keep what they hold

    def __getitem__(self, key: str) -> int:
        return burst(self.data)

    def __iter__(self) -> Iterator[str]:
        return burst(self.data)

    def __len__(self) -> int:
        return 1


class Guarded:
    def __init__(self, kind: str) -> None:
        object.__setattr__(self, "kind", kind)

    def __getattribute__(self, name: str) -> Any:
        kind = object.__getattribute__(self, "kind")
        return burst(kind) if name == "__dict__" else object.__getattribute__(self, name)


class Circular:
    def __init__(self, kind: str) -> None:
        self.kind, self.me = kind, self


def built(base: Any, value: Any) -> Callable[[str], Any]:
    return lambda kind: type(base.__name__, (base,), {"kind": kind})(value)


VALUES: dict[str, Callable[[str], Any]] = {
    "whole number": built(Number, 3),
    "number": built(Share, 0.5),
    "list": built(Rows, [1]),
    "mapping": Lazy,
    "attributes": Guarded,
    "circular": Circular,
    "generator": lambda kind: (letter for letter in kind),
    "in a list": lambda kind: [{"a": Lazy(kind)}],
}


class Desk:
    def __init__(self) -> None:
        self.count = 0
        self.kept: Any = None

    def fail(self, which: str, kind: str) -> str:
        """Raise an exception.

        Args:
            which: Which one.
            kind: What its own code does.
        """
        raise RAISED[which](kind)

    def give(self, which: str, kind: str) -> Any:
        """Give a value.

        Args:
            which: Which one.
            kind: What its own code does.
        """
        return VALUES[which](kind)

    def keep(self, which: str, kind: str) -> str:
        """Keep a value in the state.

        Args:
            which: Which one.
            kind: What its own code does.
        """
        self.kept = VALUES[which](kind)
        return "kept"

    def add(self, amount: int) -> int:
        """Add to the count.

        Args:
            amount: How much.
        """
        self.count += amount
        return self.count


DESK = ToolClasses("desk", [Desk])
ADD = ToolCall("add", {"amount": 2})


def task_of(*calls: ToolCall) -> Task:
    origin = Provenance("desk_0", "desk_0")
    return Task("desk", "base", (Turn("go", calls),), {"classes": ["Desk"]}, origin)


TASK = task_of(ADD)


def ways(kinds: tuple[str, ...] = KINDS) -> list[tuple[str, ToolCall, float]]:
    """Odd calls, each with the progress of a trajectory that makes it beside the right one."""
    names = [("fail", name, 1.0) for name in RAISED]
    names += [("give", name, 1.0) for name in VALUES]
    names += [("keep", name, 0.0) for name in VALUES]
    return [
        (f"{tool} {which} {kind}", ToolCall(tool, {"which": which, "kind": kind}), progress)
        for tool, which, progress in names
        for kind in kinds
    ]


def judged(environment: Environment, call: ToolCall) -> tuple[Any, ...]:
    """Results of the odd call and of the right one, and the verdict."""
    rollout = TaskRollout(environment, TASK)
    try:
        results = [rollout.call(one) for one in (call, ADD)]
        rollout.end(answered=True)
        return *((r.content, r.failed) for r in results), rollout.progress()
    finally:
        rollout.close()


@pytest.mark.slow
@pytest.mark.parametrize(("call", "progress"), [w[1:] for w in ways()], ids=[w[0] for w in ways()])
def test_values_whose_own_code_fails_end_nothing(call: ToolCall, progress: float) -> None:
    (content, was_failed), right, found = judged(DESK, call)
    assert was_failed is (call.name != "keep") and content
    assert right == ("2", False), "the world goes on"
    assert found == progress, "a state that cannot be read is not the ground truth's"


@functools.cache
def processes() -> ProcessEnvironment:
    return ProcessEnvironment(DESK, local("test_hostile_values:DESK", {}), 1, 20.0)


@pytest.fixture(scope="module", autouse=True)
def _ended() -> Iterator[None]:
    yield
    if processes.cache_info().currsize:
        processes().close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_verdict_is_the_same_elsewhere(kind: str) -> None:
    with served(DESK) as url:
        remote = RemoteEnvironment(url)
        for name, call, _ in ways((kind,)):
            here = judged(DESK, call)
            assert judged(remote, call) == here, name
            assert judged(processes(), call) == here, name
    assert processes().replaced == 0, "no process died of it"


@pytest.mark.parametrize("which", VALUES)
def test_hints_know_nothing_of_a_state_that_cannot_be_read(which: str) -> None:
    world: World = hinted(DESK.open(TASK))
    world.begin_turn(0)
    called(world, ToolCall("keep", {"which": which, "kind": "error"}))
    result = called(world, ToolCall("fail", {"which": "subclass", "kind": "error"}))
    assert result.failed and "fine words" in result.content


@pytest.mark.parametrize("tool", ["fail", "give", "keep"])
def test_the_check_names_such_a_ground_truth(tool: str) -> None:
    which = "text" if tool == "fail" else "mapping"
    task = task_of(ToolCall(tool, {"which": which, "kind": "exit"}))
    rows = [row for row in check_tasks([task], DESK).rows if row.finding == "unreachable"]
    assert rows and ("Failing" in rows[0].detail or "it cannot be read" in rows[0].detail)


class Silent:
    def __init__(self) -> None:
        raise Failing("exit")

    def put(self) -> None: ...


class Holding:
    def __init__(self) -> None:
        self.rows = VALUES["whole number"]("exit")

    def put(self) -> None: ...


class Uncopied:
    def __init__(self) -> None:
        self.held = Sealed()

    def put(self) -> None: ...


class Sealed:
    def __deepcopy__(self, _: object) -> Any:
        raise Ending("exit")


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (Silent, "class Silent: an object cannot be made: Failing"),
        (Holding, r"Holding\.rows: it cannot be read: SystemExit: inner"),
        (Uncopied, "class Uncopied, attribute held: a Sealed cannot be copied"),
    ],
)
def test_a_class_whose_own_code_fails_is_named(kind: type[Any], found: str) -> None:
    with pytest.raises(ConfigError, match=found):
        ToolClasses("odd", [kind])


class Outage(Lazy):
    kind: type[Exception] = ConnectionError

    def __iter__(self) -> Iterator[str]:
        raise self.kind("the shop is closed")


class Shop:
    def __init__(self) -> None:
        self.goods: Any = None

    def look(self) -> Any:
        """Look."""
        return Outage("")

    def open(self) -> str:
        """Open."""
        self.goods = Outage("")
        return "open"


@pytest.mark.parametrize("tool", ["look", "open"])
@pytest.mark.parametrize("kind", [ConnectionError, TimeoutError, EnvError])
def test_only_what_a_class_names_an_outage_is_one(
    tool: str, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Outage, "kind", kind)
    world = ToolClasses("shop", [Shop]).open(Task("shop", "c", (Turn("u"),), {"classes": ["Shop"]}))
    world.begin_turn(0)
    if kind is EnvError:
        with pytest.raises(EnvError, match="EnvError: the shop is closed"):
            world.call(ToolCall(tool))
            world.public_state()
        return
    assert world.call(ToolCall(tool)).failed is (tool == "look")
    assert world.end_turn().state is (tool == "look")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", RAISED)
def test_what_an_exception_says_is_a_text_whatever_its_code_does(which: str, kind: str) -> None:
    error = RAISED[which](kind)
    unless_ctrl_c(error)
    assert type(error_text(error)) is str and type(error).__name__ in shown(error)
    assert type(failed(error)["error"]) is str
    outer = EnvError("the world broke")
    outer.__cause__ = error
    assert _root(outer).startswith("EnvError: the world broke (caused by ")


def test_keys_are_said_without_quotes() -> None:
    assert [shown(e) for e in (KeyError("a b"), KeyError(), SystemExit(), TaskError("x"))] == [
        "KeyError: a b",
        "KeyError",
        "SystemExit",
        "TaskError: x",
    ]
