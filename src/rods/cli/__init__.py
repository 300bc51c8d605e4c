"""The program `rods`: one file a verb."""
