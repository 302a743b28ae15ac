"""Find the secrets in a value: the whole value by its name, parts of it by their shape."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, Final, TypeAlias, TypeVar

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
from zeus_runtime.config.secrets.encoded import text_of_base64
from zeus_runtime.config.secrets.placeholders import (
    PRIVATE_KEY,
    is_key,
    is_long_enough,
    is_random_item,
    is_searched,
    lines_of_key,
    looks_random,
)
from zeus_runtime.config.secrets.references import References
from zeus_runtime.config.secrets.running_text import (
    LOGIN_FLAG,
    is_key_like,
    is_lone_key,
    keys_in_text,
    may_hold_keys,
    shell_words,
)

_T = TypeVar("_T")
_Rules: TypeAlias = Callable[[str, str], Iterator[str]]
"""The secrets in a named value: ``secrets_in``, or without those that are in base64."""
_SECRET_WORDS: Final = frozenset({"KEY", "SECRETS", "CREDENTIALS"})
_SECRET_ENDS: Final = (
    "APIKEY",
    "ACCESSKEY",
    "SECRETKEY",
    "PRIVATEKEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "AUTHORIZATION",
)
"""No other word ends so, and many names join them to a first word: ``PGPASSWORD``."""
_ENDINGS: Final = frozenset({"PASS", "PWD", "PAT"})
"""Ordinary words too, so the whole name and the value decide with them."""
_PLACE_WORDS: Final = frozenset({"FILE", "PATH", "DIR", "STDIN", "FD"})
"""As the last word they say from where a secret comes: ``TOKEN_FILE``, ``--password-stdin``."""
_IDS: Final = frozenset({"ID", "IDS", "UUID", "GUID"})
_OF_LOGIN: Final = frozenset({"SECRET", "SESSION"})
"""Before ``ID`` they say that who has it is logged in: ``VAULT_SECRET_ID``, ``SESSION_ID``."""
_ABOUT: Final = frozenset(
    "ADDR ADDRESS ALG ALGORITHM AUDIENCE DATE ENDPOINT EXPIRATION EXPIRES EXPIRY FORMAT HASHER HEADER HOST HOSTNAME"
    " ISSUER LENGTH NAME NAMESPACE PORT REGION SIZE TIME TTL TYPE URI URL VERSION".split()
)
"""As the last word they say something about a secret: ``TOKEN_URL``, ``AWS_SECRET_NAME``, ``TOKEN_EXPIRY_DATE``."""
_OF_POSTGRES: Final = frozenset({"SSLKEY", "PGSSLKEY", "SERVICEFILE", "PGSERVICEFILE"})
"""Those of its library's names for files with secrets of which no word says so; ``PASSFILE`` is the other one."""
_OF_VARIABLES: Final = r"(?:\A|_)(?:DOT_?ENV|ENV_?FILE)(?:_|\Z)"
"""In a name, it says that a file holds variables, as a ``.env``: ``--env-file-if-exists``, ``DOTENV_CONFIG_PATH``."""
SOURCED: Final = "SOURCED_ENV_FILE"
"""The name of a file from which a command has its shell read variables."""
_SOURCING: Final = (
    r"""(?:\A|[;&|({\n"'!]|\b(?:if|then|elif|else|while|until|do)\s)\s*(?:\.|source)\s+"""
    r"""(?:"([^"]+)"|'([^']+)'|([^\s;&|<>()"']+))"""
)
"""Where a shell begins a command, or a further shell's text does; elsewhere a `.` is a folder."""
_HINTS: Final = ("key", "token", "secret", "credential", "authorization", "pass", "pwd", "pat")
"""Each name that says secret contains one of them."""
_COMMAND_HINTS: Final = (*_HINTS, "-u", "user", "://", "env")
_COMMANDS: Final = frozenset({"COMMAND", "CMD", "ARGS", "OPTS", "OPTIONS", "FLAGS"})
"""The last word of a name whose text is words of a command: ``command``, ``JAVA_OPTS``."""
_OF_JWK: Final = frozenset("d p q dp dq qi k".split())
"""The secret members of a key in JSON, beside its ``kty`` (RFC 7518, section 6)."""
_PUBLIC_IN_JWK: Final = frozenset("kty use key_ops alg kid x5u x5c x5t x5t#S256 crv x y n e".split())
"""Its public members (RFC 7517, section 4; RFC 7518, section 6), which look random all the same."""
_JWK_KINDS: Final = ("RSA", "EC", "OKP", "oct")
_URL_USER: Final = r"://([^\s/?#:@'\"]{16,})(?::[^\s/?#@'\"]*)?@"
"""A user is a token where it looks like one: ``https://TOKEN@host``, ``https://TOKEN:@host``."""
_URL_PATH: Final = r"://[^\s/?#'\"<>]+/([^\s?#'\"<>;=]+)"
"""Behind a host: ``file:///tmp/x`` is a place on the disk. Settings may follow it."""
_LEAST_PATH_KEY: Final = 20
_FILE_END: Final = r"\.[A-Za-z0-9]{1,5}\Z"
_SCHEME: Final = r"(?i:Bearer|Basic|Token)\s+(\S+)"
_WITH_SCHEME: Final = rf"(?:[\w-]+:\s*)?{_SCHEME}"
_WITH_PARAMETERS: Final = r"\S+\s+(?:\S+|[\w-]+=.+)"
"""A header's value: a scheme with one word or with parameters. More words are prose."""
_BASIC: Final = r"(?<![\w-])(?i:Basic)\s+([A-Za-z0-9+/]+=*)"
_FLAG: Final = r"--?([A-Za-z][\w-]*)"
_NAMED: Final = r"(?:--?([A-Za-z][\w.-]*)=|(?:-[A-Za-z])?([A-Za-z][\w-]*):\s*|([A-Za-z_][\w.]*)=)(.+)"
_LOGIN_WORD: Final = rf"{LOGIN_FLAG}(?:=|\s)?[^\s:]+:(\S+)"
_HEADER: Final = r"""["']?([\w.%-]+)["']?\s*[=:]\s*(.+)"""
_LINE: Final = (
    r"""(?:-\s+|export\s+)?["']?([A-Za-z_][\w.-]*)["']?\s*[=:]\s*"""
    r"""(?:"([^"]*)".*|'([^']*)'.*|([^"'\s].*?)(?:\s+#.*)?)"""
)
"""Of a file with settings."""
_ROOT: Final = r"[~.]{0,2}/|[A-Za-z]:[\\/]"
_HOST: Final = r"(?:[\w-]+\.)+[a-z]{2,}"
_PLAIN_NAME: Final = r"(?:[A-Z]?[a-z]+(?:[A-Z][a-z]{2,})*|[A-Z]+)[0-9]{0,4}|[0-9]+"
"""A word or a number. A random text of letters and digits has other parts."""
_WORD: Final = r"(?:[A-Z]?[a-z]{1,15}(?:[A-Z][a-z]{2,15})*|[A-Z]{1,15})"
_WORDS: Final = rf"(?:{_WORD}(?:[._-]{_WORD})*|[0-9]{{1,4}})"
_PLAIN: Final = rf"/?{_WORDS}(?:/{_WORDS})*/?"
"""Words as code and paths have them: ``client_secret``, ``restApi.Token``, ``emails/reset.html``."""
_PRICE: Final = r"0?\.00[0-9]+|[0-9](?:\.[0-9]+)?[eE]-[0-9]{1,2}"
_ENCODINGS: Final = 2
"""Base64 within each other that is read: a ``kubeconfig`` has keys in base64, and CI keeps it in base64."""
_SECRET: Final = "SECRET"
"""The name of a text that is known to be a secret."""
_LEAST_KEY: Final = 10**7
"""The least number that may be a key."""
_LONG_WORD: Final = r"[\w.+=~-]{16,}"
"""Of a program's variable whose name says nothing, a whole value of such signs is no ordinary word."""
_LEAST_WORD: Final = 12
"""Shorter ones are often ids that a model needs for its calls: ``C05KQ1E1F2``."""
_SHORT_LIST: Final = r"[\w.-]+(?:[,;][\w.-]+)+"
_LONG_RUN: Final = 20
_NUMBERED: Final = r"[A-Za-z]*[0-9]*|[0-9]+[A-Za-z]*"
"""A word with a number or a date: ``report20240131``."""
_HOST_OR_MAIL: Final = rf"(?:[\w.+-]+@)?{_HOST}(?::[0-9]+)?"
_NO_WORD: Final = r"""(?<![\w+.-])[\w+.-]++://[^\s"'<>,;]+|\bsha(?:256|384|512)[:-][A-Za-z0-9+/]{43,}=*"""
"""An address, in which other rules find the secret parts, or a digest."""
_BETWEEN_WORDS: Final = r"""[\s;,=&"'()\[\]{}<>]+"""
_HEADER_END: Final = r"""(?:[,;|\n]|\\n)[ \t]*(?=["']?[\w.%-]+["']?\s*[=:])"""
_FRAMED: Final = r"-----BEGIN ([A-Z0-9 ]+)-----[^-]+-----END \1-----"
_IN_QUOTES: Final = r"""(["'])((?:(?!\1).)*)\1"""


