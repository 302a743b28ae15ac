"""No command shows a secret of the config, and none keeps one."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
import threading
import warnings
from contextlib import closing

import pytest

from tests.cli.conftest import Project, Zeus, command
from zeus_runtime import Agent
from zeus_runtime.cli.process import Process
from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.plan.workspace_root import user_name

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


def test_the_command_that_allows_a_header_leaves_its_value_to_the_user(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZEUS_TRUST")
    model = {"litellm": {"model": "gpt-4o", "api_base": "https://x.example"}}
    project.write("zeus.yaml", json.dumps({"version": 1, "model": model}))
    sets = [
        "model.litellm.headers.X-Set=plain-word",
        "model.litellm.extra.extra_headers={Cookie: plain-word}",
        "mcpServers.a={url: 'https://x.example', headers: {X-Set: plain-word}}",
    ]
    words = [word for each in (*sets, "limits.max_steps=3") for word in ("--set", each)]
    shown = zeus("plan", *words)
    assert "plain-word" not in shown.out + shown.err
    assert shown.err.count("with your value for …") == 1
    command = re.search("`(zeus trust .*)`, with your value for …", " ".join(shown.err.split()))
    assert command is not None
    assert shlex.split(command[1])[-8:] == [
        "--set", "model.litellm.headers.X-Set=…",
        "--set", "model.litellm.extra.extra_headers=…",
        "--set", "mcpServers.a=…",
        "--set", "limits.max_steps=3",
    ]  # fmt: skip


def test_each_message_with_a_command_to_complete_says_so_once(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.agent(
        {"call": "echo", "args": {"text": "a"}},
        more="middlewares: [{approve: {mode: ask, read_tools: ask}}]\n",
    )
    sets = ("--set", "metadata={headers: {X-Set: plain-word}}")
    waits = zeus("run", "zeus.yaml", "go", *sets).err
    assert "plain-word" not in waits
    commands = [each for each in waits.splitlines() if "--set 'metadata=…'" in each]
    assert len(commands) > 1
    assert waits.count("\n  with your value for …\n") == len(commands)
    monkeypatch.delenv("ZEUS_TRUST")
    project.write("zeus.yaml", "version: 1\nmodel: gpt-5\nmcpServers: {own: {command: node}}\n")
    needed = zeus("plan", *sets).err
    assert needed.endswith("zeus trust zeus.yaml --set 'metadata=…'\n  with your value for …\n")


def test_a_value_that_is_a_secret_by_the_file_is_left_to_the_user(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = "metadata: {command: serve, args: [--token, other-one]}\n"
    approve = "middlewares: [{approve: {mode: ask, read_tools: ask}}]\n"
    project.agent({"call": "echo", "args": {"text": "a"}}, more=approve + arguments)
    sets = ("--set", "metadata.args.1=Kx9mPq2vLw7tZr4bOp", "--set", "limits.max_steps=9")
    waits = zeus("run", "zeus.yaml", "go", *sets).err
    commands = [each for each in waits.splitlines() if "--set limits.max_steps=9" in each]
    assert len(commands) > 1
    assert all("--set 'metadata.args.1=…'" in each for each in commands)
    assert waits.count("\n  with your value for …\n") == len(commands)
    monkeypatch.delenv("ZEUS_TRUST")
    project.write("zeus.yaml", "version: 1\nmodel: gpt-5\nmcpServers: {own: {command: node}}\n" + arguments)
    needed = zeus("plan", *sets).err
    command = "zeus trust zeus.yaml --set 'metadata.args.1=…' --set limits.max_steps=9"
    assert needed.endswith(f"{command}\n  with your value for …\n")
    refused = zeus("run", "zeus.yaml", "go", *sets).err
    assert f"allow it: `{command}`, with your value for …" in " ".join(refused.split())


@pytest.mark.parametrize("verb", ["trust", "validate", "plan"])
def test_the_gap_of_a_command_is_not_a_value(project: Project, zeus: Zeus, verb: str) -> None:
    project.write("zeus.yaml", "version: 1\nmodel: gpt-5\n")
    refused = zeus(verb, "--set", "model.litellm.headers.X-Set=… ")
    assert refused.exit_code == 3
    assert "--set model.litellm.headers.X-Set=: bad-set: `…` is not a value" in refused.out + refused.err
    assert "write your value in its place" in refused.out + refused.err
    assert zeus("validate", "--set", 'metadata.a="…"', "--set", "metadata.b=a…").exit_code == 0


def test_a_session_cookie_is_masked_in_text_and_a_media_type_is_not(project: Project, zeus: Zeus) -> None:
    headers = {"Cookie": VALUES["Cookie"], "Accept": "application/json"}
    said = f"It got {VALUES['Cookie']}, or abcdef0123456789, as application/json"
    project.agent(said, more=f"metadata: {{headers: {json.dumps(headers)}}}\n")
    result = zeus("run", "zeus.yaml", "go")
    assert result.exit_code == 0, result.err
    assert "abcdef0123456789" not in result.out
    assert result.out.endswith("as application/json\n")


@pytest.mark.parametrize("form", ["json", "markdown"])
def test_an_export_has_no_value_of_a_header(project: Project, zeus: Zeus, form: str) -> None:
    """Also if the session is older than the header."""
    project.agent("It got abcdef0123456789.")
    assert zeus("run", "zeus.yaml", f"send {VALUES['Cookie']}").exit_code == 0
    project.agent("done", more=f"metadata: {{headers: {json.dumps(VALUES)}}}\n")
    exported = zeus("sessions", "export", "--format", form)
    assert exported.exit_code == 0, exported.err
    assert "abcdef0123456789" not in exported.out
    assert exported.out.count("<secret:metadata.headers.Cookie") >= 2


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
    """A table cuts what it shows: half a secret is not a known secret."""
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


def test_no_reader_shows_a_secret_of_another_config_of_the_folder(project: Project, zeus: Zeus) -> None:
    """Both configs use one database; only the one that is not named holds the secret, and its agent may know it."""
    more = f"metadata: {{gate_api_key: {OLD}}}\nsecrets: {{to_model: allow}}\n"
    project.agent(f"It is {OLD}.", name="other.yaml", more=more)
    assert zeus("run", "other.yaml", f"{OLD} is the token").exit_code == 0
    project.agent("Done.")
    path = project.folder / "zeus.yaml"
    path.write_text(path.read_text().replace("name: tester", "name: second"))
    project.write("broken.yaml", "version: [\n")
    session = json.loads(zeus("sessions", "list", "--all", "--json").out)[0]["session"]
    shown = [
        zeus(*arguments)
        for arguments in (
            ("sessions", "list", "--all"),
            ("sessions", "show", session),
            ("sessions", "export", session),
            ("sessions", "trace", session),
            ("context", "show", "--session", session),
            ("context", "why-missing", "token", "--session", session),
            ("eval", "add", session),
        )
    ]
    text = "".join(each.out + each.err for each in shown) + (project.folder / "cases.yaml").read_text()
    assert "argo" not in text
    assert text.count("<secret:other.yaml/metadata.gate_api_key>") >= 4
    named = zeus("sessions", "show", session, "--config", "other.yaml").out
    assert "<secret:metadata.gate_api_key>" in named, "the names of the config itself stay"


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
    found = zeus("kb", "search", "handbook", "gate at Pylos", "--json")
    assert json.loads(found.out) == []
    assert OLD not in found.out + found.err
    found = zeus("kb", "search", "handbook", "gate at Pylos", "--set", "secrets.to_model=allow")
    assert "opens with <secret:SHIP_TOKEN> at Pylos" in found.out
    assert OLD not in found.out + found.err
    assert zeus("kb", "remove", "handbook", "docs", "--yes").exit_code == 0
    assert zeus("kb", "add", "handbook", "docs").exit_code == 0
    found = zeus("kb", "search", "handbook", "gate at Pylos")
    assert "opens with <secret:SHIP_TOKEN> at Pylos" in found.out


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


@pytest.mark.parametrize(("per", "owner"), [("session", None), ("user", "ann")])
def test_a_verb_that_shows_a_session_knows_what_its_folder_holds(
    project: Project, zeus: Zeus, per: str, owner: str | None
) -> None:
    """The model made the secrets: they were stored before they were known."""
    (project.folder / "work").mkdir()
    write = {"call": "write_file", "args": {"path": "/a.txt", "content": f"my {OLD}"}}
    more = f"workspace: {{root: work, per: {per}}}\nmiddlewares: [approve]\n"
    path = project.agent(write, "done", more=more)
    path.write_text(path.read_text().replace("[voices]", "[filesystem]"))
    assert zeus("run", "zeus.yaml", "go").exit_code == 7
    (pending,) = zeus("approvals", "pending", "--json").json
    session = pending["session"]
    if owner is not None:
        with closing(sqlite3.connect(project.folder / ".zeus" / "zeus.db")) as database, database:
            database.execute("UPDATE thread SET owner = 'ann'")
    name = session if per == "session" else user_name([str(owner)])
    folder = project.folder / "work" / name
    folder.mkdir(exist_ok=True)
    (folder / ".env.local").write_text(f"SHIP_TOKEN={OLD}\n")
    for words in (
        ("approvals", "pending"),
        ("approvals", "show", pending["id"]),
        ("sessions", "show", session),
        ("sessions", "export", session),
        ("context", "why-missing", "my", "--session", session),
    ):
        shown = zeus(*words)
        assert shown.exit_code == 0, shown.err
        assert OLD not in shown.out + shown.err, words
        assert "<secret:.env.local/SHIP_TOKEN-" in shown.out or "context" in words, words


TELLING = """
import numpy as np
from pathlib import Path
from zeus_runtime import ZeusError
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.embedding import Calibration, Embedder


