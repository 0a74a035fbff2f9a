"""User-defined dataset classes that ``dataset.yaml`` names."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from loader import (
    BaseCoreDatasetFactory,
    BaseWebdatasetFactory,
    ConfigError,
    CrudeWebdataset,
    DefaultDecoderWebdatasetFactory,
    DefaultGenericWebdatasetFactory,
    DefaultTaskEncoder,
    EPath,
    Sample,
    SampleDecoder,
    SampleError,
    SkipSample,
    StandardWebdatasetFactory,
    TextSample,
    TrustError,
    WorkerConfig,
    edataclass,
    get_dataset_from_config,
    get_loader,
    get_train_dataset,
    get_val_dataset,
)
from loader.pipeline.failures import policy as endless_skips
from loader.training.loaders.data_loader import SavableDataLoader
from tests.e2e.text_dataset import write_texts

MODULE = "my_training_code"
ONE = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=2)


@edataclass
class Note(Sample):
    words: Any
    length: int = 0


class Notes(DefaultDecoderWebdatasetFactory[Note]):
    __sample_type__ = Note

    def __init__(self, path: EPath, **kwargs: Any) -> None:
        super().__init__(path, **kwargs)


class OwnDecoder(DefaultDecoderWebdatasetFactory[Note]):
    __sample_type__ = Note

    def __init__(self, path: EPath, *, mark: str = "", **kwargs: Any) -> None:
        super().__init__(
            path,
            decoder=None,
            part_filter=lambda part: part == "txt",
            sample_loader=lambda parts: {"words": parts["txt"] + mark.encode()},
            **kwargs,
        )


class Lengths(DefaultDecoderWebdatasetFactory[Note]):
    __sample_type__ = Note

    def __init__(self, path: EPath | Path, **kwargs: Any) -> None:
        super().__init__(path, field_map={"words": "txt"}, **kwargs)

    def sample_filter(self, key: str) -> bool:
        return not key.endswith("2")

    def load_sample(self, sample: dict[str, Any]) -> Any:
        assert sample["__key__"].startswith(sample["__shard__"])
        if sample["txt"] == b"text 3":
            raise SkipSample
        note = super().load_sample(sample)
        note.length = len(sample["txt"])
        return note


class Raw(BaseWebdatasetFactory[Note]):
    __sample_type__ = Note

    def load_sample(self, sample: dict[str, Any]) -> Any:
        return Note(__key__=sample["__key__"], words=sample["txt"])


class Crude(CrudeWebdataset):
    def load_sample(self, sample: dict[str, Any]) -> Any:
        return super().load_sample({**sample, "extra.txt": b"more"})


class Bytes(DefaultGenericWebdatasetFactory[TextSample]):
    __sample_type__ = TextSample


class OwnChain(BaseCoreDatasetFactory[Note]):
    __sample_type__ = Note

    def build(self, worker_rotation_offset: int = 0) -> Any:
        raise NotImplementedError


class OwnBuild(Notes):
    def build(self, worker_rotation_offset: int = 0) -> Any:
        raise NotImplementedError


class Untyped(DefaultDecoderWebdatasetFactory[Note]):
    pass


class OwnStandard(StandardWebdatasetFactory[Any]):
    pass


class NoDataset:
    pass


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Write a dataset whose ``dataset.yaml`` names a class of an importable module."""
    module = ModuleType(MODULE)
    kinds = (Note, Notes, OwnDecoder, Lengths, Raw, Crude, Bytes, OwnChain, OwnBuild, OwnStandard, Untyped, NoDataset)
    module.__dict__.update({kind.__name__: kind for kind in kinds})
    for kind in kinds:
        monkeypatch.setattr(kind, "__module__", MODULE)
    monkeypatch.setitem(sys.modules, MODULE, module)

    def write(name: str, more: str = "") -> Path:
        config = f"__module__: {MODULE}\n__class__: {name}\n{more}"
        return write_texts(tmp_path / name, train=(3,), val=(4, 1), config=config)

    return write


def samples(path: Path, **options: Any) -> list[Any]:
    dataset = get_val_dataset(path, worker_config=ONE, batch_size=None, **options)
    return list(get_loader(dataset))


