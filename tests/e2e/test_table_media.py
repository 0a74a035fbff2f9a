"""Pictures, sounds and classes in Parquet files of Hugging Face datasets, read where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from loader import (
    DefaultTaskEncoder,
    SampleDecoder,
    SampleError,
    WorkerConfig,
    get_loader,
    get_train_dataset,
    random_access,
)
from loader.dataset.opening import dataset_at
from loader.format.dataset_ref import DatasetRef
from loader.format.records import row_file
from loader.inspect import inspect_folder, propose_choices
from loader.inspect.prepare.choices import OpenChoices
from loader.inspect.sample_view import PreviewRequest
from loader.inspect.views import open_views
from loader.lint.report import LintPlan
from loader.lint.run import lint_dataset
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare
from loader.samples.building.check import DecodeCheck
from loader.samples.building.dataset_code import DatasetCode
from tests.hugging_face_tables import CLASSES, picture, sound, write_table

TYPED = """
sample_type: {__module__: megatron.energon, __class__: ImageClassificationSample}
field_map: {image: image, label: label, label_name: label_name}
"""


class Forms(DefaultTaskEncoder[Any, Any, Any, Any]):
    decoder = SampleDecoder(image_decode="rgb8", av_decode="torch")


class AsStored(DefaultTaskEncoder[Any, Any, Any, Any]):
    decoder = None


def prepared(folder: Path, text: str = "") -> Path:
    files = {"dataset.yaml": text} if text else {}
    run_prepare(PreparePlan(path=str(folder), split=SplitRequest(ratio={"train": 1.0}), files=files))
    return folder


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("media") / "ds/0.parquet", range(20)).parent


def expected(number: int) -> Any:
    return SampleDecoder(image_decode="rgb8").decode_part("png", picture(number))


def test_media_decode_by_the_settings_of_the_encoder(table: Path) -> None:
    sample = random_access(table / "0.parquet", "train", task_encoder=Forms())[5]
    assert np.array_equal(sample["image"], expected(5))
    assert [view.shape for view in sample["views"]] == [(16, 16, 3)] * 2
    assert sample["sound"].audio_clips[0].shape == (1, 100)
    assert (sample["label"], sample["label_name"]) == (1, CLASSES[1])
    assert isinstance(sample["noise"], bytes)  # its schema says of no picture
    stored = random_access(table / "0.parquet", "train", task_encoder=AsStored())[5]
    assert stored["image"] == {"bytes": picture(5), "path": "5.png"}
    assert stored["sound"]["bytes"] == sound(5)


def test_typed_samples_have_the_pictures_and_classes(tmp_path: Path) -> None:
    folder = prepared(write_table(tmp_path / "ds/0.parquet", range(20), columns=["image", "label"]).parent, TYPED)
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    dataset = get_train_dataset(
        folder, worker_config=config, batch_size=4, repeat=False, shuffle_buffer_size=10, max_samples_per_sequence=5,
        task_encoder=Forms(),
    )  # fmt: skip
    batches = list(get_loader(dataset))
    assert [name for batch in batches for name in batch.label_name] == [
        CLASSES[int(label)] for batch in batches for label in batch.label
    ]
    view = open_views(PreviewRequest(ref=DatasetRef(str(folder)))).view(7)
    assert [(field.name, view.fault) for field in view.fields] == [
        (name, None) for name in ("image", "label", "label_name")
    ]
    assert "(3, 16, 16)" in str(view.fields[0])


def test_only_the_columns_of_the_field_map_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = prepared(write_table(tmp_path / "ds/0.parquet", range(20)).parent, TYPED)
    read: list[Any] = []
    original = row_file.RowGroups.decode

    def decode(self: Any, group: int, names: Any = None) -> Any:
        decoded = original(self, group, names)
        read.append(decoded.column_names)
        return decoded

    monkeypatch.setattr(row_file.RowGroups, "decode", decode)
    assert random_access(folder, "train")[3].label_name == CLASSES[1]
    assert read == [["image", "label"]]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"bytes": b"\xff\xd8\xff broken", "path": None},
            r"column 'image': part 'image.jpg' is a JPEG picture, but is damaged",
        ),
        ({"bytes": b"<!DOCTYPE html><p>404", "path": "3.png"}, r"column 'image'.*is not an image"),
        ({"bytes": None, "path": "pictures/3.png"}, r"column 'image': it has no bytes, only the path"),
    ],
)
def test_a_value_that_does_not_decode_is_named_by_file_row_and_column(tmp_path: Path, value: Any, message: str) -> None:
    good = {"bytes": picture(1), "path": None}
    (tmp_path / "ds").mkdir()
    parquet.write_table(
        pa.table({"image": [good, good, value, {"bytes": None, "path": None}]}), tmp_path / "ds/a.parquet"
    )
    text = "sample_type: {__module__: megatron.energon, __class__: ImageSample}\nfield_map: {image: image}\n"
    folder = prepared(tmp_path / "ds", text)
    samples = random_access(folder, "train")
    assert samples[1].image.shape == (3, 16, 16)
    with pytest.raises(SampleError, match=message) as caught:
        samples[2]
    assert (caught.value.key, caught.value.part) == ("a.parquet/2", "image")

    def check(config: Any, meta: str) -> DecodeCheck:
        return DecodeCheck(config, DatasetCode(Path(meta), False))

    plan = LintPlan(ref=DatasetRef(str(folder)), make_sample_check=check, level="decode")
    found = [(finding.shard, finding.key) for finding in lint_dataset(plan).findings]
    assert ("a.parquet", "2") in found
    assert ("a.parquet", "0") not in found


def test_bytes_that_the_features_call_a_picture_are_one(tmp_path: Path) -> None:
    features = b'{"info": {"features": {"image": {"_type": "Image"}}}}'
    schema = pa.schema({"image": pa.binary(), "other": pa.binary()}, metadata={b"huggingface": features})
    rows = pa.table({"image": [picture(1)], "other": [picture(2)]}, schema=schema)
    parquet.write_table(rows, tmp_path / "a.parquet")
    sample = random_access(tmp_path / "a.parquet", "train", task_encoder=Forms())[0]
    assert np.array_equal(sample["image"], expected(1))
    assert sample["other"] == picture(2)


@pytest.mark.parametrize("metadata", [b"{", b"[]", b'{"info": {"features": {"image": 7, "label": {"_type": []}}}}'])
def test_damaged_features_are_ignored(tmp_path: Path, metadata: bytes) -> None:
    rows = pa.table({"image": [b"?"], "label": [3]}).replace_schema_metadata({b"huggingface": metadata})
    parquet.write_table(rows, tmp_path / "a.parquet")
    sample = random_access(tmp_path / "a.parquet", "train")[0]
    assert (sample["image"], sample["label"]) == (b"?", 3)


PROPOSALS: dict[str, tuple[dict[str, Any], str, dict[str, str]]] = {
    "captions": (
        {"picture": {"bytes": picture(1), "path": None}, "caption": "a cat", "id": "k1"},
        "Captioning",
        {"image": "picture", "caption": "caption"},
    ),
    "questions": (
        {"image": {"bytes": picture(1), "path": None}, "question": "why now?", "answers": ["so"]},
        "VQA",
        {"image": "image", "context": "question", "answers": "answers"},
    ),
    "chats": (
        {"images": [{"bytes": picture(1), "path": None}], "messages": [{"role": "user", "content": "<image> Hi"}]},
        "Conversation",
        {"turns": "messages", "images": "images"},
    ),
    "texts": ({"text": "some words"}, "Text", {"text": "text"}),
    "texts of chats": (
        {"conversations": [{"from": "human", "value": "Hi"}], "id": 3},
        "Conversation",
        {"turns": "conversations"},
    ),
}


@pytest.mark.parametrize("name", PROPOSALS)
def test_a_type_is_proposed_by_the_columns(tmp_path: Path, name: str) -> None:
    row, type_name, field_map = PROPOSALS[name]
    (tmp_path / "ds").mkdir()
    parquet.write_table(pa.Table.from_pylist([row]), tmp_path / "ds/a.parquet")
    choices = propose_choices(OpenChoices(inspect_folder(DatasetRef(str(tmp_path / "ds")))))
    assert choices.dataset_yaml is not None
    assert (choices.dataset_yaml.spec.short_name, choices.dataset_yaml.field_map) == (type_name, field_map)


def test_a_table_with_a_column_of_unknown_bytes_stays_crude(table: Path) -> None:
    proposal = inspect_folder(DatasetRef(str(table))).contents.proposal
    assert proposal.sample_types[0].crude
    assert "column 'noise' is of bytes" in str(proposal.reason)


def test_lists_of_urls_are_texts(tmp_path: Path) -> None:
    (tmp_path / "ds").mkdir()
    row = {"texts": [None, "some words"], "images": ["https://example.org/a.jpg", None], "metadata": "{}"}
    parquet.write_table(pa.Table.from_pylist([row]), tmp_path / "ds/a.parquet")
    proposal = inspect_folder(DatasetRef(str(tmp_path / "ds"))).contents.proposal
    assert proposal.sample_types[0].crude
    assert str(proposal.reason).startswith("no sample type has fields for texts, images, metadata")


def test_raw_parts_are_shown_and_read_as_the_files_that_they_hold(table: Path) -> None:
    dataset = dataset_at(DatasetRef(str(table / "0.parquet")))
    assert dataset.read(5, "image") == picture(5)
    view = open_views(PreviewRequest(ref=DatasetRef(str(table / "0.parquet")))).view(5)
    (shown,) = [field for field in view.fields if field.name == "image"]
    assert (shown.type, len(shown.pictures)) == ("image", 1)
