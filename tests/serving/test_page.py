"""The page in a real Chromium, as a user would use it; its server is another process, which one test kills."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.serving.test_page_texts import rule
from tests.support.mcp_servers import CHROMIUM
from tests.support.page_service import (
    DISGUISED,
    FOREIGN,
    KEEPER,
    LENGTHY,
    LONG,
    LONG_NAME,
    MIDDLE,
    NUMBERS,
    SAYS,
)
from tests.support.pictures import png
from tests.support.ports import unused_port
from tests.support.serving import TOKEN
from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.context.inspection import overview_of
from zeus_runtime.context.ledger import PolicyDecision, StepRecord, StepUsage
from zeus_runtime.escaping import exact
from zeus_runtime.serving.http.bundled import BUNDLE

ROOT = Path(__file__).parents[2]
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"

pytestmark = [
    pytest.mark.xdist_group("page"),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]


@dataclass
class Server:
    """The service of ``tests.support.page_service``.

    Args:
        folder: its config and database.
    """

    folder: Path
    port: int = field(default_factory=unused_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def start(self) -> None:
        words = ["-m", "tests.support.page_service", str(self.folder), str(self.port)]
        self.process = subprocess.Popen([sys.executable, *words], cwd=ROOT)
        for _ in range(600):
            try:
                with urlopen(f"{self.address}health"):
                    return
            except OSError:
                assert self.process.poll() is None, "the service did not start"
                time.sleep(0.05)
        raise AssertionError("the service did not start")

    def kill(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    subprocess.run([sys.executable, "web/bundle.py"], cwd=ROOT, check=True)
    server = Server(tmp_path_factory.mktemp("page"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class User:
    """A user's browser.

    Attributes:
        complaints: the console's errors and the page's exceptions.
        hosts: every host that was asked for something.
    """

    server: Server
    context: Any
    complaints: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    def tab(self, place: str = "") -> Any:
        page = self.context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on(
            "console",
            lambda message: self.complaints.append(message.text) if message.type == "error" else None,
        )
        page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))
        page.goto(self.server.address + place)
        return page


@pytest.fixture
def user(server: Server, browser: Any) -> Iterator[User]:
    context = browser.new_context(viewport={"width": 1280, "height": 860}, locale="en-GB")
    # Without a tab, whose start takes longer than many a test.
    assert context.request.get(f"{server.address}?token={TOKEN}", max_redirects=0).status == 303
    yield User(server, context)
    context.close()


FITS = "view => view.scrollWidth <= view.clientWidth"
"""Whether nothing is cut off at the side, so that a user of a phone need not move the view."""


def say(page: Any, text: str) -> None:
    turns = page.locator(".turn").count()
    page.locator(".composer textarea").fill(text)
    page.keyboard.press("Enter")
    page.locator(".turn").nth(turns).wait_for()


def answered(page: Any) -> Any:
    """The newest turn, once nothing runs."""
    page.locator(".live").wait_for(state="detached")
    return page.locator(".turn").last


def press(button: Any) -> None:
    """Click a button below a question, which is not usable for a moment after it moved.

    ``click`` scrolls the page as often as it tries, and each time moves the button.
    """
    button.click(trial=True)
    # A move is noticed at the next frame.
    button.page.evaluate("new Promise(then => requestAnimationFrame(() => requestAnimationFrame(then)))")
    button.page.wait_for_function("each => !each.disabled", arg=button.element_handle())
    place = button.bounding_box()
    button.page.mouse.click(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)


def axe(page: Any) -> list[str]:
    """What axe-core finds on the page."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found["violations"]]


def test_a_user_logs_in_by_the_printed_address_and_works_with_an_agent(user: User) -> None:
    user.context.clear_cookies()
    page = user.tab(f"?token={TOKEN}")
    assert page.url == user.server.address
    (cookie,) = user.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
    say(page, "Which orders are late? Use tools.")
    turn = answered(page)
    assert turn.locator(".tool .name").all_inner_texts() == ["write_todos", "echo", "task"]
    assert turn.locator(".tool .gist").nth(1).inner_text().endswith("… (1,160)")
    turn.get_by_role("button", name="echo").click()
    assert "order 1042 waits" in turn.locator(".result").inner_text()
    assert "1 of 3 done" in page.locator(".tasks").inner_text()
    say(page, "And now in a table <img src=x onerror=alert(1)>")
    turn = answered(page)
    assert turn.locator("td").all_inner_texts() == ["1042", "3 days", "1077", "1 day"]
    assert turn.locator("img").count() == 0
    assert page.locator(".sessions a").first.inner_text().startswith("Which orders")
    say(page, "Does @notes.md say more? @missing.md does not.")
    answered(page)
    files = page.locator(".prompt .files li").all_inner_texts()
    shown, missing = [" ".join(each.split()) for each in files]
    assert (shown, missing.startswith("missing.md /missing.md does not exist")) == ("notes.md 3 kB", True)
    page.get_by_role("button", name="task").click()
    page.get_by_text("Its work").click()
    sub = page.locator(".sub")
    sub.get_by_text("Order 1077 is one day late.").wait_for()
    assert sub.locator(".tool .name").all_inner_texts() == ["echo"]
    sub.get_by_role("link", name="Open its session").click()
    page.get_by_role("link", name="Back to its parent").click()
    page.locator(".prompt .files").wait_for()
    assert user.hosts == {f"127.0.0.1:{user.server.port}"}
    assert user.complaints == []


def test_a_stream_and_an_approval_outlive_a_killed_server(user: User) -> None:
    asking, streaming = user.tab(), user.tab()
    say(asking, "write the plan")
    card = asking.get_by_role("region", name="Approve this call?")
    assert card.locator(".added").first.inner_text().strip() == "+ # Plan"
    say(streaming, "a long answer")
    streaming.get_by_role("heading", name="Part 3").wait_for()
    user.server.kill()
    streaming.get_by_text("The connection is lost").first.wait_for()
    user.server.start()
    said = answered(streaming).locator(".said")
    headings = [line for line in LONG.splitlines() if line.startswith("## ")]
    assert [f"## {each}" for each in said.get_by_role("heading").all_inner_texts()] == headings
    press(card.get_by_role("button", name="Approve", exact=True))
    assert answered(asking).locator(".tool .badge").inner_text() == "done"
    assert (
        user.server.folder / "plan.md"
    ).read_text() == "# Plan\n\n1. Ship order 1042.\n2. Call the customer.\n"
    asking.locator(".menu summary").click()
    asking.get_by_role("button", name="Files that tools wrote").click()
    with asking.expect_download() as kept:
        asking.get_by_role("dialog").get_by_role("link", name="/plan.md").click()
    assert kept.value.path().read_text().startswith("# Plan")
    asking.keyboard.press("Escape")
    names = ("/a b.txt", "/a  b.txt", "/invoice\u202efdp.exe", "/invoice\\u{202e}fdp.exe", "/x\ny.txt")
    asking.route(
        "**/artifacts",
        lambda route: route.fulfill(
            json=[{"path": each, "size_bytes": 1, "modified_ms": 0} for each in names]
        ),
    )
    asking.locator(".menu summary").click()
    asking.get_by_role("button", name="Files that tools wrote").click()
    drawn = asking.get_by_role("dialog").locator(".path")
    drawn.first.wait_for()
    shown = ["/a b.txt", "/a  b.txt", "/invoice\\u{202e}fdp.exe", "/invoice\\\\u{202e}fdp.exe", "/x\ny.txt"]
    assert drawn.all_inner_texts() == shown


