"""Descriptions of parts and values, and pictures of any image."""

from __future__ import annotations

import io
import json
import wave
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, strategies as st
from PIL import Image
from rich.console import Console

from energon_cli.terminal.render import DrawingSpace, render_sample
from loader.inspect import FieldView, SampleView, describe_part, describe_value
from loader.samples import Picture, PictureError, array_picture, encoded_picture

SPACE = DrawingSpace(columns=80, rows=24, pictures=True)


def encode(image: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def draw(*fields: FieldView, space: DrawingSpace = SPACE, colour: bool = True) -> str:
    file = io.StringIO()
    console = Console(
        file=file, width=80, height=24, force_terminal=colour, color_system="truecolor" if colour else None
    )
    for line in render_sample(SampleView(title="key", fields=fields), space):
        console.print(line)
    return file.getvalue()


def photograph(width: int = 60, height: int = 40) -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def loaded(picture: Picture | None, size: int) -> Image.Image:
    assert picture is not None
    return picture.load(size)


# ------------------------------------------------------------------------------------------------------------ parts


def wav(seconds: float = 0.5) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(bytes(int(4 * 16000 * seconds)))
    return buffer.getvalue()


def npy(array: npt.NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "facts"),
    [
        ("jpg", encode(photograph(), "JPEG"), "JPEG 60×40 RGB, "),
        ("seg.png", encode(Image.new("P", (3, 5))), "PNG 3×5 P, "),
        ("txt", "naïve".encode(), "text, 6 B"),
        ("cls", b"7", "text, 1 B"),
        ("json", b'{"a": [1]}', "json, 10 B"),
        ("npy", npy(np.zeros((2, 50), np.float16)), "float16 (2, 50), 0 – 0"),
        ("wav", wav(), "wav: audio 16,000 Hz, 2 channels, 0.50 s"),
        ("mp4", b"\0\0\0\x18ftyp" + bytes(100), "mp4 media, 108 B"),
        ("bin", b"\xfe\xff" * 20, "40 B, starts with fe ff"),
        ("bin", b"plain words", "text, 11 B"),
        ("unnamed", encode(photograph(), "WEBP"), "WEBP 60×40 RGB, "),
        ("wav", b"RIFF" + bytes(50), "wav media"),
        ("wav", b"no wav", "wav media"),
    ],
)
def test_parts_are_described_by_name_or_content(name: str, data: bytes, facts: str) -> None:
    view = describe_part(name, data)
    assert view.facts.startswith(facts)
    assert view.fault is None


@pytest.mark.parametrize(
    ("name", "data", "fault"),
    [
        ("jpg", b"<!DOCTYPE html>", "not an image (it starts with b'<!DOCTYPE ht')"),
        ("jpg", b"", "the part has no bytes"),
        ("json", b"{'a': 1}", "not JSON"),
        ("json", b"[" * 100_000, "not JSON"),
        ("txt", b"caf\xe9", "not UTF-8 at byte 3"),
        ("npy", b"\x93NUMPY\x01\0", "not a plain numpy array"),
        ("npy", npy(np.array([{}], dtype=object)), "not a plain numpy array"),
    ],
)
def test_broken_parts_say_what_is_wrong(name: str, data: bytes, fault: str) -> None:
    view = describe_part(name, data)
    assert fault in (view.fault or "")
    assert fault in draw(view).replace("\n", " ")


