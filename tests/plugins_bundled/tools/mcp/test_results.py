"""Binary data of a server's answers, and the secrets in it."""

from __future__ import annotations

import textwrap
import threading
from base64 import b64encode
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from zeus_plugins.tools.mcp import results
from zeus_plugins.tools.mcp.requests import Calls
from zeus_plugins.tools.mcp.results import tool_result

from tests.support.pictures import picture_with
from zeus_runtime.models.pictures import keep_picture
from zeus_runtime.plugin import Redactor
from zeus_runtime.plugin.files import WorkspaceError, WorkspaceFiles

TOKEN = "shop-token-0123456789"
SECRETS = Redactor().adding({TOKEN: "SHOP_TOKEN"})


def answer(data: bytes, kind: str, mime_type: str) -> Any:
    block = SimpleNamespace(type=kind, data=b64encode(data).decode(), mime_type=mime_type)
    return SimpleNamespace(content=[block], structured_content=None, is_error=False)


def kept(folder: Path) -> bytes:
    return b"".join(each.read_bytes() for each in folder.rglob("*") if each.is_file())


def test_a_picture_with_a_secret_is_neither_kept_nor_shown(tmp_path: Path) -> None:
    files = WorkspaceFiles(tmp_path)
    result = tool_result(answer(picture_with(f"note {TOKEN}"), "image", "image/png"), files, SECRETS)
    assert "contains a known secret" in result.content
    assert not result.pictures
    assert not kept(tmp_path)
    with pytest.raises(WorkspaceError, match="contains a known secret"):
        keep_picture(picture_with(TOKEN), "a.png", files, SECRETS)
    shown = tool_result(answer(picture_with("note"), "image", "image/png"), files, SECRETS)
    assert len(shown.pictures) == 1


@pytest.mark.parametrize(
    "written",
    [
        "exif\n      28\n" + "\n".join(textwrap.wrap(f"aabbcc{TOKEN.encode().hex()}dd", 24)),
        b64encode(b64encode(f"user:{TOKEN}".encode())).decode(),
        TOKEN.replace("-", "&#45;"),
        TOKEN.replace("-", "%2D"),
    ],
    ids=["wrapped hexadecimal", "base64 twice", "XML", "URL"],
)
def test_a_secret_in_another_spelling_is_found_in_a_picture_too(tmp_path: Path, written: str) -> None:
    with pytest.raises(WorkspaceError, match="contains a known secret"):
        keep_picture(picture_with(written), "a.png", WorkspaceFiles(tmp_path), SECRETS)


def test_a_picture_whose_name_has_a_secret_is_kept_under_a_masked_name(tmp_path: Path) -> None:
    """The log masks the path, so the file must have the masked one too."""
    files = WorkspaceFiles(tmp_path)
    picture = keep_picture(picture_with("note"), f"/chart-{TOKEN}.png", files, SECRETS)
    assert picture is not None
    assert picture.name == "/chart-<secret:SHOP_TOKEN>.png"
    assert SECRETS.text(picture.path) == picture.path
    assert files.read(picture.path, max_bytes=1_000) == picture_with("note")


def test_a_secret_in_other_data_is_masked_where_it_is_kept(tmp_path: Path) -> None:
    result = tool_result(
        answer(f"key={TOKEN}".encode(), "audio", "text/plain"), WorkspaceFiles(tmp_path), SECRETS
    )
    assert "saved as" in result.content
    assert kept(tmp_path) == b"key=<secret:SHOP_TOKEN>"


def test_a_text_that_is_deeply_nested_json_stays_beside_structured_content(tmp_path: Path) -> None:
    text = "[" * 100_000
    block = SimpleNamespace(type="text", text=text)
    given = SimpleNamespace(content=[block], structured_content={"a": 1}, is_error=False)
    result = tool_result(given, WorkspaceFiles(tmp_path), SECRETS)
    assert not result.is_error
    assert result.content == f'{text}\n\n{{"a": 1}}'


class Answering:
    """A connected server whose answers are given; also the link to it."""

    server = SimpleNamespace(name="far")

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def connected(self) -> Any:
        return self

    def answered(self) -> None:
        pass

    async def call_tool(self, *_: object, **__: object) -> Any:
        return self._answer

    async def read_resource(self, _uri: str) -> Any:
        return SimpleNamespace(contents=[each.resource for each in self._answer.content])


def embedded(**content: Any) -> Any:
    return SimpleNamespace(type="resource", resource=SimpleNamespace(uri="x://y", mime_type="a/b", **content))


@pytest.mark.parametrize(
    ("block", "in_thread"),
    [
        (embedded(text="short"), False),
        (embedded(text="long" * 20_000), True),
        (embedded(blob=b64encode(b"some bytes").decode()), True),
    ],
)
async def test_the_event_loop_converts_short_texts_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: Any, in_thread: bool
) -> None:
    """Data of some megabytes takes seconds, in which no other session's run would go on."""
    converted_in = []

    def noting(each: Any, kept: Any) -> str:
        converted_in.append(threading.current_thread() is not threading.main_thread())
        return resource(each, kept)

    resource = results._resource
    monkeypatch.setattr(results, "_resource", noting)
    given = SimpleNamespace(content=[block], structured_content=None, is_error=False)
    calls = Calls(cast(Any, Answering(given)), WorkspaceFiles(tmp_path))
    run = cast(Any, SimpleNamespace(secrets=SECRETS, unanswered=(), waiting=nullcontext))
    for result in (
        await calls.call("tool", {}, run, repeatable=False),
        await calls.read_resource("x://y", run),
    ):
        assert "[resource x://y]" in result.content
    assert converted_in == [in_thread, in_thread]