class Telling(Embedder):
    model, dimension, calibration, quick = "telling", 8, Calibration(0.1, 0.9, 0.5), True

    async def embed(self, texts, *, purpose):
        with Path("asked.txt").open("a") as file:
            file.writelines(f"{purpose}: {each}\\n" for each in texts)
        if "fail" in texts[0]:
            raise RuntimeError(f"refused {texts}")
        return np.eye(8, dtype=np.float32)[[len(text) % 8 for text in texts]]


@hookimpl
def register_embeddings():
    return [Component("telling", create=lambda options, context: Telling())]
"""


@pytest.mark.parametrize("by", ["config", "user"])
def test_an_embedding_model_is_asked_without_secrets(project: Project, zeus: Zeus, by: str) -> None:
    named = ", embeddings: telling" if by == "config" else ""
    project.write("telling.py", TELLING)
    yaml = f"version: 1\nmodel: gpt-4o\nmemory: {{user: ann{named}}}\nplugins: {{files: [telling.py]}}\n"
    project.write("zeus.yaml", yaml)
    project.write(".env", "SHIP_TOKEN=argo-Secret-4711\n")
    project.write("docs/ports.md", "# Ports\n\nThe gate opens with argo-Secret-4711 at Pylos.\n")
    if by == "user":
        assert zeus("memory", "embeddings", "use", "telling").exit_code == 0
    assert zeus("kb", "add", "handbook", "docs").exit_code == 0
    found = zeus("kb", "search", "handbook", "argo-Secret-4711", "--json")
    assert [hit["word_rank"] for hit in found.json] == [1], "a masked text is found by its words"
    assert zeus("memory", "add", "The user likes tea").exit_code == 0
    assert zeus("memory", "search", "why argo-Secret-4711").exit_code == 0
    asked = (project.folder / "asked.txt").read_text()
    assert "argo-Secret-4711" not in asked
    assert "query: <secret:SHIP_TOKEN>\n" in asked
    assert "query: why <secret:SHIP_TOKEN>\n" in asked


STRAY = r"""
import os, sys, threading
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import tool


