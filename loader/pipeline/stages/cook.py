"""Convert crude samples to samples with the task encoder's cookers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from typing import Any, NamedTuple

from ...samples.encoding.cooking import call_error, cook, needs_primary
from ...samples.hook_marks import failure_tolerance, restores_encoder_seeds, restores_seeds, stateless
from ...samples.hooks import is_library_hook
from ...samples.types import CrudeSample
from ...stores.aux_store import PrimaryFileStore
from ...stores.file_store import FileStore
from ..contract.hook import makes_several
from ..reading.recipe import SourceStores


class GivenStores(NamedTuple):
    """Stores that are opened already, which a cooker may use in addition to the sample.

    Attributes:
        aux: The auxiliary stores by name.
        primary: The store of the sample's own dataset; None if no cooker needs it, or it has none.
    """

    aux: Mapping[str, FileStore[Any]]
    primary: FileStore[Any] | None


class CookSample:
    """Function that calls ``cook_crude_sample`` for crude samples, and returns other samples.

    It has the documented name and the combined marks of all cookers. Hooks written for megatron-energon take the cooker
    that matches the sample, and the stores as a dict.

    Args:
        stores: The stores of each source, by its number in crude samples; by None for samples without a number.
    """

    def __init__(self, task_encoder: Any, stores: Mapping[int | None, SourceStores | GivenStores]) -> None:
        # Collect the marks.
        self.__name__ = "cook_crude_sample"
        self.__qualname__ = "_Cook"  # the seeds of cookers follow from this name
        self.__default_failure_tolerance__ = getattr(task_encoder, "__default_failure_tolerance__", None)
        hooks = cooking_hooks(task_encoder)
        self.makes_several = any(map(makes_several, hooks))
        tolerances = [failure_tolerance(hook, -1) for hook in hooks]
        stateless(
            restore_seeds=any(map(restores_seeds, hooks)),
            restore_task_encoder_seeds=any(map(restores_encoder_seeds, hooks)),
            failure_tolerance=next((tolerance for tolerance in tolerances if tolerance >= 0), None),
        )(self)
        # Find out what the calls need.
        self.stores = stores
        self._task_encoder = task_encoder
        self._needs_primary = any(map(needs_primary, hooks))
        hook = task_encoder.cook_crude_sample
        self._is_default = is_library_hook(hook)
        self._takes_cooker = not self._is_default and {"cooker", "aux"} <= signature(hook).parameters.keys()

    def __call__(self, sample: Any) -> Any:
        # Other samples were built by their dataset already.
        if not isinstance(sample, CrudeSample):
            return sample
        stores = self.stores.get(sample.source) if self.stores else None
        if stores is None:
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
        if self._needs_primary and stores.primary is not None:
            primary = PrimaryFileStore(stores.primary, full_key(sample))
            return self._call(sample, {**stores.aux, "primary": primary})
        return self._call(sample, stores.aux)

    def _call(self, sample: CrudeSample, stores: Mapping[str, Any]) -> Any:
        encoder = self._task_encoder
        if not self._takes_cooker:
            return encoder.cook_crude_sample(sample, **stores)
        cooker = next((candidate for candidate in encoder.cookers if candidate.is_for(sample)), None)
        return encoder.cook_crude_sample(sample, cooker=cooker, aux=dict(stores))

    def function_for(self, sample: Any) -> Callable[..., Any]:
        """Return the function that cooks a sample; failures are counted for each cooker separately."""
        encoder = self._task_encoder
        if self._is_default and isinstance(sample, CrudeSample):
            for cooker in encoder.cookers:
                if cooker.is_for(sample):
                    function: Callable[..., Any] = cooker.cook
                    return function
        return self


def uses_stores(task_encoder: Any, stores: Iterable[SourceStores]) -> bool:
    """Return True if cookers need the stores of a crude sample's source."""
    return any(map(needs_primary, cooking_hooks(task_encoder))) or any(store.aux_refs for store in stores)


def full_key(sample: CrudeSample) -> str:
    """Return ``<shard>/<key>``: a bare key may name samples of several shards."""
    key, shard = str(sample["__key__"]), sample.get("__shard__")
    return f"{shard}/{key}" if shard and not key.startswith(f"{shard}/") else key


def cooking_hooks(task_encoder: Any) -> list[Callable[..., Any]]:
    """Return the functions that may cook a sample."""
    return [task_encoder.cook_crude_sample, *(cooker.cook for cooker in task_encoder.cookers)]
