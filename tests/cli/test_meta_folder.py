"""``--meta-folder``: the metadata of a dataset in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.make_dataset import caption_parts, write_captions
from tests.cli.make_mix import write_mix
from tests.cli.run_energon import RunEnergon
from tests.cli.terminal import TerminalRun
from tests.cli.test_prepare import files_of
from tests.small_disks import read_only


def test_the_metadata_of_a_read_only_folder_are_kept_in_the_folder_of_indexes(
    captions: Path, tmp_path: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENERGON_INDEX", str(tmp_path / "mine"))
    before = files_of(captions)
    with read_only(captions):
        dry = energon("prepare", captions, "--yes", "--dry-run")
        assert (dry.code, "would prepare" in dry.out, (tmp_path / "mine").exists()) == (0, True, False)
        done = energon("prepare", captions, "--yes")
        [folder] = (tmp_path / "mine").iterdir()
        assert (done.code, f"its metadata are kept in {folder}" in done.err) == (0, True), done
        # All commands find them there, and those that write do so there.
        assert energon("info", captions, "--json").json["samples"] == 12
        assert energon("lint", captions).code == 0
        assert energon("exclude", captions, "000004").code == 0
        assert energon("stats", captions, "--write", "jpg.width").code == 0
        assert energon("preview", captions, "--split-parts", "val").code == 0
        assert "up to date" in energon("prepare", captions, "--yes").out
    assert "shard_001.tar/000004" in (folder / "split.yaml").read_text()
    assert (folder / "columns/jpg_width.npy").exists()
    assert files_of(captions) == before


def test_what_is_written_about_a_prepared_read_only_folder_is_kept_there_too(
    captions: Path, tmp_path: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENERGON_INDEX", str(tmp_path / "mine"))
    assert energon("prepare", captions, "--yes").code == 0
    (tmp_path / "mixes").mkdir()
    mix = write_mix(tmp_path / "mixes", train={"path": "../captions"})
    before = files_of(captions)
    with read_only(captions):
        assert energon("exclude", captions, "000004", "--dry-run").code == 0
        assert not (tmp_path / "mine").exists()
        done = energon("exclude", mix, "000004")
        assert (done.code, "is read-only: its metadata are kept in" in done.err) == (0, True), done
        listed = energon("exclude", captions, "--list", "--json").json
        assert listed["samples"] == 1
        assert energon("info", captions, "--json").json["samples"] == 12
        assert energon("exclude", captions, "--undo").code == 0
        assert energon("exclude", captions, "--list", "--json").json["samples"] == 0
    assert files_of(captions) == before


def test_a_read_only_meta_folder_is_reported_before_the_first_prompt(captions: Path, tmp_path: Path) -> None:
    meta = tmp_path / "meta"
    meta.mkdir()
    with read_only(meta), TerminalRun("prepare", captions, "--meta-folder", str(meta)) as run:
        assert run.finish() == 1
        assert "no permission to write to this folder" in run.text
        assert "How should" not in run.text


def test_all_commands_work_on_a_read_only_folder(captions: Path, tmp_path: Path, energon: RunEnergon) -> None:
    meta = tmp_path / "meta"
    flag = ("--meta-folder", meta)
    before = files_of(captions)
    with read_only(captions):
        done = energon("prepare", captions, "--yes", *flag)
        assert done.code == 0
        assert all(line.startswith("note: ") for line in done.err.splitlines())
        assert done.err.count(".tar.idx") == 1
        assert f"wrote {meta}/dataset.yaml" in done.out
        assert "up to date" in energon("prepare", captions, "--yes", *flag).out
        assert energon("info", captions, "--json", *flag).json["samples"] == 12
        shown = energon("preview", captions, "--split-parts", "val", *flag)
        assert (shown.code, "picture number 6" in shown.out) == (0, True)
        assert energon("lint", captions, *flag).code == 0
        assert "--meta-folder" not in energon("info", captions).err
    assert files_of(captions) == before
    (captions / "shard_003.tar").unlink()
    write_captions(captions, shards=1, names="shard_{:03d}.tar", parts=lambda number: caption_parts(number + 50))
    assert energon("lint", captions, *flag).code == 1
    again = energon("prepare", captions, "--yes", "--force-overwrite", "--split-ratio", "1", *flag)
    assert again.code == 0
    assert energon("lint", captions, *flag).code == 0
    assert not (captions / ".nv-meta").exists()


def test_lint_fix_writes_to_the_meta_folder(tmp_path: Path, energon: RunEnergon) -> None:
    broken = write_captions(
        tmp_path / "broken", parts=lambda number: caption_parts(number) | ({"jpg": b"<"} if number == 4 else {})
    )
    flag = ("--meta-folder", tmp_path / "meta")
    assert energon("prepare", broken, "--yes", *flag).code == 0
    energon("lint", broken, "--fix", *flag)
    assert "shard_001.tar/000004" in (tmp_path / "meta/split.yaml").read_text()
    assert energon("lint", broken, *flag).code == 0


def test_media_files_in_a_read_only_folder(tmp_path: Path, energon: RunEnergon) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "0.jpg").write_bytes(caption_parts(0)["jpg"])
    flag = ("--meta-folder", tmp_path / "meta")
    with read_only(files):
        failed = energon("prepare-media", files, "--media-metadata-by-header")
        assert (failed.code, "--meta-folder DIR" in failed.err) == (1, True)
        assert energon("prepare-media", files, "--media-metadata-by-header", *flag).code == 0
        assert energon("info", files, "--json", *flag).json["type"] == "files"
        assert energon("preview", files, *flag).code == 0
        assert energon("lint", files, *flag).code == 0


def test_a_meta_folder_with_another_use_is_refused(captions: Path, tmp_path: Path, energon: RunEnergon) -> None:
    other = write_captions(tmp_path / "other", shards=1, names="other_{:03d}.tar")
    assert energon("prepare", other, "--yes", "--meta-folder", tmp_path / "meta").code == 0
    before = files_of(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/todo.txt").write_text("x")
    for folder, fault in (
        (tmp_path / "meta", "the metadata of another dataset: its shards, first 'other_000.tar'"),
        (tmp_path / "notes", "found other files, first 'todo.txt'"),
        (tmp_path / "notes/todo.txt", "expected a folder, found a file"),
        (captions, "found one that contains the dataset"),
        (tmp_path, "found one that contains the dataset"),
    ):
        done = energon("prepare", captions, "--yes", "--meta-folder", folder)
        assert (done.code, fault in done.err) == (1, True), done.err
    (tmp_path / "notes/todo.txt").unlink()
    assert files_of(tmp_path) == before


@pytest.mark.parametrize(
    "flags", [["--compat"], ["--decompress"], ["--fix-duplicates"], ["--media-metadata-by-header"]]
)
def test_flags_that_write_next_to_the_shards_conflict(captions: Path, energon: RunEnergon, flags: list[str]) -> None:
    done = energon("prepare", captions, "--yes", "--meta-folder", captions / "meta", *flags)
    assert (done.code, f"{flags[0]} writes files next to the shards" in done.err) == (2, True)


def test_a_metadataset_names_meta_folders_at_its_datasets(
    captions: Path, tmp_path: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert energon("prepare", captions, "--yes", "--meta-folder", tmp_path / "mixes/meta").code == 0
    mix = write_mix(tmp_path / "mixes", train={"path": "../captions", "meta_folder": "meta"})
    monkeypatch.chdir(captions)  # the folder is relative to the document
    assert energon("lint", mix).code == 0
    [split] = energon("info", mix, "--json").json["splits"]
    assert str(tmp_path / "mixes/meta") in str(split)
    assert "picture number" in energon("preview", mix).out
    assert energon("info", mix, "--meta-folder", "meta").code == 2
    write_mix(tmp_path / "mixes", train={"path": "../captions", "meta_folder": "gone"})
    failed = energon("lint", mix)
    assert (failed.code, "there is no .info.json in" in failed.out) == (1, True)


def test_a_folder_without_metadata_is_named_by_its_whole_path(
    captions: Path, energon: RunEnergon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = energon("lint", captions, "--meta-folder", "none")
    assert done.code == 1
    assert f"it has no .info.json in {tmp_path / 'none'}" in done.out
