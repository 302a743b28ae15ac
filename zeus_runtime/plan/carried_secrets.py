"""The options of a config with a secret of the process's environment: a variable put it there, or they name one."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from zeus_runtime.config.schema.walk import walk_with
from zeus_runtime.config.secrets.placeholders import is_searched, placeholder
from zeus_runtime.config.secrets.secret_names import holds_headers
from zeus_runtime.config.secrets.secrets_in_values import secrets_in
from zeus_runtime.config.yaml.tree import walk

if TYPE_CHECKING:
    from zeus_runtime.config import Document
    from zeus_runtime.config.mcp import McpServer
    from zeus_runtime.config.yaml.tree import Node, Path
    from zeus_runtime.trust.decision import Trust
    from zeus_runtime.trust.parts import Remote


class Carried(NamedTuple):
    """An option with a secret of the environment.

    Args:
        path: its place.
        value: a text or, from digits, a number; of a text that names the variables, it and their values.
        names: the variables that the secrets are from.
        shown: the value with all known secrets masked.
        is_declared: its type says that it is a secret, as that of ``api_key`` does.
    """

    path: Path
    value: object
    names: tuple[str, ...]
    shown: str
    is_declared: bool


def carried_secrets(document: Document, trust: Trust) -> tuple[Carried, ...]:
    """Every option of a checked config with a secret of the environment.

    A literal is the project's own, whatever it says, and so is a variable of its ``.env``. But a library may read a
    literal as the name of a variable. A sub-agent's ``overrides`` are in the sub-agent's own document.
    """
    found = {
        path: names
        for path, node in walk(document.root)
        if node.variables and (names := _names(node, trust)) and not _is_laid_over(path)
    }
    called = {
        each.path: names
        for each in document.marked
        if each.may_name_file and each.path not in found and (names := _called(each.text, trust))
    }
    return tuple(_carried(document, trust, found | called, called)) if found or called else ()


ADDRESSES: Final = ("url", "serverUrl", "httpUrl")
IN_DIGEST: Final = frozenset(
    {
        *("command", "args", "env", "cwd", "data", "headers", "prompts", "oauth"),
        *ADDRESSES,
        *("server_url", "http_url"),
    }
)
"""The keys of a server that its digest covers, as a config and as ``McpServer`` write them."""


def gets_secret(server: Remote, trust: Trust) -> bool:
    """Whether a server gets a secret of the environment, besides one that is declared to be this server's."""
    prompts, client = server.sent.get("prompts", {}), dict(server.sent.get("oauth", {}))
    client.pop("client_secret", None)
    return bool(_held([server.headers, prompts, client], trust))


def other_secrets(server: McpServer, trust: Trust) -> Iterator[tuple[str, object, tuple[str, ...]]]:
    """The keys of a server, outside of its digest, that hold secrets of the environment: key, value, names."""
    from dataclasses import fields

    for key in (each.name for each in fields(server) if not server.disabled):
        if key not in IN_DIGEST and (names := _held(value := getattr(server, key), trust)):
            yield key, value, names


def _held(value: object, trust: Trust) -> tuple[str, ...]:
    """The names of the environment's secrets in the texts of a value, whose variables are not known any more."""
    known = trust.secrets.names.items()
    texts = list(_texts(value))
    held = (name for secret, name in known if secret in texts or _has_searched(secret, *texts))
    return tuple(dict.fromkeys(held))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for each in (*value, *value.values()) for text in _texts(each))
    elif isinstance(value, list | tuple):
        yield from (text for each in value for text in _texts(each))


def _has_searched(secret: str, *texts: str) -> bool:
    """Whether a secret that is no usual word is in one of the texts: ``postgres`` is a user's name too."""
    return is_searched(secret) and any(secret in each for each in texts)


def _called(text: str, trust: Trust) -> tuple[str, ...]:
    """The variables with secrets whose names are in a text: ``NAME``, ``os.environ/NAME``, ``oidc/env/NAME``."""
    names = dict.fromkeys((text, *re.findall(r"\w+", text)))
    return tuple(name for name in names if any(secrets_in(name, trust.environ.get(name, ""))))


def _carried(
    document: Document, trust: Trust, found: Mapping[Path, tuple[str, ...]], called: Container[Path]
) -> Iterator[Carried]:
    assert document.schema is not None, "a document that was checked has its schema"
    declared: set[Path] = set()
    for path, node, places in walk_with(document.root, document.schema):
        # A type says it of all below it, too.
        if path[:-1] in declared or any(place.get("writeOnly") is True for place in places):
            declared.add(path)
        if path in found:
            # Whatever its type is, a header goes to whoever the config says.
            is_declared = path in declared and not any(map(holds_headers, path))
            shown = _shown(node, document, trust)
            value = node.value
            if path in called:
                value = {"text": value, "variables": {name: trust.environ[name] for name in found[path]}}
            yield Carried(path, value, found[path], shown, is_declared)


def _is_laid_over(path: Path) -> bool:
    return path[:1] == ("agents",) and path[2:3] == ("overrides",)


def _names(node: Node, trust: Trust) -> tuple[str, ...]:
    own = [name for name in node.variables if any(secrets_in(name, trust.environ.get(name, "")))]
    # Another variable may repeat such a secret.
    known = trust.secrets.names.items()
    own += [name for secret, name in known if not own and _has_searched(secret, str(node.value))]
    return tuple(dict.fromkeys(own))


def _shown(node: Node, document: Document, trust: Trust) -> str:
    text = str(node.value)
    for name in node.variables:
        value = trust.environ.get(name, "")
        # Also one that is too short to be searched for, or that became a number.
        if any(secrets_in(name, value)):
            text = (
                text.replace(value, placeholder(name)) if isinstance(node.value, str) else placeholder(name)
            )
    return document.redactor(trust.secrets(text))
