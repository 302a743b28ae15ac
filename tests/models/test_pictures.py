"""Pictures named by messages, and the requests that carry them."""

from __future__ import annotations

import json
import signal
import sys
from base64 import b64decode
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from tests.support.pictures import png
from tests.support.reading_apart import given_up_while_it_reads
from zeus_runtime.models.content import text_of, whole_text
from zeus_runtime.models.messages import from_payload, to_payload
from zeus_runtime.models.pictures import (
    Picture,
    fit_for,
    kept_with,
    picture_of,
    pictures_of,
    too_large,
)
from zeus_runtime.models.profiles import ModelProfile
from zeus_runtime.models.vision import PictureSight, with_pictures
from zeus_runtime.plugin.model import CachePoints, ModelRequest

MAP = Picture("/attached_files/0123/map.png", "image/png", 640, 480, 1234, "map.png")
GIF = b"GIF89a" + (300).to_bytes(2, "little") + (200).to_bytes(2, "little") + b"\0" * 20


def url(picture: Picture) -> str:
    return f"data:{picture.media_type};base64,{picture.path}"


def test_a_picture_is_known_by_its_first_bytes_whatever_it_is_called() -> None:
    found = picture_of(png(31, 17), "/a/b.txt", name="b.txt")
    assert found is not None
    assert (found.media_type, found.width, found.height, found.size_bytes) == (
        "image/png",
        31,
        17,
        len(png(31, 17)),
    )
    gif = picture_of(GIF, "/x")
    assert gif is not None
    assert (gif.media_type, gif.width, gif.height) == ("image/gif", 300, 200)
    for other in (
        b"",
        b"text",
        b"<svg width='3' height='3'/>",
        b"BM" + b"\0" * 60,
        b"\x89PNG\r\n\x1a\n",
        GIF[:6],
    ):
        assert picture_of(other, "/x") is None, other


@given(
    st.binary(max_size=60),
    st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"RIFF0000WEBP"]),
)
def test_any_bytes_can_be_looked_at(rest: bytes, start: bytes) -> None:
    found = picture_of(start + rest, "/x")
    assert found is None or (found.width > 0 and found.height > 0)


WIDE = Picture("/x", "image/png", 8_001, 1, 9)
HEAVY = Picture("/x", "image/png", 8, 1, 3_750_001)


def test_what_providers_refuse_is_told_apart_where_nothing_can_make_it_smaller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert too_large(MAP) is too_large(WIDE) is too_large(HEAVY) is None
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert too_large(MAP) is None
    for picture, why in ((WIDE, "pixels"), (HEAVY, "bytes")):
        assert why in (too_large(picture) or "")
        assert "pip install 'zeus-runtime[pictures]'" in (too_large(picture) or "")


def test_what_is_too_large_to_be_made_smaller_is_sent_to_nobody() -> None:
    assert "too many" in (too_large(Picture("/x", "image/png", 20_000, 20_000, 9)) or "")
    assert "too many" in (too_large(Picture("/x", "image/png", 8, 8, 50_000_001)) or "")


def test_the_log_keeps_a_message_s_pictures_by_name() -> None:
    for message in (
        HumanMessage("see", additional_kwargs=kept_with([MAP])),
        ToolMessage("seen", tool_call_id="c", additional_kwargs=kept_with([MAP])),
    ):
        again = from_payload(json.loads(json.dumps(to_payload(message))))
        assert pictures_of(again) == (MAP,)
        assert text_of(again) == str(message.content)
        assert MAP.label in whole_text(again)
        assert text_of(again, name_others=True) == f"{message.content}\n{MAP.label}"


def test_a_label_is_one_line_whatever_the_name() -> None:
    odd = Picture("/a\n── you\u202e.png", "image/png", 1, 1, 9, name="b\r\n]")
    assert odd.label == r"[picture b\r\n]: PNG, 1x1, 9 bytes, /a\n── you\u202e.png]"


KINDS = st.lists(st.sampled_from(["user", "answer", "calls", "calls+"]), max_size=8)


def talk(kinds: list[str]) -> list[BaseMessage]:
    """A conversation; ``+`` has pictures in results, a user's message always has one."""
    messages: list[BaseMessage] = []
    for number, kind in enumerate(kinds):
        if kind == "user":
            messages.append(HumanMessage("see", additional_kwargs=kept_with([MAP])))
        elif kind == "answer":
            messages.append(AIMessage("done"))
        else:
            ids = [f"{number}.{each}" for each in range(2)]
            calls = [{"name": "look", "args": {}, "id": each, "type": "tool_call"} for each in ids]
            messages.append(AIMessage("", tool_calls=calls))
            more = kept_with([MAP]) if kind == "calls+" else {}
            messages += [
                ToolMessage("seen", tool_call_id=each, name="look", additional_kwargs=more) for each in ids
            ]
    return messages


@given(KINDS, st.booleans(), st.data())
def test_results_stay_together_nothing_is_lost_and_marks_stay_behind_what_they_marked(
    kinds: list[str], in_results: bool, data: st.DataObject
) -> None:
    messages = talk(kinds)
    marks = data.draw(st.sets(st.integers(0, len(messages) - 1))) if messages else set()
    request = ModelRequest("", messages, cache_points=CachePoints(messages=tuple(sorted(marks))))
    sent = with_pictures(request, url, in_results=in_results)
    shown = list(sent.messages)
    for before, after in pairwise(shown):
        if after.type == "tool":
            assert before.type in ("ai", "tool")
    parts = [part for each in shown if isinstance(each.content, list) for part in each.content]
    images = [part for part in parts if isinstance(part, dict) and part["type"] == "image_url"]
    assert len(images) == sum(len(pictures_of(each)) for each in messages)
    own = [each for each in shown if pictures_of(each) or isinstance(each.content, str)]
    assert [type(each) for each in own] == [type(each) for each in messages]
    assert sent.cache_points is not None
    for mark, place in zip(sorted(marks), sent.cache_points.messages, strict=True):
        assert place >= shown.index(own[mark]) or own[mark] in shown[: place + 1]
        left = [each for each in shown[: place + 1] if pictures_of(each) or isinstance(each.content, str)]
        assert len(left) == mark + 1
    if in_results:
        assert len(shown) == len(messages)


