"""Pictures in messages. A message in the log names them; their bytes stay in one file and are read for a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.escaping import printable
from zeus_runtime.frozen import dataclass

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.models.profiles import ModelProfile
    from zeus_runtime.tools.workspace import WorkspaceFiles

KEY: Final = "pictures"
"""Under which a message has them (``additional_kwargs``)."""

MAX_PICTURE_BYTES: Final = 3_750_000
"""5 MB as base64, the most that Anthropic takes of one picture; others take more."""
MAX_SIDE: Final = 8_000
"""Pixels; Anthropic's limit, again the lowest."""

MOST_PICTURES: Final = 20
"""The maximum per message: Bedrock's limit for a request."""
_SHRUNK: Final = {"anthropic": (2_000, 1_568)}
"""Beyond how many pixels on a side a picture is made smaller, and how many it has then: Anthropic refuses more than 20
pictures if one is larger, and itself makes them so small before its models see them ("Vision"). Others get the size
they can take (``MAX_SIDE``), since their models see more."""

_MEDIA: Final = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
)
"""What all providers take, and how their files begin; beside WebP, which has its name behind a length."""


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
        """A description on one line."""
        kind = self.media_type.partition("/")[2].upper()
        name = printable(self.name or self.path)
        where = "" if not self.name or self.name == self.path else f", {printable(self.path)}"
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

    # It gives -1 for a head that it cannot read.
    width, height = imagesize.get(io.BytesIO(data))
    return Picture(path, f"image/{kind}", width, height, len(data), name) if min(width, height) > 0 else None


def keep_picture(data: bytes, name: str, files: WorkspaceFiles, secrets: Redactor) -> Picture | None:
    """The picture that the bytes encode, stored in the workspace under a name made of them; None without a picture.

    Args:
        name: what the user or the tool calls it; secrets in it are masked.
        secrets: none of them may be in the picture's file; its metadata are text. In compressed metadata, and in what
            the picture shows, they are not found.

    Raises:
        WorkspaceError: it cannot be written, or contains a known secret.
    """
    from zeus_runtime.tools.attachments import keep
    from zeus_runtime.tools.paths import WorkspaceError

    picture = picture_of(data, "", name=secrets.text(name))
    if picture is None:
        return None
    if why := refused(picture, data, secrets):
        raise WorkspaceError(why, remedy="Ask the user to remove the picture's metadata.")
    return replace(picture, path=keep(data, picture.name, files))


def refused(picture: Picture, data: bytes, secrets: Redactor) -> str | None:
    """Why a picture is not kept: its file contains a known secret, which cannot be masked without damage to it."""
    from zeus_runtime.tools.masked_text import masked_bytes

    if masked_bytes(data, secrets) == data:
        return None
    return f"The file of the picture {picture.name} contains a known secret, so it is not shown."


def most_picture_bytes() -> int:
    """Of a picture's file that is read to be sent: as it is, or made smaller where that is possible here."""
    from zeus_runtime.models.image_resize import MAX_SOURCE_BYTES, can_scale

    return MAX_SOURCE_BYTES if can_scale() else MAX_PICTURE_BYTES


def too_large(picture: Picture) -> str | None:
    """Why a picture is sent to no provider, not even made smaller; None if it is."""
    from zeus_runtime.models.image_resize import MAX_PIXELS, MAX_SOURCE_BYTES, can_scale

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


@dataclass(frozen=True)
class Fit:
    """How large pictures are sent to a provider.

    Args:
        beyond: pictures with more pixels on a side, or with too many bytes, are made smaller.
        side: pixels on the longer side afterwards.
    """

    beyond: int
    side: int

    def is_exceeded(self, picture: Picture) -> bool:
        """Whether a picture is made smaller before it is sent."""
        return max(picture.width, picture.height) > self.beyond or picture.size_bytes > MAX_PICTURE_BYTES

    def size(self, picture: Picture) -> tuple[int, int]:
        """Width and height that it is sent with; less where that alone does not make its bytes few enough."""
        scale = self.side / max(picture.width, picture.height)
        if scale >= 1 or not self.is_exceeded(picture):
            return picture.width, picture.height
        return max(1, round(picture.width * scale)), max(1, round(picture.height * scale))


def fit_for(profile: ModelProfile) -> Fit:
    """How large a model's pictures are sent."""
    return Fit(*_SHRUNK.get(profile.provider, (MAX_SIDE, MAX_SIDE)))


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
