from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import default_collate

from loader import DefaultTaskEncoder
from loader.errors import SampleError
from loader.samples import (
    CaptioningSample,
    CrudeSample,
    ImageSample,
    SourceInfo,
    TextSample,
    batch_list,
    batch_pad_stack,
    batch_stack,
    concat_pad,
    generic_batch,
)
from loader.samples.batch_memory import MIN_BYTES, ReusedMemory, new_array, place
from loader.samples.batching.collate import SMALL
from loader.samples.hooks import HookContext, set_hook_context

LARGE = 420
"""Two images of (3, LARGE, LARGE) are more than what counts as small."""


@dataclass
class Point:
    x: int
    at: torch.Tensor


def source(name: str) -> SourceInfo:
    return SourceInfo(dataset_path="/data", index=0, shard_name="s.tar", file_names=(name,))


def caption(number: int, image: Any, **fields: Any) -> CaptioningSample:
    shared: dict[str, Any] = {
        "__key__": f"s.tar/{number}",
        "__restore_key__": ("read", number),
        "__subflavors__": {"number": number},
        "__sources__": (source(f"{number}.jpg"),),
    }
    return CaptioningSample(**shared | {"image": image, "caption": f"caption {number}"} | fields)


def padded(tensors: list[torch.Tensor]) -> torch.Tensor:
    """Reference implementation of padding."""
    longest = [max(sizes) for sizes in zip(*(tensor.shape for tensor in tensors), strict=True)]
    batch = torch.zeros(len(tensors), *longest)
    for number, tensor in enumerate(tensors):
        for index in np.ndindex(*tensor.shape[:-1]):
            if tensor.ndim:
                batch[number][index][: tensor.shape[-1]] = tensor[index]
            else:
                batch[number] = tensor
    return batch


def use_batch_memory(memory: ReusedMemory) -> None:
    context = HookContext()
    context.memory = memory
    set_hook_context(context)


@pytest.fixture
def reused_memory() -> Iterator[None]:
    class Dirty(ReusedMemory):
        def array(self, shape: Sequence[int], dtype: Any) -> Any:
            super().array(shape, dtype).view(np.uint8).fill(0x7F)  # values of an earlier batch
            return super().array(shape, dtype)

    use_batch_memory(Dirty())
    yield
    set_hook_context(None)


@pytest.fixture(params=["ordinary memory", "reused memory"])
def memory(request: pytest.FixtureRequest) -> None:
    if request.param == "reused memory":
        request.getfixturevalue("reused_memory")


SHAPES: list[list[tuple[int, ...]]] = [
    [(3,), (5,), (1,)],
    [(0,), (2,)],
    [(0,), (0,)],
    [(4,), (4,)],
    [()] * 3,
    [(2, 4), (7, 4)],
    [(2, 4), (2, 5)],
    [(3, 8, 9), (3, 9, 8), (3, 1, 1)],
    [(3, 0, 4), (3, 2, 0)],
    [(1, 2, 3, 4), (4, 3, 2, 1)],
    [(3, LARGE, LARGE - 7), (3, LARGE - 13, LARGE)],
    [(3, LARGE, LARGE), (3, LARGE, LARGE)],
    [(SMALL,), (3,)],
    [(MIN_BYTES,), (3,)],
    [(7, 300, 300), (2, 300, 300)],
]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.usefixtures("memory")
def test_tensors_are_padded_with_zeros_to_the_longest_and_stacked(shapes: list[tuple[int, ...]]) -> None:
    tensors = [torch.rand(shape) + 1 for shape in shapes]
    batch = generic_batch(tensors)
    assert torch.equal(batch, padded(tensors))
    assert batch.is_contiguous()
    assert torch.equal(batch_pad_stack(tensors), batch)


