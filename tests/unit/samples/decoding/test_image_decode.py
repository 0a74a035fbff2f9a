from __future__ import annotations

import io
import re
import warnings
from typing import Any

import numpy as np
import pytest
import simplejpeg
import torch
from PIL import EpsImagePlugin, Image, ImageFile
from webdataset.autodecode import imagehandler, imagespecs

from loader.errors import TrustError
from loader.samples.decoding import image_decode
from loader.samples.decoding.image_decode import IMAGE_FORMS, decode_image, is_plain_jpeg, looks_like_image
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
    return outcome(decode_image, data, IMAGE_FORMS[form]), outcome(imagehandler(form), ".jpg", data)


def test_image_forms_have_the_names_of_webdataset() -> None:
    assert set(IMAGE_FORMS) == set(imagespecs)


@by_name
def test_every_image_decodes_as_in_webdataset_in_every_form(name: str) -> None:
    for form in imagespecs:
        assert_same(*decode_both(CORPUS[name], form))


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
    assert {name for name in CORPUS if name.startswith(("jpeg", "png", "gif", "webp", "tiff"))} == known
    assert not looks_like_image(b"RIFF\0\0\0\0WAVE")


def test_torch_is_imported_only_for_tensors() -> None:
    source = image_decode.__dict__
    assert "torch" not in source
