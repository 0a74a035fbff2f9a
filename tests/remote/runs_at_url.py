"""Runs over a dataset at a URL, whose batches are compared with those of the same dataset on the disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from loader import WorkerConfig, get_savable_loader, get_train_dataset

__all__ = ["URL", "RunToFailure", "keys", "loader_of", "skipped"]

URL = "s3://data/ds"

skipped: list[Any] = []
"""The arguments of the error handler, for each sample that a run of this process skipped."""


def _skip(*arguments: Any) -> None:
    skipped.append(arguments)


def loader_of(path: str | Path, workers: int, **options: Any) -> Any:
    """Return the loader of a dataset, with storage options."""
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers, global_error_handler=_skip)
    dataset = get_train_dataset(
        str(path), worker_config=config, batch_size=4, shuffle_buffer_size=100, max_samples_per_sequence=1,
        storage_options=options or None,
    )  # fmt: skip
    return get_savable_loader(dataset)


def keys(loader: Any, count: int) -> list[list[str]]:
    """Return the keys of the next batches."""
    batches = iter(loader)
    return [next(batches)["__key__"] for _ in range(count)]


class RunToFailure:
    """A run at the URL that continues until an error ends it.

    Args:
        workers: Number of worker processes.
        fail: Called after the sixth batch: the service fails from then on.
        options: Storage options.

    Attributes:
        found: The keys of its batches.
        state: The state after the last batch.
    """

    def __init__(self, workers: int, fail: Callable[[], None], **options: Any) -> None:
        self.found: list[list[str]] = []
        self.state: Any = None
        self._workers = workers
        self._fail = fail
        self._options = options

    def run(self) -> None:
        with loader_of(URL, self._workers, **self._options) as remote:
            for number, batch in enumerate(remote):
                self.found.append(batch["__key__"])
                self.state = remote.save_state_rank()
                if number == 5:
                    self._fail()

    def resume(self, batches: int) -> list[list[str]]:
        """Restore the state, and return the keys of that many batches from the start of the run."""
        with loader_of(URL, self._workers).with_restored_state_rank(self.state) as again:
            return self.found + keys(again, batches - len(self.found))
