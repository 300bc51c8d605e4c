"""The environment `search`, its one tool, its judge, and the inline dialect that calls it."""

from __future__ import annotations

import json
import random
import re
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

from places import ROOT
from rods.config import EnvSettings, RunConfig
from rods.dialects import get_dialect
from rods.dialects.fences import SearchR1
from rods.envs import make_environment
from rods.envs.bfcl import BfclSettings
from rods.envs.questions import QuestionSettings
from rods.envs.search import SearchSettings
from rods.envs.search.atlas import make_atlas
from rods.envs.search.documents import Document, Hit
from rods.envs.search.environment import SearchEnvironment, shown
from rods.envs.search.hops import HELD_OUT, make_question, question_task
from rods.envs.search.index import Bm25Index
from rods.errors import ConfigError, EnvError, TaskError
from rods.evaluation.check import check_tasks
from rods.policy import ScriptedPolicy
from rods.rewards.answers import leniently
from rods.task import Task, Turn
from rods.types import ParseVerdict, ToolCall, ToolResult
from rollout_cases import TEMPLATE, play, read_by_policy, script
from verbs import rods

TASK = Task("search", "hops-1", (Turn("Which river?"),), {"answer": "Lake Sarn", "aliases": ["X"]})


class Shelf:
    """A retriever that gives what it is told to, and keeps what it was asked."""

    def __init__(self, *texts: str, fault: Exception | None = None):
        self.hits = [Hit(Document(str(i), f"T{i}", text), 1.0) for i, text in enumerate(texts)]
        self.asked: list[tuple[str, int]] = []
        self.fault = fault

    def search(self, query: str, limit: int) -> list[Hit]:
        self.asked.append((query, limit))
        if self.fault:
            raise self.fault
        return self.hits[:limit]


def world(shelf: Shelf, task: Task = TASK, **settings: Any) -> Any:
    opened = SearchEnvironment(index=shelf, **settings).open(task)
    opened.begin_turn(0)
    return opened


@pytest.fixture(scope="module")
def bundled() -> SearchEnvironment:
    return SearchEnvironment(index=Bm25Index.of(make_atlas().documents))


def test_one_tool_with_one_query() -> None:
    (spec,) = world(Shelf()).offered()
    assert spec.name == "search" and spec.parameters["required"] == ["query"]
    withheld = Task("search", "x", (Turn("?", withheld=("search",)),), {"answer": "a"})
    opened = world(Shelf("a"), withheld)
    assert opened.offered() == ()
    assert opened.call(ToolCall("search", {"query": "a"})).failed


def test_results_are_lines() -> None:
    shelf = Shelf("One\n two.", "Three.", "Four.", "Five.")
    result = world(shelf).call(ToolCall("search", {"query": " a\n b  c "}))
    assert result == ToolResult(
        "Doc 1 (Title: T0) One two.\nDoc 2 (Title: T1) Three.\nDoc 3 (Title: T2) Four."
    )
    assert shelf.asked == [("a b c", 3)]
    assert world(shelf, results=1).call(ToolCall("search", {"query": "a"})).content == (
        "Doc 1 (Title: T0) One two."
    )


def test_nothing_found_is_no_failure() -> None:
    result = world(Shelf()).call(ToolCall("search", {"query": "a"}))
    assert result == ToolResult("No document was found.")


@pytest.mark.parametrize(
    ("chars", "text"), [(3, "one..."), (4, "one..."), (7, "one two"), (6, "one tw...")]
)
def test_long_texts_are_cut_visibly(chars: int, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rods.envs.search.environment.TEXT_CHARS", chars)
    assert shown([Hit(Document("", "T", "one two"), 1.0)]) == f"Doc 1 (Title: T) {text}"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (ToolCall("search", {"query": " \n"}), "the query is empty"),
        (ToolCall("search", {"query": "a" * 501}), "has 501 characters, at most 500"),
        (ToolCall("search", {"query": 5}), "query is 5, expected a text"),
        (ToolCall("search", {}), "query is None, expected a text"),
        (ToolCall("searhc", {"query": "a"}), "Did you mean search?"),
    ],
)
def test_bad_calls_are_the_policys_fault(call: ToolCall, said: str) -> None:
    shelf = Shelf("a")
    result = world(shelf).call(call)
    assert result.failed and said in result.content and shelf.asked == []
    assert not world(shelf).call(ToolCall("search", {"query": "a" * 500})).failed


def test_a_retriever_that_fails_is_infrastructure() -> None:
    opened = world(Shelf(fault=EnvError("away")))
    with pytest.raises(EnvError, match="away"):
        opened.call(ToolCall("search", {"query": "a"}))


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("<answer> the lake sarn. </answer>", True),
        ("The answer is X", False),
        (r"\boxed{X}", False),
        (r"<answer>\boxed{X}</answer>", False),
        ("<answer>Sarn</answer>", False),
        ("Lake Sarn", False),
        ("<answer>Lake Sarn</answer> no: <answer>Okdal</answer>", False),
        ("<search> <answer>Lake Sarn</answer> </search> I do not know", False),
        ("<answer>Lake Sarn</answer> <search> <answer>Okdal</answer> </search>", True),
        ("", False),
    ],
)
def test_answers_are_judged_by_exact_match(text: str, right: bool) -> None:
    assert world(Shelf()).judge_answer(text) is right


