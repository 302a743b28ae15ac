"""What a model sees of the pictures in its requests.

``with_pictures`` puts them into a request's messages, as image parts that chat-completion providers take. Where a
provider takes none in a tool's result, they follow the results in a message of the user's that names the call.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.errors import ZeusError
from zeus_runtime.models.pictures import (
    KEY,
    MAX_PICTURE_BYTES,
    MAX_SIDE,
    Picture,
    fit_for,
    picture_of,
    pictures_of,
)

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from zeus_runtime.models.interface import ModelRequest
    from zeus_runtime.models.profiles import ModelProfile
    from zeus_runtime.tools.worker_process import Apart

_MOST_IN_REQUEST: Final = {"bedrock": 20}
_MOST_ANYWHERE: Final = 100
"""Of a whole request, as Anthropic has it; others take more. Of more, the newest are shown."""

_KEPT_CHARACTERS: Final = 32_000_000
_IN_RESULTS: Final = frozenset({"anthropic"})
"""Providers that take pictures in a tool's result for every model that sees ("tool_result" with blocks of type image).
OpenAI's chat API takes text only, Gemini's from version 3 on, Bedrock's for some models: those get a message."""

_log = logging.getLogger(__name__)


class PictureSight:
    """What a model sees of the pictures in its requests: nothing, where its profile does not say that it sees.

    Args:
        profile: the model's.
        read: the bytes of a file of the workspace; OSError or ZeusError where they cannot be had.
        write: keeps the bytes of a smaller picture beside the picture; without it each run makes its own, and makes
            them again at each step where they are many.
    """

    def __init__(
        self,
        profile: ModelProfile,
        read: Callable[[str], bytes],
        write: Callable[[str, bytes], object] | None = None,
    ) -> None:
        self._sees = profile.vision
        self._in_results = profile.provider in _IN_RESULTS
        self._fit = fit_for(profile)
        self._most = _MOST_IN_REQUEST.get(profile.provider, _MOST_ANYWHERE)
        self._read = read
        self._write = write
        self._urls: OrderedDict[str, str] = OrderedDict()
        self._unfit: set[str] = set()

    async def request(self, request: ModelRequest) -> ModelRequest:
        """``request`` with its pictures in it; itself if there are none or the model does not see."""
        if not self._sees or not any(KEY in message.additional_kwargs for message in request.messages):
            return request
        import asyncio

        from zeus_runtime.tools.worker_process import Apart

        # If the request is cancelled, leaving the block ends the process, and with it the thread's wait.
        with Apart() as apart:
            return await asyncio.to_thread(
                with_pictures,
                request,
                lambda picture: self._url(picture, apart),
                in_results=self._in_results,
                most=self._most,
            )

    def _url(self, picture: Picture, apart: Apart) -> str | None:
        """Its ``data:`` URL; None if it cannot be sent. Those last used are kept, so far as there is room."""
        if picture.path in self._unfit:
            return None
        # Popped and set again below, so that the last used one is at the end.
        url = self._urls.pop(picture.path, None) or self._kept(picture)
        if url is None:
            try:
                data = self._read(picture.path)
            except (OSError, ZeusError):
                return None
            url = _data_url(picture.media_type, data)
            if self._fit.is_exceeded(picture) and (url := self._smaller(picture, data, url, apart)) is None:
                self._unfit.add(picture.path)
                return None
        self._urls[picture.path] = url
        while len(self._urls) > 1 and sum(map(len, self._urls.values())) > _KEPT_CHARACTERS:
            self._urls.popitem(last=False)
        return url

    def _smaller(self, picture: Picture, data: bytes, whole: str, apart: Apart) -> str | None:
        """The URL of a smaller one; where none can be made, the picture's own if providers take it."""
        from zeus_runtime.models.image_resize import can_scale

        if can_scale() and (made := self._made(data, apart)) is not None:
            self._keep(picture, made[1])
            return _data_url(*made)
        # Damaged: the provider says so of one that it takes.
        fits = max(picture.width, picture.height) <= MAX_SIDE and picture.size_bytes <= MAX_PICTURE_BYTES
        return whole if fits else None

    def _made(self, data: bytes, apart: Apart) -> tuple[str, bytes] | None:
        """Media type and bytes of a smaller picture; None for a damaged one.

        Raises:
            ApartError: the request was given up, which says nothing of the picture.
        """
        from base64 import b64decode

        from zeus_runtime.models.image_resize import SECONDS
        from zeus_runtime.tools.worker_process import ApartError

        try:
            made: Any = apart(
                "zeus_runtime.models.image_resize:scaled",
                data,
                seconds=SECONDS,
                side=self._fit.side,
                max_bytes=MAX_PICTURE_BYTES,
            )
        except ApartError:
            if apart.closed:
                raise
            return None
        return made["media_type"], b64decode(made["base64"])

    def _place(self, picture: Picture) -> str | None:
        """Where a smaller one is kept, if it is."""
        from zeus_runtime.tools.attachments import beside

        is_kept = self._write is not None and self._fit.is_exceeded(picture)
        return beside(picture.path, f"smaller-{self._fit.side}") if is_kept else None

    def _kept(self, picture: Picture) -> str | None:
        """The URL of the smaller picture that is kept."""
        place = self._place(picture)
        if place is None:
            return None
        try:
            data = self._read(place)
        except (OSError, ZeusError):
            return None
        found = picture_of(data, place)
        return None if found is None else _data_url(found.media_type, data)

    def _keep(self, picture: Picture, data: bytes) -> None:
        place = self._place(picture)
        if place is None or self._write is None:
            return
        try:
            self._write(place, data)
        except (OSError, ZeusError) as error:
            _log.warning("a smaller picture is not kept, and made again when it is needed: %s", error)


