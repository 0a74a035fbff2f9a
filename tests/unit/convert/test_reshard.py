"""New shards have the same samples, parts, columns and filters in the order that was requested."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loader import build_filter_index
from loader.convert.resharding import ReshardPlan, ReshardReport, run_reshard
from loader.convert.rows.shard_layout import ShardLayout
from loader.dataset.dataset import Dataset
from loader.dataset.opening import folder_at
from loader.dataset.query import SampleQuery
from loader.dataset.split_parts import open_filter, samples_of_part
from loader.errors import ConfigError, FormatError
from loader.format.columns.column_files import open_column, write_column
from loader.format.dataset_ref import DatasetRef
from tests.e2e.dataset_tree import RATIO, caption_samples, prepare, shard_path, write_shard, write_tar

SHARDS, SAMPLES = 4, 5


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a dataset of 20 samples with a column ``number``, a column of texts and a filter ``even``."""
    for number in range(SHARDS):
        write_shard(shard_path(tmp_path / "ds", number), caption_samples(10 * number, SAMPLES))
    prepare(tmp_path / "ds", split=RATIO)
    opened = folder_at(tmp_path / "ds")
    numbers = np.array([int(key) for key in keys_of(opened)])
    shuffled = numbers * 7 % 11
    write_column(opened.storage, opened.index, "shuffled", np.where(shuffled == 3, -1, shuffled), missing=-1)
    write_column(opened.storage, opened.index, "tens", numbers // 10, categories=("d", "c", "b", "a"), unit="tens")
    build_filter_index(tmp_path / "ds", "even", np.flatnonzero(numbers % 2 == 0))
    (tmp_path / "ds/.nv-meta/dataset.yaml").write_text(
        "sample_type: {__module__: megatron.energon, __class__: TextSample}\nfield_map: {text: txt}\n"
    )
    return tmp_path / "ds"


def keys_of(folder: Dataset) -> list[str]:
    return [folder.index.key(sample) for sample in range(len(folder.index))]


def reshard(folder: Path, output: Path, **options: Any) -> ReshardReport:
    named = ("shard_bytes", "samples_per_shard", "shuffle_seed", "split_ratio")
    layout = {"samples_per_shard": 3} | {name: options.pop(name) for name in named if name in options}
    plan = ReshardPlan(ref=DatasetRef(str(folder)), output=str(output), layout=ShardLayout(**layout), **options)
    return run_reshard(plan)


def samples_of(folder: Path) -> dict[str, dict[str, bytes]]:
    opened = folder_at(folder)
    found = {opened.index.key(sample): opened.read_parts(sample) for sample in range(len(opened.index))}
    assert len(found) == len(opened.index)
    opened.close()
    return found


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*.tar"))}


def split_of(folder: Path) -> dict[str, set[str]]:
    opened = folder_at(folder)
    assert opened.documents.split is not None
    return {
        part: {opened.index.key(sample) for some in samples_of_part(opened, part) for sample in some}
        for part in opened.documents.split.split_parts
    }


@pytest.mark.parametrize("options", [{}, {"shuffle_seed": 3}, {"sort_by": "key"}, {"sort_by": "tens"}])
def test_samples_keep_parts_splits_columns_and_filters(folder: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    report = reshard(folder, tmp_path / "new", **options)
    assert samples_of(tmp_path / "new") == samples_of(folder)
    assert split_of(tmp_path / "new") == split_of(folder)
    assert report.columns == ("shuffled", "tens")
    assert report.filters == ("even",)
    assert report.written.prepared.scanned == 0
    new = folder_at(tmp_path / "new")
    numbers = [int(key) for key in keys_of(new)]
    shuffled, tens = (open_column(new.storage, new.index, name) for name in report.columns)
    expected = [number * 7 % 11 for number in numbers]
    assert [shuffled.value(sample) for sample in range(20)] == [None if value == 3 else value for value in expected]
    assert [tens.value(sample) for sample in range(20)] == ["dcba"[number // 10] for number in numbers]
    assert tens.record.unit == "tens"
    assert open_filter(new, "even").keeps(np.arange(20)).tolist() == [number % 2 == 0 for number in numbers]
    assert new.documents.config == folder_at(folder).documents.config
    assert max(shard.samples for shard in new.index.shards) == 3


def test_the_order_is_that_of_the_key_the_column_or_the_seed(folder: Path, tmp_path: Path) -> None:
    def order(name: str, **options: Any) -> list[int]:
        reshard(folder, tmp_path / name, split_ratio={"all": 1}, **options)
        return [int(key) for key in keys_of(folder_at(tmp_path / name))]

    source = [int(key) for key in keys_of(folder_at(folder))]
    assert order("kept") == source
    assert order("key", sort_by="key") == sorted(source)
    expected = sorted(source, key=lambda number: (number * 7 % 11 == 3, number * 7 % 11))
    assert order("column", sort_by="shuffled") == expected
    assert [number // 10 for number in order("texts", sort_by="tens")] == [3] * 5 + [2] * 5 + [1] * 5 + [0] * 5
    one, other = order("seed1", shuffle_seed=1), order("seed2", shuffle_seed=2)
    assert sorted(one) == sorted(other) == sorted(source)
    assert len({tuple(one), tuple(other), tuple(source)}) == 3


@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.sampled(2)
def test_any_number_of_workers_writes_the_same_bytes(folder: Path, tmp_path: Path, seed: int | None) -> None:
    for workers in (1, 2):
        reshard(folder, tmp_path / str(workers), shuffle_seed=seed, workers=workers)
    assert digests(tmp_path / "1") == digests(tmp_path / "2")


def test_shards_end_before_they_exceed_the_size(folder: Path, tmp_path: Path) -> None:
    reshard(folder, tmp_path / "new", shard_bytes=6000, samples_per_shard=1000)
    sizes = [path.stat().st_size for path in (tmp_path / "new").glob("*.tar")]
    assert len(sizes) > 2
    assert all(size <= 10240 for size in sizes)  # 6000 bytes of members, padded to the records of tar
    assert samples_of(tmp_path / "new") == samples_of(folder)


def test_parts_are_dropped_and_fields_that_lack_them_are_named(folder: Path, tmp_path: Path) -> None:
    report = reshard(folder, tmp_path / "new", drop_parts=("js*",))
    assert samples_of(tmp_path / "new") == {key: {"txt": parts["txt"]} for key, parts in samples_of(folder).items()}
    assert not report.warnings
    report = reshard(folder, tmp_path / "other", keep_parts=("json",))
    assert report.warnings == ("dataset.yaml takes text from parts that are dropped: edit it in the new dataset",)
    with pytest.raises(ConfigError, match=r"no part matches 'jpg'; there are: json, txt"):
        reshard(folder, tmp_path / "none", drop_parts=("jpg",))


def test_samples_without_the_kept_parts_are_counted(tmp_path: Path) -> None:
    samples = {f"{n}": {"txt": b"x", **({"json": b"{}"} if n % 3 else {})} for n in range(9)}
    write_shard(shard_path(tmp_path / "ds", 0), samples)
    prepare(tmp_path / "ds")
    report = reshard(tmp_path / "ds", tmp_path / "new", keep_parts=("json",))
    assert report.without_parts == 3
    assert [*samples_of(tmp_path / "new")] == [key for key, parts in samples.items() if "json" in parts]


def test_a_query_chooses_samples_and_exclusions_stay_behind(folder: Path, tmp_path: Path) -> None:
    split = folder / ".nv-meta/split.yaml"
    split.write_text(split.read_text().replace("exclude: []", "exclude: [shard_000.tar/00003]"))
    report = reshard(folder, tmp_path / "new")
    assert report.excluded == 1
    assert samples_of(tmp_path / "new").keys() == samples_of(folder).keys() - {"00003"}
    query = SampleQuery(where="tens == 'c'", filter="even", excluded=False)
    reshard(folder, tmp_path / "some", query=query)
    assert [*samples_of(tmp_path / "some")] == ["00010", "00012", "00014"]
    new = folder_at(tmp_path / "some")
    assert open_column(new.storage, new.index, "tens").value(0) == "c"
    assert len(open_filter(new, "even")) == 3
    with pytest.raises(ConfigError, match="no sample is chosen"):
        reshard(folder, tmp_path / "none", query=SampleQuery(where="tens == 'x'"))
    assert not (tmp_path / "none").exists()


def test_samples_of_no_split_part_stay_in_none(folder: Path, tmp_path: Path) -> None:
    (folder / ".nv-meta/split.yaml").write_text(
        "split_parts: {train: [shard_001.tar], val: [shard_002.tar]}\nexclude: []\n"
    )
    reshard(folder, tmp_path / "new", shuffle_seed=0)
    assert split_of(tmp_path / "new") == split_of(folder)
    assert samples_of(tmp_path / "new") == samples_of(folder)


def test_repeated_keys_get_a_number(tmp_path: Path) -> None:
    for number in range(3):
        write_shard(shard_path(tmp_path / "ds", number), {"same": {"txt": b"%d" % number}})
    prepare(tmp_path / "ds")
    report = reshard(tmp_path / "ds", tmp_path / "new")
    assert report.written.renamed == 2
    assert {key: parts["txt"] for key, parts in samples_of(tmp_path / "new").items()} == {
        "same": b"0",
        "same-2": b"1",
        "same-3": b"2",
    }


def test_scattered_parts_come_side_by_side(tmp_path: Path) -> None:
    members = [(f"{key}.{part}", f"{key}{part}".encode()) for part in ("txt", "json") for key in "abcdefg"]
    random.Random(0).shuffle(members)
    write_tar(shard_path(tmp_path / "ds", 0), members)
    prepare(tmp_path / "ds")
    assert folder_at(tmp_path / "ds").index.shards[0].scattered
    reshard(tmp_path / "ds", tmp_path / "new", samples_per_shard=100)
    assert samples_of(tmp_path / "new") == samples_of(tmp_path / "ds")
    [shard] = folder_at(tmp_path / "new").index.shards
    assert shard.plain
    assert not shard.scattered


@pytest.mark.parametrize("is_file", [False, True])
def test_tars_without_metadata_are_resharded(tmp_path: Path, is_file: bool) -> None:
    expected: dict[str, dict[str, bytes]] = {}
    for number in range(1 if is_file else 3):
        samples = caption_samples(10 * number, 5)
        expected |= samples
        write_shard(shard_path(tmp_path / "tars", number), samples)
    source = shard_path(tmp_path / "tars", 0) if is_file else tmp_path / "tars"
    reshard(source, tmp_path / "new", shuffle_seed=1)
    assert samples_of(tmp_path / "new") == expected
    with pytest.raises(ConfigError, match="needs the index of a prepared dataset"):
        reshard(source, tmp_path / "other", sort_by="key")


def test_a_changed_shard_and_a_place_inside_the_source_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the new dataset cannot replace the one that it is made of"):
        reshard(folder, folder)
    shard_path(folder, 2).write_bytes(b"cut")
    with pytest.raises(FormatError, match="has changed since it was indexed"):
        reshard(folder, tmp_path / "new")
    assert not (tmp_path / "new/.nv-meta/.info.json").exists()


def test_large_parts_are_copied_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from loader.convert.importing import contents

    monkeypatch.setattr(contents, "_LARGE_BYTES", 100)
    samples = {f"{n}": {"bin": bytes([n]) * (40 * n), "txt": b"%d" % n} for n in range(9)}
    write_shard(shard_path(tmp_path / "ds", 0), samples)
    prepare(tmp_path / "ds")
    reshard(tmp_path / "ds", tmp_path / "new", shuffle_seed=1)
    assert samples_of(tmp_path / "new") == samples


def test_parts_with_any_name_are_kept(tmp_path: Path) -> None:
    parts = {"": b"no name", "_meta.json": b"{}", "__key__": b"of an attacker", "txt": b"a"}
    write_shard(shard_path(tmp_path / "ds", 0), {"0001": parts, "0002": {"_": b"alone"}})
    prepare(tmp_path / "ds", split=RATIO)
    reshard(tmp_path / "ds", tmp_path / "new")
    assert samples_of(tmp_path / "new") == {"0001": parts, "0002": {"_": b"alone"}}
