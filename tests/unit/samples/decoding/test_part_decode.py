from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from PIL import Image
from webdataset import tenbin
from webdataset.autodecode import Decoder, imagehandler

from loader.errors import ConfigError, SampleError, TrustError
from loader.samples import SampleDecoder
from tests.unit.samples.image_corpus import encode, pattern

PHOTO = Image.fromarray(pattern(20, 30))
JPEG = encode(PHOTO, "JPEG")
PNG = encode(PHOTO, "PNG")


class Marked:
    """Object for pickles."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Marked) and other.value == self.value

    __hash__ = None  # type: ignore[assignment]


def bytes_of(write: Any, *arguments: Any, **options: Any) -> bytes:
    stream = io.BytesIO()
    write(stream, *arguments, **options)
    return stream.getvalue()


TENSORS = {"a": torch.arange(6).reshape(2, 3), "b": [torch.ones(1), 3, "x"]}
ARRAY = np.arange(12, dtype=np.int16).reshape(3, 4)

PARTS = {
    "txt": "héllo\n".encode(),
    "text": b"",
    "transcript": b"said",
    "left.txt": b"left",
    "cls": b"3",
    "cls2": b" -4\n",
    "index": b"5",
    "inx": b"6",
    "id": b"007",
    "json": json.dumps({"a": [1, 2.5, None, "é"]}).encode(),
    "meta.json": b"[]",
    "jsn": b'"text"',
    "json.gz": gzip.compress(b'{"a": 1}'),
    "txt.gz": gzip.compress(b"squeezed"),
    "jpg.gz": gzip.compress(JPEG),
    "bin.gz": gzip.compress(b"\0\1"),
    "gz": gzip.compress(b"bytes"),
    "npy": bytes_of(np.save, ARRAY),
    "npz": bytes_of(np.savez, x=ARRAY, y=ARRAY * 2),
    "ten": bytes(tenbin.encode_buffer([ARRAY, ARRAY.astype(np.float32)])),
    "tb": bytes(tenbin.encode_buffer([ARRAY])),
    "pth": bytes_of(lambda stream: torch.save(TENSORS, stream)),
    "jpg": JPEG,
    "JPG": JPEG,
    "seg.png": PNG,
    "Png": PNG,
    "jpg.seg": b"no picture",
    "count": b"12",
    "bin": b"\0\1\2",
    "mp3": b"ID3",
    "mp4": b"\0\0\0\x18ftyp",
    "": b"no extension",
}


def webdataset_decoder(image_decode: str = "torchrgb") -> Decoder:
    return Decoder([imagehandler(image_decode)])


def assert_equal(ours: Any, theirs: Any) -> None:
    assert type(ours) is type(theirs)
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for key, value in theirs.items():
            assert_equal(ours[key], value)
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            assert_equal(mine, other)
    elif isinstance(theirs, np.ndarray | torch.Tensor):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        assert np.array_equal(np.asarray(ours), np.asarray(theirs))
    else:
        assert ours == theirs


@pytest.mark.parametrize("name", ["txt", "TEXT", "left.txt", "transcript", "txt.gz"])
def test_a_byte_order_mark_is_no_part_of_a_text(name: str) -> None:
    def encoded(text: str) -> bytes:
        return gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()

    assert SampleDecoder().decode_part(name, encoded("\ufeffhéllo")) == "héllo"
    assert SampleDecoder().decode_part(name, encoded("a\ufeff")) == "a\ufeff"


def test_a_byte_order_mark_is_no_part_of_json() -> None:
    assert SampleDecoder().decode_part("json", b'\xef\xbb\xbf{"a": 1}') == {"a": 1}
    assert SampleDecoder().decode_part("jsonl", b'\xef\xbb\xbf{"a": 1}\n{"a": 2}') == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("name", PARTS)
def test_a_part_decodes_as_in_webdataset(name: str) -> None:
    theirs = webdataset_decoder().decode({name: PARTS[name]})
    assert_equal(SampleDecoder(av_decode="bytes")({name: PARTS[name]}), theirs)


@pytest.mark.parametrize("name", [name for name in PARTS if name not in ("JPG", "Png")])
def test_upper_case_names_decode_like_lower_case_ones(name: str) -> None:
    decoder = SampleDecoder(av_decode="bytes")
    assert_equal(decoder({name.upper(): PARTS[name]})[name.upper()], decoder({name: PARTS[name]})[name])


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**64 - 1)
        | st.floats(allow_nan=False)
        | st.text()
        | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_messagepack_decodes_as_in_webdataset(value: Any) -> None:
    import msgpack

    data = msgpack.packb(value)
    decoder = SampleDecoder()
    assert decoder({"mp": data, "msg": data}) == {"mp": value, "msg": value}
    if value is not None:  # webdataset returns bytes for it, as for json's null
        assert decoder({"mp": data}) == webdataset_decoder().decode({"mp": data})


ARRAYS = {
    "scalar": np.float64(2.5),
    "empty": np.zeros((0, 3), np.int8),
    "fortran order": np.asfortranarray(np.arange(6, dtype=np.uint16).reshape(2, 3)),
    "big-endian": np.arange(3, dtype=">i4"),
    "complex": np.array([1 + 2j, -1j], np.complex64),
    "booleans": np.array([True, False]),
    "text": np.array(["a", "bé"]),
    "bytes": np.array([b"a", b"bc"]),
    "dates": np.array(["2024-01-01", "1969-12-31"], "datetime64[D]"),
    "records": np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
    "objects": np.array([{"a": 1}, None], dtype=object),
}


def by_numpy(name: str, data: bytes) -> Any:
    if name == "npy":
        return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    zipfile.ZipFile(io.BytesIO(data))  # its errors come first: the sizes are checked before anything is decompressed
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return dict(arrays)


def outcome_of(decode: Any, name: str, data: bytes) -> Any:
    """Return a value, or the first line of its error."""
    try:
        return decode(name, data)
    except SampleError as error:
        return error.message
    except Exception as error:  # noqa: BLE001 - the reference may raise any exception
        cause = str(error).partition("\n")[0] or type(error).__name__
        return f"part {name!r} does not decode as {name}: {cause}" if data else f"part {name!r} is empty (0 bytes)"


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("damage", [None, 0, 1, 5, 9, 40, -1, "flipped"])
def test_arrays_and_their_errors_are_those_of_numpy(kind: str, damage: Any) -> None:
    array = ARRAYS[kind]
    for name, whole in (("npy", bytes_of(np.save, array)), ("npz", bytes_of(np.savez, x=array, y=array))):
        flipped = whole[:20] + bytes([whole[20] ^ 0xFF]) + whole[21:]
        data = flipped if damage == "flipped" else whole[:damage]
        decode = SampleDecoder().decode_part
        assert_equal(outcome_of(decode, name, data), outcome_of(by_numpy, name, data))


def test_webdataset_is_imported_for_lists_of_tensors_only() -> None:
    code = """
