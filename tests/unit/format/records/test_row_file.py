"""Parquet files: rows as Python objects, the cache of row groups, and damage."""

from __future__ import annotations

import builtins
import gc
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from loader.dataset.records import SingleFile
from loader.errors import FormatError, SampleError
from loader.format.dataset_ref import DatasetRef
from loader.format.records import row_file
from loader.format.records.row_file import RowCache, RowFile, RowGroups
from loader.storage import open_parent
from tests.tables import row, write_rows
from tests.unit.format.records.record_lint import findings_of_file


def reader_of(path: Path) -> SingleFile:
    return SingleFile(DatasetRef(str(path)))


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch) -> RowCache:
    """Return an empty cache: other tests of this process may still hold open files, whose rows are in their cache."""
    empty = RowCache()
    monkeypatch.setattr(row_file, "row_cache", empty)
    return empty


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the numbers of the row groups that are decoded from now on."""
    groups: list[int] = []
    original = RowGroups.decode

    def decode(self: Any, group: int, names: Any = None) -> Any:
        groups.append(group)
        return original(self, group, names)

    monkeypatch.setattr(RowGroups, "decode", decode)
    return groups


def test_a_row_is_a_dict_of_python_objects(tmp_path: Path) -> None:
    reader = reader_of(write_rows(tmp_path / "x.parquet", range(20)))
    assert [reader.read_parts(number) for number in (0, 6, 7, 19)] == [row(number) for number in (0, 6, 7, 19)]
    assert reader.index.file(0).part_names == ("id", "text", "image", "turns")


def test_missing_values_are_none(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"a": [1, None], "b": [[1, 2], None]}), tmp_path / "x.parquet")
    reader = reader_of(tmp_path / "x.parquet")
    assert [reader.read_parts(0), reader.read_parts(1)] == [{"a": 1, "b": [1, 2]}, {"a": None, "b": None}]


def test_a_row_group_is_decoded_once_for_its_rows(tmp_path: Path, decoded: list[int]) -> None:
    reader = reader_of(write_rows(tmp_path / "x.parquet", range(20)))
    for number in (3, 1, 8, 2, 9):
        reader.read_parts(number)
    assert decoded == [0, 1]


def test_the_cache_keeps_the_groups_that_were_used_last(
    tmp_path: Path, decoded: list[int], monkeypatch: pytest.MonkeyPatch, cache: RowCache
) -> None:
    path = write_rows(tmp_path / "x.parquet", range(21))
    reader = reader_of(path)
    table = parquet.ParquetFile(path).read_row_group(0)
    monkeypatch.setattr(row_file, "CACHED_BYTES", table.nbytes * 5 // 2)
    for number in (0, 7, 1, 14, 2, 8):
        reader.read_parts(number)
    assert decoded == [0, 1, 2, 1]
    assert sum(size for _, size in cache._groups.values()) == cache._bytes
    reader.close()


def test_one_group_is_kept_even_if_it_is_larger_than_the_cache(
    tmp_path: Path, decoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_file, "CACHED_BYTES", 1)
    path = write_rows(tmp_path / "x.parquet", range(20))
    reader = reader_of(path)
    for number in (0, 1, 2, 9):
        reader.read_parts(number)
    assert decoded == [0, 1]
    assert [finding.code for finding in findings_of_file(path)] == ["W415"]


def test_facts(tmp_path: Path) -> None:
    facts = RowFile(*open_parent(write_rows(tmp_path / "x.parquet", range(20)))).facts()
    assert facts["columns"]["image"] == "binary"
    assert facts["row_groups"]["count"] == 3


@pytest.mark.parametrize("size_bytes", [0, 3, 100, -1, -9])
def test_a_truncated_file_is_refused_and_found_by_lint(tmp_path: Path, size_bytes: int) -> None:
    path = write_rows(tmp_path / "x.parquet", range(20))
    path.write_bytes(path.read_bytes()[:size_bytes])
    with pytest.raises(FormatError, match="expected a Parquet file") as caught:
        RowFile(*open_parent(path))
    assert str(path) in str(caught.value)
    assert [finding.code for finding in findings_of_file(path)] == ["E414"]


def test_a_damaged_footer_is_refused(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "x.parquet", range(20))
    data = bytearray(path.read_bytes())
    data[-60:-8] = b"\xff" * 52
    path.write_bytes(data)
    with pytest.raises(FormatError, match="its footer cannot be read"):
        RowFile(*open_parent(path))


def test_a_damaged_row_group_is_found_when_it_is_read(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "x.parquet", range(20))
    data = bytearray(path.read_bytes())
    data[4:60] = b"\xff" * 56
    path.write_bytes(data)
    reader = reader_of(path)
    assert reader.read_parts(10) == row(10)
    with pytest.raises(FormatError, match="row group 0 cannot be read"):
        reader.read_parts(0)
    assert "E414" in [finding.code for finding in findings_of_file(path)]
    assert findings_of_file(path, level="headers") == []


def test_without_pyarrow_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_rows(tmp_path / "x.parquet", range(2))
    original = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "pyarrow":
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r"energon-toolkit\[tables\]"):
        RowFile(*open_parent(path))


MEMORY = """
import sys
from pathlib import Path
from loader.format.records.folder_index import open_record_path

