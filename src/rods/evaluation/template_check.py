"""Does joining turns by increments give what the chat template itself would render?

The comparator behind `rods check --model`. For several conversations it builds ids by increments
and lets the template render the whole. Special tokens must stand in the same order with the same
text of the environment between them; only what the assistant wrote may differ (a `<think>` that the
template puts into its header included), because templates rewrite history: Qwen3 strips earlier
think blocks. That is reported, not an error.

    report = check_template(tokenizer, "hermes")
    report.ok, report.digest, report.text()
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from os.path import commonprefix
from typing import Any, Literal, NamedTuple

from rods.dialects import Dialect, structured, structured_dialects
from rods.errors import PolicyError
from rods.rollout.template import ChatTemplate
from rods.tokens import Ledger
from rods.types import Json, Message, ParseVerdict, ToolCall, ToolResult, ToolSpec

LIST = ToolSpec(
    "list_files",
    "List the files of a folder.",
    {"type": "object", "properties": {"folder": {"type": "string"}}, "required": ["folder"]},
)
CALL = ToolCall("list_files", {"folder": "docs"})


class ToolUse(NamedTuple):
    """Verdict whether tools can be used, and a sentence or two that say so."""

    usable: bool
    text: str


@dataclass(frozen=True, slots=True)
class TemplateDiff:
    """One difference between the increments and the template's own rendering."""

    conversation: str
    kind: Literal["boundary", "unjoined", "history", "refused"]
    """`boundary`: an error. `unjoined`: a rollout could not go on, an error too. `history`:
    assistant text is rewritten. `refused`: cannot be rendered whole, so it was not compared."""
    text: str


@dataclass(frozen=True, slots=True)
class TemplateReport:
    """Result of the check; its digest goes into the run's manifest."""

    digest: str
    end_of_turn: str
    compared: int
    """Conversations that were compared whole."""
    findings: tuple[TemplateDiff, ...]
    tools: ToolUse
    """Verdict whether the model can be used with tools, in words."""

    @property
    def ok(self) -> bool:
        """True if turns can be joined and tools be used."""
        return self.joined and self.tools.usable

    @property
    def joined(self) -> bool:
        """True if at least one conversation was compared and no boundary differs."""
        return self.compared > 0 and not any(
            f.kind in ("boundary", "unjoined") for f in self.findings
        )

    def to_json(self) -> dict[str, Json]:
        """Plain JSON, for `--json` and the manifest."""
        findings: list[Json] = [asdict(finding) for finding in self.findings]
        tools: dict[str, Json] = {"tools": self.tools.usable, "tools_text": self.tools.text}
        return {"ok": self.ok, **asdict(self), **tools, "findings": findings}

    def text(self) -> str:
        """A verdict in one line, one about tools, then a line for each kind of finding."""
        verdict = "turns can be joined" if self.joined else "turns cannot be joined faithfully"
        places: dict[str, dict[str, None]] = {}
        for found in self.findings:
            places.setdefault(f"{found.kind}: {found.text}", {})[found.conversation] = None
        return "\n".join(
            [
                f"template {self.digest}: {verdict}; {self.compared} conversations compared, "
                f"a turn ends with {self.end_of_turn}",
                f"tools: {self.tools.text}",
                *(f"  {', '.join(named)}: {finding}" for finding, named in places.items()),
            ]
        )