@given(
    st.binary(max_size=300), st.sampled_from(["jpg", "png", "json", "txt", "npy", "wav", "mp4", "bin", "gif", "tiff"])
)
def test_no_bytes_make_a_preview_crash(data: bytes, name: str) -> None:
    assert name in draw(describe_part(name, data))


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "TIFF", "WEBP", "BMP"])
@given(data=st.data())
def test_no_damage_to_an_image_makes_a_preview_crash(form: str, data: st.DataObject) -> None:
    whole = bytearray(encode(photograph(), form))
    for _ in range(data.draw(st.integers(0, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    assert "jpg" in draw(describe_part("jpg", bytes(whole[: data.draw(st.integers(1, len(whole)))])))


# ----------------------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("value", "facts"),
    [
        (None, "none"),
        (True, "bool True"),
        (3, "int 3"),
        ("a cat", "str, 5 characters"),
        ({"a": 1}, "dict, 1 key"),
        ([1, 2], "list of 2"),
        (torch.zeros(3, 20, 30), "float32 (3, 20, 30), 0 – 0"),
        (torch.zeros(3, 20, 30, dtype=torch.bfloat16), "bfloat16 (3, 20, 30), 0 – 0"),
        (torch.tensor([1, 2]), "int64 (2,): 1, 2"),
        (torch.tensor(2.5), "float32 scalar: 2.5"),
        (torch.zeros(0, 4), "float32 (0, 4), empty"),
        (np.array(["a", "b"]), "<U1 (2,)"),
        (np.array([None, {}]), "object (2,)"),
        (np.zeros((2, 2), complex), "complex128 (2, 2)"),
        (Image.new("CMYK", (4, 5)), "Pillow image 4×5 CMYK"),
        (b"plain", "text, 5 B"),
        (object, "type"),
    ],
)
def test_values_are_described_in_a_line(value: Any, facts: str) -> None:
    view = describe_value("field", value)
    assert view.facts.startswith(facts)
    draw(view)


def test_a_value_whose_repr_fails_does_not_crash() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert "whose repr fails: no" in (describe_value("x", Odd()).text or "")
    assert "Odd" in (describe_value("x", {"a": Odd()}).text or "")


def test_a_list_of_pictures_and_texts_shows_both() -> None:
    view = describe_value("sequence", ["first", torch.zeros(3, 8, 8), "second"])
    assert view.text == "[0] first\n[1] float32 (3, 8, 8), 0 – 0\n[2] second"
    assert len(view.pictures) == 1


def test_nested_tensors_are_described_where_they_stand() -> None:
    text = describe_value("x", {"boxes": torch.zeros(2, 9)}).text
    assert text is not None
    assert json.loads(text) == {"boxes": "float32 (2, 9), 0 – 0"}


# --------------------------------------------------------------------------------------------------------- pictures

MODES = ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I", "F", "I;16", "YCbCr", "HSV", "LAB"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [(1, 1), (64, 48), (900, 1), (1, 900), (2, 700)])
def test_pictures_of_every_mode_and_shape_can_be_drawn(mode: str, size: tuple[int, int]) -> None:
    image = Image.new(mode, size)  # one colour all over
    made = 0
    for form in ("PNG", "JPEG", "TIFF", "GIF", "WEBP"):
        try:
            data = encode(image, form)
        except (OSError, ValueError, KeyError):
            continue  # this form has no such mode
        made += 1
        picture = encoded_picture(data)
        small = picture.load(40)
        assert small.mode == "RGB"
        assert max(small.size) <= 40
        assert (picture.width, picture.height) == size
        assert "▀" in draw(describe_part("png", data))
    draw(describe_value("image", image))
    assert made or mode in ("F", "LAB", "HSV", "YCbCr", "I")


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((5, 5, 3), np.uint8),
        np.full((3, 5, 50), 0.5),
        np.zeros((1, 50, 50), np.float32),
        np.zeros((4, 50, 50), np.uint8),
        np.full((50, 50, 1), 70000, np.int64),
        torch.full((3, 9, 9), float("nan")),
        torch.full((3, 9, 9), float("inf")),
        torch.zeros(3, 9, 9, dtype=torch.float16),
        torch.zeros(3, 9, 9, dtype=torch.bool),
        torch.rand(3, 9, 9, requires_grad=True),
        torch.rand(9, 9),
    ],
)
def test_decoded_images_of_every_kind_can_be_drawn(array: Any) -> None:
    assert loaded(array_picture(array), 20).mode == "RGB"
    draw(describe_value("image", array))


@pytest.mark.parametrize("shape", [(3,), (2, 9, 9), (5, 3, 9, 9), (3, 0, 9), (0,)])
def test_other_shapes_are_no_pictures(shape: tuple[int, ...]) -> None:
    assert array_picture(np.zeros(shape)) is None


def test_a_picture_shows_the_colours_it_has() -> None:
    red = encode(Image.new("RGB", (8, 8), (255, 0, 0)))
    assert loaded(encoded_picture(red), 8).getpixel((0, 0)) == (255, 0, 0)
    tensor = torch.zeros(3, 8, 8)
    tensor[2] = 1.0
    assert loaded(array_picture(tensor), 8).getpixel((3, 3)) == (0, 0, 255)
    assert "38;2;255;0;0;48;2;255;0;0" in draw(describe_part("png", red))


def test_an_enormous_tensor_is_thinned_before_it_is_converted() -> None:
    tensor = torch.zeros(1).expand(3, 40_000, 40_000)  # 19 GB if anything copied it
    assert loaded(array_picture(tensor), 50).size == (50, 50)


def test_an_enormous_jpeg_is_decoded_small_and_a_bomb_is_refused() -> None:
    assert max(encoded_picture(encode(Image.new("RGB", (12_000, 6_000)), "JPEG")).load(100).size) == 100
    bomb = encode(Image.new("1", (20_000, 20_000)))
    with pytest.raises(PictureError, match="too many pixels"):
        encoded_picture(bomb)
    assert "too many pixels" in (describe_part("png", bomb).fault or "")


def test_a_truncated_image_has_no_picture_but_a_reason() -> None:
    view = describe_part("jpg", encode(photograph(), "JPEG")[:-900])
    assert view.facts.startswith("JPEG 60×40 RGB")
    assert "no picture: " in draw(view)
