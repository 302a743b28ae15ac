"""Knowledge bases as rows: made, found and removed within what the caller may see.

Functions of a connection, inside a transaction; what changes a base raises its ``changes``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import and_, bindparam, delete, func, insert, or_, select, update

from zeus_runtime.errors import UsageError
from zeus_runtime.knowledge.convert import VERSION
from zeus_runtime.knowledge.parts import ChunkGroup, unpacked_chunks
from zeus_runtime.knowledge.vectors import NO_VECTOR, PLACE_BITS, number_of
from zeus_runtime.memory.items import Caller
from zeus_runtime.memory.retrieval.analysis import ANALYSIS
from zeus_runtime.memory.vectors import DIGEST_BYTES
from zeus_runtime.store.compiled_statements import Prepared, sqlite_driver
from zeus_runtime.store.knowledge_tables import BASE, DOCUMENT, PART, SOURCE

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from zeus_runtime.knowledge.reading import Same


@dataclass(frozen=True)
class BaseInfo:
    """A knowledge base.

    Args:
        scope: ``user`` or ``project``: whose it is.
        embedding: the model its vectors are of; empty before the first document.
        collection: the name of its vectors in the vector store; empty before the first.
        chunk_tokens, overlap_tokens: how its texts are cut.
        changes: how often it was written to.
        documents, chunks: how many it has.
        updated_ms: when it was written to last.
    """

    key: int
    name: str
    scope: str
    scope_id: str
    created_by: str
    embedding: str
    dimension: int
    chunk_tokens: int
    overlap_tokens: int
    changes: int
    documents: int
    chunks: int
    updated_ms: int
    collection: str = ""

    def as_json(self) -> dict[str, Any]:
        """What is told of it."""
        names = "name scope documents chunks embedding chunk_tokens overlap_tokens updated_ms".split()
        return {name: getattr(self, name) for name in names}


class KnownDocument(NamedTuple):
    """A document as it was read last."""

    key: int
    source: int
    path: str
    label: str
    digest: str
    made_with: str
    size_bytes: int
    mtime_ns: int
    chunks: int


_READ_BY: Final = f"{VERSION}.{ANALYSIS}"


def made_with(base: BaseInfo, model: str, dimension: int) -> str:
    """What a base's documents are made with now: versions of conversion and words, cutting, model and its dimension."""
    return f"{_READ_BY}|{base.chunk_tokens}|{base.overlap_tokens}|{model}|{dimension}"


def embedded_by(made_with: str) -> str:
    """The embedding model and its dimension, of what a document was made with."""
    # Three splits: the model's name may have the sign too.
    return made_with.split("|", 3)[-1]


def is_read_now(made_with: str) -> bool:
    """Whether a document's text and words are as this version has them."""
    return made_with.partition("|")[0] == _READ_BY


def bases(connection: Connection, caller: Caller) -> list[BaseInfo]:
    """Every base that the caller may see, their own first, by name."""
    return [
        _info(row) for row in connection.execute(_bases(caller).order_by(BASE.c.scope.desc(), BASE.c.name))
    ]


def base_named(connection: Connection, caller: Caller, name: str) -> BaseInfo | None:
    """The caller's own base of a name, else their project's."""
    # "user" comes after "project", so the descending order has the caller's own base first.
    query = _bases(caller).where(BASE.c.name == name).order_by(BASE.c.scope.desc())
    row = connection.execute(query).first()
    return None if row is None else _info(row)


def make_base(
    connection: Connection, caller: Caller, scope: str, values: Mapping[str, Any], now_ms: int
) -> None:
    """Make a base of the caller's or their project's.

    Raises:
        UsageError: the caller has no project, or may only read there.
    """
    scope_id = caller.user_id if scope == "user" else caller.project_id
    if not scope_id:
        raise UsageError("there is no project", remedy="Set memory.project, or leave --project out.")
    if scope == "project" and caller.role == "viewer":
        raise UsageError("a viewer of the project may not make a knowledge base of it")
    row = {
        "scope": scope,
        "scope_id": scope_id,
        "created_by": caller.user_id,
        "embedding_model": "",
        "embedding_dimension": 0,
        "changes": 0,
        "created_ms": now_ms,
        "updated_ms": now_ms,
        **values,
    }
    connection.execute(insert(BASE).values(row))


def refuse_writing(caller: Caller, base: BaseInfo) -> None:
    """Owners and admins change every base of their project, editors their own, viewers none.

    Raises:
        UsageError: the caller may not.
    """
    if base.scope == "user" or caller.role in ("owner", "admin"):
        return
    if caller.role == "editor" and base.created_by == caller.user_id:
        return
    raise UsageError(
        f"the knowledge base {base.name!r} is the project's; as {caller.role} you may only read it"
    )


