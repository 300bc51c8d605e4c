"""Supervised data: trajectories of runs and demonstrations as samples with a loss mask.

Owns the two kinds of rows and the rule that only the policy's own tokens carry loss. It never cuts
an example: one that is too long is left out and counted. A row of JSON lines or Parquet is one of

    {"task_id": "add-1-7", "pieces": [["What is 2 + 3?", false], ["It is 5.", true]]}
    {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello."}]}

Pieces are encoded one by one, as a rollout encodes insertions; special tokens in them are
recognized, and the end-of-turn token follows the last one. Messages go through the tokenizer's chat
template; only what assistants say carries loss. Trajectories of a run hold ids already.

    examples = read_examples([Path("runs/today")], template, vocabulary=512, most=4096)
    examples.samples, examples.failed, examples.long
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from rods.errors import StoreError
from rods.infra.files import is_table, table_rows
from rods.infra.rows import file_rows, listed, opened
from rods.infra.shards import ENDINGS, files_of
from rods.rollout.template import ChatTemplate
from rods.store import MANIFEST, RunDirectory
from rods.task import require_keys
from rods.trainers.samples import Sample
from rods.trajectory import Trajectory
from rods.trajectory_codec import read_parquet, template_in
from rods.types import Message, ToolCall, ToolSpec

ROLES = ("system", "user", "assistant", "tool")
NAMING = ("id", "type", "index", "name", "tool_call_id", "strict")  # the order says as much


@dataclass(frozen=True)
class Examples:
    """Examples that were read."""

    samples: list[Sample]
    rows: int
    """Rows of all files."""
    failed: int
    """Trajectories left out: invalid, or their reward is too low."""
    long: int
    """Examples left out because they have too many tokens."""

    @property
    def tokens(self) -> int:
        """Tokens of one pass, context included."""
        return sum(len(s) for s in self.samples)

    def digest(self) -> str:
        """First 16 hex digits of the SHA-256 of all ids and masks in order."""
        found = hashlib.sha256()
        for sample in self.samples:
            found.update(sample.ids.tobytes() + sample.mask.tobytes() + b"|")
        return found.hexdigest()[:16]


def read_examples(
    paths: Sequence[Path], template: ChatTemplate, vocabulary: int, most: int, least: float = 1.0
) -> Examples:
    """Read all files; a folder means the trajectories of a run, or a data set.

    Args:
        vocabulary: rows of the model's embedding.
        most: tokens of an example at most.
        least: least progress reward (solved turns over all turns) of a trajectory.

    Raises `StoreError` for a broken file or row, another chat template, or nothing to learn from.
    """
    samples: list[Sample] = []
    rows = failed = long = 0
    for path in paths:
        for file in _files(path):
            rows_of = _from_run if _is_run(file) else _from_rows
            for sample in rows_of(file, template, least):
                rows += 1
                if sample is None:
                    failed += 1
                elif len(sample) > most:
                    long += 1
                else:
                    if int(sample.ids.max()) >= vocabulary or int(sample.ids.min()) < 0:
                        raise StoreError(
                            f"{file}, task {sample.task_id}: token {int(sample.ids.max())} lies "
                            f"outside of the model's vocabulary of {vocabulary}; these "
                            "trajectories are of another model."
                        )
                    samples.append(sample)
    if not samples:
        names = ", ".join(str(p) for p in paths)
        raise StoreError(
            f"{names}: none of {rows} rows can be learnt from: the reward of {failed} is below "
            f"{least}, {long} have more than {most} tokens. Lower --least, or raise --max-tokens."
        )
    return Examples(samples, rows, failed, long)


def require_examples(paths: Sequence[Path]) -> None:
    """Raise `StoreError` for a file whose first row can be no example, whatever the model."""
    for file in (file for path in paths for file in _files(path)):
        rows = iter(()) if _is_run(file) else file_rows(file, "demonstrations", StoreError)
        for _, where, row in islice(rows, 1):
            try:
                _kinds_of(row)
            except ValueError as error:
                raise StoreError(f"{where}: {error}") from error


def _files(path: Path) -> list[Path]:
    folder = path / "trajectories" if (path / MANIFEST).is_file() else path
    files = files_of(folder, "examples", StoreError)
    for file in files:
        if not file.is_file():
            how = " `rods demonstrate` writes solved conversations." * (file.suffix == ".parquet")
            raise StoreError(f"{file}: there is no such file, folder or run.{how}")
        if file.suffix not in ENDINGS:
            raise StoreError(f"{file}: expected a file ({', '.join(ENDINGS)}), a run, a data set.")
    return files


def _is_run(file: Path) -> bool:
    """True if a file holds trajectories; otherwise it holds demonstrations."""
    names = ("steps", "verdicts")
    rows = table_rows(file, "examples", StoreError, names) if is_table(file) else iter(())
    return next(rows, ("", {}))[1].keys() >= {*names}


def _from_run(file: Path, template: ChatTemplate, least: float) -> Iterator[Sample | None]:
    """The trajectories of one file; None for each that is left out."""
    _same_template(file, template)
    for trajectory in read_parquet(file):
        good = trajectory.valid and trajectory.progress >= least and trajectory.ledger.generated
        yield sample_of(trajectory) if good else None


def sample_of(trajectory: Trajectory) -> Sample:
    """A trajectory as an example; its ids as they were sampled."""
    ledger = trajectory.ledger
    return _sample(ledger.ids, ledger.mask, trajectory.task_id, trajectory.member)


def _same_template(file: Path, template: ChatTemplate) -> None:
    """Refuse a file whose ids were made by another template."""
    run = file.parent.parent
    theirs = template_in(file)
    if not theirs and (run / MANIFEST).is_file():
        theirs = RunDirectory.open(run).manifest.get("template_hash")
    if theirs and theirs != template.digest():
        raise StoreError(
            f"{file}: its chat template is {theirs}, that of the model {template.digest()}. Token "
            "ids are learnt as they are: train the model that they were made with."
        )


def _sample(ids: Sequence[int], mask: Sequence[int], task_id: str, member: int) -> Sample:
    logprobs, carries = np.zeros(len(ids), dtype=np.float32), np.array(mask, dtype=np.bool_)
    return Sample(np.array(ids, dtype=np.int64), carries, logprobs, 1.0, task_id, member)


def _from_rows(file: Path, template: ChatTemplate, least: float) -> Iterator[Sample | None]:
    for number, where, row in file_rows(file, "demonstrations", StoreError):
        try:
            ids, mask = encode_row(row, template)
        except (ValueError, TypeError, LookupError, AttributeError, RuntimeError) as error:
            what = f"key {error} is missing" if isinstance(error, KeyError) else str(error)
            raise StoreError(f"{where}: {what}") from error
        reached = row.get("progress", least)  # of `rods convert --run`; null: it is invalid
        bad = reached is None or (isinstance(reached, int | float) and reached < least)
        yield None if bad else _sample(ids, mask, str(row.get("task_id") or where), number)


def encode_row(row: object, template: ChatTemplate) -> tuple[list[int], list[int]]:
    """Ids of one row of JSON and where they carry loss.

    Raises `ValueError`, `TypeError`, `LookupError` or `AttributeError` for a broken row, and
    `PolicyError` for one that the chat template refuses.
    """
    data, pieces, chat = _kinds_of(row)
    if pieces is not None:
        ids, mask = _encode_pieces(listed(pieces, "pieces", list), template)
    else:
        messages = [_message(m) for m in listed(chat, "messages")]
        tools = [_tool(t) for t in listed(data.get("tools"), "tools")]
        ids, mask = _encode_messages(messages, tools, template)
    if not any(mask) or mask[0]:
        raise ValueError("expected context first, and then at least one token that is trained.")
    return ids, mask


def _kinds_of(row: object) -> tuple[dict[str, Any], object, object]:
    """Return a row, its pieces and its messages; raises `ValueError` unless it has one of these."""
    data: dict[str, Any] = row if isinstance(row, dict) else {}
    pieces, chat = data.get("pieces"), data.get("messages")
    if "turns" in data and "world" in data:
        raise ValueError(
            "this is a task, not a solved conversation. Make these first: `rods demonstrate "
            "--model MODEL --env.tasks FILE --out cold.parquet`."
        )
    if (pieces is None) == (chat is None) or "spans" in data:  # a trajectory's ids would be lost
        raise ValueError("expected either `pieces` or `messages`; trajectories only as Parquet.")
    return data, pieces, chat


def _encode_pieces(pieces: Sequence[Any], template: ChatTemplate) -> tuple[list[int], list[int]]:
    ids: list[int] = []
    mask: list[int] = []
    trained = False
    for piece in pieces:
        text, trained = piece
        if not isinstance(text, str) or not isinstance(trained, bool):
            raise ValueError(f"a piece must be [text, true or false], got {piece!r:.80}.")
        # The first one is a prompt that no template renders, as in an inline rollout.
        new = template.encode(text) if ids else template.raw_prompt(text)
        ids += new
        mask += [int(trained)] * len(new)
    return [*ids, template.end_id], [*mask, int(trained)]


def _encode_messages(
    messages: Sequence[Message], tools: Sequence[ToolSpec], template: ChatTemplate
) -> tuple[list[int], list[int]]:
    """Encode a conversation as a rollout does; what follows the last answer goes."""
    answers = [i for i, m in enumerate(messages) if m.role == "assistant"]
    if not answers or answers[0] == 0:
        raise ValueError("expected a user's message, and then an assistant's.")
    ids = new = template.prompt(messages[: answers[0]], tools)
    mask = [0] * len(ids)
    for index, after in zip(answers, [*answers[1:], None], strict=True):
        text = _sampled(_written(messages[index], tools, template), template.opened(new))
        new = [*template.encode(text), template.end_id]
        ids = [*ids, *new]
        mask += [1] * len(new)
        between = () if after is None else messages[index + 1 : after]
        if after is None:
            break
        if not between:
            raise ValueError("two assistant messages follow each other; join them.")
        new = template.increment(between, tools=tools, calls=messages[index].calls)
        ids += new
        mask += [0] * len(new)
    return ids, mask


def _written(message: Message, tools: Sequence[ToolSpec], template: ChatTemplate) -> str:
    """An assistant's text; raises `ValueError` where the template leaves out a part of it."""
    text = template.written(message, tools)
    words, shown = ("".join(one.split()) for one in (template.neutral(message.content), text))
    names = [template.neutral(call.name) for call in message.calls]
    both = words in shown and all(text.count(name) >= names.count(name) for name in names)
    if names and (words == shown or not both):
        raise ValueError(
            "the chat template leaves out tool_calls or the content beside them, so they are lost. "
            "Write all into `content`, or name a model whose template shows both."
        )
    return text


