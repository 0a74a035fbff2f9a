"""Crude samples made into samples, by the task encoder's cookers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...samples.encoding.cooking import cook, needs_primary
from ...samples.hooks import failure_tolerance, is_library_hook, restores_seeds, stateless
from ...samples.types import CrudeSample
from ...stores.aux_store import PrimaryFileStore
from ..contract.stage import SavableDataset
from ..reading.source import SourceStores
from .map import MapDataset, makes_several

__all__ = ["CookDataset", "uses_stores"]


class CookDataset(MapDataset[Any]):
    """Give crude samples to ``cook_crude_sample``; pass on those that are samples already.

    Args:
        dataset: What gives the samples.
        task_encoder: Whose cookers to use.
        stores: What there is beside the samples of each leaf.
    """

    def __init__(self, dataset: SavableDataset[Any], task_encoder: Any, stores: Sequence[SourceStores] = ()) -> None:
        super().__init__(dataset, _Cook(task_encoder, stores), name="cook")
        self._makes_several = any(map(makes_several, _hooks(task_encoder)))

    @property
    def keeps_positions(self) -> bool:
        return super().keeps_positions and not self._makes_several


def uses_stores(task_encoder: Any, stores: Sequence[SourceStores]) -> bool:
    """Tell whether cooking asks which leaf a crude sample is from: for what there is beside the leaf's samples."""
    return any(map(needs_primary, _hooks(task_encoder))) or any(one.aux_urls for one in stores)


class _Cook:
    """Bears the marks of all that may cook, and the name that users know."""

    def __init__(self, task_encoder: Any, stores: Sequence[SourceStores]) -> None:
        self.__name__ = "cook_crude_sample"
        self._task_encoder = task_encoder
        self._needs_primary = any(map(needs_primary, _hooks(task_encoder)))
        self._stores = tuple(stores) if uses_stores(task_encoder, stores) else ()
        self._is_usual = is_library_hook(task_encoder.cook_crude_sample)
        hooks = _hooks(task_encoder)
        tolerances = [failure_tolerance(hook, -1) for hook in hooks]
        stateless(
            restore_seeds=any(map(restores_seeds, hooks)),
            failure_tolerance=next((tolerance for tolerance in tolerances if tolerance >= 0), None),
        )(self)

    def __call__(self, sample: Any) -> Any:
        if not isinstance(sample, CrudeSample):
            return sample
        if not self._stores or sample.source is None:
            if self._is_usual:
                return cook(sample, self._task_encoder.cookers, {})  # what it does: most samples go this way
            return self._task_encoder.cook_crude_sample(sample)
        stores = self._stores[sample.source]
        if self._needs_primary and stores.primary is not None:
            primary = PrimaryFileStore(stores.primary, sample["__key__"])
            return self._task_encoder.cook_crude_sample(sample, **stores.aux, primary=primary)
        return self._task_encoder.cook_crude_sample(sample, **stores.aux)

    def at_work_on(self, sample: Any) -> Callable[..., Any]:
        """Give the function that cooks a sample: failures are counted for each cooker by itself."""
        encoder = self._task_encoder
        if self._is_usual and isinstance(sample, CrudeSample):
            for cooker in encoder.cookers:
                if cooker.is_for(sample):
                    found: Callable[..., Any] = cooker.cook
                    return found
        return self


def _hooks(task_encoder: Any) -> list[Callable[..., Any]]:
    return [task_encoder.cook_crude_sample, *(cooker.cook for cooker in task_encoder.cookers)]
