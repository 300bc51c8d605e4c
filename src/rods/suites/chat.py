"""Somebody else's model in a suite, who plays its user.

Owns the connection to one chat server, what is said of one that does not answer, and the user's
side of a conversation.

    user = Speaker(settings.user, "acebench-agent")
    user.says([{"role": "user", "content": "Hello."}])
    UserChat("acebench-agent", user.says).opens(instructions)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from rods.config.rollout import ServerSettings
from rods.config.synthesis import LlmWriterSettings
from rods.errors import EnvError, WriterError
from rods.synthesis.chat.client import GREEDY, ChatClient

CONCURRENCY = 256
"""As many conversations as are played at once by default."""

Talk = Callable[[Sequence[Mapping[str, str]]], str]
"""What the user says next, of the conversation as chat messages; raises `EnvError`."""


PLAIN = ({"role": "user", "content": "Say hello."},)
"""A question that every model answers."""


class TextRefused(EnvError):
    """Whoever is asked answers others, but not this conversation: what the agent wrote is at fault,
    such as words beyond the other model's context."""


class Speaker:
    """One chat server, asked greedily. Threads may share it; it connects at the first question."""

    def __init__(self, server: ServerSettings, suite: str) -> None:
        self._server, self._suite = server, suite
        self._lock = threading.Lock()
        self._chat: ChatClient | None = None

    def __bool__(self) -> bool:
        """Whether there is one."""
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
            said = str(error).replace("synthesis.llm.", "evaluation.suite.user.")
            who = f"{self._suite}: the user simulator does not answer"
            kind = EnvError if error.suspends or not self._answers(chat) else TextRefused
            raise kind(f"{who}: {said}") from None

    def _answers(self, chat: ChatClient) -> bool:
        """Whether a plain question is answered."""
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


class UserChat:
    """What a task's user and the agent said, as who plays the user is shown it."""

    def __init__(self, suite: str, talk: Talk | None) -> None:
        """Without `talk` nobody plays the user, and every question is an `EnvError`."""
        self._suite, self._talk = suite, talk
        self._messages: list[Mapping[str, str]] = []

    def opens(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The user's first words after these; raises `EnvError`."""
        self._messages = list(messages)
        return self._next()

    def answers(self, text: str) -> str | None:
        """What the user says to the agent's text; None: nothing, the text is at fault.

        Raises:
            EnvError: nobody answers.
        """
        self._messages.append({"role": "user", "content": text})
        try:
            return self._next()
        except TextRefused:
            return None

    def _next(self) -> str:
        if self._talk is None:
            raise EnvError(f"{self._suite}: no user simulator: set evaluation.suite.user.url.")
        said = self._talk(self._messages)
        self._messages.append({"role": "assistant", "content": said})
        return said
