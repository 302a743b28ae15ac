"""No command shows a secret of the config, and none keeps one."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.cli.conftest import Project, Zeus
from zeus_runtime import Agent

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


OLD = "argo-Secret-4711"


def of_before(project: Project, zeus: Zeus, said: str) -> str:
    """A session that was stored when its secrets were not known."""
    project.agent("noted")
    project.write("a.md", "x")
    assert zeus("run", "zeus.yaml", said).exit_code == 0
    project.write(".env", f"SHIP_TOKEN={OLD}\n")
    return str(json.loads(zeus("sessions", "list", "--json").out)[0]["session"])


def test_no_reader_shows_a_secret_that_was_stored_before_it_was_known(project: Project, zeus: Zeus) -> None:
    """A table cuts what it shows: half a secret is no known secret."""
    session = of_before(project, zeus, f"{'a ' * 28}{OLD} is the token")
    shown = [
        zeus(*arguments)
        for arguments in (
            ("sessions", "list"),
            ("sessions", "list", "--json"),
            ("sessions", "show", session),
            ("sessions", "show", session, "--json"),
            ("sessions", "export", session),
            ("sessions", "export", session, "--format", "markdown"),
            ("context", "show", "--session", session),
            ("context", "explain", "1", "--session", session),
            ("context", "why-missing", "token", "--session", session),
        )
    ]
    text = "".join(each.out + each.err for each in shown)
    assert "argo" not in text
    assert text.count("<secret:SHIP_TOKEN>") >= 5
    stored = b"".join(each.read_bytes() for each in (project.folder / ".zeus").rglob("*.db*"))
    assert OLD.encode() in stored, "the row itself stays"


def test_the_history_that_a_program_reads_is_masked_too(project: Project, zeus: Zeus) -> None:
    session = of_before(project, zeus, f"my token is {OLD}")

    async def read() -> list[object]:
        async with Agent.from_config(project.folder / "zeus.yaml", directory=project.folder) as agent:
            history, sessions = await agent.history(session), await agent.sessions()
            return [history[0].content, *[each.title for each in sessions]]

    assert asyncio.run(read()) == ["my token is <secret:SHIP_TOKEN>"] * 2


def test_a_knowledge_base_of_before_shows_no_secret(project: Project, zeus: Zeus) -> None:
    project.write("zeus.yaml", "version: 1\nmodel: gpt-4o\n")
    project.write("docs/ports.md", f"# The {OLD}\n\nThe gate opens with {OLD} at Pylos.\n")
    assert zeus("kb", "add", "handbook", "docs").exit_code == 0
    assert OLD in zeus("kb", "search", "handbook", "gate at Pylos").out
    project.write(".env", f"SHIP_TOKEN={OLD}\n")
    for more in ((), ("--json",), ("--set", "secrets.to_model=allow")):
        found = zeus("kb", "search", "handbook", "gate at Pylos", *more)
        assert "opens with <secret:SHIP_TOKEN> at Pylos" in found.out
        assert OLD not in found.out + found.err


def test_a_secret_of_the_sub_agents_config_is_masked_where_the_parents_shows_a_session(
    project: Project, zeus: Zeus
) -> None:
    session = of_before(project, zeus, f"my token is {OLD}")
    (project.folder / ".env").unlink()
    more = 'agents: {child: {description: "reads", config: child.yaml}}\n'
    path = project.agent("noted", more=more)
    path.write_text(path.read_text().replace("[voices]", "[voices, subagents]"))
    project.write(
        "child.yaml", f"version: 1\nname: child\nmodel: {{litellm: {{model: gpt-4o, api_key: {OLD}}}}}\n"
    )
    shown = zeus("sessions", "show", session)
    assert shown.exit_code == 0, shown.err
    assert OLD not in shown.out
    project.write("child.yaml", "version: 1\nmodle: x\n")
    assert (
        "secrets that only the sub-agents' configs have are not masked"
        in zeus("sessions", "show", session).err
    )
