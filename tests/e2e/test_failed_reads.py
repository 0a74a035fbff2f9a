"""A read that fails stops the run with the path: it is never one of the skipped samples."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import yaml

from loader import DatasetFileStore, StorageError, TaskEncoder, WorkerConfig, get_loader, get_train_dataset
from loader.errors import EnergonError, FormatError
from tests.e2e.golden_states import write_tables
from tests.unit.pipeline.tar_dataset import texts, write_dataset

LEAVES = {
    "tokens.bin": "tokens.bin",
    "rows.parquet": "rows.parquet",
    "lines": "lines",
    "rows": "rows",
    "tar": "tar/a.tar",
    "mix.yaml": "tar/a.tar",
}


class Plain(TaskEncoder[Any, Any, Any, Any]):
    """Encoder that keeps crude samples."""


class Reading(TaskEncoder[Any, Any, Any, Any]):
    """Encoder whose hook reads from a store."""

    def __init__(self, store: Any) -> None:
        self.store = store

    def encode_sample(self, sample: Any) -> Any:
        return {"__key__": sample["__key__"], "text": self.store[f"{sample['__key__']}.txt"][0]}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loader.storage.local.PAUSES_S", (0.0, 0.0))


def data(folder: Path) -> Path:
    """Write token, table, line and tar datasets, and a mix."""
    write_tables(folder)
    write_dataset(folder / "tar", {"a.tar": texts(0, 30), "b.tar": texts(0, 30)})
    split = {"blend": [{"path": "tar", "weight": 1}, {"path": "tokens.bin", "weight": 1}]}
    mix = {"__module__": "megatron.energon", "__class__": "MetadatasetV2", "splits": {"train": split}}
    (folder / "mix.yaml").write_text(yaml.safe_dump(mix))
    return folder


def train(path: Path, failures: list[Any], encoder: Any = None) -> Any:
    config = WorkerConfig(
        rank=0, world_size=1, num_workers=0, global_error_handler=lambda *failure: failures.append(failure)
    )
    arguments: dict[str, Any] = {"batch_size": None, "shuffle_buffer_size": None, "max_samples_per_sequence": 5}
    return get_train_dataset(path, worker_config=config, task_encoder=encoder or Plain(), **arguments)


def failing(read: Callable[..., bytes], below: str) -> Callable[..., bytes]:
    """Return a pread that fails for the files of a folder, as a broken disk does."""

    def pread(fd: int, *arguments: int) -> bytes:
        if os.readlink(f"/proc/self/fd/{fd}").startswith(below):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(fd, *arguments)

    return pread


@pytest.mark.parametrize("name", LEAVES)
@pytest.mark.sampled(3)
def test_a_broken_disk_stops_the_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, failures = data(tmp_path), list[Any]()
    samples = iter(get_loader(train(folder / name, failures)))
    monkeypatch.setattr(os, "pread", failing(os.pread, str(folder)))
    with pytest.raises(StorageError, match="Input/output error") as caught:
        list(islice(samples, 200))
    assert str(caught.value.path).startswith(str(folder))
    assert not failures


@pytest.mark.parametrize("name", LEAVES)
@pytest.mark.sampled(2)
def test_a_removed_file_stops_the_run(name: str, tmp_path: Path) -> None:
    folder, failures = data(tmp_path), list[Any]()
    samples = iter(get_loader(train(folder / name, failures)))
    victim = folder / LEAVES[name]
    for path in [victim] if victim.is_file() else [path for path in victim.iterdir() if path.is_file()]:
        path.unlink()
    with pytest.raises(StorageError, match="No such file") as caught:
        list(islice(samples, 200))
    assert str(caught.value.path).startswith(str(victim))
    assert not failures


@pytest.mark.parametrize("replaced", [False, True], ids=["removed", "replaced"])
def test_a_shard_that_is_open_is_read_on_after_it_is_removed_or_replaced(replaced: bool, tmp_path: Path) -> None:
    write_dataset(tmp_path / "data", {"a.tar": texts(0, 30)})
    write_dataset(tmp_path / "other", {"a.tar": texts(100, 40)})
    expected = [sample["txt"] for sample in islice(get_loader(train(tmp_path / "data", [])), 90)]
    failures = list[Any]()
    samples = iter(get_loader(train(tmp_path / "data", failures)))
    got = [next(samples)["txt"]]
    if replaced:
        os.replace(tmp_path / "other/a.tar", tmp_path / "data/a.tar")
    else:
        (tmp_path / "data/a.tar").unlink()
    got += [sample["txt"] for sample in islice(samples, 89)]  # three epochs
    assert got == expected
    assert not failures


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (lambda path: path.unlink(), StorageError),
        (lambda path: os.truncate(path, 700), FormatError),
        (lambda path: path.write_bytes(b"\0" * 9999), FormatError),
    ],
    ids=["removed", "cut", "replaced"],
)
def test_a_store_that_cannot_read_its_shard_stops_the_run(
    damage: Callable[[Path], Any], kind: type[EnergonError], tmp_path: Path
) -> None:
    failures = list[Any]()
    primary = write_dataset(tmp_path / "primary", {"a.tar": texts(0, 30)})
    other = write_dataset(tmp_path / "other", {"a.tar": texts(0, 30)})
    samples = iter(get_loader(train(primary, failures, Reading(DatasetFileStore(other)))))
    damage(other / "a.tar")
    with pytest.raises(kind) as caught:
        next(samples)
    assert str(other / "a.tar") in str(caught.value)
    assert any("raised by encode_sample" in note for note in caught.value.__notes__)
    assert not failures


def test_an_error_of_the_disk_in_a_hook_stops_the_run(tmp_path: Path) -> None:
    class Broken(TaskEncoder[Any, Any, Any, Any]):
        def encode_sample(self, sample: Any) -> Any:
            raise OSError(errno.ESTALE, "Stale file handle")

    failures = list[Any]()
    folder = write_dataset(tmp_path / "x", {"a.tar": texts(0, 30)})
    with pytest.raises(OSError, match="Stale file handle"):
        next(iter(get_loader(train(folder, failures, Broken()))))
    assert not failures
