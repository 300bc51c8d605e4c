"""The numbered semantics of the rollout: what the policy reads, when, and what ends what."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from oracle import OraclePolicy
from rods.dialects import get_dialect
from rods.env import _warn  # pyright: ignore[reportPrivateUsage]
from rods.errors import EnvError, TaskError
from rods.infra.interrupt import shown
from rods.policy import Completion, ScriptedPolicy, Session, episode_seed
from rods.rollout.episode import RolloutContext
from rods.rollout.groups import run_episode
from rods.trajectory import Trajectory
from rods.types import FinishReason, ParseVerdict, StopReason, ToolCall
from rollout_cases import (
    DIALECT,
    TEMPLATE,
    NoisyPolicy,
    play,
    play_groups,
    read_by_policy,
    script,
    settings,
)
from worlds import NotesEnvironment, NotesWorld, fail_first, notes_task

ADD = ToolCall("add", {"amount": 2})
NOTE = ToolCall("note", {"text": "x"})
TWO = notes_task([("add two", [ADD]), ("and note x", [NOTE])])
ABSTAIN = notes_task([("note it", []), ("x", [NOTE])], withheld={0: ("note",)})


def roles(trajectory: Trajectory) -> list[str]:
    return [message.role for message in trajectory.messages]


def test_s01_the_prompt_is_system_tools_and_the_first_user_message() -> None:
    trajectory = play(TWO, script("ok", "ok"))
    prompt = TEMPLATE.tokenizer.decode(trajectory.spans[0].ids, skip_special_tokens=False)
    assert DIALECT.system_prompt() in prompt and '"name": "divide"' in prompt
    assert prompt.endswith("add two<|im_end|>\n<|im_start|>assistant\n")
    assert "and note x" not in prompt


def test_s02_results_follow_calls_in_their_order() -> None:
    trajectory = play(TWO, script("[add(amount=2), add(amount=5), read()]", "ok", "ok"))
    assert [r.content for r in trajectory.steps[0].results] == ["2", "7", ""]
    assert roles(trajectory)[2:6] == ["assistant", "tool", "tool", "tool"]
    assert trajectory.messages[2].calls == trajectory.steps[0].calls


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("[add(amount=2", ParseVerdict.MALFORMED),
        ("[add(amount=2), add()]", ParseVerdict.BAD_ARGS),
        ("[add(amount=2), gone()]", ParseVerdict.UNKNOWN_TOOL),
    ],
)
def test_s03_an_error_verdict_executes_nothing_and_gives_feedback(
    text: str, verdict: ParseVerdict
) -> None:
    environment = NotesEnvironment()
    trajectory = play(TWO, script(text, "ok", "ok"), environment)
    step = trajectory.steps[0]
    assert (step.verdict, step.results) == (verdict, ())
    assert environment.worlds[0].log == [] and environment.worlds[0].state.count == 0
    assert trajectory.messages[3].role == "tool"
    assert "Nothing was executed" in trajectory.messages[3].content


def test_s04_an_answer_ends_the_turn_and_the_next_user_message_follows() -> None:
    trajectory = play(TWO, script("[add(amount=2)]", "Added.", "[note(text='x')]", "Noted."))
    turn = ["user", "assistant", "tool", "assistant"]
    assert roles(trajectory) == ["system", *turn, *turn]
    assert [step.turn for step in trajectory.steps] == [0, 0, 1, 1]
    assert trajectory.solved and trajectory.official and trajectory.stop is StopReason.DONE
    warm = play(TWO, script("ok", "ok"), temperature=0.7)
    assert (warm.temperature, warm.policy_version, warm.member) == (0.7, 0, 0)


def test_s05_a_turn_without_answer_is_closed_after_its_steps() -> None:
    trajectory = play(TWO, script(*["[total()]"] * 4), steps_per_turn=2)
    assert [step.turn for step in trajectory.steps] == [0, 0, 1, 1]
    assert roles(trajectory)[4:7] == ["assistant", "tool", "user"]
    assert trajectory.stop is StopReason.DONE and len(trajectory.verdicts) == 2
    assert not trajectory.verdicts[0].answered


@pytest.mark.parametrize(("gives_up", "turns"), [(True, 1), (False, 2)])
def test_s05_an_environment_may_end_the_conversation_there(gives_up: bool, turns: int) -> None:
    environment: Any = NotesEnvironment()
    environment.gives_up = gives_up
    trajectory = play(TWO, script(*["[total()]"] * 4), environment, steps_per_turn=2)
    assert trajectory.stop is (StopReason.STEPS if gives_up else StopReason.DONE)
    assert len(trajectory.verdicts) == turns and trajectory.valid


def test_s06_tools_that_come_back_are_not_described_again() -> None:
    task = notes_task([("a", []), ("b", []), ("c", [])], withheld={1: ("note",)})
    trajectory = play(task, script("ok", "ok", "ok"))
    assert [m.content for m in trajectory.messages if m.role == "user"] == ["a", "b", "c"]


def test_s06_tools_of_a_later_turn_are_described_in_its_user_message() -> None:
    task = notes_task([("hm", []), ("", [NOTE])], withheld={0: ("note", "read")})
    trajectory = play(task, OraclePolicy(task, DIALECT, TEMPLATE))
    prompt = TEMPLATE.tokenizer.decode(trajectory.spans[0].ids, skip_special_tokens=False)
    assert "note" not in prompt
    later = [m.content for m in trajectory.messages if m.role == "user"][1]
    assert later == (
        "More functions are available now:\nnote(text: string, tag: string?) - Write a note.\n"
        "read() - Read all notes."
    )
    assert trajectory.solved


def test_s07_a_truncated_generation_is_never_executed() -> None:
    environment = NotesEnvironment()
    trajectory = play(TWO, script("[add(amount=2)]", "ok", "ok"), environment, step_tokens=5)
    assert trajectory.steps[0].verdict is ParseVerdict.TRUNCATED
    assert trajectory.steps[0].tokens == 5 and environment.worlds[0].log == []
    ids = trajectory.spans[2].ids
    assert ids[0] == TEMPLATE.end_id  # the missing end of turn is put in, without loss


def test_s08_calls_of_tools_not_offered_are_refused_and_counted() -> None:
    acted = play(ABSTAIN, script("[note(text='x')]", "no", "[note(text='x')]", "ok"))
    first = acted.verdicts[0]
    assert (first.calls, first.expects_calls, first.solved) == (1, False, False)
    assert acted.steps[0].verdict is ParseVerdict.UNKNOWN_TOOL and acted.verdicts[1].solved
    assert acted.steps[0].calls and not acted.messages[2].calls, "shown as what it wrote"
    inner = play(ABSTAIN, script("[add(amount=note(text='x'))]", "no", "[note(text='x')]", "ok"))
    assert inner.verdicts[0].calls == 1, "a call within a call is refused, too"
    malformed = play(ABSTAIN, script("[note(text='x'", "no", "[note(text='x')]", "ok"))
    assert (malformed.verdicts[0].calls, malformed.verdicts[0].solved) == (0, True)


def test_s09_to_abstain_is_to_answer() -> None:
    silent = play(ABSTAIN, script(*["[note("] * 2, "[note(text='x')]", "ok"), steps_per_turn=2)
    assert silent.verdicts[0].calls == 0 and not silent.verdicts[0].solved
    assert not silent.solved and silent.verdicts[1].solved


@pytest.mark.parametrize(("budget", "stop"), [(1, StopReason.TURNS), (2, StopReason.DONE)])
def test_s10_the_budget_of_turns(budget: int, stop: StopReason) -> None:
    trajectory = play(TWO, script("ok", "ok"), turns=budget)
    assert (trajectory.stop, len(trajectory.verdicts)) == (stop, budget)
    assert trajectory.valid and trajectory.n_turns == 2


@pytest.mark.parametrize(
    ("budget", "stop", "executed"),
    [(1, StopReason.CALLS, 1), (2, StopReason.CALLS, 2), (3, StopReason.DONE, 3)],
)
def test_s11_the_budget_of_calls(budget: int, stop: StopReason, executed: int) -> None:
    environment = NotesEnvironment()
    policy = script("[add(amount=1), add(amount=1), add(amount=1)]", "ok", "ok")
    trajectory = play(TWO, policy, environment, calls=budget)
    assert (trajectory.stop, len(environment.worlds[0].log)) == (stop, executed)
    assert len(trajectory.steps[0].results) == executed
    assert len(trajectory.verdicts) == (2 if stop is StopReason.DONE else 1)


def test_s12_the_budget_of_generated_tokens() -> None:
    policy = script("yes", "no")  # 4 and 3 tokens with their end
    assert play(TWO, policy, generated_tokens=7).stop is StopReason.DONE
    cut = play(TWO, policy, generated_tokens=6)
    assert (cut.stop, cut.ledger.generated) == (StopReason.GENERATED, 6)
    assert cut.steps[-1].verdict is ParseVerdict.TRUNCATED
    between = play(TWO, policy, generated_tokens=4)
    assert (between.stop, len(between.verdicts)) == (StopReason.GENERATED, 1)


def test_s13_the_budget_of_context_tokens() -> None:
    policy = script("yes", "no")
    whole = play(TWO, policy)
    size = len(whole.ledger)
    assert play(TWO, policy, context_tokens=size).stop is StopReason.DONE
    for budget in range(len(whole.spans[0].ids) + 1, size):
        cut = play(TWO, policy, context_tokens=budget)
        assert cut.stop is StopReason.CONTEXT and cut.valid
        assert len(cut.ledger) <= budget


def test_s14_a_prompt_that_does_not_fit_is_invalid_and_says_so() -> None:
    trajectory = play(TWO, script("ok"), context_tokens=64)
    assert not trajectory.valid and not trajectory.steps
    assert "rollout.context_tokens = 64. Raise it" in str(trajectory.failure)


def test_s15_a_failure_is_tried_once_more_in_a_fresh_world() -> None:
    environment = NotesEnvironment(fail_first(1))
    trajectory = play(TWO, OraclePolicy(TWO, DIALECT, TEMPLATE), environment)
    assert trajectory.solved and environment.opened[TWO.id] == 2
    assert [world.closed for world in environment.worlds] == [1, 1]
    broken = play(TWO, OraclePolicy(TWO, DIALECT, TEMPLATE), NotesEnvironment(fail_first(2)))
    assert (broken.valid, broken.stop) == (False, StopReason.FAILURE)
    assert "the tool server is away" in str(broken.failure)


def test_s16_the_root_cause_is_kept() -> None:
    def broken(task: object, number: int) -> None:
        raise EnvError("call failed") from ConnectionResetError("peer is gone")

    trajectory = play(TWO, script("[total()]"), NotesEnvironment(broken))  # type: ignore[arg-type]
    assert "peer is gone" in str(trajectory.failure)


@pytest.mark.parametrize("blocking", [False, True])
def test_s17_the_deadline_makes_a_trajectory_invalid(blocking: bool) -> None:
    environment = NotesEnvironment(delay=0.03, blocking=blocking)
    trajectory = play(TWO, script(*["[total(), total()]"] * 12), environment, seconds=0.05)
    assert (trajectory.stop, trajectory.valid) == (StopReason.SECONDS, False)
    assert "rollout.seconds = 0.05" in str(trajectory.failure)
    assert environment.opened[TWO.id] == 1  # not tried again


class Programs(NotesEnvironment):
    """Its worlds report that all of their seconds were those of the policy's programs."""

    def open(self, task: Any) -> NotesWorld:
        world: Any = super().open(task)
        world.ran = lambda: 9.0
        return world


