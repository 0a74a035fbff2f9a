"""Excluded samples leave training, an undo brings them back, and a kill in between loses nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from loader import WorkerConfig, get_savable_loader, get_train_dataset
from loader.dataset.query import SampleQuery, keys_of_file
from loader.errors import ConfigError, FormatError
from loader.format.dataset_ref import DatasetRef
from loader.inspect import (
    ExcludeReport,
    ExcludeRequest,
    ListedExclusions,
    exclude,
    list_exclusions,
    undo_last_exclusion,
)
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare
from tests.e2e.dataset_tree import caption_samples, shard_path, write_shard

SAMPLES = 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(4):
        write_shard(shard_path(tmp_path / "ds", number), caption_samples(10 * number, 5))
    crude = {"dataset.yaml": "__module__: megatron.energon\n__class__: CrudeWebdataset\n"}
    run_prepare(PreparePlan(path=str(tmp_path / "ds"), split=SplitRequest(ratio={"train": 1.0}), files=crude))
    return tmp_path / "ds"


def run(folder: Path, **options: Any) -> ExcludeReport:
    query = {name: options.pop(name) for name in ("where", "keys", "split_part") if name in options}
    [report] = exclude(ExcludeRequest(ref=DatasetRef(str(folder)), query=SampleQuery(**query), **options))
    return report


def listed_exclusions(folder: Path) -> ListedExclusions:
    [listed] = list_exclusions(str(folder))
    return listed


def trained(folder: Path, *, workers: int = 0, **options: Any) -> list[str]:
    """Return the keys of an epoch, sorted."""
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers)
    dataset = get_train_dataset(
        str(folder),
        worker_config=config,
        batch_size=1,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
        repeat=False,
        **options,
    )
    return sorted(batch["__key__"][0] for batch in get_savable_loader(dataset))


def meta(folder: Path) -> dict[str, bytes]:
    files = (path for path in (folder / ".nv-meta").iterdir() if path.is_file())
    return {path.name: path.read_bytes() for path in files if path.name != ".lock"}


KEYS = ["shard_001.tar/00012", "00003"]
FULL_KEYS = ["shard_000.tar/00003", "shard_001.tar/00012"]


@pytest.mark.parametrize("name", [None, "good"])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.sampled(2)
def test_excluded_samples_are_not_trained_on_until_the_undo(folder: Path, name: str | None, workers: int) -> None:
    options = {} if name is None else {"filter_name": name}
    every = trained(folder, workers=workers)
    assert len(every) == SAMPLES
    report = run(folder, keys=KEYS, filter=name, reason="test")
    assert (report.samples, report.already, report.remaining) == (2, 0, SAMPLES - 2)
    assert trained(folder, workers=workers, **options) == [key for key in every if key not in FULL_KEYS]
    [(_, undone)] = undo_last_exclusion(str(folder))
    assert (undone.samples, undone.reason) == (2, "test")
    assert trained(folder, workers=workers) == every
    assert undo_last_exclusion(str(folder)) == []


def test_an_undo_restores_the_split_file_byte_for_byte(folder: Path) -> None:
    before = meta(folder)
    for keys in (["00003"], ["00012", "00020"], ["shard_003.tar"]):
        run(folder, keys=keys)
    assert len(listed_exclusions(folder).exclusions) == 3
    assert trained(folder) == [
        key
        for key in trained(folder)
        if not key.endswith(("00003", "00012", "00020")) and not key.startswith("shard_003")
    ]
    for _ in range(3):
        assert undo_last_exclusion(str(folder))
    after = meta(folder)
    after.pop("split.yaml.bak")
    assert after == before


def test_a_filter_is_changed_again_and_its_last_change_undone(folder: Path) -> None:
    run(folder, keys=["00003"], filter="good")
    first = meta(folder)
    run(folder, where="shard == 'shard_001.tar'", filter="good")
    assert listed_exclusions(folder).filters == {"good": SAMPLES - 6}
    assert undo_last_exclusion(str(folder))
    assert {name: data for name, data in meta(folder).items() if name.startswith("filter_")} == {
        name: data for name, data in first.items() if name.startswith("filter_")
    }
    assert undo_last_exclusion(str(folder))
    assert listed_exclusions(folder).filters == {}


def test_samples_that_are_out_are_not_counted_again(folder: Path) -> None:
    run(folder, keys=["00003"])
    report = run(folder, where="shard == 'shard_000.tar'")
    assert (report.samples, report.already, report.remaining) == (4, 1, SAMPLES - 5)
    again = run(folder, where="shard == 'shard_000.tar'")
    assert (again.samples, again.already) == (0, 5)
    assert len(listed_exclusions(folder).exclusions) == 2


def test_a_shard_is_excluded_by_its_name(folder: Path) -> None:
    report = run(folder, keys=["shard_002.tar", "00003"])
    assert report.samples == 6
    listed = listed_exclusions(folder)
    assert (listed.shards, listed.samples) == (("shard_002.tar",), 6)
    assert not [key for key in trained(folder) if key.startswith("shard_002.tar")]


def test_a_dry_run_changes_nothing(folder: Path) -> None:
    before = meta(folder)
    report = run(folder, keys=KEYS, dry_run=True)
    assert (report.samples, report.examples) == (2, tuple(FULL_KEYS))
    assert meta(folder) == before


def test_what_lint_finds_broken_is_excluded(tmp_path: Path) -> None:
    samples = {f"{number:02}": {"jpg": b"no picture", "txt": b"x"} for number in (3, 4)}
    good = caption_samples(10, 5)
    write_shard(shard_path(tmp_path, 0), samples | {key: {"txt": parts["txt"]} for key, parts in good.items()})
    run_prepare(PreparePlan(path=str(tmp_path), split=SplitRequest(ratio={"train": 1.0})))
    report = run(tmp_path, lint=True)
    assert report.examples == ("shard_000.tar/03", "shard_000.tar/04")
    assert run(tmp_path, keys=["03"]).already == 1
    assert run(tmp_path, lint=True).samples == 0


def test_all_samples_are_never_excluded(folder: Path) -> None:
    before = meta(folder)
    for name in (None, "none"):
        with pytest.raises(ConfigError, match="no sample of the dataset would remain"):
            run(folder, where="bytes > 0", filter=name)
    with pytest.raises(ConfigError, match="no sample is chosen"):
        run(folder, where="bytes < 0")
    with pytest.raises(ConfigError, match="there is no sample 'x'"):
        run(folder, keys=["x"])
    assert meta(folder) == before


def test_entries_of_others_are_kept_and_listed(folder: Path) -> None:
    split = folder / ".nv-meta/split.yaml"
    split.write_text(split.read_text().replace("exclude: []", "exclude: [shard_000.tar/00001]"))
    run(folder, keys=["00003"])
    listed = listed_exclusions(folder)
    assert (listed.others, listed.samples) == (("shard_000.tar/00001",), 2)
    undo_last_exclusion(str(folder))
    assert listed_exclusions(folder).others == ("shard_000.tar/00001",)


def test_a_prepare_keeps_exclusions_and_their_journal(folder: Path) -> None:
    run(folder, keys=["00003"])
    write_shard(shard_path(folder, 7), caption_samples(70, 5))
    run_prepare(PreparePlan(path=str(folder)))
    assert listed_exclusions(folder).samples == 1
    assert undo_last_exclusion(str(folder))
    assert listed_exclusions(folder).samples == 0


KILLED = """
import os, signal, sys
from loader.dataset import exclusions
from loader.inspect import ExcludeRequest, exclude, undo_last_exclusion
from loader.dataset.query import SampleQuery
from loader.format import DatasetRef
write, remove, left = exclusions._write, None, int(sys.argv[3])

