"""Tensors and arrays of every kind arrive unchanged, also when the sender has ended."""

from __future__ import annotations

import copy
import itertools
import pickle
import re
import warnings
import weakref
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import torch.multiprocessing

from loader.samples.source_info import SourceInfo
from loader.samples.types import CrudeSample
from loader.storage.epath import EPath
from loader.transport.message import (
    AttachedSegments,
    ObjectPickler,
    PackedBundle,
    SegmentPool,
    new_flags,
    pack_bundle,
    unpack_bundle,
)

MANY = 5000  # elements, more than travel in the pickle


def packed_bundle(*messages: Any, pool: SegmentPool | None = None) -> PackedBundle:
    pickler = ObjectPickler()
    return pack_bundle([pickler.pickle_object(message) for message in messages], pool)


def sent(message: Any) -> Any:
    """Pack and unpack within this process, without segments."""
    [found] = received(packed_bundle(message))
    return found


def received(packed: PackedBundle) -> list[Any]:
    return [message.unpickle() for message in unpack_bundle(packed, AttachedSegments(None))]


def as_bytes(tensor: Any) -> bytes:
    dense = torch.empty(tensor.shape, dtype=tensor.dtype)
    dense.copy_(tensor.detach())
    return dense.reshape(-1).view(torch.uint8).numpy().tobytes()


