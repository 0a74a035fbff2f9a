"""``energon map``: what it prints, and the ways to choose samples and targets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from loader import open_dataset
from tests.cli.run_energon import RunEnergon
from tests.e2e.dataset_tree import write_tar
from tests.small_disks import read_only

FUNCTIONS = """
from loader import SkipSample

def identifier(sample):
    key = sample["__key__"] if isinstance(sample, dict) else sample.__key__
    return int(key[-6:])

def is_odd(sample):
    return identifier(sample) % 2 == 1

def text_or_number(sample):
    return "text" if identifier(sample) == 4 else 1

def picky(sample):
    if identifier(sample) == 2:
        raise SkipSample
    if identifier(sample) in (3, 7):
        raise ValueError("a bad [sample]")
    return identifier(sample) / 2

def texts(samples):
    return {"a": 1} if identifier(samples[0]) == 5 else [sample.caption for sample in samples]

def size(sample):
    return len(sample["jpg"])

class Model:
    def __init__(self):
        self.factor = 3

    def __call__(self, sample):
        return {"triple": self.factor * identifier(sample), "vector": [1.0, identifier(sample)]}

def key(sample):
    if identifier(sample) == 3:
        raise SkipSample
    return sample["__key__"]

def is_even(sample):
    return identifier(sample) % 2 == 0

def no_parts(sample):
    return {"jpg": b"1"}

def same_key(sample):
    return {"__key__": "same", "txt": "a"}

def fails(sample):
    raise ValueError("no")

def prints(sample):
    print("a line")
    return identifier(sample)

class Unprintable(Exception):
    def __str__(self):
        raise KeyError("text")

def fails_without_text(sample):
    if identifier(sample) == 3:
        raise Unprintable
    if identifier(sample) == 4:
        raise ValueError(f"cannot read {object()}")
    return 1
"""


@pytest.fixture
def functions(prepared: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write a module of functions next to the dataset, which is the working folder; return its name."""
    (prepared.parent / "my_functions.py").write_text(FUNCTIONS)
    monkeypatch.chdir(prepared.parent)
    return "my_functions.py"


def values_of(folder: Path, column: str) -> list[object]:
    dataset = open_dataset(folder)
    return list(np.asarray(dataset.columns[column]).tolist())


def test_a_trial_prints_and_writes_nothing(prepared: Path, functions: str, energon: RunEnergon) -> None:
    done = energon("map", prepared, f"{functions}:picky", "--limit", 4, "--show")
    assert done.out.splitlines() == [
        "shard_000.tar/000000: 0.0",
        "shard_000.tar/000001: 0.5",
        "shard_000.tar/000002: SkipSample",
        "shard_001.tar/000003: ValueError: a bad [sample]",
    ]
    assert not (prepared / ".nv-meta/.jobs").exists()


def test_columns_have_the_values_of_the_chosen_samples(prepared: Path, functions: str, energon: RunEnergon) -> None:
    done = energon("map", prepared, f"{functions}:identifier", "--write", "number", "--split-parts", "train")
    assert "wrote number: 6 samples in " in done.out
    assert len(open_dataset(prepared).select(where="number >= 0")) == 6
    done = energon("map", prepared, f"{functions}:Model", "--write", "triple,vector", "--where", "number > 2")
    assert "wrote triple, vector: 3 samples" in done.out
    assert values_of(prepared, "triple")[3:6] == [9, 12, 15]
    done = energon("map", prepared, f"{functions}:is_odd", "--to-filter", "odd", "--split-parts", "train")
    assert "the filter keeps 3 samples; a loader uses it by filter_name='odd'" in done.err
    assert len(open_dataset(prepared).select(filter="odd")) == 3


def test_excluded_samples_have_no_value(prepared: Path, functions: str, energon: RunEnergon) -> None:
    assert energon("exclude", prepared, "000001").code == 0
    assert "11 samples" in energon("map", prepared, f"{functions}:identifier", "--write", "number").out
    assert len(open_dataset(prepared).select(where="number >= 0")) == 11
    done = energon("map", prepared, f"{functions}:identifier", "--write", "number", "--include-excluded")
    assert "12 samples" in done.out


