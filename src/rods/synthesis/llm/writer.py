"""The writer with a language model: plan, execute, rewrite, augment; a judge behind the gates.

Owns the order of the stages (arXiv 2606.19047, skill-aligned synthesis), what an attempt learns
from the ones before (blocked functions, hints, a patched initial configuration), and the lock by
which one thread at a time works in worlds.
"""

from __future__ import annotations

import dataclasses
import random
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, cast

from rods.abilities import state_access
from rods.env import Environment
from rods.errors import TaskError, WriterError
from rods.synthesis.base import Base, Readable
from rods.synthesis.chat import LlmWriterSettings
from rods.synthesis.chat.client import ChatClient
from rods.synthesis.chat.replies import Reply
from rods.synthesis.llm.critique import judge, learnt, patched
from rods.synthesis.llm.execute import execute, planned_of
from rods.synthesis.llm.plan import UNPARSED, CallPlan, Chat, make_plan
from rods.synthesis.llm.prompting import prompts_hash
from rods.synthesis.llm.rewrite import cohere, write
from rods.synthesis.planned import PlannedTurn, TurnTexts, assemble, signed, with_gap
from rods.synthesis.rejection import ErrorClass, Rejection
from rods.synthesis.structure.domains import domains_of
from rods.synthesis.structure.trace import stage_world
from rods.synthesis.writer import Groundwork, Writer, WriterOptions
from rods.task import Task


@contextmanager
def released(lock: threading.RLock) -> Generator[None]:
    """Give up a lock until the block ends; nothing happens in a thread that does not hold it."""
    with ExitStack() as after:
        with suppress(RuntimeError):  # this thread does not hold it
            lock.release()
            after.callback(lock.acquire)
        yield


UNPARSED_PLANS = 8  # in a row, after which nothing more is asked


