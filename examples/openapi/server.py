"""The REST service as an MCP server: each operation of its OpenAPI description is a tool.

python examples/openapi/server.py       # speaks through standard input and output
"""

import httpx2
from fastmcp import FastMCP
from service import app

# Requests reach the service within this process. So no port is opened, and each server that RODS
# starts has a store of its own. A service elsewhere: AsyncClient(base_url="https://..."), and its
# description from /openapi.json.
client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://store")
server = FastMCP.from_openapi(app.openapi(), client, name="equipment")

if __name__ == "__main__":
    server.run(show_banner=False)
