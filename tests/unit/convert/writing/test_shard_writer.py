"""Datasets that programs write are prepared, decode to what was written, and appear whole or not at all."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from loader import CaptioningSample, ImageClassificationSample, ShardWriter, VQASample, WorkerConfig, get_val_dataset
from loader.convert.writing.encoded_parts import encode_part
from loader.convert.writing.seen_keys import SeenKeys
from loader.dataset.opening import folder_at
from loader.errors import ConfigError, SampleError


def write(folder: Path, keys: Iterable[str], **options: Any) -> ShardWriter:
    with ShardWriter(folder, **options) as writer:
        for key in keys:
            writer.write({"__key__": key, "txt": f"text {key}"})
    return writer


def texts(folder: Path) -> dict[str, str]:
    opened = folder_at(folder)
    found = {opened.index.key(n): opened.read_parts(n)["txt"].decode() for n in range(len(opened.index))}
    assert len(found) == len(opened.index)
    opened.close()
    return found


def shards(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.tar"))}


def numbered(start: int, stop: int) -> list[str]:
    return [f"{number:04d}" for number in range(start, stop)]


def test_the_end_of_the_block_makes_a_dataset_without_a_scan(tmp_path: Path) -> None:
    writer = write(tmp_path / "ds", numbered(0, 25), samples_per_shard=10)
    assert writer.report is not None
    assert (writer.samples, writer.report.samples, writer.report.scanned) == (25, 25, 0)
    assert texts(tmp_path / "ds") == {key: f"text {key}" for key in numbered(0, 25)}
    assert [*shards(tmp_path / "ds")] == [f"shard_{number:06d}.tar" for number in range(3)]
    assert not (tmp_path / "ds/.nv-meta/.writing").exists()
    assert [*folder_at(tmp_path / "ds").documents.split.split_parts] == ["train"]  # type: ignore[union-attr]


def test_the_same_samples_make_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with ShardWriter(tmp_path / name) as writer:
            writer.write({"__key__": "x", "json.gz": {"a": 1}, "npz": {"v": np.arange(3)}, "png": np.eye(4)})
    assert shards(tmp_path / "a") == shards(tmp_path / "b")


def test_shards_end_before_they_exceed_the_size(tmp_path: Path) -> None:
    with ShardWriter(tmp_path, shard_bytes=20_480) as writer:
        for number in range(30):
            writer.write({"__key__": str(number), "bin": bytes(number * 100)})
        writer.write({"__key__": "large", "bin": bytes(50_000)})
    sizes = [len(data) for data in shards(tmp_path).values()]
    assert all(size <= 20_480 for size in sizes[:-1])
    assert sizes[-1] > 50_000
    assert len(sizes) > 2


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("txt", "ä", "ä".encode()),
        ("json", {"n": np.int64(1), "v": torch.ones(2), "t": "ä"}, '{"n": 1, "v": [1.0, 1.0], "t": "ä"}'.encode()),
        ("seg.json", [1], b"[1]"),
        ("cls", 7, b"7"),
        ("cls", torch.tensor(7), b"7"),
        ("cls", np.int32(7), b"7"),
        ("any", b"\0", b"\0"),
        ("any", memoryview(b"\0"), b"\0"),
    ],
)
def test_values_are_encoded_by_the_extension(name: str, value: object, data: bytes) -> None:
    encoded = encode_part(name, value, key="0")
    assert isinstance(encoded, bytes | memoryview)
    assert bytes(encoded) == data


@pytest.mark.parametrize("name", ["npy", "pth", "ten", "mp", "cbor", "npz"])
def test_arrays_and_trees_decode_to_what_was_written(tmp_path: Path, name: str) -> None:
    value = {"a": [1, "b"]} if name in ("mp", "cbor") else torch.arange(6).reshape(2, 3)
    with ShardWriter(tmp_path) as writer:
        writer.write({"__key__": "0", name: {"v": value} if name == "npz" else value}, split="val")
    [sample] = get_val_dataset(
        tmp_path, worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0), batch_size=None
    )
    found = sample[name]
    found = found["v"] if name == "npz" else found[0] if name == "ten" else found
    assert found == value if isinstance(value, dict) else np.array_equal(np.asarray(found), value.numpy())


PIXELS = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)


@pytest.mark.parametrize(
    "value",
    [
        PIXELS,
        Image.fromarray(PIXELS),
        torch.from_numpy(PIXELS).permute(2, 0, 1),
        torch.from_numpy(PIXELS).permute(2, 0, 1) / 255,
        PIXELS / 255,
    ],
)
@pytest.mark.parametrize("name", ["png", "left.PNG", "bmp", "tiff", "ppm"])
def test_pictures_keep_their_pixels(tmp_path: Path, name: str, value: object) -> None:
    (tmp_path / "picture").write_bytes(encode_part(name, value, key="0"))  # type: ignore[arg-type]
    assert np.array_equal(np.asarray(Image.open(tmp_path / "picture")), PIXELS)


def test_a_path_is_copied(tmp_path: Path) -> None:
    (tmp_path / "clip").write_bytes(b"x" * 5_000_000)
    with ShardWriter(tmp_path / "ds") as writer:
        writer.write({"__key__": "0", "mp4": tmp_path / "clip", "txt": "a"})
    assert folder_at(tmp_path / "ds").read_parts(0) == {"mp4": b"x" * 5_000_000, "txt": b"a"}


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ({"txt": "a"}, "no '__key__'"),
        ({"__key__": "a.b", "txt": "a"}, "cannot be the name of a file"),
        ({"__key__": "../b", "txt": "a"}, "cannot be the name of a file"),
        ({"__key__": "a\nb", "txt": "a"}, "cannot be the name of a file"),
        ({"__key__": "a"}, "has no parts"),
        ({"__key__": "a", "x/y": b""}, "a part cannot have the name 'x/y'"),
        ({"__key__": "a", "txt": 7}, "a value of int cannot be written as 'txt'"),
        ({"__key__": "a", "cls": 1.5}, "a value of float cannot be written as 'cls': expected an integer"),
        ({"__key__": "a", "json": {"x": float("nan")}}, "cannot be written as 'json'"),
        ({"__key__": "a", "jpg": torch.full((3, 2, 2), 7.0)}, "expected floats from 0 to 1"),
        ({"__key__": "a", "jpg": np.zeros((3, 2, 2, 1))}, "expected the shape of a picture"),
        ({"__key__": "a", "mp3": [1]}, "there is no encoder"),
        ({"__key__": "a", "txt": Path("/no/such/file")}, "cannot read /no/such/file"),
        (7, "expected a dict or a typed sample"),
    ],
)
def test_what_cannot_be_written_is_refused_and_the_writer_goes_on(tmp_path: Path, sample: Any, message: str) -> None:
    with ShardWriter(tmp_path) as writer:
        with pytest.raises(SampleError, match=message):
            writer.write(sample)
        writer.write({"__key__": "a", "txt": "fine"})
    assert texts(tmp_path) == {"a": "fine"}


def test_a_repeated_key_is_refused_with_its_first_place_or_renamed(tmp_path: Path) -> None:
    with ShardWriter(tmp_path / "ds", samples_per_shard=2) as writer:
        for key in "abc":
            writer.write({"__key__": key, "txt": key})
        for key, shard in (("a", 0), ("c", 1)):
            with pytest.raises(ConfigError, match=rf"two samples have the key '{key}'\n  at: .*shard_00000{shard}.tar"):
                writer.write({"__key__": key, "txt": key})
    assert [*texts(tmp_path / "ds")] == ["a", "b", "c"]
    assert [*texts_of_renamed(tmp_path / "renamed")] == ["a", "a-2", "a-3"]


def texts_of_renamed(folder: Path) -> dict[str, str]:
    write(folder, ["a", "a", "a"], on_repeat="rename", samples_per_shard=1)
    return texts(folder)


def test_seen_keys_know_their_shards() -> None:
    seen = SeenKeys()
    for number in range(200_000):
        seen.add(str(number), number // 1000)
    assert all(seen.shard(str(number)) == number // 1000 for number in range(0, 200_000, 997))
    assert all(seen.shard(f"x{number}") is None for number in range(1000))


def test_splits_follow_from_the_ratio_or_the_call(tmp_path: Path) -> None:
    writer = write(tmp_path / "ratio", numbered(0, 1000), split_ratio={"train": 8, "val": 2})
    assert writer.report is not None
    (_, train), (_, val) = writer.report.split["train"], writer.report.split["val"]
    assert train + val == 1000
    assert 150 < val < 250
    with ShardWriter(tmp_path / "named") as writer:
        for number in range(6):
            writer.write({"__key__": str(number), "txt": "x"}, split="test" if number == 3 else None)
    assert writer.report is not None
    assert {name: samples for name, (_, samples) in writer.report.split.items()} == {"train": 5, "test": 1}


def test_typed_samples_are_read_back(tmp_path: Path) -> None:
    image = torch.rand(3, 8, 9)
    samples = [
        CaptioningSample(__key__="s.tar/1", image=image, caption="a cat"),
        VQASample(__key__="1", image=image, context="what?", answers=["a", "b"], answer_weights=torch.tensor([1.0, 2])),
        ImageClassificationSample(__key__="1", image=image, label=4, label_name="cat"),
    ]
    for number, sample in enumerate(samples):
        with ShardWriter(tmp_path / str(number)) as writer:
            assert writer.write(sample, split="val") in ("s/1", "1")
        config = WorkerConfig(rank=0, world_size=1, num_workers=0)
        [found] = get_val_dataset(tmp_path / str(number), worker_config=config, batch_size=None)
        assert type(found) is type(sample)
        assert getattr(found, "image").shape == image.shape  # noqa: B009 - not all types have it
        for name in ("caption", "context", "answers", "label_name"):
            assert getattr(found, name, None) == getattr(sample, name, None)
        for name in ("label", "answer_weights"):
            if hasattr(sample, name):
                assert torch.equal(*(torch.as_tensor(getattr(one, name)).float() for one in (found, sample)))


def test_a_field_map_is_read_backwards(tmp_path: Path) -> None:
    fields = {"image": "png,jpg", "caption": "json[texts][short]"}
    with ShardWriter(tmp_path, sample_type="CaptioningSample", field_map=fields) as writer:
        writer.write(CaptioningSample(__key__="1", image=torch.zeros(3, 4, 4), caption="a cat"))
        with pytest.raises(SampleError, match="the field 'caption' is missing"):
            writer.write(CaptioningSample(__key__="2", image=torch.zeros(3, 4, 4), caption=None))  # type: ignore[arg-type]
    folder = folder_at(tmp_path)
    parts = folder.read_parts(0)
    assert json.loads(parts["json"]) == {"texts": {"short": "a cat"}}
    assert parts["png"].startswith(b"\x89PNG")
    assert folder.documents.config is not None
    assert folder.documents.config.field_map is not None
    assert folder.documents.config.field_map.expressions() == fields
    with pytest.raises(ConfigError, match="there is no sample type 'CaptionSample'"):
        ShardWriter(tmp_path, sample_type="CaptionSample")


# ---------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("samples", [0, 25])
def test_an_exception_leaves_nothing(tmp_path: Path, samples: int) -> None:
    def fail() -> None:
        with ShardWriter(tmp_path / "ds", samples_per_shard=10) as writer:
            for key in numbered(0, samples):
                writer.write({"__key__": key, "txt": key})
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    left = [path for path in (tmp_path / "ds").rglob("*") if path.is_file()]
    assert not [path for path in left if path.suffix == ".tar" or path.name == ".info.json"], left
    write(tmp_path / "ds", numbered(0, 5))
    assert len(texts(tmp_path / "ds")) == 5


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(ConfigError, match=r"expected a new or empty folder, found mine\.txt"):
        write(tmp_path, ["a"])
    write(tmp_path / "ds", ["a"])
    with pytest.raises(ConfigError, match="this folder is a prepared dataset"):
        write(tmp_path / "ds", ["b"])


@pytest.mark.parametrize("record", ["begun.json", "shard_000000.tar.json"])
def test_an_unfinished_record_of_a_killed_writer_is_no_shard(tmp_path: Path, record: str) -> None:
    folder, records = tmp_path / "ds", tmp_path / "ds/.nv-meta/.writing/main"

    def write_until(stop: int) -> ShardWriter:
        with ShardWriter(folder, samples_per_shard=2, resume=True) as writer:
            for key in numbered(0, 6):
                if int(key) == stop:
                    raise KeyboardInterrupt
                writer.write({"__key__": key, "txt": key})
        return writer

    with pytest.raises(KeyboardInterrupt):
        write_until(4)
    shutil.copy(records / record, records / f".{record}.4711-0123456789ab.partial")
    writer = write_until(6)
    assert (writer.resumed, writer.samples) == (2, 4)


def test_an_interrupted_write_continues_and_repeats_nothing(tmp_path: Path) -> None:
    made: list[str] = []

    def run(folder: Path, stop: int | None) -> ShardWriter:
        made.clear()
        with ShardWriter(folder, samples_per_shard=10, resume=True) as writer:
            for number, key in enumerate(numbered(0, 45)):
                if number == stop:
                    raise KeyboardInterrupt
                if key not in writer:
                    made.append(key)
                writer.write({"__key__": key, "txt": f"text {key}"})
            with pytest.raises(ConfigError, match="two samples have the key '0001'"):
                writer.write({"__key__": "0001", "txt": ""})
        return writer

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "ds", 34)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "ds").glob("*.tar")}
    assert len(kept) == 3
    with pytest.raises(ConfigError, match="a write that was interrupted"):
        write(tmp_path / "ds", ["a"])
    writer = run(tmp_path / "ds", None)
    assert (writer.resumed, writer.samples, made) == (30, 15, numbered(30, 45))
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    run(tmp_path / "whole", None)
    assert shards(tmp_path / "ds") == shards(tmp_path / "whole")


# ------------------------------------------------------------------------------------------------- many processes


def write_part(writer: ShardWriter, first: int) -> None:
    with writer:
        for key in numbered(first, first + 25):
            writer.write({"__key__": key, "txt": f"text {key}"})


def test_processes_write_their_own_shards_and_one_commits(tmp_path: Path) -> None:
    with ShardWriter(tmp_path, samples_per_shard=10) as writer:
        with multiprocessing.get_context("fork").Pool(2) as pool:
            pool.starmap(write_part, [(writer.part(rank), 100 * rank) for rank in range(3)])
        writer.write({"__key__": "own", "txt": "text own"})
    keys = [key for rank in range(3) for key in numbered(100 * rank, 100 * rank + 25)]
    assert texts(tmp_path) == {key: f"text {key}" for key in [*keys, "own"]}
    assert "part_00002_000002.tar" in shards(tmp_path)
    with pytest.raises(TypeError, match="cannot be pickled inside its block"), ShardWriter(tmp_path / "x") as writer:
        pickle.dumps(writer)


def test_jobs_without_a_common_process_are_committed_later(tmp_path: Path) -> None:
    for rank in (0, 2):
        write_part(ShardWriter(tmp_path, rank=rank), 100 * rank)
    with pytest.raises(ConfigError, match="writers are missing: part_00001 did not begin"):
        ShardWriter.commit(tmp_path, parts=3)
    begun = ShardWriter(tmp_path, rank=1)
    begun.__enter__()
    with pytest.raises(ConfigError, match="part_00001 did not finish"):
        ShardWriter.commit(tmp_path)
    begun.__exit__(RuntimeError, RuntimeError("killed"), None)
    write_part(ShardWriter(tmp_path, rank=1), 100)
    assert ShardWriter.commit(tmp_path, parts=3).samples == 75
    assert len(texts(tmp_path)) == 75


def test_a_key_of_two_processes_is_refused_with_both_places_or_renamed(tmp_path: Path) -> None:
    for rank in range(2):
        write(tmp_path, ["same", f"own{rank}"], rank=rank)
    places = "part_00000_000000.tar/same and part_00001_000000.tar/same"
    with pytest.raises(ConfigError, match=rf"keys were written twice \(1\): {places}"):
        ShardWriter.commit(tmp_path)
    assert ShardWriter.commit(tmp_path, on_repeat="rename").samples == 4
    assert len(texts(tmp_path)) == 4


def test_a_part_that_starts_again_replaces_its_shards(tmp_path: Path) -> None:
    code = os.fork()
    if code == 0:
        writer = ShardWriter(tmp_path, rank=0, samples_per_shard=5)
        writer.__enter__()
        for key in numbered(0, 17):
            writer.write({"__key__": key, "txt": "lost"})
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(code, 0)[1]) == 9
    assert len(shards(tmp_path)) == 3
    write(tmp_path, numbered(0, 3), rank=0)
    ShardWriter.commit(tmp_path)
    assert texts(tmp_path) == {key: f"text {key}" for key in numbered(0, 3)}


def test_a_shard_that_vanished_or_is_of_nobody_stops_the_commit(tmp_path: Path) -> None:
    write(tmp_path, numbered(0, 5), rank=0, samples_per_shard=2)
    (tmp_path / "other.tar").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"other\.tar is of no writer"):
        ShardWriter.commit(tmp_path)
    (tmp_path / "other.tar").unlink()
    (tmp_path / "part_00000_000001.tar").unlink()
    with pytest.raises(ConfigError, match="removed or changed since it was written"):
        ShardWriter.commit(tmp_path)
    assert not (tmp_path / ".nv-meta/.info.json").exists()
