"""Containers: commands follow one another whatever the last one did, and no patch buys a reward.

`container_engine.py` stands for docker: its containers are real name spaces of processes.
"""

from __future__ import annotations

import ast
import json
import subprocess
import unittest
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from repo_cases import bash
from rods.envs.repo.claims import CLAIM, passed, read_report, withhold
from rods.envs.repo.container import LOST, Container
from rods.envs.repo.environment import RepoEnvironment
from rods.envs.repo.swe import load_rows, passes
from rods.envs.repo.world import RepoWorld
from rods.errors import EnvError
from rods.sandbox.shell import ShellResult
from rods.task import Task
from rods.types import ToolCall
from swe_cases import (
    CODE,
    IMAGE,
    ROW,
    TEST,
    TEST_PATCH,
    engine,
    needs_namespaces,
)
from waits import until

pytestmark = [needs_namespaces, pytest.mark.slow]


@pytest.fixture
def place(environment: RepoEnvironment, tmp_path: Path) -> Iterator[Container]:
    made = Container(IMAGE, 100, str(tmp_path / "docker"))
    yield made
    (tmp_path / "broken").unlink(missing_ok=True)
    made.close()
    assert not list((tmp_path / "containers").iterdir())


def test_the_stand_in_ends_with_its_only_child_as_docker_does(
    environment: RepoEnvironment,
    tmp_path: Path,
) -> None:
    """The way in which containers were started before: after one cleanup nothing runs."""

    def docker(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(tmp_path / "docker"), *words], capture_output=True, text=True, check=False
        )

    name = docker("run", "-d", "--init", IMAGE, "sleep", "infinity").stdout.strip()
    assert docker("exec", name, "echo", "a").stdout == "a\n"

    def ended() -> bool:  # the child may not have begun yet when a kill comes
        docker("exec", name, "sh", "-c", "kill -9 -1")
        return "is not running" in docker("exec", name, "echo", "a").stderr

    until(ended)
    docker("rm", "-f", name)


LEAVING = {
    "nothing": "true",
    "a process behind": "sleep 971 & echo a",
    "a process of its own session": "setsid sleep 971 >/dev/null 2>&1 & echo a",
    "one that holds the output": "setsid sleep 971 & echo a",
    "one that does not listen": "trap '' TERM INT HUP; setsid sleep 971 & sleep 0.1",
    "one that is stopped": "sleep 971 & kill -STOP $!",
    "killing everybody": "kill -9 -1",
    "killing what ends it": "setsid sleep 971 >/dev/null 2>&1 & "
    "read -r _ _ _ up _ </proc/$PPID/stat; kill -9 $up",
    "killing the first process": "kill -9 1; kill -TERM 1; kill -HUP 1; echo a",
    "an orphan that ends": "(sleep 0.05 &)",
    "output without end": "yes",
}


@pytest.mark.parametrize("program", LEAVING.values(), ids=LEAVING)
def test_commands_go_on_and_nothing_stays(place: Container, program: str) -> None:
    for _ in range(2):
        place.run(["bash", "-c", program], seconds=5)
    done = place.run(["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"])
    assert done.ok and "sleep 971" not in done.output  # a container's id may hold the number
    states = ["sh", "-c", "cat /proc/[0-9]*/stat | cut -d' ' -f3"]
    until(lambda: "Z" not in place.run(states).output.split())
    assert place.run(["cat", "code_of_it.py"]).output == CODE


def test_what_a_command_left_holds_up_and_restarts_nothing(
    place: Container, tmp_path: Path
) -> None:
    for _ in range(2):  # what it left holds its output, too
        assert place.run(["bash", "-c", "setsid sleep 971 & echo a"], seconds=2).ok
    assert "restart" not in (tmp_path / "asked").read_text()


def test_output_without_end_is_bounded(place: Container) -> None:
    done = place.run(["yes"], seconds=20)
    assert done.limit == "output" and len(done.output) <= 64 * 1024