class Kept:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        raise RuntimeError(f"{self.name} {os.environ['SHIP_TOKEN']}\x1b[2J")


@tool(access="read")
async def stray() -> str:
    'Fail where nobody awaits it.'

    def work():
        raise RuntimeError(f"thread {os.environ['SHIP_TOKEN']}\x1b[2J")

    thread = threading.Thread(target=work, name="deckhand")
    thread.start()
    thread.join()
    Kept("finalizer")
    sys.modules["kept"] = Kept("end")
    return "ok"


@hookimpl
def register_tools():
    return [Component("strays", create=lambda options, context: [stray])]
"""


def stray(project: Project, monkeypatch: pytest.MonkeyPatch, plugin: str) -> None:
    """An agent that calls the tool of a plugin, which knows a secret of the environment."""
    monkeypatch.setenv("SHIP_TOKEN", "argo-Secret-4711")
    monkeypatch.setenv("ZEUS_TRUST", "all")
    project.write("stray.py", plugin)
    config = project.agent({"call": "stray", "args": {}}, "done")
    text = config.read_text().replace("[scripted.py]", "[scripted.py, stray.py]")
    config.write_text(text.replace("[voices]", "[strays]"))


def test_errors_of_threads_and_finalizers_are_printed_without_secrets(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    stray(project, monkeypatch, STRAY)
    # An interpreter of its own: a fork ends without its modules' finalizers.
    words = command("run", "zeus.yaml", "go")
    done = subprocess.run(words, cwd=project.folder, capture_output=True, text=True, timeout=120)
    err = done.stderr
    assert (done.returncode, done.stdout) == (0, "done\n"), err
    assert "argo-Secret-4711" not in err
    assert "\x1b" not in err
    assert "Exception in thread deckhand:\n  Traceback" in err
    assert "Exception ignored in: <function Kept.__del__" in err
    for name in ("thread", "finalizer"):
        assert f"RuntimeError: {name} <secret:SHIP_TOKEN>\\x1b[2J" in err
    assert err.endswith("RuntimeError at the end of the process\n")


EXITING = """
import asyncio
import os
import re
import shlex
import sys
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import tool


