"""The parts of a YAML file that send data to another machine, with the headers and keys beside each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from zeus_runtime.config.secrets.secret_names import holds_headers
from zeus_runtime.config.sqlite_url import is_sqlite
from zeus_runtime.config.yaml.tree import show_path
from zeus_runtime.disk_paths import is_file
from zeus_runtime.plan.default_keys import default_keys
from zeus_runtime.plan.part_sources import mask_of, with_owner

if TYPE_CHECKING:
    from zeus_runtime.config import Document
    from zeus_runtime.config.schema.marked import Marked
    from zeus_runtime.config.yaml.tree import Path as ConfigPath
    from zeus_runtime.plan.part_sources import FileSource
    from zeus_runtime.trust.decision import Trust
    from zeus_runtime.trust.parts import Part


def destinations(ground: FileSource) -> Iterator[Part]:
    """The parts of all options that name another machine, or a file from which a library takes one."""
    for each in ground.document.marked:
        yield from destination_at(ground, each)
    yield from _headers(ground)
    yield from _unknown(ground)


def _headers(ground: FileSource) -> Iterator[Part]:
    """The headers beside addresses that need no permission, and inside an option for anything.

    A gateway may choose by a header to which machine it sends a request with the user's key.
    """
    document = ground.document
    found: dict[ConfigPath, object] = {}
    covered = {each.path for each in ground.carried}
    for each in document.marked:
        headers: dict[ConfigPath, object] = {}
        if each.signs and any(map(holds_headers, each.path[:-1])):
            headers[each.path] = each.text
        # Beside a `model` that is a string are all sections of the config.
        if each.signs and each.path[:-1]:
            for key, beside in header_keys(document, each.path).items():
                headers |= {(*each.path[:-1], key, str(name)): value for name, value in beside.items()}
        found |= headers
        if headers and next(destination_at(ground, each), None) is not None:
            covered |= headers.keys()
    for path, value in found.items():
        if path not in covered:
            from zeus_runtime.trust.parts import header_part

            address, where = document.address(path), str(document.position(path))
            mask = mask_of(document, ground.trust)
            yield with_owner(ground, header_part(address, {str(path[-1]): value}, mask=mask, where=where))


def _unknown(ground: FileSource) -> Iterator[Part]:
    """The values that go to a library at a key which may choose an account or a connection."""
    document = ground.document
    covered = {each.path for each in ground.carried}
    for each in document.marked:
        # Those with a secret, headers and addresses are parts of their own.
        is_header = any(map(holds_headers, each.path[:-1]))
        if not each.is_unknown or each.path in covered or is_header or _sends(ground, each):
            continue
        from zeus_runtime.trust.parts import parameter_part

        address, where = document.address(each.path), str(document.position(each.path))
        name, value = str(each.path[-1]), each.node.value
        part = parameter_part(
            address, name, value, each.text, mask=mask_of(document, ground.trust), where=where
        )
        yield with_owner(ground, part)


def destination_at(ground: FileSource, value: Marked) -> Iterator[Part]:
    """The part of one option; none for an address that needs no permission."""
    if _sends(ground, value):
        yield from _destination(ground, value)


def _sends(ground: FileSource, value: Marked) -> bool:
    """Whether an option says where data is sent, or names a file that may."""
    # Libraries of providers read addresses, and the names of more files, from a named file.
    names_file = value.may_name_file and is_file(ground.document.directory / value.text)
    return names_file or any(not signs or any(sign in value.text for sign in signs) for signs in value.signs)


def _destination(ground: FileSource, value: Marked) -> Iterator[Part]:
    document, path, text = ground.document, value.path, value.text
    named = document.directory / value.text
    file = named if value.may_name_file and is_file(named) else None
    is_database = path == ("storage", "url") and is_sqlite(text)
    # A SQLite file receives no data elsewhere; it is a file that Zeus writes, and a database.
    if is_database or (file is None and is_free(text, document, ground.trust)):
        return
    from zeus_runtime.trust.parts import destination_part

    where = str(document.position(path))
    mask = mask_of(document, ground.trust)
    headers = _headers_beside(document, path)
    part = destination_part(
        document.address(path),
        text,
        file=file,
        headers=headers,
        keys=keys_beside(ground, path),
        taken=default_keys(ground, path, text),
        mask=mask,
        where=where,
    )
    yield with_owner(ground, part)


def header_keys(document: Document, path: ConfigPath) -> dict[str, Mapping[object, object]]:
    """The keys beside a destination whose mappings are headers that go there.

    A header may send a key of this machine, or work in somebody else's account.
    """
    beside = document.get(path[:-1])
    return {
        key: headers
        for key, headers in (beside.items() if isinstance(beside, dict) else ())
        if holds_headers(key) and isinstance(headers, dict)
    }


def _headers_beside(document: Document, path: ConfigPath) -> dict[str, object]:
    """The headers of ``header_keys`` by name; a name that two keys have is that of its key too, so none is lost."""
    found: dict[str, object] = {}
    for key, headers in header_keys(document, path).items():
        for name, value in headers.items():
            found[f"{key}.{name}" if str(name) in found else str(name)] = value
    return found


def is_free(address: str, document: Document, trust: Trust) -> bool:
    """Whether an address needs no permission: it is on this machine, or it is the value of a variable of the process.

    The person who starts the process chose its addresses; any other value, such as ``TERM``, was chosen for other uses.
    """
    from zeus_runtime.trust.parts import is_here

    environ = document.environ
    # Without a scheme the value is a name, which another variable may have by chance.
    is_given = "://" in address and any(environ.get(name) == address for name in trust.variables)
    return is_given or is_here(address)


def keys_beside(ground: FileSource, path: ConfigPath) -> dict[str, object]:
    """The declared secrets that the machine of an option at ``path`` may get, by their places.

    They are in the mapping of the option, at any depth, or in a mapping around it.
    """
    beside = path[:-1]
    return {
        show_path(each.path): each.value
        for each in ground.carried
        # Around a `model` that is an address are all sections of the config.
        if each.is_declared and beside and _lie_together(beside, each.path[:-1])
    }


def _lie_together(one: ConfigPath, two: ConfigPath) -> bool:
    return one[: len(two)] == two or two[: len(one)] == one
