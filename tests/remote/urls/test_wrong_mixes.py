"""Faults of metadatasets with URLs are reported with their places, as those of paths are."""

from __future__ import annotations

import re

import pytest

from loader import WorkerConfig, get_train_dataset
from loader.errors import StorageError
from tests.cli.run_energon import RunEnergon
from tests.remote.urls.bucket import Bucket


@pytest.fixture
def wrong(bucket: Bucket) -> str:
    """A mix of a dataset, and of datasets that are missing, not prepared, and in no bucket."""
    paths = ["a", "./gone", "s3://b/raw", "s3://nobucket/x", "texts.jsonl", "gone.jsonl"]
    return bucket.write_mix("mix.yaml", train={"blend": [{"path": path} for path in paths]})


@pytest.mark.parametrize("command", ["prepare", "lint"])
def test_all_missing_datasets_are_listed_with_their_places(wrong: str, energon: RunEnergon, command: str) -> None:
    done = energon(command, wrong)
    assert done.code == 1
    found = done.out + done.err
    for number, message in (
        (1, "there is no file below this URL: 's3://b/gone'"),
        (2, "'s3://b/raw' is not a prepared dataset: it has no .info.json; run: energon prepare s3://b/raw"),
        (3, "the bucket does not exist: 's3://nobucket/x'; check the name of the bucket"),
        (5, "there is no such file: 's3://b/gone.jsonl'"),
    ):
        assert re.search(rf"splits\.train\.blend\[{number}\]\.path: .*{re.escape(message)}", found), found
    assert "blend[0]" not in found
    assert "blend[4]" not in found


def test_a_check_of_a_dataset_takes_one_request(bucket: Bucket, energon: RunEnergon) -> None:
    url = bucket.write_mix("mix.yaml", train={"blend": [{"path": "a"}, {"path": "s3://b/b"}, {"path": "a"}]})
    found = bucket.requests(lambda: energon("prepare", url))
    assert sum(request.startswith("LIST") and request != "LIST b" for request in found) <= 4, found
    assert sum(request.startswith(("GET a/", "HEAD a/", "GET b/", "HEAD b/")) for request in found) == 0, found


def test_a_dataset_that_cannot_be_opened_is_named_with_its_place(wrong: str, energon: RunEnergon) -> None:
    place = "at: s3://b/gone, named by splits.train.blend[1] in s3://b/mix.yaml"
    assert place in energon("preview", wrong).err
    with pytest.raises(StorageError, match=re.escape(place)):
        get_train_dataset(
            wrong,
            worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0),
            batch_size=1,
            shuffle_buffer_size=None,
            max_samples_per_sequence=None,
        )


@pytest.mark.parametrize("command", ["prepare", "lint", "info", "preview"])
@pytest.mark.parametrize(
    ("split", "message"),
    [
        ({"path": "../../other/a"}, "splits.train: the path '../../other/a' leads out of the bucket"),
        ({"blend": [{"path": "a", "aux": {"x": "../../a"}}]}, "splits.train.blend[0]: the path '../../a' leads out"),
        ({"blend": [{"path": "dss://x@1/a"}]}, "splits.train.blend[0]: the environment variable NVDATASET_CACHE_DIR"),
    ],
)
def test_a_path_that_cannot_be_resolved_is_a_fault_of_its_entry(
    bucket: Bucket, energon: RunEnergon, command: str, split: dict[str, object], message: str
) -> None:
    done = energon(command, bucket.write_mix("mix.yaml", train=split))
    assert done.code == 1
    assert message in done.out + done.err
