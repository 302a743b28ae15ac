"""A living agent masks the secrets of its config's files as they are now, from its next run on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.agents import PositionModel, events_of, write_agent
from tests.support.serving import begun, service_of, serving, until
from zeus_runtime import Agent
from zeus_runtime.config.secrets import secret_files
from zeus_runtime.config.secrets.unloaded_configs import file_text
from zeus_runtime.config.yaml.reader import MAX_BYTES
from zeus_runtime.events import Notice, RunCompleted
from zeus_runtime.plan.validated import check
from zeus_runtime.trust.decision import recorded_trust

NEW: Final = "sk-live-New-33cc44dd"
SERVER: Final = (
    '{"mcpServers": {"s": {"command": "true", "disabled": true, "env": {"SHOP_TOKEN": "SECRET"}}}}'
)
CONFIG: Final = "mcpServers: {t: {command: 'true', disabled: true, env: {SHOP_TOKEN: SECRET}}}\n"
REMOTE: Final = '[remote "o"]\n\turl = https://ann:SECRET@example.com/x\n'
PEM: Final = "-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----\n"
HELPER: Final = """version: 1
name: helper
model: gpt-4o
tools: [subagents]
agents: {deep: {description: Helps., config: deep.yaml}}
"""
DEEP: Final = "version: 1\nname: deep\nmodel: gpt-4o\n"
MAIN: Final = """version: 1
extends: base.yaml
name: tester
model: {litellm: {model: gpt-4o, extra: {vertex_credentials: sa.json}}}
tools: [subagents, mcp: {files: [.mcp.json]}]
agents: {helper: {description: Helps., config: sub/helper.yaml}}
workspace: {routes: {/routed: routed}}
metadata: {api_key: '${SHOP_USER:-}', database: 'postgresql://zeus@db/zeus?passfile=pgpass', token_file: named}
"""
SOURCES: Final[Mapping[str, Mapping[str, str]]] = {
    "an extended config": {"base.yaml": "version: 1\n" + CONFIG},
    "a sub-agent's config": {"sub/helper.yaml": HELPER + CONFIG},
    "the config of a sub-agent's sub-agent": {"sub/deep.yaml": DEEP + CONFIG},
    "a sub-agent's .env": {"sub/.env": "SHOP_API_KEY=SECRET\n"},
    "an overlay": {"zeus.prod.yaml": CONFIG},
    "a preset": {".zeus/configs/other.yaml": CONFIG},
    "settings of a service": {"zeus-serve.yaml": "mail: {password: SECRET}\n"},
    "a file of servers": {".mcp.json": SERVER},
    "a file that an option names": {"sa.json": '{"private_key": "SECRET"}'},
    "a file that a variable names": {"token": "SECRET\n"},
    "JSON that a variable names": {"google.json": '{"client_secret": "SECRET"}'},
    "PEM that a variable names": {"tls.pem": PEM},
    "a file that an address names": {"pgpass": "SECRET\n"},
    "a file that an entry names": {"named": "SECRET\n"},
    "a file that a new server names": {
        "by_server": "SECRET\n",
        ".mcp.json": SERVER.replace("SHOP_TOKEN", "SHOP_TOKEN_FILE").replace("SECRET", "by_server"),
    },
    "a repository": {".git/config": REMOTE},
    "a worktree": {".git/config.worktree": REMOTE},
    "a fetch": {".git/FETCH_HEAD": "abc\t\tbranch 'main' of https://ann:SECRET@example.com/x\n"},
    "a submodule": {".git/modules/libs/config": REMOTE, ".git/config": "[core]\n"},
    "settings of git that are included": {".git/config": "[include]\n\tpath = ../team\n", "team": REMOTE},
    "logins of git": {
        ".git/config": "[credential]\n\thelper = store --file=logins\n",
        "logins": "https://ann:SECRET@example.com\n",
    },
    "a repository around it": {"../.git/config": REMOTE},
    "the repository of a route": {"routed/.git/config": REMOTE},
    "a clone in the workspace": {"clone/.git/config": REMOTE},
    "a clone in a route": {"routed/clone/.git/FETCH_HEAD": "abc\t\tof https://ann:SECRET@example.com/x\n"},
    "logins of a clone": {
        "other/.git/config": "[credential]\n\thelper = store --file=logins\n",
        "other/logins": "https://ann:SECRET@example.com\n",
    },
    "the config": {"zeus.yaml": MAIN + CONFIG},
    "a default": {"zeus.yaml": MAIN + "instructions: '${SHOP_API_KEY:-SECRET}'\n"},
    "a file that a new option names": {
        "new.json": '{"private_key": "SECRET"}',
        "zeus.yaml": MAIN.replace("sa.json", "new.json"),
    },
    "a config that a new line names": {
        "sub/further.yaml": "version: 1\n" + CONFIG,
        "zeus.yaml": MAIN.replace("base.yaml", "sub/further.yaml"),
    },
    ".env": {".env": "SHOP_API_KEY=SECRET\n"},
    "a further file of variables": {".env.local": "SHOP_API_KEY=SECRET\n"},
    "a further file of variables of a sub-agent": {"sub/.env.test": "SHOP_API_KEY=SECRET\n"},
    "the .env of a route": {"routed/.env": "SHOP_API_KEY=SECRET\n"},
    "the .env of a folder in a route": {"routed/clone/.env": "SHOP_API_KEY=SECRET\n"},
    "a variable in a secret place": {
        ".mcp.json": SERVER.replace("SECRET", "${SHOP_ACCOUNT}"),
        ".env": "SHOP_ACCOUNT=SECRET\n",
    },
    "a variable in a secret place of the config": {
        "zeus.yaml": MAIN,
        ".env": "SHOP_USER=SECRET\n",
    },
    "a file that a new variable names": {"later": "SECRET\n", ".env": "LATER_TOKEN_FILE=later\n"},
}
"""Each kind of source to the files that have its secret, and the text of each."""
BESIDE: Final = {
    "base.yaml": "version: 1\n",
    "sub/helper.yaml": HELPER,
    "sub/deep.yaml": DEEP,
    "zeus.yaml": MAIN,
    ".mcp.json": '{"mcpServers": {}}',
}
ENVIRON: Final = {
    "SHOP_TOKEN_FILE": "token",
    "GOOGLE_APPLICATION_CREDENTIALS": "google.json",
    "TLS_KEY_FILE": "tls.pem",
}


def written(folder: Path, files: Mapping[str, str], secret: str = "x") -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.replace("SECRET", secret))


@pytest.mark.parametrize("is_there", [True, False], ids=["there", "absent"])
async def test_a_file_that_gives_secrets_at_the_start_gives_them_when_it_changes(
    tmp_path: Path, is_there: bool
) -> None:
    """Of each kind of source, also if there was none at the start; what it gave before stays masked."""
    folder = tmp_path / "project"
    old = {kind: f"skLiveOld{number}aa22bb" for number, kind in enumerate(SOURCES, 10)}
    new = {kind: f"skLiveNew{number}cc44dd" for number, kind in enumerate(SOURCES, 10)}
    written(folder, {**BESIDE, "../.git/HEAD": "", "routed/.git/HEAD": "", ".git/HEAD": ""})
    # Those that share a file with another kind, or let an agent read all its files, change in a run of their own.
    shared = {"zeus.yaml", ".env", "sub/.env", ".mcp.json", ".git/config"}
    apart = [kind for kind, files in SOURCES.items() if shared.isdisjoint(files)]
    alone = [kind for kind in SOURCES if kind not in apart]
    former = " ".join(map(old.__getitem__, apart if is_there else ()))
    for kind in apart if is_there else ():
        written(folder, SOURCES[kind], old[kind])
    model = PositionModel(lambda _request: "Done.")
    agent = Agent.from_config("zeus.yaml", directory=folder, environ=ENVIRON, trust="all", model=model)
    told = []
    async with agent:
        session = (await agent.run(f"Before: {former}")).session
        for kinds in (apart, *([each] for each in alone)):
            for kind in kinds:
                written(folder, SOURCES[kind], new[kind])
            await agent.run(" ".join(map(new.__getitem__, kinds)), session=session)
            sent = str(model.requests[-1].messages[-1].content)
            told += [kind for kind in kinds if new[kind] in sent]
        await agent.run(f"{former} {' '.join(new.values())}", session=session)
        stored = str(await agent.history(session))
    assert told == []
    assert [each for each in (*former.split(), *new.values()) if each in stored] == []


def test_a_config_that_a_new_line_of_the_only_config_names_is_read(tmp_path: Path) -> None:
    (tmp_path / "bases").mkdir()
    written(
        tmp_path, {"zeus.yaml": "version: 1\nmodel: x\n", "bases/other.yaml": "version: 1\n" + CONFIG}, NEW
    )
    files = check("zeus.yaml", directory=tmp_path, environ={}, trust=recorded_trust({}, "all")).secret_files
    assert files.changed() == {}
    written(tmp_path, {"zeus.yaml": "version: 1\nmodel: x\nextends: bases/other.yaml\n"})
    assert NEW in files.changed()


FAR: Final = "{at}/lib/far"
"""Deep enough that no folder that is looked at for overlays changes with it."""
NAMED: Final[Mapping[str, Mapping[str, str]]] = {
    "extended": {"": f"extends: {FAR}/base.yaml\n", "lib/far/base.yaml": "version: 1\n" + CONFIG},
    "one of several that are extended": {
        "": f"extends: [{FAR}/one.yaml, {FAR}/two.yaml]\n",
        "lib/far/two.yaml": "version: 1\n" + CONFIG,
    },
    "extended by another": {
        "": f"extends: {FAR}/base.yaml\n",
        "lib/far/base.yaml": "version: 1\nextends: deep/base.yaml\n",
        "lib/far/deep/base.yaml": CONFIG,
    },
    "a folder that is extended": {"": f"extends: {FAR}\n", "lib/far/zeus.yaml": "version: 1\n" + CONFIG},
    "run by an agent": {
        "": f"agents: {{w: {{description: d, config: {FAR}/w.yaml}}}}\n",
        "lib/far/w.yaml": DEEP + CONFIG,
    },
    "extended by what is laid over an agent": {
        "": f"agents: {{w: {{description: d, config: x.yaml, overrides: {{extends: {FAR}/o.yaml}}}}}}\n",
        "lib/far/o.yaml": CONFIG,
    },
    "a preset of a Home": {"": f"homes: [{FAR}]\n", "lib/far/configs/p.yaml": DEEP + CONFIG},
    "a key file of an option": {
        "": f"model: {{litellm: {{model: gpt-4o, extra: {{vertex_credentials: {FAR}/sa.json}}}}}}\n",
        "lib/far/sa.json": '{"private_key": "SECRET"}',
    },
    "a key file of what is extended": {
        "": f"extends: {FAR}/base.yaml\n",
        "lib/far/base.yaml": f"version: 1\nmetadata: {{TOKEN_FILE: {FAR}/token}}\n",
        "lib/far/token": "SECRET\n",
    },
    "a key file of an address": {
        "": f"storage: {{url: 'postgresql://zeus@db/zeus?passfile={FAR}/pgpass'}}\n",
        "lib/far/pgpass": "SECRET\n",
    },
    "a file of servers": {
        "": f"tools: [{{mcp: {{files: [{FAR}/servers.json]}}}}]\n",
        "lib/far/servers.json": '{"mcpServers": {"s": {"url": "http://x.example", "headers": {"X-K": "SECRET"}}}}',
    },
    "a file of servers of what is extended": {
        "": f"extends: {FAR}/base.yaml\n",
        "lib/far/base.yaml": "version: 1\ntools: [mcp: {files: [servers.json]}]\n",
        "lib/far/servers.json": '{"mcpServers": {"s": {"url": "http://x.example", "headers": {"X-K": "SECRET"}}}}',
    },
    "a file of servers of what is laid over an agent": {
        "": "agents: {w: {description: d, config: x.yaml, overrides:"
        f" {{tools: [{{mcp: {{files: [{FAR}/servers.json]}}}}]}}}}}}\n",
        "lib/far/servers.json": '{"mcpServers": {"s": {"url": "http://x.example", "headers": {"X-K": "SECRET"}}}}',
    },
    "a key file of a server in a file": {
        "": f"tools: [{{mcp: {{files: [{FAR}/servers.json]}}}}]\n",
        "lib/far/servers.json": '{"mcpServers": {"s": {"command": "s", "env": {"API_KEY_FILE": "{at}/lib/far/key"}}}}',
        "lib/far/key": "SECRET\n",
    },
    "variables of a server": {
        "": f"mcpServers: {{s: {{command: [uv, run, --env-file, {FAR}/x.env, s.py]}}}}\n",
        "lib/far/x.env": "ANY=SECRET\n",
    },
}
"""Each kind of file that a config names: the config's lines under an empty name, and the files behind it."""


