"""``energon index``: the index of a dataset as one file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.run_energon import RunEnergon


@pytest.fixture
def pushed(captions: Path, tmp_path: Path, energon: RunEnergon) -> Path:
    """An index file, whose data have no metadata any more."""
    assert energon("prepare", captions, "--yes").code == 0
    path = tmp_path / "coco.energon-index"
    done = energon("index", "push", captions, path)
    assert (done.code, f"wrote {path}: 12 samples in 4 shards" in done.out) == (0, True), done
    assert "with split.yaml, dataset.yaml" in done.err
    shutil.rmtree(captions / ".nv-meta")
    return path


def test_an_index_is_pulled_and_used(
    captions: Path, pushed: Path, tmp_path: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENERGON_INDEX", str(tmp_path / "mine"))
    done = energon("index", "pull", pushed, "--data", captions)
    assert done.code == 0, done
    assert "__class__: CaptioningSample" in done.out
    assert "pass --with-split for the split and sample type of others" in done.err
    assert energon("lint", captions).code == 1  # it has no split
    done = energon("index", "pull", pushed, "--data", captions, "--with-split")
    assert (done.code, "with split.yaml, dataset.yaml" in done.err) == (0, True)
    assert energon("lint", captions).code == 0
    assert energon("preview", captions).code == 0


def test_the_results_as_json(pushed: Path, tmp_path: Path, energon: RunEnergon) -> None:
    pulled = energon("index", "pull", pushed, tmp_path / "meta", "--json").json
    assert (pulled["samples"], pulled["left"]) == (12, ["split.yaml", "dataset.yaml"])
    captions = tmp_path / "captions"
    again = energon("index", "push", captions, tmp_path / "again", "--meta-folder", tmp_path / "meta", "--json").json
    names = ["path", "data", "samples", "shards", "size_bytes", "files", "left", "documents"]
    assert [*again] == [*pulled] == names


def test_what_is_no_dataset_has_no_index(tmp_path: Path, energon: RunEnergon) -> None:
    (tmp_path / "a.jsonl").write_text("{}\n")
    done = energon("index", "push", tmp_path / "a.jsonl", tmp_path)
    assert (done.code, "expected a prepared folder, found a JSONL file" in done.err) == (1, True)
    done = energon("index", "push", tmp_path / "gone", tmp_path)
    assert (done.code, "does not exist" in done.err) == (1, True)
    (tmp_path / "x").write_bytes(b"no index")
    done = energon("index", "pull", tmp_path / "x")
    assert (done.code, "not an index file, or a damaged one" in done.err) == (1, True)
