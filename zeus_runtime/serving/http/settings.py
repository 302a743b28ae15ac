"""The settings of a service: who may use it, and how much. One YAML file, beside the agents' configs."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias, get_type_hints
from urllib.parse import urlsplit

from zeus_runtime.config.document import Document
from zeus_runtime.config.layers.files import SERVICE_FILE
from zeus_runtime.config.layers.loading import load
from zeus_runtime.config.messages.diagnostics import Diagnostic
from zeus_runtime.config.schema.composed import DIALECT
from zeus_runtime.config.schema.construct import BuildError, build
from zeus_runtime.config.schema.markers import Destination, Doc, FileRelative, Maximum, Minimum, MinLength
from zeus_runtime.config.schema.signatures import schema_of
from zeus_runtime.config.schema.types import DOCUMENT
from zeus_runtime.config.schema.validate import check
from zeus_runtime.config.secrets.masking import secrets_of_environment
from zeus_runtime.config.sqlite_url import database_file
from zeus_runtime.config.yaml.sources import Sources
from zeus_runtime.config.yaml.tree import Node

if TYPE_CHECKING:
    from zeus_runtime.config.yaml.tree import Path as SettingPath
    from zeus_runtime.plan.part_sources import FileSource
    from zeus_runtime.trust.decision import Trust
    from zeus_runtime.trust.parts import Part

Role: TypeAlias = Literal["owner", "admin", "editor", "viewer"]
ScopeName: TypeAlias = Literal["run", "approve", "read", "metrics", "admin"]
Algorithm: TypeAlias = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]
"""Signatures by a private key only: a service that knew a shared key could sign for anyone."""

Text: TypeAlias = Annotated[str, MinLength(1)]


class AsksNothing(NamedTuple):
    """The key needs no permission. Only a leaf says so for itself; every other key asks unless it has its default.

    Args:
        why: why no value of it lets anyone else use the agents, or lets a caller do more.
    """

    why: str


_IS_AMOUNT = AsksNothing("how much a caller may ask for, never what")
_IS_KEPT = AsksNothing("how long something is kept or open")
_NEEDS_TOKEN = AsksNothing("a caller still needs the token, a key or an issuer's token")
_IS_SHOWN = AsksNothing("what clients check of the service, or what it writes of itself")


@dataclass(frozen=True)
class ServiceStorage:
    """The service's own database: its keys and its audit log."""

    url: Annotated[
        str,
        Destination(),
        Doc(
            "SQLAlchemy URL of a SQLite or PostgreSQL database. It may be that of an agent. Services that share it "
            "accept the same keys."
        ),
    ] = "sqlite:///.zeus/serve.db"


@dataclass(frozen=True)
class Tls:
    """The certificate that the service shows."""

    certificate: Annotated[Text, _IS_SHOWN, FileRelative(), Doc("A PEM file with the chain of certificates.")]
    key: Annotated[Text, _IS_SHOWN, FileRelative(), Doc("A PEM file with the private key.")]


@dataclass(frozen=True)
class Claims:
    """Which claims of a token tell who its user is. A name with dots is a path: `realm.roles`."""

    user: Annotated[
        Text, Doc("The claim with the user's id; take one that is never given to another user.")
    ] = "sub"
    project: Annotated[
        Text | None, Doc("The claim with the project; null if users work outside projects.")
    ] = None
    role: Annotated[
        Text | None, Doc("The claim with the role in the project: a text, or a list of texts; see `roles`.")
    ] = None
    scopes: Annotated[
        Text | None,
        Doc(
            "The claim with what the user may do: a list, or a text with spaces; see `scopes`. null: no claim."
        ),
    ] = None


