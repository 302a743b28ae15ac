"""Programs that embed Zeus, and what changes while an agent lives: nothing runs that was not allowed."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.support import mcp_server
from tests.support.agents import TOOLS, call, calling, play, script, write_agent
from tests.support.distributions import lay_out
from zeus_runtime import Agent, MissingError, UntrustedError
from zeus_runtime.config.secrets.masking import MASK
from zeus_runtime.events import ToolCallResult
from zeus_runtime.plan import default_keys
from zeus_runtime.plan.executed_parts import permit
from zeus_runtime.plan.parts_with_subagents import agents_below, all_parts
from zeus_runtime.plan.validated import examine_config
from zeus_runtime.registry import home
from zeus_runtime.tools import WorkspaceError
from zeus_runtime.trust.parts import Command, Part

SERVER = f"""
from pathlib import Path
import runpy
with Path("started").open("a") as file:
    file.write("x")
runpy.run_path({mcp_server.__file__!r}, run_name="__main__")
"""


@pytest.fixture(autouse=True)
def _nothing_is_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ZEUS_TRUST")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


INSTALLED = """
    import subprocess
    from typing import Annotated
    from pydantic import BaseModel
    from zeus_runtime.plugin import Component, Executes, WorkRelative, hookimpl
    from zeus_runtime.plugin.tool import tool

    class Options(BaseModel):
        command: Annotated[str, Executes()] = "true"
        key: Annotated[str, WorkRelative(protected=True, holds_keys=True)] = "none"

    def create(options, context):
        subprocess.run([options.command], check=True)

        @tool(category="shell", access="read")
        def started() -> str:
            "Says so."
            return "started"

        return [started]

    @hookimpl
    def register_tools():
        return [Component("starter", create=create, options=Options, summary="Starts a program.")]
"""


def test_an_option_of_a_pydantic_model_that_is_executed_needs_permission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its markers were lost, so a repository's config chose the program of an installed plugin, unasked."""
    made = {"own_starter.py": INSTALLED}
    lay_out(tmp_path / "site", "starter", plugins={"starter": "own_starter"}, files=made)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "evil.sh").write_text("#!/bin/sh\ntouch executed\n")
    (folder / "evil.sh").chmod(0o755)
    (folder / "own.key").write_text("key")
    config = folder / "zeus.yaml"
    line = f"starter: {{command: {folder / 'evil.sh'}, key: own.key}}"
    config.write_text(f"version: 1\nmodel: gpt-4o\ntools: [filesystem, {line}]\n")
    monkeypatch.chdir(folder)
    with pytest.raises(UntrustedError, match=r"option 'tools\.1\.starter\.command' is not trusted"):
        Agent.from_config(config, directory=folder)
    assert not (folder / "executed").exists()
    files = Agent.from_config(config, directory=folder, trust="all").plan.context.workspace
    assert (folder / "executed").exists()
    with pytest.raises(WorkspaceError, match="no tool may read or change it"):
        files.read("own.key", max_bytes=10)


def write_server(folder: Path, more: str = "") -> Path:
    (folder / "server.py").write_text(SERVER)
    config = folder / "zeus.yaml"
    servers = {"mcpServers": {"small": {"command": "python3", "args": ["server.py"]}}}
    config.write_text(f"version: 1\nmodel: gpt-4o\n{json.dumps(servers)[1:-1]}\n{more}")
    return config


def test_a_program_executes_no_plugin_file_that_its_user_has_not_allowed(tmp_path: Path) -> None:
    config = write_agent(tmp_path, plugin="raise SystemExit('executed')\n" + TOOLS)
    with pytest.raises(UntrustedError, match=r"plugin file 'probe\.py' is not trusted"):
        Agent.from_config(config, directory=tmp_path)


@pytest.mark.parametrize("folder", ["configs", "stray", "plugins"])
def test_of_a_checkout_of_zeus_only_the_folders_of_presets_are_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """The bundled Home is then the whole checkout: a config that an agent made in it was executed unasked."""
    (tmp_path / "checkout/configs").mkdir(parents=True)
    shutil.copytree(home.bundled_home() / "prompts", tmp_path / "checkout/prompts")
    monkeypatch.setattr(home, "bundled_home", lambda: tmp_path / "checkout")
    place = tmp_path / "checkout" / folder
    code = TOOLS + f"open({str(tmp_path / 'executed')!r}, 'w').close()\n"
    config = write_agent(place, plugin=code, tools="[probe, {shell: {contain: none}}]")
    if folder == "configs":
        Agent.from_config(config, directory=tmp_path)
    else:
        with pytest.raises(UntrustedError, match=r"plugin file 'probe\.py', option 'tools"):
            Agent.from_config(config, directory=tmp_path)
    assert (tmp_path / "executed").exists() is (folder == "configs")


def test_a_bundled_prompt_that_a_config_names_asks_nothing(tmp_path: Path) -> None:
    config = tmp_path / "zeus.yaml"
    prompt = home.bundled_home() / "prompts/CORE.md"
    config.write_text(f"version: 1\nmodel: gpt-4o\ninstructions: {{file: '{prompt}'}}\n")
    Agent.from_config(config, directory=tmp_path)


def test_what_a_config_is_given_as_environment_allows_nothing(tmp_path: Path) -> None:
    with pytest.raises(UntrustedError):
        Agent.from_config(write_agent(tmp_path), directory=tmp_path, environ={"ZEUS_TRUST": "all"})


@pytest.mark.parametrize("names", ["home", "variable"])
def test_what_a_config_is_given_as_environment_names_no_home_of_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: str
) -> None:
    """A mapping that was filled from a project's files made the project's plugin files trusted."""
    config = write_agent(tmp_path / "zeus", plugin="raise SystemExit('executed')\n" + TOOLS)
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    if names == "variable":
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        config = tmp_path / "zeus/own.yaml"
        option = "tools: [{sandbox: {backend: {docker: {command: '${TOOL}'}}}}]"
        config.write_text(f"version: 1\nmodel: gpt-4o\n{option}\n")
        environ["TOOL"] = "./evil"
    with pytest.raises(UntrustedError):
        Agent.from_config(config, directory=tmp_path, environ=environ)


