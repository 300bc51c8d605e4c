"""A character-level tokenizer whose decode and encode are no inverses of each other.

`encode` joins some pairs into one id that `decode` spells like the two, so text decoded from the
ids `h`, `e` encodes to the id of `he`: re-tokenizing history would change it.

    tokenizer = FakeTokenizer()
    tokenizer.decode(tokenizer.encode("he")) == "he"
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Template
from jinja2.sandbox import ImmutableSandboxedEnvironment

SPECIAL = ["<|pad|>", "<|im_start|>", "<|im_end|>", "<|endoftext|>"]
PLAIN = ["<tool_call>", "</tool_call>", "<think>", "</think>"]
PAIRS = ["he", "ll", "in", "er", "st", "\n\n", "[a"]
FIRST = 100
"""Id of the character 0; below stand tags and pairs."""

CHATML = (
    "{%- if tools %}<|im_start|>system\n{{ messages[0].content }}\n"
    "{%- for tool in tools %}{{ tool | tojson }}\n{% endfor %}<|im_end|>\n{% endif %}"
    "{%- for m in messages %}"
    "{%- if m.role == 'tool' %}"
    "{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}<|im_start|>user{% endif %}"
    "\n<tool_response>\n{{ m.content }}\n</tool_response>"
    "{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}<|im_end|>\n{% endif %}"
    "{%- elif not (m.role == 'system' and tools) %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{%- for c in m.tool_calls or [] %}\n<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}'
    "\n</tool_call>{% endfor %}<|im_end|>\n{% endif %}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""ChatML as Qwen 2.5 writes it: a line end after the end-of-turn token, tool results joined."""


@cache
def _compile(template: str) -> Template:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)

    def raise_exception(message: str) -> None:
        raise ValueError(message)

    environment.globals["raise_exception"] = raise_exception
    return environment.from_string(template)


class FakeTokenizer:
    """Looks like a tokenizer of `transformers`."""

    name_or_path = "fake"
    eos_token_id: int | None = 3

    def __init__(
        self, chat_template: str | dict[str, str] | None = CHATML, tags_special: bool = False
    ) -> None:
        self.chat_template = chat_template
        self._specials = len(SPECIAL) + len(PLAIN) * tags_special
        self.pieces = {text: i for i, text in enumerate([*SPECIAL, *PLAIN, *PAIRS])}
        self._pattern = re.compile("|".join([*map(re.escape, self.pieces), "."]), re.DOTALL)
        self.texts = {i: text for text, i in self.pieces.items()}

    @property
    def all_special_ids(self) -> list[int]:
        return list(range(self._specials))

    def apply_chat_template(self, conversation: list[dict[str, Any]], **options: Any) -> str:
        assert options.pop("tokenize") is False
        assert self.chat_template
        text = self.chat_template
        if isinstance(text, dict):  # as transformers picks one of several
            text = text["tool_use" if options["tools"] and "tool_use" in text else "default"]
        return _compile(text).render(messages=conversation, **options)

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        found = self._pattern.findall(text)
        return [self.pieces.get(piece, FIRST + ord(piece[0])) for piece in found]

    def decode(
        self,
        token_ids: Sequence[int],
        *,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> str:
        return "".join(self.texts.get(i) or chr(i - FIRST) for i in token_ids)
