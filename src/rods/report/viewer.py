"""Trajectories as plain data for the page's viewer. Owns which are shown; the page draws them.

A report shows a sample of the run: whole groups, spread over training, those with different rewards
first. How many are shown out of how many is part of the data. Texts are passed as they are: the
page sets them as text, never as markup.

    view = trajectory_view(run, decode=decoder_for(run))
    view["groups"][0]["members"][0]["messages"]
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TypeAlias, cast

from rods.config.bundled import local_path
from rods.errors import PrerequisiteError, StoreError
from rods.report.heldout import category_words
from rods.report.run_data import JudgedGroup, RunData
from rods.trajectory import Step
from rods.trajectory_codec import Signaled, read_signals
from rods.types import Json, Message, StopReason

Decode: TypeAlias = Callable[[Sequence[int]], str]
"""Token ids to text, special tokens included."""

FOLDER = "trajectories"
MAX_FILES = 8
"""Files of trajectories that a report shows, spread over the run."""
GROUPS_PER_FILE = 4
MAX_MEMBERS = 16
MAX_CHARS = 20_000
"""Characters of one text that a report shows."""
LIMITS = {"generated": "generated tokens", "context": "context tokens"}
"""Stop reasons whose value does not name the limit that was reached."""
SHOWN_FIELDS = ("member", "solved", "official", "failure", "temperature", "n_turns")
"""Fields of a trajectory that the page shows as they are."""


def trajectory_view(run: RunData, decode: Decode | None = None) -> dict[str, Json]:
    """What the viewer needs: `groups`, and `note` saying what is shown and what is missing.

    Without `decode`, token spans are shown by their length.
    """
    files = sorted((run.path / FOLDER).glob("*.parquet"))
    if not files:
        return {"groups": [], "note": "No trajectories are stored in this run."}
    number = min(len(files), MAX_FILES)  # at equal distances, the first and the last included
    chosen = [files[round(i * (len(files) - 1) / max(1, number - 1))] for i in range(number)]
    judgements: dict[tuple[str, int], list[JudgedGroup]] = defaultdict(list)
    for step, judged in run.judgements:
        judgements[judged.task_id, step].append(judged)
    views: list[Json] = []
    faults: list[str] = []
    stored = shown = 0
    for path in chosen:
        try:
            groups = _groups(read_signals(path))
        except (StoreError, PrerequisiteError) as error:
            faults.append(f" {path.name} was left out: {error}")
            continue
        stored += sum(len(group) for group in groups)
        pairs = [(group, _judgement(judgements, group[0][0].task_id, path)) for group in groups]
        for group, judged in sorted(pairs, key=_differing_first)[:GROUPS_PER_FILE]:
            members = group[:MAX_MEMBERS]
            shown += len(members)
            views.append(_group_view(members, judged, path.name, decode))
    read = len(chosen) - len(faults)
    note = f"Shown: {shown} of {stored} trajectories, from {read} of {len(files)} files."
    note += "".join(faults)
    if decode is None:
        note += " No tokenizer was found, so environment tokens are shown by their number only."
    return {"groups": views, "note": note}


def decoder_for(run: RunData) -> Decode | None:
    """The decoder of the tokenizer that lies in the run or its model's folder, bundled or not.

    `None` where there is none or `tokenizers` is not installed: the viewer does without.
    """
    name = str(run.setting("model.name") or "")
    places = [run.path, *sorted(run.path.glob("checkpoint*/**/"))]
    if name:
        places.append(local_path(name))
    found = [p / "tokenizer.json" for p in places if (p / "tokenizer.json").is_file()]
    try:
        from tokenizers import Tokenizer
    except ImportError:
        return None
    if not found:
        return None
    tokenizer = Tokenizer.from_file(str(found[0]))
    return lambda ids: tokenizer.decode(list(ids), skip_special_tokens=False)


def _groups(rows: Iterable[Signaled]) -> list[list[Signaled]]:
    """Whole groups in the order of the file; an update may have several of one task."""
    # Not by version: members of a group that was in rollout during an update differ in it.
    groups: dict[tuple[str, int], list[Signaled]] = defaultdict(list)
    seen = Counter[tuple[str, int]]()
    for row in rows:
        name, member = row[0].task_id, row[0].member
        groups[name, seen[name, member]].append(row)
        seen[name, member] += 1
    return [sorted(members, key=lambda row: row[0].member) for members in groups.values()]


def _differing_first(pair: tuple[Sequence[Signaled], JudgedGroup | None]) -> tuple[int, str]:
    """Sort key: groups of most different results first, then by task id."""
    group, _ = pair
    return -len({member.progress for member, _ in group if member.valid}), group[0][0].task_id


def stop_words(reason: str) -> str:
    """A stop reason for people: `done`, or `limit of calls`."""
    known = reason in [*StopReason] and reason not in (StopReason.DONE, StopReason.FAILURE)
    return f"limit of {LIMITS.get(reason, reason)}" if known else reason


def _judgement(
    judgements: Mapping[tuple[str, int], list[JudgedGroup]], task_id: str, path: Path
) -> JudgedGroup | None:
    """The next judgement of this task at the step in the file's name, or the task's first one."""
    step = path.stem.rpartition("-")[2]
    if step.isdecimal() and (found := judgements.get((task_id, int(step)))):
        return found.pop(0) if len(found) > 1 else found[0]
    return next((found[0] for (task, _), found in judgements.items() if task == task_id), None)


def _group_view(
    members: Sequence[Signaled], judged: JudgedGroup | None, file: str, decode: Decode | None
) -> dict[str, Json]:
    values, (first, _) = [member.progress for member, _ in members if member.valid], members[0]
    return {
        "task": first.task_id,
        "version": min(member.policy_version for member, _ in members),
        "category": category_words(judged.category) if judged else "",
        **{key: getattr(judged, key, "") for key in ("origin", "region")},
        "file": file,
        "mean": sum(values) / len(values) if values else None,
        "members": [member_view(member, decode) for member in members],
    }


def member_view(row: Signaled, decode: Decode | None) -> dict[str, Json]:
    """One trajectory: its numbers, `turns` with verdicts, `messages`, `spans` of tokens."""
    trajectory, signal = row
    return {
        "signal": signal and {"reward": signal.reward, "reward_parts": {**signal.reward_parts}},
        **{key: getattr(trajectory, key) for key in SHOWN_FIELDS},
        "progress": trajectory.progress, "stop": stop_words(trajectory.stop.value),
        "seconds": round(trajectory.seconds, 3), "cut": trajectory.cut_results,
        "turns": [{**asdict(v), "solved": v.solved} for v in trajectory.verdicts],
        "messages": _messages(trajectory.messages, trajectory.steps),
        "spans": _spans(row, decode),
    }  # fmt: skip


def _messages(messages: Sequence[Message], steps: Sequence[Step]) -> list[Json]:
    """Messages with their turn; the last assistant messages are the steps, others came before."""
    earlier = sum(message.role == "assistant" for message in messages) - len(steps)
    aligned = earlier >= 0
    written = chain([None] * earlier, steps)
    has_results = any(message.role == "tool" for message in messages)
    rows: list[Json] = []
    done = users = 0
    for message in messages:
        step = next(written) if aligned and message.role == "assistant" else None
        done += step is not None
        users += message.role == "user"
        turn = _turn(message, steps, done) if aligned and steps else users - 1
        row: dict[str, Json] = {
            "role": message.role,
            "content": _clip(message.content),
            "turn": None if message.role == "system" else turn,
            "calls": [str(call) for call in (step.calls if step else message.calls)],
        }
        if step:
            row |= _step_view(step, results=not has_results)
        rows.append(row)
    return rows


def _turn(message: Message, steps: Sequence[Step], done: int) -> int:
    """Turn of a message after `done` generations; a user message opens what follows it."""
    if message.role == "user":
        return steps[done].turn if done < len(steps) else steps[-1].turn + 1
    return steps[max(0, done - 1)].turn


def _step_view(step: Step, results: bool) -> dict[str, Json]:
    """What a generation adds to its message; `results` where no message of the chat holds them."""
    return {
        "verdict": step.verdict.value, "bad": step.verdict.is_error,
        "finish": step.finish.value, "tokens": step.tokens,
        "failed": [result.failed for result in step.results],
        "results": [_clip(result.content) for result in step.results] if results else [],
    }  # fmt: skip


def _spans(member: Signaled, decode: Decode | None) -> list[Json]:
    """Token spans: whether sampled, number, text, mean log-probability, mean advantage."""
    trajectory, signal = member
    texts = iter([step.text for step in trajectory.steps])
    advantages = signal.span_advantages if signal else [None] * len(trajectory.spans)
    rows: list[Json] = []
    for span, advantage in zip(trajectory.spans, advantages, strict=True):
        written = next(texts, None) if span.sampled else None
        text = decode(span.ids) if decode else written
        shown = None if text is None else _clip(text)
        mean = round(sum(span.logprobs) / len(span.logprobs), 3) if span.logprobs else None
        row = {"policy": span.sampled, "n": len(span.ids), "text": shown, "logprob": mean}
        rows.append(cast("Json", row | {"advantage": advantage and round(advantage, 4)}))
    return rows


def _clip(text: str) -> str:
    if len(text) <= MAX_CHARS:
        return text
    return f"{text[:MAX_CHARS]}\n[the report shows {MAX_CHARS} of {len(text)} characters]"
