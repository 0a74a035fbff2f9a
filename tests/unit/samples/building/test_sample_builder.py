from __future__ import annotations

import dataclasses
import importlib
import json
import multiprocessing
import pickle
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from loader.errors import ConfigError, SampleError, SkipSample, TrustError
from loader.format.documents.dataset_config import DatasetConfig, parse_dataset_config
from loader.samples import CaptioningSample, CrudeSample, Sample, SampleBuilder, SampleDecoder, SourceInfo, TextSample
from loader.samples.building.dataset_code import DatasetCode
from loader.samples.edataclass import edataclass
from tests.unit.samples.image_corpus import encode, pattern

JPEG = encode(Image.fromarray(pattern(8, 9)), "JPEG")
CAPTIONING = "sample_type: {__class__: CaptioningSample}\nfield_map: {image: 'png,jpg', caption: 'json[caption],txt'}\n"
CODE = """\
def sample_loader(sample):
    assert sample["__key__"] == "s.tar/0"
    return {"text": sample["txt"] + "!"}

def whole(sample):
    from loader.samples import TextSample
    return TextSample(__key__="mine", text=sample["txt"])

def wrong(sample):
    return {"txt": "x"}

def nothing(sample):
    return None

def skipping(sample):
    from loader.errors import SkipSample
    raise SkipSample

def part_filter(part):
    return part.startswith("t")
"""


@edataclass
class OwnSample(Sample):
    picture: Any
    note: str = "none"


@dataclasses.dataclass
class PlainSample:
    __key__: str
    text: str


@dataclasses.dataclass
class FailingSample:
    text: str

    def __post_init__(self) -> None:
        raise TypeError("my own fault")


class OwnCrude(CrudeSample):
    pass


class Factory:
    __sample_type__ = OwnSample


@pytest.fixture
def own_module(monkeypatch: pytest.MonkeyPatch) -> str:
    module = ModuleType("imported_already")
    module.__dict__.update(
        OwnSample=OwnSample,
        PlainSample=PlainSample,
        FailingSample=FailingSample,
        OwnCrude=OwnCrude,
        Factory=Factory,
        function=len,
        NoSample=int,
    )
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module.__name__


@pytest.fixture
def meta_folder(tmp_path: Path) -> Path:
    (tmp_path / "sample_loader.py").write_text(CODE)
    return tmp_path


def config_of(text: str) -> DatasetConfig:
    return parse_dataset_config(text, file="dataset.yaml")


def builder_of(text: str | None, meta_folder: Path = Path("none"), **options: Any) -> SampleBuilder:
    given: dict[str, Any] = {"decoder": SampleDecoder(image_decode="rgb8")} | options
    code = DatasetCode(meta_folder, given.pop("trust_code", False))
    return SampleBuilder(None if text is None else config_of(text), code, **given)


def test_a_field_map_fills_the_sample() -> None:
    source = SourceInfo(dataset_path="/d", index=7, shard_name="s.tar", file_names=("0.jpg", "0.json"))
    sample = builder_of(CAPTIONING + "subflavors: {a: 1, b: 1}").build(
        {"jpg": JPEG, "json": b'{"caption": "cat"}'},
        key="s.tar/0",
        restore_key=("Webdataset", 7),
        subflavors={"b": 2},
        sources=[source],
    )
    assert type(sample) is CaptioningSample
    assert sample.image.shape == (8, 9, 3)
    assert sample.caption == "cat"
    assert (sample.__key__, sample.__restore_key__) == ("s.tar/0", ("Webdataset", 7))
    assert sample.__subflavors__ == {"a": 1, "b": 2}
    assert sample.__sources__ == (source,)


def test_samples_do_not_share_their_subflavors() -> None:
    builder = builder_of(CAPTIONING + "subflavors: {a: 1}")
    first, second = (builder.build({"jpg": JPEG, "txt": b"x"}, key=str(i)) for i in range(2))
    first.__subflavors__["a"] = 2
    assert second.__subflavors__ == {"a": 1}


def test_only_used_parts_are_decoded() -> None:
    parts = {"jpg": JPEG, "png": JPEG, "json": b'{"caption": "cat"}', "txt": b"\xff broken", "other": b""}
    assert builder_of(CAPTIONING).build(parts, key="0").caption == "cat"


