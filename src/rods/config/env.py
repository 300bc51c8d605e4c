"""Settings of the environment and its tasks, with a section for each bundled environment.

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
    `tuning`: a fifth of the training scenarios replaces the held-out split, so that settings can
    be chosen without it."""


class _Asking(Settings):
    """Base for environments that generate questions by `env.questions`."""


class SearchSettings(_Asking):
    """`env.name = "search"`."""

    corpus: str = ""
    """JSON lines of documents, or the http address of a retriever with the interface of Search-R1;
    empty: the bundled, generated corpus."""
    results: int = Field(default=3, ge=1)
    """Documents that one search returns."""


class PythonToolSettings(_Asking):
    """`env.name = "python_tool"`."""

    sandbox: str = ""
    """Address of a SandboxFusion service; empty: the sandbox of this machine."""
    seconds: float = Field(default=10.0, gt=0)
    """Largest clock time and CPU time of one program, in seconds."""
    memory_mb: int = Field(default=512, ge=1)
    """MiB that one program may use, without the interpreter and the preloaded packages."""


class FunctionCallSettings(Settings):
    """`env.name = "function_call"`: single steps."""

    environment: str = "bfcl"
    """Environment whose tasks are split into single steps. They are its own tasks, or those of
    `env.tasks` in its format or in a published one."""
    result_chars: int = Field(default=0, ge=0)
    """Longer results in the dialogue of a split task are shortened with a visible notice; 0:
    never."""


class RepoSettings(Settings):
    """`env.name = "repo"`."""

    count: int = Field(default=50, ge=1)
    """Largest number of planted bugs in both splits together."""
    difficulty: Annotated[tuple[int, ...], BeforeValidator(one_or_many)] = (1, 2, 3, 4, 5)
    """Levels from 1 to 5: they set the detail of the report and the number of bugs."""
    apart: Literal["repositories", "bugs"] = "repositories"
    """Unit that the splits do not share: whole repositories, or bugs in the same code."""
    seconds: float = Field(default=30.0, gt=0)
    """Seconds that one command of the agent may take."""
    memory_mb: int = Field(default=1024, ge=64)
    """MiB that the commands of a workplace may use together."""


class RemoteSettings(Settings):
    """`env.name = "remote"`: an environment that `rods serve-env` runs on another machine."""

    url: str = ""
    """Address of the service."""


class McpSettings(Settings):
    """`env.name = "mcp"`: the tools of a server of the Model Context Protocol."""

    command: str = ""
    """Starts a server, one for each trajectory; its files are named from the working directory."""
    url: str = ""
    """Address of a running server (streamable HTTP) instead; each trajectory is a session."""
    reset: str = ""
    """Tool of the server that sets the initial state (`world.reset` of a task holds its arguments);
    then started servers are used again."""
    state: str = ""
    """Read-only tool without arguments, or URI of a resource, that shows the state to the judge;
    empty: results alone are judged."""


class QuestionSettings(Settings):
    """Generated questions of `python_tool` and `search` without files in `env.tasks`."""

    families: Texts = ()
    """Families for `python_tool`: `add`, `multiply`, `expression`, `remainder`, `shopping`,
    `travel`, `reasoning_gym:NAME`; empty: all but those of reasoning_gym."""
    difficulty: Annotated[tuple[int, ...], BeforeValidator(one_or_many)] = (1, 2, 3)
    """Levels from 1 to 5; for `search` the number of hops, 1 to 3."""
    count: int = Field(default=400, ge=1)
    """Number of questions in both splits together."""
    lenient: bool = False
    """True: accept an answer in a box, in a tag or after "the answer is", also for questions of a
    file. False: accept it only in the form that the reward's system expects."""


class EnvSettings(Settings):
    """The environment and its original tasks."""

    name: str = "bfcl"
    """Short name, or `module:attribute` or `FILE.py:attribute` of an `Environment` or a factory of
    one."""
    tasks: Texts = ()
    """Files of original tasks in the format of rods (JSON lines). `python_tool`, `search` and
    `function_call` also read published data sets (JSON, JSON lines, Parquet). Empty: the tasks of
    the benchmark, or generated ones."""
    held_out: float = Field(default=0.25, ge=0, lt=1)
    """Held-out share of the scenarios in `tasks`, or of generated questions. The benchmark always
    holds out a half. 0: train on all tasks, and evaluate on `evaluation.files`."""
    train_tasks: int = Field(default=0, ge=0)
    """Number of original tasks to train on, stratified by category; 0: the whole training split."""
    bfcl: BfclSettings = BfclSettings()
    search: SearchSettings = SearchSettings()
    python_tool: PythonToolSettings = PythonToolSettings()
    function_call: FunctionCallSettings = FunctionCallSettings()
    repo: RepoSettings = RepoSettings()
    remote: RemoteSettings = RemoteSettings()
    mcp: McpSettings = McpSettings()
    questions: QuestionSettings = QuestionSettings()
    options: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    """Keyword arguments for your own factory (`module:attribute`), or further ones for a bundled
    environment, such as `masked` of `function_call` and `container` of `repo`."""

    @property
    def arguments(self) -> dict[str, JsonValue]:
        """Keyword arguments of the environment's factory: its section, and `options`."""
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
