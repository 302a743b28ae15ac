"""The tools web_search and web_fetch as an agent has them."""

from __future__ import annotations

import json
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from zeus_plugins.searches.duckduckgo.search import DuckDuckGo, DuckDuckGoError
from zeus_plugins.searches.duckduckgo.search import Options as DuckDuckGoOptions
from zeus_plugins.searches.tavily.search import Options as TavilyOptions
from zeus_plugins.searches.tavily.search import Tavily, TavilyError

from tests.plugins_bundled.tools.web.test_web_fetch import PAGES, Server
from tests.support.reading_apart import given_up_while_it_reads
from zeus_runtime import Agent, Decision, MissingError, PendingApproval, ZeusError
from zeus_runtime.events import ToolCallResult
from zeus_runtime.plugin.search import SearchHit
from zeus_runtime.testing import ScriptedModel, calling


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(PAGES).running() as running:
        yield running


async def called(
    folder: Path,
    options: Mapping[str, Any],
    name: str,
    environ: Mapping[str, str] | None = None,
    **arguments: Any,
) -> ToolCallResult:
    """What a tool of the web answers in a run."""
    config = {"version": 1, "model": "gpt-4o", "tools": [{"web": dict(options)}]}
    (folder / "zeus.yaml").write_text(json.dumps(config))
    model = ScriptedModel([calling((name, arguments)), "done"])
    async with Agent.from_config(directory=folder, model=model, environ=environ or {}) as agent:
        events = [event async for event in agent.stream("go")]
    (result,) = [event for event in events if isinstance(event, ToolCallResult)]
    return result


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ({"ask": ["web_fetch"]}, "needs an approval of its own"),
        (
            {"read_tools": "ask", "allow": [{"web_fetch": {"url": "*/to-page"}}]},
            "needs an approval of its own",
        ),
        ({"deny": [{"web_fetch": {"url": "*/page"}}]}, "the rule `deny: web_fetch"),
        ({"deny": [{"web_fetch": {"url": "*/other"}}]}, ""),
        ({"allow": [{"web_fetch": {"url": "*page"}}], "read_tools": "ask"}, ""),
    ],
)
async def test_a_redirect_leads_only_where_a_call_could_go_unasked(
    tmp_path: Path, rules: Mapping[str, Any], why: str
) -> None:
    """A person who approves an address has not approved the address that its server names then."""
    approved: list[str] = []

    class Person:
        async def ask(self, pending: PendingApproval) -> Decision:
            approved.append(pending.arguments["url"])
            return Decision("approve")

    with Server(PAGES).running() as server:
        options = {"allow_private": [f"127.0.0.1:{server.port}"]}
        (tmp_path / "zeus.yaml").write_text(
            json.dumps(
                {
                    "version": 1,
                    "model": "gpt-4o",
                    "tools": [{"web": options}],
                    "middlewares": [{"approve": dict(rules)}],
                }
            )
        )
        model = ScriptedModel([calling(("web_fetch", {"url": f"{server.url}/to-page"})), "done"])
        async with Agent.from_config(directory=tmp_path, model=model) as agent:
            events = [event async for event in agent.stream("go", approvals=Person())]
    (result,) = [event for event in events if isinstance(event, ToolCallResult)]
    reached = [path for _, path in server.asked]
    assert reached == (["/to-page"] if why else ["/to-page", "/page"])
    assert result.is_error == bool(why)
    assert why in result.content
    if why:
        assert f"redirects to {server.url}/page, which was not fetched" in result.content
    assert approved == ([f"{server.url}/to-page"] if "ask" in rules else [])