def test_what_a_command_gives_is_told_from_what_the_engine_says(
    place: Container, tmp_path: Path
) -> None:
    assert place.run(["sh", "-c", "exit 125"]).code == 125
    assert place.run(["sh", "-c", "echo out; echo err >&2"]).output == "out\nerr\n"
    done = place.run(["no-such-program"])
    assert (done.ok, done.limit) == (False, "") and "no-such-program" in done.output
    (tmp_path / "broken").touch()
    with pytest.raises(EnvError, match="was lost"):
        place.run(["true"])
    with pytest.raises(EnvError, match="was not removed"):
        place.close()


def test_warnings_of_the_engine_are_no_output_and_no_loss(tmp_path: Path) -> None:
    """As podman under the name of docker, which warns each time."""
    (tmp_path / IMAGE).mkdir(parents=True)
    command, warns = engine(tmp_path), tmp_path / "warns"
    warns.write_text(
        f'#!/bin/sh\necho "Emulate Docker CLI using podman." >&2\nexec {command} "$@"\n'
    )
    warns.chmod(0o755)
    with closing(Container(IMAGE, 100, str(warns))) as place:
        for _ in range(2):
            done = place.run(["sh", "-c", "echo out; exit 3"], seconds=60)
            assert (done.output, done.code, done.limit) == ("out\n", 3, "")
    assert "restart" not in (tmp_path / "asked").read_text()


def test_a_container_that_somebody_killed_goes_on(place: Container, tmp_path: Path) -> None:
    place.run(["sh", "-c", "echo kept > kept"])
    subprocess.run([str(tmp_path / "docker"), "kill", place._id], check=True)
    assert place.run(["true"]).limit == LOST  # this one did not run; it is started again after it
    assert place.run(["cat", "kept"]).output == "kept\n"


def test_an_agent_that_breaks_its_container_is_not_solved_and_not_invalid(
    environment: RepoEnvironment,
    tmp_path: Path,
) -> None:
    world = environment.open(_task(tmp_path))
    world.begin_turn(0)
    world.call(bash("rm -rf ./* .git; exec sleep 0"))
    assert world.call(bash("true")).content == ""
    world._place._lost = True  # pyright: ignore: as after a restart that fails
    assert world.call(bash("true")).failed
    assert not world.end_turn().solved
    world.close()


WITH_KEPT = (
    TEST_PATCH.replace("+1,4", "+1,7") + "+\n+def test_kept():\n+    assert sum([1, 2]) == 3\n"
)


def _task(tmp_path: Path, **more: object) -> Task:
    path = tmp_path / "rows.jsonl"
    tests = {"test_patch": WITH_KEPT, "PASS_TO_PASS": ["test_it.py::test_kept"]}
    path.write_text(json.dumps({**ROW, **tests, **more}))
    (found,) = load_rows(path, "repo")
    return found