@pytest.mark.parametrize(
    ("text", "right"),
    [("The answer is X.", True), (r"<answer>\boxed{X}</answer>", True), ("X", False)],
)
def test_a_lenient_task_takes_answers_without_tags(text: str, right: bool) -> None:
    environment = SearchEnvironment(index=Shelf())
    assert environment.open(leniently(TASK)).judge_answer(text) is right


def test_a_question_of_one_s_own_passes_the_check() -> None:
    """Its reference in tags, without the box that mathematics has."""
    assert check_tasks([TASK], SearchEnvironment(index=Shelf())).ok


def test_another_question_is_judged_as_leniently() -> None:
    environment, strict = SearchEnvironment(index=Shelf()), question_task(1, 3)
    for task in (strict, leniently(strict)):
        made = environment.another(task, random.Random(0))
        assert made is not None and made.world.get("lenient") == task.world.get("lenient")


def test_a_turn_counts_calls_and_has_no_state() -> None:
    opened = world(Shelf("a"))
    for name in ("search", "other"):
        opened.call(ToolCall(name, {"query": "a"}))
    before = opened.snapshot()
    verdict = opened.end_turn()
    assert verdict.calls == 2 and verdict.correct is None and before == opened.snapshot() == {}
    opened.close()
    opened.close()
    with pytest.raises(EnvError, match="world that was closed"):
        opened.snapshot()


def test_calls_outside_of_a_turn() -> None:
    opened = SearchEnvironment(index=Shelf()).open(TASK)
    with pytest.raises(EnvError, match="outside of a turn"):
        opened.call(ToolCall("search", {"query": "a"}))


def test_tasks_that_are_none_of_ours() -> None:
    environment = SearchEnvironment(index=Shelf())
    with pytest.raises(TaskError, match="env is 'bfcl', expected 'search'"):
        environment.open(Task("bfcl", "base", (Turn("?"),), {"answer": "a"}))
    with pytest.raises(TaskError, match="answer"):
        environment.open(Task("search", "x", (Turn("?"),), {}))


def test_sources(tmp_path: Path) -> None:
    corpus = tmp_path / "c.jsonl"
    corpus.write_text(json.dumps({"id": 1, "contents": "Okdal\nA town."}) + "\n")
    environment: Any = make_environment("search", {"corpus": str(corpus)})
    opened = environment.open(TASK)
    opened.begin_turn(0)
    assert not list(tmp_path.glob("*.bm25-*")), "nothing is built before it is needed"
    assert opened.call(ToolCall("search", {"query": "town"})).content == (
        "Doc 1 (Title: Okdal) A town."
    )
    assert len(list(tmp_path.glob("*.bm25-*"))) == 1
    with pytest.raises(ConfigError, match="is not a file"):
        make_environment("search", {"corpus": str(tmp_path / "none.jsonl")})
    with pytest.raises(ConfigError, match="must be positive"):
        SearchEnvironment(results=0)


def test_settings_name_the_source() -> None:
    mine, asked = SearchSettings(corpus="http://h"), QuestionSettings(count=9)
    arguments = EnvSettings(name="search", search=mine, questions=asked).arguments
    assert arguments == {**mine.model_dump(), "questions": asked.model_dump(mode="json")}
    assert json.loads(json.dumps(arguments)) == arguments, "the worker reads them from a file"
    assert EnvSettings(bfcl=BfclSettings(wheel="w")).arguments == {"wheel": "w", "split": "grouped"}
    assert EnvSettings(name="my.module:make", options={"a": 1}).arguments == {"a": 1}


