"""``get_loader`` and ``get_savable_loader``."""

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
) -> SavableDataLoader[Any]:
    """Give the loader that a training loop iterates.

    Args:
        dataset: What :func:`get_train_dataset` and the like gave.
        worker_config: Must be the dataset's, where it is given.
        prefetch_factor: Micro-batches that each worker makes ahead.
        cache_pool: What cookers get as ``cache`` and hooks as ``self.cache``; by default one that fetches nothing
            ahead.
        watchdog_timeout_seconds: How long a micro-batch may take before one warning says what hangs; None: for ever.
        watchdog_initial_timeout_seconds: The same for the first micro-batch; None: for ever.
        fail_on_timeout: Raise a :class:`~loader.errors.WorkerError` then.
        multiprocessing_context: How worker processes start: ``"fork"``, ``"spawn"`` or ``"forkserver"``; by default as
            torch does.
        pin_memory: Put micro-batches that come from worker processes into pinned memory, where there is a GPU.

    Raises:
        ConfigError: The worker config is not the dataset's.
        TypeError: What is given is no dataset, or no cache pool.
    """
    if not isinstance(dataset, SavableDataset):
        raise _no_dataset(dataset)
    if cache_pool is not None and not isinstance(cache_pool, CachePool):
        raise TypeError(
            f"expected a CachePool such as FileStoreCachePool() as cache_pool, found {type(cache_pool).__name__}"
        )
    if worker_config is not None and worker_config != dataset.worker_config:
        raise ConfigError(
            "the dataset was built with another worker_config than this loader is given",
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
    """Give the loader that a training loop iterates, saves and restores: the same as :func:`get_loader` gives.

    Args:
        dataset: What :func:`get_train_dataset` and the like gave.
        checkpoint_every_sec: Accepted for code written for megatron-energon. A state is there after every micro-batch.
        checkpoint_every_min_n_samples: Likewise.
        n_checkpoints: Likewise.
        **options: As in :func:`get_loader`.
    """
    return get_loader(dataset, **options)


def _no_dataset(given: Any) -> TypeError:
    found = type(given).__name__
    hint = f"; pass {found}(…).build()" if callable(getattr(given, "build", None)) else ""
    return TypeError(f"get_loader() takes a dataset, such as get_train_dataset() gives; found {found}{hint}")
