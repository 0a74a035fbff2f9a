"""Damaged and hostile files of ``.nv-meta`` lead to a clear error or the right answer, and run no code."""

from __future__ import annotations

import io
import json
import pickle
import random
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loader.errors import ConfigError, FormatError
from loader.format.documents.dataset_files import encode_shard_info, read_shard_info
from loader.format.index.current import current_index, index_folders, read_uuid
from loader.format.index.dataset_index import DatasetIndex
from loader.format.index.layout import COLUMNS, decode_layout
from loader.format.index.npy_column import map_column
from loader.format.index.shard_index import decode_shard_index, encode_shard_index, index_shard
from loader.format.index.writer import IndexWriter
from loader.format.nv_meta import INDEX_FOLDER, INDEX_UUID, INFO_JSON, INFO_YAML
from loader.format.tar.header import has_tar_idx, read_tar_idx, tar_idx_bytes
from loader.storage import LocalStorage
from tests.malformed.tar_bytes import END, member

SHARDS = {"a.tar": ["a.txt", "a.jpg", "b.txt"], "b.tar": ["c.txt"], "empty.tar": []}
COUNTS = {"a.tar": 2, "b.tar": 1, "empty.tar": 0}


@pytest.fixture
def dataset(tmp_path: Path) -> LocalStorage:
    """Write a folder of shards with an index named ``u``."""
    for name, members in SHARDS.items():
        (tmp_path / name).write_bytes(b"".join(member(name.encode()) for name in members) + END)
    storage = LocalStorage(tmp_path)
    write_index(storage, "u")
    (tmp_path / INDEX_UUID).write_text("u")
    (tmp_path / INFO_JSON).write_bytes(encode_shard_info(COUNTS))
    return storage


def write_index(storage: LocalStorage, uuid: str, shards: tuple[str, ...] = tuple(SHARDS)) -> None:
    writer = IndexWriter(storage, f"{INDEX_FOLDER}/{uuid}")
    with writer:
        for name in shards:
            writer.add(storage.stat(name), index_shard(storage, name))
        writer.finish(prepared_by="a test")


def file_of(storage: LocalStorage, name: str) -> Path:
    return storage.local_path(f"{INDEX_FOLDER}/u/{name}")


def change_layout(storage: LocalStorage, **values: object) -> None:
    path = file_of(storage, "layout.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_the_undamaged_index_opens(dataset: LocalStorage) -> None:
    assert len(DatasetIndex(dataset, "u")) == 3
    assert current_index(dataset, COUNTS) is not None


LAYOUTS = {
    "empty": b"",
    "no JSON": b"{",
    "a list": b"[]",
    "null": b"null",
    "no UTF-8": b"\xff\xfe\xff",
    "deep": b"[" * 100_000,
    "deep in a field": b'{"version": 1, "shards": ' + b"[" * 100_000,
    "only a version": b'{"version": 1}',
    "another version": b'{"version": 2}',
    "a long version": b'{"version": "' + b"9" * 100_000 + b'"}',
    "a version of many digits": b'{"version": ' + b"9" * 5000 + b"}",
    "a version of true": b'{"version": true}',
}


@pytest.mark.parametrize("data", LAYOUTS.values(), ids=LAYOUTS)
def test_a_layout_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match="layout") as caught:
        decode_layout(data, file="/x/layout.json")
    assert caught.value.shard == "/x/layout.json"
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "values",
    [
        {"samples": -1},
        {"samples": 2},
        {"samples": 1 << 70},
        {"samples": "3"},
        {"samples": 3.5},
        {"samples": None},
        {"parts": -4},
        {"parts": 3},
        {"parts": 10**30},
        {"shards": []},
        {"shards": {}},
        {"shards": [7]},
        {"shards": None},
        {"part_stats": [{"name": "txt"}]},
        {"part_stats": "txt"},
        {"duplicate_keys": -1},
    ],
)
def test_a_layout_that_contradicts_itself_or_the_columns_is_refused(
    dataset: LocalStorage, values: dict[str, Any]
) -> None:
    change_layout(dataset, **values)
    with pytest.raises(FormatError):
        DatasetIndex(dataset, "u").check()
    with pytest.raises(FormatError):
        DatasetIndex(dataset, "u").check_sizes()


