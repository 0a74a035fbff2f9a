"""Padding: batches of the same structure without samples, and their mark."""

from __future__ import annotations

import copy
import pickle
from collections import UserDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from loader import Batch, ConfigError, empty_batch, is_padding
from loader.samples.batching.padding_marks import mark_padding


class Pair(NamedTuple):
    ids: torch.Tensor
    names: list[str]


@dataclass(frozen=True, slots=True)
class Frozen:
    ids: torch.Tensor
    part: str = "val"


IDS = torch.ones(3, 2, dtype=torch.int32)


def test_the_structure_stays_and_samples_go() -> None:
    batch = {
        "ids": IDS,
        "pixels": np.ones((3, 4), np.float16),
        "loss": torch.tensor(2.5),
        "mean": np.float32(2),
        "names": ["a", "b", "c"],
        "kinds": {"a", "b"},
        "tokens": 6,
        "trained": True,
        "part": "val",
        "nothing": None,
        "inner": {"ids": IDS, "fields": (IDS, IDS), "sources": ("a.tar", "b.tar")},
        "pair": Pair(IDS, ["a"]),
        "frozen": Frozen(IDS),
        "__key__": "a.tar/0",
    }
    found = empty_batch(batch)
    assert (found["ids"].shape, found["ids"].dtype) == ((0, 2), torch.int32)
    assert (found["pixels"].shape, found["pixels"].dtype) == ((0, 4), np.float16)
    assert (found["loss"].shape, float(found["loss"]), found["mean"], found["tokens"]) == ((), 0.0, 0, 0)
    assert (found["names"], found["kinds"], found["part"], found["trained"], found["nothing"]) == (
        [], set(), "val", True, None,
    )  # fmt: skip
    assert [field.shape for field in found["inner"]["fields"]] == [(0, 2), (0, 2)]
    assert found["inner"]["sources"] == ()
    assert (type(found["pair"]), found["pair"].ids.shape, found["pair"].names) == (Pair, (0, 2), [])
    assert (type(found["frozen"]), found["frozen"].ids.shape, found["frozen"].part) == (Frozen, (0, 2), "val")
    assert found["__key__"] == ""
    assert batch["ids"] is IDS
    assert batch["names"] == ["a", "b", "c"]


def test_an_empty_tensor_keeps_no_memory_of_the_batch() -> None:
    assert empty_batch(torch.ones(1 << 20)).untyped_storage().nbytes() == 0


@pytest.mark.parametrize(
    "batch",
    [
        {"ids": IDS},
        [IDS],
        (IDS, 1),
        Pair(IDS, []),
        Frozen(IDS),
        Batch(__key__=["a"]),
        IDS,
        UserDict({"ids": IDS}),
    ],
    ids=lambda batch: type(batch).__name__,
)
def test_a_mark_stays_with_copies_and_changes_no_type(batch: Any) -> None:
    assert not is_padding(batch)
    padding = mark_padding(empty_batch(batch))
    assert isinstance(padding, type(batch))
    for found in (padding, mark_padding(padding), copy.copy(padding), copy.deepcopy(padding)):
        assert is_padding(found)
    assert not is_padding(batch)


@pytest.mark.parametrize(
    "batch", [{"ids": IDS}, [IDS], (IDS, 1), Batch(__key__=["a"])], ids=lambda it: type(it).__name__
)
def test_padding_travels_to_another_process(batch: Any) -> None:
    padding = mark_padding(empty_batch(batch))
    assert is_padding(pickle.loads(pickle.dumps(padding)))


def test_a_dict_keeps_its_mark_where_its_type_builds_the_copy_on_a_device() -> None:
    padding = mark_padding({"ids": IDS[:0]})
    moved = type(padding)({name: value.clone() for name, value in padding.items()})
    assert is_padding(moved)
    assert [*moved] == ["ids"]


@pytest.mark.parametrize("batch", ["text", 3, None])
def test_a_value_without_attributes_is_refused(batch: Any) -> None:
    with pytest.raises(ConfigError, match=r"padding of the type \w+ cannot be marked"):
        mark_padding(empty_batch(batch))
