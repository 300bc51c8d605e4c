"""The client of a chat server. Knows nothing of tasks.

from rods.synthesis.chat.client import ChatClient
"""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from rods.config.base import Settings, one_or_many

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
    """Model of that server, or a table of models by stage: plan, execute, critic, rewrite,
    coherence, judge, and `all` for the others. Empty: the first one that the server lists."""
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
