from __future__ import annotations

import bz2
import gzip
import importlib
import lzma
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from loader.errors import ConfigError, FormatError, StorageError
from loader.prepare.decompress import decompress_shards
from loader.storage import LocalStorage
from tests.small_disks import mounted_disk

TAR = bytes(range(256)) * 4096  # 1 MiB: decompression does not look inside
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".tgz": gzip.compress,
    ".TAR.GZ": gzip.compress,
    ".tbz2": bz2.compress,
    ".tar.bz2": bz2.compress,
    ".txz": lzma.compress,
    ".tar.xz": lzma.compress,
}


def write(folder: Path, *names: str, data: bytes = TAR) -> LocalStorage:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        ending = next(ending for ending in COMPRESS if name.lower().endswith(ending.lower()))
        path.write_bytes(COMPRESS[ending](data))
    return LocalStorage(folder)


def files_of(folder: Path) -> list[str]:
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and ".nv-meta" not in path.parts
    )


@pytest.mark.parametrize("ending", COMPRESS)
def test_each_compression_of_the_standard_library(tmp_path: Path, ending: str) -> None:
    report = decompress_shards(write(tmp_path, f"sub/a{ending}"))
    assert (tmp_path / "sub/a.tar").read_bytes() == TAR
    assert (report.written, report.size_bytes, report.removed) == (("sub/a.tar",), len(TAR), 0)
    assert files_of(tmp_path) == sorted([f"sub/a{ending}", "sub/a.tar"])


@pytest.mark.parametrize(("ending", "package"), [(".tar.zst", "zstandard"), (".tar.lz4", "lz4.frame")])
def test_compressions_of_optional_packages(tmp_path: Path, ending: str, package: str) -> None:
    pytest.importorskip(package)
    library = importlib.import_module(package)
    data = library.compress(TAR)
    (tmp_path / f"a{ending}").write_bytes(data * 2)  # two streams
    (tmp_path / f"b{ending}").write_bytes(data[:-9])
    with pytest.raises(FormatError, match="the compressed data are damaged") as caught:
        decompress_shards(LocalStorage(tmp_path), workers=2)
    assert caught.value.shard == str(tmp_path / f"b{ending}")
    assert (tmp_path / "a.tar").read_bytes() == TAR * 2
    assert files_of(tmp_path) == sorted([f"a{ending}", f"b{ending}", "a.tar"])


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="the standard library has it")
def test_a_package_that_is_missing_is_named_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    storage = write(tmp_path, "a.tgz")
    (tmp_path / "b.tar.zst").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"the library that decompresses b\.tar\.zst is not installed") as caught:
        decompress_shards(storage)
    assert caught.value.hint == "pip install 'energon-toolkit[decompress]'"
    assert not (tmp_path / "a.tar").exists()