# A config's few hundred names are asked about several times each, and the environment's.
_cached: Final = lru_cache(maxsize=4096)


@_cached
def looks_secret(name: str) -> bool:
    """Whether a variable's or key's name says that its value is a secret: ``OPENAI_API_KEY``, ``dbPassword``.

    ``MAX_TOKENS``, ``KEYBOARD`` and ``KEY_FILE`` do not: only whole words count, a plural TOKENS is an amount, and the
    place, the id or the address of a secret is not a secret. ``API_KEY2`` is one as ``API_KEY``.
    """
    is_other = _words(name)[-1] in _PLACE_WORDS or _is_id(name) or _is_about_secret(name)
    return not is_other and any(map(_is_secret_word, _words(name)))


@_cached
def _is_id(name: str) -> bool:
    """Whether a name says that its value is an id, which programs and models pass on: ``NOTION_DATABASE_ID``."""
    words = _words(name)
    return words[-1] in _IDS and _OF_LOGIN.isdisjoint(words[-2:-1])


@_cached
def _is_about_secret(name: str) -> bool:
    """Whether the value of a secret-looking name is something else, or only perhaps a secret: ``TOKEN_URL``."""
    words = _words(name)
    is_about = words[-1] in _ABOUT or (words[-1] in _IDS and not _is_id(name))
    return is_about and any(map(_is_secret_word, words))


