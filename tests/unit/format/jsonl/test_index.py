from __future__ import annotations

import json
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from loader.errors import FormatError, StorageError
from loader.format.jsonl import lines as jsonl_lines
from loader.format.jsonl.index import JsonlReader, build_jsonl_index, open_jsonl_index, prepare_jsonl
from loader.storage import LocalStorage


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path)


@pytest.fixture(params=[7, 64, 1 << 20], ids="chunks of {} bytes".format)
def any_chunk_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl_lines, "_CHUNK_BYTES", request.param)


def offsets_of(storage: LocalStorage, data: bytes) -> list[int]:
    storage.local_path("x.jsonl").write_bytes(data)
    return list(map(int, build_jsonl_index(storage, "x.jsonl").offsets))


def lines_of(storage: LocalStorage) -> list[bytes]:
    with JsonlReader(storage, "x.jsonl") as reader:
        return [reader.read_line(index) for index in range(len(reader))]


GOOD = {
    # With the offsets that megatron-energon 7.4.1 writes.
    "plain": (b'{"a":1}\n{"a":2}\n{"a":3}\n', [0, 8, 16, 24]),
    "no line break at the end": (b'{"a":1}\n{"a":2}', [0, 8, 15]),
    "a blank line between": (b'{"a":1}\n\n{"a":2}\n', [0, 9, 17]),
    "blank lines all around": (b'\n\n{"a":1}\n  \n\t\n{"a":2}\n\n\n', [0, 15, 25]),
    "CRLF": (b'{"a":1}\r\n{"a":2}\r\n', [0, 9, 18]),
    "CRLF and blank": (b'{"a":1}\r\n\r\n{"a":2}\r\n', [0, 11, 20]),
    "blanks around objects": (b'  {"a":1}\n{"a":2}  \n', [0, 10, 20]),
    "blanks at the end": (b'{"a":1}\n{"a":2}\n   ', [0, 8, 19]),
    "odd blanks": (b'{"a":1}\n\x0b\x0c\n{"a":2}\n', [0, 11, 19]),
    "line separators in a text": ('{"a":"x\u2028y\x85z"}\n{"a":2}\n'.encode(), [0, 17, 25]),
    # Files that it refuses or does not check.
    "byte order mark": (b'\xef\xbb\xbf{"a":1}\n{"a":2}\n', [0, 11, 19]),
    "byte order mark on a blank line": (b'\xef\xbb\xbf \n{"a":1}\n', [0, 13]),
    "NaN as Python writes it": (b'{"a":NaN}\n{"a":2}', [0, 10, 17]),
    "a lone surrogate as Python writes it": (b'{"a":"\\ud800"}\n', [0, 15]),
    "one of everything": (b'{"a":[1,{"b":null}],"c":"\xc3\xa9\xf0\x9f\x98\x80}\\n{"}\n', [0, 38]),
    "two-line trick": (b'{"a":"}{"}\n{"b":"{}"}\n', [0, 11, 22]),
}


@pytest.mark.usefixtures("any_chunk_size")
@pytest.mark.parametrize("name", GOOD)
def test_offsets_are_where_lines_begin_and_the_size(storage: LocalStorage, name: str) -> None:
    data, offsets = GOOD[name]
    assert offsets_of(storage, data) == offsets


@pytest.mark.usefixtures("any_chunk_size")
@pytest.mark.parametrize("name", GOOD)
def test_every_line_is_read_back_without_what_surrounds_it(storage: LocalStorage, name: str) -> None:
    data, _ = GOOD[name]
    storage.local_path("x.jsonl").write_bytes(data)
    prepare_jsonl(storage, "x.jsonl")
    expected = [line.strip() for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]
    assert lines_of(storage) == expected
    assert all(isinstance(json.loads(line), dict) for line in lines_of(storage))


