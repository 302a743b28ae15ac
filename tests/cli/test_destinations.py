"""Where a config sends data: another machine receives it only after the user has allowed it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Project, Zeus

_SCHEMA = Path(__file__).parents[2] / "schemas" / "zeus.schema.json"


@pytest.fixture(autouse=True)
def _nothing_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZEUS_TRUST")


ELSEWHERE = "https://x.example/v1"


def asked(project: Project, zeus: Zeus, more: str) -> list[str]:
    """The names of the parts for which the user is asked."""
    project.write("zeus.yaml", f"version: 1\n{more}\n")
    return [line.split("'")[1] for line in zeus("trust").err.splitlines() if line.startswith(_KINDS)]


_KINDS = ("destination", "MCP server", "option")


@pytest.mark.parametrize(
    ("more", "names"),
    [
        (f"model: {{litellm: {{model: openai/x, api_base: '{ELSEWHERE}'}}}}", ["model.litellm.api_base"]),
        ("model: huggingface/https://x.example/x", ["model"]),
        ("model: {litellm: {model: huggingface/https://x.example/x}}", ["model.litellm.model"]),
        (
            "model: {litellm: {model: vertex_ai/x, extra: {vertex_location: 'x.example/', a: [{b: 'c/d'}]}}}",
            ["model.litellm.extra.vertex_location", "model.litellm.extra.a.0.b"],
        ),
        ("model: {litellm: {model: openai/x, extra: {seed: 1, reasoning_effort: high}}}", []),
        ("model: bedrock/agentcore/arn:aws:bedrock-agentcore:x.example:1:runtime/x", ["model"]),
        ("model: bedrock/agentcore/x.example#", ["model"]),
        ("model: {replay: {cassette: zeus.yaml}}", []),
        ("model: {litellm: {model: openai/x, api_base: 'http://localhost:8000/v1'}}", []),
        (
            "model: {litellm: {model: openai/x, headers: {X-Host: evil, X-Team: shop}}}",
            ["model.litellm.headers.X-Host", "model.litellm.headers.X-Team"],
        ),
        (
            "model: {litellm: {model: x, api_base: 'http://localhost', headers: {X-Host: 'http://localhost'}}}",
            ["model.litellm.headers.X-Host"],
        ),
        (
            f"model: {{litellm: {{model: x, api_base: '{ELSEWHERE}', headers: {{X-Host: evil}}}}}}",
            ["model.litellm.api_base"],
        ),
        (
            "model: gpt-4o\nmodels: {summary: {litellm: {model: gpt-4o, headers: {X-Host: evil}}}}",
            ["models.summary.litellm.headers.X-Host"],
        ),
        (
            "model: gpt-4o\nmiddlewares: [{hooks: {before_run: [{url: 'http://[::1]/', headers: {X-Host: evil}}]}}]",
            ["middlewares.0.hooks.before_run.0.headers.X-Host"],
        ),
        (
            "model: gpt-4o\nmemory: {user: u, embeddings: {litellm: {extra: {extra_headers: {X-Host: evil, B: c/d}}}}}",
            [
                "memory.embeddings.litellm.extra.extra_headers.B",
                "memory.embeddings.litellm.extra.extra_headers.X-Host",
            ],
        ),
        ("model: gpt-4o\nx-headers: {X-Team: shop}", []),
        ("model: {litellm: {model: openai/x, api_base: 'http://127.0.0.1:8000/v1'}}", []),
        ("model: {litellm: {model: openai/x, api_base: 'http://[::1]:8000'}}", []),
        (
            "model: {litellm: {model: openai/x, api_base: 'http://localhost@x.example'}}",
            ["model.litellm.api_base"],
        ),
        (
            "model: {litellm: {model: openai/x, api_base: 'http://localhost\\@x.example'}}",
            ["model.litellm.api_base"],
        ),
        (
            "model: {litellm: {model: openai/x, api_base: 'http://localhost.x.example'}}",
            ["model.litellm.api_base"],
        ),
        (
            f"model: gpt-4o\nmemory: {{user: u, embeddings: {{litellm: {{api_base: '{ELSEWHERE}'}}}}}}",
            ["memory.embeddings.litellm.api_base"],
        ),
        (
            f"model: gpt-4o\ntools: [{{web: {{search: {{tavily: {{base_url: '{ELSEWHERE}'}}}}}}}}]",
            ["tools.0.web.search.tavily.base_url"],
        ),
        (
            "model: gpt-4o\ntools: [{web: {search: {tavily: {base_url: 'https://api.tavily.com'}}}}]",
            [],
        ),
        ("model: gpt-4o\ntools: [web]", []),
        (
            "model: gpt-4o\ntools: [{web: {allow_private: [169.254.0.0/16, '127.0.0.1:80']}}]",
            ["tools.0.web.allow_private.0", "tools.0.web.allow_private.1"],
        ),
        ("model: gpt-4o\nstorage: {url: 'postgresql://u@x.example/d'}", ["storage.url"]),
        ("model: gpt-4o\nstorage: {url: 'postgresql://u@localhost/d'}", []),
        ("model: gpt-4o\nstorage: {url: 'postgresql:///d'}", ["storage.url"]),
        ("model: gpt-4o\ncheckpointer: {postgres: {url: 'postgres://'}}", ["checkpointer.postgres.url"]),
        ("model: gpt-4o\nstorage: {url: 'postgresql://u@localhost/d?host=x.example'}", ["storage.url"]),
        (
            "model: gpt-4o\ncheckpointer: {postgres: {url: 'postgresql://x.example/d'}}",
            ["checkpointer.postgres.url"],
        ),
        (
            "model: gpt-4o\ntools: [{sandbox: {backend: {docker: {image: x.example/x}}}}]",
            ["tools.0.sandbox.backend.docker.image"],
        ),
        (f"model: gpt-4o\nmcpServers: {{far: {{url: '{ELSEWHERE}'}}}}", ["far"]),
        (f"model: gpt-4o\nmcpServers: {{far: {{serverUrl: '{ELSEWHERE}'}}}}", ["far"]),
        ("model: gpt-4o\nmcpServers: {near: {url: 'http://localhost:1/mcp'}}", []),
        ("model: gpt-4o\nmcpServers: {github: {preset: github}}", ["github"]),
        ("model: gpt-4o\nmcpServers: {near: {url: 'http://localhost:1/mcp', auth: oauth}}", ["near"]),
        (
            "model: gpt-4o\ntools: [subagents]\n"
            f"agents: {{a: {{description: d, overrides: {{model: {{litellm: {{model: openai/x, api_base:"
            f" '{ELSEWHERE}'}}}}}}}}}}",
            ["agents.a.overrides.model.litellm.api_base"],
        ),
    ],
)
def test_another_machine_is_asked_for(project: Project, zeus: Zeus, more: str, names: list[str]) -> None:
    assert asked(project, zeus, more) == names


@pytest.mark.parametrize(
    "config",
    [
        "model: gpt-4o\nmiddlewares: [{hooks: {before_run: [{url: 'https://x.example/h', headers: HEADERS}]}}]",
        f"model: {{litellm: {{model: openai/x, api_base: '{ELSEWHERE}', headers: HEADERS}}}}",
    ],
    ids=["hook", "model"],
)
def test_headers_that_go_to_another_machine_are_shown_by_name_and_ask_again_when_they_change(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch, config: str
) -> None:
    def write(headers: str) -> None:
        project.write("zeus.yaml", f"version: 1\n{config.replace('HEADERS', headers)}\n")

    write("{X-Team: shop}")
    digest = zeus("trust", "--print").out.strip()
    monkeypatch.setenv("ZEUS_TRUST", digest)
    assert zeus("validate").exit_code == 0
    # A file of the project may name any variable of the machine, and send its value there.
    monkeypatch.setenv("CLOUD_KEY", "0815-4711-secret")
    write("{X-Team: shop, X-More: '${CLOUD_KEY}'}")
    assert zeus("validate").exit_code == 4
    shown = zeus("trust").err
    assert "X-More: **********" in shown
    assert "4711" not in shown
    write("{X-Team: '${CLOUD_KEY}'}")
    assert zeus("validate").exit_code == 4


@pytest.mark.parametrize("address", ["", "api_base: 'http://localhost:1', "])
def test_a_header_asks_whatever_the_address_is_and_again_when_it_changes(
    project: Project, zeus: Zeus, address: str
) -> None:
    """A gateway that the user's own variable names may send the request on to where a header says."""
    text = f"version: 1\nmodel: {{litellm: {{model: openai/x, {address}headers: {{X.Host: %s}}}}}}\n"
    project.write("zeus.yaml", text % "somewhere.example")
    assert zeus("run", "zeus.yaml", "hi").exit_code == 4
    shown = zeus("trust").err
    assert "X.Host: **********" in shown
    assert "somewhere" not in shown
    assert zeus("validate").exit_code == 0
    project.write("zeus.yaml", text % "elsewhere.example")
    assert zeus("validate").exit_code == 4


