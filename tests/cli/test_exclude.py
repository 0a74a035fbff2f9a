"""``energon exclude``: what it prints, and the ways to name samples."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.make_dataset import write_shard
from tests.cli.run_energon import RunEnergon


def test_samples_are_excluded_listed_and_brought_back(prepared: Path, energon: RunEnergon) -> None:
    done = energon("exclude", prepared, "000001", "000004", "--reason", "wrong language")
    assert done.code == 0
    assert "excluded 2 samples in split.yaml; 10 remain" in done.err
    listed = energon("exclude", prepared, "--list")
    assert "wrong language" in listed.out
    assert "the split excludes 2 samples" in listed.out
    facts = json.loads(energon("exclude", prepared, "--list", "--json").out)
    assert facts["samples"] == 2
    assert facts["exclusions"][0]["reason"] == "wrong language"
    assert "undid the exclusion of 2 samples" in energon("exclude", prepared, "--undo").err
    assert "there is nothing to undo" in energon("exclude", prepared, "--undo").err


def test_a_dry_run_prints_the_samples(prepared: Path, energon: RunEnergon) -> None:
    done = energon("exclude", prepared, "--where", "shard == 'shard_000.tar'", "--dry-run")
    assert done.out.splitlines() == [f"shard_000.tar/{number:06}" for number in range(3)]
    assert "would exclude 3 samples of 12" in done.err


def test_a_filter_is_built_and_its_use_named(prepared: Path, energon: RunEnergon) -> None:
    done = energon("exclude", prepared, "000001", "--to-filter", "good", "--json")
    assert json.loads(done.out)["remaining"] == 11
    done = energon("extract", prepared, "-o", prepared.parent / "out", "--filter", "good", "--json")
    assert json.loads(done.out)["samples"] == 11
    assert "filter good keeps 11 samples" in energon("exclude", prepared, "--list").out


def test_the_report_of_a_lint_names_samples(prepared: Path, tmp_path: Path, energon: RunEnergon) -> None:
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"findings": [{"shard": "shard_000.tar", "key": "000001"}]}))
    assert json.loads(energon("exclude", prepared, "--keys-from", report, "--json").out)["samples"] == 1


def test_usage_that_is_ambiguous_is_refused(prepared: Path, energon: RunEnergon) -> None:
    assert energon("exclude", prepared).code == 2
    assert energon("exclude", prepared, "--undo", "--list").code == 2
    done = energon("exclude", prepared, "000001", "--undo")
    assert done.code == 2
    assert "Expected one of these: samples to exclude, --list, or --undo" in done.err
    done = energon("exclude", prepared, "nothing")
    assert done.code == 1
    assert "there is no sample 'nothing'" in done.err


def write_copies(folder: Path, energon: RunEnergon) -> Path:
    """Write samples 0 to 5 with pictures A, B, A, A, B, C and texts of their own, and prepare them."""
    samples = {f"{number}": {"png": b"%c" % letter, "txt": b"%d" % number} for number, letter in enumerate(b"ABAABC")}
    folder.mkdir()
    write_shard(folder / "s.tar", samples)
    assert energon("prepare", folder, "--non-interactive", "--split-parts", "train:.*").code == 0
    return folder


def test_the_first_of_each_group_of_copies_stays(tmp_path: Path, energon: RunEnergon) -> None:
    folder = write_copies(tmp_path / "copies", energon)
    groups = energon("stats", folder, "--duplicates", "--json").json["duplicates"]
    assert groups == [["s.tar/0", "s.tar/2", "s.tar/3"], ["s.tar/1", "s.tar/4"]]
    shown = energon("exclude", folder, "--duplicates", "--dry-run")
    assert shown.out.split() == ["s.tar/2", "s.tar/3", "s.tar/4"]
    assert energon("exclude", folder, "--duplicates", "--json").json["samples"] == 3
    assert energon("exclude", folder, "--duplicates", "--json").json["samples"] == 0
    assert energon("exclude", folder, "--list", "--json").json["exclusions"][0]["reason"] == "copies"
    energon("exclude", folder, "--undo")
    assert energon("exclude", folder, "--duplicates-of", "txt", "--json").json["samples"] == 0


def test_a_copy_stays_if_the_first_one_is_excluded(tmp_path: Path, energon: RunEnergon) -> None:
    folder = write_copies(tmp_path / "copies", energon)
    energon("exclude", folder, "0", "1")
    report = energon("exclude", folder, "--duplicates", "--json").json
    assert (report["samples"], report["examples"]) == (1, ["s.tar/3"])
    assert energon("exclude", folder, "4", "--to-filter", "f").code == 0
    report = energon("exclude", folder, "--duplicates", "--to-filter", "f", "--json").json
    assert report["examples"] == ["s.tar/2", "s.tar/3"]


def test_a_quarantine_file_excludes_from_the_dataset_that_it_names_only(tmp_path: Path, energon: RunEnergon) -> None:
    for name in "abc":
        (tmp_path / name).mkdir()
        write_shard(tmp_path / name / "s.tar", {f"{key}": {"txt": name.encode()} for key in range(4)})
        energon("prepare", tmp_path / name, "--non-interactive", "--split-parts", "train:.*")
    mix = tmp_path / "mix.yaml"
    mix.write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits: {train: {blend: "
        "[{path: ./a, weight: 1}, {path: ./b, weight: 1}]}}\n"
    )
    uuid = (tmp_path / "b/.nv-meta/index.uuid").read_text().strip()
    rows = [
        {"dataset": str(tmp_path / "a"), "uuid": "of an earlier prepare", "number": 1, "key": "s.tar/1"},
        {"dataset": "/moved/b", "uuid": uuid, "number": 2, "key": "s.tar/2"},
    ]
    listed = tmp_path / "quarantine.jsonl"
    listed.write_text("".join(json.dumps({**row, "cause": "SIGSEGV"}) + "\n" for row in rows))
    shown = energon("exclude", mix, "--keys-from", listed, "--dry-run")
    assert shown.out.split() == ["s.tar/1", f"{tmp_path}/a", "s.tar/2", f"{tmp_path}/b"]
    assert energon("exclude", tmp_path / "a", "--keys-from", listed, "--dry-run").out.split() == ["s.tar/1"]
    refused = energon("exclude", tmp_path / "c", "--keys-from", listed)
    assert refused.code == 1
    assert f"the file lists no sample of this dataset, but of /moved/b, {tmp_path}/a" in refused.err
    alone = energon("exclude", tmp_path / "c", "--keys-from", listed, "--key-column", "key", "--dry-run")
    assert alone.out.split() == ["s.tar/1", "s.tar/2"]