@_cached
def places_secret(name: str) -> bool:
    """Whether the name of a variable that names a file says that the file holds a secret: ``PGPASSFILE``.

    ``looks_secret`` and ``DB_PASS``, also before a word for a place: ``TOKEN_FILE``, ``SSH_KEYPATH``; and
    ``places_variables``.
    """
    places = "|".join(sorted(_PLACE_WORDS))
    stem = re.sub(rf"_?(?:{places})\Z", "", "_".join(_words(name)))
    if name.upper() in _OF_POSTGRES or places_variables(name):
        return True
    return any(map(_is_secret_word, stem.split("_"))) or stem.endswith(tuple(_ENDINGS))


@_cached
def places_variables(name: str) -> bool:
    """Whether a name says that the file that it names holds variables as a ``.env`` does: ``ENV_FILE``."""
    return re.search(_OF_VARIABLES, "_".join(_words(name))) is not None


def key_files(name: str, value: str) -> Iterator[tuple[str, str]]:
    """The files with secrets that a named value names, there or not, each behind the name that says so.

    It is the whole value (``PGPASSFILE``), or in an address or a connection string the value of a parameter:
    ``postgresql://db/shop?passfile=/run/pgpass``.
    """
    from urllib.parse import unquote

    if places_secret(name):
        yield name, value
    text = value.strip()
    if "=" not in text:
        return
    is_address = re.fullmatch(rf"{URL_START}\S+", text)
    parameters = re.findall(QUERY, text) if is_address else ()
    for key, file in (*((key, unquote(each)) for key, each in parameters), *settings_in(text)):
        if places_secret(key) and not is_lone_key(key):
            yield key, file


