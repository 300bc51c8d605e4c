"""Does joining turns by increments give what the chat template itself would render?

The comparator behind `rods check --template`. For several conversations it builds ids by increments
and lets the template render the whole. Special tokens must stand in the same order with the same
text of the environment between them; only what the assistant wrote may differ (a `<think>` that the
template puts into its header included), because templates rewrite history: Qwen3 strips earlier
think blocks. That is reported, not an error.

    report = check_template(tokenizer, "hermes")
    report.ok, report.digest, [str(finding) for finding in report.findings]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from rods.dialects import Dialect, structured
from rods.errors import PolicyError
from rods.rollout.template import ChatTemplate
from rods.tokens import Ledger
from rods.types import Json, Message, ToolCall, ToolResult, ToolSpec

LIST = ToolSpec(
    "list_files",
    "List the files of a folder.",
    {"type": "object", "properties": {"folder": {"type": "string"}}, "required": ["folder"]},
)


@dataclass(frozen=True, slots=True)
class TemplateDiff:
    """One difference between the increments and the template's own rendering."""

    conversation: str
    kind: Literal["boundary", "history", "refused"]
    """`boundary`: an error. `history`: assistant text is rewritten. `refused`: cannot be rendered
    whole, so it was not compared."""
    text: str

    def __str__(self) -> str:
        return f"{self.conversation}: {self.kind}: {self.text}"


@dataclass(frozen=True, slots=True)
class TemplateReport:
    """Result of the check; its digest goes into the run's manifest."""

    digest: str
    end_of_turn: str
    compared: int
    """Conversations that were compared whole."""
    findings: tuple[TemplateDiff, ...]

    @property
    def ok(self) -> bool:
        """Whether at least one conversation was compared and no boundary differs."""
        return self.compared > 0 and all(f.kind != "boundary" for f in self.findings)

    def to_json(self) -> dict[str, Json]:
        """Plain JSON, for `--json` and the manifest."""
        return {
            "ok": self.ok,
            "digest": self.digest,
            "end_of_turn": self.end_of_turn,
            "compared": self.compared,
            "findings": [
                {"conversation": f.conversation, "kind": f.kind, "text": f.text}
                for f in self.findings
            ],
        }

    def text(self) -> str:
        """A verdict in one line, then one line for each finding."""
        verdict = "turns can be joined" if self.ok else "turns cannot be joined faithfully"
        head = (
            f"template {self.digest}: {verdict}; {self.compared} conversations compared, "
            f"a turn ends with {self.end_of_turn}"
        )
        return "\n".join([head, *(f"  {finding}" for finding in self.findings)])


