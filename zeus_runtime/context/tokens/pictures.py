"""The tokens of a picture, by its size in pixels as sent, according to each provider's manual."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, Final, TypeAlias

from zeus_runtime.context.tokens.framing import framing_for
from zeus_runtime.models.pictures import fit_for

if TYPE_CHECKING:
    from zeus_runtime.models.pictures import Picture
    from zeus_runtime.models.profiles import ModelProfile

_Price: TypeAlias = Callable[[int, int], int]
_PATCHED: Final = (
    (r"(gpt-4\.1|gpt-5)[^/]*-nano", 2.46),
    (r"(gpt-4\.1|gpt-5)[^/]*-mini", 1.62),
    (r"o4-mini", 1.72),
)
"""OpenAI's small models: a price for each patch of 32 pixels, at most 1,536 patches ("Images and vision")."""

_TILED: Final = ((r"gpt-4o-mini", 2833, 5667), (r"gpt-5", 70, 140), (r"o[13]", 75, 150), (r"", 85, 170))
"""OpenAI's other models: a base, and a price for each tile of 512 pixels."""


def picture_tokens(profile: ModelProfile) -> Callable[[Picture], int]:
    """A function that counts the tokens of a picture for the model ``profile``; 0 for a model without vision.

    - Claude: width × height / 750, scaled to at most 1,568 pixels on a side and about 1,600 tokens ("Vision").
    - OpenAI: tiles of 512 pixels after scaling to 2,048 and then to 768 on the short side; small models patches of 32.
    - Gemini: 258 up to 384 pixels, else 258 for each tile of two thirds of the short side; 1,120 from version 3 on.
    - Others: width × height / 784, patches of 28 pixels as Qwen's and most open models have them, 4 to 16,384.
    """
    if not profile.vision:
        return lambda _picture: 0
    fit, price = fit_for(profile), _price(profile)
    return lambda picture: price(*fit.size(picture))


def _price(profile: ModelProfile) -> _Price:
    """The tokens of a width and a height."""
    family = framing_for(profile).name.split()[0]
    name = profile.name.lower()
    if family == "claude":
        return _claude
    if family == "gemini":
        return (lambda _width, _height: 1_120) if re.search(r"gemini-([3-9]|\d\d)", name) else _gemini
    if family.rstrip(",") == "openai":
        return _openai(name)
    return lambda width, height: min(16_384, max(4, ceil(width / 28) * ceil(height / 28)))


def _claude(width: int, height: int) -> int:
    scale = min(1.0, 1_568 / max(width, height))
    return max(1, min(1_600, ceil(width * height * scale * scale / 750)))


def _gemini(width: int, height: int) -> int:
    if max(width, height) <= 384:
        return 258
    unit = min(768, max(256, int(min(width, height) / 1.5)))
    return 258 * ceil(width / unit) * ceil(height / unit)


def _openai(name: str) -> _Price:
    for pattern, price in _PATCHED:
        if re.search(pattern, name):
            return lambda width, height, price=price: ceil(price * _patches(width, height))  # type: ignore[misc]
    base, tile = next((base, tile) for pattern, base, tile in _TILED if re.search(pattern, name))

    def tiled(width: int, height: int) -> int:
        scale = min(1.0, 2_048 / max(width, height))
        scale *= min(1.0, 768 / (min(width, height) * scale))
        return base + tile * ceil(width * scale / 512) * ceil(height * scale / 512)

    return tiled


def _patches(width: int, height: int) -> int:
    patches = ceil(width / 32) * ceil(height / 32)
    return min(1_536, patches)
