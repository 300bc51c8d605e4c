"""An environment for the tests of processes: its worlds hang or die when they are asked to."""

from __future__ import annotations

import os
import time

from rods.task import Task
from rods.types import ToolCall, ToolResult
from worlds import NotesEnvironment, NotesWorld


class MoodyWorld(NotesWorld):
    """Hangs, dies, or does what it is asked."""

    def call(self, call: ToolCall) -> ToolResult:
        if call.name == "hang":
            time.sleep(60)
        if call.name == "loop":
            while True:
                pass
        if call.name == "die":
            os._exit(1)
        return super().call(call)


class SlowWorld(NotesWorld):
    """Takes half a second for each call."""

    def call(self, call: ToolCall) -> ToolResult:
        time.sleep(0.5)
        return super().call(call)


class Moody(NotesEnvironment):
    """Opens moody worlds."""

    world: type[NotesWorld] = MoodyWorld

    def open(self, task: Task) -> NotesWorld:
        super().open(task)
        return self.world(self, task, 0)


class Slow(Moody):
    """Opens slow worlds."""

    world = SlowWorld


class Deadly(NotesEnvironment):
    """Ends its process when a world is opened."""

    def open(self, task: Task) -> NotesWorld:
        os._exit(1)
