"""Build the loader of a training loop: ``get_loader`` and ``get_savable_loader``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from ...errors import ConfigError
from ...pipeline.contract.stage import SavableDataset
from ...pipeline.contract.worker_config import WorkerConfig
from ...shared_signatures import shows_keywords_of
from ..workers.stream_options import LoaderKeywords, StreamOptions
from .data_loader import DataLoader
from .served_ranks import ServingDataLoader


@shows_keywords_of(StreamOptions)
def get_loader(
    dataset: SavableDataset[Any],
    *,
    worker_config: WorkerConfig | None = None,
    serves: Sequence[int] | None = None,
    **options: Unpack[LoaderKeywords],
) -> DataLoader[Any]:
    """Build the loader that a training loop iterates.

    Args:
        dataset: A dataset, such as :func:`get_train_dataset` returns.
        worker_config: None, or the dataset's.
        serves: The data ranks, of the ``world_size`` of the worker config, whose micro-batches this process gets in
            step: each item is a tuple with one for each, in this order. None: the micro-batches of its own rank.
        prefetch_factor: Micro-batches that each worker makes ahead.
        cache_pool: The ``cache`` of cookers and the ``self.cache`` of hooks; the default fetches nothing ahead.
        watchdog_timeout_seconds: Time for a micro-batch after which a warning reports the hang; None: no limit.
        watchdog_initial_timeout_seconds: The same for the first micro-batch; None: no limit.
        fail_on_timeout: Raise a :class:`~loader.errors.WorkerError` on a timeout, and end a worker that hangs. Without
            workers, a hang is interrupted in the main thread only; elsewhere the error follows when the hang ends.
        multiprocessing_context: The start method of worker processes: ``"fork"``, ``"spawn"`` or ``"forkserver"``; by
            default torch's.
        worker_type: ``"fork"`` makes micro-batches in forked processes, ``"thread"`` in threads of this process, and
            ``"main"`` in the training loop itself, with the batches of ``num_workers`` workers. By default the workers
            are processes that start by ``multiprocessing_context``. Hooks in threads must not draw from Python's,
            numpy's and torch's global generators: all threads of a process share them, so the numbers would not repeat.
        pin_memory: Copy micro-batches from workers to pinned memory, if there is a GPU.
        progress: Draw a progress bar of the micro-batches on standard error.
        gc_collect_every_n_steps: Micro-batches of a worker between two garbage collections; None or 0: only Python's
            own collections.
        gc_freeze_at_start: Exclude the objects that exist when a worker process starts from its garbage collections.
            Forked processes exclude inherited objects in any case.
        skip_steps: Ranges ``(start, stop)`` of steps to skip, ``stop`` excluded; a step is one micro-batch on each
            rank, counted from 0 at the beginning of the run. Pass the same on all ranks. They are part of the state, so
            that each restart skips them, on any number of ranks. Their samples count as used.
        trace_dir: Local or shared folder for a compact log of the samples of each micro-batch, which ``energon trace``
            reads; None writes none. Each start of the workers adds files.
        worker_timeout_s: Replace a worker process that begins no sample for so long while its micro-batch is awaited;
            None waits for it. It must be longer than a worker takes to start, and than any single sample takes.
            Not with ``worker_type="thread"`` or ``"main"``, where nothing can be replaced.
        max_worker_restarts: The number of worker processes of this rank that may be replaced in a run; 0 ends the run
            with the first one that dies. The same micro-batches follow.
        max_quarantined: The number of samples that this loader may quarantine: one that has ended two workers is
            passed over, as an excluded one is. One more ends the run.
        quarantine: File of JSON lines to which quarantined samples are added, and whose samples are passed over from
            the start. Ranks may share it.
        stats: Statistics of what the training loop waits for, see :meth:`DataLoader.stats`: with a line a minute in
            the log, as these options say, or none.

    Raises:
        ConfigError: The worker config differs from the dataset's, or options or ``serves`` are out of range.
        TypeError: ``dataset`` is not a dataset, or another argument has another type.
    """
    if not isinstance(dataset, SavableDataset):
        raise _no_dataset(dataset)
    if worker_config is not None and not isinstance(worker_config, WorkerConfig):
        raise TypeError(f"expected a WorkerConfig or None as worker_config, found {worker_config!r}")
    if worker_config is not None and worker_config != dataset.worker_config:
        raise ConfigError(
            "the worker_config differs from the one that the dataset was built with",
            hint="pass the same WorkerConfig to both, or none here",
        )
    try:
        checked = StreamOptions(**options)
    except TypeError as error:
        raise TypeError(str(error).replace("StreamOptions.__init__()", "get_loader()")) from None
    return DataLoader(dataset, checked) if serves is None else ServingDataLoader(dataset, checked, serves=serves)


@shows_keywords_of(StreamOptions)
def get_savable_loader(
    dataset: SavableDataset[Any],
    *,
    checkpoint_every_sec: float = 60,  # noqa: ARG001
    checkpoint_every_min_n_samples: int | None = None,  # noqa: ARG001
    n_checkpoints: int | None = None,  # noqa: ARG001
    worker_config: WorkerConfig | None = None,
    serves: Sequence[int] | None = None,
    **options: Unpack[LoaderKeywords],
) -> DataLoader[Any]:
    """Build the loader that a training loop iterates, saves and restores: the same as :func:`get_loader`.

    Args:
        dataset: A dataset, such as :func:`get_train_dataset` returns.
        checkpoint_every_sec: Ignored; accepted for code written for megatron-energon. Every micro-batch has a state.
        checkpoint_every_min_n_samples: Ignored, as above.
        n_checkpoints: Ignored, as above.
        worker_config: None, or the dataset's.
        serves: As in :func:`get_loader`.
        **options: As in :func:`get_loader`.
    """
    return get_loader(dataset, worker_config=worker_config, serves=serves, **options)


def _no_dataset(given: Any) -> TypeError:
    name = type(given).__name__
    hint = f"; pass {name}(…).build()" if callable(getattr(given, "build", None)) else ""
    return TypeError(f"expected a dataset, such as get_train_dataset() returns, for get_loader(); found {name}{hint}")