async def test_a_program_can_vouch_for_its_config(tmp_path: Path) -> None:
    config = write_agent(tmp_path)
    async with Agent.from_config(config, directory=tmp_path, model=script("Hi."), trust="all") as agent:
        assert (await agent.run("hi")).answer == "Hi."


async def test_a_run_starts_no_server_that_is_not_allowed(tmp_path: Path) -> None:
    async with Agent.from_config(write_server(tmp_path), directory=tmp_path, model=script("Hi.")) as agent:
        with pytest.raises(UntrustedError, match="MCP server 'small' is not trusted") as refused:
            await agent.run("hi")
        assert refused.value.exit_code == 4
        assert [part.name for part in refused.value.parts] == ["small"]
    assert not (tmp_path / "started").exists()
    assert not (tmp_path / ".zeus").exists()


async def test_a_server_whose_program_changed_is_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_server(tmp_path, "tools: [{mcp: {restart_seconds: 0.01}}]\n")
    digest = digests(config, tmp_path)
    monkeypatch.setenv("ZEUS_TRUST", digest)
    model = script(
        "Hi.",
        calling(call("small__say", "c1", text="still here")),
        calling(call("small__die", "c2")),
        calling(call("small__say", "c3", text="once more")),
        "Done.",
    )
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        session = (await agent.run("hi")).session
        (tmp_path / "server.py").write_text(SERVER + "# changed by the agent\n")
        events = await play(agent, "go on", session)
    results = [each.content for each in events if isinstance(each, ToolCallResult)]
    assert "still here" in str(results[0])
    assert "not trusted" in str(results[2])
    assert (tmp_path / "started").read_text() == "x"


async def test_a_server_changes_its_data_and_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    config = tmp_path / "zeus.yaml"
    small = {"command": "python3", "args": ["server.py", "started"], "data": ["started"]}
    config.write_text(json.dumps({"version": 1, "model": "gpt-4o", "mcpServers": {"small": small}}))
    monkeypatch.setenv("ZEUS_TRUST", digests(config, tmp_path))
    for runs in ("x", "xx"):
        model = script(calling(call("small__say", "c1", text="hello")), "Done.")
        async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
            assert "hello" in str(await play(agent, "hi"))
        assert (tmp_path / "started").read_text() == runs


async def test_servers_of_an_imported_file_are_judged_as_they_are_when_they_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_agent(tmp_path, tools="[{mcp: {files: [.mcp.json]}}]", plugin="").with_name("zeus.yaml")
    config.write_text("version: 1\nmodel: gpt-4o\ntools: [{mcp: {files: [.mcp.json]}}]\n")
    (tmp_path / "server.py").write_text(SERVER)
    imported = tmp_path / ".mcp.json"
    imported.write_text(json.dumps({"mcpServers": {"small": {"command": "python3", "args": ["server.py"]}}}))
    monkeypatch.setenv("ZEUS_TRUST", digests(config, tmp_path))
    (tmp_path / "evil.py").write_text(SERVER)
    agent = Agent.from_config(config, directory=tmp_path, model=script("Hi."))
    imported.write_text(json.dumps({"mcpServers": {"small": {"command": "python3", "args": ["evil.py"]}}}))
    async with agent:
        events = await play(agent, "hi")
    assert "not trusted" in str([vars(each) for each in events])
    assert not (tmp_path / "started").exists()


async def test_an_address_of_an_imported_file_is_judged_as_it_is_when_it_is_called(tmp_path: Path) -> None:
    config = tmp_path / "zeus.yaml"
    config.write_text("version: 1\nmodel: gpt-4o\ntools: [{mcp: {files: [.mcp.json]}}]\n")
    imported = tmp_path / ".mcp.json"
    imported.write_text(json.dumps({"mcpServers": {"far": {"url": "http://127.0.0.1:9/mcp"}}}))
    agent = Agent.from_config(config, directory=tmp_path, model=script("Hi."))
    imported.write_text(json.dumps({"mcpServers": {"far": {"url": "http://127.0.0.1.x.invalid:9/mcp"}}}))
    async with agent:
        events = await play(agent, "hi")
    assert "MCP server 'far' is not trusted" in str([vars(each) for each in events])


async def test_a_secret_in_a_prompt_of_an_imported_file_is_judged_when_its_server_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VAULT_TOKEN", "hvs.A1b2C3d4E5f6G7h8")
    config = tmp_path / "zeus.yaml"
    config.write_text("version: 1\nmodel: gpt-4o\ntools: [{mcp: {files: [.mcp.json]}}]\n")

    def write(to: str) -> None:
        near = {"url": "http://127.0.0.1:9/mcp", "prompts": {"tips": {"to": to}}}
        (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"near": near}}))

    write("ann")
    agent = Agent.from_config(config, directory=tmp_path, model=script("Hi."))
    write("${VAULT_TOKEN}")
    async with agent:
        events = await play(agent, "hi")
    assert "MCP server 'near' is not trusted" in str([vars(each) for each in events])


async def test_a_server_gets_those_arguments_of_its_prompts_that_were_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    config, imported = tmp_path / "zeus.yaml", tmp_path / ".mcp.json"
    config.write_text("version: 1\nmodel: gpt-4o\ntools: [{mcp: {files: [.mcp.json]}}]\n")
    small = {"command": "python3", "args": ["server.py"]}

    def write(to: str) -> None:
        servers = {"small": {**small, "prompts": {"review": {"to": to}}}}
        imported.write_text(json.dumps({"mcpServers": servers}))

    write("ann")
    monkeypatch.setenv("ZEUS_TRUST", digests(config, tmp_path))
    for to in ("ann", "eve"):
        (tmp_path / "started").unlink(missing_ok=True)
        agent = Agent.from_config(config, directory=tmp_path, model=script("Hi."))
        write(to)
        async with agent:
            events = await play(agent, "hi")
        assert (tmp_path / "started").exists() is (to == "ann")
        assert ("not trusted" in str([vars(each) for each in events])) is (to == "eve")
        write("ann")


