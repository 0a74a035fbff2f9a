"""Pictures keep their bytes unless an option changes them."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image, ImageCms

from loader.convert.importing.pictures import ConvertedPicture, PictureOptions, convert_picture
from loader.convert.writing.shard_file import FileContents
from loader.errors import SampleError
from tests.unit.parts.test_picture_bits import RAMP, png, tiff

ROTATED = 6  # of EXIF: to be turned by 90 degrees


def encoded(size: tuple[int, int], kind: str, *, mode: str = "RGB", orientation: int | None = None) -> bytes:
    data, exif = io.BytesIO(), Image.Exif()
    if orientation is not None:
        exif[0x0112] = orientation
    Image.effect_noise(size, 40).convert(mode).save(data, kind, exif=exif)
    return data.getvalue()


def decoded(data: bytes | FileContents) -> Image.Image:
    assert isinstance(data, bytes)
    picture = Image.open(io.BytesIO(data))
    picture.load()
    return picture


@pytest.mark.parametrize(
    "options",
    [
        PictureOptions(verify=True),
        PictureOptions(max_side=100),
        PictureOptions(orient=True),
        PictureOptions(format="jpg"),
    ],
)
def test_a_picture_that_needs_no_change_keeps_its_bytes(options: PictureOptions) -> None:
    data = encoded((100, 50), "JPEG")
    assert convert_picture("jpeg", data, options) == ConvertedPicture("jpeg", data)


def test_large_pictures_shrink_and_keep_their_format() -> None:
    name, data, *_ = convert_picture("png", encoded((300, 200), "PNG"), PictureOptions(max_side=150))
    picture = decoded(data)
    assert (name, picture.format, picture.size) == ("png", "PNG", (150, 100))


def test_formats_change_with_the_name_of_the_part() -> None:
    name, data, *_ = convert_picture("left.png", encoded((9, 9), "PNG", mode="RGBA"), PictureOptions(format="jpg"))
    assert (name, decoded(data).format) == ("left.jpg", "JPEG")
    name, data, *_ = convert_picture("bmp", encoded((300, 9), "BMP"), PictureOptions(max_side=100))
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


def written(picture: Image.Image, kind: str, **options: Any) -> bytes:
    data = io.BytesIO()
    picture.save(data, kind, **options)
    return data.getvalue()


def pixels(data: bytes | FileContents) -> Any:
    return np.asarray(decoded(data)).astype(np.int64)


@pytest.mark.parametrize("part", ["png", "tif"])
@pytest.mark.parametrize("wanted", ["jpg", "webp"])
def test_sixteen_bits_are_scaled_in_formats_of_eight(part: str, wanted: Any) -> None:
    data = png(RAMP, color_type=0) if part == "png" else tiff(RAMP, byteorder=">")
    converted = convert_picture(part, data, PictureOptions(format=wanted, quality=100))
    values = pixels(converted.data)
    values = values if values.ndim == 2 else values[:, :, 0]
    assert np.abs(values - np.rint(RAMP / 257)).max() <= 3
    assert (converted.name, converted.losses) == (wanted, ("bits_scaled",))


def test_sixteen_bits_stay_in_png() -> None:
    converted = convert_picture("tif", tiff(RAMP), PictureOptions(format="png"))
    assert np.array_equal(pixels(converted.data), RAMP)
    shrunk = convert_picture("png", png(RAMP, color_type=0), PictureOptions(max_side=32))
    assert (decoded(shrunk.data).mode, decoded(shrunk.data).size) == ("I;16", (32, 16))
    assert pixels(shrunk.data).max() > 60000
    assert (converted.losses, shrunk.losses) == ((), ())
    colors = convert_picture("png", png(np.stack([RAMP] * 3, -1), color_type=2), PictureOptions(max_side=32))
    assert (decoded(colors.data).mode, colors.losses) == ("RGB", ("bits_scaled",)), "Pillow reads 8 of 16 bits"


def test_thirty_two_bits_are_scaled_by_their_type() -> None:
    values = RAMP.astype(np.uint32) * 65537
    converted = convert_picture("tif", tiff(values), PictureOptions(format="png"))
    assert np.array_equal(pixels(converted.data), RAMP)
    assert converted.losses == ("bits_scaled",)


def test_floats_are_refused_or_scaled_by_their_range() -> None:
    data = tiff((RAMP / 65535).astype(np.float32))
    assert convert_picture("tif", data, PictureOptions(verify=True)).data == data
    with pytest.raises(SampleError, match="floats") as caught:
        convert_picture("tif", data, PictureOptions(format="png"))
    assert "--float-range LOW,HIGH" in str(caught.value)
    converted = convert_picture("tif", data, PictureOptions(format="png", float_range=(0, 1)))
    assert np.abs(pixels(converted.data) - RAMP).max() <= 1


@pytest.mark.parametrize(
    "mode", ["RGBA", "LA", "P", "PA", "L with a transparent value", "RGB with a transparent color"]
)
@pytest.mark.parametrize(("background", "expected"), [((255, 255, 255), 255), ((128, 128, 128), 128)])
def test_transparent_pixels_get_the_background(mode: str, background: Any, expected: int) -> None:
    """All pixels are black and transparent."""
    kind = "PNG"
    options: dict[str, Any] = {}
    if mode == "P":
        picture, options = Image.new("P", (8, 8)), {"transparency": 0}
        picture.putpalette([0, 0, 0])
    elif " with " in mode:
        picture = Image.new(mode.split(maxsplit=1)[0], (8, 8))
        options = {"transparency": 0 if mode[0] == "L" else (0, 0, 0)}
    else:
        picture, kind = Image.new("RGBA", (8, 8), (0, 0, 0, 0)).convert("LA" if mode == "LA" else "RGBA"), "PNG"
        if mode == "PA":
            picture, kind = Image.new("RGBA", (8, 8), (0, 0, 0, 0)), "WEBP"
    data = written(picture, kind, **options)
    converted = convert_picture(kind.lower(), data, PictureOptions(format="jpg", background=background))
    assert np.abs(pixels(converted.data) - expected).max() <= 2
    assert converted.losses == ("alpha_composed",)


def test_opaque_alpha_is_no_loss() -> None:
    data = written(Image.new("RGBA", (8, 8), (9, 9, 9, 255)), "PNG")
    assert convert_picture("png", data, PictureOptions(format="jpg")).losses == ()


def test_cmyk_becomes_what_the_format_can_hold() -> None:
    """The picture is red, which Adobe's files and Pillow store inverted."""
    data = written(Image.new("CMYK", (64, 64), (0, 255, 255, 0)), "JPEG", quality=95)
    for wanted in ("png", "webp"):
        converted = convert_picture("jpg", data, PictureOptions(format=wanted))
        assert np.abs(pixels(converted.data)[:, :, :3] - [255, 0, 0]).max() <= 3
        assert converted.losses == ("cmyk_converted",)
    shrunk = convert_picture("jpg", data, PictureOptions(max_side=32))
    assert (decoded(shrunk.data).mode, shrunk.losses) == ("CMYK", ())
    assert np.abs(pixels(shrunk.data) - [0, 255, 255, 0]).max() <= 3


