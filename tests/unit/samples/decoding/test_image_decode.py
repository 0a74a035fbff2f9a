from __future__ import annotations

import io
import re
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg
import torch
from PIL import EpsImagePlugin, Image, ImageFile
from webdataset.autodecode import imagehandler, imagespecs

from loader import lazy_torch
from loader.errors import ConfigError, SampleError, TrustError
from loader.samples.decoding import image_decode
from loader.samples.decoding.decoder import ArrayDecoder, SampleDecoder
from loader.samples.decoding.image_decode import (
    IMAGE_FORMS,
    _float_planes,
    decode_image,
    is_plain_jpeg,
    looks_like_image,
)
from tests.unit.samples.image_corpus import corpus, encode, pattern

CORPUS = corpus()
JPEG = CORPUS["jpeg-subsampling-2"]

by_name = pytest.mark.parametrize("name", CORPUS)
by_form = pytest.mark.parametrize("form", imagespecs)


def outcome(decode: Any, *arguments: Any) -> Any:
    """Return the result of a call, or the type and text of its error, without addresses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return decode(*arguments)
        except Exception as error:  # noqa: BLE001 - any error of webdataset is the expected one
            return type(error), re.sub(r"0x[0-9a-f]+", "", str(error))


def undated(info: dict[Any, Any]) -> dict[Any, Any]:
    """Remove the creation time from a colour profile: Pillow writes the current one into profiles of LAB images."""
    profile = info.get("icc_profile")
    return info if profile is None else {**info, "icc_profile": profile[:24] + profile[36:]}


def assert_same(ours: Any, theirs: Any) -> None:
    assert type(ours) is type(theirs), (ours, theirs)
    if isinstance(theirs, Image.Image):
        assert (ours.mode, ours.size, undated(ours.info)) == (theirs.mode, theirs.size, undated(theirs.info))
        assert ours.getexif() == theirs.getexif()
        assert ours.tobytes() == theirs.tobytes()
    elif isinstance(theirs, np.ndarray | torch.Tensor):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        assert np.array_equal(np.asarray(ours), np.asarray(theirs))
    else:
        assert ours == theirs


def decode_both(data: bytes, form: str) -> tuple[Any, Any]:
    clipped = replace(IMAGE_FORMS[form], deep="clip")
    return outcome(decode_image, data, clipped), outcome(imagehandler(form), ".jpg", data)


def test_image_forms_have_the_names_of_webdataset() -> None:
    assert set(IMAGE_FORMS) == set(imagespecs)


@by_name
def test_every_image_decodes_as_in_webdataset_in_every_form(name: str) -> None:
    for form in {*imagespecs} - {"pil"}:  # which keeps the mode of the file
        assert_same(*decode_both(CORPUS[name], form))


@by_name
def test_arrays_that_are_only_shown_have_the_values_and_shapes_of_tensors(name: str) -> None:
    shown, expected = (outcome(kind().decode_part, "png", CORPUS[name]) for kind in (ArrayDecoder, SampleDecoder))
    if isinstance(expected, torch.Tensor):
        assert type(shown).shown_as == "Tensor"
        expected, shown = expected.numpy(), np.asarray(shown)
    assert_same(shown, expected)


@by_name
def test_a_truncated_image_fails_or_decodes_as_in_webdataset(name: str) -> None:
    data = CORPUS[name]
    for size_bytes in {0, 1, 3, 20, len(data) // 3, len(data) // 2, len(data) - 20, len(data) - 2, len(data) - 1}:
        assert_same(*decode_both(data[: max(0, size_bytes)], "rgb8"))


@pytest.mark.parametrize("name", [name for name in CORPUS if name.startswith("jpeg")])
def test_a_damaged_jpeg_fails_or_decodes_as_in_webdataset(name: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(40):
        data = bytearray(CORPUS[name])
        start = int(rng.integers(2, len(data)))
        run = int(rng.choice([1, 4, 16]))
        data[start : start + run] = rng.bytes(len(data[start : start + run]))
        assert_same(*decode_both(bytes(data), "rgb8"))


@by_form
def test_arrays_and_tensors_are_contiguous_and_writable(form: str) -> None:
    for name in ("jpeg-subsampling-2", "jpeg-grey", "jpeg-cmyk", "png-alpha", "png-grey", "png-1x1"):
        decoded = decode_image(CORPUS[name], IMAGE_FORMS[form])
        if isinstance(decoded, np.ndarray):
            assert decoded.flags.c_contiguous
            decoded[...] = 0
        elif isinstance(decoded, torch.Tensor):
            assert decoded.is_contiguous()
            decoded.zero_()


def test_most_jpegs_are_decoded_by_simplejpeg() -> None:
    slow = [name for name in CORPUS if name.startswith("jpeg") and not is_plain_jpeg(CORPUS[name])]
    assert slow == ["jpeg-cmyk", "jpeg-ycck"]


def test_simplejpeg_decodes_with_the_settings_of_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = simplejpeg.decode_jpeg

    def record(*args: Any, **options: Any) -> Any:
        calls.append(options)
        return real(*args, **options)

    monkeypatch.setattr(simplejpeg, "decode_jpeg", record)
    decode_image(JPEG, IMAGE_FORMS["rgb8"])
    assert calls == [{}]
    careless = real(JPEG, "RGB", fastdct=True, fastupsample=True)
    assert not np.array_equal(careless, np.asarray(Image.open(io.BytesIO(JPEG)))), "the corpus would not tell"


def test_every_level_converts_to_the_float_of_webdataset() -> None:
    levels = Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16))
    for form in ("l", "torchl", "rgb", "torchrgb", "rgba", "torchrgba"):
        assert_same(*decode_both(encode(levels, "PNG"), form))


def test_floats_of_a_jpeg_are_the_quotients_of_its_bytes() -> None:
    levels = np.arange(256, dtype=np.uint32)
    pixels = (levels | levels[::-1] << 8 | np.roll(levels, 7) << 16 | 0xFF << 24).reshape(16, 16).astype(np.uint32)
    planes = np.stack([levels, levels[::-1], np.roll(levels, 7)]).reshape(3, 16, 16).astype(np.uint8)
    assert np.array_equal(_float_planes(pixels), planes / np.float32(255))
    for name in (name for name in CORPUS if name.startswith("jpeg")):
        bytes_ = decode_image(CORPUS[name], IMAGE_FORMS["torchrgb8"])
        assert torch.equal(decode_image(CORPUS[name], IMAGE_FORMS["torchrgb"]), bytes_.to(torch.float32).div_(255))


def test_pillows_limit_on_pixels_applies_to_jpegs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 2000)
    assert not is_plain_jpeg(JPEG)
    with pytest.raises(Image.DecompressionBombError):
        decode_image(JPEG, IMAGE_FORMS["torchrgb"])
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    assert is_plain_jpeg(JPEG)


def test_pillows_option_to_load_truncated_images_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    ours, theirs = decode_both(JPEG[:-300], "rgb8")
    assert isinstance(ours, np.ndarray)
    assert_same(ours, theirs)


def test_an_image_that_is_a_program_is_run_only_with_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[object] = []

    def ghostscript(*arguments: object) -> Any:
        runs.append(arguments)
        return Image.new("RGB", (4, 4)).im

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", ghostscript)
    data = encode(Image.fromarray(pattern(4, 4)), "EPS")
    with pytest.raises(TrustError, match="EPS image is a program"):
        decode_image(data, IMAGE_FORMS["rgb8"])
    assert not runs
    assert decode_image(data, IMAGE_FORMS["rgb8"], trust_code=True).shape == (4, 4, 3)
    assert runs


def test_images_are_recognized_by_their_first_bytes() -> None:
    known = {name for name, data in CORPUS.items() if looks_like_image(data)}
    assert {name for name in CORPUS if name.startswith(("jpeg", "png", "gif", "webp", "tiff", "bmp"))} == known
    assert not looks_like_image(b"RIFF\0\0\0\0WAVE")


def test_torch_is_imported_only_for_tensors() -> None:
    assert vars(image_decode)["torch"] is lazy_torch.torch


@by_name
def test_pil_keeps_a_picture_as_its_file_has_it(name: str) -> None:
    found = decode_image(CORPUS[name], IMAGE_FORMS["pil"])
    with Image.open(io.BytesIO(CORPUS[name])) as image:
        assert (found.mode, found.size, found.tobytes()) == (image.mode, image.size, image.tobytes())
        assert image.format == "TIFF" or found.getexif() == image.getexif()


DEEP = np.array([[0, 255, 256], [4095, 32768, 65535]], np.uint16)
"""Levels of 16 bits: all but two of them are above 255."""


def decode(data: bytes, image_decode: str, **options: Any) -> Any:
    return SampleDecoder(image_decode=image_decode, **options).decode_part("png", data)


@pytest.mark.parametrize("file_format", ["PNG", "TIFF"])
def test_16_bits_scale_to_8_bits_and_to_floats(file_format: str) -> None:
    data = encode(Image.fromarray(DEEP), file_format)
    scaled = np.rint(DEEP / 257).astype(np.uint8)
    assert (decode(data, "l8") == scaled).all()
    assert (decode(data, "rgb8") == scaled[..., None]).all()
    assert decode(data, "torchrgb8").shape == (3, 2, 3)
    assert (decode(data, "rgba8")[..., 3] == 255).all()
    exact = (DEEP / np.float32(65535)).astype(np.float32)
    assert np.allclose(decode(data, "l"), exact, atol=1e-7), "floats keep the 16 bits"
    assert np.allclose(decode(data, "torchrgb").numpy(), exact, atol=1e-7)
    assert (decode(data, "torchrgba")[3] == 1).all()
    assert decode(data, "pilrgb") == Image.fromarray(scaled).convert("RGB")
    assert (decode(data, "l8", deep="clip") == np.minimum(DEEP, 255)).all(), "as megatron-energon"


def test_floats_are_refused_or_scaled_by_a_range() -> None:
    data = encode(Image.fromarray(np.array([[-1, 0.0, 5.0, 10.0]], np.float32)), "TIFF")
    with pytest.raises(SampleError, match="part 'png' does not decode as image: its pixels are floats"):
        decode(data, "rgb8")
    assert decode(data, "l8", float_range=(0, 10)).tolist() == [[0, 0, 128, 255]]
    assert np.allclose(decode(data, "l", float_range=(0, 10)), [[0, 0, 0.5, 1]], atol=1e-4)
    assert decode(data, "pil").mode == "F"
    assert decode(data, "l8", deep="clip").tolist() == [[0, 0, 5, 10]]


@pytest.mark.parametrize("name", ["png-alpha", "png-grey-alpha", "png-palette-transparent", "gif-transparent"])
def test_alpha_is_composed_on_a_background(name: str) -> None:
    image = Image.open(io.BytesIO(CORPUS[name])).convert("RGBA")
    pixels = np.asarray(image).astype(int)
    colour, alpha = pixels[..., :3], pixels[..., 3:]
    composed = (colour * alpha + np.array([0, 128, 255]) * (255 - alpha)) / 255
    found = decode(CORPUS[name], "rgb8", background=(0, 128, 255))
    assert np.abs(found - composed).max() <= 1
    assert (decode(CORPUS[name], "rgb8") == np.asarray(Image.open(io.BytesIO(CORPUS[name])).convert("RGB"))).all()
    assert (decode(CORPUS[name], "rgba8", background="white") == np.asarray(image)).all(), "alpha has its own channel"


def test_options_of_pictures_are_checked_and_kept_only_if_they_differ_from_the_defaults() -> None:
    assert "deep" not in SampleDecoder().config()
    assert "deep" not in repr(SampleDecoder())
    decoder = SampleDecoder(background="#ff0000", deep="clip", float_range=(0, 1))
    assert SampleDecoder(**decoder.config()).image_form() == decoder.image_form()
    assert decoder.image_form().background == (255, 0, 0)
    for options in (
        {"background": "no colour"},
        {"background": (1, 2)},
        {"deep": "shift"},
        {"float_range": (1, 1)},
        {"float_range": 3},
    ):
        with pytest.raises(ConfigError):
            SampleDecoder(**options)


def test_avif_decodes_with_pillow() -> None:
    if "AVIF" not in Image.OPEN:
        pytest.skip("this Pillow reads no AVIF")
    data = encode(Image.new("RGB", (20, 10), (200, 10, 10)), "AVIF")
    assert SampleDecoder(image_decode="rgb8").decode_part("avif", data).shape == (10, 20, 3)


PLUGINS = {"heic": ("pillow_heif", "HEIF", "pillow-heif"), "jxl": ("pillow_jxl", "JXL", "pillow-jxl-plugin")}


DECODE = """
import sys
from loader.samples.decoding.decoder import SampleDecoder