def remove_base(connection: Connection, key: int) -> None:
    """Remove a base with all that is in it."""
    remove_documents(connection, key, list(connection.execute(_keys(key)).scalars()))
    connection.execute(delete(SOURCE).where(SOURCE.c.base == key))
    connection.execute(delete(BASE).where(BASE.c.key == key))


def touched(connection: Connection, base: int, now_ms: int) -> None:
    """Count a change of a base."""
    _TOUCHED.run(connection, {"base": base, "now": now_ms})


_TOUCHED: Final = Prepared(
    update(BASE)
    .where(BASE.c.key == bindparam("base"))
    .values(changes=BASE.c.changes + 1, updated_ms=bindparam("now"))
)


def embed_by(
    connection: Connection, base: int, model: str, dimension: int, collection: str, now_ms: int
) -> None:
    """Record the model that embeds a base from now on, and where its vectors are."""
    values = {"embedding_model": model, "embedding_dimension": dimension, "collection": collection}
    connection.execute(update(BASE).where(BASE.c.key == base).values(values))
    touched(connection, base, now_ms)


def sources(connection: Connection, base: int) -> dict[str, int]:
    """Path to key of what was added to a base."""
    query = select(SOURCE.c.path, SOURCE.c.key).where(SOURCE.c.base == base).order_by(SOURCE.c.path)
    return {row.path: row.key for row in connection.execute(query)}


def add_sources(connection: Connection, base: int, paths: Sequence[str]) -> dict[str, int]:
    """Remember paths that were added; all of the base's sources."""
    known = sources(connection, base)
    new = [{"base": base, "path": path} for path in dict.fromkeys(paths) if path not in known]
    if new:
        connection.execute(insert(SOURCE), new)
    return sources(connection, base)


def remove_sources(connection: Connection, base: int, keys: Collection[int]) -> None:
    connection.execute(delete(SOURCE).where(SOURCE.c.base == base, SOURCE.c.key.in_(list(keys))))


def documents(connection: Connection, base: int, *, ready: bool = True) -> dict[str, KnownDocument]:
    """Path to document."""
    query = select(*(DOCUMENT.c[name] for name in KnownDocument._fields))
    rows = connection.execute(query.where(DOCUMENT.c.base == base, DOCUMENT.c.ready.is_(ready)))
    return {row.path: KnownDocument(*row) for row in rows}


def vectors_in_rows(connection: Connection, document: int) -> dict[str, bytes]:
    """The embedded text of each of a document's chunks to its vector, of rows from before revision 0014."""
    query = select(PART.c.places, PART.c.texts, PART.c.vectors, PART.c.chunks)
    rows = connection.execute(query.where(PART.c.document == document, func.length(PART.c.vectors) > 0))
    found = {}
    for places, texts, vectors, chunks in rows:
        width = len(vectors) // chunks
        for place, chunk in enumerate(unpacked_chunks(places, texts)):
            found[chunk.embedded] = vectors[place * width : (place + 1) * width]
    return found