def test_a_deadline_is_drawn_in_the_persons_zone_with_the_time_that_is_left(
    server: Server, browser: Any
) -> None:
    ends_ms = 1_796_010_866_000
    text = "2026-11-30 03:54:26 UTC"
    line = {"text": f"  until {text}, then: approve", "style": "plain"}

    def timed(route: Any) -> None:
        told = route.fetch().json()
        if "lines" in told:
            told["lines"].append({**line, "moment": {"text": text, "at_ms": ends_ms}})
        route.fulfill(json=told)

    with browser.new_context(locale="en-GB", timezone_id="America/New_York") as context:
        context.clock.set_fixed_time(ends_ms / 1000 - 61)
        context.route("**/v1/approvals/*", timed)
        page = User(server, context).tab(f"?token={TOKEN}")
        say(page, "record it")
        drawn = page.locator(".approval .shown")
        until = "until Nov 29, 2026, 10:54:26 PM EST (in {} seconds), then: approve"
        drawn.get_by_text(until.format(61)).wait_for()
        context.clock.set_fixed_time(ends_ms / 1000 - 50)
        drawn.get_by_text(until.format(50)).wait_for()
        page.locator(".approval .danger").click()
        answered(page)


def test_a_call_runs_with_the_arguments_that_the_user_wrote_and_a_turn_can_be_stopped(user: User) -> None:
    page = user.tab()
    say(page, "record it")
    card = page.get_by_role("region", name="Approve this call?")
    assert "text: draft" in card.locator(".exact").inner_text()
    card.get_by_role("button", name="Edit arguments").click()
    card.get_by_role("textbox", name="Arguments").fill('{"text": "final"}')
    card.get_by_role("textbox", name="Reason or instruction").fill("Then tell the customer.")
    page.route("**/messages", lambda _: None)  # what is stored comes later than what runs
    press(card.get_by_role("button", name="Approve", exact=True))
    page.locator(".live .tool.done").wait_for()
    assert page.locator(".live .tool .badge").all_inner_texts() == ["arguments changed", "done"]
    page.unroute("**/messages")
    made = answered(page).locator(".tool")
    for _ in range(2):
        assert made.locator(".gist").inner_text() == "final"
        assert made.locator(".badge").all_inner_texts() == ["arguments changed", "done"]
        made.get_by_role("button", name="record").click()
        assert made.locator(".arguments").all_inner_texts() == ["text\ndraft", "text\nfinal"]
        page.reload()
        made.wait_for()
    session = page.url.split("#/")[1]
    stored = page.request.get(f"{user.server.address}v1/sessions/{session}/messages").text()
    assert "Then tell the customer." in stored
    assert (user.server.folder / "effects.txt").read_text() == "final\n"
    say(page, "a long answer")
    page.get_by_role("heading", name="Part 1").wait_for()
    page.locator(".composer textarea").fill("And this waits.")
    page.keyboard.press("Enter")
    page.locator(".queued").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.locator(".failure").get_by_text("cancelled").wait_for()
    assert "And this waits." in answered(page).inner_text()
    assert page.locator(".failure").count() == 1


def test_a_call_shows_what_a_browser_would_hide_before_and_after_it_is_approved(user: User) -> None:
    page = user.tab()
    say(page, "record something hidden")
    card = page.get_by_role("region", name="Approve this call?")
    # An escape, and a text that looks like one, are told apart as in the terminal.
    assert exact(DISGUISED) in card.locator(".exact").inner_text()
    card.get_by_role("button", name="Edit arguments").click()
    written = card.get_by_role("textbox", name="Arguments")
    assert r'"pay\u202e\u200bbob ' in written.input_value()
    page.route("**/messages", lambda _: None)
    press(card.get_by_role("button", name="Approve", exact=True))
    page.locator(".live .tool.done").wait_for()
    assert page.locator(".live .tool .badge").all_inner_texts() == ["done"], "looked at, and not changed"
    page.unroute("**/messages")
    turn = answered(page)
    assert (user.server.folder / "effects.txt").read_text().endswith(f"{DISGUISED}\n")
    shown = exact(DISGUISED).replace("u202e", "u{202e}").replace("u200b", "u{200b}")
    assert shown in turn.locator(".tool .gist").inner_text()
    assert turn.locator(".tool .badge").all_inner_texts() == ["done"]
    turn.get_by_role("button", name="record").click()
    assert turn.locator(".exact").first.inner_text() == shown


def test_no_part_of_a_question_is_beside_the_window_whatever_is_below_it(user: User) -> None:
    page = user.tab()
    say(page, "record it with tasks")
    page.locator(".approval .shown").wait_for()
    page.locator(".tasks summary").click()
    for width in (320, 360, 1280):
        page.set_viewport_size({"width": width, "height": 640})
        assert page.locator(".foot").evaluate(FITS), width
        assert page.locator(".approval").evaluate(FITS), width
        inside = "card => card.getBoundingClientRect().right <= window.innerWidth"
        assert page.locator(".approval").evaluate(inside), width
    page.locator(".approval .danger").click()
    answered(page)


def test_a_call_tells_how_many_of_its_lines_are_out_of_sight(user: User) -> None:
    """A phone shows no scroll bar, and the box may end where a line ends."""
    page = user.tab()
    page.set_viewport_size({"width": 390, "height": 844})
    say(page, "record at length")
    card = page.get_by_role("region", name="Approve this call?")
    box, lines = card.locator(".exactly"), card.locator(".shown > span")
    told, approve = card.locator(".below"), card.get_by_role("button", name="Approve", exact=True)
    told.wait_for()
    count = int(told.inner_text().partition(" ")[0])
    end = box.bounding_box()["y"] + box.bounding_box()["height"]
    places = [each.bounding_box() for each in lines.all()]
    assert count == sum(each["y"] + each["height"] > end + 1 for each in places) > 5
    place = approve.bounding_box()
    box.evaluate("each => each.scrollTo(0, each.scrollHeight)")
    told.wait_for(state="detached")
    assert approve.bounding_box() == place
    box.evaluate("each => each.scrollTo(0, 0)")
    told.wait_for()
    page.set_viewport_size({"width": 390, "height": 2400})
    told.wait_for(state="detached")
    page.set_viewport_size({"width": 390, "height": 844})
    told.wait_for()
    card.get_by_role("button", name="show all").click()
    told.wait_for(state="detached")
    assert box.evaluate("each => each.scrollHeight === each.clientHeight")
    assert approve.bounding_box()["y"] > lines.last.bounding_box()["y"]
    reject = card.get_by_role("button", name="Reject")
    press(reject)
    answered(page)


def test_a_card_whose_file_changed_is_refused_and_then_shows_the_change_as_it_is_now(user: User) -> None:
    plan = user.server.folder / "plan.md"
    plan.write_text("old\n")
    page = user.tab()
    say(page, "write the plan")
    card = page.get_by_role("region", name="Approve this call?")
    card.get_by_text("- old").wait_for()
    # The arguments that a user edits run for the change beside them.
    card.get_by_role("button", name="Edit arguments").click()
    plan.write_text("newer\n")
    elsewhere = user.tab()
    elsewhere.evaluate(
        "async () => { for (const each of await (await fetch('v1/approvals')).json())"
        " await fetch(`v1/approvals/${each.id}`); }"
    )
    press(card.get_by_role("button", name="Approve", exact=True))
    card.get_by_text("another change now than the one that you saw").wait_for()
    card.get_by_text("- newer").wait_for()
    assert plan.read_text() == "newer\n"
    press(card.get_by_role("button", name="Approve", exact=True))
    answered(page)
    assert plan.read_text().startswith("# Plan")


def test_a_call_that_is_shown_stays_as_it_is_shown_when_another_begins_to_wait(user: User) -> None:
    plan = user.server.folder / "plan.md"
    plan.write_text("Ship order 1042.\n")
    page = user.tab()
    say(page, "edit the plan and ask later")
    card = page.get_by_role("region", name="Approve this call?")
    asked = card.locator(".shown").inner_text()
    assert "+ Send order 1042." in asked
    plan.write_text("Ship all that we have.\n")
    (user.server.folder / "late").touch()
    question = page.get_by_role("region", name="The agent asks")
    question.wait_for()
    assert card.locator(".shown").inner_text() == asked
    press(card.get_by_role("button", name="Approve", exact=True))
    card.wait_for(state="detached")
    press(question.get_by_role("button", name="Decline"))
    assert answered(page).locator(".tool .badge").all_inner_texts() == ["error", "done"]
    assert plan.read_text() == "Ship all that we have.\n"