async def test_a_hook_that_would_deny_the_address_of_a_redirect_is_asked_about_it(tmp_path: Path) -> None:
    hook = """
import json, sys
asked = json.load(sys.stdin)["arguments"]
print(json.dumps({"decision": "deny", "reason": "not there"} if asked["url"].endswith("/page") else {}))
"""
    (tmp_path / "hook.py").write_text(hook)
    config = {
        "version": 1,
        "model": "gpt-4o",
        "middlewares": [{"hooks": {"before_tool_call": [{"command": [sys.executable, "-I", "hook.py"]}]}}],
    }
    with Server(PAGES).running() as server:
        config["tools"] = [{"web": {"allow_private": [f"127.0.0.1:{server.port}"]}}]
        (tmp_path / "zeus.yaml").write_text(json.dumps(config))
        model = ScriptedModel([calling(("web_fetch", {"url": f"{server.url}/to-page"})), "done"])
        async with Agent.from_config(directory=tmp_path, model=model, trust="all") as agent:
            events = [event async for event in agent.stream("go")]
    (result,) = [event for event in events if isinstance(event, ToolCallResult)]
    assert result.is_error
    assert "not there" in result.content
    assert [path for _, path in server.asked] == ["/to-page"]


async def test_a_page_is_read_part_by_part(tmp_path: Path, server: Server) -> None:
    options = {"allow_private": [f"127.0.0.1:{server.port}"], "max_result_chars": 1_000, "max_bytes": 2_500}
    first = await called(tmp_path, options, "web_fetch", url=f"{server.url}/large")
    assert first.content.startswith(f"[{server.url}/large]\n\nxxx")
    assert "[characters 0 to 1,000 of 2,500; continue with start=1000]" in first.content
    assert "[only its first 2,500 bytes were read]" in first.content
    last = await called(tmp_path, options, "web_fetch", url=f"{server.url}/large", start=2_000)
    assert last.content.count("x") == 500


async def test_no_part_of_a_page_begins_or_ends_within_a_secret(tmp_path: Path, server: Server) -> None:
    options = {"allow_private": [f"127.0.0.1:{server.port}"], "max_result_chars": 1_000}
    (tmp_path / ".env").write_text("MY_TOKEN=Qk7-token-0123456789\n")
    page = await called(tmp_path, options, "web_fetch", url=f"{server.url}/settings", start=28)
    assert "token-0123456789" not in page.content
    assert "<secret:MY_TOKEN>."[2:] in page.content


async def test_a_page_that_is_not_there_and_one_that_is_refused_are_errors_to_the_model(
    tmp_path: Path, server: Server
) -> None:
    options = {"allow_private": [f"127.0.0.1:{server.port}"]}
    absent = await called(tmp_path, options, "web_fetch", url=f"{server.url}/absent")
    assert absent.is_error
    assert "[HTTP status 404]" in absent.content
    refused = await called(tmp_path, {}, "web_fetch", url="http://169.254.169.254/latest/meta-data")
    assert refused.is_error
    assert "where clouds keep their metadata" in refused.content


class Api(BaseHTTPRequestHandler):
    """Tavily, as its documentation describes it."""

    asked: list[dict[str, Any]] = []  # noqa: RUF012

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append({"path": self.path, "key": self.headers["Authorization"], **body})
        status = {"Bearer tvly-good": 200, "Bearer tvly-broken": 500}.get(self.headers["Authorization"], 401)
        results = [{"title": f"T{n}", "url": f"https://{n}.example/", "content": "a\n b"} for n in range(9)]
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps({"results": results[: body["max_results"]]}).encode())

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def tavily() -> Iterator[str]:
    Api.asked.clear()
    with HTTPServer(("127.0.0.1", 0), Api) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


async def test_tavily_searches_with_the_key_of_the_environment(tmp_path: Path, tavily: str) -> None:
    options = {"search": {"tavily": {"base_url": tavily, "depth": "advanced"}}, "max_results": 2}
    result = await called(
        tmp_path, options, "web_search", {"TAVILY_API_KEY": "tvly-good"}, query="tea", max_results=7
    )
    assert result.content == "1. T0\n   https://0.example/\n   a b\n2. T1\n   https://1.example/\n   a b"
    (asked,) = Api.asked
    assert asked == {
        "path": "/search",
        "key": "Bearer tvly-good",
        "query": "tea",
        "max_results": 2,
        "search_depth": "advanced",
    }


