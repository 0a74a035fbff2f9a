"""``get``, ``extract``, ``stats`` and ``exclude`` on metadatasets, files, several paths and shards as they come."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.cli.make_dataset import caption_parts
from tests.cli.make_mix import copy_datasets, write_datasets, write_mix
from tests.cli.run_energon import RunEnergon
from tests.cli.terminal import TerminalRun

ENERGON = [sys.executable, "-m", "energon_cli"]


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_datasets(tmp_path_factory.mktemp("datasets"))


@pytest.fixture
def folder(datasets: Path, tmp_path: Path) -> Path:
    """The datasets a and b, raw shards and lines of text, and a mix of all but the raw shards."""
    folder = copy_datasets(datasets, tmp_path)
    mix = [{"weight": 3, "path": "a"}, {"weight": 1, "path": "b"}, {"weight": 1, "path": "texts.jsonl"}]
    write_mix(folder, train=mix, val={"path": "a"})
    return folder


def piped(*arguments: object) -> bytes:
    return subprocess.run([*ENERGON, *map(str, arguments)], capture_output=True, check=True).stdout


def meta(folder: Path) -> dict[str, bytes]:
    """Return the files about splits, filters and exclusions."""
    endings = (".yaml", ".json", ".idx", ".exclude")
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix in endings]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


# ------------------------------------------------------------------------------------------------------------- get


def test_parts_of_several_samples_follow_one_another(folder: Path, energon: RunEnergon) -> None:
    for part in ("txt", "jpg"):
        expected = b"".join(caption_parts(number)[part] for number in (5, 1, 5))
        assert piped("get", folder / "a", "000005", "shard_000.tar/000001", "000005", part) == expected
    lines = energon("get", folder / "a", "000005", "000001", "--json").out.splitlines()
    assert [json.loads(line)["key"] for line in lines] == ["000005", "000001"]
    shown = energon("get", folder / "a", "000005", "000001").out
    assert shown.index("shard_001.tar/000005\n") < shown.index("shard_000.tar/000001\n")


def test_on_a_terminal_each_text_has_a_line(folder: Path) -> None:
    with TerminalRun("get", str(folder / "a"), "000001", "000002", "txt", columns=100) as run:
        run.wait_for("picture number 1\npicture number 2\n")


def test_parts_of_several_samples_are_written_to_a_folder(folder: Path, energon: RunEnergon) -> None:
    assert energon("get", folder / "a", "000005", "000001", "txt", "-o", folder / "texts").code == 0
    found = {path.name: path.read_bytes() for path in (folder / "texts").iterdir()}
    assert found == {"000005.txt": b"picture number 5", "000001.txt": b"picture number 1"}
    assert energon("get", folder / "a", "000005", "000001", "-o", folder / "all").code == 0
    assert len([*(folder / "all").iterdir()]) == 6


def test_nothing_is_printed_or_written_if_a_key_is_unknown(folder: Path, energon: RunEnergon) -> None:
    done = energon("get", folder / "a", "000005", "999", "txt", "-o", folder / "texts")
    assert (done.code, done.out) == (1, "")
    assert "there is no sample '999'" in done.err
    assert not (folder / "texts").exists()


def test_a_last_word_that_is_neither_part_nor_key_is_named(folder: Path, energon: RunEnergon) -> None:
    done = energon("get", folder / "a", "000005", "000001", "jgp")
    assert "there is no part 'jgp', and no sample of this key; did you mean 'jpg'?" in done.err
    assert done.code == 1


def test_all_datasets_of_a_mix_are_searched(folder: Path, energon: RunEnergon) -> None:
    mix = folder / "mix.yaml"
    assert piped("get", mix, "texts.jsonl/1", "json") == b'{"text": "two"}'
    assert energon("get", mix, "1", "--json").json["dataset"] == str(folder / "texts.jsonl")
    done = energon("get", mix, "000001", "txt")
    assert done.code == 1
    assert f"2 datasets have a sample '000001': {folder / 'a'}, {folder / 'b'}" in done.err
    assert "name one of these datasets instead" in done.err
    assert "there is no sample 'x'" in energon("get", mix, "x").err


@pytest.mark.parametrize("path", ["raw", "raw/shard_000.tar"])
def test_shards_that_are_not_prepared_are_read_and_nothing_stays(
    folder: Path, path: str, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = {*folder.rglob("*")}, {*tmp_path.iterdir()}
    assert energon("get", folder / path, "000002", "txt").out == "picture number 2"
    assert energon("get", folder / path, "shard_000.tar/000001", "txt").out == "picture number 1"
    assert energon("stats", folder / path, "--json").json["population"] == 3
    assert ({*folder.rglob("*")}, {*tmp_path.iterdir()}) == before
    assert energon("extract", folder / path, "-o", folder / "out", "--where", 'size("jpg") > 0').code == 0
    assert len([*(folder / "out").iterdir()]) == 9


def test_only_the_shards_that_keys_name_are_scanned(folder: Path, energon: RunEnergon) -> None:
    (folder / "raw/shard_001.tar").write_bytes(b"damaged" * 1000)
    assert energon("get", folder / "raw", "shard_000.tar/000001", "txt").out == "picture number 1"
    done = energon("get", folder / "raw", "000001", "txt")
    assert done.code == 1
    assert "shard_001.tar" in done.err


def test_columns_are_not_written_without_a_prepare(folder: Path, energon: RunEnergon) -> None:
    done = energon("stats", folder / "raw", "--write", "width")
    assert done.code == 1
    assert "run: energon prepare" in done.err


# --------------------------------------------------------------------------------------------------------- extract


def keys_of(path: Path) -> list[str]:
    return [json.loads(line)["__key__"] for line in path.read_text().splitlines()]


def test_a_mix_is_extracted_dataset_by_dataset(folder: Path, energon: RunEnergon) -> None:
    captions = [f"shard_{number // 3:03}.tar/{number:06}" for number in range(12)]
    expected = [f"{name}/{key}" for name in "ab" for key in captions] + ["texts.jsonl/0", "texts.jsonl/1"]
    assert energon("extract", folder / "mix.yaml", "-o", folder / "all.jsonl").code == 0
    assert keys_of(folder / "all.jsonl") == expected
    paths = [folder / name for name in ("a", "b", "texts.jsonl")]
    assert energon("extract", *paths, "-o", folder / "same.jsonl").code == 0
    assert (folder / "same.jsonl").read_bytes() == (folder / "all.jsonl").read_bytes()
    assert energon("extract", folder / "mix.yaml", "-o", folder / "x.jsonl", "--limit", 13).code == 0
    assert keys_of(folder / "x.jsonl") == expected[:13]


def test_a_split_of_a_mix_has_the_parts_that_it_reads(folder: Path, energon: RunEnergon) -> None:
    write_mix(folder, "parts.yaml", train=[{"path": "a", "split_part": "val"}, {"path": "b"}], val={"path": "b"})
    assert energon("extract", folder / "parts.yaml", "-o", folder / "x.jsonl", "--split-parts", "train").code == 0
    numbers = [*range(6, 9), *range(6)]  # of a, its part val; of b, its part train
    assert [int(key[-6:]) for key in keys_of(folder / "x.jsonl")] == numbers
    found = energon("stats", folder / "parts.yaml", "--split-parts", "train", "--json").json["datasets"]
    assert [one["population"] for one in found] == [3, 6]
    assert "there is no split" in energon("stats", folder / "parts.yaml", "--split-parts", "test").err


def test_samples_of_two_datasets_with_one_key_are_kept_apart(folder: Path, energon: RunEnergon) -> None:
    done = energon("extract", folder / "mix.yaml", "-o", folder / "out")
    assert done.code == 1
    assert "two samples have the key '000000'" in done.err
    assert not (folder / "out").exists()
    assert energon("extract", folder / "mix.yaml", "-o", folder / "out", "--by-shard").code == 0
    assert (folder / "out/b%2Fshard_000.tar/000001.txt").read_bytes() == b"picture number 1"
    assert (folder / "out/texts.jsonl/1.json").read_bytes() == b'{"text": "two"}'
    assert energon("extract", folder / "mix.yaml", "-o", folder / "tars", "--format", "tar").code == 0
    assert energon("prepare", folder / "tars", "--yes").code == 0
    assert energon("info", folder / "tars", "--json").json["samples"] == 26


def test_a_value_is_taken_from_the_column_or_read_where_there_is_none(folder: Path, energon: RunEnergon) -> None:
    assert energon("stats", folder / "a", "--write", "width").code == 0
    done = energon("extract", folder / "mix.yaml", "-o", folder / "x.jsonl", "--where", "width > 0")
    assert done.code == 0
    assert "computed jpg.width of 12 samples" in done.err
    assert f"no sample of {folder / 'texts.jsonl'}: it has no value 'json[width]'" in done.err
    assert len(keys_of(folder / "x.jsonl")) == 23
    done = energon("extract", folder / "mix.yaml", "-o", folder / "y.jsonl", "--where", "widht > 0")
    assert done.code == 1
    assert "no sample has the value 'json[widht]'" in done.err


def test_a_key_has_to_be_in_one_of_the_datasets(folder: Path, energon: RunEnergon) -> None:
    keys = folder / "keys.txt"
    keys.write_text("texts.jsonl/1\n000003\n")
    assert energon("extract", folder / "mix.yaml", "-o", folder / "x.jsonl", "--keys-from", keys).code == 0
    assert keys_of(folder / "x.jsonl") == [
        "a/shard_001.tar/000003",
        "b/shard_001.tar/000003",
        "texts.jsonl/1",
    ]
    keys.write_text("texts.jsonl/1\n999\n")
    done = energon("extract", folder / "mix.yaml", "-o", folder / "y.jsonl", "--keys-from", keys)
    assert done.code == 1
    assert "there is no sample '999'" in done.err


# --------------------------------------------------------------------------------------------------------- exclude


def test_each_dataset_that_has_the_keys_is_changed_and_brought_back(folder: Path, energon: RunEnergon) -> None:
    mix, before = folder / "mix.yaml", meta(folder)
    shown = energon("exclude", mix, "000001", "shard_001.tar", "--dry-run")
    assert f"shard_000.tar/000001  {folder / 'a'}" in shown.out
    assert f"would exclude 4 samples of 12 of {folder / 'b'}" in shown.err
    assert meta(folder) == before
    done = energon("exclude", mix, "000001", "shard_001.tar", "--reason", "why")
    assert f"excluded 4 samples in split.yaml of {folder / 'a'}; 8 remain" in done.err
    assert f"undo it: energon exclude {mix} --undo" in done.err
    listed = energon("exclude", mix, "--list", "--json").json["datasets"]
    assert [(Path(one["path"]).name, one["samples"]) for one in listed] == [("a", 4), ("b", 4), ("texts.jsonl", 0)]
    assert listed[0]["shards"] == ["shard_001.tar"]
    text = energon("exclude", mix, "--list").out
    assert text.index(str(folder / "a")) < text.index("why") < text.index(str(folder / "b"))
    assert energon("exclude", mix, "--undo", "--json").json == {"undone": 8}
    assert meta(folder) == before
    assert "nothing to undo" in energon("exclude", mix, "--undo").err


def test_an_undo_takes_back_the_latest_command_only(folder: Path, energon: RunEnergon) -> None:
    mix = folder / "mix.yaml"
    energon("exclude", mix, "000001")
    energon("exclude", folder / "b", "000002")
    journal = folder / "b/.nv-meta/exclude.json"  # the second command came later, also for clocks of seconds
    entries = json.loads(journal.read_text())
    entries["exclusions"][-1]["at"] = "2099-01-01T00:00:00Z"
    journal.write_text(json.dumps(entries))

    def excluded() -> list[int]:
        return [one["samples"] for one in energon("exclude", mix, "--list", "--json").json["datasets"][:2]]

    assert excluded() == [1, 2]
    assert f"of {folder / 'b'}" in energon("exclude", mix, "--undo").err
    assert excluded() == [1, 1]
    assert energon("exclude", mix, "--undo", "--json").json == {"undone": 2}
    assert excluded() == [0, 0]


def test_filters_are_built_in_each_dataset_and_files_too(folder: Path, energon: RunEnergon) -> None:
    mix, before = folder / "mix.yaml", meta(folder)
    report = energon("exclude", mix, "000001", "1", "--to-filter", "good", "--json").json["datasets"]
    assert [(one["samples"], one["remaining"]) for one in report] == [(1, 11), (1, 11), (1, 1)]
    listed = energon("exclude", mix, "--list", "--json").json["datasets"]
    assert [one["filters"] for one in listed] == [{"good": 11}, {"good": 11}, {"good": 1}]
    leaves = [{"path": name, "filter": "good"} for name in ("a", "texts.jsonl")]
    write_mix(folder, "filtered.yaml", train={"blend_epochized": leaves})
    facts = energon("info", folder / "filtered.yaml", "--json").json["splits"][0]
    assert facts["samples"] == 5 + 1  # of the part train of a, and of the lines
    (folder / "filtered.yaml").unlink()
    assert energon("exclude", mix, "--undo").code == 0
    assert meta(folder) == before


def test_what_lint_and_stats_find_is_excluded_where_it_is(folder: Path, energon: RunEnergon) -> None:
    mix = folder / "mix.yaml"
    done = energon("exclude", mix, "--lint", "--json").json["datasets"]
    assert [(one["samples"], one["examples"]) for one in done] == [(0, []), (1, ["shard_001.tar/000004"]), (0, [])]
    done = energon("exclude", mix, "--duplicates-of", "txt", "--json").json["datasets"]
    assert [one["lacks"] for one in done] == [None, None, "no part 'txt'"]
    assert "are excluded already" in energon("exclude", mix, "--duplicates-of", "txt").err


def test_nothing_is_changed_if_one_dataset_cannot_be(folder: Path, energon: RunEnergon) -> None:
    mix, before = folder / "mix.yaml", meta(folder)
    for options, reason in (
        (["000001", "1"], "a single file has no split file to exclude samples in"),
        (["000001", "0", "1", "--to-filter", "f"], "no sample of the dataset would remain"),
        (["000001", "nothing"], "there is no sample 'nothing'"),
        (["--where", "bytes < 0"], "no sample is chosen"),
    ):
        done = energon("exclude", mix, *options)
        assert done.code == 1
        assert reason in done.err
    assert meta(folder) == before


def test_a_failure_half_way_names_the_datasets_that_are_changed(folder: Path, energon: RunEnergon) -> None:
    mix = folder / "mix.yaml"
    (folder / "b/.nv-meta/split.yaml.bak").mkdir()
    done = energon("exclude", mix, "000001")
    assert done.code == 1
    assert f"samples of these datasets are excluded already: {folder / 'a'}" in done.err
    listed = energon("exclude", mix, "--list", "--json").json["datasets"]
    assert [one["samples"] for one in listed] == [1, 0, 0]
    (folder / "b/.nv-meta/split.yaml.bak").rmdir()
    assert energon("exclude", mix, "000001").code == 0  # again, after the repair
    assert [one["samples"] for one in energon("exclude", mix, "--list", "--json").json["datasets"]] == [1, 1, 0]


def test_a_file_of_samples_takes_filters_with_a_journal(folder: Path, energon: RunEnergon) -> None:
    file, before = folder / "texts.jsonl", meta(folder)
    assert "--to-filter NAME" in energon("exclude", file, "1").err
    assert energon("exclude", file, "1", "--to-filter", "exclude", "--reason", "why").code == 0
    listed = energon("exclude", file, "--list", "--json").json
    assert (listed["filters"], listed["exclusions"][0]["reason"]) == ({"exclude": 1}, "why")
    assert energon("extract", file, "-o", folder / "x.jsonl", "--filter", "exclude").code == 0
    assert keys_of(folder / "x.jsonl") == ["texts.jsonl/0"]
    (folder / "x.jsonl").unlink()
    assert energon("exclude", file, "--undo", "--json").json == {"undone": 1}
    assert meta(folder) == before
