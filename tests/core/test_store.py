import errno
import io
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from safetensors.numpy import save_file

import rods
from pool_cases import group, original
from rods.assemble import train
from rods.config import RunConfig, StageSettings, Start, keys, load_config, with_overrides
from rods.config.drift import may_change
from rods.errors import ConfigError, StoreError
from rods.infra.files import locked, open_to_readers, released, write_atomic
from rods.report.run_data import load_run
from rods.store import FORMAT, RunDirectory, new_run_dir, require_free
from rods.trainers.adamw import rate


@pytest.fixture
def run(tmp_path):
    return RunDirectory.create(
        new_run_dir(tmp_path, "today"), RunConfig(), command=["rods", "train"]
    )


def save(run, step, text="weights"):
    with run.checkpoint(step) as folder:
        (folder / "model").mkdir()
        (folder / "model" / "weights").write_text(text)


def save_log(run, step):
    run.log({"step": step})
    save(run, step)


def full_disk(*_args, **_kwargs):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_new_run_dirs_never_meet(tmp_path):
    assert new_run_dir(tmp_path) != new_run_dir(tmp_path)
    path = new_run_dir(tmp_path / "deep" / "er", "mine")
    RunDirectory.create(path, RunConfig())
    with pytest.raises(StoreError, match=r"exists already.*rods train --resume"):
        new_run_dir(tmp_path / "deep" / "er", "mine")


def test_manifest_says_what_ran_and_names_no_folder_and_no_login(tmp_path):
    path = new_run_dir(tmp_path, "x")
    command = [
        "/home/me/env/bin/rods",
        "train",
        "--model",
        "/data/qwen",
        "env.bfcl.wheel=/data/x.whl",
        "--writer-url=http://me:pw@host/v1",
        "--engine.vllm.options.api-key",
        "my pw",
        "--env.mcp.command=serve --header 'X-Api-Key: my pw'",
        "--rollout.step_tokens",
        "64",
    ]
    run = RunDirectory.create(
        path, RunConfig(seed=5), seeds={"evaluation": 9}, split_hash="ab", command=command
    )
    saved = json.loads((path / "manifest.json").read_text())
    assert (
        saved["command"]
        == "rods train --model qwen env.bfcl.wheel=x.whl --writer-url=http://***@host/v1"
        " --engine.vllm.options.api-key *** --env.mcp.command=serve --header 'X-Api-Key: ***'"
        " --rollout.step_tokens 64"
    )
    assert saved["seeds"] == {"seed": 5, "evaluation": 9}
    assert saved["rods"] == rods.__version__ and saved["versions"]["torch"]
    assert (saved["split_hash"], saved["digest"]) == ("ab", RunConfig(seed=5).digest())
    assert run.config == RunConfig(seed=5)
    assert saved["finished"] is None
    run.finish()
    assert RunDirectory.open(path).manifest["finished"]
    with pytest.raises(StoreError, match="this run of `rods train` exists already"):
        RunDirectory.create(path, RunConfig())


def test_opening_what_is_no_run(tmp_path, run):
    with pytest.raises(StoreError, match="there is no such run"):
        RunDirectory.open(tmp_path / "none")
    with pytest.raises(StoreError, match=r"no manifest.json"):
        RunDirectory.open(tmp_path)
    (run.path / "manifest.json").write_text("{}")
    with pytest.raises(StoreError, match="rods, digest, config missing"):
        RunDirectory.open(run.path)
    (run.path / "manifest.json").write_text('{"ro')
    with pytest.raises(StoreError, match="not JSON"):
        RunDirectory.resume(run.path)


def test_resume_lists_the_settings_that_differ(run):
    other = RunConfig.model_validate({"train": {"lr": 0.5}, "seed": 3})
    with pytest.raises(StoreError) as caught:
        RunDirectory.resume(run.path, other)
    assert "seed: 0 -> 3; train.lr: 1e-06 -> 0.5" in str(caught.value)
    assert RunDirectory.resume(run.path, RunConfig()).config == RunConfig()


