"""A backtest starts no server: what servers would offer counts as recorded or as listed, or is said not to count."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Project, Zeus
from tests.support import mcp_server

SMALL = {"command": sys.executable, "args": [str(Path(mcp_server.__file__))], "start_timeout_seconds": 60}
SERVERS = f"mcpServers: {json.dumps({'small': SMALL})}\n"
TALK = {"messages": [{"role": "user", "content": "go"}, {"role": "assistant", "content": "done"}]}


@pytest.fixture
def candidates(project: Project) -> Project:
    """A config with a server, and one without."""
    project.agent("done", name="with.yaml", more=SERVERS)
    project.agent("done", name="without.yaml")
    return project


def played(zeus: Zeus, *words: str) -> tuple[dict[str, int], list[dict[str, Any]], str]:
    """The tokens that were sent by policy, the listings, and what was said beside."""
    policies = ("--policy", "with.yaml", "--policy", "without.yaml")
    result = zeus("context", "backtest", *words, *policies, "--format", "json")
    assert result.exit_code == 0, result.err
    sent = {each["policy"]: each["sent_tokens"] for each in result.json["outcomes"]}
    return sent, result.json["listings"], result.err


def test_a_recorded_session_says_what_its_servers_offered(zeus: Zeus, candidates: Project) -> None:
    assert zeus("run", "with.yaml", "go").exit_code == 0
    started = (candidates.folder / "seen.jsonl").read_text()
    session = zeus("sessions", "list", "--config", "with.yaml", "--json").json[0]["session"]
    sent, (listing,), said = played(zeus, session, "--config", "with.yaml")
    assert (candidates.folder / "seen.jsonl").read_text() == started, "no server is started"
    assert (listing["policy"], listing["source"]) == ("with.yaml", "the recorded session")
    assert sent["with.yaml"] - sent["without.yaml"] >= listing["tokens"] > 100
    offered = zeus("tools", "list", "with.yaml", "--connect", "--json").json["tools"]
    assert listing["tools"] == sum(each["category"] == "mcp" for each in offered)
    assert f"{listing['tokens']:,} tokens in each request, from the recorded session" in said


def test_a_listing_says_it_for_what_was_never_recorded(zeus: Zeus, candidates: Project) -> None:
    candidates.write("talks.jsonl", json.dumps(TALK))
    candidates.write("tools.json", zeus("tools", "list", "with.yaml", "--connect", "--json").out)
    sent, (listing,), _ = played(zeus, "--trajectories", "talks.jsonl", "--tools", "tools.json")
    assert listing["source"] == "tools.json"
    assert sent["with.yaml"] - sent["without.yaml"] >= listing["tokens"] > 100


def test_the_name_of_a_trajectory_makes_no_line_of_its_own_and_shows_no_secret(
    zeus: Zeus, candidates: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHIP_TOKEN", "argo-Secret-4711")
    candidates.write("talks.jsonl", json.dumps({**TALK, "id": "argo-Secret-4711\nerror: forged"}))
    _, _, said = played(zeus, "--trajectories", "talks.jsonl")
    assert "<secret:SHIP_TOKEN>\\nerror: forged" in said
    assert "argo-Secret-4711" not in said


def test_where_nothing_lists_them_the_output_says_that_they_do_not_count(
    zeus: Zeus, candidates: Project
) -> None:
    candidates.write("talks.jsonl", json.dumps(TALK))
    sent, (listing,), said = played(zeus, "--trajectories", "talks.jsonl")
    assert sent["with.yaml"] == sent["without.yaml"]
    assert (listing["source"], listing["tools"], listing["tokens"]) == ("", 0, 0)
    assert "with.yaml (line 1)" in said
    assert "its servers' tools are not counted, nothing lists them; --tools FILE gives a listing" in said


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "Expecting property name"),
        ("{}", "it has no list `tools`"),
        ('[{"name": "x"}]', "tools[0] has no category"),
        (
            '[{"name": "x", "description": "", "parameters": {}, "category": "y", "access": "read"}]',
            "tools[0]: 'y', 'read' are not a category and an access class",
        ),
    ],
)
def test_a_listing_that_is_none_is_refused(zeus: Zeus, candidates: Project, text: str, why: str) -> None:
    candidates.write("talks.jsonl", json.dumps(TALK))
    candidates.write("tools.json", text)
    refused = zeus(
        *(
            "context",
            "backtest",
            "--trajectories",
            "talks.jsonl",
            "--policy",
            "with.yaml",
            "--tools",
            "tools.json",
        )
    )
    assert refused.exit_code == 2
    assert f"tools.json is not a listing of tools: {why}" in refused.err
    assert "zeus tools list --connect --json" in refused.err
