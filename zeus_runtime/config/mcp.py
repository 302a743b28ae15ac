"""MCP servers and connectors in a config, and checks of them that a schema cannot express.

Annotations are not postponed, as in ``config.model``.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from zeus_runtime.config.schema.markers import Alias, Doc, FileRelative, Maximum, MaxLength, Minimum, Pattern
from zeus_runtime.config.secrets.connection_strings import is_misread
from zeus_runtime.config.secrets.masking import Secret
from zeus_runtime.disk_paths import expanded
from zeus_runtime.frozen import dataclass

TransportName: TypeAlias = Literal[
    "stdio", "http", "streamable-http", "streamable_http", "streamableHttp", "sse"
]
Preset: TypeAlias = Literal["github", "gmail"]

PRESETS: Final[Mapping[Preset, str]] = {
    "github": "https://api.githubcopilot.com/mcp/",
    "gmail": "https://gmailmcp.googleapis.com/mcp/v1",
}
"""Preset to the address of its server, as the provider documents it; both need a client id from the user."""

_MAX_PREFIX_CHARACTERS: Final = 40

_ISSUERS: Final[Mapping[Preset, str]] = {
    "github": "https://github.com/login/oauth",
    "gmail": "https://accounts.google.com",
}
"""Preset to the issuer of its accounts, as the metadata of its authorisation server has it."""


@dataclass(frozen=True)
class OAuthClient:
    """The OAuth client that Zeus is to a server, where the server does not let it register itself."""

    client_id: Annotated[str | None, Doc("The client's id; null registers one.")] = None
    client_secret: Annotated[Secret | None, Doc("The client's secret, such as ${GITHUB_CLIENT_SECRET}.")] = (
        None
    )
    issuer: Annotated[
        str | None,
        Pattern(r"^(https://[^/?#@\s]+|http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?)(/[^?#\s]*)?$"),
        Doc(
            "The only authorisation server that gets the account, exactly as its metadata has it; needed beside"
            " client_secret. null: the preset's, or whichever the server names."
        ),
    ] = None
    scopes: Annotated[tuple[str, ...], Doc("What to ask for; none asks for what the server names.")] = ()
    redirect_port: Annotated[
        int | None,
        Doc("The port on 127.0.0.1 that `zeus auth login` listens on; null takes any that is free."),
        Minimum(1),
        Maximum(65_535),
    ] = None


@dataclass(frozen=True)
class McpServer:
    """An MCP server: a command that Zeus starts, or an address. Entries of other clients can be pasted as they are."""

    command: Annotated[str | None, Doc("The program that is the server (stdio).")] = None
    args: Annotated[tuple[str, ...], Doc("Its arguments.")] = ()
    env: Annotated[
        Mapping[str, str],
        Doc("Its environment, besides PATH, HOME and the like; nothing else of Zeus's own is passed on."),
    ] = field(default_factory=dict)
    cwd: Annotated[
        str | None, Doc("Its working directory; relative to Zeus's own. `~` is the home folder.")
    ] = None
    data: Annotated[
        tuple[str, ...],
        Doc(
            "Files and folders that it changes itself, as its arguments name them: their content is not part of what"
            " you allow, and tools may change them. Not what the command starts (docs/explanation/trust.md)."
        ),
    ] = ()
    url: Annotated[str | None, Pattern(r"^https?://[^/\s]"), Doc("The address of a remote server.")] = None
    server_url: Annotated[
        str | None, Alias("serverUrl"), Pattern(r"^https?://[^/\s]"), Doc("The same as url.")
    ] = None
    http_url: Annotated[
        str | None, Alias("httpUrl"), Pattern(r"^https?://[^/\s]"), Doc("The same as url.")
    ] = None
    type: Annotated[
        TransportName | None,
        Doc(
            "How to speak to it; null: stdio for a command, streamable HTTP for an address. `sse` is the older"
            " transport."
        ),
    ] = None
    headers: Annotated[Mapping[str, str], Doc("Headers of every request to a remote server.")] = field(
        default_factory=dict
    )
    disabled: Annotated[bool, Doc("Leave this server out.")] = False
    preset: Annotated[Preset | None, Doc("A known remote server: its address, with OAuth.")] = None
    auth: Annotated[
        Literal["oauth"] | None,
        Doc(
            "OAuth 2.1: authorise it once with `zeus auth login NAME`; its tools are of the category `oauth`."
        ),
    ] = None
    oauth: Annotated[OAuthClient, Doc("How to authorise.")] = field(default_factory=OAuthClient)
    prefix: Annotated[
        str | None,
        Pattern("^[A-Za-z0-9_-]*$"),
        MaxLength(_MAX_PREFIX_CHARACTERS),
        Doc(
            "What its tools' names begin with, before `__`; null: the server's name, an empty text: no prefix."
        ),
    ] = None
    allow: Annotated[
        tuple[str, ...] | None, Doc("Only these of its tools, by the server's own names; null for all.")
    ] = None
    deny: Annotated[tuple[str, ...], Doc("Not these of its tools.")] = ()
    access: Annotated[
        Mapping[str, Literal["read", "write"]],
        Doc(
            "Tool to what it does; else `read` for those the server marks as read-only, `write` for the rest."
        ),
    ] = field(default_factory=dict)
    prompts: Annotated[
        Mapping[str, Mapping[str, str]],
        Doc("Its prompt templates that stand in section 10, each with its arguments."),
    ] = field(default_factory=dict)
    discoverable: Annotated[
        bool | None,
        Doc(
            "List its tools by name and one line, and give their schemas on demand; null: when all schemas together"
            " take more of the window than the option schema_share of `mcp`."
        ),
    ] = None
    timeout_seconds: Annotated[float, Doc("How long one call may take."), Minimum(0.001)] = 1_800
    start_timeout_seconds: Annotated[
        float | None,
        Doc(
            "How long a run waits for it to start; afterwards its tools join when they are there. null: twice as long"
            " as its last start took, 2 to 10 seconds, and 2 seconds for a server that has not started yet."
        ),
        Minimum(0),
    ] = None
    include_tools: Annotated[tuple[str, ...] | None, Alias("includeTools"), Doc("The same as allow.")] = None
    exclude_tools: Annotated[tuple[str, ...], Alias("excludeTools"), Doc("The same as deny.")] = ()
    disabled_tools: Annotated[tuple[str, ...], Alias("disabledTools"), Doc("The same as deny.")] = ()
    auto_approve: Annotated[
        tuple[str, ...],
        Alias("autoApprove"),
        Doc("Only empty: what may run unasked is the approvals' affair."),
    ] = ()
    always_allow: Annotated[
        tuple[str, ...],
        Alias("alwaysAllow"),
        Doc("Only empty: what may run unasked is the approvals' affair."),
    ] = ()
    trust: Annotated[bool, Doc("Only false: what may run unasked is the approvals' affair.")] = False
    timeout: Annotated[
        float | None, Doc("Only null: clients mean seconds or milliseconds; write timeout_seconds.")
    ] = None
    env_file: Annotated[
        str | None, Alias("envFile"), Doc("Only null: write ${VAR} under env; .env is read beside the YAML.")
    ] = None

    def __post_init__(self) -> None:
        # Here, and not where the server is started: its digest, its rules and its process must mean one folder.
        if self.cwd is not None and self.cwd.startswith("~"):
            object.__setattr__(self, "cwd", str(expanded(self.cwd)))

    @property
    def address(self) -> str | None:
        """Where a remote server is."""
        preset = None if self.preset is None else PRESETS[self.preset]
        return self.url or self.server_url or self.http_url or preset

    @property
    def issuer(self) -> str | None:
        """The only authorisation server that gets its account; None for whichever the server names."""
        preset = None if self.preset is None else _ISSUERS[self.preset]
        return self.oauth.issuer or preset

    @property
    def sent(self) -> Mapping[str, Mapping[str, object]]:
        """What else reaches the server: the arguments of its prompts, the OAuth client, and the user's account.

        Secrets are in clear; of the account, only that it is used.
        """
        own = self.oauth
        secret = None if own.client_secret is None else own.client_secret.reveal()
        client = {
            "client_id": own.client_id,
            "client_secret": secret,
            "issuer": self.issuer,
            "scopes": " ".join(own.scopes),
        }
        sent: Mapping[str, Mapping[str, object]] = {
            "prompts": {name: dict(arguments) for name, arguments in self.prompts.items()},
            "oauth": {key: value for key, value in client.items() if value},
            "account": {"auth": "oauth"} if self.authorised and self.address is not None else {},
        }
        return {key: value for key, value in sent.items() if value}

    def prefix_for(self, name: str) -> str:
        """What the names of its tools begin with: ``prefix``, else its name in ``mcpServers`` after the last slash."""
        if self.prefix is not None:
            return self.prefix
        clean = re.sub("[^A-Za-z0-9_-]+", "_", name.rpartition("/")[2]).strip("_")
        if 0 < len(clean) <= _MAX_PREFIX_CHARACTERS:
            return clean
        digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:8]
        return f"{clean[: _MAX_PREFIX_CHARACTERS - len(digest) - 1] or 'server'}_{digest}"

    @property
    def allowed(self) -> tuple[str, ...] | None:
        """The tools it may offer; None for all."""
        return self.allow if self.allow is not None else self.include_tools

    @property
    def denied(self) -> frozenset[str]:
        """The tools it may not offer."""
        return frozenset((*self.deny, *self.exclude_tools, *self.disabled_tools))

    @property
    def authorised(self) -> bool:
        """Whether its tools need an account."""
        return self.auth == "oauth" or self.preset is not None


@dataclass(frozen=True)
class Connector:
    """A server whose tools drive something, with the instructions that section 9 holds while it is connected."""

    server: Annotated[
        str | None, Doc("Which of mcpServers it is; null: for the browser Playwright's server, headless.")
    ] = None
    prompt: Annotated[
        str | None,
        FileRelative(),
        Doc("The file of instructions; null: the Home's, such as prompts/BROWSER.md."),
    ] = None


@dataclass(frozen=True)
class Connectors:
    """What the agent may drive through an MCP server."""

    browser: Annotated[Connector | None, Doc("A browser; null for none.")] = None
    desktop: Annotated[Connector | None, Doc("A desktop; null for none.")] = None


BROWSER_FOLDER: Final = "~/.local/share/zeus-browser"


def browser_server() -> McpServer:
    """The browser's server where the config names none; with a home folder, it starts outside of the project.

    There, no `node_modules` of the project brings another `npx` package or `node`, and no `.npmrc` another registry.
    """
    folder = expanded(BROWSER_FOLDER)
    return McpServer(
        command="npx",
        args=("-y", "@playwright/mcp@latest", "--headless", "--isolated"),
        cwd=str(folder) if folder.is_absolute() else None,
        start_timeout_seconds=30,
    )


class ServerProblem(NamedTuple):
    """What is wrong with a server's entry.

    Args:
        key: which of its keys; None for the entry as a whole.
        message: what is wrong.
        hint: what to do.
    """

    key: str | None
    message: str
    hint: str


_MAX_NAME_CHARACTERS: Final = 128
ENCODE: Final = "write it percent-encoded: %2F is /, %3F is ?, %23 is #"
_ISSUER: Final = (
    "write `issuer: https://...` beside it; the provider's documentation names it, and so does `issuer` in"
    " https://PROVIDER/.well-known/oauth-authorization-server or /.well-known/openid-configuration"
)
_APPROVALS: Final = "remove it; what may run without asking is said by the middleware `approve`"


def server_problems(name: str, server: McpServer) -> Iterator[ServerProblem]:
    """The problems of an entry of ``mcpServers`` that the schema does not find."""
    if not (name.isprintable() and name == name.strip() and 0 < len(name) <= _MAX_NAME_CHARACTERS):
        yield ServerProblem(
            None,
            f"{name!r} is not a valid server name",
            f"use up to {_MAX_NAME_CHARACTERS} characters that can be seen, with no space around them",
        )
    remote = [
        key
        for key, value in (
            ("url", server.url),
            ("serverUrl", server.server_url),
            ("httpUrl", server.http_url),
            ("preset", server.preset),
        )
        if value is not None
    ]
    if server.command is None and not remote:
        yield ServerProblem(
            None, f"the server {name!r} has neither command nor url", "give it one of the two"
        )
    if server.command is not None and remote:
        yield ServerProblem(remote[0], f"the server {name!r} has both command and {remote[0]}", "keep one")
    if len([key for key in remote if key != "preset"]) > 1:
        yield ServerProblem(remote[1], f"the server {name!r} has {' and '.join(remote)}", "keep one")
    for key, value in (("url", server.url), ("serverUrl", server.server_url), ("httpUrl", server.http_url)):
        if value is not None and is_misread(value):
            yield ServerProblem(key, f"the password in {key} has a / ? or # that ends the host", ENCODE)
    if server.oauth.client_secret is not None and server.issuer is None:
        yield ServerProblem("oauth", "client_secret needs issuer, the only server that may get it", _ISSUER)
    if server.type == "stdio" and server.command is None:
        yield ServerProblem("type", "a stdio server needs a command", "write `command:`, or remove `type:`")
    if server.type not in (None, "stdio") and server.command is not None:
        yield ServerProblem("type", f"a command is no {server.type} server", "remove `type:`")
    yield from _useless(server, remote=bool(remote) and server.command is None)
    yield from _refused(server)


def _useless(server: McpServer, *, remote: bool) -> Iterator[ServerProblem]:
    """A problem for each key of the other transport, which would have no effect."""
    given: Mapping[str, object] = (
        {"args": server.args, "env": server.env, "cwd": server.cwd, "data": server.data}
        if remote
        else {"headers": server.headers, "auth": server.auth}
    )
    whose = "remote server" if remote else "server that Zeus starts"
    for key, value in given.items():
        if value:
            yield ServerProblem(key, f"{key} means nothing to a {whose}", "remove it")
    if "" in server.data:
        yield ServerProblem("data", "an entry of data is empty", "name a file or a folder")
    if server.oauth != OAuthClient() and not server.authorised:
        yield ServerProblem("oauth", "oauth is only used with `auth: oauth`", "add it, or remove this")
    if server.allow is not None and server.include_tools is not None:
        yield ServerProblem("includeTools", "includeTools and allow say the same", "keep one")


def _refused(server: McpServer) -> Iterator[ServerProblem]:
    for key, value in (
        ("autoApprove", server.auto_approve),
        ("alwaysAllow", server.always_allow),
        ("trust", server.trust),
    ):
        if value:
            yield ServerProblem(key, f"{key} is not honoured", _APPROVALS)
    if server.timeout is not None:
        yield ServerProblem(
            "timeout",
            "timeout is seconds to some clients and milliseconds to others",
            "write timeout_seconds",
        )
    if server.env_file is not None:
        yield ServerProblem("envFile", "envFile is not read", "write the variables under env as ${VAR}")


def mcp_server(value: object) -> McpServer:
    """An entry of another client's file as a server.

    Raises:
        ValueError: it does not fit; the message says where.
    """
    from zeus_runtime.config.schema.construct import build

    server: McpServer = build(McpServer, value)
    return server