@pytest.mark.parametrize(
    "setting",
    [
        *("updates=900", "trajectories=900", "evaluation.tasks=3", "evaluation.every=5"),
        *(
            "evaluation.suite.folder=moved",
            'evaluation.files=["moved.json"]',
            "track.project=p",
        ),
        *('env.tasks=["moved.jsonl"]', "engine.folder=moved"),
        *("engine.vllm.command=/opt/vllm", "engine.vllm.memory=0.3", "engine.vllm.sleep=true"),
    ],
)
def test_length_evaluation_and_paths_are_no_drift(run, setting):
    other = with_overrides(RunConfig(), [setting])
    resumed = RunDirectory.resume(run.path, other)
    key = setting.partition("=")[0]
    assert [c["setting"].partition(":")[0] for c in resumed.manifest["changes"]] == [key]
    assert resumed.config == other


@pytest.mark.parametrize(
    ("schedule", "updates", "reported"),
    [("cosine", 80, True), ("cosine", 40, False), ("constant", 80, False)],
)
def test_another_length_moves_a_cosine_and_is_reported(
    schedule, updates, reported, tmp_path, caplog, monkeypatch
):
    config = with_overrides(RunConfig(), [f"train.schedule={schedule}", "updates=40"])
    run = RunDirectory.create(new_run_dir(tmp_path, "mine"), config)
    stop = ConfigError("far enough")
    monkeypatch.setattr("rods.assemble.startable", Mock(side_effect=stop))
    with pytest.raises(ConfigError, match="far enough"):
        train(with_overrides(config, [f"updates={updates}"]), resume=run.path)
    moved = rate(config.train, 40, 40) != rate(config.train, 40, updates)
    assert moved is reported is ("as if updates = 80 had been set" in caplog.text)


@pytest.mark.parametrize(
    ("setting", "named", "reported"),
    [
        ("updates=80", "[]", True),
        ("trajectories=640", "[]", True),
        ("updates=80", "['all']", False),
        ("evaluation.every=3", "[]", False),
    ],
)
def test_another_length_moves_hints_that_no_stage_names_and_is_reported(
    setting, named, reported, tmp_path, caplog, monkeypatch
):
    """They end half way through the part of the last stage that the run reaches."""
    words = ["curriculum=envtuning", "updates=40", f"envtuning.hints={named}"]
    config = with_overrides(RunConfig(stages=[StageSettings(name="all", epochs=99)]), words)
    run = RunDirectory.create(new_run_dir(tmp_path, "mine"), config)
    monkeypatch.setattr("rods.assemble.startable", Mock(side_effect=ConfigError("far enough")))
    with pytest.raises(ConfigError, match="far enough"):
        train(with_overrides(config, [setting]), resume=run.path)
    length = setting.replace("=", " = ")
    assert reported is (f"epochs get hints as if {length} had been set" in caplog.text)


@pytest.mark.parametrize(
    "key", ["env.name", "synthesis.writer", "model.dialect", "stages.0.reward"]
)
@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("./tools.py:bistro", "/new/tools.py:bistro", True),
        ("tools.py:bistro", "../my folder/tools.py:bistro", True),
        ("./tools.py:bistro", "./tools.py:other", False),
        ("./tools.py:bistro", "./mytools.py:bistro", False),
        ("./tools.py:bistro", "tools:bistro", False),
        ("a:bistro", "b:bistro", False),
    ],
)
def test_a_file_of_one_s_own_that_was_moved_is_no_drift(key, before, after, same, tmp_path):
    config, moved = (with_overrides(RunConfig(), [f"{key}={at}"]) for at in (before, after))
    run = RunDirectory.create(new_run_dir(tmp_path, "mine"), config)
    if same:
        assert RunDirectory.resume(run.path, moved).config == moved
        [change] = RunDirectory.open(run.path).manifest["changes"]
        assert change["setting"] == f"{key}: {before} -> {after}"
        return
    with pytest.raises(StoreError, match=f"{key}: "):
        RunDirectory.resume(run.path, moved)


