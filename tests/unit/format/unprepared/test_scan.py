"""Scan tar shards that are not prepared: as far as needed, and as a prepare would number the samples."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from loader.dataset.opening import folder_at
from loader.dataset.tar import tar_index
from loader.dataset.unprepared.tar_index import TarIndex, find_tars, scan_first_samples, scan_tars
from loader.errors import FormatError, StorageError
from tests.cli.make_dataset import write_captions, write_shard
from tests.unit.inspect.prepared import prepare_captions


@pytest.mark.parametrize("workers", [1, 2])
def test_the_samples_are_those_of_the_dataset_to_be(tmp_path: Path, workers: int) -> None:
    write_shard(tmp_path / "sub/more.tar", {"000004": {"txt": b"again"}})
    prepared = tar_index(folder_at(prepare_captions(tmp_path)))
    progress: list[tuple[int, int]] = []
    scan = scan_tars(find_tars(str(tmp_path)), workers=workers, on_progress=lambda *now: progress.append(now))
    assert progress == [(done, 5) for done in range(1, 6)]
    assert scan.complete
    assert (scan.index.shards, scan.index.part_stats()) == (prepared.shards, prepared.part_stats())
    assert scan.index.layout.duplicate_keys == prepared.layout.duplicate_keys == 1
    for sample in range(13):
        assert scan.index.full_key(sample) == prepared.full_key(sample)
        assert scan.index.parts(sample) == prepared.parts(sample)
    for key in ("000004", "shard_001.tar/000004", "sub/more.tar/000004", "none", "\ud800"):
        assert scan.index.find(key) == prepared.find(key)


def test_the_first_samples_need_no_later_shards(tmp_path: Path) -> None:
    write_captions(tmp_path)
    (tmp_path / "shard_002.tar").write_bytes(b"no tar file")
    scan = scan_first_samples(find_tars(str(tmp_path)), 4)
    assert (len(scan.index), scan.complete, scan.damaged) == (6, False, ())
    assert scan.read_parts(5, ["txt"]) == {"txt": b"picture number 5"}
    scan = scan_first_samples(find_tars(str(tmp_path)), 100)
    assert (len(scan.index), scan.complete) == (9, True)
    assert [type(error) for error in scan.damaged] == [FormatError]
    assert scan.index.full_key(6) == "shard_003.tar/000009"


def test_a_large_shard_is_scanned_in_part_and_its_samples_are_whole(tmp_path: Path) -> None:
    samples = {f"{number:06d}": {"txt": b"a", "cls": b"1"} for number in range(5000)}
    write_shard(tmp_path / "large.tar", samples)
    tars = find_tars(str(tmp_path / "large.tar"))
    first = scan_first_samples(tars, 1)
    assert 1 <= len(first.index) < 5000
    assert not first.complete
    assert len(first.index.parts(len(first.index) - 1)) == 2
    whole = scan_first_samples(tars, 6000)
    assert (len(whole.index), whole.complete) == (5000, True)


def test_an_index_without_loaded_shards_travels_to_workers(tmp_path: Path) -> None:
    index = scan_tars(find_tars(str(write_captions(tmp_path)))).index
    copy = TarIndex(find_tars(str(tmp_path)).storage, pickle.loads(pickle.dumps(index.layout)), path="")
    assert [copy.parts(sample) for sample in range(12)] == [index.parts(sample) for sample in range(12)]


def test_shards_that_are_all_damaged_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(b"x" * 600)
    with pytest.raises(FormatError, match="tar header"):
        scan_first_samples(find_tars(str(tmp_path)), 1)


@pytest.mark.parametrize(
    ("names", "message", "hint"),
    [
        ([], "there are no files", "give the folder that holds the shards"),
        (
            ["0.jpg", "0.txt", "1.jpg", "README"],
            "but 2 .jpg, 1 .txt and 1 file without an extension",
            "run: energon import {} {}-dataset",
        ),
        (["a.png", "b.mp4"], "but 1 .png and 1 .mp4", "energon prepare-media"),
        (["a/t.bin", "a/t.idx"], "but 1 .bin and 1 .idx", "energon info {}/a/t.bin"),
        (["mix.yaml"], "but 1 .yaml", "energon info {}/mix.yaml"),
        (["a.parquet", "b.parquet", "x.csv"], "it has 2 .parquet and 1 .csv", "energon prepare {}; a file of them is"),
        (["a.jsonl"], "it has 1 .jsonl", "a dataset by itself, too: {}/a.jsonl"),
        ([f"a.{letter}" for letter in "bcdefgh"], "1 .f and 2 other files", "energon import {}"),
        (["s.tgz"], "1 compressed one", "energon prepare {} --decompress"),
    ],
)
def test_a_folder_without_tars_says_what_it_holds_and_what_to_do(
    tmp_path: Path, names: list[str], message: str, hint: str
) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(StorageError) as caught:
        find_tars(str(tmp_path))
    assert message in caught.value.message
    assert hint.replace("{}", str(tmp_path)) in str(caught.value.hint)