@pytest.mark.usefixtures("any_chunk_size")
@pytest.mark.parametrize(
    ("data", "line", "offset", "found"),
    [
        (b'{"a":1}\nnot json\n{"a":2}\n', 2, 8, "it is 'not json'"),
        (b'{"a":1}\n[1,2]\n', 2, 8, r"it is '\[1,2\]'"),
        (b'{"a":1}\n\n3', 3, 9, "it is '3'"),
        (b'{"a":1} {"b":2}\n', 1, 0, "trailing characters"),
        (b'{"a":1}\r{"b":2}\r', 1, 0, "trailing characters"),
        (b'{"a":1}\n{"b":}\n', 2, 8, r"invalid character \(byte 5 of the line\)"),
        (b'{"a":1}\n{"b":1\n', 2, 8, r"it is '\{\"b\":1'"),
        (b'{"a":1}\n{"b":1}\x00\n', 2, 8, r"it is '\{\"b\":1\}\\x00'"),
        (b'{"a":1}\n\x00\n', 2, 8, r"it is '\\x00'"),
        (b'{"a":1}\n{"b":"\x01"}\n', 2, 8, "invalid character"),
        (b'{"a":NaN}\n{"b":nan}\n', 2, 10, "invalid character"),
        (b"{'a':1}\n", 1, 0, "malformed"),
        (b'{"a":1}\n  \xef\xbb\xbf{"b":1}\n', 2, 8, "it is "),
        # As many values as lines, but not one value per line.
        (b'{"a":1}\n{"b":\n{}} {}\n{} {}\n', 2, 8, "it is "),
        (b'{} {}\n{"b":"}\n{"}\n', 1, 0, "trailing characters"),
        (b'{} {}\n{"a":{}\n{}}\n', 1, 0, "trailing characters"),
    ],
)
def test_a_line_that_is_not_one_object_is_named_with_its_number_and_offset(
    storage: LocalStorage, data: bytes, line: int, offset: int, found: str
) -> None:
    with pytest.raises(FormatError, match=f"line {line} is not one JSON object: .*{found}") as caught:
        offsets_of(storage, data)
    assert caught.value.offset == offset
    assert caught.value.shard == storage.path("x.jsonl")


