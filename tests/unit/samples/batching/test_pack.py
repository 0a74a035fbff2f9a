"""The default pack: sequences concatenated, with their offsets and positions; all other fields as lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch

from loader.errors import SampleError
from loader.samples.batching.pack import concat_pack


def test_sequences_are_concatenated_and_other_fields_listed() -> None:
    pictures = [torch.zeros(3, 4, 5), torch.ones(3, 2, 2)]
    samples = [
        {"__key__": "a", "tokens": torch.arange(3), "labels": torch.arange(3) + 1, "image": pictures[0], "text": "x"},
        {"__key__": "b", "tokens": torch.arange(2), "labels": torch.arange(2) + 1, "image": pictures[1], "text": "y"},
    ]
    pack = concat_pack(samples)
    assert pack["tokens"].tolist() == [0, 1, 2, 0, 1]
    assert pack["labels"].tolist() == [1, 2, 3, 1, 2]
    assert pack["cu_seqlens"].dtype == torch.int32
    assert pack["cu_seqlens"].tolist() == [0, 3, 5]
    assert pack["max_seqlen"] == 3
    assert pack["position_ids"].tolist() == [0, 1, 2, 0, 1]
    assert pack["image"] == pictures
    assert (pack["__key__"], pack["text"]) == (["a", "b"], ["x", "y"])


def test_sequences_of_other_lengths_have_offsets_of_their_own() -> None:
    pack = concat_pack([{"tokens": torch.arange(n), "audio": torch.zeros(10 * n)} for n in (2, 3)])
    assert pack["cu_seqlens"].tolist() == [0, 2, 5]
    assert pack["audio_cu_seqlens"].tolist() == [0, 20, 50]


def test_padded_fields_are_concatenated_with_offsets() -> None:
    samples = [{"__key__": str(n), "tiles": torch.full((n, 3, 4, n), float(n))} for n in (1, 2)]
    pack = concat_pack(samples, padded=["tiles"])
    assert pack["tiles"].shape == (3, 3, 4, 2)
    assert pack["tiles"][0].sum() == 12
    assert pack["tiles_cu_seqlens"].tolist() == [0, 1, 3]
    with pytest.raises(SampleError, match="number 0 and number 1 cannot be batched"):
        concat_pack([{"__key__": str(n), "tiles": torch.ones(*[1] * (n + 1))} for n in (0, 1)], padded=["tiles"])


@dataclass
class Text:
    __key__: str
    tokens: torch.Tensor


def test_dataclasses_are_packed_and_empty_sequences_kept() -> None:
    pack = concat_pack([Text("a", torch.arange(0)), Text("b", torch.arange(4))])
    assert pack["cu_seqlens"].tolist() == [0, 0, 4]
    assert pack["__key__"] == ["a", "b"]


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([], "cannot build a batch of an empty list"),
        ([{"a": 1}, {"b": 1, "__key__": "k"}], r"samples of a pack differ: \['__key__', 'b'\] instead of \['a'\]"),
        ([1, 2], "samples of a pack are dicts or dataclasses, found int"),
    ],
)
def test_samples_that_cannot_be_packed_are_named(samples: list[Any], message: str) -> None:
    with pytest.raises(SampleError, match=message):
        concat_pack(samples)
