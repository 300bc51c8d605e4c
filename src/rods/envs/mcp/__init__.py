"""MCP servers as stateful tool worlds: `session.py` starts and asks them, `world.py` judges.

rods check --env.name mcp --env.mcp.command "python server.py" --env.mcp.state list_notes
"""