def test_failures_are_named_and_the_next_run_decides(prepared: Path, functions: str, energon: RunEnergon) -> None:
    command = ("map", prepared, f"{functions}:picky", "--write", "half")
    done = energon(*command)
    assert done.code == 1
    assert (
        "1 sample failed; --max-failures allows 0. First: shard_001.tar/000003: ValueError: a bad [sample]" in done.err
    )
    assert "--retry-failed" in done.err
    # The same again is the same; a changed function is refused, or takes what is there.
    assert energon(*command).err == done.err
    (prepared.parent / functions).write_text(FUNCTIONS.replace("in (3, 7)", "in (3,)"))
    refused = energon(*command)
    assert "an unfinished map with another source of the function has results here" in refused.err
    done = energon(*command, "--keep-results", "--max-failures", 2)
    assert done.code == 0
    assert "shard_001.tar/000003 failed: ValueError: a bad [sample]" in done.err
    assert "1 sample was skipped, and got no value" in done.err


def test_an_error_without_a_text_is_a_failure_and_addresses_are_omitted(
    prepared: Path, functions: str, energon: RunEnergon
) -> None:
    done = energon("map", prepared, f"{functions}:fails_without_text", "--write", "n", "--max-failures", 12)
    assert done.code == 0
    assert "000003 failed: Unprintable: its message cannot be formatted: KeyError" in done.err
    assert "000004 failed: ValueError: cannot read <object object>" in done.err


