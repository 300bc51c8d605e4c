"""Chat templates by increments: how turns are joined without ever tokenizing history again.

Owns the ids of the prompt and of what follows an assistant turn (tool results, feedback, the next
user message, the next assistant header). What the policy sampled is never rendered: increments come
from a synthetic conversation whose assistant text is a marker, so only what stands after the marker
is used. Never parses calls, knows no dialect.

    template = ChatTemplate(tokenizer)
    ids = template.prompt([Message("system", "..."), Message("user", "hi")], tools)
    ids += sampled                                   # ends with template.end_id
    ids += template.increment([Message("tool", "42")])
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

from jinja2 import TemplateError

from rods.dialects.base import TAG, opened_tags, tool_row
from rods.errors import PolicyError
from rods.infra.text import with_texts
from rods.types import Message, Role, ToolCall, ToolSpec, Value

_MARK = "rods0mark0of0the0assistant"
_PROBE = re.compile(r"Rods0\d+Text\d{3}")
_CALL_ID = "call{:05}".format
"""Nine letters and digits, which Mistral's templates ask for."""
_HEADER = re.compile(r"<[^\w\s/][^\s<>]*>")
"""A token around messages, such as `<|user|>`, and no tag."""


class ChatTemplate:
    """The chat template of a tokenizer, by increments."""

    def __init__(self, tokenizer: Any, stops: Iterable[int] = ()) -> None:
        """Learn how the template ends an assistant turn.

        Args:
            tokenizer: a `transformers` tokenizer with a chat template.
            stops: further ids that end a generation, those of the model's generation config.

        Raises:
            PolicyError: there is no chat template, or it does not end an assistant turn with a
                special token.
        """
        self.tokenizer = tokenizer
        if not getattr(tokenizer, "chat_template", None):
            where = getattr(tokenizer, "name_or_path", "") or "this tokenizer"
            raise PolicyError(
                f"{where} has no chat template, so turns cannot be joined. Use the model's "
                "instruction-tuned version, or put a chat_template.jinja into the model's folder."
            )
        added: Mapping[int, Any] = getattr(tokenizer, "added_tokens_decoder", {})
        special = [i for i, token in added.items() if getattr(token, "special", False)]
        self.special_ids: frozenset[int] = frozenset([*tokenizer.all_special_ids, *special])
        """Ids that mark boundaries; text of the environment can never contain them."""
        texts = {text for i in self.special_ids if len(text := self.raw_decode([i])) > 1}
        self._special_texts = sorted(texts, key=lambda text: (-len(text), text))
        self._lost: dict[tuple[object, ...], str] = {}
        """The role whose text the template leaves out, by case; empty: none."""
        self.end_id: int = self._find_end()
        """The end-of-turn token of the assistant."""
        ends = {self.end_id: None, self.tokenizer.eos_token_id: None, **dict.fromkeys(stops)}
        self.stop_ids: tuple[int, ...] = tuple(i for i in ends if i is not None)
        """Ids that end a generation: the end-of-turn token first, then the end-of-text token."""
        self._end_text = self.raw_decode([self.end_id])
        self.special_ids |= (headers := self._headers(added))
        self._special_texts += [self.raw_decode([i]) for i in headers]

    def _headers(self, added: Iterable[int]) -> set[int]:
        """Added tokens around messages that the tokenizer does not call special (DeepSeek's)."""
        ids = list[int]()
        for role in ("user", "tool"):
            with suppress(PolicyError):  # not every template takes results
                ids += self._following([Message(role, "r")], (), ())
        return {i for i in {*ids} & {*added} if _HEADER.fullmatch(self.raw_decode([i]))}

    @cached_property
    def renders_tools(self) -> bool:
        """True if the template shows tools; if not, describe them in the system message."""
        probe = ToolSpec(_MARK, _MARK, {"type": "object", "properties": {}})
        user = Message("user", "u")
        for start in ([Message("system", "s"), user], [user]):
            try:
                return _MARK in self._render(start, [probe])
            except PolicyError:
                continue  # some templates take no message of the system
        return False

    def opened(self, ids: Sequence[int]) -> str:
        """Text at the end of a prompt that already belongs to the assistant's message.

        `<think>\\n` where the template opens a thought in this round; mostly nothing. A dialect
        must see it in front of the sampled text.

        Args:
            ids: the context before a generation; those since the last one are enough.
        """
        start = len(ids)
        while start and (ids[start - 1] not in self.special_ids or ids[start - 1] in self._tags):
            start -= 1
        return opened_tags(self.raw_decode(ids[start:]))

    @cached_property
    def _tags(self) -> frozenset[int]:
        """Special tokens that are tags of messages, as `<think>` is one in some vocabularies."""
        texts = {self.raw_decode([i]): i for i in self.special_ids if i not in self.stop_ids}
        pairs = ((text, f"</{text[1:]}") for text in texts if TAG.fullmatch(text))
        return frozenset(texts[t] for pair in pairs if pair[1] in texts for t in pair)

    def prompt(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> list[int]:
        """Ids of the conversation so far, up to where the assistant starts to speak.

        Args:
            messages: system and user messages; their text cannot forge special tokens.
            tools: the tools that the template shows.

        Raises:
            PolicyError: the template refuses the conversation, leaves the text of a message out, or
                shows no tools.
        """
        if tools and not self.renders_tools:
            raise PolicyError(
                "the chat template does not show tools: describe them in the system message "
                "(Dialect.describe) and pass no tools."
            )
        text = self._render(messages, tools, generate=True)
        self._require_shown(messages, tools, lambda marked: self._render(marked, tools))
        return self.encode(text)

    def increment(
        self,
        messages: Sequence[Message],
        closed: bool = True,
        tools: Sequence[ToolSpec] = (),
        calls: Sequence[ToolCall] = (),
    ) -> list[int]:
        """Ids between an assistant turn and the next one.

        Args:
            messages: what follows the assistant's message; at least one.
            closed: False where the assistant was cut before its end-of-turn token; the ids then
                begin with that token.
            tools: those that the template showed in the prompt.
            calls: of the assistant's message; tool messages are their results, in order.

        Raises:
            PolicyError: the template refuses these messages after an assistant message, or leaves
                the text of one out.
        """
        if not messages:
            raise PolicyError("an increment needs at least one message.")
        shown = tools if tools and self._tools_matter else ()
        ids = self._following(messages, shown, calls)
        return ids[1:] if closed else ids

    def _following(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], calls: Sequence[ToolCall]
    ) -> list[int]:
        """Ids from the assistant's end-of-turn token on."""
        some = calls or (ToolCall("invalid"),)
        # Some templates want the id of a call in a tool's message, or a call in front of it.
        ways = [(calls, False), (some, False), (some, True)]
        for named, called in ways if messages[0].role == "tool" else ():
            with suppress(PolicyError):
                return self._joined(messages, tools, named, called)
        return self._joined(messages, tools, calls, called=False)

    def _joined(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        calls: Sequence[ToolCall],
        called: bool,
    ) -> list[int]:
        named = tuple(ToolCall(call.name) for call in calls)
        answer = Message("assistant", _MARK, named if called else ())

        def after(marked: Sequence[Message]) -> str:
            text = self._render([Message("user", "u"), answer, *marked], tools, calls=named)
            return self._after_mark(text)

        ids = self.encode(after(messages))
        start = next((i for i, token in enumerate(ids) if token in self.special_ids), -1)
        if called and self.end_id in ids:  # the call itself may be written with special tokens
            start = ids.index(self.end_id)
        if start < 0 or ids[start] != self.end_id:
            raise PolicyError(
                "the chat template does not end an earlier assistant message with "
                f"{self._end_text!r}, so turns cannot be joined by increments."
            )
        self._require_shown(messages, tools, after, called)
        return ids[start:]

    def _require_shown(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        render: Callable[[Sequence[Message]], str],
        called: bool = False,
    ) -> None:
        """Refuse messages of roles of which the template leaves out a text, once for each case.

        Probes stand in the place of the texts, because templates trim and escape what they show.
        """
        silent = [not m.content.strip() or bool(m.calls) for m in messages]
        case = (*(zip((m.role for m in messages), silent, strict=True)), bool(tools), called)
        if case not in self._lost:
            probes = [_probe(message.role, place) for place, message in enumerate(messages)]
            held = list(zip(messages, probes, silent, strict=True))
            text = render([m if quiet else replace(m, content=one) for m, one, quiet in held])
            there = {*_PROBE.findall(text)}
            lost = (m.role for m, one, q in held if not q and {*_PROBE.findall(one)} - there)
            self._lost[case] = next(lost, "")
        if self._lost[case]:
            raise PolicyError(
                f"the chat template leaves out the text of {self._lost[case]} messages, or a part "
                "of it, so the policy would never read it. Put a chat_template.jinja that shows "
                "them whole into the model's folder."
            )

    @cached_property
    def _tools_matter(self) -> bool:
        """True if the text after an assistant's message depends on whether tools are shown."""
        probe = ToolSpec("probe", "", {"type": "object", "properties": {}})

        def following(role: Role, tools: Sequence[ToolSpec]) -> list[int]:
            try:
                return self._following([Message(role, "r")], tools, (ToolCall(probe.name),))
            except PolicyError:
                return []

        return any(following(role, ()) != following(role, (probe,)) for role in ("tool", "user"))

    def written(self, message: Message, tools: Sequence[ToolSpec] = ()) -> str:
        """The assistant's text of a message, its calls in the words of the template.

        Raises:
            PolicyError: the template refuses calls, or does not show them where the assistant
                begins to speak.
        """
        if not message.calls:
            return self.neutral(message.content)
        user = Message("user", "u")
        before = self._render([user], tools)
        # What the header opens is the message's own, and another round may open nothing.
        before = before.removesuffix(self.opened(self.encode(before)))
        whole = self._render([user, message], tools, generate=False)
        text, end, _ = whole.removeprefix(before).partition(self._end_text)
        if not whole.startswith(before) or not end:
            raise PolicyError(
                "the chat template does not render calls at the start of an assistant message. Use "
                "another template."
            )
        return text

    def raw_prompt(self, text: str) -> list[int]:
        """Ids of a prompt that no template renders, after what the tokenizer puts before a text.

        That is the BOS token of many base models, never trained without. It is not put there twice.
        """
        ids, first = self.encode(text), self._first_ids
        return ids if ids[: len(first)] == first else [*first, *ids]

    @cached_property
    def _first_ids(self) -> list[int]:
        """Ids that the tokenizer's post-processor puts before a text; those behind are left out."""
        plain = self.encode("a")
        whole = list(self.tokenizer.encode("a", add_special_tokens=True))
        starts = range(len(whole) - len(plain) + 1)
        at = next((i for i in starts if whole[i : i + len(plain)] == plain), 0)
        return whole[:at]

    def encode(self, text: str) -> list[int]:
        """Ids of a text; special tokens in it are recognized, none are added."""
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def decode(self, ids: Sequence[int]) -> str:
        """Text of one generation without its end-of-turn token; tags of calls are kept."""
        end = len(ids)
        while end and ids[end - 1] in self.stop_ids:
            end -= 1
        return self.raw_decode(ids[:end])

    def digest(self) -> str:
        """First 16 hex digits of the SHA-256 of the template's text and its end-of-turn token."""
        body = json.dumps([self.tokenizer.chat_template, self._end_text], sort_keys=True)
        return hashlib.sha256(body.encode()).hexdigest()[:16]

    def neutral(self, text: str) -> str:
        """The text with special tokens broken up, so that it cannot forge a turn.

        Lone surrogates, which no tokenizer can encode, become visible escapes.
        """
        if not text.isascii():
            text = text.encode("utf-8", "backslashreplace").decode("utf-8")
        for special in self._special_texts:
            if special in text:
                text = text.replace(special, f"{special[0]} {special[1:]}")
        return text

    def _render(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        *,
        generate: bool = True,
        calls: Sequence[ToolCall] = (),
    ) -> str:
        """The template's text; `calls` are those of assistant messages that show none."""
        shown: Any = [{"type": "function", "function": tool_row(tool)} for tool in tools]
        try:
            text = self.tokenizer.apply_chat_template(
                _rows(messages, calls, self.neutral),
                tools=with_texts(shown, self.neutral) or None,
                add_generation_prompt=generate,
                tokenize=False,
            )
        except (ValueError, TypeError, LookupError, TemplateError) as error:
            roles = ", ".join(message.role for message in messages)
            raise PolicyError(
                f"the chat template refuses a conversation of these roles: {roles} ({error}). "
                "Put a chat_template.jinja that takes it into the model's folder."
            ) from error
        return cast("str", text)

    def _find_end(self) -> int:
        messages = [Message("user", "u"), Message("assistant", _MARK)]
        tail = self.encode(self._after_mark(self._render(messages, generate=False)))
        for token in tail:
            if token in self.special_ids:
                return token
        raise PolicyError(
            "the chat template does not end an assistant message with a special token, so the end "
            "of a turn cannot be seen. Use a template with an end-of-turn token."
        )

    def _after_mark(self, text: str) -> str:
        _, found, tail = text.partition(_MARK)
        if not found:
            raise PolicyError("the chat template does not show the text of assistant messages.")
        return tail

    def raw_decode(self, ids: Sequence[int]) -> str:
        """Text of ids as they are, special tokens included; what engines look for stops in."""
        # Llama 3's tokenizer would have transformers "clean up" the text: "a , b" becomes "a, b".
        return self.tokenizer.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )


# -- what templates read, and the tags with which they begin the assistant's message ------------


def _probe(role: Role, place: int) -> str:
    """Words that a template must show, in lines and tags; one of the assistant, who thinks."""
    first, tag, *more = (f"Rods0{place}Text{number:03}" for number in range(200))
    return first if role == "assistant" else "\n".join([f"{first} </think> <{tag}>", *more])


def _rows(
    messages: Sequence[Message], calls: Sequence[ToolCall], neutral: Callable[[str], str]
) -> list[Value]:
    """Messages as templates read them; a result has the name and the id of its call.

    `calls` are those of assistant messages that show none; `neutral` makes a text harmless.
    """
    rows: list[Value] = []
    answered = 0
    for message in messages:
        row: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.role == "assistant":
            calls, answered = message.calls or calls, 0
            if message.calls:
                named = [{"name": c.name, "arguments": dict(c.arguments)} for c in message.calls]
                row["tool_calls"] = [
                    {"type": "function", "id": _CALL_ID(i), "function": function}
                    for i, function in enumerate(named)
                ]
        elif message.role == "tool" and calls:
            call = min(answered, len(calls) - 1)
            row |= {"name": calls[call].name, "tool_call_id": _CALL_ID(call)}
            answered += 1
        rows.append(with_texts(row, neutral))
    return rows
