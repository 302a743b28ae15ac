"""Pictures in messages. A message in the log names them; their bytes stay in one file and are read for a request.

``with_pictures`` puts them into a request's messages, as image parts that chat-completion providers take. Where a
provider takes none in a tool's result, they follow the results in a message of the user's that names the call.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.frozen import dataclass

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from zeus_runtime.models.interface import ModelRequest
    from zeus_runtime.models.profiles import ModelProfile
    from zeus_runtime.tools.apart import Apart
    from zeus_runtime.tools.workspace import WorkspaceFiles

KEY: Final = "pictures"
"""Under which a message has them (``additional_kwargs``)."""

MAX_PICTURE_BYTES: Final = 3_750_000
"""5 MB as base64, the most that Anthropic takes of one picture; others take more."""
MAX_SIDE: Final = 8_000
"""Pixels; Anthropic's limit, again the lowest."""

MOST_PICTURES: Final = 20
"""Of one message: what Bedrock takes in a request."""
_MOST_IN_REQUEST: Final = {"bedrock": 20}
_MOST_ANYWHERE: Final = 100
"""Of a whole request, as Anthropic has it; others take more. Of more, the newest are shown."""

_SHRUNK: Final = {"anthropic": (2_000, 1_568)}
"""Beyond how many pixels on a side a picture is made smaller, and how many it has then: Anthropic refuses more than 20
pictures if one is larger, and itself makes them so small before its models see them ("Vision"). Others get the size
they can take (``MAX_SIDE``), since their models see more."""

_KEPT_CHARACTERS: Final = 32_000_000
_MEDIA: Final = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
)
"""What all providers take, and how their files begin; beside WebP, which has its name behind a length."""

_IN_RESULTS: Final = frozenset({"anthropic"})
"""Providers that take pictures in a tool's result for every model that sees ("tool_result" with blocks of type image).
OpenAI's chat API takes text only, Gemini's from version 3 on, Bedrock's for some models: those get a message."""


@dataclass(frozen=True)
class Picture:
    """A picture of a message.

    Args:
        path: the file of the workspace that has its bytes, named after them, so that it never changes.
        media_type: ``image/png``, ``image/jpeg``, ``image/gif`` or ``image/webp``.
        width, height: pixels.
        name: what the user or the tool calls it; empty for its path.
    """

    path: str
    media_type: str
    width: int
    height: int
    size_bytes: int
    name: str = ""

    @property
    def label(self) -> str:
        """What it is, on one line."""
        kind = self.media_type.partition("/")[2].upper()
        name = self.name or self.path
        where = "" if name == self.path else f", {self.path}"
        return f"[picture {name}: {kind}, {self.width}x{self.height}, {self.size_bytes:,} bytes{where}]"

    def as_json(self) -> dict[str, Any]:
        """As the log keeps it."""
        return {key: value for key, value in asdict(self).items() if value}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Picture:
        return cls(**{key: each for key, each in value.items() if key in cls.__dataclass_fields__})


def picture_of(data: bytes, path: str, *, name: str = "") -> Picture | None:
    """The picture that bytes are; None for other bytes, a format that not all providers take, or a damaged head.

    Args:
        path: of the file in the workspace that has them.
        name: what to call it.
    """
    kind = next((kind for start, kind in _MEDIA if data.startswith(start)), None)
    if kind is None and data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "webp"
    if kind is None:
        return None
    import io

    import imagesize

    width, height = imagesize.get(io.BytesIO(data))
    return Picture(path, f"image/{kind}", width, height, len(data), name) if min(width, height) > 0 else None


def keep_picture(data: bytes, name: str, files: WorkspaceFiles) -> Picture | None:
    """The picture that bytes are, kept in the workspace under a name made of them; None for what is no picture.

    Args:
        name: what the user or the tool calls it.

    Raises:
        WorkspaceError: it cannot be written.
    """
    from zeus_runtime.tools.attached import keep

    picture = picture_of(data, "", name=name)
    return None if picture is None else replace(picture, path=keep(data, name, files))


def most_picture_bytes() -> int:
    """Of a picture's file that is read to be sent: as it is, or made smaller where that is possible here."""
    from zeus_runtime.models.scaling import MAX_SOURCE_BYTES, can_scale

    return MAX_SOURCE_BYTES if can_scale() else MAX_PICTURE_BYTES