def test_places_that_an_environment_declares_are_no_drift(tmp_path):
    config = with_overrides(RunConfig(), ["env.name=search"])
    run = RunDirectory.create(new_run_dir(tmp_path, "mine"), config)
    moved = with_overrides(config, ["env.search.corpus=moved"])
    assert RunDirectory.resume(run.path, moved).config == moved
    with pytest.raises(StoreError, match=r"env\.search\.results: 3 -> 4"):
        RunDirectory.resume(run.path, with_overrides(moved, ["env.search.results=4"]))
    assert {"env.search.corpus", "env.bfcl.wheel", "env.mcp.url", "env.mcp.command"} <= may_change()
    assert "env.bfcl.wheel" in may_change(compared=True)
    assert "env.search.corpus" not in may_change(compared=True)


def test_a_manifest_with_sections_of_other_environments_is_read(run):
    config = run.config.model_dump(mode="json")
    config["env"]["search"] = {"corpus": "", "results": 3}
    run.update_manifest(config=config)
    assert RunDirectory.open(run.path).config == RunConfig()


def test_a_refused_resume_lists_what_differs_and_no_table_of_keys(run):
    with pytest.raises(StoreError) as caught:
        RunDirectory.resume(run.path, with_overrides(RunConfig(), ["train.lr=0.5", "updates=9"]))
    assert "train.lr: 1e-06 -> 0.5" in str(caught.value) and len(str(caught.value)) < 500
    assert "updates" not in str(caught.value) and "microbatch" not in str(caught.value)


def test_resume_may_change_what_decides_nothing_and_remembers_it(run):
    save_log(run, 4)
    data = {"model": {"threads": 3}, "synthesis": {"llm": {"url": "http://localhost:2/v1"}}}
    other = RunConfig.model_validate(data)
    assert RunDirectory.resume(run.path, other).config == other
    again = RunDirectory.open(run.path)
    assert again.config == other and again.manifest["digest"] == other.digest()
    assert again.manifest["changes"] == [
        {"step": 4, "setting": "model.threads: 0 -> 3"},
        {"step": 4, "setting": "synthesis.llm.url:  -> http://localhost:2/v1"},
    ]
    wrong = RunConfig.model_validate({**data, "model": {"threads": 5}, "seed": 1})
    with pytest.raises(StoreError, match=r"the run: seed: 0 -> 1\. Resume"):
        RunDirectory.resume(run.path, wrong)
    assert RunDirectory.open(run.path).config == other


@pytest.mark.parametrize("refuses", ["startable", "assemble", "run_loop"])
def test_settings_of_a_refused_resume_are_not_those_of_the_run(run, refuses, monkeypatch):
    def stop(*given):
        if refuses == "run_loop":
            given[1].log({"step": 1})
        raise ConfigError("it does not fit")

    save_log(run, 1)
    monkeypatch.setattr("rods.assemble.startable", Mock())
    monkeypatch.setattr("rods.assemble.assemble", lambda *_: nullcontext())
    monkeypatch.setattr(f"rods.assemble.{refuses}", stop)
    other = with_overrides(run.config, ["train.local.memory_gib=0.1"])
    with pytest.raises(ConfigError, match="does not fit"):
        train(other, resume=run.path)
    made = RunDirectory.open(run.path)
    assert made.config == (other if refuses == "run_loop" else run.config), "of what is logged"
    assert ("changes" in made.manifest) == (refuses == "run_loop")


