"""MCP servers as stateful tool worlds: `session.py` starts and asks them, `world.py` judges.

rods check --env.name mcp --env.mcp.command "python server.py" --env.mcp.state list_notes
"""

from rods.config.base import Settings


class McpSettings(Settings):
    """`env.name = "mcp"`: the tools of a server of the Model Context Protocol."""

    command: str = ""
    """Starts a server, one for each trajectory; its files are named from the working directory."""
    url: str = ""
    """Address of a running server (streamable HTTP) instead; each trajectory is a session."""
    reset: str = ""
    """Tool of the server that sets the initial state (`world.reset` of a task holds its arguments);
    then started servers are used again."""
    state: str = ""
    """Read-only tool without arguments, or URI of a resource, that shows the state to the judge;
    empty: results alone are judged."""

    places = ("command", "url")


SECTIONS = {"mcp": McpSettings}
