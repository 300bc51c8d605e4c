"""Trajectories as plain data for the page's viewer. Owns which are shown; the page draws them.

A report shows a sample of the run: whole groups, spread over training, those with different rewards
first. How many are shown out of how many is part of the data. Texts are passed as they are: the
page sets them as text, never as markup.

    view = trajectory_view(run, decode=decoder_for(run))
    view["groups"][0]["members"][0]["messages"]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TypeAlias

from rods.config.bundled import local_path
from rods.errors import PrerequisiteError, StoreError
from rods.report.run_data import JudgedGroup, RunData
from rods.trajectory import Step, Trajectory
from rods.trajectory_codec import read_parquet
from rods.types import Json, Message

Decode: TypeAlias = Callable[[Sequence[int]], str]
"""Token ids to text, special tokens included."""

MAX_FILES, GROUPS_PER_FILE, MAX_MEMBERS, MAX_CHARS = 8, 4, 16, 20_000
FOLDER = "trajectories"
TAKEN = ("member", "solved", "official", "failure", "temperature", "n_turns")


def trajectory_view(run: RunData, decode: Decode | None = None) -> dict[str, Json]:
    """What the viewer needs: `groups`, and `note` saying what is shown and what is missing.

    Without `decode`, token spans are shown by their length.
    """
    files = sorted((run.path / FOLDER).glob("*.parquet"))
    if not files:
        return {"groups": [], "note": "No trajectories are stored in this run."}
    number = min(len(files), MAX_FILES)
    chosen = [files[round(i * (len(files) - 1) / max(1, number - 1))] for i in range(number)]
    judged = {(j.task_id, step): j for step, j in run.judgements}
    groups: list[Json] = []
    faults: list[str] = []
    in_files = shown = 0
    for path in chosen:
        try:
            found = _groups(read_parquet(path))
        except (StoreError, PrerequisiteError) as error:
            faults.append(f" {path.name} was left out: {error}")
            continue
        in_files += sum(map(len, found))
        # Groups whose members differ come first, then by task id.
        found.sort(key=lambda group: (-len({progress(t) for t in group}), group[0].task_id))
        for members in found[:GROUPS_PER_FILE]:
            kept = members[:MAX_MEMBERS]
            shown += len(kept)
            groups.append(_group(kept, _judgement(judged, members[0], path), path.name, decode))
    read = len(chosen) - len(faults)
    note = f"{shown} of {in_files} trajectories of {read} of {len(files)} files."
    note += "".join(faults)
    if decode is None:
        note += " No tokenizer was found, so environment tokens are shown by their number only."
    return {"groups": groups, "note": note}


def decoder_for(run: RunData) -> Decode | None:
    """The decoder of the tokenizer that lies in the run or its model's folder, bundled or not.

    `None` where there is none or `tokenizers` is not installed: the viewer does without.
    """
    name = str(run.setting("model.name") or "")
    places = [run.path, *sorted(run.path.glob("checkpoint*/**/"))]
    places += [local_path(name)] if name else []
    found = [p / "tokenizer.json" for p in places if (p / "tokenizer.json").is_file()]
    try:
        from tokenizers import Tokenizer
    except ImportError:
        return None
    if not found:
        return None
    tokenizer = Tokenizer.from_file(str(found[0]))
    return lambda ids: tokenizer.decode(list(ids), skip_special_tokens=False)


def _groups(trajectories: Iterable[Trajectory]) -> list[list[Trajectory]]:
    ordered = sorted(trajectories, key=attrgetter("policy_version", "task_id", "member"))
    return [list(found) for _, found in groupby(ordered, attrgetter("policy_version", "task_id"))]


def progress(trajectory: Trajectory) -> float:
    """Share of the task's turns that were solved, in [0, 1]."""
    return sum(v.solved for v in trajectory.verdicts) / max(1, trajectory.n_turns)


def _judgement(
    judged: Mapping[tuple[str, int], JudgedGroup], first: Trajectory, path: Path
) -> JudgedGroup | None:
    """The judgement of this group at the step in the file's name, or the task's first one."""
    step = path.stem.rpartition("-")[2]
    exact = judged.get((first.task_id, int(step))) if step.isdecimal() else None
    return exact or next((j for (task, _), j in judged.items() if task == first.task_id), None)


def _group(
    members: Sequence[Trajectory], judged: JudgedGroup | None, file: str, decode: Decode | None
) -> dict[str, Json]:
    values = [progress(t) for t in members if t.valid]
    return {
        "task": members[0].task_id,
        "version": members[0].policy_version,
        **{key: getattr(judged, key, "") for key in ("category", "origin", "region")},
        "file": file,
        "mean": sum(values) / len(values) if values else None,
        "members": [member_view(t, decode) for t in members],
    }


def member_view(t: Trajectory, decode: Decode | None) -> dict[str, Json]:
    """One trajectory: its numbers, `turns` with verdicts, `messages`, `spans` of tokens."""
    return {
        **{key: getattr(t, key) for key in TAKEN},
        "progress": progress(t), "stop": t.stop.value,
        "seconds": round(t.seconds, 3), "cut": t.cut_results,
        "turns": [{**asdict(v), "solved": v.solved} for v in t.verdicts],
        "messages": _messages(t.messages, t.steps),
        "spans": _spans(t, decode),
    }  # fmt: skip


def _messages(messages: Sequence[Message], steps: Sequence[Step]) -> list[Json]:
    """Messages with their turn; the last assistant messages are the steps, others came before."""
    earlier = sum(m.role == "assistant" for m in messages) - len(steps)
    aligned = earlier >= 0
    as_messages = any(m.role == "tool" for m in messages)
    rows: list[Json] = []
    done = users = 0
    for message in messages:
        step = None
        if message.role == "assistant" and earlier > 0:
            earlier -= 1
        elif message.role == "assistant" and aligned:
            step = steps[done]
            done += 1
        users += message.role == "user"
        turn = _turn(message, steps, done) if aligned and steps else users - 1
        row: dict[str, Json] = {
            "role": message.role,
            "content": _clip(message.content),
            "turn": turn if message.role != "system" else None,
            "calls": [str(c) for c in (step.calls if step else message.calls)],
        }
        if step:
            row |= {"verdict": step.verdict.value, "bad": step.verdict.is_error}
            row |= {"finish": step.finish.value, "tokens": step.tokens}
            row["failed"] = [r.failed for r in step.results]
            row["results"] = [] if as_messages else [_clip(r.content) for r in step.results]
        rows.append(row)
    return rows


def _turn(message: Message, steps: Sequence[Step], done: int) -> int:
    """Turn of a message after `done` generations; a user message opens what follows it."""
    if message.role == "user":
        return steps[done].turn if done < len(steps) else steps[-1].turn + 1
    return steps[max(0, done - 1)].turn


def _spans(trajectory: Trajectory, decode: Decode | None) -> list[Json]:
    """Token spans: whether sampled, how many tokens, their text, the mean log-probability."""
    texts = iter([s.text for s in trajectory.steps])
    rows: list[Json] = []
    for span in trajectory.spans:
        written = next(texts, None) if span.sampled else None
        text = decode(span.ids) if decode else written
        shown = None if text is None else _clip(text)
        mean = round(sum(span.logprobs) / len(span.logprobs), 3) if span.logprobs else None
        n = len(span.ids)
        rows.append({"policy": span.sampled, "n": n, "text": shown, "logprob": mean})
    return rows


def _clip(text: str) -> str:
    if len(text) <= MAX_CHARS:
        return text
    return f"{text[:MAX_CHARS]}\n[the report shows {MAX_CHARS} of {len(text)} characters]"
