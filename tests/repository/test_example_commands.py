"""The guides on own tools and their example: every command runs, in the order of its page."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from typer.main import get_command

import forked
from page_commands import commands
from places import ROOT
from rods.assemble.refusals import require_named, require_tasks
from rods.assemble.tasks import splits_of
from rods.cli.common import overrides
from rods.cli.main import app
from rods.config import load_config
from rods.envs import make_environment
from rods.envs.mcp.world import McpEnvironment
from rods.errors import PolicyError
from rods.task import read_tasks
from rods.trajectory_codec import read_parquet
from verbs import rods

GUIDES = ROOT / "docs" / "guides"
GUIDE, TASKS, COLD, USE, MCP_GUIDE, COMPARE, VERL = (
    GUIDES / f"{name}.md"
    for name in ("tools", "tasks", "cold-start", "use-the-model", "mcp", "compare", "verl")
)
CLASSES = ROOT / "docs" / "reference" / "tool-classes.md"
EXAMPLE = ROOT / "examples" / "library_loans"
MCP, OPENAPI = (ROOT / "examples" / name for name in ("mcp_notes", "openapi"))


def run(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a command; training stops before it would load the model, which is the reader's own."""
    if words[0] == "python":
        subprocess.run([sys.executable, *words[1:]], check=True)
        return
    if words[1] == "train":
        assert words[words.index("--model") + 1] == "MODEL"
        words = [word.replace("MODEL", "tiny") for word in words]
        with pytest.raises(PolicyError, match="pretrained with other tools"):
            trained(["--model.name" if word == "--model" else word for word in words[2:]])
        words += [] if "--dry-run" in words else ["--dry-run"]
        assert rods(*words[1:], monkeypatch=monkeypatch) == 2, "a dry run refuses it too"
        return
    if words[1] == "chat":
        monkeypatch.setattr(sys, "stdin", io.StringIO("Book room R-1 for 2 hours.\n/quit\n"))
    if words[1] in ("demonstrate", "sft"):  # a few conversations, of a small model
        small = {"MODEL": "tiny", "2000": "6"}
        words = [small.get(word, word) for word in words]
        words += ["--epochs", "1", "--model.threads", "1"] if words[1] == "sft" else []
    assert rods(*words[1:], monkeypatch=monkeypatch) == 0, words


def trained(words: list[str]) -> None:
    """All that `rods train` looks at before it loads a model."""
    from rods.assemble.refusals import require_known_tools

    group: Any = get_command(app)
    context = group.commands["train"].make_context("train", list(words))
    config = load_config("rods", "small", overrides(context.args))
    require_named(config)
    environment = make_environment(config.env.name)
    sides = splits_of(config, environment)
    assert sides.originals and sides.held_out
    require_tasks(config, environment, sides.originals)
    require_known_tools(config, environment, sides.originals)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


