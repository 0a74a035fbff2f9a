"""Shards are read only if they are the indexed ones, and a copied shard is reported once."""

from __future__ import annotations

import io
import logging
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from loader.dataset.opening import folder_at
from loader.errors import FormatError, StorageError
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare


def write_shard(path: Path, keys: list[str], *, tar_format: int = tarfile.USTAR_FORMAT) -> None:
    with tarfile.open(path, "w", format=tar_format) as tar:
        for key in keys:
            member = tarfile.TarInfo(f"{key}.txt")
            member.size = len(key)
            tar.addfile(member, io.BytesIO(key.encode()))


def prepared(folder: Path, keys: list[str], **options: int) -> Path:
    write_shard(folder / "s.tar", keys, **options)
    run_prepare(PreparePlan(path=str(folder), split=SplitRequest(ratio={"train": 1.0})))
    return folder


def touch(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def test_an_unchanged_shard_is_read_without_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    dataset = folder_at(prepared(tmp_path, ["a", "b"]))
    assert dataset.read_parts(1) == {"txt": b"b"}
    assert caplog.text == ""


@pytest.mark.parametrize("tar_format", [tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT])
def test_a_touched_shard_is_read_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, tar_format: Any
) -> None:
    keys = ["a", "b" * (95 if tar_format == tarfile.USTAR_FORMAT else 120)]
    dataset = folder_at(prepared(tmp_path, keys, tar_format=tar_format))
    touch(tmp_path / "s.tar")
    with caplog.at_level(logging.WARNING):
        assert dataset.read_parts(0) == {"txt": b"a"}
        assert dataset.read_parts(1) == {"txt": keys[1].encode()}
    assert [record.message.count("touched or copied") for record in caplog.records] == [1]


def test_a_copied_dataset_is_one_warning_and_its_other_shards_are_counted_at_debug_level(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b", "other"):
        (tmp_path / name).mkdir()
        for shard in range(3):
            write_shard(tmp_path / name / f"{shard}.tar", [f"{shard}"])
        run_prepare(PreparePlan(path=str(tmp_path / name), split=SplitRequest(ratio={"train": 1.0})))
    for shard in (0, 2):
        touch(tmp_path / "a" / f"{shard}.tar")
    touch(tmp_path / "b/1.tar")
    with caplog.at_level(logging.DEBUG, "loader"):
        for name in ("a", "b", "other"):
            for dataset in (
                folder_at(tmp_path / name),
                folder_at(tmp_path / name),
            ):  # twice, as for two split parts
                assert [dataset.read_parts(sample)["txt"] for sample in (0, 1, 2, 0)] == [b"0", b"1", b"2", b"0"]
    logged = [(record.levelname, record.message) for record in caplog.records if "touched" in record.message]
    assert [level for level, _ in logged] == ["WARNING", "DEBUG", "WARNING"]
    for (_, message), name in zip(logged, ("a/0.tar", "a/2.tar", "b/1.tar"), strict=True):
        assert message.startswith(f"{tmp_path}/{name} was touched or copied since it was indexed; its first and last")
    assert logged[1][1].endswith("; 2 shards of this dataset so far")


def test_a_dataset_that_was_prepared_again_may_be_copied_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for keys in (["a"], ["a", "b"]):
        folder = prepared(tmp_path, keys)
        touch(tmp_path / "s.tar")
        folder_at(folder).read_parts(0)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


def test_a_shard_of_another_size_is_refused_by_name(tmp_path: Path) -> None:
    dataset = folder_at(prepared(tmp_path, ["a", "b"]))
    with (tmp_path / "s.tar").open("ab") as shard:
        shard.write(bytes(512))
    with pytest.raises(FormatError, match="it had 10240 bytes, now 10752") as caught:
        dataset.read_parts(0)
    assert caught.value.shard == str(tmp_path / "s.tar")


@pytest.mark.parametrize("other", [["x", "b"], ["a", "x"]], ids=["first", "last"])
def test_a_shard_with_another_first_or_last_header_is_refused_with_its_offset(tmp_path: Path, other: Any) -> None:
    dataset = folder_at(prepared(tmp_path, ["a", "b"]))
    write_shard(tmp_path / "s.tar", other)
    touch(tmp_path / "s.tar")
    with pytest.raises(FormatError, match=r"found 'x[.]txt'") as caught:
        dataset.read_parts(0)
    assert caught.value.offset == 1024 * other.index("x")


def test_a_shard_with_a_header_of_another_size_is_refused(tmp_path: Path) -> None:
    dataset = folder_at(prepared(tmp_path, ["a", "b"]))
    with tarfile.open(tmp_path / "s.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in (("a.txt", b"longer"), ("b.txt", b"b")):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    touch(tmp_path / "s.tar")
    with pytest.raises(FormatError, match=r"'a[.]txt', 1 bytes; found 'a[.]txt', 6 bytes"):
        dataset.read_parts(0)


def test_an_index_of_another_tool_is_not_mistaken_for_ours(tmp_path: Path) -> None:
    """Another tool prepared the same shards again: same names, same counts, other contents."""
    prepared(tmp_path, ["a", "b"])
    write_shard(tmp_path / "s.tar", ["c", "d"])
    (tmp_path / ".nv-meta/index.uuid").write_text("6675df11-74a2-4b75-a69c-f8b18fd352b6")
    (tmp_path / ".nv-meta/index.sqlite").unlink()
    index = folder_at(tmp_path).index
    assert [index.key(sample) for sample in range(2)] == ["c", "d"]


def test_a_missing_shard_is_refused_by_name(tmp_path: Path) -> None:
    dataset = folder_at(prepared(tmp_path, ["a", "b"]))
    (tmp_path / "s.tar").unlink()
    with pytest.raises(StorageError, match="No such file") as caught:
        dataset.read_parts(0)
    assert caught.value.path == str(tmp_path / "s.tar")