def _data_url(media_type: str, data: bytes) -> str:
    from base64 import b64encode

    return f"data:{media_type};base64,{b64encode(data).decode()}"


def with_pictures(
    request: ModelRequest,
    url: Callable[[Picture], str | None],
    *,
    in_results: bool,
    most: int = _MOST_ANYWHERE,
) -> ModelRequest:
    """``request`` with image parts in its messages.

    Args:
        url: a picture's ``data:`` URL; None where its bytes are gone or damaged, which is then said in its place.
        in_results: whether a tool's result may have image parts; else they follow the results of one answer, in one
            message of the user's.
        most: pictures of a request. Older ones are named only, a fifth of so many at a time, so that the prefix that a
            provider has cached does not change with each new picture.
    """
    from langchain_core.messages import HumanMessage

    older = _left_out(sum(len(pictures_of(message)) for message in request.messages), most)
    shown: list[BaseMessage] = []
    starts: list[int] = []
    following: list[str | dict[Any, Any]] = []
    for message in request.messages:
        if following and message.type != "tool":
            shown.append(HumanMessage(following))
            following = []
        starts.append(len(shown))
        pictures = pictures_of(message)
        parts = [
            _text(f"{each.label[:-1]}; newer ones are shown]") if place < older else _part(each, url(each))
            for place, each in enumerate(pictures)
        ]
        older -= min(older, len(pictures))
        if not parts:
            shown.append(message)
        elif message.type == "tool" and not in_results:
            shown.append(message)
            call = f"{message.name or 'the tool'} (call {message.tool_call_id})"  # type: ignore[attr-defined]
            following += [_text(f"Pictures in the result of {call}:"), *parts]
        else:
            said = message.content
            before = (
                [_text(said)] if isinstance(said, str) and said else [] if isinstance(said, str) else said
            )
            shown.append(message.model_copy(update={"content": [*before, *parts]}))
    if following:
        shown.append(HumanMessage(following))
    points = request.cache_points
    if points is not None:
        # A mark after a message is one after what follows from it too.
        ends = [*starts[1:], len(shown)]
        points = replace(points, messages=tuple(ends[index] - 1 for index in points.messages))
    return request.override(messages=shown, cache_points=points)


def _left_out(count: int, most: int) -> int:
    step = max(1, most // 5)
    return -(-max(0, count - most) // step) * step


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _part(picture: Picture, url: str | None) -> dict[str, Any]:
    if url is None:
        return _text(f"{picture.label[:-1]}; its file is gone or damaged, or holds a secret]")
    return {"type": "image_url", "image_url": {"url": url}}
