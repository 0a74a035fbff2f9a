"""Pictures keep their bytes unless an option changes them."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from loader.convert.importing.pictures import PictureOptions, convert_picture
from loader.errors import SampleError

ROTATED = 6  # of EXIF: to be turned by 90 degrees


def encoded(size: tuple[int, int], kind: str, *, mode: str = "RGB", orientation: int | None = None) -> bytes:
    data, exif = io.BytesIO(), Image.Exif()
    if orientation is not None:
        exif[0x0112] = orientation
    Image.effect_noise(size, 40).convert(mode).save(data, kind, exif=exif)
    return data.getvalue()


def decoded(data: bytes) -> Image.Image:
    picture = Image.open(io.BytesIO(data))
    picture.load()
    return picture


@pytest.mark.parametrize(
    "options",
    [
        PictureOptions(),
        PictureOptions(verify=True),
        PictureOptions(max_side=100),
        PictureOptions(orient=True),
        PictureOptions(format="jpg"),
    ],
)
def test_a_picture_that_needs_no_change_keeps_its_bytes(options: PictureOptions) -> None:
    data = encoded((100, 50), "JPEG")
    assert convert_picture("jpeg", data, options) == ("jpeg", data)


def test_large_pictures_shrink_and_keep_their_format() -> None:
    name, data = convert_picture("png", encoded((300, 200), "PNG"), PictureOptions(max_side=150))
    picture = decoded(data)
    assert (name, picture.format, picture.size) == ("png", "PNG", (150, 100))


def test_formats_change_with_the_name_of_the_part() -> None:
    name, data = convert_picture("left.png", encoded((9, 9), "PNG", mode="RGBA"), PictureOptions(format="jpg"))
    assert (name, decoded(data).format) == ("left.jpg", "JPEG")
    name, data = convert_picture("bmp", encoded((300, 9), "BMP"), PictureOptions(max_side=100))
    assert (name, decoded(data).format) == ("png", "PNG"), "bmp would be larger"


def test_orientation_is_applied_only_if_requested() -> None:
    data = encoded((100, 50), "JPEG", orientation=ROTATED)
    assert convert_picture("jpg", data, PictureOptions(verify=True))[1] == data
    turned = decoded(convert_picture("jpg", data, PictureOptions(orient=True))[1])
    assert (turned.size, turned.getexif().get(0x0112, 1)) == ((50, 100), 1)
    shrunk = decoded(convert_picture("jpg", data, PictureOptions(max_side=50))[1])
    assert (shrunk.size, shrunk.getexif()[0x0112]) == ((50, 25), ROTATED), "pixels and EXIF stay as they are"


@pytest.mark.parametrize("data", [b"", b"<!DOCTYPE html>", encoded((200, 200), "JPEG")[:2000]])
def test_damaged_pictures_are_refused(data: bytes) -> None:
    with pytest.raises(SampleError, match="not a picture"):
        convert_picture("jpg", data, PictureOptions(verify=True))


def test_other_parts_are_not_looked_at() -> None:
    assert convert_picture("txt", b"text", PictureOptions(verify=True)) == ("txt", b"text")