def test_drift_is_allowed_by_name_alone_and_remembered(run):
    save_log(run, 4)
    other = RunConfig.model_validate({"train": {"lr": 0.5}, "boundary": {"low": 0.1}})
    with pytest.raises(StoreError, match=r"train.lr: 1e-06 -> 0.5.*--allow-drift"):
        RunDirectory.resume(run.path, other)
    assert RunDirectory.open(run.path).config == RunConfig()
    for key, data in (
        ("seed: 0 -> 1", {"seed": 1}),
        ("model.lora_rank: 0 -> 4", {"model": {"lora_rank": 4}}),
        ("stages", {"stages": [{"name": "one", "epochs": 1}]}),
    ):
        saved = RunConfig.model_validate({**other.model_dump(exclude_unset=True), **data})
        with pytest.raises(StoreError, match=f"no resume can change: {key}"):
            RunDirectory.resume(run.path, saved, drift=True)
    assert RunDirectory.open(run.path).config == RunConfig(), "a refusal changes nothing"
    assert RunDirectory.resume(run.path, other, drift=True).config == other
    again = RunDirectory.open(run.path)
    low = RunConfig().boundary.low
    assert sorted(row["setting"] for row in again.manifest["changes"]) == [
        f"boundary.low: {low} -> 0.1",
        "train.lr: 1e-06 -> 0.5",
    ]
    assert RunDirectory.resume(run.path).config == other, "it goes on with them"


def test_a_run_remembers_what_its_settings_were_read_from(tmp_path):
    start = Start("rods", "small", ["updates=2"])
    config = load_config(*start)
    run = RunDirectory.create(new_run_dir(tmp_path, "mine"), config, start=start)
    assert RunDirectory.open(run.path).start == start
    changed = load_config(*start._replace(overrides=["updates=2", "model.threads=3"]))
    later = start._replace(overrides=["updates=2", "model.threads=3"])
    RunDirectory.resume(run.path, changed, later)
    assert RunDirectory.open(run.path).start == later
    assert load_config(*later) == RunDirectory.open(run.path).config


@pytest.mark.parametrize(
    ("folder", "why"), [(".", "a folder that exists"), ("mine", "is not a run")]
)
def test_a_folder_that_is_taken_is_refused_before_tasks_are_read(
    folder, why, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").touch()
    monkeypatch.setattr("rods.assemble.startable", Mock(side_effect=AssertionError))
    with pytest.raises(StoreError, match=why):
        train(RunConfig(), folder=folder)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_settings_that_a_resume_may_change_exist():
    for name in may_change():
        free = name.startswith("env.options.")  # names that an environment's factory takes
        known = "env.options" if free else name
        assert any(key == known or key.startswith(f"{known}.") for key in keys()), name


def test_a_failed_start_gives_its_folder_back(tmp_path, monkeypatch):
    path = new_run_dir(tmp_path, "mine")
    assert new_run_dir(tmp_path, "mine") == path  # an empty one may be taken
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full_disk)
        with pytest.raises(StoreError, match="disk is full"):
            RunDirectory.create(path, RunConfig())
    assert not path.exists()
    run = RunDirectory.create(new_run_dir(tmp_path, "mine"), RunConfig())
    run.abandon()
    assert not path.exists()
    run = RunDirectory.create(new_run_dir(tmp_path, "mine"), RunConfig())
    save_log(run, 0)
    run.abandon()
    assert path.exists()
    run.log({"kind": "eval", "step": 0})
    run.abandon(refused=True)
    assert not path.exists()
    (path / "notes").mkdir(parents=True)
    with pytest.raises(StoreError, match=r"exists already, and is not a run"):
        new_run_dir(tmp_path, "mine")


def test_a_run_that_was_updated_is_kept_whatever_refuses_it_then(run):
    """Its next checkpoint may be some updates away."""
    save_log(run, 0)
    run.log({"kind": "step", "step": 1})
    run.abandon(refused=True)
    assert [record["step"] for record in run.metrics()] == [0, 1]
    path = run.path
    del run
    assert [r["step"] for r in RunDirectory.resume(path).metrics()] == [0], "it is done again"


