"""A server without the SDK, which starts at once and misbehaves when it is asked to.

Its state is the list of items in memory. Words: `shared=FILE` keeps them in a file for all;
`names=a,b` adds tools; `slow` never answers the handshake; `late` ends only when it is killed;
`mute` refuses to list its tools; `cursor=TEXT` names a further page after each page of them.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

WORDS = dict(word.partition("=")[::2] for word in sys.argv[1:])
TEXT = {"type": "string"}
TOOLS = {
    "add": {"name": TEXT},
    "fail": {},
    "refuse": {},
    "die": {},
    "hang": {},
    "babble": {},
    "huge": {"size": {"type": "integer"}},
    "odd": {},
    "anything": {"value": True},
    "echo": {"value": {}},
    "draw": {},
    "folder": {},
    "child": {},
    "items": {},
    "reset": {"items": {"type": "array"}},
    "keep": {},
}
items: list[str] = json.loads(Path("start.json").read_text()) if Path("start.json").exists() else []


def text(value: str, failed: bool = False, **more: object) -> dict[str, object]:
    return {"content": [{"type": "text", "text": value}], "isError": failed, **more}


def held() -> list[str]:
    path = Path(WORDS.get("shared", "/nowhere"))
    return json.loads(path.read_text()) if path.exists() else items


def add(name: str) -> None:
    items[:] = [*held(), name]
    if "shared" in WORDS:
        Path(WORDS["shared"]).write_text(json.dumps(items))


def called(name: str, given: dict[str, object]) -> dict[str, object]:
    if name == "add":
        add(str(given["name"]))
        return text(f"{len(held())} items", structuredContent={"count": len(held())})
    if name == "die":
        sys.stderr.write("out of paper\n")
        os._exit(3)
    if name == "hang":
        time.sleep(60)
    if name == "babble":
        sys.stdout.write("hello, I am a print\n")
    if name == "child":
        return text(str(subprocess.Popen(["sleep", "600"]).pid))
    if name == "reset":
        items[:] = given.get("items", [])  # type: ignore[assignment]
    if name == "keep":
        WORDS["kept"] = "yes"
    found = {
        "fail": text("the shelf is full", failed=True),
        "huge": text("x" * int(str(given.get("size", 0)))),
        "odd": text("caf\u00e9 \u2028 \U0001f600 \0"),
        "echo": text(json.dumps(given)),
        "draw": text(str(time.time_ns())),
        "folder": text(json.dumps([os.getcwd(), sorted(os.listdir())])),
        "items": {
            "content": [],
            "structuredContent": {"items": held(), **({"k": 1} if "kept" in WORDS else {})},
        },
    }
    return found.get(name, text("done" if name in TOOLS else f"{name} was called"))


def answer(request: dict[str, object]) -> dict[str, object]:
    given = request.get("params") or {}
    if request["method"] == "initialize":
        if "slow" in WORDS:
            time.sleep(60)
        info = {"name": "plain", "version": "1"}
        known = {"tools": {}, "resources": {}}
        return {"protocolVersion": "2025-06-18", "capabilities": known, "serverInfo": info}
    if request["method"] == "tools/list":
        names = [*TOOLS, *filter(None, WORDS.get("names", "").split(","))]
        half, rest = names[:5], names[5:]
        shown = rest if given.get("cursor") else half
        rows = [
            {"name": name, "inputSchema": {"type": "object", "properties": TOOLS.get(name, {})}}
            for name in shown
        ]
        last = {"nextCursor": WORDS["cursor"]} if "cursor" in WORDS else {}
        return {"tools": rows, **(last if given.get("cursor") else {"nextCursor": "more"})}
    if request["method"] == "resources/read":
        part = {"uri": given["uri"], "text": json.dumps({"items": held()})}
        return {"contents": [part]}
    return called(given["name"], given.get("arguments") or {})


def main() -> None:
    if "late" in WORDS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        reply: dict[str, object] = {"jsonrpc": "2.0", "id": request["id"]}
        named = (request.get("params") or {}).get("name")
        if named == "refuse" or (request["method"] == "tools/list" and "mute" in WORDS):
            reply["error"] = {"code": -32602, "message": "no such shelf"}
        else:
            reply["result"] = answer(request)
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()
    if "late" in WORDS:
        time.sleep(60)


if __name__ == "__main__":
    main()