class _Written(NamedTuple):
    """The assistant's text, and whether it was cut before its end-of-turn token."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    cut: bool = False


class _Case(NamedTuple):
    name: str
    tools: tuple[ToolSpec, ...]
    parts: Sequence[tuple[Message, ...] | _Written]
    """Messages of the environment and what the assistant said, in turn."""
    works: bool
    """True if calls, results or feedback are in it."""


def check_template(tokenizer: Any, dialect: str = "hermes") -> TemplateReport:
    """Compare increments with whole renderings of several conversations.

    Raises:
        PolicyError: there is no chat template, or it does not end an assistant's message.
    """
    template = ChatTemplate(tokenizer)
    spoken = structured(dialect)
    cases = _cases(spoken, template.renders_tools and not spoken.shows_tools)
    own = _reads(spoken, _own_call(template))
    compared = 0
    findings: list[TemplateDiff] = []
    for case in cases:
        ledger = None
        try:
            ledger = _by_increments(template, case)
            whole = _whole(template, case, own)
        except PolicyError as error:
            kind = "unjoined" if ledger is None else "refused"
            findings.append(TemplateDiff(case.name, kind, str(error)))
            continue
        compared += 1
        found = compare(template, ledger, whole)
        findings += [replace(finding, conversation=case.name) for finding in found]
    end = template.raw_decode([template.end_id])
    tools = _tools_in_words(template, dialect, _fault(cases, findings))
    return TemplateReport(template.digest(), end, compared, tuple(findings), tools)


def _fault(cases: Sequence[_Case], findings: Sequence[TemplateDiff]) -> str:
    """Fault of the conversations that have results; empty: none."""
    working = {case.name for case in cases if case.works}
    mine = [f for f in findings if f.conversation in working]
    for finding in mine:
        if finding.kind == "unjoined":
            return finding.text
        if finding.kind == "boundary":
            return (
                f'in the conversation "{finding.conversation}" the chat template writes something '
                "else than a rollout does, which the finding below shows. Put a "
                "chat_template.jinja that writes each round alike into the model's folder."
            )
    refused = [f for f in mine if f.kind == "refused"]
    return refused[0].text if len(refused) == len(working) else ""


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
        if (mine.special, mine.ids) == (other.special, other.ids):
            continue
        if mine.special != other.special or 1 not in mine.mask:
            return [*findings, _boundary(template, place, mine, other)]
        ours_shown, theirs_shown = _show(template, mine.ids), _show(template, other.ids)
        if ours_shown == theirs_shown:
            # Tokens merge over the joins of what was sampled; increments keep the sampled ones.
            text = f"assistant text {ours_shown} has other tokens as a whole"
            findings.append(TemplateDiff("", "history", text))
            continue
        first, last = mine.mask.index(1), len(mine.mask) - mine.mask[::-1].index(1)
        before, after = _without_thought(template, mine.ids[:first]), mine.ids[last:]
        if other.ids[: len(before)] != before or (after and other.ids[-len(after) :] != after):
            return [*findings, _boundary(template, place, mine, other)]
        text = f"assistant text {ours_shown} is rendered as {theirs_shown}"
        findings.append(TemplateDiff("", "history", text))
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


def _without_thought(template: ChatTemplate, header: list[int]) -> list[int]:
    """A header of the assistant up to the `<think>` that some templates put there themselves."""
    text = template.raw_decode(header)
    return template.encode(text[: text.index("<think>")]) if "<think>" in text else header


def _boundary(template: ChatTemplate, place: int, mine: _Segment, other: _Segment) -> TemplateDiff:
    both = ([s.special] * (s.special >= 0) + s.ids for s in (mine, other))
    ours, theirs = (_show(template, ids) for ids in both)
    text = f"segment {place}: {ours} by increments, {theirs} in the whole rendering"
    return TemplateDiff("", "boundary", text)


def _show(template: ChatTemplate, ids: Sequence[int]) -> str:
    return repr(template.raw_decode(ids))


def _by_increments(template: ChatTemplate, case: _Case) -> Ledger:
    ledger = Ledger()
    written = _Written("")
    for part in case.parts:
        if isinstance(part, _Written):
            ids = template.encode(part.text) + ([] if part.cut else [template.end_id])
            ledger.add_sampled(ids, [0.0] * len(ids), version=0)
            written = part
        elif len(ledger):
            ids = template.increment(part, not written.cut, case.tools, written.calls)
            ledger.add_context(ids)
        else:
            ledger.add_context(template.prompt(part, case.tools))
    return ledger


def _whole(template: ChatTemplate, case: _Case, own: bool, again: bool = True) -> list[int]:
    """The template's own rendering; calls as its own (`own`) or as text, whichever it takes."""
    messages: list[Message] = []
    for part in case.parts:
        if isinstance(part, _Written):
            calls = part.calls if own else ()
            messages.append(Message("assistant", "" if calls else part.text, calls))
        else:
            messages += part
    try:
        return template.prompt(messages, case.tools)
    except PolicyError:
        if not again:
            raise
        return _whole(template, case, not own, again=False)


