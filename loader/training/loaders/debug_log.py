"""Lines of a loader in the file at ``worker_debug_path``, for ``energon analyze-debug`` of megatron-energon."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from typing import Any

from ...pipeline.contract.stage import SavableDataset
from ...pipeline.failures.sample_name import keys_of_sample
from ...pipeline.reading.read import ReadDataset

_numbers: defaultdict[int, Iterator[int]] = defaultdict(count)  # by rank: the loaders of all ranks have equal numbers


class LoaderLog:
    """Writes a line for the loader, for each iteration and its end, and for each micro-batch that reaches the rank.

    Args:
        dataset: The chain; its worker config has the path of the file.
    """

    def __init__(self, dataset: SavableDataset[Any]) -> None:
        self._config = dataset.worker_config
        self._number = next(_numbers[self._config.rank])
        self._iterations = 0
        self._delivered = 0
        self._write("SavableLoader.__init__", config=_description(dataset))

    def logged(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the micro-batches of an iteration, and write a line for each."""
        iteration = self._iterations
        self._iterations += 1
        self._write("SavableDataLoader.iter", iter_id=iteration)
        for number, batch in enumerate(batches):
            self._write(
                "SavableDataLoader.yield",
                iter_id=iteration,
                idx=self._delivered,
                iter_idx=number,
                global_idx=self._delivered,
                keys=list(keys_of_sample(batch)),
            )
            self._delivered += 1
            yield batch
        self._write("SavableDataLoader.StopIteration", iter_id=iteration)

    def _write(self, event: str, **fields: Any) -> None:
        self._config.worker_log({"t": event, "r": self._config.rank, "w": None, "id": self._number, **fields})


def _description(dataset: SavableDataset[Any]) -> dict[str, Any]:
    """Describe a chain in the nesting of megatron-energon: the paths of its datasets, and if they are for training."""
    sources = list(_sources(dataset))
    described = [
        {
            "map_fn_config": {
                "type": "StandardWebdatasetFactory",
                "training": not dataset.starts_over,
                "_path": source,
            }
        }
        for source in sources
    ]
    return described[0] if len(described) == 1 else {"type": "BlendDataset", "datasets": described}


def _sources(dataset: SavableDataset[Any]) -> Iterator[str]:
    if isinstance(dataset, ReadDataset):
        for source in dataset.sources:
            yield source.stores.path or source.describe()
    for upstream in dataset.inputs:
        yield from _sources(upstream)