def test_the_headers_of_the_users_own_config_ask_nothing(project: Project, zeus: Zeus) -> None:
    own = project.folder.parent / "home/.config/zeus/configs/mine.yaml"
    project.write(str(own), "version: 1\nmodel: {litellm: {model: openai/x, headers: {X-Team: shop}}}\n")
    assert zeus("trust", "--print", "mine").out.strip() == ""


def test_nothing_is_done_with_a_config_that_sends_elsewhere_until_it_is_allowed(
    project: Project, zeus: Zeus
) -> None:
    project.write(
        "zeus.yaml", f"version: 1\nmodel: {{litellm: {{model: openai/x, api_base: '{ELSEWHERE}'}}}}\n"
    )
    result = zeus("run", "zeus.yaml", "hi")
    assert result.exit_code == 4
    assert "destination 'model.litellm.api_base' is not trusted" in result.err
    assert zeus("validate").exit_code == 4
    zeus("trust")
    assert zeus("validate").exit_code == 0
    project.write(
        "zeus.yaml", "version: 1\nmodel: {litellm: {model: openai/x, api_base: 'https://y.example'}}\n"
    )
    assert zeus("validate").exit_code == 4


def test_an_address_that_the_process_was_given_needs_no_permission(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "model: {litellm: {model: openai/x, api_base: '%s'}}"
    monkeypatch.setenv("MY_MODELS", ELSEWHERE)
    assert asked(project, zeus, text % "${MY_MODELS}") == []
    assert asked(project, zeus, text % "${MY_MODELS}/x") == ["model.litellm.api_base"]
    monkeypatch.delenv("MY_MODELS")
    project.write(".env", f"MY_MODELS={ELSEWHERE}")
    assert asked(project, zeus, text % "${MY_MODELS}") == ["model.litellm.api_base"]


def test_a_projects_env_file_does_not_say_which_machine_gets_the_key(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdefghij")
    project.write("zeus.yaml", "version: 1\nmodel: openai/gpt-4o\n")
    project.write(".env", "OPENAI_API_BASE=http://127.0.0.1:9")
    result = zeus("run", "zeus.yaml", "hi")
    assert "model.litellm.api_base: ${OPENAI_API_BASE}" in result.err
    assert result.exit_code


def test_what_a_remote_server_is_told_is_shown_masked_and_covered(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdefghij")
    text = "model: gpt-4o\nmcpServers: {far: {url: 'https://x.example/mcp', headers: {X: '%s'}}}"
    project.write("zeus.yaml", f"version: 1\n{text % 'a'}\n")
    zeus("trust")
    project.write("zeus.yaml", f"version: 1\n{text % '${OPENAI_API_KEY}'}\n")
    result = zeus("run", "zeus.yaml", "hi")
    assert (result.exit_code, "MCP server 'far' is not trusted" in result.err) == (4, True)
    shown = zeus("trust").err
    assert "https://x.example/mcp" in shown
    assert "sk-0123456789abcdefghij" not in shown


def test_an_account_of_an_untrusted_server_is_not_logged_in(project: Project, zeus: Zeus) -> None:
    project.write(
        "zeus.yaml",
        "version: 1\nmodel: gpt-4o\nmcpServers: {far: {url: 'https://x.invalid/mcp', auth: oauth}}\n",
    )
    result = zeus("auth", "login", "far", "--no-browser")
    assert (result.exit_code, "MCP server 'far' is not trusted" in result.err) == (4, True)


def test_the_account_of_another_server_is_asked_for(project: Project, zeus: Zeus) -> None:
    """A server's name chooses the account, so permission for one is none for another."""
    text = "version: 1\nmodel: gpt-4o\nmcpServers: {%s: {preset: github}}\n"
    project.write("zeus.yaml", text % "mine")
    assert "uses yours for 'mine' at this address" in zeus("trust").err
    project.write("zeus.yaml", text % "github")
    result = zeus("tools", "list", "--connect")
    assert (result.exit_code, "MCP server 'github' is not trusted" in result.err) == (4, True)


def test_the_users_own_config_uses_their_account_unasked(project: Project, zeus: Zeus) -> None:
    own = project.folder.parent / "home/.config/zeus/configs/mine.yaml"
    project.write(str(own), "version: 1\nmodel: gpt-4o\nmcpServers: {github: {preset: github}}\n")
    assert zeus("trust", "--print", "mine").out.strip() == ""


MARKS = ("x-zeus-destination", "x-zeus-executes", "x-zeus-file-relative", "x-zeus-work-relative")

LOOKED_AT = """
metadata agents/*/overrides
name description instructions/anyOf/0 project_instructions/anyOf/1/files prompt/variables/* prompt/time/timezone
agents/*/description agents/*/config agents/*/instructions/anyOf/0 output/schema/anyOf/2 agents/*/output/schema/anyOf/2
mcpServers/*/command mcpServers/*/args mcpServers/*/env/* mcpServers/*/cwd mcpServers/*/url mcpServers/*/serverUrl
mcpServers/*/httpUrl mcpServers/*/headers/* mcpServers/*/oauth/client_id
mcpServers/*/oauth/client_secret mcpServers/*/oauth/issuer mcpServers/*/oauth/scopes mcpServers/*/prefix
mcpServers/*/allow mcpServers/*/deny
mcpServers/*/prompts/*/* mcpServers/*/includeTools mcpServers/*/excludeTools mcpServers/*/disabledTools
mcpServers/*/autoApprove mcpServers/*/alwaysAllow mcpServers/*/envFile connectors/browser/server
connectors/desktop/server workspace/hard_links memory/user memory/project knowledge plugins/disable plugins/only
extends
embedding.litellm/api_key embedding.onnx/file embedding.onnx/query_prefix embedding.onnx/memory_prefix
middleware.approve/allow/anyOf/0 middleware.approve/allow/anyOf/1/*/*/anyOf/0
middleware.approve/allow/anyOf/1/*/*/anyOf/4 middleware.approve/ask/anyOf/0 middleware.approve/ask/anyOf/1/*/*/anyOf/0
middleware.approve/ask/anyOf/1/*/*/anyOf/4 middleware.approve/deny/anyOf/0
middleware.approve/deny/anyOf/1/*/*/anyOf/0 middleware.approve/deny/anyOf/1/*/*/anyOf/4
middleware.dedupe/exclude middleware.eviction/exclude middleware.local_context/ignore middleware.pins/patterns
middleware.pins/tools middleware.summarization/cheaper_first middleware.summarization/prompt
middleware.truncation/truncation_text middleware.truncation/arguments/* model.litellm/api_key model.litellm/headers/*
vector_store.chroma/headers/*
mcpServers/*/data sandbox.ssh/passphrase sandbox.ssh/password search.duckduckgo/region search.tavily/api_key
tool.filesystem/ignore tool.filesystem/protected tool.web/allow_hosts tool.web/deny_hosts
tool.web/user_agent
middleware.hooks/before_run/headers/* middleware.hooks/before_model_call/headers/*
middleware.hooks/after_model_call/headers/* middleware.hooks/before_tool_call/headers/*
middleware.hooks/after_tool_call/headers/* middleware.hooks/after_run/headers/*
middleware.hooks/before_tool_call/match/tool/anyOf/0 middleware.hooks/before_tool_call/match/tool/anyOf/1
middleware.hooks/before_tool_call/match/path/anyOf/0 middleware.hooks/before_tool_call/match/path/anyOf/1
middleware.hooks/after_tool_call/match/tool/anyOf/0 middleware.hooks/after_tool_call/match/tool/anyOf/1
middleware.hooks/after_tool_call/match/path/anyOf/0 middleware.hooks/after_tool_call/match/path/anyOf/1
"""
"""Options that name neither a program nor another machine nor a file, or whose part is made otherwise (servers)."""


def test_a_file_that_an_option_names_may_name_a_machine(project: Project, zeus: Zeus) -> None:
    """A provider's library reads addresses from it, and further files to send there."""
    model = "model: {litellm: {model: vertex_ai/x, extra: {vertex_credentials: creds.json}}}"
    assert asked(project, zeus, model.replace("vertex_credentials", "user")) == []
    assert asked(project, zeus, model) == ["model.litellm.extra.vertex_credentials"]
    unread = zeus("trust", "--print").out
    file = project.write("creds.json", '{"token_url": "https://x.example"}')
    assert asked(project, zeus, model) == ["model.litellm.extra.vertex_credentials"]
    digest = zeus("trust", "--print").out
    assert digest != unread
    file.write_text('{"token_url": "https://y.example"}')
    assert zeus("trust", "--print").out != digest


@pytest.mark.parametrize(
    "value", ["GITHUB_TOKEN", "{deep: [GITHUB_TOKEN]}", "env:GITHUB_TOKEN"], ids=["bare", "deep", "prefixed"]
)
@pytest.mark.parametrize(
    "config",
    [
        "model: {litellm: {model: anthropic/x, extra: {user: VALUE}}}",
        "model: gpt-4o\nmemory: {user: u, embeddings: {litellm: {query_extra: {user: VALUE}}}}",
    ],
    ids=["model", "embeddings"],
)
def test_a_text_that_a_library_may_read_as_the_name_of_a_secrets_variable_is_asked_about(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch, config: str, value: str
) -> None:
    text = config.replace("VALUE", value)
    assert asked(project, zeus, text.replace("GITHUB_TOKEN", "OTHER_TOKEN")) == []
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_0123456789abcdefghijklmnopqrstuvwxyz")
    assert zeus("validate").exit_code == 0, "it names no secret yet"
    project.write("zeus.yaml", f"version: 1\n{text}\n")
    shown = zeus("trust").err
    assert "extra.user" in shown
    assert "your GITHUB_TOKEN to whoever this option's text reaches" in shown
    assert "ghp_" not in shown
    assert zeus("validate").exit_code == 0
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_1123456789abcdefghijklmnopqrstuvwxyz")
    assert zeus("validate").exit_code == 4


def test_a_file_that_is_called_like_the_model_is_not_read(project: Project, zeus: Zeus) -> None:
    project.write("gpt-4o", "x")
    assert asked(project, zeus, "model: gpt-4o") == []


def test_every_option_that_takes_a_text_was_looked_at() -> None:
    """A new option that takes any text has a marker, or is added here by whoever saw that it needs none."""
    found = {path for path, option in _texts(json.loads(_SCHEMA.read_text()), ()) if not _is_marked(option)}
    assert found == set(LOOKED_AT.split())


CHOICES = {
    "what the model is told, how it is called, and what it is shown": """
        version model/anyOf/1/move_on models/summary/anyOf/1/move_on models/subagents/anyOf/1/move_on
        models/vision/anyOf/1/move_on reasoning/effort output/strategy agents/*/output/strategy agents/*/context
        project_instructions/anyOf/0 prompt/tools_description prompt/time/precision profiles/strict
        profiles/models/*/tokenizer profiles/models/*/reasoning middleware.caching/places middleware.caching/lifetime
        middleware.local_context/git middleware.memory/profile middleware.pins/first_user middleware.pins/roles
        middleware.skills/trust_project middleware.summarization/by_price middleware.summarization/reuse_cache
        model.litellm/stream model.litellm/wire model.replay/match tool.subagents/general
        """,
    "how memories and texts are found and kept": """
        retention/archive memory/role memory/extract/anyOf/0 embedding.litellm/ask_dimension embedding.onnx/pooling
        embedding.static/characters middleware.memory/required tool.memory/required vector_store.pgvector/exact
        search.duckduckgo/safesearch search.tavily/depth
        """,
    "what is asked about while the agent works, and what its tools may do: without `approve` nothing is asked": """
        mode approvals mcpServers/*/access/* middleware.approve/mode middleware.approve/user_modes
        middleware.approve/allow/anyOf/1/*/*/anyOf/3 middleware.approve/ask/anyOf/1/*/*/anyOf/3
        middleware.approve/deny/anyOf/1/*/*/anyOf/3 middleware.approve/read_tools middleware.approve/on_timeout
        tool.filesystem/read_only tool.sandbox/workspace workspace/per
        """,
    "the part of the hook or the server covers it, or it takes one value alone": """
        mcpServers/*/type mcpServers/*/disabled mcpServers/*/preset mcpServers/*/auth/anyOf/0 mcpServers/*/trust
        middleware.hooks/before_run/on_failure middleware.hooks/before_model_call/on_failure
        middleware.hooks/after_model_call/on_failure middleware.hooks/before_tool_call/on_failure
        middleware.hooks/after_tool_call/on_failure middleware.hooks/after_run/on_failure
        """,
    "each rule that lifts a protection is a part of its own": "workspace/access/*",
    "it matters beside `ssh.wrap: none` alone, which asks": "tool.sandbox/require_isolation",
}
"""Switches and choices that open nothing which is closed without them, by the reason. A number opens nothing: it says
how much, how long or how many."""


def test_every_switch_and_choice_that_opens_something_has_a_marker() -> None:
    """A new one has a marker, or is added here by whoever saw that it opens nothing: no machine, program or secret."""
    found = {path for path, option in _choices(json.loads(_SCHEMA.read_text()), ()) if not _is_marked(option)}
    assert found == {path for paths in CHOICES.values() for path in paths.split()}


def _is_marked(option: dict[str, Any]) -> bool:
    return any(mark in option for mark in MARKS) or "x-zeus-ref" in option


def _texts(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every option of any text or of any value."""
    for where, each in _options(schema, path):
        types = each.get("type", ())
        is_text = "string" in ([types] if isinstance(types, str) else types)
        takes_all = types == "object" and len(each.keys() - {"description", "default"}) == 1 and where
        if (is_text and not {"enum", "const"} & set(each)) or takes_all:
            yield where, each


def _choices(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every option that is a switch or has a few values."""
    for where, each in _options(schema, path):
        if each.get("type") == "boolean" or {"enum", "const"} & set(each):
            yield where, each


def _options(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every option with its path; a component's name is not an option."""
    if isinstance(schema, list):
        for index, each in enumerate(schema):
            yield from _options(each, (*path, str(index)))
    if not isinstance(schema, dict) or path[:1] == ("$ref",) or (path and path[0].startswith("ref.")):
        return
    if schema.get("x-zeus-executes") == "command":  # it marks the words too
        return
    yield "/".join(path), schema
    for key, each in schema.items():
        if key in ("properties", "$defs"):
            for name, option in each.items():
                yield from _options(option, (*path, name))
        elif key == "items":
            yield from _options(each, path)
        elif key == "additionalProperties":
            yield from _options(each, (*path, "*"))
        elif key in ("anyOf", "oneOf", "allOf"):
            yield from _options(each, (*path, key))
