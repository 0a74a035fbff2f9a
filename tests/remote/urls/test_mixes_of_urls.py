"""Filters, subsets, excluded samples, joins and folders of lines and rows at URLs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from energon_cli.commands.look.preview.walk import KEYS_HELP
from loader import (
    CaptioningSample,
    WorkerConfig,
    build_filter_index_from_shard_indexes as build_filter,
    edataclass,
    get_savable_loader,
    get_train_dataset,
    random_access,
)
from tests.cli.run_energon import RunEnergon
from tests.cli.terminal import ENTER, LEFT, TerminalRun
from tests.remote.urls.bucket import Bucket


def keys(path: Path | str, workers: int = 0, **options: Any) -> list[str]:
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers)
    arguments = {"batch_size": None, "shuffle_buffer_size": 4, "max_samples_per_sequence": 3, "repeat": False}
    dataset = get_train_dataset(path, worker_config=config, **{**arguments, **options})
    with get_savable_loader(dataset) as loader:
        return [sample["__key__"] if isinstance(sample, dict) else sample.__key__ for sample in loader]


@pytest.fixture
def filtered(bucket: Bucket) -> Bucket:
    """Datasets with a filter, and one with an excluded sample; a metadataset that selects from them."""
    build_filter(bucket.folder / "a", "even", {f"shard_{number:03d}.tar": [0, 2] for number in range(4)})
    build_filter(bucket.folder / "texts.jsonl", "second", {"texts.jsonl": [1]})
    split = bucket.folder / "b/.nv-meta/split.yaml"
    split.write_text(split.read_text().replace("exclude: []", "exclude: [shard_000.tar/000001]"))
    bucket.write_mix(
        "mix.yaml",
        train={
            "blend_epochized": [
                {"path": "./a", "repetitions": 1, "filter": "even"},
                {"path": "b", "repetitions": 2, "subset": {"range": ["0%", "50%"]}},
                {"path": "texts.jsonl", "repetitions": 1, "filter": "second"},
                {"path": "inner/mix.yaml", "repetitions": 1},
            ]
        },
    )
    bucket.write_mix("inner/mix.yaml", train={"path": "../a", "split_part": "val"})
    return bucket


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.sampled(2)
def test_filters_subsets_and_excluded_samples_are_those_of_the_files(filtered: Bucket, workers: int) -> None:
    expected = keys(filtered.folder / "mix.yaml")
    assert len(expected) > 8
    assert keys(f"{filtered.url}/mix.yaml", workers) == expected
    assert keys(f"{filtered.url}/a", filter_name="even") == keys(filtered.folder / "a", filter_name="even")


@edataclass
class Pair(CaptioningSample):
    other: str

    @classmethod
    def from_joined(cls, a: CaptioningSample, b: CaptioningSample) -> Pair:
        return cls(
            __key__=a.__key__,
            __restore_key__=a.__restore_key__,
            __subflavors__={},
            __sources__=(),
            image=a.image,
            caption=a.caption,
            other=b.caption,
        )


@pytest.mark.parametrize("workers", [0, 2])
def test_a_join_at_a_url_trains(
    bucket: Bucket, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "own_joiners", sys.modules[__name__])
    members = {"a": {"path": "../a"}, "b": {"path": "../b"}}
    joiner = {"__module__": "own_joiners", "__class__": "Pair"}
    url = bucket.write_mix("deep/join.yaml", train={"join": members, "joiner": joiner})
    assert energon("prepare", url).code == 0
    found = keys(url, workers, trust_code=True)
    assert sorted(found) == sorted(set(found))
    assert len(found) == 5  # one picture of b is none
    assert keys(bucket.folder / "deep/join.yaml", trust_code=True) == found


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_prepared_folder_of_lines_or_rows_is_a_dataset(bucket: Bucket, energon: RunEnergon, form: str) -> None:
    folder = bucket.folder / form
    folder.mkdir()
    for part in range(3):
        rows = [{"number": 10 * part + number} for number in range(10)]
        if form == "jsonl":
            (folder / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        else:
            pa = pytest.importorskip("pyarrow")
            import pyarrow.parquet

            pyarrow.parquet.write_table(pa.Table.from_pylist(rows), folder / f"{part}.parquet")
    assert energon("prepare", folder, "--yes", "--split-ratio", "1,0,0").code == 0
    url = f"{bucket.url}/{form}"
    samples = random_access(url, "train")
    found = [sample["json"]["number"] if form == "jsonl" else sample["number"] for sample in samples]
    assert sorted(found) == list(range(30))
    assert energon("lint", url).code == 0
    here, there = (energon("info", path).out for path in (folder, url))
    assert there.splitlines()[1] == here.splitlines()[1]
    assert energon("preview", url, "--json").code == 0


def test_the_pager_shows_samples_of_a_url(bucket: Bucket) -> None:
    with TerminalRun("preview", f"{bucket.url}/a", "--crude") as pager:
        pager.wait_for(KEYS_HELP)
        assert "picture number 0" in pager.text
        pager.press(ENTER).wait_for("picture number 1").press(LEFT).wait_for("picture number 0")
        assert pager.press("q").finish(timeout_s=10) == 0


def test_the_metadata_of_a_dataset_at_a_url_may_be_on_this_machine(
    bucket: Bucket, energon: RunEnergon, tmp_path: Path
) -> None:
    meta = tmp_path / "meta"
    shutil.move(bucket.folder / "a/.nv-meta", meta)
    url = f"{bucket.url}/a"
    assert keys(url, meta_folder=meta) == keys(bucket.folder / "a", meta_folder=meta)
    assert keys(url, 2, meta_folder=meta) == keys(url, meta_folder=meta)
    for command in ("info", "lint", "preview"):
        assert energon(command, url, "--meta-folder", meta).code == 0
    mix = bucket.write_mix("mix.yaml", train={"path": "a", "meta_folder": str(meta)})
    assert keys(mix) == keys(url, meta_folder=meta)
    assert not (bucket.folder / "a/.nv-meta").exists()


def test_the_metadata_of_a_local_dataset_may_be_at_a_url(bucket: Bucket, tmp_path: Path) -> None:
    shutil.move(bucket.folder / "a/.nv-meta", bucket.folder / "meta")
    folder = shutil.move(bucket.folder / "a", tmp_path / "a")
    assert keys(folder, meta_folder="s3://b/meta") == keys(folder, meta_folder=bucket.folder / "meta")


def test_a_bucket_that_cannot_be_written_is_prepared_next_to_the_program(
    bucket: Bucket, energon: RunEnergon, tmp_path: Path
) -> None:
    shutil.rmtree(bucket.folder / "a/.nv-meta")
    url = f"{bucket.url}/a"
    done = energon("prepare", url, "--yes", "--meta-folder", tmp_path / "meta", "--num-workers", 1)
    assert done.code == 0, done
    assert len(keys(url, meta_folder=tmp_path / "meta")) == 6
    assert energon("lint", url, "--meta-folder", tmp_path / "meta").code == 0
    assert not (bucket.folder / "a/.nv-meta").exists()