def test_a_start_beside_another_process_leaves_its_folder(tmp_path, monkeypatch):
    path = new_run_dir(tmp_path, "mine")
    (path / ".lock").touch()
    (path / "manifest.json.part").write_text("{")
    with monkeypatch.context() as patch, pytest.raises(StoreError, match="another process"):
        patch.setattr("fcntl.lockf", Mock(side_effect=OSError(errno.EAGAIN, "held")))
        RunDirectory.create(new_run_dir(tmp_path, "mine"), RunConfig())
    assert len(list(path.iterdir())) == 2
    # what a start leaves that was killed before its manifest does not block the next one
    RunDirectory.create(new_run_dir(tmp_path, "mine"), RunConfig(seed=3))
    assert RunDirectory.open(path).config.seed == 3


def _start_all(paths, barrier, answers):
    runs, said = [], []
    for path in paths:
        barrier.wait(60)
        try:
            folder = new_run_dir(path.parent, path.name)
            runs.append(RunDirectory.create(folder, RunConfig(seed=os.getpid())))
            said.append("")
        except StoreError as error:
            said.append(str(error))
    answers.put((os.getpid(), said))
    barrier.wait(60)


@pytest.mark.slow
def test_of_two_starts_into_one_folder_one_runs(tmp_path):
    paths = [tmp_path / str(n) for n in range(60)]
    for path in paths[::2]:
        path.mkdir()
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(2), context.Queue()
    players = [context.Process(target=_start_all, args=(paths, barrier, answers)) for _ in "ab"]
    for player in players:
        player.start()
    (first, one), (second, two) = answers.get(timeout=60), answers.get(timeout=60)
    for player in players:
        player.join()
    for path, mine, theirs in zip(paths, one, two, strict=True):
        assert (mine == "") != (theirs == "")
        assert re.search("another process is training|exists already", mine or theirs)
        assert RunDirectory.open(path).config.seed == (second if mine else first)
    assert all(set(said) != {""} for said in (one, two)), "they never met"


@pytest.mark.parametrize(("version", "fine"), [("0.1.9", True), ("0.2.0", False), ("1.1.0", False)])
def test_resume_needs_the_same_major_and_minor_version(run, monkeypatch, version, fine):
    monkeypatch.setattr("rods.store.VERSION", version)
    if fine:
        RunDirectory.resume(run.path)
    else:
        with pytest.raises(StoreError, match=rf"made by rods 0\.1\.0 .* this is rods {version}"):
            RunDirectory.resume(run.path)


@pytest.mark.parametrize("form", [None, FORMAT - 1, FORMAT + 1])
def test_a_run_of_another_format_is_refused_and_still_reported(run, form):
    run.log({"kind": "step", "step": 1})
    save(run, 1)
    manifest = {k: v for k, v in run.manifest.items() if k != "format"}
    manifest |= {} if form is None else {"format": form}
    (run.path / "manifest.json").write_text(json.dumps(manifest))
    before = {p: p.read_bytes() for p in run.path.rglob("*") if p.is_file()}
    said = rf"rods 0\.1\.0 in format {form}, .*which reads format {FORMAT}\. Resume it with"
    with pytest.raises(StoreError, match=said):
        RunDirectory.resume(run.path)
    with pytest.raises(StoreError, match=said):
        _ = RunDirectory.open(run.path).config
    assert {p: p.read_bytes() for p in run.path.rglob("*") if p.is_file()} == before
    assert len(load_run(run.path).steps) == 1