def test_a_part_is_decoded_once_for_all_fields() -> None:
    class Counting(SampleDecoder):
        def decode_part(self, part_name: str, data: bytes, *, trust_code: bool = False) -> Any:
            decoded.append(part_name)
            return super().decode_part(part_name, data, trust_code=trust_code)

    decoded: list[str] = []
    text = "sample_type: {__class__: VQASample}\nfield_map: {image: jpg, context: 'json[q]', answers: 'json[a]'}"
    builder_of(text, decoder=Counting(image_decode="rgb8")).build(
        {"jpg": JPEG, "json": b'{"q": "?", "a": []}'}, key="0"
    )
    assert decoded == ["jpg", "json"]


def test_part_filter_accepts_the_parts_of_the_field_map() -> None:
    builder = builder_of(CAPTIONING)
    assert [name for name in ("jpg", "png", "json", "txt", "cls") if builder.part_filter(name)] == [
        "jpg",
        "png",
        "json",
        "txt",
    ]


def test_without_a_config_samples_are_crude() -> None:
    builder = builder_of(None)
    sample = builder.build({"txt": b"cat", "bin": b"\0"}, key="s.tar/0")
    assert type(sample) is CrudeSample
    assert sample == {
        "txt": "cat",
        "bin": b"\0",
        "__key__": "s.tar/0",
        "__restore_key__": (),
        "__subflavors__": {},
        "__sources__": (),
    }
    assert builder.part_filter("anything")
    assert builder.sample_class is CrudeSample


def test_a_crude_sample_names_its_shard() -> None:
    source = SourceInfo(dataset_path="/d", index=7, shard_name="sub/s.tar", file_names=("0.txt",))
    sample = builder_of(None).build({"txt": b"cat"}, key="sub/s.tar/0", sources=[source])
    assert sample["__shard__"] == "sub/s.tar"


def test_a_crude_dataset_may_list_its_parts() -> None:
    builder = builder_of("__class__: CrudeWebdataset\npart_filter: [txt]\nsubflavors: {a: 1}")
    assert builder.part_filter("txt")
    assert not builder.part_filter("jpg")
    assert builder.build({"txt": b"cat"}, key="0")["__subflavors__"] == {"a": 1}


def test_without_a_decoder_parts_stay_bytes() -> None:
    assert builder_of(None, decoder=None).build({"json": b"{}"}, key="0")["json"] == b"{}"
    text = "__class__: TextWebdataset\nfield_map: {text: txt}"
    assert builder_of(text, decoder=None).build({"txt": b"cat"}, key="0").text == b"cat"


def test_an_optional_field_that_is_missing_keeps_its_default(own_module: str) -> None:
    text = "__class__: ImageClassificationWebdataset\nfield_map: {image: jpg, label: cls, label_name: 'json[name]'}"
    sample = builder_of(text).build({"jpg": JPEG, "json": b"{}"}, key="0")
    assert (sample.label, sample.label_name) == (None, None)
    text = f"sample_type: {{__module__: {own_module}, __class__: OwnSample}}\nfield_map: {{picture: jpg, note: txt}}"
    assert builder_of(text).build({"jpg": JPEG}, key="0").note == "none"


def test_an_error_names_the_sample_the_part_and_the_place() -> None:
    source = SourceInfo(dataset_path="/d", index=7, shard_name="s.tar", file_names=("0.jpg",))
    with pytest.raises(SampleError) as caught:
        builder_of(CAPTIONING).build({"jpg": b"no jpeg", "txt": b"x"}, key="s.tar/0", sources=[source])
    error = caught.value
    assert error.message == "sample 's.tar/0': part 'jpg' is not an image, but a text (it starts with b'no jpeg')"
    assert (error.key, error.part, error.source) == ("s.tar/0", "jpg", "/d/s.tar: 0.jpg")
    with pytest.raises(SampleError, match=r"sample 's.tar/0': field 'caption' .* is missing"):
        builder_of(CAPTIONING).build({"jpg": JPEG}, key="s.tar/0")