@pytest.mark.parametrize(
    "values",
    [
        {"samples": 3},
        {"samples": -2},
        {"samples": 1 << 64},
        {"first_sample": 1},
        {"first_sample": -1},
        {"size_bytes": -1},
        {"end_offset": -512},
        {"name": 7},
        {"plain": "yes"},
        {"warnings": "odd"},
        {"mtime_ns": 1.5},
    ],
)
def test_a_shard_s_entry_that_cannot_be_is_refused(dataset: LocalStorage, values: dict[str, Any]) -> None:
    layout = json.loads(file_of(dataset, "layout.json").read_text())
    change_layout(dataset, shards=[layout["shards"][0] | values, *layout["shards"][1:]])
    with pytest.raises(FormatError):
        DatasetIndex(dataset, "u")


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_that_is_missing_cut_longer_or_of_another_type_is_refused(dataset: LocalStorage, column: str) -> None:
    path = file_of(dataset, f"{column}.npy")
    good = path.read_bytes()
    values = np.load(io.BytesIO(good))
    damaged = [None, good[:-1], good[:-8], good[:100], good[:8], b"", b"\0" * len(good)]
    for other in (
        np.append(values, values[-1:]),
        values[:-1],
        values.astype("<f8"),
        values.astype("<i8"),
        values.astype(">u8"),
        values.reshape(1, -1),
        np.uint64(7),
        values.astype(str),
    ):
        file = io.BytesIO()
        np.save(file, other)
        damaged.append(file.getvalue())
    for number, data in enumerate(damaged):
        path.unlink() if data is None else path.write_bytes(data)
        with pytest.raises(FormatError) as caught:
            DatasetIndex(dataset, "u").check()
        assert caught.value.shard == str(path), number
        assert caught.value.hint == "run energon prepare again on this dataset"
        if column != "key_bytes" and (data is None or len(data) != len(good)):
            with pytest.raises(FormatError) as caught:  # at opening, before the column is used
                DatasetIndex(dataset, "u").check_sizes()
            assert caught.value.shard == str(path), number
        path.write_bytes(good)
    DatasetIndex(dataset, "u").check()


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("part_ends", [1 << 40, 3, 4]),
        ("part_ends", [(1 << 64) - 1, 3, 4]),
        ("key_ends", [1 << 40, 2, 3]),
        ("key_ends", [3, 1, 3]),
        ("part_name", [0, 7, 0, 0]),
    ],
)
def test_columns_that_contradict_each_other_give_no_shard(
    dataset: LocalStorage, column: str, values: list[int]
) -> None:
    path = file_of(dataset, f"{column}.npy")
    dtype = np.load(path).dtype
    assert len(np.load(path)) == len(values)
    np.save(path, np.array(values, dtype=dtype))
    index = DatasetIndex(dataset, "u")
    with pytest.raises(FormatError, match="columns of the index contradict each other"):
        index.shard_index(index.shards[0])


@pytest.mark.parametrize("ends", [[1 << 40, 3, 4], [(1 << 64) - 1, 3, 4], [9, 3, 4]])
def test_a_part_behind_the_columns_is_refused(dataset: LocalStorage, ends: list[int]) -> None:
    path = file_of(dataset, "part_ends.npy")
    np.save(path, np.array(ends, dtype=np.load(path).dtype))
    with pytest.raises(FormatError, match="columns of the index contradict each other"):
        DatasetIndex(dataset, "u").part(0, "txt")


class Bomb:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def as_npz(path: Path) -> bytes:
    file = io.BytesIO()
    np.savez(file, key_hash=np.arange(3, dtype="<u8"))
    return file.getvalue()


def as_objects(path: Path) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([Bomb(path)] * 3, dtype=object))
    return file.getvalue()