def count(*arguments):
    global left
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    write(*arguments)

exclusions._write = count
if sys.argv[2] == "undo":
    undo_last_exclusion(sys.argv[1])
else:
    exclude(ExcludeRequest(ref=DatasetRef(sys.argv[1]), query=SampleQuery(keys=["00012"]), filter=sys.argv[4] or None))
"""


@pytest.mark.parametrize(
    ("action", "name"),
    [
        *(("exclude", ""), ("undo", "good")),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in (("exclude", "good"), ("undo", ""))),
    ],
)
@pytest.mark.sampled(2)
def test_a_kill_before_any_write_leaves_a_dataset_that_can_be_undone(folder: Path, action: str, name: str) -> None:
    run(folder, keys=["00003"], filter=name or None)
    if action == "undo":
        run(folder, keys=["00012"], filter=name or None)
    options: dict[str, Any] = {"filter_name": name} if name else {}
    found: list[str] = []
    writes = 0
    for writes in range(20):
        done = subprocess.run([sys.executable, "-c", KILLED, folder, action, str(writes), name], check=False)
        if name and action == "undo" and done.returncode and writes == 1:
            with pytest.raises(FormatError, match="damaged or stale"):  # one of its two files is restored
                trained(folder, **options)
            continue
        found = trained(folder, **options)
        assert "shard_000.tar/00003" not in found
        assert len(found) in (SAMPLES - 1, SAMPLES - 2)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
        if action == "exclude":
            while len(listed_exclusions(folder).exclusions) > 1:
                undo_last_exclusion(str(folder))
            assert len(trained(folder, **options)) == SAMPLES - 1
    assert writes >= 1
    assert len(found) == (SAMPLES - 1 if action == "undo" else SAMPLES - 2)


@pytest.mark.parametrize("damage", ["{", "[]", '{"format_version": 2, "exclusions": []}', '{"exclusions": 3}'])
def test_a_damaged_journal_is_named(folder: Path, damage: str) -> None:
    (folder / ".nv-meta/exclude.json").write_text(damage)
    with pytest.raises(FormatError, match="journal of energon exclude"):
        undo_last_exclusion(str(folder))


# ----------------------------------------------------------------------------------------------------- files of keys


def test_keys_are_read_from_each_kind_of_file(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    keys = ["a.tar/1", "b, c.tar/2", "3"]
    (tmp_path / "x.txt").write_text("# list\n" + "\n".join(keys) + "\n\n")
    (tmp_path / "x.csv").write_text('score,key\n1,a.tar/1\n2,"b, c.tar/2"\n3,3\n')
    (tmp_path / "x.tsv").write_text("sample\n" + "\n".join(keys) + "\n")
    findings = [{"shard": "a.tar", "key": "1"}, {"shard": None, "key": None}, {"shard": "a.tar", "key": "1"}]
    (tmp_path / "x.json").write_text(json.dumps({"findings": findings}))
    rows = [json.dumps({"dataset": "/data/a", "key": key}) for key in (*keys, keys[0])]
    (tmp_path / "x.jsonl").write_text("\n".join(rows) + "\n\n")
    parquet.write_table(pa.table({"id": keys, "n": [1, 2, 3]}), tmp_path / "x.parquet")
    assert keys_of_file(str(tmp_path / "x.txt")) == keys
    assert keys_of_file(str(tmp_path / "x.csv")) == keys
    assert keys_of_file(str(tmp_path / "x.tsv")) == keys
    assert keys_of_file(str(tmp_path / "x.json")) == ["a.tar/1"]
    assert keys_of_file(str(tmp_path / "x.jsonl")) == keys
    assert keys_of_file(str(tmp_path / "x.parquet"), column="id") == keys
    with pytest.raises(ConfigError, match=r"expected a column named key.*found: id, n"):
        keys_of_file(str(tmp_path / "x.parquet"))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("x.json", "{", "cannot read keys"),
        ("x.json", "[1]", "expected a report with 'findings'"),
        ("x.jsonl", '{"a": 1, "b": 2}\n', "found: a, b"),
        ("x.jsonl", "[1]\n", "expected an object on each line"),
        ("x.csv", "a,b\n1,2\n", "found: a, b"),
        ("x.csv", "", "found: none"),
        ("x.parquet", "no", "cannot read keys"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, content: str, reason: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError, match=reason):
        keys_of_file(os.fspath(tmp_path / name))
