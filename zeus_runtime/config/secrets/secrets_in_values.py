"""Find the secrets in a value: the whole by its name, and parts of it in JSON, lists, headers, commands and base64."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final, TypeAlias, TypeVar

from zeus_runtime.config.secrets.connection_strings import URL_START
from zeus_runtime.config.secrets.encoded import text_of_base64
from zeus_runtime.config.secrets.placeholders import (
    is_key,
    is_long_enough,
    is_random_item,
    is_searched,
    lines_of_key,
    looks_random,
)
from zeus_runtime.config.secrets.random_values import (
    is_host_or_mail,
    is_place,
    is_random_name,
    is_random_value,
    marked_parts,
    random_runs,
    random_words,
)
from zeus_runtime.config.secrets.references import References
from zeus_runtime.config.secrets.running_text import FLAG, LOGIN_FLAG, is_key_like, is_lone_key, shell_words
from zeus_runtime.config.secrets.secret_names import (
    holds_headers,
    holds_secret,
    is_about_secret,
    is_command,
    is_id,
    is_plural_of_secret,
    looks_secret,
    may_hold_secret,
    secret_entry,
    within_login,
)
from zeus_runtime.config.secrets.secret_shapes import SCHEME, private_keys, secrets_by_shape
from zeus_runtime.config.secrets.secret_trees import json_of, scalar_text, texts_in

_T = TypeVar("_T")
_Rules: TypeAlias = Callable[[str, str], Iterator[str]]
"""The secrets in a named value: ``secrets_in``, or without those that are in base64."""
_OF_JWK: Final = frozenset("d p q dp dq qi k".split())
"""The secret members of a key in JSON, beside its ``kty`` (RFC 7518, section 6)."""
_WITH_PARAMETERS: Final = r"\S+\s+(?:\S+|[\w-]+=.+)"
"""A header's value: a scheme with one word or with parameters. More words are prose."""
_NAMED: Final = r"(?:--?([A-Za-z][\w.-]*)=|(?:-[A-Za-z])?([A-Za-z][\w-]*):\s*|([A-Za-z_][\w.]*)=)(.+)"
_LOGIN_WORD: Final = rf"{LOGIN_FLAG}(?:=|\s)?[^\s:]+:(\S+)"
_HEADER: Final = r"""["']?([\w.%-]+)["']?\s*[=:]\s*(.+)"""
_LINE: Final = (
    r"""(?:-\s+|export\s+)?["']?([A-Za-z_][\w.-]*)["']?\s*[=:]\s*"""
    r"""(?:"([^"]*)".*|'([^']*)'.*|([^"'\s].*?)(?:\s+#.*)?)"""
)
"""Of a file with settings."""
_ENCODINGS: Final = 2
"""Base64 within each other that is read: a ``kubeconfig`` has keys in base64, and CI keeps it in base64."""
_SECRET: Final = "SECRET"
"""The name of a text that is known to be a secret."""
_HEADER_END: Final = r"""(?:[,;|\n]|\\n)[ \t]*(?=["']?[\w.%-]+["']?\s*[=:])"""
_FRAMED: Final = r"-----BEGIN ([A-Z0-9 ]+)-----[^-]+-----END \1-----"
_IN_QUOTES: Final = r"""(["'])((?:(?!\1).)*)\1"""


def secrets_in(name: str, value: str) -> Iterator[str]:
    """The secrets in a named value.

    The name decides about the whole value, the text after ``Bearer`` and the items of a list (``API_KEYS``). Secrets
    in a URL, a connection string, a header or JSON are found under any name, and so are keys in running text. What
    base64 stands for counts too: CI keeps a file with keys in such a variable, and a step writes the file. A reference
    (``$NAME``) is none.
    """
    texts = {value.strip(): name}
    for secret in _apart(value, partial(_as_written, name)):
        texts[secret] = _SECRET
        yield secret
    yield from _of_encoded(texts)


def secrets_within(value: Any) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    """The secrets in a JSON value, each with its path."""
    for secret, path in _named_apart(value, lambda each: _found(each, (), "", secrets_in)):
        yield secret, path
        yield from ((inner, path) for inner in _of_encoded({secret: _SECRET}))


def secrets_in_file(text: str, unread: Callable[[int], object] = lambda _line: None) -> Iterator[str]:
    """The secrets in the text of a file that is known to hold some: one, settings, or words that look random; in JSON,
    those of a map or a list.

    Args:
        unread: as ``secrets_of_text`` takes it.
    """
    yield from _apart(text, partial(_in_file, unread))