@dataclass(frozen=True)
class Issuer:
    """An issuer of JSON Web Tokens, by OpenID Connect discovery."""

    issuer: Annotated[
        Text,
        Doc("Its URL, exactly as in the claim `iss`. Only for loopback it may begin with http://."),
    ]
    audience: Annotated[Text, Doc("The value, or one of the values, of the claim `aud`.")]
    algorithms: Annotated[
        tuple[Algorithm, ...],
        MinLength(1),
        Doc("The signatures that are accepted. A token's own header never chooses another."),
    ] = ("RS256", "ES256")
    clock_skew_seconds: Annotated[
        int, Doc("How far the issuer's clock and this machine's may differ."), Minimum(0), Maximum(600)
    ] = 30
    keys_max_age_seconds: Annotated[
        int, Doc("After so long its keys are read again; an unknown key is looked for at once."), Minimum(10)
    ] = 3600
    claims: Annotated[Claims, Doc("What the claims mean.")] = field(default_factory=Claims)
    roles: Annotated[
        Mapping[str, Role],
        Doc(
            "The claim's value to the role; the first that fits, in this order. Without one: `default_role`."
        ),
    ] = field(default_factory=dict)
    default_role: Annotated[Role, Doc("The role in the project of a user without one.")] = "viewer"
    scopes: Annotated[
        Mapping[str, tuple[ScopeName, ...]],
        Doc("The claim's value to scopes; all that fit. Without one: `default_scopes`."),
    ] = field(default_factory=dict)
    default_scopes: Annotated[
        tuple[ScopeName, ...], Doc("What a user may do whose claim grants nothing; [] for nothing.")
    ] = ("run", "approve", "read")
    agents: Annotated[tuple[Text, ...] | None, Doc("The agents that its users may use; null for all.")] = None


@dataclass(frozen=True)
class ServiceLimits:
    """How much a caller may ask for."""

    requests_per_minute: Annotated[
        int | None,
        _IS_AMOUNT,
        Doc(
            "Requests of a key, and of a user over all keys; null for any number. 429 tells when to try again."
        ),
        Minimum(1),
    ] = 600
    burst: Annotated[int, _IS_AMOUNT, Doc("Requests at once, after a pause."), Minimum(1)] = 100
    open_requests: Annotated[
        int,
        _IS_AMOUNT,
        Doc("Requests of a user that are answered at the same time, streams included."),
        Minimum(1),
    ] = 100
    failed_logins_per_minute: Annotated[
        int,
        _IS_AMOUNT,
        Doc("Wrong tokens that an address may send before its tokens are refused unread."),
        Minimum(1),
    ] = 30
    connections: Annotated[
        int | None,
        _IS_AMOUNT,
        Doc("Connections that the service holds at the same time; null for any number."),
        Minimum(1),
    ] = 2000
    body_bytes: Annotated[int, _IS_AMOUNT, Doc("The largest body of a request."), Minimum(1000)] = 4_000_000
    file_bytes: Annotated[
        int, _IS_AMOUNT, Doc("The largest file that a client may upload."), Minimum(1000)
    ] = 25_000_000
    files_bytes: Annotated[
        int, _IS_AMOUNT, Doc("All files together that a user may have uploaded at a time."), Minimum(1000)
    ] = 500_000_000
    files_max_age_days: Annotated[
        float,
        _IS_AMOUNT,
        Doc("After so long an uploaded file is deleted; what was sent with it stays."),
        Minimum(0.01),
    ] = 7.0
    header_bytes: Annotated[int, _IS_AMOUNT, Doc("The largest head of a request."), Minimum(1000)] = 32_000


@dataclass(frozen=True)
class OpenAgents:
    """How long a user's agent stays open, with its connections, after the user's last request."""

    most_open: Annotated[
        int,
        _IS_KEPT,
        Doc(
            "Users of one config whose agents are open; beyond it, those that were not used for longest are closed. "
            "One with a turn or a backtest that runs, or an open request, stays."
        ),
        Minimum(1),
    ] = 200
    idle_seconds: Annotated[
        float,
        _IS_KEPT,
        Doc("An agent that nobody uses is closed after so long; a later request opens it again."),
        Minimum(0),
    ] = 900


@dataclass(frozen=True)
class Audit:
    """The audit log."""

    max_age_days: Annotated[
        float | None,
        _IS_KEPT,
        Doc(
            "Entries that are older are removed, once a day; null keeps all. The database removes none that is younger "
            "than 30 days."
        ),
        Minimum(30),
    ] = None


@dataclass(frozen=True)
class Cors:
    """Which other sites' pages may send requests. They send a token; the page's cookie stays its own."""

    origins: Annotated[
        tuple[Text, ...], _NEEDS_TOKEN, Doc("Such as https://app.example.org; `*` is refused.")
    ] = ()