class LlmWriter(Writer):
    """Proposes variants whose plans and messages a chat server writes."""

    name = "llm"

    def __init__(
        self,
        environment: Environment,
        chat: Chat,
        settings: LlmWriterSettings,
        ground: Groundwork | None = None,
    ):
        """Prepare; `ground`: renames seeds, and plans where `synthesis.llm.planner` says so."""
        self.worlds = threading.RLock()
        """Held while worlds are at work; released while the server is awaited."""
        self.parallel = settings.concurrency
        self._ground = ground or Groundwork()
        self._environment = environment
        self._server = chat
        self._chat: Chat = _Releasing(chat, self.worlds)
        self._settings = settings
        self._unparsed = 0

    def usage(self) -> Mapping[str, Mapping[str, float]]:
        """Return what the server was asked so far, by stage."""
        return self._server.usage() if isinstance(self._server, ChatClient) else {}

    def close(self) -> None:
        """End the connection to the server."""
        if isinstance(self._server, ChatClient):
            self._server.close()

    @property
    def _recipe(self) -> str:
        return f"llm:{self._settings.planner}@{prompts_hash()}"

    def propose(
        self, seed: Task, rng: random.Random, history: Sequence[Rejection] = ()
    ) -> Task | Rejection:
        """One variant of `seed`, ready for the gates.

        Raises `WriterError` where the server cannot be used at all (`fatal`), or not now (`down`).
        """
        history = () if "feedback" in self._settings.without else history
        # The world of the attempt before, which a patch fits; no gate knows one.
        number = (history[-1].base if history else 0) or rng.getrandbits(31)
        return self._signed(lambda: self._propose(seed, rng, number, history), number)

    def _signed(self, stage: Callable[[], Task | Rejection], number: int = 0) -> Task | Rejection:
        """Return what came of it; a rejection bears recipe and world."""
        try:
            made = stage()
        except WriterError as error:
            if error.suspends:
                raise
            made = Rejection("writer", ErrorClass.PIPELINE_EXCEPTION, str(error)[:300])
        if isinstance(made, Rejection):
            return dataclasses.replace(made, recipe=self._recipe, base=number)
        return made

    def _propose(
        self, seed: Task, rng: random.Random, number: int, history: Sequence[Rejection]
    ) -> Task | Rejection:
        sampling, narrative = rng.getrandbits(31), ""
        if self._settings.planner != "model":
            made = self._ground.plan(seed, rng, history)
        else:
            if isinstance(base := self._base(seed, number, history), Rejection):
                return base
            if isinstance(executed := self._plan(base, history, sampling), Rejection):
                silent = "feedback" in self._settings.without or executed.detail == UNPARSED
                return executed if silent else learnt(self._chat, base, executed, sampling)
            planned, narrative = executed
            gapped = self._gaps(base, planned, rng)
            made = gapped if isinstance(gapped, Rejection) else (base.task, gapped)
        if isinstance(made, Rejection):
            return made
        task, planned = made
        if isinstance(texts := self._word(planned, narrative, sampling), Rejection):
            return texts
        draft = dataclasses.replace(task, turns=assemble(planned, texts))
        return signed(draft, seed, task.provenance, self._recipe, number)

    def _base(self, seed: Task, number: int, history: Sequence[Rejection]) -> Base | Rejection:
        """The seed with other names and values, and with what earlier attempts patched."""
        rng = random.Random(number)
        renamed = seed if seed.is_stage else self._ground.rename(seed, rng)
        if isinstance(renamed, Rejection):
            return renamed
        access = state_access(self._environment)
        for failure in history:
            start = access.initial_state(renamed)
            values = patched(start.values, failure.patch) if failure.base == number else None
            if values is not None:
                changed = dataclasses.replace(start, values=values)
                renamed = access.with_initial_state(renamed, changed)
        try:
            return Base.of(self._environment, renamed)
        except TaskError as error:
            return Rejection("plan", ErrorClass.NO_PATTERN, str(error))

    def _plan(
        self, base: Base, history: Sequence[Rejection], sampling: int
    ) -> tuple[list[PlannedTurn], str] | Rejection:
        """Functions of each turn, executed in a fresh world, and the story around them."""
        narrative = "narrative" not in self._settings.without
        with stage_world(self._environment, base.task) as opened:
            world = cast("Readable", opened)
            state = world.public_state()
            plan = make_plan(self._chat, base, state, history, sampling, narrative=narrative)
            self._require_parsed(plan)
            if isinstance(plan, Rejection):
                return plan
            planned = execute(self._chat, base, world, plan, sampling)
        return planned if isinstance(planned, Rejection) else (planned, plan.narrative)

    def _require_parsed(self, plan: CallPlan | Rejection) -> None:
        """Raise `WriterError` where no plan of many in a row could be parsed: no other will."""
        unparsed = isinstance(plan, Rejection) and plan.detail == UNPARSED
        self._unparsed = self._unparsed + 1 if unparsed else 0
        if isinstance(plan, Rejection) and self._unparsed >= UNPARSED_PLANS:
            raise WriterError(
                f"no answer for {self._unparsed} plans in a row could be parsed, the last: "
                f"{plan.message!r}. Name another model (synthesis.llm.model).",
                fatal=True,
            )

    def _gaps(
        self, base: Base, planned: Sequence[PlannedTurn], rng: random.Random
    ) -> list[PlannedTurn] | Rejection:
        if base.task.is_stage:
            return list(planned)
        result: list[PlannedTurn] = []
        units = [unit for unit in base.units if base.task.turns[unit.last].ground_truth]
        kind_of = domains_of(base.environment).parameter
        for unit, turn in zip(units, planned, strict=True):
            made = with_gap(base.task, unit, turn, result, self._ground.may_blur, kind_of, rng)
            if isinstance(made, Rejection):
                return made
            result.append(made)
        return result

    def _word(
        self, planned: Sequence[PlannedTurn], narrative: str, sampling: int
    ) -> list[TurnTexts] | Rejection:
        references = self._ground.references
        texts = write(self._chat, planned, narrative, sampling, references=references)
        if isinstance(texts, Rejection) or "coherence" in self._settings.without:
            return texts
        return cohere(self._chat, planned, texts, narrative, sampling) or texts

    def review(self, seed: Task, variant: Task, rng: random.Random) -> Task | Rejection:
        """Judge what passed the gates; refine its words at most once."""
        sampling = rng.getrandbits(31)
        return self._signed(lambda: self._review(variant, sampling))

    def _review(self, variant: Task, sampling: int) -> Task | Rejection:
        verdict = judge(self._chat, self._environment, variant, sampling)
        if not verdict.repairable:
            return verdict.rejection or variant
        planned = planned_of(self._environment, variant)
        texts = write(self._chat, planned, "", sampling + 1, verdict.problem)
        if isinstance(texts, Rejection):
            return texts
        refined = dataclasses.replace(variant, turns=assemble(planned, texts))
        again = judge(self._chat, self._environment, refined, sampling + 2, verdict.problem)
        return (
            dataclasses.replace(bad, turns=refined.turns) if (bad := again.rejection) else refined
        )


def make_llm_writer(
    pool: Sequence[Task], environment: Environment, options: WriterOptions
) -> LlmWriter:
    """The writer that a configuration means; the server is asked for the first time by `propose`.

    Raises `ConfigError` where no server is named.
    """
    chosen = options.settings.section(LlmWriterSettings)
    chat = ChatClient(chosen, options.cache)
    ground = options.groundwork(pool, environment) if options.groundwork is not None else None
    return LlmWriter(environment, chat, chosen, ground)


class _Releasing:
    """A chat that releases the world lock while it waits."""

    def __init__(self, chat: Chat, worlds: threading.RLock):
        self._chat, self._worlds = chat, worlds

    def ask(self, *question: Any, **options: Any) -> Reply:
        """Ask the chat."""
        with released(self._worlds):
            return self._chat.ask(*question, **options)
