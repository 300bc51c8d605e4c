"""Client of a remote sandbox that speaks the SandboxFusion protocol (`POST /run_code`).

Owns the request, the retries, and what an answer means. A service that is busy, broken or away is a
failure of the sandbox, never of the program. It has no sessions: every execution is fresh.

    sandbox = RemoteSandbox("http://sandbox.example:8080", size=32)
    execution = (await sandbox.run("print(1)")).checked()
"""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, cast
from urllib.parse import urlsplit

from rods.errors import ConfigError
from rods.sandbox.execution import MIB, Execution, Limit, SandboxLimits, last_line

GRACE_SECONDS = 30.0
"""How long an answer may take beyond what the program and the compiler may."""
LARGEST_ANSWER = 64 * MIB
BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})


class RemoteFailure(Exception):
    """The service gave no usable answer."""

    def __init__(self, message: str, again: bool) -> None:
        super().__init__(message)
        self.again = again
        """Whether asking again may help."""


class RemoteSandbox:
    """Runs programs on a SandboxFusion service, `size` at once.

    Args:
        url: Address of the service, with or without `/run_code`.
        size: Requests at once; more callers wait.
        limits: Seconds, memory and output are asked for or kept; the service keeps the rest.
        compile_seconds: Time for the compiler, which Python has no use for.
        retries: How often to ask again when the service failed.
        language: The service's name of the language.
        patience: Seconds before the first repetition; doubled each time, with some chance in it.
    """

    def __init__(
        self,
        url: str,
        size: int = 16,
        limits: SandboxLimits | None = None,
        compile_seconds: float = 10.0,
        retries: int = 3,
        language: str = "python",
        patience: float = 0.5,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"sandbox url is {url!r}, expected http(s)://host[:port][/path]")
        self.limits = limits or SandboxLimits()
        self._https, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._path = parts.path.rstrip("/").removesuffix("/run_code") + "/run_code"
        self._fixed: dict[str, Any] = {
            "language": language,
            "compile_timeout": compile_seconds,
            "run_timeout": self.limits.seconds,
            "memory_limit_MB": max(1, self.limits.memory // MIB),
        }
        self._wait = self.limits.seconds + compile_seconds + GRACE_SECONDS
        self._retries, self._patience = retries, patience
        self._chance = random.Random()  # its own: training draws from the global one
        self._slots = threading.BoundedSemaphore(size)
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="remote-sandbox")

    async def run(self, code: str, stdin: str = "") -> Execution:
        """Run a program; a cancelled caller leaves the service to end it."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self.execute, code, stdin)

    def execute(self, code: str, stdin: str = "") -> Execution:
        """The same from a thread that may wait."""
        body = json.dumps(self._fixed | {"code": code} | ({"stdin": stdin} if stdin else {}))
        began = time.monotonic()
        reason, attempt = "", 0
        with self._slots:
            for attempt in range(1, self._retries + 2):
                try:
                    return replace(self._understand(self._ask(body.encode())), attempts=attempt)
                except RemoteFailure as failure:
                    reason = str(failure)
                    if not failure.again:
                        break
                if attempt <= self._retries:
                    time.sleep(self._patience * 2 ** (attempt - 1) * self._chance.uniform(0.5, 1.0))
        seconds = time.monotonic() - began
        return Execution("", "", "sandbox", seconds, detail=reason, returncode=1, attempts=attempt)

    def _ask(self, body: bytes) -> dict[str, Any]:
        kind = http.client.HTTPSConnection if self._https else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=self._wait)
        where = f"{self._host}:{connection.port}{self._path}"
        try:
            connection.request("POST", self._path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read(LARGEST_ANSWER + 1)
        except (OSError, http.client.HTTPException) as error:
            raise RemoteFailure(f"{where}: {type(error).__name__}: {error}", True) from error
        finally:
            connection.close()
        if answer.status != 200:
            excerpt = text[:200].decode(errors="replace")
            raise RemoteFailure(f"{where} said {answer.status}: {excerpt}", answer.status in BUSY)
        if len(text) > LARGEST_ANSWER:
            raise RemoteFailure(f"{where} answered more than {LARGEST_ANSWER} bytes", False)
        try:
            found = json.loads(text)
        except ValueError as error:
            raise RemoteFailure(f"{where} answered what is no JSON: {error}", True) from error
        if not isinstance(found, dict):
            raise RemoteFailure(f"{where} answered {type(found).__name__}, expected object", True)
        return cast("dict[str, Any]", found)

    def _understand(self, answer: dict[str, Any]) -> Execution:
        """What the service's answer means for the program."""
        compiled, ran = _stage(answer, "compile_result"), _stage(answer, "run_result")
        for part in (compiled, ran):
            if part.get("status") == "TimeLimitExceeded":
                return self._of(part)
        if compiled.get("status") == "Finished" and compiled.get("return_code"):
            return self._of(compiled)
        if ran.get("status") == "Finished" and ran.get("return_code") is not None:
            return self._of(ran)
        raise RemoteFailure(
            f"the service reports {answer.get('status')!r}: {answer.get('message') or answer}", True
        )

    def _of(self, part: dict[str, Any]) -> Execution:
        stdout, stderr = str(part.get("stdout") or ""), str(part.get("stderr") or "")
        code = int(part.get("return_code") or 0)
        seconds = float(part.get("execution_time") or 0.0)
        limit: Limit = ""
        if part.get("status") == "TimeLimitExceeded":
            limit = "time"
        elif max(len(stdout), len(stderr)) > self.limits.output:
            limit = "output"
        elif code and last_line(stderr).startswith("MemoryError"):
            limit = "memory"
        stdout, stderr = stdout[: self.limits.output], stderr[: self.limits.output]
        if limit:
            detail = f"the service's limit of {limit} was met"
            return Execution(stdout, stderr, "limit", seconds, limit, detail, code)
        detail = (last_line(stderr) or f"it ended with exit status {code}") if code else ""
        status = "error" if code else "ok"
        return Execution(stdout, stderr, status, seconds, detail=detail, returncode=code)

    async def aclose(self) -> None:
        """Wait for the requests under way and free the threads."""
        await asyncio.to_thread(self._threads.shutdown)


def _stage(answer: dict[str, Any], name: str) -> dict[str, Any]:
    """One stage of the answer; empty if it did not run."""
    part = answer.get(name)
    return cast("dict[str, Any]", part) if isinstance(part, dict) else {}
