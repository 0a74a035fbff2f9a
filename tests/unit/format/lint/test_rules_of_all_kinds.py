"""A rule that holds for all kinds of datasets: it is written once, and every lint of them finds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from loader.dataset.dataset import Dataset
from loader.format.dataset_ref import DatasetRef
from loader.format.jsonl import prepare_jsonl
from loader.inspect import LintRequest, run_lint
from loader.inspect.browse.dataset import BrowsedDataset
from loader.inspect.browse.search import lint_samples
from loader.lint.rule import RECORD_FILES, SHARDS, Finding, LintRule, LintRules, ReadSample
from loader.lint.samples import SampleFaults
from loader.storage import open_parent
from tests.e2e.dataset_tree import prepare, write_shards
from tests.tables import prepare_parts, write_lines, write_rows
from tests.token_files import numbered, write_tokens

SAMPLES = 4


def check_number(dataset: Dataset) -> Iterator[Finding]:
    yield Finding(Added.W901, f"{len(dataset)} samples")


def check_parts(sample: ReadSample) -> Iterator[Finding]:
    yield Finding(Added.W902, "read", shard=sample.shard, key=sample.key)


class Added(LintRules):
    """Rules that a contributor adds."""

    title = "Added rules"
    kinds = (*SHARDS, *RECORD_FILES)
    W901 = LintRule("a", why="b.", action="c", example="d.", of_dataset=check_number)
    W902 = LintRule("a", why="b.", action="c", example="d.", of_sample=check_parts)


def tars(folder: Path) -> Path:
    return write_shards(folder, 2, samples=SAMPLES // 2)


def prepared_tars(folder: Path) -> Path:
    prepare(tars(folder))
    return folder


def lines(folder: Path) -> Path:
    write_lines(folder / "x.jsonl", range(SAMPLES))
    return prepare_parts(folder, {"train": 1})


def json_lines(folder: Path) -> Path:
    path = write_lines(folder / "x.jsonl", range(SAMPLES))
    prepare_jsonl(*open_parent(str(path)))
    return path


KINDS: dict[str, Callable[[Path], Path]] = {
    "tar shards": prepared_tars,
    "unprepared tar files": tars,
    "folders of JSONL or Parquet files": lines,
    "JSONL files": json_lines,
    "token files": lambda folder: write_tokens(folder / "x", numbered(SAMPLES)),
    "Parquet files": lambda folder: write_rows(folder / "x.parquet", range(SAMPLES)),
}


def test_every_kind_of_dataset_is_tried() -> None:
    assert KINDS.keys() == set(Added.kinds)


@pytest.mark.parametrize("kind", KINDS)
def test_a_rule_of_all_kinds_is_found_in_the_dataset_and_in_each_sample(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SampleFaults, "rules", (*SampleFaults.rules, *Added.rules))
    path = KINDS[kind](tmp_path)
    report = run_lint(LintRequest(ref=DatasetRef(str(path))))
    assert [finding.message for finding in report.findings if finding.code == "W901"] == [f"{SAMPLES} samples"]
    assert len({(each.shard, each.key) for each in report.findings if each.code == "W902"}) == SAMPLES
    if kind != "unprepared tar files":  # browse opens what is prepared
        browsed = lint_samples(BrowsedDataset("d", DatasetRef(str(path))).address, range(SAMPLES))
        assert [each.number for each in browsed if each.code == "W902"] == list(range(SAMPLES))
    headers = run_lint(LintRequest(ref=DatasetRef(str(path)), level="headers"))
    assert [finding.code for finding in headers.findings if finding.rule in Added.rules] == ["W901"]