def vector_digests(
    connection: Connection, base: int, model: str, *, document: int | None = None
) -> dict[int, bytes]:
    """The number of each vector that a base should have of a model, as of ``embedded_by``, to its digest.

    Args:
        document: of this document alone.
    """
    query = select(DOCUMENT.c.key, DOCUMENT.c.made_with, PART.c.number, PART.c.digests)
    query = query.join(PART, PART.c.document == DOCUMENT.c.key).where(DOCUMENT.c.base == base)
    if document is not None:
        query = query.where(DOCUMENT.c.key == document)
    found = {}
    for key, made_with, first, digests in connection.execute(query):
        if embedded_by(made_with) != model:
            continue
        for place in range(len(digests) // DIGEST_BYTES):
            digest = bytes(digests[place * DIGEST_BYTES : (place + 1) * DIGEST_BYTES])
            if digest != NO_VECTOR:
                found[number_of(key, first + place)] = digest
    return found


def embedded_texts(connection: Connection, numbers: Collection[int]) -> dict[int, str]:
    """The texts of vectors, by their numbers."""
    wanted = set(numbers)
    query = select(PART.c.document, PART.c.number, PART.c.places, PART.c.texts)
    found = {}
    for document in sorted({number >> PLACE_BITS for number in wanted}):
        for key, first, places, texts in connection.execute(query.where(PART.c.document == document)):
            for place, chunk in enumerate(unpacked_chunks(places, texts)):
                if (number := number_of(key, first + place)) in wanted:
                    found[number] = chunk.embedded
    return found


def write_documents(
    connection: Connection, base: int, new: Sequence[tuple[Mapping[str, Any], Sequence[ChunkGroup]]]
) -> list[int]:
    """New documents, each with its first parts. Their keys, in order."""
    if not new:
        return []
    rows = [{"base": base, **values} for values, _ in new]
    if sqlite_driver(connection) is None:
        keys = list(connection.execute(_NEW_DOCUMENTS, rows).scalars())
    else:
        keys = [_NEW_DOCUMENT.inserted(connection, row) for row in rows]
    _put_parts(
        connection, [(key, *part) for key, (_, parts) in zip(keys, new, strict=True) for part in parts]
    )
    return keys


def append_parts(connection: Connection, document: int, new: Sequence[ChunkGroup]) -> None:
    """Further parts of a document that is being written."""
    _put_parts(connection, [(document, *part) for part in new])


def _put_parts(connection: Connection, rows: Sequence[tuple[object, ...]]) -> None:
    if rows:
        _NEW_PART.run_many(connection, _PART_COLUMNS, [(*row[:_OLD], b"", *row[_OLD:]) for row in rows])


# Without the order PostgreSQL may return the keys of several rows in any order.
_NEW_DOCUMENTS: Final = insert(DOCUMENT).returning(DOCUMENT.c.key, sort_by_parameter_order=True)
_NEW_DOCUMENT: Final = Prepared(
    insert(DOCUMENT)
    .values({column.name: bindparam(column.name) for column in DOCUMENT.columns if column.name != "key"})
    .inline()
)
_PART_COLUMNS: Final = tuple(column.name for column in PART.columns if column.name != "key")
_OLD: Final = _PART_COLUMNS.index("vectors")
"""The place of the column that only rows from before revision 0014 use."""
_NEW_PART: Final = Prepared(insert(PART).values({name: bindparam(name) for name in _PART_COLUMNS}))


def finish_document(connection: Connection, document: int, count: int) -> None:
    """Make a document that was written in parts one that is found."""
    connection.execute(update(DOCUMENT).where(DOCUMENT.c.key == document).values(ready=True, chunks=count))


def note_unchanged(connection: Connection, touched: Sequence[Same]) -> None:
    """Record files that were touched but have the same content."""
    for each in touched:
        values = {"size_bytes": each.size_bytes, "mtime_ns": each.mtime_ns}
        connection.execute(update(DOCUMENT).where(DOCUMENT.c.key == each.key).values(values))


def remove_documents(connection: Connection, base: int, keys: Sequence[int]) -> list[int]:
    """Remove documents with their chunks. The numbers that their vectors have."""
    numbers: list[int] = []
    # SQLite before 3.32 takes 999 parameters in a statement.
    for start in range(0, len(keys), 500):
        some = keys[start : start + 500]
        parts = select(PART.c.document, PART.c.number, PART.c.chunks).where(PART.c.document.in_(some))
        for document, first, chunks in connection.execute(parts):
            numbers += range(number_of(document, first), number_of(document, first + chunks))
        connection.execute(delete(PART).where(PART.c.document.in_(some)))
        connection.execute(delete(DOCUMENT).where(DOCUMENT.c.base == base, DOCUMENT.c.key.in_(some)))
    return numbers


def _keys(base: int) -> Any:
    return select(DOCUMENT.c.key).where(DOCUMENT.c.base == base)


def _bases(caller: Caller) -> Any:
    counts = (
        select(
            DOCUMENT.c.base,
            func.count().label("documents"),
            func.coalesce(func.sum(DOCUMENT.c.chunks), 0).label("chunks"),
        )
        .where(DOCUMENT.c.ready.is_(True))
        .group_by(DOCUMENT.c.base)
        .subquery()
    )
    seen = [and_(BASE.c.scope == "user", BASE.c.scope_id == caller.user_id)]
    if caller.project_id and caller.role is not None:
        seen.append(and_(BASE.c.scope == "project", BASE.c.scope_id == caller.project_id))
    return (
        select(BASE, func.coalesce(counts.c.documents, 0), func.coalesce(counts.c.chunks, 0))
        .select_from(BASE.outerjoin(counts, counts.c.base == BASE.c.key))
        .where(or_(*seen))
    )


def _info(row: Any) -> BaseInfo:
    return BaseInfo(
        key=row.key,
        name=row.name,
        scope=row.scope,
        scope_id=row.scope_id,
        created_by=row.created_by,
        embedding=row.embedding_model,
        dimension=row.embedding_dimension,
        chunk_tokens=row.chunk_tokens,
        overlap_tokens=row.overlap_tokens,
        changes=row.changes,
        documents=int(row[-2]),
        chunks=int(row[-1]),
        updated_ms=row.updated_ms,
        collection=row.collection,
    )
