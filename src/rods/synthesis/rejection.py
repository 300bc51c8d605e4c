"""Why a candidate was not accepted: stage and reason, as data.

A reason is one of the twelve error classes of arXiv 2606.19047 or the name of a gate.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from rods.infra.files import toml_of
from rods.task import Turn
from rods.types import Json


class ErrorClass(StrEnum):
    """The twelve classes of error of the paper's feedback loop."""

    PARAM_GEN_FAILED = "param_gen_failed"
    DECOMPOSE_FAILED = "decompose_failed"
    FUNC_SAMPLE_FAILED = "func_sample_failed"
    VM_EXEC_FAILED = "vm_exec_failed"
    DUPLICATE_FUNC = "duplicate_func"
    QUERY_GEN_FAILED = "query_gen_failed"
    QUERY_VERIFY_FAILED = "query_verify_failed"
    QUERY_VERIFY_NO_TAG = "query_verify_no_tag"
    CONVERSATION_CONSTRUCT_FAILED = "conversation_construct_failed"
    NO_PROMPTS = "no_prompts"
    NO_PATTERN = "no_pattern"
    PIPELINE_EXCEPTION = "pipeline_exception"


@functools.cache
def reasons() -> Mapping[str, str]:
    """Every reason in words (`reasons.toml`)."""
    return toml_of("synthesis", "reasons.toml")


def reason_words(reason: str) -> str:
    """A reason in words; the gate of somebody's own writer by its name."""
    return reasons().get(reason, reason.replace("_", " "))


@dataclass(frozen=True, slots=True)
class Rejection:
    """A rejected candidate."""

    stage: str
    """Where: `write`, `execute`, `gate`, or the name of a stage of a writer."""
    reason: str
    """An `ErrorClass` or the name of a gate: what statistics are counted by."""
    detail: str = ""
    """Description of the fault, for people (turn, call, value)."""
    recipe: str = ""
    """Recipe that made the candidate, where there was one."""
    tool: str = ""
    """The tool to blame: not planned again in the next attempts, unless a patch comes with it."""
    patch: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Dotted paths of the initial configuration to new values, for the next attempt."""
    base: int = 0
    """Number of the renamed world of the attempt: a patch fits the next one if it has it too."""
    message: str = ""
    """The user's message that a gate speaks of, or the first one."""
    turns: tuple[Turn, ...] = ()
    """Turns of the candidate, for people; empty where it was rejected before it had any."""


def blocked_by(history: Sequence[Rejection]) -> frozenset[str]:
    """Tools that failed and for which no later patch changed the world."""
    blocked: set[str] = set()
    for failure in history:
        if failure.patch:
            blocked.discard(failure.tool)
        elif failure.tool:
            blocked.add(failure.tool)
    return frozenset(blocked)