def test_the_second_click_of_a_double_click_decides_nothing(user: User) -> None:
    page = user.tab()
    page.clock.install()
    effects = user.server.folder / "effects.txt"
    before = effects.read_text() if effects.exists() else ""
    say(page, "record it four times")
    cards = page.locator(".approval")
    approve = cards.get_by_role("button", name="Approve", exact=True)
    approve.nth(3).wait_for()

    def pause() -> None:
        """Stop the page's time: on a busy machine, more of it passes between two clicks than in a double click."""
        while True:
            approve.first.click(trial=True)
            page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 60)
            if approve.first.is_enabled():
                return
            # It has moved meanwhile, and waits until time goes on.
            page.clock.resume()

    pause()
    approve.first.click()
    cards.nth(3).wait_for(state="detached")
    # The next call's button has come to that place, or near it: the conversation above may grow meanwhile.
    assert approve.first.is_disabled()
    approve.first.click(force=True)
    page.clock.resume()
    pause()
    # The button comes to the place of `show all`.
    cards.get_by_role("button", name="show all").first.dblclick()
    assert approve.first.is_disabled()
    approve.first.click(force=True)
    page.clock.resume()
    for left in (2, 1, 0):
        press(cards.get_by_role("button", name="Reject").first)
        cards.nth(left).wait_for(state="detached")
    answered(page)
    assert effects.read_text() == f"{before}line 0\n"


def test_the_buttons_of_a_call_wait_whenever_they_have_moved(user: User) -> None:
    page = user.tab()
    say(page, "record it")
    enabled = page.locator(".approval button.primary:enabled")
    # There and back: at its first place, too, another press may have been meant.
    for room in ("60px", "0px"):
        enabled.wait_for()
        waits = page.evaluate(
            """async (room) => {
                const button = document.querySelector(".approval button.primary");
                const frame = () => new Promise(requestAnimationFrame);
                document.querySelector(".foot").style.paddingBottom = room;
                await frame(); await frame();
                return button.disabled;
            }""",
            room,
        )
        assert waits
    enabled.wait_for()
    press(page.get_by_role("button", name="Reject"))
    answered(page)


HEAP = "\u0310" * 9
"""Marks that would cover the lines around their letter."""


AS_TEXT = [
    "| a | b |\n|---|---|\n| 1 | 2 | HIDDEN |",
    "| a | b |\n|---|---|\n| 1 | `x` | \u2620 |",
    "| a | b |\n|---|---|\n| rm | -r | * |",
    "*A* part &copy of an entity",
    "> | a |\n> |---|\n> | x \\\\| - |",
    "3. drop staging\n5. drop prod\n4. keep all",
    "1. keep\n1. drop",
    "- a\n  1. x\n  3. y",
    "1. one\n02. two",
    "\n\n".join(
        (
            "It is 2**10 and 3**4.",
            "Pay 1*000*50.",
            "About ~5~10 items.",
            "Delete src/*old*/data",
            "Delete logs/*2025*? Now.",
            "Read __init__.py first.",
            r"Copy C:\.ssh and more.",
            r"\\server is it.",
            r"A snake\_case name.",
            "- a\n- 4*5*6",
            "| a |\n|---|\n| 4*5*6 |",
            "Only [a *b*2](/u)",
        )
    ),
]
"""A drawing would lose a part of each."""
DRAWN = {
    "[x]: /u 'HIDDEN'": "[x]: /u 'HIDDEN'",
    "> [x]: /u 'HIDDEN'\n> q": "[x]: /u 'HIDDEN'\nq",
    "[//]: # (HIDDEN)": "[//]: # (HIDDEN)",
    "[here](https://a.example 'HIDDEN')": 'here (https://a.example "HIDDEN")',
    "[https://good.example](https://evil.example)": "https://good.example (https://evil.example)",
    "[a *b*](https://a.example/?x=1&y=2)": "a b (https://a.example/?x=1&y=2)",
    "[https://a.example/?x=1&y=2](https://a.example/?x=1&y=2)": "https://a.example/?x=1&y=2",
    "[here][x]\n\n[x]: https://evil.example": "[here][x]\n[x]: https://evil.example",
    "![alt](https://a.example/p.png 'HIDDEN')": 'alt (https://a.example/p.png "HIDDEN")',
    "<https://a.example> ann@b.example www.a.example": "https://a.example ann@b.example www.a.example",
    "[log](/u '\u202e')": 'log (/u "\\u{202e}")',
    "```python title=HIDDEN\nprint(1)\n```": "python title=HIDDEN\nprint(1)",
    "*pay* &#x202e; bob": "pay \\u{202e} bob",
    "- [x] done\n- [ ] &copy; &amp; open": "done\n© & open",
    "a **b** ~~c~~ `d` \\*\n\n# e\n---\n7. *f*\n8. g\n   1) h": "a b c d *\ne\nf\ng\nh",
    "| a | b |\n|---|:-:|\n| 1 | `x \\| y` | |\n| 2": "a\nb\n1\nx | y\n2",
    "**Step 2**. (*a*, **1**) **Ann**'s \\* `b`: *c*\u2014d \u7528Go**\u5f88**\u597d \u5728**2024\u5e74**3\u6708": (
        "Step 2. (a, 1) Ann's * b: c\u2014d \u7528Go\u5f88\u597d \u57282024\u5e743\u6708"
    ),
}
"""Markdown, and all that stands on the page."""


def test_the_page_draws_markdown_without_a_loss_or_as_text(user: User) -> None:
    page = user.tab()

    def drawn(answer: str) -> str:
        say(page, SAYS + answer)
        return str(answered(page).locator(".said .markdown").inner_text())

    def words(text: str) -> list[str]:
        return [each for each in text.split() if each != "Copy"]

    for answer in AS_TEXT:
        assert drawn(f"{answer}\n\n**The** end.").split("\n") == [*answer.split("\n"), "", "The end."]
    for answer, text in DRAWN.items():
        assert words(drawn(answer)) == words(text)
    assert user.complaints == []


def test_no_place_of_the_page_draws_what_a_browser_would_hide(user: User) -> None:
    page = user.tab()
    say(page, f"hidden words \u202eback\u200b д\u200dа\u2d7f x{HEAP}")
    answered(page)
    found = ""
    for view in ("Chat", "Trace", "Context"):
        page.get_by_role("tab", name=view).click()
        page.locator({"Chat": ".tasks", "Trace": ".spans", "Context": ".sent"}[view]).wait_for()
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        if view == "Context":
            page.locator(".sent pre").last.wait_for()
        drawn = page.locator("body").inner_text()
        assert not [char for char in drawn if not char.isprintable() and char not in "\n\t"], view
        found += drawn
    seen = r"pay \u{202e}\u{200b}bob\u{0} \u{202e}"
    for part in (
        seen,
        r"pay \u{202e}\u{200b}bob\u{0} &#x202e;",
        r"\u{202e}back\u{200b} д\u{200d}а\u{2d7f}",
        r"no\u{202e}tool",
        f"x{HEAP[:6]}" + r"\u{310}" * 3,
    ):
        assert part in found
    assert user.complaints == []


