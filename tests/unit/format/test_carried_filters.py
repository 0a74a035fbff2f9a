"""Filters keep their samples when a dataset is prepared again, or are dropped with a warning; never others."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from loader.dataset.opening import folder_at
from loader.dataset.split_parts import open_filter
from loader.errors import ConfigError, StorageError
from loader.format.filters.build import build_filter_index
from loader.format.filters.rows import FilterFiles, filter_names
from loader.prepare.plan import PreparePlan, PrepareReport
from loader.prepare.run import run_prepare
from tests.e2e.dataset_tree import RATIO, caption_samples, shard_path, write_shard
from tests.tables import write_lines


def prepare(folder: Path) -> PrepareReport:
    return run_prepare(PreparePlan(path=str(folder), split=RATIO, compat=False))


def kept(folder: Path, name: str = "some") -> list[str]:
    opened = folder_at(folder)
    rows = open_filter(opened, name)
    return [opened.index.full_key(number) for number in rows.numbers(np.arange(len(rows))).tolist()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(4):
        write_shard(shard_path(tmp_path, number), caption_samples(10 * number, 10))
    prepare(tmp_path)
    build_filter_index(tmp_path, "some", [3, 4, 14, 15, 24, 39])
    return tmp_path


def test_kept_samples_move_with_their_shards(folder: Path) -> None:
    before = kept(folder)
    shard_path(folder, 1).unlink()
    assert not [warning for warning in prepare(folder).warnings if "filter" in warning]
    assert kept(folder) == [key for key in before if not key.startswith("shard_001")]


@pytest.mark.parametrize("change", ["grown", "new"])
def test_a_filter_of_changed_shards_is_dropped_and_never_keeps_others(folder: Path, change: str) -> None:
    (folder / ".nv-meta/filter_some.idx.bak").write_bytes(b"old")
    if change == "grown":  # every number behind it would mean another sample
        write_shard(shard_path(folder, 0), caption_samples(0, 12))
    else:
        write_shard(shard_path(folder, 7), caption_samples(70, 5))
    (warning,) = (warning for warning in prepare(folder).warnings if "filter" in warning)
    assert warning.startswith("filter 'some' was dropped: 1 of ")
    with pytest.raises(ConfigError, match="there is no filter 'some'"):
        kept(folder)
    assert not list((folder / ".nv-meta").glob("filter_*"))


def test_a_filter_stays_if_nothing_changes(folder: Path) -> None:
    before = kept(folder)
    assert not prepare(folder).warnings
    assert kept(folder) == before


def test_a_damaged_filter_is_dropped(folder: Path) -> None:
    record = folder / ".nv-meta/filter_some.json"
    document = json.loads(record.read_text())
    document["shard_counts"]["shard_000.tar"] += 1
    record.write_text(json.dumps(document))
    shard_path(folder, 1).unlink()
    assert [warning for warning in prepare(folder).warnings if "filter 'some' was dropped" in warning]
    assert filter_names(folder_at(folder).storage) == []


def test_a_filter_whose_shards_have_another_order_than_the_index_moves_right(folder: Path) -> None:
    files = FilterFiles.of_dataset(folder_at(folder).storage, "some")
    counts = {"shard_003.tar": 1, "shard_002.tar": 1, "shard_001.tar": 2, "shard_000.tar": 2}
    files.write(counts, iter([np.array([9, 14, 24, 25, 33, 34])]))
    shard_path(folder, 1).unlink()
    assert not [warning for warning in prepare(folder).warnings if "filter" in warning]
    rows = open_filter(folder_at(folder), "some")
    assert rows.numbers(np.arange(len(rows))).tolist() == [3, 4, 14, 29]


def test_a_full_disk_does_not_drop_a_filter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise StorageError("no space left on device")

    monkeypatch.setattr(FilterFiles, "write", fail)
    before = kept(folder)
    shard_path(folder, 1).unlink()
    with pytest.raises(StorageError, match="no space left"):
        prepare(folder)
    assert kept(folder) == before


@pytest.mark.parametrize("seed", range(5))
def test_random_filters_move_right(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    for number in range(6):
        write_shard(shard_path(tmp_path, number), caption_samples(50 * number, draw.randrange(1, 20)))
    prepare(tmp_path)
    count = len(folder_at(tmp_path).index)
    build_filter_index(tmp_path, "some", sorted(draw.sample(range(count), draw.randrange(count))))
    before = kept(tmp_path)
    for number in draw.sample(range(6), 3):
        shard_path(tmp_path, number).unlink()
    prepare(tmp_path)
    assert kept(tmp_path) == [key for key in before if (tmp_path / key.partition("/")[0]).exists()]


def test_filters_of_record_folders_move_too(tmp_path: Path) -> None:
    for number in range(3):
        write_lines(tmp_path / f"part_{number}.jsonl", [*range(4)])
    prepare(tmp_path)
    build_filter_index(tmp_path, "some", [1, 5, 6, 11])
    (tmp_path / "part_0.jsonl").unlink()
    prepare(tmp_path)
    assert kept(tmp_path) == ["part_1.jsonl/1", "part_1.jsonl/2", "part_2.jsonl/3"]
