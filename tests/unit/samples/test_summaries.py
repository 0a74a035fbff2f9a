"""``print`` and ``repr`` of samples and batches show shapes and types instead of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch

from loader import Batch, CaptioningSample, CrudeSample, Sample, TextSample, edataclass


@edataclass
class Pictures(Batch):
    image: torch.Tensor
    boxes: list[torch.Tensor]
    more: dict[str, Any]


@edataclass
class Free:
    """A batch of a user, without a base class."""

    value: Any


@dataclass
class Described(Sample):
    def __repr__(self) -> str:
        return "as the user writes it"


def test_a_batch_prints_its_shapes_and_short_texts() -> None:
    batch = Pictures(
        __key__=["a", "b"],
        __sources__=(),
        image=torch.zeros(2, 3, 4, 4),
        boxes=[torch.ones(1, 4), torch.ones(5, 4)],
        more={"deep": {"ids": torch.arange(3)}, "n": 3},
    )
    assert str(batch) == (
        "Pictures\n"
        "  __key__: ['a', 'b']\n"
        "  image: Tensor(float32, [2, 3, 4, 4]) from 0 to 0, mean 0\n"
        "  boxes: list of 2\n"
        "    0: Tensor(float32, [1, 4]) from 1 to 1, mean 1\n"
        "    1: Tensor(float32, [5, 4]) from 1 to 1, mean 1\n"
        "  more: dict of 2\n"
        "    deep: dict of 1\n"
        "      ids: Tensor(int64, [3]) from 0 to 2, mean 1\n"
        "    n: 3"
    )
    assert f"{batch}" == str(batch)
    assert repr(batch) == (
        "Pictures(__key__=['a', 'b'], image=Tensor(float32, [2, 3, 4, 4]), "
        "boxes=[Tensor(float32, [1, 4]), Tensor(float32, [5, 4])], more={'deep': {'ids': Tensor(int64, [3])}, 'n': 3})"
    )


def test_samples_and_dataclasses_of_users_print_likewise() -> None:
    sample = CaptioningSample(__key__="a", image=torch.zeros(3, 8, 8), caption="a cat")
    assert str(sample).splitlines()[1:] == [
        "  __key__: 'a'",
        "  image: Tensor(float32, [3, 8, 8]) from 0 to 0, mean 0",
        "  caption: 'a cat'",
    ]
    assert str(Free(value=torch.zeros(2))) == "Free\n  value: Tensor(float32, [2]) from 0 to 0, mean 0"
    assert str(CrudeSample({"__key__": "a", "jpg": b"\xff\xd8"})).splitlines()[2] == r"  jpg: b'\xff\xd8'"
    assert str(Described(__key__="a")) == "as the user writes it"
    assert Free(value=1) == Free(value=1)
    assert repr([Free(value=torch.zeros(2))]) == "[Free(value=Tensor(float32, [2]))]"
    crude = CrudeSample({"__key__": "a", "jpg": b"x" * 99, "__sources__": ()})
    assert repr(crude) == f"CrudeSample({{'__key__': 'a', 'jpg': {b'x' * 50!r}… 49 more}})"


def test_dataclasses_derived_from_samples_show_no_numbers_unless_they_define_their_repr() -> None:
    @dataclass
    class Tokens(Described):
        ids: torch.Tensor

    @dataclass
    class Masked(TextSample):
        mask: torch.Tensor

    assert repr(Masked(__key__="a", text="t", mask=torch.zeros(4))) == (
        "Masked(__key__='a', text='t', mask=Tensor(float32, [4]))"
    )
    assert repr(Tokens(__key__="a", ids=torch.zeros(4))) == "as the user writes it"


def test_control_characters_are_escaped() -> None:
    text = str(Free(value={"red\x1b[31m\n": "green\x1b[32m\n", 3: ["\x07"]}))
    assert all(line.isprintable() for line in text.splitlines())
    assert text.splitlines()[2] == r"    red\x1b[31m\n: 'green\x1b[32m\n'"


@pytest.mark.parametrize(
    "value",
    [[["x" * 9999] * 999] * 999, {number: {} for number in range(9999)}, {"x" * 9999: "y" * 9999}, [[{}] * 99] * 99],
    ids=["texts", "dicts", "key", "nested"],
)
@pytest.mark.sampled(2)
def test_the_length_is_bounded(value: Any) -> None:
    assert len(str(Free(value=value))) < 20_000
    assert len(repr(Free(value=value))) < 20_000
    assert len(repr(CrudeSample({str(number): value for number in range(9999)}))) < 1_000_000


def test_values_without_a_range_and_values_that_contain_themselves_print() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    assert "self: " in str(Free(value=loop))
    tensors = [torch.empty(2, device="meta"), torch.empty(0), torch.ones(1, dtype=torch.bfloat16), torch.tensor([1j])]
    assert len(str(Free(value=tensors)).splitlines()) == 6
