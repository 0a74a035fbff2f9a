"""Views of the samples that a request selects."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader import ConfigError
from loader.format.dataset_ref import DatasetRef
from loader.format.jsonl import prepare_jsonl
from loader.inspect import PreviewRequest, open_views
from loader.storage import open_parent
from tests.unit.inspect.prepared import prepare_captions


@pytest.fixture(scope="module")
def captions(tmp_path_factory: pytest.TempPathFactory) -> str:
    return prepare_captions(tmp_path_factory.mktemp("views") / "captions")


def test_a_sample_is_described_by_its_fields(captions: str) -> None:
    decoded = []
    total, view = open_views(PreviewRequest(ref=DatasetRef(captions), on_decode=lambda: decoded.append(True)))
    sample = view(0)
    assert (total, decoded) == (12, [True])
    assert sample.title == "shard_000.tar/000000   sample 0 of 12"
    assert [field.name for field in sample.fields] == ["image", "caption"]
    assert sample.fault is None


def test_a_crude_request_views_raw_parts_and_decodes_nothing(captions: str) -> None:
    decoded = []
    _, view = open_views(PreviewRequest(ref=DatasetRef(captions), crude=True, on_decode=lambda: decoded.append(True)))
    assert ({field.name for field in view(0).fields} >= {"jpg", "txt"}, decoded) == (True, [])


def test_split_parts_keys_and_seeds_select_samples(captions: str) -> None:
    assert open_views(PreviewRequest(ref=DatasetRef(captions), split_parts=("val",))).total == 3
    total, view = open_views(PreviewRequest(ref=DatasetRef(captions), key="000004"))
    assert (total, view(0).title) == (1, "shard_001.tar/000004   sample 4 of 12")
    total, view = open_views(PreviewRequest(ref=DatasetRef(captions), crude=True, seed=1))
    keys = [view(place).title.split()[0] for place in range(total)]
    assert len(set(keys)) == 12
    assert keys != sorted(keys)
    with pytest.raises(ConfigError, match="no sample has the key"):
        open_views(PreviewRequest(ref=DatasetRef(captions), key="none"))


def test_a_field_that_cannot_be_filled_is_a_fault_of_the_view(tmp_path: Path) -> None:
    path = prepare_captions(tmp_path / "captions", {"image": "jpg", "caption": "json[nowhere]"})
    sample = open_views(PreviewRequest(ref=DatasetRef(path))).view(0)
    assert "nowhere" in (sample.fault or "")
    assert "jpg" in {field.name for field in sample.fields}


def test_lines_of_a_jsonl_file_are_samples(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "a"}\n{"text": "b"}\n')
    prepare_jsonl(*open_parent(path))
    total, view = open_views(PreviewRequest(ref=DatasetRef(str(path))))
    assert (total, view(1).title) == (2, "texts.jsonl/1   sample 1 of 2")
    [field] = view(1).fields
    assert '"text": "b"' in (field.text or "")


def test_samples_of_a_mix_name_their_dataset(captions: str, tmp_path: Path) -> None:
    mix = tmp_path / "mix.yaml"
    mix.write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend_epochized:\n"
        f"      - {{path: {captions}}}\n      - {{path: {captions}, split_part: val, subflavors: {{kind: art}}}}\n"
    )
    total, view = open_views(PreviewRequest(ref=DatasetRef(str(mix))))
    assert total == 9
    assert view(0).origin == f"from {captions} (train)"
    assert view(8).origin == f"from {captions} (val), kind: art"
    assert open_views(PreviewRequest(ref=DatasetRef(str(mix)), key="000000")).view(0).origin == view(0).origin
