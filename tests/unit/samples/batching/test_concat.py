from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch

from loader.errors import ConfigError, SampleError
from loader.samples import (
    Batch,
    CaptioningSample,
    SourceInfo,
    concat_pad,
    edataclass,
    generic_batch,
    generic_concat,
    homogeneous_concat_mix,
)


@edataclass
class CaptioningBatch(Batch):
    image: torch.Tensor
    caption: list[str]
    weight: float = 1.0
    mask: torch.Tensor | None = None


@edataclass
class OtherBatch(Batch):
    image: torch.Tensor


def source(name: str) -> SourceInfo:
    return SourceInfo(dataset_path="/data", index=0, shard_name="s.tar", file_names=(name,))


def batch_of(*numbers: int, **fields: Any) -> CaptioningBatch:
    shared: dict[str, Any] = {
        "__key__": [f"s.tar/{number}" for number in numbers],
        "__restore_key__": ("batch", numbers),
        "__subflavors__": [{"number": number} for number in numbers],
        "__sources__": tuple(source(f"{number}.jpg") for number in numbers),
    }
    made: dict[str, Any] = {
        "image": torch.ones(len(numbers), 3, numbers[0], 2),
        "caption": [str(number) for number in numbers],
    }
    return CaptioningBatch(**shared | made | fields)


def test_batches_of_one_type_are_mixed_field_by_field() -> None:
    mixed = homogeneous_concat_mix([batch_of(1), batch_of(4, 5), batch_of(2)])
    assert type(mixed) is CaptioningBatch
    assert mixed.__key__ == ["s.tar/1", "s.tar/4", "s.tar/5", "s.tar/2"]
    assert mixed.__restore_key__ == (("batch", (1,)), ("batch", (4, 5)), ("batch", (2,)))
    assert mixed.__subflavors__ == [{"number": 1}, {"number": 4}, {"number": 5}, {"number": 2}]
    assert mixed.__sources__ == (source("1.jpg"), source("4.jpg"), source("5.jpg"), source("2.jpg"))
    assert mixed.image.shape == (4, 3, 4, 2)
    assert mixed.image.sum() == 3 * 2 * (1 + 4 + 4 + 2)
    assert mixed.caption == ["1", "4", "5", "2"]
    weights: Any = mixed.weight
    assert weights == [1.0, 1.0, 1.0]
    assert mixed.mask is None


def test_mixing_single_sample_batches_equals_batching_the_samples() -> None:
    samples = [CaptioningSample(__key__=str(n), image=torch.rand(3, n, 7 - n), caption="c" * n) for n in (1, 5, 3)]
    mixed = homogeneous_concat_mix([generic_batch([sample]) for sample in samples])
    batch = generic_batch(samples)
    assert torch.equal(mixed.image, batch.image)
    assert (mixed.__key__, mixed.caption) == (batch.__key__, batch.caption)


def test_dict_batches_are_mixed_name_by_name() -> None:
    first = {"__key__": ["a"], "__restore_key__": (1,), "ids": torch.tensor([[1]]), "json": {"id": [1]}}
    second = {"__key__": ["b"], "__restore_key__": (2,), "ids": torch.tensor([[2, 3]]), "json": {"id": [2]}}
    mixed = homogeneous_concat_mix([first, second])
    assert mixed.pop("ids").tolist() == [[1, 0], [2, 3]]
    assert mixed == {"__key__": ["a", "b"], "__restore_key__": ((1,), (2,)), "json": {"id": [1, 2]}}


def test_shared_fields_that_some_batches_lack_are_skipped() -> None:
    mixed = generic_concat([batch_of(1, __subflavors__=None, __sources__=None), batch_of(2)])
    assert mixed.__subflavors__ == [{"number": 2}]
    assert mixed.__sources__ == (source("2.jpg"),)
    nothing = generic_concat([batch_of(1, __subflavors__=None, __sources__=None)] * 2)
    assert (nothing.__subflavors__, nothing.__sources__) == (None, None)


def test_samples_are_concatenated_to_a_batch() -> None:
    samples = [
        CaptioningSample(__key__=str(n), __subflavors__={"n": n}, image=torch.ones(1, n), caption="c") for n in (1, 2)
    ]
    mixed = generic_concat(samples)
    assert mixed.__key__ == ["1", "2"]
    assert mixed.__subflavors__ == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize(
    ("values", "joined"),
    [
        ([[1], [2, 3], []], [1, 2, 3]),
        ([(1,), (2, 3)], (1, 2, 3)),
        (["ab", "c"], ["ab", "c"]),
        ([1, 2.5], [1, 2.5]),
        ([None, None], None),
        ([None, 3], [None, 3]),
    ],
    ids=str,
)
def test_lists_are_concatenated_and_other_values_listed(values: list[Any], joined: Any) -> None:
    found = generic_concat(values)
    assert found == joined
    assert type(found) is type(joined)


def test_named_tuples_stay_whole() -> None:
    class Size(NamedTuple):
        height: int
        width: int

    assert generic_concat([Size(1, 2), Size(3, 4)]) == [Size(1, 2), Size(3, 4)]


def test_scalars_are_stacked() -> None:
    assert generic_concat([torch.tensor(1), torch.tensor(2)]).tolist() == [1, 2]


def test_concat_pad_joins_any_number_of_rows() -> None:
    joined = concat_pad([torch.ones(2, 1), torch.zeros(0, 3), torch.ones(1, 2)])
    assert joined.tolist() == [[1, 0, 0], [1, 0, 0], [1, 1, 0]]


def test_batches_of_several_types_need_a_batch_mix_fn() -> None:
    other = OtherBatch(__key__=["s.tar/0"], image=torch.ones(1, 3, 2, 2))
    with pytest.raises(ConfigError, match="found CaptioningBatch, OtherBatch") as raised:
        homogeneous_concat_mix([batch_of(1), other])
    assert "batch_mix_fn" in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        ("image", torch.ones(1, 3), r"'image' is a tensor of shape \(1, 3, 1, 2\) in the first, one of shape \(1, 3\)"),
        ("mask", torch.ones(1), "'mask' is None in the first, of type Tensor in the second"),
        ("caption", "text", "'caption' is of type list in the first, of type str in the second"),
    ],
)
def test_mismatched_batches_are_named_by_their_first_keys(field: str, value: Any, found: str) -> None:
    with pytest.raises(SampleError, match=f"'s.tar/1' and 's.tar/2' cannot be batched: {found}"):
        homogeneous_concat_mix([batch_of(1), batch_of(1), batch_of(2, **{field: value})])


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ({"a": [1], "b": [2]}, {"a": [1]}, "'b' is present in the first, missing in the second"),
        ({"a": [1]}, {"a": [1], "b": [2]}, "'b' is missing in the first, present in the second"),
    ],
)
def test_dict_batches_with_different_names_are_refused(
    first: dict[str, list[int]], second: dict[str, list[int]], found: str
) -> None:
    with pytest.raises(SampleError, match=f"number 0 and number 1 cannot be batched: {found}"):
        generic_concat([first, second])


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(SampleError, match="of an empty list"):
        generic_concat([])
