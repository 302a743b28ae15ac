"""Extraction and consolidation over HTTP: what the provider is asked, what is kept, and where its price is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Project, Zeus
from tests.support.provider import Provider, Received, Reply

CONFIG = """
version: 1
name: tester
model: {{litellm: {{model: openai/gpt-4o, api_base: '{base}'}}}}
memory: {{user: ann, embeddings: static, extract: end_of_session}}
tools: []
middlewares: [memory]
"""


def fact(content: str, source: int) -> dict[str, Any]:
    empty = dict.fromkeys(("subject", "valid_from", "valid_until"))
    known = {"memory_type": "fact", "scope": "user", "confidence": 0.9, "replaces": []}
    return {"content": content, "sources": [source], **known, **empty}


def text_of(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def answer(request: Received) -> Reply:
    system, *rest = map(text_of, request.body["messages"])
    if "extract statements" in system:
        asked = json.loads(rest[0])
        (first, *_) = asked["messages"]
        facts = [fact("The user lives in Lyon", first["number"]), fact("Ann lives in Lyon", first["number"])]
        return Reply(json.dumps({"facts": facts}), usage={"in": 1_000, "out": 100})
    if "tidy a store" in system:
        ids = [each["id"] for each in json.loads(rest[0])["memories"]]
        merged = {"ids": ids, "content": "Ann lives in Lyon", "memory_type": "fact", "subject": None}
        return Reply(json.dumps({"merges": [merged], "dates": [], "retired": []}))
    return Reply("Noted.")


@pytest.fixture
def provider(project: Project, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    with Provider(answer=answer) as provider:
        project.write("zeus.yaml", CONFIG.format(base=provider.openai))
        yield provider


def test_facts_are_extracted_consolidated_priced_and_undone(zeus: Zeus, provider: Provider) -> None:
    ran = zeus("run", "zeus.yaml", "I live in Lyon.", "-o", "json")
    assert ran.exit_code == 0, ran.err
    session = ran.json["session"]
    schema = provider.requests[1].body["response_format"]["json_schema"]
    assert "facts" in schema["schema"]["properties"]
    kept = zeus("memory", "list", "--format", "json").json["memories"]
    assert {each["content"] for each in kept} == {"The user lives in Lyon", "Ann lives in Lyon"}
    assert {(each["source"], each["source_id"]) for each in kept} == {("user", f"{session}:1")}

    shown = zeus("sessions", "show", session)
    said = "memories extracted by 1 call: 1,000 tokens in, 100 out, $0.0035"
    assert said in shown.err
    assert said in zeus("context", "show", "--session", session).out
    (call,) = zeus("sessions", "show", session, "--json").json["memory_calls"]
    assert (call["messages"], call["cost_usd"]) == ([1, 2], 0.0035)
    assert zeus("context", "show", "--session", session, "--format", "json").json["memory_calls"] == [call]

    done = zeus("memory", "consolidate")
    assert done.exit_code == 0, done.err
    (left,) = zeus("memory", "list", "--format", "json").json["memories"]
    assert left["content"] == "Ann lives in Lyon"
    assert zeus("memory", "undo", done.out.strip(), "--yes").exit_code == 0
    assert len(zeus("memory", "list", "--format", "json").json["memories"]) == 2


def test_a_provider_that_fails_keeps_the_messages_for_the_next_time(
    zeus: Zeus, project: Project, provider: Provider
) -> None:
    failing = [True]
    usual = provider._answer

    def broken(request: Received) -> Reply:
        if failing[0] and "extract statements" in text_of(request.body["messages"][0]):
            return Reply("no such model", status=404)
        assert usual is not None
        return usual(request)

    provider._answer = broken
    assert zeus("run", "zeus.yaml", "I live in Lyon.").exit_code == 0
    assert zeus("memory", "list", "--format", "json").json["memories"] == []
    failing[0] = False
    assert zeus("run", "zeus.yaml", "Hello again.").exit_code == 0
    assert zeus("memory", "list", "--format", "json").json["memories"] != []
