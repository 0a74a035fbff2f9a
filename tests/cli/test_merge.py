"""``energon merge``, ``split`` and ``add-parts``: what they print, and their exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.run_energon import RunEnergon


@pytest.fixture
def another(prepared: Path) -> Path:
    """A copy of the prepared dataset, with the same keys."""
    return Path(shutil.copytree(prepared, prepared.parent / "another"))


def test_a_merge_prints_its_split_and_what_repeats(prepared: Path, another: Path, energon: RunEnergon) -> None:
    done = energon("merge", prepared, another, prepared.parent / "both")
    assert done.code == 0
    assert "merged 24 samples in 8 shards" in done.out
    assert "split: train 12, val 6, test 6 samples" in done.out
    assert "12 samples have the bare key of another one" in done.err
    assert energon("lint", prepared.parent / "both", "--level", "bytes").code == 0
    done = energon("merge", prepared, another, prepared.parent / "both")
    assert done.code == 1
    assert "expected a new or empty folder" in done.err


def test_a_merge_reports_as_json(prepared: Path, another: Path, energon: RunEnergon) -> None:
    done = energon("merge", prepared, another, prepared.parent / "both", "--copy", "--rename-keys", "--json")
    facts = json.loads(done.out)
    assert (facts["samples"], facts["duplicate_keys"], facts["renamed_shards"]) == (24, 0, 4)
    assert facts["split"]["train"] == {"shards": 4, "samples": 12}


def test_one_dataset_is_no_merge(prepared: Path, energon: RunEnergon) -> None:
    assert energon("merge", prepared, prepared.parent / "both").code == 2


def test_a_check_exits_with_1_and_a_split_by_groups_mends_it(prepared: Path, energon: RunEnergon) -> None:
    group_by = ("--group-by", "key:.$")
    done = energon("split", prepared, "--check", *group_by)
    assert done.code == 1
    assert "0: train 1, test 1" in done.out
    assert "2 of 10 groups are in several parts, with 4 samples" in done.out
    done = energon("split", prepared, "--split-ratio", "1,1", *group_by)
    assert done.code == 0
    assert "split by samples" in done.err
    assert json.loads(energon("split", prepared, "--check", *group_by, "--json").out)["leaking_groups"] == 0
    facts = json.loads(energon("info", prepared, "--json").out)
    assert sum(part["samples"] for part in facts["splits"]) == 12
    assert "brought back the split before" in energon("split", prepared, "--undo").err
    assert energon("split", prepared, "--check", *group_by).code == 1


def test_usage_of_a_split_that_is_ambiguous_is_refused(prepared: Path, energon: RunEnergon) -> None:
    assert energon("split", prepared).code == 2
    assert energon("split", prepared, "--check", "--undo").code == 2
    assert energon("split", prepared, "--split-ratio", "1,1", "--duplicates-of", "jpg").code == 2


def test_parts_are_added_and_the_joined_samples_shown(prepared: Path, energon: RunEnergon) -> None:
    table = prepared.parent / "new.jsonl"
    table.write_text("".join(json.dumps({"id": f"{n:06}", "caption": f"better {n}"}) + "\n" for n in range(10)))
    done = energon("add-parts", prepared, prepared.parent / "new", "--from", table)
    assert done.code == 1
    assert "2 samples of the dataset have no parts" in done.err
    done = energon("add-parts", prepared, prepared.parent / "new", "--from", table, "--nonmatch", "skip")
    assert done.code == 0
    assert "wrote 10 samples" in done.out
    assert "2 samples of the dataset have no new parts: shard_003.tar/000010, shard_003.tar/000011" in done.err
    assert "better 0" in energon("preview", prepared.parent / "new.yaml", "--split-parts", "train", "--no-images").out
    assert energon("add-parts", prepared, "x", "--from", table, "--rename", "a").code == 2
