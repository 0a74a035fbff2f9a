"""Sources that cannot be read as they are: pointers, pieces of archives, archives of other programs."""

from __future__ import annotations

import gzip
import io
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from .run_energon import RunEnergon

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d" * 32 + b"\nsize 12345\n"


def tar_bytes() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for number in range(5):
            member = tarfile.TarInfo(f"{number}.txt")
            member.size = 5
            tar.addfile(member, io.BytesIO(b"hello"))
    return file.getvalue()


def zip_bytes(*, flags: int = 0, method: int = 8) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("0.txt", "hello" * 30)
    data = bytearray(file.getvalue())
    for header, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = data.index(header)
        data[start + at] |= flags
        data[start + at + 2] = method
    return bytes(data)


ENDINGS = ("tar", "tar.gz", "tar.zst", "zip", "parquet", "arrow", "csv", "jsonl")


@pytest.mark.parametrize("name", [f"s.{ending}" for ending in ENDINGS])
def test_a_pointer_of_git_lfs_is_named_with_the_command_that_fetches_the_file(
    tmp_path: Path, energon: RunEnergon, name: str
) -> None:
    (tmp_path / name).write_bytes(POINTER)
    done = energon("import", tmp_path / name, tmp_path / "out", "--yes")
    assert (done.code, "this is a Git LFS pointer" in done.err, "git lfs pull" in done.err) == (1, True, True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "names", [("0.json", "1.json"), ("0.txt",), ("0.jpg", "0.npy"), ("0.zip", "1.zip"), ("a/0.zip",)]
)
def test_pointers_of_git_lfs_in_a_folder_are_no_samples(
    tmp_path: Path, energon: RunEnergon, names: tuple[str, ...]
) -> None:
    for name in names:
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(POINTER)
    done = energon("import", tmp_path / "in", tmp_path / "out", "--yes", "--split-ratio", "1,0,0")
    assert (done.code, "Git LFS pointer" in done.err, "git lfs pull" in done.err) == (1, True, True)
    assert not (tmp_path / "out/.nv-meta").exists()


@pytest.mark.parametrize(
    "names", [("x.tar.gz.partaa", "x.tar.gz.partab"), ("x.tar.gzaa", "x.tar.gzab"), ("x.tgz.001", "x.tgz.002")]
)
def test_pieces_of_an_archive_are_named_and_the_command_joins_them(
    tmp_path: Path, energon: RunEnergon, names: tuple[str, str]
) -> None:
    data = gzip.compress(tar_bytes())
    folder = tmp_path / "a b"
    folder.mkdir()
    for name, piece in zip(names, (data[:60], data[60:]), strict=True):
        (folder / name).write_bytes(piece)
    done = energon("import", folder, tmp_path / "out", "--yes")
    assert (done.code, "unpack the archive first: cat " in done.err) == (1, True)
    done = energon("import", folder / names[0], tmp_path / "out", "--yes")
    command = done.err.partition("unpack it: ")[2].strip()
    subprocess.run(command, shell=True, check=True)
    [whole] = [path for path in folder.iterdir() if path.name not in names]
    assert energon("import", whole, tmp_path / "out", "--yes").code == 0


@pytest.mark.parametrize(
    ("name", "data", "fault"),
    [
        ("x.zip", zip_bytes(flags=1), "0.txt in this archive is encrypted"),
        ("x.zip", zip_bytes(method=9), "0.txt in this archive is compressed by Deflate64"),
        ("x.rar", b"Rar!\x1a\x07\x01\0" + bytes(99), "this is a RAR archive"),
        ("x.7z", b"7z\xbc\xaf\x27\x1c" + bytes(99), "this is a 7-Zip archive"),
        ("x.tar", b"7z\xbc\xaf\x27\x1c" + bytes(999), "this is a 7-Zip archive, not a tar file"),
    ],
)
def test_archives_of_other_programs_are_named_with_the_command_that_unpacks_them(
    tmp_path: Path, energon: RunEnergon, name: str, data: bytes, fault: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(data)
    done = energon("import", tmp_path / "in" / name, tmp_path / "out", "--yes")
    assert (done.code, fault in done.err, f"7z x {tmp_path / 'in' / name}" in done.err) == (1, True, True)
    if not name.endswith((".zip", ".tar")):
        assert f"7z x {tmp_path / 'in' / name}" in energon("import", tmp_path / "in", tmp_path / "out", "--yes").err
