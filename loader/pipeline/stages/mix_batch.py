"""Mix items of several datasets within each micro-batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..contract.worker_config import WorkerConfig
from .batch import BatchDataset
from .blend import BlendDataset
from .map import MapDataset

T = TypeVar("T")


class MixBatchDataset(MapDataset[T]):
    """Mix the items of datasets by weight within each batch.

    ``MixBatchDataset((a, 6), (b, 4), batch_size=10)`` yields batches with six items of ``a`` and four of ``b`` on
    average. The datasets should have ``batch_size=1``; otherwise whole batches are mixed.

    Args:
        dataset_weights: As in :class:`~loader.pipeline.stages.blend.BlendDataset`.
        batch_size: Items of a batch.
        batch_mix_fn: Joins a list of items to a batch; by default returns the list. For items of one type, use
            :func:`~loader.samples.batching.concat.homogeneous_concat_mix`. May be a generator, or raise
            :class:`~loader.errors.SkipSample`.
        worker_config: By default the first dataset's.

    Raises:
        ConfigError: No dataset is given, a weight is not above 0, or the batch size is below 1.
    """

    def __init__(
        self,
        *dataset_weights: Any,
        batch_size: int,
        batch_mix_fn: Callable[[list[Any]], Any] = list,
        name: str | None = None,
        worker_config: WorkerConfig | None = None,
    ) -> None:
        blend: BlendDataset[Any] = BlendDataset(*dataset_weights, worker_config=worker_config)
        super().__init__(BatchDataset(blend, batch_size, list), batch_mix_fn, name=name)