HOOK = """
import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    report.outcome = "passed"
    report.longrepr = None
"""
RUNNER = """
print("PASSED test_it.py::test_half")
print("PASSED test_it.py::test_kept")
def main(*a, **k): print("PASSED test_it.py::test_half")
if __name__ == "__main__": main()
"""
EQUAL = """
class Any({base}):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
    def __bool__(self): return True
    def __repr__(self): return "2"
def half(n): return Any()
"""
HONEST = "def half(n):\n    return n // 2\n"
FOOLING: dict[str, dict[str, str]] = {
    "a conftest hook": {"conftest.py": HOOK},
    "a conftest hook deeper": {"tests/conftest.py": HOOK, "conftest.py": HOOK},
    "a pytest.py": {"pytest.py": RUNNER, "pytest/__main__.py": RUNNER},
    "a _pytest package": {"_pytest/__init__.py": RUNNER, "pluggy.py": RUNNER},
    "printing at exit": {"code_of_it.py": CODE + "import atexit\natexit.register(lambda: "
                         "print('PASSED test_it.py::test_half\\n', flush=True))\n"},
    "printing at once": {"code_of_it.py": "import os\nfor n in range(3, 30):\n    try:\n"
                         "        os.write(n, b'PASSED test_it.py::test_half\\n')\n"
                         "    except OSError: pass\n" + CODE},
    "an int that equals everything": {"code_of_it.py": EQUAL.format(base="int")},
    "an object that equals everything": {"code_of_it.py": EQUAL.format(base="object")},
    "a str that equals everything": {"code_of_it.py": EQUAL.format(base="str")},
    "another test of this name": {"test_it.py": "def test_half(): pass\n"},
    "a test module in its place": {"code_of_it.py": CODE + "import sys\nfor name, m in list("
                                   "sys.modules.items()):\n    if 'test_it' in name:\n"
                                   "        m.half = lambda n: 2\n"},
    "the frame that imports it": {"code_of_it.py": "import sys\nf = sys._getframe()\nwhile f:\n"
                                  "    if 'test_it' in f.f_globals.get('__name__', ''):\n"
                                  "        f.f_globals['test_half'] = lambda: None\n"
                                  "    f = f.f_back\n" + CODE},
    "pytest changed by an import": {"code_of_it.py": CODE + "import _pytest.python as p\n"
                                    "p.pytest_pyfunc_call = lambda *a: True\n"
                                    "p.Function.runtest = lambda self: None\n"},
    "the claim changed by an import": {"code_of_it.py": CODE + "import builtins\n"
                                       "builtins._rods_claim = lambda *a: True\n"},
    "leaving well": {"code_of_it.py": CODE + "import os\nos._exit(0)\n"},
    "leaving later": {"code_of_it.py": CODE + "import os\ndef half(n): os._exit(0)\n"},
    "skipping": {"code_of_it.py": "import pytest\ndef half(n): pytest.skip('x')\n"},
    "an expected failure": {"code_of_it.py": "import pytest\ndef half(n): pytest.xfail('x')\n"},
    "settings": {"pytest.ini": "[pytest]\naddopts = --collect-only\n", "tox.ini": "[pytest]\n",
                 "setup.cfg": "[tool:pytest]\npython_functions = nothing\n"},
    "a plugin by metadata": {"x.egg-info/entry_points.txt": "[pytest11]\nx = evil\n",
                             "x.egg-info/PKG-INFO": "Name: x\nVersion: 1\n", "evil.py": HOOK},
    "site": {"sitecustomize.py": RUNNER + "import os\nos._exit(0)\n", "usercustomize.py": RUNNER},
    "shadows of the library": {"json.py": RUNNER, "decimal.py": RUNNER, "numbers.py": RUNNER},
    "settings of a later pytest": {"pytest.toml": "[pytest]\naddopts = ['-p', 'evil']\n",
                                   ".pytest.toml": "[pytest]\naddopts = ['-p', 'evil']\n",
                                   "evil.py": HOOK, ".env": "PYTEST_ADDOPTS=-p evil\n"},
    "a path file": {"evil.pth": "import evil\n", "evil.py": "import os; os._exit(0)\n"},
    "a module of this name": {"code_of_it.py": CODE + "import sys, types\nm = types.ModuleType("
                              "'test_it')\nm.test_half = lambda: None\nsys.modules['test_it'] = m"
                              "\n"},
    "no asserts": {"code_of_it.py": CODE + "import _pytest.assertion.rewrite as r\n"
                   "r.rewrite_asserts = lambda module, *more: module.body.clear()\n"},
    "builtins of its own": {"code_of_it.py": CODE + "import builtins\nbuiltins.isinstance = "
                            "lambda *a: True\nbuiltins.repr = lambda v: '2'\n"},
    "claims for every value": {"code_of_it.py": "import builtins\ndef half(n):\n    for k in "
                               "range(9):\n        builtins._rods_claim(0, k)\n    return 1\n"},
    "the witness itself": {"code_of_it.py": "import gc\ndef half(n):\n    for one in "
                           "gc.get_objects():\n        if type(one).__name__ == 'Witness':\n"
                           "            type(one).claim = lambda *a: True\n            one.outcomes"
                           "[:] = [[f'test_it.py::test_{t}', w, 'passed'] for t in ('half', 'kept')"
                           "\n                for w in ('setup', 'call', 'teardown')]\n            "
                           "type(one).pytest_runtest_logreport = lambda *a, **k: None\n"},
    "longer names of its tests": {"code_of_it.py": "import gc\ndef half(n):\n    for one in "
                                 "gc.get_objects():\n        if type(one).__name__ == 'Witness':"
                                 "\n            one.outcomes[:] = [[f'test_it.py::test_{t} x', w, "
                                 "'passed'] for t in ('half', 'kept')\n                for w in ("
                                 "'setup', 'call', 'teardown')]\n            type(one)."
                                 "pytest_runtest_logreport = lambda *a, **k: None\n"},
    "ended at exit": {"code_of_it.py": CODE + "import atexit, os, threading\natexit.register("
                      "lambda: os._exit(0))\nthreading.Timer(0.1, lambda: os._exit(0)).start()\n"},
    "reading what is expected": {"code_of_it.py": "import re, glob, subprocess\ndef half(n):\n"
                                 "    text = open('test_it.py').read() + subprocess.run(\n"
                                 "        ['git', 'diff', 'HEAD'], capture_output=True, text=True"
                                 ").stdout\n    found = re.findall(r'== (\\d)', text)\n"
                                 "    return int(found[-1]) if found else 7\n"},
}  # fmt: skip