def secrets_of_text(
    text: str,
    rules: _Rules | None = None,
    *,
    is_script: bool = False,
    unread: Callable[[int], object] = lambda _line: None,
    levels: int = _ENCODINGS,
) -> Iterator[tuple[str, str]]:
    """The secrets in a text that is known to hold some, in whatever form, each with its name, which may be empty.

    Args:
        rules: the secrets in a named value.
        is_script: the first word of a line is a command.
        unread: called with the number of each line whose name says secret and whose value is in no form.
        levels: of texts within it that are read so too.
    """
    read = partial(_of_known_text, rules or secrets_in, is_script=is_script, unread=unread, levels=levels)
    return _named_apart(text, read, has_names=True)


def _said(key: str, value: str) -> str:
    """The name of an entry, or none where it is a lone ``key`` that says nothing."""
    return key if not is_lone_key(key) or secret_entry(key, value) else ""


def _apart(text: str, rules: Callable[[str], Iterable[str]]) -> Iterator[str]:
    yield from (secret for secret, _ in _named_apart(text, lambda each: ((one, "") for one in rules(each))))


def _named_apart(
    text: Any, rules: Callable[[Any], Iterable[tuple[str, _T]]], *, has_names: bool = False
) -> Iterator[tuple[str, _T]]:
    """The parts that rules find in a text or in JSON, each with what they say of it, but none that is only a reference.

    Args:
        has_names: the rules look for names in the text.
    """
    references = References(looks_secret, lambda each: any(secrets_in("", each)))
    hidden = _each_text(text, references.hidden)
    meant = _each_text(hidden, references.with_defaults)
    for each in (hidden,) if meant == hidden else (hidden, meant):
        for part, said in rules(each):
            if not references.is_only(part):
                yield references.shown(part), said
    if has_names and (named := references.with_named_defaults(hidden)) != hidden:
        for part, said in rules(named):
            if not (references.is_only(part) or references.has_named_default(part)):
                yield references.shown(part), said


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    """JSON with each of its texts changed, but no keys."""
    if isinstance(value, Mapping):
        return {key: _each_text(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_each_text(item, change) for item in value]
    return change(value) if isinstance(value, str) else value


def _as_written(name: str, value: str) -> Iterator[str]:
    text = value.strip()
    if holds_secret(name, text):
        yield from filter(is_long_enough, _of_secret(text))
    elif is_about_secret(name):
        yield from filter(is_searched, _of_variable(text))
    if is_plural_of_secret(name):
        yield from filter(is_searched, _of_plural(text))
    if holds_headers(name):
        yield from filter(is_searched, _of_headers(text))
    if is_command(name, text):
        yield from _of_command(text)
    yield from filter(is_searched, secrets_by_shape(text))
    yield from filter(is_searched, (secret for secret, _ in _found(json_of(text), (), "", _as_written)))


def _of_encoded(texts: Mapping[str, str]) -> Iterator[str]:
    """The secrets in the texts that texts in base64 stand for, each with the name that decides about it."""
    for _ in range(_ENCODINGS):
        decoded = {text: name for each, name in texts.items() if (text := text_of_base64(each))}
        if not decoded:
            return
        found = [
            secret for text, name in decoded.items() for secret in _apart(text, partial(_as_written, name))
        ]
        yield from filter(is_searched, found)
        texts = {**decoded, **dict.fromkeys(found, _SECRET)}


def _of_secret(text: str) -> Iterator[str]:
    yield text
    # Of `Bearer VALUE`, a program may send or log the value alone.
    if scheme := re.fullmatch(SCHEME, text):
        yield scheme[1]
    yield from _pieces(text)
    # Groups for the eye, as of Google's passwords for apps: programs send them without the blanks.
    if len(groups := text.split()) > 1 and "\n" not in text and len(set(map(len, groups))) == 1:
        yield from filter(is_searched, ["".join(groups)])
    if is_key(text):
        yield "\n".join(lines_of_key(text))
    elif "\n" in text:
        # It may be a whole file of settings: YAML, INI, `NAME=value`.
        # Each text in base64 within it would be decoded by each level around it, and take exponential time.
        yield from (secret for secret, _ in secrets_of_text(text, _as_written))


def _pieces(text: str) -> Iterator[str]:
    """The random pieces of a secret or a header's value: of ``ApiKey VALUE``, ``Token token="VALUE"`` and schemes yet
    unknown, and of the texts in JSON and the lines of a file. In an address, other rules find the secret parts."""
    if (value := json_of(text)) is not None:
        for each in texts_in(value):
            yield from _of_item(each.strip())
    elif "\n" in text:
        for each in () if is_key(text) else text.splitlines():
            yield from _of_item(each.strip())
    else:
        found = re.split(r"[\s;,=&\"']+", text)
        yield from (each for each in found if "://" not in each and each != text and looks_random(each))
        for each in dict.fromkeys((text, *found)):
            yield from marked_parts(each)


def _of_plural(text: str) -> Iterator[str]:
    """The random items of a list of secrets, each also without the name or the user before it."""
    value = json_of(text)
    if value is not None:
        yield from _pieces(text)
    for item in re.split(r"[\s,;]+", text) if value is None else value if isinstance(value, list) else ():
        if isinstance(item, str) and is_random_item(item):
            yield item
            yield from _of_item(item)


def _of_item(text: str) -> Iterator[str]:
    """The random parts of one of several texts in a secret, and of what is behind its name if it has one.

    Names and words are among them, so a word with a number is none, nor is a place, a host or an address.
    """
    if is_key(text):
        yield from _of_secret(text) if "PRIVATE KEY" in text else ()
    elif not re.match(URL_START, text):
        setting = re.fullmatch(_LINE, text)
        value = "".join(setting.groups("")[1:]) if setting else text
        parts = dict.fromkeys((value, text))
        if not any(is_place(each) or is_host_or_mail(each) for each in parts):
            words = (
                each for each in parts if not re.search(r"\s|://|\A[{\[]", each) and is_random_item(each)
            )
            for each in (*words, *_pieces(value)):
                if any(random_runs(each)):
                    yield each
            # The secret may be in front, and behind it whose it is: `VALUE=ann`. An `=` at the end is base64's.
            yield from filter(is_random_name, _pieces(text.rstrip("=")))


def _of_variable(text: str) -> Iterator[str]:
    """The secrets in a program's variable whose name says nothing: the value and its words, if they look random."""
    if (value := json_of(text)) is not None:
        for each in texts_in(value):
            yield from _of_variable(each)
    # Of a key in a frame, the form decides; a certificate is none.
    elif not is_key(text):
        if "://" not in text and is_random_value(text):
            yield text
        yield from random_words(text)


def _of_headers(text: str) -> Iterator[str]:
    """The secrets in a variable of headers, by the rule for headers in a config: of ``name=value,name=value``, lines
    ``Name: value``, JSON or the words of a command. In another form, what looks random."""
    yield from _of_json_headers(json_of(text))
    written = re.split(_HEADER_END, text)
    if text.startswith("-"):
        written += shell_words(text)
        yield from _of_command(text)
    for each in written:
        if header := re.fullmatch(_HEADER, _unquoted(each.strip(" \t\r\n{}[]"))):
            # OpenTelemetry ends a value at each comma.
            for value in dict.fromkeys((_unquoted(header[2]), header[2].partition(",")[0])):
                yield from _of_header(header[1], value)
    yield from random_words(text)


def _of_json_headers(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        named = value.get("name", value.get("key"))
        for key, item in value.items():
            yield from _of_json_headers(item, str(named if named and key == "value" else key))
    elif isinstance(value, list):
        for each in value:
            yield from _of_json_headers(each, name)
    elif text := scalar_text(value):
        yield from _of_header(name, text)


def _of_header(name: str, value: str) -> Iterator[str]:
    from urllib.parse import unquote

    for each in dict.fromkeys((value, unquote(value).strip())):
        yield from _of_text(each, ("headers", name), name, _as_written)


def _unquoted(text: str) -> str:
    quoted = re.fullmatch(_IN_QUOTES, text)
    return quoted[2] if quoted else text


def _of_command(text: str) -> Iterator[str]:
    """The secrets in a command, by the rules for a list of its words."""
    words = shell_words(text)
    yield from _of_arguments(words)
    for word in words:
        # It may be a command again (`sh -c '…'`). Each is shorter, so this ends.
        if word != text:
            yield from _as_written("args", word)


def _of_arguments(arguments: Sequence[str]) -> Iterator[str]:
    """The secrets in a list of words; ``Password: some prose`` is none without a flag before it."""
    for flag, value in pairwise(["", *arguments]):
        named = re.fullmatch(_NAMED, value) if "=" in value or ":" in value else None
        if named and named[1] and not secret_entry(named[1], named[4]):
            named = re.fullmatch(_NAMED, named[4])  # `--header=Authorization: VALUE`
        before = re.fullmatch(FLAG, flag) if flag[:1] == "-" else None
        if named and secret_entry(_name(named), named[4]):
            has_form = re.fullmatch(_WITH_PARAMETERS, named[4]) and any(_pieces(named[4]))
            is_header = has_form or re.fullmatch(SCHEME, named[4])
            is_prose = named[2] and len(named[4].split()) > 1 and not is_header
            if before or not is_prose or value.startswith("-"):
                yield from _as_written(_name(named), named[4])
            else:
                yield from filter(is_key_like, _pieces(named[4]))
        elif before and secret_entry(before[1], value) and not re.fullmatch(FLAG, value):
            yield from _as_written(before[1], value)
        elif ":" in value and (login := re.fullmatch(_LOGIN_WORD, f"{flag} {value}" if before else value)):
            yield from filter(looks_random, login.groups())


def _name(named: re.Match[str]) -> str:
    return str(named[1] or named[2] or named[3])


def _found(
    value: Any, path: tuple[str | int, ...], key: str, rules: _Rules
) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            named = _SECRET if name in _OF_JWK and "kty" in value else str(name)
            yield from _found(item, (*path, str(name)), named, rules)
            says_secret = looks_secret(str(name)) or is_plural_of_secret(str(name))
            is_searched_in = says_secret and not is_lone_key(str(name)) and isinstance(item, Mapping | list)
            for each in texts_in(item) if is_searched_in else ():
                for part in filter(is_searched, _of_item(each.strip())):
                    yield part, (*path, str(name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _found(item, (*path, index), key, rules)
        # Perhaps a command, whatever the key: the schemas of plugins are not known where a config is read.
        for secret in _of_arguments([text for item in value if (text := scalar_text(item)) is not None]):
            yield secret, path
    elif (text := scalar_text(value)) is not None:
        for secret in _of_text(text, path, key, rules):
            yield secret, path


def _of_text(value: str, path: tuple[str | int, ...], key: str, rules: _Rules) -> Iterator[str]:
    yield from rules(_said(key, value), value)
    if len(path) < 2:
        return
    if holds_headers(path[-2]) and looks_random(value):
        yield value
        yield from _pieces(value)
    elif path[-2] == "env" and not is_id(key):
        yield from _of_variable(value)


def _in_file(unread: Callable[[int], object], text: str) -> Iterator[str]:
    if json_of(text) is not None:
        yield from filter(is_searched, _pieces(text))
        yield from (secret for secret, _ in secrets_of_text(text))
        return
    if "\n" not in text.strip():
        yield from secrets_in(_SECRET, text)
    yield from (secret for secret, _ in secrets_of_text(text, unread=unread))
    # The lines of a certificate look random too.
    yield from filter(is_searched, random_words(re.sub(_FRAMED, " ", text)))


def _of_known_text(
    rules: _Rules, text: str, *, is_script: bool, unread: Callable[[int], object], levels: int
) -> Iterator[tuple[str, str]]:
    # Few projects have such a text, and its patterns take time to compile.
    from zeus_runtime.config.secrets.secret_texts import SecretSetting, read_secret_text

    found = read_secret_text(text, _may_say_secret, is_script=is_script)
    yield from ((each, "") for each in private_keys(text))
    for line in (each.line for each in found.settings if not each.value):
        unread(line)
    leaves = [SecretSetting(name, value, 0) for tree in found.trees for name, value in _leaves(tree)]
    for name, value, line, is_comment in (*(each for each in found.settings if each.value), *leaves):
        meant = name if name == "KEY" else _said(_meant(name), value)
        if "\n" not in value.strip() or is_key(value):
            # A line has no name by which it could be an id.
            for secret in rules(meant, value) if name else _as_written("", value):
                if not is_comment or is_key_like(secret):
                    yield secret, name
        else:
            if holds_secret(meant, value):
                yield from ((each, name) for each in (value.strip(), *_pieces(value)) if is_long_enough(each))
            if levels:
                yield from secrets_of_text(value, rules, is_script=is_script, levels=levels - 1)
        # In a text that a Secret of Kubernetes holds.
        if levels and not line and "\n" in (inner := text_of_base64(value) or ""):
            yield from secrets_of_text(inner, rules, levels=levels - 1)
    for tree in found.trees:
        yield from ((secret, ".".join(map(str, path))) for secret, path in _found(tree, (), "", _of_one_line))


def _of_one_line(name: str, value: str) -> Iterator[str]:
    yield from () if "\n" in value.strip() else _as_written(name, value)


def _may_say_secret(name: str) -> bool:
    return may_hold_secret(_meant(name)) and (name == "KEY" or not is_lone_key(name))


def _meant(name: str) -> str:
    """``password`` for ``passwords``, as each of these is a secret, and a lone ``pass`` as in ``DB_PASS``."""
    return re.sub(r"(?i)(?<=pass)(word|phrase)s\Z", r"\1", within_login(name))


def _leaves(tree: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """The texts of a tree, each with its name; for a ``value``, in a list and below ``passwords`` that is another's."""
    if isinstance(tree, Mapping):
        named = tree.get("name", tree.get("key"))
        for key, each in tree.items():
            of = named if isinstance(named, str) else name
            is_inherited = _meant(name) != name and not looks_secret(str(key))
            yield from _leaves(each, of if key == "value" else name if is_inherited else str(key))
    elif isinstance(tree, list):
        for each in tree:
            yield from _leaves(each, name)
    elif text := scalar_text(tree):
        yield name, text
