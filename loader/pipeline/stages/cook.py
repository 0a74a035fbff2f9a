"""Convert crude samples to samples with the task encoder's cookers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from ...samples.encoding.cooking import call_error, cook, needs_primary
from ...samples.hook_marks import failure_tolerance, restores_encoder_seeds, restores_seeds, stateless
from ...samples.hooks import is_library_hook
from ...samples.types import CrudeSample
from ...stores.aux_store import PrimaryFileStore
from ..contract.hook import makes_several
from ..contract.stage import SavableDataset
from ..reading.recipe import SourceStores
from .map import MapDataset


class CookDataset(MapDataset[Any]):
    """Call ``cook_crude_sample`` for crude samples, and pass on other samples."""

    def __init__(
        self,
        dataset: SavableDataset[Any],
        task_encoder: Any,
        stores: Sequence[SourceStores] = (),
        *,
        like: CookDataset | None = None,
    ) -> None:
        super().__init__(dataset, _Cook(task_encoder, stores) if like is None else like.map_fn, name="cook")
        self.makes_several = like.makes_several if like else any(map(makes_several, cooking_hooks(task_encoder)))


def uses_stores(task_encoder: Any, stores: Sequence[SourceStores]) -> bool:
    """Return True if cookers need the stores of a crude sample's source."""
    return any(map(needs_primary, cooking_hooks(task_encoder))) or any(store.aux_refs for store in stores)


class _Cook:
    """Function that cooks, with the documented name and the combined marks of all cookers."""

    def __init__(self, task_encoder: Any, stores: Sequence[SourceStores]) -> None:
        self.__name__ = "cook_crude_sample"
        self.__default_failure_tolerance__ = getattr(task_encoder, "__default_failure_tolerance__", None)
        self._task_encoder = task_encoder
        hooks = cooking_hooks(task_encoder)
        self._needs_primary = any(map(needs_primary, hooks))
        self._stores = tuple(stores) if uses_stores(task_encoder, stores) else ()
        self._is_default = is_library_hook(task_encoder.cook_crude_sample)
        self._call = CookingHook(task_encoder)
        tolerances = [failure_tolerance(hook, -1) for hook in hooks]
        stateless(
            restore_seeds=any(map(restores_seeds, hooks)),
            restore_task_encoder_seeds=any(map(restores_encoder_seeds, hooks)),
            failure_tolerance=next((tolerance for tolerance in tolerances if tolerance >= 0), None),
        )(self)

    def __call__(self, sample: Any) -> Any:
        # Other samples were built by their dataset already.
        if not isinstance(sample, CrudeSample):
            return sample
        if not self._stores or sample.source is None:
            if not self._is_default:
                return self._call(sample, {})
            # What the hook does by default, without its calls.
            cookers = self._task_encoder.cookers
            if not (cookers and cookers[0].takes_all_alone):
                return cook(sample, cookers, {})
            try:
                return cookers[0].cook(sample)
            except TypeError as error:
                explained = call_error(cookers[0], sample, {})
                if explained is None:
                    raise
                raise explained from error
        # The cooker may use the auxiliary stores of the sample's dataset, and the dataset itself.
        stores = self._stores[sample.source]
        if self._needs_primary and stores.primary is not None:
            primary = PrimaryFileStore(stores.primary, full_key(sample))
            return self._call(sample, {**stores.aux, "primary": primary})
        return self._call(sample, stores.aux)

    def function_for(self, sample: Any) -> Callable[..., Any]:
        """Return the function that cooks a sample; failures are counted for each cooker separately."""
        encoder = self._task_encoder
        if self._is_default and isinstance(sample, CrudeSample):
            for cooker in encoder.cookers:
                if cooker.is_for(sample):
                    function: Callable[..., Any] = cooker.cook
                    return function
        return self


class CookingHook:
    """Call of ``cook_crude_sample`` for a crude sample and its stores by name.

    Hooks written for megatron-energon take the cooker that matches the sample, and the stores as a dict.
    """

    def __init__(self, task_encoder: Any) -> None:
        hook = task_encoder.cook_crude_sample
        self._task_encoder = task_encoder
        self._takes_cooker = not is_library_hook(hook) and {"cooker", "aux"} <= signature(hook).parameters.keys()

    def __call__(self, sample: CrudeSample, stores: Mapping[str, Any]) -> Any:
        encoder = self._task_encoder
        if not self._takes_cooker:
            return encoder.cook_crude_sample(sample, **stores)
        cooker = next((candidate for candidate in encoder.cookers if candidate.is_for(sample)), None)
        return encoder.cook_crude_sample(sample, cooker=cooker, aux=dict(stores))


def full_key(sample: CrudeSample) -> str:
    """Return ``<shard>/<key>``: a bare key may name samples of several shards."""
    key, shard = str(sample["__key__"]), sample.get("__shard__")
    return f"{shard}/{key}" if shard and not key.startswith(f"{shard}/") else key


def cooking_hooks(task_encoder: Any) -> list[Callable[..., Any]]:
    """Return the functions that may cook a sample."""
    return [task_encoder.cook_crude_sample, *(cooker.cook for cooker in task_encoder.cookers)]