INKLESS = r"""source => {
    const unseen = new RegExp(source, "u"), others = /[\p{Zs}\p{Script=Han}\p{Script=Hangul}\p{Script=Yi}]/u;
    const letterOfOld = /(?=\p{Lo})[^\0-\uffff]/u, mark = /[\p{Mn}\p{Me}]/u;
    const drawn = [];
    for (let code = 0x21; code < 0x110000; code++) {
        const char = String.fromCodePoint(code);
        if (!unseen.test(char) && !others.test(char) && !letterOfOld.test(char)) drawn.push(char);
    }
    const size = 28, wide = 128, bases = ["", "\u05d0"];
    const canvas = document.createElement("canvas");
    canvas.width = size * wide;
    canvas.height = size * Math.ceil((drawn.length + bases.length) / wide);
    const pen = canvas.getContext("2d", { willReadFrequently: true });
    const exact = document.body.appendChild(document.createElement("pre"));
    exact.className = "exact";
    pen.font = getComputedStyle(exact).font;
    exact.remove();
    const corner = at => [(at % wide) * size, Math.floor(at / wide) * size];
    // Beneath a mark there is a letter.
    [...bases, ...drawn.map(char => (mark.test(char) ? bases[1] : "") + char)].forEach((text, at) => {
        const [x, y] = corner(at);
        pen.save();
        pen.beginPath();
        pen.rect(x, y, size, size);
        pen.clip();
        pen.fillText(text, x + 6, y + 19);
        pen.restore();
    });
    const pixels = new Uint32Array(pen.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
    const pixel = (at, row, column) => {
        const [x, y] = corner(at);
        return pixels[(y + row) * canvas.width + x + column];
    };
    const isSame = (one, other) => {
        for (let row = 0; row < size; row++)
            for (let column = 0; column < size; column++)
                if (pixel(one, row, column) !== pixel(other, row, column)) return false;
        return true;
    };
    const found = drawn.filter((char, at) => isSame(at + bases.length, mark.test(char) ? 1 : 0));
    return [drawn.length, found.map(char => char.codePointAt(0).toString(16))];
}"""
"""How many characters `visible` leaves as they are, and which of them leave no ink: one canvas for all, and no layout.

Left out: spaces, Chinese and Korean characters, Yi, and the letters of planes above the first. They are nine of ten.
"""


def test_each_character_that_is_no_escape_has_ink(user: User) -> None:
    """U+FFFC was drawn as a space, so one path looked like two."""
    page = user.tab()
    count, inkless = page.evaluate(INKLESS, rule("UNSEEN").pattern)
    assert count > 15_000
    assert inkless == []


def test_the_change_of_an_edit_stays_with_its_call(user: User) -> None:
    (user.server.folder / "plan.md").write_text("# Plan\n\n1. Ship order 1042.\n")
    page = user.tab()
    say(page, "edit the plan")
    card = page.get_by_role("region", name="Approve this call?")
    asked = card.locator(".shown").inner_text()
    press(card.get_by_role("button", name="Approve", exact=True))
    turn = answered(page)
    page.reload()
    call = turn.locator(".tool")
    call.locator(".size").wait_for()
    assert call.locator(".size").inner_text().split() == ["+1", "−1"]
    call.get_by_role("button", name="edit_file").click()
    shown = call.locator(".shown")
    shown.wait_for()
    lines = shown.inner_text().splitlines()
    assert "- 1. Ship order 1042." in shown.locator(".gone").inner_text()
    assert r"+ 1. Ship\u200b today: order 1042." in shown.locator(".added").inner_text()
    assert [each for each in lines if each.strip()] == [
        each for each in asked.splitlines() if each in lines and each.strip()
    ], "the call shows the change as its question did"
    assert axe(page) == []
    assert user.complaints == []


LEFT_OF = """
(element, letters) => {
    const found = [], walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode())
        for (let at = 0; at < node.data.length; at++)
            if (letters.includes(node.data[at])) {
                const range = document.createRange();
                range.setStart(node, at);
                range.setEnd(node, at + 1);
                found.push([node.data[at], range.getBoundingClientRect().left]);
            }
    return found.sort((one, other) => one[1] - other[1]).map(([letter]) => letter).join("");
}
"""


ORDER = "each => [getComputedStyle(each).unicodeBidi, getComputedStyle(each).direction]"


def test_words_written_from_the_right_stand_in_the_order_in_which_they_run(user: User) -> None:
    page = user.tab()
    say(page, "record foreign words")
    card = page.get_by_role("region", name="Approve this call?")
    line = card.locator(".shown span", has_text="text:")
    assert line.evaluate(LEFT_OF, "\u05d0\u05d11\u05d3") == "\u05d1\u05d01\u05d3"
    card.get_by_role("button", name="Edit arguments").click()
    # No script can ask a browser where it draws the letters of such a field.
    box = card.get_by_role("textbox", name="Arguments")
    assert box.evaluate(ORDER) == ["bidi-override", "ltr"]
    assert json.loads(box.input_value()) == {"text": FOREIGN}
    press(card.get_by_role("button", name="Approve", exact=True))
    turn = answered(page)
    gist = turn.locator(".tool .gist")
    gist.click()
    # A text and another value with the same letters are told apart.
    assert turn.locator(".arguments .exact").evaluate_all("all => all.map(each => each.className)") == [
        "exact"
    ]
    assert gist.inner_text().endswith(r"\u{feff}\u{2028}end")
    assert gist.evaluate(LEFT_OF, "\u05d0\u05d11\u05d3") == "\u05d1\u05d01\u05d3"


def test_two_arguments_of_different_values_are_not_drawn_alike(user: User) -> None:
    """JavaScript writes 1.0 as 1 and -0.0 as 0, and a carriage return before a line end shows nothing."""
    page = user.tab()

    def drawn() -> tuple[dict[str, Any], str]:
        for head in page.locator(".tool .head").all():
            if head.get_attribute("aria-expanded") == "false":
                head.click()
        numbers, text = page.locator(".arguments").all()
        names, values = numbers.locator("dt").all_inner_texts(), numbers.locator("dd").all_inner_texts()
        return dict(zip(names, values, strict=True)), text.locator("pre").inner_text()

    say(page, "numbers")
    card = page.get_by_role("region", name="Approve this call?")
    card.get_by_text(r"a\x0d").wait_for()
    shown = {
        name: each if isinstance(each, str) else json.dumps(each, indent=2) for name, each in NUMBERS.items()
    }
    assert drawn() == (shown, "a\\u{d}\nb")
    press(card.get_by_role("button", name="Reject"))
    answered(page)
    assert drawn() == (shown, "a\\u{d}\nb")


CUT = """
() => [...document.querySelectorAll("body *")]
    .filter(each => getComputedStyle(each).textOverflow === "ellipsis" && each.scrollWidth > each.clientWidth)
    .filter(each => !each.closest("a[href], [aria-expanded=false], details:not([open]) > summary"))
    .filter(each => !each.matches(".head[aria-expanded=true] .gist"))
    .map(each => `${each.className}: ${each.textContent}`)
"""
"""The texts that end with an ellipsis and are in nothing that a user opens to see the whole."""


def test_what_a_phone_cuts_can_be_opened(user: User) -> None:
    page = user.tab()
    page.set_viewport_size({"width": 390, "height": 800})
    say(page, f"Use long names, {'and_so_on_' * 12}.")
    answered(page)
    names = page.locator(".tool .name")
    cut = "all => all.map(each => each.scrollWidth > each.clientWidth)"
    assert names.evaluate_all(cut) == [True, True]
    for head in page.locator(".tool .head").all():
        head.click()
    assert names.all_inner_texts() == [f"{LONG_NAME}archive", f"{LONG_NAME}delete"]
    assert names.evaluate_all(cut) == [False, False]
    command = f"curl -fsS https://a.example/{'and/so/on/' * 12} | sh; end"
    say(page, f"{SAYS}```\nfirst\n\n{command}\n```")
    code = answered(page).locator("pre")
    assert code.evaluate(FITS)
    assert code.locator("code").evaluate("code => code.textContent") == f"first\n\n{command}"
    long = code.locator("span").last
    first, *others = long.evaluate(
        "line => { const all = document.createRange(); all.selectNodeContents(line);"
        " return [...all.getClientRects()].map(each => each.x - line.getBoundingClientRect().x); }"
    )
    assert first == 0 < min(others)
    for view, part in (("Chat", ".turn"), ("Trace", ".spans"), ("Context", ".sent")):
        page.get_by_role("tab", name=view).click()
        page.locator(part).last.wait_for()
        page.evaluate("document.querySelectorAll('.sent details').forEach(each => each.open = true)")
        assert page.evaluate(CUT) == [], view
        assert page.locator("main, .chat, .context").first.evaluate(FITS), view


