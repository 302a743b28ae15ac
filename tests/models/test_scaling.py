"""Pictures made smaller: what they are afterwards, and that what is no fit picture is said."""

from __future__ import annotations

import io
from base64 import b64decode
from typing import Any

import pytest
from PIL import Image

from tests.support.pictures import png
from zeus_runtime.models.image_resize import scaled
from zeus_runtime.tools.worker_process import Apart, ApartError


def opened(made: dict[str, Any]) -> Image.Image:
    picture = Image.open(io.BytesIO(b64decode(made["base64"])))
    assert made["media_type"] == f"image/{str(picture.format).lower()}"
    return picture


def saved(picture: Image.Image, kind: str, **more: Any) -> bytes:
    data = io.BytesIO()
    picture.save(data, kind, **more)
    return data.getvalue()


def test_a_screenshot_stays_without_loss_and_a_photo_a_photo() -> None:
    shot = opened(scaled(png(3_000, 1_000), 1_500, 10**6))
    assert (shot.format, shot.size) == ("PNG", (1_500, 500))
    photo = opened(scaled(saved(Image.effect_noise((2_000, 3_000), 50), "JPEG"), 1_500, 10**7))
    assert (photo.format, photo.size) == ("JPEG", (1_000, 1_500))


def test_what_is_too_heavy_loses_first_exactness_then_size() -> None:
    noise = png(1_000, 1_000, seed=1)
    as_photo = opened(scaled(noise, 1_000, 700_000))
    assert (as_photo.format, as_photo.size) == ("JPEG", (1_000, 1_000))
    made = scaled(noise, 1_000, 20_000)
    assert len(b64decode(made["base64"])) <= 20_000
    assert max(opened(made).size) < 1_000


def test_a_picture_stands_as_its_camera_says() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    data = saved(Image.new("RGB", (2_000, 1_000), "red"), "JPEG", exif=exif)
    assert opened(scaled(data, 1_000, 10**6)).size == (500, 1_000)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "1", "L", "CMYK"])
def test_any_kind_of_colours_is_read(mode: str) -> None:
    kind = "TIFF" if mode == "CMYK" else "PNG"
    assert opened(scaled(saved(Image.new(mode, (400, 200)), kind), 100, 10**6)).size == (100, 50)


def test_of_a_moving_picture_it_is_the_first_one() -> None:
    frames = [Image.new("P", (300, 300), colour) for colour in (1, 2, 3)]
    data = saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert opened(scaled(data, 100, 10**6)).format == "PNG"


def test_a_picture_that_unpacks_to_more_than_its_bytes_say_is_refused() -> None:
    with Apart() as apart, pytest.raises(ApartError, match="pixels"):
        apart(
            "zeus_runtime.models.image_resize:scaled",
            png(40_000, 4_000),
            seconds=30,
            side=100,
            max_bytes=10**6,
        )
