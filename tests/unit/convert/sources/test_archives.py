"""Samples in tar and zip files become shards with neighbouring parts, whatever their order and compression."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from loader.convert.importing.plan import ImportPlan
from loader.convert.importing.run import run_import
from loader.convert.sources.archives import TarSource
from loader.convert.sources.detect import open_source
from loader.convert.sources.files import FilesSource
from loader.convert.sources.source import ImportSource
from loader.convert.tables.source_options import SourceOptions
from loader.errors import ConfigError, EnergonError, FormatError
from tests.unit.convert.importing.test_run import samples_of

Members = list[tuple[str, bytes]]
SCATTERED: Members = [
    ("./x/1.jpg", b"one"),
    ("./x/2.txt", b"two"),
    ("./x/1.txt", b"first"),
    ("./x/2.jpg", b"2"),
    ("README", b"no part"),
]
SAMPLES = {"x/1": {"jpg": b"one", "txt": b"first"}, "x/2": {"jpg": b"2", "txt": b"two"}}


def output_of(folder: Path) -> Path:
    """Return a path outside of a folder, since an output inside of its source is refused."""
    return folder.with_name(f"{folder.name}-out")


def tar_bytes(members: Members) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, contents in members:
            member = tarfile.TarInfo(name)
            member.size = len(contents)
            tar.addfile(member, io.BytesIO(contents))
    return data.getvalue()


def imported(source: ImportSource, output: Path) -> dict[str, dict[str, bytes]]:
    run_import(ImportPlan(sources=(source,), output=str(output), max_failures=1))
    return samples_of(output)


def open_by_detection(path: Path) -> ImportSource:
    return open_source(str(path), kind=None, options=SourceOptions())


@pytest.mark.parametrize(
    ("ending", "compress"),
    [
        (".tar", bytes),
        (".tar.gz", gzip.compress),
        (".tgz", gzip.compress),
        (".tar.bz2", bz2.compress),
        (".tar.xz", lzma.compress),
    ],
)
def test_scattered_parts_become_neighbours(tmp_path: Path, ending: str, compress: Callable[[bytes], bytes]) -> None:
    (tmp_path / f"s{ending}").write_bytes(compress(tar_bytes(SCATTERED)))
    source = open_by_detection(tmp_path / f"s{ending}")
    assert source.kind == "webdataset"
    assert imported(source, tmp_path / "out") == SAMPLES
    with tarfile.open(tmp_path / "out/shard_000000.tar") as tar:
        assert tar.getnames() == ["x/1.jpg", "x/1.txt", "x/2.jpg", "x/2.txt"]


def test_zst_and_lz4(tmp_path: Path) -> None:
    import lz4.frame
    import zstandard

    (tmp_path / "a.tar.zst").write_bytes(zstandard.compress(tar_bytes(SCATTERED[:2])))
    (tmp_path / "b.tar.lz4").write_bytes(lz4.frame.compress(tar_bytes([("b.jpg", b"b")])))
    assert [*imported(open_by_detection(tmp_path), output_of(tmp_path))] == ["x/1", "x/2", "b"]


def test_the_output_of_img2dataset(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    for shard in range(2):
        members: Members = []
        for number in range(3):
            key = f"{shard:05d}{number:04d}"
            members += [
                (f"{key}.jpg", b"jpeg"),
                (f"{key}.txt", b"caption"),
                (f"{key}.json", json.dumps({"key": key, "status": "success"}).encode()),
            ]
        (folder / f"{shard:05d}.tar").write_bytes(tar_bytes(members))
        (folder / f"{shard:05d}_stats.json").write_text("{}")
        (folder / f"{shard:05d}.parquet").write_bytes(b"PAR1")
    samples = imported(open_by_detection(folder), tmp_path / "out")
    assert len(samples) == 6
    assert sorted(samples["000010002"]) == ["jpg", "json", "txt"]


def test_keys_that_two_tars_share_get_a_number(tmp_path: Path) -> None:
    for name in ("a.tar", "b.tar"):
        (tmp_path / name).write_bytes(tar_bytes([("1.txt", name.encode())]))
    samples = imported(TarSource(path=str(tmp_path)), output_of(tmp_path))
    assert samples == {"1": {"txt": b"a.tar"}, "1-2": {"txt": b"b.tar"}}


def test_archives_of_files_are_grouped_as_folders(tmp_path: Path) -> None:
    files: Members = [("in/a.v2.jpg", b"a"), ("in/a.v2.jpg.txt", b"text"), ("in/.hidden.jpg", b""), ("LICENSE", b"")]
    with zipfile.ZipFile(tmp_path / "f.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, contents in files:
            archive.writestr(name, contents)
    (tmp_path / "f.tar").write_bytes(tar_bytes(files))
    expected = {"in/a_v2": {"jpg": b"a", "txt": b"text"}}
    assert imported(open_by_detection(tmp_path / "f.zip"), tmp_path / "1") == expected
    assert imported(FilesSource(path=str(tmp_path / "f.tar"), kind="tar"), tmp_path / "2") == expected


def test_a_damaged_member_of_a_zip_file_fails_its_sample(tmp_path: Path) -> None:
    path = tmp_path / "f.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "the first text")
        archive.writestr("b.txt", "another text")
    path.write_bytes(path.read_bytes().replace(b"the first", b"xxx first", 1))
    source = FilesSource(path=str(path), kind="zip")
    report = run_import(ImportPlan(sources=(source,), output=str(tmp_path / "out"), max_failures=1))
    assert [failure.key for failure in report.failures] == ["a"]
    assert "CRC" in report.failures[0].reason


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("cut.tar", tar_bytes(SCATTERED)[:1100]),
        ("cut.tar.gz", gzip.compress(tar_bytes(SCATTERED))[:100]),
        ("no.tar.gz", b"no gzip"),
        ("no.zip", b"no zip"),
        ("no.tar.xz", b"no xz"),
    ],
    ids=["tar", "gzip", "not gzip", "not zip", "not xz"],
)
def test_damaged_archives_are_refused(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(FormatError) as caught:
        imported(open_by_detection(tmp_path / name), tmp_path / "out")
    assert name in str(caught.value)
    assert not (tmp_path / "out").exists() or not [*(tmp_path / "out").glob("*.tar")]


def test_a_folder_without_tars(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no tar files"):
        imported(TarSource(path=str(tmp_path)), output_of(tmp_path))
    (tmp_path / "a.xyz").touch()
    with pytest.raises(EnergonError, match="no source that can be imported"):
        open_by_detection(tmp_path / "a.xyz")


def test_compressed_tars_that_are_sources_of_their_own_keep_their_contents(tmp_path: Path) -> None:
    sources = []
    for name in ("a", "b"):
        (tmp_path / f"{name}.tar.gz").write_bytes(gzip.compress(tar_bytes([(f"{name}.txt", name.encode())])))
        sources.append(open_by_detection(tmp_path / f"{name}.tar.gz"))
    run_import(ImportPlan(sources=tuple(sources), output=str(tmp_path / "out")))
    assert samples_of(tmp_path / "out") == {"a": {"txt": b"a"}, "b": {"txt": b"b"}}
