"""The table of part sets: types and field maps come from all shards, and what is rare or missing is named."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from loader.dataset.opening import folder_at
from tests.cli.make_dataset import write_shard
from tests.cli.run_energon import RunEnergon
from tests.cli.terminal import CTRL_C, ENTER, TerminalRun
from tests.cli.test_prepare import files_of
from tests.imports import picture
from tests.tables import write_rows

JPG, WEBP, AVIF = picture(1), picture(2, "WEBP"), picture(3, "AVIF")
CAT = b"a cat on a mat"
SPLIT, TYPE, WRITE = "How should the shards be split?", "What type are the samples?", "yes, write"


def captioned(prefix: str, count: int, **parts: bytes) -> dict[str, dict[str, bytes]]:
    return {f"{prefix}{number:04}": parts for number in range(count)}


def config(folder: Path) -> Any:
    return yaml.safe_load((folder / ".nv-meta/dataset.yaml").read_text())


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Two shards: pictures of another format in the second one, captions missing late, and a rare json."""
    write_shard(tmp_path / "mixed/s_0.tar", captioned("x", 134, jpg=JPG, txt=CAT) | captioned("z", 2, jpg=JPG))
    rare = captioned("r", 1, jpg=JPG, txt=CAT, json=b'{"license": "x"}')
    write_shard(tmp_path / "mixed/s_1.tar", captioned("y", 63, webp=WEBP, txt=CAT) | rare)
    return tmp_path / "mixed"


TABLE = [
    {"parts": ["jpg", "txt"], "samples": 134, "shards": 1, "example": "s_0.tar/x0000"},
    {"parts": ["txt", "webp"], "samples": 63, "shards": 1, "example": "s_1.tar/y0000"},
    {"parts": ["jpg"], "samples": 2, "shards": 1, "example": "s_0.tar/z0000"},
    {"parts": ["jpg", "json", "txt"], "samples": 1, "shards": 1, "example": "s_1.tar/r0000"},
]
MISSING = "field 'caption' (txt) is missing in 2 of 200 samples, first s_0.tar/z0000"


def test_a_field_map_has_the_formats_of_all_shards(mixed: Path, energon: RunEnergon) -> None:
    done = energon("prepare", mixed, "--yes", "--json")
    assert done.code == 0
    assert config(mixed)["field_map"] == {"image": "jpg,webp", "caption": "txt"}
    assert done.json["part_sets"] == TABLE
    assert done.json["warnings"] == [MISSING]


@pytest.mark.parametrize("how", ["flags", "dry run", "lines"])
def test_coverage_is_exact_after_any_choice(mixed: Path, energon: RunEnergon, how: str) -> None:
    typed = ["--sample-type", "Captioning", "--field-map", '{"image": "jpg", "caption": "txt"}']
    arguments, answers = [*typed, "--non-interactive", "--split-ratio", "1"], None
    if how == "dry run":
        arguments = [*typed, "--yes", "--dry-run"]
    elif how == "lines":
        arguments, answers = [], ["1", "Captioning", "yes", "jpg", "txt"]
    done = energon("prepare", mixed, *arguments, answers=answers)
    assert done.code == 0
    assert "warning: field 'image' (jpg) is missing in 63 of 200 samples, first s_1.tar/y0000" in done.err
    assert f"warning: {MISSING}" in done.err
    assert "contents inspected: " in done.out
    assert "jpg json txt        1       1  s_1.tar/r0000" in done.out


def test_other_commands_show_the_same_table(mixed: Path, energon: RunEnergon) -> None:
    assert energon("info", mixed, "--json").json["part_sets"] == TABLE, "not prepared"
    energon("prepare", mixed, "--yes")
    for command in ("info", "stats", "lint"):
        assert energon(command, mixed, "--json").json["part_sets"] == TABLE
        shown = energon(command, mixed).out
        assert "txt webp           63       1  s_1.tar/y0000" in shown, command


def test_an_index_of_an_earlier_version_is_counted(mixed: Path, energon: RunEnergon) -> None:
    energon("prepare", mixed, "--yes")
    [file] = mixed.glob(".nv-meta/index/*/part_sets.json")
    file.unlink()
    assert energon("info", mixed, "--json").json["part_sets"] == TABLE
    file.write_text('{"sets": 3}')
    assert energon("info", mixed, "--json").json["part_sets"] == TABLE