async def test_what_tavily_refuses_is_said_without_the_key(tavily: str) -> None:
    for key, said in (("tvly-wrong", "refuses the key"), ("tvly-broken", "status 500")):
        with pytest.raises(TavilyError, match=said) as failed:
            await Tavily(TavilyOptions(base_url=tavily), key).search("tea", max_results=1)
        assert key not in str(failed.value)


ANSWERS: dict[str, tuple[int, bytes, str]] = {
    "429": (429, b'{"detail": {"error": "slow down"}}', "refuses more searches for now"),
    "432": (432, b"{}", "are used up"),
    "400": (400, b'{"detail": {"error": "Query is missing."}}', "status 400: Query is missing."),
    "500": (500, b"<html>", "Tavily answers with status 500"),
    "page": (200, b"<html>", "contains no results"),
    "list": (200, b"[]", "contains no results"),
    "texts": (200, b'{"results": ["a"]}', "contains no results"),
    "nothing": (200, b'{"results": null}', "contains no results"),
    "deep": (200, b"[" * 200_000, "contains no results"),
    "flood": (200, b" " * 6_000_000, "more than 5,000,000 bytes"),
    "half": (200, b'{"results": [{"title": "half \\ud83d", "url": "https://a.example/"}]}', "half \ufffd"),
    "null": (
        200,
        b'{"results": [{"title": null, "url": "https://a.example/", "content": null}]}',
        "a.example",
    ),
}


@pytest.mark.parametrize("case", ANSWERS)
async def test_whatever_tavily_answers_is_told_and_ends_no_run(tmp_path: Path, case: str) -> None:
    status, body, said = ANSWERS[case]
    with Server({"/search": (status, {}, body)}).running() as server:
        options = {"search": {"tavily": {"base_url": server.url}}}
        result = await called(tmp_path, options, "web_search", {"TAVILY_API_KEY": "tvly-x"}, query="tea")
    assert said in result.content
    assert "None" not in result.content
    assert "failed:" not in result.content
    assert result.is_error == (case not in ("half", "null"))


async def test_a_key_is_used_without_the_line_break_that_a_file_added(tmp_path: Path, tavily: str) -> None:
    options = {"search": {"tavily": {"base_url": tavily}}}
    result = await called(tmp_path, options, "web_search", {"TAVILY_API_KEY": "tvly-good\n"}, query="tea")
    assert not result.is_error, result.content


def test_what_is_no_key_is_missing_and_not_shown(tmp_path: Path) -> None:
    config = {"version": 1, "model": "gpt-4o", "tools": [{"web": {"search": "tavily"}}]}
    (tmp_path / "zeus.yaml").write_text(json.dumps(config))
    with pytest.raises(MissingError, match="characters that no key has") as missing:
        Agent.from_config(directory=tmp_path, environ={"TAVILY_API_KEY": "tvly-“x”"})
    assert "“x”" not in str(missing.value)


@pytest.mark.parametrize(
    "url", ["api.tavily.com", "https://", "http://host:bad", "http://[::1", "https://ö.example"]
)
def test_an_api_that_is_nowhere_is_said_before_a_run(tmp_path: Path, url: str) -> None:
    tools = [{"web": {"search": {"tavily": {"base_url": url}}}}]
    (tmp_path / "zeus.yaml").write_text(json.dumps({"version": 1, "model": "gpt-4o", "tools": tools}))
    with pytest.raises(ZeusError, match="base_url") as refused:
        Agent.from_config(directory=tmp_path, environ={"TAVILY_API_KEY": "tvly-x"})
    assert refused.value.exit_code == 3