def resident() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon", "RssShmem"))) >> 10

file = open_record_path(sys.argv[1])
groups = file.open()
before = resident()
tables = [groups.decode(number) for number in range(4)]
print(sum(table.nbytes for table in tables) >> 20, resident() - before)
"""


def test_decoded_groups_leave_no_other_memory_behind(tmp_path: Path) -> None:
    """The heap would keep the compressed pages of two groups, and the allocator those of others."""
    values = [np.random.default_rng(number).bytes(1 << 20) for number in range(96)]
    parquet.write_table(pa.table({"data": values}), tmp_path / "x.parquet", row_group_size=24)
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "x.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    decoded, resident = map(int, done.stdout.split())
    assert decoded == 96
    assert resident < decoded + 24, resident


def test_the_limit_holds_while_a_group_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: RowCache
) -> None:
    values = [b"x" * (4 << 20)] * 6
    parquet.write_table(pa.table({"data": values}), tmp_path / "x.parquet", row_group_size=1)
    reader = reader_of(tmp_path / "x.parquet")
    monkeypatch.setattr(row_file, "CACHED_BYTES", 10 << 20)
    held, original = list[int](), RowGroups._reader

    def open_reader(self: RowGroups, end: bytes = b"") -> Any:
        held.append(len(cache._groups))
        return original(self, end)

    monkeypatch.setattr(RowGroups, "_reader", open_reader)
    for number in range(6):
        reader.read_parts(number)
    assert held[-4:] == [1, 1, 1, 1]  # next to the one that is decoded
    assert len(cache._groups) == 2


def test_announced_rows_are_decoded_with_the_first_one_of_their_group(
    tmp_path: Path, decoded: list[int], monkeypatch: pytest.MonkeyPatch, cache: RowCache
) -> None:
    """Without this, shuffled reading would decode a row group for each sample once the groups exceed the cache."""
    monkeypatch.setattr(row_file, "CACHED_BYTES", 1)
    reader = reader_of(write_rows(tmp_path / "x.parquet", range(28)))
    order = np.random.default_rng(0).permutation(28)
    reader.index.file(0).expect(order)
    assert [reader.read_parts(number) for number in order.tolist()] == [row(number) for number in order.tolist()]
    assert sorted(decoded) == [0, 1, 2, 3]
    assert cache.ready_bytes == 0
    assert reader.read_parts(3) == row(3)  # once more, without an announcement


def test_announced_rows_have_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: RowCache) -> None:
    monkeypatch.setattr(row_file, "READY_BYTES", 300)
    reader = reader_of(write_rows(tmp_path / "x.parquet", range(28)))
    order = np.random.default_rng(0).permutation(28)
    reader.index.file(0).expect(order)
    most = 0
    for number in order.tolist():
        assert reader.read_parts(number) == row(number)
        most = max(most, cache.ready_bytes)
    assert 0 < most <= 300
    assert cache.ready_bytes == 0


def test_announced_rows_that_are_never_read_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: RowCache
) -> None:
    monkeypatch.setattr(row_file, "READY_BYTES", 300)
    monkeypatch.setattr(row_file, "_MAX_REFUSED", 20)
    path = write_rows(tmp_path / "x.parquet", range(28))
    for _ in range(20):
        reader = reader_of(path)
        reader.index.file(0).expect(np.arange(28))
        reader.read_parts(0)
        reader.read_parts(27)
        assert cache.ready_bytes <= 300
    reader = reader_of(path)
    found = set()
    for _ in range(20):
        reader.index.file(0).expect(np.arange(7))
        reader.read_parts(0)
        found.add(cache.take((reader.index.file(0)._serial, 1, None)) is None)  # type: ignore[attr-defined]
    assert False in found  # rows of earlier readers did not keep all the room
    cache._ready.clear()
    cache.ready_bytes = 0


def test_threads_may_read_one_file(tmp_path: Path) -> None:
    reader = reader_of(write_rows(tmp_path / "x.parquet", range(700), group=10))
    reader.read_parts(0)  # opens the file

    def read(start: int) -> bool:
        numbers = np.random.default_rng(start).permutation(700).tolist()
        return all(reader.read_parts(number) == row(number) for number in numbers)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read, range(4)))


def test_files_that_are_dropped_leave_nothing_in_the_cache(tmp_path: Path, cache: RowCache) -> None:
    """A later file may have the id of an earlier one."""
    gc.collect()
    before = cache._bytes  # of files that other tests have open
    for number in range(50):
        reader = reader_of(write_rows(tmp_path / f"{number}.parquet", [number, number]))
        assert reader.read_parts(1) == row(number)
        del reader
    gc.collect()
    assert cache._bytes == before


def not_utf8() -> pa.Array:
    ends = pa.array([0, 2, 4, 5], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.string(), 3, [None, ends, pa.py_buffer(b"ok\xc3(y")])


@pytest.mark.parametrize(
    ("column", "bad"),
    [
        (not_utf8(), 1),
        (pa.array([0, 2**62, 0], pa.timestamp("us")), 1),
        (pa.array([0, 0, 2**30], pa.date32()), 2),
    ],
    ids=["text", "time", "date"],
)
def test_a_value_that_python_cannot_hold_costs_only_its_row(tmp_path: Path, column: pa.Array, bad: int) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"x": column, "n": [1, 2, 3]}), path)
    reader = reader_of(path)
    reader.index.file(0).expect(np.arange(3))
    for number in range(3):
        if number == bad:
            with pytest.raises(SampleError, match="column 'x' cannot be read") as caught:
                reader.read_parts(number)
            assert (caught.value.key, caught.value.part) == (f"a.parquet/{bad}", "x")
        else:
            assert reader.read_parts(number)["n"] == number + 1
    assert reader.index.file(0).fingerprint() == reader_of(path).index.file(0).fingerprint()


def test_a_row_group_that_would_fill_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"x": np.zeros(1 << 20, np.int64)}), path)
    assert path.stat().st_size < 1 << 17
    monkeypatch.setattr(row_file, "_MAX_GROUP_BYTES", (8 << 20) - 1)
    with pytest.raises(FormatError, match="row group 0 needs at least 8,388,608 bytes of memory"):
        reader_of(path).read_parts(0)


def test_messages_about_damage_have_no_control_characters(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.parquet", range(3))
    data = path.read_bytes()
    messages = []
    for place in range(len(data) - 400, len(data) - 8, 7):
        for value in (0x0F, 0x1B, 0x7F):
            path.write_bytes(data[:place] + bytes([value]) + data[place + 1 :])
            try:
                reader_of(path).read_parts(0)
            except FormatError as error:
                messages.append(error.message)
    assert any("\\x" in message for message in messages)
    assert all(message.isprintable() for message in messages)