@pytest.mark.parametrize("shapes", [shapes for shapes in SHAPES if shapes[0]], ids=str)
@pytest.mark.usefixtures("memory")
def test_batches_are_joined_along_the_first_dimension_and_padded_in_all_others(shapes: list[tuple[int, ...]]) -> None:
    tensors = [torch.rand(shape) + 1 for shape in shapes]
    joined = concat_pad(tensors)
    if len(shapes[0]) == 1:
        assert torch.equal(joined, torch.cat(tensors))
    else:
        assert torch.equal(joined, padded([row for tensor in tensors for row in tensor]))


@pytest.mark.parametrize("shape", [(2,), (4, 5, 6), (6, LARGE, LARGE)], ids=str)
@pytest.mark.usefixtures("memory")
def test_views_and_transposed_tensors_are_copied_by_value(shape: tuple[int, ...]) -> None:
    image = torch.rand(*shape[::-1]).permute(*reversed(range(len(shape))))
    smaller = image[..., ::2]
    assert torch.equal(batch_pad_stack([image, smaller]), padded([image.contiguous(), smaller.contiguous()]))


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float64, torch.bool, torch.complex64]
)
@pytest.mark.parametrize("size", [3, MIN_BYTES])
@pytest.mark.usefixtures("memory")
def test_batches_have_the_type_of_their_samples(dtype: torch.dtype, size: int) -> None:
    batch = batch_pad_stack([torch.ones(size, dtype=dtype), torch.ones(2, dtype=dtype)])
    assert batch.dtype == dtype
    assert batch.sum(dtype=torch.complex64) == size + 2


@pytest.mark.parametrize("lengths", [(2, 2), (2, 3), (3, 2), (2, MIN_BYTES), (MIN_BYTES, MIN_BYTES)])
@pytest.mark.usefixtures("memory")
def test_no_value_is_lost_where_dtypes_differ(lengths: tuple[int, int]) -> None:
    tensors = [torch.full((lengths[0],), 3), torch.full((lengths[1],), 0.5)]
    for order in (tensors, tensors[::-1]):
        batch = batch_pad_stack(order)
        assert batch.dtype == torch.float32
        assert set(batch.flatten().tolist()) >= {3.0, 0.5}
        assert set(concat_pad([tensor[None] for tensor in order]).flatten().tolist()) >= {3.0, 0.5}


def tensor_of(memory: ReusedMemory, *shape: int) -> torch.Tensor:
    """Allocate a tensor as a batch does."""
    use_batch_memory(memory)
    tensor = place(shape, like=torch.zeros(1))
    set_hook_context(None)
    assert tensor is not None
    return tensor


def test_memory_is_reused_only_after_its_last_reference_is_gone() -> None:
    make = partial(tensor_of, ReusedMemory())
    first = make(3, LARGE, LARGE)
    address = first.data_ptr()
    first.fill_(7)
    view, array = first[1, 5:9], first.numpy()[2]
    del first
    assert make(3, LARGE, LARGE).data_ptr() != address
    assert view.eq(7).all()
    del view
    assert make(3, LARGE, LARGE).data_ptr() != address
    assert (array == 7).all()
    del array
    addresses = {make(3, LARGE, LARGE - 1).data_ptr() for _ in range(3)}
    kept = [make(3, LARGE, LARGE) for _ in range(3)]
    assert address in {tensor.data_ptr() for tensor in kept} | addresses


def test_free_memory_is_bounded() -> None:
    memory = ReusedMemory(max_free_bytes=3 << 20)
    kept = [tensor_of(memory, 1 << 18) for _ in range(10)]
    addresses = {tensor.data_ptr() for tensor in kept}
    kept.clear()
    again = [tensor_of(memory, 1 << 18) for _ in range(10)]
    assert len({tensor.data_ptr() for tensor in again}) == 10
    assert len(addresses) == 10
    assert memory._free_bytes == 0


