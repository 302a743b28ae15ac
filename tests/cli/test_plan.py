"""``zeus plan``: what will run, and where each value comes from."""

from __future__ import annotations

import re
import sys

import pytest

from tests.cli.conftest import Project, Zeus
from tests.support.distributions import lay_out


@pytest.fixture
def layered(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("PROBE_API_KEY", "sk-very-secret-value")
    project.write(
        "zeus.yaml",
        """
        version: 1
        name: layered
        model:
          litellm:
            model: gpt-5.2
            api_key: ${PROBE_API_KEY}
        tools: [filesystem]
        middlewares:
          - history: {max_messages: 12}
        limits: {max_steps: 7}
        """,
    )
    project.write("zeus.prod.yaml", "limits:\n  max_steps: 9\n")
    return project


def values(zeus: Zeus, *words: str) -> dict[str, object]:
    found = zeus("plan", "--format", "json", *words).json["values"]
    return {each["path"]: (each["value"], [mark["source"] for mark in each["written"]]) for each in found}


def test_every_value_has_its_source(zeus: Zeus, layered: Project) -> None:
    found = values(zeus, "--env", "prod", "--set", "mode=ask")
    assert found["limits.max_steps"] == (9, ["zeus.prod.yaml", "zeus.yaml"])
    assert found["limits.max_parallel_tools"] == (16, [])
    assert found["mode"] == ("ask", ["--set mode=ask"])
    assert found["middlewares.0.history.max_messages"] == (12, ["zeus.yaml"])
    assert found["model.litellm.model"] == ("gpt-5.2", ["zeus.yaml"])
    text = zeus("plan", "--env", "prod", "--all").out
    assert "zeus.prod.yaml:2:14, overrides zeus.yaml:11:21" in text


def test_a_plain_model_name_is_where_it_is_written(zeus: Zeus, project: Project) -> None:
    project.write("zeus.yaml", "version: 1\nmodel: gpt-5.2\n")
    found = values(zeus)
    assert found["model.litellm.model"] == ("gpt-5.2", ["zeus.yaml"])


def test_a_value_whose_key_is_written_otherwise_in_python_is_where_it_is_written(
    zeus: Zeus, project: Project
) -> None:
    server = "{far: {url: 'https://far.example/mcp', includeTools: [add]}}"
    project.write("zeus.yaml", f"version: 1\nmodel: gpt-5.2\nmcpServers: {server}\n")
    found = values(zeus, "--set", "mcpServers.far.disabledTools=[note]")
    assert found["mcpServers.far.url"] == ("https://far.example/mcp", ["zeus.yaml"])
    assert found["mcpServers.far.includeTools"] == (["add"], ["zeus.yaml"])
    assert found["mcpServers.far.disabledTools"][0] == ["note"]
    assert found["mcpServers.far.timeout_seconds"] == (1800, [])


def test_the_options_of_a_component_within_another_are_where_they_are_written(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-of-the-environment")
    tools = "[{web: {search: {tavily: {api_key: tvly-very-secret, depth: advanced}}}}]"
    project.write("zeus.yaml", f"version: 1\nmodel: gpt-5.2\ntools: {tools}\n")
    found = values(zeus)
    assert found["tools.0.web.search.tavily.depth"] == ("advanced", ["zeus.yaml"])
    assert found["tools.0.web.search.tavily.api_key"] == (
        "<secret:tools.0.web.search.tavily.api_key>",
        ["zeus.yaml"],
    )
    assert found["tools.0.web.max_results"] == (5, [])
    project.write("zeus.yaml", "version: 1\nmodel: gpt-5.2\ntools: [{web: {search: tavily}}]\n")
    assert values(zeus)["tools.0.web.search"] == ("tavily", ["zeus.yaml"])


def test_servers_do_not_move_the_places_of_tools(zeus: Zeus, project: Project) -> None:
    """The tools of servers are implied; counted as the first, they moved each written tool to the next one's place."""
    head = "version: 1\nmodel: gpt-5.2\ntools:\n  - filesystem\n  - shell: {contain: none}\n"
    project.write("zeus.yaml", head)
    before = values(zeus)
    project.write("zeus.yaml", f"{head}mcpServers: {{srv: {{command: cat}}}}\n")
    zeus("trust", "--yes")
    after = values(zeus)
    assert before["tools.1.shell.contain"] == ("none", ["zeus.yaml"])
    assert {path: each for path, each in after.items() if path in before and path != "mcpServers"} == {
        path: each for path, each in before.items() if path != "mcpServers"
    }
    assert after["tools.2"] == ("mcp", ["zeus.yaml"])
    shown = {line.split()[0]: line.split()[1:] for line in zeus("plan", "--all").out.splitlines() if line}
    assert shown["tools.1.shell.contain"] == ["zeus.yaml:5:22", '"none"']
    assert shown["tools.2"] == ["zeus.yaml:6:13", '"mcp"'], "where the servers are written"
    assert '"none"' in zeus("plan", "--explain", "tools.1.shell.contain").out
    assert '  shell       run_command, read_output, stop_command  (contain="none")' in zeus("plan").out


def test_written_options_of_the_tools_of_servers_are_shown(zeus: Zeus, project: Project) -> None:
    head = "version: 1\nmodel: gpt-5.2\ntools: [{mcp: {max_restarts: 2}}]\n"
    project.write("zeus.yaml", f"{head}mcpServers: {{srv: {{command: cat}}}}\n")
    zeus("trust", "--yes")
    assert "  mcp  (max_restarts=2)\n" in zeus("plan").out


def test_a_connector_is_the_place_of_the_tools_that_it_implies(zeus: Zeus, project: Project) -> None:
    project.write("zeus.yaml", "version: 1\nmodel: gpt-5.2\nconnectors: {browser: {}}\n")
    zeus("trust", "--yes")
    assert values(zeus)["tools.0"] == ("mcp", ["zeus.yaml"])


def test_a_sub_agents_own_approvals_and_options_are_shown(zeus: Zeus, project: Project) -> None:
    """A sub-agent that never asks had the plan of one that always asks, but for the digest."""
    head = "version: 1\nmodel: gpt-5.2\nmiddlewares: [{approve: {mode: ask}}]\n"
    project.write(
        "zeus.yaml",
        f"{head}tools: [filesystem, subagents]\n"
        'agents:\n  w: {description: "Writes.\\n    approvals: ask: asked", config: sub.yaml}\n'
        "  v: {description: V., overrides: {limits: {max_steps: 3}}}\n",
    )
    own = "tools: [{filesystem: {max_results: 77}}]\nworkspace: {access: {'*.pem': deny}}\n"
    project.write("sub.yaml", head.replace("mode: ask", "mode: run_everything, deny: [grep]") + own)
    short, whole = zeus("plan").out, zeus("plan", "--all").out
    for text in (short, whole):
        of_w = text[text.index("  w: Writes.") : text.index("  v: V.")]
        assert "\n    approvals: run_everything: never asked\n" in of_w
        assert '\n      1. approve mode="run_everything"' in of_w
        assert 'deny=["grep"]' in of_w
        assert "*.pem " in of_w
        assert of_w.count("\n    approvals: ") == 1, "a description writes no line"
        assert "as above" not in of_w
        of_v = text[text.index("  v: V.") : text.index("\nsystem prompt")]
        assert "    as above: approvals, middlewares, files that tools may reach\n" in of_v
        assert "as above: ls, read_file, write_file" in of_v
    assert "(max_results=77)" in short
    assert "    limits: max_steps 3," in short
    lines = [line.split() for line in whole.splitlines()]
    assert ["middlewares.0.approve.mode", "sub.yaml:3:32", '"run_everything"'] in lines
    assert sum(line[:1] == ["limits.max_steps"] for line in lines) == 3
    assert sum(line[:1] == ["retry.attempts"] for line in lines) == 2, "v has the config's"
    (found,) = [
        each
        for each in zeus("plan", "--format", "json").json["agents"]["w"]["values"]
        if each["path"] == "middlewares.0.approve.mode"
    ]
    assert (found["value"], found["written"][0]["source"]) == ("run_everything", "sub.yaml")


def test_a_secret_of_a_sub_agents_config_is_masked(zeus: Zeus, project: Project) -> None:
    project.write(
        "zeus.yaml",
        "version: 1\nmodel: gpt-5.2\ntools: [subagents]\nagents: {w: {description: W., config: sub.yaml}}\n",
    )
    project.write(
        "sub.yaml",
        "version: 1\nmodel: {litellm: {model: gpt-5.2, api_key: canary-0123456789}}\ntools: [filesystem]\n"
        "workspace: {access: {'/canary-0123456789/**': deny}}\n",
    )
    for words in ([], ["--all"], ["--format", "json"]):
        result = zeus("plan", *words)
        assert result.exit_code == 0
        assert "deny" in result.out
        assert "canary-0123456789" not in result.out


def test_the_plan_is_short_and_says_what_matters(zeus: Zeus, project: Project) -> None:
    project.write(
        "zeus.yaml",
        "version: 1\nextends: default\nmodel: openai/gpt-5.2\nlimits: {max_steps: 7, max_cost_usd: 2}\n",
    )
    text = zeus("plan").out
    lines = text.splitlines()
    assert len(lines) <= 60
    assert 'model         litellm model="openai/gpt-5.2" · wire native: chat completions' in lines
    assert any(line.startswith("limits        max_steps 7,") and "max_cost_usd 2" in line for line in lines)
    assert "  filesystem  ls, read_file, write_file, edit_file, glob, grep" in lines
    assert "  5. eviction max_tokens=8000 max_fraction=0.125" in lines, "only options that are written"
    assert "preview_lines" not in text
    assert "zeus plan --all" in lines[-1]
    whole = zeus("plan", "--all").out
    assert len(whole.splitlines()) > 100
    assert "preview_lines=10" in whole


def test_the_whole_plan_names_the_variable_of_a_key_that_no_option_has(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It showed `api_key default null`, wherever the key came from."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary-0123456789")
    monkeypatch.delenv("VOYAGE_API_KEY", raising=False)
    project.write(
        "zeus.yaml",
        "version: 1\nmodel: anthropic/claude-sonnet-4-5\n"
        "memory: {embeddings: {litellm: {model: voyage/voyage-3, dimension: 8}}}\n",
    )
    project.write(".env", "VOYAGE_API_KEY=canary-9876543210\n")
    lines = [line.split() for line in zeus("plan", "--all").out.splitlines()]
    shown = {line[0]: line[1:-1] for line in lines if line and line[0].endswith("litellm.api_key")}
    assert shown == {
        "model.litellm.api_key": ["default:", "ANTHROPIC_API_KEY"],
        "memory.embeddings.litellm.api_key": ["default:", "VOYAGE_API_KEY", "of", ".env"],
    }
    assert sum("default:" in line for line in lines) == 2, "no other option has a variable"


def test_in_another_mode_the_short_plan_says_which_tools_are_refused(zeus: Zeus, layered: Project) -> None:
    lines = zeus("plan", "--mode", "ask").out.splitlines()
    (refused,) = [line for line in lines if "write_file" in line]
    assert "edit_file" in refused
    assert "read_file" not in refused
    assert refused.endswith(")")


def test_the_plan_names_components_tools_and_their_plugins(zeus: Zeus, layered: Project) -> None:
    text = zeus("plan", "--mode", "ask", "--all").out
    assert "layered, mode ask" in text
    assert "input limit" in text
    assert "272,000 tokens" in text
    (line,) = [line for line in text.splitlines() if line.strip().startswith("write_file")]
    assert "placeholder" in line
    assert "zeus-runtime" in line


@pytest.mark.parametrize(
    "words", [[], ["--format", "json"], ["--prompt"], ["--explain", "model.litellm.api_key"]]
)
def test_secrets_are_masked(zeus: Zeus, layered: Project, words: list[str]) -> None:
    result = zeus("plan", *words)
    assert result.exit_code == 0
    assert "sk-very-secret-value" not in result.out + result.err


def test_one_value_is_explained(zeus: Zeus, layered: Project) -> None:
    shown = zeus("plan", "--env", "prod", "--explain", "limits.max_steps").out
    assert "limits.max_steps = 9" in shown
    assert "zeus.prod.yaml:2:14" in shown
    assert "overrides zeus.yaml:11:21" in shown
    assert "the default" in zeus("plan", "--explain", "retry.attempts").out


@pytest.mark.parametrize(("path", "exit_code"), [("limits.max_stepps", 3), ('profiles.models."x', 2)])
def test_a_path_that_is_none_is_refused(zeus: Zeus, layered: Project, path: str, exit_code: int) -> None:
    result = zeus("plan", "--explain", path)
    assert result.exit_code == exit_code
    assert "Traceback" not in result.err


def test_the_prompt_is_what_the_model_gets(zeus: Zeus, layered: Project) -> None:
    shown = zeus("plan", "--prompt")
    sections = zeus("plan", "--format", "json").json["prompt"]
    assert list(sections)[:3] == ["core", "soul", "tools"]
    assert shown.out.startswith(sections["core"].strip())
    assert sections["mode"].strip() in shown.out


def test_the_same_config_has_the_same_digest_and_another_mode_another(zeus: Zeus, layered: Project) -> None:
    digests = [
        zeus("plan", "--format", "json", *words).json["digest"] for words in ([], [], ["--mode", "plan"])
    ]
    assert digests[0] == digests[1] != digests[2]


def test_formats_exclude_each_other(zeus: Zeus, layered: Project) -> None:
    assert zeus("plan", "--prompt", "--explain", "mode").exit_code == 2


def test_an_unknown_model_is_a_note(zeus: Zeus, project: Project) -> None:
    project.write("zeus.yaml", "version: 1\nmodel: gpt-5-2\n")
    result = zeus("plan")
    assert result.exit_code == 0
    assert "gpt-5.2" in result.err


def test_the_plan_says_what_tools_may_reach_and_what_a_rule_lifts(zeus: Zeus, project: Project) -> None:
    project.write(
        "zeus.yaml",
        """
        version: 1
        model: gpt-5.2
        tools: [filesystem]
        workspace:
          routes: {/notes/: notes}
          access:
            "{*.pem,secrets/**}": deny
            .env.example: read
            zeus.yaml: write
        """,
    )
    files = zeus("plan", "--format", "json").json["files"]
    assert files["folders"]["/notes/"] == str(project.folder / "notes")
    rules = {each["pattern"]: (each["right"], each["lifts_protection"]) for each in files["rules"]}
    assert len(files["rules"]) == 3
    assert rules == {
        "{*.pem,secrets/**}": ("deny", False),
        ".env.example": ("read", True),
        "zeus.yaml": ("write", True),
    }
    assert {".env*", ".git", "/zeus.yaml", "/zeus.*.yaml"} <= set(files["protected"])
    (written,) = [each["written"] for each in files["rules"] if each["pattern"] == ".env.example"]
    assert written.startswith("zeus.yaml:")
    assert f"read  ({written}); lifts a built-in protection" in zeus("plan").out


def test_tools_past_the_rules_for_files_are_named(zeus: Zeus, project: Project) -> None:
    project.write(
        "own.py",
        """
        from zeus_runtime.plugin import Component, hookimpl
        from zeus_runtime.plugin.tool import Tool

        async def nothing():
            return ""

        @hookimpl
        def register_tools():
            tool = Tool("search", "d", {"type": "object"}, nothing, past_workspace=True)
            return [Component("own", create=lambda options, context: [tool])]
        """,
    )
    text = "version: 1\nmodel: gpt-5.2\nplugins: {files: [own.py]}\ntools: [filesystem, own]\n"
    project.write("zeus.yaml", text + "mcpServers: {fs: {command: none}}\n")
    assert zeus("plan", "--format", "json").json["files"]["past_rules"] == ["search"]
    shown = zeus("plan").out
    assert re.search(r"past all this +search, the server fs: may open files by themselves", shown), shown


def test_the_rules_of_a_parent_are_shown_below_a_sub_agent(zeus: Zeus, project: Project) -> None:
    for folder in ("work", "desk"):
        (project.folder / folder).mkdir()
    agents = "agents: {in: {description: i, config: in.yaml}, out: {description: o, config: out.yaml}}\n"
    workspace = "workspace: {root: work, access: {'hr/**': deny}}\ntools: [filesystem, subagents]\n"
    project.write("zeus.yaml", f"version: 1\nmodel: gpt-5.2\n{workspace}{agents}")
    for name, more in (("in", ""), ("out", "workspace: {root: desk}\n")):
        project.write(f"{name}.yaml", f"version: 1\nmodel: gpt-5.2\ntools: [filesystem]\n{more}")
    text = zeus("plan").out
    inside, outside = text[text.index("  in: i") :].split("  out: o")
    assert re.search(r"as above: .*files that tools may reach", inside)
    assert re.search(rf"hr/\*\* +deny  \(an agent above, from {project.folder / 'work'} on\)", outside)
    given = zeus("plan", "--format", "json").json["agents"]
    assert given["in"]["files"]["rules"][0]["written"].startswith("zeus.yaml:3:")
    assert given["in"]["files"]["rules_above"] == []


def test_the_source_of_the_instructions_is_shown(zeus: Zeus, project: Project) -> None:
    project.write("mine.md", "Only Go.")
    agents = "agents: {a: {description: A., instructions: {file: mine.md}}}\ntools: [subagents]\n"
    project.write("zeus.yaml", f"version: 1\nmodel: gpt-5.2\n{agents}instructions: Only C.\n")
    text = zeus("plan").out
    assert "instructions  zeus.yaml:5:15, at the end of section core" in text
    assert f"instructions: {project.folder / 'mine.md'}" in text
    shown = zeus("plan", "--format", "json").json
    assert shown["instructions"] == "zeus.yaml:5:15"
    assert shown["agents"]["a"]["instructions"] == str(project.folder / "mine.md")
    assert "# Your instructions\n\nOnly C." in zeus("plan", "--prompt").out
    project.write("zeus.yaml", "version: 1\nmodel: gpt-5.2\n")
    assert zeus("plan", "--format", "json").json["instructions"] is None


def test_the_files_with_the_projects_instructions_are_named(zeus: Zeus, project: Project) -> None:
    project.write("AGENTS.md", "Use tabs.")
    project.write("zeus.yaml", "version: 1\nmodel: gpt-5.2\nproject_instructions: true\n")
    assert "project       instructions of /AGENTS.md, in section profile" in zeus("plan").out
    assert zeus("plan", "--format", "json").json["project_instructions"] == ["/AGENTS.md"]
    (project.folder / "AGENTS.md").unlink()
    assert "project       no instructions: there is no AGENTS.md or CLAUDE.md" in zeus("plan").out
    project.write("zeus.yaml", "version: 1\nmodel: gpt-5.2\n")
    assert zeus("plan", "--format", "json").json["project_instructions"] is None


def test_how_often_the_user_is_asked_is_shown(zeus: Zeus, project: Project) -> None:
    head = "version: 1\nmodel: gpt-5.2\n"
    for lines, shown in {
        "": "no middleware asks you",
        "middlewares: [approve]\n": "allowlist: asked before a tool that writes, unless it is on your allowlist",
        "middlewares: [approve]\napprovals: run_everything\n": "run_everything: never asked",
        "middlewares: [approve: {mode: ask}]\n": "ask: asked before every tool that writes",
    }.items():
        project.write("zeus.yaml", head + lines)
        assert f"approvals     {shown}\n" in zeus("plan").out


def test_every_section_of_the_prompt_has_its_file(zeus: Zeus, project: Project) -> None:
    project.write("mine.md", "I am short.")
    project.write(".zeus/prompts/SOUL.md", "I am calm.")
    project.write("zeus.yaml", "version: 1\nmodel: gpt-4o\nprompt:\n  files: {core: mine.md}\n")
    found = zeus("plan", "--format", "json").json["prompt_sources"]
    assert list(found) == ["core", "soul", "tools", "workflow", "memory", "mode"]
    assert found["core"] == {
        "path": str(project.folder / "mine.md"),
        "home": None,
        "plugin": None,
        "written": "zeus.yaml:4:17",
    }
    assert found["soul"]["path"] == str(project.folder / ".zeus/prompts/SOUL.md")
    assert found["soul"]["home"] == str(project.folder / ".zeus")
    assert found["workflow"]["path"].endswith("prompts/WORKFLOW.md")
    asked = zeus("plan", "--format", "json", "--mode", "ask").json["prompt_sources"]
    assert asked["workflow"]["path"].endswith("prompts/WORKFLOW_SIMPLE.md")
    text = zeus("plan").out
    assert "(prompt.files, zeus.yaml:4:17)" in text
    assert str(project.folder / ".zeus/prompts/SOUL.md") in text


def test_a_section_from_a_plugins_home_names_the_plugin(
    zeus: Zeus, project: Project, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path_factory.mktemp("site")
    code = "from pathlib import Path\nfrom zeus_runtime.plugin import hookimpl\n"
    code += "@hookimpl\ndef register_homes(): return [Path(__file__).parent / 'home']\n"
    files = {"corsair/__init__.py": code, "corsair/home/prompts/SOUL.md": "Arr."}
    lay_out(site, "zeus-corsair", plugins={"corsair": "corsair"}, files=files)
    monkeypatch.delitem(sys.modules, "corsair", raising=False)
    monkeypatch.syspath_prepend(site)
    project.write("zeus.yaml", "version: 1\nmodel: gpt-4o\nhomes: ['plugin:corsair']\n")
    assert "(plugin corsair (zeus-corsair 1.0))" in zeus("plan").out
    found = zeus("plan", "--format", "json").json["prompt_sources"]["soul"]
    assert (found["home"], found["plugin"]) == (str(site / "corsair/home"), "corsair")
