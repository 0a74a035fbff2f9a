"""Reads of a file by larger pieces are those of the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from loader.storage import AscendingFile, LocalStorage
from loader.storage.protocol import ClosesOnExit

CONTENT = os.urandom(5000)
reads = st.lists(st.tuples(st.integers(0, 6000), st.integers(0, 3000)), max_size=20)


@given(reads=reads, piece=st.integers(1, 6000))
def test_reads_at_any_offsets_are_those_of_the_file(
    tmp_path_factory: pytest.TempPathFactory, reads: list[tuple[int, int]], piece: int
) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "x").write_bytes(CONTENT)
    with AscendingFile(LocalStorage(folder).open("x"), piece) as file:
        assert [file.read_at(offset, size) for offset, size in reads] == [
            CONTENT[offset : offset + size] for offset, size in reads
        ]


def test_ascending_reads_are_few(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(CONTENT)
    inner = LocalStorage(tmp_path).open("x")
    asked: list[int] = []

    class Counted(ClosesOnExit):
        size_bytes = inner.size_bytes
        close = inner.close
        expect, expect_few = inner.expect, inner.expect_few
        fetch = inner.fetch

        def read_at(self, offset: int, size_bytes: int) -> bytes:
            asked.append(offset)
            return inner.read_at(offset, size_bytes)

    with AscendingFile(Counted(), 1000) as file:
        found = b"".join(file.read_at(offset, 10) for offset in range(0, 5000, 10))
    assert found == CONTENT
    assert asked == [0, 1000, 2000, 3000, 4000]
