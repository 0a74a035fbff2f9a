"""Differences between prepared datasets: shards, samples, parts, contents and the split."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from loader.errors import ConfigError
from loader.inspect import kind_of_path
from loader.inspect.diff import DiffReport, compare_paths
from loader.prepare.plan import SplitRequest
from tests.cli.make_dataset import caption_parts, write_captions, write_shard
from tests.e2e.dataset_tree import prepare

Samples = dict[str, dict[str, bytes]]


def write(folder: Path, change: Callable[[list[Samples]], None] = lambda shards: None) -> Path:
    """A dataset of three shards of three samples, all in train, after a change of its samples."""
    shards = [
        {f"{number:06d}": {"txt": caption_parts(number)["txt"]} for number in range(3 * shard, 3 * shard + 3)}
        for shard in range(3)
    ]
    change(shards)
    for number, samples in enumerate(shards):
        write_shard(folder / f"shard_{number}.tar", samples)
    prepare(folder, split=SplitRequest(ratio={"train": 1.0}))
    return folder


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return write(tmp_path / "a")


def lines(report: DiffReport) -> list[str]:
    assert report.count == len(report.differences)
    assert report.is_same == (not report.differences)
    return [str(one) for one in report.differences]


def test_a_copy_is_the_same(dataset: Path, tmp_path: Path) -> None:
    shutil.copytree(dataset, tmp_path / "b")
    report = compare_paths(str(dataset), str(tmp_path / "b"), contents=True)
    assert (report.is_same, report.notes, report.kinds) == (True, (), ("dataset", "dataset"))


def test_the_same_shards_prepared_twice_differ_in_the_index_only(dataset: Path, tmp_path: Path) -> None:
    report = compare_paths(str(dataset), str(write(tmp_path / "b")))
    assert report.is_same
    assert "different uuids" in report.notes[0]


def grow(shards: list[Samples]) -> None:
    shards[1]["000004"]["txt"] = b"longer than it was before"


def lose(shards: list[Samples]) -> None:
    del shards[1]["000004"]


def gain_part(shards: list[Samples]) -> None:
    shards[2]["000007"]["cls"] = b"3"


def swap(shards: list[Samples]) -> None:
    shards[0] = dict(reversed(shards[0].items()))


def drop_shard(shards: list[Samples]) -> None:
    del shards[2]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (grow, ["shard_1.tar/000004 [txt]: bytes 16 → 25"]),
        (lose, ["samples 9 → 8", "shard_1.tar: samples 3 → 2", "shard_1.tar: samples: 1 only in A (000004)"]),
        (gain_part, ["shard_2.tar/000007: parts 'txt' → 'cls, txt'"]),
        (swap, ["shard_0.tar: number 0 '000000' → '000002'"]),
        (
            drop_shard,
            [
                "samples 9 → 6",
                "shards 3 → 2",
                "shards: 1 only in A (shard_2.tar)",
                "split: train '3 shards' → '2 shards'",
                "split: train: shards: 1 only in A (shard_2.tar)",
            ],
        ),
    ],
)
def test_a_change_is_named_in_both_directions(
    dataset: Path, tmp_path: Path, change: Callable[[list[Samples]], None], expected: list[str]
) -> None:
    other = str(write(tmp_path / "b", change))
    assert lines(compare_paths(str(dataset), other)) == expected
    back = lines(compare_paths(other, str(dataset)))
    assert len(back) == len(expected)
    assert lines(compare_paths(other, str(dataset))) != expected


def test_many_alike_are_one_line_with_their_number_and_the_first_names(tmp_path: Path) -> None:
    def write_texts(name: str, first: int, text: bytes, **parts: bytes) -> str:
        samples = {f"{number:03}": {"txt": text, **parts} for number in range(first, first + 5000)}
        write_shard(tmp_path / name / "s.tar", samples)
        prepare(tmp_path / name, split=SplitRequest(ratio={"train": 1.0}))
        return str(tmp_path / name)

    before = write_texts("a", 0, b"short")
    assert lines(compare_paths(before, write_texts("moved", 4000, b"short"))) == [
        "s.tar: samples: 4,000 only in A (000, 001, 002, …), 4,000 only in B (5000, 5001, 5002, …)"
    ]
    assert lines(compare_paths(before, write_texts("longer", 0, b"much longer"))) == [
        "s.tar/000 [txt] and 4,999 more: bytes 5 → 11"
    ]
    assert lines(compare_paths(before, write_texts("more", 0, b"short", cls=b"1"))) == [
        "s.tar/000 and 4,999 more: parts 'txt' → 'cls, txt'"
    ]
    [names] = compare_paths(before, str(tmp_path / "moved")).differences
    assert (names.before.count, len(names.before.first), names.before.first[0]) == (4000, 1000, "000")


def test_only_contents_of_the_same_size_need_the_flag(dataset: Path, tmp_path: Path) -> None:
    def change(shards: list[Samples]) -> None:
        shards[1]["000004"]["txt"] = b"picture number 5"

    other = str(write(tmp_path / "b", change))
    assert compare_paths(str(dataset), other).is_same
    [line] = lines(compare_paths(str(dataset), other, contents=True))
    assert line.startswith("shard_1.tar/000004: byte ")
    assert line.endswith(f" {ord('4')} → {ord('5')}")


def test_the_split_and_the_excluded_samples(dataset: Path, tmp_path: Path) -> None:
    shutil.copytree(dataset, tmp_path / "b")
    file = tmp_path / "b" / ".nv-meta" / "split.yaml"
    split = yaml.safe_load(file.read_text())
    split["split_parts"] = {"train": ["shard_1.tar", "shard_0.tar"], "val": ["shard_2.tar"]}
    split["exclude"] = ["shard_0.tar/000001"]
    file.write_text(yaml.safe_dump(split))
    assert lines(compare_paths(str(dataset), str(tmp_path / "b"))) == [
        "split: train '3 shards' → '2 shards'",
        "split: train: shards: 1 only in A (shard_2.tar)",
        "split: val none → '1 shard'",
        "split: val: shards: 1 only in B (shard_2.tar)",
        "split: excluded: 1 only in B (shard_0.tar/000001)",
    ]


def test_all_differences_are_counted_and_few_are_kept(dataset: Path, tmp_path: Path) -> None:
    def change(shards: list[Samples]) -> None:
        for samples in shards:
            for parts in samples.values():
                parts["txt"] += b"!"

    report = compare_paths(str(dataset), str(write(tmp_path / "b", change)), max_differences=4)
    assert (len(report.differences), report.count) == (4, 9)


def test_progress_counts_the_shards(dataset: Path, tmp_path: Path) -> None:
    shutil.copytree(dataset, tmp_path / "b")
    seen: list[tuple[int, int]] = []
    compare_paths(str(dataset), str(tmp_path / "b"), on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_dataset_files_are_compared(tmp_path: Path) -> None:
    folder = write_captions(tmp_path / "a")
    prepare(folder)
    (folder / ".nv-meta" / "dataset.yaml").write_text(
        "sample_type: {__module__: megatron.energon, __class__: CrudeSample}\n"
    )
    shutil.copytree(folder, tmp_path / "b")
    (tmp_path / "b" / ".nv-meta" / "dataset.yaml").write_text(
        "sample_type: {__module__: megatron.energon, __class__: TextSample}\nfield_map: {text: txt}\n"
    )
    found = lines(compare_paths(str(folder), str(tmp_path / "b")))
    assert "dataset.yaml: sample_type 'CrudeSample' → 'TextSample'" in found


def mix(path: Path, *leaves: tuple[float, Path, str]) -> str:
    blend = [{"weight": weight, "path": str(folder), "split_part": part} for weight, folder, part in leaves]
    document = {"__module__": "megatron.energon", "__class__": "MetadatasetV2", "splits": {"train": {"blend": blend}}}
    path.write_text(yaml.safe_dump(document))
    return str(path)


def test_leaves_and_shares_of_metadatasets(dataset: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "b", drop_shard)
    before = mix(tmp_path / "a.yaml", (1, dataset, "train"), (1, other, "train"))
    same = mix(tmp_path / "same.yaml", (5, dataset, "train"), (5, other, "train"))
    assert lines(compare_paths(before, same)) == []
    heavier = mix(tmp_path / "heavier.yaml", (3, dataset, "train"), (1, other, "train"))
    assert lines(compare_paths(before, heavier)) == [
        f"train: {dataset} (train): share 0.5 → 0.75",
        f"train: {other} (train): share 0.5 → 0.25",
    ]
    fewer = mix(tmp_path / "fewer.yaml", (1, dataset, "train"))
    assert f"train: {other} (train): share 0.5 → none" in lines(compare_paths(before, fewer))


def test_kinds_that_cannot_be_compared(dataset: Path, tmp_path: Path) -> None:
    document = mix(tmp_path / "a.yaml", (1, dataset, "train"))
    assert kind_of_path(document) == "metadataset"
    with pytest.raises(ConfigError, match="a dataset and a metadataset cannot be compared"):
        compare_paths(str(dataset), document)
