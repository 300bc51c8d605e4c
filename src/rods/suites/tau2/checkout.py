"""Answers about tau2-bench by a checkout's own code, in its own Python; run as a script.

Owns what the checkout's package is asked: domains, tools, the user simulator with its own calls of
a model, the evaluation. Imports nothing from RODS; evaluates no text.

    python checkout.py SOCKET      # a JSON list [what, arguments...] a connection, one answer
"""

from __future__ import annotations

import copy
import importlib
import itertools
import json
import os
import signal
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection, Listener
from types import SimpleNamespace
from typing import Any

_worlds: dict[int, SimpleNamespace] = {}
_numbers = itertools.count(time.time_ns())
"""Numbers of worlds: none of a process that died means one of the next."""


def _of(module: str) -> Any:
    return importlib.import_module(f"tau2.{module}")


def domain(name: str) -> dict[str, Any]:
    """Tools, the agent's instructions, tasks and bounds of a domain."""
    registry, config = _of("registry").registry, _of("config")
    world = registry.get_env_constructor(name)()
    tools, policy = world.get_tools(), world.get_policy()
    agent = _of("agent.llm_agent").LLMAgent(tools=tools, domain_policy=policy, llm="none")
    return {
        "tools": [one.openai_schema["function"] for one in tools],
        "prompt": agent.system_prompt,
        "greeting": _greeting().content,
        "tasks": [one.model_dump(mode="json") for one in registry.get_tasks_loader(name)("base")],
        "splits": registry.get_task_splits_loader(name)(),
        "errors": config.DEFAULT_MAX_ERRORS,
        "messages": config.DEFAULT_MAX_STEPS,
    }


def begin(name: str, row: Mapping[str, object]) -> int:
    """Make a world of a task; returns its number."""
    task, made = _task(row), _of("registry").registry.get_env_constructor(name)()
    if task.initial_state is not None:
        start = task.initial_state
        made.set_state(start.initialization_data, start.initialization_actions, [])
    number = next(_numbers)
    _worlds[number] = SimpleNamespace(domain=name, task=task, environment=made, messages=[])
    return number


def call(number: int, name: str, arguments: Mapping[str, object]) -> list[Any]:
    """Execute a call of the agent: what it reads, and whether it failed."""
    world = _worlds[number]
    made = _of("data_model.message").ToolCall(id="1", name=name, arguments=arguments)
    answer = world.environment.get_response(made)
    world.messages.append({"calls": [[name, arguments, answer.content, answer.error]]})
    return [answer.content, answer.error]


def opens(number: int, server: Mapping[str, str]) -> list[Any]:
    """The user's reply to the greeting, and whether that ends the conversation."""
    world = _worlds[number]
    model, options = _model(server, _of("config").DEFAULT_LLM_ARGS_USER)
    world.user = _of("user.user_simulator").UserSimulator(
        instructions=str(world.task.user_scenario), llm=model, llm_args=options
    )
    world.state = world.user.get_init_state()
    return _replied(world, _greeting())


def replies(number: int, text: str) -> list[Any] | None:
    """The user's reply, and whether that ends the conversation; None: the text is at fault."""
    world, messages = _worlds[number], _of("data_model.message")
    message = messages.AssistantMessage(role="assistant", content=text)
    plain = [messages.UserMessage(role="user", content="Say hello.")]
    model, options, generate = world.user.llm, world.user.llm_args, _of("utils.llm_utils").generate
    return _unless_at_fault(
        lambda: _replied(world, message), lambda: generate(model, plain, **options)
    )


def _replied(world: SimpleNamespace, message: object) -> list[Any]:
    reply, world.state = world.user.generate_next_message(message, world.state)
    reply.validate()
    return [reply.content, world.user.is_stop(reply)]


def state(number: int) -> list[Any]:
    """A digest of the databases, and whether they are as after the task's own calls."""
    world = _worlds[number]
    found = _evaluated(world.domain, world.task, world.messages, "ENV").db_check
    digests = (world.environment.get_db_hash(), world.environment.get_user_db_hash())
    return [str(digests), found is None or found.db_match]


def score(
    name: str,
    row: Mapping[str, object],
    rows: Sequence[Mapping[str, object]],
    judge: Mapping[str, str],
) -> list[str]:
    """The bases of the reward that are not met; a model judges only where all others are."""
    task = _task(row)
    criteria, asserted = task.evaluation_criteria, []
    if criteria is not None:
        basis = criteria.reward_basis
        criteria.reward_basis = [one for one in basis if one.value != "NL_ASSERTION"]
        asserted = (criteria.nl_assertions or []) if basis != criteria.reward_basis else []
    found = _evaluated(name, task, rows)
    if found.reward == 1 and asserted and not _holds(_messages(rows), asserted, judge):
        return ["NL_ASSERTION"]
    parts = found.reward_breakdown or {}
    return [key.value for key, value in parts.items() if value < 1]