@given(st.integers(0, 60), st.integers(5, 25))
def test_of_too_many_pictures_the_newest_are_shown_and_the_others_named(count: int, most: int) -> None:
    messages = [HumanMessage("see", additional_kwargs=kept_with([MAP])) for _ in range(count)]
    shown = with_pictures(ModelRequest("", messages), url, in_results=False, most=most).messages
    kinds = [each.content[-1]["type"] for each in shown]  # type: ignore[index]
    assert kinds == sorted(kinds, reverse=True), "what is named comes first"
    images = kinds.count("image_url")
    assert images <= most
    assert images == count if count <= most else images > most - most // 5 - 1


def test_a_request_without_pictures_is_the_same_one() -> None:
    request = ModelRequest("", [HumanMessage("hello")])
    assert list(with_pictures(request, url, in_results=False).messages) == list(request.messages)


LARGE = Picture("/attached_files/large.png", "image/png", 9_000, 3_000, 9)
SEE = ModelRequest("", [HumanMessage("see", additional_kwargs=kept_with([LARGE]))])
SEEING = ModelProfile("gpt-4o", "openai", vision=True)


def parts(request: ModelRequest) -> Any:
    return request.messages[0].content


async def test_a_picture_that_cannot_be_made_smaller_is_tried_once() -> None:
    read: list[str] = []

    def damaged(path: str) -> bytes:
        read.append(path)
        return b"damaged"

    sight = PictureSight(SEEING, damaged)
    for _step in range(3):
        assert "gone or damaged" in parts(await sight.request(SEE))[-1]["text"]
    assert read == [LARGE.path]


KEPT = "/attached_files/0123456789abcdef/large.png"
CLAUDE = ModelProfile("claude-sonnet-4-5", "anthropic", vision=True)


def sees(count: int) -> ModelRequest:
    """A request with so many large pictures, each kept under a name of its own."""
    pictures = [replace(LARGE, path=f"/attached_files/{number:016x}/large.png") for number in range(count)]
    return ModelRequest("", [HumanMessage("see", additional_kwargs=kept_with(pictures))])


async def test_a_smaller_picture_is_made_once_however_many_there_are_and_in_later_runs_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("zeus_runtime.models.vision._KEPT_CHARACTERS", 1)
    files = {each.path: png(3_000, 1_000) for each in pictures_of(sees(3).messages[0])}
    originals = set(files)
    read: list[str] = []

    def reading(path: str) -> bytes:
        read.append(path)
        if path not in files:
            raise FileNotFoundError(path)
        return files[path]

    sent = []
    for _run in range(2):
        sight = PictureSight(CLAUDE, reading, files.__setitem__)
        sent += [parts(await sight.request(sees(3))) for _step in range(2)]
    assert sent[0] == sent[1] == sent[2] == sent[3]
    assert sorted(path for path in read if path in originals) == sorted(originals), "each was read once"
    made = [picture_of(data, path) for path, data in files.items() if path not in originals]
    assert [(each.width, each.height) for each in made if each] == [(1_568, 523)] * 3


async def test_a_smaller_picture_that_cannot_be_kept_is_sent_and_told_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(path: str, data: bytes) -> None:
        raise OSError("no space left")

    data = png(9_000, 3_000)

    def reading(path: str) -> bytes:
        if path != KEPT:
            raise FileNotFoundError(path)
        return data

    request = ModelRequest(
        "", [HumanMessage("see", additional_kwargs=kept_with([replace(LARGE, path=KEPT)]))]
    )
    sight = PictureSight(SEEING, reading, full)
    assert parts(await sight.request(request))[-1]["type"] == "image_url"
    assert "no space left" in caplog.text


@pytest.mark.parametrize(
    ("profile", "width", "height"),
    [(SEEING, 9_000, 3_000), (SEEING, 300, 200), (CLAUDE, 3_001, 1_000), (CLAUDE, 1_999, 1_000)],
)
async def test_the_size_that_is_counted_is_the_size_that_is_sent(
    profile: ModelProfile, width: int, height: int
) -> None:
    data = png(width, height)
    picture = picture_of(data, "/x.png")
    assert picture is not None
    request = ModelRequest("", [HumanMessage("see", additional_kwargs=kept_with([picture]))])
    url = parts(await PictureSight(profile, lambda _path: data).request(request))[-1]["image_url"]["url"]
    sent = picture_of(b64decode(url.partition(",")[2]), "/x.png")
    assert sent is not None
    assert fit_for(profile).size(picture) == (sent.width, sent.height)


async def test_a_request_that_is_given_up_waits_for_no_picture_and_says_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = png(9_000, 3_000)
    sight = PictureSight(SEEING, lambda _path: data)
    assert await given_up_while_it_reads(sight.request(SEE), monkeypatch) == -signal.SIGKILL
    assert parts(await sight.request(SEE))[-1]["type"] == "image_url"