@pytest.mark.parametrize(
    "make", [as_npz, as_objects, lambda path: pickle.dumps(Bomb(path)), lambda path: b"PK\x03\x04" * 99]
)
def test_a_column_is_never_unpickled_nor_unzipped(
    dataset: LocalStorage, tmp_path: Path, make: Callable[[Path], bytes]
) -> None:
    trace = tmp_path / "unpickled"
    file_of(dataset, "key_hash.npy").write_bytes(make(trace))
    with pytest.raises(FormatError, match="expected a column of"):
        DatasetIndex(dataset, "u").check()
    assert not trace.exists()


def npy(header: str, version: bytes = b"\x01\x00") -> bytes:
    text = header.encode("latin-1")
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    length = struct.pack("<H", len(text)) if version == b"\x01\x00" else struct.pack("<I", len(text))
    return b"\x93NUMPY" + version + length + text + bytes(24)


@pytest.mark.parametrize(
    "data",
    [
        npy("{'descr': '<u8', 'fortran_order': False, 'shape': (1000000000000000000000000,), }"),
        npy("{'descr': '<u8', 'fortran_order': False, 'shape': (461168601842738790,), }"),
        npy("{'descr': '<u8', 'fortran_order': False, 'shape': (-3,), }"),
        npy("{'descr': '<u8', 'fortran_order': False, 'shape': (True,)}"),
        npy("{'descr': '<u8', 'fortran_order': False, 'shape': ('3',)}"),
        npy("{'descr': '<u8', 'fortran_order': False, 'shape': 3}"),
        npy("{'descr': '<u8', 'fortran_order': False}"),
        npy("{'descr': '<u8', 'fortran_order': True, 'shape': (3,), }"),
        npy("{'descr': '<u8', 'fortran_order': False, 'shape': (3,), }  ") + b"\0",
        npy("{'descr': '<u8', 'fortran_order': False, 'shape': (3, 1), }"),
        npy("{'descr': '\xff', 'fortran_order': False, 'shape': (3,), }"),
        npy("{'descr': '<u8', 'fortran_order': False, 'shape': (3,), }").replace(b"\x76", b"\x86", 1),
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (3,)}"),
        npy("{'descr': 'nonsense', 'fortran_order': False, 'shape': (3,)}"),
        npy("{'descr': [('a', '<u4'), ('b', '<u4')], 'fortran_order': False, 'shape': (3,)}"),
        npy("{'descr': None, 'fortran_order': 7, 'shape': (3,)}"),
        npy("__import__('os').abort()"),
        npy("(" * 2000),
        npy("-" * 60_000),
        npy("{" * 9000),
        npy("{'a': 1}", b"\x02\x00"),
        npy("{'a': 1}", b"\x09\x00"),
        b"\x93NUMPY\x01\x00\xff\xff",
        b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{}",
    ],
)
def test_a_column_with_a_hostile_header_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "c.npy").write_bytes(data)
    with pytest.raises(FormatError):
        map_column(LocalStorage(tmp_path), "c.npy", "<u8")


def test_random_damage_to_a_column_s_header_is_refused_or_harmless(tmp_path: Path) -> None:
    chance = random.Random(11)
    good = npy("{'descr': '<u8', 'fortran_order': False, 'shape': (3,), }")
    path = tmp_path / "c.npy"
    for _ in range(1500):
        data = bytearray(good)
        for _ in range(chance.choice([1, 1, 2, 5])):
            data[chance.randrange(128)] = chance.choice([chance.randrange(256), *b"'{}()[],:0123456789LOu<> \n\\"])
        path.write_bytes(data)
        try:
            column = map_column(LocalStorage(tmp_path), "c.npy", "<u8")
        except FormatError:
            continue
        assert column.dtype == np.dtype("<u8")
        assert column.nbytes <= len(data)


