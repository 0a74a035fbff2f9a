"""``dss://`` URLs name versions of datasets in a folder of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader import WorkerConfig, get_train_dataset
from loader.errors import ConfigError
from loader.storage import open_storage
from tests.e2e.dataset_tree import prepare, write_shards


def test_a_version_of_a_dataset_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVDATASET_CACHE_DIR", str(tmp_path))
    prepare(write_shards(tmp_path / "coco/v1.2/train", 2, samples=10), compat=False)
    assert open_storage("dss://coco@v1.2/train").path("") == str(tmp_path / "coco/v1.2/train")
    dataset = get_train_dataset(
        "dss://coco@v1.2/train",
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0),
        batch_size=4,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
    )
    assert "coco/v1.2/train" in str(dataset)


@pytest.mark.parametrize(
    "url", ["dss://coco/train", "dss://@v1/x", "dss://coco@/x", "dss://coco@../x", "dss://a@b/../x"]
)
def test_a_url_without_a_version_is_refused(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVDATASET_CACHE_DIR", str(tmp_path))
    with pytest.raises(ConfigError, match="NAME@VERSION"):
        open_storage(url)


def test_the_folder_of_versions_must_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NVDATASET_CACHE_DIR", raising=False)
    with pytest.raises(ConfigError, match="NVDATASET_CACHE_DIR is not set"):
        open_storage("dss://coco@v1/train")