@pytest.mark.parametrize("blocking", [False, True])
def test_s17_a_trajectory_that_spent_its_seconds_keeps_the_step_that_did(blocking: bool) -> None:
    environment = Programs(delay=0.03, blocking=blocking)
    trajectory = play(TWO, script(*["[total(), total()]"] * 12), environment, seconds=0.05)
    assert (trajectory.stop, trajectory.valid) == (StopReason.SECONDS, True)
    assert sum(step.tokens for step in trajectory.steps) == trajectory.ledger.generated > 0
    last = trajectory.steps[-1]
    assert len(last.results) <= len(last.calls) == 2
    assert len(trajectory.verdicts) == last.turn, "the turn has no verdict"


@pytest.mark.parametrize(("share", "valid"), [(0.75, True), (0.25, False)])
def test_s17_who_spent_half_of_the_seconds_is_cut_and_counts(share: float, valid: bool) -> None:
    class Shared(Programs):
        def open(self, task: Any) -> NotesWorld:
            world: Any = super().open(task)
            call, took = world.call, [0.0]

            def timed(given: ToolCall) -> Any:
                began = time.perf_counter()
                try:
                    return call(given)
                finally:
                    took[0] += time.perf_counter() - began

            world.call, world.ran = timed, lambda: share * took[0]
            return world

    trajectory = play(TWO, script(*["[total(), total()]"] * 12), Shared(delay=0.03), seconds=0.05)
    assert (trajectory.stop, trajectory.valid) == (StopReason.SECONDS, valid)


