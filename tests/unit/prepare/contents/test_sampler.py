"""Samples are inspected in every shard and every part set, with few reads and small results."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from loader.format.index.shard_index import index_shard
from loader.prepare.contents.findings import Contents, ContentSampler
from loader.storage import FileInfo, LocalStorage
from tests.cli.make_dataset import write_shard
from tests.imports import picture


def shards_of(folder: Path) -> tuple[LocalStorage, list[FileInfo]]:
    storage = LocalStorage(folder)
    return storage, sorted(storage.list(), key=lambda shard: shard.name)


def inspect_all(sampler: ContentSampler, storage: LocalStorage, shards: list[FileInfo]) -> Contents:
    contents = Contents()
    for shard in shards:
        contents.merge(sampler.inspect(storage, shard, index_shard(storage, shard.name)))
    return contents


def test_few_shards_are_inspected_at_many_samples_and_many_at_one(tmp_path: Path) -> None:
    write_shard(tmp_path / "a.tar", {f"{number}": {"txt": b"a"} for number in range(1000)})
    storage, shards = shards_of(tmp_path)
    contents = inspect_all(ContentSampler.of_shards(["a.tar"], is_far=False, workers=1), storage, shards)
    assert (contents.samples, contents.shards) == (256, 1)
    many = ContentSampler.of_shards([f"{number}.tar" for number in range(5000)], is_far=False, workers=1)
    assert len(many.samples_of) == 1667
    assert set(many.samples_of.values()) == {1}


def test_an_object_store_gets_at_most_64_requests_of_all_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = bytes(300_000)  # so that each part needs a request
    for number in range(90):
        write_shard(tmp_path / f"{number:02}.tar", {"0": {"bin": large, "json": b'{"a": 1}'}})
    storage, shards = shards_of(tmp_path)
    reads: list[int] = []
    opened = type(storage.open(shards[0].name))
    read_at = opened.read_at

    def counted(self: Any, offset: int, size_bytes: int) -> bytes:
        reads.append(offset)
        return read_at(self, offset, size_bytes)

    indexes = [index_shard(storage, shard.name) for shard in shards]
    monkeypatch.setattr(opened, "read_at", counted)
    samplers = [ContentSampler.of_shards([s.name for s in shards], is_far=True, workers=4) for _ in range(4)]
    for number, (shard, index) in enumerate(zip(shards, indexes, strict=True)):
        samplers[number % 4].inspect(storage, shard, index)
    assert 0 < len(reads) <= 64


def test_results_are_small_whatever_the_documents_are(tmp_path: Path) -> None:
    wide = {f"k{number}": "x" * 500 for number in range(900)}
    deep = {"list": [[["y" * 40] * 100] * 40] * 5}
    samples = {"0": {"json": json.dumps(wide).encode()}, "1": {"json": json.dumps(deep).encode()}}
    huge = json.dumps({"text": "z" * (1 << 21)}).encode()
    write_shard(tmp_path / "a.tar", {**samples, "2": {"json": huge}, "3": {"jpg": picture(0), "json": b"{"}})
    storage, shards = shards_of(tmp_path)
    contents = inspect_all(ContentSampler.of_shards(["a.tar"], is_far=False, workers=1), storage, shards)
    assert contents.samples == 4
    assert len(pickle.dumps(contents)) < 1 << 20
    assert sum(each.parts for each in contents.structures["json"].values()) == 2


def test_the_contents_of_shards_are_merged_in_their_order() -> None:
    one, two = Contents(), Contents()
    one.add_document("json", {"id": 1}, "a.tar/0", size_bytes=9)
    two.add_document("json", {"id": 2, "meta": {"url": "u"}}, "b.tar/0", size_bytes=9)
    two.add_document("json", {"id": 3}, "b.tar/1", size_bytes=9)
    one.merge(two)
    assert one.json_example() == {"id": 1, "meta": {"url": "u"}}
    assert list(one.conflicts()) == ["json[meta] is missing in 2 of 3 json parts inspected, first a.tar/0"]
    assert one.count_with(["json[id]", "json[meta]"]) == (1, 3)
    assert one.count_with(["json[id]", "json[title]"]) == (0, 3)
    assert one.count_with(["txt[a]"]) == (1, 1), "without any such part, nothing speaks against it"


def test_very_many_structures_keep_the_number_of_parts() -> None:
    contents = Contents()
    for number in range(700):
        contents.add_document("json", {f"k{number}": 1}, f"a.tar/{number}", size_bytes=9)
    assert len(contents.structures["json"]) == 500
    assert sum(each.parts for each in contents.structures["json"].values()) == 700