@pytest.mark.parametrize(
    "namer", ["agents/new.yaml", "zeus.prod.yaml", ".zeus/configs/new.yaml", "zeus.yaml"]
)
@pytest.mark.parametrize("kind", NAMED)
def test_a_named_file_gives_its_secrets_whenever_it_is_written(tmp_path: Path, kind: str, namer: str) -> None:
    """A look before it is there changes nothing about a later one: the file that a config extends may come last."""
    for number, order in enumerate(permutations(NAMED[kind])):
        folder = tmp_path / str(number)
        for each in ("lib", "agents", ".zeus/configs"):
            (folder / each).mkdir(parents=True)
        start = "version: 1\nname: a\n"
        written(folder, {"zeus.yaml": start + "model: gpt-4o\n"})
        checked = check("zeus.yaml", directory=folder, environ={}, trust=recorded_trust({}, "all"))
        files = checked.secret_files.of_service([folder / "agents"])
        files.changed()
        found: set[str] = set()
        for each in order:
            text = NAMED[kind][each].replace("{at}", str(folder))
            written(folder, {each or namer: text if each else start + text}, NEW)
            found |= files.changed().keys()
        assert NEW in found, order


@pytest.mark.parametrize("namer", ["agents/new.yaml", "zeus.prod.yaml", ".zeus/configs/new.yaml"])
@pytest.mark.parametrize("place", ["[{mcp: {files: FILE}}]", "{mcp: {files: [FILE]}}"], ids=["text", "map"])
@pytest.mark.parametrize("kind", ["a key file of a server in a file", "a file of servers"])
def test_a_file_of_servers_is_read_as_one_where_the_schema_does_not_fit(
    tmp_path: Path, kind: str, place: str, namer: str
) -> None:
    for each in ("agents", ".zeus/configs"):
        (tmp_path / each).mkdir(parents=True)
    start = "version: 1\nname: a\n"
    written(tmp_path, {"zeus.yaml": start + "model: gpt-4o\n"})
    checked = check("zeus.yaml", directory=tmp_path, environ={}, trust=recorded_trust({}, "all"))
    files = checked.secret_files.of_service([tmp_path / "agents"])
    text = f"{start}tools: {place}\n".replace("FILE", f"{tmp_path}/lib/far/servers.json")
    written(tmp_path, {namer: text})
    assert files.changed() == {}
    found: set[str] = set()
    for name, named in NAMED[kind].items():
        if name:
            comment = "// ours\n" if name.endswith("json") else ""
            written(tmp_path, {name: comment + named.replace("{at}", str(tmp_path))}, NEW)
            found |= files.changed().keys()
    assert NEW in found