class SlowPolicy(ScriptedPolicy):
    """Holds the event loop while it generates, as a model in this process does."""

    def open(self, seed: int, shared_prompt: Sequence[int] = ()) -> Session:
        session = super().open(seed, shared_prompt)
        generate = session.generate

        async def slowly(*args: Any, **options: Any) -> Completion:
            for _ in range(8):
                await asyncio.sleep(0.01)
                time.sleep(0.1)
            return await generate(*args, **options)

        session.generate = slowly  # type: ignore[method-assign]
        return session


@pytest.mark.slow
@pytest.mark.parametrize("blocking", [False, True])
def test_s17_the_slowness_of_the_policy_does_not_count(blocking: bool) -> None:
    environment = NotesEnvironment(delay=0.001, blocking=blocking)
    ids = [[*TEMPLATE.encode(t), TEMPLATE.end_id] for t in ("[add(amount=2)]", "ok", "ok")]
    trajectory = play(TWO, SlowPolicy(ids), environment, seconds=2.0)
    assert (trajectory.stop, trajectory.failure) == (StopReason.DONE, None)
    assert trajectory.seconds > 2.0


@pytest.mark.slow
def test_s17_a_call_that_ended_while_the_policy_held_the_loop_is_no_late_call() -> None:
    environment = NotesEnvironment(delay=0.02, blocking=True)

    async def both() -> Trajectory:
        episode = asyncio.create_task(
            run_episode(
                RolloutContext(
                    environment,
                    script("[total()]", "a", "b"),
                    DIALECT,
                    TEMPLATE,
                    settings(seconds=1.0),
                ),
                TWO,
            )
        )
        while not episode.done():
            time.sleep(1.1)
            await asyncio.sleep(0)
        return await episode

    assert asyncio.run(both()).valid


