from __future__ import annotations

import io
import json
import pickle
import struct
import subprocess
import sys
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg
from PIL import Image

from loader.format.documents.dataset_config import DatasetConfig, parse_dataset_config
from loader.format.documents.sample_types import FieldKind
from loader.samples import DecodeCheck, check_image_bytes
from loader.samples.building.check import CHECKED_IMAGE, kind_fault
from loader.samples.building.dataset_code import DatasetCode
from tests.source_tree import ROOT
from tests.unit.samples.image_corpus import corpus, encode, pattern

CORPUS = corpus()
PHOTO = Image.fromarray(pattern(120, 160))
JPEG = encode(PHOTO, "JPEG", quality=90)
PNG = encode(PHOTO, "PNG")
CAPTIONING = "sample_type: {__class__: CaptioningSample}\nfield_map: {image: jpg, caption: 'txt,json[caption]'}"

Faults = list[tuple[str | None, str]]


def check(
    parts: dict[str, bytes], text: str | None = None, *, trust_code: bool = False, folder: Path = Path("x")
) -> Faults:
    config = None if text is None else parse_dataset_config(text, file="dataset.yaml")
    return DecodeCheck(config, DatasetCode(folder, trust_code))("0001", parts)


# ------------------------------------------------------------------------------------------------------- images


@pytest.mark.parametrize("name", [name for name in CORPUS if name != "tiff-float"])
def test_a_complete_image_has_no_fault(name: str) -> None:
    assert check_image_bytes(CORPUS[name], "jpg") is None


def test_floats_are_a_fault_since_training_refuses_them() -> None:
    assert "its pixels are floats" in str(check_image_bytes(CORPUS["tiff-float"], "tif"))