@dataclass(frozen=True)
class Settings:
    """A service's settings."""

    storage: Annotated[ServiceStorage, Doc("The database of keys and of the audit log.")] = field(
        default_factory=ServiceStorage
    )
    hosts: Annotated[
        tuple[Text, ...],
        _NEEDS_TOKEN,
        Doc(
            "The names under which clients reach the service; requests to others are refused. [] for those of "
            "this machine if it listens on loopback, otherwise for any."
        ),
    ] = ()
    tls: Annotated[Tls | None, Doc("Its certificate; null if a proxy has it.")] = None
    proxies: Annotated[
        tuple[Text, ...],
        Doc("Addresses of proxies, whose headers X-Forwarded-For and X-Forwarded-Proto are believed."),
    ] = ()
    oidc: Annotated[tuple[Issuer, ...], Doc("Whose tokens are accepted besides keys.")] = ()
    limits: Annotated[ServiceLimits, Doc("How much a caller may ask for.")] = field(
        default_factory=ServiceLimits
    )
    agents: Annotated[OpenAgents, Doc("How long users' agents stay open.")] = field(
        default_factory=OpenAgents
    )
    audit: Annotated[Audit, Doc("How long the audit log is kept.")] = field(default_factory=Audit)
    cors: Annotated[Cors, Doc("Which other sites' pages may send requests.")] = field(default_factory=Cors)
    access_log: Annotated[
        Literal["text", "json", "off"],
        _IS_SHOWN,
        Doc("The form of the line for each request, on standard error."),
    ] = "text"


@dataclass(frozen=True)
class ReadSettings:
    """The settings, and where they were written.

    Args:
        settings: what holds.
        document: the positions; without a file its ``files`` are empty.
        trust: the user's permission for what they name.
    """

    settings: Settings
    document: Document
    trust: Trust

    def parts(self) -> Sequence[Part]:
        """The parts of the settings that need permission, as the disk is now.

        They decide who may use the agents: a database that this user's Zeus did not make has keys of others in it, and
        an issuer signs tokens. And they lead elsewhere, as those of a config do.
        """
        from zeus_runtime.plan.executed_parts import elsewhere_part, foreign_database, named_parts
        from zeus_runtime.plan.part_sources import FileSource

        document, directory, path = self.document, self.document.directory, ("storage", "url")
        ground = FileSource(document, self.trust, installed=())
        found = [*named_parts(ground)] if document.files else []
        file = database_file(self.settings.storage.url, directory)
        if file is not None:
            where = str(document.position(path)) if document.files else ""
            found += elsewhere_part(ground, path, file, "writes") if document.files else ()
            found += foreign_database(file, self.trust, "service", directory=directory, where=where)
        return [*found, *self._deciding(ground, {each.name for each in found})]

    def _deciding(self, ground: FileSource, asked: Container[str]) -> Iterator[Part]:
        """The parts of the keys that decide who may use the agents, or what a caller may do.

        Args:
            asked: the keys that ask already.
        """
        from zeus_runtime.plan.part_sources import mask_of, with_owner

        document = self.document
        for path, value in deciding_values(self.settings):
            if path == ("storage", "url") and self._has_own_rule(value):
                continue
            from zeus_runtime.trust.parts import issuer_part, option_part

            where, mask = str(document.position(path)), mask_of(document, self.trust)
            if isinstance(value, Issuer):
                yield with_owner(ground, issuer_part(asdict(value), mask=mask, where=where))
            elif (address := document.address(path)) not in asked:
                text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                yield with_owner(ground, option_part(address, text, None, mask=mask, where=where))

    def _has_own_rule(self, url: str) -> bool:
        """Whether a database asks by who made it (SQLite), or the process itself was given its address."""
        is_given = any(self.document.environ.get(name) == url for name in self.trust.variables)
        return is_given or database_file(url, self.document.directory) is not None


def deciding_values(section: Any, path: SettingPath = ()) -> Iterator[tuple[SettingPath, Any]]:
    """The values that decide who may use the agents: all that differ from their default and do not say ``AsksNothing``.

    An entry of a list of sections is one value, with all its keys.
    """
    hints = get_type_hints(type(section), include_extras=True)
    for each in fields(section):
        value, here = getattr(section, each.name), (*path, each.name)
        if is_dataclass(value):
            yield from deciding_values(value, here)
        elif any(isinstance(mark, AsksNothing) for mark in hints[each.name].__metadata__):
            continue
        elif isinstance(value, tuple) and any(map(is_dataclass, value)):
            yield from (((*here, place), entry) for place, entry in enumerate(value))
        elif value != (each.default if each.default_factory is MISSING else each.default_factory()):
            yield here, value