def test_a_large_file_where_the_schema_does_not_fit_is_not_read_as_one_of_servers(tmp_path: Path) -> None:
    written(tmp_path, {"zeus.yaml": "version: 1\nmodel: gpt-4o\n"})
    files = check("zeus.yaml", directory=tmp_path, environ={}, trust=recorded_trust({}, "all")).secret_files
    of_servers = NAMED["a file of servers"]["lib/far/servers.json"]
    written(
        tmp_path, {"zeus.prod.yaml": "datas: data.json\n", "data.json": " " * MAX_BYTES + of_servers}, NEW
    )
    assert files.changed() == {}
    written(tmp_path, {"data.json": of_servers}, NEW)
    assert NEW in files.changed()


def test_a_text_that_links_put_at_several_places_gives_the_secrets_beside_each(tmp_path: Path) -> None:
    main = "version: 1\nname: a\nmodel: gpt-4o\ntools: [mcp: {files: [servers.json]}]\n"
    agents = ", ".join(f"{each}: {{description: d, config: {each}}}" for each in "bcde")
    written(tmp_path, {"b/zeus.yaml": main, "e/zeus.yaml": main, "zeus.prod.yaml": f"agents: {{{agents}}}\n"})
    # The loaded config is a link too.
    for each, text in (("c/", "b"), ("d/", "b"), ("", "e")):
        (tmp_path / each).mkdir(exist_ok=True)
        (tmp_path / f"{each}zeus.yaml").symlink_to(tmp_path / text / "zeus.yaml")
    for folder in ("", *"bcde"):
        written(tmp_path, {f"{folder}/servers.json".lstrip("/"): '{"mcpServers": {}}'})
    checked = check("zeus.yaml", directory=tmp_path, environ={}, trust=recorded_trust({}, "all"))
    secrets = {folder: f"{NEW}{folder}" for folder in "bcde"}
    for folder, secret in secrets.items():
        written(tmp_path, {f"{folder}/servers.json": SERVER}, secret)
    assert checked.secret_files.changed().keys() >= {*secrets.values()}