def _cases(dialect: Dialect, tools_shown: bool) -> list[_Case]:
    tools = (LIST,) if tools_shown else ()
    start = (Message("system", dialect.system_prompt()), Message("user", "What is in docs?"))
    more = (Message("user", "Thanks. And in src?"),)
    one = dialect.results([CALL], [ToolResult("a.txt, b.txt")])
    two = dialect.results([CALL, CALL], [ToolResult("a.txt"), ToolResult("c.txt")])
    failed = dialect.results([CALL], [ToolResult("Error: no such folder", failed=True)])
    feedback = (Message(dialect.feedback_role, "Error: this is not a call."),)
    hello, done = _Written(dialect.answer("Hello.")), _Written(dialect.answer("Two files."))
    thought = _Written("<think>\nI should look.\n</think>\n\nTwo files.")
    calls, as_text = _Written(dialect.write([CALL]), (CALL,)), _Written(dialect.write([CALL]))
    both = _Written(dialect.write([CALL, CALL]), (CALL, CALL))
    talk = {
        "two turns": ((), start, hello, more),
        "three turns with tools": (tools, start, hello, more, done, more),
        "cut generation": ((), start, _Written("Two fi", cut=True), more),
        "earlier thoughts": ((), start, thought, more, thought, more),
    }
    work = {
        "call and result": (start, calls, one, done, more),
        "two calls": (start, both, two),
        "two rounds of results": (start, calls, one, calls, one, done, more),
        "two rounds of two results": (start, both, two, both, two),
        "results in two turns": (start, calls, one, done, more, calls, one, done, more),
        "call as text": (start, as_text, one, done, more),
        "failed call": (start, calls, failed, done, more),
        "feedback": (start, _Written("[list_files("), feedback, done, more),
        "results and next user": (start, calls, (*one, *more)),
    }
    return [
        *(_Case(name, offered, parts, False) for name, (offered, *parts) in talk.items()),
        *(_Case(name, tools, parts, True) for name, parts in work.items()),
    ]


# -- can tools be used? ----------------------------------------------------------------------------


def _tools_in_words(template: ChatTemplate, name: str, fault: str) -> ToolUse:
    """Check whether a dialect can be used with tools under a chat template, and what to do if not.

    Args:
        name: of a structured dialect.
        fault: what was wrong with conversations that have calls; empty: nothing.
    """
    dialect = structured(name)
    shown = template.renders_tools and not dialect.shows_tools
    if fault:
        return ToolUse(False, f"the model cannot be used with them: {fault}{_instead(template)}")
    where = "the chat template shows them" if shown else "the system message describes them"
    written = _own_call(template) if shown else ""
    unknown = f" It writes no calls: read whether it asks for those of the dialect {name}."
    advice = unknown if shown and not written else ""
    if written and not _reads(dialect, written):
        reader = _reader(written)
        if reader is None:
            others = structured_dialects().items()
            own = ", ".join(name for name, other in others if other.shows_tools)
            return ToolUse(
                False,
                "the model cannot be used with them as its chat template shows them: it writes "
                f"calls as {written.strip()[:120]!r}, which no dialect reads. Take one that "
                f"describes tools itself (--dialect {own}), or your own (module:attribute).",
            )
        if reader != name:
            advice = (
                f" The chat template has calls in the form of the dialect {reader}: take "
                f'model.dialect = "{reader}" unless the model is to learn {name}.'
            )
    return ToolUse(True, f"the model can be used with them; {where}.{advice}")


def _own_call(template: ChatTemplate) -> str:
    """The template's form of a call, with any thought; empty where it refuses or omits calls."""
    user, answer = Message("user", "u"), Message("assistant", "", (CALL,))
    tools = (LIST,) if template.renders_tools else ()
    try:
        texts = [template.raw_decode(template.prompt(m, tools)) for m in ([user], [user, answer])]
    except PolicyError:
        return ""
    same = commonprefix(texts)  # noqa: RUF071 (no paths)
    begun = re.sub(r"(?:<think>\s*)?(?:<[^<>]*)?\Z", "", same)  # less a thought, or half a tag
    written = texts[1].removeprefix(begun).partition(template.raw_decode([template.end_id]))[0]
    return written if CALL.name in written else ""


def _reads(dialect: Dialect, text: str) -> bool:
    """True if a dialect reads the text as the one call."""
    parsed = dialect.parse(text, {LIST.name: LIST}, truncated=False)
    return parsed.verdict is ParseVerdict.CALLS and parsed.calls == (CALL,)


def _reader(written: str) -> str | None:
    """The first dialect that reads a template's own call; None where there is none."""
    others = structured_dialects().items()
    return next((name for name, dialect in others if _reads(dialect, written)), None)


def _instead(template: ChatTemplate) -> str:
    """Advice to take a dialect whose results are messages of the user, where the template joins."""
    others = [name for name, one in structured_dialects().items() if _joins(template, one)]
    advice = f" Or take a dialect that writes results as a user's messages: {', '.join(others)}."
    return advice if others else ""


def _joins(template: ChatTemplate, dialect: Dialect) -> bool:
    results = dialect.results([CALL], [ToolResult("r")])
    if {dialect.feedback_role, *(message.role for message in results)} != {"user"}:
        return False
    try:
        template.prompt([Message("system", "s"), Message("user", "u")])
        template.increment(results)
    except PolicyError:
        return False
    return True
