"""A column that is written again: a kill leaves the earlier values or the new ones, and no reader mixes both."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loader.dataset.opening import folder_at
from loader.errors import FormatError
from loader.format.columns import column_files
from loader.format.columns.column import Column
from loader.format.columns.column_files import open_column, write_column, write_map_column
from loader.format.columns.column_record import column_names, current_file
from loader.format.index import publish
from loader.storage import Storage, rename_file
from tests.e2e.dataset_tree import caption_samples, prepare, shard_path, write_shard, write_shards
from tests.e2e.test_prepare_kills import in_child, kill_before

SAMPLES = 6
KNOWN = np.arange(SAMPLES) != 2


def write_categories(folder: Path) -> None:
    opened = folder_at(folder)
    write_column(opened.storage, opened.index, "x", np.arange(SAMPLES) % 2, categories=["a", "b"])


def write_numbers(folder: Path) -> None:
    opened = folder_at(folder)
    write_column(opened.storage, opened.index, "x", np.arange(SAMPLES), unit="pixels")


def write_vectors(folder: Path, known: Any = KNOWN) -> None:
    opened, vectors = folder_at(folder), np.ones((SAMPLES, 3), np.float32)
    write_map_column(opened.storage, opened.index, "x", vectors.dtype, [(vectors, known)], length=3, metric="cosine")


def write_whole_vectors(folder: Path) -> None:
    write_vectors(folder, np.ones(SAMPLES, np.bool_))


def write_texts(folder: Path) -> None:
    opened, texts = folder_at(folder), [f"text {sample}" for sample in range(SAMPLES)]
    write_map_column(opened.storage, opened.index, "x", None, [(texts, KNOWN)])


WRITES = [write_categories, write_numbers, write_vectors, write_whole_vectors, write_texts]
Write = Callable[[Path], None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = write_shards(tmp_path / "ds", 2)
    prepare(folder)
    return folder


def read(folder: Path) -> Column:
    opened = folder_at(folder)
    return open_column(opened.storage, opened.index, "x")


def values(folder: Path) -> str:
    column = read(folder)
    return repr([column.record, *(column.value(sample) for sample in range(SAMPLES))])


def files(folder: Path) -> dict[str, bytes]:
    """Return the files of columns, without the unfinished ones of killed processes."""
    return {path.name: path.read_bytes() for path in sorted((folder / ".nv-meta/columns").glob("[!.]*"))}


@pytest.mark.parametrize(("write", "again"), list(zip(WRITES, [*WRITES[1:], WRITES[0]], strict=True)))
@pytest.mark.sampled(6)
def test_a_kill_leaves_the_earlier_values_or_the_new_ones(
    folder: Path, write: Write, again: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    again(folder)
    new, new_files = values(folder), files(folder)
    write(folder)
    old, states = values(folder), []
    for call in range(1, 100):
        with monkeypatch.context() as patched:
            kill_before(call, patched)
            code = in_child(lambda: again(folder))
        states.append(values(folder))
        assert column_names(folder_at(folder).storage) == ["x"]
        if code == 0:
            break
        assert code == -signal.SIGKILL
        if call % 2:  # on top of what the kill has left, as well
            again(folder)
            assert files(folder) == new_files
        write(folder)
        assert values(folder) == old
    assert call >= 8
    assert {*states} == {old, new}
    assert states == sorted(states, key=[old, new].index), "once it is committed, it stays"
    assert files(folder) == new_files


@pytest.mark.parametrize(("write", "again"), list(zip(WRITES, [*WRITES[1:], WRITES[0]], strict=True)))
@pytest.mark.parametrize("moment", [1, 2, 3])
def test_a_reader_sees_the_files_of_one_write(
    folder: Path, write: Write, again: Write, moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    again(folder)
    new = values(folder)
    write(folder)
    calls, exists = 0, current_file

    def replaced(*args: Any) -> str:
        nonlocal calls
        calls += 1
        if calls == moment + 1:  # the first call finds the record
            again(folder)
        return exists(*args)

    monkeypatch.setattr(column_files, "current_file", replaced)
    read_then = values(folder)
    monkeypatch.undo()
    assert read_then == new or calls <= moment


def forked(function: Callable[[], object]) -> int:
    """Run a function in a child, and return its process number."""
    if child := os.fork():
        return child
    code = 1
    try:
        function()
        code = 0
    finally:
        os._exit(code)


def exit_codes(children: list[int]) -> list[int]:
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def test_processes_write_one_column_at_once_and_readers_see_whole_writes(folder: Path) -> None:
    known = set()
    for write in WRITES:
        write(folder)
        known.add(values(folder))

    def write_often(first: int) -> None:
        for turn in range(40):
            WRITES[(first + turn) % len(WRITES)](folder)

    def read_often() -> None:
        for _ in range(150):
            seen = values(folder)
            assert seen in known, seen

    assert exit_codes([*(forked(partial(write_often, first)) for first in range(3)), forked(read_often)]) == [0] * 4
    assert len(files(folder)) <= 4
    assert values(folder) in known


def test_a_record_of_the_same_size_and_time_is_another_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks of file systems tick every few milliseconds, in which a column may be replaced twice."""
    write_texts(folder)
    before, read_files = values(folder), column_files._read_files
    record = folder / ".nv-meta/columns/x.json"
    times, calls = record.stat(), 0

    def replaced(*args: Any, **options: Any) -> Column:
        nonlocal calls
        calls += 1
        column = read_files(*args, **options)
        if calls == 1:
            opened = folder_at(folder)
            texts = [f"TEXT {sample}" for sample in range(SAMPLES)]
            write_map_column(opened.storage, opened.index, "x", None, [(texts, KNOWN)])
            os.utime(record, ns=(times.st_atime_ns, times.st_mtime_ns))
            assert record.stat().st_size == times.st_size
        return column

    monkeypatch.setattr(column_files, "_read_files", replaced)
    assert values(folder) == before.replace("text ", "TEXT ")
    assert calls == 2


def test_a_prepare_renames_the_record_of_a_column_before_its_values(folder: Path) -> None:
    """A reader of the earlier order refuses the record, and takes no values of the next order."""
    write_numbers(folder)
    shard_path(folder, 0).unlink()
    renames = list[str]()

    def noted(storage: Storage, old: str, new: str) -> None:
        renames.append(new)
        rename_file(storage, old, new)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(publish, "rename_file", noted)
        prepare(folder)
    assert [name for name in renames if "columns/" in name][-2:] == [
        f".nv-meta/columns/x{end}" for end in (".json", ".npy")
    ]


def test_a_write_that_was_not_committed_does_not_replace_a_column_that_is_dropped(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_numbers(folder)
    monkeypatch.setattr(column_files, "_rename_staged", lambda *_: None)
    with monkeypatch.context() as patched:
        patched.setattr(type(folder_at(folder).storage), "remove", lambda *_: None)
        write_texts(folder)  # as if it was killed before it removes the record
    monkeypatch.undo()
    assert read(folder).kind == "numbers"
    write_shard(shard_path(folder, 1), caption_samples(9, 4))
    prepare(folder)
    assert column_names(folder_at(folder).storage) == []
    assert not files(folder)


def test_a_record_that_is_damaged_is_named(folder: Path) -> None:
    write_numbers(folder)
    (folder / ".nv-meta/columns/x.json").write_text("{")
    with pytest.raises(FormatError, match="the record of column 'x' is damaged"):
        read(folder)
