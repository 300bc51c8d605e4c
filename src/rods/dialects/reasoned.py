"""What dialects share that write a thought, then calls as JSON in `<tool_call>`.

Owns the short thought of a demonstration and how JSON keeps tags unique. What such a dialect reads
is what a world is asked to do; the rewards of ToolRL and Tool-N1 read the text by themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rods.dialects.base import PlainDialect
from rods.dialects.jsonic import STRAY, Block, dump_call, read_blocks
from rods.errors import TaskError
from rods.types import Role, ToolCall


class Reasoned(PlainDialect):
    """Base of them: a thought, then calls or words in tags."""

    feedback_role: Role = "user"
    _tags = re.compile(r"</?(?:think|tool_call|response|user|obs)>")
    """What a text cannot hold."""
    _arguments: str
    """Key of a call's arguments."""
    _answer: str
    """An answer with its thought, around `WORDS`."""

    def _blocks(self, body: str) -> Iterator[Block]:
        """The blocks of a text; a closing tag by itself counts for nothing, as in ToolRL's code."""
        return (b for b in read_blocks(body, self._arguments) if b.fault != STRAY)

    def _thought(self, calls: Sequence[ToolCall]) -> str:
        """A short thought that names the tools."""
        names = ", ".join(dict.fromkeys(call.name for call in calls))
        return f"<think>I call {self._tags.sub('', names)}.</think>"

    def _lines(self, calls: Sequence[ToolCall]) -> list[str]:
        """Each call as JSON without "<", which stands in its texts alone; so tags stay unique."""
        lines = (dump_call(call, self._arguments, self.name) for call in calls)
        return [line.replace("<", "\\u003c") for line in lines]

    def answer(self, text: str) -> str:
        """A short thought and the words."""
        if self._tags.search(text):
            raise TaskError(f"an answer of the {self.name} dialect cannot hold its tags: {text!r}.")
        return self._answer.replace("WORDS", text.strip())
