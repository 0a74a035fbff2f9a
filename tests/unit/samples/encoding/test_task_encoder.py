from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from loader.errors import ConfigError, EnergonError, SampleError
from loader.samples import (
    AugmentTaskEncoder,
    Batch,
    CaptioningSample,
    Cooker,
    CrudeSample,
    DefaultTaskEncoder,
    HookContext,
    ImageSample,
    SampleDecoder,
    TaskEncoder,
    TextSample,
    VQASample,
    edataclass,
    is_default,
    is_stateless,
    restores_seeds,
    set_hook_context,
)
from loader.samples.hook_marks import stateless

HOOKS = (
    "cook_crude_sample",
    "encode_sample",
    "preencode_sample",
    "postencode_sample",
    "select_samples_to_pack",
    "pack_selected_samples",
    "batch_group_criterion",
    "batch",
    "encode_batch",
)
DO_SOMETHING = {"cook_crude_sample", "batch"}


@dataclass
class RawBatch:
    """Batch type without restore keys and sources, as in training code."""

    __key__: list[str]
    image: torch.Tensor
    caption: list[str]


@edataclass
class CaptioningBatch(Batch):
    image: torch.Tensor
    caption: list[str]


def caption(number: int = 0) -> CaptioningSample:
    return CaptioningSample(
        __key__=str(number), __restore_key__=(number,), image=torch.ones(1, number + 1), caption="c"
    )


def default_encoder(**options: Any) -> DefaultTaskEncoder[Any, Any, Any, Any]:
    return DefaultTaskEncoder(**options)


def captions() -> list[CaptioningSample]:
    return [caption(0), caption(1)]


# ---------------------------------------------------------------------------------- hooks without an effect


@pytest.mark.parametrize("make", [TaskEncoder, DefaultTaskEncoder, lambda: AugmentTaskEncoder(default_encoder())])
def test_hooks_that_are_not_overridden_have_no_effect(make: Any) -> None:
    encoder = make()
    assert {hook for hook in HOOKS if not is_default(getattr(encoder, hook))} == DO_SOMETHING


@pytest.mark.parametrize("hook", HOOKS)
def test_an_overridden_hook_has_an_effect(hook: str) -> None:
    encoder = type("Encoder", (DefaultTaskEncoder,), {hook: lambda *_: None})()
    assert not is_default(getattr(encoder, hook))
    for other in {*HOOKS} - DO_SOMETHING - {hook} - ({"preencode_sample"} if hook == "encode_sample" else set()):
        assert is_default(getattr(encoder, other)), other


def test_a_target_type_gives_its_hook_an_effect() -> None:
    assert not is_default(default_encoder(encoded_sample_type=ImageSample).encode_sample)
    assert not is_default(default_encoder(encoded_sample_type=ImageSample).preencode_sample)
    assert not is_default(default_encoder(batch_type=dict).encode_batch)
    assert is_default(default_encoder(batch_type=dict).encode_sample)
    assert is_default(default_encoder(raw_batch_type=dict).encode_batch)


def test_any_function_but_a_hook_of_the_library_has_an_effect() -> None:
    assert not is_default(len)
    assert not is_default(lambda sample: sample)


def test_a_hook_set_on_an_encoder_object_applies_to_it_only() -> None:
    encoder = default_encoder()
    encoder.encode_sample = lambda sample: "encoded"  # type: ignore[method-assign]
    assert not is_default(encoder.encode_sample)
    assert not is_default(AugmentTaskEncoder(encoder).encode_sample)
    assert AugmentTaskEncoder(encoder).encode_sample(caption()) == "encoded"


# -------------------------------------------------------------------------------------------------- defaults


def test_the_default_hooks_return_their_argument() -> None:
    encoder: TaskEncoder[Any, Any, Any, Any] = TaskEncoder()
    sample = caption()
    for hook in ("encode_sample", "preencode_sample", "postencode_sample", "encode_batch"):
        assert getattr(encoder, hook)(sample) is sample