def test_s18_the_loop_goes_on_while_a_blocking_world_sleeps() -> None:
    environment = NotesEnvironment(delay=0.1, blocking=True)

    async def both() -> int:
        episode = asyncio.create_task(
            run_episode(
                RolloutContext(
                    environment, script("[total()]", "a", "b"), DIALECT, TEMPLATE, settings()
                ),
                TWO,
            )
        )
        ticks = 0
        while not episode.done():
            await asyncio.sleep(0.005)
            ticks += 1
        assert (await episode).valid
        return ticks

    assert asyncio.run(both()) >= 5


def test_s19_long_results_are_shortened_visibly_and_counted() -> None:
    policy = script("[note(text='abcdefghij')]", "[read()]", "ok", "ok")
    trajectory = play(TWO, policy, result_chars=7)
    assert trajectory.steps[1].results[0].content == ":abcdef\n[4 more characters were left out]"
    assert trajectory.cut_results == 1
    assert "[4 more characters were left out]" in read_by_policy(trajectory)
    assert play(TWO, policy, result_chars=11).cut_results == 0
    assert play(TWO, policy, result_chars=0).cut_results == 0


def test_s20_seeds_depend_on_run_task_member_and_version_alone() -> None:
    assert episode_seed(0, "a", 1, 2) == 7786529844684057671  # `b2sum -l 64` of "0/a/1/2", halved
    parts = [(r, t, m, v) for r in (0, 1) for t in "ab" for m in (0, 1) for v in (0, 1)]
    assert len({episode_seed(*part) for part in parts}) == len(parts)


