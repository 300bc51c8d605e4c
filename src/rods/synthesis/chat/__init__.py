"""The client of a chat server: its settings and its address. Knows nothing of tasks.

from rods.synthesis.chat.client import ChatClient
"""

import base64
from typing import Annotated, Literal
from urllib.parse import unquote, urlsplit

from pydantic import BeforeValidator, Field

from rods.config.base import Settings, one_or_many
from rods.errors import ConfigError

Price = Annotated[float, Field(ge=0)]


def _of_all_stages(value: object) -> object:
    """Read a single name as the model of all stages."""
    return {"all": value} if isinstance(value, str) and value else value or {}


class LlmWriterSettings(Settings):
    """The writer `llm` and its chat server."""

    url: str = ""
    """Base URL of an OpenAI-compatible chat server."""
    model: Annotated[dict[str, str], BeforeValidator(_of_all_stages)] = Field(
        default_factory=dict[str, str]
    )
    """Model of that server, or a table of models by step of synthesis: plan, execute, critic,
    rewrite, coherence, judge, and `all` for the others. Empty: the first one that it lists."""
    planner: Literal["model", "graph"] = "model"
    """`model`: the model plans and executes. `graph`: a walk through the API graph does, and the
    model only writes messages."""
    without: Annotated[
        tuple[Literal["narrative", "coherence", "feedback"], ...], BeforeValidator(one_or_many)
    ] = ()
    """Ablations. `narrative`: plans contain no story. `coherence`: no rewriting of the whole
    conversation. `feedback`: an attempt learns nothing from the failed one before it."""
    concurrency: int = Field(default=8, ge=1)
    """Largest number of requests in flight at the chat server."""
    timeout: float = Field(default=120.0, gt=0)
    """Seconds that the chat server may take without sending anything."""
    max_tokens: int = Field(default=2048, ge=1)
    """Largest number of tokens in an answer of the chat server, its thinking included."""
    price: tuple[Price, Price] = (0.0, 0.0)
    """Price of a million prompt tokens and of a million answer tokens, in any currency. Log and
    tables then show the cost."""

    places = ("url", "concurrency", "timeout", "price")


SECTIONS = {"llm": LlmWriterSettings}


def split_address(url: str) -> tuple[str, str]:
    """The URL without credentials, and those as HTTP's basic authentication wants them.

    Raises `ConfigError` where it is empty, or not the URL of a server.
    """
    try:
        parts = urlsplit(url.strip())
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is not a number
        parts, usable = urlsplit(""), False
    pair, _, host = parts.netloc.rpartition("@")
    if not usable:
        raise ConfigError(
            "the writer llm needs the base URL of an OpenAI-compatible chat server, for example "
            f"--writer-url http://localhost:8000/v1. synthesis.llm.url: {url.rpartition('@')[2]!r}."
        )
    pair += "" if ":" in pair else ":"
    login = base64.b64encode(unquote(pair).encode()).decode() if pair.strip(":") else ""
    return f"{parts.scheme}://{host}{parts.path}", login