def test_a_sample_loader_builds_the_fields(meta_folder: Path) -> None:
    text = "__class__: TextWebdataset\nsample_loader: sample_loader.py:{}\npart_filter: sample_loader.py:part_filter"
    with pytest.raises(TrustError, match=r"dataset.yaml asks to run sample_loader\(\) of sample_loader.py"):
        builder_of(text.format("sample_loader"), meta_folder)
    builder = builder_of(text.format("sample_loader"), meta_folder, trust_code=True)
    assert builder.build({"txt": b"cat"}, key="s.tar/0") == TextSample(__key__="s.tar/0", text="cat!", **SHARED)
    assert builder.part_filter("txt")
    assert not builder.part_filter("jpg")
    whole = builder_of(text.format("whole"), meta_folder, trust_code=True)
    assert whole.build({"txt": b"cat"}, key="0").__key__ == "mine"
    assert builder_of(text.format("whole").split("part_filter")[0], meta_folder, trust_code=True).part_filter("x")


SHARED: dict[str, Any] = {"__restore_key__": (), "__subflavors__": {}, "__sources__": ()}


def test_the_result_of_a_sample_loader_is_checked(meta_folder: Path) -> None:
    text = "__class__: TextWebdataset\nsample_loader: sample_loader.py:"
    builder = builder_of(text + "wrong", meta_folder, trust_code=True)
    with pytest.raises(SampleError, match="cannot build a TextSample: it has no field 'txt', field 'text' is missing"):
        builder.build({"txt": b"cat"}, key="0")
    builder = builder_of(text + "nothing", meta_folder, trust_code=True)
    with pytest.raises(SampleError, match="returned NoneType; expected a dict of the fields of TextSample"):
        builder.build({"txt": b"cat"}, key="0")
    builder = builder_of(text + "skipping", meta_folder, trust_code=True)
    with pytest.raises(SkipSample):
        builder.build({"txt": b"cat"}, key="0")


def test_a_class_whose_module_is_imported_needs_no_trust(own_module: str) -> None:
    text = f"sample_type: {{__module__: {own_module}, __class__: OwnSample}}\nfield_map: {{picture: jpg}}"
    sample = builder_of(text).build({"jpg": JPEG}, key="0")
    assert type(sample) is OwnSample
    text = f"sample_type: {{__module__: {own_module}, __class__: PlainSample}}\nfield_map: {{text: txt}}"
    assert builder_of(text).build({"txt": b"cat"}, key="0") == PlainSample("0", "cat")


def test_a_dataset_class_of_another_module_defines_the_sample_type(own_module: str) -> None:
    builder = builder_of(f"__module__: {own_module}\n__class__: Factory")
    assert builder.sample_class is OwnSample
    assert builder.build({"picture": b"?", "unknown": b""}, key="0").picture == b"?"
    with pytest.raises(ConfigError, match=r"imported_already.OwnSample has no __sample_type__"):
        builder_of(f"__module__: {own_module}\n__class__: OwnSample")


def test_crude_classes_of_other_modules_stay_crude(own_module: str, meta_folder: Path) -> None:
    text = f"sample_type: {{__module__: {own_module}, __class__: OwnCrude}}\nsample_loader: sample_loader.py:wrong"
    sample = builder_of(text, meta_folder, trust_code=True).build({}, key="0")
    assert type(sample) is OwnCrude
    assert (sample["txt"], sample["__key__"]) == ("x", "0")


def test_errors_of_the_sample_class_propagate(own_module: str) -> None:
    text = f"sample_type: {{__module__: {own_module}, __class__: FailingSample}}\nfield_map: {{text: txt}}"
    with pytest.raises(TypeError, match="my own fault"):
        builder_of(text).build({"txt": b"cat"}, key="0")


def refusal_in_a_worker() -> str:
    with pytest.raises(TrustError) as caught:
        builder_of("sample_type: {__module__: far_module, __class__: Far}\nfield_map: {text: txt}")
    return str(caught.value)


@pytest.mark.slow
def test_the_hint_in_a_spawned_worker_names_where_to_import() -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as workers:
        said = workers.submit(refusal_in_a_worker).result(timeout=60)
    assert "import far_module before loading the dataset at the top of your script, which spawned workers" in said


