"""Samples by number as a dataset of torch: what :func:`~.random_access.random_access` and ``open_dataset`` return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic

from ...pipeline.reading.samples import Samples, T_co
from ...samples.batching.collate import collate
from ...samples.types import CrudeSample, Sample


def _collate(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    del collate_fn_map
    return collate(batch)


if TYPE_CHECKING:
    from torch.utils.data import Dataset
else:
    try:
        from torch.utils.data import Dataset
        from torch.utils.data._utils.collate import default_collate_fn_map
    except (ImportError, OSError):  # samples whose parts stay bytes need no torch
        Dataset = Generic
    else:
        # The documented way to extend the default collate_fn of torch's DataLoader; workers import this module, too.
        default_collate_fn_map.update({Sample: _collate, CrudeSample: _collate})


class NumberedSamples(Samples[T_co], Dataset[T_co]):
    """Samples by number that torch takes as a map-style dataset."""
