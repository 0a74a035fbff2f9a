"""Failures of the machine: no memory, no shared memory, a dataset that is prepared again under a run."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from loader import DefaultTaskEncoder, TextSample, WorkerConfig, WorkerError, get_loader, get_train_dataset
from tests.e2e.dataset_tree import prepare, write_shard
from tests.e2e.text_dataset import write_texts
from tests.source_tree import ROOT


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return write_texts(tmp_path / "texts", train=(30, 30), val=(1,))


class Troubled(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Encoder that calls a function for the sample ``text 7``; once, if a file is given."""

    def __init__(self, trouble: Callable[[], Any], once: Path | None = None) -> None:
        super().__init__()
        self.trouble, self.once = trouble, once

    def encode_sample(self, sample: TextSample) -> TextSample:
        if sample.text == "text 7" and not (self.once and self.once.exists()):
            if self.once:
                self.once.touch()
            self.trouble()
        return sample


def loader_of(texts: Path, encoder: Any = None, *, workers: int = 2, **options: Any) -> Any:
    dataset = get_train_dataset(
        texts,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=workers, lanes=4),
        task_encoder=encoder or DefaultTaskEncoder(),
        batch_size=3,
        shuffle_buffer_size=None,
        max_samples_per_sequence=5,
        shuffle_over_epochs_multiplier=None,
    )
    return get_loader(dataset, **options)


def texts_of(loader: Any, count: int = 20) -> list[str]:
    with loader:
        return [text for batch in islice(loader, count) for text in batch.text]


def read_past_the_end() -> None:
    """Read mapped memory that no file backs: the system sends SIGBUS, as it does where shared memory is full."""
    with tempfile.TemporaryFile() as file:
        file.truncate(2 * mmap.PAGESIZE)
        memory = mmap.mmap(file.fileno(), 2 * mmap.PAGESIZE)
        file.truncate(0)
        memory[mmap.PAGESIZE]


def allocate() -> None:
    raise MemoryError


def test_a_worker_that_finds_no_shared_memory_is_replaced_or_named(texts: Path, tmp_path: Path) -> None:
    expected = texts_of(loader_of(texts))
    assert texts_of(loader_of(texts, Troubled(read_past_the_end, tmp_path / "once"))) == expected
    with pytest.raises(WorkerError, match="was killed by SIGBUS") as caught:
        texts_of(loader_of(texts, Troubled(read_past_the_end), max_worker_restarts=0))
    assert "shared memory is probably full" in (caught.value.hint or "")


def test_a_hook_that_finds_no_memory_skips_its_sample(texts: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert "text 7" not in texts_of(loader_of(texts, Troubled(allocate), workers=0))
    assert "skipped sample 'train_0.tar/00007': encode_sample raised MemoryError" in caplog.text


SMALL_SHARED_MEMORY = """
import sys
from itertools import islice
import torch
from loader import DefaultTaskEncoder, WorkerConfig, get_loader, get_train_dataset

class Large(DefaultTaskEncoder):
    def encode_sample(self, sample):
        return torch.full((1 << 18,), float(sample.__key__[-5:]))

if __name__ == "__main__":
    config = WorkerConfig(rank=0, world_size=1, num_workers=2)
    dataset = get_train_dataset(sys.argv[1], batch_size=4, shuffle_buffer_size=None, max_samples_per_sequence=5,
                                worker_config=config, task_encoder=Large())
    with get_loader(dataset, multiprocessing_context=sys.argv[2]) as loader:
        print(sum(batch.numel() for batch in islice(loader, 8)))
"""


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_a_full_dev_shm_does_not_matter(texts: Path, tmp_path: Path, method: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(SMALL_SHARED_MEMORY)
    own = 'mount -t tmpfs -o size=64k tmpfs /dev/shm && head -c 64k /dev/zero > /dev/shm/full; exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", own, "sh", sys.executable, str(script), str(texts), method]
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("no permission to mount a disk")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.strip() == str(8 * 4 * (1 << 18)), done.stderr


def test_a_run_continues_with_the_old_index_if_its_dataset_is_prepared_again(texts: Path) -> None:
    expected = texts_of(loader_of(texts), 40)
    with loader_of(texts) as loader:
        batches = iter(loader)
        found = [text for batch in islice(batches, 5) for text in batch.text]
        write_shard(texts / "train_9.tar", {f"{number:05d}": {"txt": b"new"} for number in range(900, 930)})
        prepare(texts, split=None)
        found += [text for batch in islice(batches, 35) for text in batch.text]
    assert found == expected
