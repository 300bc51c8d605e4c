"""The connection of a chat client, watched: what was sent, and whether the server counts as down.

Owns the count of requests without any answer; when there are too many in a row, the `openai`
package is told to repeat no more. It never repeats a request and never reads an answer.

    watch = Watch(timeout=120)
    openai.OpenAI(http_client=watch, max_retries=4)
    watch.down
"""

from __future__ import annotations

import threading
import time
from typing import Any

import httpx
import openai

SILENCES = 8
"""Requests in a row, of all stages, without any answer after which the server counts as down."""
LARGEST = 16 << 20
"""Bytes of an answer; of a longer one only the beginning is read."""
OF_THE_WIRE = ("content-encoding", "content-length", "transfer-encoding")
"""Headers that are not true of a body that was read."""
SILENT = frozenset({408, 409, 425})
"""HTTP states below 500 that are not an answer, either."""


class Watch(openai.DefaultHttpxClient):
    """One server's connections. One that hangs is given up after the time of two requests."""

    def __init__(self, timeout: float) -> None:
        super().__init__(timeout=timeout)
        self._seconds = timeout
        self._mine = threading.local()
        self._silences, self._since = 0, 0.0

    @property
    def requests(self) -> list[float]:
        """Where this thread's requests are noted, each with its seconds."""
        return self._mine.requests

    @requests.setter
    def requests(self, noted: list[float]) -> None:
        self._mine.requests = noted

    @property
    def down(self) -> bool:
        """Whether nobody has got an answer for a while."""
        hangs = time.monotonic() - self._since >= 2 * self._seconds
        return self._silences >= SILENCES or (hangs and self._silences > 1)

    def send(self, request: Any, **options: Any) -> Any:
        """One request, as the package sends it."""
        started, stream = time.monotonic(), options.pop("stream", False)
        try:
            response = super().send(request, stream=True, **options)
            if not stream:
                response = self._whole(response, started + self._seconds)
        except Exception as error:  # raised again: the package tells them apart
            if self._silent(started):  # its own errors are not repeated
                raise openai.APIConnectionError(request=request) from error
            raise
        finally:
            self.requests.append(time.monotonic() - started)
        if response.status_code < 500 and response.status_code not in SILENT:
            self._silences = 0
        elif self._silent(started):
            response.headers["x-should-retry"] = "false"
        return response

    def _whole(self, response: Any, deadline: float) -> Any:
        """The response with its body; of one without end the beginning, as a text.

        Raises:
            httpx.ReadTimeout: it came, but not whole in time.
        """
        parts, size = list[bytes](), 0
        try:
            for part in response.iter_bytes():
                parts.append(part)
                size += len(part)
                if size > LARGEST:
                    break
                if time.monotonic() > deadline:
                    raise httpx.ReadTimeout("the answer does not end", request=response.request)
        finally:
            response.close()
        headers = {k: v for k, v in response.headers.items() if k.lower() not in OF_THE_WIRE}
        body = b"".join(parts)
        if size > LARGEST:
            headers["content-type"] = "text/plain"
            body = f"more than {LARGEST} bytes: ".encode() + body[:1000]
        return httpx.Response(
            response.status_code, headers=headers, content=body, request=response.request
        )

    def _silent(self, started: float) -> bool:
        if not self._silences:
            self._since = started
        self._silences += 1
        return self.down
