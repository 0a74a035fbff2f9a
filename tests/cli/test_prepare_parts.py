"""``energon prepare`` in parts, as the jobs of a cluster run it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.make_dataset import write_captions
from tests.cli.run_energon import RunEnergon


def test_the_jobs_of_an_array_and_a_merge(tmp_path: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_captions(tmp_path / "my data", shards=5)
    monkeypatch.setenv("SLURM_ARRAY_TASK_COUNT", "2")
    monkeypatch.setenv("SLURM_ARRAY_TASK_MIN", "0")
    for task in (0, 1):
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", str(task))
        done = energon("prepare", folder, "--share", "auto", "--num-workers", 1)
        assert done.code == 0, done.err
        assert done.out.startswith(f"scanned share {task + 1}/2 of {folder}: {2 + task} shards (")
        assert f"when all shares are done: energon prepare '{folder}' --num-workers 1 --merge" in done.out
    again = energon("prepare", folder, "--share", "1/2", "--json").json
    assert {key: again[key] for key in ("part", "parts", "shards", "scanned", "dry_run")} == {
        "part": 1,
        "parts": 2,
        "shards": 2,
        "scanned": 0,
        "dry_run": False,
    }
    done = energon("prepare", folder, "--yes", "--merge", "--json")
    assert not done.err
    merged = done.json
    assert (merged["samples"], merged["scanned"], merged["resumed"]) == (15, 0, 5)
    assert (folder / ".nv-meta/dataset.yaml").exists()


def test_a_merge_names_missing_parts_and_a_prepare_names_the_merge(tmp_path: Path, energon: RunEnergon) -> None:
    folder = write_captions(tmp_path / "ds", shards=6)
    energon("prepare", folder, "--share", "2/3", "--num-workers", 1)
    merged = energon("prepare", folder, "--yes", "--merge")
    assert merged.code == 1
    assert "shares 1,3 of 3 are not complete: 4 of 6 shards are not scanned: shard_000.tar, shard_001.tar" in merged.err
    assert (
        f"energon prepare {folder} --share 1/3 (with SLURM: sbatch --array=1,3, and --share $SLURM_ARRAY_TASK_ID/3)"
        in merged.err
    )
    alone = energon("prepare", folder, answers=[])
    assert alone.code == 1
    assert "this dataset is being prepared in 3 shares" in alone.err
    assert "commit the shares with --merge" in alone.err


def test_a_dry_run_shows_the_share_and_writes_nothing(tmp_path: Path, energon: RunEnergon) -> None:
    folder = write_captions(tmp_path / "ds", shards=6)
    done = energon("prepare", folder, "--share", "2/3", "--dry-run")
    assert done.out.startswith(f"would scan share 2/3 of {folder}: 2 shards")
    assert not (folder / ".nv-meta").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--share", "4/3"], "expected SHARE/SHARES with 1 ≤ SHARE ≤ SHARES"),
        (["--share", "auto"], "SLURM_ARRAY_TASK_ID"),
        (["--share", "1/3", "--merge"], "--merge joins the shares: pass it without --share"),
        (["--share", "1/3", "--split-ratio", "8,1,1"], "pass --split-ratio to the command with --merge"),
        (["--share", "1/3", "--engine", "ray"], "pass --engine to the command with --merge"),
        (["--engine", "dusk"], "'dusk' is not one of 'processes', 'ray', 'dask'"),
        (["--address", "tcp://a:1"], "--address is valid only with --engine ray or --engine dask"),
        (["--part", "4/3"], "expected SHARE/SHARES with 1 ≤ SHARE ≤ SHARES"),  # the spelling of version 0.3
        (["--merge", "--decompress"], "--decompress conflicts with --merge"),
    ],
)
def test_flags_that_make_no_sense_are_wrong_usage(
    tmp_path: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch, flags: list[str], message: str
) -> None:
    for name in ("SLURM_ARRAY_TASK_ID", "RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    done = energon("prepare", write_captions(tmp_path / "ds", shards=1), *flags)
    assert done.code == 2
    assert message in " ".join(done.err.replace("│", "").split())


@pytest.mark.parametrize("flags", [["--share", "1/2"], ["--merge"], ["--engine", "dask", "--address", "tcp://a:1"]])
def test_files_are_not_prepared_in_parts(tmp_path: Path, energon: RunEnergon, flags: list[str]) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text(json.dumps({"a": 1}) + "\n")
    done = energon("prepare", path, *flags)
    assert (done.code, "valid only for folders of shards" in done.err) == (2, True)


@pytest.mark.parametrize(("flag", "code"), [(["--share", "1/2"], 1), (["--merge"], 1)])
def test_folders_without_tar_shards_have_no_parts(
    tmp_path: Path, energon: RunEnergon, flag: list[str], code: int
) -> None:
    (tmp_path / "lines.jsonl").write_text(json.dumps({"a": 1}) + "\n")
    done = energon("prepare", tmp_path, *(["--yes"] if "--merge" in flag else []), *flag)
    assert (done.code, "these are no tar shards" in done.err) == (code, True)


def test_a_missing_extra_is_named(tmp_path: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    folder = write_captions(tmp_path / "ds", shards=1)
    done = energon("prepare", folder, "--yes", "--engine", "dask", "--address", "tcp://a:1")
    assert done.code == 1
    assert "pip install 'energon-toolkit[dask]'" in done.err


def test_a_meta_folder_takes_the_parts(tmp_path: Path, energon: RunEnergon) -> None:
    folder, meta = write_captions(tmp_path / "ds", shards=4), tmp_path / "meta"
    for number in (1, 2):
        done = energon("prepare", folder, "--share", f"{number}/2", "--meta-folder", meta, "--num-workers", 1)
        assert f"--meta-folder {meta} --num-workers 1 --merge" in done.out
        if number == 1:
            early = energon("prepare", folder, "--yes", "--merge", "--meta-folder", meta)
            assert f"then merge again: energon prepare {folder} --meta-folder {meta} --share 2/2" in early.err
    done = energon("prepare", folder, "--yes", "--merge", "--meta-folder", meta, "--json")
    assert (done.json["resumed"], (folder / ".nv-meta").exists()) == (4, False)
