"""Values of a user's function: their kinds, the type that holds all, and values that no column holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from loader import open_dataset
from loader.errors import SampleError
from loader.format.index.npy_column import MAX_VECTOR
from loader.mapping.tasks import FailedSample, TaskResult
from loader.mapping.values import ColumnPiece, UnfitValueError, ValueKind, number_type, piece_of, plain_values
from tests.e2e.dataset_tree import prepare, write_shards


def piece(values: list[Any], first: int = 0) -> ColumnPiece:
    assert not list(plain_values(values))
    return piece_of(values, first, column="c", at="/data", key="key {}".format)


def joined(*pieces: ColumnPiece) -> ValueKind:
    kind = ValueKind()
    for each in pieces:
        kind = kind.join(each.kind, column="c", at="/data", key="key {}".format)
    return kind


@pytest.mark.parametrize(
    ("values", "name", "dtype"),
    [
        ([True, None, False], "bool", np.bool_),
        ([1, True], "int", np.int16),
        ([1, 40_000], "int", np.int32),
        ([-(2**63), 2**63 - 1], "int", np.int64),
        ([1, 2.5], "float", np.float64),
        ([np.float32(0.5), torch.tensor(2)], "float", np.float64),
        ([float("nan")], "float", np.float64),
        ([np.ones(3, np.float16), np.ones(3, ">f4")], "vector", np.float32),
        ([torch.ones(2, dtype=torch.bfloat16)], "vector", np.float32),
        ([[1, 2.5], (3, 4)], "vector", np.float32),
        ([np.ones(4, np.uint8)], "vector", np.uint8),
    ],
)
def test_the_narrowest_type_holds_all_values(values: list[Any], name: str, dtype: type) -> None:
    made = piece(values)
    assert made.kind.name == name
    kind = joined(made)
    assert number_type(kind) == dtype
    numbers = made.numbers(np.dtype(dtype), kind.length)
    assert made.known().tolist() == [value is not None for value in values]
    for value, stored in zip(values, numbers, strict=True):
        if value is not None:
            expected = value.float().numpy() if isinstance(value, torch.Tensor) else np.asarray(value, np.float32)
            assert np.array_equal(expected, np.float32(stored), equal_nan=True)


def test_texts_keep_all_characters() -> None:
    texts = ["", "ä", "\udcff\0", "x" * 1000]
    made = piece([*texts, None])
    assert made.texts() == [*texts, ""]
    assert made.known().tolist() == [True] * 4 + [False]


def test_tasks_without_values_have_any_kind() -> None:
    assert joined(piece([None, None]), piece([1]), piece([None])).name == "int"
    assert piece([None, None]).numbers(np.dtype(np.float32), 2).shape == (2, 2)
    assert piece([None]).texts() == [""] or piece([None]).kind.name == ""


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([1], ["a"], "would mix integers and texts"),
        ([np.ones(2, np.float32)], [np.ones(3, np.float32)], "vectors of 2 float32 and vectors of 3 float32"),
        ([2**60], [0.5], "would mix integers and floats"),
        ([np.ones(2, np.uint8)], [np.ones(2, np.uint32)], None),
        ([np.ones(2, np.uint32)], [np.ones(2, np.float32)], "vectors of 2 uint32 and vectors of 2 float32"),
    ],
)
def test_values_that_no_column_holds_together_are_both_named(
    first: list[Any], second: list[Any], message: str | None
) -> None:
    if message is None:
        assert joined(piece(first), piece(second, 7)).dtype == "<u4"
        return
    with pytest.raises(SampleError, match=message) as caught:
        joined(piece(first), piece(second, 7))
    assert caught.value.at == "/data: samples key 0 and key 7"
    with pytest.raises(SampleError, match=message):
        piece([*first, *second])


@pytest.mark.parametrize(
    "value",
    [
        *(object(), b"bytes", {}, [], [[1]], 2**63, -(2**63) - 1, np.ones((2, 2)), np.ones(0), np.ones(2, complex), 1j),
        *([10**400], torch.ones(2).to_sparse(), np.ones(MAX_VECTOR + 1, np.uint8)),
    ],
)
def test_a_value_that_no_column_holds_is_replaced(value: Any) -> None:
    values = [1, value, 2]
    [(row, error)] = plain_values(values)
    assert (row, values) == (1, [1, None, 2])
    assert isinstance(error, UnfitValueError | OverflowError | TypeError)


def test_the_longest_vector_of_a_column_is_read(tmp_path: Path) -> None:
    folder = write_shards(tmp_path / "data", 1, samples=2)
    prepare(folder)
    dataset = open_dataset(folder)
    dataset.map(lambda sample: np.full(MAX_VECTOR, sample["json"]["number"], np.uint8), write="long")
    assert dataset.columns["long"][:].sum(axis=1).tolist() == [0, MAX_VECTOR]
    with pytest.raises(SampleError, match=rf"00000: UnfitValueError: .*shape \({MAX_VECTOR + 1},\) cannot be"):
        dataset.map(lambda sample: np.zeros(MAX_VECTOR + 1, np.uint8), write="longer")


def test_a_receipt_is_small_whatever_the_values() -> None:
    made = piece([np.ones(512, np.float32)] * 100)
    result = TaskResult(samples=100, columns={"c": made}, kept=bytes(100))
    assert len(msgspec.msgpack.encode(result)) > 200_000
    assert len(msgspec.msgpack.encode(result.receipt())) < 300
    failed = TaskResult(failures=(FailedSample(sample=1, key="a", error="b"),))
    assert failed.receipt() == failed
