"""What all tests share. Where CI runs, a skipped test is a failure: it says nothing.

Tests marked `hosts` are skipped by `.ci/run` and run by `.ci/hosts` (`RODS_CI=hosts`).
"""

from __future__ import annotations

import fcntl
import functools
import gc
import os
import resource
import signal
import ssl
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
import typer.main

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the workers share the cores

os.environ.setdefault(
    "HF_HUB_OFFLINE", "1"
)  # a name that means a model of the hub is not asked for

# Compiled files are kept, whatever the shell says: hundreds of processes import the sources.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

gc.disable()  # imports make much that lives, and little that dies; on again once all is collected

# A shell's background command ignores Ctrl-C, and so would the programs that tests interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


LONG = (
    "test_packaged.py", "test_main_job.py", "test_experiment.py", "test_init.py",
    "test_engine_recipes.py",
)  # fmt: skip
"""Files with tests that take a minute. They begin, so that no worker has one left at the end."""


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two workers more than cores, because a fifth of the slow tests' time is waiting.

    Without slow tests they would only collect once more.
    """
    return len(os.sched_getaffinity(0)) + 2 * ("not slow" not in (config.option.markexpr or ""))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long tests early; tests of a GPU where they are asked for by name: `-m gpu`.

    Tests that run alone come first, while the other workers have short ones to wait for.
    """
    alone = {item for item in items if item.get_closest_marker("alone")}
    items.sort(key=lambda item: (item not in alone, item.path.name not in LONG))
    if "gpu" in (config.option.markexpr or ""):
        return
    left = [item for item in items if item.get_closest_marker("gpu")]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


def pytest_collection_finish() -> None:
    """The garbage collector need not look through all modules again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    where = os.environ.get("RODS_CI", "")
    found = reporter.stats.get("skipped", ()) if reporter else ()
    skipped = sum(
        "hosts" not in getattr(report, "keywords", ()) or where == "hosts" for report in found
    )
    if skipped and where:
        reporter.write_line(f"{skipped} tests were skipped: a failure in CI")
        session.exitstatus = 1


@pytest.fixture(autouse=True, scope="session")
def _one_tls_context() -> Iterator[None]:
    """A client's TLS context takes 40 ms, for the list of authorities, and tests need none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", functools.cache(ssl.create_default_context))
        yield


@pytest.fixture(autouse=True, scope="session")
def _one_command_line() -> Iterator[None]:
    """The program's verbs take 60 ms to make, at each of thousands of command lines in tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.main.get_command", functools.cache(typer.main.get_command))
        yield


@pytest.fixture(autouse=True, scope="session")
def _precision_of_a_cpu() -> Iterator[None]:
    """Models on a CPU compute in float32 on every machine, and no test times the CPU's kernels.

    At the width of a model of 4 billion parameters that takes minutes of a busy machine.
    `tests/engines/test_threads.py` guards the choice, `test_loading.py` that models follow it.
    """
    loading = sys.modules.get("rods.trainers.loading")
    with pytest.MonkeyPatch.context() as patch:
        if loading:
            patch.setattr(loading, "bfloat16_pays", lambda width: False)
        yield


@pytest.fixture(autouse=True)
def _alone(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Tests marked `alone` look at what the whole machine holds: no worker runs one beside them.

    Every test enters by the gate. Who waits to be alone holds it, or the others, which take turns,
    would never all be out.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    alone = request.node.get_closest_marker("alone")
    folder = tmp_path_factory.getbasetemp().parent
    with (folder / "gate.lock").open("a") as gate, (folder / "alone.lock").open("a") as room:
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(gate, fcntl.LOCK_UN)
        yield


@pytest.fixture(autouse=True)
def _modules_stay() -> Iterator[None]:
    """A test that imports a package again puts back what it replaced (`support/imports.py`)."""
    yield
    for name in [name for name in sys.modules if name.startswith("rods.")]:
        above, _, part = name.rpartition(".")
        kept, imported = getattr(sys.modules[above], part, None), sys.modules[name]
        same = kept is imported or (kept is not None and not isinstance(kept, ModuleType))
        if imported is not None and not same:
            setattr(sys.modules[above], part, imported)  # so that later tests do not fail, too
            raise AssertionError(f"{name} was imported again: use support/imports.py")


@pytest.fixture
def worker_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Synthesis workers of this test are threads of this process."""
    from worker_cases import ThreadProcess

    monkeypatch.setattr("rods.synthesis.worker.client.Popen", ThreadProcess)


@pytest.fixture
def many_files() -> Iterator[None]:
    """Descriptors that are opened now have numbers beyond what `select` can watch."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    yield
    for descriptor in held:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Sums of one order, whatever ran before."""
    import torch

    from rods.engines.threads import set_threads

    threads = torch.get_num_threads()
    set_threads(1)
    yield
    set_threads(threads)