@tool(access="read")
async def stray() -> str:
    'Exit where nobody awaits it.'

    async def work():
        sys.exit(f"task {os.environ['SHIP_TOKEN']}")

    await asyncio.wait([asyncio.create_task(work())])
    return "ok"


@hookimpl
def register_tools():
    return [Component("strays", create=lambda options, context: [stray])]
"""


def test_the_text_of_an_exit_is_printed_without_secrets(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    stray(project, monkeypatch, EXITING)
    told = zeus("run", "zeus.yaml", "go")
    assert told.exit_code == 1
    assert "error: task <secret:SHIP_TOKEN>\n" in told.err
    assert "argo-Secret-4711" not in told.err


def test_a_warning_of_a_library_is_printed_without_secrets_and_unseen_characters(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHIP_TOKEN", "argo-Secret-4711")
    monkeypatch.setattr(
        "zeus_runtime.testing.cases.reading.evaluation_schema",
        lambda: warnings.warn("argo-Secret-4711 \a\x1b[2J\u202e", stacklevel=1) or {},
    )
    told = zeus("schema", "--eval")
    assert told.exit_code == 0
    assert "UserWarning: <secret:SHIP_TOKEN> \\x07\\x1b[2J\\u202e\n" in told.err


@pytest.mark.parametrize("known", ["environment", "dotenv"])
@pytest.mark.parametrize(
    "words",
    [
        ["run", "zeus.yaml", "go", "SECRET"],
        ["run", "zeus.yaml", "go", "--mode", "SECRET"],
        ["run", "--SECRET"],
        ["SECRET"],
        ["context", "SECRET"],
        ["kb", "search", "handbook", "x", "-k", "SECRET"],
        ["sessions", "show", "SECRET"],
        ["validate", "SECRET"],
    ],
)
def test_a_wrong_command_line_is_told_without_secrets(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch, words: list[str], known: str
) -> None:
    if known == "dotenv":
        project.write(".env", "SHIP_TOKEN=argo-Secret-4711\n")
    else:
        monkeypatch.setenv("SHIP_TOKEN", "argo-Secret-4711")
        project.write(".env", "no line of an environment\n")
    told = zeus(*(word.replace("SECRET", "argo-Secret-4711") for word in words))
    assert told.exit_code in (2, 3)
    assert "argo-Secret-4711" not in told.err + told.out
    assert "<secret:SHIP_TOKEN>" in told.err or told.exit_code == 3


@pytest.mark.parametrize(
    "words",
    [
        ("serve", "./{}.yaml"),
        ("keys", "rotate", "{}"),
        ("plan", "./{}.yaml"),
        ("plan", "sub/zeus.yaml", "{}"),
    ],
)
def test_an_error_has_no_secret_of_the_folder_whatever_was_read_before(
    project: Project, zeus: Zeus, words: tuple[str, ...]
) -> None:
    """A service's settings and a config of another folder do not read the ``.env`` of the working directory."""
    project.write(".env", "SHIP_TOKEN=argo-Secret-4711\n")
    project.write("sub/zeus.yaml", "version: 1\nmodel: gpt-4o\n")
    result = zeus(*(each.format("argo-Secret-4711") for each in words))
    assert result.exit_code != 0
    assert "<secret:SHIP_TOKEN>" in result.err
    assert "argo-Secret" not in result.out + result.err


