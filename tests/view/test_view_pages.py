"""`rods view` as people use it: the program, its token, and its pages in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from html import unescape
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest

from imports import imported_anew
from report_runs import ATTACK, SEED, trajectory, write_queue, write_run, write_trajectories
from rods.trajectory_codec import write_parquet
from verbs import rods as program

pytest.importorskip("duckdb", reason="needs the extra [view]")
pytest.importorskip("nicegui", reason="needs the extra [view]")

from rods.infra.listen import YOUNG
from rods.view.server import CONNECTIONS

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
LONG = "other-run-with-a-long-name-of-many-words-seed-1"
STARTS = [sys.executable, "-m", "rods.cli.main", "view"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_run(tmp_path_factory.mktemp("view") / "shown", steps=32)
    write_trajectories(path)
    write_queue(path)
    return path


@pytest.fixture(scope="module")
def address(run: Path) -> Iterator[str]:
    """The printed address of a service that shows the run and another one, which holds less."""
    other = shutil.copytree(run, run.parent / LONG, ignore=lambda *_: ["synthesis.sqlite"])
    write_trajectories(other, signals=False)
    write_queue(other, candidates=False)
    with serving([*STARTS, str(run), str(other)]) as address:
        yield address


@contextmanager
def serving(words: list[str]) -> Iterator[str]:
    """The address that a service prints, which ends without a traceback."""
    words = [*words, "--port", "0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as service:
        assert service.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", service.stderr.readline())
        assert found
        try:
            yield found[0]
        finally:
            service.terminate()
        rest = service.stderr.read()
    assert "Traceback" not in rest, rest


@pytest.mark.slow
def test_no_run_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert program("view", monkeypatch=monkeypatch) == 2
    assert "there is no run in ./runs" in capsys.readouterr().err
    assert program("view", "nothing", monkeypatch=monkeypatch) == 2
    assert "there is no such run" in capsys.readouterr().err


def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with imported_anew("rods.view"):
        assert program("view", "nothing", monkeypatch=monkeypatch) == 2
    assert re.search(r"rods view needs duckdb: .*pip install", capsys.readouterr().err)


SLOW = """
import sys, time
from rods.cli.main import main
from rods.view.runs import RunView
read = RunView.read_tasks
RunView.read_tasks = lambda run: (time.sleep(4), read(run))[1]
sys.argv[0] = "rods"
main()
"""


@pytest.mark.slow
def test_a_page_that_takes_long_to_build_is_shown(run: Path) -> None:
    """On busy cores a page ended in "500, longer than the response_timeout of 3.0 seconds"."""
    with serving([sys.executable, "-c", SLOW, "view", str(run)]) as address:
        with httpx.Client(follow_redirects=True, trust_env=False, timeout=60) as web:
            web.get(address)
            shown = web.get(address.replace("/?", "/boundary?"))
        assert shown.status_code == 200 and "response_timeout" not in shown.text


@pytest.mark.slow
def test_only_who_has_the_token_sees_anything(address: str) -> None:
    place, _, token = address.partition("?token=")
    with httpx.Client(base_url=place, trust_env=False) as web:
        assert web.get("/").status_code == 401
        assert web.get("/", params={"token": "guess"}).status_code == 401
        assert web.get(f"/?token={token}", headers={"Host": "evil.example"}).status_code == 403
        assert web.get(f"/?token={token}", headers={"Origin": "http://evil.x"}).status_code == 403
        web.get("/", params={"token": token})
        shown = web.get("/")
        assert shown.status_code == 200 and token not in shown.text
        # Cookies do not tell ports apart, so that another local service may have written this one.
        web.cookies.set("rods_theme", "</script><script>evil()")
        assert "evil" not in web.get("/").text


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("trajectories?run=gone", "There is no run 'gone'."),
        ("?run=gone", "There is no run 'gone'."),
        ("task?run=shown&id=gone", "There is no task 'gone' in this run."),
        ("task?run=shown", "There is no task '' in this run."),
        ("trajectory?run=shown&step=999&row=0", "There is no such trajectory"),
        ("trajectory?run=shown&step=31&row=999", "There is no such trajectory"),
        ("trajectory?run=shown&step=31&row=0&beside=x", "There is no such trajectory"),
        ("trajectories?run=shown&step=x", ">0 trajectories"),
        ("candidate?run=shown", "There is no such candidate in this run."),
        (f"candidate?run=shown&seed={SEED.id}&number=1&attempt=2", "There is no such candidate"),
        (f"candidate?run=shown&seed={SEED.id}&number=1&attempt=-1", "There is no such candidate"),
        (f"candidate?run=shown&seed={SEED.id}&number=1&attempt=0", "No messages: it was rejected"),
        (f"candidate?run={LONG}&seed={SEED.id}&number=1&attempt=1", "does not hold the messages"),
        (f"trajectory?run={LONG}&step=31&row=0", "does not hold rewards and advantages of single"),
        (
            f"trajectory?run={LONG}&step=31&row=0&color=advantage",
            "This run does not hold advantages",
        ),
        ("trajectory?run=shown&step=31&row=0&color=x", "tok mask"),
        (f"trajectories?run={LONG}&reward_low=0.1", ">0 trajectories"),
    ],
)
def test_an_address_of_what_does_not_exist_says_so(address: str, place: str, text: str) -> None:
    start, _, token = address.partition("?token=")
    with httpx.Client(base_url=start, trust_env=False) as web:
        web.get("/", params={"token": token})
        shown = unescape(unescape(web.get(f"/{place}").text)).replace("\\", "")
    assert text in shown
    if "no run" in text:
        assert all(f"?run={name}" in shown for name in ("shown", LONG)), "runs are offered"


@pytest.mark.slow
def test_idle_connections_do_not_lock_it(address: str) -> None:
    host, port = address.split("/")[2].split(":")
    with ExitStack() as held:
        for _ in range(2 * CONNECTIONS):
            held.enter_context(socket.create_connection((host, int(port))))
        time.sleep(YOUNG + 0.1)
        assert httpx.get(address, timeout=10, trust_env=False).status_code == 303


@pytest.mark.slow
def test_the_token_is_traded_for_a_cookie_and_leads_nowhere_else(address: str) -> None:
    place, _, token = address.partition("?token=")
    with closing(HTTPConnection(place.split("/")[2])) as web:
        web.request("GET", f"//evil.example/x?token={token}&run=shown")
        traded = web.getresponse()
        assert traded.status == 303
        assert traded.getheader("location") == "/evil.example/x?run=shown"
        cookie = str(traded.getheader("set-cookie"))
        assert {"HttpOnly", "SameSite=strict"} <= set(cookie.split("; "))


@pytest.fixture(params=[(1280, "light"), (400, "dark")], ids=["wide-light", "narrow-dark"])
def page(request: pytest.FixtureRequest, address: str) -> Iterator[Any]:
    """A page of a browser that has traded the token; it asks nobody else and logs no error."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    place = address.partition("?")[0]
    faults: list[str] = []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        width, scheme = request.param
        view = {"width": width, "height": 900}
        shown = browser.new_page(base_url=place, viewport=view, color_scheme=scheme)
        shown.set_default_timeout(180_000)  # a busy machine takes minutes for all of it
        shown.on("console", lambda m: faults.append(m.text) if m.type == "error" else None)
        shown.on("pageerror", lambda error: faults.append(str(error)))
        shown.on(
            "request",
            lambda r: None if r.url.startswith((place, "data:", "blob:")) else faults.append(r.url),
        )
        shown.goto(address)
        yield shown
        assert fits(shown), "nothing is wider than the window"
        browser.close()
    assert faults == []


