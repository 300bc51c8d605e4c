"""An HTTP service on loopback that answers what a test says, and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, bytes]
"""A status, or 0 to hang up, and the body."""


@contextmanager
def service(reply: Callable[[dict[str, Any], int], Reply]) -> Iterator[tuple[str, list[Any]]]:
    """A server that answers what `reply` makes of a request and its number; it keeps them."""
    seen: list[Any] = []
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                seen.append((self.path, body))
                number = len(seen)
            status, text = reply(body, number)
            if status == 0:
                self.connection.close()
                return
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            return

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            return

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answered(**run: Any) -> Reply:
    """What the service sends when the program ran."""
    result = {"status": "Finished", "execution_time": 0.25, "return_code": 0, "stdout": ""}
    result = result | {"stderr": ""} | run
    good = result["status"] == "Finished" and result["return_code"] == 0
    body = {"status": "Success" if good else "Failed", "message": "", "compile_result": None}
    return 200, json.dumps(body | {"run_result": result, "files": {}}).encode()
