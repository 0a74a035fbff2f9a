"""The compatibility files of `prepare` equal those of megatron-energon for the same shards."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import uuid
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from braceexpand import braceexpand

from .conftest import WHOLE, Peer, Program
from .shapes import END, SHAPES, Shape, contents, file, flat, pair, write

TABLES = {
    "samples": "SELECT * FROM samples ORDER BY tar_file_id, sample_index",
    "sample_parts": "SELECT * FROM sample_parts ORDER BY tar_file_id, sample_index, content_byte_offset",
}
COLUMNS = {
    "samples": ["tar_file_id", "sample_key", "sample_index", "byte_offset", "byte_size"],
    "sample_parts": ["tar_file_id", "sample_index", "part_name", "content_byte_offset", "content_byte_size"],
}
CRUDE = ("--sample-type", "CrudeWebdataset")


@dataclass(frozen=True)
class Twins:
    """One shape, prepared by both tools."""

    shape: Shape
    ours: Path
    peers: Path


@pytest.fixture(scope="module", params=list(SHAPES))
def twins(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, ours: Program, peer: Peer) -> Twins:
    shape = SHAPES[request.param]()
    folder = tmp_path_factory.mktemp("twins")
    return Twins(
        shape,
        ours.prepare(write(folder / "ours", shape), *WHOLE, *CRUDE, "--compat"),
        peer.prepare(write(folder / "peers", shape), *WHOLE, *CRUDE),
    )


def rows(folder: Path, table: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(f"file:{folder / '.nv-meta/index.sqlite'}?mode=ro", uri=True)) as database:
        cursor = database.execute(TABLES[table])
        assert [column[0] for column in cursor.description] == COLUMNS[table]
        return cursor.fetchall()


def tar_indexes(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.tar.idx")}


def shard_counts(folder: Path) -> list[tuple[str, int]]:
    info = json.loads((folder / ".nv-meta/.info.json").read_text())
    assert set(info) == {"energon_version", "shard_counts"}
    return list(info["shard_counts"].items())


def split(folder: Path) -> dict[str, object]:
    config = yaml.safe_load((folder / ".nv-meta/split.yaml").read_text())
    parts = {
        name: [shard for pattern in patterns for shard in braceexpand(pattern)]
        for name, patterns in config["split_parts"].items()
    }
    return {"parts": parts, "exclude": config["exclude"]}


@pytest.mark.parametrize("table", TABLES)
def test_index_sqlite_has_the_same_rows(twins: Twins, table: str) -> None:
    assert rows(twins.ours, table) == rows(twins.peers, table)


def test_the_tar_indexes_have_the_same_bytes(twins: Twins) -> None:
    assert tar_indexes(twins.ours) == tar_indexes(twins.peers)


def test_shards_are_counted_alike_and_in_the_same_order(twins: Twins) -> None:
    assert shard_counts(twins.ours) == shard_counts(twins.peers)


def test_split_yaml_has_the_same_meaning(twins: Twins) -> None:
    assert split(twins.ours) == split(twins.peers)


def test_dataset_yaml_is_the_same(twins: Twins) -> None:
    ours, peers = (
        yaml.safe_load((folder / ".nv-meta/dataset.yaml").read_text()) for folder in (twins.ours, twins.peers)
    )
    assert ours == peers


def test_index_uuid_is_one(twins: Twins) -> None:
    text = (twins.ours / ".nv-meta/index.uuid").read_text()
    assert str(uuid.UUID(text)) == text


def test_the_peer_loads_and_looks_up_every_sample(twins: Twins, peer: Peer) -> None:
    expected = contents(twins.shape)
    read = peer.read("all", twins.ours, "train", "dataset.yaml")
    assert dict(read["samples"]) == expected
    assert len(read["samples"]) == len(expected)
    assert read["training_keys"] == sorted(expected)
    by_name = {f"{key}.{name}": digest for key, parts in expected.items() for name, digest in parts.items()}
    assert read["answers"] == by_name


@pytest.mark.parametrize("count", [10, 25, 40])
def test_a_ratio_splits_many_shards_alike(tmp_path: Path, ours: Program, peer: Peer, count: int) -> None:
    shape = {f"s_{number:04d}.tar": pair(f"k{number}", number) + END for number in range(count)}
    arguments = "--split-ratio", "8,1,1", "--skip-dataset-yaml"
    mine = ours.prepare(write(tmp_path / "ours", shape), *arguments, "--compat")
    other = peer.prepare(write(tmp_path / "peers", shape), *arguments)
    assert split(mine) == split(other)


def test_patterns_split_alike(tmp_path: Path, ours: Program, peer: Peer) -> None:
    shape = {f"{part}/s{n}.tar": pair(f"{part}{n}", n) + END for part in ("train", "val", "more") for n in range(3)}
    arguments = "--split-parts", "train:train/s{0..1}.tar", "--split-parts", "val:val/.*", "--skip-dataset-yaml"
    mine = ours.prepare(write(tmp_path / "ours", shape), *arguments, "--compat")
    other = peer.prepare(write(tmp_path / "peers", shape), *arguments)
    assert split(mine) == split(other)
    assert shard_counts(mine) == shard_counts(other)


def test_preparing_again_after_changes_equals_preparing_from_scratch(tmp_path: Path, ours: Program, peer: Peer) -> None:
    """Change a shard, remove one and add one, which renumbers all later shards."""
    before = dict(flat())
    mine = ours.prepare(write(tmp_path / "ours", before), *WHOLE, *CRUDE, "--compat")
    after = dict(before)
    after["shard_004.tar"] = pair("new", 1) + before["shard_004.tar"]
    after["shard_001a.tar"] = pair("added", 2) + END
    del after["shard_002.tar"]
    (mine / "shard_002.tar").unlink()
    (mine / "shard_002.tar.idx").unlink()
    ours.prepare(write(mine, after), *WHOLE, *CRUDE, "--compat", "--force-overwrite")
    other = peer.prepare(write(tmp_path / "peers", after), *WHOLE, *CRUDE)
    for table in TABLES:
        assert rows(mine, table) == rows(other, table)
    assert tar_indexes(mine) == tar_indexes(other)
    assert shard_counts(mine) == shard_counts(other)
    assert dict(peer.read("all", mine, "train", "dataset.yaml")["samples"]) == contents(after)


def test_hidden_files_in_folders_are_no_samples_of_ours(tmp_path: Path, ours: Program, peer: Peer) -> None:
    """Intended difference: the peer reads hidden files as a sample with the key ``d/``."""
    shape = {"s.tar": pair("d/a", 1) + file("d/.hidden", b"x") + pair("d/b", 2) + END}
    other = peer.prepare(write(tmp_path / "peers", shape), *WHOLE, *CRUDE)
    assert [row[1] for row in rows(other, "samples")] == ["d/a", "d/", "d/b"]
    # No compatibility files are written: the peer would read up to the next sample, find the hidden file and crash.
    mine = ours.prepare(write(tmp_path / "ours", shape), *WHOLE, *CRUDE)
    assert shard_counts(mine) == [("s.tar", 2)]
    assert not (mine / ".nv-meta/index.sqlite").exists()
    assert not (mine / "s.tar.idx").exists()


def test_numbers_of_sample_types(peer: Peer, tmp_path: Path) -> None:
    """The numbers that tutorials pipe to the wizard are those of the peer's list."""
    from loader.format.documents import SAMPLE_TYPE_OF_NUMBER

    folder = write(tmp_path / "set", flat())
    done = subprocess.run(
        [*peer.command, "prepare", folder], input="8,1,1\ny\n", capture_output=True, text=True, timeout=120, check=False
    )
    listed = dict(re.findall(r"^(\d+)\. (\w+)", done.stdout, re.MULTILINE))
    assert listed.pop("11") == "Crude"
    assert listed.pop("6") == "Sample"  # has no fields, so it is not in our list
    assert listed == {str(number): spec.name for number, spec in SAMPLE_TYPE_OF_NUMBER.items() if number < 11}
    assert SAMPLE_TYPE_OF_NUMBER[11].crude
