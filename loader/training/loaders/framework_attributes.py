"""The attributes of torch's ``DataLoader`` that frameworks read.

Lightning, Fabric and Accelerate accept instances of torch's class only, and change or rebuild them: they add a
``DistributedSampler``, or distribute the batches themselves. A loader of this library has divided the data among ranks
already. So its attributes are those of a loader that needs no change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import torch.utils.data
from torch.utils.data.distributed import DistributedSampler

from ...pipeline.contract.worker_config import WorkerConfig
from ..workers.stream_options import StreamOptions

T_co = TypeVar("T_co", covariant=True)


class RankShare(DistributedSampler[Any]):
    """Sampler of a loader whose order and share of the data are part of its dataset; it yields no indexes.

    Frameworks replace the sampler of a loader by a ``DistributedSampler``, unless it is one.
    """

    def __init__(self, config: WorkerConfig) -> None:
        self.num_replicas = config.world_size
        self.rank = config.rank
        self.epoch = 0
        self.seed = config.seed_offset
        self.shuffle = self.drop_last = False

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("the order of samples is part of the dataset: iterate the loader, not its sampler")

    def __len__(self) -> int:
        raise TypeError("the order of samples is part of the dataset: take the length of the loader")


class _Fixed:
    """Property that cannot be set; the error names the reason.

    Args:
        getter: Returns the value for a loader.
    """

    def __init__(self, getter: Callable[[Any], Any]) -> None:
        self._getter = getter
        self.__doc__ = getter.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, loader: Any, owner: type | None = None) -> Any:
        return self if loader is None else self._getter(loader)

    def __set__(self, loader: Any, value: Any) -> None:
        raise ValueError(
            f"{self._name} of a {type(loader).__name__} cannot be set: the dataset determines the order of samples, "
            "the batches and this rank's share. Build another dataset and loader instead."
        )


class TorchLoader(torch.utils.data.DataLoader[T_co]):
    """A ``DataLoader`` for frameworks. It neither initializes torch's class nor iterates as it does."""

    _is_accelerate_prepared = True  # Accelerate would otherwise build a loader of its own that reads the dataset
    _iterator = None

    worker_config: WorkerConfig
    generator = None
    timeout = 0
    worker_init_fn: Callable[[int], None] | None = None  # Lightning sets one that seeds generators; lanes seed theirs
    pin_memory_device = ""
    in_order = True

    if not TYPE_CHECKING:  # torch's stubs declare variables
        batch_size = _Fixed(lambda _: None)
        batch_sampler = _Fixed(lambda _: None)
        drop_last = _Fixed(lambda _: False)

        @_Fixed
        def num_workers(self) -> int:
            """Worker processes of this rank."""
            return self.worker_config.num_workers

        @_Fixed
        def sampler(self) -> RankShare:
            """A sampler without indexes: the order is part of the dataset."""
            return RankShare(self.worker_config)

        @property
        def prefetch_factor(self) -> int | None:
            """Micro-batches that each worker makes ahead; None without workers."""
            return self._options().prefetch_factor if self.num_workers else None

        @property
        def pin_memory(self) -> bool:
            """True if micro-batches are copied to pinned memory when there is a GPU."""
            return self._options().pin_memory

        @property
        def persistent_workers(self) -> bool:
            """True with workers: they live until the end of a pass, also across virtual epochs."""
            return self.num_workers > 0

        @property
        def multiprocessing_context(self) -> Any:
            """The context in which worker processes start; None if it is Python's default."""
            options = self._options()
            method = options.multiprocessing_context or ("fork" if options.worker_type == "fork" else None)
            return None if method is None or not self.num_workers else torch.multiprocessing.get_context(method)

    def _options(self) -> StreamOptions:
        raise NotImplementedError

    @staticmethod
    def collate_fn(batch: Any) -> Any:
        """Return a micro-batch unchanged: the task encoder's ``batch`` has built it."""
        return batch
