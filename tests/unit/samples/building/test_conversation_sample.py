from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from PIL import Image

from loader import ConversationSample, SampleDecoder, Turn
from loader.errors import SampleError
from loader.format.documents.dataset_config import parse_dataset_config
from loader.format.documents.sample_types import SAMPLE_TYPES
from loader.prepare.dataset_yaml import DatasetYaml, dataset_config_of
from loader.samples import DecodeCheck, SampleBuilder, generic_batch
from loader.samples.building.dataset_code import DatasetCode
from tests.unit.samples.image_corpus import encode, pattern

JPEG = encode(Image.fromarray(pattern(8, 8)), "JPEG")
TURNS = [{"from": "human", "value": "<image>\nWho?"}, {"from": "gpt", "value": "A cat."}]
YAML = """\
sample_type: {__module__: loader, __class__: ConversationSample}
field_map: {turns: "json[conversations]", images: "jpg,png"}
"""
CONFIG = parse_dataset_config(YAML, file="dataset.yaml")


def build(parts: dict[str, bytes]) -> Any:
    builder = SampleBuilder(CONFIG, DatasetCode(Path(), trust_code=False), decoder=SampleDecoder())
    return builder.build(parts, key="s.tar/0")


def parts_of(*, turns: object = TURNS, images: int = 1) -> dict[str, bytes]:
    return {"json": json.dumps({"conversations": turns}).encode()} | ({"jpg": JPEG} if images else {})


def test_a_field_map_builds_turns_and_images() -> None:
    sample = build(parts_of())
    assert type(sample) is ConversationSample
    assert sample.turns == [Turn("user", [0, "\nWho?"]), Turn("assistant", ["A cat."])]
    assert [image.shape[0] for image in sample.images] == [3]
    assert pickle.loads(pickle.dumps(sample)).turns == sample.turns


def test_text_alone_has_no_images() -> None:
    sample = build(parts_of(turns=TURNS[1:], images=0))
    assert (sample.images, [turn.text for turn in sample.turns]) == ([], ["A cat."])


def test_a_batch_lists_turns_and_images_of_each_sample() -> None:
    batch = generic_batch([build(parts_of()), build(parts_of(turns=TURNS[1:], images=0))])
    assert type(batch) is ConversationSample
    assert list(map(len, cast("Any", batch.turns))) == [2, 1]
    assert [len(images) for images in batch.images] == [1, 0]
    assert torch.is_tensor(batch.images[0][0])


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (parts_of(images=0), "found 1 place of images (<image>), expected 0"),
        (parts_of(turns=["Hi"]), "message 0: expected an object, found str"),
    ],
)
def test_building_and_lint_find_the_same_faults(parts: dict[str, bytes], message: str) -> None:
    with pytest.raises(SampleError) as caught:
        build(parts)
    assert message in caught.value.message
    ((_, fault),) = DecodeCheck(CONFIG, DatasetCode(Path(), trust_code=False))("0", parts)
    assert message in fault


def test_lint_finds_no_fault_in_good_samples() -> None:
    assert DecodeCheck(CONFIG, DatasetCode(Path(), trust_code=False))("0", parts_of()) == []


def test_megatron_energon_has_no_such_type() -> None:
    names = (Path(__file__).parents[3] / "golden/megatron_energon").glob("*")
    assert not any("ConversationSample" in path.read_text() for path in names if path.is_file())
    spec = SAMPLE_TYPES["ConversationSample"]
    assert dataset_config_of(DatasetYaml(spec=spec, field_map={"turns": "json"})).module == "loader"
