"""Of the secrets in the environment, an address of a config gets only those that the question names."""

from __future__ import annotations

import asyncio
import os
import re
from base64 import b64decode
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, cast

import pytest
from zeus_plugins.checkpointers.postgres.saver import PostgresSaver
from zeus_plugins.middlewares.hooks import http as hooks
from zeus_plugins.searches.tavily import search as tavily
from zeus_plugins.vector_stores.chroma.opening import open_server

from zeus_runtime.config.schema.markers import DESTINATION
from zeus_runtime.plan.parts_with_subagents import all_parts
from zeus_runtime.plan.validated import examine_config
from zeus_runtime.registry.schema import read_schema, schema_file
from zeus_runtime.serving.http import oidc
from zeus_runtime.serving.http.settings import Issuer, settings_schema
from zeus_runtime.store import postgres

pytest.importorskip("chromadb")


async def by_chroma(url: str) -> None:
    await asyncio.to_thread(open_server, url, {})


async def by_hook(url: str) -> None:
    async with hooks.client() as client:
        await hooks.answer_at(client, url, {}, b"{}", seconds=5)


async def by_tavily(url: str) -> None:
    context = cast(Any, SimpleNamespace(environ=os.environ))
    await tavily.create(tavily.Options(base_url=url), context).search("x", max_results=1)


async def by_issuer(url: str) -> None:
    await oidc._Keys(Issuer(url, "zeus")).key("x")


async def by_storage(url: str) -> None:
    await asyncio.to_thread(lambda: postgres.Server(url, "").connect())


async def by_checkpointer(url: str) -> None:
    await PostgresSaver(url).setup()


class Row(NamedTuple):
    """How a component opens its address, and what it takes from the environment.

    Attributes:
        line: the YAML, with ``{}`` for the address; empty for the settings of a service, whose question names no key.
        variables: the secrets that its library reads from the environment, with what makes the library read them.
    """

    line: str
    opens: Callable[[str], Awaitable[None]]
    variables: dict[str, str]
    scheme: str = "http"


CHROMA: Final = {
    "CHROMA_CLIENT_AUTH_PROVIDER": "chromadb.auth.token_authn.TokenAuthClientProvider",
    "CHROMA_CLIENT_AUTH_CREDENTIALS": "canary~CHROMA_CLIENT_AUTH_CREDENTIALS",
    "CHROMA_SERVER_HEADERS": '{"X-Team": "canary~CHROMA_SERVER_HEADERS"}',
    "CHROMA_API_KEY": "canary~CHROMA_API_KEY",
}
POSTGRES: Final = {"PGPASSWORD": "canary~PGPASSWORD", "PGUSER": "ann"}
ROWS: Final = {
    "checkpointer.postgres": Row(
        "checkpointer: {{postgres: {{url: '{}'}}}}", by_checkpointer, POSTGRES, "postgresql"
    ),
    "middleware.hooks": Row("middlewares: [{{hooks: {{before_run: [{{url: '{}'}}]}}}}]", by_hook, {}),
    "oidc": Row("", by_issuer, {}),
    "search.tavily": Row(
        "tools: [{{web: {{search: {{tavily: {{base_url: '{}'}}}}}}}}]",
        by_tavily,
        {"TAVILY_API_KEY": "canary~TAVILY_API_KEY"},
    ),
    "storage": Row("storage: {{url: '{}'}}", by_storage, POSTGRES, "postgresql"),
    "vector_store.chroma": Row("memory: {{vector_store: {{chroma: {{url: '{}'}}}}}}", by_chroma, CHROMA),
}
"""By the first name in the schema. A component that is new here needs its library's variables."""
WITH_MANY: Final = {"embedding.litellm", "model.litellm"}
"""Their library reads hundreds of variables: models/test_own_keys.py holds this law for them."""


def test_every_component_that_names_an_address_has_a_row() -> None:
    # An issuer has a part of its own, so its schema marks no address.
    named = owners(read_schema(schema_file())) | owners(settings_schema()) | {"oidc"}
    assert named == ROWS.keys() | WITH_MANY


def owners(schema: dict[str, Any]) -> set[str]:
    parts = {**schema["properties"], **schema.get("$defs", {})}
    return {name for name, part in parts.items() if f"'{DESTINATION}'" in repr(part)}


@pytest.mark.parametrize("name", ROWS)
async def test_an_address_gets_no_secret_that_the_question_does_not_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = ROWS[name]
    login = tmp_path / "netrc"
    login.write_text("default login ann password canary~NETRC\n")
    login.chmod(0o600)
    for variable, value in {"NETRC": str(login), **row.variables}.items():
        monkeypatch.setenv(variable, value)
    got = await received(row)
    assert got, "the component opens its address"
    assert set(re.findall(rb"canary~(\w+)", readable(got))) == {each.encode() for each in told(row, tmp_path)}


def told(row: Row, folder: Path) -> set[str]:
    """The variables that the question about an address elsewhere names."""
    if not row.line:
        return set()
    config = folder / "zeus.yaml"
    line = row.line.format(f"{row.scheme}://elsewhere.example")
    config.write_text(f"version: 1\nmodel: gpt-4o\n{line}\n")
    (part,) = all_parts(examine_config(config, directory=folder, environ=os.environ))
    return {text.removeprefix("your ") for label, text in part.lines if label == "with"}


def readable(sent: bytes) -> bytes:
    """What was sent, and the logins in it as text."""
    return sent + b"".join(map(b64decode, re.findall(rb"Basic (\S+)", sent)))


async def received(row: Row) -> bytes:
    """All that a server of HTTP and PostgreSQL gets from a component, which stays without an answer."""
    got = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(65536):
            got.extend(piece)
            if piece[:4] == b"\0\0\0\x08":  # it asks for TLS or GSSAPI
                writer.write(b"N")
            elif piece[0] == 0:  # the greeting: a password in clear text is wanted
                writer.write(b"R\0\0\0\x08\0\0\0\x03")
            else:
                writer.write(b"HTTP/1.1 404 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                break
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with suppress(Exception):  # whatever it says: only what it sent counts
            await row.opens(f"{row.scheme}://127.0.0.1:{port}")
    return bytes(got)
