"""Parts that are larger than ``--max-json-bytes`` are named, and neither read whole nor parsed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from loader.format.dataset_ref import DatasetRef
from loader.format.jsonl.lines import LineBlock
from loader.inspect.browse.dataset import BrowsedDataset
from loader.inspect.browse.search import lint_samples

from .make_dataset import write_shard
from .run_energon import RunEnergon

LARGE = json.dumps({"caption": "x" * 3000}).encode()
LIMIT = ("--max-json-bytes", "2kB")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    parts = {"txt": b"a", "json": b'{"caption": "c"}'}
    write_shard(tmp_path / "s_0.tar", {"0": parts, "1": {**parts, "json": LARGE}, "2": parts})
    return tmp_path


def test_prepare_counts_parts_that_it_does_not_parse(folder: Path, energon: RunEnergon) -> None:
    done = energon("prepare", folder, "--yes", *LIMIT)
    assert done.code == 0
    assert "1 JSON part is larger than --max-json-bytes, so not parsed, first s_0.tar/1 (W310)" in done.err


@pytest.mark.parametrize("prepared", [True, False])
def test_lint_names_parts_that_it_does_not_parse_and_checks_the_others(
    folder: Path, energon: RunEnergon, prepared: bool
) -> None:
    if prepared:
        energon("prepare", folder, "--yes", "--skip-dataset-yaml")
    path = folder if prepared else folder / "s_0.tar"
    found = energon("lint", path, "--json", *LIMIT).json["findings"]
    found = [each for each in found if each["code"] != "W004"]
    assert [(each["code"], each["key"], each["part"]) for each in found] == [("W310", "1", "json")]
    assert "3,015 bytes" in found[0]["message"]
    assert not [each for each in energon("lint", path, "--json").json["findings"] if each["code"] == "W310"]


def test_stats_names_parts_that_it_does_not_parse_and_counts_the_others(folder: Path, energon: RunEnergon) -> None:
    energon("prepare", folder, "--yes")
    done = energon("stats", folder, "--json", *LIMIT)
    assert done.code == 0
    assert done.json["large"]["count"] == 1
    assert done.json["large"]["first"][0]["sample"] == "s_0.tar/1"
    assert done.json["texts"]["json.caption"]["count"] == 2
    assert "1 part not parsed" in energon("stats", folder, *LIMIT).out


def test_preview_shows_the_first_bytes_of_a_part_that_it_does_not_parse(folder: Path, energon: RunEnergon) -> None:
    energon("prepare", folder, "--yes")
    done = energon("preview", folder, "s_0.tar/1", "--crude", *LIMIT)
    assert "more than --max-json-bytes 2,000, so it is not parsed" in done.out
    assert '{"caption":' in done.out


def test_a_sample_that_needs_a_part_that_is_not_parsed_says_so(folder: Path, energon: RunEnergon) -> None:
    fields = ("--sample-type", "TextSample", "--field-map", '{"text": "json[caption]"}')
    energon("prepare", folder, "--non-interactive", "--split-ratio", "1", *fields)
    done = energon("preview", folder, "s_0.tar/1", *LIMIT)
    assert done.code == 1
    assert "part 'json' has 3,015 bytes, more than --max-json-bytes 2,000" in done.out
    assert energon("preview", folder, "s_0.tar/0", *LIMIT).code == 0


@pytest.mark.parametrize(("name", "data"), [("json.gz", LARGE), ("mp", b"\xc4\xff" + bytes(3000)), ("txt.gz", LARGE)])
def test_what_a_part_decompresses_to_counts_and_so_do_the_binary_forms_of_json(
    tmp_path: Path, energon: RunEnergon, name: str, data: bytes
) -> None:
    packed = gzip.compress(data) if name.endswith(".gz") else data
    write_shard(tmp_path / "s_0.tar", {"0": {name: packed}})
    found = energon("lint", tmp_path / "s_0.tar", "--json", *LIMIT).json["findings"]
    assert [each["code"] for each in found] == ["W310"]


def test_lines_of_jsonl_files_have_the_limit_of_json_parts(tmp_path: Path, energon: RunEnergon) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"caption": "c"}\n' + LARGE + b"\n")
    energon("prepare", tmp_path, "--yes")
    found = energon("lint", tmp_path, "--json", *LIMIT).json["findings"]
    assert [each["key"] for each in found if each["code"] == "W310"] == ["1"]
    assert energon("stats", tmp_path, "--json", *LIMIT).json["large"]["count"] == 1


@pytest.mark.parametrize(
    "number",
    ["1e999", "-1e999", "NaN", "-0", "1" + "0" * 400, "1e308", "9" * 20, "-1.5e-320"],
    ids=lambda text: text[:8],
)
def test_no_number_of_json_ends_stats(tmp_path: Path, energon: RunEnergon, number: str) -> None:
    samples = {str(n): {"json": f'{{"a": {value}}}'.encode()} for n, value in enumerate((number, number, "1"))}
    write_shard(tmp_path / "s_0.tar", samples)
    energon("prepare", tmp_path, "--yes")
    for arguments in (("stats", tmp_path), ("stats", tmp_path, "--json"), ("stats", tmp_path, "--limit", 2)):
        done = energon(*arguments)
        assert done.code == 0, done.err
    found = energon("stats", tmp_path, "--json").json
    counted = found["numbers"]["json.a"]["count"] + found["texts"].get("json.a", {"count": 0})["count"]
    assert counted == 3


def test_json_that_is_nested_too_deeply_is_a_broken_part_of_stats(tmp_path: Path, energon: RunEnergon) -> None:
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    write_shard(tmp_path / "s_0.tar", {"0": {"json": deep}, "1": {"json": b'{"b": 1}'}})
    energon("prepare", tmp_path, "--yes")
    done = energon("stats", tmp_path, "--json")
    assert done.json["broken"]["count"] == 1
    assert done.json["numbers"]["json.b"]["count"] == 1


def test_commands_that_need_the_values_of_a_large_part_name_it(
    folder: Path, tmp_path: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert energon("prepare", folder, "--yes").code == 0
    monkeypatch.setattr("loader.convert.writing.sample_writers.CHECKED_JSON_BYTES", 1000)
    monkeypatch.setattr("loader.convert.split_groups.CHECKED_JSON_BYTES", 1000)
    export = ("export", folder, tmp_path / "out.jsonl", "--format", "jsonl")
    split = ("split", folder, "--group-by", "json[label]", "--split-ratio", "1,1")
    for command in (export, split):
        done = energon(*command)
        assert (done.code, "is not parsed; expected at most 1,000" in done.err) == (1, True)


def test_conditions_on_values_of_parts_that_are_not_parsed_say_so(
    folder: Path, tmp_path: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert energon("prepare", folder, "--yes").code == 0
    monkeypatch.setattr("loader.inspect.stats.scan.CHECKED_JSON_BYTES", 1000)
    done = energon("extract", folder, "--where", "json.caption != ''", "-o", tmp_path / "out")
    assert (done.code, "1 JSON parts of more than 1000 bytes are not parsed" in done.err) == (0, True)


def test_findings_of_browse_name_parts_that_are_not_parsed(
    folder: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert energon("prepare", folder, "--yes").code == 0
    monkeypatch.setattr("loader.inspect.browse.search.CHECKED_JSON_BYTES", 1000)
    browsed = BrowsedDataset("d", DatasetRef(str(folder)))
    found = lint_samples(browsed.address, [0, 1])
    assert [(one.number, one.code) for one in found if one.code == "W310"] == [(1, "W310")]


def test_lines_above_the_limit_are_never_held_and_are_named(
    tmp_path: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("format.jsonl.lines", "lint.record_file"):
        monkeypatch.setattr(f"loader.{module}.CHECKED_JSON_BYTES", 1000)
    monkeypatch.setattr("loader.format.jsonl.lines._CHUNK_BYTES", 100)
    held: list[int] = []
    starts = LineBlock.starts

    def noted(block: LineBlock) -> Any:
        held.append(len(block._data))
        return starts(block)

    monkeypatch.setattr(LineBlock, "starts", noted)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"caption": "c"}\n' + LARGE + b"\n" + LARGE + b'\n{"caption": "d"}')
    found = energon("lint", path, "--json").json["findings"]
    assert [(each["code"], each["offset"]) for each in found] == [("W310", 17), ("W310", 3033)]
    done = energon("prepare", tmp_path, "--yes", *LIMIT)
    assert (done.code, max(held)) == (0, 17)
    assert "2 JSON parts are larger than --max-json-bytes, so not parsed, first a.jsonl/1 (W310)" in done.err
    assert "16 B" in energon("get", tmp_path, "3").out
    for damage in (LARGE[:-1], b"[" + LARGE + b"]", b"{}" + b" " * 2000 + b"x"):
        path.write_bytes(b"{}\n" + damage + b"\n{}")
        done = energon("prepare", tmp_path, "--yes")
        assert (done.code, "line 2 is not one JSON object" in done.err) == (1, True)