def test_small_tensors_are_allocated_in_ordinary_memory() -> None:
    asked: list[Sequence[int]] = []

    class Noted(ReusedMemory):
        def array(self, shape: Sequence[int], dtype: Any) -> Any:
            asked.append(tuple(shape))
            return super().array(shape, dtype)

    use_batch_memory(Noted())
    try:
        new_array((MIN_BYTES - 1,), np.uint8)
        assert place((MIN_BYTES - 1,), like=torch.zeros(1, dtype=torch.uint8)) is None
        assert not asked
        new_array((MIN_BYTES,), np.uint8)
        assert place((MIN_BYTES,), like=torch.zeros(1, dtype=torch.uint8)) is not None
        assert asked == [(MIN_BYTES,)] * 2
    finally:
        set_hook_context(None)


def test_arrays_reuse_memory_of_freed_tensors_and_keep_it_while_referenced() -> None:
    memory = ReusedMemory()
    address = tensor_of(memory, LARGE, LARGE).data_ptr()
    array = memory.array((LARGE, LARGE), np.float32)
    assert (array.ctypes.data, array.dtype, array.shape) == (address, np.dtype(np.float32), (LARGE, LARGE))
    array.fill(5)
    row, tensor = array[3], torch.from_numpy(array)[4]
    del array
    assert memory.array((LARGE, LARGE), np.float32).ctypes.data != address
    assert tensor.eq(5).all()
    del tensor
    assert memory.array((LARGE, LARGE), np.float32).ctypes.data != address
    assert (row == 5).all()
    del row
    assert address in {memory.array((LARGE, LARGE), np.float32).ctypes.data for _ in range(3)}


@pytest.mark.parametrize("shapes", [[(2,), (2,)], [(2,), (3,)], [(2, 3), (3, 2)]], ids=str)
def test_batching_propagates_gradients(shapes: list[tuple[int, ...]]) -> None:
    tensors = [torch.ones(shape, requires_grad=True) for shape in shapes]
    torch.autograd.backward(batch_pad_stack(tensors).sum())
    assert all(tensor.grad is not None and torch.equal(tensor.grad, torch.ones_like(tensor)) for tensor in tensors)


def test_parameters_and_tensors_go_into_one_batch() -> None:
    batch = generic_batch([torch.ones(2), torch.nn.Parameter(torch.ones(1))])
    assert batch.tolist() == [[1, 1], [1, 0]]


@pytest.mark.parametrize(
    "values",
    [
        ["a", "b"],
        [1, 2],
        [1, 2.5, True],
        ["a", None],
        [None, "a"],
        [None, None],
        [b"a", b"b"],
        [[1], [2, 3]],
        [(1, 2), (3, 4)],
        [[torch.ones(1)], [torch.ones(2)]],
        [np.float32(1), np.float32(2)],
        [{1}, {2}],
    ],
    ids=str,
)
def test_other_values_become_a_list(values: list[Any]) -> None:
    batch = generic_batch(values)
    assert batch == values
    assert type(batch) is list
    assert all(one is other for one, other in zip(batch, values, strict=True))


class Pair(NamedTuple):
    ids: Any
    text: Any


def test_tuples_are_batched_field_by_field_as_torch_does() -> None:
    samples = [
        (torch.arange(3), "a", {"n": torch.ones(2)}, (1, 2)),
        (torch.arange(3), "b", {"n": torch.ones(2)}, (3, 4)),
    ]
    ids, texts, tree, sizes = batch = DefaultTaskEncoder().batch(samples)
    assert type(batch) is type(default_collate([(1, 2)]))
    assert torch.equal(ids, default_collate(samples)[0])
    assert (texts, tree["n"].tolist(), sizes) == (["a", "b"], [[1, 1], [1, 1]], [(1, 2), (3, 4)])
    pairs = DefaultTaskEncoder().batch([Pair(torch.ones(1), "a"), Pair(torch.ones(2), "b")])
    assert (type(pairs), pairs.ids.tolist(), pairs.text) == (Pair, [[1, 0], [1, 1]], ["a", "b"])