@pytest.mark.slow
def test_s21_groups_come_in_the_order_of_the_tasks() -> None:
    tasks = [notes_task([(f"task {i}", [ADD])] * (9 - i)) for i in range(8)]
    finished: list[Trajectory] = []
    groups = play_groups(tasks, NoisyPolicy(1), on_trajectory=finished.append, concurrency=5)
    assert [group.task for group in groups] == tasks
    assert [[t.member for t in g.trajectories] for g in groups] == [[0, 1, 2, 3]] * 8
    assert len(finished) == 32 and [t.task_id for t in finished] != sorted(
        (t.task_id for t in finished), key=[task.id for task in tasks].index
    )
    assert {group.policy_version for group in groups} == {3}


def test_s22_members_share_the_prompt_and_differ_in_noise() -> None:
    policy = NoisyPolicy()
    group = play_groups([TWO], policy)[0]
    assert len({seed for seed, _ in policy.opened}) == 4
    assert {prompt for _, prompt in policy.opened} == {group.trajectories[0].spans[0].ids}


def test_s23_a_task_that_stands_twice_gets_new_noise() -> None:
    groups = play_groups([TWO, TWO], NoisyPolicy())
    assert len({t.seed for group in groups for t in group.trajectories}) == 8


def test_s24_a_bug_stops_the_run_and_names_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(world: object, index: int) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(NotesWorld, "begin_turn", broken)
    with pytest.raises(KeyError) as caught:
        play_groups([TWO] * 3, script("[total()]", "ok", "ok"))
    assert TWO.id in caught.value.__notes__[0]


