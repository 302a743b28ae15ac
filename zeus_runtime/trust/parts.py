"""Parts of a config that need its user's permission, each with a digest of what it executes or where it sends data."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal, TypeAlias

from zeus_runtime.config.secrets import MASK

PartKind: TypeAlias = Literal["server", "plugin", "option", "destination", "file", "database", "folder"]
Mask: TypeAlias = Callable[[str], str]

_SCHEME: Final = "zeus-trust-1"
_BLOCK_BYTES: Final = 1 << 20
_SQLITE: Final = b"SQLite format 3\x00"
"""Servers write to the databases that they are given, and no interpreter runs a database."""
_MAX_PATH: Final = 4_096
_BETWEEN: Final = re.compile(r"[\s;&|<>()`'\"$={},:@]+")
"""What stands between the file names in an option, an address or a shell's command."""
_HERE: Final = re.compile(
    r"""(?: [a-z][a-z0-9+.-]*://
            (?: [^\s/?\#@\\]* @ )?
            (?: localhost | 127(?:\.[0-9]{1,3}){3} | \[::1\] ) (?: :[0-9]+ )?
        |   postgres(?:ql)?(?:\+psycopg)?://
        )
        (?: /[^\s?\\]* )?""",
    re.VERBOSE | re.IGNORECASE,
)
"""An address of this machine. A query is left out: PostgreSQL reads another host from it."""


@dataclass(frozen=True)
class Part:
    """One part of a config that needs permission.

    Args:
        kind: ``server`` for an MCP server, ``plugin`` for a file of Python code, ``option`` for an option that is
            marked ``Executes``, ``destination`` for one that is marked ``Destination``, ``file`` for a file elsewhere
            that the agent reads, ``database`` for one that this user's Zeus did not
            make, ``folder`` for one elsewhere that the agent's tools work in.
        name: as the config names it.
        digest: ``sha256:`` and the digest of everything that decides what is executed.
        lines: what is executed, as (label, value) for a person; secrets are masked.
        files: the files whose content is in the digest.
        where: where the config has it, as ``file:line:column``.
        own: it lies in the user's own Home or comes with an installed distribution.
    """

    kind: PartKind
    name: str
    digest: str
    lines: tuple[tuple[str, str], ...] = ()
    files: tuple[Path, ...] = ()
    where: str = ""
    own: bool = False

    def __str__(self) -> str:
        return f"{_NOUNS[self.kind]} {self.name!r}"

    @property
    def is_needed_to_check(self) -> bool:
        """Whether nothing is done with the config without it; a server is permitted each time it starts."""
        return self.kind != "server"


_NOUNS: Final[Mapping[PartKind, str]] = {
    "server": "MCP server",
    "plugin": "plugin file",
    "option": "option",
    "destination": "destination",
    "file": "file",
    "database": "database",
    "folder": "folder",
}


@dataclass(frozen=True)
class Command:
    """A process to start.

    Args:
        name: what the config calls it.
        words: the program and its arguments.
        env: the environment that the config gives it.
        cwd: its working directory; relative to Zeus's own.
    """

    name: str
    words: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str = "."


@dataclass(frozen=True)
class Remote:
    """A server on another machine.

    Args:
        name: what the config calls it.
        address: its URL.
        headers: what every request tells it.
    """

    name: str
    address: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Project:
    """The folders whose files belong to a config.

    Args:
        directory: the working directory.
        folders: the folders whose files may change without the user: the project's and the workspace's.
        path: ``PATH``, where programs are looked for.
        place: what a permission is bound to besides: the working directory of a config that is used in many.
    """

    directory: Path
    folders: tuple[Path, ...]
    path: str = ""
    place: str = ""

    def has(self, file: Path) -> bool:
        return any(file.is_relative_to(folder) for folder in self._places)

    @property
    def _places(self) -> Iterator[Path]:
        for folder in self.folders:
            yield Path(os.path.normpath(folder))
            yield folder.resolve()


def plugin_part(file: Path, code: bytes, *, where: str = "", own: bool = False) -> Part:
    """A plugin file, by its content.

    Args:
        code: the bytes that are executed if the part is allowed.
    """
    content = sha256(code).hexdigest()
    return Part(
        "plugin",
        file.name,
        part_digest("plugin", code=content),
        (("file", one_line(str(file))), ("content", f"sha256 {content}")),
        (file,),
        where,
        own,
    )


def command_part(command: Command, project: Project, *, mask: Mask = str, where: str = "") -> Part:
    """A process, by its program, arguments, environment, folder, and the files of the project that those name.

    Args:
        mask: hides the secrets in what is shown; the digest is made from the values themselves.
    """
    cwd = project.directory / command.cwd
    path = command.env.get("PATH", project.path)
    project = replace(project, folders=(*project.folders, cwd), path=path)
    # A value may name files as an argument does: ``--require ./hook.js``, ``a.jar:b.jar``.
    words = (*command.words, *(value for _, value in sorted(command.env.items())))
    files = list(_named_files(words, cwd, project))
    program, *arguments = command.words
    lines = [
        ("command", one_line(program)),
        *(("argument", one_line(mask(each))) for each in arguments),
        *(("env", one_line(f"{name}={mask(value)}")) for name, value in sorted(command.env.items())),
        *([("cwd", one_line(command.cwd))] if command.cwd != "." else []),
        *(("file", f"{one_line(each.name)}: {each.content}") for each in files),
    ]
    return Part(
        "server",
        command.name,
        part_digest(
            "command",
            words=list(command.words),
            env=dict(command.env),
            cwd=_relative(cwd, project.directory),
            place=project.place,
            files=[[each.word, each.name, each.content] for each in files],
        ),
        tuple(lines),
        tuple(each.path for each in files),
        where,
    )