@pytest.mark.parametrize("hook", ["select_samples_to_pack", "pack_selected_samples", "batch_group_criterion"])
def test_a_required_hook_that_is_missing_is_named(hook: str) -> None:
    class Packer(TaskEncoder[Any, Any, Any, Any]):
        pass

    with pytest.raises(NotImplementedError, match=f"but Packer does not define {hook}"):
        getattr(Packer(), hook)([])


def test_batches_are_built_field_by_field() -> None:
    batch = TaskEncoder().batch(captions())
    assert type(batch) is CaptioningSample
    assert batch.image.shape == (2, 1, 2)


def test_encode_sample_runs_before_packing_unless_preencode_sample_is_defined() -> None:
    class Encoder(TaskEncoder[Any, Any, Any, Any]):
        @stateless(restore_seeds=True)
        def encode_sample(self, sample: Any) -> Any:
            return "encoded"

    class Pre(Encoder):
        def preencode_sample(self, sample: Any) -> Any:
            return ("pre", super().preencode_sample(sample))

    assert Encoder().preencode_sample(caption()) == "encoded"
    assert not is_default(Encoder().preencode_sample)
    assert restores_seeds(Encoder().preencode_sample)
    assert Pre().preencode_sample(caption()) == ("pre", "encoded")
    assert not restores_seeds(Pre().preencode_sample)


def test_the_default_hooks_are_stateless() -> None:
    encoder = default_encoder(encoded_sample_type=dict, batch_type=dict)
    for hook in ("encode_sample", "preencode_sample", "postencode_sample", "batch", "encode_batch"):
        assert is_stateless(getattr(encoder, hook)), hook


def test_every_hook_has_a_docstring() -> None:
    for hook in HOOKS:
        assert getattr(TaskEncoder, hook).__doc__, hook


def test_the_decoder_is_a_class_attribute_and_may_be_none() -> None:
    class Bytes(TaskEncoder[Any, Any, Any, Any]):
        decoder = None

    assert isinstance(TaskEncoder().decoder, SampleDecoder)
    assert Bytes().decoder is None


def test_hooks_can_read_the_current_batch_and_sample_index() -> None:
    encoder = default_encoder()
    set_hook_context(HookContext(batch_index=3, sample_index=50, cache="pool"))
    try:
        assert (encoder.current_batch_index, encoder.current_sample_index) == (3, 50)
        assert encoder.cache == "pool"
        assert AugmentTaskEncoder(encoder).current_batch_index == 3
    finally:
        set_hook_context(None)
    for name in ("current_batch_index", "current_sample_index", "cache"):
        with pytest.raises(EnergonError, match="only while a loader runs a hook"):
            getattr(encoder, name)


# ------------------------------------------------------------------------------------------------ target types


def test_encoded_sample_type_takes_its_fields_by_name() -> None:
    encoder = default_encoder(encoded_sample_type=ImageSample)
    sample = encoder.encode_sample(caption())
    assert type(sample) is ImageSample
    assert (sample.__key__, sample.__restore_key__, sample.image.shape) == ("0", (0,), (1, 1))


def test_samples_of_the_type_are_unchanged() -> None:
    sample = caption()
    assert default_encoder(encoded_sample_type=CaptioningSample).encode_sample(sample) is sample
    assert default_encoder(encoded_sample_type=dict).encode_sample({"a": 1}) == {"a": 1}


def test_dicts_and_other_objects_are_converted() -> None:
    class Thing:
        def __init__(self) -> None:
            self.__key__ = "0"
            self.image = "picture"

    crude = CrudeSample({"__key__": "0", "image": "picture", "more": 1})
    encoder = default_encoder(encoded_sample_type=ImageSample)
    expected = ImageSample(__key__="0", image="picture")  # type: ignore[arg-type]
    assert encoder.encode_sample(crude) == encoder.encode_sample(Thing()) == expected
    encoded = default_encoder(encoded_sample_type=dict).encode_sample(crude)
    assert (type(encoded), encoded) == (dict, dict(crude))
    assert default_encoder(encoded_sample_type=dict).encode_sample(caption())["caption"] == "c"