@pytest.mark.parametrize("name", CORPUS)
def test_an_image_cut_in_half_is_found(name: str) -> None:
    data = CORPUS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert check_image_bytes(data[: len(data) // 2], "jpg") is not None


@pytest.mark.parametrize("name", [name for name in CORPUS if name.startswith("jpeg") and "bytes-behind" not in name])
def test_a_jpeg_without_its_end_is_found(name: str) -> None:
    if name != "jpeg-mpo":
        for missing in (2, 3, 20):
            assert check_image_bytes(CORPUS[name][:-missing], "jpg") is not None


def complains(data: bytes) -> bool:
    try:
        simplejpeg.decode_jpeg(data, "RGB")
    except ValueError:
        return True
    return False


def test_damage_in_a_jpeg_is_found_if_full_decoding_finds_it() -> None:
    rng = np.random.default_rng(0)
    start = JPEG.index(b"\xff\xda") + 20
    damaged = []
    for _ in range(100):
        data = bytearray(JPEG)
        at = int(rng.integers(start, len(data) - 40))
        data[at : at + 8] = rng.bytes(8)
        damaged.append(bytes(data))
    found = [check_image_bytes(data, "jpg") is not None for data in damaged]
    assert found == [complains(data) for data in damaged]
    assert sum(found) > 60, "some damage is just another picture, but not most"


def test_damage_of_a_jpeg_that_decodes_is_reported() -> None:
    start = JPEG.index(b"\xff\xda") + 300
    data = JPEG[:start] + JPEG[start + 10 :]
    Image.open(io.BytesIO(data)).load()
    found = check_image_bytes(data, "jpg")
    assert found is not None
    assert found.startswith("part 'jpg' is a damaged image, though it decodes: Corrupt JPEG data:")


def test_a_harmless_warning_of_libjpeg_is_no_damage() -> None:
    data = bytearray(JPEG)
    data[JPEG.index(b"JFIF") + 5] = 9  # a JFIF revision that does not exist
    assert check_image_bytes(bytes(data), "jpg") is None


def test_a_wrong_png_checksum_that_pillow_ignores_is_found() -> None:
    at = PNG.index(b"IDAT") - 4
    size_bytes = struct.unpack(">I", PNG[at : at + 4])[0]
    crc_at = at + 8 + size_bytes
    data = PNG[:crc_at] + bytes([PNG[crc_at] ^ 1]) + PNG[crc_at + 1 :]
    Image.open(io.BytesIO(data)).load()
    found = check_image_bytes(data, "png")
    assert (
        found
        == f"part 'png' is a damaged image, though it decodes: the checksum of chunk b'IDAT' at byte {at} is wrong"
    )


def test_every_flipped_bit_in_a_png_is_found() -> None:
    small = encode(Image.fromarray(pattern(6, 7)), "PNG")
    for at in range(len(small)):
        data = bytearray(small)
        data[at] ^= 1
        assert check_image_bytes(bytes(data), "png") is not None, at


def test_a_png_without_its_last_chunk_is_found() -> None:
    for missing in (1, 4, 12):
        found = check_image_bytes(PNG[:-missing], "png")
        assert found is not None
        assert f"it ends at byte {len(PNG) - missing}, before its last chunk" in found


def test_a_png_with_good_checksums_over_bad_pixels_is_found() -> None:
    body = b"IDAT" + zlib.compress(b"too short")
    idat = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    data = PNG[:33] + idat + PNG[-12:]
    found = check_image_bytes(data, "png")
    assert found is not None
    assert found.startswith("part 'png' does not decode as image")


def test_an_image_too_large_for_pillow_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 2000)
    found = check_image_bytes(JPEG, "jpg")
    assert found is not None
    assert "decompression bomb" in found
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    assert check_image_bytes(JPEG, "jpg") is None


def test_an_image_that_is_a_program_is_not_run() -> None:
    found = check_image_bytes(encode(PHOTO, "EPS"), "jpg")
    assert found is not None
    assert "EPS image is a program" in found


# -------------------------------------------------------------------------------------------------------- parts


def test_without_a_config_every_part_is_decoded() -> None:
    good = {"jpg": JPEG, "seg.png": PNG, "txt": b"cat", "json": b"{}", "cls": b"3", "bin": b"?", "jpg.gz": b""}
    assert check(good) == [("jpg.gz", "part 'jpg.gz' is empty (0 bytes)")]
    faults = check({"jpg": JPEG[:-50], "seg.png": b"x", "txt": b"\xff", "json": b"{", "cls": b"cat", "bin": b""})
    assert [part for part, _ in faults] == ["jpg", "seg.png", "txt", "json", "cls", "bin"]
    assert all(f"part {part!r} " in found for part, found in faults)


def test_an_empty_text_part_is_valid() -> None:
    assert check({"jpg": JPEG, "txt": b""}, CAPTIONING) == []


def test_arrays_of_objects_are_found(tmp_path: Path) -> None:
    stream = io.BytesIO()
    np.save(stream, np.array([{}], dtype=object), allow_pickle=True)
    [(part, found)] = check({"npy": stream.getvalue()}, trust_code=True)
    assert part == "npy"
    assert "allow_pickle" in found


def test_pickles_are_not_loaded_without_trust() -> None:
    assert check({"pkl": b"no pickle"}) == []
    assert [part for part, _ in check({"pkl": b"no pickle"}, trust_code=True)] == ["pkl"]


def test_a_missing_package_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cbor2", None)
    expected = "part 'cbor' cannot be checked: decoding cbor parts needs the package cbor2: pip install cbor2"
    assert check({"cbor": b"\xa0"}) == [("cbor", expected)]


# ------------------------------------------------------------------------------------------------------ samples


def test_a_complete_sample_has_no_faults() -> None:
    assert check({"jpg": JPEG, "txt": b"cat"}, CAPTIONING) == []
    assert check({"jpg": JPEG, "json": b'{"caption": "cat"}'}, CAPTIONING) == []


@pytest.mark.parametrize(
    ("parts", "part", "found"),
    [
        ({"txt": b"cat"}, "jpg", "field 'image' (jpg) is missing: this sample has only the parts txt"),
        ({"jpg": JPEG}, "txt", "field 'caption' (txt,json[caption]) is missing"),
        ({"jpg": JPEG, "json": b"{}"}, None, "json has no 'caption', only nothing"),
        (
            {"jpg": JPEG, "json": b'{"caption": ["cat"]}'},
            None,
            "field 'caption' (txt,json[caption]): expected text, found list: ['cat']",
        ),
        (
            {"jpg": JPEG, "json": b'{"caption": null}'},
            None,
            "field 'caption' (txt,json[caption]): expected text, found NoneType",
        ),
    ],
)
def test_a_sample_that_cannot_be_built_is_found(parts: dict[str, bytes], part: str | None, found: str) -> None:
    [(faulty, text)] = check(parts, CAPTIONING)
    assert faulty == part
    assert found in text


def test_fields_of_the_wrong_kind_are_found() -> None:
    text = (
        "__class__: ImageClassificationWebdataset\n"
        "field_map: {image: 'json[path]', label: 'json[label]', label_name: 'json[name]'}"
    )
    faults = check({"json": json.dumps({"path": "a.jpg", "label": "cat", "name": None}).encode()}, text)
    assert [found for _, found in faults] == [
        "field 'image' (json[path]): expected an image, found str: 'a.jpg'",
        "field 'label' (json[label]): expected a whole number, found str: 'cat'",
    ]


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("any", None, ...),
        ("audio", b"ID3", "x"),
        ("image", CHECKED_IMAGE, "x"),
        ("image", np.zeros((3, 2, 2)), np.zeros(3)),
        ("images", np.zeros((2, 3, 4, 4)), "x"),
        ("images", [1], CHECKED_IMAGE),
        ("label", 3, True),
        ("label", np.int64(3), 1.0),
        ("label_name", "cat", 3),
        ("sequence", ["a"], {"a": 1}),
        ("tensor", [1, 2], "x"),
        ("tensor", np.zeros(3), 3),
        ("text", "cat", b"cat"),
        ("text", "", CHECKED_IMAGE),
        ("text_list", ["a", "b"], ["a", 3]),
        ("text_list", [], "a"),
        ("video", b"\0", "x"),
    ],
)
def test_each_kind_of_field_accepts_its_values(kind: FieldKind, good: object, bad: object) -> None:
    assert kind_fault(kind, good) is None
    if bad is not ...:
        found = kind_fault(kind, bad)
        assert found is not None
        assert "\n" not in found


