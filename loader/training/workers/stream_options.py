"""Options of the workers of a rank."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_all_start_methods
from numbers import Real
from typing import Any, Literal, TypedDict, TypeVar, get_args

from ...errors import ConfigError
from ...pipeline.contract.worker_config import check_at_least, check_booleans, check_integers
from ...stores.cache_pool import CachePool
from ..states.run_steps import checked_skips
from ..stats.options import StatsOptions, checked_stats

WorkerType = Literal["fork", "thread", "main"]

T = TypeVar("T")

_BOOLEANS = ("fail_on_timeout", "pin_memory", "progress", "gc_freeze_at_start")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """Options of the workers of a rank: the arguments of :func:`~loader.training.loaders.get_loader.get_loader`.

    Raises:
        ConfigError: A value is out of range, or two contradict each other.
        TypeError: A value has another type: ``cache_pool`` is not a cache pool, a number is a text.
    """

    prefetch_factor: int = 2
    cache_pool: CachePool | None = None
    watchdog_timeout_seconds: float | None = 60
    watchdog_initial_timeout_seconds: float | None = None
    fail_on_timeout: bool = False
    multiprocessing_context: str | None = None
    worker_type: WorkerType | None = None
    pin_memory: bool = True
    progress: bool = False
    gc_collect_every_n_steps: int | None = None
    gc_freeze_at_start: bool = True
    skip_steps: Sequence[tuple[int, int]] = ()
    trace_dir: str | os.PathLike[str] | None = None
    worker_timeout_s: float | None = None
    max_worker_restarts: int = 100
    max_quarantined: int = 16
    quarantine: str | os.PathLike[str] | None = None
    stats: bool | StatsOptions = True

    def __post_init__(self) -> None:
        # Check the types.
        checked_stats(self.stats)
        if self.cache_pool is not None and not isinstance(self.cache_pool, CachePool):
            raise TypeError(
                "expected a CachePool such as FileStoreCachePool() as cache_pool, found "
                f"{type(self.cache_pool).__name__}"
            )
        checked_skips(self.skip_steps)
        counts = ("prefetch_factor", "max_worker_restarts", "max_quarantined")
        check_integers({name: getattr(self, name) for name in counts}, may_be_none=False)
        check_booleans({name: getattr(self, name) for name in _BOOLEANS})
        check_integers({"gc_collect_every_n_steps": self.gc_collect_every_n_steps})
        for name in ("watchdog_timeout_seconds", "watchdog_initial_timeout_seconds", "worker_timeout_s"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Real):
                raise TypeError(f"expected a number of seconds or None as {name}, found {value!r}")
        # Check the ranges.
        if self.worker_timeout_s is not None and not self.worker_timeout_s > 0:
            raise ConfigError(f"expected a worker_timeout_s above 0, found {self.worker_timeout_s:g}")
        check_at_least(0, max_worker_restarts=self.max_worker_restarts, max_quarantined=self.max_quarantined)
        check_at_least(1, prefetch_factor=self.prefetch_factor)
        if self.worker_type not in (None, *get_args(WorkerType)):
            raise ConfigError(
                f"expected a worker_type of {', '.join(map(repr, get_args(WorkerType)))}, found {self.worker_type!r}",
                hint="for processes that start in another way, pass multiprocessing_context='spawn' or 'forkserver'",
            )
        if self.multiprocessing_context not in (None, *get_all_start_methods()):
            raise ConfigError(
                f"expected a multiprocessing_context of {', '.join(map(repr, get_all_start_methods()))}, found "
                f"{self.multiprocessing_context!r}"
            )
        # Check that options agree.
        if self.worker_type is not None and self.multiprocessing_context not in (None, self.worker_type):
            raise ConfigError(
                f"worker_type={self.worker_type!r} and multiprocessing_context={self.multiprocessing_context!r} "
                "contradict each other",
                hint="pass one of them",
            )
        if self.worker_timeout_s is not None and self.worker_type in ("thread", "main"):
            raise ConfigError(
                f"expected worker processes with worker_timeout_s, found worker_type={self.worker_type!r}",
                hint="only a process can be replaced; to end a wait that is too long, pass watchdog_timeout_seconds=… "
                "and fail_on_timeout=True",
            )
        check_at_least(0, or_none=True, gc_collect_every_n_steps=self.gc_collect_every_n_steps)


class LoaderKeywords(TypedDict, total=False):
    """The fields of :class:`StreamOptions` as keywords, for type checkers."""

    prefetch_factor: int
    cache_pool: CachePool | None
    watchdog_timeout_seconds: float | None
    watchdog_initial_timeout_seconds: float | None
    fail_on_timeout: bool
    multiprocessing_context: str | None
    worker_type: WorkerType | None
    pin_memory: bool
    progress: bool
    gc_collect_every_n_steps: int | None
    gc_freeze_at_start: bool
    skip_steps: Sequence[tuple[int, int]]
    trace_dir: str | os.PathLike[str] | None
    worker_timeout_s: float | None
    max_worker_restarts: int
    max_quarantined: int
    quarantine: str | os.PathLike[str] | None
    stats: bool | StatsOptions


class CheckpointKeywords(LoaderKeywords, total=False):
    """These keywords, and the keywords of checkpoints, which have no effect."""

    checkpoint_every_sec: float | None
    checkpoint_every_min_n_samples: int | None
    n_checkpoints: int | None


def collect_garbage_every(count: int, items: Iterator[T], *, collect: Callable[[], Any] = gc.collect) -> Iterator[T]:
    """Yield the items, with a garbage collection after each ``count``.

    >>> list(collect_garbage_every(2, iter("abc"), collect=lambda: print("collected")))
    collected
    ['a', 'b', 'c']
    """
    for item_number, item in enumerate(items, 1):
        yield item
        del item  # the collection is to free what the item refers to
        if item_number % count == 0:
            collect()
