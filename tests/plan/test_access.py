"""What an agent may reach: rules over files, what decides about it, approvals of files, sub-agents; by whole runs."""

from __future__ import annotations

import json
import os
import pwd
import re
import shlex
import sys
import threading
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import replace
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from tests.support.agents import Answering, PositionModel, call, calling, events_of, play, script, write_agent
from tests.support.distributions import lay_out
from zeus_runtime import Agent, ConfigError, Decision, PendingApproval, ZeusError
from zeus_runtime.disk_paths import real_path
from zeus_runtime.errors import UsageError
from zeus_runtime.events import Event, Notice, RunFailed, SubAgentEvent, ToolCallResult
from zeus_runtime.models.messages import to_payload
from zeus_runtime.plan.plan import make_plan
from zeus_runtime.plan.protected_files import add_deciding
from zeus_runtime.plan.validated import Checked, check
from zeus_runtime.plugin.model import ModelRequest
from zeus_runtime.run.attachments import gather
from zeus_runtime.run.session_files import SessionFiles
from zeus_runtime.run.transcript import tool_message
from zeus_runtime.store.database import Database
from zeus_runtime.tools import WorkspaceError, WorkspaceFiles, atomic, moved_links, workspace
from zeus_runtime.tools.access import Deciding
from zeus_runtime.tools.attachments import keep
from zeus_runtime.tools.calling_tool import calling as calling_tool
from zeus_runtime.tools.calling_tool import reading_kept
from zeus_runtime.tools.gate import AccessAsked
from zeus_runtime.tools.own_folders import LinkedFolderError
from zeus_runtime.tools.question import MOST_CHARACTERS
from zeus_runtime.trust.decision import recorded_trust
from zeus_runtime.trust.parts import Command, Project, command_part

TOOLS = "[probe, filesystem]"
OUT_OF_REACH = "Tell the user what you would have it say"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return project


def put(folder: Path, *paths: str, text: str = "needle\n") -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def results(events: Sequence[Event]) -> list[str]:
    found = {each.call_id: each.content for each in events if isinstance(each, ToolCallResult)}
    return [found[name] for name in sorted(found)]


def calls(*given: tuple[str, Mapping[str, Any]]) -> Any:
    return script(
        calling(*(call(name, f"c{index}", **arguments) for index, (name, arguments) in enumerate(given))),
        "done",
    )


async def played(
    folder: Path,
    yaml: str,
    *given: tuple[str, Mapping[str, Any]],
    channel: Any = None,
    config: Path | None = None,
) -> list[Event]:
    """One run in which the model makes these calls at once."""
    file = config or write_agent(folder, yaml, tools=TOOLS)
    async with Agent.from_config(file, directory=folder, model=calls(*given)) as agent:
        return await events_of(agent.stream("go", approvals=channel))


def files_of(folder: Path, yaml: str = "", *, tools: str = TOOLS) -> WorkspaceFiles:
    """The files as the tools of an agent reach them."""
    config = write_agent(folder, yaml, tools=tools)
    return make_plan(
        check(config, directory=folder, environ={"HOME": str(folder.parent / "home")})
    ).context.workspace


# Zeus's own files are behind no link


ARCHIVES = ("large_tool_results", "conversation_history", "attached_files")


@pytest.mark.parametrize("link", ["", *(f"/{name}" for name in ARCHIVES)])
def test_a_link_where_zeus_keeps_its_own_files_ends_the_command(link: str, folder: Path) -> None:
    put(folder.parent, "home/keys/id")
    (folder / f".zeus{link}").parent.mkdir(exist_ok=True)
    (folder / f".zeus{link}").symlink_to("../" * (1 + bool(link)) + "home/keys")
    with pytest.raises(LinkedFolderError, match=rf"\.zeus{link} is a link") as refused:
        files_of(folder)
    assert refused.value.exit_code == 4
    assert "workspace.routes" in str(refused.value.remedy)


@pytest.mark.parametrize("link", ["", *(f"/{name}" for name in ARCHIVES)])
def test_a_link_that_is_made_during_a_run_leads_nowhere(link: str, folder: Path) -> None:
    put(folder.parent, *(f"home/{name}/id" for name in ARCHIVES))
    files = files_of(folder)
    (folder / f".zeus{link}").parent.mkdir(exist_ok=True)
    (folder / f".zeus{link}").symlink_to(folder.parent / f"home{link}")
    for name in [link[1:]] if link else ARCHIVES:
        with (
            reading_kept(lambda _path: True),
            pytest.raises(WorkspaceError, match="found a link"),
        ):
            files.read(f"/{name}/id", max_bytes=100)
        with pytest.raises(WorkspaceError, match="found a link"):
            files.runtime.write(f"/{name}/new", b"x")
        assert [each.name for each in (folder.parent / "home" / name).iterdir()] == ["id"]


def test_a_database_behind_a_link_is_not_opened(folder: Path) -> None:
    (folder / ".zeus").mkdir()
    (folder / ".zeus/zeus.db").symlink_to(folder.parent / "other.db")
    with pytest.raises(LinkedFolderError, match=r"zeus\.db is a link"):
        Database("sqlite:///.zeus/zeus.db", directory=folder)
    assert not (folder.parent / "other.db").exists()


def test_folders_of_configs_and_prompts_may_be_links(folder: Path) -> None:
    put(folder.parent, "shared/prompts/identity.md")
    (folder / ".zeus").mkdir()
    for name in ("prompts", "skills", "configs"):
        (folder / f".zeus/{name}").symlink_to(folder.parent / "shared" / "prompts")
    files_of(folder).runtime.write("/attached_files/a", b"x")
    assert (folder / ".zeus/attached_files/a").exists()


# A denied file does not exist


@pytest.mark.parametrize(
    "yaml",
    [
        'workspace: {access: {"secrets/**": deny, "*.pem": deny}}',
        'middlewares: [{approve: {mode: run_everything, deny: [{"*": {path: ["secrets/**", "**/*.pem"]}}]}}]',
    ],
)
async def test_no_tool_finds_or_reads_a_denied_file(folder: Path, yaml: str) -> None:
    put(folder, "secrets/key.txt", "src/a.txt", "src/server.pem", "link/readme.txt")
    (folder / "link/away").symlink_to("../secrets")
    (folder / "link/one").symlink_to("../secrets/key.txt")
    found = results(
        await played(
            folder,
            yaml,
            ("grep", {"pattern": "needle"}),
            ("glob", {"pattern": "**/*.{txt,pem}"}),
            ("ls", {"path": "/src"}),
            ("grep", {"pattern": "needle", "path": "link/one"}),
            ("ls", {"path": "/link/away"}),
            ("read_file", {"path": "/link/away/key.txt"}),
            ("read_file", {"path": "secrets/../secrets/key.txt"}),
            ("read_file", {"path": "SECRETS/Key.txt"}),
            ("read_file", {"path": "secrets/kye.txt"}),
        )
    )
    assert found[0].startswith("/link/readme.txt\n")
    assert "key.txt" not in found[0]
    assert "pem" not in found[0]
    assert found[1] == "/link/readme.txt\n/src/a.txt"
    assert found[2] == "a.txt (7 bytes)"
    for refused in found[3:]:
        assert "needle" not in refused
        assert "Did you mean" not in refused
        assert "closes it" in refused or "is not allowed with these arguments" in refused


async def test_the_audits_reproduction_grep_does_not_print_what_approve_denies(folder: Path) -> None:
    put(folder, "notes/secret.txt", "notes/open.txt")
    deny = '{approve: {mode: run_everything, deny: [{"*": {path: "notes/secret.txt"}}]}}'
    found = results(
        await played(
            folder,
            f"middlewares: [{deny}]",
            ("grep", {"pattern": ".", "path": "notes", "context": 3}),
            ("glob", {"pattern": "notes/*"}),
            ("edit_file", {"path": "notes/secret.txt", "old": "needle", "new": "x"}),
        )
    )
    assert found[0] == "/notes/open.txt\n1:needle"
    assert found[1] == "/notes/open.txt"
    assert (folder / "notes/secret.txt").read_text() == "needle\n"
    assert "is not allowed" in found[2]


async def test_a_rule_for_one_tool_restricts_that_tool_alone(folder: Path) -> None:
    put(folder, "notes/a.txt")
    deny = '{approve: {mode: run_everything, deny: [{grep: {path: "notes/**"}}]}}'
    found = results(
        await played(
            folder,
            f"middlewares: [{deny}]",
            ("grep", {"pattern": "needle"}),
            ("read_file", {"path": "notes/a.txt"}),
        )
    )
    assert found[0].startswith("No match")
    assert found[1] == "1\tneedle"


async def test_what_the_user_names_with_at_or_attaches_is_judged_too(folder: Path) -> None:
    put(folder, "secrets/key.txt", "open.txt", ".env.local")
    put(folder, ".env", text="A=1\n")
    yaml = 'middlewares: [resources]\nworkspace: {access: {"secrets/**": deny}}\n'
    config = write_agent(folder, yaml, tools=TOOLS)
    model = script("one", "two")
    async with Agent.from_config(config, directory=folder, model=model) as agent:
        await play(agent, "look at @secrets/key.txt and @.env.local and @secrets/* and @open.txt")
        assert model.requests[0].system.count("needle") == 1
        put(folder.parent, "elsewhere/.env")
        (folder / "linked").symlink_to("../elsewhere/.env")
        (folder.parent / "second").hardlink_to(folder / ".env")
        for path in ("secrets/key.txt", ".env.local", "../elsewhere/.env", "linked", "../second"):
            with pytest.raises(UsageError, match="cannot be attached"):
                await events_of(agent.stream("see", attachments=[path]))


async def test_a_folder_s_name_closes_what_is_in_it_outside_of_the_workspace_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the last part of such a path was judged, so that `private: deny` closed a file of this name alone."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder.parent / "conf"))
    for base in (folder / "docs", folder.parent / "elsewhere"):
        put(base, "open/a.md", "private/b.md", ".env.d/c.md")
    home = folder.parent / "conf/zeus/skills/own"
    put(home, "SKILL.md", text="---\nname: own\ndescription: told\n---\nneedle\n")
    put(home, "open/a.md", "private/b.md")
    (folder / "work").mkdir()
    rules = "{private: deny, conf: deny, project: deny}"
    yaml = f"""
        middlewares: [skills, resources]
        knowledge: [handbook]
        workspace: {{root: work, access: {rules}}}
    """
    config = write_agent(folder, yaml, tools="[probe, filesystem, knowledge]")
    named = [
        each.relative_to(folder)
        if each.is_relative_to(folder)
        else Path("..", each.relative_to(folder.parent))
        for base in (folder / "docs", folder.parent / "elsewhere")
        for each in sorted(base.rglob("*.md"))
    ]
    attached, model = list[str](), script("one", "two")
    async with Agent.from_config(config, directory=folder, model=model) as agent:
        for file in named:
            with suppress(UsageError):
                await events_of(agent.stream("see", attachments=[file]))
                attached.append(str(file))
        knowledge = agent.knowledge
        sources = (folder / "docs", folder.parent / "elsewhere", folder / "docs/.env.d/c.md")
        done = await knowledge.add("handbook", sources)
        stored = [each.path for each in await knowledge.documents("handbook")]
        folders = [folder / "docs" / each for each in ("open", "private", "private/tools", ".env.d/bin")]
        shown = [agent.plan.context.workspace.mount_refusal(each) is None for each in folders]
    assert attached == ["docs/open/a.md", "../elsewhere/open/a.md"]
    assert set(stored) == {str(folder / "docs/open/a.md"), str(folder.parent / "elsewhere/open/a.md")}
    assert len(done.failed) == 3
    assert shown == [True, False, False, False]
    # Of a skill the names from its own folder on count: where the user keeps skills is no matter of the workspace.
    names = ("SKILL.md", "open/a.md", "private/b.md")
    given = [("read_skill_resource", {"name": "own", "path": name}) for name in names]
    found = results(await played(folder, "", *given, config=config))
    assert ["needle" in each for each in found] == [True, True, False]


@pytest.mark.parametrize(
    ("workspace", "path"),
    [
        ("{root: ./data}", "/private/a.txt"),
        ("{root: ., routes: {/x/: ./data}}", "/x/private/a.txt"),
        ("{root: ., routes: {/z/: ./data/private}}", "/z/a.txt"),
    ],
)
async def test_a_sub_agent_that_works_behind_a_link_is_judged_by_the_links_name(
    folder: Path, workspace: str, path: str
) -> None:
    """Its root was resolved, so rules with a slash of the agent above did not apply."""
    put(folder.parent, "ext/private/a.txt", "ext/open.txt")
    (folder / "data").symlink_to("../ext")
    asked = [("read_file", {"path": path}), ("write_file", {"path": f"{path}.new", "content": "x"})]
    asked += [("grep", {"pattern": "."}), ("glob", {"pattern": "**"}), ("ls", {"path": "/"})]
    model = roles(go=[sends("look around"), "done"], look=looking(*asked))
    config = write_agent(
        folder,
        f"agents: {{helper: {{description: Helps., overrides: {{workspace: {workspace}}}}}}}\n"
        "workspace: {access: {'data/private/**': deny}}\n",
        tools="[probe, filesystem, subagents]",
    )
    async with Agent.from_config(config, directory=folder, model=model) as agent:
        events = await events_of(agent.stream("go"))
    wires = [each.event if isinstance(each, SubAgentEvent) else each.to_wire() for each in events]
    found = [str(each["content"]) for each in wires if each["type"] == "tool_call_result"]
    assert ["`data/private/**: deny`" in each for each in found[:2]] == [True, True]
    assert not any("a.txt" in each for each in found[2:5])
    assert not (folder.parent / "ext/private/a.txt.new").exists()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("secrets/out.txt", r"`secrets/\*\*: deny`"),
        ("secrets/out/far.txt", r"`secrets/\*\*: deny`"),
        ("secrets/../secrets/out/../open/a.txt", None),
        ("hop/far.txt", r"`secrets/\*\*: deny`"),
        ("pub/soft.txt", r"`secrets/\*\*: deny`"),
        ("pub/hard.txt", r"2 names \(hard links\)"),
        ("data/private/a.txt", r"`data/private/\*\*: deny`"),
        ("data/./open/../private/a.txt", r"`data/private/\*\*: deny`"),
        ("data/up/a.txt", r"`data/private/\*\*: deny`"),
        ("data/open/a.txt", None),
        ("data/hard.txt", r"2 names \(hard links\)"),
        ("../ext/hard.txt", None),
        ("../ext/open/a.txt", None),
        ("../ext/private/a.txt", r"`data/private/\*\*: deny`"),
        ("node_modules/hard.txt", None),
    ],
)
async def test_an_attached_file_is_judged_by_each_name_that_leads_to_it(
    folder: Path, path: str, reason: str | None
) -> None:
    """Only the real path was judged; outside of the workspace no rule with a slash applied to it."""
    put(folder.parent, "ext/private/a.txt", "ext/open/a.txt", "ext/near/far.txt", "ext/far.txt")
    put(folder, "secrets/key.txt", "pub/x.txt", "node_modules/x.txt")
    links = {
        "secrets/out.txt": "../../ext/far.txt",
        "secrets/out": "../../ext/near",
        "hop": "secrets/out",
        "pub/soft.txt": "../pub/../secrets/key.txt",
        "data": "../ext",
        "../ext/up": "private",
    }
    for link, target in links.items():
        (folder / link).symlink_to(target)
    os.link(folder / "secrets/key.txt", folder / "pub/hard.txt")
    os.link(folder.parent / "ext/far.txt", folder.parent / "ext/hard.txt")
    os.link(folder / "pub/x.txt", folder / "node_modules/hard.txt")
    yaml = 'middlewares: [resources]\nworkspace: {access: {"secrets/**": deny, "data/private/**": deny}}\n'
    model = script("one")
    async with Agent.from_config(
        write_agent(folder, yaml, tools=TOOLS), directory=folder, model=model
    ) as agent:
        if reason is None:
            await events_of(agent.stream("see", attachments=[path]))
            assert "needle" in model.requests[0].system
        else:
            with pytest.raises(UsageError, match=f"cannot be attached: .*{reason}"):
                await events_of(agent.stream("see", attachments=[path]))


def test_a_file_behind_links_without_end_is_refused_and_not_followed(folder: Path) -> None:
    put(folder.parent, "ext/a.txt")
    for name in "ab":
        (folder / name).symlink_to(".")
    (folder / "data").symlink_to("../ext")
    files = files_of(folder)
    assert files.refusal_of(folder / "/".join("ab" * 20) / "data/a.txt") == "too many links lead to it"
    assert files.refusal_of(folder / "a/b/a/data/a.txt") is None


@pytest.mark.parametrize("root", [".", "data", "../work"])
def test_a_moved_file_is_judged_by_the_rules_above_a_sub_agent(folder: Path, root: str) -> None:
    """Its parent's search hid the text that is stored of it, and the sub-agent's showed it."""
    put(folder, "data/secrets/a", "data/private/a")
    (folder.parent / "work").mkdir()
    rule = {"approve": {"mode": "run_everything", "ask": [{"*": {"path": "private/**"}}]}}
    config = write_agent(
        folder,
        f"workspace: {{access: {{secrets/**: deny}}}}\nmiddlewares: [{json.dumps(rule)}]\n"
        "agents: {h: {description: Helps., config: h.yaml}}\n",
        tools="[filesystem, subagents]",
    )
    (folder / "h.yaml").write_text(
        "{version: 1, name: h, model: gpt-4o, tools: [filesystem], middlewares: [{approve: {mode: run_everything}}],"
        f" workspace: {{root: {root}}}}}"
    )
    plan = make_plan(check(config, directory=folder, environ={"HOME": str(folder.parent / "home")}))
    built = folder.parent / "build/app"  # where the project was before
    for files in (plan.context.workspace, plan.agents["h"].plan.context.workspace):
        with calling_tool("search_knowledge_base"):
            assert "secrets/**" in str(files.refusal_of_stored(built / "secrets/merger.md"))
            assert files.needs_question(built / "private/pay.md")
            assert files.refusal_of_stored(built / "docs/a.md") is None
            assert not files.needs_question(built / "docs/a.md")
            # What is there is not moved.
            assert files.refusal_of_stored(folder / "data/secrets/a") is None
            assert not files.needs_question(folder / "data/private/a")


async def test_a_sub_agents_rules_name_a_link_as_its_parent_does(folder: Path) -> None:
    put(folder.parent, "ext/a.txt")
    put(folder, "sub/x.txt")
    (folder / "sub/l").symlink_to("../../ext")
    config = write_agent(
        folder,
        'workspace: {access: {"sub/l/**": deny}}\n'
        "agents: {h: {description: Helps., overrides: {workspace: {root: sub}}}}\n",
        tools="[filesystem, subagents]",
    )
    plan = make_plan(check(config, directory=folder, environ={"HOME": str(folder.parent / "home")}))
    helper = plan.agents["h"].plan.context.workspace
    assert "sub/l/**" in str(helper.refusal_of(folder / "sub/l/a.txt"))
    assert helper.refusal_of(folder / "sub/x.txt") is None


# A rule about a link is a rule about what the link leads to


def link_all(folder: Path, **links: str) -> None:
    for link, target in links.items():
        (folder / link).parent.mkdir(parents=True, exist_ok=True)
        (folder / link).symlink_to(target)


CERTS = {"certs/live/x/privkey.pem": "../../archive/x/privkey1.pem"}
VOLUME = {"secrets/..data": "..2026", "secrets/token": "..data/token"}
RELEASE = {"current": "releases/42"}


@pytest.mark.parametrize(
    ("links", "rule", "real"),
    [
        (RELEASE, "current/secrets/**", "releases/42/secrets/key.txt"),
        (RELEASE, "CURRENT/Secrets", "releases/42/secrets/key.txt"),
        (RELEASE, "current", "releases/42/secrets/key.txt"),
        (RELEASE, "*/secrets/**", "releases/42/secrets/key.txt"),
        (RELEASE, "{current,other}/secrets/*.txt", "releases/42/secrets/key.txt"),
        (CERTS, "privkey.pem", "certs/archive/x/privkey1.pem"),
        (CERTS, "certs/live/**", "certs/archive/x/privkey1.pem"),
        (CERTS, "**/live/*/*.pem", "certs/archive/x/privkey1.pem"),
        (VOLUME, "secrets/token", "secrets/..2026/token"),
        (VOLUME, "token", "secrets/..2026/token"),
        ({"app/[slug]": "../x/pages"}, "app/[slug]/**", "x/pages/a.txt"),
        ({**RELEASE, "releases/42/secrets": "../../vault"}, "current/secrets/**", "vault/key.txt"),
        ({**RELEASE, "releases/42/secrets": "../../vault"}, "*/secrets/**", "vault/key.txt"),
    ],
)
async def test_a_rule_that_names_a_link_closes_what_the_link_leads_to(
    folder: Path, links: Mapping[str, str], rule: str, real: str
) -> None:
    put(folder, real)
    put(folder, "open.txt", text="open\n")
    link_all(folder, **links)
    name = real.rpartition("/")[2]
    found = results(
        await played(
            folder,
            f"workspace: {{access: {{{json.dumps(rule)}: deny}}}}",
            ("read_file", {"path": real}),
            ("write_file", {"path": f"/{real}", "content": "x"}),
            ("grep", {"pattern": "needle|open"}),
            ("glob", {"pattern": f"**/{name}"}),
        )
    )
    assert [f"the rule `{rule}: deny`" in each for each in found[:2]] == [True, True]
    assert "/open.txt" in found[2]
    assert "needle" not in found[2].replace("'needle|open'", "")
    assert f"/{real}" not in found[3]
    assert (folder / real).read_text() == "needle\n"


async def test_the_user_attaches_nothing_that_a_rule_closes_by_a_link(folder: Path) -> None:
    put(folder, "certs/archive/x/privkey1.pem")
    link_all(folder, **CERTS)
    yaml = "middlewares: [resources]\nworkspace: {access: {privkey.pem: deny}}\n"
    model = script("one")
    async with Agent.from_config(
        write_agent(folder, yaml, tools=TOOLS), directory=folder, model=model
    ) as agent:
        with pytest.raises(UsageError, match=r"cannot be attached: .*`privkey.pem: deny`"):
            await events_of(agent.stream("see", attachments=["certs/archive/x/privkey1.pem"]))
        await events_of(agent.stream("see @certs/archive/x/privkey1.pem"))
    assert "needle" not in str(model.requests[0])


def writes(folder: Path, access: str, path: str) -> str:
    try:
        files_of(folder, f"workspace: {{access: {access}}}").write(path, b"new")
    except WorkspaceError as error:
        return error.message
    return "written"


@pytest.mark.parametrize(
    ("access", "path", "expected"),
    [
        ("{current/conf/**: read}", "/releases/42/conf/a", "`current/conf/**: read`"),
        ("{current/conf/**: ask}", "/releases/42/conf/a", "`current/conf/**: ask`"),
        # A rule that opens something does so for the path that it names.
        ("{'**': read, current/**: write}", "/releases/42/conf/a", "`**: read`"),
        ("{releases/**: read, current/**: write}", "/releases/42/conf/a", "`releases/**: read`"),
        ("{current/**: read, current/conf/**: write}", "/releases/42/conf/a", "written"),
        # A rule that fits the file's own path too has its exceptions there.
        ("{'**': read, releases/**: write}", "/releases/42/conf/a", "written"),
        ("{'**/*': read, releases/**: write}", "/releases/42/conf/a", "written"),
        ("{'**': read, releases/**: write, 'current/*.md': ask}", "/releases/42/a.txt", "written"),
        ("{'**': read, releases/**: write, 'current/*.md': ask}", "/releases/42/a.md", "`current/*.md: ask`"),
        ("{src/**: read, src/gen/**: write}", "/src/gen/3/a", "written"),
        # Neither a link to the workspace nor the links of a package manager close the project.
        ("{vendor/**: deny}", "/open", "written"),
        ("{vendor/up/open: deny}", "/open", "`vendor/up/open: deny`"),
        ("{node_modules/**: read}", "/packages/a/x", "written"),
        ("{node_modules/a/**: read}", "/packages/a/x", "`node_modules/a/**: read`"),
        # No name of a link lifts a protection.
        ("{vendor/up/zeus.yaml: write}", "/zeus.yaml", "it decides about this agent"),
        ("{vendor/up/zeus.yaml: write, 'vendor/up/*.md': read}", "/zeus.yaml", "it decides about this agent"),
        ("{vendor/up/.env: write}", "/.env", "it may hold keys"),
        ("{current/.env.x: write, 'current/*.md': deny}", "/releases/42/.env.x", "it may hold keys"),
        ("{releases/42/.env.x: write, 'current/*.md': deny}", "/releases/42/.env.x", "written"),
    ],
)
def test_a_link_in_a_rule_restricts_and_opens_nothing(
    folder: Path, access: str, path: str, expected: str
) -> None:
    put(folder, "releases/42/conf/a", "src/gen/3/a", "packages/a/x", "open")
    link_all(
        folder,
        **RELEASE,
        **{"src/cur": "gen/3", "vendor/up": "..", "node_modules/a": "../packages/a"},
    )
    assert expected in writes(folder, access, path)


def test_no_tool_changes_the_files_that_links_in_a_named_folder_lead_to(folder: Path) -> None:
    put(folder, "shared/tokenizer.json", "weights/model.onnx", "deep", "open")
    (folder / "model/a/b/c/d/e/f/g/h/i").mkdir(parents=True)
    link_all(folder, **{f"model/a/b/c/d/e/f/g/h/i/{each}": str(folder / "deep") for each in "ab"})
    link_all(folder, **{"model/tokenizer.json": "../shared/tokenizer.json", "model/deep": "../weights"})
    files = files_of(folder, "memory: {embeddings: {onnx: {path: model, file: deep/model.onnx}}}")
    for path in ("shared/tokenizer.json", "weights/model.onnx", "weights/new", "model/new", "deep"):
        with pytest.raises(WorkspaceError, match="it decides about this agent"):
            files.write(f"/{path}", b"new")
    files.write("/open", b"new")


def test_a_link_in_a_rule_is_followed_again_when_it_changes(folder: Path) -> None:
    put(folder, "releases/42/secrets/key", "releases/43/secrets/key")
    files = files_of(folder, "workspace: {access: {current/secrets/**: deny}}")
    for release in ("42", "43"):
        (folder / "current").unlink(missing_ok=True)
        link_all(folder, current=f"releases/{release}")
        with calling_tool("probe"):
            seen = {each for each in ("42", "43") if not files.hides(f"/releases/{each}/secrets/key")}
            assert seen == {"42", "43"} - {release}


NFD_LINK = unicodedata.normalize("NFD", "käse")


@pytest.mark.parametrize(
    ("rule", "links"),
    [
        ("Data/Keys/*", {"data": "real"}),
        ("data/keys/*", {"DATA": "real"}),
        ("käse/keys/**", {NFD_LINK: "real"}),
        ("App/Data/Keys/*", {"app/data": "../real"}),
        ("{Data,x}/keys/*", {"data": "real"}),
        ("Data/keys/[k]*", {"data": "real"}),
        ("App/[Slug]/keys/*", {"app/[slug]": "../real"}),
        ("app/{a,b}/keys/*", {"app/{a,b}": "../real"}),
        ("Memory/data/keys/*", {"kept/data": "../real"}),
        ("Data/keys/*", {"other": "open", "data": "open", "dAta": "real", "DATA": "other"}),
        ("Data/keys/*", {"Data": "open", "data": "real"}),
        ("Data/Keys/*", {"data": "hop", "hop": "real/./"}),
        ("Data/Key", {"data/key": "../real/keys/key"}),
    ],
)
def test_a_link_that_is_named_in_another_form_than_in_the_rule_is_followed(
    folder: Path, rule: str, links: Mapping[str, str]
) -> None:
    """Also one that is made while the agent runs: only the exact name was followed, for each call."""
    put(folder, "real/keys/key", "open/note", "app/x", "kept/x")
    if (folder / "REAL").exists():
        pytest.skip("the file system takes all forms for one name")
    access = f"access: {{{json.dumps(rule)}: deny}}"
    files = files_of(folder, f"workspace: {{{access}, routes: {{/memory/: kept}}}}")
    with calling_tool("probe"):
        assert not files.hides("/real/keys/key")
    for release in ("real", "moved"):
        for link, target in links.items():
            (folder / link).unlink(missing_ok=True)
            link_all(folder, **{link: target.replace("real", release)})
        with calling_tool("probe"):
            assert files.hides(f"/{release}/keys/key")
            with pytest.raises(WorkspaceError, match="closes it"):
                files.read(f"/{release}/keys/key", max_bytes=10)
            assert files.read("/open/note", max_bytes=10) == b"needle\n"
        assert files.gate is not None
        way = {str(folder.resolve() / link) for link, target in links.items() if target != "open"}
        assert way <= files.gate.deciding_links()
        (folder / "real").rename(folder / "moved") if release == "real" else None


def test_a_folder_is_listed_for_names_in_another_form_only_when_it_has_changed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "real/keys/key", "open")
    files = files_of(folder, "workspace: {access: {Data/Keys/*: deny, Data/other: deny, b/c: deny}}")
    listed: list[object] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda at: (listed.append(at), scandir(at))[1])

    def hidden() -> bool:
        with calling_tool("probe"):
            listed.clear()
            return files.hides("/real/keys/key")

    os.utime(folder, (1, 1))  # the link below may be made in the tick of this
    assert not hidden()
    for settled in (1 << 62, -(1 << 62)):
        monkeypatch.setattr("zeus_runtime.tools.like_names.SETTLED_NANOSECONDS", settled)
        assert (hidden(), listed) == (False, [str(folder.resolve())])
    assert (hidden(), listed) == (False, [])
    link_all(folder, data="real")
    assert (hidden(), len(listed)) == (True, 2)
    assert (hidden(), listed) == (True, [])


def test_a_name_that_is_there_in_another_form_alone_means_the_missing_one_too(folder: Path) -> None:
    put(folder, "real/x", "open/note")
    files = files_of(folder, "workspace: {access: {current/keys/*: deny}}")
    assert not files.hides("/open/note")
    link_all(folder, current="real", **{"real/KEYS": "../open"})
    for path in ("/real/keys/new", "/open/new"):
        with calling_tool("probe"), pytest.raises(WorkspaceError, match="closes it"):
            files.write(path, b"new")
    assert not (folder / "real/keys").exists()


def test_names_in_more_forms_than_are_followed_end_the_call(folder: Path) -> None:
    put(folder, "real/key")
    if (folder / "REAL").exists():
        pytest.skip("the file system takes all forms for one name")
    forms = ["".join(each) for each in product(*zip("secrets", "SECRETS", strict=True))]
    files = files_of(folder, "workspace: {access: {'secrets/secrets/secrets/**': deny}}")
    for each in forms[:40]:
        for inner in forms[:40]:
            (folder / each / inner).mkdir(parents=True, exist_ok=True)
    with pytest.raises(WorkspaceError, match="too many folders or links"):
        files.read("/real/key", max_bytes=10)