def write(files: dict[str, str]) -> ToolCall:
    """A call that makes these files."""
    program = f"import os\nfor p, t in {files!r}.items():\n"
    program += (
        "    os.makedirs(os.path.dirname(p) or '.', exist_ok=True)\n    open(p, 'w').write(t)"
    )
    return bash(f"python3 - <<'END_OF_IT'\n{program}\nEND_OF_IT")


@pytest.mark.parametrize("name", FOOLING)
def test_patches_that_repair_nothing_are_not_paid(
    environment: RepoEnvironment,
    tmp_path: Path,
    name: str,
) -> None:
    world = environment.open(_task(tmp_path))
    world.begin_turn(0)
    assert not world.call(write(FOOLING[name])).failed
    assert world.snapshot()
    assert not world.end_turn().solved
    world.close()


@pytest.mark.parametrize("number", range(5))
def test_a_judge_that_loses_its_container_is_invalid(number: int, tmp_path: Path) -> None:
    """Nothing of the agent has run in it yet."""
    done: list[float | None] = []

    def run(
        argv: Sequence[str], stdin: str = "", seconds: float | None = None, whole: bool = False
    ) -> ShellResult:
        done.append(seconds)
        if len(done) > number:
            return ShellResult("the container runs no commands any more", 1, LOST)
        return ShellResult(TEST if argv[0] == "cat" else "", 0, "")

    place: Any = SimpleNamespace(run=run, close=lambda: None)
    with pytest.raises(EnvError, match="runs no commands"):
        passes(
            _task(tmp_path, test_patch=TEST_PATCH, PASS_TO_PASS=[]).world, "patch", lambda: place
        )
    assert len(done) == number + 1


