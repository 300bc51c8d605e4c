"""`function_call`: tools and a dialogue so far, then one response with calls, scored offline.

Owns single steps: where they come from (published files, or multi-turn tasks that are split) and
the world in which nothing is executed. Rewards of single steps are in `rods.recipes`.

    FunctionCallEnvironment(source="rods.envs.bfcl.world:BfclEnvironment").tasks(held_out=0.25)
"""

from pydantic import Field

from rods.config.base import Settings


class FunctionCallSettings(Settings):
    """`env.name = "function_call"`: single steps."""

    environment: str = "bfcl"
    """Environment whose tasks are split into single steps. They are its own tasks, or those of
    `env.tasks` in its format or in a published one."""
    result_chars: int = Field(default=0, ge=0)
    """Longer results in the dialogue of a split task are shortened with a visible notice; 0:
    never."""


SECTIONS = {"function_call": FunctionCallSettings}
