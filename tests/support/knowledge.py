"""Knowledge bases for tests: a service over real databases with the offline embedding model, and documents."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from zeus_plugins.embeddings.static.embedder import StaticEmbedder
from zeus_plugins.vector_stores.pgvector.store import PgVectorStore
from zeus_plugins.vector_stores.sqlite.store import SqliteVectorStore

from zeus_runtime.knowledge import KnowledgeService
from zeus_runtime.memory.items import Caller
from zeus_runtime.plugin.embedding import Embedder
from zeus_runtime.plugin.tool import Apart, ApartError
from zeus_runtime.plugin.vector_store import VectorStore
from zeus_runtime.tools.worker_process import _done, _Order

ANN = Caller("ann")


class Counting(Embedder):
    """The offline model, which counts what it is asked for, and may fail after so many texts."""

    def __init__(self, *, model: str | None = None, fails_after: int | None = None) -> None:
        self._real = StaticEmbedder()
        self.model = model or self._real.model
        self.dimension, self.calibration, self.quick = self._real.dimension, self._real.calibration, True
        self.texts: list[str] = []
        self.fails_after = fails_after

    async def embed(self, texts: Sequence[str], *, purpose: Any) -> Any:
        if self.fails_after is not None and len(self.texts) + len(texts) > self.fails_after:
            raise KeyboardInterrupt
        self.texts += texts
        return await self._real.embed(texts, purpose=purpose)


class ParsedHere(Apart):
    """Parses in this process: to start another, and to import parsers there, takes a third of a second of CPU."""

    def __call__(self, function: str, data: bytes, *, seconds: float, **named: Any) -> Any:
        outcome = json.loads(_done(_Order(function, seconds, named, data)))
        if "failed" in outcome:
            raise ApartError(outcome["failed"])
        return outcome["value"]


def store_beside(url: str) -> Callable[[], VectorStore]:
    """Makes the vector store of a database."""
    return PgVectorStore if url.startswith("postgres") else SqliteVectorStore


@asynccontextmanager
async def knowledge(
    url: str,
    folder: Path,
    *,
    caller: Caller = ANN,
    embedder: Embedder | None = None,
    linked: Sequence[str] = (),
    **more: Any,
) -> AsyncIterator[KnowledgeService]:
    more.setdefault("open_vectors", store_beside(url))
    service = KnowledgeService(
        url, folder, open_embedder=lambda: embedder or StaticEmbedder(), caller=caller, linked=linked, **more
    )
    try:
        yield service
    finally:
        await service.aclose()


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(text, str):
        path.write_text(text)
    else:
        path.write_bytes(text)
    return path


def docx() -> bytes:
    """A Word document with a heading, a paragraph, a list and a table."""
    from docx import Document

    document = Document()
    document.add_heading("Voyage", 1)
    document.add_paragraph("The ship sails at dawn.")
    document.add_paragraph("bread", style="List Bullet")
    table = document.add_table(rows=2, cols=2)
    for place, text in enumerate(("port", "days", "Pylos", "3")):
        table.cell(place // 2, place % 2).text = text
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def bookmarked(*pages: str, last: str = "") -> bytes:
    """A PDF whose second page begins a chapter, and whose third page a section of it, then perhaps a last chapter."""
    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf(*pages))))
    chapter = writer.add_outline_item(title="Voyage", page_number=1)
    writer.add_outline_item(title="Sirens", page_number=2, parent=chapter)
    if last:
        writer.add_outline_item(title=last, page_number=2)
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def pdf(*pages: str) -> bytes:
    """A PDF with a line of text on each page, written by hand."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>"]
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode())
    objects.append(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for number, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R"
            " /Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    return out + b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
