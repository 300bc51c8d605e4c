"""Worlds of ACEBench's agent tasks: the folder's classes, and the user simulator.

Owns the execution of calls on a task's classes and the reply to an answer. A task of many steps has
one fixed sentence as the reply; in a talk, a chat server simulates the user. A world compares the
final state with the expected one. Owns the connection to that server too, and the error for a
server that does not answer.

    user = Speaker(settings.user)
    world = AceWorld(task, host, talk=user.says)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from rods.dialects.base import has_nested
from rods.env import TurnVerdict
from rods.envs.function_call.world import tools_of
from rods.envs.turns import TurnWorld
from rods.errors import EnvError, WriterError
from rods.suites.host import Host, ObjectRef, RaisedError
from rods.suites.sections import ServerSettings
from rods.synthesis.chat import LlmWriterSettings
from rods.synthesis.chat.client import GREEDY, ChatClient
from rods.task import Task
from rods.types import ToolCall, ToolResult, ToolSpec

FINISH = "finish conversation"  # This text ends the conversation, but not in the first two messages
ALONE = "Please do not ask me any questions, use the known conditions to solve the problem"
"""The suite's answer to words in a task without a user."""
CLASSES: Mapping[str, tuple[str, Sequence[str]]] = {
    "BaseApi": ("phone_platform.base_api", ("wifi", "logged_in")),
    "MessageApi": ("phone_platform.message", ("inbox",)),
    "ReminderApi": ("phone_platform.reminder", ("reminder_list",)),
    "FoodPlatform": ("phone_platform.food_services", ("users", "logged_in_users", "orders")),
    "Travel": ("travel", ("users", "reservations")),
}
"""Module of each class, and its attributes that are compared at the end."""
CONCURRENCY = 256  # Conversations that run at once by default
Talk = Callable[[Sequence[Mapping[str, str]]], str]
"""Next text of the user, of the conversation as chat messages; raises `EnvError`."""
PLAIN = ({"role": "user", "content": "Say hello."},)  # A question that every model answers


class TextRefused(EnvError):
    """The server answers other requests, but not this conversation. The agent's text is the cause,
    such as one beyond the context of the server's model."""