def settings_schema() -> dict[str, Any]:
    """The JSON Schema of a service's settings. As in a config, ``x-*`` keys at the top are free."""
    head = {"$schema": DIALECT, "title": "Zeus runtime service settings", DOCUMENT: "a service's settings"}
    return {**head, **schema_of(Settings), "patternProperties": {"^x-": True}}


def read_settings(file: Path | None, *, directory: Path, environ: Mapping[str, str]) -> ReadSettings:
    """Read and check a service's settings. As in a config, ``${NAME}`` is a variable.

    Args:
        file: None for ``zeus-serve.yaml`` in the working directory, if there is one.
        directory: the working directory.

    Raises:
        ConfigError: with every problem.
        UntrustedError: they name machines or files elsewhere, or a database, that the user has not allowed.
    """
    found = examine_settings(file, directory=directory, environ=environ)
    found.trust.require(found.parts())
    return found


def default_settings(*, directory: Path, environ: Mapping[str, str]) -> ReadSettings:
    """The settings of a service that has no file of them.

    Raises:
        UntrustedError: the user has not allowed the database.
    """
    found = _defaults(directory, environ)
    found.trust.require(found.parts())
    return found


def _defaults(directory: Path, environ: Mapping[str, str]) -> ReadSettings:
    document = Document(
        source=SERVICE_FILE,
        path=None,
        root=Node({}, ()),
        sources=Sources({}, secrets_of_environment(environ)),
        folders={},
        files={},
        environ=environ,
        directory=directory,
    )
    return ReadSettings(Settings(), document, _trust(document, None, environ))


def _trust(document: Document, file: Path | None, environ: Mapping[str, str]) -> Trust:
    from zeus_runtime.plan.validated import trust_of

    return trust_of(document, ["--serve", *([] if file is None else [str(file)])], environ=environ)


def examine_settings(file: Path | None, *, directory: Path, environ: Mapping[str, str]) -> ReadSettings:
    """The same as ``read_settings``, also for what is not trusted, which nobody may open then."""
    if file is None and not (directory / SERVICE_FILE).is_file():
        return _defaults(directory, environ)
    loaded = load(directory / (file or SERVICE_FILE), environ=environ, directory=directory)
    document = check(loaded, settings_schema())
    try:
        own = {key: value for key, value in document.value.items() if not key.startswith("x-")}
        settings: Settings = build(Settings, own)
    except BuildError as error:
        raise document.error([document.diagnostic(error.path, "wrong-type", error.message)]) from None
    problems = list(_problems(document, settings))
    if problems:
        raise document.error(problems)
    return ReadSettings(settings, document, _trust(document, file, environ))


def _problems(document: Document, settings: Settings) -> Iterator[Diagnostic]:
    from zeus_runtime.trust.parts import is_this_machine

    for place, origin in enumerate(settings.cors.origins):
        parts = urlsplit(origin)
        own = f"{parts.scheme}://{parts.netloc}"
        # Takes `https://app.example.org`, and not the same with a slash at its end: the header `Origin` has none.
        if parts.scheme not in ("http", "https") or not parts.netloc or origin != own:
            yield document.diagnostic(
                ("cors", "origins", place),
                "wrong-value",
                f"{origin!r} is not the origin of a site",
                hint="write scheme and host, such as https://app.example.org",
            )
    seen: set[str] = set()
    for place, issuer in enumerate(settings.oidc):
        parts = urlsplit(issuer.issuer)
        here = ("oidc", place, "issuer")
        # OpenID Connect Discovery 1.0, section 3: an issuer has neither a query nor a fragment.
        if not parts.hostname or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
            yield document.diagnostic(
                here, "wrong-value", f"{issuer.issuer!r} is not a URL", hint="write https://HOST/PATH"
            )
        elif parts.scheme != "https" and not is_this_machine(parts.hostname):
            yield document.diagnostic(
                here,
                "wrong-value",
                "keys that arrive over http:// can be replaced on their way",
                hint="write https://",
            )
        if issuer.issuer in seen:
            yield document.diagnostic(
                here, "wrong-value", f"{issuer.issuer!r} is named twice", hint="join the two entries"
            )
        seen.add(issuer.issuer)
    if settings.tls is not None:
        for key, file in (("certificate", settings.tls.certificate), ("key", settings.tls.key)):
            if not Path(file).is_file():
                yield document.diagnostic(
                    ("tls", key), "file-not-found", f"there is no file {file!r}", hint="correct the path"
                )