def key_files_of_words(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The files with secrets that the flags in a list of words name: ``--token-file FILE``, ``--token-file=FILE``; in a
    word that is a command (``sh -c '…'``) also a word alone, such as ``TOKEN_FILE=FILE``, and ``. FILE``."""
    for flag, word in pairwise(["", *words]):
        before = re.fullmatch(_FLAG, flag)
        joined = re.fullmatch(f"{_FLAG}=(.+)", word)
        named = joined.groups() if joined else (before[1], word) if before else None
        if named is not None:
            name, value = named
            yield from key_files("" if is_lone_key(name) else name, value)
        yield from ((SOURCED, "".join(groups)) for groups in re.findall(_SOURCING, word))
        if _is_command("args", word):
            # Each is shorter, so this ends.
            inner = [each for each in shell_words(word) if each != word]
            yield from (found for each in inner for found in key_files("", each))
            yield from key_files_of_words(inner)


def key_files_of_entry(name: str, value: str, *, is_variable: bool) -> Iterator[tuple[str, str]]:
    """The files with secrets that an entry of a config names; its name counts as that of a variable, unless it is a
    lone ``key`` of something else."""
    yield from key_files("" if is_lone_key(name) and not is_variable else name, value)
    if _words(name)[-1] in _COMMANDS:
        yield from key_files_of_words([value])


def holds_secret(name: str, value: str) -> bool:
    """Whether the name of a variable says that its value is a secret: ``looks_secret``, or ``DB_PASS``, ``GITHUB_PAT``.

    A lone ``PWD`` is the shell's folder, and a path, a pattern or a sentence is not a password. Neither is a number
    below a hundredth: under ``COST_PER_TOKEN`` it is a price. Under ``TOKEN_NAME``, only what looks random is one.
    ``CLIENT_SECRET=client_secret`` and ``S3_KEY_PREFIX=uploads/images`` are none.
    """
    if looks_secret(name):
        return not (re.fullmatch(_PRICE, value) or _is_ordinary(name, value))
    if _is_about_secret(name):
        return _is_random_value(value)
    words = _words(name)
    if len(words) < 2 or words[-1] not in _ENDINGS:
        return False
    return re.fullmatch(r"\S+", value) is not None and not _is_place(value)


def _is_ordinary(name: str, value: str) -> bool:
    """Whether a value under a name that says secret is a name itself, of several words: the end of that name, in any
    spelling, or where the name does not say that a person chose the value, a path, an identifier (``KEY_PREFIX``) or
    an id (``PARTITION_KEY``)."""
    if not re.fullmatch(_PLAIN, value) or len(words := _words(value)) < 2:
        return False
    is_chosen, is_last = _claim(name)
    if words == _words(name)[-len(words) :] or ("/" in value and not (is_chosen and is_last)):
        return True
    # People join the words of a passphrase with a `-`, programs those of a name with a `_` or a `.`.
    is_identifier = "-" not in value and re.search("[_.]", value) is not None
    return is_identifier and not is_chosen and (not is_last or _is_id(value))


@_cached
def _claim(name: str) -> tuple[bool, bool]:
    """Whether a name that says secret may have a value that a person chose, and whether its last word says so.

    Programs make a token, and a key that is not one of ``API_KEY``, ``ACCESS_KEY``, ``SECRET_KEY``, ``PRIVATE_KEY``.
    """
    words = _words(name)
    said = [before + word if word == "KEY" else word for before, word in pairwise(["", *words])]
    is_chosen = any(_is_secret_word(each) and not each.endswith("TOKEN") for each in said)
    return is_chosen, _is_secret_word(words[-1])


def _is_place(value: str) -> bool:
    """Whether a word is a path or a pattern, so no password: ``~/.ssh/x``, ``src/*.py``; a password has signs too."""
    if not re.match(rf"[/~.]|{_ROOT}", value) and "*" not in value:
        return False
    # Below its first folder a path may have any names: `/tmp/Kr4ft9werk`.
    names = re.split(r"[\\/]+", value)[1] if re.match(_ROOT, value) else value
    if re.search(r"[#%^&]|(?<!\A)!", names):
        return False
    return all(re.fullmatch(_PLAIN_NAME, each) for each in re.findall("[A-Za-z0-9]+", names))


def secret_entry(key: str, value: str) -> bool:
    """Whether the name of an entry, a flag or a parameter says that its value is a secret.

    A lone ``key`` or ``key2`` often names something else (``key: customer_id``), so the value decides with it.
    """
    if is_lone_key(key):
        return is_key(value) or is_key_like(value.strip())
    return holds_secret(key, value)


def _said(key: str, value: str) -> str:
    """The name of an entry, or none where it is a lone ``key`` that says nothing."""
    return key if not is_lone_key(key) or secret_entry(key, value) else ""


def holds_headers(key: object) -> bool:
    """Whether a key's name says that it holds HTTP headers: ``headers``, ``extra_headers``, ``defaultHeaders``."""
    return isinstance(key, str) and key.lower().endswith("headers")


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


def secrets_in_file(text: str, unread: Callable[[int], object] = lambda _line: None) -> Iterator[str]:
    """The secrets in the text of a file that is known to hold some: one, settings, or words that look random; in JSON,
    those of a map or a list.

    Args:
        unread: as ``secrets_of_text`` takes it.
    """
    yield from _apart(text, partial(_in_file, unread))


def _in_file(unread: Callable[[int], object], text: str) -> Iterator[str]:
    if _json_of(text) is not None:
        yield from filter(is_searched, _pieces(text))
        yield from (secret for secret, _ in secrets_of_text(text))
        return
    if "\n" not in text.strip():
        yield from secrets_in(_SECRET, text)
    yield from (secret for secret, _ in secrets_of_text(text, unread=unread))
    # The lines of a certificate look random too.
    yield from filter(is_searched, _random_words(re.sub(_FRAMED, " ", text)))


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


def _as_written(name: str, value: str) -> Iterator[str]:
    text = value.strip()
    if holds_secret(name, text):
        yield from filter(is_long_enough, _of_secret(text))
    elif _is_about_secret(name):
        yield from filter(is_searched, _of_variable(text))
    if _is_list(name):
        yield from filter(is_searched, _of_plural(text))
    if holds_headers(name):
        yield from filter(is_searched, _of_headers(text))
    if _is_command(name, text):
        yield from _of_command(text)
    yield from filter(is_searched, _by_shape(text))


def number_text(value: Any) -> str | None:
    """A number as it is written, for a key of digits without quotes is a number; None for anything else."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def secrets_within(value: Any) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    """The secrets in a JSON value, each with its path."""
    for secret, path in _named_apart(value, lambda each: _found(each, (), "", secrets_in)):
        yield secret, path
        yield from ((inner, path) for inner in _of_encoded({secret: _SECRET}))


@_cached
def _words(name: str) -> tuple[str, ...]:
    # A number at the end says which of several it is. `KEY2VALUE` does not end there.
    one = re.sub(r"(?<=[A-Za-z])[0-9]+(?![A-Za-z0-9])", "", name)
    # `dbPassword` is DB and PASSWORD, `SSHKey` is SSH and KEY; `KEYBOARD` is one word, and so is `APIKEYs`.
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})", "_", one)
    return tuple(re.split(r"[^A-Za-z0-9]+", apart.upper()))


def _is_secret_word(word: str) -> bool:
    return word in _SECRET_WORDS or word.endswith(_SECRET_ENDS)


@_cached
def _is_list(name: str) -> bool:
    """Whether a name is the plural of one that says secret; ``MAX_TOKENS`` is one too, so the items decide."""
    return any(word.endswith("S") and _is_secret_word(word.removesuffix("S")) for word in _words(name))


def _is_command(name: str, text: str) -> bool:
    """Whether a text is a command that may hold a secret: ``command``, ``MCP_ARGS``; of prose, no word is one."""
    if _words(name)[-1] not in _COMMANDS or not (
        "=" in text or "://" in text or re.search(r"(?:\A|\s)-\S+\s", text)
    ):
        return False
    return any(map(text.lower().__contains__, _COMMAND_HINTS))


def _of_command(text: str) -> Iterator[str]:
    """The secrets in a command, by the rules for a list of its words."""
    words = shell_words(text)
    yield from _of_arguments(words)
    for word in words:
        # It may be a command again (`sh -c '…'`). Each is shorter, so this ends.
        if word != text:
            yield from _as_written("args", word)


def _of_secret(text: str) -> Iterator[str]:
    yield text
    # Of `Bearer VALUE`, a program may send or log the value alone.
    if scheme := re.fullmatch(_SCHEME, text):
        yield scheme[1]
    yield from _pieces(text)
    # Groups for the eye, as of Google's passwords for apps: programs send them without the blanks.
    if len(groups := text.split()) > 1 and "\n" not in text and len(set(map(len, groups))) == 1:
        yield from filter(is_searched, ["".join(groups)])
    if is_key(text):
        yield "\n".join(lines_of_key(text))
    elif "\n" in text:
        yield from _of_lines(text)


def _of_lines(text: str) -> Iterator[str]:
    """The secrets in a secret that is a whole file of settings: YAML, INI, ``NAME=value``."""
    yield from (secret for secret, _ in secrets_of_text(text))


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
    read = partial(_of_known_text, rules or _as_written, is_script=is_script, unread=unread, levels=levels)
    return _named_apart(text, read, has_names=True)


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
    return holds_secret(_meant(name), "any-value") and (name == "KEY" or not is_lone_key(name))


def _meant(name: str) -> str:
    """``password`` for ``passwords``, as each of these is a secret, and a lone ``pass`` as in ``DB_PASS``."""
    if name.upper() in _ENDINGS:
        return f"its_{name}"
    return re.sub(r"(?i)(?<=pass)(word|phrase)s\Z", r"\1", name)


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
    elif text := _as_text(tree):
        yield name, text


def _of_plural(text: str) -> Iterator[str]:
    """The random items of a list of secrets, each also without the name or the user before it."""
    value = _json_of(text)
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
        if not any(_is_place(each) or re.fullmatch(_HOST_OR_MAIL, each) for each in parts):
            words = (
                each for each in parts if not re.search(r"\s|://|\A[{\[]", each) and is_random_item(each)
            )
            for each in (*words, *_pieces(value)):
                if any(map(_is_random_run, re.findall("[A-Za-z0-9]{8,}", each))):
                    yield each
            # The secret may be in front, and behind it whose it is: `VALUE=ann`. An `=` at the end is base64's.
            yield from filter(_is_random_name, _pieces(text.rstrip("=")))


def _pieces(text: str) -> Iterator[str]:
    """The random pieces of a secret or a header's value: of ``ApiKey VALUE``, ``Token token="VALUE"`` and schemes yet
    unknown, and of the texts in JSON and the lines of a file. In an address, other rules find the secret parts."""
    if (value := _json_of(text)) is not None:
        for each in _texts_in(value):
            yield from _of_item(each.strip())
    elif "\n" in text:
        for each in () if is_key(text) else text.splitlines():
            yield from _of_item(each.strip())
    else:
        found = re.split(r"[\s;,=&\"']+", text)
        yield from (each for each in found if "://" not in each and each != text and looks_random(each))
        for each in dict.fromkeys((text, *found)):
            yield from _of_marked(each)


def _of_marked(word: str) -> Iterator[str]:
    """The random parts behind a user, a number or an encoding: ``admin:VALUE``, ``42|VALUE``, ``base64:VALUE``.

    In front, as in ``VALUE:x-oauth-basic``, only a token is one: ``deploy2024`` is a user.
    """
    first, *parts = re.split("[:|]", word)
    if parts and not re.search(r"\s|://", word) and not _is_place(word):
        found = (*filter(_is_token_of_user, [first]), word[len(first) + 1 :], *parts)
        yield from (each for each in found if looks_random(each) and not re.fullmatch(_HOST, each))


def _of_headers(text: str) -> Iterator[str]:
    """The secrets in a variable of headers, by the rule for headers in a config: of ``name=value,name=value``, lines
    ``Name: value``, JSON or the words of a command. In another form, what looks random."""
    yield from _of_json_headers(_json_of(text))
    written = re.split(_HEADER_END, text)
    if text.startswith("-"):
        written += shell_words(text)
        yield from _of_command(text)
    for each in written:
        if header := re.fullmatch(_HEADER, _unquoted(each.strip(" \t\r\n{}[]"))):
            # OpenTelemetry ends a value at each comma.
            for value in dict.fromkeys((_unquoted(header[2]), header[2].partition(",")[0])):
                yield from _of_header(header[1], value)
    yield from _random_words(text)


def _of_json_headers(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        named = value.get("name", value.get("key"))
        for key, item in value.items():
            yield from _of_json_headers(item, str(named if named and key == "value" else key))
    elif isinstance(value, list):
        for each in value:
            yield from _of_json_headers(each, name)
    elif text := _as_text(value):
        yield from _of_header(name, text)


def _of_header(name: str, value: str) -> Iterator[str]:
    from urllib.parse import unquote

    for each in dict.fromkeys((value, unquote(value).strip())):
        yield from _of_text(each, ("headers", name), name, _as_written)


def _unquoted(text: str) -> str:
    quoted = re.fullmatch(_IN_QUOTES, text)
    return quoted[2] if quoted else text


def _of_variable(text: str) -> Iterator[str]:
    """The secrets in a program's variable whose name says nothing: the value and its words, if they look random."""
    if (value := _json_of(text)) is not None:
        for each in _texts_in(value):
            yield from _of_variable(each)
    # Of a key in a frame, the form decides; a certificate is none.
    elif not is_key(text):
        if "://" not in text and _is_random_value(text):
            yield text
        yield from _random_words(text)


def _is_random_value(text: str) -> bool:
    """Whether a whole value looks random, whatever its name; of an address, what is behind its host."""
    if address := re.fullmatch(rf"{URL_START}[^\s/?#]+(\S*)", text):
        return any(map(_is_random_run, re.findall("[A-Za-z0-9]{8,}", address[1])))
    is_word = len(text) >= _LEAST_WORD and not re.search(rf"\s|://|\A{_SHORT_LIST}\Z", text)
    return is_word and (any(_random_words(text, least=1)) or _is_long_random(text))


def _texts_in(value: Any) -> Iterator[str]:
    """The texts in JSON that may be secrets, and keys of maps that look random: a service may keep whose its keys are
    (``{KEY: "ann"}``). The public members of a JWK are none.
    """
    if isinstance(value, Mapping):
        public = _PUBLIC_IN_JWK if value.get("kty") in _JWK_KINDS else ()
        yield from filter(_is_random_name, value)
        for name, each in value.items():
            yield from () if name in public else _texts_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts_in(each)
    elif text := _as_text(value):
        yield text


def _is_long_random(text: str) -> bool:
    is_word = re.fullmatch(_LONG_WORD, text) and not re.fullmatch(_HOST_OR_MAIL, text)
    return bool(is_word) and looks_random(text)


def _random_words(text: str, *, least: int = _LEAST_WORD) -> Iterator[str]:
    """The words that look random in a text about which no name says anything, and their parts (``user:VALUE``).

    A word with a number, a place on the disk and an address do not look so.

    Args:
        least: characters of a word.
    """
    for each in re.split(_BETWEEN_WORDS, re.sub(_NO_WORD, " ", text)):
        word = each.rstrip(".!?")
        if not _is_place(word):
            # The names of folders, hosts and people may be random too, but they seldom have capitals within.
            of_place = re.search(r"[/\\]", word) or re.fullmatch(_HOST_OR_MAIL, word)
            for part in (word, *_of_marked(word)):
                runs = filter(_is_random_run, re.findall("[A-Za-z0-9]{8,}", part))
                is_random = any(map(_is_mixed, runs)) if of_place else any(runs)
                if is_random and len(part) >= least:
                    yield part


def _is_random_name(name: str) -> bool:
    """Whether what is in the place of a name is no name: it has random letters and digits that are no words with a
    number, as ``enableOAuth2Login`` is."""
    return any(_is_random_run(run) and is_key_like(run) for run in re.findall("[A-Za-z0-9]{8,}", name))


def _is_random_run(run: str) -> bool:
    if run.isalpha() or not looks_random(run):
        return False
    return len(run) >= _LONG_RUN or (is_key_like(run) and not re.fullmatch(_NUMBERED, run))


def private_keys(text: str) -> Iterator[str]:
    """The private keys in a text, in PEM or of PGP, known by their form."""
    if "PRIVATE KEY" in text:
        yield from (each[0] for each in re.finditer(PRIVATE_KEY, text))


def _by_shape(text: str) -> Iterator[str]:
    yield from filter(looks_random, private_keys(text))
    if " " in text or "\t" in text:
        if (scheme := re.fullmatch(_WITH_SCHEME, text)) and looks_random(scheme[1]):
            yield scheme[1]
        if "asic " in text:
            for encoded in re.findall(_BASIC, text):
                yield from _of_login(encoded)
    if may_hold_keys(text):
        yield from (value for name, value in keys_in_text(text, _HINTS) if secret_entry(name, value))
    passwords = list(_passwords(text))
    names = names_in(text) if passwords else ()
    # A name that stands beside it hides nothing: `postgresql://shop-api:shop-api@db/shop-api`.
    yield from (each for each in passwords if each not in names or _is_random_name(each))
    if "://" in text or text.startswith("jdbc:"):
        users = [*re.findall(_URL_USER, text), *(user for user, _ in logins(text))]
        yield from filter(_is_token_of_user, users)
        yield from (part for _, part in re.findall(QUERY, text) if _is_token(part))
        if not re.search(r"\s", text):
            yield from (
                key
                for path in re.findall(_URL_PATH, text)
                for key in filter(_is_path_key, re.split("[/:,]", path))
            )
    yield from _of_json(text)


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
            is_pwd = key.upper() == "PWD" and not _is_place(part)
            if is_pwd or secret_entry(f"its_{key}" if key.upper() in _ENDINGS else key, part):
                yield part


def _of_login(encoded: str) -> Iterator[str]:
    """The password of a login in base64, and its user if that is a token (RFC 7617)."""
    from base64 import b64decode

    try:
        user, _, password = b64decode(f"{encoded}==").decode().partition(":")
    except ValueError:
        return
    yield from filter(_is_token_of_user, [user])
    yield password


def _is_token_of_user(user: str) -> bool:
    from urllib.parse import unquote

    return len(user) >= 16 and "@" not in unquote(user) and looks_random(user)


def _is_token(value: str) -> bool:
    """Whether a value of a URL's query looks like a token whatever its name; a hash of lower letters does not.

    The value is decoded first: ``%2Fvar%2Frun%2Fpostgresql`` is a path.
    """
    from urllib.parse import unquote

    value = unquote(value)
    return re.fullmatch(r"[\w.~%+/=-]{16,}", value) is not None and looks_random(value) and _is_mixed(value)


def _is_mixed(value: str) -> bool:
    return all(any(map(kind, value)) for kind in (str.isdigit, str.islower, str.isupper))


def _is_path_key(part: str) -> bool:
    """Whether a part of a URL's path looks like a key, as of a webhook: ``https://mcp.zapier.com/api/mcp/s/KEY/mcp``.

    It has twenty characters, of which eight in a run mix digits, small and capital letters and are no word with a
    number. So a commit, a UUID, a date, a version and a name are none, nor is a file.
    """
    if len(part) < _LEAST_PATH_KEY or not is_key_like(part) or re.search(_FILE_END, part):
        return False
    return any(_is_mixed(each) and is_key_like(each) for each in re.findall("[A-Za-z0-9]{8,}", part))


def _of_json(text: str) -> Sequence[str]:
    return [secret for secret, _ in _found(_json_of(text), (), "", _as_written)]


def _json_of(text: str) -> Any:
    """The mapping or list that a text is in JSON; None if it is none, or only begins so."""
    if text[:1] not in ("{", "["):
        return None
    from zeus_runtime.strict_json import read_json

    try:
        return read_json(text)
    except ValueError:
        return None


def _found(
    value: Any, path: tuple[str | int, ...], key: str, rules: _Rules
) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            named = _SECRET if name in _OF_JWK and "kty" in value else str(name)
            yield from _found(item, (*path, str(name)), named, rules)
            says_secret = (looks_secret(str(name)) or _is_list(str(name))) and not is_lone_key(str(name))
            for each in _texts_in(item) if says_secret and isinstance(item, Mapping | list) else ():
                for part in filter(is_searched, _of_item(each.strip())):
                    yield part, (*path, str(name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _found(item, (*path, index), key, rules)
        # Perhaps a command, whatever the key: the schemas of plugins are not known where a config is read.
        for secret in _of_arguments([text for item in value if (text := _as_text(item)) is not None]):
            yield secret, path
    elif (text := _as_text(value)) is not None:
        for secret in _of_text(text, path, key, rules):
            yield secret, path


def _as_text(value: Any) -> str | None:
    """A text or a number as a text. A number with less than eight digits before its point, such as a price, is empty:
    it is no key, but it has a place among words."""
    is_price = isinstance(value, float) and abs(value) < _LEAST_KEY
    return value if isinstance(value, str) else "" if is_price else number_text(value)


def _of_text(value: str, path: tuple[str | int, ...], key: str, rules: _Rules) -> Iterator[str]:
    yield from rules(_said(key, value), value)
    if len(path) < 2:
        return
    if holds_headers(path[-2]) and looks_random(value):
        yield value
        yield from _pieces(value)
    elif path[-2] == "env" and not _is_id(key):
        yield from _of_variable(value)


def _of_arguments(arguments: Sequence[str]) -> Iterator[str]:
    """The secrets in a list of words; ``Password: some prose`` is none without a flag before it."""
    for flag, value in pairwise(["", *arguments]):
        named = re.fullmatch(_NAMED, value) if "=" in value or ":" in value else None
        if named and named[1] and not secret_entry(named[1], named[4]):
            named = re.fullmatch(_NAMED, named[4])  # `--header=Authorization: VALUE`
        before = re.fullmatch(_FLAG, flag) if flag[:1] == "-" else None
        if named and secret_entry(_name(named), named[4]):
            has_form = re.fullmatch(_WITH_PARAMETERS, named[4]) and any(_pieces(named[4]))
            is_header = has_form or re.fullmatch(_SCHEME, named[4])
            is_prose = named[2] and len(named[4].split()) > 1 and not is_header
            if before or not is_prose or value.startswith("-"):
                yield from _as_written(_name(named), named[4])
            else:
                yield from filter(is_key_like, _pieces(named[4]))
        elif before and secret_entry(before[1], value) and not re.fullmatch(_FLAG, value):
            yield from _as_written(before[1], value)
        elif ":" in value and (login := re.fullmatch(_LOGIN_WORD, f"{flag} {value}" if before else value)):
            yield from filter(looks_random, login.groups())


def _name(named: re.Match[str]) -> str:
    return str(named[1] or named[2] or named[3])