@dataclass(frozen=True, slots=True)
class _Written:
    """What the assistant said: its text, and whether it was cut before its end-of-turn token."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    cut: bool = False


NATIVE = ("hermes", "llama")
"""Dialects whose calls a chat template writes itself; others stand in the text of the message."""


class _Case(NamedTuple):
    name: str
    tools: tuple[ToolSpec, ...]
    parts: tuple[tuple[Message, ...] | _Written, ...]
    """Messages of the environment and what the assistant said, in turn."""


def check_template(tokenizer: Any, dialect: str = "hermes") -> TemplateReport:
    """Compare increments with whole renderings of several conversations.

    Raises:
        PolicyError: there is no chat template, or it cannot be joined by increments at all.
    """
    template = ChatTemplate(tokenizer)
    findings: list[TemplateDiff] = []
    compared = 0
    spoken = structured(dialect)
    for case in _cases(spoken, template.renders_tools and not spoken.shows_tools):
        ledger = _by_increments(template, case)
        try:
            whole = _whole(template, case, dialect in NATIVE)
        except PolicyError as error:
            findings.append(TemplateDiff(case.name, "refused", str(error)))
            continue
        compared += 1
        findings += [
            TemplateDiff(case.name, f.kind, f.text) for f in compare(template, ledger, whole)
        ]
    end = tokenizer.decode([template.end_id], skip_special_tokens=False)
    return TemplateReport(template.digest(), end, compared, tuple(findings))


def compare(template: ChatTemplate, ledger: Ledger, whole: Sequence[int]) -> list[TemplateDiff]:
    """Differences between a ledger and the template's own ids of the same conversation.

    Returns:
        At most one `boundary` finding (the first), and one `history` finding for each assistant
        text that is written differently.
    """
    ours = _segments(template, ledger.ids, ledger.mask)
    theirs = _segments(template, whole, [0] * len(whole))
    findings: list[TemplateDiff] = []
    for place, (mine, other) in enumerate(zip(ours, theirs, strict=False)):
        if mine.special != other.special:
            return [*findings, _boundary(template, place, mine, other)]
        if mine.ids == other.ids:
            continue
        if 1 in mine.mask and _show(template, mine.ids) == _show(template, other.ids):
            # Tokens merge over the joins of what was sampled; increments keep the sampled ones.
            text = f"assistant text {_show(template, mine.ids)} has other tokens as a whole"
            findings.append(TemplateDiff("", "history", text))
            continue
        before, after = _environment_parts(mine)
        before = _without_thought(template, before)
        same_head = other.ids[: len(before)] == before
        same_tail = not after or other.ids[-len(after) :] == after
        if 1 not in mine.mask or not (same_head and same_tail):
            return [*findings, _boundary(template, place, mine, other)]
        texts = f"{_show(template, mine.ids)} is rendered as {_show(template, other.ids)}"
        findings.append(TemplateDiff("", "history", f"assistant text {texts}"))
    if len(ours) != len(theirs):
        text = f"{len(ours)} special tokens by increments, {len(theirs)} in the whole rendering"
        findings.append(TemplateDiff("", "boundary", text))
    return findings


class _Segment(NamedTuple):
    """A special token and the ordinary tokens up to the next one."""

    special: int
    ids: list[int]
    mask: list[int]


def _segments(template: ChatTemplate, ids: Sequence[int], mask: Sequence[int]) -> list[_Segment]:
    found = [_Segment(-1, [], [])]
    for token, sampled in zip(ids, mask, strict=True):
        if token in template.special_ids:
            found.append(_Segment(token, [], []))
        else:
            found[-1].ids.append(token)
            found[-1].mask.append(sampled)
    return found


def _environment_parts(segment: _Segment) -> tuple[list[int], list[int]]:
    """Ids before and after what the policy sampled in this segment."""
    if 1 not in segment.mask:
        return segment.ids, []
    first = segment.mask.index(1)
    last = len(segment.mask) - segment.mask[::-1].index(1)
    return segment.ids[:first], segment.ids[last:]


def _without_thought(template: ChatTemplate, header: list[int]) -> list[int]:
    """A header of the assistant up to the `<think>` that some templates put there themselves."""
    text = template.tokenizer.decode(header, skip_special_tokens=False)
    return template.encode(text[: text.index("<think>")]) if "<think>" in text else header


def _boundary(template: ChatTemplate, place: int, mine: _Segment, other: _Segment) -> TemplateDiff:
    def show(segment: _Segment) -> str:
        head = [segment.special] if segment.special >= 0 else []
        return _show(template, [*head, *segment.ids])

    text = f"segment {place}: {show(mine)} by increments, {show(other)} in the whole rendering"
    return TemplateDiff("", "boundary", text)


def _show(template: ChatTemplate, ids: Sequence[int]) -> str:
    return repr(template.tokenizer.decode(list(ids), skip_special_tokens=False))


def _by_increments(template: ChatTemplate, case: _Case) -> Ledger:
    ledger = Ledger()
    closed = True
    for part in case.parts:
        if isinstance(part, _Written):
            ids = template.encode(part.text) + ([] if part.cut else [template.end_id])
            ledger.add_sampled(ids, [0.0] * len(ids), version=0)
            closed = not part.cut
        elif len(ledger):
            ledger.add_context(template.increment(part, closed))
        else:
            ledger.add_context(template.prompt(part, case.tools))
    return ledger


def _whole(template: ChatTemplate, case: _Case, native: bool) -> list[int]:
    messages: list[Message] = []
    for part in case.parts:
        if isinstance(part, _Written):
            calls = part.calls if native else ()
            messages.append(Message("assistant", "" if calls else part.text, calls))
        else:
            messages += part
    return template.prompt(messages, case.tools)


def _cases(dialect: Dialect, tools_shown: bool) -> list[_Case]:
    tools = (LIST,) if tools_shown else ()
    call = ToolCall("list_files", {"folder": "docs"})
    written = dialect.write([call])
    start = (Message("system", dialect.system_prompt()), Message("user", "What is in docs?"))
    more = (Message("user", "Thanks. And in src?"),)
    one = dialect.results([call], [ToolResult("a.txt, b.txt")])
    two = dialect.results([call, call], [ToolResult("a.txt"), ToolResult("c.txt")])
    failed = dialect.results([call], [ToolResult("Error: no such folder", failed=True)])
    feedback = (Message(dialect.feedback_role, "Error: this is not a call."),)
    hello, done = _Written(dialect.answer("Hello.")), _Written(dialect.answer("Two files."))
    thought = _Written("<think>\nI should look.\n</think>\n\nTwo files.")
    return [
        _Case("two turns", (), (start, hello, more)),
        _Case("three turns with tools", tools, (start, hello, more, done, more)),
        _Case("call and result", tools, (start, _Written(written, (call,)), one, done, more)),
        _Case(
            "two calls", tools, (start, _Written(dialect.write([call, call]), (call, call)), two)
        ),
        _Case("call as text", tools, (start, _Written(written), one, done, more)),
        _Case("failed call", tools, (start, _Written(written, (call,)), failed, done, more)),
        _Case("feedback", tools, (start, _Written("[list_files("), feedback, done, more)),
        _Case("results and next user", tools, (start, _Written(written, (call,)), (*one, *more))),
        _Case("cut generation", (), (start, _Written("Two fi", cut=True), more)),
        _Case("earlier thoughts", (), (start, thought, more, thought, more)),
    ]