def test_metrics_survive_a_torn_line_and_are_cut_at_the_checkpoint(run):
    run.log({"kind": "eval", "step": 0})
    save(run, 0)
    run.log({"kind": "step", "step": 1})
    save(run, 1)
    run.log({"kind": "epoch", "step": 1})
    run.log({"kind": "step", "step": 2})
    with (run.path / "metrics.jsonl").open("a") as out:
        out.write('{"kind": "step", "st')
    assert [r["kind"] for r in run.metrics()] == ["eval", "step", "epoch", "step"]
    again = RunDirectory.resume(run.path)
    assert [(r["kind"], r["step"]) for r in again.metrics()] == [("eval", 0), ("step", 1)]
    again.log({"kind": "step", "step": 2})
    assert len(again.metrics()) == 3


def test_what_a_resume_forgets_is_said(run, caplog):
    save_log(run, 1)
    RunDirectory.resume(run.path)
    assert not caplog.messages
    run.log({"step": 2})
    with (run.path / "metrics.jsonl").open("a") as out:
        out.write('{"kind": "st')
    RunDirectory.resume(run.path)
    (said,) = caplog.messages
    assert "2 lines written after the last checkpoint removed, to be computed again; the" in said


@pytest.mark.parametrize("left", [0, 3])
def test_a_log_that_lost_what_a_checkpoint_knew_goes_back_to_the_one_before(run, caplog, left):
    save_log(run, 1)
    kept = run.metrics()
    save_log(run, 2)
    path = run.path / "metrics.jsonl"
    first = path.read_bytes().index(b"\n") + 1
    os.truncate(path, first + left)
    again = RunDirectory.resume(run.path)
    assert again.metrics() == kept and again.latest_checkpoint().step == 1
    assert "the end that step-000002 knew is lost; back to step-000001" in caplog.messages[0]
    save_log(again, 2)
    assert RunDirectory.resume(run.path).latest_checkpoint().step == 2
    os.truncate(path, first + left)
    RunDirectory.resume(run.path)  # the older one again, and nothing older is there now
    os.truncate(path, left)
    caplog.clear()
    again = RunDirectory.resume(run.path)
    assert again.metrics() == [] and again.latest_checkpoint().step == 1
    assert "the end that step-000001 knew is lost; it resumes with a gap" in caplog.messages[0]
    for end in range(20):  # what is logged now is behind the checkpoint, however long it is
        again.log({"step": 2, "end": end})
    again = RunDirectory.resume(run.path)
    assert again.metrics() == []
    save_log(again, 2)
    assert RunDirectory.resume(run.path).metrics() == [{"step": 2}]


@pytest.mark.slow
def test_a_process_that_was_killed_is_named_by_the_next(run, caplog):
    code = (
        "import os, signal, sys, pathlib\n"
        "from rods.infra.files import locked, released\n"
        "handle = locked(pathlib.Path(sys.argv[1]), 'busy')\n"
        "os.kill(os.getpid(), signal.SIGKILL) if sys.argv[2] == 'killed' else released(handle)\n"
    )
    for end in ("ended", "killed"):
        path = run.path / end
        process = subprocess.Popen([sys.executable, "-c", code, str(path), end])
        process.wait()
        released(locked(path, "busy"))
    assert caplog.messages == [
        f"{path}: process {process.pid}, at work here before, was killed, or the machine stopped"
    ]
    released(locked(path, "busy"))
    assert len(caplog.messages) == 1


def test_without_a_checkpoint_a_run_begins_anew(run):
    run.log({"kind": "eval", "step": 0})
    again = RunDirectory.resume(run.path)
    assert again.metrics() == [] and again.latest_checkpoint() is None


def test_a_damaged_line_within_the_log_is_named(run):
    (run.path / "metrics.jsonl").write_text('{"step": 1}\nnonsense\n{"step": 2}\n')
    with pytest.raises(StoreError, match=r"metrics.jsonl:2: not JSON"):
        run.metrics()


def test_a_command_to_continue_quotes_the_folder(tmp_path):
    folder = tmp_path / "my second run"
    folder.mkdir()
    manifest = '{"rods": "0", "digest": "", "config": {}, "kind": "sft"}'
    (folder / "manifest.json").write_text(manifest, encoding="utf-8")
    with pytest.raises(StoreError, match=f"`rods sft --resume '{folder}'`"):
        require_free(folder)


