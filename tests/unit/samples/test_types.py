from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from loader import EPath, samples
from loader.errors import SampleError
from loader.format.documents.sample_types import SAMPLE_TYPES
from loader.samples import (
    Batch,
    CaptioningSample,
    CrudeSample,
    ImageSample,
    Sample,
    SourceInfo,
    TextSample,
    VQASample,
    edataclass,
)

IMAGE = torch.zeros(3, 2, 2)


def test_samples_take_keyword_arguments_only() -> None:
    with pytest.raises(TypeError, match="positional argument"):
        TextSample("s.tar/0", text="a")  # type: ignore[call-arg]


def test_required_fields_are_required_and_optional_ones_are_none() -> None:
    sample = VQASample(__key__="0", image=IMAGE, context="?")
    assert (sample.answers, sample.answer_weights) == (None, None)
    assert (sample.__restore_key__, sample.__subflavors__, sample.__sources__) == ((), None, None)
    with pytest.raises(TypeError, match="context"):
        VQASample(__key__="0", image=IMAGE)  # type: ignore[call-arg]


def test_a_sample_prints_its_key_and_fields() -> None:
    assert repr(TextSample(__key__="part_00123/00403.tar/004030195", __restore_key__=(1,), text="Cello")) == (
        "TextSample(__key__='part_00123/00403.tar/004030195', text='Cello')"
    )


def test_derive_from_copies_key_and_sources() -> None:
    source = SourceInfo(dataset_path="/data", index=3, shard_name="s.tar", file_names=("0.jpg",))
    image = ImageSample(
        __key__="s.tar/0", __restore_key__=("a", 1), __subflavors__={"x": 1}, __sources__=(source,), image=IMAGE
    )
    derived = TextSample.derive_from(image, text="t")
    assert type(derived) is TextSample
    assert (derived.__key__, derived.__restore_key__) == ("s.tar/0", ("a", 1))
    assert (derived.__subflavors__, derived.__sources__) == ({"x": 1}, (source,))
    assert TextSample.derive_from(image, text="t", __key__="other").__key__ == "other"


def test_extend_copies_every_field() -> None:
    image = ImageSample(__key__="0", image=IMAGE)
    extended = CaptioningSample.extend(image, caption="c")
    assert extended.image is IMAGE
    assert extended.caption == "c"
    assert CaptioningSample.extend(extended, caption="d").caption == "d"


def test_user_sample_types_are_defined_with_edataclass() -> None:
    @edataclass
    class Mine(CaptioningSample):
        score: float = 0.5
        label: int

    sample = Mine(__key__="0", image=IMAGE, caption="c", label=3)
    assert (sample.score, sample.label) == (0.5, 3)
    assert isinstance(sample, Sample)


def test_edataclass_takes_the_options_of_dataclass() -> None:
    @edataclass(frozen=True)
    class Frozen:
        x: int

    with pytest.raises(AttributeError):
        Frozen(x=1).x = 2  # type: ignore[misc]


def test_samples_pickle() -> None:
    sample = TextSample(__key__="0", __restore_key__=("a", 1), text="t")
    assert pickle.loads(pickle.dumps(sample)) == sample
    crude = CrudeSample(__key__="0", txt="t")
    copy = pickle.loads(pickle.dumps(crude))
    assert copy == crude
    assert type(copy) is CrudeSample


def test_a_source_prints_as_its_path() -> None:
    source = SourceInfo(dataset_path="/data", index=3, shard_name="s.tar", file_names=("0.jpg", "0.txt"))
    assert str(source) == "/data/s.tar: 0.jpg, 0.txt"
    assert str(SourceInfo(dataset_path="/files", index="a.jpg", shard_name=None, file_names=())) == "/files"


def test_the_folder_of_a_source_is_a_path_of_this_machine_or_text() -> None:
    source = SourceInfo(dataset_path="/data", index=3, shard_name="s.tar", file_names=("0.txt",))
    assert isinstance(source.dataset_path, EPath)
    assert source.dataset_path == EPath("/data")
    same, other = source._replace(dataset_path=EPath("/data")), source._replace(dataset_path="/other")
    assert source == same
    assert not source != same  # noqa: SIM202 - tuples define it, too
    assert hash(source) == hash(same)
    assert source != other
    assert source == ("/data", 3, "s.tar", ("0.txt",))
    assert source != "/data"
    assert pickle.loads(pickle.dumps(source)) == source
    assert [source._replace(dataset_path=path).dataset_path for path in ("squares", None)] == ["squares", None]


def test_deriving_from_a_crude_sample_names_what_builds_one() -> None:
    crude = CrudeSample({"__key__": "s.tar/0", "txt": "a cat"})
    with pytest.raises(SampleError) as caught:
        TextSample.derive_from(crude, text=crude["txt"])  # type: ignore[arg-type]
    assert caught.value.message == "cannot derive a TextSample from a CrudeSample, which has no field '__key__'"
    assert "TextSample(**basic_sample_keys(sample), …)" in str(caught.value.hint)


def test_the_package_exports_every_type() -> None:
    exported: list[str] = vars(samples)["__all__"]
    assert set(SAMPLE_TYPES) <= set(exported)
    assert all(getattr(samples, name) is not None for name in exported)
    assert set(exported) <= set(dir(samples))
    with pytest.raises(AttributeError, match="attribute nothing"):
        samples.nothing  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("shared", [Sample, Batch], ids=["Sample", "Batch"])
def test_a_plain_dataclass_may_redeclare_the_shared_fields(shared: type) -> None:
    """Megatron-LM's multimodal example does: a default of the base class must not precede a field without one."""

    @dataclass
    class Redeclared(shared):  # type: ignore[misc]
        __key__: str
        __restore_key__: tuple[Any, ...]
        __subflavors__: dict[str, Any]
        tokens: list[int]

    found = Redeclared(__key__="a", __restore_key__=(1,), __subflavors__={}, tokens=[2])
    assert (found.__restore_key__, found.__subflavors__, found.__sources__, found.tokens) == ((1,), {}, None, [2])
