"""The scripted author as a chat without a server; tests may spoil its answers."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from rods.synthesis.chat.replies import find_json
from rods.types import Json
from scripted_author import ScriptedAuthor
from synthesis_cases import ENVIRONMENT, sides


@functools.cache
def author() -> ScriptedAuthor:
    return ScriptedAuthor(sides().train, ENVIRONMENT)


class Reply:
    def __init__(self, text: str):
        self.text = text
        self.data: Json = find_json(text)


class Chat:
    """The author without a server; `twist` may spoil an answer."""

    def __init__(self, twist: Callable[[str, str], str] = lambda stage, text: text):
        self.twist = twist
        self.stages: Counter[str] = Counter()
        self.prompts: list[tuple[str, str]] = []

    def ask(
        self,
        stage: str,
        messages: Sequence[Mapping[str, str]],
        *,
        seed: int = 0,
        schema: Mapping[str, Json] | None = None,
    ) -> Reply:
        self.stages[stage] += 1
        self.prompts.append((stage, messages[-1]["content"]))
        return Reply(self.answer(stage, messages, seed))

    def answer(self, stage: str, messages: Sequence[Mapping[str, str]], seed: int) -> str:
        return self.twist(stage, author()({"messages": messages, "seed": seed}))
