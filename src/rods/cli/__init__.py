"""The program `rods`: one file a command."""
