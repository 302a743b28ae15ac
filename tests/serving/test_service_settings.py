"""Every key of zeus-serve.yaml has an effect: something that can be seen is another with it than without."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, chdir
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args, get_type_hints

import httpx
import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.serving.test_http_keys import bearer, made
from tests.serving.test_http_oidc import Provider
from tests.support.agents import script, write_agent
from tests.support.serving import TOKEN, begun, service_of, until
from zeus_runtime.cli.group import zeus
from zeus_runtime.cli.options import ConfigArgs, read_config
from zeus_runtime.cli.process import Process
from zeus_runtime.cli.serve import _reader
from zeus_runtime.config.messages.diagnostics import ConfigError
from zeus_runtime.plan.plan import make_plan
from zeus_runtime.serving.http.boundary import access
from zeus_runtime.serving.http.oidc import TokenIssuers
from zeus_runtime.serving.http.principals import UnknownPrincipalError
from zeus_runtime.serving.http.server import ServiceServer, server_config
from zeus_runtime.serving.http.service import Service
from zeus_runtime.serving.http.settings import (
    AsksNothing,
    Issuer,
    Settings,
    examine_settings,
    read_settings,
    settings_schema,
)
from zeus_runtime.store.database import Database
from zeus_runtime.store.schema import ready
from zeus_runtime.store.service_audit import AuditEntry, add_entry, entries
from zeus_runtime.tools.calling_tool import calling
from zeus_runtime.tools.paths import WorkspaceError
from zeus_runtime.trust.parts import Part

USED = AuditEntry(0, "ann", "key:1", "POST /x", None, None, None, None, 200, "done")


@dataclass
class Scene:
    """A folder with an agent, and the service's settings in YAML."""

    folder: Path
    written: Mapping[str, Any]

    @property
    def settings(self) -> Settings:
        (self.folder / "zeus-serve.yaml").write_text(json.dumps(self.written))
        return read_settings(None, directory=self.folder, environ={}).settings

    @asynccontextmanager
    async def served(self, *, is_open: bool = False) -> AsyncIterator[tuple[Service, Database, str]]:
        """The service as `zeus serve` runs it, its database, and its address.

        Args:
            is_open: whether it listens for others, so that there is no local token.
        """
        write_agent(self.folder)
        settings = self.settings
        database = Database(settings.storage.url, directory=self.folder)
        await ready(database)
        service = service_of(self.folder, script("Done."))
        service = replace(
            service, settings=settings, database=database, token=None if is_open else service.token
        )
        config = server_config(service, host="127.0.0.1", port=0)
        server = ServiceServer(config, service)
        task = asyncio.create_task(server.serve())
        while not server.started:
            if task.done():
                await task  # raises
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield service, database, f"{'https' if config.is_ssl else 'http'}://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            await task

    @asynccontextmanager
    async def client(
        self, *, is_open: bool = False
    ) -> AsyncIterator[tuple[httpx.AsyncClient, Service, Database]]:
        """A client of the service with ann's key."""
        async with self.served(is_open=is_open) as (service, database, url):
            key = bearer(await made(database, "ann"))
            async with httpx.AsyncClient(base_url=url, headers=key, timeout=30) as client:
                yield client, service, database


See = Callable[[Scene], Awaitable[Any]]


async def said(folder: Path, *words: str) -> str:
    """What a command prints, in a folder."""
    with chdir(folder):
        result = await asyncio.to_thread(CliRunner().invoke, zeus, words, obj=Process())
    assert result.exit_code == 0, result.output
    return result.output


def asked(*paths: str, **given: Any) -> See:
    """The statuses of requests, one after the other."""

    async def see(scene: Scene) -> list[int]:
        async with scene.client() as (client, _, _database):
            return [(await client.get(path, **given)).status_code for path in paths]

    return see


async def place_of_keys(scene: Scene) -> list[str]:
    """The files in which the command line puts a key."""
    _ = scene.settings
    await said(scene.folder, "keys", "create", "ci", "--all-users")
    return sorted(str(each.relative_to(scene.folder)) for each in scene.folder.rglob("*.db"))


