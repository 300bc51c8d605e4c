"""The client of a SandboxFusion service, against a server on loopback."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rods.errors import ConfigError, EnvError
from rods.sandbox.execution import MIB, SandboxLimits
from rods.sandbox.remote import RemoteSandbox
from services import Reply, answered, service


def run(url: str, code: str = "print(1)", **settings: Any) -> Any:
    sandbox = RemoteSandbox(url, **({"patience": 0.01, "retries": 2} | settings))
    return sandbox.execute(code, settings.get("stdin", ""))


def test_request_and_answer() -> None:
    with service(lambda body, _: answered(stdout=body["code"].upper())) as (url, seen):
        limits = SandboxLimits(seconds=7, memory=256 * MIB)
        sandbox = RemoteSandbox(url + "/run_code/", limits=limits)
        done = sandbox.execute("print(1)", "in")
    assert (done.stdout, done.status, done.seconds, done.attempts) == ("PRINT(1)", "ok", 0.25, 1)
    expected = {"code": "print(1)", "language": "python", "run_timeout": 7}
    assert seen == [("/run_code", expected | {"memory_limit_MB": 256, "stdin": "in"})]


@pytest.mark.parametrize(
    ("result", "status", "limit", "detail"),
    [
        ({"return_code": 1, "stderr": "Trace\nValueError: x\n"}, "error", "", "ValueError: x"),
        ({"return_code": 3}, "error", "", "it ended with exit status 3"),
        ({"status": "TimeLimitExceeded", "return_code": None}, "limit", "time", "the service's"),
        ({"return_code": 1, "stderr": "MemoryError\n"}, "limit", "memory", "the service's"),
        ({"stdout": "x" * 300_000}, "limit", "output", "the service's"),
        ({"status": "Error", "return_code": None}, "sandbox", "", "the service reports 'Failed'"),
        ({"return_code": None}, "sandbox", "", "the service reports"),
    ],
)
def test_classes(result: dict[str, Any], status: str, limit: str, detail: str) -> None:
    with service(lambda *_: answered(**result)) as (url, seen):
        done = run(url)
    assert (done.status, done.limit) == (status, limit)
    assert done.detail.startswith(detail)
    assert len(done.stdout) <= SandboxLimits().output
    assert len(seen) == (4 if status == "sandbox" else 1)


@pytest.mark.parametrize(
    "bad",
    [(500, b"oops"), (429, b""), (0, b""), (200, b"<html>"), (200, b"[]"),
     (200, b'{"status": "SandboxError", "message": "no pod"}')],
)  # fmt: skip
def test_failures_are_tried_again(bad: Reply) -> None:
    with service(lambda _, number: bad if number < 3 else answered(stdout="1\n")) as (url, seen):
        done = run(url)
    assert (done.stdout, done.status, done.attempts, len(seen)) == ("1\n", "ok", 3, 3)


def test_a_service_that_stays_broken_is_invalid() -> None:
    with service(lambda *_: (200, b'{"status": "SandboxError", "message": "no pod"}')) as (url, _):
        done = run(url)
    assert (done.status, done.attempts) == ("sandbox", 3)
    with pytest.raises(EnvError, match="no pod"):
        done.checked()
    done = run(url)  # nobody listens any more
    assert done.status == "sandbox" and "Connection refused" in done.detail


def test_a_refused_request_is_not_repeated() -> None:
    with service(lambda *_: (422, b"code: field required")) as (url, seen):
        done = run(url)
    assert (done.status, len(seen)) == ("sandbox", 2)  # and a plain program once
    assert "answered 422: code: field required" in done.detail


def test_no_more_than_size_at_once() -> None:
    now, most, lock, three = 0, 0, threading.Lock(), threading.Barrier(3)

    def reply(*_: object) -> Reply:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        three.wait(30)  # as many at once as may be, however slow the machine is
        threading.Event().wait(0.02)
        with lock:
            now -= 1
        return answered()

    with service(reply) as (url, _), ThreadPoolExecutor(12) as threads:
        sandbox = RemoteSandbox(url, size=3)
        assert all(done.ok for done in threads.map(sandbox.execute, ["1"] * 12))
    assert most == 3


@pytest.mark.parametrize("url", ["sandbox:8080", "ftp://host", "http://"])
def test_addresses(url: str) -> None:
    with pytest.raises(ConfigError, match="expected http"):
        RemoteSandbox(url)