def test_crude_samples_need_only_decode() -> None:
    assert check({"anything": b"1"}, "__class__: CrudeWebdataset") == []


# ---------------------------------------------------------------------------------------------------------- code

LOADER = "__class__: TextWebdataset\nsample_loader: sample_loader.py:load\npart_filter: [txt]"
CODE = """\
def load(sample):
    assert "json" not in sample
    if sample["txt"] == "broken":
        raise ValueError("it is broken")
    return {"text": sample["txt"]} if sample["txt"] == "cat" else {}
"""


def test_trusted_code_of_the_dataset_builds_the_sample(tmp_path: Path) -> None:
    (tmp_path / "sample_loader.py").write_text(CODE)
    options: dict[str, Any] = {"text": LOADER, "folder": tmp_path}
    assert check({"txt": b"cat", "json": b"{}"}, trust_code=True, **options) == []
    [(part, found)] = check({"txt": b"dog"}, trust_code=True, **options)
    assert (part, found) == (None, "cannot build a TextSample: field 'text' is missing")
    [(part, found)] = check({"txt": b"broken"}, trust_code=True, **options)
    assert (part, found) == (None, "building the sample fails: ValueError: it is broken")
    assert check({"txt": b"dog"}, trust_code=False, **options) == []


def config_of(text: str) -> DatasetConfig:
    return parse_dataset_config(text, file="dataset.yaml")


def test_unchecked_parts_are_reported(tmp_path: Path) -> None:
    unchecked = DecodeCheck(config_of(LOADER), DatasetCode(tmp_path, trust_code=False)).unchecked
    assert unchecked is not None
    assert "sample_loader.py:load is code, which runs only with --trust-code" in unchecked
    foreign = config_of("sample_type: {__module__: far, __class__: Far}\nfield_map: {a: txt}")
    unchecked = DecodeCheck(foreign, DatasetCode(tmp_path, trust_code=False)).unchecked
    assert unchecked is not None
    assert "far.Far is imported only with --trust-code" in unchecked
    foreign = config_of("__module__: far\n__class__: FarDataset\n")
    unchecked = DecodeCheck(foreign, DatasetCode(tmp_path, trust_code=False)).unchecked
    assert unchecked is not None
    assert "far.FarDataset is imported only with --trust-code" in unchecked
    assert check({"txt": b"x"}, "sample_type: {__module__: far, __class__: Far}\nfield_map: {a: txt}") == []
    assert DecodeCheck(config_of(LOADER), DatasetCode(tmp_path, trust_code=True)).unchecked is None
    assert DecodeCheck(config_of(CAPTIONING), DatasetCode(tmp_path, trust_code=False)).unchecked is None
    assert DecodeCheck(None, DatasetCode(tmp_path, trust_code=False)).unchecked is None


def test_a_check_pickles(tmp_path: Path) -> None:
    (tmp_path / "sample_loader.py").write_text(CODE)
    for text in (None, CAPTIONING, LOADER):
        original = DecodeCheck(None if text is None else config_of(text), DatasetCode(tmp_path, trust_code=True))
        parts = {"txt": b"cat", "jpg": JPEG}
        assert original("0", parts) == []
        assert pickle.loads(pickle.dumps(original))("0", parts) == []


def test_checking_images_text_and_json_imports_neither_torch_nor_webdataset(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(JPEG)
    (tmp_path / "a.png").write_bytes(PNG)
    code = f"""
import sys
from pathlib import Path
from loader.format.documents.dataset_config import parse_dataset_config
from loader.samples import DecodeCheck
from loader.samples.building.dataset_code import DatasetCode
config = parse_dataset_config({CAPTIONING!r}, file="dataset.yaml")
pictures = {{"jpg": Path("a.jpg").read_bytes(), "png": Path("a.png").read_bytes()}}
sample = {{**pictures, "txt": b"cat", "json": b"{{}}", "cls": b"1"}}
print(DecodeCheck(config, DatasetCode(Path("."), False))("0", sample))
print([name for name in ("torch", "webdataset") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.stdout == "[]\n[]\n"