def test_a_slow_machine_has_minutes_for_the_patch_which_count_as_the_agents(tmp_path: Path) -> None:
    """Its own git may be broken, so a time-out is no failure of infrastructure."""
    clock, asked = [0.0], list[float | None]()

    def run(argv: Sequence[str], stdin: str = "", seconds: float | None = None) -> ShellResult:
        asked.append(seconds)
        clock[0] += 40.0
        return ShellResult("base", 0, "")

    place: Any = SimpleNamespace(run=run, close=lambda: None)
    world = RepoWorld(_task(tmp_path), place, lambda patch: True, seconds=30.0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("rods.envs.repo.world.time.monotonic", lambda: clock[0])
        world.begin_turn(0)
        assert world.end_turn().state
        assert world.ran() == 40.0
    assert asked[-1] == 600.0


UNPROVEN = {
    "a parameter": "@pytest.mark.parametrize('n, want', [(4, 2), (8, 4)])\n"
    "def test_half(n, want):\n    assert half(n) == want",
    "a constant": "WANT = 2\ndef test_half():\n    assert half(4) == WANT",
    "an error": "def test_half():\n    with pytest.raises(TypeError):\n        half('a')",
    "a truth": "def test_half():\n    assert half(4)",
    "a bound": "def test_half():\n    assert half(4) < 3",
    "one of several": "def test_half():\n    assert half(4) in (2, 3)",
    "one that may be left out": "def test_half():\n    if half(1):\n        assert half(4) == 2",
    "nothing": "def test_half():\n    half(4)",
}


@pytest.mark.parametrize("form", UNPROVEN)
def test_tests_without_a_literal_prove_nothing(form: str) -> None:
    proven = "def test_more():\n    assert half(4) == 2\n"
    withheld = withhold({"test_it.py": f"{UNPROVEN[form]}\n{proven}"})
    names = [f"test_it.py::test_half{end}" for end in ("", "[4-2]")]
    assert not withheld.proves(names) and withheld.proves([*names, "test_it.py::test_more"])


def test_a_row_whose_tests_could_be_claimed_is_judged_only_on_demand(
    environment: RepoEnvironment, tmp_path: Path
) -> None:
    forged = CODE + "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n"
    patch = TEST_PATCH.replace("assert half(4) == 2", "assert half(4)")
    task = _task(tmp_path, test_patch=patch, PASS_TO_PASS=[])
    for believe in (False, True):
        asked = RepoEnvironment(container=environment._container, believe=believe)
        with closing(asked.open(task)) as world:
            world.begin_turn(0)
            world.call(write({"code_of_it.py": forged}))
            if believe:  # what the recipe's README says of it
                assert world.end_turn().solved
            else:
                with pytest.raises(EnvError, match=r"could claim that test_it.py::test_half pas"):
                    world.end_turn()


NOISE = HONEST + (
    "import os\nfor n in range(3, 30):\n    try:\n        os.write(n, b'began\\n{}\\n')\n"
    "    except OSError: pass\n"
)
BESIDE = {"": {}, "noise in all files that are open": {"code_of_it.py": NOISE}} | {
    name: FOOLING[name] for name in ("a conftest hook", "another test of this name", "settings")
}


@pytest.mark.parametrize("beside", BESIDE)
def test_a_repair_is_paid_whatever_lies_beside_it(
    environment: RepoEnvironment,
    tmp_path: Path,
    beside: str,
) -> None:
    world = environment.open(_task(tmp_path))
    world.begin_turn(0)
    world.call(write({"code_of_it.py": HONEST} | BESIDE[beside]))
    assert world.end_turn().solved
    world.close()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"test_patch": TEST_PATCH.replace("-x = 1", "-x = 2")}, "its tests do not apply"),
        ({"test_patch": "x"}, "its tests do not apply"),
    ],
)
def test_a_row_that_does_not_fit_its_image_is_invalid(
    environment: RepoEnvironment,
    tmp_path: Path,
    more: dict[str, str],
    said: str,
) -> None:
    world = environment.open(_task(tmp_path, **more))
    world.begin_turn(0)
    world.call(write({"code_of_it.py": HONEST}))
    with pytest.raises(EnvError, match=said):
        world.end_turn()
    world.close()


TESTS = """
import unittest
def test_one():
    assert (half(4)) == 2 and text("ä") == (
        "a"
        "b"
    )
    assert {"a": [1]} == f(
        1
    )
    assert a == b
    assert not f(2) == 3
    assert f(1) == 2 or f(1) == 3
    for x in y:
        assert x == 1
def test_early():
    if z:
        return
    assert f(1) == 2
class TestIt(unittest.TestCase):
    def test_two(self):
        self.assertEqual(f("ä", 1), -3.5, "why")
        self.assertEqual(f(1), g(1))
"""


