"""Pictures made small enough for a provider, by Pillow (extra ``pictures``), in a process apart (``tools/apart``).

Pillow (MIT-CMU) reads every format that providers take and is what everything else is built on; its codecs are C and
meet the bytes of strangers, hence the process.
"""

from __future__ import annotations

import io
from base64 import b64encode
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_PIXELS: Final = 100_000_000
"""Of a picture that is made smaller: 400 MB of memory."""
MAX_SOURCE_BYTES: Final = 50_000_000
SECONDS: Final = 30.0
_JPEG_QUALITY: Final = 85
_SHRINK: Final = 0.75


def can_scale() -> bool:
    """Whether pictures can be made smaller here."""
    return find_spec("PIL") is not None


def scaled(data: bytes, side: int, max_bytes: int) -> dict[str, Any]:
    """Return a picture of at most ``side`` pixels on a side and ``max_bytes``: its media type, and its bytes in base64.

    Lossless pictures, such as screenshots with text, stay lossless if that fits. The picture is rotated as its camera's
    metadata says. Of an animation, only the first frame is used.

    Raises:
        ValueError: it has more pixels than ``MAX_PIXELS``.
        OSError: it is damaged.
    """
    from PIL import Image, ImageOps

    with Image.open(io.BytesIO(data)) as source:
        # Before a pixel is decoded: opening reads the head only.
        if source.width * source.height > MAX_PIXELS:
            raise ValueError(f"it has more than {MAX_PIXELS:,} pixels")
        is_exact = source.format in ("PNG", "GIF")
        # A JPEG is decoded at down to an eighth of its size, which saves memory; other formats ignore it.
        source.draft("RGB", (side, side))
        # The copy has no metadata about its rotation, so it is turned here.
        picture = ImageOps.exif_transpose(source)
        has_holes = picture.has_transparency_data
        picture = picture.convert("RGBA" if has_holes else "RGB")
    picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    while True:
        for kind in ("png", "jpeg") if is_exact or has_holes else ("jpeg",):
            made = _encoded(picture, kind)
            if len(made) <= max_bytes:
                return {"media_type": f"image/{kind}", "base64": b64encode(made).decode()}
        size = max(1, int(picture.width * _SHRINK)), max(1, int(picture.height * _SHRINK))
        picture = picture.resize(size, Image.Resampling.LANCZOS)


def _encoded(picture: Image, kind: str) -> bytes:
    from PIL import Image

    made = io.BytesIO()
    if kind == "png":
        picture.save(made, "PNG")
        return made.getvalue()
    # JPEG has no transparency, and the colours under the transparent places would show.
    if picture.mode == "RGBA":
        white = Image.new("RGBA", picture.size, "white")
        picture = Image.alpha_composite(white, picture).convert("RGB")
    picture.save(made, "JPEG", quality=_JPEG_QUALITY)
    return made.getvalue()