KEYS = """
from typing import Annotated, Any
from pydantic import BaseModel, Field, SecretStr
from zeus_runtime.plugin import Component, Destination, hookimpl

class Options(BaseModel):
    keys: dict[str, SecretStr] = {}
    nested: Annotated[dict[str, Any], Field(json_schema_extra={"writeOnly": True})] = {}
    headers: dict[str, SecretStr] = {}
    url: Annotated[str, Destination()] = ""

@hookimpl
def register_tools():
    return [Component("keyed", create=lambda options, context: [], options=Options, summary="Has keys.")]
"""


def test_an_option_of_a_plugin_is_declared_to_be_a_secret_by_its_type_and_a_header_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(tmp_path / "site", "keyed", plugins={"keyed": "own_keyed"}, files={"own_keyed.py": KEYS})
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("VAULT_TOKEN", "hvs.A1b2C3d4E5f6G7h8")
    config = tmp_path / "zeus.yaml"
    secret = {"X": "${VAULT_TOKEN}"}

    def parts(**options: object) -> dict[str, Part]:
        config.write_text(json.dumps({"version": 1, "model": "gpt-4o", "tools": [{"keyed": options}]}))
        found = examine_config(config, directory=tmp_path, environ=dict(os.environ)).parts
        return {part.name: part for part in found}

    assert list(parts(keys=secret, nested={"a": [secret]}, headers=secret)) == ["tools.0.keyed.headers.X"]
    with_keys = [
        parts(url="https://x.example", keys={"X": each, "Y": "y"}) for each in ("x", "${VAULT_TOKEN}")
    ]
    assert [list(each) for each in with_keys] == [["tools.0.keyed.url"]] * 2
    assert len({each["tools.0.keyed.url"].digest for each in with_keys}) == 2


def test_a_secret_that_a_program_gives_a_config_is_asked_about_too(tmp_path: Path) -> None:
    """Its config may be a clone's, as well as the one that a command line reads."""
    config = tmp_path / "zeus.yaml"
    config.write_text("version: 1\nmodel: gpt-4o\nmetadata: {team: '${VAULT_TOKEN}'}\n")
    given = {"VAULT_TOKEN": "hvs.A1b2C3d4E5f6G7h8"}
    with pytest.raises(UntrustedError, match=r"metadata\.team"):
        Agent.from_config(config, directory=tmp_path, environ=given)
    Agent.from_config(config, directory=tmp_path, environ=given, trust="all")
    (tmp_path / ".env").write_text("VAULT_TOKEN=hvs.A1b2C3d4E5f6G7h8\n")
    Agent.from_config(config, directory=tmp_path, environ={})


def test_a_program_opens_no_database_that_was_shipped(tmp_path: Path) -> None:
    config = tmp_path / "zeus.yaml"
    config.write_text("version: 1\nmodel: gpt-4o\n")
    (tmp_path / ".zeus").mkdir()
    (tmp_path / ".zeus/zeus.db").write_bytes(b"SQLite format 3\0" + bytes(84))
    with pytest.raises(UntrustedError, match=r"database '\.zeus/zeus\.db' is not trusted"):
        Agent.from_config(config, directory=tmp_path)
    Agent.from_config(config, directory=tmp_path, trust="all")


def digests(config: Path, folder: Path) -> str:
    found = examine_config(config, directory=folder, environ=os.environ)
    return ",".join(part.digest for part in all_parts(found))


@pytest.mark.parametrize(
    ("more", "asks"),
    [
        ("middlewares: [{approve: {allow: [run_command]}}]", True),
        ("middlewares: [{approve: {mode: run_everything}}]", True),
        ("middlewares: [{approve: {read_tools: ask, allow: [run_command]}}]", True),
        ("middlewares: []", True),
        ("middlewares: [{approve: {ask: [run_command]}}]\napprovals: run_everything", True),
        (
            "middlewares: [{approve: {ask: [run_command]}}]\n"
            "agents: {a: {description: d, overrides: {middlewares: [{approve: {mode: run_everything}}]}}}",
            True,
        ),
        ("middlewares: [pins, {approve: {ask: [run_command]}}]\nlimits: {max_steps: 3}", False),
    ],
)
@pytest.mark.parametrize("option", ["contain: none", "network: true"])
def test_permission_for_programs_without_containment_covers_who_is_asked_before_one_runs(
    more: str, asks: bool, option: str, tmp_path: Path
) -> None:
    """The user allowed `contain: none` because each command asked; a later commit made `allow` answer instead."""
    config = tmp_path / "zeus.yaml"

    def write(text: str) -> str:
        config.write_text(f"version: 1\nmodel: gpt-4o\ntools: [{{shell: {{{option}}}}}, subagents]\n{text}\n")
        return digests(config, tmp_path)

    allowed = write("middlewares: [{approve: {ask: [run_command]}}]")
    asks = asks and option == "contain: none"
    assert (write(more) != allowed) == asks
    with pytest.raises(UntrustedError) if asks else nullcontext():
        Agent.from_config(config, directory=tmp_path, trust=allowed)


def test_the_question_about_programs_without_containment_shows_who_is_asked(tmp_path: Path) -> None:
    config = tmp_path / "zeus.yaml"
    config.write_text(
        "version: 1\nmodel: gpt-4o\napprovals: ask\ntools: [{shell: {contain: none}}]\n"
        "middlewares: [{approve: {allow: [run_command]}}]\n"
    )
    (part,) = all_parts(examine_config(config, directory=tmp_path, environ=os.environ))
    assert part.lines == (
        ("value", "none"),
        ("approvals", "ask"),
        ("approvals", '{"approve": {"allow": ["run_command"]}}'),
    )


