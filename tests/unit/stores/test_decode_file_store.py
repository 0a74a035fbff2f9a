"""Decode the files of a store by their names."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from loader import FileStoreDecoder, SampleDecoder, SampleError, TrustError
from loader.stores import (
    DecodeFileStore,
    MissingFileError,
    PrimaryFileStore,
    SystemFileStore as Files,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pixels = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    image = io.BytesIO()
    Image.fromarray(pixels).save(image, "png")
    (tmp_path / "a.b").mkdir()
    (tmp_path / "a.b/1.seg.png").write_bytes(image.getvalue())
    (tmp_path / "1.json").write_bytes(b'{"number": 1}')
    (tmp_path / "json").write_bytes(b"3")
    (tmp_path / "bad.png").write_bytes(b"<!DOCTYPE")
    (tmp_path / "1.pkl").write_bytes(pickle.dumps({3, 4}))
    return tmp_path


def test_a_sample_decoder_decodes_files_by_what_stands_behind_the_first_dot(folder: Path) -> None:
    decoder = SampleDecoder(image_decode="rgb8")
    assert isinstance(decoder, FileStoreDecoder)
    store = DecodeFileStore(Files(folder), decoder=decoder)
    assert store.get("1.json") == {"number": 1}
    assert store.get("json") == b"3"
    assert store.get("a.b/1.seg.png").tolist() == np.arange(60).reshape(4, 5, 3).tolist()
    for name in ("1.json", "json", "a.b/1.seg.png"):
        again = decoder.decode(name, (folder / name).read_bytes())
        assert np.array_equal(store.get(name), again)
    assert store["1.json"][1] == Files(folder)["1.json"][1]


def test_a_file_that_does_not_decode_is_named(folder: Path) -> None:
    store = DecodeFileStore(Files(folder), decoder=SampleDecoder())
    with pytest.raises(SampleError, match=r"file 'bad\.png': part 'png' is not an image") as caught:
        store["bad.png"]
    assert caught.value.source == str(folder)
    with pytest.raises(MissingFileError):
        store["gone.png"]


def test_pickles_load_only_with_trust(folder: Path) -> None:
    with pytest.raises(TrustError):
        DecodeFileStore(Files(folder), decoder=SampleDecoder())["1.pkl"]
    trusting = DecodeFileStore(Files(folder), decoder=SampleDecoder(), trust_code=True)
    assert trusting.get("1.pkl") == pickle.loads(pickle.dumps(trusting)).get("1.pkl") == {3, 4}


class Upper(FileStoreDecoder):
    def decode(self, fname: str, data: bytes) -> tuple[str, bytes]:
        return fname, data.upper()


class UpperSamples(SampleDecoder):
    def decode(self, fname: str, data: bytes, *, trust_code: bool = False) -> tuple[str, bytes]:
        return fname, data.upper()


class UpperParts(SampleDecoder):
    def decode_part(self, part_name: str, data: bytes, *, trust_code: bool = False) -> tuple[str, bytes, bool]:
        return part_name, data.upper(), trust_code


def test_a_sample_decoder_with_rules_of_its_own_for_parts_is_asked(folder: Path) -> None:
    store = DecodeFileStore(Files(folder), decoder=UpperParts(), trust_code=True)
    assert store.get("1.json") == ("json", b'{"NUMBER": 1}', True)


@pytest.mark.parametrize("decoder", [Upper(), UpperSamples()], ids=["own", "derived"])
def test_a_decoder_of_your_own_is_given_the_whole_name(folder: Path, decoder: Any) -> None:
    store = PrimaryFileStore(DecodeFileStore(Files(folder), decoder=decoder), "1")
    assert store.get(".json") == ("1.json", b'{"NUMBER": 1}')


def test_stores_that_decode_alike_are_equal(folder: Path) -> None:
    decoder = SampleDecoder()
    store = DecodeFileStore(Files(folder), decoder=decoder)
    assert store == DecodeFileStore(Files(folder), decoder=decoder)
    assert store != DecodeFileStore(Files(folder), decoder=SampleDecoder())
    assert store != DecodeFileStore(Files(folder), decoder=decoder, trust_code=True)
    assert len({store, DecodeFileStore(Files(folder), decoder=decoder)}) == 1


def test_the_raw_form_of_a_store_is_decoded_to_its_value(folder: Path) -> None:
    store: PrimaryFileStore[Any] = PrimaryFileStore(DecodeFileStore(Files(folder), decoder=SampleDecoder()), "1")
    raw, source = store.read_raw(".json")
    assert raw == b'{"number": 1}'
    assert source.file_names == ("1.json",)
    assert store.decode_raw(".json", raw) == store.get(".json")
    assert store.origin(".json") == (store.inner, "1.json")