def test_a_file_whose_time_was_set_back_is_read_again(tmp_path: Path) -> None:
    former = "sk-live-Old-11aa22bb"
    assert len(former) == len(NEW)
    written(tmp_path, {"zeus.yaml": "version: 1\nmodel: x\n", ".env": "SHOP_TOKEN=SECRET\n"}, former)
    files = check("zeus.yaml", directory=tmp_path, environ={}, trust=recorded_trust({}, "all")).secret_files
    assert files.changed() == {}
    status = (tmp_path / ".env").stat()
    (tmp_path / ".env").write_text(f"SHOP_TOKEN={NEW}\n")
    os.utime(tmp_path / ".env", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert files.changed() == {NEW: "SHOP_TOKEN"}


def test_a_file_that_an_address_in_the_settings_of_a_service_names_is_read_when_it_changes(
    tmp_path: Path,
) -> None:
    address = "storage: {url: 'postgresql://zeus@db/zeus?passfile=pgpass'}\n"
    written(
        tmp_path, {"zeus.yaml": "version: 1\nmodel: x\n", "zeus-serve.yaml": address, "pgpass": "SECRET\n"}
    )
    files = check("zeus.yaml", directory=tmp_path, environ={}, trust=recorded_trust({}, "all")).secret_files
    assert files.changed() == {}
    written(tmp_path, {"pgpass": "SECRET\n"}, NEW)
    assert files.changed() == {NEW: "passfile"}


@pytest.mark.parametrize("is_own", [True, False], ids=["own", "process's"])
async def test_a_variable_that_the_program_sets_or_changes_gives_its_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_own: bool
) -> None:
    """A program may get a key from a vault after it made its agent, or renew it."""
    written(
        tmp_path, {"zeus.yaml": "version: 1\nname: a\nmodel: x\n", "later": "SECRET\n"}, "skLiveFile77aa88bb"
    )
    monkeypatch.setenv("SHOP_API_KEY", "skLiveOld11aa22bb")
    own = dict(os.environ)
    model = PositionModel(lambda _request: "Done.")
    agent = Agent.from_config(
        "zeus.yaml", directory=tmp_path, environ=own if is_own else None, trust="all", model=model
    )
    told = []
    async with agent:
        for name, value, secret in (
            ("SHOP_API_KEY", NEW, NEW),
            ("VAULT_TOKEN", "tokLive55ee66ff", "tokLive55ee66ff"),
            ("LATER_TOKEN_FILE", "later", "skLiveFile77aa88bb"),
        ):
            (own.__setitem__ if is_own else monkeypatch.setenv)(name, value)
            await agent.run(f"Now it is {secret}, before skLiveOld11aa22bb.")
            told.append(str(model.requests[-1].messages[-1].content))
    assert told == [
        f"Now it is <secret:{name}>, before <secret:SHOP_API_KEY>."
        for name in ("SHOP_API_KEY-e3f8", "VAULT_TOKEN", "LATER_TOKEN_FILE")
    ]