import sys
from loader.samples import SampleDecoder
decode = SampleDecoder().decode_part
decode("txt", b"a"), decode("json", b"1"), decode("cls", b"1"), decode("mp", b"\\x01")
decode("npy", bytes.fromhex(sys.argv[1]))
print("webdataset" in sys.modules)
decode("ten", bytes.fromhex(sys.argv[2]))
print("webdataset" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, PARTS["npy"].hex(), PARTS["ten"].hex()], check=True, stdout=subprocess.PIPE
    )
    assert done.stdout.split() == [b"False", b"True"]


def test_cbor_is_decoded() -> None:
    import cbor2

    value = {"a": [1, 2.5, None, "é", b"x"]}
    assert SampleDecoder().decode_part("cbor", cbor2.dumps(value)) == value


def test_the_error_of_a_cbor_part_without_cbor2_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cbor2", None)
    with pytest.raises(ImportError, match="pip install cbor2"):
        SampleDecoder().decode_part("cbor", b"\xa0")


def test_jsonl_is_decoded_unlike_in_webdataset() -> None:
    assert SampleDecoder().decode_part("jsonl", b'{"a": 1}\n\n[2]\r\n"\xc3\xa9"') == [{"a": 1}, [2], "é"]


def test_null_is_none_unlike_in_webdataset() -> None:
    assert SampleDecoder().decode_part("json", b"null") is None


@pytest.mark.parametrize("name", ["mpg", "mpeg", "h5", "hdf"])
def test_video_and_hdf_parts_stay_bytes_unlike_in_webdataset(name: str) -> None:
    assert SampleDecoder().decode_part(name, b"anything") == b"anything"


@pytest.mark.parametrize(
    ("name", "data", "found"),
    [
        ("jpg", b"<!DOCTYPE html>", "part 'jpg' is not an image, but an HTML page, as web servers answer"),
        (
            "jpg",
            b"version https://git-lfs.github.com/spec/v1\noid",
            "part 'jpg' is not an image, but a Git LFS",
        ),
        ("jpg", b"a cat", "part 'jpg' is not an image, but a text (it starts with b'a cat')"),
        ("jpg", b"\0\0\0\x18ftypisom", "part 'jpg' is not an image, but an MP4 video"),
        ("json", b"<html>", "part 'json' is not json, but an HTML page"),
        ("txt", b"\x89PNG\r\n\x1a\n", "part 'txt' is not txt, but a PNG picture"),
        ("jpg", b"\1\2\3", "part 'jpg' is not an image (it starts with b'\\x01\\x02\\x03')"),
        (
            "jpg",
            encode(PHOTO, "JPEG", quality=99)[:-20],
            "part 'jpg' does not decode as image: image file is truncated",
        ),
        ("seg.png", PNG[:60], "part 'seg.png' does not decode as image: "),
        ("png", b"", "part 'png' is empty (0 bytes)"),
        ("json", b"{'a'}", "part 'json' does not decode as json: Expecting property name"),
        ("json", b"", "part 'json' is empty (0 bytes)"),
        ("jsonl", b"{}\n{", "part 'jsonl' does not decode as jsonl: "),
        ("txt", b"\xff", "part 'txt' does not decode as UTF-8 text: 'utf-8' codec can't decode byte 0xff"),
        ("cls", b"cat", "part 'cls' does not decode as whole number: invalid literal for int()"),
        ("npy", b"no array", "part 'npy' does not decode as npy: "),
        ("npz", b"PK no zip", "part 'npz' does not decode as npz: "),
        ("mp", b"\xc1", "part 'mp' does not decode as mp: "),
        ("cbor", b"\x5f", "part 'cbor' does not decode as cbor: "),
        ("pth", b"no tensor", "part 'pth' does not decode as pth: torch.save writes no such file"),
        ("ten", b"no tensors at all", "part 'ten' does not decode as ten: "),
        ("json.gz", b"no gzip", "part 'json.gz' does not decode as json: Not a gzipped file"),
    ],
)
def test_a_part_that_does_not_match_its_name_is_named(name: str, data: bytes, found: str) -> None:
    with pytest.raises(SampleError) as caught:
        SampleDecoder().decode_part(name, data)
    assert caught.value.message.startswith(found)
    assert caught.value.part == name
    assert caught.value.hint is not None
    assert "\n" not in caught.value.message


