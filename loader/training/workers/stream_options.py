"""Options of the workers of a rank."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args

from ...errors import ConfigError
from ...stores.cache_pool import CachePool, NoCachePool

__all__ = ["StreamOptions", "WorkerType", "collect_garbage_every", "options_from_keywords"]

WorkerType = Literal["fork", "thread", "main"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """Options of the workers of a rank.

    Attributes:
        prefetch_factor: Micro-batches that each worker makes ahead; bundles of them, if they come quickly.
        timeout_s: The time for a micro-batch after which a hang is reported; None: never.
        initial_timeout_s: The same for the first micro-batch.
        fail_on_timeout: Raise an error, rather than only log a warning.
        start_method: ``"fork"``, ``"spawn"`` or ``"forkserver"``; None is torch's default.
        worker_type: ``"fork"`` for processes that fork, ``"thread"`` for threads of the rank's process, ``"main"`` for
            none; None for processes that start by ``start_method``.
        cache_pool: The cache of hooks.
        pin_memory: Copy micro-batches of workers to pinned memory, if there is a GPU.
        progress: Draw a progress bar of the micro-batches.
        gc_every: Micro-batches of a worker between two garbage collections; None: Python's own collections only.
        gc_freeze: Exclude the objects that exist when a worker process starts from its collections. A forked process
            excludes inherited objects in any case.
    """

    prefetch_factor: int = 2
    timeout_s: float | None = 60
    initial_timeout_s: float | None = None
    fail_on_timeout: bool = False
    start_method: str | None = None
    worker_type: WorkerType | None = None
    cache_pool: CachePool = field(default_factory=NoCachePool)
    pin_memory: bool = True
    progress: bool = False
    gc_every: int | None = None
    gc_freeze: bool = True

    def __post_init__(self) -> None:
        if self.prefetch_factor < 1:
            raise ConfigError(f"expected a prefetch_factor of at least 1, found {self.prefetch_factor}")
        if self.worker_type not in (None, *get_args(WorkerType)):
            raise ConfigError(
                f"expected a worker_type of {', '.join(map(repr, get_args(WorkerType)))}, found {self.worker_type!r}",
                hint="for processes that start in another way, pass multiprocessing_context='spawn' or 'forkserver'",
            )
        if self.worker_type is not None and self.start_method not in (None, self.worker_type):
            raise ConfigError(
                f"worker_type={self.worker_type!r} and multiprocessing_context={self.start_method!r} contradict each "
                "other",
                hint="pass one of them",
            )
        if self.gc_every is not None and self.gc_every < 0:
            raise ConfigError(f"expected gc_collect_every_n_steps of at least 0, found {self.gc_every}")


def options_from_keywords(
    *,
    prefetch_factor: int = 2,
    cache_pool: CachePool | None = None,
    watchdog_timeout_seconds: float | None = 60,
    watchdog_initial_timeout_seconds: float | None = None,
    fail_on_timeout: bool = False,
    multiprocessing_context: str | None = None,
    worker_type: WorkerType | None = None,
    pin_memory: bool = True,
    progress: bool = False,
    gc_collect_every_n_steps: int | None = None,
    gc_freeze_at_start: bool = True,
    checkpoint_every_sec: float | None = None,  # noqa: ARG001
    checkpoint_every_min_n_samples: int | None = None,  # noqa: ARG001
    n_checkpoints: int | None = None,  # noqa: ARG001
) -> StreamOptions:
    """Build the options from the keywords of :func:`get_savable_loader`; those of checkpoints have no effect.

    Raises:
        ConfigError: A value is out of range, or two contradict each other.
        TypeError: ``cache_pool`` is no cache pool.
    """
    if cache_pool is not None and not isinstance(cache_pool, CachePool):
        raise TypeError(
            f"expected a CachePool such as FileStoreCachePool() as cache_pool, found {type(cache_pool).__name__}"
        )
    return StreamOptions(
        prefetch_factor=prefetch_factor,
        timeout_s=watchdog_timeout_seconds,
        initial_timeout_s=watchdog_initial_timeout_seconds,
        fail_on_timeout=fail_on_timeout,
        start_method=multiprocessing_context,
        worker_type=worker_type,
        cache_pool=NoCachePool() if cache_pool is None else cache_pool,
        pin_memory=pin_memory,
        progress=progress,
        gc_every=gc_collect_every_n_steps,
        gc_freeze=gc_freeze_at_start,
    )


def collect_garbage_every(
    count: int | None, items: Iterator[T], *, collect: Callable[[], Any] = gc.collect
) -> Iterator[T]:
    """Return the items, with a garbage collection after each ``count``; None or 0 adds none.

    >>> list(collect_garbage_every(2, iter("abc"), collect=lambda: print("collected")))
    collected
    ['a', 'b', 'c']
    """
    return _collecting(count, items, collect) if count else items


def _collecting(count: int, items: Iterator[T], collect: Callable[[], Any]) -> Iterator[T]:
    for number, item in enumerate(items, 1):
        yield item
        del item  # the collection is to free what the item refers to
        if number % count == 0:
            collect()
