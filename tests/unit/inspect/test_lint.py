"""Lint of whatever a path names."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader import ConfigError
from loader.format.dataset_ref import DatasetRef
from loader.format.jsonl import prepare_jsonl
from loader.inspect import LintRequest, exclude_broken, run_lint
from loader.storage import open_parent
from tests.unit.inspect.prepared import prepare_captions


def test_a_dataset_is_linted_and_its_broken_samples_are_excluded(tmp_path: Path) -> None:
    path = prepare_captions(tmp_path / "captions", {"image": "jpg", "caption": "txt"})
    report = run_lint(LintRequest(ref=DatasetRef(path)))
    assert (report.findings, report.samples) == ((), 12)
    assert exclude_broken(DatasetRef(path, split_config="split.yaml"), report).samples == 0
    shard = tmp_path / "captions/shard_000.tar"
    shard.write_bytes(shard.read_bytes().replace(b"\xff\xd8\xff", b"\0\0\0", 1))
    report = run_lint(LintRequest(ref=DatasetRef(path)))
    assert {finding.key for finding in report.findings if finding.is_sample} == {"000000"}
    excluded = exclude_broken(DatasetRef(path, split_config="split.yaml"), report)
    assert (excluded.samples, excluded.file) == (1, "split.yaml")
    assert not any(finding.is_sample for finding in run_lint(LintRequest(ref=DatasetRef(path))).findings)


def test_split_parts_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    path = prepare_captions(tmp_path / "captions")
    with pytest.raises(ConfigError):
        run_lint(LintRequest(ref=DatasetRef(path), level="headers", split_parts=("none",)))


def test_a_jsonl_file_and_a_mix_are_linted(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "a"}\n{"text": "b"}\n')
    prepare_jsonl(*open_parent(path))
    assert run_lint(LintRequest(ref=DatasetRef(str(path)))).samples == 2
    prepare_captions(tmp_path / "captions")
    mix = tmp_path / "mix.yaml"
    mix.write_text("__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train: {path: ./captions}\n")
    report = run_lint(LintRequest(ref=DatasetRef(str(mix)), level="headers"))
    assert (report.datasets, report.errors) == (1, 0)