@pytest.mark.parametrize(
    "text",
    [
        "../../etc",
        "/etc/passwd",
        "..",
        ".hidden",
        "",
        "\n",
        "a/b",
        "a\0b",
        "a\nb",
        "é",
        "x" * 200,
        "a b",
        "-rf",
        "u\\..\\v",
    ],
)
def test_an_index_uuid_is_the_name_of_a_folder_or_nothing(dataset: LocalStorage, text: str) -> None:
    dataset.local_path(INDEX_UUID).write_text(text, encoding="utf-8")
    assert read_uuid(dataset) is None
    index = current_index(dataset, COUNTS)
    assert index is not None  # matches the shards
    assert index.uuid == "u"


def test_an_index_uuid_may_end_in_a_newline(dataset: LocalStorage) -> None:
    dataset.local_path(INDEX_UUID).write_bytes(b"u\r\n")
    assert read_uuid(dataset) == "u"


def uuid_in_use(storage: LocalStorage, counts: dict[str, int]) -> str:
    index = current_index(storage, counts)
    assert index is not None
    return index.uuid


def test_the_index_that_fits_the_shards_is_in_force(dataset: LocalStorage) -> None:
    write_index(dataset, "v", ("b.tar",))
    assert set(index_folders(dataset)) == {"u", "v"}
    for named in ("u", "v"):
        dataset.local_path(INDEX_UUID).write_text(named)
        assert uuid_in_use(dataset, COUNTS) == "u"
        assert uuid_in_use(dataset, {"b.tar": 1}) == "v"
        assert current_index(dataset, {"b.tar": 2}) is None
        assert current_index(dataset, {"b.tar": 1, "a.tar": 2, "empty.tar": 0}) is None  # another order
    # Prepare writes the folder before its name, so a name without a folder is that of another tool.
    dataset.local_path(INDEX_UUID).write_text("w")
    assert current_index(dataset, COUNTS) is None
    # A damaged index that is not named is ignored.
    file_of(dataset, "layout.json").write_bytes(b"")
    dataset.local_path(INDEX_UUID).write_text("v")
    assert current_index(dataset, COUNTS) is None
    assert uuid_in_use(dataset, {"b.tar": 1}) == "v"


def test_a_copy_of_an_index_inside_another_folder_is_none(dataset: LocalStorage) -> None:
    deep = dataset.local_path(f"{INDEX_FOLDER}/u/copy/w")
    deep.mkdir(parents=True)
    (deep / "layout.json").write_bytes(file_of(dataset, "layout.json").read_bytes())
    assert index_folders(dataset) == ["u"]
    dataset.local_path(INDEX_UUID).unlink()
    assert uuid_in_use(dataset, COUNTS) == "u"


def test_no_index_at_all_is_none(tmp_path: Path) -> None:
    assert index_folders(LocalStorage(tmp_path)) == []
    assert current_index(LocalStorage(tmp_path), {}) is None