def test_streams_one_after_another_and_padding(tmp_path: Path) -> None:
    half = len(TAR) // 2
    (tmp_path / "a.tgz").write_bytes(gzip.compress(TAR[:half]) + gzip.compress(TAR[half:]) + bytes(1 << 16))
    decompress_shards(LocalStorage(tmp_path))
    assert (tmp_path / "a.tar").read_bytes() == TAR


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-4],
        lambda data: data[: len(data) // 2],
        lambda data: data[:-6] + b"\0\0" + data[-4:],
        lambda data: b"no gzip" + data,
        lambda data: data + b"garbage",
        lambda _: b"",
    ],
    ids=["no length", "half", "checksum", "header", "garbage", "empty"],
)
def test_damaged_shards_are_named_and_the_others_are_done(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    storage = write(tmp_path, "a.tgz", "b.tar.gz", "c.tgz")
    (tmp_path / "b.tar.gz").write_bytes(damage(gzip.compress(TAR)))
    with pytest.raises(FormatError) as caught:
        decompress_shards(storage, workers=2, remove_originals=True)
    assert caught.value.shard == str(tmp_path / "b.tar.gz")
    assert files_of(tmp_path) == ["a.tar", "b.tar.gz", "c.tar"]


def test_several_damaged_shards_are_one_error(tmp_path: Path) -> None:
    storage = write(tmp_path, "a.tgz", "b.tgz")
    for name in ("a.tgz", "b.tgz"):
        os.truncate(tmp_path / name, 100)
    with pytest.raises(FormatError, match="2 shards cannot be decompressed") as caught:
        decompress_shards(storage)
    assert str(tmp_path / "a.tgz") in caught.value.message


def test_existing_files_are_never_replaced(tmp_path: Path) -> None:
    storage = write(tmp_path, "a.tgz", "b.tgz")
    (tmp_path / "a.tar").write_bytes(TAR[:-1])
    with pytest.raises(FormatError, match=r"a\.tar exists, and has other content than a\.tgz"):
        decompress_shards(storage, remove_originals=True)
    assert (tmp_path / "a.tar").read_bytes() == TAR[:-1]
    assert files_of(tmp_path) == ["a.tar", "a.tgz", "b.tar"]


def test_two_shards_of_one_name_are_refused(tmp_path: Path) -> None:
    storage = write(tmp_path, "a.tgz", "a.tar.xz")
    with pytest.raises(StorageError, match=r"a\.tar\.xz and a\.tgz would both become a\.tar"):
        decompress_shards(storage)
    assert files_of(tmp_path) == ["a.tar.xz", "a.tgz"]
    assert decompress_shards(storage, exclude="tgz").written == ("a.tar",)


def test_what_was_decompressed_before_is_kept(tmp_path: Path) -> None:
    storage = write(tmp_path, "a.tgz")
    (tmp_path / "a.tar").write_bytes(TAR)  # by gunzip, perhaps at another time
    assert decompress_shards(storage).kept == 1
    os.utime(tmp_path / "a.tar", ns=(0, 0))
    report = decompress_shards(storage, remove_originals=True)
    assert (report.written, report.kept, report.removed) == ((), 1, 1)
    assert files_of(tmp_path) == ["a.tar"]


def test_nothing_to_do(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(TAR)
    assert decompress_shards(LocalStorage(tmp_path)).written == ()
    assert files_of(tmp_path) == ["a.tar"]
    with pytest.raises(ConfigError):
        decompress_shards(LocalStorage(tmp_path), exclude="(")


def test_progress_ends_at_the_total(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    storage = write(tmp_path, "a.tgz", "b.tbz2")
    decompress_shards(storage, workers=2, on_progress=lambda *now: calls.append(now))
    total = sum((tmp_path / name).stat().st_size for name in ("a.tgz", "b.tbz2"))
    assert calls[-1] == (total, total)
    assert calls == sorted(calls)


def test_a_full_disk_leaves_whole_files(tmp_path: Path) -> None:
    with mounted_disk(tmp_path / "disk") as disk:
        write(disk, "a.tgz", data=TAR[: 1 << 18])
        write(disk, "b.tgz", data=TAR * 2)
        with pytest.raises(StorageError, match="No space left"):
            decompress_shards(LocalStorage(disk), remove_originals=True)
        assert files_of(disk) == ["a.tar", "b.tgz"]


def test_a_killed_run_leaves_whole_files_and_the_next_one_ends_it(tmp_path: Path) -> None:
    names = [f"{number}.tgz" for number in range(8)]
    big = TAR * 24
    write(tmp_path, *names, data=big)
    code = (
        "from loader.prepare.decompress import decompress_shards; from loader.storage import LocalStorage;"
        f"decompress_shards(LocalStorage({str(tmp_path)!r}))"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("*.tar")) and time.monotonic() < deadline:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert {path.read_bytes() == big for path in tmp_path.glob("*.tar")} == {True}
    report = decompress_shards(LocalStorage(tmp_path))
    assert report.kept + len(report.written) == 8
    assert {path.read_bytes() == big for path in tmp_path.glob("*.tar")} == {True}
    assert not list(tmp_path.glob(".*.partial"))
