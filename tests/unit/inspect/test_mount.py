"""The tree of a mounted dataset holds the bytes of all samples, whatever their keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loader.errors import ConfigError, FormatError
from loader.inspect.mount import MountedTree, Naming, open_tree
from tests.e2e.dataset_tree import caption_samples, shard_path, write_shard
from tests.tables import write_lines
from tests.unit.inspect.conftest import prepared

KEYS = ("plain", "in/a/folder", "50%", "%2F", "dots.in.dir/x", "ünïcode", "with space", "a\nb")
LAYOUTS = [
    Naming(sample_folders=folders, shard_folders=shards) for folders in (False, True) for shards in (False, True)
]


def files(tree: MountedTree, path: str = "") -> dict[str, bytes]:
    """Return all files below a path, read in small pieces."""
    entry = tree.entry(path or "/")
    assert entry is not None
    if not entry.is_folder:
        pieces = [tree.read(path, offset, 7) for offset in range(0, entry.size_bytes, 7)]
        assert tree.read(path, entry.size_bytes, 100) == b""
        return {path: b"".join(pieces)}
    names = [*tree.names(path)]
    assert len(names) == len(set(names))
    assert all("/" not in name and name not in ("", ".", "..") for name in names)
    return {found: data for name in names for found, data in files(tree, f"{path}/{name}").items()}


def expected_files(folder: Path, layout: Naming) -> dict[str, bytes]:
    found = {}
    for number in range(4):
        shard = f"/shard_{number:03}.tar" if layout.shard_folders else ""
        for key, parts in caption_samples(10 * number, 5).items():
            for part, data in parts.items():
                found[f"{shard}/{key}/{part}" if layout.sample_folders else f"{shard}/{key}.{part}"] = data
    return found


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_all_parts_are_files(folder: Path, layout: Naming) -> None:
    assert files(open_tree(str(folder), layout)) == expected_files(folder, layout)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_any_key_is_a_name(tmp_path: Path, layout: Naming) -> None:
    samples = {key: {"txt": key.encode(), "seg.png": b"picture"} for key in KEYS}
    write_shard(shard_path(tmp_path, 0), samples)
    prepared(tmp_path)
    found = files(open_tree(str(tmp_path), layout))
    assert sorted(data for data in found.values() if data != b"picture") == sorted(
        parts["txt"] for parts in samples.values()
    )
    assert len(found) == 2 * len(KEYS)


@pytest.mark.parametrize(
    "path", ["/x", "/00000", "/00000.txt/x", "/00000.png", "/00099.txt", "/shard_000.tar", "/.txt"]
)
def test_nothing_is_at_other_paths(folder: Path, path: str) -> None:
    tree = open_tree(str(folder), Naming())
    assert tree.entry(path) is None
    assert [*tree.names(path)] == []
    with pytest.raises(FileNotFoundError):
        tree.read(path, 0, 10)


def test_of_repeated_keys_the_last_is_shown_and_all_by_shard(tmp_path: Path) -> None:
    for number in range(2):
        write_shard(shard_path(tmp_path, number), {"same": {"txt": b"%d" % number}})
    prepared(tmp_path)
    assert files(open_tree(str(tmp_path), Naming())) == {"/same.txt": b"1"}
    assert files(open_tree(str(tmp_path), Naming(shard_folders=True))) == {
        "/shard_000.tar/same.txt": b"0",
        "/shard_001.tar/same.txt": b"1",
    }


def test_a_split_part_has_its_samples_without_the_excluded_ones(folder: Path) -> None:
    split = folder / ".nv-meta/split.yaml"
    split.write_text(split.read_text().replace("exclude: []", "exclude: [shard_000.tar/00003]"))
    parts = {part: files(open_tree(str(folder), Naming(), split_part=part)) for part in ("train", "val")}
    assert not {*parts["train"]} & {*parts["val"]}
    every = {path: data for part in parts.values() for path, data in part.items()}
    assert every == {
        path: data for path, data in expected_files(folder, Naming()).items() if not path.startswith("/00003.")
    }
    with pytest.raises(ConfigError, match="there is no split part 'trian'"):
        open_tree(str(folder), Naming(), split_part="trian")


def test_records_are_files_of_their_values(tmp_path: Path) -> None:
    for number in range(2):
        write_lines(tmp_path / f"part_{number}.jsonl", [number, number + 10])
    prepared(tmp_path)
    found = files(open_tree(str(tmp_path), Naming(sample_folders=True, shard_folders=True)))
    assert [json.loads(data)["id"] for data in found.values()] == [0, 10, 1, 11]


def test_a_metadataset_is_a_tree_of_its_datasets(folder: Path, tmp_path: Path) -> None:
    mix = tmp_path / "mix.yaml"
    head = "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n"
    (tmp_path / "inner.yaml").write_text(
        head + "  train:\n    blend: [{weight: 1, path: ds}, {weight: 1, path: missing}]\n"
    )
    mix.write_text(
        head + "  train:\n    blend: [{weight: 2, path: ds}, {weight: 1, path: inner.yaml}]\n  val: {path: ds}\n"
    )
    tree = open_tree(str(mix), Naming())
    assert [*tree.names("/")] == ["train", "val"]
    assert [*tree.names("/train")] == ["0_ds", "1_inner.yaml"]
    assert [*tree.names("/train/1_inner.yaml")] == ["0_ds", "1_missing"]
    train = files(open_tree(str(folder), Naming(), split_part="train"))
    assert files(tree, "/train/0_ds") == {f"/train/0_ds{path}": data for path, data in train.items()}
    assert [*tree.names("/train/1_inner.yaml/1_missing")] == ["ERROR.txt"]
    (text,) = files(tree, "/train/1_inner.yaml/1_missing").values()
    assert b"missing" in text
    assert [*open_tree(str(mix), Naming(), split_part="val").names("/")] == ["val"]


def test_a_shard_that_has_changed_is_an_error(folder: Path) -> None:
    tree = open_tree(str(folder), Naming())
    shard_path(folder, 0).write_bytes(b"")
    with pytest.raises(FormatError, match="has changed since it was indexed"):
        tree.read("/00000.txt", 0, 10)
    assert tree.read("/00010.txt", 0, 100) == b"text 10"
    tree.close()
