"""Find secrets in a text by their shape, whatever its name: private keys, logins, and keys in addresses and prose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from zeus_runtime.config.secrets.connection_strings import (
    BRACKET_SETTING,
    QUERY,
    URL_START,
    bare_passwords,
    logins,
    names_in,
    quoted_parts,
    settings_in,
    url_passwords,
)
from zeus_runtime.config.secrets.placeholders import PRIVATE_KEY, looks_random
from zeus_runtime.config.secrets.random_values import is_mixed, is_place, is_random_name, is_token_of_user
from zeus_runtime.config.secrets.running_text import is_key_like, keys_in_text, may_hold_keys
from zeus_runtime.config.secrets.secret_names import HINTS, secret_entry, within_login

_URL_USER: Final = r"://([^\s/?#:@'\"]{16,})(?::[^\s/?#@'\"]*)?@"
"""A user is a token where it looks like one: ``https://TOKEN@host``, ``https://TOKEN:@host``."""
_URL_PATH: Final = r"://[^\s/?#'\"<>]+/([^\s?#'\"<>;=]+)"
"""Behind a host: ``file:///tmp/x`` is a place on the disk. Settings may follow it."""
_LEAST_PATH_KEY: Final = 20
_FILE_END: Final = r"\.[A-Za-z0-9]{1,5}\Z"
SCHEME: Final = r"(?i:Bearer|Basic|Token)\s+(\S+)"
"""A header's value."""
_WITH_SCHEME: Final = rf"(?:[\w-]+:\s*)?{SCHEME}"
_BASIC: Final = r"(?<![\w-])(?i:Basic)\s+([A-Za-z0-9+/]+=*)"


def secrets_by_shape(text: str) -> Iterator[str]:
    """The secrets in a text that is not JSON, and about which no name says anything."""
    yield from filter(looks_random, private_keys(text))
    if " " in text or "\t" in text:
        if (scheme := re.fullmatch(_WITH_SCHEME, text)) and looks_random(scheme[1]):
            yield scheme[1]
        if "asic " in text:
            for encoded in re.findall(_BASIC, text):
                yield from _of_login(encoded)
    if may_hold_keys(text):
        yield from (value for name, value in keys_in_text(text, HINTS) if secret_entry(name, value))
    passwords = list(_passwords(text))
    names = names_in(text) if passwords else ()
    # A name that stands beside it hides nothing: `postgresql://shop-api:shop-api@db/shop-api`.
    yield from (each for each in passwords if each not in names or is_random_name(each))
    if "://" in text or text.startswith("jdbc:"):
        users = [*re.findall(_URL_USER, text), *(user for user, _ in logins(text))]
        yield from filter(is_token_of_user, users)
        yield from (part for _, part in re.findall(QUERY, text) if _is_token(part))
        if not re.search(r"\s", text):
            yield from (
                key
                for path in re.findall(_URL_PATH, text)
                for key in filter(_is_path_key, re.split("[/:,]", path))
            )


def private_keys(text: str) -> Iterator[str]:
    """The private keys in a text, in PEM or of PGP, known by their form."""
    if "PRIVATE KEY" in text:
        yield from (each[0] for each in re.finditer(PRIVATE_KEY, text))


def _passwords(text: str) -> Iterator[str]:
    """The passwords in addresses and connection strings."""
    if "://" in text or text.startswith("jdbc:"):
        yield from url_passwords(text)
        yield from quoted_parts(text)
        if re.match(URL_START, text):
            yield from (part for key, part in re.findall(BRACKET_SETTING, text) if secret_entry(key, part))
        is_url = not re.search(r"\s", text)
        for key, part in re.findall(QUERY, text):
            if (is_url or looks_random(part)) and secret_entry(key, part):
                yield part
    if "@" in text:
        yield from bare_passwords(text)
    if "=" in text:
        for key, part in settings_in(text):
            # Among the settings of a connection a lone `Pwd` is a password, also one of several words.
            is_pwd = key.upper() == "PWD" and not is_place(part)
            if is_pwd or secret_entry(within_login(key), part):
                yield part


def _of_login(encoded: str) -> Iterator[str]:
    """The password of a login in base64, and its user if that is a token (RFC 7617)."""
    from base64 import b64decode

    try:
        user, _, password = b64decode(f"{encoded}==").decode().partition(":")
    except ValueError:
        return
    yield from filter(is_token_of_user, [user])
    yield password


def _is_token(value: str) -> bool:
    """Whether a value of a URL's query looks like a token whatever its name; a hash of lower letters does not.

    The value is decoded first: ``%2Fvar%2Frun%2Fpostgresql`` is a path.
    """
    from urllib.parse import unquote

    value = unquote(value)
    return re.fullmatch(r"[\w.~%+/=-]{16,}", value) is not None and looks_random(value) and is_mixed(value)


def _is_path_key(part: str) -> bool:
    """Whether a part of a URL's path looks like a key, as of a webhook: ``https://mcp.zapier.com/api/mcp/s/KEY/mcp``.

    It has twenty characters, of which eight in a run mix digits, small and capital letters and are no word with a
    number. So a commit, a UUID, a date, a version and a name are none, nor is a file.
    """
    if len(part) < _LEAST_PATH_KEY or not is_key_like(part) or re.search(_FILE_END, part):
        return False
    return any(is_mixed(each) and is_key_like(each) for each in re.findall("[A-Za-z0-9]{8,}", part))