def test_results_of_other_samples_are_never_kept(prepared: Path, functions: str, energon: RunEnergon) -> None:
    command = ("map", prepared, f"{functions}:picky", "--write", "half")
    assert energon(*command, "--split-parts", "train").code == 1
    done = energon(*command, "--keep-results", "--max-failures", 2)
    assert done.code == 1
    assert "an unfinished map with another samples, tasks has results here" in done.err
    assert "--keep-results" not in done.err


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.sampled(2)
def test_what_a_function_prints_is_no_part_of_the_json(prepared: Path, functions: str, workers: int) -> None:
    command = ["-m", "energon_cli", "map", str(prepared), f"{functions}:prints", "--write", "n", "--json"]
    done = subprocess.run(
        [sys.executable, *command, "--num-workers", str(workers)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert json.loads(done.stdout)["samples"] == 12
    assert done.stderr.count("a line") == 12


def test_json_needs_no_standard_error(prepared: Path, functions: str) -> None:
    command = f"{sys.executable} -m energon_cli map {prepared} {functions}:identifier --write n --json 2>&-"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, check=True, env=environment)
    assert json.loads(done.stdout)["samples"] == 12


def test_failed_samples_are_listed_in_a_file(prepared: Path, functions: str, energon: RunEnergon) -> None:
    energon("map", prepared, f"{functions}:picky", "--write", "half")
    lines = (prepared / ".nv-meta/.jobs/map-write-half/failures.jsonl").read_text().splitlines()
    expected = {"sample": 3, "key": "shard_001.tar/000003", "error": "ValueError: a bad [sample]"}
    assert [json.loads(line) for line in lines] == [expected]


def test_values_of_two_kinds_end_the_command(prepared: Path, functions: str, energon: RunEnergon) -> None:
    done = energon("map", prepared, f"{functions}:text_or_number", "--write", "mixed")
    assert done.code == 1
    assert "column 'mixed' would mix integers and texts" in done.err
    assert "samples shard_001.tar/000003 and shard_001.tar/000004" in done.err


def test_batches_with_wrong_results_name_the_sample(prepared: Path, functions: str, energon: RunEnergon) -> None:
    done = energon("map", prepared, f"{functions}:texts", "--write", "text", "--batch-size", 2)
    assert "1 sample failed" in done.err
    assert "000005: TypeError: expected a list with a result for each sample, found dict" in done.err


def test_raw_samples_are_bytes(prepared: Path, functions: str, energon: RunEnergon) -> None:
    assert energon("map", prepared, f"{functions}:size", "--raw", "--write", "jpg_bytes").code == 0
    sizes = [len(open_dataset(prepared).parts(sample)["jpg"]) for sample in range(12)]
    assert values_of(prepared, "jpg_bytes") == sizes


def test_shares_are_merged_by_the_command_that_is_printed(prepared: Path, functions: str, energon: RunEnergon) -> None:
    command = ("map", prepared, f"{functions}:identifier", "--write", "number")
    done = energon(*command, "--share", "1/2")
    assert "share 1/2 is done: 2 tasks" in done.out
    assert "--merge" in done.out
    assert "share 2 of 2 is not complete" in energon(*command, "--merge").err
    energon(*command, "--share", "2/2")
    assert energon(*command, "--merge").code == 0
    assert values_of(prepared, "number") == list(range(12))


def test_targets_that_cannot_be_written_are_refused_first(prepared: Path, functions: str, energon: RunEnergon) -> None:
    inner = energon("map", prepared, f"{functions}:no_parts", "--to-dataset", prepared / "inner")
    assert "would be inside of the folder" in inner.err
    assert not (prepared / "inner").exists()
    taken = energon("map", prepared, f"{functions}:no_parts", "--to-parts", prepared.parent / "new")
    assert "the dataset has a part 'jpg' already" in taken.err
    (prepared.parent / "other.yaml").write_text("text: 1\n")
    yaml = energon("map", prepared, f"{functions}:no_parts", "--to-parts", prepared.parent / "other")
    assert "this metadataset exists, with other contents" in yaml.err
    (prepared / ".nv-meta/split.yaml").unlink()
    split = energon("map", prepared, f"{functions}:no_parts", "--to-parts", prepared.parent / "more")
    assert "this dataset has no split file" in split.err
    assert not (prepared.parent / "more").exists()
    assert energon("map", prepared, f"{functions}:identifier", "--to-filter", "../x").code == 1
    assert energon("map", prepared, f"{functions}:identifier", "--write", "a-b").code == 1


def test_keys_that_come_twice_are_refused(prepared: Path, functions: str, energon: RunEnergon) -> None:
    done = energon("map", prepared, f"{functions}:same_key", "--to-dataset", prepared.parent / "new")
    assert "2 samples failed" in done.err
    done = energon(
        "map", prepared, f"{functions}:same_key", "--to-dataset", prepared.parent / "new", "--max-failures", 99
    )
    assert "the function returned keys twice" in done.err
    assert "shard_000000000_train_00.tar/same" in done.err


def test_a_function_that_does_not_exist_is_named(prepared: Path, functions: str, energon: RunEnergon) -> None:
    assert "expected MODULE:FUNCTION" in energon("map", prepared, "nothing", "--show").err
    assert "cannot import no_module" in energon("map", prepared, "no_module:f", "--show").err
    done = energon("map", prepared, f"{functions}:idntifier", "--write", "a")
    assert "there is no 'idntifier' in my_functions.py" in done.err
    assert "it has: " in done.err


def test_a_read_only_dataset_takes_another_folder(
    prepared: Path, functions: str, energon: RunEnergon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENERGON_INDEX", str(tmp_path / "indexes"))
    with read_only(prepared):
        done = energon("map", prepared, f"{functions}:identifier", "--write", "number")
        assert (done.code, "is read-only: its metadata are kept in" in done.err) == (0, True), done
        (index,) = (tmp_path / "indexes").iterdir()
        assert (index / "columns/number.npy").exists()
    other = prepared.parent / "meta"
    (prepared / ".nv-meta").rename(other)
    with read_only(prepared):
        done = energon("map", prepared, f"{functions}:identifier", "--write", "number", "--meta-folder", other)
        assert done.code == 0, done.err
    assert (other / "columns/number.npy").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "Pass one of --write"),
        (("--write", "a", "--to-filter", "b"), "Pass one of --write"),
        (("--write", "a", "--limit", "3"), "--limit is for a trial"),
        (("--write", "a", "--timeout", "1", "--engine", "dask", "--address", "a:1"), "--timeout is valid only with"),
    ],
)
def test_usage_that_is_wrong_is_refused(
    options: tuple[str, ...], message: str, prepared: Path, functions: str, energon: RunEnergon
) -> None:
    done = energon("map", prepared, f"{functions}:identifier", *options)
    assert done.code == 2
    assert message in done.err