def check_tensor(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    assert (found.dtype, found.shape, found.requires_grad) == (expected.dtype, expected.shape, expected.requires_grad)
    assert as_bytes(found) == as_bytes(expected)


def check_array(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert repr(found.tolist()) == repr(expected.tolist())


def counted(*shape: Any) -> Any:
    return torch.arange(int(np.prod(shape)), dtype=torch.float32).reshape(shape)


# ------------------------------------------------------------------------------------------------------- tensors

DTYPES = [
    kind
    for name, kind in sorted(vars(torch).items())
    if isinstance(kind, torch.dtype) and name == str(kind).removeprefix("torch.")  # each under one name
    # Those of less than a byte have no operations yet, and those of quantized tensors are deprecated.
    if not re.fullmatch(r"u?int[1-7]|qu?int.*|bits.*", name)
]


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_of_every_type_arrive(dtype: Any) -> None:
    for count in (0, 1, MANY):
        whole = (torch.arange(count * dtype.itemsize) % 2).to(torch.uint8).view(dtype)  # also right for bool
        check_tensor(sent(whole), whole)
        check_tensor(sent(whole[::2]), whole[::2])


LAYOUTS = {
    "0-dim": torch.tensor(3.5),
    "empty": torch.zeros(0, 7),
    "transposed": counted(100, 60).T,
    "images as decoded": counted(40, 50, 3).permute(2, 0, 1),
    "channels last": counted(2, 3, 20, 30).to(memory_format=torch.channels_last),
    "a permutation of no order": counted(4, 5, 6, 50).permute(2, 0, 3, 1),
    "crop": counted(3, 60, 80)[:, 10:50, 5:75],
    "every second": counted(2 * MANY)[::2],
    "flipped crop": counted(60, 80).flip(1).T[5:60],
    "expanded": counted(1, 50, 1).expand(10, 50, 20),
    "overlapping": counted(MANY).as_strided((MANY - 8, 8), (1, 1)),
    "middle of a storage": counted(3, MANY)[1],
    "a column of one row": counted(1, 5)[:, 2],
    "single columns": counted(MANY, 3)[:, 1:2],
    "small": counted(3, 4).T,
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_tensors_of_every_layout_arrive(name: str) -> None:
    check_tensor(sent(LAYOUTS[name]), LAYOUTS[name])


@pytest.mark.parametrize("name", ["transposed", "images as decoded", "channels last", "a permutation of no order"])
def test_tensors_without_gaps_keep_their_strides(name: str) -> None:
    assert sent(LAYOUTS[name]).stride() == LAYOUTS[name].stride()


def test_only_the_elements_of_a_crop_are_sent() -> None:
    crop = counted(1000, 1000)[10:50, 5:75]
    _, _, ranges = packed_bundle(crop)
    assert ranges == [(0, 40 * 70 * 4)]


class Labelled(torch.Tensor):
    """A tensor of a user's own class, as torchvision has some."""


def labelled(label: str) -> Any:
    tensor = counted(100, 60).T.as_subclass(Labelled)
    tensor.label = label
    return tensor


def test_tensors_of_a_users_own_class_keep_their_attributes() -> None:
    found = sent(labelled("box"))
    check_tensor(found, labelled("box"))
    assert found.label == "box"


@pytest.mark.parametrize(
    "tensor",
    [
        counted(MANY).requires_grad_(),
        counted(100, 60).T.requires_grad_(),
        torch.nn.Parameter(counted(MANY)),
        torch.nn.Parameter(counted(MANY), requires_grad=False),
        torch.complex(counted(MANY), counted(MANY) + 1).conj(),
        torch.complex(counted(MANY), counted(MANY) + 1).conj().imag,
        torch._neg_view(counted(MANY)),
    ],
    ids=["gradient", "transposed", "parameter", "frozen parameter", "conjugated", "imaginary parts", "negated"],
)
def test_unusual_tensors_arrive(tensor: Any) -> None:
    check_tensor(sent(tensor), tensor)


def test_sparse_quantized_and_meta_tensors_arrive() -> None:
    dense = counted(100, 60) * (counted(100, 60) % 7 == 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that both are in beta, or deprecated
        for sparse in (dense.to_sparse(), dense.to_sparse_csr()):
            found = sent(sparse)
            assert found.layout is sparse.layout
            assert torch.equal(found.to_dense(), dense)
        quantized = torch.quantize_per_tensor(counted(MANY), 0.5, 3, torch.qint8)
        found = sent(quantized)
        assert (found.q_scale(), found.q_zero_point()) == (0.5, 3)
        assert torch.equal(found.int_repr(), quantized.int_repr())
    found = sent(torch.zeros(MANY, device="meta"))
    assert (found.device.type, found.shape) == ("meta", (MANY,))


def test_a_tensor_with_a_history_is_refused_with_a_hint() -> None:
    with pytest.raises(RuntimeError, match=r"non-leaf tensor which requires_grad(.|\n)*detach\(\)"):
        packed_bundle(counted(MANY).requires_grad_() * 2)


# -------------------------------------------------------------------------------------------------------- arrays

ARRAYS = {
    "floats": np.arange(MANY) / 3,
    "other byte order": np.arange(MANY).astype(">f8"),
    "half": np.arange(MANY).astype("f2"),
    "complex": np.arange(MANY) * 1j,
    "bool": np.arange(MANY) % 3 == 0,
    "times": np.arange(MANY).astype("datetime64[s]"),
    "text": np.array([f"word {number}" for number in range(MANY)]),
    "bytes": np.array([b"word %d" % number for number in range(MANY)]),
    "structured": np.array([(n, (n, -n), f"{n}") for n in range(300)], [("a", "i4"), ("b", "f8", (2,)), ("c", "U5")]),
    "objects": np.array([{"a": 1}, None, "x"] * 1000, dtype=object),
    "records": np.rec.array([(n, f"{n}") for n in range(MANY)], dtype=[("a", "i4"), ("b", "U4")]),
    "masked": np.ma.array(np.arange(MANY), mask=np.arange(MANY) % 2 == 1),
    "Fortran order": np.asfortranarray(np.arange(6000.0).reshape(60, 100)),
    "transposed": np.arange(6000).reshape(60, 100).T,
    "every second": np.arange(2 * MANY)[::2],
    "backwards": np.arange(MANY)[::-1],
    "0-dim": np.array(3.5),
    "empty": np.zeros((0, 7)),
    "no dimension of size": np.zeros((MANY, 0), dtype=[("a", "i4")]),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_every_kind_arrive(name: str) -> None:
    found = sent(ARRAYS[name])
    check_array(found, ARRAYS[name])
    assert found.flags.writeable


@pytest.mark.parametrize("count", [10, MANY])
def test_read_only_arrays_stay_read_only(count: int) -> None:
    array = np.arange(count)
    array.flags.writeable = False
    found = sent(array)
    check_array(found, array)
    assert not found.flags.writeable


# ------------------------------------------------------------------------------------------------------ messages


@dataclass
class Sample:
    image: object
    others: list[object]


def test_a_message_is_packed_in_one_piece_and_small_contents_stay_in_the_pickle() -> None:
    large, odd, small = counted(MANY), torch.ones(3001, dtype=torch.uint8), counted(3)
    message = {"a": Sample(large, [small, np.arange(MANY), None, "text"]), "b": (odd, b"x" * 9000), "c": [large]}
    pickled, shared, ranges = packed_bundle(message)

    assert isinstance(shared, torch.Tensor)
    assert [stop - start for start, stop in ranges] == [
        4 * MANY,
        8 * MANY,
        3001,
    ]  # a value that comes twice is sent once
    assert all(start % 64 == 0 for start, _ in ranges)
    assert all(stop <= start for (_, stop), (start, _) in itertools.pairwise(ranges))
    assert len(pickled) < 12_000
    found = sent(message)
    assert found["c"][0] is found["a"].image
    check_tensor(found["a"].image, large)
    check_tensor(found["a"].others[0], small)
    check_array(found["a"].others[1], np.arange(MANY))
    assert found["a"].others[2:] == [None, "text"]
    check_tensor(found["b"][0], odd)
    assert found["b"][1] == b"x" * 9000


@pytest.mark.parametrize("message", [None, "text", {"a": [1, 2.5]}, [counted(3), np.arange(3)]])
def test_a_message_without_large_contents_needs_no_shared_memory(message: Any) -> None:
    packed = packed_bundle(message, pool=SegmentPool(new_flags()))
    assert packed[1:] == (None, [])
    assert str(received(packed)) == str([message])


def test_pickles_without_room_in_the_pipe_travel_in_shared_memory() -> None:
    messages = [{"name": f"{number}" * 9000, "tensor": counted(MANY) + number} for number in range(9)]
    messages.append({"name": "long" * 9000, "tensor": counted(MANY)})
    packed = packed_bundle(*messages)
    assert isinstance(packed[1], torch.Tensor)
    assert len(packed[0]) < 1 << 15
    for message, expected in zip(received(packed), messages, strict=True):
        assert message["name"] == expected["name"]
        check_tensor(message["tensor"], expected["tensor"])


def test_an_object_that_does_not_pickle_leaves_the_next_ones_whole() -> None:
    pickler = ObjectPickler()
    first = pickler.pickle_object({"first": counted(MANY)})
    with pytest.raises(Exception, match=r"local object|Can't pickle|pickle.*lambda"):
        pickler.pickle_object([np.arange(MANY), lambda: None])
    last = pickler.pickle_object({"last": counted(7, MANY)})
    found = received(pack_bundle([first, last]))
    check_tensor(found[0]["first"], counted(MANY))
    check_tensor(found[1]["last"], counted(7, MANY))


def test_a_message_arrives_with_the_batch_that_was_pickled_before_it() -> None:
    batch = {"small": counted(3), "large": counted(7, MANY), "array": np.arange(MANY), "text": "x" * 9000}
    packed = pack_bundle((7, ObjectPickler().pickle_object(batch)))
    number, pickled = unpack_bundle(packed, AttachedSegments(None))
    found = pickled.unpickle()
    assert (number, found["text"]) == (7, batch["text"])
    check_tensor(found["small"], batch["small"])
    check_tensor(found["large"], batch["large"])
    check_array(found["array"], batch["array"])


def test_the_unpacked_messages_of_a_bundle_are_freed_one_by_one() -> None:
    """The garbage collector of the rank finds few new objects then, and rarely runs."""
    samples = [CrudeSample(__key__=f"{number}", text={"a": [1, 2]}) for number in range(3)]
    messages = deque(unpack_bundle(packed_bundle(*samples), AttachedSegments(None)))
    gone = []
    while messages:
        sample = messages.popleft().unpickle()
        gone.append(weakref.ref(sample))
        del sample
        assert gone[-1]() is None


@pytest.mark.parametrize(
    "sample",
    [
        CrudeSample(__key__="a", json={"id": 1}, __sources__=(SourceInfo("/data", 0, "s.tar", ("a.json",)),)),
        CrudeSample(),
        SourceInfo(EPath("/data"), "a", None, ()),
    ],
    ids=["crude", "empty", "source"],
)
def test_crude_samples_and_sources_arrive(sample: Any) -> None:
    for found in (sent(sample), copy.copy(sample), copy.deepcopy(sample)):
        assert type(found) is type(sample)
        assert found == sample
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(sample, protocol)) == sample


class OwnCrudeSample(CrudeSample):
    """A crude sample of a user's own class."""


def test_attributes_of_crude_samples_arrive() -> None:
    sample = OwnCrudeSample(a=1)
    sample.source, sample.note = 3, "blue"  # type: ignore[attr-defined] # as users may do
    for found in (sent(sample), copy.copy(sample)):
        assert (type(found), found, vars(found)) == (OwnCrudeSample, {"a": 1}, {"source": 3, "note": "blue"})


@pytest.mark.parametrize("count", [3, MANY])
def test_the_sent_and_the_received_values_share_no_memory(count: int) -> None:
    tensor, array = counted(count), np.arange(count)
    packed = packed_bundle([tensor, array])
    tensor += 1
    array += 1
    [found] = received(packed)
    assert (found[0][1].item(), found[1][1]) == (1, 1)
    found[0] += 5
    found[1] += 5
    assert (tensor[1].item(), array[1], found[0][1].item(), found[1][1]) == (2, 2, 6, 6)


# ----------------------------------------------------------------------------------------------------- processes


def send_and_end(queue: Any, flags: Any, has_read: Any) -> None:
    torch.set_num_threads(1)  # as torch's workers do: a forked process has none of its parent's threads
    messages = [*LAYOUTS.values(), labelled("box"), counted(60, 100).T.requires_grad_(), np.arange(MANY)]
    pool = None if flags is None else SegmentPool(flags)
    queue.put(packed_bundle(messages, pool=pool))
    has_read.wait()


@pytest.mark.parametrize("has_segments", [False, True], ids=["a piece of its own", "a segment"])
def test_a_message_can_be_read_when_its_sender_has_ended(has_segments: bool) -> None:
    context = torch.multiprocessing.get_context("fork")
    queue, has_read, flags = context.Queue(), context.Event(), new_flags()
    process = context.Process(target=send_and_end, args=(queue, flags if has_segments else None, has_read))
    process.start()
    packed = queue.get(timeout=60)
    [message] = unpack_bundle(packed, AttachedSegments(flags))
    has_read.set()
    process.join()
    assert isinstance(packed[1], torch.Tensor) != has_segments

    *tensors, box, leaf, array = message.unpickle()
    for found, expected in zip(tensors, LAYOUTS.values(), strict=True):
        check_tensor(found, expected)
    assert box.label == "box"
    check_tensor(box, labelled("box"))
    check_tensor(leaf, counted(60, 100).T.requires_grad_())
    check_array(array, np.arange(MANY))
