"""Compressed sources of imports that unpack to very much more than their size, and what killed runs leave."""

from __future__ import annotations

import bz2
import fcntl
import gzip
import io
import lzma
import os
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import zstandard
from pyarrow import parquet

from loader.convert.tables.delimited import _unique_names
from loader.storage.temporary_files import scratch_folder

from .run_energon import RunEnergon

MANY_BYTES = 36 << 20


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def tar_bytes() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in (("a.txt", bytes(MANY_BYTES)), ("b.txt", b"hello")):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def run(energon: RunEnergon, source: Path, *options: object) -> Any:
    return energon("import", source, source.parent / "out", "--yes", *options)


@pytest.mark.parametrize(
    ("ending", "pack"),
    [
        ("gz", gzip.compress),
        ("bz2", bz2.compress),
        ("xz", lzma.compress),
        ("zst", lambda data: zstandard.ZstdCompressor().compress(data)),
    ],
)
@pytest.mark.sampled(3)
def test_a_tar_that_unpacks_to_a_thousand_times_its_size_is_refused(
    tmp_path: Path, temporary: Path, energon: RunEnergon, ending: str, pack: Callable[[bytes], bytes]
) -> None:
    source = tmp_path / f"s.tar.{ending}"
    source.write_bytes(pack(tar_bytes()))
    done = run(energon, source)
    assert done.code == 1
    assert "expected at most 200 times as many" in done.err
    assert not list(temporary.iterdir())