ASKING = """
from zeus_runtime.plugin import Component, dataclass, hookimpl
from zeus_runtime.plugin.middleware import Middleware

@dataclass(frozen=True)
class Options:
    def asks_user(self):
        return True

class Asking(Middleware):
    def __init__(self, options, context):
        pass

@hookimpl
def register_middlewares():
    return [Component("asking", create=Asking, options=Options, summary="Asks.")]
"""


def test_whether_a_plugin_file_is_allowed_does_not_change_the_digest_of_an_option(tmp_path: Path) -> None:
    config = write_agent(tmp_path, plugin=ASKING, tools="[{shell: {contain: none}}]")
    with config.open("a") as file:
        file.write("middlewares: [asking, approve]\n")
    printed = digests(config, tmp_path)
    assert Agent.from_config(config, directory=tmp_path, trust=printed).plan.middlewares


BASE = "https://models.example/v1"
MOVED = {
    "a model's address": (
        "memory: {embeddings: {litellm: {model: openai/e, dimension: 8, api_base: 'https://models.example/v1'}}}",
        "model: {litellm: {model: openai/m, api_base: 'https://models.example/v1'}}",
    ),
    "a sub-agent's option": (
        "agents: {a: {description: d, overrides: {tools: [{shell: {contain: none}}]}}}",
        "tools: [{shell: {contain: none}}]",
    ),
    "another sub-agent's option": (
        "agents: {a: {description: d, overrides: {tools: [{shell: {contain: none}}]}}}",
        "agents: {b: {description: d, overrides: {tools: [{shell: {contain: none}}]}}}",
    ),
    "the option of a sub-agent's own config": (
        "agents: {a: {description: d, config: ./sub.yaml}}",
        "tools: [{shell: {contain: none}}]",
    ),
    "a sub-agent's file": (
        "agents: {a: {description: d, overrides: {instructions: {file: ../notes.md}}}}",
        "instructions: {file: ../notes.md}",
    ),
    "a sub-agent's folder": (
        "agents: {a: {description: d, overrides: {workspace: {root: ../desk}}}}",
        "workspace: {root: ../desk}",
    ),
    "a sub-agent's rule": (
        "agents: {a: {description: d, overrides: {workspace: {access: {.git/config: write}}}}}",
        "workspace: {access: {.git/config: write}}",
    ),
    "a hook": (
        "middlewares: [{hooks: {after_tool_call: [{command: [./check.sh]}]}}]",
        "middlewares: [{hooks: {before_tool_call: [{command: [./check.sh]}]}}]",
    ),
}


@pytest.mark.parametrize("way", MOVED)
def test_permission_for_a_place_is_none_for_another(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed, moved = MOVED[way]
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "desk").mkdir()
    (tmp_path / "notes.md").write_text("notes")
    (folder / "sub.yaml").write_text("version: 1\nmodel: gpt-4o\ntools: [{shell: {contain: none}}]\n")
    config = folder / "zeus.yaml"

    def write(text: str) -> set[str]:
        model = "" if text.startswith("model:") else "model: gpt-4o\n"
        tools = "tools: [subagents]\n" if text.startswith("agents:") else ""
        config.write_text(f"version: 1\n{model}{tools}{text}\n")
        return set(digests(config, folder).split(","))

    def use() -> None:
        if way == "a hook":  # a process is permitted when it starts
            checked = examine_config(config, directory=folder, environ=os.environ)
            permit(checked, Command("./check.sh", ("./check.sh",), kind="command"))
        else:
            Agent.from_config(config, directory=folder)

    after, before = write(moved), write(allowed)
    assert before != {""}
    assert before.isdisjoint(after)
    monkeypatch.setenv("ZEUS_TRUST", ",".join(before))
    use()
    write(moved)
    with pytest.raises(UntrustedError):
        use()