@pytest.mark.parametrize("agent", ["Zeüs", "Zeus\n", "a\r\nX-Evil: 1"])
def test_a_user_agent_that_is_no_header_is_said_with_its_place(tmp_path: Path, agent: str) -> None:
    from zeus_runtime import ConfigError

    config = {"version": 1, "model": "gpt-4o", "tools": [{"web": {"user_agent": agent}}]}
    (tmp_path / "zeus.yaml").write_text(json.dumps(config, indent=1))
    with pytest.raises(ConfigError) as refused:
        Agent.from_config(directory=tmp_path, environ={})
    assert [each.code for each in refused.value.diagnostics] == ["wrong-header"]


def test_tavily_without_a_key_is_missing_a_credential(tmp_path: Path) -> None:
    config = {"version": 1, "model": "gpt-4o", "tools": [{"web": {"search": "tavily"}}]}
    (tmp_path / "zeus.yaml").write_text(json.dumps(config))
    with pytest.raises(MissingError, match="TAVILY_API_KEY is not set") as missing:
        Agent.from_config(directory=tmp_path, environ={})
    assert missing.value.exit_code == 4


def test_the_key_decides_who_searches(tmp_path: Path) -> None:
    config = {"version": 1, "model": "gpt-4o", "tools": ["web"]}
    (tmp_path / "zeus.yaml").write_text(json.dumps(config))
    for environ, wanted in (({}, DuckDuckGo), ({"TAVILY_API_KEY": "tvly-x"}, Tavily)):
        plan = Agent.from_config(directory=tmp_path, environ=environ).plan
        search = next(each.tool for each in plan.tools if each.tool.name == "web_search")
        assert any(isinstance(held, wanted) for held in held_by(search.function))


def held_by(function: Any, depth: int = 3) -> list[Any]:
    """What a function closes over, to some depth."""
    found = []
    for cell in getattr(function, "__closure__", None) or ():
        found.append(cell.cell_contents)
        if depth and callable(cell.cell_contents):
            found += held_by(cell.cell_contents, depth - 1)
    return found


def test_a_web_that_nobody_configured_is_off(tmp_path: Path) -> None:
    (tmp_path / "zeus.yaml").write_text(json.dumps({"version": 1, "model": "gpt-4o"}))
    plan = Agent.from_config(directory=tmp_path, environ={"TAVILY_API_KEY": "tvly-x"}).plan
    assert [each.tool.name for each in plan.tools] == []


HIT = """<div class="result__body"><h2><a href="https://tea.example/">Tea</a></h2>
<a href="https://tea.example/">leaves &amp; water</a></div>"""


@pytest.fixture
def duck(monkeypatch: pytest.MonkeyPatch) -> Iterator[Duck]:
    """DuckDuckGo's page of results, on this machine; the library reads it."""
    from zeus_plugins.searches.duckduckgo.engine import PageReader

    with HTTPServer(("127.0.0.1", 0), Duck) as http:
        monkeypatch.setattr(PageReader, "search_url", f"http://127.0.0.1:{http.server_port}/html/")
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield Duck  # type: ignore[misc]
        http.shutdown()
        thread.join()


class Duck(BaseHTTPRequestHandler):
    """A server of one page."""

    status: int = 200
    page: str = ""
    asked: str = ""

    def do_POST(self) -> None:
        Duck.asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.page.encode())

    def log_message(self, *_: Any) -> None:
        return


async def test_duckduckgos_results_are_those_of_its_page(duck: Duck) -> None:
    duck.status, duck.page = 200, HIT * 3
    search = DuckDuckGo(DuckDuckGoOptions(region="de-de", timeout_seconds=7))
    assert (
        await search.search("tea", max_results=2)
        == [SearchHit("Tea", "https://tea.example/", "leaves & water")] * 2
    )
    duck.page = "<p>No results."
    assert await search.search("tea", max_results=2) == []


