"""``energon stats``: what is printed, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.make_mix import write_datasets, write_mix
from tests.cli.run_energon import RunEnergon
from tests.cli.terminal import TerminalRun


def test_a_table_of_values_fits_the_terminal(prepared: Path, energon: RunEnergon) -> None:
    done = energon("stats", prepared)
    assert done.code == 0
    assert "12 samples" in done.out
    for name in ("jpg.width", "jpg.mode", "txt.chars", "json[caption].words"):
        assert name in done.out


def test_names_of_values_stay_whole_on_a_narrow_terminal(prepared: Path) -> None:
    with TerminalRun("stats", prepared, columns=60, rows=60) as run:
        assert run.finish() == 0
    assert {"jpg.orientation", "json[caption].words"} <= {*run.text.split()}


def test_columns_are_written_and_used_by_conditions(prepared: Path, tmp_path: Path, energon: RunEnergon) -> None:
    done = energon("stats", prepared, "--write", "width,mode")
    assert done.code == 0
    assert "wrote column width" in done.err
    done = energon("extract", prepared, "-o", tmp_path / "out", "--where", "width > 3 and mode == 'RGB'", "--json")
    assert json.loads(done.out)["samples"] == 12


def test_duplicates_and_broken_parts_are_findings(tmp_path: Path, energon: RunEnergon) -> None:
    datasets = write_datasets(tmp_path)
    assert energon("stats", datasets / "a", "--duplicates").code == 0
    done = energon("stats", datasets / "b", "--json")
    assert done.code == 1
    assert json.loads(done.out)["broken"]["first"][0]["sample"].endswith("000004")
    done = energon("stats", datasets / "a", "--duplicates-of", "json", "--json")
    assert json.loads(done.out)["duplicates"] == []
    mix = write_mix(datasets, train=[{"weight": 1, "path": "a"}, {"weight": 1, "path": "b"}])
    done = energon("stats", mix, "--limit", 3, "--json")
    assert [one["samples"] for one in json.loads(done.out)["datasets"]] == [3, 3]
    assert energon("stats", mix, "--html", tmp_path / "x.html").code == 2


def test_a_page_is_written(prepared: Path, tmp_path: Path, energon: RunEnergon) -> None:
    assert energon("stats", prepared, "--html", tmp_path / "report.html", "--num-workers", 1).code == 0
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert page.count("<img") == 12