def test_a_missing_required_field_is_named() -> None:
    encoder = default_encoder(encoded_sample_type=VQASample)
    with pytest.raises(SampleError, match="a CaptioningSample to a VQASample: it has no field 'context'") as raised:
        encoder.encode_sample(caption())
    assert raised.value.key == "0"


def test_a_type_that_is_not_a_dataclass_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected a dataclass or dict as the type of samples or batches, found int"):
        default_encoder(encoded_sample_type=int).encode_sample(caption())


def test_raw_batch_type_is_the_result_type_of_batch() -> None:
    batch = default_encoder(raw_batch_type=CaptioningBatch).batch(captions())
    assert type(batch) is CaptioningBatch
    assert batch.image.shape == (2, 1, 2)
    raw = default_encoder(raw_batch_type=RawBatch).batch(captions())
    assert (type(raw), raw.__key__, raw.caption, raw.image.shape) == (RawBatch, ["0", "1"], ["c", "c"], (2, 1, 2))
    as_dict = default_encoder(raw_batch_type=dict).batch(captions())
    assert as_dict["__restore_key__"] == ((0,), (1,))


def test_from_samples_of_a_batch_type_is_used() -> None:
    @edataclass
    class Counted(Batch):
        count: int

        @classmethod
        def from_samples(cls, samples: Any, **fields: Any) -> Any:
            return super().from_samples(samples, count=len(samples))

    assert default_encoder(raw_batch_type=Counted).batch(captions()).count == 2


def test_batch_type_is_the_result_type_of_encode_batch() -> None:
    encoder = default_encoder(batch_type=CaptioningBatch)
    raw = encoder.batch(captions())
    assert type(raw) is CaptioningSample
    assert type(encoder.encode_batch(raw)) is CaptioningBatch
    assert default_encoder(batch_type=dict).encode_batch(raw)["caption"] == ["c", "c"]


def test_a_subclass_need_not_call_the_init_of_the_class() -> None:
    class Encoder(DefaultTaskEncoder[Any, Any, Any, Any]):
        def __init__(self, scale: float) -> None:
            self.scale = scale

    encoder = Encoder(2.0)
    sample = caption()
    assert encoder.encode_sample(sample) is sample
    assert type(encoder.batch(captions())) is CaptioningSample
    assert encoder.encode_batch(sample) is sample
    assert is_default(encoder.encode_batch)


@pytest.mark.parametrize("encoder", [default_encoder(batch_type=dict), AugmentTaskEncoder(default_encoder())])
def test_encoders_pickle_and_copy(encoder: Any) -> None:
    for again in (pickle.loads(pickle.dumps(encoder)), copy.deepcopy(encoder), copy.copy(encoder)):
        assert is_default(again.encode_batch) == is_default(encoder.encode_batch)
        assert again.encode_sample("sample") == "sample"


# -------------------------------------------------------------------------------------- augmenting encoders


class Inner(TaskEncoder[Any, Any, Any, Any]):
    decoder = SampleDecoder(image_decode="pil")
    cookers = [Cooker(lambda sample: ("cooked", sample["txt"]))]
    name = "inner"

    def encode_sample(self, sample: Any) -> Any:
        return ("inner", sample)

    def encode_batch(self, batch: Any) -> Any:
        return (self.name, batch)


class Outer(AugmentTaskEncoder):
    def encode_sample(self, sample: Any) -> Any:
        return ("outer", super().encode_sample(sample))


def test_an_outer_encoder_delegates_hooks_that_it_does_not_override() -> None:
    inner = Inner()
    outer = Outer(inner)
    assert outer.decoder is inner.decoder
    assert outer.cookers is inner.cookers
    assert outer.name == "inner"
    assert outer.cook_crude_sample({"__key__": "0", "txt": "a"}) == ("cooked", "a")
    assert outer.encode_batch("batch") == ("inner", "batch")
    assert not is_default(outer.encode_batch)
    assert is_default(outer.postencode_sample)