def test_a_folder_that_is_removed_from_a_run_at_work_is_named_and_not_made_again(run):
    shutil.rmtree(run.path)
    for write in (
        lambda: run.log({"kind": "step", "step": 1}),
        lambda: run.write_trajectories(1, []),
        lambda: save(run, 1, "w"),
        run.finish,
    ):
        with pytest.raises(StoreError, match=f"there is no folder {run.path}; it may have been"):
            write()
    assert not run.path.exists()


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_weights_get_the_mode_of_any_new_file(tmp_path, umask):
    before = os.umask(umask)
    try:
        (tmp_path / "config.json").touch()
        save_file({"a": np.zeros(2)}, tmp_path / "model.safetensors")
        open_to_readers(tmp_path)
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("config.json", "model.safetensors"), 0o666 & ~umask)


@pytest.mark.parametrize("record", [{"kind": "step"}, {"step": "1"}])
def test_a_record_needs_its_step(run, record):
    with pytest.raises(StoreError, match="whole number `step`"):
        run.log(record)


def test_checkpoints_are_whole_and_two_are_kept(run):
    for step in (1, 2, 3):
        save(run, step, f"w{step}")
    assert sorted(p.name for p in run.checkpoints.folder.iterdir()) == [
        "latest",
        "step-000002",
        "step-000003",
    ]
    latest = run.latest_checkpoint()
    assert latest.step == 3 and (latest.path / "model" / "weights").read_text() == "w3"
    save(run, 3, "again")
    assert (run.latest_checkpoint().path / "model" / "weights").read_text() == "again"


def test_copies_beside_checkpoints_and_trajectories_are_somebody_s_own(run):
    trajectories = group(original(1), [1.0, 0.0])[0].trajectories
    for step in (1, 2, 3):
        run.write_trajectories(step, trajectories)
        save_log(run, step)
    best = run.checkpoints.folder / "step-000002-best"
    shutil.copytree(run.latest_checkpoint().path, best)
    copy = run.trajectories / "step-000003 copy.parquet"
    shutil.copy(run.trajectories / "step-000003.parquet", copy)
    assert run.latest_checkpoint().step == 3
    save_log(run, 4)
    assert RunDirectory.resume(run.path).latest_checkpoint().step == 4
    assert best.is_dir() and copy.is_file()


def test_a_checkpoint_is_durable_with_its_inner_folders(run, monkeypatch):
    def synced(path):
        made.append(path.name)

    made = []
    monkeypatch.setattr("rods.infra.checkpoints.sync", synced)
    save(run, 1)
    assert made[-1] == ".step-000001.part", "last, when what is in it is on the disk"
    assert {*made[:-1]} == {"mark.json", "model", "weights"}


def test_a_failure_within_a_checkpoint_leaves_the_old_one(run):
    save(run, 1)
    with pytest.raises(KeyError), run.checkpoint(2) as folder:
        (folder / "half").write_text("x")
        raise KeyError("bug")
    assert run.latest_checkpoint().step == 1
    assert [p.name for p in run.checkpoints.folder.glob("*2*")] == []


def test_a_kill_within_a_checkpoint_leaves_rubbish_that_resume_removes(run):
    save(run, 1)
    (run.checkpoints.folder / ".step-000002.part").mkdir()
    again = RunDirectory.resume(run.path)
    assert again.latest_checkpoint().step == 1
    assert sorted(p.name for p in again.checkpoints.folder.iterdir()) == ["latest", "step-000001"]


class Killed(BaseException):
    """Ends everything, as a kill does."""