def _holds(messages: list[object], asserted: Sequence[str], judge: Mapping[str, str]) -> bool:
    """Ask the package's judge whether all assertions are met."""
    home = _of("evaluator.evaluator_nl_assertions")
    model, options = _model(judge, _of("config").DEFAULT_LLM_NL_ASSERTIONS_ARGS)
    home.DEFAULT_LLM_NL_ASSERTIONS, home.DEFAULT_LLM_NL_ASSERTIONS_ARGS = model, options

    def verdicts(read: list[object]) -> list[bool]:
        found = home.NLAssertionsEvaluator.evaluate_nl_assertions(read, asserted)
        if len(found) != len(asserted):  # the package takes no verdict at all as all met
            raise ValueError(f"the judge gave no verdict on each of {len(asserted)} assertions")
        return [one.met for one in found]

    return all(_unless_at_fault(lambda: verdicts(messages), lambda: verdicts([])) or [False])


def _unless_at_fault(ask: Callable[[], object], plain: Callable[[], object]) -> Any:
    """Answer of a model; None where it fails, but not on a plain question."""
    refused = importlib.import_module("openai").OpenAIError
    try:
        return ask()
    except (refused, ValueError, LookupError, TypeError):
        plain()
        return None


def _evaluated(name: str, task: Any, rows: Sequence[Mapping[str, Any]], kind: str = "ALL") -> Any:
    evaluator, times = _of("evaluator.evaluator"), dict.fromkeys(("start_time", "end_time"), "")
    run = _of("data_model.simulation").SimulationRun(
        **{"id": "1", "task_id": task.id, "duration": 0.0, "messages": _messages(rows), **times},
        termination_reason="user_stop",
    )
    kind = evaluator.EvaluationType[kind]
    return evaluator.evaluate_simulation(run, task, kind, False, name)


def _messages(rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The conversation in the package's classes: words, or calls with their results."""
    home, made = _of("data_model.message"), []
    kinds = {"assistant": home.AssistantMessage, "user": home.UserMessage}
    for number, one in enumerate(rows):
        named = [(f"{number}.{n}", *each) for n, each in enumerate(one.get("calls", ()))]
        if not named:
            made.append(kinds[one["role"]](**one))
            continue
        calls = [home.ToolCall(id=key, name=to, arguments=given) for key, to, given, *_ in named]
        made.append(home.AssistantMessage(role="assistant", tool_calls=calls))
        for key, _, _, text, failed in named:
            made.append(home.ToolMessage(id=key, role="tool", content=text, error=failed))
    return made


def _task(row: Mapping[str, object]) -> Any:
    return _of("data_model.tasks").Task.model_validate(row)


def _greeting() -> Any:
    return copy.deepcopy(_of("orchestrator.orchestrator").DEFAULT_FIRST_AGENT_MESSAGE)


def _model(server: Mapping[str, str], options: Mapping[str, object]) -> tuple[str, dict[str, Any]]:
    """Name and options by which the package reaches a server; without a name the first it lists."""
    url, name = server["url"].rstrip("/"), server["model"]
    key = os.environ.get("RODS_WRITER_KEY") or "none"
    if not name:
        asked = urllib.request.Request(f"{url}/models", headers={"Authorization": f"Bearer {key}"})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            name = json.load(answer)["data"][0]["id"]
    return f"openai/{name}", {**options, "api_base": url, "api_key": key}


def drop(number: int) -> None:
    """Let go of a world."""
    _worlds.pop(number, None)


ANSWERS = {one.__name__: one for one in (domain, begin, call, opens, replies, state, score, drop)}


def _answer(pipe: Connection) -> None:
    what, *arguments = json.loads(pipe.recv_bytes())
    try:
        text = json.dumps({"value": ANSWERS[what](*arguments)})
    except BaseException as error:  # noqa: BLE001 - whatever the package raises is reported
        text = json.dumps({"error": f"{type(error).__name__}: {error}"})
    pipe.send_bytes(text.encode())


def _listen(listener: Listener) -> None:
    while True:
        threading.Thread(target=_answer, args=(listener.accept(),), daemon=True).start()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the program's, which then ends this
    # A socket's file is there before it listens, and the program waits for the file.
    served = Listener(f"{sys.argv[1]}.new", "AF_UNIX", backlog=256)
    os.rename(f"{sys.argv[1]}.new", sys.argv[1])
    threading.Thread(target=_listen, args=(served,), daemon=True).start()
    sys.stdin.read()  # until the program has ended
    os._exit(0)
