from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from loader.errors import ConfigError
from loader.format.documents.dataset_config import (
    DatasetConfig,
    format_dataset_config,
    is_own_module,
    parse_dataset_config,
)
from loader.format.documents.field_map import parse_field_map

CAPTIONING = """\
sample_type:
  __module__: megatron.energon
  __class__: CaptioningSample
field_map:
  image: jpg,png
  caption: json[caption]
"""


def parse(text: str) -> DatasetConfig:
    return parse_dataset_config(text, file="dataset.yaml")


def faults_of(text: str) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert caught.value.file == "dataset.yaml"
    return {fault.place: fault.message for fault in caught.value.faults}


def test_the_first_form_maps_fields_to_parts() -> None:
    config = parse(CAPTIONING)
    assert config.sample_type == "CaptioningSample"
    assert config.module == "megatron.energon"
    assert not config.crude
    assert config.field_map == parse_field_map({"image": "jpg,png", "caption": "json[caption]"}, file="")
    assert config.spec is not None
    assert config.spec.short_name == "Captioning"


def test_the_second_form_names_code() -> None:
    config = parse(
        "sample_type: {__module__: megatron.energon, __class__: OCRSample}\n"
        "sample_loader: sample_loader.py:sample_loader\n"
        "part_filter: sample_loader.py:part_filter\n"
    )
    assert config.sample_loader == "sample_loader.py:sample_loader"
    assert config.part_filter == "sample_loader.py:part_filter"


def test_a_part_filter_may_be_a_list_of_names() -> None:
    config = parse("__class__: CrudeWebdataset\npart_filter: [jpg, seg.png]")
    assert config.part_filter == ("jpg", "seg.png")


def test_the_third_form_names_a_dataset_class() -> None:
    config = parse("__module__: megatron.energon\n__class__: CrudeWebdataset\nsubflavors: {source: coco, 1: one}")
    assert config == DatasetConfig(sample_type="CrudeSample", crude=True, subflavors={"source": "coco", "1": "one"})


def test_legacy_dataset_classes_are_their_sample_type() -> None:
    config = parse("__class__: VQAWebdataset\nfield_map: {image: jpg, context: txt}\nsubflavors: {a: 1}")
    assert (config.sample_type, config.dataset_class) == ("VQASample", "VQAWebdataset")
    assert config.subflavors == {"a": 1}


@pytest.mark.parametrize(
    "module", ["megatron.energon", "megatron.energon.flavors.captioning", "loader", "loader.samples"]
)
def test_our_classes_may_be_named_by_any_of_our_modules(module: str) -> None:
    config = parse(CAPTIONING.replace("megatron.energon", module))
    assert config.module == module
    assert config.spec is not None


def test_a_module_that_only_starts_like_ours_is_not_ours() -> None:
    assert not is_own_module("loaders")
    assert not is_own_module("megatron.energonx")
    assert parse("sample_type: {__module__: loaders, __class__: X}\nfield_map: {a: jpg}").spec is None


def test_the_module_is_ours_where_none_is_written() -> None:
    assert parse("sample_type: {__class__: TextSample}\nfield_map: {text: txt}").module == "megatron.energon"


def test_a_generic_dataset_class_needs_a_sample_type() -> None:
    config = parse("__class__: StandardWebdatasetFactory\nsample_type: {__class__: TextSample}\nfield_map: {text: txt}")
    assert (config.sample_type, config.dataset_class) == ("TextSample", "StandardWebdatasetFactory")
    assert faults_of("__class__: StandardWebdatasetFactory") == {"": "StandardWebdatasetFactory needs a 'sample_type'"}


def test_classes_of_other_modules_are_kept_as_written() -> None:
    config = parse("sample_type: {__module__: my.code, __class__: Mine}\nfield_map: {anything: jpg}")
    assert (config.module, config.sample_type, config.crude) == ("my.code", "Mine", False)
    config = parse("__module__: my.code\n__class__: MyDatasets\nspeed: 3")
    assert (config.module, config.sample_type, config.dataset_class) == ("my.code", None, "MyDatasets")
    assert config.extra == {"speed": 3}


def test_decoding_options_of_legacy_classes_are_kept_aside() -> None:
    config = parse("__class__: ImageWebdataset\nfield_map: {image: jpg}\nimage_decode: pil\nsubflavor: x")
    assert config.extra == {"image_decode": "pil", "subflavor": "x"}


def test_all_faults_are_reported_at_once_with_their_places() -> None:
    assert faults_of(
        "sample_type: {__module__: megatron.energon, __class__: CaptionSample, modul: x}\n"
        "feild_map: {}\n"
        "field_map: {image: 'jpg[', 3: jpg}\n"
        "sample_loader: loader\n"
        "part_filter: [1]\n"
        "subflavors: [a]\n"
    ) == {
        "sample_type.modul": "there is no such key; did you mean '__module__'?",
        "sample_type.__class__": "there is no sample type 'CaptionSample'; did you mean 'CaptioningSample'?",
        "feild_map": "there is no such key; did you mean 'field_map'?",
        "field_map.image": "expected ',', '[' or the end at character 4 of 'jpg['",
        "field_map.3": "expected the name of a field, found 3",
        "sample_loader": "expected 'file.py:function' (a file in .nv-meta), found 'loader'",
        "part_filter[0]": "expected the name of a part, found 1; put it in quotes",
        "subflavors": "expected a mapping, found ['a']",
    }


