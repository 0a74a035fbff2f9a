"""Token files of Megatron-LM: layout, number types and damage."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loader.dataset.records import SingleFile
from loader.errors import FormatError, StorageError
from loader.format.dataset_ref import DatasetRef
from loader.format.records.token_file import TokenFile
from loader.storage import open_parent
from tests.token_files import CODES, numbered, write_tokens
from tests.unit.format.records.record_lint import findings_of_file

HEADER = 34


def opened(path: Path) -> TokenFile:
    return TokenFile(*open_parent(path))


def sequences(path: Path) -> list[list[Any]]:
    reader = SingleFile(DatasetRef(str(path)))
    return [reader.read_parts(number)["tokens"].tolist() for number in range(len(reader))]


@pytest.mark.parametrize("dtype", CODES)
def test_tokens_have_the_type_of_the_file(tmp_path: Path, dtype: str) -> None:
    path = write_tokens(tmp_path / "x", [[1, 2, 3], [], [100]], dtype=dtype)
    assert sequences(path) == [[1, 2, 3], [], [100]]
    tokens = SingleFile(DatasetRef(str(path))).read_parts(0)["tokens"]
    assert tokens.dtype == np.dtype(dtype)
    tokens[0] = 7  # torch.from_numpy warns of arrays that cannot be written
    assert sequences(path)[0] == [1, 2, 3]


def test_multimodal_files_end_with_a_mode_for_each_sequence(tmp_path: Path) -> None:
    path = write_tokens(tmp_path / "x", [[1], [2, 3]])
    with (tmp_path / "x.idx").open("ab") as file:
        file.write(b"\x00\x01")
    assert sequences(path) == [[1], [2, 3]]


def test_sequences_may_be_in_any_order_in_the_file(tmp_path: Path) -> None:
    path = write_tokens(tmp_path / "x", [[1], [2, 3]])
    index = bytearray((tmp_path / "x.idx").read_bytes())
    index[HEADER : HEADER + 24] = struct.pack("<iiqq", 2, 1, 2, 0)
    (tmp_path / "x.idx").write_bytes(index)
    assert sequences(path) == [[2, 3], [1]]


def test_documents_are_counted(tmp_path: Path) -> None:
    file = opened(write_tokens(tmp_path / "x", [[1], [2], [3]], dtype="int32", documents=[0, 2, 3]))
    assert file.facts() == {"tokens": {"dtype": "int32", "total": 3, "documents": 2}}
    assert file.documents.tolist() == [0, 2, 3]


# -------------------------------------------------------------------------------------------------------------- damage


def test_an_index_without_its_tokens_names_both_files(tmp_path: Path) -> None:
    path = write_tokens(tmp_path / "x", [[1]])
    path.unlink()
    with pytest.raises(FormatError, match=r"there is no x\.bin next to it") as caught:
        opened(path)
    assert str(tmp_path / "x.idx") in str(caught.value)
    (tmp_path / "x.idx").unlink()
    with pytest.raises(StorageError):
        opened(path)


def change(path: Path, start: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[start : start + len(data)] = data
    path.write_bytes(content)


def cut(path: Path, size_bytes: int) -> None:
    path.write_bytes(path.read_bytes()[:size_bytes])


DAMAGES: dict[str, tuple[Callable[[Path, Path], object], str, str]] = {
    "no index": (lambda idx, _: idx.unlink(), "this file has no index", "E411"),
    "empty index": (lambda idx, _: cut(idx, 0), "at least 34 bytes, found 0", "E411"),
    "index cut in its header": (lambda idx, _: cut(idx, 33), "at least 34 bytes, found 33", "E411"),
    "index cut": (lambda idx, _: cut(idx, 100), "this index has 100 bytes; expected 362", "E411"),
    "index with more bytes": (lambda idx, _: idx.write_bytes(idx.read_bytes() + b"abc"), "this index has 365", "E411"),
    "wrong magic": (lambda idx, _: change(idx, 0, b"MMIDIDY"), "which begins with b'MMIDIDX", "E411"),
    "wrong version": (lambda idx, _: change(idx, 9, b"\x02"), "expected version 1 .*, found 2", "E411"),
    "wrong type": (lambda idx, _: change(idx, 17, b"\x09"), r"8 \(uint16\); found 9", "E411"),
    "huge count": (lambda idx, _: change(idx, 18, b"\xff" * 8), "this index has 362 bytes; expected", "E411"),
    "data cut": (lambda _, data: cut(data, 10), "has sequence 15 at bytes .* the file has 10 bytes", "E412"),
    "empty data": (lambda _, data: cut(data, 0), "the file has 0 bytes", "E412"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_pair_is_refused_and_found_by_lint(tmp_path: Path, damage: str) -> None:
    path = write_tokens(tmp_path / "x", numbered(16), dtype="uint16")
    apply, message, code = DAMAGES[damage]
    assert findings_of_file(path) == []
    apply(tmp_path / "x.idx", path)
    with pytest.raises(FormatError, match=message) as caught:
        opened(path)
    assert str(tmp_path) in str(caught.value)
    assert [finding.code for finding in findings_of_file(path)] == [code]


@pytest.mark.parametrize("value", [-8, 1 << 40, (1 << 63) - 1])
def test_a_pointer_beyond_the_file_is_found_when_it_is_read(tmp_path: Path, value: int) -> None:
    path = write_tokens(tmp_path / "x", numbered(16))
    change(tmp_path / "x.idx", HEADER + 16 * 4 + 3 * 8, struct.pack("<q", value))
    reader = SingleFile(DatasetRef(str(path)))
    assert reader.read_parts(2)["tokens"].tolist() == [2, 0, 1]
    with pytest.raises(FormatError, match="the index has sequence 3 at bytes"):
        reader.read_parts(3)
    assert [finding.code for finding in findings_of_file(path)] == ["E412"]


def test_a_negative_length_is_found(tmp_path: Path) -> None:
    path = write_tokens(tmp_path / "x", numbered(16))
    change(tmp_path / "x.idx", HEADER + 5 * 4, struct.pack("<i", -1))
    with pytest.raises(FormatError, match="the index has sequence 5"):
        SingleFile(DatasetRef(str(path))).read_parts(5)
    assert [finding.code for finding in findings_of_file(path)] == ["E412"]


def test_lint_warns_of_bytes_without_sequence_and_of_no_sequences(tmp_path: Path) -> None:
    path = write_tokens(tmp_path / "x", [[1], [2]])
    path.write_bytes(path.read_bytes() + b"more")
    (finding,) = findings_of_file(path)
    assert (finding.code, finding.offset) == ("W413", 4)
    empty = write_tokens(tmp_path / "empty", [])
    assert [one.code for one in findings_of_file(empty)] == ["E416"]


def test_lint_finds_document_starts_beyond_the_sequences(tmp_path: Path) -> None:
    path = write_tokens(tmp_path / "x", [[1], [2]], documents=[0, 5])
    (finding,) = findings_of_file(path, level="headers")
    assert (finding.code, finding.message) == ("E411", "the document starts do not ascend from 0 to 2")


def test_a_file_that_changes_while_a_run_reads_it_is_an_error(tmp_path: Path) -> None:
    path = write_tokens(tmp_path / "x", [[1], [2]])
    reader = SingleFile(DatasetRef(str(path)))
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(FormatError, match="the file has changed since it was opened: it had 4 bytes, now 8"):
        reader.read_parts(0)


def test_a_missing_file_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        opened(tmp_path / "missing.bin")
