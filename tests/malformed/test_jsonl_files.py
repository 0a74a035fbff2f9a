"""Damage JSONL indexes: a reader returns the right line or raises, and never returns part of another line."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from loader.errors import FormatError
from loader.format.jsonl.index import JsonlReader, prepare_jsonl
from loader.storage import LocalStorage

LINES = [b'{"n": %d, "pad": "%s"}' % (number, b"x" * (number * 7 % 23)) for number in range(20)]


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> LocalStorage:
    storage = LocalStorage(tmp_path_factory.mktemp("jsonl"))
    storage.local_path("x.jsonl").write_bytes(b"\n".join(LINES) + b"\n")
    prepare_jsonl(storage, "x.jsonl")
    storage.local_path("x.jsonl.idx").rename(storage.local_path("good.idx"))
    return storage


def read_everything(storage: LocalStorage, index: bytes) -> list[bytes | None]:
    """Read every sample of an index; None if reading it is refused."""
    path = Path(storage.path("x.jsonl.idx"))
    path.unlink(missing_ok=True)  # not overwritten, because an earlier one may still be mapped
    path.write_bytes(index)
    found: list[bytes | None] = []
    try:
        with JsonlReader(storage, "x.jsonl") as reader:
            for number in range(len(reader)):
                try:
                    found.append(reader.read_line(number))
                except FormatError:
                    found.append(None)
    except FormatError:
        pass
    return found


def test_the_undamaged_index_gives_every_line(storage: LocalStorage) -> None:
    assert read_everything(storage, storage.read("good.idx")) == LINES


@given(st.data())
def test_an_index_with_some_bytes_changed_gives_whole_lines_or_errors(
    storage: LocalStorage, data: st.DataObject
) -> None:
    index = bytearray(storage.read("good.idx"))
    for position in data.draw(st.lists(st.integers(0, len(index) - 1), min_size=1, max_size=4)):
        index[position] = data.draw(st.integers(0, 255))
    assert set(read_everything(storage, bytes(index))) <= {*LINES, None}


@given(st.integers(0, 8 * 21 - 1))
def test_a_cut_index_is_refused(storage: LocalStorage, size_bytes: int) -> None:
    assert read_everything(storage, storage.read("good.idx")[:size_bytes]) == []


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 600), min_size=2, max_size=12))
def test_an_index_of_any_numbers_gives_whole_lines_or_errors(storage: LocalStorage, offsets: list[int]) -> None:
    size = storage.stat("x.jsonl").size_bytes
    index = struct.pack(f"<{len(offsets) + 2}Q", 0, *offsets, size)
    assert set(read_everything(storage, index)) <= {*LINES, None}