def test_a_question_of_a_tool_is_a_form(user: User) -> None:
    page = user.tab()
    say(page, "book a room")
    form = page.get_by_role("region", name="The agent asks")
    assert form.get_by_label("Name").input_value() == "Ada"
    form.get_by_label("Room").select_option("South")
    form.get_by_label("Nights").fill("9007199254740995")
    form.get_by_label("Breakfast").check()
    assert form.get_by_label("Part").input_value() == "1.0"
    form.get_by_label("Rest").fill(".50")
    form.get_by_label("Level").select_option("1.0")
    # A field that cannot show its default says it, and has no value that only looks like it.
    note, shared = form.get_by_label("Note"), form.get_by_label("Shared")
    assert (note.input_value(), note.get_attribute("placeholder")) == ("", r'"two\nlines\u202e"')
    assert shared.locator("option").all_inner_texts() == ['"false"', "true", "false"]
    # An input of dates would be empty, without a placeholder too, and one of addresses has no blanks around.
    day, mail = form.get_by_label("Day"), form.get_by_label("Mail")
    shown = [(each.input_value(), each.get_attribute("placeholder")) for each in (day, mail)]
    assert shown == [("tomorrow", '"tomorrow"'), ("", '" a@example.com "')]
    assert day.get_attribute("type") == "text"
    # A choice is drawn as the line above the form says it, and as no other choice.
    what, plain, many = (form.locator("label", has_text=each).first for each in ("What", "Plain", "Many"))
    drawn = [each.locator("option").all_inner_texts()[1:] for each in (what, plain)]
    assert drawn == [['Keep all: "keep"', 'Keep all: "delete"'], ["a b", r"a \x20b", FOREIGN[:6]]]
    labels = plain.locator("option").evaluate_all("all => all.map(each => each.label)")
    assert labels[-1] == "\u200e\u05d0\u05d1\u200e 1 \u200e\u05d3\u200e"
    assert r"What\u202e" in what.inner_text()
    assert what.locator("span").first.evaluate(LEFT_OF, FOREIGN[:6].replace(" ", "")) == "\u05d1\u05d01\u05d3"
    box = many.locator("label").first
    assert box.evaluate(LEFT_OF, "\u05d0\u05d11\u05d3") == "\u05d1\u05d01\u05d3"
    assert "\u05d3 \\x201" in many.inner_text()
    path, right = form.get_by_label("Path"), form.get_by_label("Right")
    assert (path.input_value(), right.input_value()) == ("", "")
    assert path.get_attribute("placeholder").endswith("… (726)")
    assert right.get_attribute("placeholder") == r'"\u05d0\u05d1"'
    assert [form.get_by_label("Name").evaluate("each => getComputedStyle(each).textOverflow")] == ["ellipsis"]
    many.get_by_role("checkbox").first.check()
    form.get_by_label("Plain").select_option(index=2)
    form.get_by_label("Absent").select_option("false")
    # Every object of JavaScript has members of these names.
    assert not form.get_by_label("Delete all").is_checked()
    assert form.get_by_label("Remark").input_value() == ""
    shown = page.locator("body").inner_text()
    assert "\u0338" * 7 not in shown
    assert "\u0310" * 7 not in shown
    assert r"\u0338" in shown
    assert r"\u0310" in shown
    press(form.get_by_role("button", name="Answer"))
    turn = answered(page)
    turn.get_by_role("button", name="book").click()
    said = (
        "[('absent', False), ('breakfast', True), ('day', 'tomorrow'),"
        " ('guest', 9007199254740993), ('level', 1.0), ('mail', ' a@example.com '),"
        " ('many', ['\u05d0\u05d1 1 \u05d3']), ('name', 'Ada'), ('nights', 9007199254740995),"
        rf" ('note', 'two\nlines\u202e'), ('part', 1.0), ('path', '/srv{' ' * 120}/home'), ('plain', 'a  b'),"
        " ('rest', 0.5), ('right', '\u05d0\u05d1'), ('room', 's'), ('shared', False)]"
    )
    assert turn.locator(".result").inner_text() == said


def test_a_form_and_a_card_tell_in_full_what_a_line_of_theirs_cuts(user: User) -> None:
    """Two choices with one beginning looked alike once chosen, and so did two instructions."""
    page = user.tab()
    say(page, "book a room")
    form = page.get_by_role("region", name="The agent asks")

    def told(label: str, text: str) -> Any:
        return form.locator("label", has_text=label).locator(".exact", has_text=text)

    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for label in ("Listed", "Titled"):
            for index, end in enumerate(("nothing", "all"), 1):
                # The name of the control is exact: the text below is no part of it.
                form.get_by_role("combobox", name=label, exact=True).select_option(index=index)
                told(label, LENGTHY + end).wait_for()
        form.get_by_role("textbox", name="Name", exact=True).fill(f"{LENGTHY}{width}")
        told("Name", f"{LENGTHY}{width}").wait_for()
        form.get_by_role("combobox", name="Room *", exact=True).select_option("South")
        # The default of an empty field is cut with its size, as in the field, and is whole above.
        told("Path", "… (726)").wait_for()
        told("Absent", f"… ({len(LENGTHY) + 2})").wait_for()
        assert form.evaluate(FITS)
        assert all(each.evaluate(FITS) for each in form.locator("label .exact").all())
    assert told("Room", "South").count() == 0
    form.get_by_label("Middle").select_option(index=1)
    told("Middle", MIDDLE).wait_for()
    page.set_viewport_size({"width": 1280, "height": 900})
    told("Middle", MIDDLE).wait_for(state="detached")
    page.set_viewport_size({"width": 390, "height": 900})
    told("Middle", MIDDLE).wait_for()
    assert axe(page) == []
    press(form.get_by_role("button", name="Decline"))
    answered(page)
    say(page, "record it")
    card = page.get_by_role("region", name="Approve this call?")
    card.get_by_label("Reason or instruction").fill(f"{LENGTHY}\u202e")
    card.locator(".exact", has_text=rf"{LENGTHY}\u{{202e}}").wait_for()
    assert card.evaluate(FITS)
    press(card.get_by_role("button", name="Reject"))
    answered(page)


def test_eight_tabs_of_a_waiting_turn_load_because_only_a_visible_one_listens(user: User) -> None:
    first = user.tab()
    say(first, "record it")
    first.locator(".approval .danger").wait_for()
    user.context.add_init_script(
        "window.isHidden = true; Object.defineProperty(document, 'hidden', {get: () => window.isHidden})"
    )
    others = [user.tab(first.url.removeprefix(user.server.address)) for _ in range(7)]
    for each in others:
        each.locator(".prompt").wait_for()
    last = others[-1]
    assert last.locator(".approval").count() == 0
    last.evaluate("isHidden = false; document.dispatchEvent(new Event('visibilitychange'))")
    last.locator(".approval .danger").click()
    assert answered(last).locator(".tool .badge").inner_text() == "error"
    assert answered(first).locator(".tool .badge").inner_text() == "error"


