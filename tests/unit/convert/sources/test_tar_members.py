"""Links, repeated members and files of the system in tars: their contents are imported, or they are named."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Literal

import pytest

from loader.convert.sources.files import FilesSource
from tests.imports import Samples, imported

Entry = tuple[str, bytes | str, bytes]  # name, contents or target of a link, type

LONG = "deep/" + "x" * 150


def write(path: Path, *entries: Entry, form: int = tarfile.GNU_FORMAT) -> Path:
    with tarfile.open(path, "w", format=form) as tar:
        for name, value, kind in entries:
            member = tarfile.TarInfo(name)
            member.type = kind
            if isinstance(value, bytes):
                member.size = len(value)
                tar.addfile(member, io.BytesIO(value))
            else:
                member.linkname = value
                tar.addfile(member)
    return path


def read(path: Path, kind: Literal["webdataset", "tar"], output: Path) -> tuple[Samples, dict[str, tuple[int, str]]]:
    samples, report = imported(FilesSource(path=str(path), kind=kind), output)
    return samples, {entry.reason: (entry.count, entry.example) for entry in report.account.left_out}


@pytest.mark.parametrize("kind", ["webdataset", "tar"])
@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_links_have_the_contents_of_their_targets(
    tmp_path: Path, kind: Literal["webdataset", "tar"], form: int
) -> None:
    path = write(
        tmp_path / "a.tar",
        (f"{LONG}/a.txt", b"one", tarfile.REGTYPE),
        ("b.txt", f"{LONG}/a.txt", tarfile.LNKTYPE),  # GNU: the target is in an extension header
        ("c/c.txt", f"../{LONG}/a.txt", tarfile.SYMTYPE),
        ("d.txt", "c/c.txt", tarfile.SYMTYPE),  # a link to a link
        form=form,
    )
    samples, left = read(path, kind, tmp_path / "out")
    assert samples == {key: {"txt": b"one"} for key in (f"{LONG}/a", "b", "c/c", "d")}
    assert not left


@pytest.mark.parametrize("kind", ["webdataset", "tar"])
def test_links_that_lead_out_of_the_archive_are_named(tmp_path: Path, kind: Literal["webdataset", "tar"]) -> None:
    path = write(
        tmp_path / "a.tar",
        ("a.txt", b"1", tarfile.REGTYPE),
        ("b.txt", "/etc/passwd", tarfile.SYMTYPE),
        ("c.txt", "../../etc/passwd", tarfile.SYMTYPE),
        ("d.txt", "d.txt", tarfile.SYMTYPE),  # a link to itself
        ("e.txt", "", tarfile.FIFOTYPE),
    )
    samples, left = read(path, kind, tmp_path / "out")
    assert samples == {"a": {"txt": b"1"}}
    assert left == {"L105": (4, f"{path}, b.txt")}


@pytest.mark.parametrize("kind", ["webdataset", "tar"])
def test_members_that_are_replaced_or_belong_to_the_system_are_named(
    tmp_path: Path, kind: Literal["webdataset", "tar"]
) -> None:
    path = write(
        tmp_path / "a.tar",
        ("a.txt", b"old", tarfile.REGTYPE),
        ("a.txt", b"new", tarfile.REGTYPE),
        ("._a.txt", b"resource fork", tarfile.REGTYPE),
        ("README", b"about", tarfile.REGTYPE),
        ("b.txt", b"2", tarfile.REGTYPE),
    )
    samples, left = read(path, kind, tmp_path / "out")
    assert samples == {"a": {"txt": b"new"}, "b": {"txt": b"2"}}
    assert {code: count for code, (count, _) in left.items()} == {
        "L106": 1,
        "L108": 1,
        ("L107" if kind == "webdataset" else "L102"): 1,
    }


def test_members_whose_parts_would_have_one_name_are_both_written(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar", ("a.", b"1", tarfile.REGTYPE), ("a.bin", b"2", tarfile.REGTYPE))
    samples, left = read(path, "webdataset", tmp_path / "out")
    assert samples == {"a": {"bin": b"1", "2.bin": b"2"}}
    assert not left


@pytest.mark.parametrize("kind", ["webdataset", "tar"])
def test_members_whose_names_are_not_utf_8_are_written(tmp_path: Path, kind: Literal["webdataset", "tar"]) -> None:
    path = write(tmp_path / "a.tar", (os.fsdecode(b"caf\xe9.txt"), b"1", tarfile.REGTYPE), form=tarfile.GNU_FORMAT)
    samples, left = read(path, kind, tmp_path / "out")
    assert [*samples.values()] == [{"txt": b"1"}]
    assert not left
