"""A column that is written again: a kill leaves the earlier values or the new ones, and no reader mixes both."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loader.dataset.opening import folder_at
from loader.errors import FormatError
from loader.format.columns import column as columns
from loader.format.columns.column import Column, column_names, open_column, write_column, write_map_column
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
    calls, exists = 0, columns._current

    def replaced(*args: Any) -> str:
        nonlocal calls
        calls += 1
        if calls == moment + 1:  # the first call finds the record
            again(folder)
        return exists(*args)

    monkeypatch.setattr(columns, "_current", replaced)
    read_then = values(folder)
    monkeypatch.undo()
    assert read_then == new or calls <= moment


def test_a_write_that_was_not_committed_does_not_replace_a_column_that_is_dropped(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_numbers(folder)
    monkeypatch.setattr(columns, "_rename_staged", lambda *_: None)
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
