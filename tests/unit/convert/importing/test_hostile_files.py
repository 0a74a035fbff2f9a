"""An import loses no part and does not hang, whatever files are there."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import time
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from loader.convert.importing.pictures import PictureOptions
from loader.convert.importing.plan import ImportPlan, list_rows
from loader.convert.importing.run import run_import
from loader.convert.merging import MergePlan, run_merge
from loader.convert.rows.shard_layout import ShardLayout
from loader.convert.sources.archives import TarSource
from loader.convert.sources.files import FilesSource
from loader.convert.sources.source import ImportSource
from loader.convert.sources.table_source import TextTableSource
from loader.errors import ConfigError, SampleError
from tests.unit.convert.importing.test_run import import_folder, jpeg, samples_of, write_photos

ONE_EACH = ShardLayout(samples_per_shard=1)


def import_source(source: ImportSource, output: Path, **settings: float) -> int:
    return run_import(ImportPlan(sources=(source,), output=str(output), layout=ONE_EACH, **settings)).resumed  # type: ignore[arg-type]


def interrupt(source: ImportSource, output: Path) -> None:
    """Write all shards, and stop before the dataset appears."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_import(ImportPlan(sources=(source,), output=str(output), layout=ONE_EACH), before_commit=stop)


def write_tar(path: Path, members: dict[str, bytes]) -> Path:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, contents in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(contents)
            tar.addfile(member, io.BytesIO(contents))
    path.write_bytes(gzip.compress(data.getvalue()) if path.suffix == ".gz" else data.getvalue())
    return path


