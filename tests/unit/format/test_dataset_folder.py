"""Prepared datasets, opened for reading."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from loader.dataset.dataset import Dataset
from loader.dataset.opening import folder_at
from loader.dataset.split_parts import excluded_samples, is_excluded, samples_of_part
from loader.engine import workers as worker_pool
from loader.errors import ConfigError, FormatError, StorageError
from loader.format.dataset_ref import DatasetRef
from loader.format.documents.dataset_config import format_dataset_config
from loader.format.documents.providers import ALL_PARTS
from loader.format.documents.split_config import SplitConfig
from loader.format.nv_meta import FOLDER
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare
from loader.storage import memory_map
from tests.malformed.tar_bytes import END, member


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.tar").write_bytes(
        member(b"a.txt", b"hello") + member(b"a.jpg", b"") + member(b"b.txt", b"two") + END
    )
    (tmp_path / "b.tar").write_bytes(member(b"a.txt", b"x" * 1000) + END)
    (tmp_path / "c.tar").write_bytes(member(b"c.txt", b"c") + END)
    split = SplitRequest(patterns=(("train", "a.tar"), ("train", "b.tar"), ("val", "c.tar")))
    run_prepare(PreparePlan(path=str(tmp_path), split=split))
    return tmp_path


def test_the_parts_of_samples_are_read_from_their_shards(folder: Path) -> None:
    dataset = folder_at(folder)
    assert dataset.shard_counts == {"a.tar": 2, "b.tar": 1, "c.tar": 1}
    assert dataset.read_parts(0) == {"txt": b"hello", "jpg": b""}
    assert dataset.read_parts(2) == {"txt": b"x" * 1000}
    assert dataset.read_parts(1) == {"txt": b"two"}
    assert dataset.read_parts(0, ["jpg", "png"]) == {"jpg": b""}
    dataset.close()
    dataset.close()
    assert dataset.read_parts(3) == {"txt": b"c"}
    assert dataset.path == str(folder)
    assert dataset.storage.path(FOLDER) == str(folder / ".nv-meta")


def test_a_split_part_is_ranges_of_samples_without_excluded_shards(folder: Path) -> None:
    assert samples_of_part(folder_at(folder), "train") == [range(2), range(2, 3)]
    split = folder / ".nv-meta" / "split.yaml"
    split.write_text(split.read_text().replace("exclude: []", "exclude: [a.tar, c.tar/c]"))
    dataset = folder_at(folder)
    assert samples_of_part(dataset, "train") == [range(2, 3)]
    assert samples_of_part(dataset, "val") == [range(3, 4)]
    with pytest.raises(ConfigError, match="there is no split part 'test'; there are: train, val"):
        samples_of_part(dataset, "test")


def exclude(folder: Path, *names: str) -> Dataset:
    split = folder / ".nv-meta" / "split.yaml"
    split.write_text(split.read_text().replace("exclude: []", f"exclude: [{', '.join(names)}]"))
    return folder_at(folder)


def test_excluded_shards_keep_their_place_among_the_samples_of_a_part_where_they_are_asked_for(folder: Path) -> None:
    dataset = exclude(folder, "a.tar", "c.tar/c")
    assert samples_of_part(dataset, "train", excluded_shards=True) == [range(2), range(2, 3)]
    assert samples_of_part(dataset, "train", excluded_shards=False) == [range(2, 3)]
    with pytest.raises(ConfigError, match="no split part 'test'"):
        samples_of_part(dataset, "test", excluded_shards=True)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), []),
        (("b.tar/a", "a.tar/b"), [1, 2]),
        (("c.tar", "a.tar"), [0, 1, 3]),
        (("a.tar", "a.tar/b", "'{a,c}.tar'"), [0, 1, 3]),
        (("'a.tar/{a,b}'", "c.tar"), [0, 1, 3]),
        (("gone.tar", "a.tar/gone", "gone.tar/a"), []),
        (("a.tar", "b.tar", "c.tar"), [0, 1, 2, 3]),
    ],
)
def test_the_numbers_of_excluded_samples_ascend_each_once(
    folder: Path, names: tuple[str, ...], expected: list[int]
) -> None:
    dataset = exclude(folder, *names)
    found = excluded_samples(dataset)
    assert (found.dtype, found.tolist()) == (np.dtype(np.int64), expected)
    assert [sample for sample in range(4) if is_excluded(dataset, sample)] == expected


def test_a_dataset_without_a_split_file_excludes_nothing(folder: Path) -> None:
    (folder / ".nv-meta" / "split.yaml").unlink()
    assert excluded_samples(folder_at(folder)).tolist() == []


def test_excluded_samples_are_read_once_from_the_split_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    split = folder / ".nv-meta" / "split.yaml"
    split.write_text(split.read_text().replace("exclude: []", "exclude: [b.tar, a.tar/b]"))
    dataset = folder_at(folder)
    calls = []
    real = SplitConfig.excluded_samples

    def excluded_samples(config: SplitConfig) -> dict[str, frozenset[str]]:
        calls.append(config)
        return real(config)

    monkeypatch.setattr(SplitConfig, "excluded_samples", excluded_samples)
    assert [is_excluded(dataset, sample) for sample in range(4)] == [False, True, True, False]
    assert len(calls) == 1


def test_a_split_file_that_is_refused_is_read_once(folder: Path) -> None:
    dataset = folder_at(folder)
    (folder / ".nv-meta/split.yaml").write_text("split_parts: [")
    for _ in range(2):
        with pytest.raises(ConfigError, match="not plain YAML"):
            _ = dataset.documents.split
        (folder / ".nv-meta/split.yaml").write_text("split_parts: {train: [a.tar]}")
    assert samples_of_part(folder_at(folder), "train") == [range(2)]


def test_the_split_file_in_force_is_the_one_that_is_read(folder: Path) -> None:
    meta = folder / ".nv-meta"
    assert folder_at(folder).documents.split_file == "split.yaml"
    (meta / "split.json").write_text('{"split_parts": {"all": ["a.tar"]}}')
    assert folder_at(folder).documents.split_file == "split.yaml"
    (meta / "split.yaml").unlink()
    dataset = folder_at(folder)
    assert dataset.documents.split_file == "split.json"
    assert samples_of_part(dataset, "all") == [range(2)]
    with pytest.raises(ConfigError, match="there are: all") as caught:
        samples_of_part(dataset, "train")
    assert caught.value.at == str(meta / "split.json")
    (meta / "split.json").unlink()
    assert folder_at(folder).documents.split_file is None
    assert folder_at(DatasetRef.at(folder, split_config="other.yaml")).documents.split_file is None


def test_a_shard_cut_while_it_is_open_gives_no_part_of_a_part(folder: Path) -> None:
    dataset = folder_at(folder)
    assert dataset.read_parts(2) == {"txt": b"x" * 1000}
    os.truncate(folder / "b.tar", 600)
    with pytest.raises(FormatError, match="ends after 88 of them") as caught:
        dataset.read_parts(2)
    assert (caught.value.shard, caught.value.offset) == (str(folder / "b.tar"), 512)


def test_without_a_split_file_there_are_no_parts(folder: Path) -> None:
    (folder / ".nv-meta" / "split.yaml").unlink()
    dataset = folder_at(folder)
    assert dataset.documents.split is None
    with pytest.raises(ConfigError, match="there are: none"):
        samples_of_part(dataset, "train")


def test_a_file_of_another_format_is_no_folder_to_prepare(tmp_path: Path) -> None:
    (tmp_path / "data.csv").touch()
    with pytest.raises(StorageError, match="this file is not a dataset") as caught:
        folder_at(tmp_path / "data.csv")
    assert caught.value.hint == f"run: energon import {tmp_path}/data.csv {tmp_path}/data-dataset --yes"


def test_files_asked_for_by_name_must_be_there(folder: Path) -> None:
    dataset = folder_at(DatasetRef.at(folder, split_config="other.yaml", dataset_config="another.yaml"))
    for ask in (lambda: dataset.documents.split, lambda: dataset.documents.config):
        with pytest.raises(ConfigError, match="there is no such file"):
            ask()
    assert folder_at(folder).documents.config is None


def test_the_split_file_that_the_dataset_file_names_replaces_any_other(folder: Path) -> None:
    meta = folder / ".nv-meta"
    (meta / "small.yaml").write_text("split_parts: {train: [b.tar]}\n")
    (meta / "dataset.yaml").write_text("__class__: CrudeWebdataset\nsplit_config: small.yaml\n")
    assert folder_at(folder).documents.split_file == "small.yaml"
    config = folder_at(folder).documents.config
    assert config is not None
    assert "split_config: small.yaml\n" in format_dataset_config(config)
    with pytest.warns(UserWarning, match=r"split_config='split\.json' has no effect: .* names 'small\.yaml'"):
        assert folder_at(DatasetRef.at(folder, split_config="split.json")).documents.split_file == "small.yaml"
    (meta / "dataset.yaml").write_text("__class__: CrudeWebdataset\nsplit_config: 3\n")
    with pytest.raises(ConfigError, match=r"split_config: expected the name of a file in .*, found 3"):
        _ = folder_at(folder).documents.split


def test_the_split_part_that_the_dataset_file_names_is_loaded_instead_of_any_other(folder: Path) -> None:
    (folder / ".nv-meta" / "dataset.yaml").write_text("__class__: CrudeWebdataset\nsplit_part: val\n")
    dataset = folder_at(folder)
    assert dataset.documents.loaded_part("val") == "val"
    assert dataset.documents.loaded_part(ALL_PARTS) == ALL_PARTS
    with pytest.warns(UserWarning, match=r"split_part='train' has no effect: .*dataset\.yaml names 'val'"):
        assert dataset.documents.loaded_part("train") == "val"
    (folder / ".nv-meta" / "dataset.yaml").write_text("__class__: CrudeWebdataset\nsplit_part: [val]\n")
    with pytest.raises(ConfigError, match=r"split_part: expected the name of a split part, found \['val'\]"):
        folder_at(folder).documents.loaded_part("train")


def test_the_dataset_file_of_a_name_is_read(folder: Path) -> None:
    text = "__module__: megatron.energon\n__class__: CrudeWebdataset\n"
    (folder / ".nv-meta" / "other.yaml").write_text(text)
    config = folder_at(DatasetRef.at(folder, dataset_config="other.yaml")).documents.config
    assert config is not None
    assert config.crude


def test_a_folder_that_is_no_dataset_is_told_how_to_become_one(tmp_path: Path) -> None:
    (tmp_path / "a.tar").touch()
    with pytest.raises(StorageError, match="not a prepared dataset") as caught:
        folder_at(tmp_path)
    assert caught.value.hint == f"run: energon prepare {tmp_path}"
    with pytest.raises(StorageError, match="does not exist"):
        folder_at(tmp_path / "missing")


def test_a_shard_cut_after_preparing_is_named(folder: Path) -> None:
    (folder / "b.tar").write_bytes((folder / "b.tar").read_bytes()[:1000])
    dataset = folder_at(folder)
    assert dataset.read_parts(0)["txt"] == b"hello"
    with pytest.raises(FormatError) as caught:
        dataset.read_parts(2)
    assert caught.value.shard == str(folder / "b.tar")


@pytest.fixture
def without_calls_of_linux(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hide the system calls that macOS lacks, and those that only some builds of Python can reach."""

    def refuse(*arguments: object, **options: object) -> None:
        raise OSError("no dynamic linking here")

    monkeypatch.delattr(os, "posix_fadvise")
    monkeypatch.delattr(os, "POSIX_FADV_WILLNEED")
    monkeypatch.setattr(ctypes, "CDLL", refuse)
    monkeypatch.setattr(worker_pool, "_MAY_FORK", False)
    memory_map._libc_calls.cache_clear()
    yield
    memory_map._libc_calls.cache_clear()


def test_a_dataset_is_prepared_and_read_without_the_calls_of_linux(without_calls_of_linux: None, folder: Path) -> None:
    (folder / "b.tar").write_bytes(member(b"b.txt", b"new") + END)
    split = SplitRequest(patterns=(("train", "{a,b}.tar"), ("val", "c.tar")))
    run_prepare(PreparePlan(path=str(folder), split=split, workers=2))
    dataset = folder_at(folder)
    assert [dataset.read_parts(sample)["txt"] for sample in range(4)] == [b"hello", b"two", b"new", b"c"]
    assert dataset.index.find("b") == [1, 2]


def test_reading_a_dataset_of_ours_loads_no_sqlite(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "loader.format.compat.foreign_index", None)
    assert folder_at(folder).read_parts(1) == {"txt": b"two"}