def test_the_index_is_made_once_by_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, ...]] = []
    shelf = Shelf("a")
    monkeypatch.setattr(
        "rods.envs.search.environment.open_retriever", lambda *s: (made.append(s), shelf)[1]
    )
    environment = SearchEnvironment()
    threads = [threading.Thread(target=environment.find, args=("a",)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    environment.warm_up()
    assert made == [("",)] and len(shelf.asked) == 6


@pytest.mark.slow
@pytest.mark.parametrize("hops", [1, 2, 3])
def test_the_queries_of_a_question_find_its_facts(hops: int, bundled: SearchEnvironment) -> None:
    for seed in (*range(0, 300, 10), *range(HELD_OUT, HELD_OUT + 10)):
        question = make_question(hops, seed)
        for step, query in zip(question.steps, question.programs, strict=True):
            lines = bundled.find(query).content.split("\n")
            assert any(f"(Title: {step.subject})" in line and step.value in line for line in lines)


def test_an_episode_with_structured_calls(bundled: SearchEnvironment) -> None:
    task, question = leniently(question_task(2, 3)), make_question(2, 3)
    policy = script(
        *(f"[search(query={query!r})]" for query in question.programs),
        f"The answer is {question.answer}.",
    )
    environment: Any = bundled
    done = play(task, policy, environment)
    assert done.failure is None and done.verdicts[0].solved
    assert [step.results[0].failed for step in done.steps[:2]] == [False, False]
    wrong = play(task, script("The answer is Nowhere."), environment)
    assert wrong.verdicts[0].correct is False and not wrong.verdicts[0].solved


def test_the_page_runs() -> None:
    page = (ROOT / "docs" / "guides" / "search.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^( *)```python\n(.*?)^ *```", page, re.DOTALL | re.MULTILINE)
    assert blocks
    for _, code in blocks:
        exec(compile(textwrap.dedent(code), "search.md", "exec"), {})


@pytest.mark.slow
def test_the_files_of_the_page_pass_the_check(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "guides" / "search.md").read_text(encoding="utf-8")
    questions, corpus = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    (tmp_path / "questions.jsonl").write_text(questions)
    (tmp_path / "corpus.jsonl").write_text(corpus)
    [command] = re.findall(r"^    rods (check .*)$", page, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    assert rods(*command.split(), monkeypatch=monkeypatch) == 0
    assert "2 tasks, 0 calls" in (shown := " ".join(capsys.readouterr().out.split()))
    assert " s: no fault." in shown


# -- the inline dialect --------------------------------------------------------------------------

INLINE = SearchR1()


def test_the_dialect_has_a_name() -> None:
    assert isinstance(get_dialect("search_r1"), SearchR1)
    assert RunConfig.model_validate({"model": {"dialect": "search_r1"}}).model.dialect


def test_a_query_is_read() -> None:
    for text in (
        "<think>who</think> <search> river of Okdal </search>",
        "<search>old</search> and <search>\nriver of Okdal\n</search>\n",
        "<search> <search>river of Okdal</search>",
    ):
        parsed = INLINE.read(text)
        assert parsed and parsed.verdict is ParseVerdict.CALLS
        assert parsed.calls == (ToolCall("search", {"query": "river of Okdal"}),)


@pytest.mark.parametrize("text", ["</search>", "x</search>", "<search> </search>", "no tags"])
def test_a_missing_query_is_malformed(text: str) -> None:
    parsed = INLINE.read(text)
    assert parsed and parsed.verdict is ParseVerdict.MALFORMED and parsed.calls == ()
    assert "<search> query </search>" in parsed.feedback


def test_what_was_found_is_inserted_and_cut() -> None:
    assert INLINE.stops("") == INLINE.stops("<search>") == ("</search>",)
    assert INLINE.insert("Doc 1") == "\n\n<information>Doc 1</information>\n\n"
    assert INLINE.shorten(ToolResult(" Doc 1\n"), len) == "Doc 1"
    assert INLINE.shorten(ToolResult("x" * 500), len) == "x" * 500
    assert INLINE.shorten(ToolResult("x" * 501), len) == "x" * 497 + "..."


def test_the_prompt_holds_the_question_and_the_tags() -> None:
    prompt = INLINE.prompt(" Where is QUESTION? ")
    assert "Where is QUESTION?\n" in prompt
    assert all(t in prompt for t in ("<search>", "<information>", "<answer>", "<think>"))


def test_a_demonstration_alternates_and_ends_with_the_answer() -> None:
    question = make_question(2, 3)
    pieces = INLINE.demonstration(question.programs, ["found a", "found b"], question.answer)
    assert [mine for _, mine in pieces] == [True, False, True, False, True]
    assert pieces[1] == (INLINE.insert("found a"), False)
    for (text, _), query in zip(pieces[::2], question.programs, strict=False):
        parsed = INLINE.read(text)
        assert parsed and parsed.calls[0].arguments == {"query": query}
    opened = SearchEnvironment(index=Shelf()).open(question_task(2, 3))
    assert opened.judge_answer(pieces[-1][0])
    assert INLINE.demonstration([], [], "a") == [("<answer> a </answer>", True)]
    with pytest.raises(TaskError, match="2 calls came with 1"):
        INLINE.demonstration(question.programs, ["found a"], "a")


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_an_episode_inside_one_response(hops: int, bundled: SearchEnvironment) -> None:
    task, question = question_task(hops, 3), make_question(hops, 3)
    outputs = [bundled.find(query).content for query in question.programs]
    pieces = INLINE.demonstration(question.programs, outputs, question.answer)
    ids = [id for text, mine in pieces if mine for id in TEMPLATE.encode(text)]
    policy = ScriptedPolicy([[*ids, TEMPLATE.end_id]], decode=TEMPLATE.raw_decode)
    environment: Any = bundled
    done = play(task, policy, environment, dialect="search_r1", context_tokens=8192)
    assert done.failure is None and done.verdicts[0].solved
    assert [step.calls[0].arguments["query"] for step in done.steps[:-1]] == [*question.programs]
    read = read_by_policy(done)
    for output in outputs:
        found = INLINE.shorten(ToolResult(output), lambda text: len(TEMPLATE.encode(text)))
        assert INLINE.insert(found) in read
    sampled = [id for span in done.spans if span.logprobs is not None for id in span.ids]
    assert sampled == [*ids, TEMPLATE.end_id]