def test_parts_whose_names_begin_with_an_underscore_are_kept(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a.jpg", "a._mask.png", "b._x", "b.txt", "c.__key__", "c.txt"):
        (tmp_path / "in" / name).write_bytes(name.encode())
    import_folder(tmp_path / "in", tmp_path / "out")
    assert samples_of(tmp_path / "out") == {
        "a": {"jpg": b"a.jpg", "_mask.png": b"a._mask.png"},
        "b": {"_x": b"b._x", "txt": b"b.txt"},
        "c": {"__key__": b"c.__key__", "txt": b"c.txt"},
    }


def test_files_in_a_folder_that_readers_of_shards_skip_are_kept(tmp_path: Path) -> None:
    (tmp_path / "in/__info__").mkdir(parents=True)
    (tmp_path / "in/__info__/a.txt").write_text("one")
    (tmp_path / "in/b.txt").write_text("two")
    import_folder(tmp_path / "in", tmp_path / "out")
    assert samples_of(tmp_path / "out") == {"_info__/a": {"txt": b"one"}, "b": {"txt": b"two"}}


def test_pictures_that_become_one_format_are_both_kept(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.jpg").write_bytes(jpeg(1))
    Image.new("RGB", (9, 9)).save(tmp_path / "in/a.png")
    import_folder(tmp_path / "in", tmp_path / "out", pictures=PictureOptions(format="jpg"))
    assert sorted(samples_of(tmp_path / "out")["a"]) == ["2.jpg", "jpg"]


def test_pipes_and_devices_are_left_out(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "in", 2)
    os.mkfifo(photos / "pipe.txt")
    (photos / "zero.txt").symlink_to("/dev/zero")
    report = import_folder(photos, tmp_path / "out")
    assert [(one.reason, one.count) for one in report.account.left_out] == [("L105", 2)]
    assert len(samples_of(tmp_path / "out")) == 2


def test_an_output_inside_of_its_source_is_refused(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "in", 2)
    (tmp_path / "link").symlink_to("in")
    for output in (photos / "out", photos, tmp_path / "link/out"):
        with pytest.raises(ConfigError, match="inside of the folder that it is made of"):
            import_folder(photos, output)
    import_folder(photos, tmp_path / "in_2")  # only the name begins so
    import_folder(photos, tmp_path / "out")
    with pytest.raises(ConfigError, match="inside of the folder that it is made of"):
        run_merge(MergePlan(inputs=(str(tmp_path / "out"), str(tmp_path / "in_2")), output=str(tmp_path / "out/both")))


def test_a_damaged_member_of_a_zip_fails_alone(tmp_path: Path) -> None:
    path = tmp_path / "in.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.txt", b"a" * 500)
        file.writestr("b.txt", b"b" * 500)
    data = bytearray(path.read_bytes())
    begin = data.find(b"a.txt") + len("a.txt")
    data[begin : begin + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(data)
    source = FilesSource(path=str(path), kind="zip")
    run_import(ImportPlan(sources=(source,), output=str(tmp_path / "out"), max_failures=1))
    assert samples_of(tmp_path / "out") == {"b": {"txt": b"b" * 500}}


def test_a_resumed_import_of_a_compressed_tar_repeats_nothing(tmp_path: Path) -> None:
    source = TarSource(path=str(write_tar(tmp_path / "in.tar.gz", {"a.txt": b"1", "b.txt": b"2"})))
    interrupt(source, tmp_path / "out")
    assert import_source(source, tmp_path / "out") == 2


def test_a_resumed_import_of_tars_in_a_zip_repeats_nothing(tmp_path: Path) -> None:
    inner = write_tar(tmp_path / "in.tar", {"a.txt": b"1", "b.txt": b"2"})
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as file:
        file.write(inner, "data/in.tar")
        file.writestr("README.md", "two samples")
    interrupt(FilesSource(path=str(tmp_path / "in.zip"), kind="zip"), tmp_path / "out")
    assert import_source(FilesSource(path=str(tmp_path / "in.zip"), kind="zip"), tmp_path / "out") == 2
    assert samples_of(tmp_path / "out") == {"a": {"txt": b"1"}, "b": {"txt": b"2"}}


@pytest.mark.parametrize("kind", ["webdataset", "tar", "zip"])
def test_a_resumed_import_notices_another_archive(tmp_path: Path, kind: str) -> None:
    def write(text: bytes) -> None:
        if kind == "zip":
            with zipfile.ZipFile(tmp_path / "in.zip", "w") as file:
                file.writestr("a.txt", text)
        else:
            write_tar(tmp_path / "in.tar", {"a.txt": text})

    write(b"old")
    source: ImportSource = (
        FilesSource(path=str(tmp_path / "in.zip"), kind="zip")
        if kind == "zip"
        else FilesSource(path=str(tmp_path / "in.tar"), kind=kind)  # type: ignore[arg-type]
    )
    interrupt(source, tmp_path / "out")
    time.sleep(0.05)  # the clock of the file system
    write(b"new")
    assert import_source(source, tmp_path / "out") == 0
    assert samples_of(tmp_path / "out") == {"a": {"txt": b"new"}}


def test_failures_of_an_interrupted_run_do_not_stay(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "in", 3)
    interrupt(FilesSource(path=str(photos)), tmp_path / "out")
    (tmp_path / "out/.nv-meta/import_failures.jsonl").write_text("{}\n")  # a kill after it, before the index
    assert import_folder(photos, tmp_path / "out").failed == 0
    assert not (tmp_path / "out/.nv-meta/import_failures.jsonl").exists()


def test_a_row_that_failed_is_tried_again(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "in", 3)
    plan = ImportPlan(sources=(FilesSource(path=str(photos)),), output=str(tmp_path / "out"), max_failures=0)
    with list_rows(plan.sources, shuffled=False) as listed:
        (photos / "001.jpg").rename(tmp_path / "away")
        for _ in range(2):
            with pytest.raises(SampleError, match="1 of 3 samples failed"):
                run_import(plan, listed=listed)
        (tmp_path / "away").rename(photos / "001.jpg")  # with its time, as after a chmod
        assert run_import(plan, listed=listed).failed == 0
    assert len(samples_of(tmp_path / "out")) == 3


def test_rows_without_a_split_are_in_no_part(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,txt,split\n1,a b c,train\n2,d e f,\n3,g h i,val\n")
    report = run_import(
        ImportPlan(sources=(TextTableSource(path=str(tmp_path / "t.csv"), kind="csv"),), output=str(tmp_path / "out"))
    )
    assert report.prepared.samples == 3
    assert {name: samples for name, (_, samples) in report.prepared.split.items()} == {"train": 1, "val": 1}