def _sampled(text: str, opened: str) -> str:
    """Rest of an assistant's text where the prompt has opened it."""
    if not opened:
        return text
    begun = opened.rstrip()
    if not text.startswith(begun):
        raise ValueError(
            f"the chat template opens the assistant's message with {opened!r}, and this one begins "
            f"with {text[:40]!r}. Begin it so, or use a template that opens nothing."
        )
    return text.removeprefix(begun).removeprefix(opened[len(begun) :])


def _message(row: Any) -> Message:
    role, content = row["role"], row.get("content") or ""
    if role not in ROLES or not isinstance(content, str):
        raise ValueError(f"a message has role {role!r} and content of {type(content).__name__}; "
                         f"expected one of {', '.join(ROLES)}, and text.")  # fmt: skip
    require_keys("a message", row, ("role", "content", "tool_calls", *NAMING))
    calls = tuple(_call(c) for c in listed(row.get("tool_calls"), "tool_calls"))
    if calls and role != "assistant":
        raise ValueError(f"a message of role {role!r} has tool_calls; only assistants call.")
    return Message(role, content, calls)


def _call(row: Any) -> ToolCall:
    inner = opened(row.get("function", row), "a function")
    require_keys("a call", inner, ("arguments", *NAMING))
    arguments = opened(inner.get("arguments"), "arguments") or {}
    if not isinstance(arguments, dict):
        raise TypeError(f"the arguments of {inner['name']} are {arguments!r:.60}, not an object")
    return ToolCall(inner["name"], arguments)


def _tool(row: Any) -> ToolSpec:
    inner = opened(row.get("function", row), "a function")
    require_keys("a tool", inner, ("description", "parameters", *NAMING))
    schema = opened(inner.get("parameters"), "parameters") or {}
    return ToolSpec(inner["name"], inner.get("description") or "", schema)