OWN_ADDRESSES = {
    "model": (
        "model: {{litellm: {{model: {0}/m, api_base: '" + BASE + "'}}}}",
        {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY", "groq": "GROQ_API_KEY"},
    ),
    "a sub-agent's model": (
        "model: gpt-4o\nagents: {{a: {{description: d, overrides: {{model: {{litellm: {{model: {0}/m, api_base: '"
        + BASE
        + "'}}}}}}}}}}\ntools: [subagents]",
        {"openai": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY"},
    ),
    "a model's name with an address": (
        "model: '{0}/https://models.example'",
        {"huggingface": "HF_TOKEN", "openai": "OPENAI_API_KEY"},
    ),
    "an embedding model": (
        "model: gpt-4o\nmemory: {{embeddings: {{litellm: {{model: {0}/m, dimension: 8, api_base: '"
        + BASE
        + "'}}}}}}",
        {"openai": "OPENAI_API_KEY", "voyage": "VOYAGE_API_KEY"},
    ),
    "a web search": (
        "model: gpt-4o\ntools: [{{web: {{search: {{{0}: {{base_url: '" + BASE + "'}}}}}}}}]",
        {"tavily": "TAVILY_API_KEY"},
    ),
}


@pytest.mark.parametrize("place", OWN_ADDRESSES)
def test_permission_for_an_address_is_for_the_key_of_the_environment_that_goes_there(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A config whose address was allowed changed its model, and the address got another provider's key, unasked."""
    text, keys = OWN_ADDRESSES[place]
    config = tmp_path / "zeus.yaml"
    for name in keys.values():
        monkeypatch.delenv(name, raising=False)

    def part(provider: str) -> Part:
        config.write_text(f"version: 1\n{text.format(provider)}\n")
        (found,) = all_parts(examine_config(config, directory=tmp_path, environ=os.environ))
        return found

    without = {part(provider).digest for provider in keys}
    for name in keys.values():
        monkeypatch.setenv(name, "canary-0123456789")
    for provider, name in keys.items():
        assert ("with", f"your {name}") in part(provider).lines
    digests = {part(provider).digest for provider in keys}
    assert len(digests) == len(keys)
    assert digests.isdisjoint(without)
    for name in keys.values():
        monkeypatch.setenv(name, "another-0123456789")
    assert {part(provider).digest for provider in keys} == digests


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("model: vertex_ai/m", ["account at Google"]),
        ("model: vertex_ai/m, api_key: k", ["account at Google"]),
        ("model: bedrock/m", ["account at AWS"]),
        ("model: bedrock/m, api_key: k", []),
    ],
)
def test_a_sign_in_from_files_of_the_users_is_told(
    written: str, shown: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in os.environ:
        if name.startswith(("AWS_", "GOOGLE_", "VERTEX")):
            monkeypatch.delenv(name)
    config = tmp_path / "zeus.yaml"
    config.write_text(f"version: 1\nmodel: {{litellm: {{{written}, api_base: '{BASE}'}}}}\n")
    (part,) = all_parts(examine_config(config, directory=tmp_path, environ=os.environ))
    assert [text for label, text in part.lines if label == "with"] == [f"your {each}" for each in shown]


@pytest.mark.parametrize(
    ("line", "is_told"),
    [
        ("storage: {url: 'postgresql://ann@db.example/x'}", True),
        ("storage: {url: 'postgresql+psycopg://db.example:5432/x'}", True),
        ("checkpointer: {postgres: {url: 'postgresql://ann@db.example/x'}}", True),
        ("storage: {url: 'postgresql://ann:word@db.example/x'}", False),
    ],
)
def test_a_database_elsewhere_is_told_with_the_password_that_its_library_takes(
    line: str, is_told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "zeus.yaml"
    config.write_text(f"version: 1\nmodel: gpt-4o\n{line}\n")
    monkeypatch.delenv("PGPASSWORD", raising=False)
    (without,) = all_parts(examine_config(config, directory=tmp_path, environ=os.environ))
    monkeypatch.setenv("PGPASSWORD", "canary-0123456789")
    (part,) = all_parts(examine_config(config, directory=tmp_path, environ=os.environ))
    assert (("with", "your PGPASSWORD") in part.lines) == is_told
    assert (part.digest != without.digest) == is_told


@pytest.mark.parametrize(
    ("variables", "options", "told"),
    [
        ({"HOME": "home"}, "", "password file ~/.pgpass"),
        ({"HOME": "home", "PGPASSFILE": "words"}, "", "PGPASSFILE"),
        ({"HOME": "home", "PGPASSFILE": "absent"}, "", ""),
        ({"HOME": "home", "PGPASSWORD": "canary-0123456789"}, "", "PGPASSWORD"),
        ({}, "?passfile=/home/ann/words", "password file"),
        ({"PGSERVICE": "far", "HOME": "home"}, "", "PGSERVICE, password file ~/.pgpass"),
        ({"PGSERVICE": "far"}, "?service=near", "account in pg_service.conf"),
        ({}, "?connect_timeout=5", ""),
    ],
)
def test_a_database_elsewhere_is_told_with_the_files_that_its_library_reads(
    variables: dict[str, str], options: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    for name in ("home/.pgpass", "words"):
        (tmp_path / name).write_text("*:*:*:*:canary-0123456789\n")
    for name in ("PGPASSWORD", "PGPASSFILE", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(default_keys, "home_folders", lambda environ: (Path(environ["HOME"]),))
    config = tmp_path / "project" / "zeus.yaml"
    config.parent.mkdir()

    def part(url: str) -> Part:
        config.write_text(f"version: 1\nmodel: gpt-4o\nstorage: {{url: '{url}{options}'}}\n")
        (found,) = all_parts(examine_config(config, directory=config.parent, environ=os.environ))
        return found

    url = "postgresql://ann@db.example/x"
    monkeypatch.setenv("HOME", str(tmp_path))
    without = part(url)
    for name, value in variables.items():
        monkeypatch.setenv(name, value if name == "PGPASSWORD" else str(tmp_path / value))
    found = part(url)
    assert [text for label, text in found.lines if label == "with"] == ([f"your {told}"] if told else [])
    assert (found.digest != without.digest) == (bool(told) and not options)
    assert "with" not in dict(part(url.replace("ann@", "ann:word@")).lines)


def test_a_key_that_a_config_brings_is_not_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    config = tmp_path / "zeus.yaml"
    config.write_text(f"version: 1\nmodel: {{litellm: {{model: openai/m, api_base: '{BASE}'}}}}\n")
    (tmp_path / ".env").write_text("OPENAI_API_KEY=sk-0123456789\n")
    (found,) = all_parts(examine_config(config, directory=tmp_path, environ=os.environ))
    assert dict(found.lines).keys() == {"sends to"}
    monkeypatch.setenv("OPENAI_API_KEY", "canary-0123456789")
    config.write_text(
        f"version: 1\nmodel: {{litellm: {{model: openai/m, api_base: '{BASE}', api_key: k}}}}\n"
    )
    (found,) = all_parts(examine_config(config, directory=tmp_path, environ=os.environ))
    assert dict(found.lines).keys() == {"sends to"}


ASKED = {
    "aws_profile_name: production": [("aws_profile_name", "production")],
    "vertex_project: theirs": [("vertex_project", "theirs")],
    "use_xai_oauth: true": [("use_xai_oauth", "true")],
    "no_such_name: 3": [("no_such_name", "3")],
    "extra_body: {top_k: 3, more: [1, x]}": [
        ("extra_body.top_k", "3"),
        ("extra_body.more.0", "1"),
        ("extra_body.more.1", "x"),
    ],
    "aws_secret_access_key: brought-by-it-0123": [("aws_secret_access_key", "**********")],
    # Parts of other kinds have these, and no second one.
    "vertex_credentials: creds.json": [],
    "anthropic_issuer_url: 'https://elsewhere.example'": [],
    "anthropic_issuer_url: 'http://localhost:9'": [],
    "client_secret_ref: GITHUB_TOKEN": [],
    # The request's own parameters.
    "seed: 1": [],
    "metadata: {anything: at all, and: [more]}": [],
    "num_ctx: 32768": [],
    "api_version: '2025-04-01'": [],
}


@pytest.mark.parametrize("written", ASKED)
def test_a_parameter_that_may_choose_an_account_or_a_connection_asks(
    written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's config signed requests with another profile of the user, unasked."""
    monkeypatch.setenv("GITHUB_TOKEN", "canary-0123456789")
    (tmp_path / "creds.json").write_text("{}")
    config = tmp_path / "zeus.yaml"
    config.write_text(f"version: 1\nmodel: {{litellm: {{model: bedrock/m, extra: {{{written}}}}}}}\n")
    parts = all_parts(examine_config(config, directory=tmp_path, environ=os.environ))
    found = [each for each in parts if [name for name, _ in each.lines] == ["value"]]
    assert [each.name for each in found] == [f"model.litellm.extra.{name}" for name, _ in ASKED[written]]
    shown = [dict(each.lines)["value"] for each in found]
    assert [MASK if "secret" in each else each for each in shown] == [text for _, text in ASKED[written]]
    assert len(parts) <= max(1, len(found))


def test_a_parameters_digest_is_of_its_place_and_value(tmp_path: Path) -> None:
    config = tmp_path / "zeus.yaml"
    found = set()
    for written in (
        "extra: {use: false}",
        "extra: {use: 'false'}",
        "extra: {use: true}",
        "extra: {other: true}",
        "query_extra: {use: true}",
    ):
        config.write_text(
            "version: 1\nmodel: gpt-4o\n"
            f"memory: {{embeddings: {{litellm: {{model: openai/e, dimension: 8, {written}}}}}}}\n"
        )
        found.add(digests(config, tmp_path))
    assert len(found) == 5
    assert "" not in found


TAKING = """
    from typing import Annotated
    from pydantic import BaseModel
    from zeus_runtime.plugin import Component, Destination, hookimpl

    class Options(BaseModel):
        url: Annotated[str, Destination()] = "https://api.acme.example"

        def default_keys(self):
            return [self.no_such_name if self.url.endswith("/broken") else "ACME_TOKEN"]

    @hookimpl
    def register_tools():
        return [Component("acme", create=lambda options, context: [], options=Options, summary="Asks Acme.")]
"""


def test_an_installed_plugin_tells_the_keys_that_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(tmp_path / "site", "acme", plugins={"acme": "own_acme"}, files={"own_acme.py": TAKING})
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("ACME_TOKEN", "canary-0123456789")
    config = tmp_path / "zeus.yaml"
    config.write_text(f"version: 1\nmodel: gpt-4o\ntools: [{{acme: {{url: '{BASE}'}}}}]\n")
    (found,) = all_parts(examine_config(config, directory=tmp_path, environ=os.environ))
    assert found.lines == (("sends to", BASE), ("with", "your ACME_TOKEN"))
    config.write_text("version: 1\nmodel: gpt-4o\ntools: [{acme: {url: 'https://x.example/broken'}}]\n")
    with pytest.raises(MissingError, match="default_keys raised AttributeError"):
        examine_config(config, directory=tmp_path, environ=os.environ)


def test_what_agents_share_is_asked_once_and_planned_with_that_permission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "notes.md").write_text("notes")
    (folder / "sub.yaml").write_text("version: 1\nmodel: gpt-4o\ntools: [{shell: {contain: none}}]\n")
    config = folder / "zeus.yaml"
    config.write_text(
        "version: 1\n"
        f"model: {{litellm: {{model: openai/m, api_base: '{BASE}'}}}}\n"
        f"models: {{subagents: {{litellm: {{model: openai/n, api_base: '{BASE}'}}}}}}\n"
        "workspace: {access: {.git/config: write}}\n"
        "tools: [filesystem, {shell: {contain: none}}, subagents]\n"
        "agents:\n"
        "  plain: {description: d}\n"
        "  other: {description: d, overrides: {limits: {max_steps: 3}}, instructions: {file: ../notes.md}}\n"
        "  one: {description: d, config: ./sub.yaml}\n"
        "  two: {description: d, config: ./sub.yaml, overrides: {model: gpt-5}}\n"
    )
    monkeypatch.setenv("ZEUS_TRUST", digests(config, folder))
    checked = examine_config(config, directory=folder, environ=os.environ)
    assert sorted(each.name for each in all_parts(checked)) == [
        "agents.other.instructions.file",
        "model.litellm.api_base",
        "models.subagents.litellm.api_base",
        "sub.yaml: tools.0.shell.contain",
        "tools.1.shell.contain",
        'workspace.access.".git/config"',
    ]
    Agent.from_config(config, directory=folder)


def test_a_value_has_the_address_of_the_config_and_the_key_that_it_is_written_at(tmp_path: Path) -> None:
    config = tmp_path / "zeus.yaml"
    config.write_text(
        "version: 1\nmodel: gpt-4o\nagents:\n"
        "  a: {description: d, overrides: {limits: {max_steps: 3}}}\n"
        "  b:\n"
        "    description: d\n"
        "    config: ./sub.yaml\n"
        "    overrides: {agents: {c: {overrides: {limits: {max_steps: 4}}}}}\n"
    )
    (tmp_path / "sub.yaml").write_text(
        "version: 1\nmodel: gpt-4o\n"
        "agents: {c: {description: d, overrides: {mode: plan, limits: {max_parallel_tools: 5}}}}\n"
    )
    checked = examine_config(config, directory=tmp_path, environ=os.environ)
    a, b, c = (each.document for each in agents_below(checked))
    steps, parallel, model = ("limits", "max_steps"), ("limits", "max_parallel_tools"), ("model",)
    addresses = [each.address(path) for each in (a, b, c) for path in (steps, model, ("storage", "url"))]
    assert addresses == [
        *("agents.a.overrides.limits.max_steps", "model", "storage.url"),
        *("sub.yaml: limits.max_steps", "sub.yaml: model", "sub.yaml: storage.url"),
        "agents.b.overrides.agents.c.overrides.limits.max_steps",
        *("sub.yaml: model", "sub.yaml: storage.url"),
    ]
    assert c.address(parallel) == "sub.yaml: agents.c.overrides.limits.max_parallel_tools"


PRIVATE = "PRIVATE-TEXT-OF-ANN"


def write_linked_home(folder: Path, way: str) -> tuple[Path, dict[str, object]]:
    """A project whose Home leads to a file elsewhere; returns the file, and the config's further keys."""
    private = folder / "home/.private"
    private.mkdir(parents=True)
    (private / "SOUL.md").write_text(PRIVATE)
    (private / "profiles.yaml").write_text("models: {}\n")
    (private / "SKILL.md").write_text(f"---\nname: private\ndescription: {PRIVATE}\n---\nbody\n")
    project = folder / "project"
    places = {
        "prompt": (".zeus/prompts/SOUL.md", "SOUL.md"),
        "prompts": (".zeus/prompts", "."),
        "named home": ("vendor/prompts/SOUL.md", "SOUL.md"),
        "skill": (".zeus/skills/private", "."),
        "claude's skill": (".claude/skills/private", "."),
        "summary's prompt": (".zeus/prompts/brief.md", "SOUL.md"),
        "connector's prompt": (".zeus/prompts/DESKTOP.md", "SOUL.md"),
        "profiles": (".zeus/configs/profiles.yaml", "profiles.yaml"),
    }
    link, target = places[way]
    (project / link).parent.mkdir(parents=True)
    (project / link).symlink_to(private / target)
    more: dict[str, object] = {"homes": ["vendor"]} if way == "named home" else {}
    if "skill" in way:
        more["middlewares"] = [{"skills": {"trust_project": True}}]
    if "summary" in way:
        more["middlewares"] = [{"summarization": {"prompt": "brief.md"}}]
    return project, more


@pytest.mark.parametrize(
    "way",
    [
        *("prompt", "prompts", "named home", "skill", "claude's skill"),
        *("summary's prompt", "connector's prompt", "profiles"),
    ],
)
def test_a_link_in_a_projects_home_makes_no_file_elsewhere_part_of_the_prompt(
    tmp_path: Path, way: str
) -> None:
    project, more = write_linked_home(tmp_path, way)
    config = project / "zeus.yaml"
    config.write_text(json.dumps({"version": 1, "model": "gpt-4o", **more}))
    with pytest.raises(
        UntrustedError, match=r"file .*(SOUL|SKILL|brief|DESKTOP|profiles)\.(md|yaml)"
    ) as refused:
        Agent.from_config(config, directory=project)
    shown = [text for part in refused.value.parts for label, text in part.lines if label == "reads"]
    assert str(tmp_path / "home/.private") in shown[0]


ENCODER = {"memory": {"embeddings": {"onnx": {"path": "model", "file": "deep/model.onnx"}}}}


def write_encoder(folder: Path, *links: tuple[str, Path]) -> Path:
    """A project with the folder of an embedding model, some of whose files and folders are links; its config."""
    project = folder / "project"
    (project / "model").mkdir(parents=True)
    for link, target in links:
        (project / "model" / link).symlink_to(target)
    config = project / "zeus.yaml"
    config.write_text(json.dumps({"version": 1, "model": "gpt-4o", **ENCODER}))
    return config


@pytest.mark.parametrize("link", ["tokenizer.json", "deep", "a/b/c/d/e/f/g/h/i/model.onnx"])
def test_a_config_asks_before_a_component_reads_through_links_in_a_folder_that_it_names(
    tmp_path: Path, link: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "model.onnx").write_text("{}")
    config = write_encoder(tmp_path)
    place = config.parent / "model" / link
    place.parent.mkdir(parents=True, exist_ok=True)
    target = elsewhere / "model.onnx" if place.suffix else elsewhere
    place.symlink_to(target)
    with pytest.raises(UntrustedError, match=r"memory\.embeddings\.onnx\.path") as refused:
        Agent.from_config(config, directory=config.parent)
    (shown,) = [text for part in refused.value.parts for label, text in part.lines if label == "reads"]
    assert shown == str(elsewhere / "model.onnx")


@pytest.mark.parametrize("option", [("docker", "folder"), ("bubblewrap", "rootfs")])
@pytest.mark.parametrize("link", ["box", "late"])
def test_permission_for_the_folder_of_a_sandbox_ends_where_a_link_leads_elsewhere(
    tmp_path: Path, link: str, option: tuple[str, str]
) -> None:
    """A command may have made the link, and the next run would write, or show, the files where it leads."""
    (tmp_path / "project").mkdir()
    (tmp_path / "here").symlink_to("project")  # a link above the project changes nothing
    config = tmp_path / "here" / "zeus.yaml"
    folder = {"box": "box", "late": "./late/box"}[link]
    tools = [{"sandbox": {"backend": {option[0]: {option[1]: folder}}}}]
    config.write_text(json.dumps({"version": 1, "model": "gpt-4o", "tools": tools}))

    def lines() -> tuple[tuple[str, str], ...]:
        with pytest.raises(UntrustedError) as refused:
            Agent.from_config(config, directory=config.parent)
        (part,) = refused.value.parts
        return (("digest", part.digest), *part.lines)

    before = lines()
    assert before[1:] == (("value", folder),)
    (tmp_path / "elsewhere").mkdir()
    (config.parent / link).symlink_to(tmp_path / "elsewhere")
    end = "" if link == "box" else "/box"
    assert lines()[1:] == (("value", folder), ("leads to", f"{tmp_path}/elsewhere{end}"))
    assert lines()[0] != before[0]


def test_a_folder_elsewhere_is_asked_for_once(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    for name in ("model.onnx", "tokenizer.json"):
        (tmp_path / "elsewhere" / name).write_text("{}")
    config = write_encoder(tmp_path)
    (config.parent / "model").rmdir()
    (config.parent / "model").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UntrustedError) as refused:
        Agent.from_config(config, directory=config.parent)
    (part,) = refused.value.parts
    assert part.lines[0] == ("reads", str(tmp_path / "elsewhere"))


def test_a_config_asks_for_a_folder_with_too_many_files_to_look_at(tmp_path: Path) -> None:
    config = write_encoder(tmp_path)
    for number in range(1_001):
        (config.parent / f"model/{number}").touch()
    with pytest.raises(UntrustedError, match=r"memory\.embeddings\.onnx\.path") as refused:
        Agent.from_config(config, directory=config.parent)
    (part,) = refused.value.parts
    assert part.lines[0] == ("reads", str(config.parent / "model"))


def test_links_of_a_named_folder_within_the_project_ask_nothing(tmp_path: Path) -> None:
    config = write_encoder(tmp_path, ("tokenizer.json", Path("../shared.json")), ("deep", Path("../weights")))
    (config.parent / "shared.json").write_text("{}")
    (config.parent / "weights").mkdir()
    (config.parent / "weights/model.onnx").write_text("{}")
    assert digests(config, config.parent) == ""


def test_links_within_the_project_and_in_the_users_own_home_ask_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    dotfiles, own, project = tmp_path / "dotfiles", tmp_path / "config/zeus", tmp_path / "project"
    for folder in (dotfiles, own, project / "shared", project / ".zeus"):
        folder.mkdir(parents=True)
    (dotfiles / "SOUL.md").write_text("Own.")
    (own / "prompts").symlink_to(dotfiles)
    (project / "shared/SOUL.md").write_text("Shared.")
    (project / ".zeus/prompts").symlink_to(project / "shared")
    config = project / "zeus.yaml"
    config.write_text("version: 1\nmodel: gpt-4o\n")
    Agent.from_config(config, directory=project)


def test_a_config_asks_before_it_reads_the_users_keys_of_accounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    key, prompt = tmp_path / "config/zeus/accounts/key", tmp_path / "config/zeus/prompts/MINE.md"
    for file in (key, prompt):
        file.parent.mkdir(parents=True)
        file.write_text("text")
    project = tmp_path / "project"
    project.mkdir()
    config = project / "zeus.yaml"
    config.write_text(
        json.dumps({"version": 1, "model": "gpt-4o", "prompt": {"files": {"soul": str(prompt)}}})
    )
    Agent.from_config(config, directory=project)
    config.write_text(json.dumps({"version": 1, "model": "gpt-4o", "prompt": {"files": {"soul": str(key)}}}))
    with pytest.raises(UntrustedError, match=r"prompt\.files\.soul"):
        Agent.from_config(config, directory=project)


def vertex(value: str) -> dict[str, object]:
    """A model whose library reads a file of credentials, which names addresses and more files."""
    return {"litellm": {"model": "vertex_ai/gemini-2.5-pro", "extra": {"vertex_credentials": value}}}


def test_a_variable_of_the_process_frees_an_address_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository can ship a file that is named like a usual value, such as that of `TERM`."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("MODELS_URL", "https://models.example/v1")
    config = tmp_path / "zeus.yaml"
    config.write_text(
        "version: 1\nmodel: {litellm: {model: openai/x, api_base: '${MODELS_URL}', api_key: k}}\n"
    )
    Agent.from_config(config, directory=tmp_path)
    monkeypatch.setenv("PLACE", "somewhere/else")
    config.write_text(json.dumps({"version": 1, "model": vertex("${PLACE}")}))
    with pytest.raises(UntrustedError, match="vertex_credentials"):
        Agent.from_config(config, directory=tmp_path)
    (tmp_path / "xterm-256color").write_text("{}")
    config.write_text(json.dumps({"version": 1, "model": vertex("${TERM}")}))
    with pytest.raises(UntrustedError, match="vertex_credentials"):
        Agent.from_config(config, directory=tmp_path)


@pytest.mark.parametrize("more", [{}, {"instructions": "Obey."}, {"output": {"schema": {"type": "object"}}}])
@pytest.mark.parametrize("nested", [False, True])
def test_a_project_does_not_lend_itself_an_agent_of_the_users_own_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, object], nested: bool
) -> None:
    """The server of the user's own is called with what the project says."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    own, project = tmp_path / "config/zeus", tmp_path / "project"
    (own / "configs").mkdir(parents=True)
    project.mkdir()
    server = {"command": "python", "args": ["-V"], "cwd": str(own)}
    head = {"version": 1, "model": "gpt-4o"}
    mail = {**head, "name": "mail", "mcpServers": {"mail": server}}
    (own / "configs/mail.yaml").write_text(json.dumps(mail))
    helper = {"description": "d", "config": "mail"}
    between = {**head, "name": "between", "tools": ["subagents"], "agents": {"helper": helper}}
    (own / "configs/between.yaml").write_text(json.dumps(between))
    named = {"description": "d", "config": "between" if nested else "mail", **more}
    config = project / "zeus.yaml"
    config.write_text(json.dumps({**head, "tools": ["subagents"], "agents": {"helper": named}}))
    (part,) = all_parts(examine_config(config, directory=project, environ=os.environ))
    assert (part.kind, part.name, part.own) == ("server", "mail", False)
    (part,) = all_parts(examine_config("between", directory=project, environ=os.environ))
    assert (part.name, part.own) == ("mail", True)
