"""The commands ``reshard`` and ``export``: flags, output and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loader.dataset.opening import folder_at
from loader.prepare.plan import SplitRequest
from tests.cli.make_dataset import write_captions
from tests.cli.run_energon import RunEnergon
from tests.e2e.dataset_tree import RATIO, prepare, write_tar


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    prepare(write_captions(tmp_path / "ds"), split=RATIO)
    return tmp_path / "ds"


def test_reshard_writes_a_dataset_and_says_so(energon: RunEnergon, folder: Path, tmp_path: Path) -> None:
    done = energon(
        "reshard", folder, tmp_path / "new", "--shuffle", "--seed", 1, "--shard-size", "1MB", "--drop-parts", "json"
    )
    assert done.code == 0, done.err
    assert "note: wrote 12 samples in 2 shards, " in done.err
    opened = folder_at(tmp_path / "new")
    assert opened.documents.split is not None
    assert [*opened.documents.split.split_parts] == [*folder_at(folder).documents.split.split_parts]  # type: ignore[union-attr]
    assert opened.index.part_names == ("jpg", "txt")
    again = energon("reshard", folder, tmp_path / "new")
    assert again.code == 1
    assert "seed: 1 then, none now" in again.err


def test_reshard_reports_as_json(energon: RunEnergon, folder: Path, tmp_path: Path) -> None:
    done = energon("reshard", folder, tmp_path / "new", "--samples-per-shard", 5, "--split-ratio", "a=1,b=1", "--json")
    assert done.code == 0, done.err
    assert done.json["samples"] == 12
    assert {name: part["samples"] for name, part in done.json["split"].items()} == {"a": 6, "b": 6}
    assert (done.json["renamed_keys"], done.json["excluded"], done.json["columns"]) == (0, 0, [])


@pytest.mark.parametrize(
    "command", [("reshard",), ("export", "--format", "files"), ("export", "--format", "webdataset")]
)
def test_samples_without_a_chosen_part_are_named(energon: RunEnergon, tmp_path: Path, command: tuple[str, ...]) -> None:
    write_tar(tmp_path / "ds" / "s_0.tar", [("a.txt", b"1"), ("a.json", b"{}"), ("b.txt", b"2")])
    prepare(tmp_path / "ds", split=SplitRequest(ratio={"train": 1.0}))
    verb, *options = command
    strict = energon(verb, tmp_path / "ds", tmp_path / "new", *options, "--parts", "json", "--strict")
    assert strict.code == 1
    assert "1 sample: a sample with none of the chosen parts [L113], first s_0.tar/b" in strict.err
    assert not (tmp_path / "new" / ".nv-meta" / ".info.json").exists()
    done = energon(verb, tmp_path / "ds", tmp_path / "new", *options, "--parts", "json", "--json")
    assert done.code == 0, done.err
    account = done.json["account"]
    assert (account["seen"]["samples"], account["used"]["samples"]) == (2, 1)
    assert "left out: 1 sample" in done.err


def test_parts_of_one_name_are_named(energon: RunEnergon, tmp_path: Path) -> None:
    write_tar(tmp_path / "ds" / "s_0.tar", [("a.txt", b"old"), ("a.txt", b"new"), ("b.txt", b"2")])
    prepare(tmp_path / "ds", split=SplitRequest(ratio={"train": 1.0}))
    for verb in ("reshard", "export"):
        done = energon(verb, tmp_path / "ds", tmp_path / verb)
        assert done.code == 0, done.err
        assert "left out: 1 part" in done.err
        assert "s_0.tar/a.txt [L106]" in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--shuffle", "--seed", "1", "--sort-by", "key"], 2, "--shuffle or --sort-by"),
        (["--shard-size", "big"], 2, "expected a size such as"),
        (["--sort-by", "widht"], 1, "no sample has the value 'json[widht]'"),
        (["--drop-parts", "png"], 1, "no part matches 'png'"),
        (["--where", "bytes < 0"], 1, "no sample is chosen"),
    ],
)
def test_reshard_refuses_wrong_settings(  # noqa: PLR0917 - pytest names them
    energon: RunEnergon, folder: Path, tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    done = energon("reshard", folder, tmp_path / "new", *arguments)
    assert done.code == code
    assert message in done.err
    assert not (tmp_path / "new").exists()


def test_export_takes_the_format_from_the_ending(energon: RunEnergon, folder: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert energon("export", folder, tmp_path / "x.jsonl", "--parts", "txt").code == 0
    lines = (tmp_path / "x.jsonl").read_text().splitlines()
    assert json.loads(lines[3]) == {"__key__": "shard_001.tar/000003", "txt": "picture number 3"}
    assert energon("export", folder, tmp_path / "x.parquet").code == 0
    assert parquet.read_table(tmp_path / "x.parquet").num_rows == 12
    done = energon("export", folder, tmp_path / "files", "--limit", 2, "--json")
    assert done.json["samples"] == 2
    assert (tmp_path / "files/000001.txt").read_text() == "picture number 1"
    assert energon("export", folder, tmp_path / "plain", "--format", "webdataset", "--link").code == 0
    assert (tmp_path / "plain/shard_003.tar").samefile(folder / "shard_003.tar")


@pytest.mark.parametrize("name", ["out.csv", "out.tar", "out.json"])
def test_an_ending_that_no_export_has_is_refused(folder: Path, tmp_path: Path, energon: RunEnergon, name: str) -> None:
    done = energon("export", folder, tmp_path / name)
    assert (done.code, "energon export does not write" in done.err) == (2, True)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("text", ["0.005", "5kB", "5000B"])
def test_extract_takes_sizes_and_megabytes(folder: Path, tmp_path: Path, energon: RunEnergon, text: str) -> None:
    done = energon("extract", folder, "-o", tmp_path / "tars", "--format", "tar", "--shard-size", text)
    assert done.code == 0, done.err
    sizes = [path.stat().st_size for path in (tmp_path / "tars").glob("*.tar")]
    assert len(sizes) > 1
    assert max(sizes) > 5000


@pytest.mark.parametrize("file_format", ["mds", "litdata"])
def test_export_writes_chunks_by_shares_as_one_process_does(
    energon: RunEnergon, folder: Path, tmp_path: Path, file_format: str
) -> None:
    assert energon("export", folder, tmp_path / "one", "--format", file_format).code == 0
    done = energon("export", folder, tmp_path / "two", "--format", file_format, "--num-workers", 2)
    assert done.code == 0, done.err
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_export_names_class_folders_by_a_value(energon: RunEnergon, folder: Path, tmp_path: Path) -> None:
    options = ("--format", "class-folders", "--label", "txt", "--num-workers", 2)
    done = energon("export", folder, tmp_path / "classes", *options)
    assert done.code == 0, done.err
    assert len([*(tmp_path / "classes").rglob("*.jpg")]) == 12
    wrong = energon("export", folder, tmp_path / "files", "--label", "txt")
    assert wrong.code == 2
    assert "--label belongs to --format class-folders, parquet or hf" in wrong.err