def test_a_hook_of_an_outer_encoder_can_call_the_inner_one() -> None:
    assert Outer(Inner()).encode_sample("sample") == ("outer", ("inner", "sample"))
    assert Outer(default_encoder()).encode_sample("sample") == ("outer", "sample")


def test_a_changed_encode_sample_runs_before_packing_too() -> None:
    assert Outer(Inner()).preencode_sample("sample") == ("outer", ("inner", "sample"))
    assert Outer(default_encoder()).preencode_sample("sample") == ("outer", "sample")
    assert not is_default(Outer(default_encoder()).preencode_sample)


def test_an_inner_preencode_sample_stays_as_it_is() -> None:
    class Pre(Inner):
        def preencode_sample(self, sample: Any) -> Any:
            return ("pre", self.encode_sample(sample))

    assert Outer(Pre()).preencode_sample("sample") == ("pre", ("inner", "sample"))


def test_augmenting_encoders_nest() -> None:
    class Shout(AugmentTaskEncoder):
        def encode_batch(self, batch: Any) -> Any:
            return ("shout", super().encode_batch(batch))

    twice = Outer(Shout(Outer(Inner())))
    assert twice.encode_sample("s") == ("outer", ("outer", ("inner", "s")))
    assert twice.preencode_sample("s") == ("outer", ("outer", ("inner", "s")))
    assert twice.encode_batch("b") == ("shout", ("inner", "b"))
    assert twice.name == "inner"
    nothing = AugmentTaskEncoder(AugmentTaskEncoder(default_encoder(batch_type=dict)))
    assert is_default(nothing.encode_sample)
    assert not is_default(nothing.encode_batch)
    assert nothing.encode_batch(TextSample(__key__="0", text="a"))["text"] == "a"


def test_an_outer_encoder_may_have_its_own_cookers_and_decoder() -> None:
    class Own(AugmentTaskEncoder):
        decoder = None
        cookers = [Cooker(lambda sample: "own")]

    outer = Own(Inner())
    assert outer.decoder is None
    assert outer.cook_crude_sample({"__key__": "0"}) == "own"
    assert Own(Own(Inner())).cook_crude_sample({"__key__": "0"}) == "own"


def test_marks_of_inner_hooks_are_visible_through_the_outer_encoder() -> None:
    class Marked(Inner):
        @stateless(restore_seeds=True)
        def encode_sample(self, sample: Any) -> Any:
            return sample

    assert restores_seeds(AugmentTaskEncoder(Marked()).encode_sample)
    assert restores_seeds(AugmentTaskEncoder(Marked()).preencode_sample)
    assert not restores_seeds(Outer(Marked()).encode_sample)


def test_any_object_with_hooks_can_be_the_inner_encoder() -> None:
    class Duck:
        decoder = None
        cookers = ()

        def encode_sample(self, sample: Any) -> Any:
            return ("duck", sample)

    assert Outer(Duck()).encode_sample("s") == ("outer", ("duck", "s"))  # type: ignore[arg-type]


def test_copying_uses_the_inner_encoders_own_methods() -> None:
    class Copying(Inner):
        def __deepcopy__(self, memo: Any) -> Any:
            return Inner()

    assert type(copy.deepcopy(Outer(Copying()))) is Outer


def test_the_error_of_an_outer_encoder_without_inner_one_names_the_cause() -> None:
    class Forgetful(AugmentTaskEncoder):
        def __init__(self) -> None:
            pass

    for name in ("encode_batch", "decoder", "anything"):
        with pytest.raises(AttributeError, match=r"Forgetful has no inner task encoder: its __init__ must call super"):
            getattr(Forgetful(), name)


def test_an_attribute_that_both_encoders_lack_is_an_error() -> None:
    with pytest.raises(AttributeError, match="'Inner' object has no attribute 'nme'"):
        Outer(Inner()).nme  # noqa: B018