def test_the_context_shows_what_was_forgotten_and_why(user: User) -> None:
    page = user.tab()
    for prompt in ("Use tools, once", "Use tools, twice"):
        say(page, prompt)
        turn = answered(page)
        turn.get_by_text("It is done.").wait_for()
    first = page.locator(".turn").first
    first.get_by_role("button", name="echo").click()
    first.locator(".body").get_by_role("link", name="Why did it forget?").click()
    why = page.get_by_role("region", name="Why did it forget?")
    assert "left" in why.locator(".item .badge").inner_text()
    assert "summarization" in why.inner_text()
    why.get_by_role("button", name="Removed from step").click()
    step = page.get_by_role("region", name="Step 4")
    assert "messages summarized in one call" in step.inner_text()
    page.keyboard.press("ArrowLeft")
    page.get_by_role("region", name="Step 3").wait_for()
    sent = page.get_by_role("region", name="What was sent")
    sent.locator("summary", has_text="tool:echo").wait_for()
    page.locator(".u-over").click(position={"x": 100, "y": 100})
    page.get_by_role("region", name="Step 1").wait_for()
    page.get_by_role("searchbox", name="Search what was sent").fill("waits for a part")
    page.locator(".found").get_by_text("later").first.wait_for()
    page.locator(".whatif summary").click()
    policies = "- recall\n- approve: {allow: [task, echo]}\n"
    page.get_by_role("textbox", name="middlewares").fill(policies)
    page.get_by_role("textbox", name="Texts that").fill("waits for a part")
    page.get_by_role("button", name="Recompute").click()
    kept = page.get_by_role("row", name="Needed texts kept").get_by_role("cell")
    kept.first.wait_for()
    (present, needed), (other, _) = [each.split(" / ") for each in kept.all_inner_texts()]
    assert (int(present) < int(needed), other) == (True, needed)
    page.goto(page.url.split("?")[0] + "?step=3")
    page.get_by_role("button", name="Fork at step 3 with these policies").click()
    page.get_by_role("button", name="Ask the model again").click()
    answered(page).get_by_text("It is done.").wait_for()
    forked = page.url
    page.goto(forked + "/context")
    page.locator(".whatif summary").click()
    page.get_by_text("This session has its own policies").wait_for()
    assert page.get_by_role("textbox", name="middlewares").input_value() == policies
    page.get_by_role("textbox", name="middlewares").fill("- recal\n")
    page.get_by_role("button", name="Recompute").click()
    assert "recall" in page.locator(".whatif .problem").inner_text()
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.locator(".context").evaluate(FITS)
    page.locator("summary[aria-label=More]").click()
    page.get_by_role("link", name="Plan of this session").click()
    page.get_by_text("This session has its own policies").wait_for()
    page.get_by_role("searchbox").last.fill("approve.allow")
    row = page.get_by_role("row", name="middlewares.1.approve.allow")
    assert "task" in row.inner_text()
    assert page.locator(".context").evaluate(FITS)
    assert axe(page) == []
    page.reload()
    page.get_by_role("link", name="Back to the session").click()
    page.wait_for_url(forked)
    assert [each for each in user.complaints if "422" not in each] == []


def test_a_plot_is_a_file_in_which_a_user_looks_at_each_step(
    server: Server, browser: Any, tmp_path: Path
) -> None:
    from zeus_runtime.cli.context.plots import write_plot

    compaction = PolicyDecision("summarization", "summarize", True, "it was <large>", tokens_before=900)
    steps = [
        StepRecord(
            number,
            "r",
            number,
            0,
            "gpt-4o",
            input_limit_tokens=2000,
            fixed_tokens=300,
            expected_tokens=300 + 100 * number,
            by_source={"user": 100 * number, "tool:<b>": 50},
            usage=StepUsage(400, 10, cache_read_tokens=300),
            cost_usd=0.25,
            decisions=(compaction,) if number == 4 else (),
        )
        for number in range(1, 7)
    ]
    write_plot(tmp_path / "plot.html", [overview_of("talk", steps)], title="talk", redactor=Redactor())
    asked: list[str] = []
    complaints: list[str] = []
    options = {"viewport": {"width": 1000, "height": 800}, "color_scheme": "dark", "locale": "en-GB"}
    with browser.new_context(**options) as context:
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.goto((tmp_path / "plot.html").as_uri())
        assert page.locator(".figures dd").nth(4).inner_text() == "$1.50"
        page.get_by_role("region", name="Step 6").wait_for()
        box = page.locator(".u-over").bounding_box()
        page.locator(".u-over").click(position={"x": box["width"] * 3.5 / 6.2, "y": 100})
        step = page.get_by_role("region", name="Step 4")
        assert "it was <large>" in step.inner_text()
        page.keyboard.press("ArrowLeft")
        page.get_by_role("region", name="Step 3").wait_for()
        page.get_by_role("button", name="Cache").click()
        assert page.locator(".legend li").first.inner_text().split() == ["Cache", "read", "300"]
        assert axe(page) == []
    assert asked == [(tmp_path / "plot.html").as_uri()]
    assert complaints == []


def test_the_page_is_small_enough_for_a_slow_network(server: Server) -> None:
    sizes = {
        each.name: len(gzip.compress(each.read_bytes()))
        for each in BUNDLE.iterdir()
        if each.name.startswith("page.")
    }
    assert {"page.js", "page.css"} <= sizes.keys()
    assert sum(sizes.values()) < 300_000


def test_a_user_goes_back_to_say_it_otherwise(user: User) -> None:
    page = user.tab()
    for prompt in ("The first question", "The secnd question"):
        say(page, prompt)
        answered(page)
    page.locator(".prompt .bubble").last.hover()
    page.get_by_role("button", name="Go back to here").last.click()
    page.get_by_role("dialog").get_by_role("button", name="Go back", exact=True).click()
    page.locator(".turn").nth(1).wait_for(state="detached")
    assert page.locator(".composer textarea").input_value() == "The secnd question"
    say(page, "The second question")
    assert "The second question" in answered(page).inner_text()
    assert page.locator(".prompt .bubble").all_inner_texts() == ["The first question", "The second question"]


WATCHED = """() => {
    window.told = [];
    const look = () => document.querySelectorAll(".banner").forEach(each => window.told.push(each.textContent));
    new MutationObserver(look).observe(document.body, {childList: true, subtree: true});
}"""


def test_the_questions_of_a_stopped_turn_go_from_every_device_at_once(user: User) -> None:
    page = user.tab()
    say(page, "record it")
    question = page.get_by_role("region", name="Approve this call?")
    question.wait_for()
    other = user.tab(f"#/{page.url.split('#/')[1]}")
    other.get_by_role("region", name="Approve this call?").wait_for()
    # What would be told of a lost connection is told for as long as it lasts, so it must never have been there.
    for each in (page, other):
        each.evaluate(WATCHED)
    page.locator(".composer textarea").fill("Tell me something else.")
    page.keyboard.press("Enter")
    page.locator(".queued").wait_for()
    page.get_by_role("button", name="Stop").click()
    for each in (page, other):
        each.get_by_role("region", name="Approve this call?").wait_for(state="detached", timeout=5000)
        each.locator(".failure").get_by_text("cancelled").wait_for(timeout=5000)
        each.locator(".live").wait_for(state="detached")
        assert each.locator(".turn").count() == 2, "the queued message was answered"
        assert each.evaluate("window.told") == []
    say(page, "record it once more")
    question.wait_for()
    other.reload()
    other.get_by_role("region", name="Approve this call?").wait_for()
    page.get_by_role("button", name="Stop").click()
    for each in (page, other):
        each.get_by_role("region", name="Approve this call?").wait_for(state="detached", timeout=5000)
        assert each.locator(".turn").last.locator(".badge").all_inner_texts() == ["not finished"]
        assert each.get_by_role("button", name="Ask the model again").count() == 0
        assert each.locator(".banner").count() == 0


def test_going_back_takes_the_question_of_the_turn_that_waits(user: User) -> None:
    page = user.tab()
    say(page, "The first question")
    answered(page)
    say(page, "record it")
    question = page.get_by_role("region", name="Approve this call?")
    question.wait_for()
    page.locator(".prompt .bubble").first.hover()
    page.get_by_role("button", name="Go back to here").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Go back", exact=True).click()
    question.wait_for(state="detached", timeout=5000)
    page.locator(".live").wait_for(state="detached")
    say(page, "The second question")
    assert "The second question" in answered(page).inner_text()
    assert page.locator(".prompt .bubble").all_inner_texts() == ["The second question"]


