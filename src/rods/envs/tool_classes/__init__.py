"""Any Python class as a stateful tool world: RODS on your own API.

Owns nothing itself: `schema.py` reads type hints and docstrings, `state.py` copies and compares
public attributes, `world.py` opens, calls and judges. A hosted class needs no change.

    library = ToolClasses("library", [Library])             # env.name = "my_module:library"
"""

from rods.envs.class_world import ClassTasks, ToolClassWorld
from rods.envs.tool_classes.world import ToolClasses, ToolWorld

__all__ = ["ClassTasks", "ToolClassWorld", "ToolClasses", "ToolWorld"]