def test_all_values_that_do_not_fit_together_are_reported_at_once() -> None:
    assert faults_of(
        "__class__: TextWebdataset\n"
        "sample_type: {__module__: megatron.energon, __class__: CaptionSample}\n"
        "field_map: {image: jpg}\n"
        "sample_loader: sample_loader.py:load\n"
        "subflavors: {a: 1}\n"
        "tags: {a: 1}\n"
    ) == {
        "sample_type": "TextWebdataset means TextSample; remove one of the two",
        "sample_type.__class__": "there is no sample type 'CaptionSample'; did you mean 'CaptioningSample'?",
        "sample_loader": "expected either 'field_map' or 'sample_loader', found both",
        "tags": "this is another name of 'subflavors', which is here, too; remove one of them",
    }


@pytest.mark.parametrize(
    ("text", "place", "found"),
    [
        ("{}", "", "expected 'sample_type' or '__class__', found an empty mapping"),
        ("x: 1", "", "expected 'sample_type' or '__class__', found 'x'"),
        ("__class__: CaptioningWebdatset", "__class__", "did you mean 'CaptioningWebdataset'?"),
        ("__class__: MetadatasetV2", "__class__", "this describes a metadataset"),
        ("__class__: [a]", "__class__", "expected the name of a class, found ['a']"),
        ("__module__: megatron.energon", "__class__", "expected the name of a class, found nothing"),
        ("__class__: ''", "__class__", "expected the name of a class, found ''"),
        ("__module__: 3\n__class__: X", "__module__", "expected the name of a module, found 3"),
        ("sample_type: TextSample", "sample_type", "expected a mapping with '__module__' and '__class__'"),
        ("sample_type: 3", "sample_type", "expected a mapping with '__module__' and '__class__', found 3"),
        (
            "__class__: CrudeWebdataset\nsample_type: {__class__: TextSample}",
            "sample_type",
            "means CrudeSample; remove one",
        ),
        ("sample_type: {}", "sample_type.__class__", "expected the name of a class, found nothing"),
        (
            "__class__: TextWebdataset",
            "",
            "expected 'field_map' or 'sample_loader' for a TextSample, found neither",
        ),
        ("__class__: TextWebdataset\nfield_map: 3", "field_map", "expected a mapping of fields to parts, found 3"),
        ("__class__: TextWebdataset\nfield_map: {txt: txt}", "field_map", "field 'text' of TextSample is missing"),
        ("__class__: TextWebdataset\nfield_map: {text: txt, tex: a}", "field_map.tex", "did you mean 'text'?"),
        ("__class__: CrudeWebdataset\nfield_map: {a: b}", "field_map", "crude samples have no fields to fill"),
        ("__class__: CrudeWebdataset\nsample_loader: a.py:b", "sample_loader", "crude samples have no fields to fill"),
        ("__class__: TextWebdataset\nsample_loader: a.py:b\nfield_map: {text: txt}", "sample_loader", "found both"),
        ("__class__: TextWebdataset\nsample_loader: a.py:1b", "sample_loader", "expected 'file.py:function'"),
        ("__class__: TextWebdataset\nsample_loader: 3", "sample_loader", "expected 'file.py:function'"),
        ("__class__: CrudeWebdataset\npart_filter: jpg", "part_filter", "expected 'file.py:function'"),
        ("__class__: CrudeWebdataset\n3: jpg", "3", "there is no such key"),
    ],
)
def test_each_fault_names_its_place_and_what_was_expected(text: str, place: str, found: str) -> None:
    assert found in faults_of(text)[place]


@pytest.mark.parametrize(("text", "found"), [("", "nothing"), ("[a]", r"\['a'\]"), ("text", "'text'")])
def test_a_document_that_is_no_mapping_is_refused(text: str, found: str) -> None:
    with pytest.raises(ConfigError, match=f"expected a mapping .*found {found}"):
        parse(text)


def test_a_document_that_does_not_parse_is_refused_with_its_place() -> None:
    with pytest.raises(ConfigError) as caught:
        parse("sample_type: {\n  __class__: X\nfield_map: 3")
    assert caught.value.faults[0].place == "line 3, column 10"


def test_no_object_is_constructed() -> None:
    with pytest.raises(ConfigError, match="could not determine a constructor"):
        parse("!!python/object/apply:os.system [ls]")


TEXTS = [
    CAPTIONING,
    "__module__: megatron.energon\n__class__: CrudeWebdataset\n",
    "__module__: megatron.energon\n__class__: CrudeWebdataset\npart_filter:\n- jpg\nsubflavors:\n  é: [1, {a: null}]\n",
    "__class__: CaptioningWebdataset\nfield_map: {image: jpg, caption: txt}\nsubflavors: {a: 1}\nimage_decode: pil",
    "sample_type: {__module__: my.code, __class__: Mine}\nsample_loader: sample_loader.py:load\npart_filter: a.py:b",
    "__class__: TextWebdataset\nsample_type: {__class__: TextSample}\nfield_map: {text: txt}",
    "__module__: my.code\n__class__: MyDatasets\nspeed: 3",
    "__module__: my.code\n__class__: MyDatasets\nsample_type: {__class__: TextSample}\nfield_map: {text: txt}",
    "__module__: my.code\n__class__: TextWebdataset\nsample_type: {__class__: TextSample}\nfield_map: {text: txt}",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_config_is_read_back_as_it_was_written(text: str) -> None:
    config = parse(text)
    assert parse(format_dataset_config(config)) == config


def test_what_is_written_is_what_people_write() -> None:
    written = format_dataset_config(parse(CAPTIONING))
    remark = "  # a shared name: needs no megatron-energon"
    assert written == CAPTIONING.replace("__module__: megatron.energon", f"__module__: megatron.energon{remark}")


def test_values_are_written_in_full_rather_than_by_reference() -> None:
    shared = {"k": [1]}
    config = replace(parse(TEXTS[1]), subflavors={"a": shared, "b": shared})
    assert "&" not in format_dataset_config(config)
    assert yaml.safe_load(format_dataset_config(config))["subflavors"] == {"a": shared, "b": shared}