decoder = SampleDecoder(image_decode="rgb8")
assert not {"pillow_heif", "pillow_jxl"} & sys.modules.keys()
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        print(decoder.decode_part(path.rpartition(".")[2], file.read()).shape)
"""


def test_a_plugin_is_imported_when_the_first_such_picture_is_decoded(tmp_path: Path) -> None:
    pytest.importorskip("pillow_heif").register_heif_opener()
    pytest.importorskip("pillow_jxl")
    for part_name, (_, format_name, _) in PLUGINS.items():
        data = encode(Image.new("RGB", (64, 48), (200, 10, 10)), format_name)
        (tmp_path / f"a.{part_name}").write_bytes(data)
    paths = map(str, sorted(tmp_path.iterdir()))
    done = subprocess.run([sys.executable, "-c", DECODE, *paths], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["(48, 64, 3)"] * 2


@pytest.mark.parametrize("part_name", PLUGINS)
def test_a_missing_plugin_is_named_with_how_to_install_it(part_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, format_name, package = PLUGINS[part_name]
    head = {"heic": b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "jxl": b"\0\0\0\x0cJXL \r\n\x87\n"}[part_name]
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(Image, "ID", [name for name in Image.ID if name != format_name])
    monkeypatch.setattr(Image, "OPEN", {name: how for name, how in Image.OPEN.items() if name != format_name})
    with pytest.raises(ImportError, match=f"pip install {package}$"):
        SampleDecoder().decode_part(part_name, head + bytes(100))