def test_an_error_without_text_names_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SampleError, match="does not decode as pth: EOFError"):
        SampleDecoder().decode_part("pth", torch_legacy()[:5])


def torch_legacy() -> bytes:
    return bytes_of(lambda stream: torch.save(torch.ones(2), stream, _use_new_zipfile_serialization=False))


@pytest.mark.parametrize("name", ["pkl", "pickle", "pyd"])
def test_pickles_load_only_with_trust(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = SampleDecoder()
    data = pickle.dumps(Marked(3))
    with pytest.raises(TrustError, match=f"part '{name}' is a pickle, which may run code") as caught:
        decoder({name: data})
    assert "trust_code=True" in str(caught.value)
    assert decoder({name: data}, trust_code=True) == {name: Marked(3)}
    monkeypatch.setenv("ENERGON_TRUST_CODE", "1")
    assert decoder({name: data}) == {name: Marked(3)}
    monkeypatch.setenv("ENERGON_TRUST_CODE", "0")
    with pytest.raises(TrustError):
        decoder({name: data})


def test_an_untrusted_pickle_is_not_even_opened(tmp_path: Path) -> None:
    class Attack:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "pwned"),)

    attack = Attack()
    for name, data in (
        ("pkl", pickle.dumps(attack)),
        ("pth", bytes_of(lambda stream: torch.save(attack, stream))),
    ):
        with pytest.raises(TrustError):
            SampleDecoder().decode_part(name, data)
    for name, data in (
        ("npy", bytes_of(np.save, np.array([attack], dtype=object), allow_pickle=True)),
        ("npz", bytes_of(np.savez, x=np.array([attack], dtype=object))),
    ):
        with pytest.raises(SampleError, match="allow_pickle"):
            SampleDecoder().decode_part(name, data, trust_code=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("zipped", [True, False])
def test_pth_with_more_than_tensors_loads_only_with_trust(zipped: bool) -> None:
    data = bytes_of(
        lambda stream: torch.save({"a": Marked(3)}, stream, _use_new_zipfile_serialization=zipped),
    )
    with pytest.raises(TrustError, match="part 'pth' holds more than tensors"):
        SampleDecoder().decode_part("pth", data)
    assert SampleDecoder().decode_part("pth", data, trust_code=True) == {"a": Marked(3)}


def test_a_broken_pth_is_no_trust_error() -> None:
    data = PARTS["pth"]
    for trust_code in (False, True):
        with pytest.raises(SampleError, match="does not decode as pth"):
            SampleDecoder().decode_part("pth", data[:-30], trust_code=trust_code)
    with pytest.raises(SampleError, match="does not decode as pth"):
        SampleDecoder().decode_part("pth", pickle.dumps(1)[:-1] + b"\xff", trust_code=True)


def test_metadata_and_values_that_are_not_bytes_are_unchanged() -> None:
    sample = {"__key__": "s.tar/1", "__restore_key__": (1, 2), "__sources__": b"raw", "json": {"already": "decoded"}}
    assert SampleDecoder()(sample) == sample


def test_content_is_guessed_only_on_request_and_for_unknown_names() -> None:
    assert SampleDecoder().decode_part("bin", JPEG) == JPEG
    guessing = SampleDecoder(image_decode="rgb8", av_decode="bytes", guess_content=True)
    assert guessing.decode_part("bin", JPEG).shape == (20, 30, 3)
    assert guessing.decode_part("bin", b"anything") == b"anything"
    assert guessing.decode_part("mp4", JPEG) == JPEG


def test_an_unknown_image_decode_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="there is no image_decode 'torchrbg'; did you mean 'torchrgb'"):
        SampleDecoder(image_decode="torchrbg")


def test_a_decoder_pickles() -> None:
    decoder = SampleDecoder(image_decode="pil", av_decode="torch", video_decode_audio=True, guess_content=True)
    copy = pickle.loads(pickle.dumps(decoder))
    assert repr(copy) == repr(decoder)
    assert repr(copy) == (
        "SampleDecoder(av_decode='torch', guess_content=True, image_decode='pil', video_decode_audio=True)"
    )