@pytest.mark.parametrize("other", [(1,), (1, 2, 3), ("ab", torch.ones(1)), {"a": 1}], ids=str)
def test_tuples_that_differ_are_refused(other: Any) -> None:
    with pytest.raises(SampleError, match="number 0 and number 1 cannot be batched"):
        DefaultTaskEncoder().batch([(1, 2), other])


def test_a_batch_of_crude_samples_prints_as_a_summary_and_stays_one_in_another_process() -> None:
    batch = generic_batch([CrudeSample(__key__=f"a.tar/{n}", ids=torch.arange(5000)) for n in range(2)])
    assert batch == {"__key__": ["a.tar/0", "a.tar/1"], "ids": batch["ids"]}
    for text in (str(batch), repr(batch), str(pickle.loads(pickle.dumps(batch))), str({"batch": batch})):
        assert "[2, 5000]" in text
        assert "4.9990e+03" not in text


def test_torch_finds_the_tensors_of_a_batch_of_crude_samples() -> None:
    batch = pickle.loads(pickle.dumps(generic_batch([CrudeSample(__key__="a.tar/0", ids=torch.arange(3))])))
    halves = torch.utils._pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.half(), batch)
    assert (type(halves), halves["ids"].dtype, halves["__key__"]) == (type(batch), torch.float16, ["a.tar/0"])


def test_numpy_arrays_stay_arrays_in_a_list() -> None:
    arrays = [np.ones(2), np.ones(3)]
    assert all(one is other for one, other in zip(generic_batch(arrays), arrays, strict=True))


def test_a_batch_shares_no_list_with_its_samples() -> None:
    values = ["a", "b"]
    assert generic_batch(values) is not values


def test_samples_are_batched_field_by_field_to_their_own_class() -> None:
    batch = generic_batch([caption(0, torch.ones(3, 2, 2)), caption(1, torch.ones(3, 1, 4))])
    assert batch.image.shape == (2, 3, 2, 4)
    assert batch.caption == ["caption 0", "caption 1"]
    assert batch.__key__ == ["s.tar/0", "s.tar/1"]
    assert batch.__restore_key__ == (("read", 0), ("read", 1))
    assert batch.__subflavors__ == [{"number": 0}, {"number": 1}]
    assert batch.__sources__ == [(source("0.jpg"),), (source("1.jpg"),)]
    assert type(batch) is CaptioningSample


def test_a_batch_of_samples_without_sources_has_none() -> None:
    batch = generic_batch([caption(0, "", __sources__=None), caption(1, "", __sources__=None)])
    assert batch.__sources__ is None
    assert generic_batch([caption(0, ""), caption(1, "", __sources__=None)]).__sources__ == [(source("0.jpg"),), None]


def test_plain_dataclasses_inside_samples_are_batched() -> None:
    batch = generic_batch([{"point": Point(1, torch.ones(1))}, {"point": Point(2, torch.ones(2))}])
    assert batch["point"].x == [1, 2]
    assert batch["point"].at.tolist() == [[1, 0], [1, 1]]


def test_dicts_are_batched_name_by_name_recursively() -> None:
    first = CrudeSample({"__key__": "a", "__restore_key__": (1,), "__subflavors__": {"x": 1}, "__sources__": (1,)})
    second = CrudeSample({"__key__": "b", "__restore_key__": (2,), "__subflavors__": {"y": 1}, "__sources__": (2, 3)})
    batch = generic_batch([first | {"json": {"id": 1, "at": {"n": 2}}}, second | {"json": {"id": 3, "at": {"n": 4}}}])
    assert batch == {
        "__key__": ["a", "b"],
        "__restore_key__": ((1,), (2,)),
        "__subflavors__": [{"x": 1}, {"y": 1}],
        "__sources__": [(1,), (2, 3)],
        "json": {"id": [1, 3], "at": {"n": [2, 4]}},
    }
    assert list(batch)[-1] == "json"


def test_dicts_and_crude_samples_go_into_one_batch() -> None:
    assert generic_batch([{"a": 1}, CrudeSample({"a": 2})]) == {"a": [1, 2]}


