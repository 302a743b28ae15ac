"""The keys of a server that count as covered by its digest are those that its digest has."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

import pytest

from zeus_runtime.config.mcp import McpServer, OAuthClient
from zeus_runtime.plan.carried_secrets import ADDRESSES, IN_DIGEST
from zeus_runtime.plan.executed_parts import used_server
from zeus_runtime.trust.parts import Command, Project, command_part, remote_part

OTHERS: Final[dict[str, Any]] = {
    "env": {"A": "b"},
    "headers": {"A": "b"},
    "access": {"a": "read"},
    "prompts": {"a": {"b": "c"}},
    "oauth": OAuthClient(client_id="a"),
    "args": ("a",),
    "data": ("a",),
}
STARTED: Final = McpServer(command="server")
REMOTE: Final = McpServer(url="https://a.example")
NO_TEXT: Final = frozenset({"disabled", "preset"})
"""Keys that decide about the server too, and cannot hold a secret."""


@pytest.mark.parametrize("key", [each.name for each in fields(McpServer)])
def test_a_key_counts_as_in_the_digest_if_the_digest_has_it(key: str, tmp_path: Path) -> None:
    def digest(server: McpServer) -> str | None:
        used = used_server("s", server)
        if isinstance(used, Command):
            return command_part(used, Project(tmp_path, (tmp_path,), "", "")).digest
        return None if used is None else remote_part(used).digest

    if key in NO_TEXT:
        return
    changed = {key: OTHERS.get(key, "https://b.example")}
    bases = [STARTED, REMOTE, McpServer()]
    assert any(digest(replace(each, **changed)) != digest(each) for each in bases) == (key in IN_DIGEST)


def test_the_addresses_of_a_server_are_in_its_digest() -> None:
    assert set(ADDRESSES) <= IN_DIGEST
