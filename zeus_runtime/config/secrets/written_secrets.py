"""Secrets that are written out in a config, or in a file that it names, found by their position."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from zeus_runtime.config.layers.dotenv import parse_dotenv
from zeus_runtime.config.layers.interpolation import InterpolationError, interpolate, without_variables
from zeus_runtime.config.messages.diagnostics import ConfigError
from zeus_runtime.config.secrets.git_settings import GitFile, beginning_of, git_files
from zeus_runtime.config.secrets.key_files import SOURCED, key_files, key_files_of_entry, key_files_of_words
from zeus_runtime.config.secrets.placeholders import is_key
from zeus_runtime.config.secrets.running_text import is_key_like
from zeus_runtime.config.secrets.secret_names import holds_secret, places_variables
from zeus_runtime.config.secrets.secret_shapes import private_keys
from zeus_runtime.config.secrets.secrets_in_values import (
    secrets_in,
    secrets_in_file,
    secrets_of_text,
    secrets_within,
)
from zeus_runtime.config.yaml.tree import Node, show_path, walk
from zeus_runtime.config.yaml.tree import Path as NodePath
from zeus_runtime.disk_paths import is_folder
from zeus_runtime.proc_files import opened
from zeus_runtime.strict_json import read_json, without_comments

_WITH_ADDRESSES: Final = frozenset({"config", "config.worktree", "FETCH_HEAD"})
_WITHOUT_ADDRESSES: Final = frozenset({"objects", "refs", "logs", "hooks", "info", "lfs"})
"""Folders of a repository that may be large."""
_MOST_FOLDERS: Final = 1_000
_MOST_BYTES: Final = 1_000_000
_MOST_CHARACTERS: Final = 20_000
"""Of a file with settings. A list of ten thousand hashes would make each search slow."""
_OF_POSTGRES: Final = frozenset({"passfile", "pgpassfile"})
"""The names by which PostgreSQL's library is told of a file with passwords."""
_POSTGRES_LINE: Final = r"(?!#)(?:(?:[^:\\]|\\.)*:){4}((?:[^:\\]|\\.|\\\Z)+)(?::.*)?"
"""``host:port:database:user:password``, with a backslash before each ``:`` and backslash in them."""
_EXAMPLES: Final = frozenset({"example", "sample", "template", "dist"})
"""In the name of a file of variables, between its dots: its values are for people to replace."""
_PROGRAMS: Final = frozenset(".cjs .cts .go .js .jsx .mjs .mts .php .py .pyi .rb .ts .tsx".split())
"""The endings of files in which a text has quotes; a word without them is a name."""
_IN_QUOTES: Final = r"""(?s:(\"\"\"|'''|`)(.*?)\1)|"((?:[^"\\\n]|\\.)*+)"|'((?:[^'\\\n]|\\.)*+)'"""
_NO_TEXT: Final = "it is no text in UTF-8 or UTF-16, so Zeus does not know all secrets in it"
_AS_PATH: Final = ("/", "./", "../", "~")

Unread: TypeAlias = Callable[[str], object]
"""Is told why secrets in a file may not be known."""


def _untold(_why: str) -> None:
    return


def written_secrets(value: Any) -> dict[str, str]:
    """Secret text to its place: literals under keys and after flags whose name says secret, passwords in URLs, header
    values that look random, and keys in running text; pure.

    Args:
        value: JSON. In a list of words and in a command's text, ``--api-key VALUE``, ``--api-key=VALUE``,
            ``API_KEY=VALUE`` and ``Authorization: VALUE`` count. Of ``Bearer VALUE`` the value alone is a secret too.
    """
    found: dict[str, str] = {}
    for secret, path in secrets_within(value):
        found.setdefault(secret, show_path(path))
    return found


def repositories_of(folder: Path) -> Iterator[Path]:
    """The folders in which Git keeps the repositories that a folder is in, the nearest first.

    That of a linked worktree or a submodule is elsewhere: a file ``.git`` names it.
    """
    real = Path(os.path.realpath(folder))
    for above in (real, *real.parents):
        yield from kept_in(above / ".git")