def certified(folder: Path, name: str, key: ec.EllipticCurvePrivateKey) -> None:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    (folder / f"{name}.pem").write_bytes(certificate.public_bytes(Encoding.PEM))


async def name_shown(scene: Scene) -> str:
    """The name in the certificate that the service shows."""
    for name in ("first", "other"):
        key = ec.generate_private_key(ec.SECP256R1())
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (scene.folder / f"{name}.key").write_bytes(private)
        if name == "first":
            for named in ("one", "two"):
                certified(scene.folder, named, key)
    try:
        async with scene.served() as (_, _database, url):
            port = int(url.rpartition(":")[2])
            text = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))
    except ssl.SSLError as error:
        return type(error).__name__
    found = x509.load_pem_x509_certificate(text.encode()).subject
    return str(found.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


async def cookie_is_secure(scene: Scene) -> bool:
    """Whether the service believes that the browser came over TLS."""
    async with scene.client() as (client, _, _database):
        head = {"X-Forwarded-Proto": "https", "X-Zeus-Page": "1", "Authorization": ""}
        answer = await client.post("/login", json={"token": TOKEN}, headers=head)
        assert answer.status_code < 400, answer.text
        return "secure" in answer.headers["set-cookie"].lower()


async def must_wait_long(scene: Scene) -> bool:
    async with scene.client() as (client, _, _database):
        answers = [await client.get("/v1/agents") for _ in range(2)]
        return int(answers[1].headers.get("retry-after", "0")) > 10


async def beside_a_stream(scene: Scene) -> int:
    """The status of a request while the same user's stream is open, on another connection."""
    async with scene.client() as (client, _, _database):
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        async with client.stream("GET", f"/v1/sessions/{session}/events") as stream:
            assert stream.status_code == 200
            return (await client.get("/v1/agents")).status_code


async def wrong_tokens(scene: Scene) -> list[int]:
    async with scene.client(is_open=True) as (client, _, _database):
        wrong = {"Authorization": "Bearer wrong-token"}
        return [(await client.get("/v1/agents", headers=wrong)).status_code for _ in range(2)]


async def large_body(scene: Scene) -> int:
    async with scene.client() as (client, _, _database):
        return (await client.post("/v1/sessions", json={"title": "x" * 2000})).status_code


async def open_agents(scene: Scene) -> list[str]:
    """The users whose agents are still open when nobody uses them."""
    async with scene.client() as (client, service, database):
        for key in (dict(client.headers), bearer(await made(database, "bob"))):
            assert (await client.get("/v1/sessions", headers=key)).status_code == 200
        while service.present:  # noqa: ASYNC110 - the boundary counts the requests
            await asyncio.sleep(0.01)
        await service._let_idle_go()
        (hosted,) = service.hosting
        return sorted(each.user for each in hosted.open if each is not None)


async def old_entries(scene: Scene) -> int:
    async with scene.client() as (_, service, database):
        await add_entry(database, replace(USED, at_ms=round((time.time() - 40 * 86_400) * 1000)))
        service._expired = 0
        await service._expire()
        return len(await entries(database))


async def allowed_origin(scene: Scene) -> str | None:
    asking = {"Access-Control-Request-Method": "POST", "Origin": "https://app.example.org"}
    async with scene.client() as (client, _, _database):
        answer = await client.options("/v1/sessions", headers=asking)
        return answer.headers.get("access-control-allow-origin")


async def first_of_lines(scene: Scene) -> str:
    """The first character of the line of a request."""
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    kept, level = Kept(), access.level
    access.addHandler(kept)
    access.setLevel(logging.INFO)
    try:
        await asked("/health")(scene)
    finally:
        access.removeHandler(kept)
        access.setLevel(level)
    return "".join(line[0] for line in lines)


@dataclass(frozen=True)
class Flip:
    """One key set to something else; the fields are those of the flips of a config's keys."""

    key: str
    value: Any
    see: See
    before: Any
    after: Any
    given: Mapping[str, Any] = field(default_factory=dict)


TLS = {"tls": {"certificate": "one.pem", "key": "first.key"}}
FLIPS = (
    Flip("storage.url", "sqlite:///elsewhere.db", place_of_keys, [".zeus/serve.db"], ["elsewhere.db"]),
    Flip(
        "hosts",
        ["agents.example.org"],
        asked("/v1/agents", headers={"Host": "agents.example.org"}),
        [421],
        [200],
    ),
    Flip("tls.certificate", "two.pem", name_shown, "one", "two", TLS),
    Flip("tls.key", "other.key", name_shown, "one", "SSLError", TLS),
    Flip("proxies", ["127.0.0.1"], cookie_is_secure, False, True),
    Flip("limits.requests_per_minute", 1, must_wait_long, False, True, {"limits": {"burst": 1}}),
    Flip(
        "limits.burst",
        2,
        asked(*["/v1/agents"] * 3),
        [200, 200, 200],
        [200, 200, 429],
        {"limits": {"requests_per_minute": 1}},
    ),
    Flip("limits.open_requests", 1, beside_a_stream, 200, 429),
    Flip("limits.failed_logins_per_minute", 1, wrong_tokens, [401, 401], [401, 429]),
    Flip("limits.connections", 2, beside_a_stream, 200, 503),
    Flip("limits.body_bytes", 1000, large_body, 201, 413),
    Flip("limits.header_bytes", 1000, asked("/v1/agents", headers={"X-Long": "x" * 2000}), [200], [400]),
    Flip("agents.most_open", 1, open_agents, ["ann", "bob"], []),
    Flip("agents.idle_seconds", 0, open_agents, ["ann", "bob"], []),
    Flip("audit.max_age_days", 30, old_entries, 1, 0),
    Flip("cors.origins", ["https://app.example.org"], allowed_origin, None, "https://app.example.org"),
    Flip("access_log", "json", first_of_lines, "t", "{"),
)


def with_key(written: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    name, dot, rest = key.partition(".")
    return {**written, name: with_key(written.get(name, {}), rest, value) if dot else value}


@pytest.mark.parametrize("flip", FLIPS, ids=lambda flip: flip.key)
async def test_a_key_of_the_service_changes_what_can_be_seen(tmp_path: Path, flip: Flip) -> None:
    for name, written, seen in (
        ("before", flip.given, flip.before),
        ("after", with_key(flip.given, flip.key, flip.value), flip.after),
    ):
        (tmp_path / name).mkdir()
        assert await flip.see(Scene(tmp_path / name, written)) == seen, name


ISSUED: Mapping[str, tuple[Any, Mapping[str, Any], str, str]] = {
    # the key: its value, the token's claims, who it is before and after
    "issuer": ("http://127.0.0.1:1", {}, "ann - viewer approve read run", "refused"),
    "audience": ("other", {}, "ann - viewer approve read run", "refused"),
    "algorithms": (["RS256"], {}, "ann - viewer approve read run", "refused"),
    "clock_skew_seconds": (0, {"exp": -10}, "ann - viewer approve read run", "refused"),
    "claims.user": (
        "email",
        {"email": "a@x"},
        "ann - viewer approve read run",
        "a@x - viewer approve read run",
    ),
    "claims.project": (
        "team",
        {"team": "blue"},
        "ann - viewer approve read run",
        "ann blue viewer approve read run",
    ),
    "claims.role": (
        "group",
        {"group": "heads"},
        "ann - viewer approve read run",
        "ann - admin approve read run",
    ),
    "claims.scopes": ("scope", {"scope": "z.read"}, "ann - viewer approve read run", "ann - viewer read"),
    "roles": (
        {"heads": "editor"},
        {"role": "heads"},
        "ann - admin approve read run",
        "ann - editor approve read run",
    ),
    "default_role": ("editor", {}, "ann - viewer approve read run", "ann - editor approve read run"),
    "scopes": ({"z.read": ["run"]}, {"given": "z.read"}, "ann - viewer read", "ann - viewer run"),
    "default_scopes": (["read"], {}, "ann - viewer approve read run", "ann - viewer read"),
    "agents": (["helper"], {}, "ann - viewer approve read run", "ann - viewer approve read run of helper"),
}
GIVEN: Mapping[str, Mapping[str, Any]] = {
    "claims.role": {"roles": {"heads": "admin"}},
    "claims.scopes": {"scopes": {"z.read": ["read"]}},
    "roles": {"roles": {"heads": "admin"}, "claims": {"role": "role"}},
    "scopes": {"scopes": {"z.read": ["read"]}, "claims": {"scopes": "given"}},
}


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    found = Provider()
    yield found
    found.server.shutdown()
    found.server.server_close()


async def who(scene: Scene, token: str) -> str:
    try:
        found = await TokenIssuers(scene.settings.oidc).caller(token)
    except UnknownPrincipalError:
        return "refused"
    if found is None or found.owner is None:
        return "nobody"
    words = (found.owner.user, found.owner.project or "-", found.owner.role, *sorted(found.scopes))
    return " ".join(map(str, words)) + (f" of {' '.join(found.agents)}" if found.agents else "")


@pytest.mark.parametrize("key", ISSUED)
async def test_a_key_of_an_issuer_changes_who_a_token_is(
    tmp_path: Path, provider: Provider, key: str
) -> None:
    value, claims, before, after = ISSUED[key]
    if "exp" in claims:
        claims = {**claims, "exp": int(time.time()) + claims["exp"]}
    given = {"issuer": provider.url, "audience": "zeus", "algorithms": ["ES256"], **GIVEN.get(key, {})}
    token = provider.token(**claims)
    assert await who(Scene(tmp_path, {"oidc": [given]}), token) == before
    assert await who(Scene(tmp_path, {"oidc": [with_key(given, key, value)]}), token) == after


async def test_the_keys_of_an_issuer_are_read_again_after_their_age(
    tmp_path: Path, provider: Provider
) -> None:
    asked_before = provider.asked
    for age, times in ((3600, 1), (10, 2)):
        now = 0.0
        issuer = {"issuer": provider.url, "audience": "zeus", "keys_max_age_seconds": age}
        known = TokenIssuers(Scene(tmp_path, {"oidc": [issuer]}).settings.oidc, now=lambda: now)  # noqa: B023
        for _ in range(2):
            assert await known.caller(provider.token()) is not None
            now += 100
        assert provider.asked - asked_before == times
        asked_before = provider.asked


def test_every_key_of_the_settings_is_proven_above() -> None:
    # test_http_files.py sets these, and sees which files are refused and which go.
    files = {"limits.file_bytes", "limits.files_bytes", "limits.files_max_age_days"}
    issuers = {*(f"oidc.{key}" for key in ISSUED), "oidc.keys_max_age_seconds"}
    proven = {*(flip.key for flip in FLIPS), *issuers, *files}
    assert set(leaves(settings_schema())) == proven


def leaves(node: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[str]:
    """The keys of a schema that hold values, as the reference writes them."""
    inner = node.get("properties") or node.get("items", {}).get("properties")
    if inner:
        for name, below in inner.items():
            yield from leaves(below, (*path, name))
    else:
        yield ".".join(path)


def declared(section: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """The keys that say themselves that they ask nothing."""
    for name, hint in get_type_hints(section, include_extras=True).items():
        kinds = {hint.__origin__, *get_args(hint.__origin__)}
        below = [each for each in kinds if is_dataclass(each)]
        marks = [each for each in hint.__metadata__ if isinstance(each, AsksNothing)]
        assert not (below and marks), (
            f"{name} is a section: its keys say it, so that a new one does not inherit it"
        )
        yield from (key for each in below for key in declared(each, (*path, name)))
        yield from (".".join((*path, name)) for _ in marks)


def test_each_key_asks_unless_it_says_that_it_does_not(tmp_path: Path) -> None:
    """Of every key of the schema: another value is another part, or the key is declared and in the docs' list."""

    def parts(written: Mapping[str, Any]) -> set[str]:
        file = tmp_path / "zeus-serve.yaml"
        file.write_text(json.dumps(written))
        found = examine_settings(file, directory=tmp_path, environ={}).parts()
        return {each.digest for each in found}

    for name in ("one.pem", "two.pem", "first.key", "other.key"):
        (tmp_path / name).write_text("x")
    issuer = {"issuer": "http://127.0.0.1:9", "audience": "zeus"}
    given = {each.key: (each.given, with_key(each.given, each.key, each.value)) for each in FLIPS}
    given["storage.url"] = ({}, {"storage": {"url": "postgresql://ann@127.0.0.1/db"}})
    for key, value in (("file_bytes", 2000), ("files_bytes", 2000), ("files_max_age_days", 1)):
        given[f"limits.{key}"] = ({}, {"limits": {key: value}})
    changed = {key: value for key, (value, *_) in ISSUED.items()} | {"keys_max_age_seconds": 60}
    for key, value in changed.items():
        given[f"oidc.{key}"] = ({"oidc": [issuer]}, {"oidc": [with_key(issuer, key, value)]})
    asks = {key for key, (before, after) in given.items() if parts(after) - parts(before)}
    free = set(declared(Settings))
    assert given.keys() == set(leaves(settings_schema()))
    assert asks == given.keys() - free
    text = Path("docs/explanation/trust.md").read_text()
    (listed,) = re.findall(r"^These keys ask nothing: (.+?)\.$", text, re.MULTILINE)
    names = set(re.findall(r"`([a-z_.]+)`", listed))
    # A section's name stands for all of its keys.
    assert {key for key in given if key in names or key.partition(".")[0] in names} == free


def test_the_order_of_roles_is_in_the_digest_and_defaults_are_not_another_entry(tmp_path: Path) -> None:
    def part(**more: Any) -> Part:
        entry = {"issuer": "https://id.example", "audience": "zeus", **more}
        (tmp_path / "zeus-serve.yaml").write_text(json.dumps({"oidc": [entry]}))
        (found,) = examine_settings(None, directory=tmp_path, environ={}).parts()
        return found

    first = part(roles={"staff": "viewer", "heads": "admin"})
    assert first.digest != part(roles={"heads": "admin", "staff": "viewer"}).digest
    assert part().digest == part(default_role="viewer", agents=None).digest
    assert str(first) == "issuer 'https://id.example'"
    shown = dict(first.lines)
    assert shown["audience"] == "zeus"
    assert shown["roles"] == '{"staff": "viewer", "heads": "admin"}'
    assert {each.name for each in fields(Issuer)} <= shown.keys()


async def test_keys_and_the_audit_log_on_postgresql_through_a_running_service(
    tmp_path: Path, postgres_url: str
) -> None:
    written = {"storage": {"url": postgres_url}}
    scene = Scene(tmp_path, written)
    async with scene.client() as (client, _, database):
        reader = bearer(await made(database, "reader", user="ann", scopes=("read",)))
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        assert (await client.get(f"/v1/sessions/{session}", headers=reader)).status_code == 200
        assert (await client.post("/v1/sessions", json={}, headers=reader)).status_code == 403
        assert "reader" in await said(tmp_path, "keys", "list")
        rotated = (await said(tmp_path, "keys", "rotate", "ann", "--overlap", "0m")).strip().splitlines()[-1]
        assert (await client.get("/v1/agents")).status_code == 401
        client.headers.update(bearer(rotated))
        assert (await client.get(f"/v1/sessions/{session}")).status_code == 200
        await said(tmp_path, "keys", "revoke", "ann")
        assert (await client.get("/v1/agents")).status_code == 401
        found = await entries(database)
        assert [(each.action, each.outcome) for each in found] == [
            ("POST /v1/sessions", "done"),
            ("POST /v1/sessions/{session}/runs", "done"),
            ("POST /v1/sessions", "forbidden"),
        ]
        assert session in await said(tmp_path, "audit")


@pytest.mark.parametrize("name", ["settings.yaml", "zeus-serve.yaml"])
def test_no_tool_reaches_the_files_that_decide_about_a_service(tmp_path: Path, name: str) -> None:
    """Those of the service that runs, and of one that the next `zeus serve` in the folder would be."""
    (tmp_path / "zeus.yaml").write_text("version: 1\nmodel: gpt-4o\ntools: [filesystem]\n")
    tls = {"certificate": "tls/chain.pem", "key": "${KEYS:-tls}/own.key"}
    (tmp_path / name).write_text(json.dumps({"tls": tls, "storage": {"url": "sqlite:///k.db"}}))
    (tmp_path / "tls").mkdir()
    others = ["k.db", "tls/chain.pem", "tls/own.key"]
    for each in others:
        (tmp_path / each).write_text("x")
    read = read_settings(tmp_path / name, directory=tmp_path, environ={})
    with chdir(tmp_path):
        process, which = Process(), ConfigArgs("zeus.yaml")
        is_served = name == "settings.yaml"
        checked = _reader(process, which, read, ())(()) if is_served else read_config(process, which)
    files = make_plan(checked).context.workspace
    with calling("read_file"):
        assert files.read("/zeus.yaml", max_bytes=1_000)
        for each in (name, *others):
            with pytest.raises(WorkspaceError, match="decides who may use a service"):
                files.read(f"/{each}", max_bytes=1_000)
            with pytest.raises(WorkspaceError, match="decides who may use a service"):
                files.write(f"/{each}", b"y")


def test_no_tool_reaches_what_the_settings_of_a_service_extend(tmp_path: Path) -> None:
    """Nor the database and the key that an extended file names, from its own folder."""
    (tmp_path / "zeus.yaml").write_text("version: 1\nmodel: gpt-4o\ntools: [filesystem]\n")
    (tmp_path / "ops").mkdir()
    (tmp_path / "zeus-serve.yaml").write_text("extends: ./ops/base.yaml\n")
    base = {"extends": "./limits.yaml", "tls": {"certificate": "chain.pem", "key": "own.key"}}
    (tmp_path / "ops/base.yaml").write_text(json.dumps(base))
    (tmp_path / "ops/limits.yaml").write_text(
        json.dumps({"extends": "./absent.yaml", "storage": {"url": "sqlite:///k.db"}})
    )
    for each in ("ops/chain.pem", "ops/own.key", "k.db"):
        (tmp_path / each).write_text("x")
    with chdir(tmp_path):
        checked = read_config(Process(), ConfigArgs("zeus.yaml"))
    files = make_plan(checked).context.workspace
    with calling("write_file"):
        for each in (
            "ops/base.yaml",
            "ops/limits.yaml",
            "ops/absent.yaml",
            "ops/chain.pem",
            "ops/own.key",
            "k.db",
        ):
            with pytest.raises(WorkspaceError, match="decides who may use a service"):
                files.read(f"/{each}", max_bytes=1_000)
            with pytest.raises(WorkspaceError, match="decides who may use a service"):
                files.write(f"/{each}", b"y")
        assert files.write("/ops/notes.md", b"y")


def test_keys_of_an_issuer_may_arrive_over_http_from_this_machine_alone(tmp_path: Path) -> None:
    for host, is_refused in (
        ("127.0.0.2", False),
        ("LocalHost", False),
        ("127.08.0.1", True),
        ("localho\u017ft", True),
    ):
        scene = Scene(tmp_path, {"oidc": [{"issuer": f"http://{host}:9000", "audience": "zeus"}]})
        if is_refused:
            with pytest.raises(ConfigError, match="can be replaced on their way"):
                _ = scene.settings
        else:
            assert scene.settings.oidc[0].issuer == f"http://{host}:9000"