def test_unchanged_shards_are_counted_with_new_ones(mixed: Path, energon: RunEnergon) -> None:
    energon("prepare", mixed, "--yes")
    write_shard(mixed / "s_2.tar", captioned("w", 1, png=picture(4, "PNG"), txt=CAT))
    done = energon("prepare", mixed, "--yes", "--sample-type", "Captioning", "--json")
    assert done.json["reused"] == 2
    assert done.json["part_sets"][:3] == TABLE[:3]
    assert {"parts": ["png", "txt"], "samples": 1, "shards": 1, "example": "s_2.tar/w0000"} in done.json["part_sets"]
    assert config(mixed)["field_map"]["image"] == "jpg,webp,png"


def test_keys_of_json_that_start_late_are_counted_and_a_type_that_most_fit_is_not_enough(
    tmp_path: Path, energon: RunEnergon
) -> None:
    early = {f"a{number}": {"jpg": JPG, "json": json.dumps({"id": number}).encode()} for number in range(40)}
    late = {f"b{number}": {"jpg": JPG, "json": b'{"id": 1, "caption": "a cat on a mat"}'} for number in range(60)}
    write_shard(tmp_path / "s_0.tar", early | late)
    done = energon("prepare", tmp_path, "--yes", "--json")
    assert config(tmp_path)["__class__"] == "CrudeWebdataset"
    missing = "is missing in 40 of 100 json parts inspected, first s_0.tar/a0"
    reason = "CaptioningSample fits 60 of 100 samples inspected; crude samples (dicts of parts) keep all parts"
    assert {reason, f"json[caption] {missing}"} <= set(done.json["notes"])
    done = energon("prepare", tmp_path, "--yes", "--sample-type", "Captioning", "--json")
    assert config(tmp_path)["field_map"] == {"image": "jpg", "caption": "json[caption]"}
    assert done.json["warnings"] == [f"field 'caption' (json[caption]) {missing}"]


def test_avif_next_to_captions_is_never_text_alone(tmp_path: Path, energon: RunEnergon) -> None:
    write_shard(tmp_path / "known/s_0.tar", captioned("a", 9, txt=CAT))
    write_shard(tmp_path / "known/s_1.tar", captioned("b", 9, avif=AVIF, txt=CAT))
    done = energon("prepare", tmp_path / "known", "--yes")
    assert config(tmp_path / "known")["__class__"] == "CrudeWebdataset"
    assert "CaptioningSample fits 9 of 18 samples" in done.err
    write_shard(tmp_path / "unknown/s_0.tar", captioned("a", 9, txt=CAT))
    write_shard(tmp_path / "unknown/s_1.tar", captioned("b", 9, img=AVIF, txt=CAT))
    done = energon("prepare", tmp_path / "unknown", "--yes")
    assert config(tmp_path / "unknown")["__class__"] == "CrudeWebdataset"
    assert "part 'img' is an AVIF picture" in done.err


def test_a_part_that_is_a_picture_in_some_shards_only_is_named(tmp_path: Path, energon: RunEnergon) -> None:
    write_shard(tmp_path / "s_0.tar", captioned("a", 4, img=JPG, txt=CAT))
    write_shard(tmp_path / "s_1.tar", captioned("b", 3, img=b"not found", txt=CAT))
    write_shard(tmp_path / "s_2.tar", captioned("c", 3, jpg=b"<!DOCTYPE html><html>", txt=CAT))
    done = energon("prepare", tmp_path, "--yes", "--dry-run")
    conflict = "is a JPEG picture in 4 (first s_0.tar/a0000), a text in 3 (first s_1.tar/b0000)"
    assert f"note: part 'img', inspected in 7 samples, {conflict}" in done.err
    assert "note: part 'jpg', inspected in 3 samples, is an HTML page" in done.err


def test_every_rare_part_set_is_inspected(tmp_path: Path, energon: RunEnergon) -> None:
    rare = {f"r{number}": {"txt": CAT, name: AVIF} for number, name in enumerate(("one", "two", "three"))}
    write_shard(tmp_path / "s_0.tar", captioned("a", 3000, txt=CAT) | rare | captioned("b", 3000, txt=CAT))
    done = energon("prepare", tmp_path, "--yes", "--json")
    assert config(tmp_path)["__class__"] == "CrudeWebdataset"
    assert [set(each["parts"]) - {"txt"} for each in done.json["part_sets"][1:]] == [{"one"}, {"two"}, {"three"}]
    assert any("part 'one' is an AVIF picture" in note for note in done.json["notes"])