def test_a_class_of_a_module_that_is_not_imported_needs_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "far_module.py").write_text(
        "from loader.samples import TextSample\nclass Far(TextSample):\n    pass\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    text = "sample_type: {__module__: far_module, __class__: Far}\nfield_map: {text: txt}"
    with pytest.raises(TrustError) as caught:
        builder_of(text)
    assert "dataset.yaml asks to import far_module for its class Far" in str(caught.value)
    assert "import far_module before loading the dataset;" in str(caught.value)
    assert "far_module" not in sys.modules
    assert builder_of(text, trust_code=True).build({"txt": b"x"}, key="0").text == "x"
    monkeypatch.delitem(sys.modules, "far_module")
    missing = text.replace("far_module", "no_such_module")
    with pytest.raises(ConfigError, match=r"dataset.yaml names no_such_module.Far, but: No module named"):
        builder_of(missing, trust_code=True)


def test_lazy_imports_of_a_module_need_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module may import its names on first access (PEP 562)."""
    (tmp_path / "lazy_module.py").write_text(
        "def __getattr__(name):\n    import late_module\n    return getattr(late_module, name)\n",
        encoding="utf-8",
    )
    (tmp_path / "late_module.py").write_text(
        "from loader.samples import TextSample\nclass Far(TextSample):\n    pass\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "lazy_module", importlib.import_module("lazy_module"))
    text = "sample_type: {__module__: lazy_module, __class__: Far}\nfield_map: {text: txt}"
    with pytest.raises(TrustError, match="name the module that defines it"):
        builder_of(text)
    assert "late_module" not in sys.modules
    assert builder_of(text, trust_code=True).build({"txt": b"x"}, key="0").text == "x"
    monkeypatch.delitem(sys.modules, "late_module")
    (tmp_path / "late_module.py").unlink()
    with pytest.raises(ConfigError, match=r"names lazy_module.Far, but: No module named 'late_module'"):
        builder_of(text, trust_code=True)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("NoSample", "is not a sample class; expected a dataclass"),
        ("function", "is not a sample class; expected a dataclass"),
        ("OwnSampel", "module imported_already has no class 'OwnSampel'; did you mean 'OwnSample'"),
    ],
)
def test_an_imported_name_that_is_no_sample_class_is_refused(own_module: str, name: str, found: str) -> None:
    with pytest.raises(ConfigError, match=found):
        builder_of(f"sample_type: {{__module__: {own_module}, __class__: {name}}}\nfield_map: {{a: txt}}")


def test_a_dataset_cannot_start_a_program_through_an_imported_class() -> None:
    text = "sample_type: {__module__: subprocess, __class__: Popen}\nfield_map: {args: txt}"
    with pytest.raises(ConfigError, match="is not a sample class"):
        builder_of(text)


def test_a_builder_pickles(meta_folder: Path) -> None:
    for text, parts in (
        (CAPTIONING, {"jpg": JPEG, "txt": b"cat"}),
        ("__class__: TextWebdataset\nsample_loader: sample_loader.py:sample_loader", {"txt": b"cat"}),
        (None, {"txt": b"cat"}),
    ):
        builder = builder_of(text, meta_folder, trust_code=True)
        copy = pickle.loads(pickle.dumps(builder))
        ours, theirs = (each.build(parts, key="s.tar/0") for each in (builder, copy))
        assert str(ours) == str(theirs)


def test_the_default_decoder_gives_float_tensors() -> None:
    sample = builder_of(CAPTIONING, decoder=SampleDecoder()).build({"jpg": JPEG, "txt": b"cat"}, key="0")
    assert sample.image.dtype == torch.float32
    assert sample.image.shape == (3, 8, 9)
    assert np.allclose(sample.image.permute(1, 2, 0).numpy() * 255, np.asarray(pattern(8, 9)), atol=60)


def test_values_inside_json_reach_their_fields() -> None:
    text = "__class__: MultiChoiceVQAWebdataset\nfield_map: {image: jpg, context: 'json[q][0]', choices: 'json[c]'}"
    parts = {"jpg": JPEG, "json": json.dumps({"q": ["which?"], "c": ["a", "b"]}).encode()}
    sample = builder_of(text).build(parts, key="0")
    assert (sample.context, sample.choices) == ("which?", ["a", "b"])
