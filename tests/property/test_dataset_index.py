"""An index returns what was written to it, for any shards."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import median_low
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from loader.errors import FormatError
from loader.format.index import (
    dataset_index as dataset_index_module,
    keys as key_table_module,
    writer as index_writer_module,
)
from loader.format.index.dataset_index import DatasetIndex
from loader.format.index.layout import Layout, PartStats, ShardEntry, decode_layout, encode_struct, layout_warnings
from loader.format.index.shard_index import ShardIndex, index_shard
from loader.format.index.writer import DuplicateKeys, IndexWriter
from loader.format.nv_meta import INDEX_FOLDER
from loader.storage import LocalStorage

SHARDS = ["a/s 1.tar", "b.tar", "b.tar_x.tar", "é\udcff.tar"]
keys = st.sampled_from(["a", "b", "c", "a.tar/b", "d/é", "\udcff", "b.tar/a/c", "x" * 120, "k" * 8])
parts = st.sampled_from(["txt", "jpg", "seg.png", "", "\udcfe", "é"])
# The members of a shard: key, part name and size.
shards = st.lists(st.tuples(keys, parts, st.sampled_from([0, 1, 600])), max_size=8)


def write_shard(path: Path, members: list[tuple[str, str, int]], tar_format: int) -> None:
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w", format=tar_format, encoding="utf-8", errors="surrogateescape") as tar:
        for key, part, size in members:
            info = tarfile.TarInfo(f"{key.replace('.', '_')}.{part}" if "/" not in key else f"{key}.{part}")
            info.size = size
            tar.addfile(info, io.BytesIO(b"x" * size))


def write_index(
    folder: Path, some: list[list[tuple[str, str, int]]], tar_format: int
) -> tuple[DatasetIndex, DuplicateKeys]:
    storage = LocalStorage(folder)
    writer = IndexWriter(storage, f"{INDEX_FOLDER}/u")
    with writer:
        for name, members in zip(SHARDS, some, strict=False):
            write_shard(folder / name, members, tar_format)
            writer.add(storage.stat(name), index_shard(storage, name))
        staged, duplicates = writer.finish(prepared_by="a test")
    index = DatasetIndex(storage, "u")
    assert index.layout == staged.layout
    return index, duplicates


def assert_equal(found: ShardIndex, expected: ShardIndex) -> None:
    for name in ShardIndex.__dataclass_fields__:
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name


@settings(max_examples=60)
@given(
    st.lists(shards, max_size=4),
    st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
    st.sampled_from([1, 3, 1 << 20]),
)
def test_an_index_gives_what_the_scans_of_its_shards_gave(
    tmp_path: Path, some: list[list[tuple[str, str, int]]], tar_format: int, rows_at_once: int
) -> None:
    with (
        mock.patch.object(index_writer_module, "_ROWS_AT_ONCE", rows_at_once),
        mock.patch.object(
            index_writer_module, "merge_runs", partial(key_table_module.merge_runs, rows_at_once=rows_at_once)
        ),
    ):
        index, duplicates = write_index(tmp_path, some, tar_format)
    scans = [index_shard(LocalStorage(tmp_path), name) for name in SHARDS[: len(some)]]
    by_key: dict[str, list[int]] = {}
    sizes: dict[str, list[int]] = {}
    sample = 0
    for shard, scan in zip(index.shards, scans, strict=True):
        assert index.samples_of(shard) == range(sample, sample + len(scan))
        start = 0
        for key, end in zip(scan.keys(), scan.part_ends.tolist(), strict=True):
            rows = range(start, end)
            assert index.key(sample) == key
            assert index.full_key(sample) == f"{shard.name}/{key}"
            assert index.shard_of(sample) is shard
            assert [(part.name, part.offset, part.size_bytes) for part in index.parts(sample)] == [
                (scan.part_names[scan.part_name[row]], scan.part_offset[row], scan.part_size[row]) for row in rows
            ]
            assert sample in index.find(f"{shard.name}/{key}")
            for part in index.parts(sample):
                sizes.setdefault(part.name, []).append(part.size_bytes)
            by_key.setdefault(key, []).append(sample)
            start, sample = end, sample + 1
        cut = index.shard_index(shard)
        if shard.plain:
            assert_equal(cut, scan)
        else:
            assert len(cut.sample_offsets) == 0
            assert cut.keys() == scan.keys()
    assert len(index) == sample
    assert np.all(index.key_hash[1:] >= index.key_hash[:-1])
    for key, samples in by_key.items():
        full = [other for other in range(sample) if index.full_key(other) == key]
        assert index.find(key) == sorted({*samples, *full})
    assert {stats.name: (stats.parts, stats.total_bytes, stats.median_bytes) for stats in index.part_stats()} == {
        name: (len(values), sum(values), median_low(values)) for name, values in sizes.items()
    }
    repeated = sorted((samples for samples in by_key.values() if len(samples) > 1), key=lambda samples: samples[1])
    assert [(key, group.tolist()) for key, group in duplicates.groups] == [
        (index.key(group[0]), group) for group in repeated
    ]
    assert index.layout.duplicate_keys == duplicates.samples == sum(len(samples) - 1 for samples in repeated)
    assert duplicates.first_key == (index.key(repeated[0][0]) if repeated else "")


@settings(max_examples=30)
@given(st.lists(shards, min_size=1, max_size=3), keys | st.text(max_size=5), st.sampled_from(["", *SHARDS, "no.tar"]))
def test_missing_keys_are_not_found(
    tmp_path: Path, some: list[list[tuple[str, str, int]]], key: str, shard: str
) -> None:
    index, _ = write_index(tmp_path, some, tarfile.GNU_FORMAT)
    wanted = f"{shard}/{key}" if shard else key
    expected = [i for i in range(len(index)) if wanted in (index.key(i), index.full_key(i))]
    assert index.find(wanted) == expected


def test_a_key_may_hold_the_end_of_a_shard_s_name(tmp_path: Path) -> None:
    members = [("b.tar/c", "txt", 1), ("c", "txt", 1)]
    index, _ = write_index(tmp_path, [members, members], tarfile.GNU_FORMAT)
    assert index.shards[1].name == "b.tar"
    assert index.find("c") == [1, 3]
    assert index.find("b.tar/c") == [0, 2, 3]
    assert index.find("b.tar/b.tar/c") == [2]
    assert index.find("a/s 1.tar/c") == [1]
    assert index.find(".tar/c") == index.find("tar/c") == index.find("b.tar/") == index.find("b.tar") == []


def test_keys_with_one_hash_are_distinguished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A look-up compares the key itself, because hashes may collide.
    monkeypatch.setattr(dataset_index_module, "hash_key", lambda key: 7)
    module = "loader.format.index.shard_index"
    monkeypatch.setattr(f"{module}.hash_keys", lambda keys, lengths: np.full(len(keys), 7, np.uint64))
    some = [[("a", "txt", 1), ("b", "txt", 2), ("a", "jpg", 3)], [("c", "txt", 1), ("b", "jpg", 1)]]
    index, duplicates = write_index(tmp_path, some, tarfile.GNU_FORMAT)
    assert [index.key(i) for i in range(len(index))] == ["a", "b", "c", "b"]
    assert [part.size_bytes for part in index.parts(0)] == [1, 3]
    assert [index.find(key) for key in "abcd"] == [[0], [1, 3], [2], []]
    assert [(key, group.tolist()) for key, group in duplicates.groups] == [("b", [1, 3])]


def test_a_sample_out_of_range_is_an_index_error(tmp_path: Path) -> None:
    index, _ = write_index(tmp_path, [[("a", "txt", 1)]], tarfile.GNU_FORMAT)
    for sample in (-1, 1, 10):
        with pytest.raises(IndexError, match="expected a sample in"):
            index.shard_of(sample)
        with pytest.raises(IndexError):
            index.full_key(sample)


def test_a_lone_surrogate_is_no_key(tmp_path: Path) -> None:
    index, _ = write_index(tmp_path, [[("a", "txt", 1)]], tarfile.GNU_FORMAT)
    assert index.find("\ud800") == []


def test_a_shard_of_more_than_two_tebibytes_is_refused(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    write_shard(tmp_path / "s.tar", [("a", "txt", 1)], tarfile.GNU_FORMAT)
    index = index_shard(storage, "s.tar")
    last = IndexWriter(storage, "last")
    with last:
        last.add(storage.stat("s.tar"), replace(index, part_offset=index.part_offset + (1 << 41) - 1024))
        last.finish(prepared_by="a test")
    with pytest.raises(FormatError, match="larger than 2 TiB"), IndexWriter(storage, "u") as writer:
        writer.add(storage.stat("s.tar"), replace(index, part_offset=index.part_offset + (1 << 41)))
    assert not any(path.name.endswith(".npy") for path in (tmp_path / "u").iterdir())


def test_an_index_of_no_shards_opens(tmp_path: Path) -> None:
    index, duplicates = write_index(tmp_path, [], tarfile.GNU_FORMAT)
    assert (len(index), index.shards, index.part_stats(), index.find("a")) == (0, (), (), [])
    assert duplicates == DuplicateKeys()


def test_the_median_of_many_parts_is_taken_from_some_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_writer_module, "_MAX_MEDIAN_PARTS", 64)
    members = [
        (f"k{number:04}", part, number * (1 + (part == "jpg"))) for number in range(400) for part in ("txt", "jpg")
    ]
    index, _ = write_index(tmp_path, [members], tarfile.GNU_FORMAT)
    stats = {part.name: part for part in index.part_stats()}
    assert (stats["txt"].parts, stats["txt"].total_bytes) == (400, sum(range(400)))
    assert abs(stats["txt"].median_bytes - 200) < 40
    assert abs(stats["jpg"].median_bytes - 400) < 80


texts = st.text(max_size=6) | st.sampled_from(["é\udcff", "a\nb", '"', "\\"])
shard_names = texts.map(lambda text: f"{text.translate({0: None, ord('/'): None})}_.tar")
counts = st.integers(0, 1 << 62)


@given(
    st.lists(
        st.tuples(shard_names, counts, st.integers(-(1 << 62), 1 << 62), st.integers(0, 1 << 40), st.booleans(), texts),
        max_size=4,
    ),
    st.lists(st.tuples(texts, counts, counts, counts), max_size=3),
)
def test_a_layout_reads_back_as_it_was_written(
    shard_fields: list[tuple[str, int, int, int, bool, str]], part_fields: list[tuple[str, int, int, int]]
) -> None:
    first_samples = [0, *np.cumsum([fields[3] for fields in shard_fields]).tolist()]
    layout = Layout(
        version=1,
        samples=int(first_samples[-1]),
        parts=7,
        shards=tuple(
            ShardEntry(
                name=name,
                size_bytes=size,
                mtime_ns=mtime,
                samples=samples,
                first_sample=int(first),
                end_offset=size,
                plain=plain,
                warnings=(warning,),
            )
            for first, (name, size, mtime, samples, plain, warning) in zip(first_samples, shard_fields, strict=False)
        ),
        part_stats=tuple(
            PartStats(name=name, parts=count, total_bytes=total, median_bytes=median)
            for name, count, total, median in part_fields
        ),
        duplicate_keys=0,
        prepared_by="é\udcff",
        prepared_at="now",
    )
    assert decode_layout(encode_struct(layout), file="layout.json") == layout


def test_warnings_of_a_layout_are_limited_and_counted(tmp_path: Path) -> None:
    empty = ShardEntry(
        name="s.tar",
        size_bytes=0,
        mtime_ns=0,
        samples=0,
        first_sample=0,
        end_offset=0,
        plain=True,
        warnings=("odd",) * 12,
    )
    full = ShardEntry(
        name="t.tar", size_bytes=0, mtime_ns=0, samples=2, first_sample=0, end_offset=0, plain=True, scattered=2
    )
    layout = Layout(
        version=1,
        samples=2,
        parts=200,
        shards=(empty, full),
        part_stats=(),
        duplicate_keys=3,
        prepared_by="",
        prepared_at="",
    )
    warnings = layout_warnings(layout)
    assert warnings[0] == "1 shard has no samples, first s.tar"
    assert warnings[1:11] == ["s.tar: odd"] * 10
    assert warnings[11].startswith("and 2 more such warnings")
    assert "the parts of 2 samples, so reading" in warnings[12]
    assert "3 samples repeat the key" in warnings[13]
    assert "100 parts a sample" in warnings[14]
    assert len(warnings) == 15
    assert list(chain(*[shard.warnings for shard in layout.shards])) == ["odd"] * 12


@pytest.mark.parametrize("margin", [None, 0, 3, 1 << 20], ids=str)
def test_each_of_many_keys_is_found_wherever_its_hash_is(margin: int | None, tmp_path: Path) -> None:
    members = [(f"{number:05}", "txt", 0) for number in range(4000)]
    index, _ = write_index(tmp_path, [members], tarfile.USTAR_FORMAT)
    if margin is not None:  # rows around the expected one that are searched before all others
        index._hash_margin = margin
    assert [index.find(key) for key, _, _ in members] == [[number] for number in range(4000)]
    assert not any(index.find(f"{number:06}") for number in range(4000))
