"""Settings of the servers that some suites ask.

rods eval --suite tau2-retail --evaluation.suite.user.url http://localhost:8000/v1
"""

from rods.config.base import Settings


class ServerSettings(Settings):
    """Server of a second model in a suite."""

    url: str = ""
    """Base URL of an OpenAI-compatible chat server; RODS_WRITER_KEY holds its key."""
    model: str = ""
    """Model of that server; empty: the first one that it lists."""


class UserServerSettings(ServerSettings):
    """User simulator, for tasks that are conversations with a user."""


class JudgeServerSettings(ServerSettings):
    """Judge of assertions in natural language, for tasks that have them."""


SECTIONS = {"user": UserServerSettings, "judge": JudgeServerSettings}
