"""Build the loader of a training loop: ``get_loader`` and ``get_savable_loader``."""

from __future__ import annotations

from typing import Any

from ...errors import ConfigError
from ...pipeline.contract.stage import SavableDataset
from ...pipeline.contract.worker_config import WorkerConfig
from ...stores.cache_pool import CachePool, NoCachePool
from ..workers.bundles import StreamOptions
from .data_loader import SavableDataLoader

__all__ = ["get_loader", "get_savable_loader"]


def get_loader(
    dataset: SavableDataset[Any],
    *,
    worker_config: WorkerConfig | None = None,
    prefetch_factor: int = 2,
    cache_pool: CachePool | None = None,
    watchdog_timeout_seconds: float | None = 60,
    watchdog_initial_timeout_seconds: float | None = None,
    fail_on_timeout: bool = False,
    multiprocessing_context: str | None = None,
    pin_memory: bool = True,
    progress: bool = False,
) -> SavableDataLoader[Any]:
    """Build the loader that a training loop iterates.

    Args:
        dataset: A dataset, such as :func:`get_train_dataset` returns.
        worker_config: None, or the dataset's.
        prefetch_factor: Micro-batches that each worker makes ahead.
        cache_pool: The ``cache`` of cookers and the ``self.cache`` of hooks; the default fetches nothing ahead.
        watchdog_timeout_seconds: Time for a micro-batch after which a warning reports the hang; None: no limit.
        watchdog_initial_timeout_seconds: The same for the first micro-batch; None: no limit.
        fail_on_timeout: Raise a :class:`~loader.errors.WorkerError` on a timeout, and end a worker that hangs. Without
            workers, a hang is interrupted in the main thread only; elsewhere the error follows when the hang ends.
        multiprocessing_context: The start method of worker processes: ``"fork"``, ``"spawn"`` or ``"forkserver"``; by
            default torch's.
        pin_memory: Copy micro-batches from worker processes to pinned memory, if there is a GPU.
        progress: Draw a progress bar of the micro-batches on standard error.

    Raises:
        ConfigError: The worker config differs from the dataset's.
        TypeError: ``dataset`` is no dataset, or ``cache_pool`` no cache pool.
    """
    if not isinstance(dataset, SavableDataset):
        raise _no_dataset(dataset)
    if cache_pool is not None and not isinstance(cache_pool, CachePool):
        raise TypeError(
            f"expected a CachePool such as FileStoreCachePool() as cache_pool, found {type(cache_pool).__name__}"
        )
    if worker_config is not None and worker_config != dataset.worker_config:
        raise ConfigError(
            "the worker_config differs from the one that the dataset was built with",
            hint="pass the same WorkerConfig to both, or none here",
        )
    options = StreamOptions(
        prefetch_factor=prefetch_factor,
        timeout_s=watchdog_timeout_seconds,
        initial_timeout_s=watchdog_initial_timeout_seconds,
        fail_on_timeout=fail_on_timeout,
        start_method=multiprocessing_context,
        cache_pool=NoCachePool() if cache_pool is None else cache_pool,
        pin_memory=pin_memory,
        progress=progress,
    )
    return SavableDataLoader(dataset, options)


def get_savable_loader(
    dataset: SavableDataset[Any],
    *,
    checkpoint_every_sec: float = 60,  # noqa: ARG001
    checkpoint_every_min_n_samples: int | None = None,  # noqa: ARG001
    n_checkpoints: int | None = None,  # noqa: ARG001
    **options: Any,
) -> SavableDataLoader[Any]:
    """Build the loader that a training loop iterates, saves and restores: the same as :func:`get_loader`.

    Args:
        dataset: A dataset, such as :func:`get_train_dataset` returns.
        checkpoint_every_sec: Ignored; accepted for code written for megatron-energon. Every micro-batch has a state.
        checkpoint_every_min_n_samples: Ignored, likewise.
        n_checkpoints: Ignored, likewise.
        **options: As in :func:`get_loader`.
    """
    return get_loader(dataset, **options)


def _no_dataset(given: Any) -> TypeError:
    found = type(given).__name__
    hint = f"; pass {found}(…).build()" if callable(getattr(given, "build", None)) else ""
    return TypeError(f"expected a dataset, such as get_train_dataset() returns, for get_loader(); found {found}{hint}")