async def test_a_variable_that_did_not_change_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, {"zeus.yaml": "version: 1\nmodel: x\n"})
    monkeypatch.setenv("SHOP_API_KEY", "skLiveOld11aa22bb")
    checked = check("zeus.yaml", directory=tmp_path, environ={}, trust=recorded_trust({}, "all"))
    # A program that gives an environment of its own leaves out what its process has then.
    assert "skLiveOld11aa22bb" not in checked.secrets.names
    files = checked.secret_files.copy()
    monkeypatch.setenv("VAULT_TOKEN", NEW)
    assert files.changed() == {NEW: "VAULT_TOKEN"}
    monkeypatch.setattr(secret_files, "secrets_in", None)
    assert files.changed() == {}
    with pytest.raises(TypeError):
        checked.secret_files.changed()


async def test_a_file_that_did_not_change_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, {**BESIDE, ".git/config": REMOTE, "token": "x", ".env": ""})
    reads: list[object] = []

    def noted(name: str) -> None:
        real = getattr(secret_files, name)
        monkeypatch.setattr(
            secret_files, name, lambda *words, **more: (reads.append(words[0]), real(*words, **more))[1]
        )

    for each in ("file_text", "key_files", "secrets_of_file", "secrets_of_key_file", "secrets_of_repository"):
        noted(each)
    model = PositionModel(lambda _request: "Done.")
    agent = Agent.from_config("zeus.yaml", directory=tmp_path, environ=ENVIRON, trust="all", model=model)
    async with agent:
        session = (await agent.run("Hello.")).session
        await agent.run(
            "The first run made `.zeus` in the folder where an overlay could appear.", session=session
        )
        assert reads, "the check reads them"
        reads.clear()
        await agent.run("Again.", session=session)
        assert reads == []
        written(tmp_path, {"token": "SECRET"}, NEW)
        await agent.run("Again.", session=session)
        # By the agent and by its sub-agents.
        assert reads == [tmp_path / "token"] * 3


