"""Headers of JPEG files: what is read without Pillow is what Pillow reads."""

from __future__ import annotations

import io
import random
import warnings
from typing import Any

import pytest
from PIL import Image

from loader.format.media.extraction import usual_jpeg
from loader.format.media.metadata import ImageMetadata


def jpeg(mode: str, width: int = 37, height: int = 21, **options: Any) -> bytes:
    file = io.BytesIO()
    Image.effect_noise((width, height), 50).convert(mode).save(file, "JPEG", **options)
    return file.getvalue()


def by_pillow(data: bytes) -> ImageMetadata | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data), formats=["JPEG"]) as image:
                return ImageMetadata(width=image.width, height=image.height, format=image.format or "", mode=image.mode)
    except Exception:  # noqa: BLE001 - of any type, for a damaged file
        return None


USUAL = {
    "grey": jpeg("L"),
    "colour": jpeg("RGB"),
    "four inks": jpeg("CMYK"),
    "progressive": jpeg("RGB", progressive=True),
    "comment": jpeg("RGB", comment=b"x" * 300),
    "profile": jpeg("RGB", icc_profile=b"p" * 700, exif=Image.Exif()),
    "optimized": jpeg("L", quality=95, optimize=True, dpi=(72, 72)),
}


@pytest.mark.parametrize("data", USUAL.values(), ids=USUAL)
def test_usual_files_are_read_as_by_pillow(data: bytes) -> None:
    assert usual_jpeg(data) == by_pillow(data)
    assert usual_jpeg(data) is not None


def test_several_pictures_in_a_file_are_left_to_pillow() -> None:
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "MPO", save_all=True, append_images=[Image.new("RGB", (8, 8))])
    assert usual_jpeg(file.getvalue()) is None


@pytest.mark.parametrize("data", USUAL.values(), ids=USUAL)
def test_a_file_that_is_cut_is_left_to_pillow(data: bytes) -> None:
    for size in range(len(data)):
        assert usual_jpeg(data[:size]) in (None, by_pillow(data[:size]))


@pytest.mark.parametrize("seed", range(5))
def test_a_damaged_file_has_no_other_size_than_by_pillow(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(1000):
        data = bytearray(draw.choice([*USUAL.values()])[:900])
        for _ in range(draw.randrange(1, 4)):
            data[draw.randrange(2, len(data))] = draw.choice([0, 1, 0xFF, 0xC0, 0xD8, 0xDA, draw.randrange(256)])
        found = usual_jpeg(bytes(data))
        assert found is None or found == by_pillow(bytes(data)) or by_pillow(bytes(data)) is None