def test_a_right_ratio_is_allowed_by_the_environment(
    tmp_path: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "s.tar.gz"
    source.write_bytes(gzip.compress(tar_bytes()))
    monkeypatch.setenv("ENERGON_MAX_UNPACKING_RATIO", "5000")
    assert run(energon, source).code == 0


@pytest.mark.parametrize(
    ("name", "head", "body"),
    [
        ("t.csv.gz", b'caption\n"', (b"a", 6 << 20)),
        ("t.csv.gz", b"caption\n", (b"abc,def\n", 700 << 10)),
        ("t.jsonl.gz", b'{"caption": "', (b"a", 6 << 20)),
    ],
    ids=["field", "rows", "line"],
)
def test_a_table_that_unpacks_to_a_thousand_times_its_size_is_refused(
    tmp_path: Path, energon: RunEnergon, name: str, head: bytes, body: tuple[bytes, int]
) -> None:
    (tmp_path / name).write_bytes(gzip.compress(head + body[0] * body[1]))
    done = run(energon, tmp_path / name)
    assert done.code == 1
    assert "expected at most 200 times as many" in done.err


def test_a_member_of_a_zip_that_unpacks_to_a_thousand_times_its_size_fails_its_row(
    tmp_path: Path, energon: RunEnergon
) -> None:
    source = tmp_path / "s.zip"
    with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", bytes(MANY_BYTES))
        archive.writestr("b.txt", b"hello")
    done = run(energon, source, "--max-failures", "50%", "--json")
    assert done.code == 0
    failed = [each for each in done.json["account"]["failed"] if each["unit"] == "rows"]
    assert [(each["reason"], each["count"]) for each in failed] == [("F110", 1)]


def _zip_of(source: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return source


def _zip_of_many(folder: Path) -> Path:
    return _zip_of(folder / "s.zip", {f"{number}.txt": bytes(1 << 20) for number in range(40)})


def _zip_of_tars(folder: Path) -> Path:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        member = tarfile.TarInfo("a.txt")
        member.size = 1 << 20
        tar.addfile(member, io.BytesIO(bytes(1 << 20)))
    return _zip_of(folder / "s.zip", {f"{number}.tar.gz": packed.getvalue() for number in range(40)})


def _tar_of_links(folder: Path) -> Path:
    with tarfile.open(folder / "s.tar", "w") as tar:
        member = tarfile.TarInfo("a.txt")
        member.size = 100 << 10
        tar.addfile(member, io.BytesIO(bytes(100 << 10)))
        for number in range(600):
            link = tarfile.TarInfo(f"{number}.txt")
            link.type, link.linkname = tarfile.LNKTYPE, "a.txt"
            tar.addfile(link)
    return folder / "s.tar"


def _rows_of_one_value(folder: Path) -> Path:
    parquet.write_table(pa.table({"text": ["x" * (1 << 20)] * 40}), folder / "t.parquet")
    return folder / "t.parquet"


def _small_record_batches(folder: Path) -> Path:
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    batch = pa.record_batch({"text": ["x" * (1 << 20)]})
    with pa.OSFile(str(folder / "t.arrow"), "wb") as file, pa.ipc.new_file(file, batch.schema, options=options) as out:
        for _ in range(40):
            out.write_batch(batch)
    return folder / "t.arrow"


@pytest.mark.parametrize(
    "write", [_zip_of_many, _zip_of_tars, _tar_of_links, _rows_of_one_value, _small_record_batches]
)
@pytest.mark.sampled(3)
def test_an_archive_of_small_contents_is_refused_by_their_sum(
    write: Callable[[Path], Path], tmp_path: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write(tmp_path)
    if write is _tar_of_links:  # each link takes 512 bytes
        monkeypatch.setenv("ENERGON_MAX_UNPACKING_RATIO", "100")
    done = run(energon, source)
    assert done.code == 1
    assert "times as many" in done.err
    assert not list((tmp_path / "out").glob("*.tar"))
    monkeypatch.setenv("ENERGON_MAX_UNPACKING_RATIO", "100000")
    assert run(energon, source).code == 0


def test_a_small_archive_of_texts_that_repeat_is_imported(tmp_path: Path, energon: RunEnergon) -> None:
    members = {f"{number}.txt": bytes(100 << 10) for number in range(300)}
    assert run(energon, _zip_of(tmp_path / "s.zip", members)).code == 0


def test_a_line_of_json_that_is_too_long_fails_alone(
    tmp_path: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    from loader.convert.tables import records

    monkeypatch.setattr(records, "CHECKED_JSON_BYTES", 1000)
    source = tmp_path / "t.jsonl"
    source.write_bytes(b'{"caption": "a"}\n{"caption": "' + b"x" * 5000 + b'"}\n{"caption": "b"}\n')
    done = run(energon, source, "--max-failures", "50%")
    assert done.code == 0
    assert "2 samples" in done.out
    assert "1 row" in done.err


def test_the_scratch_folders_of_dead_runs_go_with_the_next_one_and_those_in_use_stay(temporary: Path) -> None:
    dead, foreign, used = (temporary / f"energon-scratch-{name}" for name in ("dead", "foreign", "used"))
    outside = temporary / "outside"
    for folder in (dead, foreign, used, outside):
        folder.mkdir()
        (folder / "data").write_bytes(b"x")
    (dead / ".lock").touch()
    (dead / "link").symlink_to(outside)
    (used / ".lock").touch()
    (temporary / "energon-scratch-link").symlink_to(outside)
    (outside / ".lock").touch()
    with (used / ".lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with scratch_folder() as scratch:
            names = {path.name for path in temporary.iterdir()}
            assert os.path.basename(scratch) in names
    assert not dead.exists()
    assert foreign.exists(), "it has no lock: another program may have made it"
    assert (used / "data").exists()
    assert (outside / "data").exists()
    assert not os.path.exists(scratch)


def test_a_lock_that_is_a_link_is_not_followed(temporary: Path) -> None:
    folder, target = temporary / "energon-scratch-x", temporary / "target"
    folder.mkdir()
    target.touch()
    (folder / ".lock").symlink_to(target)
    with scratch_folder():
        pass
    assert folder.exists()


def test_a_column_that_unpacks_to_a_thousand_times_its_size_is_refused(tmp_path: Path, energon: RunEnergon) -> None:
    table = pa.table({"text": ["x" * (40 << 20), "a"]})
    parquet.write_table(table, tmp_path / "t.parquet", compression="zstd", use_dictionary=False)
    done = energon("import", tmp_path / "t.parquet", tmp_path / "out", "--yes")
    assert (done.code, "column 'text' unpacks" in done.err) == (1, True)


@pytest.mark.timeout(60)  # a search of each name among all takes an hour
def test_names_of_many_columns_are_made_unique() -> None:
    assert len(_unique_names(["a"] * 3 + [f"c{number}" for number in range(300_000)])) == 300_003
