"""The program: verbs, exit codes, and what a user's mistake says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.error import URLError

import pytest
from rich.table import Table
from typer.main import get_command

from places import SOURCE
from rods.assemble.outline import Outline
from rods.cli import main as program
from rods.cli.common import overrides, print_results, profile_for, progress, say
from rods.config import ModelSettings, Start, load_config
from rods.envs.bfcl.tasks import load_tasks
from rods.errors import ConfigError, PolicyError
from rods.evaluation.template_check import TemplateReport, check_template
from rods.infra.dotted import ALGORITHMS
from rods.infra.install import VERSION
from rods.infra.text import counted
from rods.store import RunDirectory, new_run_dir
from rods.task import write_tasks
from rods.trainers.loading import load_architecture, load_tokenizer, require_found
from verbs import rods


def test_dry_run_prints_the_settings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "--dry-run", "--train.lr", "3e-4", "--rollout.tasks-per-step=4"]
    assert rods(*words, "--json", monkeypatch=monkeypatch) == 0
    shown = json.loads(capsys.readouterr().out)
    settings = shown["settings"]
    assert (settings["train"]["lr"], settings["rollout"]["tasks_per_step"]) == (3e-4, 4)
    assert settings["model"]["name"] == "tiny"
    assert (shown["recipe"], shown["profile"]) == ("rods", "small")
    changed = ["rollout.tasks_per_step: 12 -> 4", "train.lr: 0.002 -> 0.0003"]
    assert shown["changed"] == changed
    assert shown["tasks"]["training"] == 400 and shown["tasks"]["held_out"] > 24
    assert {"weights", "optimizer", "checkpoints"} <= shown["memory"].keys()


def test_a_dry_run_has_one_unit_and_no_length_beyond_the_updates(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rods("train", "--recipe", "torl", "--dry-run", monkeypatch=monkeypatch) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Training tasks: 192. Held-out tasks: 64, 32 of them for evaluation. At most 40" in shown
    assert "1000 epochs or until the updates end" in shown and "24000" not in shown


def test_settings_of_another_environment_are_no_change() -> None:
    asked = ["env.name=search", "env.search.results=4", "stages.0.reward=outcome", "model.name=a/b"]
    config = load_config("torl", "small", asked)
    changed = Outline(config, Start("torl", "small", tuple(asked))).data["changed"]
    assert {"env.search.results: 3 -> 4", "env.name: python_tool -> search"} <= {*changed}
    assert len(changed) == 4, changed


def test_a_batch_of_another_trainer_is_full_however_small_the_pool_is() -> None:
    start = Start("torl", "small", ("env.train_tasks=4",))
    made = [Outline(load_config(*start), start, evaluates=own) for own in (True, False)]
    ours, theirs = (dict(outline.rows)["updates"] for outline in made)
    assert ours.endswith(" of at most 8 tasks x 8 rollouts (at first 4)")
    assert theirs.endswith(" of 8 tasks x 8 rollouts (at first 4 different ones)")


LONG = ",".join(f"{{name='s{n}', epochs=1, expand={str(n > 8).lower()}}}" for n in range(10))
MUCH = ["--seed", "7", "--rollout.k", "4", "--train.lr", "1e-3", "--train.kl", "0.1"]


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (
            ["train"],
            ["stages.2), which begins after 6 updates", "time 10 to 30 minutes on two idle CPU"],
        ),
        (["train", "--recipe", "tool_n1"], ["time about 2 minutes on two idle CPU cores"]),
        (
            ["train", "--stages", f"[{LONG}]", *MUCH],
            ["train.lr: 0.002 -> 0.001", "seed: 0 -> 7", "more (--json)", "unknown; --updates 2"],
        ),
        (["trl"], ["learning_rate 0.002", "num_generations 8"]),
        (["verl", "--profile", "small"], ["rollout.n 8", "optim.lr 0.002"]),
    ],
    ids=["the default", "a recipe", "much is changed", "in TRL", "in verl"],
)
def test_a_dry_run_is_a_summary_of_at_most_40_lines(
    words: list[str],
    lines: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert rods(*words, "--dry-run", monkeypatch=monkeypatch) == 0
    printed = capsys.readouterr()
    shown = printed.out.splitlines()
    assert 10 < len(shown) + len(printed.err.splitlines()) <= 40
    for name in ("recipe", "model", "tasks", "stages", "updates"):
        assert sum(line.startswith(f"{name} ") for line in shown) == 1, name
    asked = [] if "tool_n1" in words else ["Training tasks: 400"]
    for words in (*asked, *lines):
        assert words in " ".join(printed.out.split()), words


@pytest.mark.parametrize(
    ("rank", "rate", "low"), [(8, "1e-6", True), (8, "1e-5", False), (0, "1e-6", False)]
)
def test_a_rate_too_low_for_adapters_is_named(
    rank: int,
    rate: str,
    low: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [f"--model.lora_rank={rank}", f"--train.lr={rate}"]
    assert rods("train", "--dry-run", *words, monkeypatch=monkeypatch) == 0
    assert ("train.lr = 1e-06 is a rate for all weights" in capsys.readouterr().err) is low


@pytest.mark.parametrize(
    ("setting", "near"),
    [
        ("--synthesis.writer=grap", "graph"),
        ("--model.dialect=hermess", "hermes"),
        ("--env.name=bfc", "bfcl"),
        ("--stages=[{name='all', reward='progres', expand=true, epochs=1}]", "progress"),
    ],
)
def test_a_dry_run_refuses_names_that_mean_nothing(
    setting: str, near: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rods("train", "--dry-run", setting, monkeypatch=monkeypatch) != 0
    assert near in capsys.readouterr().err


@pytest.mark.parametrize(("words", "k"), [([], 16), (["--profile", "small"], 8)])
def test_a_model_of_your_own_takes_the_full_setting(
    words: list[str], k: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    asked = ["train", "--model", "a/b", "--recipe", "rods", "--dry-run", "--json", *words]
    assert rods(*asked, monkeypatch=monkeypatch) == 2, "the settings are printed, but no plan"
    printed = capsys.readouterr()
    shown = json.loads(printed.out)["settings"]
    assert (shown["model"]["name"], shown["rollout"]["k"]) == ("a/b", k)
    assert "rods: model 'a/b'" in printed.err and "the memory was not planned." in printed.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "name", "words"),
    [
        ("--model", "a/b", ["--memory", "24"]),
        ("--model", "./cold", []),
        ("--model.name", "cold", []),
    ],
    ids=["hub", "path", "word"],
)
def test_a_dry_run_of_a_model_that_training_would_not_find_is_an_error(
    words: list[str],
    name: str,
    way: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert rods("train", way, name, "--dry-run", *words, monkeypatch=monkeypatch) == 2
    printed = capsys.readouterr()
    if "cold" in name:  # no hub could have it
        assert printed.out == "" and f"there is no folder {name}" in printed.err
        return
    assert f"rods: model '{name}'" in printed.err and "the memory was not planned." in printed.err
    assert f"model       {name}: " in printed.out, "the summary is printed"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ([], 2, "--train.local.optimizer_memory"),
        (["--train.local.optimizer_memory", "8bit"], 0, "it fits"),
        (["--model.lora_rank", "32"], 0, "it fits"),
    ],
)
def test_a_dry_run_says_what_is_held_and_refuses_what_cannot_fit(
    words: list[str],
    status: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from memory_cases import QWEN3_4B

    QWEN3_4B.save_pretrained(tmp_path)  # the config alone
    asked = ["train", "--model", str(tmp_path), "--memory", "80", "--dry-run", *words]
    assert rods(*asked, monkeypatch=monkeypatch) == status
    printed = capsys.readouterr()
    assert "train.local.memory_gib: 0.0 -> 80.0" in printed.out
    for name in ("weights", "gradients", "optimizer", "cache", "activations", "logits", "(disk)"):
        assert f" {name}" in printed.out, name
    assert said in (printed.err if status else printed.out)


@pytest.mark.slow
def test_a_run_that_cannot_fit_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["train", "--memory", "0.3", "--out", str(tmp_path / "run")]
    assert rods(*asked, monkeypatch=monkeypatch) == 2
    assert "needs at least" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "--trian.lr", "1"], "no setting"),
        (["train", "--rollout.K", "8"], "setting 'rollout.K'. Did you mean 'rollout.k'?"),
        (["train", "--rollout.kk", "4"], "Did you mean 'rollout.k'"),
        (["train", "--recipe", "rodz"], "Did you mean 'rods'"),
        (["train", "--train.lr"], "a value is missing"),
        (["train", "--resume", "nowhere"], "there is no such run"),
        (["report", "nowhere"], "nowhere"),
        (["train", "--model", "no/such/folder", "--out", "x"], "no/such/folder"),
        (["check", "--tasks", "absent.jsonl"], "absent.jsonl"),
        (["check", "--env.bfcl.wheel", "absent.whl"], "absent.whl"),
        (["train", "--track", "wandbb", "--out", "x"], "Did you mean 'wandb'"),
    ],
)
def test_a_mistake_is_one_message_and_status_2(
    words: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert rods(*words, monkeypatch=monkeypatch) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert "Traceback" not in shown.err
    assert not any(tmp_path.iterdir()), "a mistake leaves nothing behind"


PPO = (
    "ppo", "train --ppo", "train --algorithm ppo", "train --algorithm=ppo",
    "train --train.advantage ppo", "train --train.loss ppo", "train --train.filter ppo",
)  # fmt: skip
"""Lines that ask for PPO by its name."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["train", "--resmue", "x"],
            "there is no setting or option --resmue. Did you mean '--resume'?",
        ),
        (
            ["train", "--variants", "4"],
            "Did you mean '--evaluation.variants' or '--static.variants'?",
        ),
        (["verl", "--profil", "x", "a=b"], "there is no setting or option --profil. Did you mean"),
        (["check", "--evry"], "Did you mean '--every'?"),
        *(
            (["check", f"--{word}"], f"option --{word}. `rods check --help` lists them.\n")
            for word in ("nonsense", "nonsens", "nn")
        ),
        (["eval", "--out", "x"], "option --out. The results are printed; `--json > FILE`"),
        (["view", "--out", "x"], "setting or option --out. `rods view --help` lists them.\n"),
        (["observe", "--forms", "x"], "there is no setting or option --forms."),
        (["experiment", "--train.lrr", "1", "nowhere"], "there is no experiment 'nowhere'"),
        (["train", "--lr", "3"], "there is no setting or option --lr. Did you mean '--train.lr'?"),
        (["train", "--torl"], "option --torl. Did you mean '--recipe torl'?"),
        (["train", "--bfloat16"], "option --bfloat16. Did you mean '--model.dtype bfloat16'?"),
        (["train", "--train.advantage=gpro"], "got 'gpro'. Did you mean 'grpo'?"),
        (["train", "--train.lr="], "must be a number, such as 1e-06; got ''.\n"),
        (["train", "--train.lr=number"], "such as 1e-06; got 'number'.\n"),
        (["train", "--train.advantage="], "got ''.\n"),
        (["train", "--=3"], "there is no setting or option --. `rods train --help` lists them.\n"),
        (["torl"], "there is no command 'torl'. Did you mean 'rods train --recipe torl'?"),
        (["trian"], "there is no command 'trian'. Did you mean 'rods train'?"),
        (["train.lr"], "there is no command 'train.lr'. Did you mean 'rods settings train.lr'?"),
        (["xyzzy"], "there is no command 'xyzzy'. `rods --help` lists them.\n"),
        (["sft", "--resume", "x", "--epochs", "3"], "Leave out --epochs."),
        (["sft", "d", "--resume", "x", "--train.lr", "1"], "Leave out --train.lr=1 DATA."),
        (["sft", "d", "--resume", "x", "--out", "y"], "--out y: x resumes in its own folder."),
        (
            ["sft", "d", "--train.kl", "1"],
            "--train.kl has no effect: rods sft reads only",
        ),
        (["sft", "d", "--model", "tiny", "--out", "o", "--adapter"], "Set --model.lora_rank"),
        (["settings", "train.lrr"], "setting or section 'train.lrr'. Did you mean 'train.lr'?"),
        (["settings", "lora"], "'lora'. Settings that contain it: model.lora_rank"),
        (["settings", "xyzzy"], "setting or section 'xyzzy'. `rods settings` lists them.\n"),
        (["settings", "trian"], "setting or section 'trian'. Did you mean 'train'?"),
        *(
            (words.split(), "ppo is --train.advantage gae --train.credit trajectory.")
            for words in PPO
        ),
        (["train", "--train.loss", "DAPO"], "DAPO is --train.filter dapo --train.clip_high"),
        (["train", "--train.advantage", "gspo"], "gspo is --train.loss gspo."),
        (["train", "--algorithm"], "algorithm is --train.advantage and --train.loss."),
        (["recipes", "tor"], "there is no recipe 'tor'. Did you mean 'torl'?"),
        (["train", "--train.lrr"], "there is no setting 'train.lrr'. Did you mean 'train.lr'?"),
        (["train", "--rollout.preflight"], "'rollout.preflight'. `rods settings` lists them.\n"),
        (["eval", "--nowhere.at-all"], "'nowhere.at_all'. `rods settings` lists them.\n"),
        (["train", "--updates"], "option --updates: a value is missing."),
        (["train", "--stages.1.reward"], "option --stages.1.reward: a value is missing."),
        (["check", "--env.options.size"], "option --env.options.size: a value is missing."),
        (["eval", "--engine", "hf"], "'engine' is a section of settings, got 'hf'"),
        (["eval", "--engine=hf"], "such as 'engine.name'"),
        (["trl", "--train.gae=x"], "'train.gae' is a section of settings, got 'x'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_word_that_means_nothing_names_what_is_nearest(
    words: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert rods(*words, monkeypatch=monkeypatch) == 2
    shown = capsys.readouterr().err
    assert said in shown and "instance of" not in shown
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "--small"], "--small. Did you mean '--profile small'?"),
        (["eval", "--smal"], "--smal. Did you mean '--profile small'?"),
        (["demonstrate", "--ful", "--out", "x"], "--ful. Did you mean '--profile full'?"),
        (["train", "--blub"], "option --blub. `rods train --help` lists them.\n"),
        (["check", "--smal"], "option --smal. `rods check --help` lists them.\n"),
        (["train", "--seed", "x"], "rods: --seed must be a whole number; got 'x'."),
        (["eval", "--memory", "x"], "rods: --memory must be a number; got 'x'."),
        (
            ["chat", "--temperature", "9"],
            "rods: --temperature must be less than or equal to 5; got '9'.",
        ),
        (["view", "--port", "x"], "rods: --port must be a whole number; got 'x'."),
    ],
)
def test_a_hint_is_near_and_a_wrong_value_of_an_option_is_explained(
    words: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert rods(*words, monkeypatch=monkeypatch) == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "name"),
    [
        ("eval", "runs/A"),
        ("chat", "./cold"),
        ("export --out x", "a/b/c"),
        ("train --out x --model", "runs/A"),
    ],
)
def test_a_missing_path_is_refused_before_anything_is_loaded(
    verb: str, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("no hub is asked for what looks like a path")

    monkeypatch.setattr("rods.trainers.loading.urlopen", never)
    monkeypatch.setattr("rods.trainers.loading.AutoTokenizer.from_pretrained", never)
    first, *more = verb.split()
    words = [first, *more, name] if more[-1:] == ["--model"] else [first, name, *more]
    assert rods(*words, monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert name in said and "there is no" in said and "run" in said


def test_a_model_that_no_hub_gives_is_also_named_as_a_missing_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise URLError("no route to host")

    monkeypatch.setattr("rods.trainers.loading.urlopen", refused)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with pytest.raises(PolicyError) as error:
        require_found("a/cold")
    words = str(error.value)
    first, _, then = words.partition(" As a name at Hugging Face, it cannot be fetched: ")
    assert first.endswith("there is no folder a/cold, neither a model nor a run.")
    assert then.startswith("no route to host."), "without the name of Python's error"


@pytest.mark.parametrize("loads", [load_architecture, load_tokenizer])
def test_a_plain_name_without_a_hub_is_first_a_missing_folder(
    loads: Callable[[ModelSettings], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("no hub has a name without a slash")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("rods.trainers.loading.urlopen", never)
    with pytest.raises(
        PolicyError, match=r"'cold': there is no folder cold, .*`rods sft DATA --out cold` makes it"
    ):
        loads(ModelSettings(name="cold"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for kind in ("AutoConfig", "AutoTokenizer"):
        refused = Mock(side_effect=OSError("no connection"))
        monkeypatch.setattr(f"rods.trainers.loading.{kind}.from_pretrained", refused)
    with pytest.raises(PolicyError, match=r"'a/cold': there is no folder a/cold\. From the hub: "):
        loads(ModelSettings(name="a/cold"))


@pytest.mark.parametrize(
    ("words", "profile"),
    [
        ([], "small"),
        (["model.name=a/b"], "full"),
        (['model.name="a/b"', "train.lr=1"], "full"),
        (["model.lora_rank=8"], "small"),
    ],
)
def test_both_ways_to_name_a_model_take_the_same_profile(
    words: list[str], profile: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert profile_for("", words) == profile
    said = capsys.readouterr().err
    assert ("profile full, because you named a model; --profile takes another" in said) == (
        profile == "full"
    )
    assert profile_for("own", words) == "own"
    assert not capsys.readouterr().err


def test_a_dry_run_reads_the_tasks_and_their_tools(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "--dry-run", "--env.tasks", "nofile.jsonl"]
    assert rods(*words, monkeypatch=monkeypatch) == 2
    printed = capsys.readouterr()
    assert "nofile.jsonl: there is no such file of tasks" in printed.err
    assert not printed.out


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        (["train", "--resume"], "there is no such run. `rods train` starts one."),
        (["sft", "--resume"], "there is no such run. `rods sft` starts one."),
        (["report"], "there is no such run. `rods train` starts one."),
        (["compare", "a"], "there is no run, no summary and no file of `rods eval --json` with"),
    ],
)
def test_a_missing_run_is_refused_by_what_the_command_reads(
    verb: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert rods(*verb, "nowhere", monkeypatch=monkeypatch) == 2
    name = "a" if "compare" in verb else "nowhere"
    assert f"{name}: {said}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "file"), [(["--seeds", "1", "--updates=3", "x"], "x"), (["--", "--x"], "--x")]
)
def test_settings_may_stand_before_an_argument(
    words: list[str],
    file: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert rods("experiment", *words, monkeypatch=monkeypatch) == 2
    assert f"there is no experiment '{file}'" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["", *program._VERBS])
def test_help_has_a_short_name(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rods(*filter(None, [verb, "-h"]), monkeypatch=monkeypatch) == 0
    shown = capsys.readouterr().out
    assert f"Usage: rods {verb}".strip() in shown
    assert not re.search(r"\bverbs?\b", shown, re.I), "the pages call it a command"


def test_help_lists_every_verb_once_in_a_group_on_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rods("--help", monkeypatch=monkeypatch) == 0
    shown = capsys.readouterr().out.partition("Options:")[2]
    listed = re.findall(r"^  ([a-z][\w-]*)  +\S", shown, re.M)
    assert sorted(listed) == sorted(program._VERBS)
    assert re.findall(r"^(\S.*):$", shown, re.M) == [*program._GROUPS]
    assert "..." not in shown, "a summary does not fit its line"
    assert rods("--version", monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out == f"rods {VERSION}\n"


def test_an_option_has_one_meaning_and_a_summary_one_line() -> None:
    """`--tasks` names a file in each verb, `--seeds` are numbers; no type is Python's."""
    group: Any = get_command(program.app)
    kinds: dict[str, set[str]] = {}
    for name, verb in group.commands.items():
        assert len(verb.help.partition("\n\n")[0]) <= 78, name
        context = verb.make_context(name, [], resilient_parsing=True)
        records = [p.get_help_record(context) for p in verb.get_params(context)]
        for named in (named for named, _ in filter(None, records) if named.startswith("--")):
            option, _, kind = named.rpartition(" ") if named.endswith(">") else (named, "", "flag")
            kinds.setdefault(option, set()).add(kind)
    assert {option: found for option, found in kinds.items() if len(found) > 1} == {}
    assert kinds["--tasks"] == {"<path>"} and kinds["--seeds"] == {"<text>"}
    types = set.union(*kinds.values()) - {"flag"}
    assert {kind for kind in types if "|" not in kind} == {"<text>", "<path>", "<number>"}


def test_a_broken_task_row_is_named_by_file_and_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"env": "bfcl"}\n')
    assert rods("check", "--tasks", str(path), monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert "tasks.jsonl:1" in said and "category" in said.replace("\n", " ")


@pytest.mark.slow
def test_doctor_says_what_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rods("doctor", "--json", monkeypatch=monkeypatch) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["packages"]["core"]["numpy"]
    assert {"core", "train", "math", "search", "dev"} <= found["packages"].keys()


@pytest.mark.slow
def test_doctor_says_how_to_get_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rods.cli import doctor

    real = doctor.installed
    monkeypatch.setattr(doctor, "installed", lambda n: None if n == "peft" else real(n))
    assert rods("doctor", monkeypatch=monkeypatch) == 0
    shown = capsys.readouterr().out
    assert "peft MISSING" in shown and "pip install -e '.[train]'" in shown


def test_overrides_take_both_forms() -> None:
    words = ["--train.lr", "1", "--seed", "3", "--rollout.max-invalid=x", "--train.kl", "-2"]
    group: Any = get_command(program.app)
    context = group.commands["train"].make_context("train", words)
    found = overrides(context.args)
    assert found == ["train.lr=1", "rollout.max_invalid=x", "train.kl=-2"]
    assert context.params["seed"] == 3
    with pytest.raises(ConfigError, match="expected --section"):
        overrides(["a.b"])
    context = group.commands["train"].make_context("train", ["--train.lr"])
    with pytest.raises(ConfigError, match="a value is missing"):
        overrides(context.args)


def test_ctrl_c_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def press(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "app", press)
    assert rods("doctor", monkeypatch=monkeypatch) == 130


def test_synth_refuses_a_file_that_exists(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "variants.jsonl"
    path.write_text("mine")
    assert rods("synth", "--out", str(path), monkeypatch=monkeypatch) == 2
    assert "exists" in capsys.readouterr().err
    assert path.read_text() == "mine"


SMALL_RUN = ["updates=3", "rollout.k=4", "env.train_tasks=6", "model.threads=1"]


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    """A run in `mine`, begun with settings of its own, as a kill left it."""
    monkeypatch.chdir(tmp_path)
    start = Start("rods", "small", SMALL_RUN)
    return RunDirectory.create(new_run_dir(tmp_path, "mine"), load_config(*start), start=start)


PLAN = ("--dry-run", "--json")


@pytest.mark.slow
def test_resume_takes_the_runs_own_settings_and_names_what_differs(
    started: RunDirectory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "--resume", "mine"]
    assert rods(*words, "--train.lr", "1", monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert "differ from those of the run: train.lr: 0.002 -> 1.0. Resume without" in said
    assert rods(*words, *PLAN, "--model.threads", "2", monkeypatch=monkeypatch) == 0
    shown = json.loads(capsys.readouterr().out)["settings"]
    assert (shown["model"]["threads"], shown["rollout"]["k"], shown["updates"]) == (2, 4, 3)
    assert started.config.model.threads == 1, "a dry run changes nothing"
    for named in (
        ["--recipe", "rods"],
        ["--profile", "small"],
        ["--recipe", "rods", "--profile", "small"],
    ):
        assert rods(*words, *named, *PLAN, monkeypatch=monkeypatch) == 0, "it is the run's own"
        assert json.loads(capsys.readouterr().out)["settings"]["rollout"]["k"] == 4
        assert rods(*words, *named, "--train.lr", "1", monkeypatch=monkeypatch) == 2
        said = capsys.readouterr().err
        assert "differ from those of the run: train.lr: 0.002 -> 1.0. Resume without" in said
    for named in (["--recipe", "torl"], ["--profile", "full"]):
        assert rods(*words, *named, monkeypatch=monkeypatch) == 2
        assert "this run follows recipe rods, profile small, not" in capsys.readouterr().err
    started.log({"kind": "step", "step": 1, "seconds_rollout": 100.0, "seconds_update": 20.0})
    assert rods(*words, "--dry-run", monkeypatch=monkeypatch) == 0
    assert "4 minutes for the updates that are left: 2" in capsys.readouterr().out
    assert rods(*words, "--out", "other", monkeypatch=monkeypatch) == 2
    assert "resumes in its own folder" in capsys.readouterr().err


@pytest.mark.slow
def test_resume_with_an_edited_recipe_names_what_was_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = tmp_path / "own.toml"
    recipe.write_text("updates = 4\n[train]\nlr = 1e-3\n[model]\nthreads = 1\n")
    start = Start("own.toml", "", ["rollout.k=4"])
    RunDirectory.create(new_run_dir(tmp_path, "mine"), load_config(*start), start=start)
    recipe.write_text("updates = 4\n[train]\nlr = 2e-3\n[model]\nthreads = 2\n")
    words = ["train", "--resume", "mine"]
    assert rods(*words, "--recipe", "own.toml", monkeypatch=monkeypatch) == 2
    assert "the run: train.lr: 0.001 -> 0.002. Resume without" in capsys.readouterr().err
    drift = (*words, "--recipe", "own.toml", "--allow-drift", "--seed", "7")
    assert rods(*drift, monkeypatch=monkeypatch) == 2
    assert "no resume can change: seed: 0 -> 7" in capsys.readouterr().err
    assert rods("train", "--allow-drift", monkeypatch=monkeypatch) == 2
    assert "has no effect without --resume RUN" in capsys.readouterr().err
    assert rods(*words, *PLAN, monkeypatch=monkeypatch) == 0
    shown = json.loads(capsys.readouterr().out)["settings"]
    assert shown["train"]["lr"] == 1e-3, "by its own settings"


@pytest.mark.parametrize("words", ["eval mine", "eval --model mine", "chat mine"])
@pytest.mark.parametrize("option", ["--profile small", "--recipe rods"])
def test_a_run_is_evaluated_with_its_own_settings_alone(
    words: str,
    option: str,
    started: RunDirectory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert rods(*words.split(), *option.split(), monkeypatch=monkeypatch) == 2
    said = f"{option.split()[0]}: no effect, because mine has settings of its own."
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_a_failed_start_of_training_blocks_no_folder_and_a_resume_keeps_its_own(
    started: RunDirectory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> object:
        raise PolicyError("the weights are torn")

    folder = started.path.parent
    write_tasks(folder / "pool.jsonl", load_tasks()[:12])
    monkeypatch.setattr("rods.trainers.loading.load_model", broken)
    for _ in range(2):
        words = ["train", "--out", "new", "--env.tasks", "pool.jsonl"]
        assert rods(*words, monkeypatch=monkeypatch) == 2
        assert "the weights are torn" in capsys.readouterr().err
        assert not (folder / "new").exists()
    assert rods("train", "--resume", "mine", monkeypatch=monkeypatch) == 2
    assert "the weights are torn" in capsys.readouterr().err
    assert RunDirectory.open(folder / "mine").config.updates == 3


@pytest.mark.slow
def test_the_template_is_checked_in_a_dialect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def noted(tokenizer: object, dialect: str) -> TemplateReport:
        asked.append(dialect)
        return check_template(tokenizer, dialect)

    monkeypatch.setattr("rods.evaluation.template_check.check_template", noted)
    words = ["check", "--model", "tiny"]
    assert rods(*words, "--dialect", "compact", monkeypatch=monkeypatch) == 0
    assert rods(*words, "--dialect", "torl", monkeypatch=monkeypatch) == 2
    assert "'torl' is inline" in capsys.readouterr().err
    assert rods("check", "--dialect", "compact", monkeypatch=monkeypatch) == 2
    assert asked == ["compact", "torl"]
    capsys.readouterr()
    assert rods(*words, "--env.name", "bfcl", "--every", monkeypatch=monkeypatch) == 2
    assert "Leave out --every --env.name=bfcl" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "mark"),
    [("trl", "checkpoint-3"), ("verl", "latest_checkpointed_iteration.txt")],
)
@pytest.mark.parametrize(
    ("words", "there", "said"),
    [
        (["--resume", "a"], False, "a: there is no checkpoint to resume. Begin with --out a."),
        (["--resume", "a", "--dry-run"], False, "a: there is no checkpoint to resume. Begin"),
        (["--out", "a"], True, "Continue from the last one with --resume a, or choose another"),
        (["--out", "b", "--resume", "a"], True, "--out b: a resumes in its own folder."),
        (["--out", "a", "--allow-drift"], False, "has no effect without --resume RUN"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_host_resumes_where_it_is_asked_to_and_only_there(
    verb: str,
    mark: str,
    words: list[str],
    there: bool,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    if there:
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / mark).touch()
    assert rods(verb, *words, monkeypatch=monkeypatch) == 2
    assert said in capsys.readouterr().err


def test_each_algorithm_that_a_hint_names_is_a_valid_setting() -> None:
    for name, options in ALGORITHMS.items():
        if name != "algorithm":
            words = options.replace("--", "").split()
            load_config(
                overrides=[f"{k}={v}" for k, v in zip(words[::2], words[1::2], strict=True)]
            )


def test_commands_to_paste_quote_their_paths() -> None:
    """A bare `{path}` after a verb or an option would break where the path has a space."""
    verbs = "|".join(program._VERBS)  # pyright: ignore[reportPrivateUsage]
    bare = rf"(?:\brods (?:{verbs}|\{{verb\}})(?: [A-Z]+)?(?: --\w+)?| with --\w+) \{{([\w.]+)\}}"
    found = set[tuple[str, str]]()
    for file in SOURCE.rglob("*.py"):
        text = re.sub(r'"\s*\n\s*f"', "", file.read_text(encoding="utf-8"))
        found |= {(file.name, name) for name in re.findall(bare, text)}
    ours = {("main.py", "key"), ("main.py", "name"), ("main.py", "typed"), ("common.py", "name")}
    assert {name for _, name in found - ours} <= {"at"}, found  # `ours` are settings and options


@pytest.mark.parametrize("text", ["./hotel.py:hotel: wrong", "./a.py:key: wrong"])
def test_a_name_between_colons_is_no_picture(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    say(text)
    table = Table("what")
    table.add_row(text)
    print_results({}, text, table)
    with progress(text, 1) as advance:
        advance(1, text, 1)
    shown = capsys.readouterr()
    assert shown.out.count(text) == 2
    first, last = shown.err.splitlines()  # without a terminal, no bar follows the line
    assert first == text and last == f"{text}: 1 of 1; {text}"


@pytest.mark.parametrize(
    ("number", "noun", "words"),
    [
        (1, "run", "1 run"),
        (2, "run", "2 runs"),
        (0, "trajectory", "0 trajectories"),
        (1, "trajectory", "1 trajectory"),
        (2, "day", "2 days"),
        (1, "try", "1 try"),
        (2, "try", "2 tries"),
    ],
)
def test_counts_have_a_singular(number: int, noun: str, words: str) -> None:
    assert counted(number, noun) == words