RAISED = [KeyError("R-9"), OSError(2, "no file"), ConnectionError("down"), TimeoutError("slow")]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_s24_what_a_tool_raises_is_a_failed_call_that_the_agent_reads(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """Else a policy discards what goes badly: it asks for a file, an address that is not there."""

    def broken(task: object, number: int) -> None:
        raise error

    _warn.cache_clear()
    policy = script("[total()]", "[total()]", "sorry", "sorry")
    trajectory = play(TWO, policy, NotesEnvironment(broken))  # type: ignore[arg-type]
    assert trajectory.valid and not trajectory.solved
    read = [result for step in trajectory.steps for result in step.results]
    assert [(r.content, r.failed) for r in read] == [(f"Error: {shown(error)}", True)] * 2
    assert caplog.text.count(f"{type(error).__name__} at {__file__}:") == 1, "of two"


def test_s25_a_task_that_cannot_be_loaded_is_no_infrastructure_failure() -> None:
    class Picky(NotesEnvironment):
        def open(self, task: object) -> object:  # type: ignore[override]
            raise TaskError("task: no such class")

    with pytest.raises(TaskError, match="no such class"):
        play_groups([TWO], script("ok"), Picky())


def test_s26_concurrency_is_bounded() -> None:
    class Counting(NoisyPolicy):
        alive = most = 0

        def open(self, seed: int, shared_prompt: object = ()) -> object:  # type: ignore[override]
            session = super().open(seed, ())
            Counting.alive += 1
            Counting.most = max(Counting.most, Counting.alive)

            def close() -> None:
                Counting.alive -= 1

            session.close = close  # type: ignore[method-assign]
            return session

    play_groups([TWO, ABSTAIN], Counting(4), concurrency=3)
    assert (Counting.most, Counting.alive) == (3, 0)


@pytest.mark.parametrize("dialect", ["pythonic", "compact", "hermes", "think", "llama"])
def test_s27_the_oracle_solves_in_every_dialect(dialect: str) -> None:
    task = notes_task(
        [("add", [ADD, ToolCall("total")]), ("hm", []), ("", [NOTE, ToolCall("read")])],
        withheld={0: ("note",), 1: ("note",)},
    )
    for calls_per_step in (0, 1):
        policy = OraclePolicy(task, get_dialect(dialect), TEMPLATE, calls_per_step=calls_per_step)
        trajectory = play(task, policy, dialect=dialect)
        assert trajectory.solved and trajectory.official and trajectory.stop is StopReason.DONE


def test_s28_an_oracle_of_several_tasks_tells_them_apart() -> None:
    policy = OraclePolicy([TWO, ABSTAIN], DIALECT, TEMPLATE, run_seed=5)
    groups = play_groups([ABSTAIN, TWO], policy, seed=5)
    assert all(t.solved for group in groups for t in group.trajectories)


@pytest.mark.slow
def test_s29_a_step_that_is_stopped_leaves_nothing_running() -> None:
    def broken(task: object, number: int) -> None:
        if number == 0:
            time.sleep(0.1)  # the other fifteen worlds are open by then
        if number in (0, 16):
            raise EnvError("away")

    environment = NotesEnvironment(broken, delay=0.02, blocking=True)  # type: ignore[arg-type]
    with pytest.raises(EnvError, match="max_invalid"):
        play_groups([TWO] * 4, script(*["[total()]"] * 12), environment, max_invalid=0.01)
    threads = [t for t in threading.enumerate() if t.name.startswith("world")]
    for thread in threads:
        thread.join(1.0)
    assert not any(thread.is_alive() for thread in threads)
    assert all(world.closed for world in environment.worlds)


class BrokenOff(ScriptedPolicy):
    """Stops every generation after `size` ids, as an engine does when new weights come in."""

    def __init__(self, script: Sequence[Sequence[int]], size: int) -> None:
        super().__init__(script)
        self._size = size
        self.asked: list[int] = []

    def open(self, seed: int, shared_prompt: Sequence[int] = ()) -> Session:
        session, size = super().open(seed, shared_prompt), self._size
        generate = session.generate
        left: list[Completion] = []
        part = 0

        async def broken(new_ids: Sequence[int], max_tokens: int, *options: Any) -> Completion:
            nonlocal part
            self.asked.append(max_tokens)
            if not left:
                left.append(await generate(new_ids, max_tokens, *options))
            assert bool(new_ids) == (part == 0)
            whole, at, part = left[0], part * size, part + 1
            ids, logprobs = whole.ids[at : at + size], whole.logprobs[at : at + size]
            if at + size < len(whole.ids):
                return Completion(ids, logprobs, FinishReason.ABORT, part)
            left.clear()
            part = 0
            return Completion(ids, logprobs, whole.finish, 9)

        session.generate = broken  # type: ignore[method-assign]
        return session


def test_s30_a_generation_that_was_broken_off_goes_on() -> None:
    texts = ["[add(amount=2)]", "ok", "[note(text='x')]", "ok"]
    ids = [[*TEMPLATE.encode(text), TEMPLATE.end_id] for text in texts]
    broken = BrokenOff(ids, 5)
    whole, parts = play(TWO, ScriptedPolicy(ids)), play(TWO, broken, step_tokens=40)
    assert broken.asked[:3] == [40, 35, 30], "the budget is of all its parts"
    assert parts.solved and [s.text for s in parts.steps] == [s.text for s in whole.steps]
    assert [step.finish for step in parts.steps] == [step.finish for step in whole.steps]
    assert parts.ledger.ids == whole.ledger.ids and parts.ledger.mask == whole.ledger.mask
    first = parts.spans[1:4]
    assert [(len(s.ids), s.version) for s in first] == [(5, 1), (5, 2), (len(ids[0]) - 10, 9)]
    endless = play(TWO, BrokenOff(ids, 0))
    assert "broke one generation off 16 times" in str(endless.failure)