@pytest.mark.parametrize("newest", [3, 2])
def test_a_kill_while_an_old_checkpoint_goes_leaves_none_without_its_mark(run, monkeypatch, newest):
    save_log(run, 1)
    save_log(run, 2)

    def half(path, **_):
        mark = Path(path) / "mark.json"
        if mark.is_file():
            mark.unlink()
            raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr("rods.infra.checkpoints.shutil.rmtree", half)
        save_log(run, newest)  # the first of three goes, or the one of this step that was there
    again = RunDirectory.resume(run.path)
    found = again.latest_checkpoint()
    assert found.step == (3 if newest == 3 else 1) and found.mark()["step"] == found.step
    assert len(again.metrics()) == found.step
    assert not [p for p in again.checkpoints.folder.iterdir() if p.name.startswith(".")]


def test_older_checkpoints_are_not_looked_at_where_the_newest_fits(run):
    save_log(run, 1)
    save_log(run, 2)
    (run.checkpoints.folder / "step-000001" / "mark.json").unlink()
    assert RunDirectory.resume(run.path).latest_checkpoint().step == 2


def test_a_kill_between_rename_and_pointer(run):
    save(run, 1)
    save(run, 2)
    (run.checkpoints.folder / "latest").write_text("step-000001\n")  # as the kill left it
    assert RunDirectory.resume(run.path).latest_checkpoint().step == 1
    (run.checkpoints.folder / "latest").unlink()
    assert run.latest_checkpoint().step == 2


@pytest.mark.parametrize("where", ["os.fsync", "pathlib.Path.replace"])
def test_a_full_disk_keeps_what_was_there(tmp_path, monkeypatch, where):
    path = tmp_path / "file"
    write_atomic(path, "old")
    monkeypatch.setattr(where, full_disk)
    with pytest.raises(StoreError, match=r"the disk is full.*No earlier file is lost"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_within_a_checkpoint(run, monkeypatch):
    run.log({"step": 1})
    save(run, 1)
    with monkeypatch.context() as patch, pytest.raises(StoreError, match="disk is full"):
        patch.setattr(Path, "write_text", full_disk)
        save(run, 2)
    assert run.latest_checkpoint().step == 1
    assert run.metrics() == [{"step": 1}]


class HalfFull(io.FileIO):
    """A file on a full disk, which takes half of what it is given.

    Cutting that half off again makes room.
    """

    calls = 0

    def write(self, data):
        self.calls += 1
        if self.calls == 2:
            full_disk()
        return super().write(data[: len(data) // 2] if self.calls == 1 else data)


def half_full(path, mode="r", buffering=-1):
    raw = HalfFull(path, mode)
    return raw if buffering == 0 else io.BufferedWriter(raw)


def test_a_full_disk_leaves_no_half_line_in_the_log(run, monkeypatch):
    run.log({"step": 1})
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", half_full)
        with pytest.raises(StoreError, match="disk is full"):
            run.log({"step": 2})
    run.log({"step": 2})
    assert run.metrics() == [{"step": 1}, {"step": 2}]


def test_trajectories_are_kept_and_cut(run):
    trajectories = group(original(1), [1.0, 0.0])[0].trajectories
    for step in (1, 2):
        run.write_trajectories(step, trajectories)
        assert (run.trajectories / f"step-{step:06d}.parquet").is_file()
        if step == 1:
            save(run, 1)
    (run.trajectories / "step-000003.parquet.part").write_text("torn")
    again = RunDirectory.resume(run.path)
    assert [p.name for p in again.trajectories.iterdir()] == ["step-000001.parquet"]


def _try_resume(path, answers):
    try:
        RunDirectory.resume(path)
        answers.put("")
    except StoreError as error:
        answers.put(str(error))


@pytest.mark.slow
def test_two_processes_do_not_share_a_run(run):
    with pytest.raises(StoreError, match="exists already"):
        RunDirectory.create(run.path, RunConfig())  # in vain, and the claim is still held
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    other = context.Process(target=_try_resume, args=(run.path, answers))
    other.start()
    assert "another process is training" in answers.get(timeout=60)
    other.join()
