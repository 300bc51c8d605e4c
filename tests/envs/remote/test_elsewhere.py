"""Worlds in processes and behind HTTP: what they show is what they show here."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from elsewhere_cases import TASK, bfcl_tasks, played, served
from oracle import OraclePolicy
from rods.abilities import ability
from rods.env import AnswerJudge, Ending, Environment
from rods.envs import make_environment
from rods.envs.remote import processes
from rods.envs.remote.client import RemoteEnvironment
from rods.envs.remote.messages import Hosted, RemoteWorld
from rods.envs.remote.processes import ProcessEnvironment, local
from rods.errors import ConfigError, EnvError
from rods.evaluation.check import replaying
from rods.rollout.owner import hanging
from rods.synthesis.structure.trace import all_tools
from rods.task import Task
from rods.types import StopReason, ToolCall
from rollout_cases import DIALECT, TEMPLATE, script
from verbs import rods
from waits import until
from worlds import NotesEnvironment, NotesWorld, notes_task


def questions(environment: Environment) -> list[Task]:
    return list(environment.tasks(0.25))[:3]


@pytest.mark.slow
def test_bfcl_elsewhere_is_bfcl_here() -> None:
    here = make_environment("bfcl")
    tasks = bfcl_tasks(here)
    assert len(tasks) == 4
    policy = OraclePolicy(tasks, DIALECT, TEMPLATE)
    expected = played(tasks, here, policy)
    assert all(t.solved and t.official for t in expected)
    wrong = script(*["[ls(a=True)]", "[cd(folder='nowhere')]", "no"] * 8)
    missed = played(tasks, here, wrong)
    with served(here) as url:
        remote = RemoteEnvironment(url)
        assert played(tasks, remote, policy) == expected
        assert played(tasks, remote, wrong) == missed
        assert {t.id for t in remote.tasks(0.5)} == {t.id for t in here.tasks(0.5)}
        mine, theirs = (e.part(e.tasks(0.5), None) for e in (here, remote))
        assert theirs == mine and remote.name == "bfcl"


@pytest.mark.slow
def test_bfcl_in_processes_is_bfcl_here_also_where_tasks_withhold_tools() -> None:
    here = make_environment("bfcl")
    tasks = bfcl_tasks(here)
    policy = OraclePolicy(tasks, DIALECT, TEMPLATE)
    withholding = [task for task in tasks if any(turn.withheld for turn in task.turns)]
    assert withholding
    there = ProcessEnvironment(here, local("bfcl", {}), processes=1, seconds=30)
    try:
        assert played(tasks, there, policy) == played(tasks, here, policy)
        with served(here) as url:
            for environment in (there, RemoteEnvironment(url)):
                tools = all_tools(environment, withholding[0])
                assert tools == all_tools(here, withholding[0])
                assert replaying(withholding, environment) == (withholding, [])
    finally:
        there.close()


@pytest.mark.slow
def test_python_tool_elsewhere_is_python_tool_here() -> None:
    here = make_environment("python_tool", {"questions": {"count": 8}})
    tasks = questions(here)
    program = "[code_interpreter(code='print(6*7)')]"
    answer = f"It is \\boxed{{{tasks[0].world['answer']}}}."
    policy = script(program, answer)
    expected = played(tasks, here, policy)
    assert [t.verdicts[0].correct for t in expected][:2] == [True, True]
    assert expected[0].steps[0].results[0].content == "42\n"
    with served(here) as url:
        assert played(tasks, RemoteEnvironment(url), policy) == expected
    here.close()


@pytest.mark.slow
def test_a_service_wants_its_token_and_keeps_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(url: str, body: Any, token: str = "") -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers["Content-Type"] = "application/json"
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(url, raw, headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    with served(NotesEnvironment(), "secret", sessions=2, body=5000, idle=10.0) as url:
        reset = {"task": TASK.to_json()}
        assert ask(f"{url}/reset", reset)[0] == 401
        assert ask(f"{url}/reset", reset, "wrong")[0] == 401
        assert ask(f"{url}/health", {}, "secret")[0] == 200
        assert ask(f"{url}/reset", b"{" + b" " * 6000, "secret")[0] == 413
        assert ask(f"{url}/reset", b"{", "secret")[0] == 400
        assert ask(f"{url}/reset", {"task": {"env": 1}}, "secret")[0] == 422
        opened = [ask(f"{url}/reset", reset, "secret") for _ in range(3)]
        assert [status for status, _ in opened] == [200, 200, 429]
        name = opened[0][1]["episode_id"]
        assert opened[0][1] | {"episode_id": ""} == {
            "episode_id": "",
            "observation": {"judges": False, "ends": False},
            "reward": None,
            "done": False,
        }

        def step(number: int, **action: Any) -> tuple[int, Any]:
            body = {"episode_id": name, "number": number, "action": action}
            return ask(f"{url}/step", body, "secret")

        assert step(0, type="begin_turn", index=0)[0] == 200
        call = {"name": "add", "arguments": {"amount": 2}}
        first = step(1, type="call", call=call)
        assert first[1]["observation"] == {"content": "2", "failed": False}
        assert step(1, type="call", call=call) == first  # asked again, done once
        assert step(2, type="call", call=call)[1]["observation"]["content"] == "4"
        assert step(9, type="call", call=call)[0] == 409
        assert "no action 'dance'" in step(3, type="dance")[1]["observation"]["error"]
        until(lambda: ask(f"{url}/health", {}, "secret")[1]["sessions"] == 0)  # nobody asks them
        assert step(4, type="end_turn")[0] == 404
        assert ask(f"{url}/reset", reset, "secret")[0] == 200
        policy = OraclePolicy(TASK, DIALECT, TEMPLATE)
        assert all(t.solved for t in played([TASK], RemoteEnvironment(url), policy, k=1))


@pytest.mark.slow
def test_what_breaks_there_is_a_failure_here() -> None:
    def broken(task: object, number: int) -> None:
        raise EnvError("the tool server is away")

    with served(NotesEnvironment(broken)) as url:  # type: ignore[arg-type]
        remote = RemoteEnvironment(url)
        [trajectory] = played([TASK], remote, script("[total()]"), k=1)
        assert trajectory.stop is StopReason.FAILURE
        assert "the tool server is away" in str(trajectory.failure)
        with pytest.raises(EnvError, match="KeyError"):
            remote.open(dataclasses.replace(TASK, world={}))
    with pytest.raises(EnvError, match="service failed"):
        RemoteEnvironment("http://127.0.0.1:1", seconds=1)
    with pytest.raises(ConfigError, match=r"env\.remote\.url"):
        RemoteEnvironment("")


@pytest.mark.parametrize("error", [AttributeError("no such thing"), OSError(2, "no such thing")])
def test_what_a_tool_raises_there_is_a_failed_call_that_the_agent_reads_here(
    error: Exception,
) -> None:
    called: list[int] = []

    def broken(task: object, number: int) -> None:
        called.append(number)
        raise error

    with served(NotesEnvironment(broken)) as url:  # type: ignore[arg-type]
        policy = script("[total()]", *["sorry"] * 3)
        [trajectory] = played([TASK], RemoteEnvironment(url), policy, k=1)
    assert trajectory.valid and called == [0], "once"
    [result] = trajectory.steps[0].results
    assert result.failed and "no such thing" in result.content


@pytest.mark.slow
def test_a_hanging_world_of_a_service_holds_up_no_other() -> None:
    let_go = threading.Event()

    def broken(task: object, number: int) -> None:
        if number == 0:
            let_go.wait(120)

    with served(NotesEnvironment(broken, blocking=True), seconds=3.0) as url:  # type: ignore[arg-type]
        remote = RemoteEnvironment(url)
        started = time.perf_counter()
        policy = OraclePolicy(TASK, DIALECT, TEMPLATE)
        assert all(t.solved for t in played([TASK], remote, policy, k=6))
        assert time.perf_counter() - started < 60
        let_go.set()


@pytest.mark.slow
@pytest.mark.parametrize("route", ["http", "processes"])
def test_a_call_that_computes_for_ever_is_ended_and_holds_up_no_other(route: str) -> None:
    inner = make_environment("elsewhere_worlds:Moody")
    assert not inner.blocking  # here, worlds that only compute are not interrupted
    task = notes_task([("Do.", [ToolCall("add", {"amount": 1})])])

    said = "rods serve-env --seconds = 1 seconds" if route == "http" else "for 1 seconds"

    def tried(elsewhere: Environment) -> None:
        looping, other = elsewhere.open(task), elsewhere.open(task)
        looping.begin_turn(0)
        other.begin_turn(0)
        with pytest.raises(EnvError, match=said):
            looping.call(ToolCall("loop"))
        assert not other.call(ToolCall("add", {"amount": 1})).failed
        looping.close()
        other.close()

    if route == "processes":
        elsewhere = ProcessEnvironment(inner, local("elsewhere_worlds:Moody", {}), 2, 1.0)
        try:
            tried(elsewhere)
        finally:
            elsewhere.close()
        return
    before = hanging()
    with served(inner, seconds=1.0) as url:
        tried(RemoteEnvironment(url))
        until(lambda: hanging() == before)  # no processor computes on for nobody


@pytest.mark.slow
def test_a_process_that_hangs_or_dies_is_replaced() -> None:
    inner = make_environment("elsewhere_worlds:Moody")
    elsewhere = ProcessEnvironment(inner, local("elsewhere_worlds:Moody", {}), 2, 1.0)
    try:
        with pytest.raises(EnvError, match="gave no answer for 1 seconds"):
            world = elsewhere.open(TASK)
            world.begin_turn(0)
            world.call(ToolCall("hang"))
        world.close()
        with pytest.raises(EnvError, match="died"):
            world = elsewhere.open(TASK)
            world.begin_turn(0)
            world.call(ToolCall("die"))
        world.close()
        assert elsewhere.replaced == 2
        policy = OraclePolicy(TASK, DIALECT, TEMPLATE)
        trajectories = played([TASK], elsewhere, policy, k=4)
        assert all(t.solved for t in trajectories)
        os.kill(next(iter(elsewhere._all)).pid, signal.SIGKILL)
        trajectories = played([TASK], elsewhere, policy, k=4)
        assert all(t.solved for t in trajectories)  # the one that met it was tried again
    finally:
        elsewhere.close()


@pytest.mark.slow
def test_a_process_that_had_died_is_replaced_and_the_log_names_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inner = make_environment("elsewhere_worlds:Moody")
    elsewhere = ProcessEnvironment(inner, local("elsewhere_worlds:Moody", {}), 2, 5.0)
    try:
        elsewhere.warm_up()
        for process in elsewhere._all:
            os.kill(process.pid, signal.SIGKILL)  # type: ignore[attr-defined]
        world = elsewhere.open(TASK)
        world.begin_turn(0)
        assert elsewhere.replaced == 2 and caplog.text.count("a world's process died") == 2
        for process in elsewhere._all:
            os.kill(process.pid, signal.SIGKILL)  # type: ignore[attr-defined]
        world.close()
        assert elsewhere.replaced == 3 and caplog.text.count("a world's process died") == 3
    finally:
        elsewhere.close()
    assert caplog.text.count("a world's process") == 3  # none for those that were ended on purpose


@pytest.mark.slow
def test_a_process_that_could_not_be_started_is_started_later() -> None:
    """As where memory is short for a moment; its place must not be lost."""
    inner, short = make_environment("elsewhere_worlds:Moody"), list[int]()
    start = local("elsewhere_worlds:Moody", {})

    def begin() -> Any:
        if short:
            raise BlockingIOError(short.pop(), "Resource temporarily unavailable")
        return start()

    elsewhere = ProcessEnvironment(inner, begin, 1, 5.0)
    try:
        world = elsewhere.open(TASK)
        os.kill(next(iter(elsewhere._all)).pid, signal.SIGKILL)
        short.append(11)
        with pytest.raises(BlockingIOError):
            world.close()
        opened = threading.Thread(target=lambda: elsewhere.open(TASK).close(), daemon=True)
        opened.start()
        opened.join(30)
        assert not opened.is_alive() and elsewhere.replaced == 1
    finally:
        elsewhere.close()


def test_a_world_whose_opening_ends_processes_ends_no_more_than_three() -> None:
    inner = make_environment("elsewhere_worlds:Deadly")
    elsewhere = ProcessEnvironment(inner, local("elsewhere_worlds:Deadly", {}), 1, 5.0)
    try:
        with pytest.raises(EnvError, match="died"):
            elsewhere.open(TASK)
        assert elsewhere.replaced == 3
    finally:
        elsewhere.close()


@pytest.mark.slow
def test_processes_outlive_ctrl_c_which_is_the_programs_to_answer() -> None:
    inner = make_environment("elsewhere_worlds:Moody")
    elsewhere = ProcessEnvironment(inner, local("elsewhere_worlds:Moody", {}), 2, 5.0)
    try:
        elsewhere.warm_up()
        for worker in elsewhere._all:
            os.kill(worker.pid, signal.SIGINT)
        policy = OraclePolicy(TASK, DIALECT, TEMPLATE)
        assert all(t.solved for t in played([TASK], elsewhere, policy, k=4))
        assert elsewhere.replaced == 0
    finally:
        elsewhere.close()


def test_no_process_is_started_for_a_world_that_ends_after_all_were_closed() -> None:
    started: list[Any] = []
    begin = local("elsewhere_worlds:Moody", {})
    inner = make_environment("elsewhere_worlds:Moody")

    def counted() -> Any:
        started.append(begin())
        return started[-1]

    elsewhere = ProcessEnvironment(inner, counted, 1, 5.0)
    world = elsewhere.open(TASK)
    elsewhere.close()  # as Ctrl-C does while a world is open
    world.close()
    assert len(started) == 1 and not started[0].alive


def test_two_threads_may_end_one_process() -> None:
    worker = local("elsewhere_worlds:Moody", {})()
    line, wrong = worker._line, list[BaseException]()  # type: ignore[attr-defined]  # pyright: ignore
    close = line._close

    def slow() -> None:
        time.sleep(0.2)
        close()

    def end() -> None:
        try:
            worker.end()
        except OSError as error:
            wrong.append(error)

    line._close = slow
    threads = [threading.Thread(target=end) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and line.closed


@pytest.mark.parametrize("gone", [BrokenPipeError, ConnectionResetError, EOFError])
def test_a_process_whose_driver_was_killed_ends_without_a_traceback(
    gone: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Line:
        def recv(self) -> dict[str, Any]:
            return {}

        def send(self, _: object) -> None:
            raise gone

    monkeypatch.setattr(signal, "signal", lambda *_: None)  # this process keeps its Ctrl-C
    processes._serve(Line(), "elsewhere_worlds:Moody", {})  # type: ignore[arg-type]  # pyright: ignore


def test_no_more_processes_start_at_once_than_may() -> None:
    waiting: list[int] = []

    class Starting:
        alive = True

        def __init__(self) -> None:
            waiting.append(0)

        def ask(self, action: object, seconds: float) -> dict[str, Any]:
            assert len(waiting) <= 3
            waiting.pop()
            return {}

        def end(self) -> None:
            pass

    inner = make_environment("elsewhere_worlds:Moody")
    elsewhere = ProcessEnvironment(inner, Starting, 8, 1.0, starting=3)  # type: ignore[arg-type]  # pyright: ignore
    elsewhere.warm_up()
    assert len(elsewhere._all) == 8 and not waiting
    elsewhere.warm_up()
    assert len(elsewhere._all) == 8, "they stand already"


@pytest.mark.parametrize(
    ("words", "read"),
    [
        (("serve-env", "--train.lr", "1"), "env.*"),
        (("check", "--rollout.k=2"), "env.*, evaluation.files"),
        (("convert", "--out", "x.jsonl", "--model.name", "tiny"), "env.*"),
        (("observe", "log.jsonl", "--env.name", "bfcl"), "boundary.*"),
    ],
)
def test_a_verb_that_reads_one_section_refuses_the_others(
    words: tuple[str, ...],
    read: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert rods(*words, monkeypatch=monkeypatch) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"has no effect: rods {words[0]} reads only {read} settings" in said


@pytest.mark.parametrize("openenv", [[], ["--openenv"]])
def test_files_of_tasks_are_not_given_to_a_service_that_does_not_read_them(
    openenv: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "tasks.jsonl").write_text("{}")
    words = ("serve-env", *openenv, "--env.tasks", str(tmp_path / "tasks.jsonl"), "--port", "0")
    monkeypatch.setattr("rods.infra.listen.serve", lambda *_: pytest.fail("it began to serve"))
    assert rods(*words, monkeypatch=monkeypatch) == 2
    assert "--env.tasks has no effect" in capsys.readouterr().err


@pytest.mark.slow
def test_openenvs_server_stays_on_this_machine_and_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RODS_ENV_TOKEN", "secret")
    words = ("serve-env", "--openenv", "--host", "0.0.0.0")
    assert rods(*words, monkeypatch=monkeypatch) == 2
    assert "contains the token" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "openenv", None)
    assert rods("serve-env", "--openenv", monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert "needs openenv" in said and "[openenv]" in said


def test_a_world_elsewhere_may_both_judge_answers_and_end_turns() -> None:
    class Both(NotesWorld):
        def judge_answer(self, text: str) -> bool:
            return text == "7"

        def ended(self) -> str:
            return "added" if self.log else ""

    class Worlds(NotesEnvironment):
        def open(self, task: Task) -> NotesWorld:
            return Both(self, task, 0)

    hosted = Hosted(Worlds(), notes_task([("add", [])]))
    world = RemoteWorld(hosted.open(), hosted.step, hosted.close)
    judge, ending = ability(world, AnswerJudge), ability(world, Ending)
    assert judge and ending
    world.begin_turn(0)
    assert judge.judge_answer("7") and not judge.judge_answer("8") and not ending.ended()
    world.call(ToolCall("add", {"amount": 1}))
    assert ending.ended() == "added"
