"""No command shows a secret of the config, and none keeps one."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Project, Zeus

VALUES = {
    "Cookie": "sid=abcdef0123456789; theme=dark",
    "Auth": "plainvalue",
    "X-Session": "s-1",
    "Accept": "application/json",
}


@pytest.mark.parametrize("where", ["litellm", "extra", "mcp"])
@pytest.mark.parametrize("name", VALUES)
def test_no_value_of_a_header_is_shown_with_its_config(
    project: Project, zeus: Zeus, where: str, name: str
) -> None:
    headers = {name: VALUES[name]}
    model = {
        "litellm": {"headers": headers},
        "extra": {"extra": {"extra_headers": headers}},
        "mcp": {},
    }[where]
    config = {"version": 1, "model": {"litellm": {"model": "gpt-4o", **model}}}
    if where == "mcp":
        config["mcpServers"] = {"far": {"url": "https://x.example/mcp", "headers": headers}}
    project.write("zeus.yaml", json.dumps(config))
    paths = {
        "litellm": "model.litellm.headers",
        "extra": "model.litellm.extra.extra_headers",
        "mcp": "mcpServers.far.headers",
    }
    shown = [
        zeus("plan"),
        zeus("plan", "--json"),
        zeus("plan", "--format", "json"),
        zeus("plan", "--explain", paths[where]),
        zeus("plan", "--explain", f"{paths[where]}.{name}"),
        zeus("validate", "--set", f"{paths[where]}.{name}=[{VALUES[name]}]"),
    ]
    assert "**********" in shown[3].out
    text = "".join(each.out + each.err for each in shown)
    assert VALUES[name] not in text
    assert "abcdef0123456789" not in text


def test_a_session_cookie_is_masked_in_text_and_a_media_type_is_not(project: Project, zeus: Zeus) -> None:
    headers = {"Cookie": VALUES["Cookie"], "Accept": "application/json"}
    said = f"It got {VALUES['Cookie']}, or abcdef0123456789, as application/json"
    project.agent(said, more=f"metadata: {{headers: {json.dumps(headers)}}}\n")
    result = zeus("run", "zeus.yaml", "go")
    assert result.exit_code == 0, result.err
    assert "abcdef0123456789" not in result.out
    assert result.out.endswith("as application/json\n")


def test_a_knowledge_base_keeps_no_secret(project: Project, zeus: Zeus) -> None:
    project.write("zeus.yaml", "version: 1\nmodel: gpt-4o\n")
    project.write(".env", "SHIP_TOKEN=argo-Secret-4711\n")
    project.write("docs/ports.md", "# Ports\n\nThe gate opens with argo-Secret-4711 at Pylos.\n")
    assert zeus("kb", "add", "handbook", "docs").exit_code == 0
    assert "<secret:SHIP_TOKEN>" in zeus("kb", "search", "handbook", "gate at Pylos").out
    for path in (project.folder / ".zeus").rglob("*"):
        assert not path.is_file() or b"argo-Secret-4711" not in path.read_bytes(), path


def test_a_chunk_of_a_knowledge_base_ends_within_no_secret(project: Project, zeus: Zeus) -> None:
    """A line without spaces is cut anywhere, and in HTML a secret may be seen only when the file is converted."""
    project.write("zeus.yaml", "version: 1\nmodel: gpt-4o\n")
    project.write(".env", "SHIP_TOKEN=argo-Secret-4711\n")
    project.write(
        "docs/log.html", "<html><body><p>" + "argo&#45;Secret&#45;4711," * 2_000 + "</p></body></html>"
    )
    assert zeus("kb", "add", "handbook", "docs").exit_code == 0
    for path in (project.folder / ".zeus").rglob("*"):
        assert not path.is_file() or b"argo-Se" not in path.read_bytes(), path


def test_a_memory_with_a_known_secret_is_refused_whatever_it_looks_like(project: Project, zeus: Zeus) -> None:
    project.write("zeus.yaml", "version: 1\nmodel: gpt-4o\nmemory: {}\n")
    project.write(".env", "SHIP_TOKEN=blue green red-7\n")
    done = zeus("memory", "add", "The user likes blue green red-7")
    assert done.exit_code == 2
    assert "sensitive" in done.err
    assert "blue green red-7" not in done.err
    assert zeus("memory", "add", "The user likes blue and green").exit_code == 0