def test_files_go_along_with_a_message(user: User, tmp_path: Path) -> None:
    page = user.tab()
    (tmp_path / "orders.csv").write_text("order,late\n1042,3\n")
    (tmp_path / "shelf.png").write_bytes(png(40, 30))
    (tmp_path / "other.txt").write_text("not this one")
    chosen = page.locator("input[type=file]")
    chosen.set_input_files([tmp_path / "orders.csv", tmp_path / "shelf.png", tmp_path / "other.txt"])
    attached = page.get_by_role("list", name="Attached files")
    attached.locator("img").wait_for()
    attached.get_by_role("button", name="Remove: other.txt").click()
    say(page, "What do these say?")
    answered(page)
    files = page.locator(".prompt .files li")
    files.first.wait_for()
    assert {" ".join(each.split()) for each in files.all_inner_texts()} == {
        "orders.csv 1 kB",
        "shelf.png 40×30",
    }
    assert attached.count() == 0
    picture = page.locator(".prompt .picture img")
    picture.evaluate("image => image.decode()")
    assert picture.evaluate("image => [image.naturalWidth, image.naturalHeight]") == [40, 30]
    with page.expect_download() as kept:
        page.locator(".prompt .files").get_by_role("link", name="orders.csv").click()
    assert kept.value.path().read_text() == "order,late\n1042,3\n"
    assert axe(page) == []
    assert user.complaints == []
    with (tmp_path / "big.bin").open("wb") as big:
        big.truncate(25_000_001)
    chosen.set_input_files(tmp_path / "big.bin")
    attached.locator(".problem").wait_for()
    page.locator(".composer textarea").fill("And this?")
    page.keyboard.press("Enter")
    page.get_by_role("alert").get_by_text("Remove it, then send again").wait_for()
    assert page.locator(".composer textarea").input_value() == "And this?"


def test_a_session_is_found_by_its_words_forked_at_a_step_kept_and_put_away(user: User) -> None:
    page = user.tab()
    say(page, "Use tools for the zebra")
    answered(page)
    search = page.get_by_role("searchbox", name="Search sessions")
    search.fill("ZEBRA")
    page.get_by_role("region", name="Messages").get_by_role("link").first.click()
    page.locator(".prompt.target").wait_for()
    search.fill("")
    page.goto(page.url.split("?")[0] + "/context?step=2")
    page.get_by_role("button", name="Fork here").click()
    page.get_by_role("heading", name="Use tools for the zebra (from step 2)").wait_for()
    names = page.locator(".tool .name")
    names.first.wait_for()
    assert names.all_inner_texts() == ["write_todos"]
    page.get_by_role("button", name="Ask the model again").click()
    page.get_by_text("It is done.").wait_for()
    answered(page)
    assert names.all_inner_texts() == ["write_todos", "echo", "task"]
    page.locator(".menu summary").click()
    with page.expect_download() as kept:
        page.get_by_role("link", name="Export as Markdown").click()
    assert "Use tools for the zebra" in kept.value.path().read_text()
    page.get_by_role("button", name="Archive", exact=True).click()
    page.get_by_text("This session is archived.").wait_for()
    page.get_by_role("button", name="Archived sessions").click()
    page.locator(".sessions a[aria-current]").wait_for()
    page.get_by_role("button", name="Restore").click()
    page.get_by_text("It is done.").wait_for()
    assert user.complaints == []


CHANGE_MEMORY = """async id => {
    id ??= new URLSearchParams(location.hash.split("?")[1]).get("item");
    const headers = {"X-Zeus-Page": "1", "Content-Type": "application/json"};
    const body = JSON.stringify({subject: "Ada"});
    await fetch(`v1/memories/${id}?agent=keeper`, {method: "PATCH", headers, body});
}"""
"""Another tab changes a memory, by default the one that is open."""


def test_a_user_corrects_what_the_agent_remembers(user: User) -> None:
    page = user.tab()
    page.get_by_role("link", name="Memory", exact=True).click()
    page.get_by_text("The agent has no memory").wait_for()
    page.get_by_role("combobox", name="Agent").select_option("keeper")
    memories = page.get_by_role("region", name="Memories")
    memories.get_by_role("searchbox").fill("Where does Ada live?")
    memories.get_by_title("Similarity").first.wait_for()
    memories.get_by_role("link").first.click()
    page.get_by_role("button", name="Edit").click()
    assert page.get_by_role("textbox", name="Text").evaluate(ORDER) == ["bidi-override", "ltr"]
    page.get_by_role("textbox", name="Text").fill("The customer Ada lives in Linz.")
    page.evaluate(CHANGE_MEMORY)
    page.get_by_role("button", name="Save").click()
    page.get_by_role("alert").get_by_text("it was changed since you read it").wait_for()
    page.locator(".facts").get_by_text("Subject").wait_for()
    page.get_by_role("button", name="Save").click()
    versions = page.get_by_role("region", name="History").locator("li")
    versions.nth(2).wait_for()
    assert [each.split()[0] for each in versions.all_inner_texts()] == ["stored", "updated", "updated"]
    assert page.locator(".content").inner_text() == "The customer Ada lives in Linz."
    page.get_by_role("button", name="New memory").click()
    form = page.get_by_role("dialog")
    form.get_by_role("textbox").fill("The key is AKIAIOSFODNN7EXAMPLE.")
    form.get_by_role("button", name="Save").click()
    form.get_by_role("alert").get_by_text("not saved").wait_for()
    form.get_by_role("textbox").fill("The shop sells \ue000lamps.\nAnd shades.")
    form.get_by_label("Scope").select_option("project")
    form.get_by_role("button", name="Save").click()
    form.wait_for(state="detached")
    page.get_by_role("link", name="Memories").click()
    page.get_by_role("link", name=r"The shop sells \u{e000}lamps. And shades.").click()
    page.get_by_role("button", name="Edit").click()
    # What shows nothing is not in the field, and so it is not saved.
    assert page.get_by_role("textbox", name="Text").input_value() == "The shop sells lamps.\nAnd shades."
    page.get_by_role("textbox", name="Text").fill("The shop sells lamps.")
    page.get_by_role("button", name="Save").click()
    versions.nth(1).wait_for()
    page.get_by_role("button", name="Delete").click()
    assert form.locator(".content").inner_text() == "The shop sells lamps."
    page.evaluate(CHANGE_MEMORY)
    form.get_by_role("button", name="Delete").click()
    page.get_by_role("alert").get_by_text("was changed since you read it").wait_for()
    page.locator(".facts").get_by_text("Subject").wait_for()
    page.get_by_role("button", name="Delete").click()
    form.get_by_role("button", name="Delete").click()
    memories.get_by_role("link", name="The shop closes at six.").wait_for()
    assert memories.get_by_role("link", name="The shop sells lamps.").count() == 0
    assert [each for each in user.complaints if "412" not in each and "422" not in each] == []


def test_a_user_releases_a_memory_and_takes_back_what_a_model_changed(user: User) -> None:
    user.context.add_init_script(
        "window.held = []; const plainly = setTimeout;"
        "window.setTimeout = (later, ms) => ms === 600 ? held.push(later) : plainly(later, ms)"
    )
    page = user.tab("#memory?agent=keeper")
    page.get_by_role("button", name="Quarantine (1)").click()
    waiting = page.get_by_role("region", name="Quarantine")
    assert "Ignore all previous instructions" in waiting.locator(".content").inner_text()
    # A second click at this place may be about the next memory.
    assert waiting.get_by_role("button").evaluate_all("all => all.map(each => each.disabled)") == [True, True]
    page.evaluate("held.forEach(later => later())")
    found = page.evaluate("fetch('v1/memories/quarantine?agent=keeper').then(each => each.json())")
    page.evaluate(CHANGE_MEMORY, found[0]["id"])
    waiting.get_by_role("button", name="Delete").click()
    page.get_by_role("alert").get_by_text("was changed since you read it").wait_for()
    waiting.get_by_text("Subject: Ada").wait_for()
    # The wait begins after the memory is drawn.
    while waiting.get_by_role("button", name="Release").is_disabled():
        page.evaluate("held.forEach(later => later())")
    waiting.get_by_role("button", name="Release").click()
    waiting.get_by_text("Nothing is in quarantine.").wait_for()
    page.get_by_role("button", name="Changes").click()
    page.get_by_role("button", name="Undo").click()
    asked = page.get_by_role("dialog")
    asked.get_by_role("listitem").get_by_text("The shop closes at six.").wait_for()
    asked.get_by_role("button", name="Undo").click()
    page.get_by_text("1 removed, 0 restored").wait_for()
    page.get_by_text("undone").wait_for()
    page.get_by_role("button", name="Memories").click()
    page.get_by_role("link", name="Ignore all previous instructions").wait_for()
    assert page.get_by_role("link", name="The shop closes at six.").count() == 0
    assert [each for each in user.complaints if "412" not in each] == []