def option_part(
    name: str, path: str, value: str, project: Project, *, mask: Mask = str, where: str = ""
) -> Part:
    """An option that is marked ``Executes``, by its value and the files of the project that this names.

    Args:
        name: component and option, such as ``docker.command``.
        path: where it is in the config, as ``--set`` writes it.
    """
    files = list(_named_files((value,), project.directory, project))
    lines = [
        ("value", one_line(mask(value))),
        *(("file", f"{one_line(each.name)}: {each.content}") for each in files),
    ]
    digest = part_digest(
        "option", name=name, value=value, files=[[each.name, each.content] for each in files]
    )
    return Part("option", path, digest, tuple(lines), tuple(each.path for each in files), where)


def remote_part(remote: Remote, *, mask: Mask = str, where: str = "") -> Part:
    """A server on another machine, by its address and the names of its headers; the digest is of their values too."""
    lines = [
        ("address", one_line(mask(remote.address))),
        *(("header", one_line(f"{mask(name)}: {MASK}")) for name in sorted(remote.headers)),
    ]
    digest = part_digest("remote", address=remote.address, headers=dict(remote.headers))
    return Part("server", remote.name, digest, tuple(lines), where=where)


def destination_part(name: str, path: str, value: str, *, mask: Mask = str, where: str = "") -> Part:
    """An option that says where data is sent, by its value.

    Args:
        name: component and option, such as ``litellm.api_base``.
        path: where it is in the config, as ``--set`` writes it.
    """
    digest = part_digest("destination", name=name, value=value)
    return Part("destination", path, digest, (("sends to", one_line(mask(value))),), where=where)


def file_part(path: str, file: Path, directory: Path, *, where: str = "") -> Part:
    """A file outside the project, by its path: its content may change.

    Args:
        path: where the config names it, as ``--set`` writes it.
    """
    digest = part_digest("file", path=path, file=_relative(file, directory))
    return Part("file", path, digest, (("reads", one_line(str(file))),), where=where)


def is_here(address: str) -> bool:
    """Whether an address certainly names this machine, to every program that reads it."""
    return _HERE.fullmatch(address) is not None


def folder_part(path: str, folder: Path, *, where: str = "") -> Part:
    """A folder outside the project that tools work in.

    Args:
        path: where the config names it, as ``--set`` writes it.
        folder: the real one.
    """
    digest = part_digest("folder", path=path, folder=str(folder))
    return Part("folder", path, digest, (("opens", one_line(str(folder))),), where=where)


def one_line(text: str) -> str:
    """``text`` on one line, so that two different texts never look the same."""
    from zeus_runtime.escaping import exact_line

    return exact_line(text)


@dataclass(frozen=True)
class _Named:
    """A file that a word of a command names.

    Args:
        word: which word.
        name: the file as the word names it.
        path: where it is.
        content: its digest, or what it is where its content is not the program's.
    """

    word: int
    name: str
    path: Path
    content: str


def _named_files(words: Sequence[str], cwd: Path, project: Project) -> Iterator[_Named]:
    for index, word in enumerate(words):
        before = words[index - 1] if index else ""
        names = dict.fromkeys(_names(word, before))
        paths = [(name, cwd / name) for name in names if 0 < len(name) <= _MAX_PATH and "\0" not in name]
        if index == 0 and os.sep not in word:
            paths = [(word, cwd / folder / word) for folder in project.path.split(os.pathsep) if word]
        for name, path in paths:
            content = _content(path, project)
            if content is not None:
                yield _Named(index, name, path, content)
                if index == 0:
                    break  # the first of PATH is the one that runs


def _names(word: str, before: str) -> Iterator[str]:
    """What in a word may name a file: ``server.py``, ``--load=server.py``, ``-rserver.js``, ``cd a && ./run.sh``."""
    pieces = [word, *_BETWEEN.split(word)]
    yield from pieces
    yield from (each[2:] for each in pieces if each.startswith("-"))
    if before == "-m":
        module = word.replace(".", "/")
        yield from (f"{module}.py", f"{module}/__main__.py")


def _content(path: Path, project: Project) -> str | None:
    """What a digest holds for a file's content; None for a file outside the project."""
    try:
        if not path.is_file():
            return None
        resolved = path.resolve()
        if project.has(resolved):
            return _sum(resolved)
    except (OSError, ValueError, RuntimeError):
        return None
    return f"a link to {resolved}" if project.has(Path(os.path.normpath(path))) else None


def _sum(file: Path) -> str:
    with file.open("rb") as stream:
        head = stream.read(_BLOCK_BYTES)
        if head.startswith(_SQLITE):
            return "a database, whose content may change"
        content = sha256(head)
        while block := stream.read(_BLOCK_BYTES):
            content.update(block)
    return f"sha256 {content.hexdigest()}"


def _relative(cwd: Path, directory: Path) -> str:
    """A folder as it is written in a digest, which holds wherever the project lies."""
    normal = Path(os.path.normpath(cwd))
    base = Path(os.path.normpath(directory))
    return normal.relative_to(base).as_posix() if normal.is_relative_to(base) else str(normal)


def part_digest(kind: str, **content: object) -> str:
    text = json.dumps({"scheme": _SCHEME, "kind": kind, **content}, sort_keys=True)
    return f"sha256:{sha256(text.encode()).hexdigest()}"
