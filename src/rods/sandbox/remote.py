"""Client of a remote sandbox that speaks the SandboxFusion protocol (`POST /run_code`).

Owns the request and what an answer means. A service that is busy, broken or away is a failure of
the sandbox, never of the program; but a program that alone gets no answer, where another one runs,
is at fault itself.

    sandbox = RemoteSandbox("http://sandbox.example:8080", size=32)
    execution = sandbox.execute("print(1)").checked()
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from rods.infra.service import Service, ServiceFailure
from rods.infra.text import whole_text
from rods.sandbox.execution import MIB, Execution, Limit, SandboxLimits, last_line

GRACE_SECONDS = 40.0  # Seconds that an answer may take beyond what the program may


class RemoteSandbox:
    """Runs programs on a SandboxFusion service, `size` at once.

    Args beside those of `rods.infra.service.Service`:
        limits: Seconds, memory and output are asked for or kept; the service keeps the rest.
    """

    def __init__(
        self,
        url: str,
        size: int = 16,
        limits: SandboxLimits | None = None,
        retries: int = 3,
        patience: float = 0.5,
    ) -> None:
        self.limits = limits or SandboxLimits()
        self._fixed: dict[str, Any] = {
            "language": "python",
            "run_timeout": self.limits.seconds,
            "memory_limit_MB": max(1, self.limits.memory // MIB),
        }
        wait = self.limits.seconds + GRACE_SECONDS
        self._service = Service(
            url, "/run_code", "env.python_tool.sandbox", wait, retries, patience, size
        )

    def execute(self, code: str, stdin: str = "") -> Execution:
        """Run a program; the thread waits for its turn and for the answer."""
        body = self._fixed | {"code": code} | ({"stdin": stdin} if stdin else {})
        began = time.monotonic()
        try:
            plain = self._fixed | {"code": "print(1)"}
            execution, attempts = self._service.ask(body, self._understand, plain)
            return replace(execution, attempts=attempts)
        except ServiceFailure as failure:
            seconds, reason = time.monotonic() - began, str(failure)
            status = "error" if failure.refused else "sandbox"
            if failure.refused:
                reason = f"the sandbox runs other programs, but not this one: {reason}"
            return Execution(
                "", "", status, seconds, "", reason, returncode=1, attempts=failure.attempts
            )

    def _understand(self, found: object) -> Execution:
        if not isinstance(found, dict):
            kind = type(found).__name__
            raise ServiceFailure(f"{self._service.where} answered {kind}, expected object", True)
        answer: dict[str, Any] = found
        part = answer.get("run_result")
        ran: dict[str, Any] = part if isinstance(part, dict) else {}
        ended = ran.get("status") == "Finished" and ran.get("return_code") is not None
        if ended or ran.get("status") == "TimeLimitExceeded":
            return self._of(ran)
        raise ServiceFailure(
            f"the service reports {answer.get('status')!r}: {answer.get('message') or answer}", True
        )

    def _of(self, part: dict[str, Any]) -> Execution:
        stdout, stderr = (whole_text(str(part.get(name) or "")) for name in ("stdout", "stderr"))
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