def test_what_a_config_knows_keeps_its_name_beside_the_env_file_of_the_working_directory(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(".env", "SHIP_TOKEN=argo-Secret-4711\n")
    monkeypatch.chdir(project.folder)
    process = Process()
    process.learn(Redactor().adding({"argo-Other-4712": "SHIP_TOKEN"}))
    assert (
        process.redact("argo-Secret-4711, argo-Other-4712") == "<secret:SHIP_TOKEN-6381>, <secret:SHIP_TOKEN>"
    )


@pytest.mark.parametrize(
    "words",
    [
        ["chat", "zeus.yaml"],
        ["models", "show", "SECRET"],
        ["approvals", "allow", "echo", "--user", "SECRET"],
        ["init", "SECRET.yaml", "--yes"],
    ],
)
def test_no_note_of_a_command_has_a_secret(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    project.agent("Hello.")
    secret = "argo-Secret-4711"
    monkeypatch.setenv("SHIP_TOKEN", secret)
    typed = f"/{secret}\n/mode {secret}\n/attach {secret}\n/exit\n"
    told = zeus(*(word.replace("SECRET", secret) for word in words), stdin=typed)
    assert secret not in told.err + told.out
    assert "<secret:SHIP_TOKEN>" in told.err


def test_python_prints_its_own_errors_again_after_a_command(zeus: Zeus, project: Project) -> None:
    hooks = sys.excepthook, threading.excepthook, sys.unraisablehook, warnings.showwarning
    assert zeus("--version").exit_code == 0
    assert (sys.excepthook, threading.excepthook, sys.unraisablehook, warnings.showwarning) == hooks


KEY = "argo-Secret-4711"


def test_names_of_documents_and_sources_are_kept_and_shown_without_secrets(
    project: Project, zeus: Zeus
) -> None:
    project.write("zeus.yaml", "version: 1\nmodel: gpt-4o\n")
    project.write(".env", f"SHIP_TOKEN={KEY}\n")
    project.write(f"docs-{KEY}/gate-{KEY}.md", "# Gate\n\nThe gate at Pylos is blue.\n")
    project.write(f"docs-{KEY}/port.md", "# Port\n\nThe port at Ithaca is red.\n")
    project.write(f"docs-{KEY}/broken-{KEY}.pdf", "none")
    folder = f"docs-{KEY}"
    told = [zeus("kb", "add", "handbook", folder)]
    assert told[0].out.startswith("handbook: 2 added")
    assert "broken-<secret:SHIP_TOKEN>.pdf was left out" in told[0].err
    told.append(zeus("kb", "add", "handbook", folder, "--json"))
    counts = told[-1].json
    assert (counts["added"], counts["changed"], counts["unchanged"], counts["removed"]) == (0, 0, 2, 0)
    project.write(f"docs-{KEY}/gate-{KEY}.md", "# Gate\n\nThe gate at Pylos is green now.\n")
    (project.folder / folder / "port.md").unlink()
    told.append(zeus("kb", "add", "handbook"))
    assert told[-1].out.startswith("handbook: 0 added, 1 changed, 0 unchanged, 1 removed")
    told += [zeus("kb", "search", "handbook", "gate at Pylos", *form) for form in ([], ["--json"])]
    label = "docs-<secret:SHIP_TOKEN>/gate-<secret:SHIP_TOKEN>.md"
    assert label in told[-2].out
    assert "green" in told[-2].out
    assert [hit["source"] for hit in told[-1].json] == [label]
    told += [zeus("kb", "list"), zeus("kb", "list", "--json")]
    assert told[-1].json[0]["sources"][0].endswith("/docs-<secret:SHIP_TOKEN>")
    told.append(zeus("kb", "add", KEY, folder))
    assert "holds a known secret" in told[-1].err
    (project.folder / folder / "<secret:SHIP_TOKEN>.md").write_text("# Odd\n")
    told.append(zeus("kb", "add", "handbook"))
    assert "holds the placeholder of a secret" in told[-1].err
    for path in (project.folder / ".zeus").rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
    told.append(zeus("kb", "remove", "handbook", folder))
    assert told[-1].out == "1 documents removed\n"
    assert [each for each in told if KEY in each.out + each.err] == []


def test_a_base_from_before_is_listed_and_searched_without_secrets(project: Project, zeus: Zeus) -> None:
    project.write("zeus.yaml", "version: 1\nmodel: gpt-4o\n")
    project.write("docs/ports.md", "# Ports\n\nThe gate at Pylos is blue.\n")
    base = f"base-{KEY}"
    assert zeus("kb", "add", base, "docs").exit_code == 0
    project.write(".env", f"SHIP_TOKEN={KEY}\n")
    told = [
        zeus("kb", *words)
        for words in (
            ["list"],
            ["list", "--json"],
            ["search", base, "gate"],
            ["search", base, "gate", "--json"],
        )
    ]
    told += [zeus("kb", "add", base), zeus("kb", "reindex", base, "--json")]
    assert {each.exit_code for each in told} == {0}
    assert "base-<secret:SHIP_TOKEN>" in told[0].out
    assert [each for each in told if KEY in each.out + each.err] == []


def test_an_export_of_memories_holds_no_secret_that_became_known_later(project: Project, zeus: Zeus) -> None:
    project.write("zeus.yaml", "version: 1\nmodel: gpt-4o\nmemory: {user: ann}\n")
    assert zeus("memory", "add", f"The gate word is {OLD}").exit_code == 0
    project.write(".env", f"SHIP_TOKEN={OLD}\n")
    told = zeus("memory", "export")
    assert zeus("memory", "export", "kept.jsonl").exit_code == 0
    for text in (told.out, (project.folder / "kept.jsonl").read_text()):
        assert "The gate word is <secret:SHIP_TOKEN>" in text
        assert OLD not in text


def test_no_table_cuts_a_secret_before_it_is_masked(project: Project, zeus: Zeus) -> None:
    secret = "argo-Secret-4711-Wx9zz"
    project.agent("x", more="homes: [home]\nmiddlewares: [skills]\nmemory: {}\n")
    for count in range(24, 60, 4):
        text = f"{'word ' * (count // 5)}{'x' * (count % 5)} {secret} more"
        project.write(f"home/skills/s{count}/SKILL.md", f"---\nname: s{count}\ndescription: {text}\n---\nx\n")
    said = f"The harbour of the old town is always closed by its keepers at noon on {secret}"
    added = zeus("memory", "add", said)
    assert added.exit_code == 0, added.err
    project.write(".env", f"SHIP_TOKEN={secret}\n")
    for arguments in (("skills", "list", "zeus.yaml"), ("memory", "list"), ("memory", "search", "harbour")):
        shown = zeus(*arguments)
        assert shown.exit_code == 0, shown.err
        assert "argo" not in shown.out, arguments


NOISY = """
import asyncio, atexit, logging
from pathlib import Path
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import tool

SECRET = Path(__file__).with_name(".env").read_text().strip().partition("=")[2]
KEPT = []
logging.getLogger("early").warning("imported with %s", SECRET)
atexit.register(lambda: logging.getLogger("late").warning("ended with %s", SECRET))

def create(options, context):
    logging.getLogger("pool").warning("connects with %s", SECRET)
    logging.getLogger("pool").warning("connects %d times", SECRET)

    @tool(access="read")
    async def go() -> str:
        "Go."
        return "ok"

    return [go]

@hookimpl
def register_tools():
    return [Component("noisy", create=create)]
"""


@pytest.mark.parametrize("words", [("validate",), ("plan",), ("tools", "list"), ("doctor",)])
def test_no_log_record_of_a_library_shows_a_secret_whatever_the_command(
    project: Project, words: tuple[str, ...]
) -> None:
    """Python's last handler wrote it as it is, and a record with a wrong format shows its arguments."""
    project.write(".env", "SHOP_TOKEN=q7Zk3Jq9LmT2vXw8RbN5cYd7\n")
    project.write("noisy.py", NOISY)
    project.write("zeus.yaml", "version: 1\nmodel: gpt-4o\nplugins: {files: [noisy.py]}\ntools: [noisy]\n")
    found = subprocess.run(
        [sys.executable, "-m", "zeus_runtime", *words],
        cwd=project.folder,
        env={**os.environ, "ZEUS_TRUST": "all"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    said = found.stdout + found.stderr
    assert "q7Zk3Jq9" not in said
    assert "Logging error" not in said
    for text in ("connects with <secret:SHOP_TOKEN>", "connects %d times", "ended with <secret:SHOP_TOKEN>"):
        assert text in said, said
