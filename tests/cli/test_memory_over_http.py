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
tools: [knowledge]
middlewares: [memory]
"""
SHOP = ("--set", "memory.project=shop", "--set", "knowledge=[handbook]")


def fact(content: str, source: int) -> dict[str, Any]:
    empty = dict.fromkeys(("subject", "valid_from", "valid_until"))
    known = {"memory_type": "fact", "scope": "user", "confidence": 0.9, "replaces": []}
    return {"content": content, "sources": [source], **known, **empty}


def text_of(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def answer(request: Received) -> Reply:
    system, *rest = map(text_of, request.body["messages"])
    if "a part of a document" in system:
        asked = json.loads(rest[0])
        words = asked["messages"][0]["text"].split(".")[0]
        return Reply(json.dumps({"facts": [{**fact(words, 1), "scope": "project"}]}))
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


def test_facts_of_files_and_knowledge_bases_are_the_documents_and_are_paid_once(
    zeus: Zeus, project: Project, provider: Provider
) -> None:
    project.write("docs/plan.md", "The release is on Friday. " + "It will be good.\n" * 900)
    project.write("docs/logo.md", "The logo of the shop is a heron.")
    project.write("handbook/pay.md", "Invoices of the shop are paid within thirty days. Always.")
    assert zeus("kb", "add", "handbook", "handbook", "--project", *SHOP).exit_code == 0
    refused = zeus("memory", "extract", "docs", *SHOP)
    assert (refused.exit_code, provider.requests) == (2, [])
    assert "up to 3 calls" in refused.err
    words = ("memory", "extract", "docs", "--knowledge", "handbook", "--yes", *SHOP)
    done = zeus(*words)
    assert done.exit_code == 0, done.err
    batches = done.out.split()
    assert len(batches) == len(provider.requests) == 4
    kept = zeus("memory", "list", "--scope", "project", "--format", "json", *SHOP).json["memories"]
    assert {(each["source"], each["source_id"], each["trust"]) for each in kept} == {
        ("project_resource", "docs/logo.md", "untrusted"),
        ("project_resource", "docs/plan.md, part 1", "untrusted"),
        ("project_resource", "docs/plan.md, part 2", "untrusted"),
        ("knowledge_base", "handbook/handbook/pay.md", "untrusted"),
    }
    again = zeus(*words)
    assert (again.exit_code, again.out, len(provider.requests)) == (0, "", 4)
    assert "nothing new" in again.err
    project.write("docs/logo.md", "The logo of the shop is a crane.")
    assert len(zeus(*words).out.split()) == 1, "a changed document is read again"
    assert zeus("memory", "undo", batches[0], "--yes", *SHOP).exit_code == 0


def test_the_name_of_a_document_is_kept_without_secrets(
    zeus: Zeus, project: Project, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "zq81-Tango-55xw-Hotel"
    monkeypatch.setenv("SHOP_TOKEN", secret)
    project.write(f"docs/{secret}.md", "The logo of the shop is a heron.")
    done = zeus("memory", "extract", "docs", "--yes", *SHOP)
    assert done.exit_code == 0, done.err
    kept = zeus("memory", "list", "--scope", "project", "--format", "json", *SHOP).json["memories"]
    assert [each["source_id"] for each in kept] == ["docs/<secret:SHOP_TOKEN>.md"]
    for path in project.folder.rglob("*.db*"):
        assert secret.encode() not in path.read_bytes(), path


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "nothing to read"),
        (["nowhere.md"], "there is no file 'nowhere.md'"),
        (["--knowledge", "handbook"], "links no knowledge base"),
    ],
)
def test_what_cannot_be_read_says_why(zeus: Zeus, provider: Provider, words: list[str], problem: str) -> None:
    done = zeus("memory", "extract", *words, "--yes")
    assert (done.exit_code, provider.requests) == (2, [])
    assert problem in done.err
