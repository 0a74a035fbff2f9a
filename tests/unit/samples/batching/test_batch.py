from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from loader.errors import SampleError
from loader.samples import Batch, CaptioningSample, SourceInfo, edataclass
from loader.samples.sample_dataclass import pinned

SOURCE = SourceInfo(dataset_path="/data", index=0, shard_name="s.tar", file_names=("0.jpg",))


@edataclass
class ImageBatch(Batch):
    image: torch.Tensor
    scale: float = 1.0


@edataclass
class CaptioningBatch(ImageBatch):
    caption: list[str]


def samples() -> list[CaptioningSample]:
    return [
        CaptioningSample(
            __key__=f"s.tar/{number}",
            __restore_key__=("read", number),
            __subflavors__={"number": number},
            __sources__=(SOURCE,),
            image=torch.ones(3, number, 2),
            caption=str(number),
        )
        for number in (1, 4)
    ]


def test_a_batch_of_samples_has_their_fields_of_the_same_names() -> None:
    batch = ImageBatch.from_samples(samples())
    assert batch.image.shape == (2, 3, 4, 2)
    assert batch.scale == 1.0
    assert batch.__key__ == ["s.tar/1", "s.tar/4"]
    assert batch.__restore_key__ == (("read", 1), ("read", 4))
    assert batch.__subflavors__ == [{"number": 1}, {"number": 4}]
    assert batch.__sources__ == (SOURCE, SOURCE)
    assert not hasattr(batch, "caption")


def test_given_fields_are_not_batched() -> None:
    image = torch.zeros(1)
    batch = CaptioningBatch.from_samples(samples(), image=image, scale=2.0)
    assert batch.image is image
    assert (batch.scale, batch.caption) == (2.0, ["1", "4"])


def test_dicts_and_other_objects_can_be_samples() -> None:
    @dataclass
    class Plain:
        image: torch.Tensor

    rows = [{"__key__": "a", "image": torch.ones(1)}, {"__key__": "b", "image": torch.ones(2)}]
    batch = ImageBatch.from_samples(rows)
    assert (batch.__key__, batch.__restore_key__, batch.__sources__) == (["a", "b"], (), None)
    assert batch.image.shape == (2, 2)
    assert ImageBatch.from_samples([Plain(torch.ones(1))], __key__=["a"]).image.tolist() == [[1]]


def test_the_error_of_a_field_that_no_sample_has_names_it() -> None:
    @edataclass
    class LabelBatch(Batch):
        label: int

    with pytest.raises(SampleError, match=r"a LabelBatch: sample 's.tar/1' of type CaptioningSample has no"):
        LabelBatch.from_samples(samples())
    with pytest.raises(SampleError, match="a sample of type dict has no field '__key__'"):
        LabelBatch.from_samples([{"label": 1}])


def test_a_field_that_some_samples_lack_is_an_error_even_with_a_default() -> None:
    with pytest.raises(SampleError, match="sample 'b' of type dict has no field 'scale'"):
        ImageBatch.from_samples(
            [{"__key__": "a", "image": torch.ones(1), "scale": 1}, {"__key__": "b", "image": torch.ones(1)}]
        )


def test_mismatched_samples_are_named() -> None:
    first, second = samples()
    second.image = torch.ones(2)
    with pytest.raises(SampleError, match=r"'s.tar/1' and 's.tar/4' cannot be batched: 'image' is a tensor"):
        ImageBatch.from_samples([first, second])


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(SampleError, match="of an empty list"):
        ImageBatch.from_samples([])


def test_derive_from_copies_keys_and_sources_only() -> None:
    base = CaptioningBatch.from_samples(samples(), scale=3.0)
    derived = ImageBatch.derive_from(base, image=torch.zeros(1))
    assert type(derived) is ImageBatch
    assert derived.scale == 1.0
    for name in ("__key__", "__restore_key__", "__subflavors__", "__sources__"):
        assert getattr(derived, name) is getattr(base, name)
    assert ImageBatch.derive_from(base, image=torch.zeros(1), __key__=["x"]).__key__ == ["x"]


def test_extend_copies_every_field() -> None:
    base = ImageBatch.from_samples(samples(), scale=3.0)
    extended = CaptioningBatch.extend(base, caption=["a", "b"])
    assert (extended.image is base.image, extended.scale, extended.caption) == (True, 3.0, ["a", "b"])
    assert CaptioningBatch.extend(extended, scale=1.0).scale == 1.0


def test_the_repr_of_a_batch_has_its_keys_and_fields_only() -> None:
    batch = Batch(__key__=["a"], __restore_key__=(1,), __subflavors__=[{}], __sources__=(SOURCE,))
    assert repr(batch) == "Batch(__key__=['a'])"


def test_a_batch_pickles() -> None:
    batch = CaptioningBatch.from_samples(samples())
    again = pickle.loads(pickle.dumps(batch))
    assert torch.equal(again.image, batch.image)
    assert (again.__key__, again.__sources__) == (batch.__key__, batch.__sources__)


# ------------------------------------------------------------------------------------------ page-locked memory


class Pinnable(torch.Tensor):
    """Tensor that records that it was pinned, on machines without a device."""

    def pin_memory(self, *args: Any) -> Any:
        return Pinned(self.as_subclass(torch.Tensor))


@dataclass(frozen=True)
class Pinned:
    tensor: torch.Tensor


@dataclass(frozen=True)
class Inner:
    tensor: Any
    text: str = "a"


def tensor() -> Any:
    return torch.ones(2).as_subclass(Pinnable)


def test_pinning_copies_all_tensors_and_keeps_the_original() -> None:
    from collections import namedtuple

    Pair = namedtuple("Pair", "left right")  # noqa: PYI024 - as training code writes them
    original: dict[str, Any] = {
        "list": [tensor(), "a"],
        "tuple": (tensor(), 1),
        "pair": Pair(tensor(), None),
        "dataclass": Inner(tensor()),
        "rest": ["a", 1, 2.5, None, b"b", {1}],
    }
    found = pinned(original)
    assert isinstance(found["list"][0], Pinned)
    assert isinstance(found["tuple"][0], Pinned)
    assert isinstance(found["pair"].left, Pinned)
    assert isinstance(found["dataclass"].tensor, Pinned)
    assert type(found["pair"]) is Pair
    assert (found["list"][1], found["tuple"][1], found["dataclass"].text) == ("a", 1, "a")
    assert found["rest"] == original["rest"]
    assert isinstance(original["list"][0], Pinnable)
    assert isinstance(original["dataclass"].tensor, Pinnable)


def test_batches_and_samples_pin_their_own_fields() -> None:
    batch = ImageBatch(__key__=["a"], image=tensor(), scale=2.0)
    found = batch.pin_memory()
    assert type(found) is ImageBatch
    assert isinstance(found.image, Pinned)
    assert isinstance(batch.image, Pinnable)
    assert (found.__key__, found.scale) == (["a"], 2.0)
    sample = CaptioningSample(__key__="a", image=tensor(), caption="c").pin_memory()
    assert isinstance(sample.image, Pinned)
    assert sample.caption == "c"


def test_fields_that_describe_the_samples_are_not_walked_through() -> None:
    batch = ImageBatch(__key__=["a"], image=tensor())
    assert batch.pin_memory().__key__ is batch.__key__
    assert isinstance(pinned({"__weights": tensor()})["__weights"], Pinned)


def test_pinning_calls_pin_memory_of_other_objects() -> None:
    found = pinned({"batch": ImageBatch(__key__=["a"], image=tensor())})
    assert isinstance(found["batch"].image, Pinned)