def test_expected_values_are_taken_out() -> None:
    withheld = withhold({"t.py": TESTS, "old.py": "print 'x'\n"})
    text = withheld.texts["t.py"]
    ast.parse(text)
    assert sorted(map(repr, withheld.values)) == sorted(
        map(repr, [2, "ab", {"a": [1]}, 1, 2, -3.5])
    )
    for kept in ("assert a == b", "not f(2) == 3", "f(1) == 2 or f(1) == 3", "f(1), g(1))"):
        assert kept in text
    for gone in ("-3.5", '"ab"', '"b"', "[1]", "x == 1"):
        assert gone not in text
    owed = {name: [withheld.values[n] for n in found] for name, found in withheld.owed.items()}
    assert sorted(map(repr, owed.pop("t.py::test_one"))) == ["'ab'", "2", "{'a': [1]}"]
    assert owed == {"t.py::TestIt::test_two": [-3.5]}
    assert withheld.texts["old.py"] == "print 'x'\n"


ASSERTED = {
    "positions": "self.assertEqual(half(4), {})",
    "the literal first": "self.assertEqual({}, half(4))",
    "names": "self.assertEqual(first=half(4), second={})",
    "one name": "self.assertEqual(half(4), second={}, msg='why')",
    "the old name": "self.assertEquals(half(4), {})",
    "a list": "self.assertListEqual(half(4), [{}])",
    "a tuple": "self.assertTupleEqual(half(4), ({},))",
    "a set": "self.assertSetEqual(half(4), {{{}}})",
    "a dict": "self.assertDictEqual(half(4), {{'a': {}}})",
    "lines": "self.assertMultiLineEqual(half(4), '{}')",
    "a truth": "self.assertTrue(half(4) == {}, 'why')",
    "a subtest": "with self.subTest(n=1):\n            self.assertEqual(half(4), {})",
    "a loop": "for n in (4, 4):\n            self.assertEqual(half(n), {})",
    "a cleanup": "try:\n            assert half(4) == {}\n        finally:\n            pass",
}


@pytest.mark.parametrize("form", ASSERTED)
def test_each_way_to_expect_a_value_is_taken_out_and_owed(form: str) -> None:
    head = "import unittest\nclass T(unittest.TestCase):\n    def test_it(self):\n        "
    withheld = withhold({"t.py": head + ASSERTED[form].format(7531) + "\n"})
    text = withheld.texts["t.py"]
    assert "7531" not in text
    assert withheld.owed == {"t.py::T::test_it": frozenset({0})}
    claimed: list[int] = []
    names: dict[str, Any] = {"half": lambda n: n, CLAIM: lambda n, value: not claimed.append(n)}
    exec(text.replace("assertEquals(", "assertEqual("), names)
    result = unittest.TestResult()
    names["T"]("test_it").run(result)
    assert result.wasSuccessful() and set(claimed) == {0}, (text, result.errors)


@pytest.mark.parametrize(
    "rows",
    [
        "with pytest.raises(ValueError):\n        assert f() == 2",
        "with suppress(KeyError):\n        assert f() == 2",
        "for n in ():\n        assert f() == 2",
        "for n in (1, 2):\n        if n: continue\n        assert f() == 2",
        "try:\n        assert f() == 2\n    except KeyError:\n        pass",
        "self.assertEqual(*both(), 2)",
        "self.assertEqual(f(), msg='2', second=2)",
    ],
)
def test_what_may_be_left_out_is_not_owed(rows: str) -> None:
    withheld = withhold({"t.py": f"def test():\n    {rows}\n"})
    ast.parse(withheld.texts["t.py"])
    assert withheld.owed == {"t.py::test": frozenset()}