def test_the_class_receives_the_settings_of_dataset_yaml(written: Callable[..., Path]) -> None:
    path = written("Notes", "field_map: {words: txt}\nsubflavors: {a: 1}\n")
    first, *_ = found = samples(path, subflavors={"b": 2})
    assert [note.words for note in found] == [f"text {number}" for number in range(3, 8)]
    assert type(first) is Note
    assert (first.__key__, first.__subflavors__) == ("val_0.tar/00003", {"a": 1, "b": 2})
    assert first.__sources__ is not None
    assert first.__sources__[0].shard_name == "val_0.tar"
    assert first.__restore_key__
    dataset = get_train_dataset(
        EPath(path), worker_config=ONE, batch_size=3, shuffle_buffer_size=None, max_samples_per_sequence=None
    )
    assert sorted(next(iter(get_loader(dataset))).words) == ["text 0", "text 1", "text 2"]


def test_the_class_may_set_its_decoder_filter_and_arguments(written: Callable[..., Path]) -> None:
    found = samples(written("OwnDecoder", "mark: '!'\n"))
    assert [note.words for note in found][:2] == [b"text 3!", b"text 4!"]


def test_the_task_encoders_decoder_is_used_if_the_class_has_none(written: Callable[..., Path]) -> None:
    class Plain(DefaultTaskEncoder[Any, Any, Any, Any]):
        decoder = None

    found = samples(written("Notes", "field_map: {words: txt}\n"), task_encoder=Plain())
    assert found[0].words == b"text 3"