def test_nesting_too_deep_for_any_parser_is_named(storage: LocalStorage) -> None:
    with pytest.raises(FormatError, match=r"line 2 .*nested too deeply"):
        offsets_of(storage, b'{}\n{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n")


@pytest.mark.usefixtures("any_chunk_size")
@pytest.mark.parametrize(
    ("data", "line", "offset"),
    [
        (b'{"a":"\xff"}\n', 1, 6),
        (b'{"a":"\xc3\xa9"}\n{"a":"\xe9"}\n', 2, 17),
        (b'{"a":"aaaaa\xc3("}\n', 1, 11),
        (b'{"a":"\xc3("}\n{}\n', 1, 6),  # the incomplete character ends a chunk of 7, and ASCII follows
        (b'{"a":"\xed\xa0\x80"}\n', 1, 6),
        (b'{"a":1}\n{"a":"\xf0\x9f', 2, 14),
        (b'{"a":1}\n\n\n{"a":"\xf0\x9f\x98x"}', 4, 16),
    ],
)
def test_what_is_not_utf8_is_named_with_line_and_offset(
    storage: LocalStorage, data: bytes, line: int, offset: int
) -> None:
    with pytest.raises(FormatError, match=f"line {line} is not UTF-8") as caught:
        offsets_of(storage, data)
    assert caught.value.offset == offset


@pytest.mark.parametrize(("data", "found"), [(b"", "is empty"), (b"\n \n", "only blank lines")])
def test_a_file_without_samples_is_an_error(storage: LocalStorage, data: bytes, found: str) -> None:
    with pytest.raises(FormatError, match=found):
        offsets_of(storage, data)


def test_a_huge_line_is_refused_by_its_first_chunk_if_it_is_no_object(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl_lines, "_CHUNK_BYTES", 16)
    read: list[int] = []
    storage.local_path("x.jsonl").write_bytes(b"{}\n[" + b"1," * 10_000)
    with pytest.raises(FormatError, match=r"line 2 .*it is '\[1,1,"):
        build_jsonl_index(storage, "x.jsonl", progress=read.append)
    assert max(read) < 100


def test_a_huge_line_that_begins_with_blanks_is_read(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl_lines, "_CHUNK_BYTES", 16)
    assert offsets_of(storage, b" " * 50 + b'{"a":"' + b"x" * 100 + b'"}\n{}') == [0, 159, 161]


def test_progress_counts_the_bytes_read(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl_lines, "_CHUNK_BYTES", 10)
    storage.local_path("x.jsonl").write_bytes(b"{}\n" * 8)
    read: list[int] = []
    prepare_jsonl(storage, "x.jsonl", progress=read.append)
    assert read == [9, 18, 24]


def test_the_index_file_is_little_endian_offsets(storage: LocalStorage) -> None:
    storage.local_path("x.jsonl").write_bytes(b'{"a":1}\n{"a":2}\n')
    index = prepare_jsonl(storage, "x.jsonl")
    assert storage.read("x.jsonl.idx") == struct.pack("<3Q", 0, 8, 16)
    assert len(index) == 2


def test_an_index_built_in_memory_is_the_one_that_is_written(storage: LocalStorage) -> None:
    storage.local_path("x.jsonl").write_bytes(b"".join(GOOD[name][0].rstrip() + b"\n" for name in list(GOOD)[:9]))
    written = prepare_jsonl(storage, "x.jsonl").offsets.tolist()
    assert build_jsonl_index(storage, "x.jsonl").offsets.tolist() == written


def test_the_index_is_mapped_and_not_read(storage: LocalStorage) -> None:
    storage.local_path("x.jsonl").write_bytes(b"{}\n")
    assert isinstance(prepare_jsonl(storage, "x.jsonl").offsets, np.memmap)


def test_a_failed_run_leaves_the_index_that_was_there(storage: LocalStorage) -> None:
    storage.local_path("x.jsonl").write_bytes(b"{}\n")
    prepare_jsonl(storage, "x.jsonl")
    before = storage.read("x.jsonl.idx")
    storage.local_path("x.jsonl").write_bytes(b"{}\n" * 1000 + b"nope\n")
    with pytest.raises(FormatError, match="line 1,001"):
        prepare_jsonl(storage, "x.jsonl")
    assert storage.read("x.jsonl.idx") == before
    assert sorted(os.listdir(storage.path(""))) == ["x.jsonl", "x.jsonl.idx"]


def test_a_file_that_grows_while_it_is_read_is_no_index(storage: LocalStorage) -> None:
    path = storage.local_path("x.jsonl")
    path.write_bytes(b"{}\n")

    def grow(_: int) -> None:
        path.write_bytes(b"{}\n{}\n")

    with pytest.raises(FormatError, match="changed while it was read"):
        build_jsonl_index(storage, "x.jsonl", progress=grow)


def test_a_file_that_shrinks_while_it_is_read_is_no_index(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl_lines, "_CHUNK_BYTES", 10)
    path = storage.local_path("x.jsonl")
    path.write_bytes(b"{}\n" * 10)
    with pytest.raises(FormatError, match="ended while it was read; expected 30 bytes") as caught:
        build_jsonl_index(storage, "x.jsonl", progress=lambda _: os.truncate(path, 10))
    assert caught.value.offset == 10


# ----------------------------------------------------------------------------------------------------- staleness


def test_a_missing_index_says_what_to_run(storage: LocalStorage) -> None:
    storage.local_path("x.jsonl").write_bytes(b"{}\n")
    with pytest.raises(FormatError, match="no index yet") as caught:
        open_jsonl_index(storage, "x.jsonl")
    assert caught.value.hint == f"run: energon prepare {storage.path('x.jsonl')}"


def test_a_missing_file_is_a_storage_error(storage: LocalStorage) -> None:
    with pytest.raises(StorageError):
        open_jsonl_index(storage, "x.jsonl")


def test_an_index_that_cannot_be_looked_up_is_a_storage_error(storage: LocalStorage) -> None:
    name = "x" * 252  # a name of valid length, but not with the suffix .idx
    storage.local_path(name).write_bytes(b"{}\n")
    with pytest.raises(StorageError, match="too long"):
        open_jsonl_index(storage, name)


@pytest.mark.parametrize("index", [b"", b"\0" * 8, b"\0" * 17])
def test_an_index_of_an_impossible_size_is_damaged(storage: LocalStorage, index: bytes) -> None:
    storage.local_path("x.jsonl").write_bytes(b"{}\n")
    storage.local_path("x.jsonl.idx").write_bytes(index)
    with pytest.raises(FormatError, match=f"this index has {len(index)} bytes"):
        open_jsonl_index(storage, "x.jsonl")


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (b'{"a":1}\n', b'{"a":1}\n{"a":2}\n', "expected a file of 8 bytes, found 16"),
        (b'{"a":1}\n{"a":2}\n', b'{"a":1}\n', "expected a file of 16 bytes, found 8"),
        (b'{"a":1}\n{"a":2}\n', b'{"a":1, "bcd":2}', "sample 1 at byte 8"),
        (b'{"a":1}\n{"a":2}\n', b'{"a":1}\n[1,2,3]\n', "sample 1 at byte 8"),
        (b'{"a":1}\n{"a":2}\n', b'[1,2,3]\n{"a":2}\n', "sample 0 at byte 0"),
        (b'{"a":1}\n{"a":2}\n', b"               \n", "sample 0 at byte 0"),
    ],
)
def test_an_index_of_a_file_that_changed_is_stale(
    storage: LocalStorage, before: bytes, after: bytes, found: str
) -> None:
    storage.local_path("x.jsonl").write_bytes(before)
    prepare_jsonl(storage, "x.jsonl")
    storage.local_path("x.jsonl").write_bytes(after)
    with pytest.raises(FormatError, match=found) as caught:
        open_jsonl_index(storage, "x.jsonl")
    assert str(caught.value.hint).startswith("run: energon prepare")


