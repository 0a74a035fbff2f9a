"""A prepare accounts for the files of its folder and for the members of its shards."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from loader.engine import IncompleteError
from loader.prepare.plan import PreparePlan
from loader.prepare.run import run_prepare
from tests.e2e.dataset_tree import RATIO, write_tar


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tar(tmp_path / "s_0.tar", [("a.txt", b"1"), ("README", b"about"), ("__MACOSX/._a.txt", b"x")])
    with tarfile.open(tmp_path / "s_1.tar", "w") as tar:
        for name, data in (("b.txt", b"2"), ("c.txt", b"3")):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        link = tarfile.TarInfo("d.txt")
        link.type, link.linkname = tarfile.LNKTYPE, "b.txt"
        tar.addfile(link)
    (tmp_path / "captions.json").write_bytes(b"{}")
    return tmp_path


def left_out(folder: Path, **settings: bool) -> dict[str, tuple[int, str]]:
    report = run_prepare(PreparePlan(path=str(folder), split=RATIO, **settings))  # type: ignore[arg-type]
    return {entry.reason: (entry.count, entry.example) for entry in report.account.left_out}


EXPECTED = {
    "L117": (1, "captions.json"),
    "L107": (1, "s_0.tar/README"),
    "L108": (1, "s_0.tar/__MACOSX/._a.txt"),
    "L105": (1, "s_1.tar/d.txt"),
}


def test_files_and_members_that_are_left_out_are_named(folder: Path) -> None:
    assert left_out(folder) == EXPECTED


def test_unchanged_shards_are_accounted_for_without_a_scan(folder: Path) -> None:
    left_out(folder)
    assert left_out(folder) == EXPECTED  # up to date
    write_tar(folder / "s_2.tar", [("e.txt", b"1")])
    assert left_out(folder) == EXPECTED  # one shard is scanned


def test_a_strict_prepare_publishes_nothing(folder: Path) -> None:
    with pytest.raises(IncompleteError, match=r"1 member: .*\[L105\], first s_1.tar/d.txt"):
        left_out(folder, strict=True)
    assert not (folder / ".nv-meta" / ".info.json").exists()


def test_a_strict_prepare_of_a_prepared_dataset_refuses_what_the_first_has_left_out(folder: Path) -> None:
    left_out(folder)
    with pytest.raises(IncompleteError, match=r"first s_1.tar/d.txt"):
        left_out(folder, strict=True)


def test_shards_that_an_earlier_version_has_indexed_are_scanned_once_more(folder: Path) -> None:
    left_out(folder)
    [table] = folder.glob(".nv-meta/index/*/part_sets.json")
    table.unlink()  # earlier versions wrote none
    report = run_prepare(PreparePlan(path=str(folder)))
    assert (report.scanned, report.reused) == (2, 0)
    assert len(report.account.left_out) == len(EXPECTED)
    assert run_prepare(PreparePlan(path=str(folder))).scanned == 0


def test_the_bytes_of_shards_are_used_or_left_out(folder: Path) -> None:
    seen = run_prepare(PreparePlan(path=str(folder), split=RATIO)).account.to_document()["seen"]
    assert seen["bytes"] == sum((folder / name).stat().st_size for name in ("s_0.tar", "s_1.tar", "captions.json"))