def too_large(picture: Picture) -> str | None:
    """Why a picture is sent to no provider, not even made smaller; None if it is."""
    from zeus_runtime.models.scaling import MAX_PIXELS, MAX_SOURCE_BYTES, can_scale

    if picture.size_bytes > MAX_PICTURE_BYTES:
        reason = (
            f"it has {picture.size_bytes:,} bytes, more than the {MAX_PICTURE_BYTES:,} that providers take"
        )
    elif max(picture.width, picture.height) > MAX_SIDE:
        reason = f"it has {picture.width}x{picture.height} pixels, more than {MAX_SIDE:,} on a side"
    else:
        return None
    if not can_scale():
        return f"{reason} (pip install 'zeus-runtime[pictures]' makes it smaller)"
    if picture.width * picture.height > MAX_PIXELS or picture.size_bytes > MAX_SOURCE_BYTES:
        return f"{reason}, and too many to make it smaller"
    return None


def not_seen(picture: Picture, profile: ModelProfile) -> str | None:
    """Why a model is not shown a picture; None if it is."""
    if not profile.vision:
        return (
            f"no table says that {profile.name} takes pictures (profiles.models.NAME.vision in the YAML does)"
        )
    return too_large(picture)


def pictures_of(message: BaseMessage) -> tuple[Picture, ...]:
    """The pictures of a message, as the log names them."""
    named: Sequence[Mapping[str, Any]] = message.additional_kwargs.get(KEY) or ()
    return tuple(Picture.from_json(each) for each in named)


def kept_with(pictures: Sequence[Picture]) -> dict[str, Any]:
    """``additional_kwargs`` of a message that has ``pictures``."""
    return {KEY: [each.as_json() for each in pictures]} if pictures else {}


class PictureSight:
    """What a model sees of the pictures in its requests: nothing, where its profile does not say that it sees.

    Args:
        profile: the model's.
        read: the bytes of a file of the workspace; OSError or ZeusError where they cannot be had.
    """

    def __init__(self, profile: ModelProfile, read: Callable[[str], bytes]) -> None:
        self._sees = profile.vision
        self._in_results = profile.provider in _IN_RESULTS
        self._beyond, self._side = _SHRUNK.get(profile.provider, (MAX_SIDE, MAX_SIDE))
        self._most = _MOST_IN_REQUEST.get(profile.provider, _MOST_ANYWHERE)
        self._read = read
        self._urls: OrderedDict[str, str] = OrderedDict()
        self._unfit: set[str] = set()

    async def request(self, request: ModelRequest) -> ModelRequest:
        """``request`` with its pictures in it; itself if there are none or the model does not see."""
        if not self._sees or not any(KEY in message.additional_kwargs for message in request.messages):
            return request
        import asyncio

        from zeus_runtime.tools.apart import Apart

        with Apart() as apart:
            return await asyncio.to_thread(
                with_pictures,
                request,
                lambda picture: self._url(picture, apart),
                in_results=self._in_results,
                most=self._most,
            )

    def _url(self, picture: Picture, apart: Apart) -> str | None:
        from base64 import b64encode

        from zeus_runtime.errors import ZeusError

        url = self._urls.pop(picture.path, None)
        if url is None:
            if picture.path in self._unfit:
                return None
            try:
                data = self._read(picture.path)
            except (OSError, ZeusError):
                return None
            kept = f"data:{picture.media_type};base64,{b64encode(data).decode()}"
            url = self._smaller(picture, data, kept, apart) if self._is_large(picture) else kept
            if url is None:
                self._unfit.add(picture.path)
                return None
        self._urls[picture.path] = url
        while len(self._urls) > 1 and sum(map(len, self._urls.values())) > _KEPT_CHARACTERS:
            self._urls.popitem(last=False)
        return url

    def _is_large(self, picture: Picture) -> bool:
        return max(picture.width, picture.height) > self._beyond or picture.size_bytes > MAX_PICTURE_BYTES

    def _smaller(self, picture: Picture, data: bytes, kept: str, apart: Apart) -> str | None:
        """The ``data:`` URL of a smaller one; where none can be made, the picture itself if providers take it."""
        from zeus_runtime.models.scaling import SECONDS, can_scale
        from zeus_runtime.tools.apart import ApartError

        if can_scale():
            try:
                made: Any = apart(
                    "zeus_runtime.models.scaling:scaled",
                    data,
                    seconds=SECONDS,
                    side=self._side,
                    max_bytes=MAX_PICTURE_BYTES,
                )
                return f"data:{made['media_type']};base64,{made['base64']}"
            except ApartError:
                if apart.closed:  # the request was given up; it says nothing of the picture
                    raise
                # Damaged: the provider says so of one that it takes.
        fits = max(picture.width, picture.height) <= MAX_SIDE and picture.size_bytes <= MAX_PICTURE_BYTES
        return kept if fits else None


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
        return _text(f"{picture.label[:-1]}; its file is gone or damaged]")
    return {"type": "image_url", "image_url": {"url": url}}