@pytest.mark.parametrize(
    ("given", "expected", "same"),
    [
        ("2", "2", True),
        ("True", "1", True),
        ("2.0", "2", True),
        ("'2'", "2", False),
        ("Decimal('2.5')", "2.5", True),
        ("Fraction(1, 2)", "0.5", True),
        ("IntEnum('E', 'a b').b", "2", True),
        ("OrderedDict(a=1)", "{'a': 1}", True),
        ("{1: 2}.keys()", "{1}", True),
        ("set()", "{1}", False),
        ("(1, 2)", "[1, 2]", False),
        ("namedtuple('N', 'a')(1)", "(1,)", True),
        ("bytearray(b'a')", "b'a'", True),
        ("None", "None", True),
        ("object()", "None", False),
        ("UserList([1])", "[1]", True),
        ("mock.ANY", "3", False),
        ("float('nan')", "1", False),
        ("[[]] * 9", "[[]]", False),
        ("0.3000000001", "approx(0.3)", True),
        ("0.31", "pytest.approx(0.3)", False),
        ("2", "approx(2)", True),
        ("-0.3", "approx(0.3)", False),
        ("'a'", "approx(2)", False),
        ("mock.ANY", "approx(2)", False),
    ],
)
def test_values_are_compared_by_what_they_hold(given: str, expected: str, same: bool) -> None:
    from rods.envs.repo.witness import Witness

    names: dict[str, object] = {}
    exec(
        "from decimal import *; from fractions import *; from enum import *; from collections "
        "import *; from unittest import mock",
        names,
    )
    withheld = withhold({"t.py": f"def test():\n    assert f() == {expected}\n"})
    witness = Witness()
    witness.pytest_runtest_logstart("t.py::test[a b]")
    assert witness.claim(0, eval(given, names))
    report = {"outcomes": [["t.py::test[a b]", "call", "passed"]], "claims": witness.claims}
    read = read_report("mbegan\nm" + json.dumps(report), "m")
    assert read is not None
    assert passed(read, withheld) == ({"t.py::test[a"} if same else set())


@pytest.mark.parametrize(
    ("outcomes", "fine"),
    [
        (["passed", "passed", "passed"], True),
        (["passed", "xfail", "passed"], False),
        (["passed", "skipped", "passed"], False),
        (["passed", "passed", "failed"], False),
        (["failed"], False),
    ],
)
def test_only_a_test_whose_phases_all_passed_counts(outcomes: list[str], fine: bool) -> None:
    """Also where it made its claims before it ended otherwise."""
    withheld = withhold({"t.py": "def test():\n    assert f() == 2\n"})
    rows = [["t.py::test", phase, outcome] for phase, outcome in zip("abc", outcomes, strict=False)]
    report = {"outcomes": rows, "claims": [["t.py::test", 0, "2"]]}
    assert passed(report, withheld) == ({"t.py::test"} if fine else set())


NAME = "t.py::test"


@pytest.mark.parametrize(
    ("test", "claim"),
    [
        *((f"{NAME}{more}", None) for more in (" x", "\tx", "\u00a0x", "\u2028")),
        *((f" {NAME}", None), ("", None), ("\ud800", None)),
        *((NAME, [NAME, number, "2"]) for number in (1, 9, -1, 10**30)),
        *((NAME, [NAME, 0, text]) for text in ("2\x00", "\ud800", "9**9**9", "(" * 10**5, "")),
        *((NAME, [NAME, 0, value]) for value in ("1" + "0" * 400, "-1" + "0" * 400)),
    ],
)
@pytest.mark.parametrize("value", ["2", "pytest.approx(2.0)"])
def test_a_forged_report_proves_nothing(test: str, claim: list[object] | None, value: str) -> None:
    """Code under test can write all of it but the value, which it does not know."""
    withheld = withhold({"t.py": f"def test():\n    assert f() == {value}\n"})
    rows = [[test, phase, "passed"] for phase in ("setup", "call", "teardown")]
    given = json.dumps({"outcomes": rows, "claims": [claim] if claim else []})
    report = read_report(f"mbegan\nm{given}", "m")
    assert report is not None and NAME not in passed(report, withheld)


@pytest.mark.parametrize("number", ["null", '"0"', '"x"', "0.5", "NaN", "1e999", "true", "[0]"])
def test_a_report_whose_claims_have_no_number_is_none(number: str) -> None:
    given = f'{{"outcomes": [], "claims": [["{NAME}", {number}, "2"]]}}'
    assert read_report(f"mbegan\nm{given}", "m") is None


BROKEN = ("{}", "[1]", '{"outcomes": [[1]], "claims": []}', '{"outcomes": 3, "claims": []}', "x")


@pytest.mark.parametrize("text", ["", "mbegan", *(f"mbegan\nm{text}" for text in BROKEN)])
def test_a_broken_report_proves_nothing(text: str) -> None:
    assert read_report(text, "m") is None
