"""An ordinary MCP server: notes by id, each with a title, lines and perhaps a pin.

python examples/mcp_notes/server.py             # speaks through standard input and output
python examples/mcp_notes/server.py 8123        # listens at http://127.0.0.1:8123/mcp
"""

import sys
from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

server = MCPServer("notes")
kept: dict[str, dict[str, Any]] = {}
NoteId = Annotated[str, Field(description="id of the note, such as N-1")]


def note_of(note_id: str) -> dict[str, Any]:
    if note_id not in kept:
        raise ToolError(f"there is no note {note_id}")
    return kept[note_id]


@server.tool()
def add_note(
    title: Annotated[str, Field(description="title of the note")],
    lines: Annotated[list[str], Field(description="its lines, from the first to the last")],
) -> dict[str, Any]:
    """Write a new note with these lines."""
    note_id = f"N-{len(kept) + 1}"
    kept[note_id] = {"title": title, "lines": lines, "pinned": False}
    return {"note_id": note_id}


@server.tool()
def add_line(
    note_id: NoteId, line: Annotated[str, Field(description="text of the new line")]
) -> dict[str, Any]:
    """Add a line to a note."""
    note_of(note_id)["lines"].append(line)
    return {"note_id": note_id, "lines": len(kept[note_id]["lines"])}


@server.tool()
def pin_note(
    note_id: NoteId,
    pinned: Annotated[bool, Field(description="true to pin it, false to unpin it")] = True,
) -> dict[str, Any]:
    """Pin a note, or unpin it."""
    note_of(note_id)["pinned"] = pinned
    return {"note_id": note_id, "pinned": pinned}


@server.tool()
def read_note(note_id: NoteId) -> dict[str, Any]:
    """Read a note."""
    return note_of(note_id)


@server.tool()
def find_notes(
    word: Annotated[str, Field(description="word in the title or in a line")],
) -> dict[str, str]:
    """Find notes that hold a word; gives their titles by id."""
    texts = {key: " ".join([n["title"], *n["lines"]]).lower() for key, n in kept.items()}
    return {key: kept[key]["title"] for key, text in texts.items() if word.lower() in text}


@server.tool()
def all_notes() -> dict[str, Any]:
    """Show everything: for the judge, never for the agent."""
    return {"notes": kept}


@server.tool()
def reset(notes: dict[str, dict[str, Any]]) -> None:
    """Begin again with these notes."""
    kept.clear()
    kept.update(notes)


if __name__ == "__main__":
    if sys.argv[1:]:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