@pytest.mark.parametrize(("given", "sent"), [("on", "kp=1"), ("moderate", "kp=-1"), ("off", "kp=-2")])
async def test_duckduckgo_is_told_what_to_leave_out_and_for_where(duck: Duck, given: Any, sent: str) -> None:
    duck.status, duck.page = 200, HIT
    await DuckDuckGo(DuckDuckGoOptions(region="de-de", safesearch=given)).search("tea", max_results=1)
    assert sent in duck.asked.split("&")
    assert "l=de-de" in duck.asked.split("&")
    assert "q=tea" in duck.asked.split("&")


@pytest.mark.parametrize(
    ("status", "page", "said"),
    [
        (202, "<p>bots use it too", "refuses more searches for now"),
        (403, "", "refuses more searches for now"),
        (429, HIT, "refuses more searches for now"),
        (200, "<div class='anomaly-modal__title'>", "refuses more searches for now"),
        (500, "<p>oh", "HTTP 500"),
        (301, "", "HTTP 301"),
        (200, " ", "without a page"),
    ],
)
async def test_a_search_that_duckduckgo_refuses_is_no_search_without_results(
    duck: Duck, status: int, page: str, said: str
) -> None:
    duck.status, duck.page = status, page
    with pytest.raises(DuckDuckGoError, match=said):
        await DuckDuckGo(DuckDuckGoOptions()).search("tea", max_results=3)


async def test_a_duckduckgo_that_is_not_there_or_silent_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from zeus_plugins.searches.duckduckgo.engine import PageReader

    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(PageReader, "search_url", f"http://127.0.0.1:{silent.getsockname()[1]}/")
        with pytest.raises(DuckDuckGoError, match="took longer than 1 seconds"):
            await DuckDuckGo(DuckDuckGoOptions(timeout_seconds=1)).search("tea", max_results=3)
    with pytest.raises(DuckDuckGoError, match="the search failed"):
        await DuckDuckGo(DuckDuckGoOptions(timeout_seconds=60)).search("tea", max_results=3)


def test_wrong_private_addresses_are_said_with_their_place(tmp_path: Path) -> None:
    from zeus_runtime import ConfigError

    config = {
        "version": 1,
        "model": "gpt-4o",
        "tools": [{"web": {"allow_private": ["10.0.0.0/8", "intranet"]}}],
    }
    (tmp_path / "zeus.yaml").write_text(json.dumps(config, indent=1))
    with pytest.raises(ConfigError) as refused:
        Agent.from_config(directory=tmp_path, environ={})
    (problem,) = refused.value.diagnostics
    assert problem.code == "wrong-address"


@pytest.mark.parametrize(
    "pattern",
    [
        "https://a.example/",
        "a.example:443",
        "a.example/path",
        "*example.org",
        "a b",
        "a\\b",
        "*.192.0.2.1",
        "",
        "*.",
    ],
)
def test_a_rule_for_hosts_that_fits_none_is_said_with_its_place(tmp_path: Path, pattern: str) -> None:
    from zeus_runtime import ConfigError

    for key in ("allow_hosts", "deny_hosts"):
        config = {
            "version": 1,
            "model": "gpt-4o",
            "tools": [{"web": {key: ["*.fine.example", "::1", pattern]}}],
        }
        (tmp_path / "zeus.yaml").write_text(json.dumps(config, indent=1))
        with pytest.raises(ConfigError) as refused:
            Agent.from_config(directory=tmp_path, environ={})
        (problem,) = refused.value.diagnostics
        assert problem.code == "wrong-host"


async def test_a_page_that_is_read_for_a_run_that_was_cancelled_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = {"/endless": (200, {"Content-Type": "text/html"}, b"<!" * 1_000_000)}
    with Server(pages).running() as server:
        options = {"allow_private": [f"127.0.0.1:{server.port}"], "timeout_seconds": 60}
        work = called(tmp_path, options, "web_fetch", url=f"{server.url}/endless")
        assert await given_up_while_it_reads(work, monkeypatch) == -signal.SIGKILL
