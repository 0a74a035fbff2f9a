"""The commands on tar files that are not prepared, and on folders without tar files."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tests.cli.make_dataset import caption_parts, write_captions, write_shard
from tests.cli.run_energon import RunEnergon


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    """Four shards: 4 has an invalid picture, 5 an empty one, the second shard repeats a key, the last is cut."""

    def parts(number: int) -> dict[str, bytes]:
        return caption_parts(number) | {4: {"jpg": b"<!DOCTYPE html>"}, 5: {"jpg": b""}}.get(number, {})

    folder = write_captions(tmp_path / "faulty", parts=parts)
    write_shard(folder / "shard_002.tar", {"000000": caption_parts(0)})
    with tarfile.open(folder / "shard_002.tar", "a") as tar:
        tar.addfile(tarfile.TarInfo("README"))
    (folder / "shard_003.tar").write_bytes((folder / "shard_003.tar").read_bytes()[:3000])
    return folder


@pytest.mark.parametrize(
    ("level", "codes"),
    [
        ("headers", {"E001", "E104", "E303", "W106", "W305"}),
        ("bytes", {"E001", "E104", "E303", "W106", "W305"}),
        ("decode", {"E001", "E104", "E302", "E303", "W106", "W305"}),
    ],
)
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_lint_checks_any_level(faulty: Path, energon: RunEnergon, level: str, codes: set[str], workers: int) -> None:
    done = energon("lint", faulty, "--level", level, "--parallel", workers, "--json")
    assert done.code == 1
    found = {finding["code"]: finding for finding in done.json["findings"]}
    assert set(found) == codes
    assert found["E001"]["hint"] == f"run: energon prepare {faulty}"
    assert found["E104"]["shard"] == "shard_003.tar"
    assert (found["E303"]["shard"], found["E303"]["key"], found["E303"]["part"]) == ("shard_001.tar", "000005", "jpg")
    assert (found["W305"]["shard"], found["W305"]["key"]) == ("shard_002.tar", "000000")
    assert "1 member belongs to no sample, first README" in found["W106"]["message"]
    assert (done.json["shards"], done.json["samples"]) == (4, 7)
    if level == "decode":
        assert (found["E302"]["key"], found["E302"]["part"]) == ("000004", "jpg")


def test_lint_says_that_the_folder_is_not_prepared_as_errors_do(captions: Path, energon: RunEnergon) -> None:
    done = energon("lint", captions)
    assert done.code == 1
    first, at, hint, summary = done.out.splitlines()
    assert first.startswith("error   E001: this folder is not a prepared dataset")
    assert (at, hint) == (f"  at: {captions}", f"  hint: run: energon prepare {captions}")
    assert summary.startswith("1 error, 0 warnings: 12 samples in 4 shards, level decode")


def test_lint_of_one_tar_file_needs_no_prepare(faulty: Path, energon: RunEnergon) -> None:
    done = energon("lint", faulty / "shard_000.tar")
    assert (done.code, done.out.split(" (")[0]) == (0, "no findings: 3 samples in 1 shard, level decode")
    done = energon("lint", faulty / "shard_001.tar")
    assert done.code == 1
    assert "E302  shard_001.tar/000004 [jpg]" in done.out
    assert "--fix" not in done.out
    assert energon("lint", faulty / "shard_001.tar", "--level", "headers", "--max-findings", 1).code == 1


@pytest.mark.parametrize("flags", [("--fix",), ("--split-parts", "train")])
def test_lint_refuses_what_needs_a_split(faulty: Path, energon: RunEnergon, flags: tuple[str, ...]) -> None:
    for path in (faulty, faulty / "shard_000.tar"):
        done = energon("lint", path, *flags)
        assert (done.code, "not prepared have no split" in done.err) == (2, True)


def test_lint_stops_at_max_findings(faulty: Path, energon: RunEnergon) -> None:
    done = energon("lint", faulty, "--max-findings", 2, "--json")
    assert (done.code, len(done.json["findings"]), done.json["complete"]) == (1, 2, False)


def test_info_scans_the_headers(captions: Path, energon: RunEnergon) -> None:
    done = energon("info", captions)
    assert (done.code, done.err) == (0, "")
    assert "12 samples in 4 shards" in done.out
    assert f"not prepared; scanned 4 shards; to prepare: energon prepare {captions}" in done.out
    assert "jpg    100.0 %  8.2 kB   686 B" in done.out
    one = energon("info", captions / "shard_001.tar", "--json").json
    assert (one["samples"], one["shards"], one["index"]["state"], one["prepared"]) == (3, 1, "none", None)
    assert one["note"] == "not prepared; scanned 1 shard"


def test_info_names_damaged_and_compressed_shards(faulty: Path, energon: RunEnergon) -> None:
    (faulty / "more.tar.gz").write_bytes(b"")
    done = energon("info", faulty)
    assert done.code == 1
    assert f"damaged     {faulty}/shard_003.tar, byte " in done.out
    assert "1 compressed tar file" in done.out
    assert energon("info", faulty, "--json").json["compressed"] == ["more.tar.gz"]


def test_preview_shows_parts_and_says_what_was_scanned(captions: Path, energon: RunEnergon) -> None:
    done = energon("preview", captions, "--index", 4)
    assert done.code == 0
    assert done.out.startswith("shard_001.tar/000004   sample 4 of 12\n  jpg   JPEG 24×16 RGB, ")
    assert done.err == f"note: not prepared; scanned 4 shards; to prepare: energon prepare {captions}\n"
    one = energon("preview", captions / "shard_002.tar", "--json", "-n", 9)
    documents = [json.loads(line) for line in one.out.splitlines()]
    assert [(each["shard"], each["key"], each["index"]) for each in documents] == [
        ("shard_002.tar", f"{number:06d}", number - 6) for number in (6, 7, 8)
    ]
    assert one.err == "note: not prepared; scanned 1 shard\n"
    assert energon("preview", captions, "--index", 12).code == 2


def test_preview_finds_keys_and_shuffles(captions: Path, energon: RunEnergon) -> None:
    assert energon("preview", captions, "000007").out.startswith("shard_002.tar/000007   sample 7 of 12\n")
    named = energon("preview", captions, "shard_002.tar/000007")
    assert named.out.startswith("shard_002.tar/000007   sample 1 of 3 of its shard\n")
    assert "scanned 1 of 4 shards" in named.err
    missing = energon("preview", captions, "none")
    assert (missing.code, "no sample has the key 'none'" in missing.err) == (1, True)
    shuffled = json.loads(energon("preview", captions, "--shuffle", "--json").out)
    assert json.loads(energon("preview", captions, "--index", shuffled["index"], "--json").out) == shuffled


def test_preview_scans_no_more_than_it_needs(tmp_path: Path, energon: RunEnergon) -> None:
    for shard in range(3):
        numbers = range(shard * 1500, (shard + 1) * 1500)
        write_shard(tmp_path / f"{shard}.tar", {f"{number:06d}": {"txt": b"a"} for number in numbers})
    done = energon("preview", tmp_path)
    assert done.out.startswith("0.tar/000000   sample 0 of 1,500 scanned\n")
    assert "scanned the first 1,500 samples, in 1 of 3 shards" in done.err
    assert energon("preview", tmp_path, "--index", 1600).out.startswith(
        "1.tar/001600   sample 1,600 of 3,000 scanned\n"
    )


def test_preview_skips_damaged_shards_and_says_so(captions: Path, energon: RunEnergon) -> None:
    (captions / "shard_000.tar").write_bytes(b"x" * 600)
    done = energon("preview", captions)
    assert done.out.startswith("shard_001.tar/000003   sample 0 of 9\n")
    assert f"note: this shard is skipped: {captions}/shard_000.tar, byte 0: " in done.err
    alone = energon("preview", captions / "shard_000.tar")
    assert (alone.code, alone.err.startswith("error: ")) == (1, True)


@pytest.mark.parametrize("flags", [("--split-parts", "train"), ("--dataset-config", "other.yaml")])
def test_preview_refuses_what_needs_a_prepare(captions: Path, energon: RunEnergon, flags: tuple[str, ...]) -> None:
    done = energon("preview", captions, *flags)
    assert done.code == 1
    assert f"hint: run: energon prepare {captions}" in done.err


@pytest.mark.parametrize("command", ["prepare", "info", "lint", "preview"])
def test_a_folder_of_plain_files_says_what_it_holds(tmp_path: Path, energon: RunEnergon, command: str) -> None:
    for number in range(3):
        (tmp_path / f"{number}.jpg").write_bytes(b"")
        (tmp_path / f"{number}.txt").write_bytes(b"")
    flags = ("--yes",) if command == "prepare" else ()
    done = energon(command, tmp_path, *flags)
    assert done.code == 1
    text = done.out if command == "lint" else done.err
    assert "but 3 .jpg and 3 .txt\n" in text
    assert f"  at: {tmp_path}\n" in text
    assert f"  hint: run: energon import {tmp_path} {tmp_path}-dataset --yes" in text


@pytest.mark.parametrize("command", ["info", "lint", "preview"])
def test_a_folder_of_lines_says_how_it_becomes_a_dataset(tmp_path: Path, energon: RunEnergon, command: str) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    done = energon(command, tmp_path)
    assert done.code == 1
    assert f"hint: run: energon prepare {tmp_path}; " in done.out + done.err
