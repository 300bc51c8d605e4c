"""Runs in a browser: `rods view`. Pages on NiceGUI, queries in DuckDB; nothing leaves this machine.

from rods.view.server import serve_view
"""