@pytest.mark.slow
@pytest.mark.usefixtures("worker_thread")
def test_the_guide_on_seed_tasks_runs(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = GUIDES / "seed-tasks.md"
    [desk, *_] = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    [states] = re.findall(r"```json\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    (place / "desk.py").write_text(desk)
    (place / "states.jsonl").write_text(states)
    shown: list[int] = []
    monkeypatch.setattr("rods.view.server.serve_view", lambda add, *_: shown.append(1))
    asked = commands(page)
    assert [words[1] for words in asked] == ["synth", "check", "view", "synth"]
    run(asked[0], monkeypatch)
    printed = capsys.readouterr()
    [look] = re.findall(r"reject them: (.+)", " ".join(printed.err.split()))
    assert "seconds per seed task" in printed.out and "distance" not in printed.out
    assert "variant" not in printed.err
    for words in [*asked[1:], look.split()]:
        run([*words, "--port", "0"] if words[1] == "view" else words, monkeypatch)
    assert len(list(read_tasks(place / "seeds.jsonl"))) == 8
    assert len(list(read_tasks(place / "variants.jsonl"))) == 20
    assert len(shown) == 2, "the command of the page, and the one that was printed"


@pytest.mark.slow
@pytest.mark.usefixtures("worker_thread")
def test_the_guide_runs(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (GUIDE, TASKS, CLASSES))
    blocks = re.findall(r"```python\n(.*?)```", pages, re.DOTALL)
    for name, block in zip(("desk.py", "tasks.py", "variants.py"), blocks, strict=True):
        (place / name).write_text(block)
    talks = [words for words in commands(USE) if words[:3] == ["rods", "chat", "cold"]]
    init, *more = commands(GUIDE)
    asked = [init, *commands(TASKS), *more, *commands(COLD)[:2], *talks]
    assert [words[:2] for words in asked] == [
        ["rods", "init"],
        ["python", "tasks.py"],
        *(["rods", verb] for verb in ("check", "inspect", "synth", "inspect")),
        *(["rods", verb] for verb in ("train", "demonstrate", "sft")),
        ["rods", "chat"],
    ]
    for words in asked:
        run(words, monkeypatch)
    made = forked.run(["variants.py"], place)
    assert made.stdout == "3\n", made.stderr
    [reader] = re.findall(r"```python\n(.*?)```", COLD.read_text(encoding="utf-8"), re.DOTALL)
    (place / "read.py").write_text(reader)
    read = forked.run(["read.py"], place).stdout.splitlines()
    assert sum(line.startswith("system: ") for line in read) == 5
    assert [line for line in read if line.startswith("assistant: [book_room(room_id=")]
    shown = capsys.readouterr().out
    assert "you: Book room R-1 for 2 hours." in shown
    assert " s: no fault." in " ".join(shown.split())
    assert list(read_tasks(place / "variants.jsonl"))
    assert len(list(read_parquet(place / "cold.parquet"))) == 6
    assert (place / "cold" / "model.safetensors").is_file()
    assert (place / "my_agent" / "README.md").is_file()


@pytest.mark.slow
@pytest.mark.usefixtures("worker_thread")
def test_the_example_runs(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copied = place / "examples" / "library_loans"
    copied.mkdir(parents=True)
    for file in EXAMPLE.glob("*.py"):
        (copied / file.name).write_text(file.read_text(encoding="utf-8"))
    asked = commands(EXAMPLE / "README.md")
    verbs = ("check", "inspect", "synth", "synth", "train", "train")
    assert [words[1] for words in asked] == ["-m", *verbs]
    for words in asked:
        run(words, monkeypatch)
    assert "16 tasks, 48 calls, replayed twice" in " ".join(capsys.readouterr().out.split())
    written = (copied / "tasks.jsonl").read_text(encoding="utf-8")
    assert written == (EXAMPLE / "tasks.jsonl").read_text(encoding="utf-8")
    assert len(list(read_tasks(place / "library.jsonl"))) == 40


@pytest.mark.slow
@pytest.mark.usefixtures("worker_thread")
def test_a_language_model_starts_as_the_page_says(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands of a page in small: four demonstrations, one update, dry runs.

    `test_blocks.py` runs those of the other pages.
    """
    pages = [guide.read_text(encoding="utf-8") for guide in (GUIDE, TASKS)]
    desk, tasks = re.findall(r"```python\n(.*?)```", "".join(pages), re.S)
    (place / "desk.py").write_text(desk)
    (place / "tasks.py").write_text(tasks)
    assert forked.run(["tasks.py"], place).returncode == 0
    [block] = re.findall(r"```sh\n(.*?)```", COLD.read_text(encoding="utf-8"), re.S)
    small = {
        "demonstrate": ["--n", "4"],
        "sft": ["--updates", "1", "--batch-tokens", "1024"],
        "train": ["--dry-run", "--train.local.microbatch_tokens", "1024"],  # fits beside others
    }
    asked = [shlex.split(line, comments=True)[1:] for line in block.splitlines()]
    for verb, *words in asked:
        assert not rods(verb, *words, *small[verb], monkeypatch=monkeypatch), words
    assert {verb for verb, *_ in asked} == set(small)


def script(page: Path) -> str:
    """The only script of a page."""
    [block] = re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    return block.replace("\\\n", "")


@pytest.mark.slow
@pytest.mark.usefixtures("worker_thread")
def test_the_script_that_compares_recipes_prints_intervals_over_seeds(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its loop in small: two seeds, one update, six held-out tasks."""
    convert, *lines, compare = [line.strip() for line in script(COMPARE).splitlines()]
    assert rods(*shlex.split(convert)[1:], monkeypatch=monkeypatch) == 0
    held_out = place / "held_out.jsonl"
    rows = held_out.read_text(encoding="utf-8").splitlines(keepends=True)
    assert len(rows) == 64
    held_out.write_text("".join(rows[:6]), encoding="utf-8")
    loops = dict(re.findall(r"^for (\w+) in (.*); do$", "\n".join(lines), re.M))
    small = {
        "train": ["--updates", "1", "--rollout.tasks_per_step", "2", "--evaluation.tasks", "2"]
    }
    small["train"] += ["--rollout.generated_tokens", "64", "--model.threads", "1"]
    for seed in loops["seed"].split()[:2]:
        for recipe in loops["recipe"].split():
            for line in [line for line in lines if line.startswith("rods ")]:
                line = line.replace("$seed", seed).replace("$recipe", recipe)
                command, _, out = line.partition(" > ")
                verb, *words = shlex.split(command)[1:]
                capsys.readouterr()
                words += small.get(verb, [])
                assert rods(verb, *words, monkeypatch=monkeypatch) == 0, words
                if out:
                    (place / out).write_text(capsys.readouterr().out, encoding="utf-8")
    assert rods(*shlex.split(compare)[1:], monkeypatch=monkeypatch) == 0
    shown = capsys.readouterr()
    assert "Arm minus torl, seed by seed" in shown.out
    pairs = "torl-0.json with retool-0.json, torl-1.json with retool-1.json"
    assert pairs in " ".join(shown.err.split())


@pytest.mark.slow
def test_the_script_of_a_verl_user_converts_and_checks_files_of_verl(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """verl itself is asked for nothing: its command has valid settings."""
    for name in ("train", "test"):
        rows = [
            {
                "data_source": "mine/math",
                "prompt": [{"role": "user", "content": f"How much is {n} + {len(name)}?"}],
                "ability": "math",
                "reward_model": {"style": "rule", "ground_truth": str(n + len(name))},
                "extra_info": {"index": n, "split": name},
            }
            for n in range(8)
        ]
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), f"{name}.parquet")
    *before, train, resume = [shlex.split(line)[1:] for line in script(VERL).splitlines()]
    for words in before:
        assert rods(*words, monkeypatch=monkeypatch) == 0, words
    assert "8 tasks, 0 calls" in " ".join(capsys.readouterr().out.split())
    group: Any = get_command(app)
    context = group.commands["verl"].make_context("verl", train[1:])
    ours = [word for word in context.args if not re.match(r"\w[\w.]*=", word)]
    config = load_config("torl", "full", overrides(ours))
    assert list(config.env.tasks) == ["tasks.jsonl"] and config.updates == 100
    assert len(list(read_tasks(place / "tasks.jsonl"))) == 8
    assert resume == ["verl", "--resume", "runs/verl"]


@pytest.mark.slow
@pytest.mark.usefixtures("worker_thread")
def test_the_mcp_example_runs(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("mcp")
    asked = commands(MCP / "README.md")
    assert [words[1] for words in asked] == ["check", "synth", "train"]
    [block] = re.findall(r"```sh\n(.*?)```", MCP_GUIDE.read_text(encoding="utf-8"), re.S)
    assert sorted(shlex.split(block)) == sorted(asked[0]), "the guide's command is the first one"
    on_laptop = commands(MCP_GUIDE)
    assert [words[1] for words in on_laptop] == ["synth", "train"]
    on_laptop = [[word.replace("smollm2-bfcl", "MODEL") for word in words] for words in on_laptop]
    shown = of_servers([*asked, *on_laptop], monkeypatch, capsys)
    assert "8 tasks, 12 calls, replayed twice" in shown and " s: no fault." in shown
    assert len(list(read_tasks(place / "notes.jsonl"))) == 4
    assert len(list(read_tasks(place / "variants.jsonl"))) == 6


@pytest.mark.slow
def test_the_guide_s_small_server_has_its_tool(tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    blocks = re.findall(r"```python\n(.*?)```", MCP_GUIDE.read_text(encoding="utf-8"), re.S)
    [block] = [block for block in blocks if "MCPServer" in block]
    (tmp_path / "server.py").write_text(block, encoding="utf-8")
    environment = McpEnvironment(f"{sys.executable} {tmp_path / 'server.py'}")
    with closing(environment):
        assert [*environment.tools] == ["add"]


def of_servers(
    asked: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """Run commands of the examples behind MCP and return what they print.

    `tiny` knows other tools, so training is refused, last of all that is checked.
    """
    for _, *words in asked:
        words = [re.sub(r"\bexamples/", f"{ROOT}/examples/", word) for word in words]
        words = [re.sub("^python ", f"{sys.executable} ", word) for word in words]
        status = rods(*[w.replace("MODEL", "tiny") for w in words], monkeypatch=monkeypatch)
        assert status == (2 if words[0] == "train" else 0), words
    out, err = capsys.readouterr()
    assert "this bundled policy was pretrained with other tools" in err
    return " ".join(out.split())


@pytest.mark.slow
@pytest.mark.usefixtures("worker_thread")
def test_the_openapi_example_runs(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("fastmcp")
    blocks = re.findall(r"```python\n(.*?)```", MCP_GUIDE.read_text(encoding="utf-8"), re.S)
    [lines] = [block for block in blocks if "fastmcp" in block]
    server = (OPENAPI / "server.py").read_text(encoding="utf-8")
    code = [line for line in server.splitlines() if not line.startswith("#")]
    assert lines.split() == "\n".join(code).split('"""')[2].split(), (
        "the guide's server is this one"
    )
    asked = commands(OPENAPI / "README.md")
    assert [words[1] for words in asked] == ["check", "synth", "train"]
    shown = of_servers(asked, monkeypatch, capsys)
    assert "8 tasks, 13 calls, replayed twice" in shown and " s: no fault." in shown
    made = list(read_tasks(place / "equipment.jsonl"))
    assert len(made) == 6
    assert all({"items", "loans", "lent"} == set(task.world["reset"]) for task in made)


@pytest.mark.slow
def test_tiny_is_refused_before_anything_is_evaluated(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "rods.trainers.loading.load_model", lambda _: pytest.fail("a model was loaded")
    )
    monkeypatch.syspath_prepend(str(ROOT))
    words = ["--env.name", str(EXAMPLE / "service.py:library")]
    words += ["--env.tasks", str(EXAMPLE / "tasks.jsonl"), "--synthesis.writer", "graph"]
    assert rods("train", *words, "--out", "run", monkeypatch=monkeypatch) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert 'model.name = "tiny": this bundled policy was pretrained with other tools' in said
    assert "or model.name=... for rods.load_config" in said
    assert "(find_books, book_details, member_account and 10 more)" in said
    assert not (place / "run" / "metrics.jsonl").exists()