async def test_a_service_that_keeps_a_former_config_masks_the_present_secrets(tmp_path: Path) -> None:
    config = write_agent(tmp_path)
    model: Any = PositionModel(lambda _request: "Done.")
    async with serving(service_of(tmp_path, model)) as client:
        session, run = await begun(client, "Hello.")
        await until(client, run, "complete")
        config.write_text(config.read_text() + "nope: 1\n")
        (tmp_path / ".env").write_text(f"SHOP_API_KEY={NEW}\n")
        _, run = await begun(client, f"Now it is {NEW}.", session)
        await until(client, run, "complete")
        assert NEW not in (await client.get(f"/v1/sessions/{session}/messages")).text
    assert NEW not in str([each.content for each in model.requests[-1].messages])


def stored_below(folder: Path) -> bytes:
    return b"".join(each.read_bytes() for each in folder.rglob("*.db*"))


async def test_a_service_masks_what_a_caller_sends_before_it_is_stored(tmp_path: Path) -> None:
    """A run looks at the files too, but only after the request is stored; a title and a memory have no run."""
    write_agent(tmp_path, "memory: {}")
    written(tmp_path, {".git/HEAD": ""})
    secrets = [f"skLiveNew{number}cc44dd" for number in range(3)]
    model: Any = PositionModel(lambda _request: "Done.")
    async with serving(service_of(tmp_path, model)) as client:
        session, run = await begun(client, "Hello.")
        await until(client, run, "complete")
        written(tmp_path, {".git/config": REMOTE}, secrets[0])
        await begun(client, f"Now it is {secrets[0]}.", session, queue=True)
        written(tmp_path, {".git/config": REMOTE}, secrets[1])
        answer = await client.post("/v1/sessions", json={"title": f"About {secrets[1]}."})
        assert answer.status_code == 201
        written(tmp_path, {".git/config": REMOTE}, secrets[2])
        answer = await client.post("/v1/memories", json={"content": f"The lock opens with {secrets[2]}."})
        assert "not saved (sensitive)" in answer.text
        # While the service is open, so that the log beside the database has its rows too.
        stored = stored_below(tmp_path)
    assert [each for each in secrets if each.encode() in stored] == []
    assert b"About <secret:" in stored