def test_methods_that_the_class_overrides_are_called(
    written: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    found = samples(written("Lengths"))
    assert not caplog.records  # skipping on purpose is not a failure
    assert [(note.words, note.length) for note in found] == [(f"text {number}", 6) for number in range(4, 8)]
    path = written("Raw")
    assert samples(path)[0].words == b"text 3"
    crude = samples(written("Crude"))[0]
    assert (crude["txt"], crude["extra.txt"]) == ("text 3", "more")
    dataset = get_train_dataset(
        written("Lengths"), worker_config=ONE, batch_size=1, shuffle_buffer_size=0, max_samples_per_sequence=1
    )
    batches = iter(get_loader(dataset))
    assert {next(batches).words[0] for _ in range(20)} == {"text 0", "text 1"}


def test_a_class_that_skips_all_samples_warns_and_fails(
    written: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(endless_skips, "_WARN_AT", 10)
    monkeypatch.setattr(endless_skips, "_STOP_AT", 20)
    monkeypatch.setattr(Lengths, "sample_filter", lambda self, key: False)
    dataset = get_train_dataset(
        written("Lengths"), worker_config=ONE, batch_size=1, shuffle_buffer_size=0, max_samples_per_sequence=1
    )
    with pytest.raises(SampleError, match="has skipped 20 samples in a row"):
        next(iter(get_loader(dataset)))
    assert "is that intended?" in caplog.text


def test_a_state_restores_samples_of_an_own_class(written: Callable[..., Path]) -> None:
    class Packs(DefaultTaskEncoder[Any, Any, Any, Any]):
        def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
            return [samples]

        def pack_selected_samples(self, samples: list[Any]) -> Any:
            return samples[0]

    def made(start: dict[str, Any] | None = None) -> SavableDataLoader[Any]:
        loader = get_loader(
            get_train_dataset(
                path,
                worker_config=ONE,
                batch_size=1,
                packing_buffer_size=2,
                shuffle_buffer_size=0,
                max_samples_per_sequence=1,
                task_encoder=Packs(),
            )
        )
        if start is not None:
            loader.restore_state_rank(start)
        return loader

    path = written("Lengths")
    first = made()
    batches = iter(first)
    for _ in range(3):
        next(batches)
    state = first.save_state_rank()
    assert [next(batches).words for _ in range(6)] == [
        batch.words for batch, _ in zip(made(state), range(6), strict=False)
    ]


def test_parts_stay_bytes_without_a_decoder(written: Callable[..., Path]) -> None:
    assert samples(written("Bytes", "field_map: {text: txt}\n"))[0].text == b"text 3"


def test_a_factory_is_of_the_class_in_dataset_yaml(written: Callable[..., Path]) -> None:
    path = written("Lengths")
    factory = get_dataset_from_config(path, training=False, worker_config=ONE, subflavors={"a": 1})
    assert type(factory) is Lengths
    notes = list(get_loader(factory.build()))
    assert [note.length for note in notes] == [6, 6, 6, 6]
    assert notes[0].__subflavors__ == {"a": 1}
    assert len(factory) == 5
    with pytest.raises(ConfigError, match="is not a dataset class"):
        get_dataset_from_config(written("NoDataset"))


def test_a_class_by_hand_needs_no_dataset_yaml(written: Callable[..., Path]) -> None:
    factory = Lengths(written("Notes", "field_map: {words: txt}\n"), training=False, worker_config=ONE)
    assert [note.length for note in get_loader(factory.build())] == [6, 6, 6, 6]
    notes = Notes(factory.path, training=False, worker_config=ONE, field_map={"words": "txt"}, decoder=SampleDecoder())
    assert next(iter(get_loader(notes.build()))).words == "text 3"


def test_a_trusted_dataset_has_its_module_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "titles_of_mine.py").write_text(
        "from loader import DefaultDecoderWebdatasetFactory, TextSample\n"
        "class Titles(DefaultDecoderWebdatasetFactory[TextSample]):\n"
        "    __sample_type__ = TextSample\n"
        "    def __init__(self, path, **kwargs):\n"
        "        super().__init__(path, field_map={'text': 'txt'}, **kwargs)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    config = "__module__: titles_of_mine\n__class__: Titles\n"
    path = write_texts(tmp_path / "data", train=(1,), val=(2,), config=config)
    with pytest.raises(TrustError):
        samples(path)
    assert samples(path, trust_code=True)[0].text == "text 1"
    monkeypatch.delitem(sys.modules, "titles_of_mine")
    assert type(get_dataset_from_config(path, trust_code=True)).__name__ == "Titles"
    monkeypatch.delitem(sys.modules, "titles_of_mine")


def test_a_sample_type_next_to_the_class_is_passed_to_it(written: Callable[..., Path]) -> None:
    more = "sample_type: {__module__: megatron.energon, __class__: TextSample}\nfield_map: {text: txt}\n"
    path = written("OwnStandard", more)
    assert type(samples(path)[0]) is TextSample
    assert type(get_dataset_from_config(path, worker_config=ONE)) is OwnStandard


def test_overrides_that_would_change_the_order_are_refused(written: Callable[..., Path]) -> None:
    for name in ("OwnChain", "OwnBuild"):
        with pytest.raises(ConfigError, match=rf"{name} overrides build\(\)") as caught:
            samples(written(name))
        assert "override load_sample" in str(caught.value)


def test_an_invalid_class_is_refused(written: Callable[..., Path]) -> None:
    path = written("Notes", "no_such: 3\n")
    with pytest.raises(ConfigError, match=r"Notes\(path, no_such=…\) fails: .*no_such.*"):
        samples(path)
    with pytest.raises(ConfigError, match=r"Notes\(path, no_such=…, .*\) fails: .*no_such.*"):
        get_dataset_from_config(path)
    with pytest.raises(ConfigError, match="Untyped has no __sample_type__"):
        samples(written("Untyped", "field_map: {words: txt}\n"))


def test_a_module_is_not_imported_for_a_dataset_that_is_not_trusted(
    written: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written("Notes", "field_map: {words: txt}\n")
    monkeypatch.delitem(sys.modules, MODULE)
    with pytest.raises(TrustError, match=f"asks to import {MODULE}"):
        samples(path)
    with pytest.raises(TrustError, match=f"asks to import {MODULE}"):
        get_dataset_from_config(path)


def test_a_dataset_cannot_allow_its_own_code_to_run(written: Callable[..., Path], tmp_path: Path) -> None:
    code = f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\ndef load(parts): return {{}}\n"
    asks = "sample_loader: sample_loader.py:load\n"
    for name, more, error in (
        ("Notes", asks, TrustError),
        ("Notes", f"{asks}trust_code: true\n", ConfigError),
        ("OwnDecoder", "decoder: null\n", ConfigError),
    ):
        path = written(name, more)
        (path / ".nv-meta/sample_loader.py").write_text(code)
        for load in (samples, get_dataset_from_config):
            with pytest.raises(error):
                load(path)
        shutil.rmtree(path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "module", ["megatron.energon", "megatron.energon.flavors.captioning", "loader", "loader.flavors"]
)
@pytest.mark.parametrize("name", ["TextWebdataset", "StandardWebdatasetFactory"])
def test_library_classes_are_found_by_any_of_their_modules(module: str, name: str, tmp_path: Path) -> None:
    config = f"__module__: {module}\n__class__: {name}\nfield_map: {{text: txt}}\n"
    if name.startswith("Standard"):
        config += "sample_type: {__module__: megatron.energon.flavors.text, __class__: TextSample}\n"
    path = write_texts(tmp_path, train=(1,), val=(2,), config=config)
    assert samples(path)[0].text == "text 1"
    factory = get_dataset_from_config(path, training=False, worker_config=ONE)
    assert type(factory).__name__ == name
    assert next(iter(get_loader(factory.build()))).text == "text 1"


class SetsDecoder(DefaultDecoderWebdatasetFactory[Note]):
    """Sets its decoder as classes written for megatron-energon do."""

    __sample_type__ = Note

    def __init__(self, path: EPath | Path, *, first: Any = None, last: Any = None, **kwargs: Any) -> None:
        if first is not None:
            self._decoder = first
        super().__init__(path, field_map={"words": "txt"}, **kwargs)
        if last is not None:
            self._decoder = last


def shout(sample: dict[str, Any]) -> dict[str, Any]:
    """Decode a whole sample, as the decoders of webdataset do."""
    assert sample["__key__"].startswith(sample["__shard__"])
    return {name: value.upper() if name == "txt" else value for name, value in sample.items()}


def words_of(factory: DefaultDecoderWebdatasetFactory[Any]) -> list[Any]:
    return sorted(sample.words for sample in get_loader(factory.build()))


def test_decoder_set_after_init(tmp_path: Path) -> None:
    """The `_decoder` that a subclass sets decodes its samples; one set before `super().__init__()` is replaced."""
    write_texts(tmp_path, train=(3,), val=(1,))
    options: dict[str, Any] = {"worker_config": ONE}
    texts, shouted = ["text 0", "text 1", "text 2"], [b"TEXT 0", b"TEXT 1", b"TEXT 2"]
    assert words_of(SetsDecoder(tmp_path, last=shout, **options)) == shouted
    assert words_of(SetsDecoder(tmp_path, last=shout, decoder=None, **options)) == shouted
    assert words_of(SetsDecoder(tmp_path, last=SampleDecoder(), decoder=None, **options)) == texts
    assert words_of(SetsDecoder(tmp_path, first=shout, **options)) == texts


def test_decoder_of_webdataset(tmp_path: Path) -> None:
    """A decoder of the package webdataset decodes the samples of a class."""
    from webdataset.autodecode import Decoder

    write_texts(tmp_path, train=(3,), val=(1,))
    decoder = Decoder([lambda key, data: data[-1:].decode() if key == ".txt" else None])
    factory = SetsDecoder(tmp_path, last=decoder, worker_config=ONE)
    assert words_of(factory) == ["0", "1", "2"]
    assert "decoder=Decoder" in str(factory.build())  # not its repr, whose address would refuse saved states


def test_decoder_set_by_a_class_in_dataset_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dataset class that ``dataset.yaml`` names decodes by the decoder it sets, not by that of the task encoder."""

    class Loud(SetsDecoder):
        def __init__(self, path: EPath, **kwargs: Any) -> None:
            super().__init__(path, last=shout, **kwargs)

    module = ModuleType(MODULE)
    module.Loud = Loud  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, MODULE, module)
    write_texts(tmp_path, train=(3,), val=(1,), config=f"__module__: {MODULE}\n__class__: Loud\n")
    dataset = get_val_dataset(
        tmp_path, split_part="train", batch_size=None, worker_config=ONE, task_encoder=DefaultTaskEncoder()
    )
    assert sorted(sample.words for sample in get_loader(dataset)) == [b"TEXT 0", b"TEXT 1", b"TEXT 2"]