def fits(page: Any) -> bool:
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.slow
def test_pages_in_a_browser(page: Any) -> None:
    dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    page.wait_for_selector(".plot .main-svg")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(re.findall(r"\d+", ground)[0]) < 100) == dark
    assert page.locator("main table tbody tr").count() == 2, "two runs"
    names = page.locator("main table td a").all()
    lines = {name.evaluate("name => name.getClientRects().length") for name in names}
    assert lines == {1}, "a name is not broken at its hyphens"
    # Filter, by the keyboard: the address follows, and alone it restores the list.
    page.goto("/trajectories?run=shown")
    page.wait_for_selector("text=96 trajectories")
    page.wait_for_function("window.socket?.connected ?? true")
    page.keyboard.press("/")
    page.keyboard.type("sort it")
    page.wait_for_url("**text=sort+it**")
    page.get_by_label("update").fill("31")
    page.wait_for_selector("text=48 trajectories")
    page.goto(page.url)
    page.wait_for_selector("text=48 trajectories")
    assert fits(page)
    page.get_by_label("progress to").fill("0")
    page.wait_for_url("**high=0**")
    page.get_by_label("reward from").fill("0.5")
    page.wait_for_selector("[role=status]:text-is('0 trajectories')")
    page.get_by_label("progress to").fill("1")
    page.wait_for_selector("main table a")
    # Open a trajectory, go on by the keyboard, put a sibling beside it, color the tokens.
    page.locator("main table a").first.press("Enter")
    page.wait_for_selector("article .msg")
    page.keyboard.press("j")
    page.wait_for_url("**row=1**")
    page.get_by_role("group", name="Compare with").get_by_role("link", name="3:").click()
    page.wait_for_url("**beside=3**")
    assert page.locator("article").count() == 2
    page.get_by_role("link", name="log-probability").first.click()
    page.wait_for_selector(".tok.logprob")
    page.get_by_role("link", name="advantage").first.click()
    page.wait_for_url("**color=advantage**")
    page.goto(page.url)
    assert page.locator("table.reward").count() == page.locator(".tok.advantage").count() == 2
    shown = page.locator("table.reward").first.inner_text().split()
    assert {"solved", "reached", "reward", "advantage"} <= set(shown)
    shades = page.eval_on_selector_all(
        ".tok.advantage span",
        "all => [...new Set(all.map(t => getComputedStyle(t).backgroundColor))]",
    )
    assert len(shades) > 1, "tokens with an advantage differ from those without"
    assert page.locator("main script, main img").count() == 0, "texts of a model are no markup"
    assert fits(page)
    # The theme of the page is kept.
    page.keyboard.press("t")
    page.wait_for_function(
        "(dark) => document.documentElement.dataset.theme === (dark ? 'light' : 'dark')", arg=dark
    )
    for path in ("/synthesis?run=shown", "/boundary?run=shown"):
        page.goto(path)
        page.wait_for_selector("main h1, main h2")
        assert fits(page)
    page.locator("main table a").first.press("Enter")
    page.wait_for_url("**/task?**")
    page.wait_for_selector("text=Groups")


