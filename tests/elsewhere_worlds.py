"""An environment for the tests of processes: its worlds hang or die when they are asked to."""

from __future__ import annotations

import os
import time

from rods.task import Task
from rods.types import ToolCall, ToolResult
from worlds import NotesEnvironment, NotesWorld


class Moody(NotesEnvironment):
    """Opens moody worlds."""

    def open(self, task: Task) -> NotesWorld:
        super().open(task)
        return MoodyWorld(self, task, 0)


class MoodyWorld(NotesWorld):
    """Hangs, dies, or does what it is asked."""

    def call(self, call: ToolCall) -> ToolResult:
        if call.name == "hang":
            time.sleep(60)
        if call.name == "die":
            os._exit(1)
        return super().call(call)


class Slow(NotesEnvironment):
    """Opens slow worlds."""

    def open(self, task: Task) -> NotesWorld:
        super().open(task)
        return SlowWorld(self, task, 0)


class SlowWorld(NotesWorld):
    """Takes half a second for each call."""

    def call(self, call: ToolCall) -> ToolResult:
        time.sleep(0.5)
        return super().call(call)
