"""Several samples packed into one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from .map import MapDataset
from .pack_selection import PackSelectionDataset
from .stage import SavableDataset
from .worker_config import WorkerConfig

__all__ = ["PackingDataset"]

T = TypeVar("T")


class PackingDataset(MapDataset[T]):
    """Pack several samples into one.

    ``PackingDataset([a, b, c, d], 4, pre_packer, f)`` gives ``f([a, c]), f([b])`` where ``pre_packer([a, b, c, d])``
    is ``[[a, c], [b]]``: what is in no group is left out. The buffer is filled again when all groups are packed; at the
    end of a pass it is shorter.

    A state names the samples that wait in chosen groups; after a restore they are made again, so functions below
    that draw random numbers should be marked ``@stateless(restore_seeds=True)``, and ``pre_packer`` must not change
    samples.

    Args:
        dataset: What gives the samples.
        buffer_size: Samples that are chosen from at once.
        pre_packer: Takes the samples of the buffer, gives groups of them: ``select_samples_to_pack``.
        final_packer: Makes one sample of a group; may be a generator: ``pack_selected_samples``.
        sample_encoder: Applied to each sample of a group before it is packed; may leave it out by
            :class:`~loader.errors.SkipSample`, or be a generator: ``postencode_sample``.
        worker_config: By default the dataset's.

    Raises:
        ConfigError: The buffer has no room for a sample.
    """

    def __init__(
        self,
        dataset: SavableDataset[Any],
        buffer_size: int,
        pre_packer: Callable[[list[Any]], Iterable[Iterable[Any]]],
        final_packer: Callable[[list[Any]], Any],
        *,
        sample_encoder: Callable[[Any], Any] | None = None,
        name: str | None = None,
        worker_config: WorkerConfig | None = None,
        **_unused: Any,
    ) -> None:
        selection = PackSelectionDataset(
            dataset,
            buffer_size,
            pre_packer,
            sample_encoder=sample_encoder,
            name="select_samples_to_pack",
            worker_config=worker_config,
        )
        super().__init__(selection, final_packer, name=name)