MOVED = [
    ("instructions: {file: current/prompt.md}", "prompt.md"),
    ("workspace: {root: current}", ".claude/skills/mine/SKILL.md"),
    ("workspace: {root: current, per: session}", "s1/.claude/skills/mine/SKILL.md"),
    ("storage: {url: sqlite:///current/data/x.db}", "data/x.db-wal"),
    ("memory: {vector_store: {chroma: {path: current/kept}}}", "kept/new"),
    ("workspace: {root: current, routes: {/large_tool_results/: current/kept}}", "kept/abc.txt"),
    ("middlewares: [{hooks: {before_run: [{command: [python3, current/hook.py]}]}}]", "hook.py"),
    ("homes: [current/home]", "home/skills/mine/SKILL.md"),
    ("homes: [current/home]", "home/prompts/x.md"),
    ("extends: current/base.yaml", "base.yaml"),
    ("", "own.py"),
]


def move(folder: Path, link: str, target: str) -> None:
    """As deployments do: another link is renamed over it."""
    (folder / "new link").symlink_to(target)
    (folder / "new link").replace(folder / link)


@pytest.mark.parametrize("way", [["current"], ["current", "releases/latest"], ["."]])
@pytest.mark.parametrize(("yaml", "file"), MOVED)
def test_what_decides_stays_protected_behind_a_link_that_moves_while_the_process_runs(
    folder: Path, yaml: str, file: str, way: Sequence[str]
) -> None:
    for release in ("41", "42"):
        put(folder, *(f"releases/{release}/{each}" for each in ("prompt.md", "hook.py", "open", "s1/open")))
        put(folder, f"releases/{release}/home/prompts/x.md", text="")
        put(folder, f"releases/{release}/base.yaml", text="version: 1\n")
        (folder / f"releases/{release}/data").mkdir()
        (folder / f"releases/{release}/kept").mkdir()
    link_all(folder, current="releases/latest" if len(way) > 1 else "releases/41")
    link_all(folder, **{"releases/latest": "41"})
    above = files_of(folder, "workspace: {routes: {/large_tool_results/: .zeus/kept}}")
    put(folder, "releases/41/own.py", "releases/42/own.py", text=(folder / "probe.py").read_text())
    assert above.gate is not None
    config = write_agent(folder, yaml, tools=TOOLS)
    config.write_text(config.read_text().replace("[probe.py]", "[current/own.py]", 1))
    trust = recorded_trust({}, "all")
    checked = check(config, directory=folder, environ={"HOME": str(folder.parent / "home")}, trust=trust)
    # The folder of all is seen by an agent above, with one record of the files that decide.
    add_deciding(above.gate.policy.floor.deciding, checked)
    refused = "it decides|holds the sessions|Zeus itself keeps"
    for release in ("41", "42", "43"):
        if release == "43":
            (folder / "releases/42").rename(folder / "releases/43")
        if release != "41" and way != ["."]:
            move(folder, way[-1], release if len(way) > 1 else f"releases/{release}")
        with calling_tool("probe"):
            if release == "41" or way != ["."]:
                with pytest.raises(WorkspaceError, match=refused):
                    above.write(f"/releases/{release}/{file}", b"evil")
            else:
                assert above.gate.policy.floor.deciding.now() is above.gate.policy.floor.deciding
            above.write(f"/releases/{release}/open", b"new")


@pytest.mark.parametrize("way", [["x.db"], ["x.db", "hop"]])
@pytest.mark.parametrize("name", ["x.db", "other.db"])
def test_what_sqlite_makes_beside_a_database_that_is_a_link_is_closed_where_the_link_leads(
    folder: Path, way: Sequence[str], name: str
) -> None:
    put(folder, f"a/{name}", f"b/{name}", "a/open", "b/open")
    link_all(folder, **dict(zip(way, [*way[1:], f"a/{name}"], strict=True)))
    files = files_of(folder, "storage: {url: sqlite:///x.db}")
    for place in "ab":
        if place == "b":
            move(folder, way[-1], f"b/{name}")
        with calling_tool("probe"):
            for closed in (f"/{place}/{name}", "/x.db"):
                for end in ("", "-wal", "-shm", "-journal"):
                    assert files.hides(f"{closed}{end}")
                    with pytest.raises(WorkspaceError, match="holds the sessions"):
                        files.write(f"{closed}{end}", b"evil")
            assert not files.hides(f"/{place}/open")
        assert str(folder.resolve() / place) in files.gate.policy.floor.deciding.now().key_folders  # type: ignore[union-attr]
    assert files.hides(f"/a/{name}-wal")


def test_a_key_behind_a_link_that_moves_stays_closed_also_while_the_link_is_missing_for_a_moment(
    folder: Path,
) -> None:
    put(folder, "conf/a", "conf/b", "conf/c", text="K=v\n")
    link_all(folder, **{".env": "conf/a"})
    files = files_of(folder)
    assert files.gate is not None
    with calling_tool("probe"):
        assert [files.hides(f"/conf/{each}") for each in "abc"] == [True, False, False]
        before = files.gate.seen_with()
        move(folder, ".env", "conf/b")
        assert not files.hides("/conf/b")  # one call has one view of the links
    with calling_tool("probe"):
        assert [files.hides(f"/conf/{each}") for each in "abc"] == [True, True, False]
        assert files.gate.seen_with() != before
        assert str(folder.resolve() / "conf/b") in set(files.gate.unseen())
        assert files.gate.mount_refusal(str(folder.resolve() / "conf")) is not None
        assert files.gate.is_key((folder / "conf/b").stat())
    (folder / ".env").unlink()
    with calling_tool("probe"):
        assert files.hides("/conf/a")
    link_all(folder, **{".env": "conf/c"})
    with calling_tool("probe"):
        assert files.hides("/conf/c")


def test_links_that_have_not_moved_are_only_read_by_a_call(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "conf/a", "open", text="K=v\n")
    link_all(folder, **{".env": "conf/a"})
    files = files_of(folder)
    files.hides("/conf/a")
    asked: list[str] = []
    monkeypatch.setattr(moved_links, "real_path", lambda path: asked.append(path) or str(path))
    monkeypatch.setattr(moved_links, "links_passed", asked.append)
    for _ in range(3):
        with calling_tool("probe"):
            assert files.hides("/conf/a")
            assert not files.hides("/open")
    assert asked == []


def test_what_a_service_closes_later_counts_in_a_plan_and_is_kept_once() -> None:
    later, edited = moved_links.FollowedDeciding(), moved_links.FollowedDeciding()
    plan = moved_links.FollowedDeciding(later)
    plan.add("/a/own")
    assert plan.now() is plan
    edited.add("/a/hook.py")
    edited.add_archive("/a/kept", "large_tool_results")
    edited.shown[Path("/a/shown")] = edited.around[Path("/a/around")] = None
    edited.unasked_files["/a/.netrc"] = None
    edited.add_way("/a/made/__pycache__")
    edited.add_modules("/a/src", {"json"}, "it is earlier")
    edited.served = frozenset({"/a/agents"})
    for _ in range(2):
        later.take(edited)
    found = plan.now()
    places = ("own", "hook.py", "src/json.py", "other")
    assert [bool(found.find(f"/a/{each}")) for each in places] == [True, True, True, False]
    assert found.served == {"/a/agents"}
    assert found.is_way("/a/made")
    assert (*found.unasked_files, *found.shown, *found.around, *found.archives) == (
        "/a/.netrc",
        Path("/a/shown"),
        Path("/a/around"),
        "/a/kept",
    )
    assert len(later._additions) == 3, "a text that is looked at again and again takes no more memory"
    assert plan.now() is found