INFOS = {
    "empty": b"",
    "no JSON": b"{",
    "a list": b"[]",
    "null": b"null",
    "no shard_counts": b"{}",
    "counts as a list": b'{"shard_counts": ["a.tar"]}',
    "counts as text": b'{"shard_counts": {"a.tar": "2"}}',
    "a negative count": b'{"shard_counts": {"a.tar": -2}}',
    "half a sample": b'{"shard_counts": {"a.tar": 2.5}}',
    "true samples": b'{"shard_counts": {"a.tar": true}}',
    "null samples": b'{"shard_counts": {"a.tar": null}}',
    "NaN samples": b'{"shard_counts": {"a.tar": NaN}}',
    "samples of many digits": b'{"shard_counts": {"a.tar": ' + b"9" * 5000 + b"}}",
    "a version that is a number": b'{"energon_version": 7, "shard_counts": {}}',
    "no UTF-8": b'{"shard_counts": {"\xff.tar": 2}}',
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("data", INFOS.values(), ids=INFOS)
@pytest.mark.parametrize("name", [INFO_JSON, INFO_YAML])
def test_wrong_counts_of_shards_are_refused(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / ".nv-meta").mkdir()
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        read_shard_info(LocalStorage(tmp_path))
    assert caught.value.file == str(tmp_path / name)


def test_counts_of_shards_are_read_from_both_forms(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    (tmp_path / ".nv-meta").mkdir()
    assert read_shard_info(storage) is None
    (tmp_path / INFO_YAML).write_text(
        "energon_version: 5.0.0\nshard_counts:\n  b.tar: 1\n  a/é.tar: 20\n", encoding="utf-8"
    )
    assert list((read_shard_info(storage) or {}).items()) == [("b.tar", 1), ("a/é.tar", 20)]
    counts = {"z.tar": 3, "é\udcff.tar": 0, 'q"\\\n.tar': 1 << 40}
    (tmp_path / INFO_JSON).write_bytes(encode_shard_info(counts))
    assert list((read_shard_info(storage) or {}).items()) == list(counts.items())


@pytest.mark.parametrize(
    "offsets",
    [
        [-512, 0, 1024],
        [0, 0, 1024],
        [0, 1024, 512],
        [0, 100, 1024],
        [0, 512, 1000],
        [0, 512, 2048],
        [0, 512, 1 << 62],
        [0, -(1 << 63), 1024],
        [0, 1 << 62, -(1 << 63)],  # differences that overflow are positive
    ],
)
def test_offsets_of_samples_that_cannot_be_are_not_read(tmp_path: Path, offsets: list[int]) -> None:
    storage = LocalStorage(tmp_path)
    (tmp_path / "s.tar.idx").write_bytes(tar_idx_bytes(np.array(offsets, dtype=np.int64)))
    assert has_tar_idx(storage, "s.tar", 2)
    assert read_tar_idx(storage, "s.tar", samples=2, shard_size=1024) is None


def test_offsets_of_samples_read_back_and_a_file_of_another_length_is_not_read(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    assert read_tar_idx(storage, "s.tar", samples=2, shard_size=9216) is None
    data = tar_idx_bytes(np.array([1024, 5120, 9216], dtype=np.int64))
    assert data == struct.pack("<3Q", 1024, 5120, 9216)
    (tmp_path / "s.tar.idx").write_bytes(data)
    offsets = read_tar_idx(storage, "s.tar", samples=2, shard_size=9216)
    assert offsets is not None
    assert offsets.tolist() == [1024, 5120, 9216]
    assert read_tar_idx(storage, "s.tar", samples=3, shard_size=9216) is None
    (tmp_path / "s.tar.idx").write_bytes(data[:-1])
    assert read_tar_idx(storage, "s.tar", samples=2, shard_size=9216) is None


def test_a_shard_s_index_cut_anywhere_is_refused(dataset: LocalStorage) -> None:
    good = encode_shard_index(index_shard(dataset, "a.tar"))
    for length in range(len(good)):
        with pytest.raises(FormatError, match="not an index of a shard"):
            decode_shard_index(good[:length], name="a.tar")
    for start in (b"[]\n", b"{}\n", b"7\n", b"[" * 100_000, b'{"part_names": 7}\n'):
        with pytest.raises(FormatError):
            decode_shard_index(start + good.partition(b"\n")[2], name="a.tar")


@pytest.mark.parametrize("column", ["part_ends", "key_ends"])
def test_ends_whose_differences_overflow_are_refused(dataset: LocalStorage, column: str) -> None:
    dataset.local_path("many.tar").write_bytes(b"".join(member(b"%d.t" % number) for number in range(4)) + END)
    index = index_shard(dataset, "many.tar")
    ends = getattr(index, column)
    wrong = np.array([1 << 62, -(1 << 63), -(1 << 62), ends[-1]])
    assert (np.diff(wrong, prepend=0) >= 0).all()
    changed: dict[str, Any] = {column: wrong}
    data = encode_shard_index(replace(index, **changed))
    with pytest.raises(FormatError, match="a column of ends does not ascend"):
        decode_shard_index(data, name="many.tar")
