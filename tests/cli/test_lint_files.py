"""``energon lint`` of a folder of files with media metadata."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from tests.cli.run_energon import RunEnergon


@pytest.fixture
def files(tmp_path: Path, energon: RunEnergon) -> Path:
    folder = tmp_path / "files"
    (folder / "photos").mkdir(parents=True)
    for number in range(3):
        Image.effect_noise((60, 40), 90).save(folder / "photos" / f"{number}.png")
    assert energon("prepare-media", "--media-metadata-by-header", folder).code == 0
    return folder


@pytest.mark.parametrize("level", ["headers", "bytes", "decode"])
def test_a_sound_folder_exits_0(files: Path, energon: RunEnergon, level: str) -> None:
    done = energon("lint", files, "--level", level)
    assert (done.code, done.err) == (0, "")
    assert f"no findings: 3 files, level {level}" in done.out


def test_missing_changed_and_broken_files_are_found(files: Path, energon: RunEnergon) -> None:
    (files / "photos/0.png").unlink()
    Image.new("L", (30, 40)).save(files / "photos/1.png")
    whole = (files / "photos/2.png").read_bytes()
    (files / "photos/2.png").write_bytes(whole[: len(whole) // 2])
    done = energon("lint", files, "--json")
    assert done.code == 1
    found = [(finding["code"], finding["shard"]) for finding in done.json["findings"]]
    assert found == [("E602", "photos/0.png"), ("E603", "photos/1.png"), ("E604", "photos/2.png")]
    assert "width is 30, and was 60" in done.json["findings"][1]["message"]
    (files / "photos/2.png").write_bytes(b"<html>")
    found = energon("lint", files, "--level", "headers", "--json").json["findings"]
    assert [finding["code"] for finding in found] == ["E602", "E603", "E604"]
    assert energon("lint", files, "--json", "--max-findings", 1).json["complete"] is False


def test_media_metadata_that_cannot_be_read_is_an_error(files: Path, energon: RunEnergon) -> None:
    (files / ".nv-meta/index.sqlite").write_bytes(b"no database")
    done = energon("lint", files, "--json")
    assert (done.code, [finding["code"] for finding in done.json["findings"]]) == (1, ["E601"])


@pytest.mark.parametrize("flags", [("--fix",), ("--split-parts", "train")])
def test_flags_that_are_for_datasets_are_wrong_usage(files: Path, energon: RunEnergon, flags: tuple[str, ...]) -> None:
    done = energon("lint", files, *flags)
    assert done.code == 2
    assert "a folder of files has no split" in done.err