def kept_in(place: Path) -> Iterator[Path]:
    """The folder in which Git keeps the repository of which ``place`` is the ``.git``."""
    if is_folder(place):
        yield place
    elif (named := _named_in(place, "gitdir: ")) is not None:
        # A worktree shares the config of its repository.
        yield _named_in(named / "commondir") or named


def _named_in(file: Path, head: str = "") -> Path | None:
    """The folder that a file of Git's names, relative to its own; None if it names none."""
    try:
        text = file.read_bytes()[:_MOST_BYTES] if file.is_file() else b""
    except OSError:
        return None
    line = os.fsdecode(text).rstrip("\n")
    if "\0" in line or not line.startswith(head) or line == head:
        return None
    folder = Path(os.path.normpath(file.parent / line.removeprefix(head)))
    return folder if is_folder(folder) else None


def secrets_of_repository(kept: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The secrets in the addresses and headers of a Git repository and its submodules, each with its file's name, and
    in the files that their settings name, each with the setting.

    Args:
        kept: the folder in which Git keeps it (``.git``).
        environ: the process environment, with ``HOME``.
    """
    found: dict[str, str] = {}
    for file in files_of_repository(kept):
        for secret in _secrets_of_addresses(file):
            found.setdefault(secret, f".git/{file.relative_to(kept).as_posix()}")
    for file, setting in named_by_repository(kept, environ):
        is_table = setting == "http.cookieFile"
        for secret in (
            secrets_of_key_file(file, environ, variable=setting) if is_table else _secrets_of_addresses(file)
        ):
            found.setdefault(secret, setting)
    return found


def _secrets_of_addresses(file: Path) -> Iterator[str]:
    for line in beginning_of(file).splitlines():
        # An address may be anywhere (a section's name, a comment); a header is a key's value.
        parts = [line.strip(), *(each.strip().strip('"') for each in line.partition("=")[2:])]
        yield from written_secrets({"lines": parts})


def files_of_repository(kept: Path) -> Iterator[Path]:
    """The files that hold addresses, there or not: of the repository first, then of its submodules."""
    yield from (kept / name for name in sorted(_WITH_ADDRESSES))
    for folder, folders, files in islice(os.walk(kept), _MOST_FOLDERS):
        # A submodule may have such a name, but it lies in no folder with a config.
        # In place: `os.walk` then enters these only, in an order that gives each secret the same name in every run.
        folders[:] = sorted(set(folders) - (_WITHOUT_ADDRESSES if "config" in files else frozenset()))
        if folder != str(kept) and _WITH_ADDRESSES.intersection(files):
            yield from (Path(folder, name) for name in sorted(_WITH_ADDRESSES))


def named_by_repository(kept: Path, environ: Mapping[str, str]) -> Iterator[GitFile]:
    """The files with settings, logins and cookies that the settings of a repository and its submodules name."""
    configs = (file for file in files_of_repository(kept) if file.name != "FETCH_HEAD")
    return git_files(configs, kept.parent, environ)


def secrets_of_file(path: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The secrets in a JSON file to their names, its variables filled in; none if it cannot be read, which its reader
    reports."""
    try:
        content = (
            read_json(without_comments(path.read_text(encoding="utf-8-sig"))) if path.is_file() else None
        )
    except (OSError, ValueError):
        return {}
    named: dict[str, str] = {}

    def filled(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: filled(item) for key, item in value.items()}
        if isinstance(value, list):
            return [filled(item) for item in value]
        if not isinstance(value, str):
            return value
        try:
            text, variables = interpolate(value, environ)
        except InterpolationError:
            return value
        named.update(
            {environ.get(name, ""): name for name in variables if holds_secret(name, environ.get(name, ""))}
        )
        return text

    # With the defaults too: the file has them also if their variables are set.
    written = {**written_secrets(_literal(content)), **written_secrets(filled(content))}
    return {
        **named,
        **{text: f"{path.name}/{name}" for text, name in written.items() if text not in named},
    }


def addressed_key_files(tree: Node) -> Iterator[tuple[str, str]]:
    """The files with secrets that addresses in a config name, each behind the parameter that names it."""
    for _, node in walk(tree):
        if isinstance(node.value, str):
            yield from key_files("", node.value)


class NamedKeyFile(NamedTuple):
    """A file with secrets that an entry of a config names for a program or a library.

    Args:
        name: the key or the flag that says so.
        file: relative to the working directory.
        path: the place of the entry in the config.
        is_path: it is written as a path. A text that is not may be the key itself.
    """

    name: str
    file: str
    path: NodePath
    is_path: bool


FoldersNamed: TypeAlias = Callable[[Sequence[str], str], Sequence[str]]
"""Finds the folders that the words of a command name, from its working directory; the path of each is absolute."""


class _Process(NamedTuple):
    """The command around an entry; its words are those of its environment too."""

    cwd: str = ""
    words: tuple[str, ...] = ()


def named_key_files(tree: Node, folders_named: FoldersNamed) -> Iterator[NamedKeyFile]:
    """The files that the ``env`` and ``args`` of servers and hooks name, other options whose name says secret, and
    addresses.

    A program opens a relative path in its working directory, or in a folder that its words name, as it may change to
    that first: ``uv --directory tools run --env-file .env``.
    """
    processes: dict[NodePath, _Process] = {}
    known: dict[_Process, Sequence[str]] = {}
    for path, node in walk(tree):
        key = next((str(each) for each in reversed(path) if not isinstance(each, int)), "")
        around = processes.get(path[:-1], _Process())
        processes[path] = _process(node, around)
        if isinstance(node.value, str):
            found = key_files_of_entry(key, node.value, is_variable=path[-2:-1] == ("env",))
        elif node.is_list:
            found = key_files_of_words(
                [each.value if isinstance(each.value, str) else "" for each in node.value]
            )
        else:
            continue
        for name, file in found:
            if not file.strip():
                continue
            is_below = not file.startswith(("/", "~"))
            first = f"{around.cwd}/{file}" if around.cwd and is_below else file
            yield NamedKeyFile(name, first, path, first.startswith(_AS_PATH))
            if is_below:
                process = around if around.words else around._replace(words=tuple(_texts(node)))
                if process not in known:
                    known[process] = folders_named(process.words, process.cwd)
                for folder in known[process]:
                    yield NamedKeyFile(name, f"{folder}/{file}", path, file.startswith(_AS_PATH))


def _process(node: Node, around: _Process) -> _Process:
    """The command that an entry says, or else the one around it."""
    parts = [node.value.get(key) for key in ("cwd", "command", "args", "env")] if node.is_map else [None]
    cwd, *given = (() if each is None else tuple(_texts(each)) for each in parts)
    return _Process(cwd[0] if cwd else around.cwd, tuple(chain.from_iterable(given)) or around.words)


def _texts(node: Node) -> Iterator[str]:
    if isinstance(node.value, str):
        yield node.value
    elif node.is_map or node.is_list:
        for each in node.value.values() if node.is_map else node.value:
            yield from _texts(each)


def secrets_of_key_file(
    path: Path, environ: Mapping[str, str], *, variable: str = "", unread: Unread = _untold
) -> dict[str, str]:
    """The secrets in a file that a library reads keys from, to their names: those in JSON, and private keys in PEM.

    Args:
        variable: the variable or parameter that names the file, and whose name says secret: then also those in a short
            text. If it says that the file holds variables, those of a server's ``env`` with them.
        unread: called if secrets in a file that ``variable`` names may not be known.
    """
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return {}
        text, unread = _text_of(path.read_bytes(), unread if variable else _untold)
    except (OSError, ValueError):
        return {}
    told = partial(_tell_line, unread)
    if places_variables(variable):
        is_script = variable == SOURCED and not only_sets_variables(text)
        return _of_variables(text, partial(_of_env, is_script), told)
    whole = text.strip()
    is_one = "\n" not in whole
    is_named = variable and (is_one or len(whole) <= _MOST_CHARACTERS)
    found = secrets_of_file(path, environ) if whole.startswith(("{", "[")) else {}
    # A section of settings begins as a list does.
    if found or whole.startswith("{"):
        return {**dict.fromkeys(secrets_in_file(whole, told) if is_named else (), variable), **found}
    if is_named:
        passwords = _passwords(text) if _lists_passwords(variable, path) else ()
        named = dict.fromkeys(
            (*([whole] if is_one else ()), *passwords, *secrets_in_file(whole, told)), variable
        )
        return _without_code(named, whole) if _is_program(path) and not is_one else named
    return dict.fromkeys(private_keys(text), path.name)


def secrets_of_env_file(path: Path, unread: Unread = _untold) -> dict[str, str]:
    """The secrets in a file of variables that is not loaded (``.env.local``), to their names, as those of a ``.env``.

    Its other readers have other rules, so each line counts that has a name and a value. Of an example, what looks like
    a key counts: ``change-me-in-production`` is in other texts. Of a program, that and what is in quotes.

    Args:
        unread: called if secrets in it may not be known.

    Raises:
        OSError: it cannot be read, or it is too large.
    """
    with opened(path) as stream:
        data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    text, unread = _text_of(data, unread)
    is_program = _is_program(path) and not only_sets_variables(text)
    is_example = not _EXAMPLES.isdisjoint(path.name.lower().split("."))
    told = (lambda _line: None) if is_program else partial(_tell_line, unread)
    found = _of_variables(text, secrets_in, told)
    return {
        secret: f"{path.name}/{name}" if name else path.name
        for secret, name in (_without_code(found, text) if is_program else found).items()
        if is_key_like(secret) or not is_example
    }


def _text_of(data: bytes, unread: Unread) -> tuple[str, Unread]:
    """The text of a file, and what is told about its lines.

    Of a binary file nothing is: it is encrypted, or a program's own, and nobody can make it a text.
    """
    # Few projects have such a file.
    from zeus_runtime.config.secrets.encodings import decoded, is_binary

    text, is_sure = decoded(data)
    if is_sure:
        return text, unread
    if is_binary(data):
        return text, _untold
    unread(_NO_TEXT)
    return text, unread


def _is_program(path: Path) -> bool:
    return path.suffix.lower() in _PROGRAMS


def _without_code(found: Mapping[str, str], program: str) -> dict[str, str]:
    """What is in quotes in a program, numbers, and what looks like a key; all else is code: ``os.environ["TOKEN"]``."""
    written = _in_quotes(program)

    def is_text(secret: str) -> bool:
        return is_key_like(secret) or is_key(secret) or secret.isdecimal() or secret in written

    return {secret: name for secret, name in found.items() if is_text(secret)}


def _in_quotes(program: str) -> str:
    """The texts in a program, as they are written and as they are meant, each in lines of its own."""
    texts = ["".join(filter(None, each.groups()[1:])) for each in re.finditer(_IN_QUOTES, program)]
    return "\n".join((*texts, *(re.sub(r"\\(.)", r"\1", each) for each in texts if "\\" in each)))


def _of_variables(
    text: str, rules: Callable[[str, str], Iterator[str]], told: Callable[[int], object]
) -> dict[str, str]:
    found: dict[str, str] = {}
    for secret, name in secrets_of_text(text, rules, is_script=True, unread=told):
        found[secret] = found.get(secret) or name
    return found


def _of_env(is_script: bool, name: str, value: str) -> Iterator[str]:
    # Of `A="$B"` in a script only the shell knows the value.
    yield from () if is_script and re.search("[$`]", value) else written_secrets({"env": {name: value}})


def _tell_line(unread: Unread, line: int) -> None:
    unread(f"Zeus cannot read the value in line {line}, so it is not masked")


def _lists_passwords(variable: str, path: Path) -> bool:
    return variable.lower() in _OF_POSTGRES or path.name.lstrip(".") == "pgpass"


def _passwords(text: str) -> Iterator[str]:
    """The passwords in the lines of a file for PostgreSQL's library, random or not."""
    for line in text.splitlines():
        if fields := re.fullmatch(_POSTGRES_LINE, line):
            yield from secrets_in("password", re.sub(r"\\(.)", r"\1", fields[1]))


def only_sets_variables(text: str) -> bool:
    """Whether a text can be read as a ``.env``."""
    try:
        parse_dotenv(text, "")
    except ConfigError:
        return False
    return True


def _literal(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _literal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_literal(item) for item in value]
    return without_variables(value) if isinstance(value, str) and "$" in value else value
