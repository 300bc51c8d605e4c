"""`python_tool`: questions that are answered with a Python interpreter.

environment = PythonToolEnvironment()           # rods.envs.python_tool.environment
"""

from pydantic import Field

from rods.config.base import Settings
from rods.envs.questions import QuestionSettings


class PythonToolSettings(Settings):
    """`env.name = "python_tool"`."""

    sandbox: str = ""
    """Address of a SandboxFusion service; empty: the sandbox of this machine."""
    seconds: float = Field(default=10.0, gt=0)
    """Largest clock time and CPU time of one program, in seconds."""
    memory_mb: int = Field(default=512, ge=1)
    """MiB that one program may use, without the interpreter and the preloaded packages."""

    places = ("sandbox",)


SECTIONS = {"python_tool": PythonToolSettings, "questions": QuestionSettings}