def test_a_copy_with_another_time_is_not_stale(storage: LocalStorage) -> None:
    storage.local_path("x.jsonl").write_bytes(b"{}\n")
    prepare_jsonl(storage, "x.jsonl")
    os.utime(storage.path("x.jsonl"), (0, 0))
    assert len(open_jsonl_index(storage, "x.jsonl")) == 1


def test_any_number_of_blank_lines_may_stand_before_the_first_sample(storage: LocalStorage) -> None:
    storage.local_path("x.jsonl").write_bytes(b"\n" * 10_000 + b"{}\n")
    prepare_jsonl(storage, "x.jsonl")
    assert lines_of(storage) == [b"{}"]


def test_a_start_at_the_end_of_the_file_is_stale(storage: LocalStorage) -> None:
    storage.local_path("x.jsonl").write_bytes(b"{}\n")
    storage.local_path("x.jsonl.idx").write_bytes(struct.pack("<3Q", 0, 3, 3))
    with pytest.raises(FormatError, match="sample 1 at byte 3"):
        open_jsonl_index(storage, "x.jsonl")


# ------------------------------------------------------------------------------------------------------- reading


def test_samples_are_read_in_any_order(storage: LocalStorage) -> None:
    storage.local_path("x.jsonl").write_bytes(b"".join(b'{"i":%d}\n' % number for number in range(100)))
    prepare_jsonl(storage, "x.jsonl")
    with JsonlReader(storage, "x.jsonl") as reader:
        assert len(reader) == 100
        for number in (99, 0, 50, 50):
            assert json.loads(reader.read_line(number)) == {"i": number}


@pytest.mark.parametrize("index", [-1, 1, 10**9])
def test_a_sample_that_is_not_there_is_an_index_error(storage: LocalStorage, index: int) -> None:
    storage.local_path("x.jsonl").write_bytes(b"{}\n")
    with (
        JsonlReader(storage, "x.jsonl", build_jsonl_index(storage, "x.jsonl")) as reader,
        pytest.raises(IndexError, match="which has 1"),
    ):
        reader.read_line(index)


@pytest.mark.parametrize("offsets", [(0, 6, 6, 9), (0, 6, 3, 9), (0, 4, 6, 9), (0, 5, 6, 9), (0, 2**63, 6, 9)])
def test_damaged_offsets_inside_the_index_never_yield_a_wrong_sample(
    storage: LocalStorage, offsets: tuple[int, int, int, int]
) -> None:
    storage.local_path("x.jsonl").write_bytes(b"{}\n{}\n{}\n")
    storage.local_path("x.jsonl.idx").write_bytes(struct.pack("<4Q", *offsets))
    with JsonlReader(storage, "x.jsonl") as reader, pytest.raises(FormatError, match="does not fit this file"):
        reader.read_line(1)


def test_a_line_changed_behind_the_readers_back_is_noticed(storage: LocalStorage) -> None:
    storage.local_path("x.jsonl").write_bytes(b'{"a":1}\n{"a":2}\n{"a":3}\n')
    prepare_jsonl(storage, "x.jsonl")
    with JsonlReader(storage, "x.jsonl") as reader:
        with open(storage.path("x.jsonl"), "r+b") as file:
            file.seek(8)
            file.write(b"{}\n{  }\n")
        with pytest.raises(FormatError, match=r"expected one JSON object at bytes 8–16 \(sample 1\)"):
            reader.read_line(1)


def test_errors_travel_between_processes(storage: LocalStorage) -> None:
    with pytest.raises(FormatError) as caught:
        offsets_of(storage, b"[]")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