def test_dots_in_base_names_are_a_finding(tmp_path: Path, energon: RunEnergon) -> None:
    write_shard(tmp_path / "s_0.tar", {f"cam{n}": {f"2024-01-{n:02}.jpg": JPG} for n in range(30)})
    done = energon("prepare", tmp_path, "--yes")
    assert (
        done.err.count("warning: 30 part names occur once each, first '2024-01-00.jpg': base names contain dots") == 1
    )
    assert "… and 22 more part sets" in energon("info", tmp_path).out
    found = energon("lint", tmp_path, "--json").json["findings"]
    assert [each["code"] for each in found] == ["W309"]


def test_more_part_sets_than_a_table_lists_keep_coverage_exact(
    tmp_path: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loader.parts.part_sets.MAX_PART_SETS", 5)
    monkeypatch.setattr("loader.parts.part_sets._ROWS_AT_ONCE", 8)
    write_shard(tmp_path / "s_0.tar", {f"a{n:02}": {"jpg": JPG, f"v{n}.bin": b"1"} for n in range(30)})
    write_shard(tmp_path / "s_1.tar", {f"b{n:02}": {"txt": CAT, f"w{n}.bin": b"1"} for n in range(20)})
    done = energon(
        "prepare", tmp_path, "--yes", "--num-workers", 1, "--json", "--sample-type", "Image",
        "--field-map", '{"image": "jpg"}',
    )  # fmt: skip
    assert len(done.json["part_sets"]) == 5
    assert "field 'image' (jpg) is missing in 20 of 50 samples, first s_1.tar/b00" in done.json["warnings"]
    index = folder_at(tmp_path).index
    assert index.missing({"text": ["txt"]})["text"].samples == 30


def test_files_of_rows_have_a_table_too(tmp_path: Path, energon: RunEnergon) -> None:
    write_rows(tmp_path / "rows.parquet", range(9))
    done = energon("prepare", tmp_path, "--yes", "--json")
    [part_set] = done.json["part_sets"]
    assert (part_set["samples"], part_set["example"]) == (9, "rows.parquet/0")
    assert energon("info", tmp_path, "--json").json["part_sets"] == [part_set]


# ------------------------------------------------------------------------------------------------- with keystrokes


def test_the_table_stands_between_the_first_question_and_the_proposal(mixed: Path) -> None:
    with TerminalRun("prepare", mixed, "--num-workers", 1, rows=70) as run:
        run.wait_for(SPLIT)
        assert "part set" not in run.text, "the first question does not wait for the scan"
        run.press(ENTER).wait_for(TYPE)
        assert "txt webp           63       1  s_1.tar/y0000" in run.text
        run.press(ENTER).wait_for("come from?").press(ENTER).wait_for("image (image) from jpg,webp").press(ENTER)
        run.wait_for("caption (text) from txt").press(ENTER).wait_for(WRITE)
        assert MISSING in run.text
        assert run.press(ENTER).finish() == 0
    assert config(mixed)["field_map"]["image"] == "jpg,webp"


def test_ctrl_c_in_a_question_ends_the_scan_and_keeps_what_was_scanned(mixed: Path, energon: RunEnergon) -> None:
    before = files_of(mixed)
    with TerminalRun("prepare", mixed, "--num-workers", 1) as run:
        run.wait_for(SPLIT)
        deadline = time.monotonic() + 60
        while not list(mixed.glob(".nv-meta/.prepare/scans/*")) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert run.press(CTRL_C).finish(timeout_s=30) == 130
        assert "Traceback" not in run.raw
    assert files_of(mixed) == before
    done = energon("prepare", mixed, "--yes", "--json")
    assert done.json["resumed"] == 2
    assert config(mixed)["field_map"]["image"] == "jpg,webp", "samples of shards that were scanned before are inspected"


def test_a_prepare_that_is_killed_in_a_question_leaves_no_process(mixed: Path, energon: RunEnergon) -> None:
    with TerminalRun("prepare", mixed, "--num-workers", 2) as run:
        run.wait_for(SPLIT)
        run.process.kill(signal.SIGKILL)
        run.finish()
    assert energon("prepare", mixed, "--yes").code == 0, "no lock is left"


def test_leaving_removes_the_scans(mixed: Path) -> None:
    with TerminalRun("prepare", mixed, "--num-workers", 1, rows=70) as run:
        run.wait_for(SPLIT).press(ENTER).wait_for(TYPE).press("\x1b[A", ENTER).wait_for(WRITE)
        assert run.press("q").finish() == 1
    assert not (mixed / ".nv-meta/.prepare").exists()
