"""Parts of a config that need its user's permission, each with a digest of what it executes or where it sends data."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, partial
from hashlib import sha256
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final, Literal, TypeAlias

from zeus_runtime.config.mcp import BROWSER_FOLDER
from zeus_runtime.disk_paths import expanded, is_in, plain_path
from zeus_runtime.frozen import dataclass
from zeus_runtime.mount_table import mount_table
from zeus_runtime.trust.command_files import Covered, covered
from zeus_runtime.trust.compiled import are_compiled_apart
from zeus_runtime.trust.file_content import Held, content_of, hex_of
from zeus_runtime.trust.masking import BareMask, PartMask
from zeus_runtime.trust.name_search import MOST_BASES
from zeus_runtime.trust.package_runners import LookedUp

PartKind: TypeAlias = Literal[
    "server", "command", "plugin", "option", "destination", "file", "database", "folder", "rule", "issuer"
]

_SCHEME: Final = "zeus-trust-1"
_OPEN: Final = PartMask()
_BARE: Final = BareMask()
_ADDRESS: Final = re.compile(
    r"""[A-Za-z][A-Za-z0-9+.-]*://
        (?: [^\s/?\#@\\]* @ )?
        (?: ([A-Za-z0-9.]+) | \[(::1)\] ) (?: :[0-9]+ )?
        (?: /[^\s?@\\]* )?""",
    re.VERBOSE,
)
"""An address with its host, as every program reads it.

PostgreSQL reads another host from a query, and of an address without a host from ``PGHOST`` or a service file.
SQLAlchemy takes all before an ``@`` for a password, also slashes.
"""


@dataclass(frozen=True)
class Part:
    """One part of a config that needs permission.

    Args:
        kind: ``server`` for an MCP server, ``command`` for a list of words that is marked ``Executes``, ``plugin``
            for a file of Python code, ``option`` for another option that is marked so or that holds a secret of the
            environment, ``destination`` for one that is marked ``Destination``, ``file`` for a file outside the project
            that the agent reads, ``database`` for one that this user's Zeus did not create, ``folder`` for one that the
            agent's tools work in, outside the project or with a protected name, ``rule`` for a rule that lifts a
            protection, ``issuer`` for an entry of ``oidc`` in a service's settings.
        name: as the config names it.
        digest: ``sha256:`` and the digest of everything that decides what is executed.
        lines: the executed content, as (label, value) for a person; secrets are masked as ``PartMask`` says.
        files: the files whose content is in the digest; a folder means all files below it, also new ones.
        absent: files that would be in the digest if they were there, each as its folder and a glob for its name.
        where: its place in the config, as ``file:line:column``.
        own: it is in the user's own Home or comes with an installed distribution.
        held: the files whose content is in the digest, each with its SHA-256.
        seals: for each line that masks something, the digest of its text without the mask; for another line "". None
            at all if no line masks anything.
        started: the files and folders that the command starts, as the lines name them: no data of it.
        looked_up: what its package runner or Python finds in the project by itself; the digest does not hold it.
    """

    kind: PartKind
    name: str
    digest: str
    lines: tuple[tuple[str, str], ...] = ()
    files: tuple[Path, ...] = ()
    where: str = ""
    own: bool = False
    absent: tuple[tuple[str, str], ...] = ()
    held: tuple[Held, ...] = ()
    seals: tuple[str, ...] = field(default=(), repr=False)
    started: tuple[str, ...] = ()
    looked_up: tuple[LookedUp, ...] = ()

    @property
    def reads_on(self) -> bool:
        """Whether it is a command that may read more files of the project than the digest holds."""
        return _READS_ON in self.lines

    def __str__(self) -> str:
        from zeus_runtime.escaping import exact_line

        name = exact_line(self.name).replace("'", "\\'")
        return f"{_NOUNS[self.kind]} '{name}'"

    @property
    def is_needed_to_check(self) -> bool:
        """Whether nothing may be done with the config without this part; a process is permitted each time it starts."""
        return self.kind not in ("server", "command")


_NOUNS: Final[Mapping[PartKind, str]] = {
    "server": "MCP server",
    "command": "command",
    "plugin": "plugin file",
    "option": "option",
    "destination": "destination",
    "file": "file",
    "database": "database",
    "folder": "folder",
    "rule": "access rule",
    "issuer": "issuer",
}


@dataclass(frozen=True)
class Command:
    """A process to start.

    Args:
        name: its name in the config.
        words: the program and its arguments.
        env: the environment that the config gives it.
        cwd: its working directory; relative to Zeus's own.
        data: files and folders that it changes itself, named as its words name them.
        kind: the kind of its part.
        sent: what else a server gets from the config, as ``McpServer.sent`` says.
    """

    name: str
    words: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str = "."
    data: tuple[str, ...] = ()
    kind: Literal["server", "command"] = "server"
    sent: Mapping[str, Mapping[str, object]] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Remote:
    """A server on another machine.

    Args:
        name: its name in the config.
        address: its URL.
        headers: sent with every request.
        sent: what else it gets from the config, as ``McpServer.sent`` says.
    """

    name: str
    address: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    sent: Mapping[str, Mapping[str, object]] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Project:
    """The folders whose files belong to a config.

    Args:
        directory: the working directory.
        folders: the folders whose files may change without the user's knowledge: the project's and the workspace's.
        path: ``PATH``, where programs are looked up.
        place: a further binding of permissions, for a config whose folder is not the working directory: the working
            directory, or the config's folder below it.
    """

    directory: Path
    folders: tuple[Path, ...]
    path: str = ""
    place: str = ""

    def has(self, file: Path) -> bool:
        return any(is_in(str(file), str(folder)) for folder in self._all_places)

    @cached_property
    def places(self) -> tuple[Path, ...]:
        """The folders, both as written and with links resolved."""
        found = (each for folder in self.folders for each in (Path(plain_path(folder)), folder.resolve()))
        return tuple(dict.fromkeys(found))

    @cached_property
    def _all_places(self) -> tuple[Path, ...]:
        """Also those where something in the folders is mounted a second time."""
        return tuple(dict.fromkeys((*self.places, *mount_table().again(self.places))))


def plugin_part(file: Path, code: bytes, *, where: str = "", own: bool = False) -> Part:
    """A plugin file, identified by its content.

    Args:
        code: the bytes that are executed if the part is allowed.
    """
    # Of the bytes that run, and not of a second reading of the file.
    content = sha256(code).hexdigest()
    return Part(
        "plugin",
        file.name,
        part_digest("plugin", code=content),
        (("file", one_line(str(file))), ("content", f"sha256 {content}")),
        (file,),
        where,
        own,
        held=((file, content),),
    )


def command_part(command: Command, project: Project, *, mask: PartMask = _OPEN, where: str = "") -> Part:
    """A process, identified by its program, arguments, environment, folder, and the project files that those name.

    Files of ``data`` count by name only.

    Args:
        mask: masks secrets in the lines; the digest is made from the values themselves.
    """
    found = covered_by(command, project)
    lines, seals = _told(partial(_command_lines, command, project, found), mask)
    cwd = _relative(project.directory / command.cwd, project.directory)
    # A server is shown by its name, which decides nothing; a hook by its place, which decides when it runs.
    at = {} if command.kind == "server" else {"path": command.name}
    return Part(
        command.kind,
        command.name,
        part_digest(
            "command",
            words=list(command.words),
            env=dict(command.env),
            # No text, since a folder of the project may be called `~`.
            cwd={"home": BROWSER_FOLDER} if _is_of_browser(cwd) else cwd,
            place=project.place,
            files=[[each.word, each.name, each.content] for each in found.named],
            data=list(command.data),
            **at,
            **_sent(command.sent),
        ),
        lines,
        found.paths,
        where,
        absent=found.absent,
        held=found.held,
        seals=seals,
        started=tuple(dict.fromkeys(one_line(_relative(each, project.directory)) for each in found.started)),
        looked_up=found.looked_up,
    )


def _command_lines(command: Command, project: Project, found: Covered, mask: PartMask) -> Iterator[_Line]:
    # The arguments of prompts are no variables.
    sent = _sent_lines(command.sent, mask.within(command.env))
    mask = mask.within(command.env, command.words)
    program, *arguments = command.words
    told = {**dict(found.linked), **dict.fromkeys(found.refused, _STARTED)}
    yield "command", one_line(program)
    yield from (("argument", one_line(each)) for each in mask.words(arguments))
    for name, value in sorted(command.env.items()):
        yield "env", one_line(f"{name}={mask.entry(name, value)}")
    if _is_of_browser(command.cwd):
        yield "cwd", one_line(BROWSER_FOLDER)
    elif project.place:
        yield "cwd", one_line(plain_path(project.directory / command.cwd))
    elif command.cwd != ".":
        yield "cwd", one_line(command.cwd)
    yield from _file_lines(found, project.directory)
    yield from (("data", f"{one_line(each)}: {one_line(told.get(each, _FREE))}") for each in command.data)
    yield from _notes(found, lambda index: _called(index, command), mask)
    if found.reads_on:
        yield _READS_ON
    yield from sent


def program_data(command: Command, project: Project) -> tuple[str, ...]:
    """The entries of ``data`` that name a file that the command starts; the digest still holds its content."""
    return covered_by(command, project).refused


def covered_by(command: Command, project: Project) -> Covered:
    """The project files that a process names."""
    # The program is looked up on the `PATH` that the process gets.
    project = replace(project, path=command.env.get("PATH", project.path))
    # A value may name files as an argument does: ``--require ./hook.js``, ``a.jar:b.jar``.
    env = [value for _, value in sorted(command.env.items())]
    paths = [value for name, value in sorted(command.env.items()) if name.upper().endswith("PATH")]
    return covered(
        command.words,
        project,
        cwd=command.cwd,
        env=env,
        search_paths=paths,
        data=command.data,
        compiled_apart=are_compiled_apart(command.words, command.env),
    )


def covered_by_value(value: str, project: Project) -> Covered:
    """The project files that the value of an executed option names: as a program, or as a word of one.

    Folders do not count: ``PYTHONPATH: src`` in the variables of commands names what the agent works on.
    """
    found = covered((value,), project, env=(value,))
    # A file counts once, in whichever way it is named.
    named = {each.path: each for each in reversed(found.named) if not each.path.is_dir()}
    return replace(found, named=tuple(reversed(named.values())), looked_up=())


def _notes(found: Covered, called: Callable[[int], str], mask: PartMask) -> Iterator[tuple[str, str]]:
    yield from (("note", f"{called(index)} {_UNSEEN}") for index in found.unsplit)
    for index, path in found.unknown:
        yield "note", f"{called(index)} has {one_line(mask.word(path))}: {_UNKNOWN}"
    if found.has_more:
        yield "note", _MORE


def _file_lines(found: Covered, directory: Path) -> Iterator[tuple[str, str]]:
    for each in found.named:
        for file, content in ((each.path, each.content), *each.unread):
            yield "file", f"{one_line(_relative(file, directory))}: {one_line(content)}"


def _called(index: int, command: Command) -> str:
    """The label of a word among the lines shown to a person."""
    # `covered` counts the values of the environment behind the words, sorted by name.
    if index < len(command.words):
        return f"argument {index}"
    return f"env {one_line(sorted(command.env)[index - len(command.words)])}"


_FREE: Final = "its content may change"
_STARTED: Final = "it is started, so its content may not change"
_MORE: Final = (
    f"more than {MOST_BASES} folders are named, or more names than are looked up; files that the others lead to are not"
    " covered"
)
READS_ON: Final = (
    "what it starts lies in the project, so it may read files there that are not covered and that tools can change"
    " (packages, modules, settings): install and start it outside of the project"
)
_READS_ON: Final = ("warning", READS_ON)
_UNKNOWN: Final = "this names no file or folder, so the files that the program finds for it are not covered"
_UNSEEN: Final = "has $, `, a pattern or open quotes: the files that a shell finds for it are not covered"


def option_part(
    path: str,
    value: str,
    project: Project | None,
    *,
    target: str = "",
    keys: Mapping[str, object] | None = None,
    approvals: Sequence[str] = (),
    mask: PartMask = _OPEN,
    where: str = "",
) -> Part:
    """An option that is marked ``Executes``, identified by its place, its value and the project files that it names.

    Args:
        path: its place in the config, as ``Document.address`` writes it.
        project: None for a value that counts by itself.
        target: where links lead from the folder that the value names.
        keys: secrets of the environment that the options beside it hold, as those of ``destination_part``.
        approvals: what decides which calls a person is asked about, where the digest covers it.
    """
    found = Covered(()) if project is None else covered_by_value(value, project)

    def told(mask: PartMask) -> Iterator[_Line]:
        yield "value", one_line(mask.word(value))
        yield from _key_lines(keys or {}, mask)
        if target:
            yield "leads to", one_line(target)
        yield from (("approvals", one_line(mask.word(each))) for each in approvals)
        if project is not None:
            yield from _file_lines(found, project.directory)
            yield from _notes(found, lambda _: "the value", mask)

    lines, seals = _told(told, mask)
    files = [[each.name, each.content] for each in found.named]
    asked = {"approvals": approvals} if approvals else {}
    sent = _sent(keys or {})
    digest = part_digest("option", path=path, value=value, target=target, files=files, **asked, **sent)
    return Part(
        "option", path, digest, lines, found.paths, where, absent=found.absent, held=found.held, seals=seals
    )


def remote_part(remote: Remote, *, mask: PartMask = _OPEN, where: str = "") -> Part:
    """A server on another machine, shown as its address and header names; the digest also covers the header values.

    Where it gets the user's account, its name counts too: accounts are stored by name and address.
    """
    by_name = {"name": remote.name} if "account" in remote.sent else {}

    def told(mask: PartMask) -> Iterator[_Line]:
        yield "address", one_line(mask.address(remote.address))
        yield from _header_lines(remote.headers, mask)
        yield from _sent_lines(remote.sent, mask)
        if by_name:
            yield "account", f"uses yours for '{one_line(remote.name)}' at this address"

    lines, seals = _told(told, mask)
    headers = dict(remote.headers)
    digest = part_digest("remote", address=remote.address, headers=headers, **by_name, **_sent(remote.sent))
    return Part("server", remote.name, digest, lines, where=where, seals=seals)


_Line: TypeAlias = tuple[str, str]


def _told(
    lines: Callable[[PartMask], Iterable[_Line]], mask: PartMask
) -> tuple[tuple[_Line, ...], tuple[str, ...]]:
    """The lines for a person, and their seals."""
    shown = tuple(lines(mask))
    whole = lines(_BARE)
    return shown, tuple(
        "" if line == bare else seal_of(bare[1]) for line, bare in zip(shown, whole, strict=True)
    )


def seal_of(text: str) -> str:
    """The digest by which a masked text is known again."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _header_lines(headers: Mapping[str, object], mask: PartMask) -> Iterator[_Line]:
    for name in sorted(headers):
        yield "header", one_line(f"{mask.own.text(name)}: {mask.hidden(headers[name])}")


def _sent(sent: Mapping[str, object]) -> dict[str, object]:
    """The member of a digest for what is sent too; none where nothing is, so that such digests stay as they are."""
    return {"sent": dict(sent)} if sent else {}


def _sent_lines(sent: Mapping[str, Mapping[str, object]], mask: PartMask) -> Iterator[tuple[str, str]]:
    from zeus_runtime.escaping import word

    for name, arguments in sorted(sent.get("prompts", {}).items()):
        given = arguments if isinstance(arguments, Mapping) else {}
        # Each piece by itself: joined, `a=b c=d` could be two arguments or one.
        words = (f"{word(key)}={word(mask.entry(key, value))}" for key, value in given.items())
        yield "prompt", " ".join([word(name), *words])
    for key, value in sent.get("oauth", {}).items():
        shown = mask.hidden(value) if key == "client_secret" else mask.word(str(value))
        yield "oauth", one_line(f"{key}: {shown}")


def _key_lines(keys: Mapping[str, object], mask: PartMask) -> Iterator[_Line]:
    for name in sorted(keys):
        yield "secret", one_line(f"{name}: {mask.hidden(keys[name])}")


def destination_part(
    path: str,
    value: str,
    *,
    file: Path | None = None,
    headers: Mapping[str, object] | None = None,
    keys: Mapping[str, object] | None = None,
    taken: Sequence[str] = (),
    mask: PartMask = _OPEN,
    where: str = "",
) -> Part:
    """An option that says where data is sent, identified by its place, its value and the headers beside it.

    Args:
        path: its place in the config, as ``Document.address`` writes it.
        file: the file that the value names, which may itself name addresses.
        headers: sent there with every request; shown by name, and the digest covers the values.
        keys: secrets of the environment in options beside it that are secret by their type, such as ``api_key``; shown
            by name, and the digest covers the values.
        taken: the variables of the environment whose keys go there although no option names them, and accounts; the
            digest covers their names, so that another key asks again.
    """
    held: tuple[Held, ...] = ()
    content = None
    if file is not None:
        try:
            content = content_of(file)
            held = ((file, hex_of(content)),)
        except OSError as error:
            content = f"cannot be read: {error.strerror}"
    digest = part_digest(
        "destination",
        path=path,
        value=value,
        content=content,
        headers=dict(headers or {}),
        **_sent(keys or {}),
        **({"taken": sorted(taken)} if taken else {}),
    )

    def told(mask: PartMask) -> Iterator[_Line]:
        yield "sends to", one_line(mask.address(value))
        yield from _header_lines(headers or {}, mask)
        yield from _key_lines(keys or {}, mask)
        if taken:
            yield "with", one_line(f"your {', '.join(taken)}")
        if content:
            yield "content", content

    lines, seals = _told(told, mask)
    files = () if file is None else (file,)
    return Part("destination", path, digest, lines, files, where, held=held, seals=seals)


def header_part(path: str, header: Mapping[str, object], *, mask: PartMask = _OPEN, where: str = "") -> Part:
    """A header of requests, by which a gateway may choose another machine, identified by its place and its value.

    Args:
        path: its place in the config, as ``Document.address`` writes it.
        header: its value by its name; shown by name.
    """
    digest = part_digest("header", path=path, header=dict(header))
    lines, seals = _told(partial(_header_lines, header), mask)
    return Part("destination", path, digest, lines, where=where, seals=seals)


def parameter_part(
    path: str, name: str, value: object, text: str, *, mask: PartMask = _OPEN, where: str = ""
) -> Part:
    """A parameter for a library that may choose an account or a connection, identified by its place and its value.

    Args:
        path: its place in the config, as ``Document.address`` writes it.
        name: its key.
        text: the value as it is shown.
    """
    lines, seals = _told(lambda mask: [("value", one_line(mask.entry(name, text)))], mask)
    digest = part_digest("parameter", path=path, value=value)
    return Part("option", path, digest, lines, where=where, seals=seals)


def secret_part(path: str, value: object, shown: str, names: Sequence[str], *, where: str = "") -> Part:
    """An option that holds secrets of the environment, identified by its place and its value.

    Args:
        path: its place in the config, as ``Document.address`` writes it.
        value: a text or a number.
        shown: the value with the secrets masked.
        names: the variables that the secrets are from.
    """
    sends = f"your {', '.join(names)} to whoever this option's text reaches"
    lines = (("value", one_line(shown)), ("sends", one_line(sends)))
    digest = part_digest("secret", path=path, value=value)
    return Part("option", path, digest, lines, where=where, seals=(seal_of(_BARE.hidden(value)), ""))


def answers_part(path: str, files: Sequence[Held], directory: Path, *, where: str = "") -> Part:
    """The answer "allow" to each question for approval, identified by its place and all that decides what is asked.

    Args:
        path: the place of the first such answer.
        files: the evaluation file, and the files that it names, each with its SHA-256.
        directory: the working directory.
    """
    contents = [(_relative(file, directory), digest) for file, digest in files]
    lines = (
        ("value", "allow"),
        ("answers", "each question for approval that the agents ask in these cases, without you"),
        *(("file", one_line(f"{name}: sha256 {digest}")) for name, digest in contents),
    )
    digest = part_digest("answers", path=path, files=contents)
    return Part("option", path, digest, lines, tuple(file for file, _ in files), where, held=tuple(files))


def choice_part(choices: Mapping[str, Sequence[str]], *, where: str = "") -> Part:
    """The configs and models that an evaluation file names, identified by their names in it.

    Args:
        choices: the names, by the key.
    """
    lines = [(key, one_line(name)) for key, names in choices.items() for name in names]
    lines.append(
        ("chooses", "what is run with the permissions that digests in ZEUS_TRUST give to any config")
    )
    return Part("option", "agents", part_digest("choice", choices=choices), tuple(lines), where=where)


def file_part(path: str, file: Path, directory: Path, *, verb: str = "reads", where: str = "") -> Part:
    """A file outside the project, identified by its path and its place in the config: its content may change.

    Args:
        path: the place in the config that names it, as ``Document.address`` writes it.
        verb: ``reads`` or ``writes``.
    """
    digest = part_digest("file", path=path, file=_relative(file, directory))
    return Part("file", path, digest, ((verb, one_line(str(file))),), where=where)


def is_here(address: str) -> bool:
    """Whether every program that reads this address takes it for the local machine."""
    found = _ADDRESS.fullmatch(address)
    return found is not None and is_this_machine(found[1] or found[2])


def is_this_machine(host: str) -> bool:
    """Whether every program takes a host's name or address for the local machine.

    A number with a leading zero is none of an address: ``127.08.0.1`` is a name that a name server answers.
    """
    try:
        return IPv4Address(host).is_loopback
    except ValueError:
        return host == "::1" or (host.isascii() and host.lower() == "localhost")


def folder_part(path: str, folder: str, *, where: str = "") -> Part:
    """A folder that tools work in, outside the project or with a protected name.

    Args:
        path: the place in the config that names it, as ``Document.address`` writes it.
        folder: with links resolved; relative if it is in the project.
    """
    digest = part_digest("folder", path=path, folder=folder)
    return Part("folder", path, digest, (("opens", one_line(folder)),), where=where)


def rule_part(
    path: str, pattern: str, right: str, target: str | None, reasons: Sequence[str], *, where: str = ""
) -> Part:
    """A rule of ``workspace.access`` that lifts the built-in protection of files.

    It is identified by its place, its text, the file that it means, and why that is protected: the same pattern may
    mean another file tomorrow.

    Args:
        path: its place in the config, as ``Document.address`` writes it.
        target: the file; None for a name that any file may have.
        reasons: why the files are protected.
    """
    digest = part_digest(
        "rule", path=path, pattern=pattern, right=right, target=target, reasons=sorted(reasons)
    )
    lines = [("opens", one_line(f"{pattern}: {right}"))]
    if target is not None and target != pattern.strip("/"):
        lines.append(("file", one_line(target)))
    return Part("rule", path, digest, (*lines, *(("although", each) for each in reasons)), where=where)


def issuer_part(entry: Mapping[str, object], *, mask: PartMask = _OPEN, where: str = "") -> Part:
    """An issuer whose tokens a service accepts, identified by its whole entry, defaults included.

    Args:
        entry: the keys of the entry; ``issuer`` is the URL.
    """
    from zeus_runtime.escaping import exact_json

    def told(mask: PartMask) -> Iterator[_Line]:
        # Each key decides who a caller is, so no secret but the process's own is hidden.
        for key, value in entry.items():
            if isinstance(value, str):
                yield key, one_line(mask.own.text(value))
            else:
                # JSON has its own escapes: another backslash before them would be one too many.
                yield key, exact_json(mask.own.text(json.dumps(value, ensure_ascii=False)))
        yield (
            "decides",
            "whose tokens the service accepts, who they say their user is, and what that user may do",
        )

    lines, seals = _told(told, mask)
    # As texts, since the order of `roles` decides too.
    texts = [(key, value if isinstance(value, str) else json.dumps(value)) for key, value in entry.items()]
    digest = part_digest("issuer", entry=texts)
    return Part("issuer", str(entry["issuer"]), digest, lines, where=where, seals=seals)


def one_line(text: str) -> str:
    """``text`` on one line, escaped so that two different texts never look the same.

    In quotation marks if it is empty, has blanks at an end, or begins with a quotation mark.
    """
    from zeus_runtime.escaping import exact_line

    shown = exact_line(text)
    return shown if text and text == text.strip() and text[0] != '"' else f'"{shown}"'


def _is_of_browser(cwd: str) -> bool:
    """Whether it is the folder that Zeus makes below each home folder, which may lie elsewhere in a container."""
    return Path(cwd).is_absolute() and Path(cwd) == expanded(BROWSER_FOLDER)


def _relative(cwd: Path, directory: Path) -> str:
    """A folder as a digest writes it: relative, so the digest is valid wherever the project is."""
    normal, base = Path(plain_path(cwd)), Path(plain_path(directory))
    return normal.relative_to(base).as_posix() if normal.is_relative_to(base) else str(normal)


def part_digest(kind: str, **content: object) -> str:
    # As JSON, so that two different contents never give the same text.
    text = json.dumps({"scheme": _SCHEME, "kind": kind, **content}, sort_keys=True)
    return f"sha256:{sha256(text.encode()).hexdigest()}"
