"""The page's login and files, and what the service tells about a session's context."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from langchain_core.messages import AIMessage

from tests.support.agents import call, calling, script, write_agent
from tests.support.serving import TOKEN, begun, service_of, serving, until
from zeus_runtime.serving.http.routes import page

COMPACTING = """
middlewares:
  - summarization: {trigger: {tokens: 300}, keep: {messages: 2}, cheaper_first: [], by_price: false}
profiles: {models: {gpt-4o: {max_input_tokens: 6000, max_output_tokens: 1000}}}
"""


async def test_a_token_becomes_a_cookie_that_only_the_own_page_may_use(tmp_path: Path) -> None:
    write_agent(tmp_path)
    async with serving(service_of(tmp_path, script("Done."))) as known:
        origin = str(known.base_url).rstrip("/")
        async with httpx.AsyncClient(base_url=origin) as browser:
            assert (await browser.get("/v1/agents")).status_code == 401
            wrong = await browser.get("/", params={"token": "wrong"})
            assert (wrong.status_code, "set-cookie" in wrong.headers) == (303, False)
            answer = await browser.get("/", params={"token": TOKEN})
            assert (answer.status_code, answer.headers["location"]) == (303, ".")
            assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(answer.headers["set-cookie"].split("; "))
            assert (await browser.get("/v1/agents")).status_code == 200
            foreign: list[dict[str, str]] = [
                {"Sec-Fetch-Site": "same-site"},
                {"Sec-Fetch-Site": "cross-site"},
                {"Origin": "http://127.0.0.1:1"},
            ]
            for headers in foreign:
                assert (await browser.get("/v1/agents", headers=headers)).status_code == 403
                assert (await known.get("/v1/agents", headers=headers)).status_code == 200
            assert (await browser.post("/v1/sessions", json={})).status_code == 403
            own = {"X-Zeus-Page": "1", "Origin": origin, "Sec-Fetch-Site": "same-origin"}
            assert (await browser.post("/v1/sessions", json={}, headers=own)).status_code == 201
            assert (await browser.post("/login", json={"token": "wrong"}, headers=own)).status_code == 401
            assert (await browser.post("/login", json={"token": TOKEN})).status_code == 403
            assert (await browser.post("/logout", headers=own)).status_code == 204
            assert (await browser.get("/v1/agents")).status_code == 401
            assert (await browser.post("/login", json={"token": TOKEN}, headers=own)).status_code == 204
            assert (await browser.get("/v1/agents")).status_code == 200


async def test_the_page_allows_nothing_but_its_own_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent(tmp_path)
    monkeypatch.setattr(page, "BUNDLE", tmp_path / "bundle")
    async with serving(service_of(tmp_path, script("Done."))) as client:
        missing = await client.get("/")
        assert (missing.status_code, "make web" in missing.text) == (503, True)
        (tmp_path / "bundle").mkdir()
        (tmp_path / "bundle" / "index.html").write_text("<!doctype html>")
        (tmp_path / "bundle" / "page.js").write_text("1")
        (tmp_path / "bundle" / "secret.txt").write_text("1")
        for path in ("/", "/page/page.js"):
            answer = await client.get(path)
            policy = answer.headers["content-security-policy"].split("; ")
            assert {"default-src 'none'", "script-src 'self'", "require-trusted-types-for 'script'"} <= set(
                policy
            )
            assert "unsafe" not in answer.headers["content-security-policy"]
        for path in ("/page/secret.txt", "/page/..%2Fzeus.yaml", "/page/digest"):
            assert (await client.get(path)).status_code == 404


async def test_the_service_tells_what_each_step_sent_and_why_something_left(tmp_path: Path) -> None:
    write_agent(tmp_path, COMPACTING)

    def answers() -> list[AIMessage | str]:
        said: list[AIMessage | str] = [
            calling(call("echo", str(number), text=f"part {number} " + "word " * 60)) for number in range(4)
        ]
        return [*said, "Done."]

    said = iter(answers())
    model = script()
    model.name = "gpt-4o"  # the tokens are counted as of that one
    model._answer = lambda request: next(said) if request.tools else "A summary."
    async with serving(service_of(tmp_path, model)) as client:
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        base = f"/v1/sessions/{session}/context"
        told = (await client.get(f"{base}/steps")).json()
        assert [each["number"] for each in told["steps"]] == [1, 2, 3, 4, 5]
        compacted = [
            each["number"]
            for each in told["steps"]
            if any(one["kind"] == "summarize" and one["admitted"] for one in each["decisions"])
        ]
        assert compacted
        assert told["forecast"] == (await client.get(f"/v1/sessions/{session}/forecast")).json()
        assert told["forecast"]["until"] == "compaction"
        last = (await client.get(base)).json()
        assert last["step"]["number"] == 5
        messages = [each["tokens"] for each in last["sent"] if each["part"] in ("message", "summary")]
        assert sum(messages) == sum(last["step"]["by_source"].values())
        assert {each["part"] for each in last["sent"]} == {"section", "tool schema", "summary", "message"}
        item = (await client.get(f"{base}/why", params={"item": "3"})).json()["item"]
        assert (item["status"], item["text"][:12]) == ("left", "echo: part 0")
        assert item["fates"][0]["step"] == compacted[0]
        (found,) = (await client.get(f"{base}/why", params={"text": "echo: part 0"})).json()["found"]
        assert (found["status"], found["fate"]["policy"]) == ("left", "summarization")
        changes = (await client.get(f"{base}/diff", params={"a": 1, "b": 5})).json()["changes"]
        assert "entered" in {each["change"] for each in changes}
        for query in (
            {},
            {"text": " "},
            {"text": "a", "item": "1"},
            {"item": "nothing"},
            {"text": "a", "step": 9},
        ):
            wrong = await client.get(f"{base}/why", params=query)
            assert (wrong.status_code, bool(wrong.json()["detail"])) == (422, True)


async def test_a_session_is_recomputed_under_other_policies_without_calling_a_model(tmp_path: Path) -> None:
    write_agent(tmp_path, COMPACTING)
    said: list[AIMessage | str] = [
        calling(call("echo", str(number), text=f"part {number} " + "word " * 60)) for number in range(4)
    ]
    answers = iter([*said, "Done."])
    model = script()
    model._answer = lambda request: next(answers) if request.tools else "A summary."
    async with serving(service_of(tmp_path, model)) as client:
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        path = f"/v1/sessions/{session}/what-if"
        assert "summarization" in (await client.get(path)).json()["middlewares"]
        calls = len(model.requests)
        body = {"middlewares": "- pins: {first_user: true}\n", "needles": ["echo: part 0"]}
        found = (await client.post(path, json=body)).json()
        assert len(model.requests) == calls
        assert (found["present"]["outcome"]["needles_kept"], found["other"]["outcome"]["needles_kept"]) == (
            0,
            1,
        )
        assert [len(found[each]["steps"]) for each in ("present", "other")] == [5, 5]
        for wrong in ("- nonsense", "{", "- {hooks: {before_tool: [{command: [touch, x]}]}}"):
            refused = await client.post(path, json={"middlewares": wrong})
            assert (refused.status_code, bool(refused.json()["detail"])) == (422, True), refused.text


async def test_going_back_counts_messages_of_the_conversation_as_it_is(tmp_path: Path) -> None:
    write_agent(tmp_path)
    model = script("One.", "Two.", "Two again.")
    model._answer = lambda request: f"Answer {len(model.requests)}."
    async with serving(service_of(tmp_path, model)) as client:
        session = ""
        for prompt in ("first", "second"):
            session, run = await begun(client, prompt, session or None)
            await until(client, run, "complete")
        path = f"/v1/sessions/{session}"
        for prompt in ("third", "fourth"):
            gone = await client.post(f"{path}/rollback", json={"to": 3, "before": True})
            assert gone.json() == {"set_aside": 2}
            _, run = await begun(client, prompt, session)
            await until(client, run, "complete")
        told = (await client.get(f"{path}/messages")).json()
        assert [each["content"] for each in told] == ["first", "Answer 1.", "fourth", "Answer 4."]
        for to, status in ((9, 404), (2, 422), (0, 422)):
            assert (await client.post(f"{path}/rollback", json={"to": to})).status_code == status