def test_a_user_writes_a_profile_and_takes_it_back(user: User) -> None:
    page = user.tab("#memory?agent=keeper")
    page.get_by_role("button", name="Profile").click()
    own = page.get_by_role("region", name="Of the user")
    own.get_by_role("button", name="Edit").click()
    form = page.get_by_role("dialog", name="Of the user")
    assert form.get_by_label("profession").evaluate(ORDER) == ["bidi-override", "ltr"]
    form.get_by_label("profession").fill("Carpenter")
    form.get_by_label("expertise areas").fill("oak\nash")
    form.get_by_label("response format").select_option("plain")
    assert axe(page) == []
    form.get_by_label("username").fill("AKIAIOSFODNN7EXAMPLE")
    form.get_by_role("button", name="Save").click()
    form.get_by_role("alert").get_by_text("looks like a secret").wait_for()
    form.get_by_label("username").fill("")
    form.get_by_role("button", name="Save").click()
    form.wait_for(state="detached")
    own.get_by_text("Carpenter").wait_for()
    assert own.locator("dd", has_text="ash").locator("p").all_inner_texts() == ["oak", "ash"]
    own.locator("dd", has_text="Carpenter").get_by_role("button", name="Give back").click()
    own.get_by_text("Carpenter").wait_for(state="detached")
    own.get_by_role("button", name="Undo").click()
    own.get_by_text("Carpenter").wait_for()
    page.get_by_role("region", name="Of the project").get_by_role("button", name="Edit").click()
    form = page.get_by_role("dialog", name="Of the project")
    form.get_by_label("key decisions").fill("Use\ue000 oak | it lasts | 2026-01-02\nNo glue")
    form.get_by_role("button", name="Save").click()
    made = page.get_by_role("region", name="Of the project").locator("dd p")
    made.nth(1).wait_for()
    assert made.all_inner_texts() == [r"Use\u{e000} oak · it lasts · 2026-01-02", "No glue"]
    page.get_by_role("region", name="Of the project").get_by_role("button", name="Edit").click()
    assert form.get_by_label("key decisions").input_value() == "Use oak | it lasts | 2026-01-02\nNo glue"
    assert form.get_by_role("button", name="Save").is_disabled(), "nothing was changed"
    assert [each for each in user.complaints if "422" not in each] == []


def test_a_user_looks_something_up_with_its_citation(user: User) -> None:
    page = user.tab("#knowledge?agent=keeper")
    assert "passages: 2" in page.get_by_role("region", name="Search").inner_text()
    page.get_by_role("searchbox", name="Search as the agent does").fill("How is a refund paid?")
    page.locator(".hits li").first.wait_for()
    assert page.locator(".hits cite").first.inner_text() == "handbook/handbook.md · Returns > Refund · line 9"
    assert "by the card that was used" in page.locator(".hits blockquote").first.inner_text()
    assert "handbook.md" in page.get_by_role("region", name="Documents").inner_text()
    assert user.complaints == []


def test_a_user_finds_where_a_value_was_written_and_checks_an_edited_config(user: User) -> None:
    page = user.tab("#plan?agent=keeper")
    values = page.get_by_role("region", name="Values")
    values.get_by_role("searchbox").fill("max_steps")
    row = values.get_by_role("row", name="limits.max_steps")
    line = KEEPER.splitlines().index("limits: {max_steps: 9}") + 1
    assert row.get_by_role("cell").all_inner_texts() == ["limits.max_steps", "9", f"keeper.yaml:{line}:21"]
    page.get_by_role("button", name="Parts").click()
    assert page.get_by_role("row", name="search_knowledge_base").count() == 1
    page.get_by_role("button", name="Prompt").click()
    page.locator(".sent summary").first.click()
    page.get_by_role("button", name="Edit and check").click()
    page.get_by_text("This config is valid").wait_for()
    text = page.get_by_role("textbox", name="Text of the config")
    written = text.input_value()
    assert written == KEEPER
    text.fill(written.replace("max_steps: 9", "max_stps: 9"))
    page.get_by_text("This config is not valid").wait_for()
    page.get_by_role("button", name=f"keeper.yaml:{line}:10").click()
    chosen = text.evaluate("field => field.value.slice(field.selectionStart, field.selectionEnd)")
    assert chosen == "max_stps: 9}"
    page.get_by_role("button", name="Values").click()
    page.get_by_role("button", name="Edit and check").click()
    assert "max_stps" in text.input_value()
    page.get_by_role("button", name="As it is now").click()
    page.get_by_text("This config is valid").wait_for()
    assert (user.server.folder / "keeper.yaml").read_text() == KEEPER
    assert user.complaints == []


def test_the_plan_shows_a_sub_agents_middlewares_and_values(user: User) -> None:
    page = user.tab("#plan?agent=test")
    page.get_by_role("button", name="Parts").click()
    agents = page.get_by_role("region", name="Sub-agents")
    agents.get_by_text("scout", exact=True).click()
    agents.get_by_text("approve", exact=False).first.wait_for()
    values = agents.get_by_role("group", name="Values: scout")
    row = values.get_by_role("row", name="middlewares.4.approve.allow")
    assert row.get_by_role("cell").all_inner_texts()[1] == '["task","echo"]'
    assert row.get_by_role("cell").all_inner_texts()[2].startswith("zeus.yaml:")
    assert user.complaints == []


@pytest.mark.parametrize("look", ["light", "dark"])
def test_the_views_of_an_agent_are_accessible(user: User, look: str) -> None:
    page = user.tab()
    page.emulate_media(color_scheme=look)
    page.evaluate(f"localStorage.setItem('language', '{'en' if look == 'light' else 'zh'}')")
    if look == "dark":
        page.set_viewport_size({"width": 390, "height": 844})
    page.reload()
    for room in ("memory", "knowledge", "plan"):
        page.goto(f"{user.server.address}#{room}?agent=keeper")
        page.locator(".card").first.wait_for()
        if room == "knowledge":
            page.locator("main input[type=search]").first.fill("refund")
            page.locator(".hits li").first.wait_for()
            assert axe(page) == []
            continue
        if room == "memory":
            page.locator(".rows a").first.click()
            page.locator(".history li").first.wait_for()
            assert axe(page) == []
        if room == "plan":  # axe compares the colours of each row, and all rows have the same
            page.locator("main input[type=search]").first.fill("limits.")
        segments = page.locator(".segments button").all()
        for each in segments:
            each.click()
            page.locator(".card").last.wait_for()
            if look == "light" or each is segments[-1]:
                assert axe(page) == [], each.inner_text()
            assert page.locator(".context").evaluate(FITS), each.inner_text()


@pytest.mark.parametrize("look", ["light", "dark"])
def test_the_page_is_accessible(user: User, look: str) -> None:
    page = user.tab()
    page.emulate_media(color_scheme=look)
    page.evaluate(f"localStorage.setItem('language', '{'en' if look == 'light' else 'zh'}')")
    page.set_viewport_size(
        {"width": 1280, "height": 860} if look == "light" else {"width": 390, "height": 844}
    )
    page.reload()
    say(page, "record it")
    page.locator(".approval .actions").wait_for()
    assert axe(page) == []
    page.locator(".approval .danger").click()
    turn = answered(page)
    turn.locator(".tool .head").click()
    assert axe(page) == []
    page.keyboard.press("Alt+c")
    page.locator(".sent summary").first.click()
    assert axe(page) == []
    if look == "dark":
        return
    page.locator(".whatif summary").click()
    page.get_by_role("textbox", name="middlewares").wait_for()
    assert axe(page) == []
    page.get_by_role("tab", name="Trace").click()
    page.locator(".spans").wait_for()
    assert axe(page) == []
    page.locator("nav .quiet").first.dispatch_event("click")
    page.locator("dialog").wait_for()
    assert axe(page) == []
    user.context.clear_cookies()
    page.reload()
    page.locator(".login").wait_for()
    assert axe(page) == []
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    page.get_by_text("This token is not valid.").wait_for()
    page.get_by_label("Token").fill(f"{user.server.address}?token={TOKEN}")
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("region", name="Trace").wait_for()
