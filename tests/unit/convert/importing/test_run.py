"""An import writes a prepared dataset, the same bytes with any number of workers, and reports what it cannot read."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from random import Random
from typing import Any

import pytest
from PIL import Image

from loader.convert.importing.failure_limit import FailureLimit
from loader.convert.importing.pictures import PictureOptions
from loader.convert.importing.plan import ImportPlan, ImportProgress
from loader.convert.importing.report import ImportReport
from loader.convert.importing.run import run_import
from loader.convert.rows.shard_layout import ShardLayout
from loader.convert.sources.files import FilesSource
from loader.dataset.opening import folder_at
from loader.errors import ConfigError, SampleError, StorageError
from loader.format.index import shard_index
from loader.format.unfinished import continuing, left_sentence
from loader.storage import LocalStorage
from tests.small_disks import mounted_disk


def jpeg(number: int, size: tuple[int, int] = (20, 10), **options: Any) -> bytes:
    data = io.BytesIO()
    Image.new("RGB", size, (number % 256, 99, 7)).save(data, "JPEG", **options)
    return data.getvalue()


def write_photos(folder: Path, count: int = 40) -> Path:
    folder.mkdir()
    for number in range(count):
        (folder / f"{number:03d}.jpg").write_bytes(jpeg(number))
        (folder / f"{number:03d}.txt").write_text(f"photo {number}")
    return folder


def import_folder(source: Path, output: Path, **settings: Any) -> ImportReport:
    progress = settings.pop("progress", None)
    return run_import(
        ImportPlan(sources=(FilesSource(path=str(source)),), output=str(output), **settings), on_progress=progress
    )


def samples_of(path: Path) -> dict[str, dict[str, bytes]]:
    folder = folder_at(str(path))
    samples = {folder.index.key(number): dict(folder.read_parts(number)) for number in range(len(folder.index))}
    folder.close()
    return samples


def shards_of(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(path.glob("*.tar"))}


SMALL = ShardLayout(samples_per_shard=7)


def test_a_folder_becomes_a_prepared_dataset(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos")
    report = import_folder(photos, tmp_path / "out", layout=SMALL)
    assert (report.prepared.samples, report.prepared.shards, report.failed) == (40, 6, 0)
    samples = samples_of(tmp_path / "out")
    assert samples == {
        f"{number:03d}": {"jpg": jpeg(number), "txt": f"photo {number}".encode()} for number in range(40)
    }
    assert sorted(file.name for file in (tmp_path / "out/.nv-meta").iterdir()) == [
        ".info.json",
        ".lock",
        "index",
        "index.sqlite",
        "index.uuid",
        "request.json",
        "split.yaml",
    ]


def test_no_shard_is_scanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def scan(*_: object, **__: object) -> None:
        raise AssertionError("a shard was scanned")

    monkeypatch.setattr(shard_index, "shard_requests", scan)
    monkeypatch.setattr("loader.prepare.scans.index_small_shards", scan)
    assert import_folder(write_photos(tmp_path / "photos"), tmp_path / "out", layout=SMALL).prepared.scanned == 0


@pytest.mark.parametrize(
    "layout", [SMALL, ShardLayout(shard_bytes=20_000, shuffle_seed=3, split_ratio={"a": 3, "b": 1})]
)
@pytest.mark.sampled(2)
def test_any_number_of_workers_writes_the_same_bytes(tmp_path: Path, layout: ShardLayout) -> None:
    photos = write_photos(tmp_path / "photos")
    for workers in (1, 3):
        import_folder(photos, tmp_path / str(workers), layout=layout, workers=workers)
    one = shards_of(tmp_path / "1")
    assert len(one) > 2
    assert one == shards_of(tmp_path / "3")
    splits = [(tmp_path / workers / ".nv-meta/split.yaml").read_text() for workers in "13"]
    assert splits[0] == splits[1]


def test_no_shard_exceeds_its_size_if_pictures_grow(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(12):
        noise = Image.frombytes("L", (80, 80), Random(number).randbytes(6400))
        noise.save(photos / f"{number}.jpg", quality=10)
    layout, pictures = ShardLayout(shard_bytes=20_000), PictureOptions(format="png")
    import_folder(photos, tmp_path / "out", layout=layout, pictures=pictures)
    sizes = [len(data) for data in shards_of(tmp_path / "out").values()]
    assert len(sizes) == 6
    assert max(sizes) <= 20_000 + tarfile.RECORDSIZE  # tarfile pads the end


def test_progress_ends_with_all_samples(tmp_path: Path) -> None:
    seen: list[ImportProgress] = []
    import_folder(write_photos(tmp_path / "photos"), tmp_path / "out", layout=SMALL, progress=seen.append)
    assert (seen[0].phase, seen[-1].phase) == ("list", "write")
    last = seen[-1]
    assert (last.samples, last.samples_total, last.shards_done, last.shards_total) == (40, 40, 6, 6)
    assert last.size_bytes == sum(map(len, shards_of(tmp_path / "out").values()))


def test_samples_that_fail_are_listed(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos")
    (photos / "003.jpg").write_bytes(jpeg(3)[:300])
    (photos / "005.jpg").write_bytes(b"")
    (photos / "006.txt").unlink()
    (photos / "006.txt").symlink_to(tmp_path / "nothing")
    output = tmp_path / "out"
    report = import_folder(
        photos, output, layout=SMALL, pictures=PictureOptions(verify=True), max_failures=2, workers=2
    )
    assert (report.failed, report.prepared.samples) == (2, 38)
    assert report.failures_file == str(output / ".nv-meta/import_failures.jsonl")
    lines = [json.loads(line) for line in Path(report.failures_file).read_text().splitlines()]
    assert [(line["key"], line["origin"]) for line in lines] == [("003", "003.jpg"), ("005", "005.jpg")]
    assert "not a picture" in lines[0]["reason"]
    assert lines[1]["code"] == "F103"
    assert [(one.reason, one.example) for one in report.account.left_out] == [("L104", "006.txt")]
    assert {"003", "005"}.isdisjoint(samples_of(output))


@pytest.mark.parametrize(
    ("limit", "rows", "allowed"),
    [(None, 2, 1), (None, 99, 1), (None, 199, 1), (None, 200, 2), (None, 1000, 10), (0.01, 99, 0), (0, 1000, 0)],
)
def test_below_a_hundred_rows_one_may_fail_unless_a_limit_is_given(
    *, limit: float | None, rows: int, allowed: int
) -> None:
    assert not FailureLimit(rows, limit).is_exceeded(allowed)
    assert FailureLimit(rows, limit).is_exceeded(allowed + 1)


def test_an_import_without_a_limit_allows_one_of_a_few_and_a_share_of_one_hundredth_none(tmp_path: Path) -> None:
    photos, verify = write_photos(tmp_path / "photos"), PictureOptions(verify=True)
    (photos / "030.jpg").write_bytes(b"no picture")
    assert import_folder(photos, tmp_path / "out", pictures=verify).failed == 1
    with pytest.raises(SampleError, match=r"1 of 40 samples failed; at most 1% may fail"):
        import_folder(photos, tmp_path / "share", pictures=verify, max_failures=0.01)
    with pytest.raises(ConfigError, match=r"limit of failures: 1 then, 0\.01 now"):
        import_folder(photos, tmp_path / "out", pictures=verify, max_failures=0.01)


@pytest.mark.parametrize(
    ("limit", "layout", "found", "hint"),
    [
        (None, ShardLayout(), "3 of 40", "fix them, or pass --max-failures 3; "),
        (0, ShardLayout(), "3 of 40", "fix them, or pass --max-failures 3; "),
        (0, SMALL, "at least 1 of 40", "fix them, or pass --max-failures 100%, or 1 if no other sample fails; "),
    ],
)
def test_the_limit_that_would_do_is_exact_once_all_rows_were_tried(
    *, limit: float | None, layout: ShardLayout, found: str, hint: str, tmp_path: Path
) -> None:
    photos = write_photos(tmp_path / "photos")
    for number in (3, 17, 30):
        (photos / f"{number:03d}.jpg").write_bytes(b"no picture")
    with pytest.raises(SampleError) as caught:
        import_folder(
            photos, tmp_path / "out", layout=layout, pictures=PictureOptions(verify=True), max_failures=limit, workers=1
        )
    assert caught.value.message.startswith(f"{found} samples failed")
    assert str(caught.value.hint).startswith(f"{hint}otherwise the same command ends the same way")


def test_no_limit_is_named_where_all_rows_fail(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", 3)
    for file in photos.glob("*.jpg"):
        file.write_bytes(b"no picture")
    with pytest.raises(SampleError) as caught:
        import_folder(photos, tmp_path / "out", pictures=PictureOptions(verify=True))
    assert caught.value.message.startswith("3 of 3 samples failed")
    assert "--max-failures" not in str(caught.value.hint)


def test_only_the_last_run_decides_whether_a_folder_is_of_a_failed_or_an_interrupted_run(tmp_path: Path) -> None:
    photos, output, verify = write_photos(tmp_path / "photos"), tmp_path / "out", PictureOptions(verify=True)
    (photos / "039.jpg").write_bytes(b"no picture")
    with pytest.raises(SampleError):
        import_folder(photos, output, layout=SMALL, pictures=verify, max_failures=0, workers=1)
    assert left_sentence(LocalStorage(output)).startswith("a failed run has left 6 finished shards")
    assert "1 of 40 samples failed; at most 0% may fail. " in continuing(LocalStorage(output))

    def interrupt(_: ImportProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        import_folder(photos, output, layout=SMALL, pictures=verify, max_failures=0, progress=interrupt)
    assert "an interrupted run has left" in caught.value.__notes__[0]
    assert left_sentence(LocalStorage(output)).startswith("an interrupted run has left")
    import_folder(photos, output, layout=SMALL, pictures=verify, max_failures=1)
    assert left_sentence(LocalStorage(output)) == ""


def test_too_many_failures_stop_the_import_and_the_next_run_continues(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos")
    for number in (30, 31):
        (photos / f"{number:03d}.jpg").write_bytes(b"no picture")
    output, verify = tmp_path / "out", PictureOptions(verify=True)
    with pytest.raises(SampleError, match=r"2 of 40 samples failed; at most 1 may fail. .*030\.jpg"):
        import_folder(photos, output, layout=SMALL, pictures=verify, max_failures=1)
    assert not (output / ".nv-meta/.info.json").exists()
    report = import_folder(photos, output, layout=SMALL, pictures=verify, max_failures=2)
    assert report.resumed >= 4
    assert report.prepared.samples == 38


def test_a_source_whose_samples_all_fail_is_refused(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", 3)
    for file in photos.glob("*.jpg"):
        file.write_bytes(b"")
    with pytest.raises(SampleError, match="all 3 samples failed"):
        import_folder(photos, tmp_path / "out", pictures=PictureOptions(verify=True), max_failures=3)


def test_another_run_with_other_settings_leaves_no_shard_of_the_first(tmp_path: Path) -> None:
    photos, output = write_photos(tmp_path / "photos"), tmp_path / "out"
    (photos / "039.jpg").write_bytes(b"")
    verify = PictureOptions(verify=True)
    with pytest.raises(SampleError):
        import_folder(photos, output, layout=SMALL, pictures=verify, max_failures=0)
    (photos / "039.jpg").write_bytes(jpeg(39))
    report = import_folder(photos, output, layout=ShardLayout(samples_per_shard=25), max_failures=0)
    assert (report.resumed, report.prepared.shards, report.prepared.samples) == (0, 2, 40)
    import_folder(photos, tmp_path / "other", layout=ShardLayout(samples_per_shard=25))
    assert shards_of(output) == shards_of(tmp_path / "other")


def test_files_that_changed_are_written_again(tmp_path: Path) -> None:
    photos, output = write_photos(tmp_path / "photos"), tmp_path / "out"
    broken = photos / "039.jpg"
    broken.write_bytes(b"")
    verify = PictureOptions(verify=True)
    with pytest.raises(SampleError):
        import_folder(photos, output, layout=SMALL, pictures=verify, max_failures=0)
    broken.write_bytes(jpeg(39))
    (photos / "000.txt").write_text("another caption")
    report = import_folder(photos, output, layout=SMALL, pictures=verify, max_failures=0)
    assert report.resumed == 4, "all shards but the first and the last"
    assert samples_of(output)["000"]["txt"] == b"another caption"


def test_an_output_with_other_files_is_refused(tmp_path: Path) -> None:
    photos, output = write_photos(tmp_path / "photos", 3), tmp_path / "out"
    output.mkdir()
    (output / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"expected a new or empty folder, found notes\.txt"):
        import_folder(photos, output)
    (output / "notes.txt").unlink()
    import_folder(photos, output)
    with pytest.raises(ConfigError, match="samples per shard: 10,000 then, 7 now"):
        import_folder(photos, output, layout=SMALL)
    (output / ".nv-meta/request.json").unlink()  # as of a dataset that no import has written
    with pytest.raises(ConfigError, match="prepared dataset"):
        import_folder(photos, output)
    with pytest.raises(StorageError, match="found a file"):
        import_folder(photos, photos / "000.jpg")


def test_a_shard_that_appears_meanwhile_is_no_part_of_the_dataset(tmp_path: Path) -> None:
    photos, output = write_photos(tmp_path / "photos"), tmp_path / "out"

    def add(_: ImportProgress) -> None:
        output.mkdir(exist_ok=True)
        (output / "mine.tar").touch()

    with pytest.raises(ConfigError, match=r"mine\.tar appeared while shards were written"):
        import_folder(photos, output, layout=SMALL, progress=add)
    assert (output / "mine.tar").exists()


def test_a_full_disk_keeps_the_shards_that_are_written(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", 40)
    (photos / "035.bin").write_bytes(bytes(1 << 20))
    with mounted_disk(tmp_path / "disk") as disk:
        with pytest.raises(StorageError, match="No space left"):
            import_folder(photos, disk / "out", layout=SMALL)
        assert [*shards_of(disk / "out")] == [f"shard_{number:06d}.tar" for number in range(5)]
        (photos / "035.bin").unlink()
        assert import_folder(photos, disk / "out", layout=SMALL).resumed == 5


def test_a_large_file_is_copied_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loader.convert.importing.contents._LARGE_BYTES", 1000)
    photos = write_photos(tmp_path / "photos", 3)
    (photos / "001.mp4").write_bytes(b"video" * 1000)
    import_folder(photos, tmp_path / "out")
    assert samples_of(tmp_path / "out")["001"]["mp4"] == b"video" * 1000


def test_samples_without_a_split_join_the_part_train(tmp_path: Path) -> None:
    plain = write_photos(tmp_path / "photos", 3)
    split = tmp_path / "split"
    split.mkdir()
    for part, first in (("train", 10), ("val", 20)):
        write_photos(split / part, 2)
        for file in (split / part).iterdir():
            file.rename(file.with_name(f"{first}{file.name}"))
    plan = ImportPlan(
        sources=(FilesSource(path=str(plain)), FilesSource(path=str(split))), output=str(tmp_path / "out")
    )
    assert run_import(plan).prepared.split == {"train": (2, 5), "val": (1, 2)}
