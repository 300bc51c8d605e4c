"""Settings of the environment, its tasks and what is particular to each bundled one.

EnvSettings(name="search").arguments
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue

from rods.config.base import Settings, Texts, one_or_many


class BfclSettings(Settings):
    """The benchmark, `env.name = "bfcl"`."""

    wheel: str = ""
    """Path of the benchmark's wheel; empty: an installed package, or the package index."""
    split: Literal["grouped", "paper", "tuning"] = "grouped"
    """`grouped`: by scenario, leak-free. `paper`: half of each category at random (leaks).
    `tuning`: a fifth of the training side's scenarios is evaluated in the held-out side's place,
    which stays untouched while settings are chosen."""


class _Asking(Settings):
    """Of an environment that generates questions: `env.questions` says which."""


class SearchSettings(_Asking):
    """`env.name = "search"`."""

    corpus: str = ""
    """JSON lines of documents, or the address (http://...) of a retriever in the form of Search-R1;
    empty: the bundled, generated corpus."""
    results: int = Field(default=3, ge=1)
    """Documents that one search shows."""


class PythonToolSettings(_Asking):
    """`env.name = "python_tool"`."""

    sandbox: str = ""
    """Address of a SandboxFusion service; empty: the sandbox of this machine."""
    seconds: float = Field(default=10.0, gt=0)
    """Seconds of one program, on the clock and of CPU time."""
    memory_mb: int = Field(default=512, ge=1)
    """MiB that one program may use beside the interpreter and the preloaded packages."""


class FunctionCallSettings(Settings):
    """`env.name = "function_call"`: single steps."""

    environment: str = "bfcl"
    """Environment whose tasks are split into single steps: its own, or those of files in its form
    that `env.tasks` names. Published data sets are named there too."""
    result_chars: int = Field(default=0, ge=0)
    """Longer results in the dialogue of a split task are shortened with a visible notice; 0:
    never."""


class RepoSettings(Settings):
    """`env.name = "repo"`."""

    count: int = Field(default=50, ge=1)
    """Planted bugs of both sides together; fewer where there are no more."""
    difficulty: Annotated[tuple[int, ...], BeforeValidator(one_or_many)] = (1, 2, 3, 4, 5)
    """1 to 5: what is told of a bug, and how many there are."""
    apart: Literal["repositories", "bugs"] = "repositories"
    """What stands on one side only: whole repositories, or bugs (of the same code)."""
    seconds: float = Field(default=30.0, gt=0)
    """Of one command of the agent."""
    memory_mb: int = Field(default=1024, ge=64)
    """MiB that the commands of a workplace may use together."""


class RemoteSettings(Settings):
    """`env.name = "remote"`: the environment that `rods serve-env` plays on another machine."""

    url: str = ""
    """Address of the service."""


class QuestionSettings(Settings):
    """Generated questions, where `env.tasks` names no file (`python_tool`, `search`)."""

    families: Texts = ()
    """Families for `python_tool`: `add`, `multiply`, `expression`, `remainder`, `shopping`,
    `travel`, `reasoning_gym:NAME`; empty: all of our own."""
    difficulty: Annotated[tuple[int, ...], BeforeValidator(one_or_many)] = (1, 2, 3)
    """1 to 5; for `search` the hops, 1 to 3."""
    count: int = Field(default=400, ge=1)
    """Questions of both sides together."""
    lenient: bool = False
    """Take an answer wherever it stands (in a box, a tag, after "the answer is"); holds for the
    questions of a file too. False: where the system of the reward wants it."""


class EnvSettings(Settings):
    """The environment and its original tasks."""

    name: str = "bfcl"
    """Short name, or `module:attribute` or `FILE.py:attribute` of an `Environment` or a factory of
    one."""
    tasks: Texts = ()
    """Files of original tasks: JSON lines of ours, or for `python_tool`, `search` and
    `function_call` published data sets (JSON, JSON lines or Parquet); empty: those of the
    benchmark, or generated ones."""
    held_out: float = Field(default=0.25, ge=0, lt=1)
    """Share of the scenarios in `tasks`, or of generated questions, that is held out; 0: none, all
    is trained on and `evaluation.files` is evaluated on. The benchmark's is a half."""
    train_tasks: int = Field(default=0, ge=0)
    """Original tasks to train on, stratified by category; 0: all of the training side."""
    bfcl: BfclSettings = BfclSettings()
    search: SearchSettings = SearchSettings()
    python_tool: PythonToolSettings = PythonToolSettings()
    function_call: FunctionCallSettings = FunctionCallSettings()
    repo: RepoSettings = RepoSettings()
    remote: RemoteSettings = RemoteSettings()
    questions: QuestionSettings = QuestionSettings()
    options: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    """Keyword arguments of a factory of your own (`module:attribute`), or further ones of a bundled
    environment's, such as `masked` of `function_call` and `container` of `repo`."""

    @property
    def arguments(self) -> dict[str, JsonValue]:
        """What the environment's factory is called with, by name: its section, and `options`."""
        section = getattr(self, self.name, None)
        if not isinstance(section, Settings):
            return dict(self.options)
        made = {**section.model_dump(mode="json"), **self.options}
        if isinstance(section, _Asking):
            made["questions"] = self.questions.model_dump(mode="json")
        if isinstance(section, FunctionCallSettings) and section.environment != self.name:
            other = self.model_copy(update={"name": section.environment, "options": {}})
            made["arguments"] = other.arguments
        return made