def test_color_profiles_stay() -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    data = written(Image.new("RGB", (64, 64)), "JPEG", icc_profile=profile)
    for options in (PictureOptions(max_side=32), PictureOptions(format="png"), PictureOptions(format="webp")):
        assert decoded(convert_picture("jpg", data, options).data).info["icc_profile"] == profile


def several(kind: str) -> bytes:
    frames = [Image.effect_noise((60, 40), 20 + 30 * number).convert("RGB") for number in range(3)]
    return written(frames[0], kind, save_all=True, append_images=frames[1:])


@pytest.mark.parametrize("kind", ["GIF", "PNG", "TIFF", "WEBP", "MPO"])
def test_several_frames_are_refused_unless_one_is_wanted(kind: str) -> None:
    data, part = several(kind), "jpg" if kind == "MPO" else kind.lower()
    assert convert_picture(part, data, PictureOptions(verify=True, max_side=60)).data == data
    requested: tuple[dict[str, Any], ...] = ({"max_side": 30}, {"format": "png" if kind != "PNG" else "jpg"})
    for options in requested:
        with pytest.raises(SampleError, match=r"has 3 frames.*--frames first"):
            convert_picture(part, data, PictureOptions(**options))
        converted = convert_picture(part, data, PictureOptions(**options, frames="first"))
        assert converted.losses == ("frames_dropped",)
        assert getattr(decoded(converted.data), "n_frames", 1) == 1


@pytest.mark.parametrize("kind", ["GIF", "PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("share", [0.95, 0.7])
def test_a_cut_later_frame_is_found(kind: str, share: float) -> None:
    data = several(kind)
    with pytest.raises(SampleError, match="not a picture that can be decoded"):
        convert_picture(kind.lower(), data[: int(len(data) * share)], PictureOptions(verify=True))


def test_smaller_copies_of_a_picture_are_no_frames() -> None:
    data = io.BytesIO()
    with tifffile.TiffWriter(data) as file:
        file.write(RAMP)
        file.write(RAMP[::2, ::2], subfiletype=1)
    converted = convert_picture("tif", data.getvalue(), PictureOptions(format="png"))
    assert (decoded(converted.data).size, converted.losses) == ((64, 32), ())


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_masks_keep_their_values(dtype: Any) -> None:
    classes = (np.arange(64 * 64).reshape(64, 64) % 7 * 37).astype(dtype)
    data = written(Image.fromarray(classes), "PNG")
    converted = convert_picture("mask.png", data, PictureOptions(max_side=32, format="jpg"), is_mask=True)
    assert converted.name == "mask.png"
    assert set(np.unique(pixels(converted.data))) <= set(np.unique(classes))
    palette = Image.fromarray(classes.astype(np.uint8))
    palette.putpalette([*range(256)] * 3)
    shrunk = decoded(
        convert_picture("seg.png", written(palette, "PNG"), PictureOptions(max_side=32), is_mask=True).data
    )
    assert shrunk.mode == "P"