def test_the_order_of_names_in_a_dict_does_not_matter() -> None:
    assert generic_batch([{"a": 1, "b": 2}, {"b": 3, "a": 4}]) == {"a": [1, 4], "b": [2, 3]}


def test_fields_without_init_are_set_by_the_class() -> None:
    from dataclasses import field

    @dataclass
    class Counted:
        values: Any
        count: int = field(init=False)

        def __post_init__(self) -> None:
            self.count = len(self.values)

    assert generic_batch([Counted("abc"), Counted("de")]).count == 2


# ------------------------------------------------------------------------------------------ mismatches


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        (torch.ones(2), None, "'image' is of type Tensor in the first, None in the second"),
        (None, torch.ones(2), "'image' is None in the first, of type Tensor in the second"),
        ("a", torch.ones(2), "'image' is of type str in the first, of type Tensor in the second"),
        (torch.ones(2), torch.ones(2, 2), r"'image' is a tensor of shape \(2,\) in the first, one of shape \(2, 2\)"),
        ({"a": 1}, {"b": 1}, "'image.a' is present in the first, missing in the second"),
        ({"a": 1}, {"a": 1, "b": 1}, "'image.b' is missing in the first, present in the second"),
        ({"a": {3: torch.ones(1)}}, {"a": {3: 2}}, "'image.a.3' is of type Tensor in the first, of type int"),
        (Point(1, torch.ones(1)), Point(2, torch.ones(())), r"'image.at' is a tensor of shape \(1,\)"),
    ],
    ids=str,
)
def test_mismatched_samples_are_named_with_the_field(first: Any, second: Any, found: str) -> None:
    samples = [caption(0, first), caption(1, first), caption(2, second), caption(3, first)]
    with pytest.raises(SampleError, match=f"'s.tar/0' and 's.tar/2' cannot be batched: {found}") as raised:
        generic_batch(samples)
    assert raised.value.key == "s.tar/2"
    assert "encode_sample" in (raised.value.hint or "")
    assert raised.value.__cause__ is None


def test_samples_of_two_classes_are_named() -> None:
    other = ImageSample(__key__="s.tar/1", image=torch.ones(1))
    with pytest.raises(SampleError, match="of type CaptioningSample in the first, of type ImageSample in the second"):
        generic_batch([caption(0, torch.ones(1)), other])


def test_mismatched_dicts_are_named_by_key_and_other_values_by_index() -> None:
    with pytest.raises(SampleError, match="'a' and 'b' cannot be batched"):
        generic_batch([{"__key__": "a", "x": torch.ones(1)}, {"__key__": "b", "x": 1}])
    with pytest.raises(SampleError, match=r"number 0 and number 1 cannot be batched: a tensor of shape \(1,\)"):
        batch_pad_stack([torch.ones(1), torch.ones(1, 1)])
    with pytest.raises(SampleError, match=r"a tensor of shape \(1,\) in the first, one of shape \(2,\)"):
        batch_stack([torch.ones(1), torch.ones(2)])
    with pytest.raises(SampleError, match=r"one of shape \(2,\)"):
        concat_pad([torch.ones(1, 2), torch.ones(2)])


@pytest.mark.parametrize("make", [generic_batch, batch_pad_stack, batch_stack, concat_pad])
def test_an_empty_batch_is_refused(make: Any) -> None:
    with pytest.raises(SampleError, match="of an empty list"):
        make([])


def test_errors_of_user_classes_propagate() -> None:
    @dataclass
    class Strict:
        text: Any

        def __post_init__(self) -> None:
            if not isinstance(self.text, str):
                raise KeyError("only text")

    with pytest.raises(KeyError, match="only text"):
        generic_batch([{"a": Strict("a")}, {"a": Strict("b")}])


def test_batch_list_returns_a_list() -> None:
    assert batch_list((TextSample, 1)) == [TextSample, 1]
