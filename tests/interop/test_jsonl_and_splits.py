"""JSONL indices and splits equal those of megatron-energon, which also reads those that only we write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loader.format.documents.split_config import SplitConfig, format_split_config, parse_split_config
from loader.format.jsonl.index import prepare_jsonl
from loader.prepare.split import split_by_patterns, split_by_ratio
from loader.storage import LocalStorage

from .conftest import Peer
from .shapes import END, file, write

JSONL = {
    "plain": b'{"a":1}\n{"a":2}\n{"a":3}\n',
    "no line break at the end": b'{"a":1}\n{"a":2}',
    "a blank line between": b'{"a":1}\n\n{"a":2}\n',
    "blank lines all around": b'\n\n{"a":1}\n  \n\t\n{"a":2}\n\n\n',
    "CRLF": b'{"a":1}\r\n\r\n{"a":2}\r\n',
    "blanks around objects": b'  {"a":1}\n{"a":2}  \n   ',
    "odd blanks": b'{"a":1}\n\x0b\x0c\n{"a":2}\n',
    "line separators in a text": '{"a":"x\u2028y\x85z"}\n{"a":2}\n'.encode(),
}


@pytest.mark.parametrize("name", JSONL)
def test_the_index_of_a_jsonl_file_is_the_same_byte_for_byte(name: str, tmp_path: Path, peer: Peer) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(JSONL[name])
    peer.run("prepare", path)
    theirs = path.with_name("x.jsonl.idx").read_bytes()
    prepare_jsonl(LocalStorage(tmp_path), "x.jsonl")
    assert path.with_name("x.jsonl.idx").read_bytes() == theirs


def shards_in(folder: Path, names: list[str]) -> None:
    """Write shards of one sample each; the key is the shard's number."""
    write(folder, {name: file(f"{number}.txt", b"text") + END for number, name in enumerate(names)})


@pytest.mark.parametrize("count", [6, 11, 17, 25])
@pytest.mark.parametrize("ratio", ["8,1,1", "1,1,1", "0.5,0.3,0.2"])
def test_a_ratio_deals_shards_alike_where_no_part_is_empty(count: int, ratio: str, tmp_path: Path, peer: Peer) -> None:
    shards = [f"s_{number:03d}.tar" for number in range(count)]
    shards_in(tmp_path, shards)
    peer.prepare(tmp_path, "--split-ratio", ratio, "--skip-dataset-yaml")
    shares = dict(zip(("train", "val", "test"), map(float, ratio.split(",")), strict=True))
    ours = format_split_config(SplitConfig(split_parts=split_by_ratio(shards, shares).parts))
    assert (tmp_path / ".nv-meta/split.yaml").read_text() == ours


def test_shards_are_shuffled_alike_under_seed_42(tmp_path: Path, peer: Peer) -> None:
    shards = [f"s_{number:03d}.tar" for number in range(23)]
    shards_in(tmp_path, shards)
    peer.prepare(tmp_path, "--split-ratio", "6,2,2", "--shuffle-tars", "--skip-dataset-yaml")
    parts = split_by_ratio(shards, {"train": 6, "val": 2, "test": 2}, shuffle_seed=42).parts
    theirs = parse_split_config((tmp_path / ".nv-meta/split.yaml").read_text(), file="split.yaml")
    assert theirs.split_parts == parts


def test_patterns_match_alike(tmp_path: Path, peer: Peer) -> None:
    shards = ["000001.tar", "000002.tar", "000010.tar", "a+b.tar", "test.tar", "train/s_0.tar", "train/s_1.tar"]
    shards += ["train/s_10.tar", "train/s_2.tar", "val/s_0.tar", "val_1/x.tar"]
    shards_in(tmp_path, shards)
    patterns = {
        "rest": ".*",
        "folder": "train/.*",
        "beginning": "val",
        "half": "train/s_1",
        "range": "train/s_{0..2}.tar",
        "list": "train/s_{10,0}.tar",
        "steps": "train/s_{0..10..2}.tar",
        "padded": "0000{01..10}.tar",
        "group": "train/s_(0|2).tar",
        "quantifier": "[a-z]{4}.tar",
        "letters": "{a..t}.*",
        "anywhere": ".*s_0.tar",
    }
    flags = [word for name, pattern in patterns.items() for word in ("--split-parts", f"{name}:{pattern}")]
    peer.prepare(tmp_path, *flags, "--skip-dataset-yaml")
    theirs = parse_split_config((tmp_path / ".nv-meta/split.yaml").read_text(), file="split.yaml")
    assert theirs.split_parts == split_by_patterns(shards, list(patterns.items())).parts


def test_names_with_braces_and_backslashes_are_escaped_so_that_the_peer_reads_them(tmp_path: Path, peer: Peer) -> None:
    awkward = ["p{.tar", "a{0..1}b.tar", "c,d e.tar", "back\\slash.tar", "{x,y}.tar", "n_0.tar", "n_1.tar", "q}.tar"]
    plain = [f"{number:02d}.tar" for number in range(len(awkward))]
    shards_in(tmp_path, plain)
    peer.prepare(tmp_path, "--split-ratio", "0,1,0", "--sample-type", "CrudeWebdataset")
    # The peer cannot prepare files with such names, but reads a dataset that lists them.
    info = tmp_path / ".nv-meta/.info.json"
    info.write_text(json.dumps({**json.loads(info.read_text()), "shard_counts": dict.fromkeys(awkward, 1)}))
    for old, new in zip(plain, awkward, strict=True):
        (tmp_path / old).rename(tmp_path / new)
        (tmp_path / f"{old}.idx").rename(tmp_path / f"{new}.idx")
    config = SplitConfig(split_parts={"val": tuple(awkward)}, exclude=("a{0..1}b.tar", "n_1.tar/6"))
    (tmp_path / ".nv-meta/split.yaml").write_text(format_split_config(config))
    read = peer.read("crude", tmp_path, "val")
    assert [key for key, _ in read["samples"]] == ["0", "2", "3", "4", "5", "7"]