async def test_the_agents_of_a_service_look_each_for_itself_at_the_files_of_all(tmp_path: Path) -> None:
    """The second run masks what the first one found already."""
    for name in ("one", "two"):
        written(tmp_path, {f"{name}/.git/config": REMOTE, f"{name}/a.txt": ""})
        (tmp_path / f"{name}.yaml").write_text(
            f"version: 1\nname: {name}\nmodel: x\nworkspace: {{root: {name}}}\n"
        )
    model: Any = PositionModel(lambda _request: "Done.")
    hosting = service_of(tmp_path, model, ("one.yaml", "two.yaml")).hosting
    agents = [hosting.named(name).of(None) for name in ("one", "two")]
    written(tmp_path, {"one/.git/config": REMOTE}, NEW)
    for each in reversed(agents):
        await each.run(f"Now it is {NEW}.")
        assert NEW not in str(model.requests[-1].messages[-1].content)
    await hosting.aclose()


def test_a_pipe_in_the_place_of_a_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait for its writer."""
    write_agent(tmp_path)
    (tmp_path / ".env").write_text(f"SHOP_API_KEY={NEW}\n")
    checked = check("zeus.yaml", directory=tmp_path, environ={}, trust=recorded_trust({}, "all"))
    (tmp_path / ".env").unlink()
    os.mkfifo(tmp_path / ".env")
    assert file_text(tmp_path / ".env") is None
    reads: list[str] = []
    monkeypatch.setattr(secret_files, "file_text", lambda path: reads.append(path.name))
    assert checked.secret_files.changed() == {}
    assert reads == [], "its former variables hold"
    assert list(checked.secret_files.unread) == [tmp_path / ".env"]


@pytest.mark.parametrize("was_there", [True, False])
@pytest.mark.parametrize("now", ["a pipe", "not sound"])
async def test_a_run_says_that_it_cannot_read_the_variables_of_now(
    tmp_path: Path, now: str, *, was_there: bool
) -> None:
    """What they were still holds, and is masked."""
    file, said = tmp_path / ".env", f"It is {NEW}."
    if was_there:
        file.write_text(f"SHOP_API_KEY={NEW}\n")
    model: Any = PositionModel(lambda _request: "Done.")
    async with Agent.from_config(write_agent(tmp_path), directory=tmp_path, model=model) as agent:

        async def notices() -> list[str]:
            events = await events_of(agent.stream(said))
            assert isinstance(events[-1], RunCompleted)
            return [each.code for each in events if isinstance(each, Notice) and "dotenv" in each.code]

        assert await notices() == []
        file.unlink(missing_ok=True)
        if now == "a pipe":
            os.mkfifo(file)
        else:
            file.write_text("this is no variable\n")
        assert await notices() == ["dotenv_unread"] == await notices()
        assert (NEW in str(model.requests[-1].messages[-1].content)) != was_there
        file.unlink()
        file.write_text("A=b\n")
        assert await notices() == []


def test_what_is_commented_out_in_the_loaded_variables_is_a_secret(tmp_path: Path) -> None:
    one, other = "Old7hs9Kq2LmW4RtZ8vBn", "Zw4hT2pLq9VwZ3nB8mCs"
    write_agent(tmp_path)
    (tmp_path / ".env").write_text(f"A_TOKEN={one}\n# OLD_API_KEY={other}\n# see the docs\n# B_TOKEN;x\n")
    checked = check("zeus.yaml", directory=tmp_path, environ={}, trust=recorded_trust({}, "all"))
    shown = checked.secrets.text(f"{one} {other} see the docs")
    assert shown == "<secret:A_TOKEN> <secret:.env> see the docs"
    assert checked.secret_files.unread == {}
    # Also in a text that is not sound, which cannot be loaded.
    (tmp_path / ".env").write_text("this is no variable\n#C_TOKEN=Qx7hs9Kq2LmW4RtZ8vBn\n")
    assert "Qx7hs9Kq2LmW4RtZ8vBn" in checked.secret_files.changed()
    assert list(checked.secret_files.unread) == [tmp_path / ".env"]


@pytest.mark.parametrize("name", [".envrc", "keys"])
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"x\nDB_PASSWORD;of-ann-42\n", "Zeus cannot read the value in line 2, so it is not masked"),
        (b"\xff\x00\x01\n", "it is no text in UTF-8 or UTF-16, so Zeus does not know all secrets in it"),
    ],
)
def test_what_cannot_be_read_in_a_file_with_secrets_is_told_until_it_can(
    tmp_path: Path, name: str, data: bytes, why: str
) -> None:
    write_agent(tmp_path)
    (tmp_path / name).write_bytes(data)
    environ = {"APP_SECRETS_FILE": str(tmp_path / "keys")}
    found = check(
        "zeus.yaml", directory=tmp_path, environ=environ, trust=recorded_trust({}, "all")
    ).secret_files
    assert found.unread == {tmp_path / name: why} == found.copy().unread
    found.changed()
    assert found.unread == {tmp_path / name: why}
    (tmp_path / name).write_bytes(f"DB_PASSWORD: {NEW}\nx: y\n".encode("utf-8-sig"))
    assert NEW in found.changed()
    assert found.unread == {}
    (tmp_path / name).write_bytes(data)
    found.changed()
    (tmp_path / name).unlink()
    found.changed()
    assert found.unread == {}


@pytest.mark.parametrize("kind", ["a pipe", "too large"])
async def test_a_run_says_that_it_cannot_read_a_file_of_variables_that_is_not_loaded(
    tmp_path: Path, kind: str
) -> None:
    """The run goes on, and what the file had still is masked."""
    file, said = tmp_path / ".env.local", f"It is {NEW}."
    file.write_text(f"SHOP_API_KEY={NEW}\nthis is no variable\n")
    model: Any = PositionModel(lambda _request: "Done.")
    async with Agent.from_config(write_agent(tmp_path), directory=tmp_path, model=model) as agent:

        async def notices() -> list[str]:
            events = await events_of(agent.stream(said))
            assert isinstance(events[-1], RunCompleted)
            assert NEW not in str(model.requests[-1].messages[-1].content)
            return [each.message for each in events if isinstance(each, Notice) and "dotenv" in each.code]

        assert await notices() == []
        file.unlink()
        if kind == "a pipe":
            os.mkfifo(file)
        else:
            file.write_text("A=b\n" * 300_000)
        assert [each.split(": it cannot be read")[0] for each in await notices()] == [str(file)]
        file.unlink()
        assert await notices() == []
