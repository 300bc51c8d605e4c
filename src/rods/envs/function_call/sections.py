"""Settings of `function_call`.

rods train --env.name function_call --env.function_call.environment bfcl
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