def test_columns_that_a_new_dataset_cannot_take_over_are_named(
    prepared: Path, functions: str, energon: RunEnergon
) -> None:
    columns = prepared / ".nv-meta/columns"
    for name in ("values", "record", "mask", "texts", "shards", "whole"):
        assert energon("map", prepared, f"{functions}:key", "--write", name, "--raw", "--max-failures", 1).code == 0
    for name in ("left_out", "kept"):
        assert energon("map", prepared, f"{functions}:is_even", "--to-filter", name).code == 0
    # Damage all but two.
    (columns / "values.npy").write_bytes(b"damaged")
    (columns / "record.json").write_text("{")
    (columns / "mask.valid.npy").unlink()
    (columns / "texts.utf8").write_bytes(b"a")
    record = json.loads((columns / "shards.json").read_text())
    (columns / "shards.json").write_text(json.dumps(record | {"shards": "0" * 32}))
    (prepared / ".nv-meta/filter_left_out.idx").write_bytes(b"damaged")
    # The report, its document and the messages name each of them.
    done = energon("map", prepared, f"{functions}:no_parts", "--to-dataset", "new", "--json")
    assert done.code == 0, done.err
    dropped = [f"column '{name}'" for name in ("mask", "record", "shards", "texts", "values")] + ["filter 'left_out'"]
    assert [warning.partition(" was dropped: ")[0] for warning in done.json["warnings"]] == dropped
    assert all(warning.partition(" was dropped: ")[2] for warning in done.json["warnings"])
    assert all(f"{name} was dropped" in done.err for name in dropped)
    report = open_dataset(prepared).map(lambda sample: {"txt": "a"}, to_dataset="other")
    assert [*report.warnings] == done.json["warnings"]
    assert [*open_dataset("new").columns] == ["whole"]
    assert [path.name for path in Path("new/.nv-meta").glob("filter_*.idx")] == ["filter_kept.idx"]


def test_a_failed_sample_may_have_a_key_that_is_no_text(tmp_path: Path, functions: str, energon: RunEnergon) -> None:
    write_tar(tmp_path / "odd" / "0.tar", [(b"caf\xe9.txt".decode("utf-8", "surrogateescape"), b"a")])
    assert energon("prepare", tmp_path / "odd", "--yes").code == 0
    done = energon("map", tmp_path / "odd", f"{functions}:fails", "--write", "a", "--raw")
    assert (done.code, "caf\\udce9: ValueError" in done.err) == (1, True), done.err


def test_a_share_of_the_environment_prints_the_merge(
    prepared: Path, functions: str, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENERGON_MAP_SHARE", "1/2")
    done = energon("map", prepared, f"{functions}:size", "--write", "size", "--raw")
    assert (done.code, "--merge" in done.out) == (0, True), done.err


GPUS = """
import os, time

class Devices:
    def __init__(self):
        self.first = os.environ["CUDA_VISIBLE_DEVICES"]  # as a model reads it
        os.makedirs("seen", exist_ok=True)
        open(f"seen/{os.getpid()}", "w").close()
        end = time.monotonic() + 30
        while len(os.listdir("seen")) < WORKERS and time.monotonic() < end:  # so that no worker takes all tasks
            time.sleep(0.01)

    def __call__(self, sample):
        return {"gpus": os.environ["CUDA_VISIBLE_DEVICES"], "first": self.first, "process": os.getpid()}
"""


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((1, "--num-workers", 2), ["GPU-8", "MIG-3"]),
        ((1,), ["5", "GPU-8", "MIG-3"]),  # as many workers as GPUs serve
        ((1, "--num-workers", 4), ["5", "GPU-8", "MIG-3", "MIG-3"]),
        ((2,), ["MIG-3,GPU-8"]),
        ((0.5, "--num-workers", 3), ["GPU-8", "MIG-3", "MIG-3"]),
    ],
)
@pytest.mark.sampled(3)
def test_each_worker_sees_its_gpus(
    flags: tuple[object, ...],
    expected: list[str],
    prepared: Path,
    energon: RunEnergon,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(prepared.parent)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-3,GPU-8,5")
    (prepared.parent / "gpus.py").write_text(GPUS.replace("WORKERS", str(len(expected))))
    command = ("map", prepared, "gpus.py:Devices", "--write", "gpus,first,process", "--task-samples", 1)
    done = energon(*command, "--gpus-per-worker", *flags)
    assert done.code == 0, done.err
    seen = {*zip(*(values_of(prepared, name) for name in ("process", "gpus", "first")), strict=True)}
    assert sorted(gpus for _, gpus, _ in seen) == expected
    assert all(gpus == first for _, gpus, first in seen)
    assert len({process for process, _, _ in seen}) == len(expected)
    assert os.getpid() not in {process for process, _, _ in seen}
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "MIG-3,GPU-8,5"


def test_more_gpus_than_there_are_is_an_error(
    prepared: Path, functions: str, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    done = energon("map", prepared, f"{functions}:size", "--write", "a", "--gpus-per-worker", 4)
    assert (done.code, "expected 4 GPUs for each worker, found 2 on this machine" in done.err) == (1, True)
    assert not (prepared / ".nv-meta/.jobs").exists()
