"""What a server says, line by line and piece by piece."""

from __future__ import annotations

import asyncio
import gzip
import json
from itertools import pairwise
from typing import Any

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from zeus_plugins.tools.mcp.json_repair import mend, mended
from zeus_plugins.tools.mcp.pipes import lines
from zeus_plugins.tools.mcp.reading import messages
from zeus_plugins.tools.mcp.transports import _passed_on

STANDS_FOR = {
    "VERSION": '"jsonrpc": "2.0"',
    "BROKEN": '{"structuredContent": {"id": 5}, "content": [{"type": "text", "text": "\\x"}], "id": 6}',
    "DEEP": "[" * 100_000 + "]" * 100_000,
}


def ended(line: str) -> list[Any]:
    """The ids of the calls that a line ends with an error."""
    for word, text in STANDS_FOR.items():
        line = line.replace(word, text)
    found = [each.message.model_dump() for each in messages(line.encode())]
    assert all("its answer cannot be read" in each["error"]["message"] for each in found)
    return [each["id"] for each in found]


@pytest.mark.parametrize(
    "line",
    [
        '{VERSION, "id": 7, "result": BROKEN}',
        '{"id": 7, VERSION, "result": BROKEN}',
        '{"result": BROKEN, VERSION, "id": 7}',
        '{"result": BROKEN, "id": 7, VERSION}',
        '{VERSION, "result": BROKEN, "id": 7}',
        '{VERSION, "error": {"code": 1, "message": "\\x", "data": {"id": 5}}, "id": 7}',
        '{VERSION, "id": 7, "result": {"a": DEEP}}',
        '{"result": {"a": DEEP}, VERSION, "id": 7}',
        '{VERSION, "id": 7, "result": "no object", "also": {"id": 5}}',
        '{VERSION, "id": 7, "result": {"text": "cut in the',
        '{"id": 7, "error": {"code": 1, "message": "the version is forgotten"}}',
    ],
)
def test_an_answer_that_cannot_be_read_ends_its_own_call(line: str) -> None:
    assert ended(line) == [7]


@pytest.mark.parametrize(
    "line",
    [
        '{VERSION, "result": {"structuredContent": {"a": [], "id": 5}',
        '{VERSION, "result": {"structuredContent": {"a": "}", "id": 5}',
        '{VERSION, "id": 5, "method": "elicitation/create", "params": {"a": \\x}}',
        '{"method": "elicitation/create", "params": {"a": \\x}, VERSION, "id": 5}',
        '{VERSION, "method": "notifications/message", "params": {"data": {"id": 5, "a": \\x}}}',
        '{VERSION, "id": 5, "method": 3}',
        '{VERSION, "id": true, "result": "no object"}',
        '{"id": 5, "x": \\x}',
        '{"level": "warn", "id": 5, "error": "a line of a log"}',
        "[1, 2]",
        "{",
    ],
)
def test_what_may_be_no_answer_ends_no_call(line: str) -> None:
    assert ended(line) == []


def test_of_a_batch_each_message_is_read_and_what_cannot_be_read_ends_its_own_call() -> None:
    batch = [
        {"jsonrpc": "2.0", "id": 7, "result": {"id": 5}},
        {"jsonrpc": "2.0", "id": 8, "result": "no object"},
        {"jsonrpc": "2.0", "method": "notifications/progress"},
        [{"jsonrpc": "2.0", "id": 5, "result": {}}],
    ]
    answer, failed, told = (each.message.model_dump() for each in messages(json.dumps(batch).encode()))
    assert (answer["id"], answer["result"]) == (7, {"id": 5})
    assert (failed["id"], failed["error"]["code"]) == (8, -32700)
    assert told["method"] == "notifications/progress"


async def test_a_byte_order_mark_before_the_first_message_is_no_part_of_it() -> None:
    stream = asyncio.StreamReader()
    stream.feed_data(b'\xef\xbb\xbf{"jsonrpc": "2.0", "id": 7, "result": {}}\r\n\xef\xbb\xbf\r\n')
    stream.feed_eof()
    (line,) = [each async for each in lines(stream)]
    (found,) = messages(line)
    assert found.message.model_dump()["id"] == 7


def test_a_raw_control_character_in_a_text_is_read() -> None:
    (found,) = messages(b'{"jsonrpc": "2.0", "id": 7, "result": {"text": "a\tb"}}')
    assert found.message.model_dump()["result"] == {"text": "a\tb"}


@given(st.text(), st.booleans())
def test_whole_texts_are_mended_to_themselves(text: str, is_ascii: bool) -> None:
    said = json.dumps(text, ensure_ascii=is_ascii).encode()
    assert mended(said) == said


PIECES = [r"\ud83d", r"\ude00", r"\uDBFF", "\\\\", r"\n", r"\"", r"\u0041", r"\ud7ff", "a", "u", "d83d", "é"]


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_each_half_becomes_one_question_mark_and_all_else_stays(pieces: list[str]) -> None:
    said = '"' + "".join(pieces) + '"'
    halves = json.loads(said)
    wanted = "".join("?" if "\ud800" <= each <= "\udfff" else each for each in halves)
    assert json.loads(mended(said.encode())) == wanted


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.lists(st.integers(0, 60), max_size=6))
def test_a_body_is_mended_alike_however_it_is_cut(pieces: list[str], cuts: list[int]) -> None:
    said = ('"' + "".join(pieces) + '"').encode()
    edges = sorted({0, len(said), *(cut for cut in cuts if cut < len(said))})
    parts = [said[start:end] for start, end in pairwise(edges)]
    assert b"".join(asyncio.run(read_of(parts))) == mended(said)


def test_what_may_be_the_end_of_an_event_is_not_held_back() -> None:
    said = [b'data: {"text": "a\\n"}\n\n', b'data: "\\\\"\n\n', b'data: "\\ud83d"\n\n']
    assert asyncio.run(read_of(said)) == [*said[:2], b'data: "?"\n\n']


async def read_of(parts: list[bytes], kind: str = "text/event-stream") -> list[bytes]:
    """The pieces that are read of a body that comes in these."""

    async def body() -> Any:
        for part in parts:
            yield part

    request = httpx2.Request("GET", "http://localhost/")
    response = httpx2.Response(200, headers={"content-type": kind}, content=body(), request=request)
    await mend(response)
    return [piece async for piece in response.aiter_bytes()]


def test_a_compressed_body_is_mended_and_other_kinds_stay_as_they_are() -> None:
    async def of(kind: str) -> bytes:
        headers = {"content-type": kind, "content-encoding": "gzip"}
        request = httpx2.Request("GET", "http://localhost/")
        content = gzip.compress(rb'"\ud83d"')
        response = httpx2.Response(200, headers=headers, stream=httpx2.ByteStream(content), request=request)
        await mend(response)
        return await response.aread()

    assert asyncio.run(of("application/json; charset=utf-8")) == b'"?"'
    assert asyncio.run(of("text/html")) == rb'"\ud83d"'


async def test_a_server_that_still_talks_when_its_connection_is_closed_is_no_error() -> None:
    said, heard = anyio.create_memory_object_stream[int](3)
    for number in range(3):
        said.send_nowait(number)
    async with said, _passed_on(heard, lambda message: [message]) as received:
        assert await received.receive() == 0
        await received.aclose()
        await anyio.wait_all_tasks_blocked()