class Speaker:
    """One chat server, asked greedily. Threads may share it; it connects at the first question."""

    def __init__(self, server: ServerSettings) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._chat: ChatClient | None = None

    def __bool__(self) -> bool:
        return bool(self._server.url)

    def says(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The answer to a conversation of `role` and `content`.

        Raises:
            TextRefused: there is no answer, but one to a plain question.
            EnvError: there is no answer.
        """
        with self._lock:
            if self._chat is None:
                settings = LlmWriterSettings(
                    url=self._server.url,
                    model={"all": self._server.model} if self._server.model else {},
                    concurrency=CONCURRENCY,
                )
                self._chat = ChatClient(settings, sampling=GREEDY)
            chat = self._chat
        try:
            return chat.ask("user", messages, seed=0).text
        except WriterError as error:  # in the words of this setting
            problem = str(error).replace("synthesis.llm.", "evaluation.suite.user.")
            kind = EnvError if error.fatal or not self._answers(chat) else TextRefused
            raise kind(f"acebench-agent: the user simulator does not answer: {problem}") from None

    def _answers(self, chat: ChatClient) -> bool:
        try:
            chat.ask("user", PLAIN, seed=0)
        except WriterError:
            return False
        return True

    def close(self) -> None:
        """End the connection; the next question makes another."""
        with self._lock:
            if self._chat is not None:
                self._chat.close()
                self._chat = None


class AceWorld(TurnWorld):
    """One single-use world of one task."""

    def __init__(self, task: Task, host: Host, talk: Talk | None) -> None:
        """Open the task's classes in their initial state.

        Args:
            task: its world has `kind`, `language`, `classes`, `config`, and for a talk `prompt`.
            talk: simulates the user; None: nobody does, the world only executes.

        Raises:
            EnvError: a class cannot be opened.
        """
        super().__init__(task)
        self._host, self._talk = host, talk
        self._messages: list[Mapping[str, str]] = []
        """Texts of the user and the agent, as the user simulator is shown them."""
        self._specs = tools_of(task)
        self._refs: dict[str, ObjectRef] = {}
        self._methods: dict[str, frozenset[str]] = {}
        self._replies = 0
        kind, language = task.world["kind"], task.world["language"]
        config = cast("Mapping[str, Any]", task.world["config"])
        for name in cast("list[str]", task.world["classes"]):
            module = f"model_inference.{kind}.scenarios{language}.{CLASSES[name][0]}"
            try:
                self._refs[name] = ref = host.new(module, name)
                for scenario in (config.get(name, {}), config.get("BaseApi", {})):
                    host.drop([host.do(ref, "_load_scenario", {"scenario": scenario}).ref])
                self._methods[name] = host.methods(ref)
            except RaisedError as error:
                raise EnvError(f"acebench-agent: {module}.{name}: {error}") from error

    def offered(self) -> tuple[ToolSpec, ...]:
        """The task's functions."""
        return self._specs

    def _execute(self, call: ToolCall) -> ToolResult:
        """Execute one call on every class that has the function; the last one's result is read."""
        owners = [ref for name, ref in self._refs.items() if call.name in self._methods[name]]
        if not owners or has_nested(call):
            return ToolResult(f"Error during execution: name '{call.name}' is not defined", True)
        try:
            done = [self._host.do(ref, call.name, call.arguments) for ref in owners]
        except RaisedError as error:
            return ToolResult(f"Error during execution: {str(error).partition(': ')[2]}", True)
        self._host.drop([one.ref for one in done])
        value = done[-1].value
        failed = isinstance(value, dict) and value.get("status") is False
        return ToolResult(done[-1].text, failed)

    def opens(self) -> str:
        """The user's first words; nothing where there is no user."""
        prompt = self._task.world.get("prompt")
        if prompt is None:
            return ""
        self._messages = [*cast("list[Mapping[str, str]]", prompt)]
        return self._next()

    def reply(self, text: str) -> str | None:
        """Reply to an answer; None: the conversation is over."""
        first = not (self._replies or self._calls)
        self._replies += 1
        if FINISH in text and not first:
            return None
        if self._task.world.get("prompt") is None:
            return ALONE
        self._messages.append({"role": "user", "content": text})
        try:
            reply = self._next()
        except TextRefused:
            return None
        return None if FINISH in reply and not first else reply

    def _next(self) -> str:
        if self._talk is None:
            raise EnvError("acebench-agent: no user simulator: set evaluation.suite.user.url.")
        reply = self._talk(self._messages)
        self._messages.append({"role": "assistant", "content": reply})
        return reply

    def _verdict(self) -> TurnVerdict:
        right = not self.fault()
        return TurnVerdict(True, self._calls, right, right, right)

    def fault(self) -> str:
        """Fault of the state, in a few words; empty: none."""
        if not self._calls:
            return "nothing was called"
        truth = cast("list[Mapping[str, Mapping[str, Any]]]", self._task.world["truth"])
        state = self._state()
        if len(truth) != len(state):
            return "another number of classes"
        wrong = [name for one in truth for name in one if name in state and _differs(one, state)]
        return f"{wrong[0]} differs" if wrong else ""

    def _state(self) -> dict[str, dict[str, Any]]:
        """The compared attributes of each class."""
        return {name: self._host.state(ref, CLASSES[name][1]) for name, ref in self._refs.items()}

    def close(self) -> None:
        """Let go of the objects."""
        if not self._closed:
            self._closed, self._in_turn = True, False
            self._host.drop(list(self._refs.values()))


def _differs(
    wanted: Mapping[str, Mapping[str, object]], state: Mapping[str, Mapping[str, object]]
) -> bool:
    """True if a class's attributes are not the wanted ones.

    Every compared attribute must be wanted; of an object the wanted keys are compared alone.
    """
    ((name, expected),) = wanted.items()
    for key, value in state[name].items():
        if key not in expected:
            return True
        want = expected[key]
        if not isinstance(want, dict) or not isinstance(value, dict):
            if want != value:
                return True
        elif any(k not in value or value[k] != v for k, v in want.items()):
            return True
    return False