@pytest.mark.slow
def test_a_click_on_a_reason_opens_the_rejected_candidate(page: Any) -> None:
    page.goto("/synthesis?run=shown")
    page.get_by_role("link", name="gate: wrong form of a value").click()
    page.wait_for_url(f"**/candidate?run=shown&seed={SEED.id}&number=1&attempt=1")
    page.goto(page.url)  # its address alone shows it again
    shown = page.locator("main").inner_text()
    for text in ("multi_turn_base_1", "day='x' is not a date", "lend(day='x')", ATTACK.split()[-1]):
        assert text in shown
    assert page.locator("main script, main img").count() == 0, "texts of a model are no markup"
    assert page.locator(".gates .good").count() > 3 and page.locator(".gates .bad").count() == 1
    assert fits(page)
    page.wait_for_function("window.socket?.connected ?? true")
    page.keyboard.press("k")
    page.wait_for_url("**attempt=0")
    page.wait_for_selector("text=No messages")


WIDE = pytest.mark.parametrize("page", [(1280, "light")], ids=["wide"], indirect=True)


@WIDE
@pytest.mark.slow
def test_a_click_on_the_map_opens_the_task(page: Any) -> None:
    page.goto("/boundary?run=shown")
    page.wait_for_selector(".plot .scatterlayer .point")
    page.wait_for_timeout(500)
    box = page.locator(".plot .scatterlayer .point").last.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_url("**/task?**")


@WIDE
@pytest.mark.slow
def test_a_step_in_training_appears_by_itself(page: Any, run: Path) -> None:
    step = 100 + len(list(run.glob("trajectories/*")))
    page.goto("/trajectories?run=shown")
    page.wait_for_selector("main table tbody tr")
    before = page.locator("main [role=status]").inner_text()
    made = [trajectory("o000000a7c", member, step, [True, True]) for member in range(8)]
    write_parquet(run / f"trajectories/step-{step:06d}.parquet", made)
    with (run / "metrics.jsonl").open("a", encoding="utf-8") as log:
        log.write(json.dumps({"kind": "step", "step": step, "reward_mean": 0.5}) + "\n")
    page.wait_for_selector(f"main td:text-is('{step}')")
    assert page.locator("main [role=status]").inner_text() != before