def test_links_are_searched_once_and_not_for_each_call(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(folder, "certs/archive/x/privkey1.pem", "open")
    link_all(folder, **CERTS)
    files = files_of(folder, "workspace: {access: {privkey.pem: deny}}")
    assert files.hides("/certs/archive/x/privkey1.pem")

    def refused(*_args: object) -> None:
        raise AssertionError("a folder was listed")

    monkeypatch.setattr(os, "scandir", refused)
    for name in ("one", "two"):
        with calling_tool(name):
            assert files.hides("/certs/archive/x/privkey1.pem")
            assert files.read("/open", max_bytes=10) == b"needle\n"


def test_links_are_searched_only_for_rules_and_in_a_part_of_a_large_workspace(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "certs/archive/x/privkey1.pem", *(f"{n}/{m}" for n in range(30) for m in range(100)))
    link_all(folder, **CERTS, **{"key.pem": "certs/archive/x/privkey1.pem"})
    (folder / "loop").symlink_to("loop")
    for access, listed in (("{'**': write}", 0), ("{'*.pem': deny, loop/x: deny}", 40)):
        files = files_of(folder, f"workspace: {{access: {access}}}")
        read: list[object] = []
        scandir = os.scandir
        monkeypatch.setattr(os, "scandir", lambda at: (read.append(at), scandir(at))[1])  # noqa: B023
        assert files.hides("/certs/archive/x/privkey1.pem") == bool(listed)
        assert len(read) <= listed
        monkeypatch.undo()
        monkeypatch.chdir(folder)


def test_a_sub_agent_is_held_by_a_link_in_its_parents_rule(folder: Path) -> None:
    put(folder, "releases/42/secrets/key", "releases/42/open")
    link_all(folder, **RELEASE)
    config = write_agent(
        folder,
        "workspace: {access: {current/secrets/**: deny}}\n"
        "agents: {h: {description: Helps., overrides: {workspace: {root: releases}}}}\n",
        tools="[filesystem, subagents]",
    )
    plan = make_plan(check(config, directory=folder, environ={"HOME": str(folder.parent / "home")}))
    helper = plan.agents["h"].plan.context.workspace
    assert helper.hides("/42/secrets/key")
    assert not helper.hides("/42/open")


@pytest.mark.parametrize("path", ["releases/42/secrets/key", "current/secrets/key"])
async def test_a_path_rule_of_approve_closes_what_a_link_in_it_leads_to(folder: Path, path: str) -> None:
    put(folder, "releases/42/secrets/key")
    link_all(folder, **RELEASE)
    found = results(
        await played(
            folder,
            'middlewares: [{approve: {mode: run_everything, deny: [{"*": {path: "current/secrets/**"}},'
            ' {echo: {text: ["a\\0b/c", "https://x/{a,b}", "git {}"]}}]}}]',
            ("read_file", {"path": path}),
            ("grep", {"pattern": "needle"}),
        )
    )
    assert '`deny: * {"path": "current/secrets/**"}`' in found[0]
    assert found[1].startswith("No match")


OPENING = """
from pathlib import Path

from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import tool


def create(options, context):
    @tool(access="read")
    def fetch(path: str) -> str:
        \"""Open a file as a server does, which removes white space and quotes.\"""
        return (Path(context.directory) / path.strip(" \\n\\t\\"'`")).read_text()

    @tool(paths=["to"])
    def put_at(to: str, content: str) -> str:
        \"""Write a file.\"""
        context.workspace.write(to, content.encode())
        return "written"

    return [fetch, put_at]


@hookimpl
def register_tools():
    return [Component("probe", create=create)]
"""


@pytest.mark.parametrize(
    ("rule", "root", "tool", "arguments"),
    [
        (
            '{write_file: {path: "data/infra/**", content: "*"}}',
            "data",
            "write_file",
            {"path": "infra/a.txt"},
        ),
        ('{put_at: {to: "data/infra/**"}}', "data", "put_at", {"to": "/infra/a.txt"}),
        ('{put_at: {to: "data/infra/a.txt"}}', "data/infra", "put_at", {"to": "a.txt"}),
        ('{put_at: {to: "link/infra/**"}}', "data", "put_at", {"to": "infra/a.txt"}),
        ('{put_at: {to: "out/infra/**"}}', "out", "put_at", {"to": "infra/a.txt"}),
        ('{put_at: {to: "data/infra/**"}}', "data", "put_at", {"to": "/up/infra/a.txt"}),
    ],
)
async def test_a_rule_for_calls_judges_a_sub_agents_path_by_its_place(
    folder: Path, rule: str, root: str, tool: str, arguments: Mapping[str, str]
) -> None:
    put(folder, "data/infra/a.txt", "data/open.txt")
    put(folder.parent, "ext/infra/a.txt", "ext/open.txt")
    link_all(folder, link="data", out="../ext", **{"data/up": "."})
    config = write_agent(
        folder,
        f"agents: {{helper: {{description: Helps., overrides: {{workspace: {{root: {root}}}}}}}}}\n"
        f"middlewares: [{{approve: {{mode: run_everything, deny: [{rule}]}}}}]\n",
        plugin=OPENING,
        tools="[probe, filesystem, subagents]",
    )
    other = {"put_at": {"to": "open.txt"}, "write_file": {"path": "open.txt"}}[tool]
    look = looking(*((tool, {**each, "content": "EVIL"}) for each in (arguments, other)))
    model = roles(go=[sends("look around"), "done"], look=look)
    async with Agent.from_config(config, directory=folder, model=model) as agent:
        events = await events_of(agent.stream("go"))
    wires = [each.event for each in events if isinstance(each, SubAgentEvent)]
    found = [str(each["content"]) for each in wires if each["type"] == "tool_call_result"]
    assert "is not allowed with these arguments (the rule `deny:" in found[0]
    assert "not allowed" not in found[1]
    for at in ("project/data", "ext"):
        assert (folder.parent / at / "infra/a.txt").read_text() == "needle\n"


@pytest.mark.parametrize(
    "path", ["releases/42/secrets/key", "{folder}/releases/42/secrets/key", "certs/archive/x/privkey1.pem"]
)
async def test_a_rule_for_calls_judges_the_paths_of_tools_that_open_files_themselves_by_links(
    folder: Path, path: str
) -> None:
    put(folder, "releases/42/secrets/key", "certs/archive/x/privkey1.pem", "open")
    link_all(folder, **RELEASE, **CERTS)
    deny = 'deny: [{"*": {path: ["current/secrets/**", "certs/live/**"]}}]'
    config = write_agent(
        folder, f"middlewares: [{{approve: {{mode: run_everything, {deny}}}}}]\n", plugin=OPENING, tools=TOOLS
    )
    asked = [("fetch", {"path": each}) for each in (path.format(folder=folder), "open")]
    found = results(await played(folder, "", *asked, config=config))
    assert "is not allowed with these arguments" in found[0]
    assert found[1] == "needle\n"


async def test_an_allow_rule_for_a_link_allows_no_call_by_another_path(folder: Path) -> None:
    put(folder, "releases/42/a", "releases/42/b")
    link_all(folder, **RELEASE)
    config = write_agent(
        folder,
        "middlewares: [{approve: {mode: ask, read_tools: ask, allow: [{fetch: {path: 'current/**'}}],"
        " ask: [{fetch: {path: 'current/a'}}]}}]\n",
        plugin=OPENING,
        tools=TOOLS,
    )
    events = await played(folder, "", ("fetch", {"path": "releases/42/b"}), config=config)
    assert isinstance(events[-1], RunFailed)
    assert events[-1].code == "approval_needed"


@pytest.mark.parametrize(
    "around", ["{} ", " {}", "{}\n", "{}\r\n", "\t{}", "{}\u00a0", "'{}'", '"{}"', "{}'", "` {} `"]
)
async def test_white_space_and_quotes_around_a_path_lead_around_no_rule(folder: Path, around: str) -> None:
    put(folder, "prod.key", "secrets/key", "a/b.pem", "open")
    deny = 'deny: [{"*": {path: [prod.key, "secrets/**", "**/*.pem"]}}]'
    config = write_agent(
        folder, f"middlewares: [{{approve: {{mode: run_everything, {deny}}}}}]\n", plugin=OPENING, tools=TOOLS
    )
    paths = ["prod.key", "secrets/key", "a/b.pem", "open"]
    asked = [("fetch", {"path": around.format(each)}) for each in paths]
    *closed, is_open = results(await played(folder, "", *asked, config=config))
    assert ["is not allowed with these arguments" in each for each in closed] == [True] * 3
    assert "not allowed" not in is_open


TAKING_URIS = """
from pathlib import Path
from urllib.parse import unquote, urlsplit

from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import tool


def create(options, context):
    def opened(text):
        uri = urlsplit(text.strip("'"))
        return (Path(context.directory) / (unquote(uri.path) if uri.scheme == "file" else text)).read_text()

    @tool(access="read")
    def fetch(path: str) -> str:
        \"""Open a file as a server does that takes URIs too.\"""
        return opened(path)

    @tool(access="read")
    def convert(uri: str) -> str:
        \"""Open the file of a URI.\"""
        return opened(uri)

    return [fetch, convert]


@hookimpl
def register_tools():
    return [Component("probe", create=create)]
"""
URIS = [
    *(
        "file://{at}/{name}",
        "file:{at}/{name}",
        "FILE:{at}/{name}",
        "file:{name}",
        "file://localhost{at}/{name}",
    ),
    *("file:///{at}/{name}", " fi\tle:{at}/{name}", "'file:{name}'", "file:{at}/{name}?x", "file:{name}#y"),
]


@pytest.mark.parametrize(("tool", "argument"), [("fetch", "path"), ("convert", "uri")])
async def test_a_file_uri_leads_around_no_rule(folder: Path, tool: str, argument: str) -> None:
    put(folder, "secrets/key", "open", "prod.pem")
    link_all(folder, link="secrets")
    deny = f'deny: [{{"*": {{{argument}: ["secrets/**", prod.pem]}}}}]'
    config = write_agent(
        folder,
        f"middlewares: [{{approve: {{mode: run_everything, {deny}}}}}]\n",
        plugin=TAKING_URIS,
        tools=TOOLS,
    )
    closed = ("secrets/key", "secr%65ts/key", "secrets%2Fkey", "link/key", "prod.p%65m", "secrets%zzkey")
    for name in (*closed, "open", "op%65n"):
        asked = [(tool, {argument: uri.format(at=folder, name=name)}) for uri in URIS]
        told = results(await played(folder, "", *asked, config=config))
        is_closed = ["is not allowed with these arguments" in each for each in told]
        assert is_closed == [name in closed] * len(URIS), name


GIT_COPIES = {
    *("objects/ab/cd", "index", "Modules/x/objects/ab", "lfs/a", "sharedindex.ab"),
    *("modules/x/HEAD", "modules/x/objects/ab", "modules/x/refs/x"),
    *("COMMIT_EDITMSG", "lost-found/other/ab", "rebase-merge/patch", "tool-of-tomorrow/a"),
    *("worktrees/w/index", "worktrees/w/rebase-merge/patch", "worktrees/w/COMMIT_EDITMSG"),
}
GIT_RECORDS = {
    *("HEAD", "config", "config.worktree", "info/objects", "refs/heads/index", "logs/HEAD", "packed-refs"),
    *("FETCH_HEAD", "worktrees/w/HEAD", "worktrees/w/logs/HEAD", "worktrees/index/gitdir"),
    "worktrees/w/commondir",
}


@pytest.mark.parametrize(
    ("access", "closed"),
    [
        ("{}", set()),
        ("{'**': read}", set()),
        ("{secrets/**: deny}", GIT_COPIES),
        ("{'.env*': deny}", GIT_COPIES),
        ("{secrets/**: deny, .git: read, .git/worktrees: read}", GIT_COPIES),
        ("{secrets/**: deny, .git/objects: read, '.git/l*': read}", GIT_COPIES - {"objects/ab/cd"}),
        ("{secrets/**: deny, .git/index: write}", GIT_COPIES - {"index"}),
        (
            "{secrets/**: deny, .git/worktrees/w/rebase-merge: read}",
            GIT_COPIES - {"worktrees/w/rebase-merge/patch"},
        ),
    ],
)
@pytest.mark.parametrize("at", [".git", "data"])
def test_gits_copies_of_denied_files_are_not_read(
    folder: Path, access: str, closed: set[str], at: str
) -> None:
    names = GIT_COPIES | GIT_RECORDS
    put(folder, *(f".git/{each}" for each in names))
    (folder / "data").symlink_to(".git")
    files = files_of(folder, f"workspace: {{access: {access}}}")
    for name in names:
        if name in closed:
            with pytest.raises(WorkspaceError, match="git may keep copies of files there"):
                files.read(f"/{at}/{name}", max_bytes=100)
        else:
            assert files.read(f"/{at}/{name}", max_bytes=100) == b"needle\n"


# What decides about the agent


DECIDING = [
    "zeus.yaml",
    "ZEUS.YAML",
    "zeus.prod.yaml",
    "zeus.prod.yaml/x",
    "probe.py",
    "__pycache__/probe.cpython-311.pyc",
    "base.yaml",
    "soul.md",
    "helper.yaml",
    "helper.prod.yaml",
    ".env",
    ".env.local",
    "sub/.env",
    ".mcp.json",
    ".git/hooks/pre-commit",
    "sub/.GIT/config",
    ".git./config",
    ".g\u200cit/config",
    ".zeus/prompts/SOUL.md",
    ".zeus/zeus.db",
    "home/prompts/SOUL.md",
    "home/configs/default.yaml",
    "home/skills/x/SKILL.md",
    ".claude/skills/x/SKILL.md",
    ".agents/skills/x/SKILL.md",
    "state/agent.db",
    "state/agent.db-wal",
    "link/zeus.yaml",
    "/all/zeus.yaml",
    "/all/.git/config",
    "/large_tool_results/forged",
    "/conversation_history/session_1.md",
    "/attached_files/x",
]


@pytest.mark.parametrize("path", DECIDING)
def test_no_tool_writes_what_decides_about_the_agent_whether_it_is_there_or_not(
    folder: Path, path: str
) -> None:
    put(folder, "home/prompts/OTHER.md", "soul.md")
    (folder / "base.yaml").write_text("version: 1\n")
    (folder / "link").symlink_to(".")
    (folder / "helper.yaml").write_text("version: 1\nname: helper\nmodel: gpt-4o\n")
    files = files_of(
        folder,
        "extends: [./base.yaml]\nhomes: [home]\nprompt: {files: {soul: soul.md}}\n"
        "storage: {url: 'sqlite:///state/agent.db'}\nworkspace: {routes: {/all/: .}}\n"
        "agents: {helper: {description: Helps., config: helper.yaml}}\n",
        tools="[probe, filesystem, subagents]",
    )
    before = sorted(each.as_posix() for each in folder.rglob("*"))
    with pytest.raises(Exception, match="no tool may"):
        files.write(path, b"forged")
    with pytest.raises(Exception, match=r"no tool may|does not exist|is a file|no such file"):
        files.edit(path, lambda _data: b"forged", max_bytes=1000)
    with pytest.raises(Exception, match="no tool may"):
        files.append(path, b"forged")
    assert sorted(each.as_posix() for each in folder.rglob("*")) == before


@pytest.mark.parametrize("own", ["homes: [home]\n", ""])
def test_no_tool_writes_a_preset_where_an_extended_file_looks_for_its_own(folder: Path, own: str) -> None:
    """The Homes of that file count for its ``extends``, also where the extending file names others for the run."""
    put(folder, "lib/vendor/README", "home/README")
    (folder / "lib/base.yaml").write_text("version: 1\nhomes: [vendor]\nextends: [economy]\n")
    files = files_of(folder, f"extends: [./lib/base.yaml]\n{own}")
    with pytest.raises(Exception, match="no tool may"):
        files.write("/lib/vendor/configs/economy.yaml", b"forged")


def test_no_tool_writes_a_file_that_only_a_run_without_the_stronger_file_reads(folder: Path) -> None:
    put(folder, "lib/soul.md", "mine.md")
    (folder / "lib/base.yaml").write_text('version: 1\nprompt: {files: {soul: soul.md, core: "a\\0"}}\n')
    files = files_of(folder, "extends: [./lib/base.yaml]\nprompt: {files: {soul: mine.md, core: mine.md}}\n")
    for path in ("/lib/soul.md", "/mine.md"):
        with pytest.raises(Exception, match="no tool may"):
            files.write(path, b"forged")


def test_no_tool_changes_what_a_component_opens_or_a_server_runs(folder: Path) -> None:
    """The database of checkpoints, an SSH key, the machines it trusts, a server's program: none was protected."""
    put(folder, "srv/server.py", "key", "hosts", "state/a[1].db")
    files = files_of(
        folder,
        "storage: {url: 'sqlite:///state/a[1].db'}\n"
        "checkpointer: {sqlite: {path: cp/c.db}}\n"
        "mcpServers: {s: {command: python3, args: [srv/server.py]}}\n",
        tools="[probe, mcp, filesystem, {sandbox: {backend: {ssh: {host: h, key: key, known_hosts: hosts}}}}]",
    )
    for path in (
        "state/a[1].db",
        "state/a[1].db-wal",
        "cp/c.db",
        "cp/c.db-wal",
        "srv/server.py",
        "key",
        "hosts",
    ):
        with pytest.raises(Exception, match="no tool may"):
            files.write(path, b"forged")
    with pytest.raises(Exception, match="no tool may read or change"):
        files.read("key", max_bytes=100)
    assert files.read("hosts", max_bytes=100)


@pytest.mark.parametrize("url", ["data/a%2Edb", "data%2Fa.db?timeout=3", "link/../a%2edb"])
def test_no_tool_changes_the_database_however_its_url_is_written(folder: Path, url: str) -> None:
    (folder / "data/deep").mkdir(parents=True)
    (folder / "link").symlink_to("data/deep")
    files = files_of(folder, f"storage: {{url: 'sqlite:///{url}'}}\n")
    for path in ("data/a.db", "data/a.db-wal", "data/a.db-journal"):
        with pytest.raises(Exception, match="it holds the sessions"):
            files.write(path, b"forged")
    assert files.write("data/other.db", b"")


LINKED = {
    # A skill behind a link, what a link in it leads to, and a link that leads through another.
    ".claude/skills/tidy": ("../../vendor/tidy", ["vendor/tidy/SKILL.md", "vendor/tidy/new.md"]),
    "vendor/tidy/scripts/run.sh": ("../../../lib/run.sh", ["lib/run.sh"]),
    ".agents/skills/deep/refs/all.md": ("../../../../step.md", ["step.md", "docs/all.md"]),
    "step.md": ("docs/all.md", []),
    ".zeus/prompts/team": ("../../shared/team", ["shared/team/SOUL.md"]),
    "home/configs/review.yaml": ("../../zeus/review.yaml", ["zeus/review.yaml"]),
    "home/prompts/later.md": ("../../zeus/later.md", ["zeus/later.md"]),
    "../home/.config/zeus/configs/own.yaml": ("../../../../project/zeus/own.yaml", ["zeus/own.yaml"]),
    ".claude/skills/circle": ("circle", []),
    ".env.local": ("conf/local.txt", ["conf/local.txt"]),
    ".mcp.json": ("conf/servers.txt", ["conf/servers.txt"]),
}


def linked(folder: Path) -> None:
    for name, (target, files) in LINKED.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(target)
        put(folder, *(each for each in files if not each.endswith(("new.md", "later.md", "step.md"))))


@pytest.mark.parametrize("path", [file for _, files in LINKED.values() for file in files])
def test_no_tool_changes_what_a_link_among_deciding_files_leads_to(folder: Path, path: str) -> None:
    linked(folder)
    with pytest.raises(
        WorkspaceError, match=r"decides about this agent, so no tool may (read or )?change it"
    ):
        files_of(folder, "homes: [home]\n").write(path, b"forged")
    real = (folder / path).resolve().relative_to(folder.resolve())
    opened = files_of(folder, f"homes: [home]\nworkspace: {{access: {{'{real}': write}}}}\n")
    opened.write(str(real), b"allowed")
    assert (folder / real).read_bytes() == b"allowed"


def test_what_lies_beside_what_a_link_leads_to_stays_open(folder: Path) -> None:
    linked(folder)
    files = files_of(folder, "homes: [home]\n")
    for path in ("vendor/other.md", "lib/other.sh", "docs/other.md", "zeus/other.yaml", "conf/other.txt"):
        assert files.write(path, b"mine")


@pytest.mark.parametrize("path", ["conf/local.txt", "conf/servers.txt"])
@pytest.mark.parametrize("key", [".", "sub"])
def test_no_tool_reads_keys_behind_a_link_that_this_run_did_not_load(
    folder: Path, path: str, key: str
) -> None:
    """In the workspace's root, and in the folder of the config."""
    linked(folder)
    for name in (".env.local", ".mcp.json") if key == "sub" else ():
        (folder / name).unlink()
        put(folder, "sub/x")
        (folder / "sub" / name).symlink_to(f"../{LINKED[name][0]}")
    files = files_of(folder, f"workspace: {{root: {key}, routes: {{/all/: .}}}}\n")
    with pytest.raises(WorkspaceError, match="no tool may read or change it"):
        files.read(f"/all/{path}", max_bytes=100)


def test_a_project_that_is_a_skill_of_its_own_can_be_changed(folder: Path) -> None:
    put(folder, "SKILL.md", ".claude/skills/x/SKILL.md")
    (folder / ".claude/skills/me").symlink_to("../..")
    files = files_of(folder)
    assert files.write("src/new.py", b"")
    with pytest.raises(WorkspaceError, match="no tool may change it"):
        files.write("SKILL.md", b"forged")


def test_a_project_whose_folders_are_all_skills_cannot_be_changed(folder: Path) -> None:
    """A new folder with a `SKILL.md` would be a skill of the next run."""
    put(folder, ".claude/skills/x/SKILL.md")
    (folder / ".claude/skills/all").symlink_to("../..")
    with pytest.raises(WorkspaceError, match="no tool may change it"):
        files_of(folder).write("new/SKILL.md", b"forged")


def test_a_link_to_a_whole_disk_does_not_hold_up_the_start(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []

    def counted(name: str) -> None:
        function = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args: (read.append(args), function(*args))[1])

    counted("scandir")
    counted("listdir")
    (folder / ".claude/skills").mkdir(parents=True)
    (folder / ".claude/skills/a").symlink_to("/")
    (folder / ".claude/skills/b").symlink_to("../../vendor")
    with pytest.raises(WorkspaceError, match="no tool may change it"):
        files_of(folder).write("vendor/SKILL.md", b"forged")
    assert 0 < len(read) < 5_000, "a disk has tens of thousands of folders"


def test_no_tool_changes_what_a_servers_words_name(folder: Path) -> None:
    put(
        folder,
        "tools/__main__.py",
        "far/run.sh",
        "pkg/srv.py",
        "lib/server.js",
        "notes/a.db",
        "free/x",
        "lone/__main__.py",
    )
    files = files_of(
        folder,
        "mcpServers:\n"
        "  a: {command: python3, args: [tools]}\n"
        "  b: {command: sh, args: [-c, 'cd far && ./run.sh']}\n"
        "  c: {command: python3, args: [-Im, pkg.srv, notes], data: [notes]}\n"
        "  d: {command: node, args: [lib/server, --load=plug.py, --out, report], env: {NODE_PATH: 'src:more'}}\n"
        "  f: {command: env, args: [PYTHONPATH=own, python3, -mfree.srv]}\n"
        "  g: {command: python3, args: [-m, lone]}\n"
        "  e: {command: python3, args: [-Wx, -m, later, --notes, new.db], data: [new.db]}\n",
        tools="[probe, mcp, filesystem]",
    )
    absent = (
        "own/sitecustomize.py",
        "free/__init__.py",
        "free.py",
        "lone.py",
        "pkg/__init__.py",
        "pkg.py",
        "pkg.so",
        "plug.py",
        "later.py",
        "later/__init__.py",
        "src/a.js",
        "more/b",
    )
    for path in absent:
        with pytest.raises(Exception, match="a program of the config would start it"):
            files.write(path, b"forged")
    for path in (
        "tools/__main__.py",
        "tools/deep/new.py",
        "far/run.sh",
        "far/new",
        "pkg/srv.py",
        "lib/server.js",
    ):
        with pytest.raises(Exception, match="no tool may change it"):
            files.write(path, b"forged")
    for path in ("notes/a.db", "notes/new", "free/x", "lib/new", "new.db", "report/x", "pkg.md"):
        files.write(path, b"mine")
        assert files.read(path, max_bytes=9) == b"mine"


def test_no_tool_makes_a_program_that_the_config_starts(folder: Path) -> None:
    put(folder, "build/server.c")
    (folder / "link").symlink_to("far/linked")
    files = files_of(
        folder,
        "mcpServers:\n"
        "  a: {command: ./build/server}\n"
        "  b: {command: bin/server, cwd: work}\n"
        "  c: {command: ./link, data: [far]}\n"
        "middlewares: [hooks: {after_run: [{command: [bin/check]}]}]\n",
        tools="[probe, mcp, filesystem]",
    )
    for path in ("build/server", "work/bin/server", "link", "far/linked", "bin/check"):
        with pytest.raises(Exception, match="a program of the config would start it"):
            files.write(path, b"forged")
    for path in ("build/server.c", "build/server.h", "build/other", "server", "bin/server", "check", "far/x"):
        files.write(path, b"mine")


EXECUTED_VALUES = {
    "BASH_ENV: env.sh": ("env.sh",),
    "BASH_ENV: later.sh": ("later.sh",),
    "ENV: ./bare": ("bare",),
    "PYTHONPATH: lib": (),
    "NODE_OPTIONS: --require=./hook": ("hook.js",),
    "GIT_CONFIG_GLOBAL: gitconfig": ("gitconfig", "work/gitconfig"),
}


@pytest.mark.parametrize("value", EXECUTED_VALUES)
def test_no_tool_changes_what_the_value_of_an_executed_option_names(value: str, folder: Path) -> None:
    put(folder, "env.sh", "lib/a.py", "hook.js", "gitconfig", "work/gitconfig", "free/a.py")
    (folder / "base.yaml").write_text(f"tools: [{{shell: {{env: {{{value}}}}}}}]\n")
    for yaml, tools in (
        ("", f"[probe, filesystem, {{shell: {{contain: none, env: {{{value}}}}}}}]"),
        ("extends: ./base.yaml\n", "[probe, filesystem]"),  # a run with the other tools does not load it
    ):
        files = files_of(folder, f"{yaml}workspace: {{routes: {{/work/: work}}}}\n", tools=tools)
        for path in EXECUTED_VALUES[value]:
            with pytest.raises(Exception, match=r"no tool may change it|no tool may make|would start it"):
                files.write(path, b"forged")
        for path in ("free/a.py", "other.sh", "libs", "lib/a.py", "lib/new.py"):
            files.write(path, b"mine")


@pytest.mark.parametrize(
    "value", ["BASH_ENV: env.sh", "BASH_ENV: later.sh", "A: ./deep/er/env.sh", "GIT_CONFIG: gitconfig"]
)
def test_what_an_executed_option_names_is_closed_in_each_workspace(value: str, folder: Path) -> None:
    """A command reads a relative name in the folder in which it starts."""
    put(folder, "env.sh", "gitconfig", "work/s2/a", "far/a")
    name = value.split(": ")[1]
    tools = f"[probe, filesystem, {{shell: {{contain: none, env: {{{value}}}}}}}]"
    for per, own in (("", ""), (", per: session", "session_1/"), (", per: user", "ann/")):
        yaml = f"workspace: {{root: work{per}, routes: {{/far/: far}}}}\n"
        config = write_agent(folder, yaml, tools=tools)
        deciding = Deciding()
        add_deciding(deciding, check(config, directory=folder, environ={}, trust=recorded_trust({}, "all")))
        for place in (f"work/{own}", "far/", *(["work/s2/"] if per else [])):
            assert deciding.find(str(folder / place / name)) is not None, (per, place)
            assert deciding.find(str(folder / place / "other.sh")) is None
            assert deciding.find(str(folder / place / "free" / Path(name).name)) is None
        assert deciding.find(str(folder / "work2" / name)) is None


def test_a_rule_opens_what_an_executed_option_names_in_a_user_s_workspace(folder: Path) -> None:
    tools = "[probe, filesystem, {shell: {contain: none, env: {FLASK_APP: app.py}}}]"
    for access, is_open in (("", False), (", access: {app.py: write}", True)):
        (folder / "work").mkdir(exist_ok=True)
        files = files_of(folder, f"workspace: {{root: work, per: user{access}}}\n", tools=tools)
        files.root.mkdir(parents=True, exist_ok=True)
        with nullcontext() if is_open else pytest.raises(WorkspaceError, match="decides about this agent"):
            files.write("app.py", b"mine")


def test_an_option_that_counts_by_name_closes_no_file(folder: Path) -> None:
    put(folder, "deploy/a", "none/a")
    docker = "{docker: {image: deploy, folder: boxes}}"
    tools = f"[probe, filesystem, {{shell: {{contain: none}}}}, {{sandbox: {{backend: {docker}}}}}]"
    files = files_of(folder, tools=tools)
    for path in ("deploy/a", "none/a"):
        files.write(path, b"mine")


def test_no_tool_changes_a_file_that_a_variable_of_the_process_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(
        folder,
        "sa.json",
        "aws.conf",
        "pgpass",
        "tokens/zeus",
        "app.py",
        "settings.py",
        "lib/a",
        "up/a",
        "lone",
    )
    put(folder, "free")
    (folder / "link").symlink_to("up/a")
    for name, value in {
        "GOOGLE_APPLICATION_CREDENTIALS": "sa.json",
        "AWS_CONFIG_FILE": f"{folder}/aws.conf",
        "PGPASSFILE": "./pgpass",
        "ZEUS_TOKEN_FILE": "tokens/zeus",
        "FLASK_APP": "app.py",
        "APP_SETTINGS": f"{folder}/settings.py",
        "LINKED": "link",
        "LATER": "./later",
        "LATER_ABSOLUTE": f"{folder}/after",
        "LATER_ABOVE": "../project/above",
        "OUTSIDE": str(folder.parent / "outside"),
        "HOME": str(folder),
        "OUR_KEY_FILE": "~/later.pem",
        "LATER_WORD": "word",
        "OUR_KEYS_DIR": "./keys/",
        "PYTHONPATH": "lib",
        "LONE": f"lone{os.pathsep}lone",
        "LONG": "/" + "a" * 5_000,
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OLDPWD", str(folder))
    files = files_of(folder)
    for path in (
        "sa.json",
        "aws.conf",
        "pgpass",
        "tokens/zeus",
        "settings.py",
        "later.pem",
    ):
        with pytest.raises(Exception, match="names it for Zeus, so no tool may"):
            files.write(path, b"forged")
    for path in ("sa.json", "pgpass", "tokens/zeus", "later.pem"):
        with pytest.raises(Exception, match="so no tool may read or change it"):
            files.read(path, max_bytes=9)
    for path in ("aws.conf", "settings.py"):
        assert files.read(path, max_bytes=9) == b"needle\n"
    for path in ("lib/a", "free", "word", "keys/a", "lone", "app.py", "up/a", "later", "after"):
        files.write(path, b"mine")
    deciding = Deciding()
    add_deciding(deciding, check(write_agent(folder), directory=folder, environ={}))
    assert deciding.find(str(folder / "later.pem")) is not None
    assert deciding.find(str(folder.parent / "outside")) is None
    opened = files_of(folder, "workspace: {access: {settings.py: write, sa.json: read}}\n")
    opened.write("settings.py", b"mine")
    assert opened.read("sa.json", max_bytes=9) == b"needle\n"


def test_no_tool_opens_a_file_of_keys_that_an_address_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "pgpass", "tls.pem", "service.conf", "root.crt")
    put(folder, "zeus-serve.yaml", text="storage: {url: 'postgresql://db/zeus?passfile=serve.pass'}\n")
    monkeypatch.setenv(
        "DB_URL", f"postgresql://db/zeus?passfile={folder}/pgpass&sslrootcert={folder}/root.crt"
    )
    monkeypatch.setenv("APP_DSN", "host=db sslkey=tls.pem")
    url = f"storage: {{url: 'postgresql://db/zeus?servicefile={folder}/service.conf&passfile=./later'}}\n"
    for files, closed in (
        (files_of(folder), ("pgpass", "tls.pem", "serve.pass")),
        (files_of(folder, url), ("service.conf", "later")),
    ):
        for path in closed:
            with pytest.raises(WorkspaceError, match="so no tool may read or change it"):
                files.read(path, max_bytes=9)
            with pytest.raises(WorkspaceError, match="no tool may"):
                files.write(path, b"forged")
        assert files.read("root.crt", max_bytes=9) == b"needle\n"


def test_no_tool_opens_a_file_of_keys_that_the_variables_or_flags_of_a_program_name(folder: Path) -> None:
    names = ("sa.json", "token", "tls.pem", "sub/token", "hook", "named", "shared", "word", "app.env")
    put(folder, *names, "settings.py", "given", "sub/prod", "prod", "sub/run.sh")
    put(folder, "sub/hub.env", text="A=b")
    server = {"command": "x", "env": {"TOKEN_FILE": "named", "APP_KEY_FILE": "./later"}}
    put(folder, "servers.json", text=json.dumps({"mcpServers": {"named": server}}))
    yaml = (
        "mcpServers: {far: {command: x, env: {GOOGLE_APPLICATION_CREDENTIALS: sa.json, APP_SETTINGS: settings.py,"
        " API_KEY: kx9mq2vl7, FAR_TOKEN_FILE: ../outside}, args: [--token-file, token, --private-key-file=tls.pem,"
        " --env-file, app.env]},"
        " deep: {command: x, cwd: sub, env: {TOKEN_FILE: token}},"
        " moved: {command: uv, args: [--directory, sub, --token-file, prod, --token-file, gone]},"
        " shell: {command: sh, args: [-c, 'cd sub; . hub.env; . ./run.sh']}}\n"
        "middlewares: [{hooks: {before_tool_call: [{command: [x, --token-file, hook]}]}}]\n"
        "metadata: {credentials_file: word}\n"
    )
    tools = "[filesystem, {mcp: {files: [servers.json]}}, {shell: {contain: none, env: {TOKEN_FILE: given}}}]"
    files = files_of(folder, yaml, tools=tools)
    moved = ("sub/prod", "sub/hub.env")
    for path in (
        "sa.json",
        "token",
        "tls.pem",
        "sub/token",
        "hook",
        "named",
        "word",
        "later",
        "app.env",
        *moved,
    ):
        with pytest.raises(WorkspaceError, match="so no tool may read or change it"):
            files.read(path, max_bytes=9)
    # A command gets the last one, so it is for it.
    for path in ("settings.py", "shared", "given", "sub/run.sh"):
        assert files.read(path, max_bytes=9) == b"needle\n"
    assert files.gate is not None
    assert not any("kx9mq2vl7" in path or "gone" in path for path in files.gate.protected())
    deciding = Deciding()
    add_deciding(deciding, check(write_agent(folder, yaml, tools=tools), directory=folder, environ={}))
    assert deciding.find(str(folder / "later")) is not None
    assert deciding.find(str(folder.parent / "outside")) is None


def test_no_tool_changes_the_packages_that_run_the_agent(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `.pth` file there would be executed by the next `zeus`, before any question of trust."""
    monkeypatch.setattr("sys.prefix", str(folder / ".venv"))
    monkeypatch.syspath_prepend(folder / "lib/site-packages")
    files = files_of(folder)
    for path in (".venv/lib/evil.pth", ".venv/bin/zeus", "lib/site-packages/evil.pth"):
        with pytest.raises(Exception, match="no tool may change it"):
            files.write(path, b"forged")
    assert files.write("lib/mine.py", b"")


def test_no_tool_changes_settings_that_a_variable_of_a_program_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settings of docker name programs that it starts (`cli-plugins/docker-x`), those of OpenSSL libraries."""
    put(folder, "dc/config.json", "aside/shared.json", "data/a", "staging/a", "repos/a")
    (folder / "dc/shared.json").symlink_to("../aside/shared.json")
    (folder / "dc/up").symlink_to("..")
    for name, value in {
        "DOCKER_CONFIG": f"{folder}/dc",
        "OPENSSL_CONF": "./ssl/openssl.cnf",
        "SSL_CERT_DIR": f"/etc/certs:{folder}/x/../certs",
        "AZURE_CONFIG_DIR": ".azure",
        "AWS_DATA_PATH": str(folder),
        "KUBECONFIG": "~/clusters",
        "HOME": str(folder),
        "AWS_PROFILE": "staging",
        "DATA_DIR": f"{folder}/data",
        "OUTPUT": "./out",
        "DOCKER_HOST": "unix:///run/docker.sock",
        "OCI_LONG": "/" + "a" * 5_000,
        "SSL_ABOVE": str(folder.parent),
    }.items():
        monkeypatch.setenv(name, value)
    files = files_of(folder)
    for path in (
        "dc/config.json",
        "dc/cli-plugins/docker-x",
        "ssl/openssl.cnf",
        "certs/a.0",
        ".azure/a",
        "clusters",
    ):
        with pytest.raises(WorkspaceError, match="names it for Zeus, so no tool may change it"):
            files.write(path, b"forged")
    with pytest.raises(WorkspaceError, match="no tool may change it"):
        files.write("aside/shared.json", b"forged")
    for path in ("aside/b", "data/a", "staging/a", "out/a", "ssl/a", "etc/certs", "a"):
        files.write(path, b"mine")
    assert files.read("dc/config.json", max_bytes=9) == b"needle\n"
    deciding = Deciding()
    add_deciding(deciding, check(write_agent(folder), directory=folder, environ={}))
    assert deciding.find("/etc/certs") is None
    opened = files_of(folder, "workspace: {access: {dc: write}}\n")
    opened.write("dc/config.json", b"mine")


def test_no_tool_changes_a_file_that_settings_of_git_name(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git/HEAD").write_text("")
    settings = "[include]\n\tpath = ../team\n[credential]\n\thelper = store --file=logins\n"
    (folder / ".git/config").write_text(settings)
    (folder / "team").write_text("[core]\n")
    (folder / "logins").write_text("https://ann:word@example.com\n")
    files = files_of(folder)
    for path in ("team", "logins"):
        with pytest.raises(WorkspaceError, match="names it for git, so no tool may"):
            files.write(path, b"forged")
    assert files.read("team", max_bytes=9) == b"[core]\n"
    with pytest.raises(WorkspaceError, match="so no tool may read or change it"):
        files.read("logins", max_bytes=9)
    files.write("free", b"mine")


@pytest.mark.parametrize("pattern", ["host", "/host", "/host/**", "HOST"])
@pytest.mark.parametrize("route", [".", "../project", "sub"])
def test_a_rule_for_the_name_of_a_route_holds_for_all_that_the_route_leads_to(
    folder: Path, pattern: str, route: str
) -> None:
    put(folder, "x", "sub/x")
    (folder / "link").symlink_to(".")
    routed = f"routes: {{/host/: {route}}}"
    names = ("/host/x", "/sub/x", "/link/sub/x")
    for yaml in (
        f"workspace: {{{routed}, access: {{'**': write, '{pattern}': deny}}}}",
        f"workspace: {{{routed}}}\nmiddlewares: [{{approve: {{deny: [{{'*': {{path: '{pattern}'}}}}]}}}}]",
    ):
        denied = files_of(folder, yaml)
        for name in names:
            with pytest.raises(WorkspaceError, match="closes it"):
                denied.read(name, max_bytes=9)
        with pytest.raises(WorkspaceError, match="closes it"):
            denied.write("/host/new", b"mine")
    guarded = files_of(folder, f"workspace: {{{routed}, access: {{'*': write, '{pattern}': read}}}}")
    for name in (*names, "/host/new", "/sub/new"):
        with pytest.raises(WorkspaceError, match="lets no tool write it"):
            guarded.write(name, b"mine")
    assert guarded.read("/host/x", max_bytes=9) == b"needle\n"


LIBRARIES = (
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "DYLD_FALLBACK_LIBRARY_PATH",
    "OPENSSL_MODULES",
    "OPENSSL_ENGINES",
    "GCONV_PATH",
)


def name_code(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    """Name a folder from which this process loads code."""
    if variable == "PYTHONPYCACHEPREFIX":
        monkeypatch.setattr("sys.pycache_prefix", value)  # Python reads the variable at its start
    else:
        monkeypatch.setenv(variable, value)


@pytest.mark.parametrize("value", ["{}/gen", "gen", "./x/../gen"])
@pytest.mark.parametrize("variable", ["PYTHONPYCACHEPREFIX", *LIBRARIES])
def test_no_tool_changes_a_folder_from_which_a_variable_makes_zeus_load_code(
    folder: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    """Python takes `gen/usr/lib/…/os.cpython-311.pyc` in place of its own module, and the loader `gen/libssl.so.3`."""
    name_code(monkeypatch, variable, value.format(folder))
    files = files_of(folder, "workspace: {access: {gen/**: write, gen/libssl.so.3: write}}")
    for path in ("gen/usr/lib/os.cpython-311.pyc", "gen/libssl.so.3"):
        with pytest.raises(WorkspaceError, match="a variable of the environment names it"):
            files.write(path, b"forged")
    files.write("lib/libssl.so.3", b"mine")


@pytest.mark.parametrize("value", [":/opt/lib", "/opt/lib;", ".", "{}", "{}/.."])
def test_where_zeus_loads_libraries_from_the_work_only_libraries_are_closed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """`LD_LIBRARY_PATH=/opt/lib:$LD_LIBRARY_PATH` with nothing set has an empty entry: the folder of the process."""
    monkeypatch.setenv("LD_LIBRARY_PATH", value.format(folder))
    files = files_of(folder)
    for path in ("libssl.so.3", "libz.SO", "glibc-hwcaps/x86-64-v3/libssl.so.3"):
        if value != "{}/..":
            with pytest.raises(WorkspaceError, match="next Python that starts would execute it"):
                files.write(path, b"forged")
    for path in ("main.c", "libssl.some", "lib/libssl.so.3"):
        files.write(path, b"mine")


def test_where_compiled_files_are_among_the_work_only_those_of_zeus_are_closed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.pycache_prefix", str(folder))
    files = files_of(folder)
    library = Path(os.__file__).parent.relative_to("/")
    with pytest.raises(WorkspaceError, match="a variable of the environment names it"):
        files.write(f"{library}/os.cpython-311.pyc", b"forged")
    files.write("src/os.pyc", b"mine")


@pytest.fixture(params=["path", "finder"])
def editable(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plugins that are installed editable from the project, in both ways in which installers do that."""
    names = {
        "own": "own_plugin.hooks",
        "shared": "own_company.tool.hooks",
        "flat": "own_flat",
        "gone": "own_gone.hooks",
    }
    lay_out(folder.parent / "site-packages", "own", plugins=names, files={})
    put(folder, "src/own_plugin/__init__.py", "src/own_company/tool/__init__.py", text="raise SystemError\n")
    put(
        folder, "src/own_flat.py", "src/own_helper.py", "src/own_company/other.py", text="raise SystemError\n"
    )
    monkeypatch.setattr("sys.path", [*sys.path, str(folder.parent / "site-packages")])
    source = str(folder / "src")
    if request.param == "path":
        monkeypatch.setattr("sys.path", [*sys.path, source])
        return

    class Finder(MetaPathFinder):
        def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
            return PathFinder.find_spec(fullname, path or [source])

    monkeypatch.setattr("sys.meta_path", [*sys.meta_path, Finder()])


@pytest.mark.usefixtures("editable")
def test_no_tool_changes_an_editable_plugin_in_the_project(folder: Path) -> None:
    """It is trusted as installed: the next `zeus` would execute what a tool wrote."""
    files = files_of(folder)
    for path in (
        "src/own_plugin/__init__.py",
        "src/own_plugin/new/part.py",
        "src/own_company/tool/hooks.py",
        "src/own_flat.py",
        "src/__pycache__/own_flat.cpython-311.pyc",
    ):
        with pytest.raises(WorkspaceError, match="it decides about this agent, so no tool may change it"):
            files.write(path, b"forged")
    for path in ("src/own_helper.py", "src/own_company/other.py", "tests/test_own.py"):
        files.write(path, b"mine")
    opened = files_of(folder, "workspace: {access: {src/own_plugin: write}}\n")
    assert opened.write("src/own_plugin/new.py", b"mine")
    assert files_of(folder, "workspace: {root: src/own_plugin}\n").write("inside.py", b"mine")


@pytest.mark.usefixtures("editable")
def test_no_tool_makes_what_python_would_import_in_place_of_an_editable_plugin(
    folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python prefers a package to a module beside it, both to a folder without `__init__`, and earlier folders."""
    is_path = "[path]" in request.node.name
    (folder / "first").mkdir()
    monkeypatch.setattr("sys.path", [str(folder / "first"), "", *sys.path])
    files = files_of(folder)
    on_path = ("src/own_gone.py", "src/own_gone/hooks.py") if is_path else ()
    for path in (
        "src/own_flat/__init__.py",
        "src/own_flat.abi3.so",
        "src/own_company/__init__.py",
        "src/own_company.py",
        "first/own_company/__init__.pyc",
        "first/own_flat.py",
        "first/own_plugin/__init__.py",
        "first/own_gone/hooks.py",
        "own_flat.abi3.so",
        "own_plugin/__init__.py",
        *on_path,
    ):
        with pytest.raises(WorkspaceError, match="no tool may change it"):
            files.write(path, b"forged")
    for path in (
        "src/own_flat.md",
        "src/own_flat/data.json",
        "src/own_company/new/__init__.py",
        "first/new.py",
    ):
        files.write(path, b"mine")
    inside = files_of(folder, "workspace: {root: src/own_plugin}\n")
    assert not inside.write("__init__.py", b"mine")


@pytest.mark.parametrize("where", ["loaded", "overlay", "agent"])
def test_no_tool_changes_the_module_of_an_answer_that_is_installed_editable(
    folder: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Its permission is by name: the next `zeus` would execute what a tool wrote, and ask nothing."""
    name = f"own_forms_{where}"
    lay_out(folder.parent / "site-packages", name, plugins={}, files={f"{name}.pth": ""})
    (folder.parent / "site-packages" / f"{name}-1.0.dist-info/top_level.txt").write_text(f"{name}\n")
    put(folder, f"src/{name}/__init__.py", f"src/{name}/other.py", text="")
    answer = "from pydantic import BaseModel\n\nclass Answer(BaseModel):\n    title: str\n"
    put(folder, f"src/{name}/shapes.py", text=answer)
    monkeypatch.setattr("sys.path", [*sys.path, str(folder.parent / "site-packages"), str(folder / "src")])
    output = f"output: {{schema: '{name}.shapes:Answer'}}\n"
    if where == "agent":
        output = f"agents: {{helper: {{description: Helps., {output.strip()}}}}}\n"
    loaded = output if where == "loaded" else ""
    (folder / "zeus.prod.yaml").write_text("version: 1\n" if loaded else output)
    files = files_of(folder, loaded)
    for path in ("shapes.py", "__init__.py", "shapes.abi3.so", "shapes/__init__.py", "__pycache__/x.pyc"):
        with pytest.raises(WorkspaceError, match="no tool may change it"):
            files.write(f"src/{name}/{path}", b"forged")
    with pytest.raises(WorkspaceError, match="no tool may change it"):
        files.write(f"src/{name}.so", b"forged")
    assert not files.write(f"src/{name}/other.py", b"mine")
    rule = f"workspace: {{access: {{src/{name}/shapes.py: write}}}}\n"
    opened = files_of(folder, f"{rule}{loaded}")
    assert not opened.write(f"src/{name}/shapes.py", b"mine")


_WITH_HOME = """
    from pathlib import Path
    from zeus_runtime.plugin import hookimpl

    @hookimpl
    def register_homes():
        return [Path(__file__).parent / "zeus_test_home"]
"""


def test_no_tool_changes_the_home_of_an_installed_plugin(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its presets are trusted as installed, also for configs that list no Home: `zeus run plugin:own/dev`."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder.parent / "conf"))
    preset = "version: 1\nmodel: gpt-4o\ntools: [mcp]\nmcpServers: {s: {command: node, args: [tools/s.js], cwd: /}}\n"
    made = {"zeus_test_homed.py": _WITH_HOME, "zeus_test_home/configs/dev.yaml": preset}
    lay_out(folder / "src", "own", plugins={"own": "zeus_test_homed"}, files=made)
    put(folder, "vendor/tidy/SKILL.md", "src/zeus_test_home/tools/s.js")
    (folder / "src/zeus_test_home/skills").mkdir()
    (folder / "src/zeus_test_home/skills/tidy").symlink_to(folder / "vendor/tidy")
    monkeypatch.setattr("sys.path", [*sys.path, str(folder / "src")])
    preset_of = check("plugin:own/dev", directory=folder, environ={}, trust=recorded_trust(os.environ))
    assert [each.own for each in preset_of.parts] == [True]
    files = files_of(folder)
    for path in (
        "configs/dev.yaml",
        "configs/new.yaml",
        "prompts/SOUL.md",
        "skills/x/SKILL.md",
        "tools/s.js",
    ):
        with pytest.raises(WorkspaceError, match="it decides about this agent, so no tool may change it"):
            files.write(f"src/zeus_test_home/{path}", b"forged")
    with pytest.raises(WorkspaceError, match="it decides about this agent, so no tool may change it"):
        files.write("vendor/tidy/SKILL.md", b"forged")
    files.write("src/other/configs/dev.yaml", b"mine")
    inside = files_of(folder, "workspace: {root: src/zeus_test_home}\n")
    inside.write("notes.md", b"mine")
    with pytest.raises(WorkspaceError, match="it decides about this agent, so no tool may change it"):
        inside.write("configs/dev.yaml", b"forged")


@pytest.mark.parametrize("path", ["python/sitecustomize.py", "local/site-packages/usercustomize.py"])
def test_no_tool_changes_the_python_that_runs_the_agent(
    folder: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """The standard library and the user's packages, of which there may be none yet, are often in the home folder."""
    (folder.parent / "python").mkdir()
    monkeypatch.setattr(os, "__file__", str(folder.parent / "python/os.py"))
    monkeypatch.setattr("site.getusersitepackages", lambda: str(folder.parent / "local/site-packages"))
    files = files_of(folder, "workspace: {root: ..}\n")
    with pytest.raises(Exception, match="no tool may change it"):
        files.write(path, b"forged")


GIT_FOLDERS = {
    "a bare repository": ("data", ("HEAD", "objects/x", "refs/heads/x", "config")),
    "one deep below": ("src/org/proj/.bare", ("HEAD", "objects/x", "refs/heads/x", "config")),
    "of a worktree": ("trees/main", ("HEAD", "commondir")),
}


@pytest.mark.parametrize("case", GIT_FOLDERS)
def test_a_git_folder_is_protected_by_its_content_as_soon_as_it_is_there(case: str, folder: Path) -> None:
    """Git executes programs that its config names."""
    at, made = GIT_FOLDERS[case]
    files = files_of(folder)
    for path in (f"/{at}/config", f"/{at}/hooks/pre-commit"):
        assert files.write_refusal(path) is None
    put(folder, *(f"{at}/{each}" for each in made))
    for path in (f"/{at}/config", f"/{at}/hooks/pre-commit", f"/{at}/new/x/y"):
        assert "belongs to the repository's own files" in str(files.write_refusal(path)), path
        with pytest.raises(WorkspaceError, match="no tool may change it"):
            files.write(path, b"forged")
    assert files.write_refusal(f"/{at}.txt") is None
    assert files.read(f"/{at}/HEAD", max_bytes=100) == b"needle\n"


@pytest.mark.parametrize("last", ["HEAD", "Objects/x", "refs/heads/main"])
def test_no_tool_makes_a_git_folder_of_another(last: str, folder: Path) -> None:
    files = files_of(folder)
    for path in ("HEAD", "objects/x", "refs/x"):
        if path.partition("/")[0] != last.lower().partition("/")[0].replace("head", "HEAD"):
            files.write(f"/data/{path}", b"x")
    with pytest.raises(WorkspaceError, match="repository's own files"):
        files.write(f"/data/{last}", b"x")


@pytest.mark.parametrize("names", [("HEAD", "objects/x", "refs/x"), ("HEAD", "commondir")])
@pytest.mark.parametrize("by", ["write", "append"])
def test_no_tools_make_a_git_folder_together(
    names: tuple[str, ...], by: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls of one answer run at once: all are judged before any of their files is there."""
    files = files_of(folder)
    judged, making = threading.Barrier(len(names)), threading.Barrier(2)
    place, name = (atomic, "_fill") if by == "write" else (WorkspaceFiles, "_making")
    first, link, open_file = getattr(place, name), atomic._link, os.open

    def when_all_are_judged(*given: Any) -> Any:
        with suppress(
            threading.BrokenBarrierError
        ):  # one was refused already: the folders of the others were there
            judged.wait(60)
        return first(*given)

    def at_once() -> None:
        with suppress(threading.BrokenBarrierError):  # as long as one file is made, no other is
            making.wait(0.2)

    def linking(*given: Any) -> bool:
        at_once()
        return link(*given)

    def opening(path: str, flags: int, *given: Any, **named: Any) -> int:
        if flags & os.O_APPEND:
            at_once()
        return open_file(path, flags, *given, **named)

    monkeypatch.setattr(place, name, when_all_are_judged)
    monkeypatch.setattr(atomic, "_link", linking)
    monkeypatch.setattr(os, "open", opening)

    def make(name: str) -> str:
        try:
            getattr(files, by)(f"/data/{name}", b"x")
        except WorkspaceError as error:
            judged.abort()
            return str(error)
        return ""

    with ThreadPoolExecutor() as pool:
        refusals = [each for each in pool.map(make, names) if each]
    assert len(refusals) == 1
    assert "belongs to the repository's own files" in refusals[0]
    assert not all((folder / "data" / each).exists() for each in names)


@pytest.mark.parametrize("by", ["write", "append"])
def test_no_tool_makes_a_file_whose_real_path_is_too_long_to_look_at(
    folder: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """By such a path the system finds nothing, so a git folder there was not noticed."""
    files = files_of(folder)
    write = getattr(files, by)
    longest = f"/deep/{'ä' * 50}/{'x' * 50}"
    monkeypatch.setattr(workspace, "LONGEST_PATH", len(os.fsencode(f"{folder}{longest}")))
    write(longest, b"x")
    files.edit(longest, bytes.upper, max_bytes=100)
    (folder / "link").symlink_to(Path(longest[1:]).parent)
    for path in (f"{longest}x", f"/new{longest}", f"/link/{'x' * 51}", f"/link/new/{'x' * 50}"):
        assert "its real path is longer than 3,900 bytes" in str(files.write_refusal(path)), path
        with pytest.raises(WorkspaceError, match="longer than 3,900 bytes"):
            write(path, b"x")
    assert not (folder / "new").exists()
    assert len(list((folder / "link").iterdir())) == 1


async def test_nobody_is_asked_about_a_path_that_is_too_long(folder: Path) -> None:
    path = "/".join(["", *["d" * 198] * 30, "HEAD"])
    rules = "{approve: {mode: run_everything, ask: [{write_file: {path: '**/HEAD'}}]}}"
    model = calls(("write_file", {"path": path, "content": "x"}))
    file = write_agent(folder, f"middlewares: [{rules}]\n", tools=TOOLS)
    async with Agent.from_config(file, directory=folder, model=model) as agent:
        (told,) = results(await play(agent, "go"))
    assert "its real path is longer than 3,900 bytes" in told
    assert not (folder / ("d" * 198)).exists()


def test_no_tools_make_the_folders_of_a_git_folder_together(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = files_of(folder)
    files.write("/data/HEAD", b"x")
    together, mkdir = threading.Barrier(2), os.mkdir

    def meeting(*given: Any, **named: Any) -> None:
        with suppress(threading.BrokenBarrierError):
            together.wait(0.2)
        mkdir(*given, **named)

    def make(name: str) -> str:
        try:
            files.write(f"/data/{name}", b"x")
        except WorkspaceError as error:
            return str(error)
        return ""

    monkeypatch.setattr(os, "mkdir", meeting)
    with ThreadPoolExecutor() as pool:
        refusals = [each for each in pool.map(make, ("objects/x", "refs/x")) if each]
    assert len(refusals) == 1
    assert len(list((folder / "data").iterdir())) == 2


def test_a_link_into_a_git_folder_is_protected_and_a_rule_opens_it(folder: Path) -> None:
    put(folder, "data/HEAD", "data/objects/x", "data/refs/x", "data/config")
    (folder / "link").symlink_to("data")
    files = files_of(folder)
    with pytest.raises(WorkspaceError, match="repository's own files"):
        files.write("/link/config", b"x")
    for rule in ("data", "data/config"):
        opened = files_of(folder, f"workspace: {{access: {{{rule}: write}}}}")
        opened.write("/data/config", b"x")
        assert opened.gate is not None
        assert [str(each) for each in opened.gate.lifts()] == [f"{rule}: write"]
        assert (opened.write_refusal("/data/hooks/x") is None) is (rule == "data")


def test_no_rule_opens_the_record_of_permissions_behind_another_protected_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link of skills to the folder around the record made it look like an ordinary protected file."""
    record = folder / "state/zeus/trust"
    record.mkdir(parents=True)
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    (folder / ".claude/skills").mkdir(parents=True)
    (folder / ".claude/skills/s").symlink_to("../../state/zeus")
    files = files_of(folder, "workspace: {access: {state/zeus/trust: write, state/zeus: write}}")
    files.write("/state/zeus/note", b"x")
    with pytest.raises(WorkspaceError, match="it decides about all your agents"):
        files.write("/state/zeus/trust/forged", b"x")
    assert not list(record.iterdir())


def test_a_git_folder_that_appears_after_the_permission_is_not_open(folder: Path) -> None:
    """No one was asked about `data/config`, since it was an ordinary file when the config was checked."""
    files = files_of(folder, "workspace: {access: {data/config: write}}")
    files.write("/data/config", b"x")
    put(folder, "data/HEAD", "data/objects/x", "data/refs/x")
    with pytest.raises(WorkspaceError, match="repository's own files"):
        files.write("/data/config", b"y")


def test_a_working_tree_in_a_bare_repository_can_be_changed(folder: Path) -> None:
    put(folder, "HEAD", "objects/x", "refs/x", "main/.git", "main/src/a.py")
    files = files_of(folder)
    assert files.write_refusal("/main/src/a.py") is None
    assert files.write_refusal("/config") is not None
    assert files_of(folder, "workspace: {root: main}\n").write_refusal("/src/a.py") is None


def test_an_overlay_of_a_config_with_brackets_in_its_name_is_protected(folder: Path) -> None:
    write_agent(folder, "", tools=TOOLS).rename(folder / "zeus[1].yaml")
    checked = check(folder / "zeus[1].yaml", directory=folder, environ={})
    files = make_plan(checked).context.workspace
    with pytest.raises(Exception, match="no tool may read or change it"):
        files.write("zeus[1].prod.yaml", b"forged")


async def test_a_link_to_a_protected_file_does_not_lead_around_its_protection(folder: Path) -> None:
    put(folder, ".git/config", "deep/er/x")
    (folder / "conf").symlink_to(".git/config")
    (folder / "deep/er/up").symlink_to("../../deep/../.git")
    (folder / "absolute").symlink_to(folder / "zeus.yaml")
    found = results(
        await played(
            folder,
            "",
            ("edit_file", {"path": "conf", "old": "needle", "new": "x"}),
            ("write_file", {"path": "deep/er/up/hooks/pre-commit", "content": "x"}),
            ("write_file", {"path": "absolute", "content": "x"}),
        )
    )
    assert all("no tool may change it" in each for each in found)
    assert (folder / ".git/config").read_text() == "needle\n"
    assert not (folder / ".git/hooks").exists()


async def test_the_model_is_told_clearly_and_may_read_what_holds_no_key(folder: Path) -> None:
    found = results(
        await played(
            folder,
            "",
            ("edit_file", {"path": "/zeus.yaml", "old": "version: 1", "new": "mcpServers: {}"}),
            ("read_file", {"path": "/zeus.yaml", "limit": 1}),
        )
    )
    assert found[0].startswith("/zeus.yaml: it decides about this agent, so no tool may change it.")
    assert OUT_OF_REACH in found[0]
    assert found[1].startswith("1\tversion: 1")


async def test_keys_are_read_by_no_tool(folder: Path) -> None:
    put(folder, ".env", ".env.example", "sub/.ENV.prod", "plain.txt")
    os.link(folder / ".env", folder / "innocent.txt")
    (folder / "link").symlink_to(".env")
    config = write_agent(folder, 'x-own: {api_key: "sk-written-out-1234567890"}\n', tools=TOOLS)
    (folder / ".env").write_text("NEEDLE_TOKEN=needle-needle-needle\n")
    found = results(
        await played(
            folder,
            "",
            ("grep", {"pattern": "needle|sk-written"}),
            ("glob", {"pattern": "**/*"}),
            ("read_file", {"path": ".env"}),
            ("read_file", {"path": "innocent.txt"}),
            ("read_file", {"path": "link"}),
            ("read_file", {"path": "zeus.yaml"}),
            config=config,
        )
    )
    assert found[0].startswith("/plain.txt\n1:needle")
    assert ".env" not in found[1].lower()
    assert "may hold keys" in found[2]
    for refused in found[3:5]:
        assert "needle" not in refused
        assert "keys" in refused
    assert "no tool may read or change it" in found[5]


def test_a_config_with_a_key_written_out_is_not_read_either(folder: Path) -> None:
    config = write_agent(
        folder,
        "mcpServers: {a: {url: 'https://a.example/mcp', headers: {Authorization: Bearer abcdefghij12}}}\n",
    )
    files = make_plan(check(config, directory=folder, environ={})).context.workspace
    with pytest.raises(Exception, match="no tool may read or change"):
        files.read("/zeus.yaml", max_bytes=10_000)
    assert "zeus.yaml" not in [each.name for each in files.entries("/")]


KEYED = "model: {litellm: {api_key: written-out-123}}\n"


@pytest.mark.parametrize(
    ("name", "text", "closed"),
    [
        ("zeus.prod.yaml", KEYED, True),
        ("zeus.yaml", KEYED, True),
        ("other.prod.yaml", KEYED, True),
        ("zeus.prod.yaml", 'x: {token: "written\\x2Dout\\x2D123"}\n', True),
        ("zeus.prod.yaml", "storage: {url: 'postgres://ann:written-out-123@db/x'}\n", True),
        ("zeus.prod.yaml", "model: {litellm: {api_key: '${A_KEY:-written-out-123}'}}\n", True),
        ("zeus.prod.yaml", "model: {litellm: {api_key: '${A_KEY}'}}\n", False),
        ("zeus.prod.yaml", "model: {litellm: {api_key: '${A_KEY:?set it}'}}\n", False),
        ("zeus.prod.yaml", "limits: {max_steps: 5}\n", False),
        ("zeus.prod.yaml", "# nothing yet\n", False),
        ("zeus.prod.yaml", "api_key: [unclosed\n", True),
        ("notes.prod.yaml", KEYED, False),
    ],
)
async def test_a_config_that_this_run_did_not_load_is_judged_as_one_that_it_did(
    folder: Path, name: str, text: str, closed: bool
) -> None:
    write_agent(folder, "", tools=TOOLS).rename(folder / "other.yaml")
    put(folder, name, text=text)
    (found,) = results(await played(folder, "", ("read_file", {"path": name}), config=folder / "other.yaml"))
    assert ("no tool may read or change it" in found) == closed
    assert closed or text.splitlines()[0] in found


def test_a_preset_that_runs_beside_a_config_with_a_key_does_not_read_it(folder: Path) -> None:
    put(folder, "zeus.yaml", text=KEYED)
    checked = check("default", sets=["model=gpt-4o"], directory=folder, environ={})
    with pytest.raises(Exception, match="no tool may read or change it"):
        make_plan(checked).context.workspace.read("zeus.yaml", max_bytes=1000)


def test_an_overlay_that_is_written_during_the_run_is_not_read(folder: Path) -> None:
    files = files_of(folder, "workspace: {access: {zeus.open.yaml: read}}")
    put(folder, "zeus.prod.yaml", "zeus.open.yaml", text=KEYED)
    with pytest.raises(Exception, match="no tool may read or change it"):
        files.read("zeus.prod.yaml", max_bytes=1000)
    assert files.read("zeus.open.yaml", max_bytes=1000) == KEYED.encode()


def test_no_tool_writes_what_only_a_config_names_that_this_run_did_not_load(folder: Path) -> None:
    overlay = (
        "version: 1\nextends: [./prod/base.yaml, default]\ninstructions: {file: prod.md}\nhomes: [shared]\n"
        "agents: {h: {description: x, config: agents/helper.yaml}}\nmetadata: {workspace: README.md}\n"
    )
    put(folder, "zeus.prod.yaml", text=overlay)
    put(folder, "prod/base.yaml", text="version: 1\nextends: deeper.yaml\n")
    put(
        folder,
        "agents/helper.yaml",
        text="version: 1\ninstructions: {file: ../helper.md}\nextends: ../zeus.prod.yaml",
    )
    put(folder, "zeus.broken.yaml", text="version: [")
    files = files_of(folder)
    for path in (
        "prod/base.yaml",
        "prod/deeper.yaml",
        "prod.md",
        "helper.md",
        "agents/helper.yaml",
        "shared/prompts/CORE.md",
        "shared/configs/x.yaml",
    ):
        assert files.write_refusal(path) is not None, path
    for path in ("README.md", "default", "agents/other.yaml", "shared/notes.md", "prod/other.md"):
        assert files.write_refusal(path) is None, path


@pytest.mark.parametrize("name", ["zeus.yaml", "own.prod.yaml", ".zeus/configs/other.yaml"])
@pytest.mark.parametrize("fault", ["<<<<<<< HEAD\nname: a\n=======\nname: b\n>>>>>>> main\n", "metadata: ["])
def test_what_a_config_names_that_is_no_sound_yaml_is_closed(folder: Path, name: str, fault: str) -> None:
    """An agent that resolved a merge conflict could change the prompts and read the keys of the conflicted config."""
    put(folder, "rules.md", "base/deep.md", "hook.py", "token", "kept.db", "README.md", "own.json")
    base = "version: 1\ninstructions: {file: deep.md}\nstorage: {url: 'sqlite:///kept.db'}\n"
    put(folder, "base/base.yaml", text=base)
    servers = {"x": {"url": "https://a.example", "headers": {"Authorization": "Bearer Qm7Yb2Lk9Vd4xR8p"}}}
    put(folder, "servers.json", text=json.dumps({"mcpServers": servers}))
    put(folder, "gcp.json", text='{"private_key": "x7Kq19mWz4Rt8LpQ2x7Kq19m"}')
    up = "../" * name.count("/")
    lines = (
        f"extends: ./{up}base/base.yaml",
        f"instructions: {{file: ./{up}rules.md}}",
        f"tools: [filesystem, {{mcp: {{files: [./{up}servers.json]}}}}]",
        "model: {litellm: {model: x, extra: {vertex: gcp.json, token_file: token}}}",
        "middlewares: [{hooks: {before_run: [{command: [python3, -I, hook.py]}]}}]",
    )
    own = write_agent(folder, tools=TOOLS).rename(folder / "own.yaml")
    put(folder, name, text="\n".join((*lines, fault)))
    files = make_plan(check(own, directory=folder, environ={})).context.workspace
    for each in ("rules.md", "base/base.yaml", "base/deep.md", "hook.py"):
        assert files.write_refusal(each) is not None, each
    for each in (name, "servers.json", "gcp.json", "token", "kept.db"):
        with pytest.raises(WorkspaceError, match="no tool may"):
            files.read(each, max_bytes=100)
    for each in ("README.md", "own.json"):
        assert files.write_refusal(each) is None
        assert files.read(each, max_bytes=100)


@pytest.mark.parametrize(
    "text",
    [
        "instruction: {file: ./rules.md}",
        "instructions: {files: rules.md}",
        "instructions: [{file: ./rules.md}]",
        "instructions: {file:./rules.md}",
        "prompt: {core: ./rules.md}",
        "extend: ./base.yaml",
        "extends: {file: ./base.yaml}",
        "agents: [{name: w, description: w, config: ./base.yaml}]",
        "mcpServer: {s: {command: npx, args: [a@1, rules.md]}}",
        "middlewares: [{hook: {before_run: [{command: 'sh -c \"npx a@1 rules.md\"'}]}}]",
        "storages: {url: 'sqlite:///rules.md'}",
        "agents: {w: {description: w, overrides: [{instructions: {file: ./rules.md}}]}}",
        "agents: {w: {description: w, overrides: {instruction: {file: ./rules.md}}}}",
    ],
)
def test_what_a_config_names_at_a_key_that_does_not_fit_is_closed(folder: Path, text: str) -> None:
    """An agent that mended what `zeus validate` refused had changed the prompt before the key was right."""
    put(folder, "rules.md", "README.md", "GUIDE.md", "src/app.py")
    put(folder, "base.yaml", text="version: 1\ninstructions: {file: rules.md}\n")
    own = write_agent(folder, tools=TOOLS).rename(folder / "own.yaml")
    prose = "description: See README.md, src/app.py.  # And GUIDE.md."
    put(folder, "zeus.yaml", text=f"version: 1\n{prose}\nlimits: {{max_steps: 9}}\n{text}\n")
    files = make_plan(check(own, directory=folder, environ={})).context.workspace
    assert files.write_refusal("rules.md") is not None
    assert (files.write_refusal("base.yaml") is not None) == ("base.yaml" in text)
    assert (files.write_refusal(".npmrc") is not None) == ("npx" in text)
    for each in ("README.md", "GUIDE.md", "src/app.py"):
        assert files.write_refusal(each) is None, "what fits names what its key says"


_SERVER: Final = {
    "command": "npx",
    "args": ["-y", "runner@1", "--token-file", "./secrets/tok", "./tools/q.py"],
}
_FOLDERS: Final = {"mcpServers": {"a": {"command": "node", "args": ["./srv"]}, "b": {"command": "python3"}}}


@pytest.mark.parametrize("key", ["mcpServers", "servers", "mcpServer"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ('{"', '{// Ours.\n"'),
        ('{"', '{/* Ours. */"'),
        ('"]', '",]'),
        ('{"', '{\n<<<<<<< HEAD\n=======\n>>>>>>> main\n"'),
        ('"command"', '"comand"'),
        ('"args"', '"args": [], "args"'),
        ('"command"', '\t"command"'),
    ],
)
def test_what_a_file_of_servers_names_is_closed_whatever_its_text(
    folder: Path, key: str, old: str, new: str
) -> None:
    """A comment or a trailing comma is usual there; the permission of before held once the person removed it."""
    put(folder, "secrets/tok", "tools/q.py", "README.md")
    put(folder, "mcp.txt", text=json.dumps({key: {"s": _SERVER}}).replace(old, new))
    own = write_agent(folder, tools=TOOLS).rename(folder / "own.yaml")
    put(folder, "zeus.yaml", text="version: 1\ntools: [{mcp: {files: [mcp.txt]}}]\n")
    files = make_plan(check(own, directory=folder, environ={})).context.workspace
    with pytest.raises(WorkspaceError, match="no tool may read or change"):
        files.read("secrets/tok", max_bytes=100)
    for each in ("tools/q.py", ".npmrc", "node_modules/runner/i.js"):
        assert files.write_refusal(each) is not None, each
    assert files.write_refusal("README.md") is None


@pytest.mark.parametrize(
    ("old", "new"), [('{"mcp', '// Ours: [tools/q.py\n{"mcp'), ('{"mcp', '{/* "] */"mcp'), ("}}}", "},},}")]
)
def test_a_folder_and_a_module_of_servers_with_comments_are_closed(folder: Path, old: str, new: str) -> None:
    put(folder, "srv/index.js", "pkg/__main__.py", "docs/x.md", "tools/q.py")
    text = json.dumps(_FOLDERS).replace('"python3"', '"python3", "args": ["-m", "pkg"]')
    put(folder, ".mcp.json", text=text.replace(old, new))
    own = write_agent(folder, tools=TOOLS).rename(folder / "own.yaml")
    put(folder, "zeus.yaml", text="version: 1\ntools: [{mcp: {files: [.mcp.json]}}]\n")
    files = make_plan(check(own, directory=folder, environ={})).context.workspace
    assert files.write_refusal("srv/index.js") is not None
    assert files.write_refusal("pkg/__main__.py") is not None
    assert (files.write_refusal("tools/q.py") is not None) == ("tools/q.py" in new), (
        "a server may be in a comment"
    )
    assert files.write_refusal("docs/x.md") is None


def test_what_fits_in_a_config_that_does_not_fit_closes_nothing_more(folder: Path) -> None:
    put(folder, "README.md", "run.sh")
    put(folder, "run.sh", text="exec npx runner@1\n")
    own = write_agent(folder, tools=TOOLS).rename(folder / "own.yaml")
    prose = "description: See README.md, metadata: {a: {b: [README.md, {c: README.md}]}}"
    text = f"metadata: {{a: {{b: README.md}}}}\nagents: {{w: {{description: w, overrides: {{{prose}}}}}}}\n"
    put(folder, "zeus.yaml", text=f"version: 1\n{text}mcpServer: {{s: {{command: sh, args: [run.sh]}}}}\n")
    files = make_plan(check(own, directory=folder, environ={})).context.workspace
    assert files.write_refusal("README.md") is None
    assert files.write_refusal("run.sh") is not None
    assert files.write_refusal(".npmrc") is not None, "the script of a server says its package runner"


def test_a_database_that_a_config_names_at_a_wrong_key_is_closed_with_its_log(folder: Path) -> None:
    put(folder, "c.db", text="SQLite format 3\0")
    own = write_agent(folder, tools=TOOLS).rename(folder / "own.yaml")
    put(
        folder,
        "zeus.yaml",
        text="version: 1\ncheckpointers: {sqlite: {path: c.db}}\nstorages: ['sqlite:///my%20k.db']\n",
    )
    files = make_plan(check(own, directory=folder, environ={})).context.workspace
    for each in ("c.db", "c.db-wal", "my k.db", "my k.db-wal"):
        assert files.write_refusal(each) is not None, each


def test_a_conflict_in_a_config_and_in_its_servers_leaves_neither_open(folder: Path) -> None:
    put(folder, "tools/q.py")
    fault = "\n<<<<<<< HEAD\n=======\n>>>>>>> main\n"
    put(folder, ".mcp.json", text=f"{fault}{json.dumps({'mcpServers': {'s': _SERVER}})}")
    own = write_agent(folder, tools=TOOLS).rename(folder / "own.yaml")
    put(folder, "zeus.yaml", text=f"version: 1\ntools: [{{mcp: {{files: [.mcp.json]}}}}]\n{fault}")
    files = make_plan(check(own, directory=folder, environ={})).context.workspace
    for each in (".mcp.json", "tools/q.py", ".npmrc"):
        assert files.write_refusal(each) is not None, each


@pytest.mark.parametrize("where", ["zeus-serve.yaml", "serve/base.yaml"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("", "<<<<<<< HEAD\nhosts: [a.example]\n=======\n>>>>>>> main\n"),
        ("tls", "tsl"),
        ("key: ", "keys: "),
        ("key: ", "key:"),
        ("storage", "storages"),
        ("extends", "extend"),
    ],
)
def test_what_the_settings_of_a_service_name_is_closed_whatever_their_text(
    folder: Path, where: str, old: str, new: str
) -> None:
    named = ("serve/base.yaml", "serve/deep.yaml", "tls/cert", "tls/key", "data/serve.db")
    put(folder, *named, "README.md", "run", "src/app.py")
    up = "../" * where.count("/")
    base = "./serve/deep.yaml" if not up else "./deep.yaml"
    lines = (
        f"extends: {base}",
        f"tls: {{certificate: ./{up}tls/cert, key: ./{up}tls/key}}",
        "storage: {url: 'sqlite:///data/serve.db'}",
        "oidc: [{issuer: https://a.example, audience: app, scopes: {src: [run]}}]",
    )
    put(folder, "zeus-serve.yaml", text="extends: ./serve/base.yaml\n")
    text = "\n".join(lines)
    put(folder, where, text=f"# See README.md.\n{text.replace(old, new, 1)}\n" if old else f"{new}{text}\n")
    files = files_of(folder)
    for each in (where, *(each for each in named if each != "serve/base.yaml" or up), "data/serve.db-wal"):
        assert "it decides who may use a service" in str(files.write_refusal(each)), each
    for each in ("tls/key", "tls/cert", "data/serve.db"):
        with pytest.raises(WorkspaceError, match="no tool may read or change"):
            files.read(each, max_bytes=100)
    assert files.write_refusal("src/app.py") is None
    if not new.startswith("<"):
        assert files.write_refusal("README.md") is None, (
            "a comment names nothing where the text can be parsed"
        )
        assert files.write_refusal("run") is None, "nor does the name of a right"


def _started_by(folder: Path, command: str, *, path: str = "/usr/bin:/bin") -> WorkspaceFiles:
    own = write_agent(folder, tools=TOOLS).rename(folder / "own.yaml")
    put(folder, "zeus.yaml", text=f"version: 1\nmodel: gpt-4o\nmcpServers: {{s: {command}}}\n")
    return make_plan(check(own, directory=folder, environ={"PATH": path})).context.workspace


def test_what_uv_reads_is_closed(folder: Path) -> None:
    """A lock had uv install a package from a host that no word names."""
    put(folder, "tools/mcp.py", text="#!/usr/bin/env -S uv run --script\n")
    (folder / "tools/mcp.py").chmod(0o755)
    files = _started_by(folder, "{command: tools/mcp.py}")
    for each in (".python-version", ".python-versions", "uv.lock", "uv.toml", ".venv/x.py"):
        assert "the package runner" in str(files.write_refusal(each)), each
    for each in ("poetry.lock", "pyproject.toml"):
        assert files.write_refusal(each) is None, each


_SITE: Final = "lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("{command: .venv/bin/python3, args: [-I, tools/check.py]}", "/usr/bin"),
        ("{command: python3, args: [-I, tools/check.py]}", "{folder}/.venv/bin:/usr/bin"),
        ("{command: env, args: [python3, -I, tools/check.py]}", ".venv/bin:/usr/bin"),
        ("{command: python3, args: [-I, x], env: {PATH: '.venv/bin:/usr/bin'}}", "/usr/bin"),
        ("{command: sh, args: [tools/run.sh]}", "{folder}/.venv/bin:/usr/bin"),
        ("{command: tools/py, args: [-I, tools/check.py]}", "/usr/bin"),
        ("{command: .venv/bin/server}", "/usr/bin"),
        ("{command: tools/programs/server}", "/usr/bin"),
        ("{command: bash, args: [-c, 'source .venv/bin/activate && python3 -I x']}", "/usr/bin"),
        ("{command: sh, args: [-c, 'cd tools; . ../.venv/bin/activate; python3 x']}", "/usr/bin"),
        ("{command: run, args: [x], env: {VIRTUAL_ENV: .venv}}", "/usr/bin"),
    ],
)
def test_the_environment_whose_python_a_server_starts_is_closed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: str, path: str
) -> None:
    """A `.pth` there was executed at the next call of a hook with `python3 -I`."""
    # A folder with as many files as an environment has is not covered.
    monkeypatch.setattr("zeus_runtime.trust.command_files.MOST_ENTRIES", 0)
    put(folder, ".venv/pyvenv.cfg", f".venv/{_SITE}/x.py", "tools/check.py", "other/pyvenv.cfg", "README.md")
    put(folder, ".venv/bin/server", ".venv/bin/activate", text="#!/usr/bin/python3\n")
    (folder / ".venv/bin/server").chmod(0o755)
    put(folder, "tools/run.sh", text="exec python3 -I tools/check.py\n")
    (folder / ".venv/bin").mkdir(exist_ok=True)
    (folder / ".venv/bin/python3").symlink_to("/usr/bin/env")
    (folder / "tools/py").symlink_to("../.venv/bin/python3")
    (folder / "tools/programs").symlink_to("../.venv/bin")
    files = _started_by(folder, command, path=path.format(folder=folder))
    for each in ("pyvenv.cfg", f"{_SITE}/notes.pth", f"{_SITE}/sitecustomize.py", f"{_SITE}/x.py"):
        assert "the Python of a server" in str(files.write_refusal(f".venv/{each}")), each
    for each in ("other/pyvenv.cfg", "README.md", "tools/new.md"):
        assert files.write_refusal(each) is None, each


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("{command: .venv/bin/python, args: [-I, x]}", "/usr/bin"),
        ("{command: bash, args: [-c, 'source .venv/bin/activate && python3 -I x']}", "/usr/bin"),
        ("{command: sh, args: [tools/run.sh]}", "{folder}/.venv/bin:/usr/bin"),
    ],
)
def test_an_environment_that_is_to_be_made_is_closed(folder: Path, command: str, path: str) -> None:
    """A `.pth` that a tool wrote before `python3 -m venv .venv` stayed in it, and was executed."""
    files = _started_by(folder, command, path=path.format(folder=folder))
    for each in (".venv/pyvenv.cfg", f".venv/{_SITE}/notes.pth"):
        assert "the Python of a server" in str(files.write_refusal(each)), each
    put(folder, ".venv/src/app.py")
    files = _started_by(folder, command, path=path.format(folder=folder))
    assert files.write_refusal(".venv/src/app.py") is None, "a folder that is there and no environment"


def test_an_environment_of_conda_is_closed(folder: Path) -> None:
    put(folder, "env/conda-meta/history", "env/lib/python3.11/codecs.py", "env/bin/python3")
    files = _started_by(folder, "{command: env/bin/python3, args: [-I, x]}")
    assert "the Python of a server" in str(files.write_refusal("env/lib/python3.11/codecs.py"))


def test_an_environment_that_holds_the_work_stays_open(folder: Path) -> None:
    put(folder, "pyvenv.cfg", "src/app.py", "bin/python3")
    (folder / "bin/python3").chmod(0o755)
    files = _started_by(folder, "{command: bin/python3, args: [-I, x]}")
    assert "the Python of a server" in str(files.write_refusal("pyvenv.cfg"))
    for each in ("src/app.py", "new.md"):
        assert files.write_refusal(each) is None, each


@pytest.mark.parametrize("word", ["@shop/mcp", "@shop/mcp@1.0.0", "shop-mcp", "sh -c 'npx -y @shop/mcp@1'"])
def test_a_package_of_the_project_that_npm_has_linked_is_covered(folder: Path, word: str) -> None:
    """`npx @shop/mcp` executed what a tool had written into `packages/mcp`, with the former permission."""
    put(
        folder,
        "packages/mcp/package.json",
        "packages/mcp/cli.js",
        "packages/mcp/lib/x.js",
        "packages/ui/a.js",
    )
    put(folder, "node_modules/chalk/package.json", "node_modules/chalk/i.js", "package.json")
    for link, target in (
        ("@shop/mcp", "../../packages/mcp"),
        (".bin/shop-mcp", "../@shop/mcp/cli.js"),
        (".bin/chalk", "../chalk/i.js"),
    ):
        (folder / "node_modules" / link).parent.mkdir(exist_ok=True)
        (folder / "node_modules" / link).symlink_to(target)
    files = _started_by(folder, f"{{command: npx, args: [-y, {json.dumps(word)}, chalk]}}")
    for each in ("packages/mcp/cli.js", "packages/mcp/lib/x.js", "packages/mcp/lib/new.js"):
        assert files.write_refusal(each) is not None, each
    assert files.write_refusal("packages/ui/a.js") is None
    project = Project(folder, (folder,), "/usr/bin")
    assert command_part(Command("s", ("npx", word, "chalk")), project).files == (folder / "packages/mcp",)


@pytest.mark.parametrize(
    "command",
    [
        Command("s", ("npx", "shop-mcp"), cwd="web/apps/bot"),
        Command("s", ("node", "-e", "require('@shop/mcp')"), cwd="web/apps/bot"),
        Command("s", ("npm", "--prefix", "web/apps/bot", "exec", "shop-mcp")),
        Command("s", ("npm", "--prefix=web/apps/bot", "exec", "@shop/mcp")),
        Command("s", ("sh", "-c", "cd web/apps/bot && npx shop-mcp")),
    ],
    ids=lambda each: " ".join(each.words),
)
def test_a_package_that_npm_has_linked_above_the_servers_folder_is_covered(
    folder: Path, command: Command
) -> None:
    """npm links the packages of a monorepo at its root: `npx` executed what a tool had written into one."""
    put(folder, "web/packages/mcp/package.json", "web/packages/mcp/cli.js", "web/apps/bot/package.json")
    for root, link, target in (
        ("web", "@shop/mcp", "../../packages/mcp"),
        ("web", ".bin/shop-mcp", "../@shop/mcp/cli.js"),
        ("..", "@shop/mcp", "../../project/other"),
    ):
        place = folder / root / "node_modules" / link
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
    put(folder, "other/package.json")
    found = command_part(command, Project(folder, (folder,), "/usr/bin")).files
    assert folder / "web/packages/mcp" in found
    assert folder / "other" not in found, "above the project, nothing is looked up"


PNPM = """#!/bin/sh
basedir=$(dirname "$(echo "$0" | sed -e 's,\\\\,/,g')")
if [ -z "$NODE_PATH" ]; then
  export NODE_PATH="/home/ann/project/packages/ui/node_modules:/home/ann/project/node_modules"
fi
if [ -x "$basedir/node" ]; then
  exec "$basedir/node"  "$basedir/TARGET" "$@"
else
  exec node  "$basedir/TARGET" "$@"
fi
"""


@pytest.mark.parametrize("kind", ["script", "link"])
@pytest.mark.parametrize(
    "line",
    [
        "npx shop-mcp",
        "pnpm exec shop-mcp",
        "pnpm --filter bot exec shop-mcp",
        "./node_modules/.bin/shop-mcp",
        "env A=1 node_modules/.bin/shop-mcp",
        "sh -c 'exec ./node_modules/.bin/shop-mcp --stdio'",
        "shop-mcp",
    ],
)
def test_a_package_is_covered_whose_program_has_a_script_of_pnpm_in_the_place_of_a_link(
    folder: Path, line: str, kind: str
) -> None:
    """`npx shop-mcp` executed what a tool had written into `packages/mcp`, with the former permission."""
    put(
        folder, "packages/mcp/package.json", "packages/mcp/cli.js", "packages/ui/package.json", "package.json"
    )
    put(folder, "node_modules/.pnpm/chalk@5/node_modules/chalk/i.js")
    (folder / "node_modules/@shop").mkdir()
    (folder / "node_modules/@shop/mcp").symlink_to("../../packages/mcp")
    (folder / "node_modules/.bin").mkdir()
    chalk = "../.pnpm/chalk@5/node_modules/chalk/i.js"
    for name, target in {"shop-mcp": "../@shop/mcp/cli.js", "chalk": chalk}.items():
        program = folder / "node_modules/.bin" / name
        if kind == "link":
            program.symlink_to(target)
        else:
            program.write_text(PNPM.replace("TARGET", target))
            program.chmod(0o755)
    path = f"{folder}/node_modules/.bin:/usr/bin"
    words = (*shlex.split(line), "chalk")
    found = command_part(Command("s", words), Project(folder, (folder,), path)).files
    assert [each for each in found if "node_modules" not in each.parts] == [folder / "packages/mcp"]


def test_a_script_of_pnpm_names_a_path_with_blanks(folder: Path) -> None:
    put(folder, "packages/my mcp/package.json", "packages/my mcp/cli.js", "node_modules/.bin/x")
    (folder / "node_modules/.bin/shop-mcp").write_text(PNPM.replace("TARGET", "../../packages/my mcp/cli.js"))
    found = command_part(Command("s", ("npx", "shop-mcp")), Project(folder, (folder,), "/usr/bin")).files
    assert folder / "packages/my mcp" in found


@pytest.mark.parametrize(
    ("line", "is_named"),
    [
        ("npx tsc app", False),
        ("/usr/bin/npx -y typescript@5 --strict -b ui app", False),
        ("env CI=1 bunx --registry https://npm.example tsc app", False),
        ("npx -y -- tsc app", False),
        ("npx app", True),
        ("npx app app", True),
        ("npx --yes app", True),
        ("npx -p app tsc", True),
        ("npx --registry https://npm.example app", True),
        ("npx mocha -r app", True),
        ("npx mocha --require=app app", True),
        ("npx cross-env A=1 npx app", True),
        ("npx -y npm@11 exec app", True),
        ("npx cross-env A=1 app-mcp", True),
        ("npx mcp-proxy @shop/app", True),
        ("npx concurrently 'npx app' app", True),
        ("npm exec tsc app", True),
        ("node -r app", True),
        ("sh -c 'npx app'", True),
        ("NODE_OPTIONS='-r app' npx tsc app", True),
    ],
)
def test_a_word_that_only_the_package_gets_names_no_package_that_npm_has_linked(
    folder: Path, line: str, is_named: bool
) -> None:
    """`npx tsc app` closed `packages/app`, on which the agent works."""
    put(folder, "packages/app/package.json", "packages/app/cli.js", "node_modules/.bin/x")
    (folder / "node_modules/app").symlink_to("../packages/app")
    (folder / "node_modules/@shop").mkdir()
    (folder / "node_modules/@shop/app").symlink_to("../../packages/app")
    (folder / "node_modules/.bin/app-mcp").symlink_to("../app/cli.js")
    words = shlex.split(line)
    env = {"NODE_OPTIONS": words.pop(0).partition("=")[2]} if line.startswith("NODE") else {}
    found = command_part(Command("s", tuple(words), env), Project(folder, (folder,), "/usr/bin"))
    assert (folder / "packages/app" in found.files) is is_named


def test_the_workspace_of_an_agent_sorts_and_suggests_names_as_the_model_sees_them(folder: Path) -> None:
    put(folder, ".env", text="HOOK_TOKEN=whsec_Qm7Yb2Lk9Vd4\n")
    put(folder, "src/whsec_Qm7Yb2Lk9Vd4", "src/a", "src/z")
    files = files_of(folder)
    assert [each.name for each in files.entries("src")] == ["whsec_Qm7Yb2Lk9Vd4", "a", "z"]
    with pytest.raises(Exception, match="ls and glob find files"):
        files.read("src/whsec_Qm7Yb2Lk9Vd", max_bytes=1)


@pytest.mark.parametrize("above", [False, True])
def test_the_settings_of_programs_are_closed_where_the_home_folder_is_in_the_workspace(
    folder: Path, above: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """boto3 executes what `~/.aws/config` names, and git writes where `~/.gitconfig` says."""
    home = folder / "ann" if above else folder
    put(home, ".ssh/id", "notes/.hidden", ".config/gcloud/key")
    monkeypatch.setenv("HOME", str(home))
    files = files_of(folder, "workspace: {access: {.profile: write}}")
    start = "ann/" if above else ""
    for path in (".aws/config", ".gitconfig", ".ssh/id", ".config/python_keyring/x", ".AWS/config"):
        assert "programs of the user" in str(files.write_refusal(start + path)), path
    for path in (".ssh/id", ".config/gcloud/key"):
        with pytest.raises(WorkspaceError, match="programs of the user read it"):
            files.read(start + path, max_bytes=9)
    assert files.write_refusal(f"{start}notes/.hidden") is None
    assert files.write_refusal(f"{start}notes.txt") is None
    monkeypatch.setenv("HOME", str(folder.parent))
    assert files_of(folder).write_refusal(".aws/config") is None


def test_the_programs_of_the_user_are_closed_where_the_home_folder_is_the_workspace(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's next `zeus` was the program that a tool had written to `~/.local/bin`."""
    put(folder, ".local/state/bash/history", ".local/state/zeus/chat_history", ".local/bin/tool")
    monkeypatch.setenv("HOME", str(folder))
    files = files_of(folder)
    for path in (
        "bin/zeus",
        "lib/python3.12/site-packages/usercustomize.py",
        "state/x",
        "state/zeus/x",
        "share/x",
    ):
        assert files.write_refusal(f".local/{path}") is not None, path
    for path in ("bash/history", "zeus/chat_history"):
        with pytest.raises(WorkspaceError, match="programs of the user read it"):
            files.read(f".local/state/{path}", max_bytes=9)
    assert files.read(".local/bin/tool", max_bytes=9) is not None


def account(monkeypatch: pytest.MonkeyPatch, home: Path | None) -> None:
    """Give the account of this process a home folder; None for a process without an account."""

    def entry(number: int) -> SimpleNamespace:
        if home is None:
            raise KeyError(number)
        return SimpleNamespace(pw_dir=str(home))

    monkeypatch.setattr(pwd, "getpwuid", entry)


@pytest.mark.parametrize("variable", [None, "elsewhere", "ann"])
def test_the_home_folder_of_the_account_is_closed_whatever_the_variable_says(
    folder: Path, variable: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service without `User=` has no `HOME`, `ssh` never reads it, and the user's next `zeus` has it."""
    kept = (".ssh/id", ".config/zeus/accounts/a", ".local/state/zeus/chat_history")
    homes = ["account", *(["ann"] if variable == "ann" else [])]
    put(folder, *(f"{home}/{name}" for home in homes for name in kept))
    account(monkeypatch, folder / "account")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    if variable is None:
        monkeypatch.delenv("HOME")
    else:
        monkeypatch.setenv("HOME", str((folder if variable == "ann" else folder.parent) / variable))
    records = "account/.local/state/zeus/trust/x"
    files = files_of(folder, f"workspace: {{access: {{{records}: write}}}}")
    for home in homes:
        for name in kept:
            with pytest.raises(WorkspaceError, match="no tool may read or change it"):
                files.read(f"{home}/{name}", max_bytes=9)
        for name in (".aws/config", ".bashrc", ".config/zeus/configs/x.yaml", ".config/zeus/plugins/x.py"):
            assert files.write_refusal(f"{home}/{name}") is not None, name
        for name in ("trust", "folders", "pycache"):
            assert "all your agents" in str(files.write_refusal(f"{home}/.local/state/zeus/{name}/x")), name
    assert files.write_refusal("account/notes.md") is None


def test_a_process_without_an_account_has_the_home_folder_of_its_variable(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account(monkeypatch, None)
    monkeypatch.setenv("HOME", str(folder))
    assert files_of(folder).write_refusal(".bashrc") is not None
    monkeypatch.delenv("HOME")
    assert files_of(folder).write_refusal(".bashrc") is None


DOTFILES = {
    # A link in the home folder, where it leads, a file that it closes, and whether it closes that to reading.
    "a file": (".bashrc", "dotfiles/bashrc", "dotfiles/bashrc", True),
    "a file that is not there": (".netrc", "dotfiles/netrc", "dotfiles/netrc", True),
    "a folder": (".ssh", "dotfiles/ssh", "dotfiles/ssh/id", True),
    "a file in a folder": (".aws/config", "../dotfiles/aws", "dotfiles/aws", True),
    "an entry of the settings": (".config/gh", "../dotfiles/gh", "dotfiles/gh/hosts.yml", True),
    "a file in an entry of the settings": (
        ".config/git/config",
        "../../dotfiles/gitconfig",
        "dotfiles/gitconfig",
        True,
    ),
    "the folder of the settings": (".config", "dotfiles/config", "dotfiles/config/gh/hosts.yml", True),
    "a file of a program": (".local/share/keys/a", "../../../dotfiles/a", "dotfiles/a", True),
    "a program": (".local/bin/tool", "../../src/tool.py", "src/tool.py", False),
    "two links": (".profile", "dotfiles/link", "dotfiles/profile", True),
}


def test_the_state_folder_in_the_workspace_is_closed_where_the_home_folder_is_elsewhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder.parent / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    put(folder, "state/zeus/chat_history", "state/other")
    files = files_of(folder)
    with pytest.raises(WorkspaceError, match="no tool may read or change it"):
        files.read("state/zeus/chat_history", max_bytes=9)
    assert files.write_refusal("state/other") is None


@pytest.mark.parametrize("way", DOTFILES)
def test_a_link_of_the_home_folder_closes_where_it_leads(
    way: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`stow` and `chezmoi` keep the files elsewhere, and a tool could change `dotfiles/aws/config`."""
    link, target, file, is_unread = DOTFILES[way]
    put(folder, "dotfiles/README", "src/other.py", *([] if "not there" in way else [file]))
    if way == "two links":
        (folder / "dotfiles/link").symlink_to("profile")
    (folder / link).parent.mkdir(parents=True, exist_ok=True)
    (folder / link).symlink_to(target)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    files = files_of(folder)
    assert "programs of the user read it" in str(files.write_refusal(file))
    if not is_unread:
        assert files.read(file, max_bytes=9) is not None
    elif "not there" not in way:
        with pytest.raises(WorkspaceError, match="programs of the user read it"):
            files.read(file, max_bytes=9)
    # Also without following links anew, as a question of permission judges prompts.
    deciding = Deciding()
    config = write_agent(folder, "", tools=TOOLS)
    add_deciding(deciding, check(config, directory=folder, environ={}))
    assert deciding.may_hold_keys(str(folder.resolve() / file)) is is_unread
    for other in ("dotfiles/README", "src/other.py", "dotfiles/new"):
        assert files.write_refusal(other) is None, other


def test_a_link_of_the_home_folder_that_leads_elsewhere_later_closes_that_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "one/id", "two/id")
    (folder / ".ssh").symlink_to("one")
    monkeypatch.setenv("HOME", str(folder))
    files = files_of(folder)
    assert files.write_refusal("two/id") is None
    (folder / ".ssh").unlink()
    (folder / ".ssh").symlink_to("two")
    assert files.write_refusal("one/id") is not None
    with pytest.raises(WorkspaceError, match="programs of the user read it"):
        files.read("two/id", max_bytes=9)


def test_other_links_of_the_home_folder_close_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one to the work itself, one whose name is open, one deep in a cache, nor one to a folder of the system."""
    outside = folder.parent / "system"
    put(folder, "src/a.py", "now/a.py", "data/a.py", ".agents/x")
    put(outside, "lib/a")
    for link, target in (
        (".me", "."),
        (".cache/me", ".."),
        ("current", "now"),
        (".agents/data", "../data"),
        (".cache/build/execroot/src", "../../../src"),
        (".profile.d", outside),
    ):
        (folder / link).parent.mkdir(parents=True, exist_ok=True)
        (folder / link).symlink_to(target)
    monkeypatch.setenv("HOME", str(folder))
    config = write_agent(folder, "", tools=TOOLS)
    for name in ("src/a.py", "now/a.py", "data/a.py"):
        assert files_of(folder).write_refusal(name) is None, name
    deciding = Deciding()
    add_deciding(deciding, check(config, directory=folder, environ={}))
    assert deciding.find(str(outside / "lib/a")) is None


def test_a_link_of_keys_closes_its_target_among_any_number_of_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model made thousands of files beside the link, which was then not found among them."""
    put(folder, "config/shared.txt", *(f"many/{index}" for index in range(2_100)))
    (folder / "many/.env.local").symlink_to("../config/shared.txt")
    scandir = os.scandir

    class Listing:
        """The entries of a folder, links last."""

        def __init__(self, at: str) -> None:
            with scandir(at) as found:
                self._entries = iter(sorted(found, key=os.DirEntry.is_symlink))

        def __enter__(self) -> Listing:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def __iter__(self) -> Iterator[os.DirEntry[str]]:
            return self._entries

    monkeypatch.setattr(os, "scandir", Listing)
    files = files_of(folder, "workspace: {root: many, routes: {/config/: config}}")
    with pytest.raises(WorkspaceError, match="no tool may read or change it"):
        files.read("config/shared.txt", max_bytes=9)
    assert files.write_refusal("config/shared.txt") is not None


def test_a_program_keeps_the_folders_of_the_sub_agents_in_their_places(folder: Path) -> None:
    """A sub-agent opens its root and its routes by their paths: a link there would lead it out of the workspace."""
    put(folder, "sub/a", "other/deep/a")
    agents = (
        "agents:\n"
        "  one: {description: x, overrides: {tools: [filesystem], workspace: {root: ./sub}}}\n"
        "  two: {description: x, overrides: {tools: [filesystem],"
        " workspace: {root: ./other/deep, routes: {/out/: ./late/x}}}}\n"
    )
    view = files_of(folder, agents, tools="[filesystem, subagents]").program_view(max_files=1000)
    assert {str(folder / each) for each in ("sub", "other", "other/deep", "late", "late/x")} <= {
        mount.host for mount in view
    }
    (folder / "late" / "x").rmdir()
    (folder / "late" / "x").symlink_to("/tmp")
    with pytest.raises(WorkspaceError, match="a link in the workspace"):
        files_of(folder, agents, tools="[filesystem, subagents]").program_view(max_files=1000)


@pytest.mark.parametrize(
    ("tools", "yaml"),
    [
        ("[probe, {sandbox: {backend: {bubblewrap: {folder: ./late/box}}}}]", ""),
        ("[probe, {sandbox: {backend: {docker: {folder: late/box}}}}]", ""),
        ("[probe]", "memory: {vector_store: {chroma: {path: late/box}}}"),
    ],
)
def test_a_program_keeps_the_folders_of_options_in_their_places(folder: Path, tools: str, yaml: str) -> None:
    """A command made a link there, and Zeus wrote files of the model's choice where it leads."""
    put(folder, "late.txt", "boxes")
    files = files_of(folder, yaml, tools=tools)
    view = {mount.host: mount.right for mount in files.program_view(max_files=1000)}
    assert view[str(folder / "late")] == "write"
    assert view[str(folder / "late" / "box")] in ("read", "none")
    assert files.write_refusal("late/box/new") is not None
    assert files.write_refusal("late.txt") is None
    (folder / "late" / "box").rmdir()
    (folder / "late" / "box").symlink_to("/tmp")
    with pytest.raises(WorkspaceError, match="a link in the workspace"):
        files.program_view(max_files=1000)


def test_programs_see_neither_the_database_nor_the_keys_of_a_service_beside_it(folder: Path) -> None:
    data = folder.parent / "data"
    put(data, "zeus.db", "zeus.db-wal", "soul.md", "tls/key.pem", "tls/serve.db-shm")
    put(folder, "work/a")
    (folder / "zeus-serve.yaml").write_text(
        f"tls: {{certificate: {data}/tls/cert.pem, key: {data}/tls/key.pem}}\nstorage: {{url: 'sqlite:///{data}/tls/serve.db'}}\n"
    )
    files = files_of(
        folder,
        f"storage: {{url: 'sqlite:///{data}/zeus.db'}}\nprompt: {{files: {{soul: {data}/soul.md}}}}\n"
        "workspace: {root: ./work}",
    )
    found = set(files.unseen())
    assert {data / "zeus.db", data / "zeus.db-wal", data / "tls"} <= found
    assert not {data, data / "soul.md"} & found
    put(data, "tls/readme.txt")
    found = set(files.unseen())
    assert {data / "tls/key.pem", data / "tls/serve.db-shm"} <= found
    assert not {data / "tls", data / "tls/readme.txt"} & found


@pytest.mark.parametrize("link", ["rootfs", "late"])
def test_no_program_runs_beside_a_link_on_the_way_to_a_folder_that_a_sandbox_shows(
    folder: Path, tmp_path: Path, link: str
) -> None:
    """A command made it lead elsewhere, and the programs of the next run saw other files."""
    put(tmp_path, "far/rootfs/bin/sh")
    (folder / link).symlink_to(tmp_path / ("far/rootfs" if link == "rootfs" else "far"))
    place = "rootfs" if link == "rootfs" else "late/rootfs"
    tools = f"[probe, {{sandbox: {{backend: {{bubblewrap: {{rootfs: {place}}}}}}}}}]"
    files = files_of(folder, tools=tools)
    with pytest.raises(WorkspaceError, match="a link in the workspace"):
        files.program_view(max_files=1000)
    files.program_view(max_files=1000, writable=False)
    assert files.mount_refusal(tmp_path / "far/rootfs") is None
    assert tmp_path / "far/rootfs" not in files.around()


def test_programs_see_the_workspace_alone_of_the_folders_around_it(folder: Path) -> None:
    """Below `/usr`, as `/usr/src/app` is, a command saw the config, other agents' files and other sessions."""
    put(folder, "work/a", "other/key")
    agents = "agents: {one: {description: x, overrides: {tools: [filesystem], workspace: {root: ./other}}}}\n"
    files = files_of(folder, f"workspace: {{root: ./work}}\n{agents}", tools="[filesystem, subagents]")
    assert {folder, folder / "work", folder / "other"} <= set(files.around())


def test_no_tool_writes_a_config_or_service_that_is_trusted_by_its_path(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its next run, which may be another agent's, would execute anything that it says."""
    paths = ("zeus.yaml", "second.yaml", "serve/zeus-serve.yaml")
    monkeypatch.setenv("ZEUS_TRUST", ",".join(str(folder / each) for each in paths))
    put(folder, "second.yaml", text="version: 1\nextends: base.yaml\nplugins: {files: [own.py]}\n")
    put(folder, "serve/zeus-serve.yaml", text="version: 1\nextends: serve.base.yaml\n")
    files = files_of(folder)
    for path in ("second.yaml", "second.prod.yaml", "base.yaml", "own.py", "serve/zeus-serve.yaml"):
        assert files.write_refusal(path) is not None, path
    for path in ("serve/serve.base.yaml", "serve/zeus-serve.prod.yaml"):
        assert files.write_refusal(path) is not None, path
    for path in ("third.yaml", "serve/notes.yaml"):
        assert files.write_refusal(path) is None, path
    monkeypatch.setenv("ZEUS_TRUST", str(folder / "zeus.yaml"))
    assert files_of(folder).write_refusal("second.yaml") is None


def test_no_tool_reads_keys_that_only_a_config_names_that_this_run_did_not_load(folder: Path) -> None:
    """A run with another config of the folder could read the keys, servers and databases of `zeus.yaml`."""
    files = {
        "zeus.yaml": "version: 1\nextends: [./keys.yaml, ./plain.yaml]\n"
        "tools: [{mcp: {files: [servers.json]}}, {sandbox: {backend: {ssh: {host: h, user: u, key: deploy_key}}}}]\n",
        "zeus.prod.yaml": "version: 1\nstorage: {url: 'sqlite:///prod.db'}\n",
        ".zeus/configs/live.yaml": KEYED,
        "team/configs/live.yaml": KEYED,
        "team/configs/open.yaml": "version: 1\nextends: base/keyed.yaml\n",
        "team/configs/base/keyed.yaml": KEYED,
        "keys.yaml": KEYED,
        "plain.yaml": "version: 1\n",
        "servers.json": "{}",
        "deploy_key": "needle",
        "prod.db": "needle",
        "prod.db-wal": "needle",
    }
    for name, text in files.items():
        put(folder, name, text=text)
    write_agent(folder, "homes: [team]\n").rename(folder / "docs.yaml")
    put(folder, "zeus.yaml", text=files["zeus.yaml"])
    found = make_plan(check("docs.yaml", directory=folder, environ={})).context.workspace
    opened = {"zeus.prod.yaml", "team/configs/open.yaml", "plain.yaml", "zeus.yaml"}
    for name in files:
        assert found.write_refusal(name) is not None, name
        if name in opened:
            assert found.read(name, max_bytes=10_000)
        else:
            with pytest.raises(WorkspaceError, match="no tool may read or change it"):
                found.read(name, max_bytes=10_000)


def test_no_tool_reads_keys_or_changes_databases_that_a_stronger_layer_replaces(folder: Path) -> None:
    put(folder, "prod.db", "deploy_key", "zeus.dev.yaml")
    config = write_agent(
        folder,
        "storage: {url: 'sqlite:///prod.db'}\n",
        tools="[probe, {sandbox: {backend: {ssh: {host: h, user: u, key: deploy_key}}}}]",
    )
    (folder / "zeus.dev.yaml").write_text("version: 1\ntools: [probe]\nstorage: {url: 'sqlite:///dev.db'}\n")
    environ = {"HOME": str(folder.parent / "home")}
    found = make_plan(check(config, env="dev", directory=folder, environ=environ)).context.workspace
    for name in ("prod.db", "dev.db", "deploy_key"):
        refusal = found.write_refusal(name)
        assert refusal is not None, name
        assert "no tool may read or change it" in refusal


def test_no_tool_reads_a_file_of_keys_that_an_option_of_the_model_names(folder: Path) -> None:
    put(folder, "sa.json", text='{"private_key": "needle"}')
    model = "model: {litellm: {model: vertex_ai/gemini-2.5-pro, extra: {vertex_credentials: sa.json}}}"
    (folder / "zeus.yaml").write_text(f"version: 1\n{model}\n")
    found = make_plan(check(folder / "zeus.yaml", directory=folder, environ={})).context.workspace
    with pytest.raises(WorkspaceError, match="no tool may read or change it"):
        found.read("sa.json", max_bytes=1000)


async def test_a_key_in_an_overlay_that_was_not_loaded_is_masked_elsewhere(folder: Path) -> None:
    put(folder, "zeus.prod.yaml", text=KEYED)
    put(folder, "log.txt", text="used written-out-123 for it\n")
    (found,) = results(await played(folder, "", ("read_file", {"path": "log.txt"})))
    assert "written-out-123" not in found
    assert "<secret:zeus.prod.yaml/model.litellm.api_key" in found


async def test_the_floor_stays_when_protected_or_ignore_are_set(folder: Path) -> None:
    put(folder, ".git/config", ".zeus/note.txt", "b.log", "c.txt", "final/x.txt")
    config = write_agent(folder, "", tools="[probe, {filesystem: {protected: [final], ignore: ['*.log']}}]")
    floor = (".git/config", ".zeus/x", "sub/.git/config", "sub/.zeus/x")
    found = results(
        await played(
            folder,
            "",
            *(("write_file", {"path": path, "content": ""}) for path in floor),
            ("write_file", {"path": "final/x.txt", "content": ""}),
            ("grep", {"pattern": "needle", "files_only": True}),
            ("glob", {"pattern": "**"}),
            config=config,
        )
    )
    *refused, protected, grepped, listed = found
    assert [("no tool may" in each) for each in refused] == [True] * len(floor), refused
    assert not (folder / "sub").exists()
    assert "protected by `filesystem.protected`" in protected
    assert grepped == "/c.txt\n/final/x.txt"
    assert ".git" not in listed


def test_an_exact_rule_opens_what_it_names_and_nothing_else(folder: Path) -> None:
    put(folder, ".env.example", "conf/x")
    files = files_of(
        folder,
        'workspace: {access: {".env.example": read, zeus.yaml: write, "**": write, ".e*": write, conf: write}}',
    )
    assert files.read(".env.example", max_bytes=100) == b"needle\n"
    with pytest.raises(Exception, match="lets no tool write it"):
        files.write(".env.example", b"")
    assert files.write("zeus.yaml", b"version: 1") is False
    for path in (".env", ".git/config", "zeus.prod.yaml"):
        with pytest.raises(Exception, match="no tool may"):
            files.write(path, b"")


def test_a_config_inside_a_folder_that_is_opened_stays_closed(folder: Path) -> None:
    config = write_agent(folder / "conf", "workspace: {access: {conf: write}}\n", tools=TOOLS)
    files = make_plan(check(config, directory=folder, environ={})).context.workspace
    files.write("/conf/notes.txt", b"")
    with pytest.raises(Exception, match="no tool may"):
        files.write("/conf/zeus.yaml", b"")


def test_a_route_into_zeus_own_folder_opens_that_folder_alone(folder: Path) -> None:
    files = files_of(folder, "workspace: {routes: {/notes/: .zeus/notes, /prompts/: .zeus/prompts}}")
    assert files.write("/notes/a.md", b"x")
    assert files.read("/.zeus/notes/a.md", max_bytes=10) == b"x"
    for path in ("/prompts/SOUL.md", "/.zeus/other", "/notes/../.zeus/zeus.db"):
        with pytest.raises(Exception, match="no tool may"):
            files.write(path, b"")


def test_what_the_runtime_keeps_is_written_by_the_runtime_and_read_by_tools(folder: Path) -> None:
    files = files_of(folder)
    files.runtime.write("/large_tool_results/r1", b"evicted")
    path = keep(b"attached", "a.txt", files)
    with reading_kept({"/large_tool_results/r1", path, str(Path(path).parent)}.__contains__):
        assert files.read("/large_tool_results/r1", max_bytes=100) == b"evicted"
        assert files.read(path, max_bytes=100) == b"attached"
        assert files.read("/.zeus/large_tool_results/r1", max_bytes=100) == b"evicted"
    for each in ("/large_tool_results/r1", path, "/.zeus/large_tool_results/r1"):
        with pytest.raises(WorkspaceError, match="this session has kept no such file"):
            files.read(each, max_bytes=100)
    with pytest.raises(Exception, match="no tool may"):
        files.write("/large_tool_results/r1", b"forged")


KEPT_IN_SIGHT = "workspace: {routes: {/large_tool_results/: results, /attached_files/: results/given}}\n"


@pytest.mark.parametrize("knows", ["unloaded", "overlay", "subagent", "beside"])
def test_what_another_agent_keeps_in_the_workspace_is_of_its_sessions(folder: Path, knows: str) -> None:
    """Only the route's name told an archive, so an agent without that route read texts that its rules deny."""
    put(folder, "results/r1", "results/given/ab/a.txt", "other/b.txt", "mine.txt")
    (folder / "keeps.yaml").write_text(f"version: 1\nmodel: gpt-4o\n{KEPT_IN_SIGHT}")
    environ = {"HOME": str(folder.parent / "home")}
    lines = {
        "unloaded": "",
        "overlay": "",
        "subagent": "agents: {keeper: {description: Keeps., config: keeps.yaml}}\n",
        "beside": "",
    }
    reads = folder / "reads.yaml"
    reads.write_text(f"version: 1\nmodel: gpt-4o\ntools: [filesystem, subagents]\n{lines[knows]}")
    if knows in ("unloaded", "overlay"):
        (folder / "keeps.yaml").rename(folder / ("zeus.yaml" if knows == "unloaded" else "reads.prod.yaml"))
    checked = check(reads, directory=folder, environ=environ, trust=recorded_trust(os.environ))
    if knows == "beside":
        keeps = check(folder / "keeps.yaml", directory=folder, environ=environ, trust=checked.trust)
        checked = replace(checked, beside=(keeps,))
    files = make_plan(checked).context.workspace
    for path in ("results/r1", "results/given/ab/a.txt"):
        with reading_kept(lambda _path: False), pytest.raises(WorkspaceError, match="has kept no such file"):
            files.read(path, max_bytes=100)
        with pytest.raises(WorkspaceError, match="Zeus itself keeps its originals there"):
            files.write(path, b"forged")
    with calling_tool("grep"), reading_kept(lambda _path: False):
        found = {each.path for each in files.walk("/") if each.kind == "file"}
    assert {"/other/b.txt", "/mine.txt"} <= found
    assert not any(each.startswith("/results/") for each in found)
    # A user who names a file of an archive lets the agent read it.
    with reading_kept({"/large_tool_results/r1"}.__contains__):
        assert files.read("results/r1", max_bytes=100)
    assert not files.write("mine.txt", b"free")


@pytest.mark.parametrize(
    ("workspace", "reason"),
    [
        ("{routes: {/shared/: ../apart/o}}", "another agent works"),
        ("{root: ../apart/o}", "files that decide|another agent works"),
        ("{root: ../apart/o, per: session}", "files that decide|another agent works"),
        ("{routes: {/large_tool_results/: ../apart/o}}", "Zeus keeps files of sessions"),
    ],
)
@pytest.mark.parametrize("knows", ["subagent", "beside"])
def test_programs_see_no_further_folder_with_one_of_another_agent(
    folder: Path, workspace: str, reason: str, knows: str
) -> None:
    """`shell.show` is mounted after the covers, so commands read the routes and archives in such a folder."""
    put(folder.parent, "apart/o/deep/key", "apart/lib/x", "tools/x")
    (folder / "work").mkdir()
    other = folder / "other.yaml"
    other.write_text(f"version: 1\nmodel: gpt-4o\nworkspace: {workspace}\n")
    given = "agents: {h: {description: Helps., config: other.yaml}}\n" if knows == "subagent" else ""
    config = write_agent(folder, f"workspace: {{root: work}}\n{given}", tools="[filesystem, subagents]")
    trust = recorded_trust(os.environ)
    checked = check(config, directory=folder, environ={}, trust=trust)
    if knows == "beside":
        checked = replace(checked, beside=(check(other, directory=folder, environ={}, trust=trust),))
    files = make_plan(checked).context.workspace
    for each in ("apart", "apart/o", "apart/o/deep"):
        assert re.search(reason, files.mount_refusal(folder.parent / each) or "")
    for each in ("apart/lib", "tools"):
        assert files.mount_refusal(folder.parent / each) is None


def test_programs_see_no_further_folder_with_an_archive_of_a_config_that_does_not_run(folder: Path) -> None:
    put(folder.parent, "apart/o/r1")
    (folder / "work").mkdir()
    routes = "{routes: {/large_tool_results/: ../apart/o}}"
    (folder / "zeus.prod.yaml").write_text(f"version: 1\nworkspace: {routes}\n")
    files = files_of(folder, "workspace: {root: work}\n")
    assert "Zeus keeps files of sessions" in str(files.mount_refusal(folder.parent / "apart"))


def test_programs_see_no_further_folder_with_the_working_directory(folder: Path) -> None:
    put(folder, "compiler/x")
    yaml = "version: 1\nmodel: gpt-4o\nworkspace: {root: ../far}\n"
    put(folder.parent, "elsewhere/zeus.yaml", "far/x", text=yaml)
    config = folder.parent / "elsewhere/zeus.yaml"
    files = make_plan(check(config, directory=folder, environ={})).context.workspace
    assert files.mount_refusal(folder) is not None
    assert files.mount_refusal(folder / "compiler") is None


def test_a_session_of_programs_does_not_see_what_another_one_kept_in_the_workspace(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rights that a look found for one session were remembered for the next."""
    monkeypatch.setattr("zeus_runtime.tools.program_view.SETTLED_NANOSECONDS", -(1 << 62))
    put(folder, "results/r1", "results/r2", "results/r3")
    files = files_of(folder, KEPT_IN_SIGHT)

    def seen(*own: str) -> list[str]:
        may_read = {"/large_tool_results", "/", *(f"/large_tool_results/{each}" for each in own)}.__contains__
        with calling_tool("run_command"), reading_kept(may_read):
            mounts = {each.host: each.right for each in files.program_view(max_files=1_000)}
        names = ("r1", "r2", "r3")
        assert mounts[str(folder / "results")] == "none"
        return [each for each in names if mounts.get(str(folder / "results" / each)) == "read"]

    assert seen("r1", "r2") == ["r1", "r2"]
    assert seen("r2", "r3") == ["r2", "r3"]


async def test_the_files_of_another_sessions_sandbox_are_not_read(folder: Path) -> None:
    path = ".zeus/sandboxes/session_1/secrets/key.txt"
    put(folder, path, "sandboxes/mine.txt")
    calls_made = (
        ("read_file", {"path": path}),
        ("grep", {"pattern": "needle", "path": "/.zeus"}),
        ("glob", {"pattern": ".zeus/**/key.txt"}),
        ("read_file", {"path": "boxes/session_1/secrets/key.txt"}),
        ("read_file", {"path": "sandboxes/mine.txt"}),
    )
    (folder / "boxes").symlink_to(".zeus/sandboxes")
    found = results(await played(folder, "", *calls_made))
    assert not any("needle\n" in each or "1\tneedle" in each for each in found[:4])
    assert "session_1" not in found[1] + found[2]
    assert "needle" in found[4]
    config = write_agent(folder, "", tools=TOOLS)
    model = script(calling(call("read_file", "c0", path=path)), "done")
    async with Agent.from_config(config, directory=folder, model=model) as agent:
        events = await events_of(agent.stream(f"Look at {path}."))
    assert results(events) == ["1\tneedle"]


@pytest.mark.parametrize("backend", ["bubblewrap", "docker"])
async def test_a_session_reads_its_own_files_alone_where_sandboxes_are_in_the_workspace(
    folder: Path, backend: str
) -> None:
    """``folder`` of a sandbox was protected from changes, and each session read the files of all."""
    put(folder, "boxes/session_2/key.txt", "boxes2/key.txt")
    boxes = real_path(folder / "boxes")
    (folder / "link").symlink_to("boxes/session_2")
    config = write_agent(
        folder,
        "workspace: {routes: {/z/: boxes/session_2}}\n",
        tools=f"[probe, filesystem, {{sandbox: {{backend: {{{backend}: {{folder: boxes}}}}}}}}]",
    )
    trust = recorded_trust({}, "all")
    checked = check(config, directory=folder, environ={"HOME": str(folder.parent / "home")}, trust=trust)
    steps: list[Any] = ["begun"]
    model = PositionModel(lambda request: steps[sum(each.type == "ai" for each in request.messages)])
    async with Agent(checked, make_plan(checked), model=model) as agent:
        own = (await agent.run("go")).session
        put(folder, f"boxes/{own}/key.txt", f"boxes/{own}1/key.txt")
        read = (f"boxes/{own}", "boxes2", f"boxes/{own}1", "boxes/session_2", "link", "z")
        looks = [("read_file", {"path": f"{each}/key.txt"}) for each in read]
        looks += [("glob", {"pattern": "**/key.txt"}), ("grep", {"pattern": "needle"})]
        looks += [("ls", {"path": "/boxes"}), ("write_file", {"path": f"boxes/{own}/new", "content": "x"})]
        made = (call(name, f"c{number:02}", **given) for number, (name, given) in enumerate(looks))
        steps += [calling(*made), "done"]
        found = results(await play(agent, "again", session=own))
        with calling_tool("run_command"), reading_kept(SessionFiles(session=own)):
            mounts = {
                each.host: each.right for each in agent.plan.context.workspace.program_view(max_files=100)
            }
    assert ["needle" in each for each in found[:6]] == [True, True, False, False, False, False]
    assert all("kept no such file" in each for each in found[2:6])
    assert found[6] == f"/boxes/{own}/key.txt\n/boxes2/key.txt"
    assert [line for line in found[7].splitlines() if line.startswith("/")] == found[6].splitlines()
    assert found[8] == f"{own}/"
    assert "no tool may change it" in found[9]
    shown = {each for each, right in mounts.items() if right != "none"}
    assert {each for each in shown if "/boxes/" in each} == {f"{boxes}/{own}/key.txt"}
    assert mounts[boxes] == "none"


BOXES = "[filesystem, {{sandbox: {{backend: {{bubblewrap: {{folder: {}}}}}}}}}]"
AROUND: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "the root": ("", BOXES.format("."), ("tools", "1")),
    "a root below": ("workspace: {root: boxes/w}\n", BOXES.format("boxes"), ("tools", "1")),
    "through a link": ("workspace: {root: link/w}\n", BOXES.format("boxes"), ("tools", "1")),
    "the folder of users": ("workspace: {root: boxes, per: user}\n", BOXES.format("boxes"), ("tools", "1")),
    "the folder of sessions": (
        "workspace: {root: boxes, per: session}\n",
        BOXES.format("link"),
        ("tools", "1"),
    ),
    "attachments": (
        "workspace: {routes: {attached_files: .}}\n",
        TOOLS,
        ("workspace", "routes", "attached_files"),
    ),
    "originals": (
        "workspace: {root: boxes/w, routes: {/large_tool_results/: boxes}}\n",
        TOOLS,
        ("workspace", "routes", "/large_tool_results/"),
    ),
}


@pytest.mark.parametrize("case", AROUND)
def test_no_workspace_is_in_a_folder_where_zeus_keeps_files_of_all_sessions(folder: Path, case: str) -> None:
    """Such a folder was not closed, since nothing could be opened then: each session read the files of all."""
    yaml, tools, at = AROUND[case]
    put(folder, "boxes/w/a")
    (folder / "link").symlink_to("boxes")
    with pytest.raises(ConfigError, match="keeps files of all sessions") as refused:
        make_plan(
            check(
                write_agent(folder, yaml, tools=tools),
                directory=folder,
                environ={},
                trust=recorded_trust({}, "all"),
            )
        )
    (problem,) = refused.value.diagnostics
    assert problem.code == "workspace"
    assert tuple(map(str, problem.path))[: len(at)] == at
    assert problem.hint


def test_a_folder_of_sessions_is_closed_also_where_its_own_agent_is_refused(folder: Path) -> None:
    """It was open for all agents of a service if one of them works in it."""
    put(folder, "boxes/w/a", "boxes/session_2/key.txt", "mine.txt")
    trust = recorded_trust({}, "all")
    yaml = "workspace: {root: boxes/w}\n"
    config = write_agent(folder, yaml, tools=BOXES.format("boxes")).rename(folder / "other.yaml")
    other = check(config, directory=folder, environ={}, trust=trust)
    checked = check(write_agent(folder), directory=folder, environ={}, trust=trust)
    files = make_plan(replace(checked, beside=(other,))).context.workspace
    with calling_tool("read_file"):
        assert files.read("mine.txt", max_bytes=100)
        with pytest.raises(WorkspaceError, match="kept no such file"):
            files.read("boxes/session_2/key.txt", max_bytes=100)


_INSIDE = "workspace: {root: boxes/w}\n"
_KEEPING = f"tools: {BOXES.format('boxes')}\n"
_WITH_HELPER = "agents: {helper: {description: h, config: helper.yaml}}\ntools: [subagents, filesystem]\n"
_ALSO_KEEPING = _WITH_HELPER.replace("filesystem", BOXES.format("boxes")[len("[filesystem, ") : -1])
FAMILIES: Mapping[str, Mapping[str, str]] = {
    "parent": {"zeus": _ALSO_KEEPING, "helper": _INSIDE},
    "parent of an entry": {
        "zeus": _ALSO_KEEPING.replace("config: helper.yaml", "overrides: {workspace: {root: boxes/w}}")
    },
    "child": {"zeus": _WITH_HELPER + _INSIDE, "helper": f"{_KEEPING}workspace: {{root: desk}}\n"},
    "entry": {
        "zeus": _WITH_HELPER.replace("config: helper.yaml", f"overrides: {{{_KEEPING.strip()}}}") + _INSIDE
    },
    "other config": {"zeus": _INSIDE, "zeus.prod": _KEEPING},
    "beside": {"zeus": _INSIDE, "beside": _KEEPING},
}


@pytest.mark.parametrize("keeps", FAMILIES)
def test_no_agent_works_in_a_folder_where_another_one_keeps_files_of_all_sessions(
    folder: Path, keeps: str
) -> None:
    """The folder of each was compared with the workspace of its own config alone."""
    put(folder, "boxes/w/a", "desk/a")
    for name, yaml in FAMILIES[keeps].items():
        (folder / f"{name}.yaml").write_text(f"version: 1\nname: {name.partition('.')[0]}\nmodel: x\n{yaml}")

    def checked(name: str) -> Checked:
        return check(folder / f"{name}.yaml", directory=folder, environ={}, trust=recorded_trust({}, "all"))

    own, beside = checked("zeus"), ()
    if keeps == "beside":
        beside = (checked("beside"),)
        make_plan(replace(beside[0], beside=(own,)))
    with pytest.raises(ConfigError, match=r"(?s)boxes, where Zeus keeps files of all sessions"):
        make_plan(replace(own, beside=beside))


def test_the_files_of_sandboxes_are_not_read_through_another_folder(folder: Path) -> None:
    put(folder, ".zeus/sandboxes/session_1/key.txt", "work/x.txt")
    yaml = "workspace: {root: work, routes: {/z/: .zeus}}\n"
    with calling_tool("read_file"), pytest.raises(Exception, match="kept no such file"):
        files_of(folder, yaml).read("/z/sandboxes/session_1/key.txt", max_bytes=100)


# Folders that are made on the way to a file

WAYS = "workspace: {access: {'**': read, '**/out/**': write, 'asked/**': ask, 'asked/*/out/**': write}}\n"


async def test_a_call_makes_no_folder_that_the_rules_close(folder: Path) -> None:
    put(folder, "src/a.txt")
    made = ("write_file", {"path": "/src/new/out/x", "content": "x"})
    (refused,) = results(await played(folder, WAYS, made))
    assert "/src/new: the folder is missing, and the rule `**: read`" in refused
    assert not (folder / "src/new").exists()
    (told,) = results(await played(folder, WAYS, ("write_file", {"path": "/out/a/x", "content": "x"})))
    assert "/out/a/x" in told
    assert (folder / "out/a/x").read_text() == "x"


@pytest.mark.parametrize("rules", [WAYS, "workspace: {access: {'asked/**': ask, 'asked/*/out/**': write}}\n"])
async def test_a_call_asks_once_before_it_makes_folders(folder: Path, rules: str) -> None:
    made = ("write_file", {"path": "/asked/new/out/x", "content": "x"})
    (refused,) = results(await played(folder, rules, made, channel=Rejecting()))
    assert "rejected" in refused
    assert not (folder / "asked").exists()
    person = Answering()
    await played(folder, rules, made, channel=person)
    assert (folder / "asked/new/out/x").read_text() == "x"
    (asked,) = person.asked
    assert "/asked/new: the folder is missing, and the rule `asked/**: ask`" in str(asked.reason)


async def test_a_person_is_not_asked_about_a_call_that_may_not_make_a_folder(folder: Path) -> None:
    put(folder, "src/a.txt")
    yaml = "middlewares: [{approve: {mode: ask}}]\n" + WAYS
    made = ("write_file", {"path": "/src/new/out/x", "content": "x"})
    person = Answering()
    (refused,) = results(await played(folder, yaml, made, channel=person))
    assert "/src/new: the folder is missing" in refused
    assert not person.asked
    (told,) = results(
        await played(
            folder, yaml, ("write_file", {"path": "/asked/new/out/x", "content": "x"}), channel=person
        )
    )
    assert "/asked/new/out/x" in told
    assert len(person.asked) == 1


async def test_the_path_rules_of_approve_judge_the_folders_on_the_way(folder: Path) -> None:
    allow = "allow: [{write_file: {path: 'src/**/out/*'}}]"  # the file, and no folder on the way
    rules = f"{allow}, ask: [{{'*': {{path: 'src/*'}}}}], deny: [{{'*': {{path: 'src/closed'}}}}]"
    yaml = f"middlewares: [{{approve: {{{rules}}}}}]\n"
    put(folder, "src/a.txt")
    person = Answering()
    for path in ("/src/new/out/x", "/src/closed/out/x"):
        await played(folder, yaml, ("write_file", {"path": path, "content": "x"}), channel=person)
    assert (folder / "src/new/out/x").exists()
    assert not (folder / "src/closed").exists()
    (asked,) = person.asked
    assert "/src/new/out: the folder is missing, and the rule `ask:" in str(asked.reason)


# Originals are read by the session that kept them

KEEPING = """
middlewares: [{eviction: {max_tokens: 200, exclude: []}}]
agents:
  helper:
    description: Helps.
    overrides: {workspace: {access: {"secrets/**": deny}}, middlewares: []}
  fork:
    description: Knows what was said.
    context: fork
"""
SECRET = "".join(f"KRONOS {number} lorem ipsum dolor\n" for number in range(400))
LOOKS = (
    ("read_file", {"path": "/large_tool_results/r1"}),
    ("read_file", {"path": "/large_tool_results/r1"}),
    ("read_file", {"path": "/.zeus/large_tool_results/r1"}),
    ("read_file", {"path": "/LARGE_TOOL_RESULTS/r1"}),
    ("grep", {"pattern": "KRONOS 399", "path": "/"}),
    ("grep", {"pattern": "KRONOS 399", "path": "/large_tool_results"}),
    ("grep", {"pattern": "KRONOS 399", "path": "/.zeus/large_tool_results"}),
    ("glob", {"pattern": "**/r1"}),
    ("grep", {"pattern": "KRONOS 399", "path": "/.zeus/zeus.db"}),
    ("grep", {"pattern": "KRONOS 399", "path": "/.zeus/zeus.db-wal"}),
    ("read_file", {"path": "/.zeus/zeus.db"}),
    ("read_file", {"path": "/.zeus/zeus.db-wal"}),
    ("ls", {"path": "/large_tool_results"}),
)
LAST: Mapping[str, Any] = {"path": "/large_tool_results/r1", "offset": 400, "limit": 1}


def roles(**answers: Sequence[Any]) -> PositionModel:
    """A model that plays the role that the first word of the last prompt names; its answers come in order."""

    def answer(request: ModelRequest) -> Any:
        messages = list(request.messages)
        at = max(place for place, each in enumerate(messages) if each.type == "human")
        given = answers[str(messages[at].content).split()[0]]
        return given[sum(each.type == "ai" for each in messages[at:])]

    return PositionModel(answer)


def looking(*looks: tuple[str, Mapping[str, Any]]) -> list[Any]:
    """One answer for each call, so that a later one may use what an earlier one was told."""
    made = [calling(call(name, f"c{number}", **given)) for number, (name, given) in enumerate(looks)]
    return [*made, "done"]


READS = calling(call("read_file", "r1", path="/secrets/a.txt", limit=400))


def sends(prompt: str, agent: str = "helper") -> Any:
    return calling(call("task", "t1", agent=agent, prompt=prompt, description="x"))


async def told(folder: Path, model: Any, prompt: str = "go", session: str | None = None) -> list[str]:
    """Every result of a run, of sub-agents too; each run has an agent of its own, as each process has."""
    config = write_agent(folder, KEEPING, tools="[probe, filesystem, subagents]")
    async with Agent.from_config(config, directory=folder, model=model) as agent:
        events = await events_of(agent.stream(prompt, session=session))
    wires = [each.event if isinstance(each, SubAgentEvent) else each.to_wire() for each in events]
    assert wires[-1]["type"] == "complete", wires[-1]
    return [str(each["content"]) for each in wires if each["type"] == "tool_call_result"]


async def only_session(folder: Path) -> str:
    async with Agent.from_config(folder / "zeus.yaml", directory=folder, model=script()) as agent:
        return (await agent.sessions())[0].session


async def test_a_sub_agent_does_not_find_the_originals_of_the_agent_above(folder: Path) -> None:
    put(folder, "secrets/a.txt", text=SECRET)
    model = roles(
        go=[READS, sends("look around"), calling(call("read_file", "c9", **LAST)), "done"],
        look=looking(*LOOKS),
    )
    _, *found, answer, last = await told(folder, model)
    assert len(found) == len(LOOKS)
    assert not any("lorem" in each for each in found), found
    assert "this session has kept no such file" in found[0]
    assert answer.startswith("done")
    assert "KRONOS 399 lorem" in last, "its own session reads it"


async def test_a_sub_agent_reads_the_original_that_its_prompt_names(folder: Path) -> None:
    put(folder, "secrets/a.txt", text=SECRET)
    look = looking(("read_file", LAST), ("read_file", {"path": "/large_tool_results/r2"}))
    model = roles(go=[READS, sends("look at `/large_tool_results/r1`."), "done"], look=look)
    _, given, other, _ = await told(folder, model)
    assert "KRONOS 399 lorem" in given
    assert "this session has kept no such file" in other


async def test_an_agent_gives_no_original_that_it_may_not_read_itself(folder: Path) -> None:
    put(folder, "secrets/a.txt", text=SECRET)
    await told(folder, roles(go=[READS, "done"]))
    look = looking(("read_file", LAST))
    for agent in ("helper", "fork"):
        model = roles(other=[sends("look at /large_tool_results/r1", agent), "done"], look=look)
        found, _ = await told(folder, model, "other")
        assert "this session has kept no such file" in found


async def test_a_fork_reads_the_originals_of_what_it_was_given(folder: Path) -> None:
    put(folder, "secrets/a.txt", text=SECRET)
    model = roles(go=[READS, sends("look", "fork"), "done"], look=looking(("read_file", LAST)))
    _, found, _ = await told(folder, model)
    assert "KRONOS 399 lorem" in found


async def test_another_session_finds_no_original_unless_the_user_names_it(folder: Path) -> None:
    put(folder, "secrets/a.txt", text=SECRET)
    await told(folder, roles(go=[READS, "done"]))
    (folder / "secrets/a.txt").unlink()
    found = await told(folder, roles(look=looking(*LOOKS)), "look around")
    assert len(found) == len(LOOKS)
    assert not any("lorem" in each for each in found), found
    model = roles(look=looking(("read_file", LAST)))
    (given,) = await told(folder, model, "look at large_tool_results/r1")
    assert "KRONOS 399 lorem" in given


async def test_a_session_that_goes_on_reads_its_originals_also_after_a_rollback(folder: Path) -> None:
    put(folder, "secrets/a.txt", text=SECRET)
    await told(folder, roles(go=[READS, "done"]))
    session = await only_session(folder)
    model = roles(
        again=looking(("read_file", LAST), ("grep", {"pattern": "KRONOS 399", "path": "/large_tool_results"}))
    )
    assert all("KRONOS 399 lorem" in each for each in await told(folder, model, "again", session))
    async with Agent.from_config(folder / "zeus.yaml", directory=folder, model=script()) as agent:
        await agent.rollback(session, to=1)
    assert all("KRONOS 399 lorem" in each for each in await told(folder, model, "again", session))


def test_a_result_tells_the_files_that_its_tool_saved_and_not_those_in_its_text() -> None:
    kept = SessionFiles()
    saved = "/large_tool_results/mcp_0123456789abcdef.bin"
    others = ("/large_tool_results/mcp_1123456789abcdef.bin", "/attached_files/0123456789abcdef/a.txt")
    text = f"saved as {saved}; see /large_tool_results/call_0 {' '.join(others)}"
    message = tool_message({"id": "a", "name": "server__shot"}, text, files=(saved,))
    kept.note_message(json.dumps(to_payload(message)), is_given=False)
    kept.note_edit("damaged")
    assert kept(saved)
    assert not any(map(kept, (*others, "/large_tool_results/call_0")))
    kept.note_message(json.dumps({"role": "assistant", "content": text}), is_given=False)
    assert not kept("/large_tool_results/call_0")
    kept.note_edit(json.dumps({"handle": "/large_tool_results/call_0", "arguments": {"text": "cut"}}))
    assert kept("/large_tool_results/call_0")
    assert kept("/large_tool_results/call_0.text")


async def test_a_refusal_that_names_anothers_file_does_not_open_it(folder: Path) -> None:
    """The second call opened it: the first one's refusal named it, as a result that a tool saves would."""
    path = keep(b"PIN=4711", "pin.txt", files_of(folder))
    saved = "/large_tool_results/mcp_0123456789abcdef.txt"
    files_of(folder).runtime.write(saved, b"PIN=4711")
    put(folder, "notes.md", text=f"see {path} and {saved}")
    looks = [("read_file", {"path": each}) for each in (path, saved, "/notes.md", path, saved)]
    looks += [
        ("grep", {"pattern": "PIN", "path": "/attached_files"}),
        ("glob", {"pattern": "/attached_files/**"}),
    ]
    found = await told(folder, roles(go=looking(*looks)))
    assert "PIN=" not in "".join(found)
    assert sum("kept no such file" in each for each in found[:5]) == 4


SAVES = """
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import ToolResult, ToolRun, tool

PATH = "/large_tool_results/shot_0123.txt"

def create(options, context):
    @tool(category="web", access="read")
    async def shoot(run: ToolRun) -> ToolResult:
        "Takes a shot."
        context.workspace.runtime.write(PATH, b"a shot")
        return ToolResult("saved", files=(PATH,))
    return [shoot]

@hookimpl
def register_tools():
    return [Component("shots", create=create)]
"""


async def test_a_session_reads_what_its_tools_saved_and_it_is_deleted_with_the_last_session(
    folder: Path,
) -> None:
    put(folder, "shots.py", text=SAVES)
    config = write_agent(folder, "", tools="[shots, filesystem]")
    config.write_text(config.read_text().replace("[probe.py]", "[probe.py, shots.py]"))
    look = ("read_file", {"path": "/large_tool_results/shot_0123.txt"})
    model = roles(
        go=looking(("shoot", {}), look), again=looking(look), other=looking(look, ("shoot", {}), look)
    )
    async with Agent.from_config(config, directory=folder, model=model) as agent:
        events = [await events_of(agent.stream(prompt)) for prompt in ("go", "other")]
        first, second = (str(each[-1].session) for each in events)  # type: ignore[union-attr]
        assert ["a shot" in each for each in results(events[0])] == [False, True]
        assert ["a shot" in each for each in results(events[1])] == [False, False, True]
        again = await events_of(agent.stream("again", session=first))
        assert "a shot" in results(again)[0]
        await agent.delete_session(first)
        assert (folder / ".zeus/large_tool_results/shot_0123.txt").exists()
        await agent.delete_session(second)
    assert not (folder / ".zeus/large_tool_results/shot_0123.txt").exists()


@pytest.mark.parametrize("name", ["zeus.db", "zeus.db-wal", "other.db", "mcp/server.log", "accounts/x"])
def test_what_zeus_stores_beside_the_archive_is_read_by_no_tool(folder: Path, name: str) -> None:
    """A sandbox copied the database with the sessions of agents that may read more."""
    put(folder, f".zeus/{name}", ".zeus/prompts/SOUL.md", f"sub/.ZEUS/{name}")
    files = files_of(folder)
    for path in (f"/.zeus/{name}", f"/.ZEUS/{name}", f"/sub/.ZEUS/{name}"):
        with pytest.raises(WorkspaceError, match="no tool may read"):
            files.read(path, max_bytes=10)
    assert files.read("/.zeus/prompts/SOUL.md", max_bytes=10)
    opened = files_of(folder, f"workspace: {{access: {{.zeus/{name}: read}}}}")
    assert opened.read(f"/.zeus/{name}", max_bytes=10)


def test_a_database_elsewhere_is_read_by_no_tool(folder: Path) -> None:
    put(folder, "data/all.db", "data/all.db-wal", "check/points.db-wal")
    files = files_of(
        folder,
        "storage: {url: 'sqlite:///data/all.db'}\ncheckpointer: {sqlite: {path: check/points.db}}\n",
    )
    for path in ("/data/all.db", "/data/all.db-wal", "/check/points.db-wal"):
        with pytest.raises(WorkspaceError, match="no tool may read"):
            files.read(path, max_bytes=10)


def test_what_is_behind_a_link_into_a_denied_folder_cannot_be_guessed(folder: Path) -> None:
    put(folder, "secrets/key.txt")
    (folder / "link").symlink_to("secrets")
    files = files_of(folder, 'workspace: {access: {"secrets/**": deny}}')
    told = []
    for path in ("/link/key.txt", "/link/none.txt", "/link/key.txt/x", "/link/none/x"):
        with pytest.raises(Exception) as raised:  # noqa: PT011 - the words are compared
            files.read(path, max_bytes=10)
        told.append(str(raised.value).partition(": ")[2])
    assert len(set(told)) == 1
    assert "closes it" in told[0]


async def test_the_files_of_a_skill_are_judged_too(folder: Path) -> None:
    put(folder, ".claude/skills/pdf/SKILL.md", text="---\nname: pdf\ndescription: Makes PDFs.\n---\nDo it.\n")
    put(folder, ".claude/skills/pdf/open.txt", ".claude/skills/pdf/secret.txt")
    found = results(
        await played(
            folder,
            "middlewares: [{skills: {trust_project: true}}]\n"
            "workspace: {access: {'.claude/skills/pdf/secret.txt': deny}}\n",
            ("load_skill", {"name": "pdf"}),
            ("read_skill_resource", {"name": "pdf", "path": "secret.txt"}),
            ("read_skill_resource", {"name": "pdf", "path": "open.txt"}),
        )
    )
    assert "open.txt" in found[0]
    assert "secret.txt" not in found[0]
    assert "closes it" in found[1]
    assert "needle" in found[2]


async def test_a_skill_tells_nothing_of_its_denied_files(folder: Path) -> None:
    """An error listed them, suggested them, and differed where one was there."""
    put(folder, ".claude/skills/pdf/SKILL.md", text="---\nname: pdf\ndescription: Makes PDFs.\n---\nDo it.\n")
    put(folder, ".claude/skills/pdf/open.txt", ".claude/skills/pdf/private/merger.txt")
    asked = ("zzz", "private/merge.txt", "private/merger.txt", "opem.txt")
    found = results(
        await played(
            folder,
            "middlewares: [{skills: {trust_project: true}}]\nworkspace: {access: {'**/private/**': deny}}\n",
            *(("read_skill_resource", {"name": "pdf", "path": path}) for path in asked),
        )
    )
    assert "merger" not in "".join(
        each.replace("private/merger.txt", "", i == 2) for i, each in enumerate(found)
    )
    assert "Its files: open.txt." in found[0]
    assert found[1].replace("merge.txt", "merger.txt") == found[2]
    assert "Did you mean 'open.txt'?" in found[3]


def skill(folder: Path, name: str) -> None:
    put(
        folder, f".claude/skills/{name}/SKILL.md", text=f"---\nname: {name}\ndescription: told\n---\nneedle\n"
    )
    put(folder, f".claude/skills/{name}/more.txt")


async def test_a_denied_skill_is_neither_listed_nor_loaded(folder: Path) -> None:
    skill(folder, "private")
    skill(folder, "public")
    load, find = ("load_skill", {"name": "private"}), ("load_skill", {})
    yaml = "middlewares: [{skills: {trust_project: true}}]\nworkspace: {access: {'.claude/skills/private': deny}}\n"
    loaded, found = results(await played(folder, yaml, load, find))
    assert "There is no skill 'private'" in loaded
    assert "public" in found
    assert "private" not in found


@pytest.mark.parametrize("rule", [".claude/skills/tidy", ".claude/skills/tidy/SKILL.md", ".claude/**"])
async def test_a_denied_skill_behind_a_link_is_neither_listed_nor_loaded(folder: Path, rule: str) -> None:
    skill(folder.parent, "tidy")
    (folder / ".claude/skills").mkdir(parents=True)
    (folder / ".claude/skills/tidy").symlink_to(folder.parent / ".claude/skills/tidy")
    skills = "middlewares: [{skills: {trust_project: true}}]\n"
    given = ("load_skill", {"name": "tidy"}), ("read_skill_resource", {"name": "tidy", "path": "more.txt"})
    found = results(await played(folder, f"{skills}workspace: {{access: {{'{rule}': deny}}}}\n", *given))
    assert not any("needle" in each for each in found)
    resource = f"{skills}workspace: {{access: {{'.claude/skills/tidy/more.txt': deny}}}}\n"
    loaded, more = results(await played(folder, resource, *given))
    assert "needle" in loaded
    assert "more.txt" not in loaded
    assert "closes it" in more


async def test_a_skill_file_with_a_second_name_is_not_there(folder: Path) -> None:
    skill(folder, "one")
    skill(folder, "two")
    os.link(folder / ".claude/skills/one/SKILL.md", folder / "second.md")
    (found,) = results(
        await played(folder, "middlewares: [{skills: {trust_project: true}}]\n", ("load_skill", {}))
    )
    assert "two" in found
    assert "one" not in found


async def test_a_skill_whose_files_ask_is_read_after_an_approval(folder: Path) -> None:
    """Skills passed by the rules that ask."""
    skill(folder, "hr")
    yaml = (
        "middlewares: [{skills: {trust_project: true}}, "
        '{approve: {mode: run_everything, ask: [{"*": {path: ".claude/skills/hr/**"}}]}}]\n'
    )
    given = ("load_skill", {"name": "hr"}), ("read_skill_resource", {"name": "hr", "path": "more.txt"})
    for call_made in given:
        person = Answering()
        (told,) = results(await played(folder, yaml, call_made, channel=person))
        assert "needle" in told
        assert [each.tool for each in person.asked] == [call_made[0]]
        (refused,) = results(await played(folder, yaml, call_made, channel=Rejecting()))
        assert "needle" not in refused


async def test_the_name_of_a_skill_file_elsewhere_is_judged_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder.parent / "conf"))
    home = folder.parent / "conf/zeus/skills/own"
    put(home, "SKILL.md", text="---\nname: own\ndescription: told\n---\nneedle\n")
    put(home, "a.pem", "b.txt")
    os.link(home / "b.txt", home / "c.txt")
    yaml = "middlewares: [skills]\nworkspace: {access: {'*.pem': deny}}\n"
    names = ("SKILL.md", "a.pem", "b.txt", "c.txt")
    given = [("read_skill_resource", {"name": "own", "path": name}) for name in names]
    found = results(await played(folder, yaml, *given))
    assert ["needle" in each for each in found] == [True, False, True, True]


def test_a_name_is_protected_in_every_spelling(folder: Path) -> None:
    """The folding of some letters decomposes; that of a pattern and that of a name must end alike."""
    name = "Μαΐου"
    assert unicodedata.is_normalized("NFC", name)
    plain = write_agent(folder, f"storage: {{url: 'sqlite:///{name}.db'}}\n", tools=TOOLS)
    config = plain.rename(folder / f"{name}.yaml")
    files = make_plan(check(config, directory=folder, environ={})).context.workspace
    for file in (f"{name}.db", f"{name}.db-wal", f"{name}.prod.yaml", f"{name}.yaml"):
        for spelled in (file, unicodedata.normalize("NFD", file), file.upper(), f"{file}."):
            assert re.search("no tool may (read or )?change it", str(files.write_refusal(spelled))), spelled
    assert files.write_refusal(f"{name}.txt") is None


@pytest.mark.parametrize("name", ["Μαΐου", "ACME Inc.", "👨\u200d👩", "ǰ"])
@pytest.mark.parametrize(
    "rules",
    [
        'workspace: {access: {"NAME/**": deny}}',
        'middlewares: [{approve: {mode: run_everything, deny: [{"*": {path: "NAME/**"}}]}}]',
    ],
)
async def test_a_rule_holds_for_every_spelling_of_its_folder(name: str, rules: str, folder: Path) -> None:
    names = {name, unicodedata.normalize("NFD", name), name.upper(), name.lower(), name.replace("\u200d", "")}
    put(folder, *(f"{each}/s.txt" for each in names), text="hidden words\n")
    given = [("read_file", {"path": f"/{each}/s.txt"}) for each in sorted(names)]
    told = results(await played(folder, rules.replace("NAME", name), *given, ("grep", {"pattern": "hidden"})))
    assert not any("words" in each for each in told), told


async def test_the_token_of_a_clone_in_the_workspace_is_masked_or_its_file_closed(folder: Path) -> None:
    text = "[remote 'o']\n\turl = https://ann:hunter2hunter@example.com/x.git\n"
    deep = ("a/b/.git/config", "a/b/.git/modules/m/config", "a/b/.GIT/FETCH_HEAD", "a/b/.git/config.worktree")
    put(folder, "shop/.git/config", "shop/.git/modules/m/config", *deep, text=text)
    put(folder, "a/b/.git/HEAD", "a/b/config", "app.log", text="hunter2hunter\n")
    paths = (
        "shop/.git/config",
        "shop/.git/modules/m/config",
        "a/b/.git/HEAD",
        "a/b/config",
        "app.log",
        *deep,
    )
    reads = [("read_file", {"path": each}) for each in paths]
    told = results(await played(folder, "", *reads, ("grep", {"pattern": "url", "path": "/"})))
    assert "hunter2hunter" not in str(told)
    assert ["no tool may read" in each for each in told] == [False] * 5 + [True] * 4 + [False]
    opened = "workspace: {access: {/a/b/.git/config: read}}\n"
    (told,) = results(await played(folder, opened, ("read_file", {"path": "a/b/.git/config"})))
    assert "example.com/x.git" in told


async def test_passwords_of_a_repositorys_remotes_are_masked(folder: Path) -> None:
    put(
        folder,
        "sub/.git/config",
        text='[remote "origin"]\n\turl = https://ann:hunter2hunter@example.com/x.git\n[http]\n'
        "\textraheader = AUTHORIZATION: basic aGVsbG86d29ybGQxMjM=\n",
    )
    yaml = "workspace: {root: sub}\n"
    (told,) = results(await played(folder, yaml, ("read_file", {"path": ".git/config"})))
    assert "https://ann:<secret:.git/config" in told
    assert "hunter2hunter" not in told
    assert "aGVsbG86d29ybGQxMjM=" not in told


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's /proc")
def test_the_memory_of_processes_is_read_by_no_tool(folder: Path) -> None:
    files = files_of(folder, "workspace: {root: /}\n")
    for path in ("/proc/self/maps", "/proc/self/environ", f"/proc/{os.getpid()}/cmdline"):
        with pytest.raises(WorkspaceError, match="memory of processes, so no tool may read or change"):
            files.read(path, max_bytes=100_000)
    assert "proc" not in [Path(each.path).name for each in files.entries("/")]


# Which tool a file is reached for

LOOKING = """
import contextvars
from concurrent.futures import ThreadPoolExecutor

from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.middleware import Middleware, Section
from zeus_runtime.plugin.tool import tool


def create(options, context):
    def one(path):
        try:
            return context.workspace.read(path, max_bytes=100).decode()
        except Exception as error:
            return str(error)

    @tool(access="read")
    def look_here(path: str) -> str:
        \"""Look.\"""
        return one("/secrets/s.txt")

    @tool(access="read")
    def look_in_pool(path: str) -> str:
        \"""Look in a thread.\"""
        with ThreadPoolExecutor() as pool:
            return pool.submit(one, "/secrets/s.txt").result()

    @tool(access="read")
    def look_in_context(path: str) -> str:
        \"""Look in a thread, for this call.\"""
        with ThreadPoolExecutor() as pool:
            return pool.submit(contextvars.copy_context().run, one, "/secrets/s.txt").result()

    return [look_here, look_in_pool, look_in_context]


@hookimpl
def register_tools():
    return [Component("probe", create=create)]


class Reading(Middleware):
    def __init__(self, options, context):
        self.files = context.workspace
        self.seen = []
        self.look("create")

    def look(self, where):
        try:
            self.files.read("/secrets/s.txt", max_bytes=100)
            self.seen.append(where)
        except Exception:
            pass

    @classmethod
    def tools(cls, options, context):
        try:
            context.workspace.read("/secrets/s.txt", max_bytes=100)
        except Exception:
            return ()

        @tool(access="read")
        def seen_in_tools() -> str:
            \"""Is there if a middleware's tools saw the file.\"""
            return ""

        return [seen_in_tools]

    async def sections(self, turn):
        self.look("sections")
        return {Section.SANDBOX: " ".join(["seen in:", *self.seen])}

    async def edits(self, view, budget):
        self.look("edits")
        return ()

    async def wrap_run(self, turn, call_next):
        self.look("wrap_run")
        return await call_next(turn)

    async def wrap_model_call(self, request, call_next):
        self.look("wrap_model_call")
        return await call_next(request)

    async def wrap_tool_call(self, request, call_next):
        self.look("wrap_tool_call")
        return await call_next(request)


@hookimpl
def register_middlewares():
    return [Component("reading", create=Reading)]
"""


async def looked(folder: Path, approve: str, tool: str) -> str:
    put(folder, "secrets/s.txt")
    yaml = f"middlewares: [{{approve: {{mode: run_everything, {approve}}}}}]\n"
    config = write_agent(folder, yaml, plugin=LOOKING, tools=TOOLS)
    (told,) = results(await played(folder, "", (tool, {"path": "/"}), config=config))
    return told


@pytest.mark.parametrize("tool", ["look_here", "look_in_pool", "look_in_context"])
async def test_the_rules_of_a_tool_hold_in_its_threads(tool: str, folder: Path) -> None:
    assert "closes it" in await looked(folder, 'deny: [{"look_*": {path: "secrets/**"}}]', tool)


@pytest.mark.parametrize("rule", ["deny", "ask"])
async def test_the_rules_of_all_tools_hold_in_a_thread_whose_tool_is_not_known(
    rule: str, folder: Path
) -> None:
    approve = f'{rule}: [{{write_file: {{path: "secrets/**"}}}}]'
    assert "needle" in await looked(folder, approve, "look_here")
    assert "needle" in await looked(folder, approve, "look_in_context")
    told = await looked(folder, approve, "look_in_pool")
    assert f"the rule `{rule}: write_file" in told


async def test_no_rule_for_a_tool_allows_where_the_tool_is_not_known(folder: Path) -> None:
    rules = ", ".join(f'{{{tool}: {{path: "secrets/**"}}}}' for tool in ("look_in_pool", "look_in_context"))
    approve = f'ask: [{{"*": {{path: "secrets/**"}}}}], allow: [{rules}]'
    assert "needle" in await looked(folder, approve, "look_in_context")
    assert "asks for an approval" in await looked(folder, approve, "look_in_pool")


async def test_what_the_user_names_and_a_middleware_reads_is_bound_by_rules_for_all_tools_only(
    folder: Path,
) -> None:
    put(folder, "secrets/s.txt")
    for tool, is_seen in (("write_file", True), ('"*"', False)):
        rules = f'deny: [{{{tool}: {{path: "secrets/**"}}}}]'
        yaml = f"middlewares: [{{approve: {{{rules}}}}}, resources, local_context]\n"
        model = script("done")
        config = write_agent(folder, yaml, plugin=LOOKING, tools=TOOLS)
        async with Agent.from_config(config, directory=folder, model=model) as agent:
            await events_of(agent.stream("look at @secrets/s.txt"))
        (request,) = model.requests
        (brought,) = request.messages[0].additional_kwargs["references"]
        assert ("digest" in brought) is is_seen, brought
        assert ("\n  secrets/" in request.system) is is_seen


async def test_a_file_that_needs_an_approval_is_attached_but_not_opened_for_an_at_sign(folder: Path) -> None:
    put(folder, "secrets/s.txt")
    model = script("done")
    yaml = "middlewares: [{approve: {ask: [{'*': {path: 'secrets/**'}}]}}, resources]\n"
    config = write_agent(folder, yaml, plugin=LOOKING, tools=TOOLS)
    async with Agent.from_config(config, directory=folder, model=model) as agent:
        prompt, file = "look at @secrets/s.txt and @secrets/*.txt", folder / "secrets/s.txt"
        await events_of(agent.stream(prompt, attachments=[file]))
    (request,) = model.requests
    named, matching, attached = request.messages[0].additional_kwargs["references"]
    assert "digest" in attached
    for brought in (named, matching):
        assert "digest" not in brought
        assert "asks for an approval" in brought["problem"]
    assert request.system.count("needle") == 1


@pytest.mark.parametrize(("tool", "is_seen"), [("write_file", True), ('"*"', False)])
async def test_a_middleware_of_a_plugin_reads_as_the_user(tool: str, is_seen: bool, folder: Path) -> None:
    put(folder, "secrets/s.txt")
    rules = f'deny: [{{{tool}: {{path: "secrets/**"}}}}]'
    config = write_agent(
        folder, f"middlewares: [reading, {{approve: {{{rules}}}}}]\n", plugin=LOOKING, tools=TOOLS
    )
    model = calls(("look_here", {"path": "/"}))
    async with Agent.from_config(config, directory=folder, model=model) as agent:
        await events_of(agent.stream("go"))
    seen = set(re.search(r"seen in:(.*)", model.requests[-1].system)[1].split())  # type: ignore[index]
    if "seen_in_tools" in [each.name for each in model.requests[-1].tools]:
        seen.add("tools")
    hooks = {"create", "tools", "sections", "edits", "wrap_run", "wrap_model_call", "wrap_tool_call"}
    assert seen == (hooks if is_seen else set())


@pytest.mark.parametrize(("tool", "is_seen"), [("write_file", True), ('"*"', False)])
async def test_project_files_skills_and_attachments_are_read_as_the_user(
    tool: str, is_seen: bool, folder: Path
) -> None:
    put(folder, "AGENTS.md", text="house rules\n")
    put(folder, ".zeus/skills/own/SKILL.md", text="---\nname: own\ndescription: my craft\n---\nx\n")
    put(folder, "notes.txt")
    closed = '["AGENTS.md", "**/SKILL.md", "notes.txt"]'
    rules = f"deny: [{{{tool}: {{path: {closed}}}}}]"
    yaml = f"middlewares: [{{approve: {{{rules}}}}}, {{skills: {{trust_project: true}}}}, resources]\n"
    config = write_agent(folder, f"{yaml}project_instructions: true\n", tools=TOOLS)
    model = script("done")
    async with Agent.from_config(config, directory=folder, model=model) as agent:
        attachments = ["notes.txt"] if is_seen else []
        await events_of(agent.stream("go", attachments=attachments))
        if not is_seen:
            with pytest.raises(UsageError, match="cannot be attached"):
                await events_of(agent.stream("go", attachments=["notes.txt"]))
    (request,) = model.requests
    assert ("house rules" in request.system) is is_seen
    assert ("my craft" in request.system) is is_seen


# One file by several names


def test_a_rule_holds_by_whatever_route_a_file_is_reached(folder: Path) -> None:
    put(folder, "data/secret/a.txt", "data/b.txt")
    files = files_of(
        folder,
        'workspace: {routes: {/d/: data, /s/: data/secret}, access: {"data/secret/**": deny, "d/b.txt": read}}',
    )
    for path in ("/data/secret/a.txt", "/d/secret/a.txt", "/s/a.txt", "/d/../s/a.txt"):
        with pytest.raises(Exception, match="closes it"):
            files.read(path, max_bytes=100)
    with pytest.raises(Exception, match="lets no tool write it"):
        files.write("/data/b.txt", b"")
    assert "s" not in [each.name for each in files.entries("/")]


def test_a_file_with_a_second_name_is_read_only_where_the_config_allows_it(folder: Path) -> None:
    put(folder.parent, "outside.txt")
    put(folder, "src/own.txt", "node_modules/x/readme.txt")
    os.link(folder.parent / "outside.txt", folder / "src/linked.txt")
    os.link(folder.parent / "outside.txt", folder / "node_modules/x/linked.txt")
    os.link(folder.parent / "outside.txt", folder / "src/node_modules")
    files = files_of(folder)
    for path in ("/src/linked.txt", "/src/node_modules"):
        with pytest.raises(Exception, match=r"has 4 names \(hard links\)"):
            files.read(path, max_bytes=100)
    with pytest.raises(Exception, match="hard links"):
        files.edit("/src/linked.txt", lambda data: data, max_bytes=100)
    with pytest.raises(Exception, match="hard links"):
        files.append("/src/linked.txt", b"more")
    assert files.read("/node_modules/x/linked.txt", max_bytes=100) == b"needle\n"
    # A write gives the name a new file: what else has the old one keeps it.
    files.write("/src/linked.txt", b"new")
    assert (folder.parent / "outside.txt").read_text() == "needle\n"
    closed = files_of(folder, "workspace: {hard_links: []}")
    with pytest.raises(Exception, match="hard links"):
        closed.read("/node_modules/x/linked.txt", max_bytes=100)


@pytest.mark.parametrize(
    ("above", "below", "root", "path", "is_open"),
    [
        ("[]", "[drop]", ".", "/drop/hard.txt", False),
        ("[other]", "[drop]", ".", "/drop/hard.txt", False),
        ("[drop]", "[drop]", ".", "/drop/hard.txt", True),
        ("[drop]", "[]", ".", "/drop/hard.txt", False),
        ("[drop]", "[lib]", "drop", "/lib/hard.txt", True),
        ("[other]", "[lib]", "drop", "/lib/hard.txt", False),
    ],
)
def test_a_sub_agent_reads_no_second_name_that_its_parent_may_not(
    folder: Path, above: str, below: str, root: str, path: str, is_open: bool
) -> None:
    put(folder, "secrets/key.txt", "drop/lib/x.txt")
    os.link(folder / "secrets/key.txt", folder / "drop/hard.txt")
    os.link(folder / "secrets/key.txt", folder / "drop/lib/hard.txt")
    config = write_agent(
        folder,
        f"workspace: {{hard_links: {above}}}\n"
        f"agents: {{h: {{description: H., overrides: {{workspace: {{root: {root}, hard_links: {below}}}}}}}}}\n",
        tools="[filesystem, subagents]",
    )
    plan = make_plan(check(config, directory=folder, environ={"HOME": str(folder.parent / "home")}))
    files = plan.agents["h"].plan.context.workspace
    if is_open:
        assert files.read(path, max_bytes=100) == b"needle\n"
    else:
        with pytest.raises(Exception, match="hard links"):
            files.read(path, max_bytes=100)


def test_a_file_that_is_called_like_a_folder_of_packages_is_none(folder: Path) -> None:
    put(folder, "a.txt")
    (folder / "venv").hardlink_to(folder / "a.txt")
    with pytest.raises(Exception, match="has 2 names"):
        files_of(folder).read("venv", max_bytes=100)


def test_a_key_is_not_read_by_another_name_even_among_packages(folder: Path) -> None:
    put(folder, ".env", text="A_TOKEN=needle-needle\n")
    (folder / "node_modules").mkdir()
    os.link(folder / ".env", folder / "node_modules/x.js")
    with pytest.raises(Exception, match="another name of a file that holds keys"):
        files_of(folder).read("/node_modules/x.js", max_bytes=100)


@pytest.mark.parametrize("key", [".env.production", "sub/.env", "sub/.mcp.json", "sub/.env.d/a.txt"])
def test_whatever_key_file_has_a_second_name_among_packages_is_not_read_by_it(folder: Path, key: str) -> None:
    """Only files that the config names were known: the other keys were read."""
    put(folder, "other.txt")
    put(folder, key, text="hunter2\n")
    (folder / "node_modules").mkdir()
    os.link(folder / key, folder / "node_modules/x.js")
    os.link(folder / "other.txt", folder / "node_modules/y.js")
    files = files_of(folder)
    assert files.read("/node_modules/y.js", max_bytes=100)
    with pytest.raises(WorkspaceError, match="another name of a file that holds keys"):
        files.read("/node_modules/x.js", max_bytes=100)


def test_a_file_that_names_servers_is_read_by_no_tool(folder: Path) -> None:
    put(folder, ".mcp.json", "sub/.mcp.json", text='{"env": {"PGPASS": "hunter2"}}')
    files = files_of(folder)
    for path in (".mcp.json", "sub/.mcp.json"):
        with pytest.raises(WorkspaceError, match="no tool may read or change"):
            files.read(path, max_bytes=100)
    assert files_of(folder, "workspace: {access: {.mcp.json: read}}").read(".mcp.json", max_bytes=100)


@pytest.mark.parametrize(
    ("rule", "lifts", "writable"),
    [
        ("config: write", False, []),
        ("hooks: write", False, []),
        ("configs: write", True, ["home/configs/x.yaml"]),
        ("skills: write", True, ["home/skills/x/SKILL.md"]),
        (".git/config: write", True, [".git/config"]),
        ("/.git/hooks: write", True, [".git/hooks/pre-commit"]),
        (".git: write", True, [".git/config", ".git/hooks/pre-commit"]),
        ("zeus.prod.yaml: write", True, ["zeus.prod.yaml"]),
        ("notes: write", False, []),
    ],
)
def test_a_rule_lifts_what_it_names_and_plan_says_so(
    folder: Path, rule: str, lifts: bool, writable: list[str]
) -> None:
    """`config: write` opened `.git/config`, and `zeus plan` was silent about it."""
    put(folder, "home/configs/a.yaml")
    files = files_of(folder, f"homes: [home]\nworkspace: {{access: {{{rule}}}}}\n")
    assert files.gate is not None
    assert [bool(files.gate.lifts())] == [lifts]
    protected = [
        ".git/config",
        ".git/hooks/pre-commit",
        "home/configs/x.yaml",
        "home/skills/x/SKILL.md",
        "zeus.prod.yaml",
        ".zeus/config",
    ]
    assert [path for path in protected if files.write_refusal(path) is None] == writable


# Rules that ask


ASK = 'workspace: {access: {"infra/**": ask}}\n'


class Adding:
    async def ask(self, pending: PendingApproval) -> Decision:
        return Decision("approve", instruction="mind the gap")


class Rejecting:
    async def ask(self, pending: PendingApproval) -> Decision:
        return Decision("reject", reason="not now")


async def test_a_change_that_asks_waits_for_a_decision_though_no_middleware_asks(folder: Path) -> None:
    put(folder, "infra/a.txt")
    change = ("edit_file", {"path": "infra/a.txt", "old": "needle", "new": "pin"})
    events = await played(folder, ASK, change, ("read_file", {"path": "infra/a.txt"}))
    ending = events[-1]
    assert isinstance(ending, RunFailed)
    assert (ending.code, ending.exit_code) == ("approval_needed", 7)
    assert results(events) == ["1\tneedle"]
    assert (folder / "infra/a.txt").read_text() == "needle\n"


@pytest.mark.parametrize("path", ["infra/a.txt", "link/a.txt", "INFRA/A.txt", "new/../infra/deep/new.txt"])
async def test_a_change_that_asks_is_made_when_it_is_approved_and_not_when_rejected(
    folder: Path, path: str
) -> None:
    put(folder, "infra/a.txt")
    (folder / "link").symlink_to("infra")
    change = ("write_file", {"path": path, "content": "pin"})
    (rejected,) = results(await played(folder, ASK, change, channel=Rejecting()))
    assert "not now" in rejected
    assert [each.name for each in (folder / "infra").rglob("*")] == ["a.txt"]
    assert (folder / "infra/a.txt").read_text() == "needle\n"
    person = Answering()
    (approved,) = results(await played(folder, ASK, change, channel=person))
    assert approved.startswith(("Replaced", "Created"))
    assert [each.tool for each in person.asked] == ["write_file"]
    assert "`infra/**: ask`" in person.asked[0].reason


class Changing:
    async def ask(self, pending: PendingApproval) -> Decision:
        return Decision("approve", arguments={"path": "infra/a.txt", "content": "other"})


async def test_the_arguments_are_not_changed_at_the_question_of_a_file_and_the_call_stays_open(
    folder: Path,
) -> None:
    put(folder, "infra/a.txt")
    events = await played(
        folder, ASK, ("write_file", {"path": "infra/a.txt", "content": "pin"}), channel=Changing()
    )
    assert isinstance(events[-1], RunFailed)
    assert (events[-1].code, events[-1].exit_code) == ("approval_needed", 7)
    assert "arguments_fixed" in [each.code for each in events if isinstance(each, Notice)]
    assert (folder / "infra/a.txt").read_text() == "needle\n"


async def test_the_text_of_an_approval_is_told_to_the_model(folder: Path) -> None:
    put(folder, "infra/a.txt")
    change = ("write_file", {"path": "infra/a.txt", "content": "pin"})
    (result,) = results(await played(folder, ASK, change, channel=Adding()))
    assert result.endswith("\n\nThe user adds: mind the gap")


TIDY = """
from zeus_runtime.plugin import Component, dataclass, hookimpl
from zeus_runtime.plugin.tool import tool

@dataclass(frozen=True)
class Options: pass

def create(options, context):
    @tool(category="filesystem", access="write")
    def tidy(names: list[str], also: list[str]) -> str:
        "Tidy."
        for name in (*names, "infra/a.txt", "link/b.txt", "AGENTS.md"):
            context.workspace.write(name, b"pin")
        return "tidied"
    return [tidy]

@hookimpl
def register_tools():
    return [Component("tidy", create=create, options=Options, summary="Tidies.")]
"""
TIDIED = ["infra/a.txt", "infra/b.txt", "AGENTS.md"]


def tidying(folder: Path, yaml: str = "") -> Path:
    put(folder, *TIDIED)
    (folder / "link").symlink_to("infra")
    rules = 'workspace: {access: {"infra/**": ask, AGENTS.md: ask}}\n'
    return write_agent(folder, rules + yaml, plugin=TIDY, tools="[tidy]")


class Choosing(Answering):
    """Approves the files of ``given`` and leaves the question about another file open."""

    def __init__(self, *given: str) -> None:
        super().__init__()
        self.given = given

    async def ask(self, pending: PendingApproval) -> Decision | None:  # type: ignore[override]
        self.asked.append(pending)
        return Decision("approve") if pending.reason.startswith(self.given) else None


def reasons(asked: Sequence[PendingApproval]) -> list[str]:
    return [each.reason.partition(":")[0] for each in asked]


@pytest.mark.parametrize("mode", ["", "middlewares: [{approve: {mode: run_everything}}]\n"])
@pytest.mark.parametrize(
    ("also", "asked"),
    [
        ([], ["/infra/a.txt", "/infra/b.txt", "/AGENTS.md"]),
        (["infra", "/"], ["/infra/a.txt", "/infra/b.txt", "/AGENTS.md"]),
        (["./AGENTS.md", "infra/b.txt"], ["/infra/a.txt"]),
        # Who sees a link does not see the file to which it leads.
        (["./AGENTS.md", "link/b.txt"], ["/infra/a.txt", "/infra/b.txt"]),
    ],
)
async def test_an_approval_covers_the_files_that_its_question_names(
    folder: Path, mode: str, also: list[str], asked: list[str]
) -> None:
    person = Answering()
    made = ("tidy", {"names": [], "also": also})
    found = results(await played(folder, "", made, channel=person, config=tidying(folder, mode)))
    assert found == ["tidied"]
    assert reasons(person.asked) == asked
    assert {(folder / each).read_text() for each in TIDIED} == {"pin"}


async def test_an_approval_of_a_call_covers_the_files_that_the_call_names(folder: Path) -> None:
    person = Answering()
    config = tidying(folder, "middlewares: [{approve: {mode: ask}}]\n")
    made = ("tidy", {"names": ["AGENTS.md"], "also": ["INFRA/A.txt"]})
    assert results(await played(folder, "", made, channel=person, config=config)) == ["tidied"]
    assert len(person.asked) == 2
    assert reasons(person.asked)[1] == "/infra/b.txt"


@pytest.mark.parametrize(("search", "finds"), [({}, False), ({"path": "infra/a.txt"}, True)])
async def test_an_approval_of_a_search_covers_the_file_of_its_path_and_not_of_its_pattern(
    folder: Path, search: dict[str, str], finds: bool
) -> None:
    put(folder, "infra/a.txt", text="see infra/a.txt\n")
    rules = """middlewares: [{approve: {mode: ask, read_tools: ask, ask: [{"*": {path: "infra/**"}}]}}]\n"""
    made = ("grep", {"pattern": "infra/a.txt", **search})
    person = Answering()
    (found,) = results(await played(folder, rules, made, channel=person))
    assert ("see infra" in found) == finds
    assert len(person.asked) == 1


@pytest.mark.parametrize("mode", ["run_everything", "ask"])
async def test_a_file_behind_a_cut_is_asked_about(folder: Path, mode: str) -> None:
    person = Answering()
    config = tidying(folder, f"middlewares: [{{approve: {{mode: {mode}}}}}]\n")
    made = ("tidy", {"names": [], "also": ["x" * MOST_CHARACTERS, "infra/b.txt", "AGENTS.md"]})
    assert results(await played(folder, "", made, channel=person, config=config)) == ["tidied"]
    files = [each for each in reasons(person.asked) if each.startswith("/")]
    assert files == ["/infra/a.txt", "/infra/b.txt", "/AGENTS.md"]


@pytest.mark.parametrize("mode", ["", "middlewares: [{approve: {mode: run_everything}}]\n"])
async def test_each_file_that_asks_is_asked_about_in_a_resumed_run_too(folder: Path, mode: str) -> None:
    config = tidying(folder, mode)
    model = calls(("tidy", {"names": [], "also": []}))
    async with Agent.from_config(config, directory=folder, model=model) as agent:
        first = await events_of(agent.stream("go", approvals=Choosing()))
        ending = first[-1]
        assert isinstance(ending, RunFailed)
        assert ending.code == "approval_needed"
        session = ending.session
        for given, waits in (
            ((), "/infra/a.txt"),
            (("/infra/a.txt",), "/infra/b.txt"),
            (("/infra/b.txt",), "/AGENTS.md"),
            ((), "/AGENTS.md"),
        ):
            person = Choosing(*given)
            ending = (await events_of(agent.resume(session, approvals=person)))[-1]
            assert isinstance(ending, RunFailed)
            assert reasons(person.asked)[-1] == waits
            assert (folder / "AGENTS.md").read_text() == "needle\n"
        person = Choosing("/AGENTS.md")
        events = await events_of(agent.resume(session, approvals=person))
        assert results(events) == ["tidied"]
        assert reasons(person.asked) == ["/AGENTS.md"]


async def test_a_file_that_is_rejected_after_another_was_approved_is_not_changed(folder: Path) -> None:
    class Picky(Answering):
        async def ask(self, pending: PendingApproval) -> Decision:
            self.asked.append(pending)
            return Decision("reject" if pending.reason.startswith("/AGENTS.md") else "approve", reason="no")

    person = Picky()
    made = ("tidy", {"names": [], "also": []})
    (told,) = results(await played(folder, "", made, channel=person, config=tidying(folder)))
    assert "rejected this call of tidy: no" in told
    assert (folder / "AGENTS.md").read_text() == "needle\n"


async def test_a_rule_that_asks_shows_the_change_and_a_file_that_changed_meanwhile_stays(
    folder: Path,
) -> None:
    put(folder, "infra/a.txt")
    change = ("edit_file", {"path": "infra/a.txt", "old": "needle", "new": "pin"})

    class Late(Answering):
        async def ask(self, pending: PendingApproval) -> Decision:
            assert pending.preview is not None
            (shown,) = pending.preview.changes
            assert (shown.path, shown.before, shown.after) == ("/infra/a.txt", "needle\n", "pin\n")
            put(folder, "infra/a.txt", text="one needle\n")
            return await super().ask(pending)

    (refused,) = results(await played(folder, ASK, change, channel=Late()))
    assert "the file changed after the user saw" in refused
    assert (folder / "infra/a.txt").read_text() == "one needle\n"


async def test_a_call_that_was_approved_is_not_asked_a_second_time_for_its_files(folder: Path) -> None:
    put(folder, "infra/a.txt")
    person = Answering()
    yaml = f"{ASK}middlewares: [{{approve: {{mode: ask}}}}]\n"
    change = ("write_file", {"path": "infra/a.txt", "content": "pin"})
    assert "Replaced" in results(await played(folder, yaml, change, channel=person))[0]
    assert len(person.asked) == 1


@pytest.mark.parametrize(
    ("made", "written", "asked"),
    [
        ("open.txt", "link/a.txt", ["/infra/a.txt"]),
        ("open.txt", "infra/a.txt", []),
        # The diff of the question named the file.
        ("link/a.txt", "link/a.txt", []),
    ],
)
async def test_a_person_who_changes_a_path_is_asked_about_a_file_that_no_question_named(
    folder: Path, made: str, written: str, asked: list[str]
) -> None:
    put(folder, "infra/a.txt", "open.txt")
    (folder / "link").symlink_to("infra")
    changed = Decision("approve", arguments={"path": written, "content": "mine\n"})
    seen: list[PendingApproval] = []

    class Changing:
        async def ask(self, pending: PendingApproval) -> Decision:
            seen.append(pending)
            return Decision("approve") if pending.is_about_file else changed

    yaml = f"{ASK}middlewares: [{{approve: {{mode: ask}}}}]\n"
    change = ("write_file", {"path": made, "content": "pin"})
    assert "Replaced" in results(await played(folder, yaml, change, channel=Changing()))[0]
    assert reasons(seen[1:]) == asked
    assert all(each.preview is not None and each.preview.changes for each in seen)
    assert (folder / "infra/a.txt").read_text() == "mine\n"


async def test_a_waiting_change_is_made_when_the_run_is_taken_up_with_its_approval(folder: Path) -> None:
    put(folder, "infra/a.txt")
    config = write_agent(folder, ASK, tools=TOOLS)
    model = calls(("write_file", {"path": "infra/a.txt", "content": "pin"}))
    async with Agent.from_config(config, directory=folder, model=model) as agent:
        ending = (await play(agent, "go"))[-1]
        assert isinstance(ending, RunFailed)
        (session,) = await agent.sessions()
        person = Answering()
        resumed = await events_of(agent.stream(None, session=session.session, approvals=person))
        assert "Replaced" in results(resumed)[0]
        assert len(person.asked) == 1


async def test_searches_pass_over_what_asks_before_it_is_read_and_say_so(folder: Path) -> None:
    put(folder, "private/a.txt", "open.txt")
    yaml = 'middlewares: [{approve: {mode: run_everything, ask: [{"*": {path: "private/**"}}]}}]'
    person = Answering()
    found = results(
        await played(
            folder,
            yaml,
            ("grep", {"pattern": "needle"}),
            ("glob", {"pattern": "**/*.txt"}),
            channel=person,
        )
    )
    assert found[0].startswith("/open.txt\n1:needle\n[1 file not searched: reading needs an approval")
    assert found[1] == "/open.txt\n/private/a.txt"
    assert person.asked == []


# Changed arguments


@pytest.mark.parametrize(
    "rules",
    [
        'middlewares: [{approve: {mode: ask, deny: [{"*": {path: "secrets/**"}}]}}]',
        'middlewares: [{approve: {mode: ask, deny: [{write_file: {path: "secrets/**", content: "*"}}]}}]',
        'middlewares: [{approve: {mode: ask}}]\nworkspace: {access: {"secrets/**": deny}}',
    ],
)
async def test_a_person_may_narrow_a_call_and_not_widen_what_the_config_denies(
    folder: Path, rules: str
) -> None:
    put(folder, "secrets/a.txt")
    change = ("write_file", {"path": "notes.txt", "content": "x"})
    wide = Answering(path="secrets/evil", content="x")
    (refused,) = results(await played(folder, rules, change, channel=wide))
    assert not (folder / "secrets/evil").exists()
    assert "The user changed the arguments" in refused
    assert "deny" in refused
    (narrowed,) = results(
        await played(folder, rules, change, channel=Answering(path="other.txt", content="x"))
    )
    assert "Created /other.txt" in narrowed


async def test_a_waiting_call_is_not_approved_with_arguments_that_the_config_denies(folder: Path) -> None:
    config = write_agent(
        folder, 'middlewares: [{approve: {mode: ask, deny: [{"*": {path: "secrets/**"}}]}}]', tools=TOOLS
    )
    change = ("write_file", {"path": "notes.txt", "content": "x"})
    wide = Decision("approve", arguments={"path": "secrets/evil", "content": "x"})
    async with Agent.from_config(config, directory=folder, model=calls(change)) as agent:
        ending = (await events_of(agent.stream("go")))[-1]
        assert isinstance(ending, RunFailed)
        (waiting,) = await agent.pending_approvals()
        with pytest.raises(UsageError, match="cannot be approved: the config refuses it now"):
            await agent.decide(ending.session, {waiting.id: wide})


# Sub-agents


def test_a_sub_agent_reaches_no_more_than_the_agent_it_works_for(folder: Path) -> None:
    put(folder, "data/secret.txt", "data/infra/a.txt", "data/open.txt")
    child = {
        "version": 1,
        "name": "child",
        "model": "gpt-4o",
        "tools": ["filesystem"],
        "workspace": {"root": "data", "access": {"secret.txt": "write", "**": "write"}},
    }
    (folder / "child.yaml").write_text(json.dumps(child))
    config = write_agent(
        folder,
        'workspace: {access: {"data/secret.txt": deny, "data/infra/**": read}}\n'
        "agents: {child: {description: Works., config: child.yaml},"
        " own: {description: Works., overrides: {workspace: {access: {'data/secret.txt': write}}}}}\n",
        tools="[filesystem, subagents]",
    )
    plan = make_plan(check(config, directory=folder, environ={}))
    files = plan.agents["child"].plan.context.workspace
    assert [each.name for each in files.entries("/")] == ["infra", "open.txt"]
    with pytest.raises(Exception, match="closes it"):
        files.read("/secret.txt", max_bytes=100)
    with pytest.raises(Exception, match="lets no tool write it"):
        files.write("/infra/a.txt", b"")
    assert files.write("/open.txt", b"") is False
    with pytest.raises(Exception, match="closes it"):
        plan.agents["own"].plan.context.workspace.read("/data/secret.txt", max_bytes=100)
    for each in (plan.context.workspace, plan.agents["own"].plan.context.workspace):
        with pytest.raises(Exception, match="no tool may change it"):
            each.write("/child.yaml", b"")


def test_a_sub_agent_elsewhere_is_held_by_the_rules_about_names_above_it(folder: Path) -> None:
    """Its own root lies outside of the workspace above, whose paths mean nothing there."""
    put(folder.parent, "elsewhere/a.pem", "elsewhere/private/x.txt", "elsewhere/out/x.txt", "elsewhere/x.txt")
    child = {
        "version": 1,
        "name": "child",
        "model": "gpt-4o",
        "tools": ["filesystem"],
        "workspace": {"root": "../elsewhere", "access": {"**": "write"}},
    }
    (folder / "child.yaml").write_text(json.dumps(child))
    config = write_agent(
        folder,
        "workspace: {access: {'*.pem': deny, private: deny, '**': read, 'out/**': write, '/x.txt': deny}}\n"
        "agents: {child: {description: Works., config: child.yaml}}\n",
        tools="[filesystem, subagents]",
    )
    plan = make_plan(check(config, directory=folder, environ={}))
    files = plan.agents["child"].plan.context.workspace
    assert [each.name for each in files.entries("/")] == ["out", "x.txt"]
    for path in ("a.pem", "private/x.txt"):
        with pytest.raises(Exception, match="closes it"):
            files.read(path, max_bytes=100)
    for path in ("out/x.txt", "new.txt"):
        with pytest.raises(Exception, match="lets no tool write it"):
            files.write(path, b"")
    assert files.read("x.txt", max_bytes=100)


# What cannot be used is told


@pytest.mark.parametrize(
    ("workspace", "place", "message"),
    [
        ("{routes: {/memory/: 's3://bucket/x'}}", "6:32", "which is not a folder of this machine"),
        ("{routes: {/memory/: 'postgres://h/db'}}", "6:32", "which is not a folder of this machine"),
        ("{routes: {/memory: probe.py}}", "6:31", "which is not a folder"),
        ("{access: {'a/../b': deny}}", "6:22", "has a `..`"),
        ("{access: {'': deny}}", "6:22", "names nothing"),
        ("{access: {'./': deny}}", "6:22", "names nothing"),
        ("{access: {'a\\b': deny}}", "6:22", "has a backslash"),
        ("{access: {'[[:upper:]]*': deny}}", "6:22", "has the class `[:upper:]`"),
        ("{access: {'${VAULT}/**': deny}}", "6:22", "variables are replaced in values only"),
        ("{access: {'!a/**': deny}}", "6:22", "begins with `!`, which excludes nothing"),
        ("{access: {' /a/**': deny}}", "6:22", "begins with a blank"),
        ("{access: {'/a/ b': deny}}", "6:22", "begins with a blank"),
        ("{access: {'{a, b}/**': deny}}", "6:22", "begins with a blank"),
        ("{access: {'a/{b, c}': deny}}", "6:22", "begins with a blank"),
        ("{access: {'*.{pem, key}': deny}}", "6:22", "has a blank after a comma"),
        ("{access: {'a/**, b/**': deny}}", "6:22", "has a blank after a comma"),
        ("{access: {'out/': write}}", "6:22", "write /out/ for the folder at the top"),
        ("{access: {'secrets/': deny}}", "6:22", "or secrets for each of this name"),
        ("{access: {'{out,made}//': ask}}", "6:22", "has a / at its end alone"),
        ("{access: {'**/': read}}", "6:22", "has a / at its end alone"),
        ("{access: {'{secrets/,private/}': deny}}", "6:22", "write /secrets/ for the folder at the top"),
        ("{access: {'{*.pem,private/}': deny}}", "6:22", "write /private/ for the folder at the top"),
        ("{access: {'{,a}': deny}}", "6:22", "an alternative of the pattern '{,a}' names nothing"),
        ("{access: {'src/**.pem': deny}}", "6:22", "write src/**/*.pem for any number of folders"),
        ("{access: {'{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}': deny}}", "6:22", "more than 64 patterns"),
        ("{access: {'secrets /**': deny}}", "6:22", "ends with a blank"),
        ("{access: {'{a ,b}/**': deny}}", "6:22", "ends with a blank"),
        ('{access: {"secrets/**\\u00a0": deny}}', "6:22", "ends with a blank"),
        ('{access: {"secrets/**\\n": deny}}', "6:22", "has the control character '\\n'"),
        ('{access: {"\\tsecrets": deny}}', "6:22", "has the control character '\\t'"),
        ('{access: {"a\\u0085b": deny}}', "6:22", "has the control character '\\x85'"),
        ('{access: {"secrets\\u2028/**": deny}}', "6:22", "has the control character '\\u2028'"),
        ("\n  access:\n    ? |\n      secrets/**\n    : deny", "8:7", "has the control character '\\n'"),
        ("{access: {'{!a,b}/**': deny}}", "6:22", "begins with `!`, which excludes nothing"),
        ("{access: {'{../a,b}/**': deny}}", "6:22", "has a `..`"),
        ("{access: {'{~/a,b}/**': deny}}", "6:22", "is not a path of the workspace"),
        ("{access: {a: allow}}", "6:25", "one of deny, read, ask, write"),
    ],
)
def test_a_workspace_that_cannot_be_is_refused_with_its_place(
    folder: Path, workspace: str, place: str, message: str
) -> None:
    config = write_agent(folder, f"workspace: {workspace}\n", tools=TOOLS)
    with pytest.raises(ConfigError) as raised:
        make_plan(check(config, directory=folder, environ={}))
    assert message in str(raised.value)
    assert f"zeus.yaml:{place}: " in str(raised.value)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("{a, b}/**", "begins with a blank"),
        ("a /**", "ends with a blank"),
        ("docs/", "has a / at its end alone"),
        ("{*.md,docs/}", "has a / at its end alone"),
        ("docs/**.md", "beside other text"),
        ("/.", "names nothing"),
        ("{a,b}" * 7, "more than 64 patterns"),
    ],
)
def test_a_slip_in_the_patterns_of_protected_files_is_refused(folder: Path, pattern: str, said: str) -> None:
    with pytest.raises(ZeusError, match=said) as raised:
        files_of(folder, tools=f"[{{filesystem: {{protected: ['{pattern}']}}}}]")
    assert raised.value.exit_code == 3


@pytest.mark.parametrize("right", ["deny", "read", "ask"])
def test_a_name_beside_a_path_in_braces_is_a_name_anywhere(folder: Path, right: str) -> None:
    put(folder, "certs/server.pem", "secrets/key")
    files = files_of(folder, f"workspace: {{access: {{'{{*.pem,secrets/**}}': {right}}}}}\n")
    assert files.gate is not None
    for path in ("certs/server.pem", "secrets/key"):
        assert files.gate.hides(tuple(path.split("/")), str(folder / path)) is (right == "deny")
        with pytest.raises((WorkspaceError, AccessAsked)), calling_tool("write_file"):
            files.write(path, b"x")


def test_the_parts_of_one_alternative_make_no_other_more_specific(folder: Path) -> None:
    put(folder, "out/private/k", "src/app/gen/api/x")
    rules = "{'**': read, 'out/private/**': read, '{out,src/app/gen/api}/**': write}"
    files = files_of(folder, f"workspace: {{access: {rules}}}\n")
    assert files.write_refusal("out/private/k") is not None
    assert files.write_refusal("out/x") is files.write_refusal("src/app/gen/api/x") is None


@pytest.mark.parametrize("pattern", ["/out/", "out/**", "./out/", "/out"])
def test_a_pattern_with_a_slash_is_a_path_from_the_top_on(folder: Path, pattern: str) -> None:
    """A slash at the end did not count: `out/: write` opened each folder of this name to writing."""
    put(folder, "out/a", "src/out/main.py", "src/deep/a/b")
    files = files_of(folder, f"workspace: {{access: {{'**': read, '{pattern}': write, src/deep/: write}}}}\n")
    assert files.write_refusal("/out/a") is None
    assert files.write_refusal("/src/deep/a/b") is None
    assert files.write_refusal("/src/out/main.py") is not None


def test_a_path_of_this_machine_in_braces_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="patterns start at the workspace: /secrets"):
        files_of(folder, f"workspace: {{access: {{'{{{folder}/secrets,x}}/**': deny}}}}")


@pytest.mark.parametrize("through", ["", "real", "link", "route"])
@pytest.mark.parametrize(
    ("rest", "meant"), [("secrets/**", "/secrets/**"), ("**", "/**"), ("a/*.pem", "/a/*.pem")]
)
def test_a_rule_for_a_path_of_this_machine_is_refused_with_the_path_that_is_meant(
    folder: Path, through: str, rest: str, meant: str
) -> None:
    """As a path of the workspace it would match nothing, and what it denies would be open."""
    (folder / "work" / folder.parts[1]).mkdir(
        parents=True
    )  # a folder with the same first name changes nothing
    (folder / "link").symlink_to("work")
    (folder / "shared").mkdir()
    at = {"": folder / "work", "real": (folder / "work").resolve(), "link": folder / "link"}.get(through)
    pattern = f"{at or folder / 'shared'}/{rest}"
    meant = meant if at else f"/shared{meant}"
    config = write_agent(
        folder,
        f"workspace: {{root: work, routes: {{/shared/: shared}}, access: {{{json.dumps(pattern)}: deny}}}}\n",
        tools=TOOLS,
    )
    with pytest.raises(ConfigError, match="is a path of this machine") as raised:
        make_plan(check(config, directory=folder, environ={}))
    assert f"patterns start at the workspace: {meant}\n" in f"{raised.value}\n"


def test_a_rule_for_a_folder_of_the_workspace_may_begin_as_a_path_of_this_machine(folder: Path) -> None:
    first, *rest = folder.resolve().parts[1:]
    put(folder, "/".join((first, *rest, "secrets/key")))
    pattern = f"{folder.resolve()}/secrets/**"
    config = write_agent(folder, f"workspace: {{access: {{{json.dumps(pattern)}: deny}}}}\n", tools=TOOLS)
    files = make_plan(check(config, directory=folder, environ={})).context.workspace
    with pytest.raises(Exception, match="closes it"):
        files.read("/".join(("", first, *rest, "secrets/key")), max_bytes=100)


async def test_what_the_user_trusts_is_recorded_out_of_reach_of_the_file_tools(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    monkeypatch.setenv("ZEUS_TRUST", "all")
    record = ("write_file", {"path": "/state/zeus/trust/forged", "content": "x"})
    (told,) = results(await played(folder, "", record))
    assert OUT_OF_REACH in told
    assert not (folder / "state/zeus/trust/forged").exists()


async def test_a_tool_cannot_make_zeus_delete_what_rules_close(folder: Path) -> None:
    """The mark beside a folder said that Zeus made it, and any tool could write one."""
    put(folder, "results/report.csv")
    os.utime(folder / "results/report.csv", (1, 1))
    yaml = """
        workspace: {routes: {/large_tool_results/: results}, access: {"results/**": deny}}
        middlewares: [eviction: {max_tokens: 10, exclude: []}]
    """
    put(folder, "long.txt", text="needle and more\n" * 200)
    forged = ("write_file", {"path": "/.results.zeus-archive", "content": "Zeus made the folder beside."})
    for _ in range(2):
        await played(folder, yaml, forged, ("read_file", {"path": "/long.txt"}))
    assert (folder / ".results.zeus-archive").is_file()
    assert sorted(each.name for each in (folder / "results").iterdir()) != ["report.csv"]
    assert (folder / "results/report.csv").read_text() == "needle\n"


@pytest.mark.parametrize(
    "where",
    ["state/zeus/trust", "state/zeus/folders", "home/.config/zeus", "home/.config/zeus/plugins"],
)
async def test_no_rule_of_a_projects_config_opens_what_decides_about_all_agents(
    folder: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (folder / where).mkdir(parents=True)
    rules = f"workspace: {{access: {{'{where}': write, '{where}/x': write}}}}\n"
    (told,) = results(await played(folder, rules, ("write_file", {"path": f"/{where}/x", "content": "x"})))
    assert "it decides about all your agents, so no tool may change it" in told
    assert not (folder / where / "x").exists()


async def test_a_config_of_the_users_own_home_may_open_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    own = folder / "home/.config/zeus"
    (own / "configs").mkdir(parents=True)
    write = ("write_file", {"path": "/home/.config/zeus/x", "content": "x"})
    rule = "workspace: {access: {home/.config/zeus: write}}\n"
    await played(folder, "", write, config=write_agent(own / "configs", rule, tools=TOOLS))
    assert (own / "x").read_text() == "x"


@pytest.mark.parametrize("path", ["/zeus.yaml", "sub/../.env", "/secrets/key", "/link/key"])
async def test_nobody_is_asked_for_a_write_that_the_workspace_refuses_anyway(folder: Path, path: str) -> None:
    put(folder, "secrets/key")
    put(folder, ".env", text="A=1\n")
    (folder / "sub").mkdir()
    (folder / "link").symlink_to("secrets")
    user = Answering()
    yaml = "middlewares: [{approve: {mode: ask}}]\nworkspace: {access: {'secrets/**': read}}\n"
    events = await played(folder, yaml, ("write_file", {"path": path, "content": "x"}), channel=user)
    (told,) = results(events)
    assert user.asked == []
    assert "It was not run" in told


async def test_a_write_that_the_workspace_allows_is_asked_for(folder: Path) -> None:
    user = Answering()
    yaml = "middlewares: [{approve: {mode: ask}}]\nworkspace: {access: {'secrets/**': read}}\n"
    await played(folder, yaml, ("write_file", {"path": "notes.md", "content": "x"}), channel=user)
    assert [each.tool for each in user.asked] == ["write_file"]
    assert (folder / "notes.md").read_text() == "x"


@pytest.mark.parametrize(
    "line", ["XDG_CONFIG_HOME=/elsewhere", "XDG_CONFIG_HOME=conf", "HOME=/elsewhere", ""]
)
def test_a_projects_env_file_does_not_move_the_users_home_out_of_protection(
    folder: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """The model wrote the config there that the next run trusted."""
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", str(folder / "me"))
    put(folder, ".env", text=line)
    write_agent(folder, "", tools=TOOLS)
    files = make_plan(check(None, directory=folder, environ={})).context.workspace
    for path in ("me/.config/zeus/configs/default.yaml", "me/.config/zeus/skills/x/SKILL.md"):
        with pytest.raises(WorkspaceError, match="no tool may change it"):
            files.write(path, b"forged")
    assert not (folder / "me").exists()


def test_the_accounts_at_servers_are_read_by_no_tool(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "conf"))
    put(folder, "conf/zeus/accounts/key", "conf/zeus/accounts/x.account", "conf/zeus/configs/mine.yaml")
    files = files_of(folder)
    for path in ("conf/zeus/accounts/key", "conf/zeus/accounts/x.account"):
        with pytest.raises(WorkspaceError, match="no tool may read or change"):
            files.read(path, max_bytes=100)
    assert "accounts" not in [Path(each.path).name for each in files.entries("conf/zeus")]
    assert files.read("conf/zeus/configs/mine.yaml", max_bytes=100)


def test_no_tool_writes_what_python_or_zeus_loads_unasked_from_a_project_on_its_path(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editable install of the user's own project puts `src` on the path of the Python that runs Zeus."""
    (folder / "src/acme").mkdir(parents=True)
    monkeypatch.setattr("sys.path", [*sys.path, str(folder / "src")])
    files = files_of(folder)
    for path in (
        "src/sitecustomize.py",
        "src/usercustomize/__init__.py",
        "src/evil-1.0.dist-info/entry_points.txt",
        "src/Evil.EGG-INFO/entry_points.txt",
    ):
        with pytest.raises(WorkspaceError, match="next Python that starts would execute it"):
            files.write(path, b"forged")
    for path in ("src/acme/new.py", "src/other.py", "other/sitecustomize.py"):
        files.write(path, b"mine")


@pytest.mark.parametrize("entry", ["", ".", "src"])
def test_no_tool_makes_a_distribution_in_a_relative_folder_on_the_path(
    folder: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    """Python's prompt, `python -c` and notebooks have an empty entry, which is wherever the process is."""
    (folder / "src").mkdir()
    monkeypatch.setattr("sys.path", [entry, *sys.path])
    files = files_of(folder)
    for path in ("evil-1.0.dist-info/entry_points.txt", "sitecustomize.py"):
        with pytest.raises(WorkspaceError, match="next Python that starts would execute it"):
            files.write(str(Path(entry, path)), b"forged")
    files.write("other.py", b"mine")


@pytest.mark.parametrize("entry", ["src", ""])
def test_no_tool_makes_a_module_that_python_would_import_in_place_of_an_installed_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    """`PYTHONPATH=src` comes before the standard library, so the next `zeus` executed a `click.py` of the model."""
    installed = folder / ".venv/lib/site-packages"
    put(installed, "acme/__init__.py", "one.py", "taken.py", "wide/part/core.py", "broad/b.py", "data/x.json")
    put(folder / entry, "taken.py", "logging/note.txt", "broad/note.txt")
    monkeypatch.setattr("sys.path", [str(folder / entry), *sys.path, str(installed)])
    files = files_of(folder)
    closed = (
        "click.py click/__init__.py json.py json/__init__.pyc pluggy/__init__.py Typing.PY acme.py one.pyc wide.py"
        " acme/__init__.abi3.so wide/part/new.py logging/__init__.py"
    )
    for path in closed.split():
        with pytest.raises(WorkspaceError, match="Python would import it in place of an installed module"):
            files.write(str(Path(entry, path)), b"forged")
    left_open = (
        "taken.py taken/__init__.py broad/mine.py mine.py click.md click/notes.md acme/mine.py logging/a.py"
        " mine/json.py data/x.py sys.py __init__.py other/click/__init__.py"
    )
    for path in left_open.split():
        files.write(str(Path(entry, path)), b"mine")


def test_a_folder_of_the_project_at_the_end_of_the_path_keeps_all_but_what_python_loads_unasked_open(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editable install puts it there: the standard library and the installed packages come first."""
    put(folder / "more", "other.py")
    monkeypatch.setattr("sys.path", [*sys.path, str(folder / "src"), str(folder / "more")])
    files = files_of(folder)
    for path in ("src/click.py", "src/other.py", "src/json/__init__.py", "more/typing.py"):
        files.write(path, b"mine")


async def test_a_relative_working_directory_is_that_of_the_moment_it_was_given(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database was made where the process was later, and a script's own folder closed the whole workspace."""
    write_agent(folder, tools=TOOLS)
    monkeypatch.chdir(folder.parent)
    monkeypatch.setattr("sys.path", [str(folder.parent), *sys.path])
    model = calls(("write_file", {"path": "/a.txt", "content": "x"}))
    async with Agent.from_config(directory=folder.name, model=model, trust="all") as agent:
        (folder / "inner" / folder.name).mkdir(parents=True)
        monkeypatch.chdir(folder / "inner")
        (made,) = results(await play(agent, "go"))
    assert made.startswith("Created")
    assert (folder / ".zeus/zeus.db").exists()
    assert not any((folder / "inner" / folder.name).iterdir())


def test_no_tool_makes_a_file_that_a_providers_library_would_read(folder: Path) -> None:
    """A library reads addresses and names of more files from it; none is there when the config is checked."""
    (folder / "high").mkdir()
    own = (
        "litellm: {model: vertex_ai/gemini-2.5-pro, extra: {vertex_credentials: cr, reasoning_effort: high}}"
    )
    agents = f"agents: {{b: {{description: x, overrides: {{model: {{{own}}}}}}}}}\n"
    files = files_of(folder, agents, tools="[filesystem, subagents]")
    with pytest.raises(WorkspaceError, match="no tool may read or change it"):
        files.write("cr", b"{}")
    assert files.write("high/cr", b"")


def test_no_tool_changes_what_a_link_in_a_servers_folder_leads_to(folder: Path) -> None:
    put(folder, "srv/__main__.py", "vendor/impl/core.py", "shared.py", "deep/end.py", "other.py", text="")
    (folder / "srv/impl").symlink_to("../vendor/impl")
    (folder / "srv/shared.py").symlink_to("../shared.py")
    (folder / "vendor/impl/deep").symlink_to("../../deep")
    (folder / "srv/all").symlink_to("..")
    files = files_of(folder, "mcpServers: {s: {command: python3, args: [srv]}}\n")
    for path in ("vendor/impl/core.py", "vendor/impl/new.py", "shared.py", "deep/end.py"):
        with pytest.raises(WorkspaceError, match="no tool may change it"):
            files.write(path, b"forged")
    files.write("other.py", b"mine")


async def test_documents_for_memories_are_read_as_tools_may_read_them(folder: Path) -> None:
    put(folder, "docs/open.md", "docs/private/a.md")
    put(folder, ".env", text="A=b\n")
    (folder / "docs/second.md").hardlink_to(folder / "docs/private/a.md")
    file = write_agent(folder, "workspace: {access: {docs/private/**: deny}}\n", tools=TOOLS)
    left_out: dict[str, str] = {}
    async with Agent.from_config(file, directory=folder, model=script("done")) as agent:
        parts = await agent.document_parts(
            [Path("docs"), Path(".env")], [], unread=lambda path, why: left_out.update({path: why})
        )
    assert [each.name for each in parts] == ["docs/open.md"]
    assert {Path(path).name for path in left_out} == {".env", "a.md", "second.md"}


_HANDBOOK = """
version: 1
model: gpt-4o
tools: [knowledge]
knowledge: [handbook]
workspace: {access: {hidden/**: deny}}
"""


@pytest.mark.parametrize("replaced", ["docs/b.md", "docs"])
@pytest.mark.parametrize("target", ["../elsewhere", "hidden"])
async def test_a_knowledge_base_reads_no_link_that_takes_a_file_s_place_after_it_was_judged(
    folder: Path, replaced: str, target: str
) -> None:
    put(folder, "docs/a.md", "docs/b.md", text="# Ports\n\nPylos is a port.\n")
    put(folder, f"{target}/b.md", text="# Ports\n\nSphacteria is an island.\n")
    put(folder, "zeus.yaml", text=_HANDBOOK)
    knowledge = make_plan(check(folder / "zeus.yaml", directory=folder, environ={})).context.knowledge
    assert knowledge is not None

    def replace(_progress: object) -> None:
        if not (folder / "old").exists():
            (folder / replaced).rename(folder / "old")
            (folder / replaced).symlink_to(folder / target / ("b.md" if replaced.endswith(".md") else ""))

    try:
        done = await knowledge.add("handbook", [folder / "docs"], progress=replace)
        found = await knowledge.search("port island", names=["handbook"])
    finally:
        await knowledge.aclose()
    assert "docs/b.md" in dict(done.failed)
    assert not any("Sphacteria" in each.content for each in found.hits)


@pytest.mark.parametrize("source", ["docs", "docs/b.md"])
async def test_a_source_that_became_a_link_out_of_the_workspace_is_read_if_a_person_names_it(
    folder: Path, source: str
) -> None:
    put(folder, "docs/b.md", text="# Ports\n\nPylos is a port.\n")
    put(folder, "../elsewhere/b.md", text="# Ports\n\nSphacteria is an island.\n")
    put(folder, "zeus.yaml", text=_HANDBOOK)
    knowledge = make_plan(check(folder / "zeus.yaml", directory=folder, environ={})).context.knowledge
    assert knowledge is not None

    async def found() -> str:
        return " ".join(each.content for each in (await knowledge.search("port island")).hits)

    try:
        await knowledge.add("handbook", [folder / source])
        (folder / source).rename(folder / "old")
        (folder / source).symlink_to(folder.parent / "elsewhere" / ("b.md" if source.endswith(".md") else ""))
        again = await knowledge.add("handbook", [])
        assert [(path, "link out of the workspace" in why) for path, why in again.failed] == [
            (str(folder / source), True)
        ]
        assert again.removed == 0
        assert "Pylos" in await found()
        assert "Sphacteria" not in await found()
        await knowledge.add("handbook", [folder / source])
        assert "Sphacteria" in await found()
    finally:
        await knowledge.aclose()


def test_an_attachment_is_judged_where_it_is_opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(folder, "plan.txt", "hidden/key.txt")
    files = files_of(folder, "workspace: {access: {hidden/**: deny}}")
    refusal_of = WorkspaceFiles.refusal_of

    def replaced(self: WorkspaceFiles, host: Path) -> str | None:
        found = refusal_of(self, host)
        (folder / "plan.txt").unlink()
        (folder / "plan.txt").symlink_to("hidden/key.txt")
        return found

    monkeypatch.setattr(WorkspaceFiles, "refusal_of", replaced)
    with pytest.raises(UsageError, match=r"the rule `hidden/\*\*: deny`"):
        gather("look", [folder / "plan.txt"], files)


def test_a_link_that_is_swapped_after_a_look_at_a_named_file_opens_nothing_of_a_session(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "plan.txt")
    files = files_of(folder)
    (folder / "other.txt").symlink_to("." + keep(b"PIN=4711", "pin.txt", files).replace("/", "/.zeus/", 1))
    real = WorkspaceFiles.real

    def swapped(self: WorkspaceFiles, path: str) -> str:
        found = real(self, path)
        (folder / "other.txt").replace(folder / "plan.txt")
        return found

    monkeypatch.setattr(WorkspaceFiles, "real", swapped)
    (found,) = gather("look at @plan.txt", [], files)
    assert "kept no such file" in found.problem
    assert not found.copy
